"""What a file says of its colors in other ways than by an ICC profile.

EXIF (JPEG, TIFF, HEIC, WebP), PNG's chunks, TIFF's tags, the coding points of HEIC and AVIF
(ITU-T H.273), the headers of BMP, and the profile that a JPEG 2000 has in a box.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from PIL import ExifTags, Image

# x and y of red, green, blue and white (CIE 1931).
_D65 = (0.3127, 0.3290)
_DCI_WHITE = (0.314, 0.351)
_C = (0.310, 0.316)
BT709 = (0.640, 0.330, 0.300, 0.600, 0.150, 0.060, *_D65)
ADOBE_RGB = (0.640, 0.330, 0.210, 0.710, 0.150, 0.060, *_D65)
DISPLAY_P3 = (0.680, 0.320, 0.265, 0.690, 0.150, 0.060, *_D65)
BT2020 = (0.708, 0.292, 0.170, 0.797, 0.131, 0.046, *_D65)

# H.273, table 2.
_PRIMARIES = {
    1: BT709,
    4: (0.67, 0.33, 0.21, 0.71, 0.14, 0.08, *_C),
    5: (0.64, 0.33, 0.29, 0.60, 0.15, 0.06, *_D65),
    6: (0.630, 0.340, 0.310, 0.595, 0.155, 0.070, *_D65),
    7: (0.630, 0.340, 0.310, 0.595, 0.155, 0.070, *_D65),
    8: (0.681, 0.319, 0.243, 0.692, 0.145, 0.049, *_C),
    9: BT2020,
    11: (0.680, 0.320, 0.265, 0.690, 0.150, 0.060, *_DCI_WHITE),
    12: DISPLAY_P3,
    22: (0.630, 0.340, 0.295, 0.605, 0.155, 0.077, *_D65),
}
# H.273, table 3. Cameras and encoders name BT.709's curve (1, 6, 14, 15) for pictures that
# everybody shows with sRGB's; so does this.
SRGB_CURVE, PQ, HLG = "srgb", "pq", "hlg"
_CURVES: dict[int, str | float] = {
    **dict.fromkeys((1, 6, 11, 12, 13, 14, 15), SRGB_CURVE),
    **{4: 2.2, 5: 2.8, 8: 1.0, 16: PQ, 17: 2.6, 18: HLG},
}


@dataclass(frozen=True)
class Space:
    """A color space of three primaries.

    Attributes:
        primaries: x and y of red, green, blue and white.
        curve: from a level to light: "srgb", "pq", "hlg", an exponent, or a table of 256 or more
            values of 0 to 65,535.
        note: what is said of it, where the conversion guesses or loses something.
        narrow: levels 16 to 235 are black to white, as in video.
    """

    primaries: tuple[float, ...] = BT709
    curve: str | float | tuple[int, ...] = SRGB_CURVE
    note: str = ""
    narrow: bool = False

    @property
    def is_srgb(self) -> bool:
        """Whether its levels mean what sRGB's mean, as near as files say it."""
        near = all(abs(a - b) < 0.002 for a, b in zip(self.primaries, BT709, strict=True))
        return near and self.curve == SRGB_CURVE and not self.narrow


SRGB = Space()  # said in so many words


@dataclass(frozen=True)
class Told:
    """All of it: a space or a profile, and notes where a file says what is not known here.

    wins: whether it counts although the file has a profile as well.
    """

    space: Space | None = None
    profile: bytes | None = None
    notes: tuple[str, ...] = ()
    wins: bool = False


