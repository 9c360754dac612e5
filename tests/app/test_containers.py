"""What small files hold is known before any of it is unpacked."""

import contextlib
import io
import struct
import time
import zlib

import numpy as np
import pytest
from PIL import Image

from app import images
from app.images import _containers

SIDE = 20_000  # 400 megapixels: 1.6 GB, were it unpacked
LIMIT = 100_000_000


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int, height: int, *more: bytes) -> bytes:
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0))
    data = chunk(b"IDAT", zlib.compress(bytes(1000)))
    return b"\x89PNG\r\n\x1a\n" + head + b"".join(more) + data + chunk(b"IEND", b"")


def icon(*inner: bytes) -> bytes:
    head, body = struct.pack("<HHH", 0, 1, len(inner)), b""
    for one in inner:
        place = 6 + 16 * len(inner) + len(body)
        head += struct.pack("<BBBBHHII", 16, 16, 0, 0, 1, 32, len(one), place)
        body += one
    return head + body


def bitmap(width: int, height: int) -> bytes:
    return struct.pack("<IiiHHIIiiII", 40, width, 2 * height, 1, 32, 0, 0, 0, 0, 0, 0)


def mac_icon(inner: bytes) -> bytes:
    part = b"ic10" + struct.pack(">I", 8 + len(inner)) + inner
    return b"icns" + struct.pack(">I", 8 + len(part)) + part


