"""The line before the painter: who is next, and for how long it will take until then."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

# Seconds a megapixel before anything was measured, and the share of a new measurement.
GUESSED, LEARNED = 3.0, 0.4
# Megapixels: below, what a painting takes beside its pixels would be taken for theirs.
LEAST_MEASURED = 0.05
# Seconds between two looks whether it is one's turn, and whether it is still wanted.
LOOK_EVERY = 0.05


@dataclass
class Place:
    """One painting in the line.

    Attributes:
        megapixels: of the picture to paint.
        strokes: how many times larger than the network's own its strokes are.
        quick: whether it goes before those that are not.
        done: how much of it is painted, 0 to 1.
    """

    megapixels: float
    strokes: int
    quick: bool
    number: int
    done: float = 0.0
    started: float | None = field(default=None, compare=False)

    @property
    def order(self) -> tuple[bool, int]:
        """The least of all is next."""
        return not self.quick, self.number


class Line:
    """Lets `at_once` paintings through at a time: previews first, the others as they came."""

    def __init__(self, at_once: int = 1) -> None:
        self.at_once = at_once
        self._places: list[Place] = []
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._rates: dict[int, float] = {}  # seconds a megapixel, by the strokes' size

    def seconds(self, megapixels: float, strokes: int = 1) -> float:
        """What a painting of that size is expected to take."""
        rate = self._rates.get(strokes)
        if rate is None:
            # Strokes of another size were measured, or none.
            known = sorted(self._rates, key=lambda size: abs(size - strokes))
            rate = self._rates[known[0]] if known else GUESSED
        return rate * max(megapixels, LEAST_MEASURED)

    def ahead(self, place: Place) -> float:
        """Seconds until it is a waiting painting's turn; 0 once it is."""
        with self._changed:
            if place.started is not None:
                return 0.0
            before = [p for p in self._places if p.started is not None or p.order < place.order]
            left = sum(self.left(p) for p in before if p is not place)
        return left / self.at_once

    def left(self, place: Place) -> float:
        """Seconds that a painting still takes, once it has begun."""
        expected = self.seconds(place.megapixels, place.strokes)
        if place.started is None:
            return expected
        passed = time.monotonic() - place.started
        if place.done > 0.15:  # what it tells of itself is better than any guess
            return passed * (1 - place.done) / place.done
        return max(expected - passed, 0.1 * expected)

    @contextmanager
    def turn(
        self,
        megapixels: float,
        strokes: int = 1,
        *,
        quick: bool = False,
        waiting: Callable[[Place], None] | None = None,
    ) -> Iterator[Place]:
        """Inside, it is this painting's turn. waiting: called while it is not; may raise."""
        place = Place(megapixels, strokes, quick, next(self._numbers))
        with self._changed:
            self._places.append(place)
        try:
            while not self._begin(place):
                if waiting is not None:
                    waiting(place)
            yield place
            self._learn(place)
        finally:
            with self._changed:
                self._places.remove(place)
                self._changed.notify_all()

    def _begin(self, place: Place) -> bool:
        with self._changed:
            if not self._is_next(place):
                self._changed.wait(LOOK_EVERY)
            if not self._is_next(place):
                return False
            place.started = time.monotonic()
            return True

    def _is_next(self, place: Place) -> bool:
        running = sum(p.started is not None for p in self._places)
        waiting = [p for p in self._places if p.started is None]
        return running < self.at_once and min(waiting, key=lambda p: p.order) is place

    def _learn(self, place: Place) -> None:
        assert place.started is not None
        rate = (time.monotonic() - place.started) / max(place.megapixels, LEAST_MEASURED)
        known = self._rates.get(place.strokes)
        self._rates[place.strokes] = (
            rate if known is None else (1 - LEARNED) * known + LEARNED * rate
        )
