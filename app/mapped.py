"""Pixels of large pictures, kept in a file that has no name instead of in memory.

The system reads them when they are touched, and :func:`let_go` takes them out of memory again, so
that a picture may be many times larger than what is held of it at once.
"""

from __future__ import annotations

import mmap
import os
import tempfile

import numpy as np

# Smaller arrays stay in memory, where they are faster: 24 megapixels do.
LARGE = 80 * 2**20  # bytes
COPIED = 16 * 2**20  # bytes copied before they are let go


def new_pixels(shape: tuple[int, ...], large: int | None = None) -> np.ndarray:
    """A uint8 array of that shape, its values undefined; of more than ``large`` bytes, in a file.

    The file is in the folder that the environment's TMPDIR names, else in /var/tmp where that is
    (/tmp is often memory itself), and gone with the array. Where the disk has no room for it, the
    array is in memory like any other.

    Args:
        large: bytes; LARGE by default.
    """
    size = int(np.prod(shape, dtype=np.int64))
    if size <= (LARGE if large is None else large):
        return np.empty(shape, np.uint8)
    try:
        with tempfile.TemporaryFile(prefix="repaint-", dir=_folder()) as file:
            # Room first: a page that finds none when it is written to would end the process.
            _allocate(file.fileno(), size)
            mapped = mmap.mmap(file.fileno(), size)
    except (OSError, ValueError):
        return np.empty(shape, np.uint8)
    return np.frombuffer(mapped, np.uint8).reshape(shape)


def let_go(*arrays: np.ndarray) -> None:
    """Takes mapped pixels out of memory; they come back from their file when they are touched.

    Arrays that are not mapped stay as they are.
    """
    for pixels in arrays:
        mapped = _mapping(pixels)
        if mapped is not None and hasattr(mmap, "MADV_DONTNEED"):
            mapped.madvise(mmap.MADV_DONTNEED)


def copied(pixels: np.ndarray, large: int | None = None) -> np.ndarray:
    """A copy of an array (H, W, ...), as `new_pixels` makes one; little is in memory at once."""
    result = new_pixels(pixels.shape, large)
    rows = max(1, COPIED // max(1, pixels[:1].nbytes))
    for top in range(0, len(pixels), rows):
        result[top : top + rows] = pixels[top : top + rows]
        let_go(result, pixels)
    return result


def is_mapped(pixels: np.ndarray) -> bool:
    """Whether an array's pixels lie in a file."""
    return _mapping(pixels) is not None


def _mapping(pixels: np.ndarray) -> mmap.mmap | None:
    base: object = pixels
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, memoryview):
        base = base.obj
    return base if isinstance(base, mmap.mmap) else None


def _folder() -> str | None:
    named = any(os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP"))
    return None if named or not os.access("/var/tmp", os.W_OK) else "/var/tmp"


def _allocate(descriptor: int, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
        return
    os.truncate(descriptor, size)
