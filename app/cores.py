"""How many threads paint: as many as there are cores that nobody else wants.

A picture is thousands of short parallel pieces, and each ends when its last thread does. A thread
whose core another program holds keeps all others waiting for as long as the system lets that
program run, so that two threads on a busy machine of two cores take ten times as long as one. So
before a picture, and between its parts, it is read how long threads waited for a core: where they
did, some are given up, and taken back when cores are idle.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

SHORTEST = 0.08  # seconds between two readings; the system counts in hundredths of them
WAITED = 0.2  # of the time: where threads waited for longer, the machine is busy
IDLE = 0.7  # of a core: what another thread needs of it
PATIENCE, MOST_PATIENCE = 2.0, 60.0  # seconds until one more thread is tried on a busy machine


@dataclass(frozen=True)
class Reading:
    """What was used up to one moment.

    Attributes:
        clock: seconds.
        waited: seconds that this process's threads were ready and had no core, all added up.
        idle: seconds that cores had nothing to do, all added up.
    """

    clock: float
    waited: float
    idle: float


def read() -> Reading | None:
    """What was used up to now; None where the system does not tell (Linux does)."""
    try:
        with open("/proc/stat", encoding="ascii") as file:
            fields = file.readline().split()  # cpu, user, nice, system, idle, iowait, ...: ticks
        idle = (int(fields[4]) + int(fields[5])) / os.sysconf("SC_CLK_TCK")
        waited = 0
        for task in os.listdir("/proc/self/task"):
            try:
                with open(f"/proc/self/task/{task}/schedstat", encoding="ascii") as file:
                    waited += int(file.read().split()[1])  # nanoseconds
            except (FileNotFoundError, ProcessLookupError):
                continue  # a thread that has ended meanwhile
    except (OSError, ValueError, IndexError):
        return None
    return Reading(time.perf_counter(), waited / 1e9, idle)


class FairShare:
    """Keeps torch's number of threads at what the machine has cores for.

    The most is what torch is set to when :meth:`adjust` is called and did not come from here: so
    OMP_NUM_THREADS and torch.set_num_threads go on to have the last word.

    Args:
        reader: what is used up to now, or None where that is not known: nothing is adjusted then.
        clock: seconds, as the readings have them.
    """

    def __init__(
        self,
        reader: Callable[[], Reading | None] = read,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._reader, self._clock, self._last = reader, clock, reader()
        self._most = self._chosen = 0
        self._patience, self._again = PATIENCE, 0.0

    def adjust(self) -> int:
        """Sets the number of threads of what the calling thread does next, and returns it."""
        threads = torch.get_num_threads()
        if threads != self._chosen:
            self._most = self._chosen = threads
        if self._last is None or self._most == 1:
            return threads
        if self._clock() - self._last.clock < SHORTEST:
            return threads
        now = self._reader()
        if now is None:
            return threads
        passed = now.clock - self._last.clock
        waited = (now.waited - self._last.waited) / passed
        idle = (now.idle - self._last.idle) / passed
        self._last = now
        if threads > 1 and waited > WAITED:
            threads = max(1, threads - math.ceil(waited - WAITED))
            self._again = now.clock + self._patience
            self._patience = min(2 * self._patience, MOST_PATIENCE)
        elif threads < self._most and idle >= IDLE:
            threads = min(self._most, threads + int(idle + 1 - IDLE))
            self._patience = PATIENCE
        elif threads < self._most and now.clock >= self._again:
            # Whoever keeps the cores from being idle may be less urgent than this process.
            threads += 1
        if threads != self._chosen:
            self._chosen = threads
            torch.set_num_threads(threads)
        return threads
