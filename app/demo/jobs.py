"""Work that a visitor can stop: the Stop button, a closed tab, a reload."""

import math
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class StoppedError(Exception):
    """The visitor no longer wants the picture being painted."""


class Jobs:
    """What is being painted, by session, so that it can be stopped from another thread.

    Attributes:
        begun: how many there have been, with what was read in between.
    """

    def __init__(self) -> None:
        self.begun = 0
        self._running: dict[str, list[tuple[str, float, threading.Event]]] = defaultdict(list)
        self._lock = threading.Lock()

    @contextmanager
    def running(
        self, session: str | None, instead: str = "", wish: float = math.inf
    ) -> Iterator[Callable[[], None]]:
        """A check to be called often while it lasts: raises StoppedError once it was stopped.

        instead: of what the session has running under this name the newest wish alone goes on. ""
        stops nothing. wish: its number: requests may arrive in another order than they were made.
        """
        session = session or ""
        stopped = threading.Event()
        with self._lock:
            for name, number, other in self._running[session]:
                if instead and name == instead:
                    (other if number <= wish else stopped).set()
            self._running[session].append((instead, wish, stopped))
            self.begun += 1

        def check() -> None:
            if stopped.is_set():
                raise StoppedError

        try:
            yield check
        finally:
            with self._lock:
                self._running[session].remove((instead, wish, stopped))
                if not self._running[session]:
                    del self._running[session]

    def stop(self, session: str | None) -> None:
        """Stop everything that a session has running; nothing where it has nothing."""
        with self._lock:
            for *_, stopped in self._running.get(session or "", []):
                stopped.set()

    def has_read(self) -> None:
        """A photo was read that may be painted soon: nobody waits for it, but it is kept."""
        with self._lock:
            self.begun += 1

    def __len__(self) -> int:
        """How many are running."""
        with self._lock:
            return sum(map(len, self._running.values()))
