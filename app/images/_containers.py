"""What is inside of a picture's file, by its headers alone, before anything is unpacked.

A small file may unpack to gigabytes: an icon of 16 x 16 that holds a PNG of 20,000 x 20,000, a TIFF
whose one tile is larger than the picture, a PNG with a text of zeros, a JPEG of thousands of scans.
Readers learn of it while they unpack. Here a few hundred bytes of each part are read, in memory
that does not depend on the file, and what nobody's picture needs is refused.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from app.images._picture import ImageError, TooLargeError

# Of a JPEG: cameras write 1, progressive encoders about 10. Each passes over all of the picture.
MOST_SCANS = 100
# Pixels times scans: some four seconds. The largest pictures may have as many as encoders write.
MOST_SCANNED, LEAST_SCANS = 4 * 10**9, 30
# Bytes that all texts and profiles of a PNG may have together.
LONGEST_TEXT = 8 * 2**20
# Of an icon, and of a GIF or TIFF: counting them takes time for each.
MOST_ENTRIES, MOST_FRAMES = 1000, 100_000
# Bytes of a GIF's comments and of a JPEG's EXIF blocks, to which Pillow adds each anew: the time
# grows by their square.
LONGEST_COMMENT = 2**20
# Chunks, blocks and boxes of other files; a photo's has some thousands.
MOST_PARTS = 500_000
# Segments of a JPEG before its pixels; the longest profile has 255, and extended XMP some hundreds.
MOST_SEGMENTS = 5000
# Bytes between them, where none are needed: Pillow looks at each.
MOST_PADDING = 2**20
# Of a PPM: bytes up to its size, and comments among the numbers of a plain one.
LONGEST_HEADER, MOST_COMMENTS = 2**16, 1000
# And bytes of one in digits, which Pillow reads in Python: each four megabytes take a second.
LONGEST_PLAIN = 24 * 2**20
# Bytes of a BMP whose pixels are run lengths; each four megabytes take some seconds.
LONGEST_RUNS = 8 * 2**20
# Strips or tiles of a TIFF: of a hundred megapixels 24,000 tiles of 64 x 64.
MOST_STRIPS = 200_000
# Components of a JPEG 2000 picture; color and transparency are four.
MOST_COMPONENTS = 8

_TOO_MANY_PARTS = "is damaged: it has too many parts"

Size = tuple[int, int]


class _Bomb(Exception):  # noqa: N818 (what it is, not what went wrong)
    """Something that no picture needs; its text goes on after the file's name."""


def check(file: BinaryIO, name: str, max_pixels: int) -> None:
    """Raises TooLargeError where anything in it has more pixels, ImageError for other bombs.

    What is damaged is left to its reader, which says so. The file is at its start again afterwards.
    """
    file.seek(0)
    head = file.read(16)
    sizes = next((sizes for is_one, sizes in _KINDS if is_one(head)), None)
    try:
        if sizes is not None:
            for width, height in sizes(file):
                if width * height > max_pixels:
                    # In the words in which its reader would say so.
                    raise TooLargeError(
                        name,
                        f"has {width} x {height} pixels, {width * height / 1e6:.3g} megapixels; "
                        f"at most {max_pixels / 1e6:g} are read",
                    )
    except _Bomb as bomb:
        raise ImageError(name, str(bomb)) from None
    except (struct.error, EOFError, OverflowError, OSError, ValueError, RecursionError) as error:
        if isinstance(error, ImageError):
            raise
    finally:
        file.seek(0)


def _bytes(file: BinaryIO, count: int, at: int | None = None) -> bytes:
    if at is not None:
        file.seek(at)
    data = file.read(count)
    if len(data) < count:
        raise EOFError
    return data


def _unpacked(file: BinaryIO, kind: str, at: int | None = None) -> tuple[Any, ...]:
    return struct.unpack(kind, _bytes(file, struct.calcsize(kind), at))


# --- icons


