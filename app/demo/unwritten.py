"""Results that pages show already, until what is downloaded of them is written."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field

from app.demo.studio import Painted, Wish


@dataclass(frozen=True)
class Finished:
    """A result on its way to its files. since: when it was painted, time.monotonic()."""

    painted: Painted
    photo: str
    wish: Wish
    since: float = field(default_factory=time.monotonic)

    @property
    def nbytes(self) -> int:
        """Bytes of its pixels."""
        pictures = (self.painted.before, self.painted.after)
        return sum(
            one.rgb.nbytes + (0 if one.alpha is None else one.alpha.nbytes) for one in pictures
        )


class Unwritten:
    """The newest result of each session, until its files are asked for.

    A page asks at once. What a visitor who went away left is let go of: a picture of 24 megapixels
    takes 150 MB.

    most: bytes of all of them; the newest stays, whatever it takes. keep: seconds.
    """

    def __init__(self, most: int = 2**28, keep: float = 60.0) -> None:
        self.most, self.keep = most, keep
        self._of: OrderedDict[str, Finished] = OrderedDict()
        self._lock = threading.Lock()

    def put(self, session: str | None, finished: Finished) -> None:
        """Instead of the session's older one."""
        with self._lock:
            self._of.pop(session or "", None)
            self._of[session or ""] = finished
            while len(self._of) > 1 and sum(one.nbytes for one in self._of.values()) > self.most:
                self._of.popitem(last=False)

    def take(self, session: str | None) -> Finished | None:
        """What a session shows, once; None where there is nothing, or no longer."""
        with self._lock:
            return self._of.pop(session or "", None)

    def has(self, session: str | None) -> bool:
        """Whether a session has a result whose files were not asked for."""
        with self._lock:
            return (session or "") in self._of

    def let_go(self) -> bool:
        """Let go of what nobody asked for in time; whether there was anything."""
        with self._lock:
            oldest = time.monotonic() - self.keep
            old = [session for session, one in self._of.items() if one.since < oldest]
            for session in old:
                del self._of[session]
            return bool(old)