def of(exif: Image.Exif | None, data: bytes) -> Told:
    """What a picture's file says of its colors beside ``image.info["icc_profile"]``.

    Args:
        exif: its EXIF data, or a TIFF's first directory.
        data: the file's first bytes, a megabyte or all of them.
    """
    try:
        if data[:8] == b"\x89PNG\r\n\x1a\n":
            told = _of_png(data)
        elif data[4:8] == b"ftyp":
            told = _of_boxes(data)
        elif data[:2] == b"BM":
            told = _of_bmp(data)
        elif data[4:8] == b"jP  ":
            told = _of_jpeg2000(data)
        else:
            told = Told()
    except (struct.error, ValueError, IndexError):
        told = Told()
    said = told.wins or told.profile or told.notes or (told.space and not told.space.is_srgb)
    # The points of HEIC and AVIF are sRGB's by default, also where a camera's EXIF knows better.
    if said or told.space is SRGB:
        return told
    return Told(*_of_exif(exif))


# --- EXIF and TIFF --------------------------------------------------------------------------

_Tag = ExifTags.Base
_GAMMA, _TRANSFER, _WHITE, _PRIMARY = 0xA500, 301, 318, 319
_UNCALIBRATED, _ADOBE = 65535, 2


def _of_exif(whole: Image.Exif | None) -> tuple[Space | None, None, tuple[str, ...]]:
    """EXIF's color space, and the tags of TIFF that EXIF took over."""
    if whole is None:
        return None, None, ()
    try:
        details = dict(whole.get_ifd(ExifTags.IFD.Exif))
        pointed = _Tag.ExifInteroperabilityOffset in details
        related = dict(whole.get_ifd(ExifTags.IFD.Interop)) if pointed else {}
        space, index = details.get(_Tag.ColorSpace), related.get(1, "")
        index = index.decode("ascii", "replace") if isinstance(index, bytes) else str(index)
        tags = {tag: details.get(tag, whole.get(tag)) for tag in (_WHITE, _PRIMARY, _GAMMA)}
        transfer = whole.get(_TRANSFER)
    except Exception:  # a damaged block raises whatever its parsing runs into
        return None, None, ()
    if space == _ADOBE or (index.startswith("R03") and space != 1):
        return Space(ADOBE_RGB, 563 / 256), None, ()
    primaries = _chromaticities(tags[_WHITE], tags[_PRIMARY])
    curve: str | float | tuple[int, ...] | None = _curve(transfer)
    gamma = _number(tags[_GAMMA])
    if curve is None and gamma and 0.2 < gamma < 5:
        curve = SRGB_CURVE if abs(gamma - 2.2) < 0.03 else gamma
    if space == 1:
        return None, None, ()
    if primaries or curve:
        if curve is None and primaries and _near(primaries, ADOBE_RGB):
            curve = 563 / 256
        return Space(primaries or BT709, curve or SRGB_CURVE), None, ()
    if space == _UNCALIBRATED and not index.startswith("R98"):
        note = "its EXIF data says that its colors are not sRGB, but not which; read as sRGB"
        return Space(note=note), None, ()
    return None, None, ()


def _number(value: Any) -> float | None:
    try:
        number = float(value[0] if isinstance(value, tuple) else value)
    except (TypeError, ValueError, IndexError, ZeroDivisionError):
        return None
    return number if number == number else None


def _chromaticities(white: Any, primaries: Any) -> tuple[float, ...] | None:
    try:
        values = (*(float(v) for v in primaries), *(float(v) for v in white or _D65))
    except (TypeError, ValueError, ZeroDivisionError):
        return None
    return values if len(values) == 8 and _is_gamut(values) else None


def _is_gamut(values: tuple[float, ...]) -> bool:
    """Whether the primaries span a triangle with the white inside."""
    if not all(-0.2 <= v <= 1.1 for v in values) or values[7] < 0.05:
        return False
    (rx, ry, gx, gy, bx, by, wx, wy) = values

    def side(ax: float, ay: float, cx: float, cy: float) -> float:
        return (cx - ax) * (wy - ay) - (cy - ay) * (wx - ax)

    sides = (side(rx, ry, gx, gy), side(gx, gy, bx, by), side(bx, by, rx, ry))
    return all(s > 1e-4 for s in sides) or all(s < -1e-4 for s in sides)