def _icon(file: BinaryIO) -> Iterator[Size]:
    """Windows: a table of PNGs and of bitmaps that say half of their height."""
    (count,) = _unpacked(file, "<H", 4)
    if count > MOST_ENTRIES:
        raise _Bomb(f"is damaged: an icon of {count} pictures")
    for number in range(count):
        (place,) = _unpacked(file, "<I", 6 + 16 * number + 12)
        start = file.seek(place) and file.read(24)
        if not start:
            continue
        if start.startswith(b"\x89PNG"):
            yield from _png(file, place)
        elif len(start) == 24:
            length, width, height = struct.unpack_from("<Iii", start)
            if length == 12:
                width, height = struct.unpack_from("<HH", start, 4)
            yield abs(width), abs(height) // 2


def _mac_icon(file: BinaryIO) -> Iterator[Size]:
    (end,) = _unpacked(file, ">I", 4)
    place = 8
    for _ in range(MOST_ENTRIES):
        if place + 8 > end:
            return
        (length,) = _unpacked(file, ">I", place + 4)
        if length < 8:
            return
        start = file.read(12)
        if start.startswith(b"\x89PNG"):
            yield from _png(file, place + 8)
        elif start.startswith(b"\xff\x4f\xff\x51"):
            yield from _codestream(file, place + 8)
        elif start[4:8] == b"jP  ":
            yield from _jpeg_2000(file, place + 8, place + length)
        place += length
    raise _Bomb("is damaged: an icon of too many pictures")


# --- PNG


def _png(file: BinaryIO, start: int = 0) -> Iterator[Size]:
    place, text = start + 8, 0
    for _ in range(MOST_PARTS):
        length, kind = _unpacked(file, ">I4s", place)
        if kind == b"IHDR":
            yield _unpacked(file, ">II")
        elif kind == b"fcTL" and length >= 20:
            _, width, height = _unpacked(file, ">III")
            yield width, height
        elif kind in (b"zTXt", b"iTXt", b"iCCP"):
            text += _inflated(file, kind, length, LONGEST_TEXT - text)
        elif kind in (b"tEXt", b"eXIf"):
            text += length
        elif kind == b"IEND":
            return
        if text > LONGEST_TEXT:
            raise _Bomb("is damaged: its texts and profiles would unpack to more than its picture")
        place += 12 + length
    raise _Bomb(_TOO_MANY_PARTS)


def _inflated(file: BinaryIO, kind: bytes, length: int, most: int) -> int:
    """How long a compressed chunk becomes, as far as `most`; nothing of it is kept."""
    head = file.read(min(length, 1024))
    after = head.find(b"\0") + 1  # the keyword ends there
    if not after:
        return length
    if kind == b"iTXt":
        if head[after : after + 1] != b"\1":
            return length  # not compressed
        after = head.find(b"\0", after + 2) + 1  # the language ends there
        after = head.find(b"\0", after) + 1  # and there the keyword in it
        if not after:
            return length
    else:
        after += 1
    inflating, came, left = zlib.decompressobj(), 0, length - len(head)
    piece = head[after:]
    try:
        while piece and not inflating.eof and came <= most:
            came += len(inflating.decompress(piece, 2**16))
            piece = inflating.unconsumed_tail
            if not piece and left > 0:
                piece = file.read(min(left, 2**16))
                left -= len(piece)
    except zlib.error:
        pass  # its reader will say so
    return came


# --- JPEG


_MARKER = re.compile(rb"\xff[^\x00\xff\xd0-\xd7]")


