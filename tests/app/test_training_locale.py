"""Every command of training in the C locale, where Python takes the world's names for bytes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import skimage.data
from PIL import Image

import models

# One process for all of them: most of its time is that of its start.
PROGRAM = """
import json, os, sys
from importlib import import_module
for module, *arguments in json.loads(sys.stdin.read()):
    arguments = [os.fsdecode(a.encode()) for a in arguments]  # as a shell hands them over
    print("=>", module, import_module(module).main(arguments), flush=True)
"""


def in_the_c_locale(*commands: list[str], cwd: Path) -> list[str]:
    """The output of commands, each closed by a line with its exit code."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps(commands).encode(),
        capture_output=True,
        cwd=cwd,
        env={
            **os.environ,
            **{"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
            "PYTHONPATH": str(Path(__file__).parents[2]),
        },
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")[-2000:]
    return done.stdout.decode("ascii").splitlines()


@pytest.fixture(scope="session")
def named(tmp_path_factory) -> Path:
    """train/ and test/ of the classes photo and 北斎, three pieces of real pictures each."""
    root = tmp_path_factory.mktemp("名")
    for name, pixels in (("photo", skimage.data.astronaut()), ("北斎", skimage.data.coffee())):
        for split in ("train", "test"):
            (root / split / name).mkdir(parents=True)
            for i in range(3):
                piece = np.ascontiguousarray(pixels[90 * i : 90 * i + 96, 40:136])
                Image.fromarray(piece).save(root / split / name / f"波{i}.png")
    return root


@pytest.mark.skipif(os.name != "posix", reason="a C locale")
def test_names_in_any_script_go_through_every_command(named, tmp_path):
    photos, style = str(named / "train" / "photo"), f"北斎={named / 'train' / '北斎'}"
    start = ["--photos", photos, "--style", style]
    tiny = ["--size", "64", "--batch", "1", "--width", "8", "--blocks", "1", "--codes", "medoids"]
    ground = ["--calm", "北斎=2", "--ground", "北斎:tone=0.5", "--learn", style, "--batch", "2"]
    judge = ["--artworks", str(named), "--epochs", "1", "--pictures", "4", "--batch", "2"]
    judge += ["--views", "4", "--size", "64", "--reduce", "6", "--out", "判.safetensors"]
    codes = [*start, "--checkpoint", "画.safetensors"]
    tested = ["--photos", str(named / "test" / "photo"), "--artworks", str(named)]
    lines = in_the_c_locale(
        ["app.train", *start, *tiny, *ground, "--steps", "1", "--out", "画.safetensors"],
        ["app.codes", *codes, "--take", "北斎=波1.png,own:1", "--out", "選.safetensors"],
        ["app.codes", *codes, "--sheets", "紙", "--candidates", "2"],
        ["app.train_classifier", *judge],
        ["app.train_classifier", *judge],  # from kept views
        [
            *("app.evaluate", *tested, "--checkpoint", "選.safetensors", "--limit", "2"),
            *("--classifier", "判.safetensors", "--out", "報"),
        ],
        cwd=tmp_path,
    )
    ended = [line.split()[1:] for line in lines if line.startswith("=>")]
    assert [code for _, code in ended] == ["0"] * 6, lines
    assert any(r"\u5317\u658e" in line for line in lines)
    styles = models.load_checkpoint(tmp_path / "選.safetensors").styles
    assert list(styles) == ["北斎"] and styles["北斎"][0].ground.tone == 0.5
    assert models.load_classifier(tmp_path / "判.safetensors")[0].classes == ("photo", "北斎")
    assert (tmp_path / "紙" / "北斎.png").is_file()
    report = (tmp_path / "報" / "report.md").read_text(encoding="utf-8")
    assert "Δ" in report and "| 北斎 |" in report
    assert (tmp_path / "報" / "contact_sheet.png").is_file()