def _near(values: tuple[float, ...], others: tuple[float, ...]) -> bool:
    return all(abs(a - b) < 0.002 for a, b in zip(values, others, strict=True))


def _curve(table: object) -> tuple[int, ...] | None:
    """TIFF's TransferFunction for 8 bits; one of three channels counts for all."""
    if not isinstance(table, tuple) or len(table) not in (256, 768):
        return None
    curve = tuple(int(v) for v in table[:256])
    return curve if curve[-1] > curve[0] and all(0 <= v <= 65535 for v in curve) else None


# --- PNG ------------------------------------------------------------------------------------


def _of_png(data: bytes) -> Told:
    chunks = dict(_chunks(data))
    if len(chunks.get(b"cICP", b"")) >= 4:
        ends, transfer, matrix, full = chunks[b"cICP"][:4]
        told = _of_points(ends, transfer)
        is_whole = ends in _PRIMARIES and transfer in _CURVES
        # Before a profile and all else (PNG, third edition, 4.3) where it tells all; a picture of
        # brightness and differences (a matrix) is none of PNG's.
        if told.space is not None and matrix == 0 and (is_whole or b"iCCP" not in chunks):
            return replace(told, space=replace(told.space, narrow=full == 0), wins=True)
    if b"iCCP" in chunks or b"sRGB" in chunks:
        return Told(SRGB)
    primaries, curve = None, None
    if len(chunks.get(b"cHRM", b"")) >= 32:
        wx, wy, *others = (v / 100_000 for v in struct.unpack(">8L", chunks[b"cHRM"][:32]))
        primaries = (*others, wx, wy)
        primaries = primaries if _is_gamut(primaries) else None
    if len(chunks.get(b"gAMA", b"")) >= 4:
        gamma = struct.unpack(">L", chunks[b"gAMA"][:4])[0] / 100_000
        # 1/2.2 is how programs say sRGB to those that know no better.
        if 0.1 <= gamma <= 5:
            curve = SRGB_CURVE if abs(gamma - 1 / 2.2) < 0.005 else 1 / gamma
    if primaries and curve == SRGB_CURVE and _near(primaries, ADOBE_RGB):
        curve = 563 / 256
    return Told(Space(primaries or BT709, curve or SRGB_CURVE)) if primaries or curve else Told()


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    place = 8
    while place + 8 <= len(data):
        length = int.from_bytes(data[place : place + 4], "big")
        kind = data[place + 4 : place + 8]
        if kind in (b"IDAT", b"IEND"):
            return
        yield kind, data[place + 8 : place + 8 + min(length, 1024)]
        place += 12 + length


# --- Coding points and boxes ----------------------------------------------------------------


def _of_points(primaries: int, transfer: int) -> Told:
    """H.273's numbers; 2 is "not said", and so is what it does not define."""
    curve = _CURVES.get(transfer)
    if curve is None and primaries not in _PRIMARIES:
        return Told()
    note = ""
    if curve in (PQ, HLG):
        kind = "PQ" if curve == PQ else "HLG"
        note = f"its high dynamic range ({kind}) was brought into that of a screen"
    return Told(Space(_PRIMARIES.get(primaries, BT709), curve or SRGB_CURVE, note))


def _of_boxes(data: bytes) -> Told:
    """The coding points of the first (the primary) picture of a HEIC or AVIF file."""
    meta = dict(boxes(data)).get(b"meta", b"")[4:]
    within = dict(boxes(meta))
    item = within.get(b"pitm", b"")
    primary = int.from_bytes(item[4:6] if item[:1] == b"\0" else item[4:8], "big")
    properties = dict(boxes(within.get(b"iprp", b"")))
    listed = list(boxes(properties.get(b"ipco", b"")))
    own = _properties_of(primary, properties.get(b"ipma", b""))
    colors = [
        box for index, (kind, box) in enumerate(listed, 1) if kind == b"colr" and index in own
    ]
    if any(color[:4] in (b"prof", b"rICC") for color in colors):
        return Told()  # the reader's own profile
    for color in colors:
        if color[:4] == b"nclx":
            return _of_points(*struct.unpack(">HH", color[4:8]))
    return Told()


