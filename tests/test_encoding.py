"""Text files are opened by the name of their encoding: not every system's own is UTF-8."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
# With their number of arguments before the encoding.
METHODS = {"read_text": 0, "write_text": 1}


def without_encoding(tree: ast.AST) -> Iterator[ast.Call]:
    """The calls that open, read or write a text file in the system's own encoding."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or any(word.arg == "encoding" for word in node.keywords):
            continue
        if isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
            if len(node.args) <= METHODS[node.func.attr]:
                yield node
        elif isinstance(node.func, ast.Name) and node.func.id == "open":
            modes = [word.value for word in node.keywords if word.arg == "mode"] + node.args[1:2]
            mode = modes[0].value if modes and isinstance(modes[0], ast.Constant) else "r"
            if "b" not in mode and len(node.args) < 4:
                yield node


@pytest.mark.parametrize("folder", ["app", "benchmarks", "models", "wct"])
def test_every_text_file_has_its_encoding_named(folder):
    found = [
        f"{path.relative_to(ROOT)}:{call.lineno}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for call in without_encoding(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == []
