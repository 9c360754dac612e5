"""Times in a clip, repaired: each stream's go on, and picture and sound stay in step.

A recording that was cut and joined begins anew in the middle; a lost packet leaves a time twice; a
damaged one is anywhere. FFmpeg's muxers refuse all of these. The times of all frames of the video
and of all packets of the sound are noted while the clip is read first, so that a jump that both
have in common is told from one of the sound alone.
"""

from __future__ import annotations

from array import array
from fractions import Fraction

import numpy as np

# Seconds. What goes back by less is a packet out of its place; by more, and for more packets
# than STRAYS, a new beginning.
JUMP = 0.1
STRAYS = 5
# Broadcasts whose clock starts anew may go on hours later. Elsewhere such a gap is meant.
GAP = 10.0
CLOCKS_JUMP = {"mpegts", "mpeg", "pva", "ty", "wtv"}


_LATEST = 2**50  # ticks; a packet of a later time is damaged
_MISSING = -(2**60)


class Timeline:
    """The times of some streams, as they are and as they should be.

    Args:
        jumps: gaps of more than GAP in all streams are closed.
    """

    def __init__(self, *, jumps: bool = False) -> None:
        self.jumps = jumps
        self._noted: dict[int, array[int]] = {}
        self._seconds: dict[int, float] = {}  # of a tick
        self._steps: dict[int, int] = {}  # ticks from one to the next, roughly
        self._repaired: dict[int, np.ndarray] = {}
        self._next: dict[int, int] = {}
        self.changed: set[int] = set()  # the streams whose times were not as they should be

    def note(self, stream: int, tick: Fraction, time: int | None, duration: int | None) -> None:
        """Take a stream's next packet or frame: its time, in ticks of so many seconds."""
        times = self._noted.setdefault(stream, array("q"))
        self._seconds[stream] = float(tick)
        self._steps.setdefault(stream, min(max(1, duration or 1), 2**30))
        times.append(_MISSING if time is None or not -_LATEST < time < _LATEST else time)

    def repair(self) -> None:
        """All packets were noted: find what their times should be."""
        times = {
            stream: _strays_placed(_completed(noted, self._steps[stream]))
            for stream, noted in self._noted.items()
        }
        parts = {
            stream: self._beginnings(ticks, self._seconds[stream])
            for stream, ticks in times.items()
        }
        joined = len({len(part) for part in parts.values()}) == 1
        offsets = self._joined(times, parts) if joined else None
        for stream, ticks in times.items():
            second = self._seconds[stream]
            gone_on = (
                _alone(ticks, parts[stream])
                if offsets is None
                else [round(offset / second) for offset in offsets]
            )
            for (first, last), offset in zip(
                _spans(parts[stream], len(ticks)), gone_on, strict=True
            ):
                ticks[first:last] += offset
            # The least that makes each later than the one before. Where packets are shorter than
            # two ticks, equal times are but rounded ones, and would add up to a delay.
            count = np.arange(len(ticks)) * (self._steps[stream] > 2)
            ticks = np.maximum.accumulate(ticks - count) + count
            self._repaired[stream] = ticks
            if (ticks != np.frombuffer(self._noted[stream], np.int64)).any():
                self.changed.add(stream)

    def first(self, stream: int) -> float | None:
        """Seconds of the stream's first time, once repaired; None where it has none."""
        ticks = self._repaired.get(stream, np.empty(0))
        return float(ticks[0] * self._seconds[stream]) if len(ticks) else None

    def last(self) -> float:
        """Seconds of the last time of all streams, once repaired."""
        ends = [ticks[-1] * self._seconds[stream] for stream, ticks in self._repaired.items()]
        return float(max(ends, default=0.0))

    def next(self, stream: int) -> int:
        """The stream's next time, in the order of `note`, as it should be."""
        at = self._next.get(stream, 0)
        self._next[stream] = at + 1
        return int(self._repaired[stream][at])

    def rewind(self) -> None:
        """`next` begins with the first packets again."""
        self._next.clear()

    def _beginnings(self, ticks: np.ndarray, second: float) -> list[int]:
        """Where a stream's times begin anew; 0 first."""
        steps = np.diff(ticks) * second
        new = steps < -JUMP
        if self.jumps:
            new |= steps > GAP
        return [0, *(np.flatnonzero(new) + 1).tolist()]

    def _joined(self, times: dict[int, np.ndarray], parts: dict[int, list[int]]) -> list[float]:
        """Seconds by which each part is moved, in all streams alike, so that it goes on."""
        firsts, lasts = [], []
        for stream, ticks in times.items():
            spans = _spans(parts[stream], len(ticks))
            step = float(np.median(np.diff(ticks))) if len(ticks) > 1 else 1.0
            seconds = ticks * self._seconds[stream]
            firsts.append([seconds[first:last].min() for first, last in spans])
            lasts.append(
                [seconds[first:last].max() + step * self._seconds[stream] for first, last in spans]
            )
        begin, end = np.min(firsts, axis=0), np.max(lasts, axis=0)
        offsets = [0.0]
        for part in range(1, len(begin)):
            offsets.append(float(end[part - 1] + offsets[-1] - begin[part]))
        return offsets


def _alone(ticks: np.ndarray, parts: list[int]) -> list[int]:
    """Ticks by which each part of one stream is moved, so that it goes on."""
    step = max(1, int(np.median(np.diff(ticks)))) if len(ticks) > 1 else 1
    offsets = [0]
    for first in parts[1:]:
        offsets.append(int(ticks[first - 1]) + offsets[-1] + step - int(ticks[first]))
    return offsets


def _spans(parts: list[int], count: int) -> list[tuple[int, int]]:
    return list(zip(parts, [*parts[1:], count], strict=True))


def _completed(noted: array[int], step: int) -> np.ndarray:
    """Times with those that are missing put after, or before, those that are there."""
    ticks = np.frombuffer(noted, np.int64).copy()
    known = np.flatnonzero(ticks != _MISSING)
    if not len(known):
        return step * np.arange(len(ticks))
    missing = np.flatnonzero(ticks == _MISSING)
    # The known one before each; the first one for those before it.
    before = known[np.maximum(np.searchsorted(known, missing) - 1, 0)]
    ticks[missing] = ticks[before] + step * (missing - before)
    return ticks


def _strays_placed(ticks: np.ndarray) -> np.ndarray:
    """Times with each few that are out of their place put between their neighbours'."""
    for at in np.flatnonzero(np.diff(ticks) < 0).tolist():
        # Either those from `at + 1` on are too early, or those up to `at` too late.
        for length in range(1, STRAYS + 1):
            early = (at, at + 1 + length)
            late = (at - length, at + 1)
            for before, after in (early, late):
                if before >= 0 and after < len(ticks) and ticks[before] < ticks[after]:
                    between = np.linspace(ticks[before], ticks[after], length + 2)[1:-1]
                    ticks[before + 1 : after] = np.round(between).astype(np.int64)
                    break
            else:
                continue
            break
    return ticks
