"""Visitors' clips: what they may be, what is seen of one at once, and how one is painted."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path

import av
import numpy as np

import models
from app import video
from app.clips import Clip, upright_rgb
from app.clips.reading import rate_of
from app.demo.line import Place
from app.demo.studio import RefusedError, Studio, Wish
from app.images import Picture
from app.look import AS_THE_STYLE, Look
from app.region_painter import Held

# Seconds, and frames: of a minute at 60 a second; pixels of a frame (4K).
LONGEST, MOST_FRAMES = 60, 3660
SIDES = (3840, 2160)
MOST_PIXELS = SIDES[0] * SIDES[1]
# Frames that are passed over at most for one of a second's end: a clip may claim any rate.
_LOOKED_AT = 120
# Seconds that are forgiven: sound often ends a little later than the last frame.
_FORGIVEN = 1.0


@dataclass(frozen=True)
class Glimpse:
    """What is seen of a clip before it is painted.

    Attributes:
        frame: one of its first second.
        width, height: pixels, upright.
        seconds: as the clip says; None where it does not.
        frames: likewise.
        sound: whether there is any that can be kept.
    """

    frame: Picture
    width: int
    height: int
    seconds: float | None
    frames: int | None
    sound: bool

    @property
    def told(self) -> str:
        """In words."""
        parts = [] if self.seconds is None else [f"{self.seconds:.1f} s"]
        parts.append(f"{self.width} × {self.height} px")
        parts.append("with sound" if self.sound else "without sound")
        return " · ".join(parts)


def glimpse(file: Path) -> Glimpse:
    """A clip's frame, and what is known of it without reading it to its end.

    Raises RefusedError for one that is too long or too large, ClipError for one that can't be read.
    """
    clip = Clip(file)
    with clip.opened() as reading:
        clip.plan(reading, "mp4")
        stream = clip.video(reading)
        _check(file.name, stream.width * stream.height)
        seconds = reading.duration / av.time_base if reading.duration else None
        if seconds is not None and seconds > LONGEST + _FORGIVEN:
            raise RefusedError(_too_long(file.name, f"lasts {_clock(seconds)}"))
        wanted = min(round(rate_of(stream)), _LOOKED_AT)
        sound = any(reading.streams[track.index].type == "audio" for track in clip.tracks)
    frame = None
    with clip.opened() as reading:
        for number, frame in enumerate(clip.survey(reading)):
            _check(file.name, frame.width * frame.height)
            if number == wanted:
                break
        assert frame is not None  # or the survey has refused the clip
        rgb = np.ascontiguousarray(upright_rgb(frame))
    height, width = rgb.shape[:2]
    return Glimpse(Picture(rgb), width, height, seconds, clip.expected, sound)


def paint(
    studio: Studio,
    file: Path,
    target: Path,
    wish: Wish,
    told: Callable[[str, int, int | None], None],
    waiting: Callable[[Place], None],
) -> list[str]:
    """Paint a clip into another file, frame by frame, each when it is its turn.

    told: as in app.video.repaint; it is called for every frame. waiting: called while others are
    painted. What they raise stops it. Returns notes on what was left out.
    """
    code = studio.code(wish)
    glimpse(file)  # what is wrong with it is known at once

    def counted(doing: str, number: int, count: int | None) -> None:
        if number > MOST_FRAMES:
            raise RefusedError(_too_long(file.name, f"has more than {MOST_FRAMES} frames"))
        # It may take longer than files are kept.
        for folder in (file.parent, target.parent):
            with suppress(OSError):
                os.utime(folder)
        told(doing, number, count)

    frames = _InLine(studio, waiting)
    return video.repaint(
        file,
        target,
        frames,
        code,
        wish.look,
        max_size=wish.max_size,
        strip=True,
        quiet=True,
        told=counted,
    )


class _InLine:
    """Paints each frame when it is its turn: others' pictures need not wait for the whole clip."""

    def __init__(self, studio: Studio, waiting: Callable[[Place], None]) -> None:
        self.studio, self.waiting = studio, waiting

    def survey(
        self, frames: Sequence[np.ndarray], style: models.StyleCode, look: Look = AS_THE_STYLE
    ) -> Held:
        """As of Painter."""
        with self._turn(frames, look):
            return self.studio.painter.survey(frames, style, look)

    def paint_frame(
        self,
        rgb: np.ndarray,
        style: models.StyleCode,
        look: Look = AS_THE_STYLE,
        held: Held | None = None,
        moved: tuple[int, int] = (0, 0),
    ) -> np.ndarray:
        """As of Painter."""
        with self._turn([rgb], look):
            return self.studio.painter.paint_frame(rgb, style, look, held, moved)

    def _turn(self, frames: Sequence[np.ndarray], look: Look) -> AbstractContextManager[Place]:
        height, width = frames[0].shape[:2]
        # No more is read of a shot, however many frames are there.
        most = max(self.studio.painter.limits.sampled_of_a_shot, height * width)
        pixels = min(len(frames) * height * width, most)
        strokes = look.stroke_size(height, width)
        return self.studio.line.turn(pixels / 1e6, strokes, waiting=self.waiting)


def _check(name: str, pixels: int) -> None:
    if pixels > MOST_PIXELS:
        raise RefusedError(
            f"{name} has frames of {pixels / 1e6:.0f} megapixels; "
            f"at most {MOST_PIXELS / 1e6:.1f} (4K) are painted here."
        )


def _too_long(name: str, why: str) -> str:
    return f"{name} {why}; a clip may last a minute. Cut it shorter, please."


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}"
