"""TIFF layouts that Pillow refuses or misreads: wide samples, planes apart, BigTIFF of any order.

Pillow (through libtiff) reads 8-bit pictures of every compression. Here are read those of 8 to 64
bits a sample that lie bare or deflated in strips or tiles; what neither reads is refused by name.
tifffile parses the file; samples are unpacked here, some rows at a time, so that a small file can't
unpack to more than its picture has.
"""

from __future__ import annotations

import copy
import logging
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

import numpy as np
import tifffile
from PIL import Image

# What it finds damaged is told once, by the error that follows.
logging.getLogger("tifffile").setLevel(logging.CRITICAL + 1)

_BLOCK = 1 << 24  # bytes of samples unpacked at once
_PAGES = 8  # that are looked at

_BARE, _DEFLATE, _OLD_DEFLATE, _WEBP = 1, 8, 32946, 50001
_LZW = 5
_WHITE_IS_ZERO, _GRAY, _RGB, _CMYK, _LAB = 0, 1, 2, 5, 8
_CHANNELS = {_WHITE_IS_ZERO: 1, _GRAY: 1, _RGB: 3, _CMYK: 4, _LAB: 3}
_COLORS = {
    **{_WHITE_IS_ZERO: "gray", _GRAY: "gray", _RGB: "RGB", _CMYK: "CMYK", _LAB: "Lab"},
    **{3: "palette", 6: "YCbCr", 9: "ICC Lab", 10: "ITU Lab", 32844: "LogL", 32845: "LogLuv"},
    **{32803: "sensor", 34892: "linear sensor"},
}
_NUMBERS = {1: "", 2: "signed ", 3: "floating-point ", 4: "", 5: "complex ", 6: "complex "}
_UNSIGNED, _FLOAT = 1, 3
_ASSOCIATED, _UNASSOCIATED = 1, 2  # alpha that the colors are multiplied by, and that they aren't

ORIENTATION, PROFILE = 274, 34675


class LayoutError(ValueError):
    """A TIFF whose layout is not read; its text goes on after "is "."""


@dataclass(frozen=True)
class Page:
    """One picture of a TIFF, unpacked.

    Attributes:
        image: of 8 bits, of mode L, RGB, CMYK or LAB.
        alpha: uint8 (H,W), or None.
        notes: as in Picture.
    """

    image: Image.Image
    alpha: np.ndarray | None
    notes: tuple[str, ...]


