"""How long an order would wait, from how long others took: whoever paints, and however many."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable

_WEIGHT = 0.2  # of the last order: some ten of them count


class Pace:
    """Seconds from one answer to the next while orders wait.

    A painter that is lost, a busy machine, larger photos: all show in it, and none is asked about.

    Args:
        painters: how many paint at a time, at most.
        clock: seconds.
    """

    def __init__(
        self, painters: Callable[[], int], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._painters, self._clock = painters, clock
        self._between = 1.0 / painters()  # nothing is known before the first
        self._known = False
        self._numbers = itertools.count()
        self._in_hand: dict[int, tuple[float, int]] = {}  # when begun, and as which in the row

    def begin(self) -> int:
        """An order is to be painted; a number for :meth:`end`."""
        number = next(self._numbers)
        # As many as paint at a time are answered in the time of one.
        place = max(len(self._in_hand) + 1, self._painters())
        self._in_hand[number] = self._clock(), place
        return number

    def end(self, number: int, counts: bool = True) -> None:
        """Its answer is there; one that took no painting doesn't count."""
        begun, place = self._in_hand.pop(number)
        if not counts:
            return
        each = (self._clock() - begun) / place
        self._between += (_WEIGHT if self._known else 1.0) * (each - self._between)
        self._known = True

    def seconds(self, count: int) -> float:
        """Until so many orders are done."""
        now = self._clock()
        # Those that already take longer than usual tell of trouble before they are done.
        longest = max(((now - begun) / place for begun, place in self._in_hand.values()), default=0)
        return count * max(self._between, longest)
