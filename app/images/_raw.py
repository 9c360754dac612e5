"""The finished picture inside a camera raw file: nearly all of them carry one, as a JPEG."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from PIL import ExifTags, Image

from app.images import _tiff

_MOST_JPEGS = 4096  # places looked at in one file; cameras leave five or less
_MOST_SEGMENTS = 256  # of a JPEG, before the one that says its size
# What a reader decodes; a sensor's readings are in the lossless 0xC3.
_FRAMES = frozenset((0xC0, 0xC1, 0xC2))
_HEADER = 1 << 20  # bytes at the start of a file that its first directory lies in
_MOST_BYTES = 512 << 20  # of a file that can't be mapped


@dataclass(frozen=True)
class Preview:
    """A JPEG inside another file.

    Attributes:
        start: its first byte.
        width, height: in pixels.
    """

    start: int
    width: int
    height: int


def largest_preview(file: BinaryIO) -> tuple[bytes, Preview] | None:
    """The largest JPEG inside a file, from its first byte to the file's end; None without any."""
    data = _whole(file)
    found = max(_previews(data), key=lambda jpeg: jpeg.width * jpeg.height, default=None)
    return None if found is None else (bytes(data[found.start :]), found)


def largest_plain(file: BinaryIO) -> _tiff.Tiff | None:
    """The largest picture of a TIFF-like file that lies in it uncompressed; None without any."""
    try:
        pages = _tiff.Tiff(file).plain_pages()
    except Exception:  # no TIFF, or a damaged one
        return None
    return max(pages, key=lambda tiff: tiff.size[0] * tiff.size[1], default=None)


def exif(file: BinaryIO) -> Image.Exif | None:
    """The file's own EXIF data: which side is up, where the JPEG inside doesn't say it."""
    file.seek(0)
    head = file.read(_HEADER)
    start = head.find(b"CMT1") + 4 if head[4:8] == b"ftyp" else 0  # Canon's CR3
    block = head[start:]
    # Olympus and Panasonic put marks of their own in a TIFF's place.
    for mark, plain in ((b"IIR", b"II*\0"), (b"IIU\0", b"II*\0"), (b"MMOR", b"MM\0*")):
        if block.startswith(mark):
            block = plain + block[4:]
    try:
        found = Image.Exif()
        found.load(b"Exif\0\0" + block)
        found.get(ExifTags.Base.Orientation)
    except Exception:  # a damaged block raises whatever its parsing runs into
        return None
    return found


def _whole(file: BinaryIO) -> mmap.mmap | bytes:
    try:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError, AttributeError):
        file.seek(0)
        return file.read(_MOST_BYTES)


def _previews(data: mmap.mmap | bytes) -> Iterator[Preview]:
    start = -1
    for _ in range(_MOST_JPEGS):
        start = data.find(b"\xff\xd8\xff", start + 1)
        if start < 0:
            return
        if size := _size(data, start):
            yield Preview(start, *size)


def _size(data: mmap.mmap | bytes, start: int) -> tuple[int, int] | None:
    """Width and height of the JPEG that begins there; None for one that is not decoded."""
    place = start + 2
    for _ in range(_MOST_SEGMENTS):
        marker = data[place : place + 4]
        if len(marker) < 4 or marker[0] != 0xFF or marker[1] in (0x00, 0xFF, 0xD8, 0xD9, 0xDA):
            return None
        length = int.from_bytes(marker[2:4], "big")
        if marker[1] in _FRAMES:
            frame = data[place + 4 : place + 10]
            if len(frame) < 6 or frame[0] != 8 or frame[5] not in (1, 3):
                return None
            height, width = int.from_bytes(frame[1:3], "big"), int.from_bytes(frame[3:5], "big")
            return (width, height) if width and height else None
        if 0xC3 <= marker[1] <= 0xCF and marker[1] not in (0xC4, 0xC8, 0xCC):
            return None
        place += 2 + max(2, length)
    return None
