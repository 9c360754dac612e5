"""Clips in the demo: what is taken, and that nobody waits for a whole one."""

import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import skimage.data

from app.demo import clips
from app.demo.jobs import StoppedError
from app.demo.studio import RefusedError, Studio, Wish
from app.images import Picture
from app.painter import Painter
from app.video import LOOKING, PAINTING
from tests.app.clips.making import walk, write_clip
from tests.patience import PATIENCE


@pytest.fixture(scope="module")
def painter(checkpoint: Path) -> Painter:
    return Painter(checkpoint, device="cpu")


@pytest.fixture
def studio(painter: Painter, tmp_path: Path) -> Studio:
    return Studio(painter, tmp_path / "results")


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    folder = tmp_path / "upload"
    folder.mkdir()
    return write_clip(folder / "walk.mp4", walk(6), sound="aac")


def paint(studio: Studio, clip: Path, told=lambda *_: None) -> Path:
    target = clip.with_name("painted.mp4")
    clips.paint(studio, clip, target, Wish("dots"), told, lambda _: None)
    return target


def test_a_glimpse_is_a_frame_and_what_the_clip_says(clip: Path) -> None:
    seen = clips.glimpse(clip)
    assert (seen.width, seen.height, seen.frames) == (64, 48, 6)
    assert seen.told == "0.5 s · 64 × 48 px · with sound"
    # Compressed, but one of its frames.
    assert min(np.abs(seen.frame.rgb.astype(int) - frame).mean() for frame in walk(6)) < 4
    silent = write_clip(clip.with_name("silent.mkv"), walk(3))
    assert clips.glimpse(silent).told.endswith("without sound")


def test_a_clip_that_is_turned_is_seen_upright(clip: Path) -> None:
    turned = write_clip(clip.with_name("turned.mp4"), walk(3), rotation=90)
    seen = clips.glimpse(turned)
    assert (seen.width, seen.height) == (48, 64) == (seen.frame.width, seen.frame.height)


@pytest.mark.parametrize(
    ("limit", "value", "sentence"),
    [
        ("MOST_PIXELS", 64 * 48 - 1, "megapixels"),
        ("LONGEST", -1, "may last a minute"),
        ("MOST_FRAMES", 3, "more than 3 frames"),
    ],
)
def test_what_is_too_long_or_too_large_is_refused_and_leaves_nothing(
    studio: Studio, clip: Path, monkeypatch, limit: str, value: int, sentence: str
) -> None:
    monkeypatch.setattr(clips, limit, value)
    with pytest.raises(RefusedError, match=sentence):
        paint(studio, clip)
    assert [path.name for path in clip.parent.iterdir()] == ["walk.mp4"]


def test_others_are_painted_between_a_clips_frames(studio: Studio, clip: Path) -> None:
    photo = Picture(skimage.data.coffee()[:40, :60])
    between: list[int] = []

    def told(doing: str, number: int, count: int | None) -> None:
        if doing == PAINTING and number == 2:
            other = threading.Thread(target=lambda: studio.paint(photo, Wish("dots"), quick=True))
            other.start()
            other.join(PATIENCE)
            between.append(count or 0)
            assert not other.is_alive(), "it waits for the clip"

    assert paint(studio, clip, told).is_file()
    assert between == [6]


def test_a_clip_waits_for_its_turn_and_can_be_stopped_meanwhile(studio: Studio, clip: Path) -> None:
    waited: list[float] = []

    def waiting(place) -> None:
        waited.append(studio.line.ahead(place))
        if len(waited) == 3:
            raise StoppedError

    with studio.line.turn(0.1), pytest.raises(StoppedError):
        clips.paint(studio, clip, clip.with_name("p.mp4"), Wish("dots"), lambda *_: None, waiting)
    assert waited[0] > 0
    assert not clip.with_name("p.mp4").exists()


def test_files_of_a_clip_that_is_painted_for_long_are_not_swept(studio: Studio, clip: Path) -> None:
    def told(doing: str, number: int, count: int | None) -> None:
        if doing == LOOKING:
            os.utime(clip.parent, (0, 0))

    target = paint(studio, clip, told)
    assert time.time() - target.parent.stat().st_mtime < PATIENCE
