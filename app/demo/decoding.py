"""How many of visitors' pictures are unpacked at a time: a small file may need two gigabytes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app import images

# Pixels. A larger picture is unpacked when no other large one is; smaller ones go beside it, of
# so many together: what a phone takes does not wait for what somebody else has made to be large.
LARGE, TOGETHER = 26_000_000, 52_000_000
# Clips that are looked at side by side: a decoder of 4K holds some twenty frames.
CLIPS = 2


class Decoding:
    """Lets pictures be unpacked in turn, large ones and others apart."""

    def __init__(self, large: int = LARGE, together: int = TOGETHER) -> None:
        self.large, self.together = large, together
        self._one_large = threading.Lock()
        self._pixels = 0
        self._changed = threading.Condition()
        self.clip = threading.Semaphore(CLIPS)

    @contextmanager
    def picture(self, file: Path, max_size: int | None = None) -> Iterator[None]:
        """Inside, it is this file's turn; `max_size` as of images.load."""
        pixels = images.pixels_unpacked(file, max_size)
        if pixels is None or pixels > self.large:
            with self._one_large:
                yield
            return
        with self._changed:
            self._changed.wait_for(lambda: self._pixels + pixels <= self.together)
            self._pixels += pixels
        try:
            yield
        finally:
            with self._changed:
                self._pixels -= pixels
                self._changed.notify_all()
