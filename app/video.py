"""Repaint a clip: python -m app.video CLIP --style NAME --out FILE.

The clip is read twice. The first time it is cut into shots, and each shot's statistics are
recorded on frames from all over it; the second time every frame is painted under those, so that
colors do not flicker. The sound is copied as it is, where the result's container can hold it.
What is left out, repaired or changed is said at the end, a line each.

Exit codes: 0 done, 1 the clip cannot be read or written, 2 the command line is wrong, 130 stopped.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from PIL import Image
from tqdm import tqdm

import models
from app import images, stylize
from app.clips import CONTAINERS, Clip, container_of, try_out, upright_rgb, write
from app.images import ImageError, Picture
from app.limits import Limits
from app.look import Look
from app.options import say_precision
from app.painter import Painter
from app.region_painter import Held
from app.terminal import show_anything

# A cut: the frame, at this size, differs from the one before by as many levels on average, and
# by several times what the shot's frames differ by. A fast pan fails the second, noise the first.
THUMBNAIL = (32, 18)
CUT_LEVELS, CUT_TIMES = 16.0, 4.0

# A shot's statistics are read from so many frames, spread evenly; up to twice as many are kept
# while it lasts.
SAMPLED_FRAMES = 4

# A pan is measured in the middle of a frame, up to this many pixels a side, and believed where so
# much is left of a perfect match's peak, 1: 0.6 or more where frames are noisy or compressed hard,
# ever less where the camera zooms or turns.
PAN_SIDE = 512
CLEAR_PEAK = 0.4
# From there on a match is as good as any. Below, one frame that shows it so much better is asked.
FULL_PEAK, CLEARER = 0.85, 0.2


# What there is to do with a clip's frames, in this order.
LOOKING, PAINTING = "looking for shots", "painting"


class PaintsFrames(Protocol):
    """What a clip needs of a painter: see Painter, which it is."""

    def survey(
        self, frames: Sequence[np.ndarray], style: models.StyleCode, look: Look = ...
    ) -> Held: ...

    def paint_frame(
        self,
        rgb: np.ndarray,
        style: models.StyleCode,
        look: Look = ...,
        held: Held | None = None,
        moved: tuple[int, int] = (0, 0),
    ) -> np.ndarray: ...


@dataclass(frozen=True)
class Shot:
    """Frames `first` to `last` of a clip, the end excluded.

    held: what is held over them; None: each is painted by itself.
    """

    first: int
    last: int
    held: Held | None = None


class ShotSurvey:
    """Cuts a clip into shots while its frames go by, and records each shot's statistics.

    Args:
        hold: without it, nothing is recorded and every frame is painted by itself.
    """

    def __init__(
        self,
        painter: PaintsFrames,
        style: models.StyleCode,
        look: Look,
        *,
        max_size: int | None = None,
        hold: bool = True,
    ) -> None:
        self.painter, self.style, self.look = painter, style, look
        self.max_size, self.hold = max_size, hold
        self.shots: list[Shot] = []
        self.size = (0, 0)  # of the painted frames: width and height, even
        self._count = self._first = 0
        self._thumbnail: np.ndarray | None = None
        self._changes: deque[float] = deque(maxlen=8)
        self._kept: list[np.ndarray] = []
        self._stride = 1

    def add(self, rgb: np.ndarray) -> None:
        """Take the next frame, (H, W, 3) uint8."""
        thumbnail = _thumbnail(rgb)
        small = _small(rgb, self.max_size)
        if self._thumbnail is None:
            self.size = (small.shape[1] + small.shape[1] % 2, small.shape[0] + small.shape[0] % 2)
        elif self._is_cut(thumbnail) or (self._kept and self._kept[0].shape != small.shape):
            self._end()
        self._thumbnail = thumbnail
        if self.hold and (self._count - self._first) % self._stride == 0:
            self._kept.append(small)
            if len(self._kept) > 2 * SAMPLED_FRAMES:
                # Evenly spread over a shot whose end is not known: every second one goes.
                self._kept, self._stride = self._kept[::2], 2 * self._stride
        self._count += 1

    def _is_cut(self, thumbnail: np.ndarray) -> bool:
        change = float(np.abs(thumbnail - self._thumbnail).mean())
        usual = float(np.mean(self._changes)) if self._changes else 0.0
        self._changes.append(change)
        return change > CUT_LEVELS and change > CUT_TIMES * usual

    def finish(self) -> int:
        """How many frames there were, once the last was taken; the last shot ends there."""
        if self._count > self._first:
            self._end()
        return self._count

    def _end(self) -> None:
        held = None
        if self.hold and self.look.strength > 0:
            frames = [self._kept[i] for i in _spread(len(self._kept), SAMPLED_FRAMES)]
            held = self.painter.survey(frames, self.style, self.look)
        self.shots.append(Shot(self._first, self._count, held))
        self._first, self._kept, self._stride = self._count, [], 1
        self._changes.clear()


def _thumbnail(rgb: np.ndarray) -> np.ndarray:
    # Every so many pixels are enough, and spare a pass over the whole frame.
    step = max(1, min(rgb.shape[0] // (4 * THUMBNAIL[1]), rgb.shape[1] // (4 * THUMBNAIL[0])))
    small = Image.fromarray(np.ascontiguousarray(rgb[::step, ::step]))
    return np.asarray(small.resize(THUMBNAIL, Image.Resampling.BOX), np.float32)


def _spread(count: int, most: int) -> list[int]:
    most = min(count, most)
    return [(2 * i + 1) * count // (2 * most) for i in range(most)]


def _small(rgb: np.ndarray, max_size: int | None) -> np.ndarray:
    picture = Picture(np.ascontiguousarray(rgb))
    return picture.rgb if max_size is None else images.resize(picture, max_size).rgb


class Pan:
    """Follows a camera that pans, so that the network's grid and strokes can move with the scene.

    The network computes on a grid (Look.stride), and puts strokes where a photo is plain. What
    moves across them is painted anew in every frame, and its strokes shimmer.
    """

    def __init__(self) -> None:
        self.moved = np.zeros(2, int)  # rows and columns that the camera went since it began
        # Spectra of frames, each with where the camera was. Measured from the last frame alone, a
        # pan by less than half a pixel a frame would never be seen.
        self._reference: tuple[np.ndarray, np.ndarray] | None = None
        self._last: tuple[np.ndarray, np.ndarray] | None = None

    def follow(self, rgb: np.ndarray) -> tuple[int, int]:
        """Rows and columns by which the camera has moved at the next frame, (H, W, 3) uint8."""
        spectrum = _spectrum(rgb)
        moved, peak = _moved(self._reference, spectrum)
        if peak < FULL_PEAK:
            # A camera that zooms or turns soon leaves the old frame behind, but not the last one.
            since_last, last_peak = _moved(self._last, spectrum)
            if last_peak > peak + CLEARER:
                self._reference, moved, peak = self._last, since_last, last_peak
        if peak < CLEAR_PEAK:  # a cut, or nothing to hold on to
            self._reference, moved = (spectrum, self.moved), self.moved
        self.moved, self._last = moved, (spectrum, moved)
        down, right = moved
        return int(down), int(right)


def _moved(
    past: tuple[np.ndarray, np.ndarray] | None, spectrum: np.ndarray
) -> tuple[np.ndarray, float]:
    """Where the camera is, measured from a frame of the past, and how clearly that is seen."""
    if past is None or past[0].shape != spectrum.shape:
        return np.zeros(2, int), 0.0
    shift, peak = _shift(past[0], spectrum)
    return past[1] + shift, peak


def _spectrum(rgb: np.ndarray) -> np.ndarray:
    height, width = (min(length, PAN_SIDE) for length in rgb.shape[:2])
    top, left = (rgb.shape[0] - height) // 2, (rgb.shape[1] - width) // 2
    level = rgb[top : top + height, left : left + width].mean(2, dtype=np.float32)
    # The window fades out the borders, which do not move.
    window = np.outer(np.hanning(height), np.hanning(width)).astype(np.float32)
    return np.fft.fft2((level - level.mean()) * window)


def _shift(before: np.ndarray, after: np.ndarray) -> tuple[np.ndarray, float]:
    """Whole rows and columns that the camera moved between two frames, by phase correlation.

    And how clear that is: 1 where the frames are one scene, moved, 0 where they have nothing in
    common, or the camera moved by more than a quarter of what is seen.
    """
    cross = before * after.conj()
    match = np.fft.ifft2(cross / (np.abs(cross) + 1e-9)).real
    half = np.array(match.shape) // 2
    place = np.array(np.unravel_index(match.argmax(), match.shape))
    shift = (place + half) % match.shape - half
    if (np.abs(shift) > half / 2).any():
        return shift, 0.0
    # A camera that moves by parts of a pixel spreads the peak over its neighbours.
    rows, columns = (np.arange(p - 1, p + 2) % n for p, n in zip(place, match.shape, strict=True))
    peak = match[np.ix_(rows, columns)].clip(0).sum()
    return shift, min(1.0, float(peak))


def repaint(
    source: Path,
    target: Path,
    painter: PaintsFrames,
    style: models.StyleCode,
    look: Look,
    *,
    max_size: int | None = None,
    hold: bool = True,
    sound: bool = True,
    strip: bool = False,
    quiet: bool = False,
    told: Callable[[str, int, int | None], None] | None = None,
) -> list[str]:
    """Paint a clip and write it, whole or not at all; returns notes on what was left out.

    The frames keep the times between them, and the sound its bytes where the container can hold
    it. The result begins at 0. An odd width or height grows by one.

    Args:
        target: its suffix is one of mp4, m4v, mov, mkv, webm.
        hold: keep each shot's statistics; without, every frame is painted by itself, and flickers.
        sound: keep the sound.
        strip: leave out the clip's title, dates, place and other tags.
        quiet: no progress bar.
        told: called before each frame is looked at, then before each is painted: with LOOKING or
            PAINTING, how many were, and of how many, None where that is not known. What it raises
            ends the work.

    Raises:
        ClipError: the clip cannot be read, or the result not be written.
        ValueError: another suffix.
    """
    container = container_of(target)
    clip = Clip(source)
    survey = ShotSurvey(painter, style, look, max_size=max_size, hold=hold)
    bar = {"disable": True if quiet else None, "unit": "frame", "dynamic_ncols": True}
    with images.writing_whole(target) as part:
        # What the disk or the container refuses is known before any work.
        try_out(part, target)
        with clip.opened() as reading:
            clip.plan(reading, container.name, sound=sound)
        with clip.opened() as reading:
            frames = tqdm(clip.survey(reading), LOOKING, clip.expected, **bar)
            for number, frame in enumerate(frames):
                if told is not None:
                    told(LOOKING, number, clip.expected)
                survey.add(upright_rgb(frame))
        with tqdm(desc=PAINTING, total=survey.finish(), **bar) as progress:
            paint = _Painting(survey, progress, told)
            write(clip, part, target, survey.size, paint, strip=strip)
    return clip.notes


class _Painting:
    """Paints the frames of a clip, one after the other, each under its shot's statistics."""

    def __init__(
        self,
        survey: ShotSurvey,
        progress: tqdm,
        told: Callable[[str, int, int | None], None] | None,
    ) -> None:
        self._survey, self._progress, self._told = survey, progress, told
        self._shots = iter(survey.shots)
        self._shot = next(self._shots)
        self._count, self._pan = 0, Pan()

    def __call__(self, rgb: np.ndarray) -> np.ndarray:
        """The painted pixels of the next frame, from its own: (H, W, 3) uint8."""
        if self._told is not None:
            self._told(PAINTING, self._count, self._progress.total)
        if self._count == self._shot.last:
            self._shot = next(self._shots, self._shot)
        self._count += 1
        survey = self._survey
        photo = _small(rgb, survey.max_size)
        moved = self._pan.follow(photo)
        held = self._shot.held
        painted = survey.painter.paint_frame(photo, survey.style, survey.look, held, moved)
        self._progress.update()
        return painted


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    show_anything()
    parser = _parser()
    args = parser.parse_args(argv)
    try:
        container_of(args.out)
        if args.out.exists() and not args.overwrite:
            raise stylize.CommandError(f"{args.out} exists already (--overwrite replaces it)")
        if args.out.exists() and args.out.samefile(args.clip):
            raise stylize.CommandError(f"{args.clip} would be written over; choose another --out")
        painter = Painter(
            args.checkpoint, args.device, Limits(remembered_content=0), args.precision
        )
        say_precision(painter.precision, args.verbose)
        style = stylize.style_of(args.style, args.blend, painter)
        _make_room(args.out)
    except (ValueError, OSError) as error:
        print(f"{parser.prog}: error: {images.one_line(str(error))}", file=sys.stderr)
        return 2
    out, started = images.one_line(str(args.out)), time.perf_counter()
    try:
        with _terminated_as_interrupted():
            notes = repaint(
                args.clip,
                args.out,
                painter,
                style,
                stylize.look_of(args),
                max_size=args.max_size,
                sound=args.sound,
                strip=args.strip,
            )
    except ImageError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"interrupted: {out} was not written", file=sys.stderr)
        return 130
    for note in notes:
        print(f"{images.one_line(str(args.clip))}: {note}", file=sys.stderr)
    print(f"painted in {time.perf_counter() - started:.1f} s; see {out}", file=sys.stderr)
    return 0