def _jpeg(file: BinaryIO) -> Iterator[Size]:
    """The size, what lies before the pixels, and how many scans there are of a progressive one."""
    place, padding, exif = 2, 0, 0
    scanned = None  # pixels of a progressive one
    for _ in range(MOST_SEGMENTS):
        (mark,) = _unpacked(file, ">H", place)
        if mark >> 8 != 0xFF or mark & 0xFF in (0x00, 0xFF):
            after = _next_marker(file, place + 1)
            padding += (file.seek(0, 2) if after is None else after) - place
            if padding > MOST_PADDING:
                raise _Bomb("is damaged: more than a megabyte lies between its parts")
            if after is None:
                return
            place = after
            continue
        if 0xFFC0 <= mark <= 0xFFCF and mark not in (0xFFC4, 0xFFC8, 0xFFCC):
            _, _, height, width = _unpacked(file, ">HBHH")
            yield width, height
            if mark in (0xFFC2, 0xFFC6, 0xFFCA, 0xFFCE):
                scanned = width * height
        if mark == 0xFFDA and scanned is not None:
            _count_scans(file, place, scanned)
        if mark in (0xFFD9, 0xFFDA):
            return
        (length,) = _unpacked(file, ">H", place + 2)
        if mark == 0xFFE1 and file.read(6) == b"Exif\0\0":
            exif += length
            if exif > LONGEST_COMMENT:
                raise _Bomb(f"is damaged: more than {LONGEST_COMMENT >> 10} KB of EXIF data")
        place += 2 + length
    raise _Bomb(_TOO_MANY_PARTS)


