"""The examples run: each block of docs/wct.md in order, and those of the docstrings."""

import doctest
import importlib
import re
from pathlib import Path

import pytest

import wct

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted(file.stem for file in (ROOT / "wct").glob("*.py") if file.stem != "__init__")


def test_the_page_runs_from_top_to_bottom():
    page = (ROOT / "docs" / "wct.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "docs/wct.md", "exec"), names)
    assert len(blocks) >= 9


def test_the_page_shows_every_layer_and_rule_in_five_lines_or_fewer():
    page = (ROOT / "docs" / "wct.md").read_text(encoding="utf-8")
    for name in wct.__all__:
        if isinstance(getattr(wct, name), type) and name != "Rule":
            assert f"wct.{name}" in page, name
    for block in re.findall(r"## .*?\n+```python\n(.*?)```", page, flags=re.DOTALL):
        assert len(block.splitlines()) <= 5, block


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name):
    module = importlib.import_module(f"wct.{name}")
    import torch

    names = {**vars(module), "torch": torch, "nn": torch.nn}
    assert doctest.testmod(module, extraglobs=names).failed == 0


def test_every_public_name_is_documented():
    for name in wct.__all__:
        assert getattr(wct, name).__doc__, name