def box(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", 8 + len(data)) + kind + data


def jpeg_2000(
    width: int, height: int, told: int = 16, tile: int = 256, components: int = 3
) -> bytes:
    sizes = struct.pack(">8I", width, height, 0, 0, tile, tile, 0, 0)
    siz = struct.pack(">HH", 38 + 3 * components, 0) + sizes + struct.pack(">H", components)
    stream = b"\xff\x4f\xff\x51" + siz + b"\x07\x01\x01" * min(components, 16)
    head = box(b"ihdr", struct.pack(">IIHBBBB", told, told, 3, 7, 7, 0, 0))
    return (
        box(b"jP  ", b"\r\n\x87\n")
        + box(b"ftyp", b"jp2 \0\0\0\0jp2 ")
        + box(b"jp2h", head)
        + box(b"jp2c", stream)
    )


def heif(
    brand: bytes, ispe: tuple[int, int], grid: tuple[int, int] | None = None, inside: bool = True
) -> bytes:
    """One item, or with `grid` one that is put together to that size: in idat, or in the file."""
    kind = b"grid" if grid else b"hvc1"
    described = struct.pack(">BBBBII", 0, 1, 1, 1, *(grid or (0, 0)))
    infe = box(b"infe", struct.pack(">IHH", 2 << 24, 1, 0) + kind + b"\0")
    iinf = box(b"iinf", struct.pack(">IH", 0, 1) + infe)
    property = box(b"ispe", struct.pack(">III", 0, *ispe))
    iprp = box(b"iprp", box(b"ipco", property))
    idat = box(b"idat", described) if inside else b""
    start = box(b"ftyp", brand + bytes(4) + brand)

    def whole(offset: int) -> bytes:
        iloc = struct.pack(
            ">IBBHHHHHII", 1 << 24, 0x44, 0, 1, 1, 1 if inside else 0, 0, 1, offset, 12
        )
        meta = box(b"meta", bytes(4) + iinf + box(b"iloc", iloc) + iprp + idat)
        return start + meta

    if inside:
        return whole(0)
    return whole(len(whole(0)) + 8) + box(b"mdat", described)


def webp(canvas: tuple[int, int], frame: tuple[int, int], inner: tuple[int, int]) -> bytes:
    def size(pair: tuple[int, int]) -> bytes:
        return b"".join((side - 1).to_bytes(3, "little") for side in pair)

    def part(kind: bytes, data: bytes) -> bytes:
        return kind + struct.pack("<I", len(data)) + data + bytes(len(data) & 1)

    bits = (inner[0] - 1) | (inner[1] - 1) << 14
    picture = part(b"VP8L", b"\x2f" + struct.pack("<I", bits) + bytes(20))
    anmf = part(b"ANMF", bytes(6) + size(frame) + bytes(4) + picture)
    body = part(b"VP8X", bytes([2, 0, 0, 0]) + size(canvas)) + part(b"ANIM", bytes(6)) + anmf
    return b"RIFF" + struct.pack("<I", 4 + len(body)) + b"WEBP" + body


def gif(screen: tuple[int, int], frame: tuple[int, int]) -> bytes:
    head = b"GIF89a" + struct.pack("<HHBBB", *screen, 0x80, 0, 0) + bytes(6)
    return head + b"\x2c" + struct.pack("<HHHHB", 0, 0, *frame, 0) + b"\x02\x01\x44\0\x3b"


def tiff(width: int, height: int, tile: int, big: bool = False) -> bytes:
    tags = {
        256: width,
        257: height,
        258: 8,
        259: 8,
        262: 1,
        277: 1,
        322: tile,
        323: tile,
        324: 0,
        325: 0,
    }
    if big:
        table = b"".join(struct.pack("<HHQQ", tag, 4, 1, value) for tag, value in tags.items())
        return struct.pack("<2sHHHQQ", b"II", 43, 8, 0, 16, len(tags)) + table + bytes(8)
    table = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    return struct.pack("<2sHIH", b"II", 42, 8, len(tags)) + table + bytes(4)


def psd(side: int, resources: bytes = b"") -> bytes:
    head = b"8BPS\0\1" + bytes(6) + struct.pack(">HIIHH", 3, side, side, 8, 3)
    return head + struct.pack(">II", 0, len(resources)) + resources + bytes(4 + 2 + 3 * 16 * 16)


RESOURCES = b"8BIM\3\xed\2ab\0\0\0\0\1x\0" + b"8BIM\3\xed\0\0\0\0\0\2xy"


LARGE = {
    "PSD": psd(SIDE),
    "icon with a PNG": icon(png(SIDE, SIDE)),
    "icon whose second picture is large": icon(png(16, 16), png(SIDE, SIDE)),
    "icon with a bitmap": icon(bitmap(SIDE, SIDE)),
    "icon of macOS": mac_icon(png(SIDE, SIDE)),
    "icon of macOS with JPEG 2000": mac_icon(jpeg_2000(SIDE, SIDE)),
    "PNG": png(SIDE, SIDE),
    "animated PNG": png(16, 16, chunk(b"fcTL", struct.pack(">5I", 0, SIDE, SIDE, 0, 0) + bytes(6))),
    "JPEG 2000 that is larger than its box says": jpeg_2000(SIDE, SIDE, told=16),
    "JPEG 2000 of one tile": jpeg_2000(SIDE, SIDE, told=16, tile=SIDE),
    "bare codestream": jpeg_2000(SIDE, SIDE)[-60:]
    .partition(b"\xff\x4f")[2]
    .join([b"\xff\x4f", b""]),
    "HEIC": heif(b"heic", (SIDE, SIDE)),
    "HEIC grid": heif(b"heic", (512, 512), (SIDE, SIDE)),
    "HEIC grid in the file": heif(b"mif1", (512, 512), (SIDE, SIDE), inside=False),
    "AVIF": heif(b"avif", (SIDE, SIDE)),
    "animated WebP": webp((16_000, 16_000), (16, 16), (16, 16)),
    "WebP whose frame is large": webp((16, 16), (16_000, 16_000), (16, 16)),
    "WebP whose bits are large": webp((16, 16), (16, 16), (16_000, 16_000)),
    "GIF": gif((SIDE, SIDE), (16, 16)),
    "GIF whose frame is large": gif((16, 16), (SIDE, SIDE)),
    "TIFF whose tile is large": tiff(16, 16, SIDE),
    "BigTIFF whose tile is large": tiff(16, 16, SIDE, big=True),
}


@pytest.mark.parametrize("kind", LARGE)
def test_what_is_inside_is_compared_with_the_limit(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Image, "open", lambda *_, **__: pytest.fail("it was opened"))
    assert len(LARGE[kind]) < 10_000
    with pytest.raises(images.TooLargeError, match=r"megapixels; at most 100 are read"):
        images.load(io.BytesIO(LARGE[kind]), LIMIT)


def text(kind: bytes, size: int) -> bytes:
    """A PNG's chunk that unpacks to `size` zeros."""
    head = {b"zTXt": b"a\0\0", b"iCCP": b"a\0\0", b"iTXt": b"a\0\1\0en\0b\0"}[kind]
    return chunk(kind, head + zlib.compress(bytes(size), 9))


def scans(count: int, kind: bytes = b"\xff\xc2", side: int = 5000) -> bytes:
    frame = kind + struct.pack(">HBHHB", 11, 8, side, side, 1) + b"\x01\x11\0"
    scan = (
        b"\xff\xda" + struct.pack(">HBBB", 8, 1, 1, 0) + b"\0\0\0" + b"\x12\xff\0\x34\xff\xd0\x56"
    )
    return b"\xff\xd8" + b"\xff\xe0\0\x04ab" + frame + scan * count + b"\xff\xd9"


BOMBS = {
    "text of zeros": png(16, 16, *[text(b"zTXt", 2**20)] * 12),
    "international text": png(16, 16, *[text(b"iTXt", 2**20)] * 12),
    "profile": png(16, 16, text(b"iCCP", 50 * 2**20)),
    "profile in an icon": icon(png(16, 16, text(b"iCCP", 50 * 2**20))),
    "scans": scans(5000),
    "scans of a large picture": scans(60, side=9000),
    "empty segments": b"\xff\xd8" + b"\xff\xe5\0\2" * 600_000 + scans(1)[2:],
    "padding": b"\xff\xd8" + b"\xff" * 3_000_000 + scans(1)[2:],
    "nothing but padding": b"\xff\xd8" + b"\xff\0" * 3_000_000 + scans(1)[2:],
    "padding to its end": b"\xff\xd8\xff\xe0\0\x04ab" + b"\xff" * 3_000_000,
    "EXIF blocks": b"\xff\xd8" + (b"\xff\xe1\xff\xffExif\0\0" + bytes(65_527)) * 20 + scans(1)[2:],
    "empty segments behind the size": scans(0)[:-2] + b"\xff\xe5\0\2" * 600_000 + scans(1)[2:],
    "boxes": jpeg_2000(16, 16)[:12] + struct.pack(">I4s", 8, b"free") * 200_000,
    "a comment of many blocks": gif((1, 1), (1, 1))[:19] + b"\x21\xfe" + (b"\xff" * 256) * 6000,
    "scans, arithmetic": scans(200, b"\xff\xca"),
    "components": jpeg_2000(16, 16, components=16_000),
    "icon of many pictures": struct.pack("<HHH", 0, 1, 65_535) + bytes(16 * 65_535),
    "empty chunks": b"\x89PNG\r\n\x1a\n" + bytes(12) * 600_000,
    "empty blocks": gif((16, 16), (16, 16))[:-2] + b"\x01a" * 600_000,
    "frames": gif((1, 1), (1, 1))[:-1] + gif((1, 1), (1, 1))[19:-1] * 110_000,
    "resources": psd(16, RESOURCES * 5000),
    "strips": struct.pack("<2sHIHHHIII", b"II", 42, 8, 1, 273, 4, 300_000, 8, 0),
    "comment without an end": b"P6 #" + b"x" * 3_000_000,
    "comments": b"P2 64 64 255\n" + b"#a\n1\n" * 5000,
    "empty parts": b"RIFF\0\0\0\0WEBP" + b"ABCD\0\0\0\0" * 600_000,
}


@pytest.mark.parametrize("kind", BOMBS)
def test_what_no_picture_needs_is_refused(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "open", lambda *_, **__: pytest.fail("it was opened"))
    with pytest.raises(images.ImageError, match=r"is damaged: .*(more than|too many|of \d+)"):
        images.load(io.BytesIO(BOMBS[kind]), LIMIT)


FORMATS = ["JPEG", "PNG", "WEBP", "GIF", "TIFF", "JPEG2000", "AVIF", "ICO", "BMP", "HEIF", "PPM"]


@pytest.mark.parametrize("format", FORMATS)
def test_pictures_that_programs_write_pass(format: str) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (64, 96, 3), dtype=np.uint8)
    file = io.BytesIO()
    options = {"progressive": True, "quality": 90} if format == "JPEG" else {}
    frames = {"append_images": [Image.fromarray(pixels[::-1])], "save_all": True}
    if format in ("GIF", "WEBP", "PNG", "TIFF", "AVIF"):
        options |= frames
    Image.fromarray(pixels).save(file, format, **options)
    read = []
    file.seek(0)
    sizes = next(
        (sizes for is_one, sizes in _containers._KINDS if is_one(file.getvalue()[:16])), None
    )
    if sizes is not None:
        read = list(sizes(file))
        assert read or format == "TIFF"
        assert all(width <= 96 and height <= 64 for width, height in read)
    picture = images.load(file, 96 * 64)
    assert (picture.width, picture.height) in ((96, 64), *read)