def boxes(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The boxes of an ISO file (ISO 14496-12), each by its kind and what is in it."""
    place = 0
    while place + 8 <= len(data):
        size, start = int.from_bytes(data[place : place + 4], "big"), 8
        if size == 1:
            size, start = int.from_bytes(data[place + 8 : place + 16], "big"), 16
        size = size or len(data) - place
        if size < start:
            return
        yield data[place + 4 : place + 8], data[place + start : place + size]
        place += size


def _properties_of(item: int, table: bytes) -> set[int]:
    """The numbers of an item's properties (ISO 23008-12, ItemPropertyAssociation)."""
    version, wide = table[0], table[3] & 1
    (count,) = struct.unpack(">L", table[4:8])
    place = 8
    for _ in range(min(count, 65_536)):
        size = 2 if version == 0 else 4
        found = int.from_bytes(table[place : place + size], "big")
        number = table[place + size]
        place += size + 1
        width = 2 if wide else 1
        numbers = [
            int.from_bytes(table[place + width * i : place + width * (i + 1)], "big")
            & (0x7FFF if wide else 0x7F)
            for i in range(number)
        ]
        place += width * number
        if found == item:
            return set(numbers)
    return set()


def _of_jpeg2000(data: bytes) -> Told:
    for kind, box in boxes(data):
        if kind != b"jp2h":
            continue
        for inner, color in boxes(box):
            if inner == b"colr" and color[0] in (2, 3):
                return Told(profile=color[3:])
            if inner == b"colr" and color[0] == 1:
                number = int.from_bytes(color[3:7], "big")
                if number == 21:  # ROMM RGB, which is ProPhoto's
                    romm = (0.7347, 0.2653, 0.1596, 0.8404, 0.0366, 0.0001, 0.3457, 0.3585)
                    return Told(Space(romm, 1.8))
                if number not in (0, 1, 12, 14, 15, 16, 17, 18):
                    return Told(notes=("its color space is not known here; read as sRGB",))
    return Told()


def _of_bmp(data: bytes) -> Told:
    """The color space of BMP's fourth and fifth header."""
    (size,) = struct.unpack("<L", data[14:18])
    if size < 108:
        return Told()
    kind = data[14 + 56 : 14 + 60][::-1]
    if kind == b"MBED" and size >= 124:
        offset, length = struct.unpack("<LL", data[14 + 112 : 14 + 120])
        if 14 + offset + length > len(data):
            return Told(notes=("its color profile was not found and was ignored",))
        return Told(profile=data[14 + offset : 14 + offset + length])
    if kind == b"LINK":
        return Told(notes=("its color profile is in another file and was ignored",))
    if kind != b"\0\0\0\0":
        return Told()
    ends = struct.unpack("<9L", data[14 + 60 : 14 + 96])
    gammas = struct.unpack("<3L", data[14 + 96 : 14 + 108])
    points = [v / 2**30 for v in ends]  # X, Y and Z of red, green and blue
    if not any(points):
        return Told()
    xy = []
    for x, y, z in zip(points[0::3], points[1::3], points[2::3], strict=True):
        total = x + y + z
        xy += [x / total, y / total] if total else [0.0, 0.0]
    white = [sum(points[i::3]) for i in range(3)]
    values = (*xy, white[0] / sum(white), white[1] / sum(white))
    gamma = gammas[1] / 65_536
    curve = gamma if 0.2 < gamma < 5 and abs(gamma - 2.2) > 0.03 else SRGB_CURVE
    return Told(Space(values, curve)) if _is_gamut(values) else Told()