def _count_scans(file: BinaryIO, place: int | None, pixels: int) -> None:
    scans, most = 0, min(MOST_SCANS, max(LEAST_SCANS, MOST_SCANNED // max(pixels, 1)))
    while place is not None:
        (mark,) = _unpacked(file, ">H", place)
        if mark == 0xFFD9:
            return
        (length,) = _unpacked(file, ">H")
        scans += mark == 0xFFDA
        if scans > most:
            raise _Bomb(f"is damaged: a JPEG of more than {most} scans")
        place = _next_marker(file, place + 2 + length)


def _next_marker(file: BinaryIO, place: int) -> int | None:
    """Where the next one is that is no part of a scan's data."""
    file.seek(place)
    while data := file.read(2**20):
        if found := _MARKER.search(data):
            return place + found.start()
        place += len(data) - (len(data) > 1 and data.endswith(b"\xff"))
        file.seek(place)
    return None


# --- PPM


def _ppm(file: BinaryIO) -> Iterator[Size]:
    """Of a header that goes on for ever, and of comments, Pillow reads each byte by itself."""
    file.seek(2)
    head = file.read(LONGEST_HEADER)
    numbers = _UNCOMMENTED.sub(b" ", head).split(maxsplit=2)
    if len(numbers) < 3 and len(head) == LONGEST_HEADER:
        raise _Bomb(f"is damaged: a header of more than {LONGEST_HEADER >> 10} KB")
    if len(numbers) < 2:
        return
    yield int(numbers[0]), int(numbers[1])
    file.seek(0)
    if file.read(2) in (b"P1", b"P2", b"P3"):
        if file.seek(0, 2) > LONGEST_PLAIN:
            raise _Bomb(f"is a PPM of more than {LONGEST_PLAIN >> 20} MB of digits; save it as PNG")
        file.seek(2)
        comments = 0
        while data := file.read(2**20):
            comments += data.count(b"#")
            if comments > MOST_COMMENTS:
                raise _Bomb(f"is damaged: more than {MOST_COMMENTS} comments")


_UNCOMMENTED = re.compile(rb"#[^\r\n]*(?:[\r\n]|$)")


# --- BMP


def _bmp(file: BinaryIO) -> Iterator[Size]:
    """The size; run lengths are what Pillow decodes one after the other in Python."""
    header, width, height = _unpacked(file, "<Iii", 14)
    if header < 40:
        return
    yield abs(width), abs(height)
    (coding,) = _unpacked(file, "<I", 30)
    if coding in (1, 2) and file.seek(0, 2) > LONGEST_RUNS:
        raise _Bomb(f"is a BMP of more than {LONGEST_RUNS >> 20} MB of run lengths; save it as PNG")


# --- PSD


def _psd(file: BinaryIO) -> Iterator[Size]:
    """The size; what lies before the layers is counted, since Pillow keeps each."""
    height, width, _, _, palette = _unpacked(file, ">IIHHI", 14)
    yield width, height
    place = 30 + palette
    (length,) = _unpacked(file, ">I", place)
    place, end = place + 4, place + 4 + length
    for _ in range(MOST_SEGMENTS):
        if place + 12 > end:
            return
        (name,) = _unpacked(file, "B", place + 6)
        place += 8 + name - name % 2  # the name's length and it make an even number of bytes
        (length,) = _unpacked(file, ">I", place)
        place += 4 + length + length % 2
    raise _Bomb(_TOO_MANY_PARTS)


# --- TIFF


def _tiff(file: BinaryIO) -> Iterator[Size]:
    """Its tiles, page by page; how large a page is its reader sees before it unpacks it."""
    order = "<" if _bytes(file, 2, 0) == b"II" else ">"
    (version,) = _unpacked(file, f"{order}H")
    big = version == 43
    word, entry, count_kind = ("Q", 20, "Q") if big else ("I", 12, "H")
    (place,) = _unpacked(file, order + word, 8 if big else 4)
    seen: set[int] = set()
    while place and place not in seen:
        if len(seen) >= MOST_FRAMES:
            raise _Bomb("is damaged: it has too many pages")
        seen.add(place)
        (entries,) = _unpacked(file, order + count_kind, place)
        if entries > 10_000:
            raise _Bomb(f"is damaged: a page of {entries} entries")
        table = _bytes(file, entries * entry)
        given = {}
        for start in range(0, len(table), entry):
            tag, kind, count = struct.unpack_from(f"{order}HH{word}", table, start)
            if tag in (273, 324) and count > MOST_STRIPS:
                raise _Bomb(f"is damaged: a page of {count} strips or tiles")
            if tag in (256, 257, 322, 323) and kind in (3, 4):
                value = start + (12 if big else 8)
                given[tag] = struct.unpack_from(order + "HI"[kind - 3], table, value)[0]
        if len(seen) == 1 and 322 in given and 323 in given:
            # A tile may reach over the picture's edge, but not by far.
            width, height = given[322], given[323]
            page = given.get(256, 0) * given.get(257, 0)
            if width * height > max(4 * page, 2**22):
                yield width, height
        (place,) = _unpacked(file, order + word)


# --- GIF and WebP


def _gif(file: BinaryIO) -> Iterator[Size]:
    yield _unpacked(file, "<HH", 6)
    (flags,) = _unpacked(file, "B")
    file.seek(13 + (3 << (flags & 7) + 1 if flags & 0x80 else 0))
    left_over, comments = MOST_PARTS, 0
    for _ in range(MOST_FRAMES):
        kind = file.read(1)
        while kind == b"\x21":
            is_comment, start = file.read(1) == b"\xfe", file.tell()
            left_over = _skip_blocks(file, left_over)
            comments += file.tell() - start if is_comment else 0
            if comments > LONGEST_COMMENT:
                raise _Bomb(f"is damaged: more than {LONGEST_COMMENT >> 10} KB of comments")
            kind = file.read(1)
        if kind != b"\x2c":
            return
        left, top, width, height, flags = _unpacked(file, "<HHHHB")
        yield left + width, top + height
        file.seek((3 << (flags & 7) + 1 if flags & 0x80 else 0) + 1, 1)
        left_over = _skip_blocks(file, left_over)
    raise _Bomb(f"is damaged: it has more than {MOST_FRAMES} frames")


def _skip_blocks(file: BinaryIO, left_over: int) -> int:
    """Goes on after a row of blocks; returns how many more there may be."""
    while length := file.read(1):
        left_over -= 1
        if left_over < 0:
            raise _Bomb(_TOO_MANY_PARTS)
        if length == b"\0":
            break
        file.seek(length[0], 1)
    return left_over


def _webp(file: BinaryIO) -> Iterator[Size]:
    yield from _webp_chunks(file, 12, 2**63)


def _webp_chunks(file: BinaryIO, place: int, end: int) -> Iterator[Size]:
    frames = 0
    for _ in range(MOST_PARTS):
        if place + 8 > end:
            return
        file.seek(place)
        head = file.read(24)
        if len(head) < 8:
            return
        kind, length = struct.unpack_from("<4sI", head)
        if kind == b"VP8X":
            yield _size24(head, 12)
        elif kind == b"ANMF":
            frames += 1
            yield _size24(head, 14)
            if frames == 1:  # the one that is shown; its own size is again in it
                yield from _webp_chunks(file, place + 24, place + 8 + length)
        elif kind == b"VP8L" and len(head) >= 13:
            (bits,) = struct.unpack_from("<I", head, 9)
            yield (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        elif kind == b"VP8 " and len(head) >= 18:
            width, height = struct.unpack_from("<HH", head, 14)
            yield width & 0x3FFF, height & 0x3FFF
        place += 8 + length + (length & 1)
    raise _Bomb(_TOO_MANY_PARTS)


def _size24(head: bytes, at: int) -> Size:
    def number(place: int) -> int:
        return int.from_bytes(head[place : place + 3], "little") + 1

    return number(at), number(at + 3)


# --- JPEG 2000


def _jpeg_2000(file: BinaryIO, place: int = 0, end: int = 2**63) -> Iterator[Size]:
    """The codestream's own size, which the box around it may contradict."""
    for kind, start, over in _boxes(file, place, end):
        if kind == b"jp2c":
            yield from _codestream(file, start)
            return
        if kind == b"jp2h":
            # All of them: its reader goes through each.
            for inner, inside, _ in _boxes(file, start, over):
                if inner == b"ihdr":
                    height, width = _unpacked(file, ">II", inside)
                    yield width, height


def _codestream(file: BinaryIO, place: int = 0) -> Iterator[Size]:
    _, _, _, _, x1, y1, x0, y0, tile_x, tile_y, *_, components = _unpacked(
        file, ">HHHHIIIIIIIIH", place
    )
    if components > MOST_COMPONENTS:
        raise _Bomb(f"is damaged: a JPEG 2000 picture of {components} components")
    yield x1 - x0, y1 - y0
    yield min(tile_x, x1), min(tile_y, y1)


def _boxes(file: BinaryIO, place: int, end: int) -> Iterator[tuple[bytes, int, int]]:
    """Kind, first byte and end of each box in a part of a file."""
    for _ in range(MOST_FRAMES):
        if place + 8 > end:
            return
        file.seek(place)
        head = file.read(16)
        if len(head) < 8:
            return
        length, kind = struct.unpack_from(">I4s", head)
        start = place + 8
        if length == 1 and len(head) == 16:
            length, start = int.from_bytes(head[8:], "big"), place + 16
        elif length == 0:
            length = 2**62
        if length < start - place:
            return
        yield kind, start, place + length
        place += length
    raise _Bomb(_TOO_MANY_PARTS)


# --- HEIF and AVIF


def _heif(file: BinaryIO) -> Iterator[Size]:
    """The size of each item, and of the grids that items are put together to."""
    for kind, start, end in _boxes(file, 0, 2**63):
        if kind == b"meta":
            yield from _item_sizes(file, start + 4, end)
        elif kind == b"moov":
            yield from _track_sizes(file, start, end, 0)


def _item_sizes(file: BinaryIO, start: int, end: int) -> Iterator[Size]:
    grids: set[int] = set()
    places: dict[int, int] = {}
    data = 0
    for kind, inside, over in _boxes(file, start, end):
        if kind == b"iprp":
            for inner, within, last in _boxes(file, inside, over):
                if inner == b"ipco":
                    for property, place, _ in _boxes(file, within, last):
                        if property == b"ispe":
                            yield _unpacked(file, ">II", place + 4)
        elif kind == b"iinf":
            grids = set(_grids(file, inside, over))
        elif kind == b"iloc":
            places = dict(_places(file, inside))
        elif kind == b"idat":
            data = inside
    for grid in grids & set(places):
        place = places[grid]
        # Rows and columns less one, then the size that they make.
        _, flags = _unpacked(file, ">BB", place if place >= 0 else data + ~place)
        file.seek(2, 1)
        yield _unpacked(file, ">II" if flags & 1 else ">HH")


def _grids(file: BinaryIO, start: int, end: int) -> Iterator[int]:
    """The numbers of the items that are put together from others."""
    (version,) = _unpacked(file, "B", start)
    for kind, inside, _ in _boxes(file, start + (6 if version == 0 else 8), end):
        (version,) = _unpacked(file, "B", inside)
        if kind == b"infe" and version >= 2:
            number, _, what = _unpacked(file, ">HH4s" if version == 2 else ">IH4s", inside + 4)
            if what == b"grid":
                yield number


def _places(file: BinaryIO, start: int) -> Iterator[tuple[int, int]]:
    """Where each item begins: in the file, or, as ~place, in the box idat."""
    version, sizes, more = _unpacked(file, ">B3xBB", start)
    word = {0: "", 4: "I", 8: "Q"}
    offset, length = word.get(sizes >> 4), word.get(sizes & 15)
    base, index = word.get(more >> 4), word.get(more & 15 if version else 0)
    if offset is None or length is None or base is None or index is None or version > 2:
        return
    (count,) = _unpacked(file, ">I" if version == 2 else ">H")
    for _ in range(min(count, MOST_FRAMES)):
        (number,) = _unpacked(file, ">I" if version == 2 else ">H")
        method = _unpacked(file, ">H")[0] & 15 if version else 0
        *_, extents = found = _unpacked(file, f">H{base}H")
        place = found[1] if base else 0
        for part in range(min(extents, MOST_FRAMES)):
            given = _unpacked(file, f">{index}{offset}{length}")
            if part == 0:
                at = place + (given[1 if index else 0] if offset else 0)
                yield number, (~at if method == 1 else at)


def _track_sizes(file: BinaryIO, start: int, end: int, depth: int) -> Iterator[Size]:
    for kind, inside, over in _boxes(file, start, end):
        if kind in (b"trak", b"mdia", b"minf", b"stbl") and depth < 6:
            yield from _track_sizes(file, inside, over, depth + 1)
        elif kind == b"stsd":
            for _, within, _ in _boxes(file, inside + 8, over):
                yield _unpacked(file, ">HH", within + 24)


_KINDS: tuple[tuple[Callable[[bytes], bool], Callable[[BinaryIO], Iterator[Size]]], ...] = (
    (lambda head: head.startswith(b"\0\0\1\0"), _icon),
    (lambda head: head.startswith(b"icns"), _mac_icon),
    (lambda head: head.startswith(b"\x89PNG\r\n\x1a\n"), _png),
    (lambda head: head.startswith(b"\xff\xd8"), _jpeg),
    (lambda head: head.startswith(b"8BPS"), _psd),
    (lambda head: head.startswith(b"BM"), _bmp),
    (lambda head: head[:1] == b"P" and head[1:2] in b"123456" and head[2:3].isspace(), _ppm),
    (lambda head: head[:4] in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"), _tiff),
    (lambda head: head.startswith((b"GIF87a", b"GIF89a")), _gif),
    (lambda head: head[:4] == b"RIFF" and head[8:12] == b"WEBP", _webp),
    (lambda head: head.startswith(b"\xff\x4f\xff\x51"), _codestream),
    (lambda head: head[4:8] == b"jP  ", _jpeg_2000),
    (lambda head: head[4:8] == b"ftyp", _heif),
)