class Tiff:
    """A TIFF's directories: its first whole picture and how that lies in the file.

    Args:
        file: at any place; it stays open.

    Attributes:
        page: the first picture that is no thumbnail or mask of another one.
        index: which of the file's pages that is; None where it is below one of them.
        pages: how many whole pictures there are, one after the other.
    """

    def __init__(self, file: BinaryIO) -> None:
        file.seek(0)
        self._tiff = tifffile.TiffFile(file)
        count = len(self._tiff.pages)
        pages = self._pages()
        if not pages:
            raise tifffile.TiffFileError("no pages")
        self._first = pages[0]
        whole = [index for index, page in enumerate(pages) if not _is_part(page)]
        self.index: int | None = whole[0] if whole else 0
        self.page = pages[self.index]
        if not whole:
            below = [page for page in self._below(pages[0]) if not _is_part(page)]
            if below:
                self.index, self.page = None, max(below, key=_area)
        self.pages = count - len(pages) + max(1, len(whole))

    def _pages(self) -> list[tifffile.TiffPage]:
        """Of a long document the first pages, which tell enough."""
        # The file's pages are of another type only where that is asked for.
        return cast(list[tifffile.TiffPage], self._tiff.pages[:_PAGES])

    def _below(self, page: tifffile.TiffPage) -> list[tifffile.TiffPage]:
        if not page.subifds:
            return []
        try:
            found = page.pages[:_PAGES] if page.pages else []
            return [below for below in found if isinstance(below, tifffile.TiffPage)]
        except (ValueError, IndexError, tifffile.TiffFileError):
            return []

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return self.page.imagewidth, self.page.imagelength

    @property
    def orientation(self) -> int:
        """As EXIF numbers it; 1 is upright."""
        return self._value(ORIENTATION, self.page) or self._value(ORIENTATION) or 1

    @property
    def profile(self) -> bytes | None:
        """The ICC profile."""
        value = self._value(PROFILE, self.page)
        return bytes(value) if isinstance(value, (bytes, tuple)) and value else None

    def _value(self, code: int, page: tifffile.TiffPage | None = None) -> Any:
        tag = (page or self._first).tags.get(code)
        return tag.value if tag is not None else None

    @property
    def is_sensor(self) -> bool:
        """Whether the file is a camera's raw one: DNG, or a sensor's readings in it."""
        first = self._first
        parts = [first, self.page, *self._below(first)]
        return 50706 in first.tags or any(int(page.photometric) > 32800 for page in parts)

    @property
    def is_cut(self) -> bool:
        """Whether the file ends before the page's samples do."""
        end = self._tiff.filehandle.size
        parts = zip(self.page.dataoffsets, self.page.databytecounts, strict=False)
        return any(offset + count > end for offset, count in parts)

    @property
    def is_webp(self) -> bool:
        """Whether its parts are WebP pictures."""
        return int(self.page.compression) == _WEBP

    def pillow_reads(self) -> bool:
        """Whether Pillow reads the page, and reads it right."""
        page = self.page
        if self.index is None or (self._tiff.is_bigtiff and self._tiff.byteorder == ">"):
            return False
        if int(page.sampleformat) not in (_UNSIGNED, 4):
            return False
        if page.bitspersample <= 8:
            # Planes of gray and alpha, and of Lab, are what it can't put together.
            together = int(page.planarconfig) == 1
            return together or (page.samplesperpixel != 2 and int(page.photometric) != _LAB)
        # Verified for 16 bits behind a compression; the bare planes come out as garbage.
        return (
            not self.is_unpacked_here()
            and page.bitspersample == 16
            and int(page.photometric) in (_GRAY, _RGB, _CMYK)
            and (int(page.planarconfig) == 1 or int(page.compression) != _BARE)
        )

    def layout(self) -> str:
        """In words, as in "a TIFF of 3 x 32-bit floating-point RGB samples (LZW)"."""
        page = self.page
        numbers = _NUMBERS.get(int(page.sampleformat), "")
        color = _COLORS.get(int(page.photometric), f"photometric {int(page.photometric)}")
        compression = getattr(page.compression, "name", str(page.compression)).lower()
        packed = "" if int(page.compression) == _BARE else f", compressed with {compression}"
        return (
            f"a TIFF of {page.samplesperpixel} x {page.bitspersample}-bit {numbers}{color} "
            f"samples{packed}"
        )

    def refusal(self) -> LayoutError:
        """Why the page is not read, with what its owner can do."""
        return LayoutError(
            f"{self.layout()}, which is not read; save it as RGB of 8 or 16 bits, uncompressed"
        )

    def plain_pages(self) -> list[Tiff]:
        """Every finished picture of the first pages and below them that is unpacked here."""
        found = []
        for page in self._pages():
            for one in (page, *self._below(page)):
                tiff = copy.copy(self)
                tiff.index, tiff.page = None, one
                if tiff.is_unpacked_here():
                    found.append(tiff)
        return found

    def unpack(self) -> Page:
        """The page's pixels; LayoutError where they are not read, EOFError of a cut file."""
        page = self.page
        notes: list[str] = []
        if not self.is_unpacked_here():
            raise self.refusal()
        width, height = self.size
        photometric, samples = int(page.photometric), int(page.samplesperpixel)
        scale = None
        if int(page.sampleformat) == _FLOAT:
            scale = white(*self._brightest(), notes)
        elif page.bitspersample > 16 and self._brightest()[0] <= 65_535:
            scale = 65_535.0  # 16 bits in numbers that could hold more
        levels = np.zeros((height, width, samples), np.uint8)
        for top, left, plane, block in self._blocks():
            block = block[: height - top, : width - left]
            rows, columns = block.shape[:2]
            part = levels[top : top + rows, left : left + columns]
            eight = _eight_bit(block, scale, photometric == _LAB)
            if plane is None:
                part[...] = eight
            else:
                part[..., plane] = eight[..., 0]
        return self._page(levels, notes)

    def is_unpacked_here(self) -> bool:
        """Whether ``unpack`` reads the page."""
        page = self.page
        photometric, samples = int(page.photometric), int(page.samplesperpixel)
        number, bits = int(page.sampleformat), page.bitspersample
        return (
            photometric in _CHANNELS
            and _CHANNELS[photometric] <= samples <= 32
            and int(page.compression) in (_BARE, _DEFLATE, _OLD_DEFLATE)
            and (number, bits)
            # Pillow, and programs like it, call wide gray signed that never is.
            in ((1, 8), (4, 8), (1, 16), (1, 32), (2, 32), (1, 64), (3, 16), (3, 32), (3, 64))
            and not (photometric == _LAB and (number == _FLOAT or bits > 16))
            and int(page.predictor) in ((1, 3) if number == _FLOAT else (1, 2))
            and int(page.fillorder) == 1
            and page.imagedepth == 1
        )

    def _blocks(self) -> Iterator[tuple[int, int, int | None, np.ndarray]]:
        """Top, left, plane (None for all) and samples (rows, columns, channels) of the parts."""
        page = self.page
        width, height = self.size
        if page.is_tiled:
            part_width, part_height = page.tilewidth, page.tilelength
        else:
            part_width, part_height = width, min(page.rowsperstrip, height) or height
        if part_width < 1 or part_height < 1 or part_width > 2 * width + 4096:
            raise ValueError("its parts have no size")
        across, down = -(-width // part_width), -(-height // part_height)
        apart = int(page.planarconfig) == 2
        planes = range(int(page.samplesperpixel)) if apart else (None,)
        places = ((p, y, x) for p in planes for y in range(down) for x in range(across))
        for index, (plane, y, x) in enumerate(places):
            top, left = y * part_height, x * part_width
            rows = part_height if page.is_tiled else min(part_height, height - top)
            for first, block in self._rows(index, min(rows, height - top), part_width):
                yield top + first, left, plane, block

    def _rows(self, index: int, rows: int, width: int) -> Iterator[tuple[int, np.ndarray]]:
        """The rows of one strip or tile, some at a time, each with its number."""
        page = self.page
        channels = 1 if int(page.planarconfig) == 2 else int(page.samplesperpixel)
        kind = "f" if int(page.sampleformat) == _FLOAT else "u"
        dtype = np.dtype(f"{self._tiff.byteorder}{kind}{page.bitspersample // 8}")
        row_bytes = width * channels * dtype.itemsize
        file, count = self._tiff.filehandle, page.databytecounts[index]
        if page.dataoffsets[index] == 0 or count == 0:
            raise EOFError
        file.seek(page.dataoffsets[index])
        read = _reader(file, count, int(page.compression))
        step = max(1, _BLOCK // row_bytes)
        for first in range(0, rows, step):
            several = min(step, rows - first)
            data = read(several * row_bytes)
            if len(data) < several * row_bytes:
                raise EOFError
            yield first, _unpredicted(data, (several, width, channels), dtype, int(page.predictor))

    def _brightest(self) -> tuple[float, bool]:
        """The largest value of all samples, and whether all are whole numbers."""
        brightest, whole = 0.0, True
        for _, _, _, block in self._blocks():
            finite = block[np.isfinite(block)]
            if finite.size:
                brightest = max(brightest, float(finite.max()))
                whole = whole and bool((finite == np.round(finite)).all())
        return brightest, whole

    def _page(self, levels: np.ndarray, notes: list[str]) -> Page:
        page = self.page
        photometric = int(page.photometric)
        channels = _CHANNELS[photometric]
        extras = [int(extra) for extra in page.extrasamples][: levels.shape[2] - channels]
        alpha = None
        for index, extra in enumerate(extras):
            if extra in (_ASSOCIATED, _UNASSOCIATED) and alpha is None:
                alpha = np.ascontiguousarray(levels[..., channels + index])
        others = levels.shape[2] - channels - (alpha is not None)
        if others:
            notes.append(f"{others} further channels of it were left out")
        color = levels[..., :channels]
        if alpha is not None and _ASSOCIATED in extras:
            wide = color.astype(np.uint16) * 255 + alpha[..., None] // 2
            color = (wide // np.maximum(alpha, 1)[..., None]).clip(0, 255).astype(np.uint8)
        if photometric == _WHITE_IS_ZERO:
            color = 255 - color
        color = np.ascontiguousarray(color if channels > 1 else color[..., 0])
        mode = {1: "L", 4: "CMYK"}.get(channels, "LAB" if photometric == _LAB else "RGB")
        if mode in ("L", "RGB"):
            image = Image.fromarray(color)
        else:
            image = Image.frombytes(mode, (color.shape[1], color.shape[0]), color.tobytes())
        return Page(image, alpha, tuple(notes))


def white(brightest: float, whole_numbers: bool, notes: list[str]) -> float:
    """The floating-point value shown as white: 1 by convention, 255 or 65,535 of whole numbers.

    Args:
        brightest: the largest value.
        whole_numbers: whether all values are.
    """
    if brightest > 1 and whole_numbers:
        return next((full for full in (255.0, 65_535.0) if brightest <= full), brightest)
    if brightest > 1:
        notes.append(f"its floating-point values go up to {brightest:.3g}; 1 is shown as white")
    return 1.0


def is_tiff(head: bytes) -> bool:
    """Whether a file begins like a TIFF, or a BigTIFF, of any byte order."""
    return head[:4] in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")


def _is_part(page: tifffile.TiffPage) -> bool:
    """Whether a page is a smaller copy or a mask of another one."""
    return bool(int(page.subfiletype) & 5)


def _area(page: tifffile.TiffPage) -> int:
    return page.imagewidth * page.imagelength


def _reader(file: tifffile.FileHandle, count: int, compression: int):
    """A function that gives so many bytes more of one strip or tile, unpacked; fewer at its end."""
    left = count

    def bare(size: int) -> bytes:
        nonlocal left
        data = file.read(min(size, left))
        left -= len(data)
        return data

    if compression == _BARE:
        return bare
    unpacking = zlib.decompressobj()
    packed = b""

    def deflated(size: int) -> bytes:
        nonlocal packed
        parts, wanted = [], size
        while wanted > 0:
            if not packed and not (packed := bare(1 << 16)):
                break
            part = unpacking.decompress(packed, wanted)
            packed = unpacking.unconsumed_tail
            parts.append(part)
            wanted -= len(part)
            if unpacking.eof:
                break
        return b"".join(parts)

    return deflated


def _unpredicted(
    data: bytes, shape: tuple[int, int, int], dtype: np.dtype, predictor: int
) -> np.ndarray:
    """Samples from bytes; each may be stored as its difference to the one on its left."""
    rows, _, channels = shape
    if predictor == 3:
        # The bytes of a row's numbers lie significance by significance.
        steps = np.frombuffer(data, np.uint8).reshape(rows, -1, channels)
        summed = np.add.accumulate(steps, axis=1, dtype=np.uint8).reshape(rows, dtype.itemsize, -1)
        numbers = np.ascontiguousarray(summed.transpose(0, 2, 1))
        return numbers.view(dtype.newbyteorder(">")).reshape(shape)
    samples = np.frombuffer(data, dtype).reshape(shape)
    if predictor == 2:
        native = dtype.newbyteorder("=")
        samples = np.add.accumulate(samples.astype(native), axis=1, dtype=native)
    return samples


def _eight_bit(samples: np.ndarray, scale: float | None, lab: bool) -> np.ndarray:
    """Samples as levels of 0 to 255."""
    if scale is not None:
        if samples.dtype.kind == "u":
            return ((samples + 128) // 257).astype(np.uint8)
        values = np.nan_to_num(samples.astype(np.float32), nan=0, posinf=scale, neginf=0)
        return (values.clip(0, scale) * (255 / scale)).round().astype(np.uint8)
    bits = 8 * samples.dtype.itemsize
    if lab:
        # a and b are signed, so that they can't be rounded like the others.
        return (samples >> (bits - 8)).astype(np.uint8)
    if bits == 16:
        # 65535 = 257 * 255: this maps white to white, and a widened 8-bit level back to itself.
        return ((samples.astype(np.uint32) + 128) // 257).astype(np.uint8)
    return (samples >> (bits - 8)).astype(np.uint8)
