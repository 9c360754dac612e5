"""`pip install .` gives the package wct with torch as its only dependency."""

import ast
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# Run where nothing of the repository can be imported but what was installed.
SCRIPT = """
import pathlib, sys
import torch, wct
assert pathlib.Path(wct.__file__).is_relative_to(sys.prefix), wct.__file__
covariance = torch.eye(4, requires_grad=True)
wct.sqrtm(covariance, gradient="pade").sum().backward()
layers = torch.nn.Sequential(wct.ZCANorm2d(8, group_size=4), wct.CovariancePool(8))
assert layers(torch.randn(2, 8, 5, 5)).shape == (2, 36)
print(float(covariance.grad.sum()))
"""


def run(*command: str | Path, folder: Path) -> str:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy so that nothing is left in the repository."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    shutil.copytree(ROOT / "wct", source / "wct", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    # Stands for app and models, which are no part of the package.
    (source / "app").mkdir()
    (source / "app" / "__init__.py").touch()
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    run(*pip, "wheel", ".", "--no-deps", "--no-build-isolation", "-w", folder, folder=source)
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_wct_alone_and_needs_torch_alone(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        read = Parser().parsestr(archive.read(metadata).decode())
    needed = read.get_all("Requires-Dist")
    assert read["License-Expression"] == "MIT"
    assert any(name.endswith("licenses/LICENSE") for name in names)
    folders = {name.split("/")[0] for name in names if ".dist-info" not in name}
    assert folders == {"wct"}
    assert {f"wct/{file.name}" for file in (ROOT / "wct").glob("*.py")} <= set(names)
    assert "wct/py.typed" in names  # a type checker reads its annotations
    assert len(needed) == 1
    assert needed[0].startswith("torch")


def test_the_wheel_works_in_a_fresh_environment(wheel, tmp_path):
    run(sys.executable, "-m", "venv", "--without-pip", "fresh", folder=tmp_path)
    python = tmp_path / "fresh" / ("Scripts" if os.name == "nt" else "bin") / "python"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python)
    run(*pip, "install", "--no-deps", "--no-index", wheel, folder=tmp_path)
    # torch as it is installed here, instead of downloading it again.
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(run(python, "-c", where, folder=tmp_path).strip())
    (site / "torch_of_the_tests.pth").write_text(sysconfig.get_path("purelib") + "\n")
    printed = run(python, "-I", "-c", SCRIPT, folder=tmp_path)
    assert float(printed) == pytest.approx(2)


def test_wct_imports_torch_and_the_standard_library_alone():
    found = set()
    for file in (ROOT / "wct").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{file.name} has a relative import"
                found.add(node.module.split(".")[0])
    assert found - set(sys.stdlib_module_names) == {"torch", "wct"}