@pytest.mark.parametrize("coding", [1, 2])
def test_a_bmp_of_millions_of_run_lengths_is_refused(coding: int) -> None:
    head = b"BM" + struct.pack("<IHHI", 0, 0, 0, 54 + 1024)
    head += struct.pack(
        "<IiiHHIIiiII", 40, 16, 16, 1, 8 // coding, coding, 0, 0, 0, 256 // coding**4, 0
    )
    runs = b"\x10\1\0\0" * 16 + b"\0\1"
    assert images.load(io.BytesIO(head + bytes(1024) + runs)).width == 16
    with pytest.raises(images.ImageError, match="more than 8 MB of run lengths; save it as PNG"):
        images.load(io.BytesIO(head + bytes(1024) + runs * 140_000))


def test_a_ppm_of_millions_of_digits_is_refused() -> None:
    plain = b"P3 40 30 255\n" + b"1 " * (3 * 40 * 30)
    assert images.load(io.BytesIO(plain)).width == 40
    with pytest.raises(images.ImageError, match="more than 24 MB of digits; save it as PNG"):
        images.load(io.BytesIO(plain + b" " * (25 * 2**20)))


def test_a_psd_of_a_few_resources_is_read() -> None:
    file = io.BytesIO(psd(16, RESOURCES * 100))
    assert list(_containers._psd(file)) == [(16, 16)]
    picture = images.load(file)
    assert (picture.width, picture.height) == (16, 16)
    # The count is of whole resources: it ends where they do.
    with pytest.raises(images.ImageError, match="too many parts"):
        images.load(io.BytesIO(psd(16, RESOURCES * 2501)))
    assert images.load(io.BytesIO(psd(16, RESOURCES * 2499))).width == 16


def test_short_and_mutated_files_end_soon() -> None:
    """Whatever the bytes, it goes forward in them."""
    random = np.random.default_rng(1)
    for kind, whole in {**LARGE, **{name: BOMBS[name][:3000] for name in BOMBS}}.items():
        for _ in range(10):
            data = bytearray(whole[: random.integers(1, len(whole) + 1)])
            for place in random.integers(0, len(data), 5):
                data[place] = random.integers(0, 256)
            began = time.process_time()
            with contextlib.suppress(images.ImageError):
                _containers.check(io.BytesIO(bytes(data)), "x", LIMIT)
            assert time.process_time() - began < 5, kind
