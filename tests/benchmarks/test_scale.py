"""What the scale benchmark computes from what it measures."""

import json
from pathlib import Path

import numpy as np
import pytest
import skimage.data
import torch
from PIL import Image

from app import images
from app.painter import Painter
from app.shipped import CHECKPOINT
from benchmarks import scale


def test_times_on_a_line_are_1_of_it():
    assert scale.over_the_line([1, 2, 8], [3.5, 4.0, 7.0]) == pytest.approx([1, 1, 1])


def test_a_time_above_the_line_stands_out():
    ratios = scale.over_the_line([1, 2, 4, 8, 16], [1, 2, 8, 8, 16])
    assert max(ratios) == ratios[2] > 1.15


def test_a_seam_raises_the_ratio_at_its_column_alone():
    rgb = np.random.default_rng(0).integers(100, 140, (400, 60, 3)).astype(np.uint8)
    assert scale.seam_ratio(rgb, [20, 40]) == pytest.approx(1, abs=0.05)
    rgb[:, 20:] += 20
    assert scale.seam_ratio(rgb, [20]) > 1.3
    assert scale.seam_ratio(rgb, [40]) == pytest.approx(1, abs=0.05)


def test_a_pan_changes_nothing_on_the_photo_itself():
    photo = torch.rand(1, 3, 8, 40)
    frames = [photo[..., left : left + 20] for left in (0, 3, 6)]
    assert scale.change(frames) > 0.1
    assert scale.change(frames, 3) == 0


def test_a_photo_is_enlarged_to_so_many_pixels(tmp_path):
    Image.fromarray(skimage.data.chelsea()).save(tmp_path / "cat.png")
    photo = scale.enlarged(tmp_path / "cat.png", 500_000)
    assert photo.rgb.shape[0] * photo.rgb.shape[1] == pytest.approx(500_000, rel=0.01)


def measured(root: Path, part: str, *more: str) -> list[dict]:
    """The rows of one part of the benchmark, on one real photo."""
    folder = root / "test" / "photo"
    folder.mkdir(parents=True)
    Image.fromarray(skimage.data.chelsea()).save(folder / "cat.png")
    out = root / "scale.json"
    options = {"--photos": "1", "--artworks": root, "--checkpoint": CHECKPOINT, "--out": out}
    scale.main(["--only", part, *more, *(str(w) for pair in options.items() for w in pair)])
    return json.loads(out.read_text())[part]["rows"]


def test_sizes_are_painted_in_processes_of_their_own(tmp_path, capsys):
    rows = measured(tmp_path, "cost", "--megapixels", "0.01", "0.04")
    assert [round(row["megapixels"], 2) for row in rows] == [0.01, 0.04]
    assert all(row["peak_mb"] > 0 for row in rows)
    assert "cpu_over_line" in capsys.readouterr().out


def test_memory_is_of_a_file_that_is_read_painted_and_written(tmp_path, capsys):
    small, large = measured(tmp_path, "memory", "--megapixels", "0.3", "30", "--share", "0.01")
    assert small["peak_mb"] == small["paint_mb"] > small["load_mb"] > 0
    # Pillow's image has four bytes a pixel. The pixels that are handed on are not in memory.
    assert 115 < large["load_mb"] - small["load_mb"] < 1.5 * 120
    assert large["save_mb"] < large["paint_mb"]
    assert "growth_of_peak_mb" in capsys.readouterr().out


def test_every_style_is_painted_with_every_brush(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(scale, "BRUSH_ROUNDS", 1)
    monkeypatch.setattr(scale, "enlarged", lambda path, _: images.load(path, max_size=128))
    rows = measured(tmp_path, "brush")
    assert [row["style"] for row in rows] == list(Painter(CHECKPOINT, "cpu").style_names)
    for row in rows:
        assert row["4_over_1"] == pytest.approx(row["seconds_4"] / row["seconds_1"])
    assert "2_over_1" in capsys.readouterr().out


def test_flicker_is_measured_held_alone_and_as_a_clip_is_painted(tmp_path, monkeypatch):
    monkeypatch.setattr(scale, "FRAMES", 2)
    (row,) = measured(tmp_path, "flicker")
    # Strokes and grid move with the scene.
    assert row["video_on_the_photo"] < 0.5 * row["held_on_the_photo"]
    assert min(row["held"], row["own"], row["video"]) > 0


def test_a_mirrored_photo_has_its_own_pixels_at_every_seam(tmp_path):
    cat = skimage.data.chelsea()
    Image.fromarray(cat).save(tmp_path / "cat.png")
    height, width = cat.shape[:2]
    pixels = np.asarray(scale.mirrored(tmp_path / "cat.png", width + 10, height + 5))
    assert (pixels[:height, :width] == cat).all()
    assert (pixels[:height, width] == cat[:, -1]).all()
    assert (pixels[height, :width] == cat[-1]).all()
