"""JPEG XL, where its reader (pillow-jxl-plugin) is installed.

That reader unpacks a picture before it says how large it is; so the size is read here first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO

from PIL import Image

from app.images._told import boxes

try:
    import pillow_jxl
except ImportError:
    pillow_jxl = None  # type: ignore[assignment]  # there is no type for a module or none

_RATIOS = {1: (1, 1), 2: (12, 10), 3: (4, 3), 4: (3, 2), 5: (16, 9), 6: (5, 4), 7: (2, 1)}
_HEAD = 1 << 20


def is_readable() -> bool:
    """Whether the reader is installed."""
    return pillow_jxl is not None


def opened(file: BinaryIO, check: Callable[[tuple[int, int]], None]) -> Image.Image:
    """The picture, its size checked before it is unpacked. Raises ValueError for a damaged one."""
    file.seek(0)
    check(_size(file.read(_HEAD)))
    file.seek(0)
    try:
        image = Image.open(file, formats=("JXL",))
        image.load()
    except RuntimeError as error:  # whose text is meant for programmers
        raise ValueError("its JPEG XL data can't be decoded") from error
    return image


def _size(data: bytes) -> tuple[int, int]:
    """Width and height by the header of the codestream (ISO 18181-1, SizeHeader)."""
    codestream = data if data[:2] == b"\xff\x0a" else _first_part(data)
    if codestream[:2] != b"\xff\x0a":
        raise ValueError("its picture was not found")
    bits = int.from_bytes(codestream[2:18], "little")

    def take(count: int) -> int:
        nonlocal bits
        value, bits = bits & ((1 << count) - 1), bits >> count
        return value

    small = take(1)

    def side() -> int:
        return 8 * (1 + take(5)) if small else 1 + take((9, 13, 18, 30)[take(2)])

    height = side()
    ratio = take(3)
    if ratio == 0:
        return side(), height
    across, down = _RATIOS[ratio]
    return height * across // down, height


def _first_part(data: bytes) -> bytes:
    for kind, box in boxes(data):
        if kind == b"jxlc":
            return box
        if kind == b"jxlp":  # behind the part's number
            return box[4:]
    return b""
