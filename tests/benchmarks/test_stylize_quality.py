"""The quality benchmark: what every judge says of a checkpoint, and what is measured beside it."""

import json
import sys

import numpy as np
import pytest
import skimage.data
import torch
from PIL import Image

from app.shipped import CHECKPOINT
from benchmarks import stylize_quality
from models.backbones import LITE0


@pytest.fixture(scope="module")
def artworks(tmp_path_factory):
    """train/ and test/ of the five classes, two pieces of real pictures each."""
    root = tmp_path_factory.mktemp("artworks")
    pictures = [getattr(skimage.data, name)() for name in ("astronaut", "coffee", "chelsea")]
    for split in ("train", "test"):
        for i, name in enumerate(stylize_quality.CLASSES):
            (root / split / name).mkdir(parents=True)
            for j in range(2):
                piece = pictures[(i + j) % 3][20 * i : 20 * i + 98, 30 * j : 30 * j + 98]
                Image.fromarray(np.ascontiguousarray(piece)).save(root / split / name / f"{j}.png")
    return root


def test_roughness_is_of_plain_parts_alone():
    photo = torch.zeros(1, 3, 64, 64)
    photo[..., 32:] = torch.rand(1, 3, 64, 32) * 2 - 1
    picture = torch.zeros(1, 3, 64, 64)
    picture[..., 40:] = torch.rand(1, 3, 64, 24)
    rough, plain = stylize_quality.plain_roughness(photo, picture)
    assert rough < 0.2 and 0.3 < plain < 0.5
    picture[..., ::2, :20] = 0.2
    more, _ = stylize_quality.plain_roughness(photo, picture)
    # Half of the picture's rows change by 0.2, up and down: 25.5 levels on 20 of 64 columns.
    assert more - rough == pytest.approx(25.5 * 20 / 64, rel=0.1)


def test_every_judge_sees_the_same_pictures(artworks, tmp_path, monkeypatch, capsys):
    out = tmp_path / "report.json"
    command = ["--artworks", str(artworks), "--checkpoint", str(CHECKPOINT), "--limit", "2"]
    command += ["--backbones", LITE0, "--judges", str(tmp_path / "judges"), "--out", str(out)]
    monkeypatch.setattr(sys, "argv", ["stylize_quality", "--only", "quality", *command])
    stylize_quality.main()
    report = json.loads(out.read_text())
    judges = ["style_classifier.safetensors", f"linear, on pooled {LITE0} features"]
    assert list(report["real_accuracy"]) == judges
    for kind in ("built-in", "random reference"):
        rows = report["styles"][kind]
        assert list(rows) == ["cezanne", "monet", "ukiyoe", "vangogh"]
        for name, row in rows.items():
            assert list(row["judged"]) == judges
            for verdict in row["judged"].values():
                assert sum(verdict["called"].values()) == pytest.approx(1)
                assert verdict["accuracy"] == verdict["called"][name]
            assert 0 < row["grid_share"] < 0.2 and 0 < row["plain_roughness"] < 60
            assert row["plain_regularity"] is None or row["plain_regularity"] > 1
    assert list(report["paintings_regularity"]) == list(stylize_quality.CLASSES)
    assert report["claims"]["strength_0_is_the_photo"]
    assert (tmp_path / "judges" / f"{LITE0}.safetensors").is_file()
    assert all(judge in capsys.readouterr().out for judge in judges[:1])
