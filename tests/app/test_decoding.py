"""How many of visitors' pictures are unpacked at a time."""

import threading
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from app import images
from app.demo.decoding import Decoding
from app.demo.studio import Studio
from app.painter import Painter
from tests.patience import PATIENCE

SIZES = {"large": 101, "small": 100, "unknown": None}


@pytest.mark.parametrize(
    ("in_hand", "next_one", "waits"),
    [
        (["large"], "large", True),
        (["large"], "unknown", True),
        (["large"], "small", False),
        (["small"], "small", False),
        (["small", "small"], "large", False),
        (["small", "small"], "small", True),
    ],
)
def test_large_pictures_are_unpacked_one_at_a_time_and_small_ones_beside_them(
    monkeypatch, in_hand, next_one, waits
):
    monkeypatch.setattr(images, "pixels_unpacked", lambda file, _: SIZES[file.name])
    decoding, begun, go_on = Decoding(large=100, together=250), threading.Event(), threading.Event()
    holding = threading.Semaphore(0)

    def hold(name: str) -> None:
        with decoding.picture(Path(name)):
            holding.release()
            go_on.wait(PATIENCE)

    def begin() -> None:
        with decoding.picture(Path(next_one)):
            begun.set()

    threads = [threading.Thread(target=hold, args=(name,)) for name in in_hand]
    for thread in threads:
        thread.start()
        assert holding.acquire(timeout=PATIENCE)
    threads.append(threading.Thread(target=begin))
    threads[-1].start()
    assert begun.wait(0.2 if waits else PATIENCE) != waits
    go_on.set()
    assert begun.wait(PATIENCE)
    for thread in threads:
        thread.join(PATIENCE)


def test_a_visitors_photo_and_painting_are_unpacked_in_their_turn(
    checkpoint, tmp_path, monkeypatch
):
    studio, inside, loaded = Studio(Painter(checkpoint, device="cpu"), tmp_path), [False], []

    @contextmanager
    def turn(*_):
        inside[0] = True
        yield
        inside[0] = False

    def load(*arguments, **options):
        loaded.append(inside[0])
        return images.Picture(np.zeros((20, 30, 3), np.uint8))

    monkeypatch.setattr(studio.decoding, "picture", turn)
    monkeypatch.setattr(images, "load", load)
    for name in ("photo.png", "painting.png"):
        (tmp_path / name).write_bytes(b"x")
    for size in (None, 16, 16):
        studio.read(tmp_path / "photo.png", max_size=size)
    studio._code("/painting", str(tmp_path / "painting.png"))
    assert loaded == [True] * 3  # the small one is kept


def test_how_many_pixels_a_file_will_be_is_told_by_its_header(tmp_path):
    picture = Image.new("RGB", (800, 600))
    picture.save(tmp_path / "a.png")
    picture.save(tmp_path / "a.jpg")
    picture.save(tmp_path / "many scans.jpg", progressive=True)
    (tmp_path / "b.png").write_bytes(b"no picture")
    for name in ("a.png", "a.jpg", "many scans.jpg"):
        assert images.pixels_unpacked(tmp_path / name) == 800 * 600
    # A JPEG is unpacked at half the size, of which one of many scans is held whole all the same.
    assert images.pixels_unpacked(tmp_path / "a.jpg", max_size=200) == 400 * 300
    assert images.pixels_unpacked(tmp_path / "many scans.jpg", max_size=200) == 800 * 600
    assert images.pixels_unpacked(tmp_path / "a.png", max_size=200) == 800 * 600
    assert images.pixels_unpacked(tmp_path / "b.png") is None


def test_what_no_picture_needs_is_not_opened_to_be_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(Image, "open", lambda *_, **__: pytest.fail("it was opened"))
    (tmp_path / "padded.jpg").write_bytes(b"\xff\xd8" + b"\xff" * 3_000_000)
    assert images.pixels_unpacked(tmp_path / "padded.jpg") is None
