"""Large pictures lie in files: the same pixels, little memory, and no trace afterwards."""

import errno
import os

import numpy as np
import pytest
import skimage.data
import torch

from app import images, mapped
from app.limits import Limits
from app.look import Look
from app.painter import Painter


@pytest.fixture
def small_is_large(monkeypatch):
    monkeypatch.setattr(mapped, "LARGE", 1000)


def resident(pixels: np.ndarray) -> int:
    """Kilobytes of the process's memory that are pages of files."""
    with open("/proc/self/status") as file:
        line = next(line for line in file if line.startswith("RssFile"))
    return int(line.split()[1])


def test_small_arrays_are_in_memory_and_large_ones_are_not():
    assert not mapped.is_mapped(mapped.new_pixels((10, 10, 3)))
    pixels = mapped.new_pixels((10, 10, 3), large=100)
    assert mapped.is_mapped(pixels) and mapped.is_mapped(pixels[2:5, ::2])
    assert pixels.shape == (10, 10, 3) and pixels.dtype == np.uint8


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="reads Linux's own figures")
def test_what_is_let_go_leaves_memory_and_comes_back():
    pixels = mapped.new_pixels((64, 1024, 1024), large=0)
    pixels[:] = np.arange(64, dtype=np.uint8)[:, None, None]
    held = resident(pixels)
    mapped.let_go(pixels[3:])
    assert held - resident(pixels) > 60 * 1024
    assert (pixels[:, 5, 7] == np.arange(64)).all()
    mapped.let_go(np.zeros(3, np.uint8))  # nothing to do, nothing happens


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="reads Linux's own figures")
def test_a_large_copy_is_never_in_memory_as_a_whole(monkeypatch):
    pixels = mapped.new_pixels((1000, 64, 1024), large=0)  # 62 MB
    pixels[:] = np.arange(1000)[:, None, None] % 256
    mapped.let_go(pixels)
    before, most, let_go = resident(pixels), [], mapped.let_go

    def watched(*arrays):
        most.append(resident(pixels))
        let_go(*arrays)

    monkeypatch.setattr(mapped, "LARGE", 1000)
    monkeypatch.setattr(mapped, "COPIED", 2**21)
    monkeypatch.setattr(mapped, "let_go", watched)
    copy = mapped.copied(pixels)
    assert mapped.is_mapped(copy) and max(most) - before < 16 * 1024
    assert (copy[:, 5, 7] == np.arange(1000) % 256).all()
    assert mapped.copied(np.zeros((0, 4, 3), np.uint8)).shape == (0, 4, 3)


def test_without_room_on_the_disk_pixels_are_in_memory(monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    pixels = mapped.new_pixels((10, 10, 3), large=100)
    assert not mapped.is_mapped(pixels) and pixels.shape == (10, 10, 3)


def test_the_file_has_no_name(monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    pixels = mapped.new_pixels((10, 10, 3), large=100)
    assert mapped.is_mapped(pixels) and not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.webp"])
def test_a_mapped_picture_is_saved_and_loaded_as_any_other(
    small_is_large, monkeypatch, tmp_path, name
):
    monkeypatch.setattr(images._picture, "_BAND", 100)  # several bands, the last one shorter
    cat = skimage.data.chelsea()
    pixels = mapped.new_pixels(cat.shape)
    pixels[:] = cat
    images.save(images.Picture(pixels), tmp_path / name)
    loaded = images.load(tmp_path / name).rgb
    assert mapped.is_mapped(loaded)
    monkeypatch.setattr(mapped, "LARGE", 10**9)
    images.save(images.Picture(cat), tmp_path / f"plain-{name}")
    assert (tmp_path / name).read_bytes() == (tmp_path / f"plain-{name}").read_bytes()
    assert (images.load(tmp_path / name).rgb == loaded).all()


@pytest.mark.parametrize("strength", [0, 1])
def test_a_mapped_picture_is_painted_as_any_other(checkpoint, strength):
    torch.manual_seed(0)
    painter = Painter(checkpoint, device="cpu")
    photo = images.Picture(np.ascontiguousarray(skimage.data.coffee()[:200, :240]))
    style = painter.style("dots")
    expected = painter.paint(photo, style, Look(strength=strength), tile=100).rgb
    pixels = mapped.new_pixels(photo.rgb.shape, 1000)
    pixels[:] = photo.rgb
    small = Painter(checkpoint, "cpu", Limits(in_memory=1000))
    result = small.paint(images.Picture(pixels), style, Look(strength=strength), tile=100).rgb
    assert mapped.is_mapped(result) and (result == expected).all()
    assert (pixels == photo.rgb).all()
