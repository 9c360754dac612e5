"""The benchmark's broken files are broken, and its measures give what they say."""

import io
from collections import Counter
from pathlib import Path

import pytest
import skimage.data
import torch
from PIL import Image

import models
from app import images
from app.painter import Painter
from benchmarks import scale_batch


def test_each_of_the_twenty_ways_breaks_a_picture():
    crop = Image.fromarray(skimage.data.chelsea()[:64, :64])
    ways = scale_batch.broken_ways()
    assert len(ways) == 20
    for suffix in scale_batch.FORMATS:
        whole = scale_batch.encoded(crop, suffix)
        broken = [way(whole) for way in ways]
        assert len(set(broken)) == 20
        for data in broken:
            with pytest.raises(images.ImageError):
                images.load(io.BytesIO(data))


def test_crops_keep_to_their_sides_and_come_again():
    sizes = [crop.size for crop in scale_batch.crops(30, 64, 128, seed=1)]
    assert all(64 <= side <= 128 for size in sizes for side in size)
    assert sizes == [crop.size for crop in scale_batch.crops(30, 64, 128, seed=1)]


def test_mutations_are_of_four_kinds_and_change_their_files():
    mutated = list(scale_batch.mutations(80, seed=2))
    assert Counter(kind for kind, *_ in mutated) == {
        "cut": 20,
        "flipped": 20,
        "header": 20,
        "renamed": 20,
    }
    assert len({name for _, name, _ in mutated}) == 80
    unharmed = 0
    for kind, _, data in mutated:
        try:
            images.load(io.BytesIO(data))
        except images.ImageError:
            continue
        assert kind != "cut"
        unharmed += 1
    assert 20 <= unharmed < 60


@pytest.fixture
def painter(tmp_path: Path) -> Painter:
    """An untrained tiny network with the style "dots"."""
    torch.manual_seed(0)
    network = models.Repainter(models.RepainterConfig(width=8, blocks=1, group_size=8)).eval()
    painting = images.to_tensor(skimage.data.astronaut()[:96, :96])
    code = network.encode_style(painting)
    models.save_checkpoint(tmp_path / "a.safetensors", network, {"dots": [code]}, {})
    return Painter(tmp_path / "a.safetensors", "cpu")


def test_held_statistics_and_a_grid_that_moves_each_lessen_the_flicker_of_a_pan(painter):
    figures = scale_batch.flicker(painter, ["dots"], count=3)
    assert len(figures["rows"]) == 4
    undone = figures["change with the pan undone, levels"]
    assert undone["as app.video"] < undone["grid fixed"] < undone["not held"]
    assert undone["one painting, moved"] == 0
    assert "grid fixed" in scale_batch.table("flicker", figures)


def test_strokes_of_every_size_are_timed_and_follow_a_pan(painter):
    figures = scale_batch.brush(painter, "dots", width=360, height=240, count=3)
    seconds, changes = figures["seconds a frame"], figures["change with the pan undone, levels"]
    assert list(seconds) == list(changes) == ["1", "2", "4", "8"]
    assert all(value > 0 for value in seconds.values())
    assert all(0 <= value < 3 for value in changes.values())
