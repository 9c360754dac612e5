"""Work that a visitor can stop: the Stop button, a closed tab, a reload."""

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
        self._running: dict[str, list[tuple[str, threading.Event]]] = defaultdict(list)
        self._lock = threading.Lock()

    @contextmanager
    def running(self, session: str | None, instead: str = "") -> Iterator[Callable[[], None]]:
        """A check to be called often while it lasts: raises StoppedError once it was stopped.

        instead: what of the session was begun under this name before is stopped: a newer wish
        ends the older. "" stops nothing.
        """
        session = session or ""
        stopped = threading.Event()
        with self._lock:
            for name, older in self._running[session]:
                if instead and name == instead:
                    older.set()
            self._running[session].append((instead, stopped))
            self.begun += 1

        def check() -> None:
            if stopped.is_set():
                raise StoppedError

        try:
            yield check
        finally:
            with self._lock:
                self._running[session].remove((instead, stopped))
                if not self._running[session]:
                    del self._running[session]

    def stop(self, session: str | None) -> None:
        """Stop everything that a session has running; nothing where it has nothing."""
        with self._lock:
            for _, stopped in self._running.get(session or "", []):
                stopped.set()

    def has_read(self) -> None:
        """A photo was read that may be painted soon: nobody waits for it, but it is kept."""
        with self._lock:
            self.begun += 1

    def __len__(self) -> int:
        """How many are running."""
        with self._lock:
            return sum(map(len, self._running.values()))
