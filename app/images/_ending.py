"""Files whose last bytes are missing although every pixel is there."""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO

import numpy as np

MISSING = "its last bytes are missing, after its last pixel"

# Two continuations: where a decoder still needed bits, it makes other pixels of either.
_FILLINGS = (bytes(64), b"\x5a\xa5\x36\xc9" * 16)
_MOST_CHUNKS = 500_000  # of a PNG
_MOST_PADDING = 1 << 24  # bytes that may be missing


def mended(data: bytes, decode: Callable[[bytes], np.ndarray]) -> bytes | None:
    """The file with an end that its reader accepts, where all of its pixels are there.

    Two different continuations are decoded. Pixels that come out the same either way did not
    depend on what is missing.

    Args:
        data: a file that its reader calls cut short.
        decode: the pixels of such a file; raises where it can't be read.
    """
    whole = _endings(data)
    if whole is None or (data[:2] == b"\xff\xd8" and not _has_every_scan(data)):
        return None
    try:
        one, other = (decode(candidate) for candidate in whole)
    except Exception:  # damaged elsewhere, or far from its end
        return None
    return whole[0] if one.shape == other.shape and np.array_equal(one, other) else None


def is_there(file: BinaryIO) -> bool:
    """Whether a PNG or a JPEG has its end, wherever in the file that is; true of other formats."""
    file.seek(0)
    start = file.read(8)
    if start[:2] == b"\xff\xd8":
        file.seek(0)
        data = file.read()
        # What phones put behind a picture, a clip say, may hold any bytes; what is before its
        # first scan is made of segments, one of them with a thumbnail that has an end of its own.
        return data.find(b"\xff\xd9", _first_scan(data)) >= 0
    if start == b"\x89PNG\r\n\x1a\n":
        place = 8
        for _ in range(_MOST_CHUNKS):
            file.seek(place)
            head = file.read(8)
            if len(head) < 8:
                return False
            if head[4:] == b"IEND":
                return True
            place += 12 + int.from_bytes(head[:4], "big")
    return True


def _first_scan(data: bytes) -> int:
    place = 2
    while place + 4 <= len(data) and data[place] == 0xFF and data[place + 1] != 0xDA:
        place += 2 + max(2, int.from_bytes(data[place + 2 : place + 4], "big"))
    return place


def _endings(data: bytes) -> tuple[bytes, bytes] | None:
    if data[:2] == b"\xff\xd8":
        # The end of a marker, or of a byte that is written as two, may be missing as well.
        body = data[:-1] if data[-1:] == b"\xff" else data
        return body + b"\xff\xd9", body + _FILLINGS[1] + b"\xff\xd9"
    if data[:4] == b"\xff\x4f\xff\x51" or data[4:8] == b"jP  ":
        body = data[:-1] if data[-1:] == b"\xff" else data
        return body + b"\xff\xd9", body + b"\xff\xd9"
    length = 0
    if data[:4] == b"RIFF":
        length = 8 + int.from_bytes(data[4:8], "little")
    elif data[4:8] == b"ftyp":
        length = _length_of_boxes(data)
    missing = length - len(data)
    if not 0 < missing <= _MOST_PADDING:
        return None
    one, other = ((filling * (missing // 64 + 1))[:missing] for filling in _FILLINGS)
    return data + one, data + other


def _length_of_boxes(data: bytes) -> int:
    """Where the last box of an ISO file (HEIC, AVIF) ends by what it says itself."""
    place = 0
    while place + 8 <= len(data):
        size = int.from_bytes(data[place : place + 4], "big")
        if size == 1:
            size = int.from_bytes(data[place + 8 : place + 16], "big")
        if size < 8:
            return 0
        place += size
    return place


def _has_every_scan(data: bytes) -> bool:
    """Whether a progressive JPEG has come to its last bits; true of a baseline one.

    Cut between two scans, it decodes to coarser pixels that depend on nothing that is missing.
    """
    bits: dict[int, np.ndarray] = {}
    place, progressive = 2, False
    while (place := data.find(b"\xff", place)) >= 0 and place + 4 <= len(data):
        marker = data[place + 1]
        if marker == 0xFF:
            place += 1
            continue
        if marker == 0 or 0xD0 <= marker <= 0xD8:
            place += 2
            continue
        if marker == 0xD9:
            break
        length = int.from_bytes(data[place + 2 : place + 4], "big")
        segment = data[place + 4 : place + 2 + length]
        if marker == 0xC2 and len(segment) >= 6:
            progressive = True
            for index in range(segment[5]):
                if 6 + 3 * index < len(segment):
                    bits[segment[6 + 3 * index]] = np.full(64, 14)
        if marker == 0xDA and segment and len(segment) >= 4 + 2 * segment[0]:
            first, last, precision = segment[1 + 2 * segment[0] : 4 + 2 * segment[0]]
            for index in range(segment[0]):
                if (component := segment[1 + 2 * index]) in bits:
                    bits[component][first : last + 1] = precision & 15
        place += 2 + max(2, length)
    return not progressive or all((left == 0).all() for left in bits.values())