def _make_room(target: Path) -> None:
    """The folder of a result, without what killed processes left of theirs."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        images.remove_leftovers([target.parent])
    except OSError as error:
        raise stylize.CommandError(
            f"--out {target}: cannot be written: {error.strerror}"
        ) from error


@contextlib.contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Inside, SIGTERM ends the program as Ctrl-C does, with nothing left behind."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m app.video",
        description="Repaint a clip in the style of a painting, without flicker, sound kept.",
        epilog="Exit codes: 0 done, 1 the clip cannot be read, or the result not be written, "
        "2 the command line is wrong, 130 interrupted.",
    )
    parser.add_argument("clip", type=Path, metavar="CLIP", help="a video of any kind")
    stylize.add_style_options(parser)
    parser.add_argument(
        "--out",
        required=True,
        type=Path,
        metavar="FILE",
        help="the result: " + ", ".join(suffix[1:] for suffix in CONTAINERS),
    )
    parser.add_argument(
        "--strip", action="store_true", help="leave out the clip's title, dates, place, other tags"
    )
    parser.add_argument(
        "--no-sound", dest="sound", action="store_false", help="leave out the clip's sound"
    )
    stylize.add_network_options(parser)
    parser.add_argument("--overwrite", action="store_true", help="replace a result that exists")
    return parser


if __name__ == "__main__":
    sys.exit(main())
