"""Colors, kinds and endings of files as cameras, phones, scanners and other programs leave them."""

import io
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import skimage.data
import tifffile
from PIL import Image, ImageCms

from app import images
from app.images import ImageError

GREEN = (119, 199, 73)  # of Adobe RGB, which is (49, 200, 58) of sRGB


@pytest.fixture(scope="module")
def photo() -> np.ndarray:
    return np.ascontiguousarray(skimage.data.chelsea()[:60, :90])


def shown(path: Path) -> np.ndarray:
    """The mean color of a file, as it is read."""
    return images.load(path).rgb.reshape(-1, 3).mean(axis=0)


def assert_color(path: Path, wanted: tuple[int, ...], within: float = 3) -> None:
    assert np.abs(shown(path) - wanted).max() <= within, shown(path)


def to_srgb(rgb: tuple[int, ...], to_xyz: np.ndarray, gamma: float) -> np.ndarray:
    """What sRGB shows for a color of a space with D65, by the book."""
    srgb = np.array(
        [
            [0.4124564, 0.3575761, 0.1804375],
            [0.2126729, 0.7151522, 0.0721750],
            [0.0193339, 0.1191920, 0.9503041],
        ]
    )
    linear = np.linalg.solve(srgb, to_xyz @ (np.array(rgb) / 255) ** gamma).clip(0, 1)
    curved = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return 255 * curved


ADOBE = np.array(
    [
        [0.5767309, 0.1855540, 0.1881852],
        [0.2973769, 0.6273491, 0.0752741],
        [0.0270343, 0.0706872, 0.9911085],
    ]
)
P3 = np.array(
    [
        [0.4865709, 0.2656677, 0.1982173],
        [0.2289746, 0.6917385, 0.0792869],
        [0.0, 0.0451134, 1.0439444],
    ]
)


def adobe_exif(*, color_space: int | None = 65535, index: bytes | None = b"R03\0") -> bytes:
    """An EXIF block as cameras write it that are set to Adobe RGB."""
    entries = []
    if color_space is not None:
        entries.append(struct.pack("<HHII", 0xA001, 3, 1, color_space))
    place = 26 + 2 + 12 * (len(entries) + (index is not None)) + 4
    if index is not None:
        entries.append(struct.pack("<HHII", 0xA005, 4, 1, place))
    first = struct.pack("<HHHII", 1, 0x8769, 4, 1, 26) + bytes(4)
    details = struct.pack("<H", len(entries)) + b"".join(entries) + bytes(4)
    related = b""
    if index is not None:
        related = struct.pack("<HHHI4s", 1, 1, 2, 4, index) + bytes(4)
    return b"Exif\0\0II*\0" + struct.pack("<I", 8) + first + details + related


# --- Colors ---------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "heic", "avif"])
def test_adobe_rgb_told_by_exif_alone_is_converted(tmp_path, suffix):
    options = {"lossless": True} if suffix == "webp" else {"quality": 98}
    options |= {"subsampling": "4:4:4"} if suffix in ("jpg", "avif") else {}
    picture = Image.new("RGB", (64, 64), GREEN)
    picture.save(tmp_path / f"a.{suffix}", exif=adobe_exif(), **options)
    assert_color(tmp_path / f"a.{suffix}", tuple(to_srgb(GREEN, ADOBE, 563 / 256)), within=6)
    assert images.load(tmp_path / f"a.{suffix}").notes == ()


@pytest.mark.parametrize(
    ("color_space", "index", "converted", "noted"),
    [
        (65535, b"R03\0", True, False),
        (None, b"R03\0", True, False),
        (2, None, True, False),  # what some programs write for it
        (1, None, False, False),
        (1, b"R98\0", False, False),
        (65535, b"R98\0", False, False),
        (65535, None, False, True),
        (65535, b"THM\0", False, True),
    ],
)
def test_exif_says_which_colors_are_meant(tmp_path, color_space, index, converted, noted):
    exif = adobe_exif(color_space=color_space, index=index)
    Image.new("RGB", (16, 16), GREEN).save(tmp_path / "a.png", exif=exif)
    wanted = to_srgb(GREEN, ADOBE, 563 / 256) if converted else GREEN
    assert_color(tmp_path / "a.png", tuple(wanted), within=1.5)
    assert bool(images.load(tmp_path / "a.png").notes) == noted


def test_a_profile_counts_more_than_exif(tmp_path):
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    picture = Image.new("RGB", (16, 16), GREEN)
    picture.save(tmp_path / "a.png", exif=adobe_exif(), icc_profile=profile)
    assert_color(tmp_path / "a.png", GREEN, within=0)


def test_results_of_adobe_rgb_say_that_they_are_srgb(tmp_path):
    Image.new("RGB", (16, 16), GREEN).save(tmp_path / "a.png", exif=adobe_exif())
    images.save(images.load(tmp_path / "a.png"), tmp_path / "b.png")
    assert np.array_equal(images.load(tmp_path / "b.png").rgb, images.load(tmp_path / "a.png").rgb)


def png(color: tuple[int, ...], *chunks: tuple[bytes, bytes]) -> bytes:
    """A PNG of one color with chunks of one's own."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">L", len(data)) + kind + data + struct.pack(">L", zlib.crc32(kind + data))
        )

    header = chunk(b"IHDR", struct.pack(">LLBBBBB", 8, 8, 8, 2, 0, 0, 0))
    pixels = chunk(b"IDAT", zlib.compress((b"\0" + bytes(color) * 8) * 8))
    own = b"".join(chunk(*one) for one in chunks)
    return b"\x89PNG\r\n\x1a\n" + header + own + pixels + chunk(b"IEND", b"")


SRGB_ENDS = (31270, 32900, 64000, 33000, 30000, 60000, 15000, 6000)
P3_ENDS = (31270, 32900, 68000, 32000, 26500, 69000, 15000, 6000)
GRAY = (100, 100, 100)
SRGB_PROFILE = (
    b"iCCP",
    b"sRGB\0\0" + zlib.compress(ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()),
)


@pytest.mark.parametrize(
    ("color", "chunks", "wanted"),
    [
        (GRAY, [(b"gAMA", struct.pack(">L", 45455))], GRAY),
        (GRAY, [(b"gAMA", struct.pack(">L", 100000))], (168, 168, 168)),  # linear light
        (GRAY, [(b"gAMA", struct.pack(">L", 55556))], (119, 119, 119)),  # the Mac's old 1.8
        ((200, 60, 90), [(b"cHRM", struct.pack(">8L", *SRGB_ENDS))], (200, 60, 90)),
        ((200, 60, 90), [(b"cHRM", struct.pack(">8L", *P3_ENDS))], "p3"),
        (
            (200, 60, 90),
            [(b"gAMA", struct.pack(">L", 45455)), (b"cHRM", struct.pack(">8L", *P3_ENDS))],
            "p3",
        ),
        ((200, 60, 90), [(b"cICP", bytes((12, 13, 0, 1)))], "p3"),
        ((200, 60, 90), [(b"cICP", bytes((1, 13, 0, 1)))], (200, 60, 90)),
        # Before a profile, if it tells all and is one of PNG's; its levels may be a video's.
        ((200, 60, 90), [SRGB_PROFILE, (b"cICP", bytes((12, 13, 0, 1)))], "p3"),
        ((200, 60, 90), [SRGB_PROFILE, (b"cICP", bytes((12, 2, 0, 1)))], (200, 60, 90)),
        ((200, 60, 90), [SRGB_PROFILE, (b"cICP", bytes((12, 13, 1, 1)))], (200, 60, 90)),
        ((126, 16, 235), [(b"cICP", bytes((1, 13, 0, 0)))], (128, 0, 255)),
        ((200, 60, 90), [(b"sRGB", b"\0"), (b"gAMA", struct.pack(">L", 100000))], (200, 60, 90)),
        (GRAY, [(b"gAMA", struct.pack(">L", 0))], GRAY),
        (GRAY, [(b"cHRM", bytes(32))], GRAY),
    ],
)
def test_a_png_says_in_chunks_which_colors_it_has(tmp_path, color, chunks, wanted):
    (tmp_path / "a.png").write_bytes(png(color, *chunks))
    if wanted == "p3":
        level = (np.array(color) / 255)[None]
        light = np.where(level <= 0.04045, level / 12.92, ((level + 0.055) / 1.055) ** 2.4)[0]
        wanted = to_srgb(255 * light, P3, 1.0)
    assert_color(tmp_path / "a.png", tuple(wanted), within=1.5)
    assert images.load(tmp_path / "a.png").notes == ()


@pytest.mark.parametrize(("transfer", "name"), [(16, "PQ"), (18, "HLG")])
def test_a_high_dynamic_range_is_brought_into_a_screens(tmp_path, transfer, name):
    levels = []
    for level in (0, 60, 110, 148, 190, 255):
        data = png((level,) * 3, (b"cICP", bytes((9, transfer, 0, 1))))
        (tmp_path / "hdr.png").write_bytes(data)
        picture = images.load(tmp_path / "hdr.png")
        assert len(picture.notes) == 1 and name in picture.notes[0]
        assert np.ptp(picture.rgb[0, 0].astype(int)) <= 1  # gray stays gray
        levels.append(int(picture.rgb[0, 0, 0]))
    assert levels == sorted(levels) and levels[0] == 0 and 250 <= levels[-1] <= 255
    if name == "PQ":  # 148 of 255 is 203 cd/m², sRGB's white
        assert 225 <= levels[3] <= 245
        assert levels[4] > levels[3]


def nclx_exchanged(data: bytes, points: tuple[int, int]) -> bytes:
    place = data.index(b"nclx") + 4
    return data[:place] + struct.pack(">HH", *points) + data[place + 4 :]


@pytest.mark.parametrize("suffix", ["avif", "heic"])
@pytest.mark.parametrize("points", [(12, 13), (9, 16), (1, 13), (2, 2)])
def test_coding_points_of_heic_and_avif_are_read(tmp_path, suffix, points):
    color = (200, 60, 90)
    file = io.BytesIO()
    format = "AVIF" if suffix == "avif" else "HEIF"
    options = {"subsampling": "4:4:4"} if suffix == "avif" else {"chroma": 444}
    Image.new("RGB", (64, 64), color).save(file, format, quality=95, **options)
    if b"nclx" not in file.getvalue():
        pytest.skip("this writer leaves them out")
    path = tmp_path / f"a.{suffix}"
    path.write_bytes(nclx_exchanged(file.getvalue(), (1, 13)))
    plain = shown(path)
    path.write_bytes(nclx_exchanged(file.getvalue(), points))
    notes = images.load(path).notes
    if points == (12, 13):
        level = plain / 255
        light = np.where(level <= 0.04045, level / 12.92, ((level + 0.055) / 1.055) ** 2.4)
        assert_color(path, tuple(to_srgb(tuple(255 * light), P3, 1.0)), within=4)
    elif points == (9, 16):
        assert len(notes) == 1 and "PQ" in notes[0]
        assert np.abs(shown(path) - plain).max() > 20
    else:
        assert_color(path, tuple(plain), within=1)
    assert (notes == ()) == (points != (9, 16))


@pytest.mark.parametrize("number", [np.uint8, np.uint16])
def test_the_tags_of_a_tiff_say_which_colors_it_has(tmp_path, number):
    factor = 257 if number is np.uint16 else 1
    pixels = np.full((8, 8, 3), GREEN, number) * number(factor)
    ends = (64, 100, 33, 100, 21, 100, 71, 100, 15, 100, 6, 100)
    tags = [(318, "2I", 2, (3127, 10000, 3290, 10000), True), (319, "2I", 6, ends, True)]
    tifffile.imwrite(tmp_path / "a.tif", pixels, photometric="rgb", extratags=tags)
    assert_color(tmp_path / "a.tif", tuple(to_srgb(GREEN, ADOBE, 563 / 256)), within=2)


def test_the_transfer_function_of_a_tiff_is_followed(tmp_path):
    linear = tuple(257 * level for level in range(256)) * 3
    tags = [(301, "H", 768, linear, True)]
    pixels = np.full((8, 8, 3), 100, np.uint8)
    tifffile.imwrite(tmp_path / "a.tif", pixels, photometric="rgb", extratags=tags)
    assert_color(tmp_path / "a.tif", (168, 168, 168), within=1)


def test_a_bmp_says_in_its_header_which_colors_it_has(tmp_path):
    file = io.BytesIO()
    Image.new("RGB", (8, 8), (100, 100, 100)).save(file, "BMP")
    data = file.getvalue()
    pixels = data[54:]
    ends = [0.4124, 0.2126, 0.0193, 0.3576, 0.7152, 0.1192, 0.1805, 0.0722, 0.9505]
    space = struct.pack("<L9L3L", 0, *(round(v * 2**30) for v in ends), *([1 << 16] * 3))
    header = struct.pack("<L", 108) + data[18:54] + bytes(16) + space
    start = struct.pack("<2sLLL", b"BM", 14 + 108 + len(pixels), 0, 14 + 108)
    (tmp_path / "a.bmp").write_bytes(start + header + pixels)
    assert_color(tmp_path / "a.bmp", (168, 168, 168), within=1)


def test_cmyk_without_a_profile_is_read_with_a_note(tmp_path, photo):
    for name, options in (("a.jpg", {"quality": 95}), ("a.tif", {})):
        Image.fromarray(photo).convert("CMYK").save(tmp_path / name, **options)
        picture = images.load(tmp_path / name)
        assert np.abs(picture.rgb.astype(int) - photo).mean() < 6
        assert len(picture.notes) == 1 and "CMYK" in picture.notes[0]


def test_a_cmyk_jpeg_without_adobes_marker_is_not_inverted(tmp_path, photo):
    cmyk = Image.fromarray(photo).convert("CMYK")
    cmyk.save(tmp_path / "a.jpg", quality=95)
    data = (tmp_path / "a.jpg").read_bytes()
    place = data.index(b"\xff\xee")
    plain = data[:place] + data[place + 2 + int.from_bytes(data[place + 2 : place + 4], "big") :]
    (tmp_path / "b.jpg").write_bytes(plain)
    # Pillow wrote inverted numbers for the marker: without it, they are what they say.
    one, other = (images.load(tmp_path / name).rgb.astype(int) for name in ("a.jpg", "b.jpg"))
    assert np.abs(one - other).mean() > 20


def test_a_gain_map_is_named(tmp_path, photo):
    file = io.BytesIO()
    xmp = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:Description hdrgm:Version="1.0"/></x:xmpmeta>'
    Image.fromarray(photo).save(file, "JPEG", quality=95, xmp=xmp)
    (tmp_path / "phone.jpg").write_bytes(file.getvalue())
    picture = images.load(tmp_path / "phone.jpg")
    assert len(picture.notes) == 1 and "gain map" in picture.notes[0]
    assert np.abs(picture.rgb.astype(int) - photo).mean() < 4


# --- Camera raw files -----------------------------------------------------------------------


def jpeg(pixels: np.ndarray, **options) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=95, **options)
    return file.getvalue()


def raw_tiff(path: Path, previews: list[bytes], orientation: int = 1) -> None:
    """A TIFF-like raw file: a thumbnail in the first directory, readings below, JPEGs behind."""
    readings = np.random.default_rng(0).integers(0, 65535, (60, 90), dtype=np.uint16)
    with tifffile.TiffWriter(path) as tiff:
        tags = [(50706, "B", 4, (1, 4, 0, 0), True), (274, "H", 1, orientation, True)]
        tiff.write(
            np.full((12, 16, 3), 90, np.uint8),
            photometric="rgb",
            subfiletype=1,
            subifds=1,
            extratags=tags,
        )
        tiff.write(readings, photometric=32803)
    with open(path, "ab") as file:
        for preview in previews:
            file.write(b"\0" * 64 + preview)


@pytest.mark.parametrize("suffix", ["dng", "nef", "arw", "cr2", "pef", "tif"])
@pytest.mark.parametrize("orientation", [1, 6])
def test_of_a_raw_file_the_largest_jpeg_is_read_upright(tmp_path, photo, suffix, orientation):
    path = tmp_path / f"a.{suffix}"
    raw_tiff(path, [jpeg(photo[::4, ::4]), jpeg(photo), jpeg(photo[::2, ::2])], orientation)
    picture = images.load(path)
    wanted = photo if orientation == 1 else np.rot90(photo, -1)
    assert picture.rgb.shape == wanted.shape
    assert np.abs(picture.rgb.astype(int) - wanted).mean() < 5
    assert "is a camera raw file" in picture.notes[0]
    assert "90 x 60 pixels" in picture.notes[0]


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("a.raf", b"FUJIFILMCCD-RAW 0201FF"),
        ("a.cr3", b"\0\0\0\x18ftypcrx \0\0\0\1crx isom"),
        ("a.orf", b"IIRO\x08\0\0\0" + bytes(64)),
        ("a.rw2", b"IIU\0\x08\0\0\0" + bytes(64)),
        ("a.x3f", b"FOVb" + bytes(64)),
        ("a.mrw", b"\0MRM" + bytes(64)),
        ("a.3fr", bytes(64)),
        ("without a suffix", b"FUJIFILMCCD-RAW 0201FF"),
    ],
)
def test_raw_files_of_every_maker_are_looked_into(tmp_path, photo, name, head):
    (tmp_path / name).write_bytes(head + b"\xff\xd8\xff\x00" + bytes(500) + jpeg(photo) + bytes(99))
    picture = images.load(tmp_path / name)
    assert np.abs(picture.rgb.astype(int) - photo).mean() < 5
    assert "is a camera raw file" in picture.notes[0]
    with pytest.raises(images.TooLargeError):
        images.load(tmp_path / name, max_pixels=60 * 90 - 1)


def test_a_raw_file_without_a_picture_says_what_to_do(tmp_path):
    raw_tiff(tmp_path / "a.dng", [])
    for name in ("b.nef", "c.cr3", "d.raw"):
        (tmp_path / name).write_bytes(b"readings" * 100)
        with pytest.raises(
            ImageError, match=r"is a camera raw file.* without a picture.*develop it"
        ):
            images.load(tmp_path / name)


def test_a_plain_picture_in_a_raw_file_is_read(tmp_path):
    with tifffile.TiffWriter(tmp_path / "photo.dng") as tiff:
        small = np.full((12, 16, 3), 90, np.uint8)
        tiff.write(small, photometric="rgb", subfiletype=1, subifds=1)
        tiff.write(np.full((120, 160, 3), 91, np.uint8), photometric="rgb")
    picture = images.load(tmp_path / "photo.dng")
    assert picture.rgb.shape == (120, 160, 3) and picture.rgb.min() == 91
    assert "160 x 120" in picture.notes[0]


def test_a_photo_named_like_a_raw_file_is_a_photo(tmp_path, photo):
    (tmp_path / "a.nef").write_bytes(jpeg(photo))
    assert images.load(tmp_path / "a.nef").notes == ()


# --- Kinds that are refused -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.exr", b"\x76\x2f\x31\x01" + bytes(64), "OpenEXR"),
        ("a.hdr", b"#?RADIANCE\nFORMAT=32-bit_rle_rgbe\n\n-Y 8 +X 8\n", "Radiance"),
        ("a.pfm", b"PF\n8 8\n-1.0\n" + bytes(768), "PFM"),
        ("a.pfm", b"Pf\n8 8\n-1.0\n" + bytes(256), "PFM"),
        ("a.npy", b"\x93NUMPY\x01\0v\0{}", "NumPy"),
        ("a.svg", b'<svg xmlns="http://www.w3.org/2000/svg"/>', "SVG"),
        ("a.svg", b'\xef\xbb\xbf<?xml version="1.0"?>\n<!-- a -->\n<svg/>', "SVG"),
        ("a.pdf", b"%PDF-1.7\n", "PDF"),
        ("a.ai", b"%PDF-1.7\n", "PDF"),
        ("a.eps", b"%!PS-Adobe-3.0 EPSF-3.0\n", "PostScript"),
        ("a.psb", b"8BPS\0\x02" + bytes(64), "PSB"),
        ("a.xcf", b"gimp xcf v011\0", "GIMP"),
        ("a.jxr", b"II\xbc\x01" + bytes(64), "JPEG XR"),
        ("a.dds", b"DDS " + bytes(128), "DDS"),
        ("a.pam", b"P7\nWIDTH 1\n", "PAM"),
        ("a.ras", b"\x59\xa6\x6a\x95" + bytes(64), "Sun raster"),
        ("misnamed.png", b"\x8aMNG\r\n\x1a\n" + bytes(64), "MNG"),
        ("a.xbm", b"#define a_width 16\n", "X Window"),
        ("misnamed.jpg", b"id=ImageMagick  version=1.0\n", "MIFF"),
        ("a.kra", b"PK\x03\x04", "Krita"),
        ("a.mp4", b"\0\0\0\x20ftypisom" + bytes(64), "app.video"),
        ("a.webm", b"\x1a\x45\xdf\xa3" + bytes(64), "app.video"),
        ("misnamed.jpg", b"%PDF-1.7\n", "PDF"),
        ("misnamed.png", b"\x76\x2f\x31\x01" + bytes(64), "OpenEXR"),
        ("a.psd", b"8BPS\0\x01" + bytes(6) + struct.pack(">HLLHH", 3, 8, 8, 16, 3), "Photoshop"),
        ("a.jpg", b"\xff\xd8\xff\xc3\0\x0b\x0c\0\x10\0\x10\x01\x01\x11\0", "12 bits"),
        ("a.dcm", bytes(128) + b"DICM" + bytes(64), "DICOM"),
    ],
)
def test_other_kinds_are_called_by_their_names(tmp_path, name, data, words):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ImageError) as caught:
        images.load(tmp_path / name)
    assert words in caught.value.reason
    assert caught.value.reason.startswith("is a")
    assert "; " in caught.value.reason  # what to do


# --- JPEG XL --------------------------------------------------------------------------------


def test_jpeg_xl_without_its_reader_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(images._jpeg_xl, "pillow_jxl", None)
    for data in (b"\xff\x0a" + bytes(40), b"\0\0\0\x0cJXL \r\n\x87\n" + bytes(40)):
        (tmp_path / "a.jxl").write_bytes(data)
        with pytest.raises(ImageError, match="is a JPEG XL picture; install pillow-jxl-plugin"):
            images.load(tmp_path / "a.jxl")


@pytest.mark.parametrize("container", [True, False])
@pytest.mark.parametrize("size", [(90, 60), (64, 64), (1, 1), (256, 8), (160, 90)])
def test_jpeg_xl_is_read_where_its_reader_is_installed(tmp_path, container, size):
    pytest.importorskip("pillow_jxl")
    pixels = np.asarray(Image.fromarray(skimage.data.coffee()).resize(size))
    path = tmp_path / "a.jxl"
    Image.fromarray(pixels).save(path, lossless=True, use_container=container)
    assert np.array_equal(images.load(path).rgb, pixels)
    # Its size is known before it is unpacked.
    with open(path, "rb") as file:
        assert images._jpeg_xl._size(file.read()) == size
    with pytest.raises(images.TooLargeError):
        images.load(path, max_pixels=size[0] * size[1] - 1)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ImageError):
        images.load(path)


# --- Endings --------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"restart_marker_blocks": 2}])
@pytest.mark.parametrize("missing", [1, 2])
@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
def test_a_jpeg_with_every_pixel_is_read_without_its_end(tmp_path, photo, options, missing, mode):
    path = tmp_path / "a.jpg"
    Image.fromarray(photo).convert(mode).save(path, quality=90, **options)
    whole = images.load(path)
    data = path.read_bytes()
    path.write_bytes(data[:-missing])
    cut = images.load(path)
    assert np.array_equal(cut.rgb, whole.rgb)
    assert cut.notes == (*whole.notes, "its last bytes are missing, after its last pixel")


@pytest.mark.parametrize("options", [{}, {"progressive": True}])
@pytest.mark.parametrize("missing", [12, 40, 200, 1000])
def test_a_jpeg_without_its_last_pixels_is_refused(tmp_path, photo, options, missing):
    path = tmp_path / "a.jpg"
    Image.fromarray(photo).save(path, quality=90, **options)
    data = path.read_bytes()
    path.write_bytes(data[:-missing])
    with pytest.raises(ImageError, match="is cut short"):
        images.load(path)


def test_a_progressive_jpeg_cut_between_two_scans_is_refused(tmp_path, photo):
    path = tmp_path / "a.jpg"
    Image.fromarray(photo).save(path, quality=90, progressive=True)
    data = path.read_bytes()
    scans = [i for i in range(len(data)) if data[i : i + 2] == b"\xff\xda"]
    assert len(scans) > 3
    tables = data.rfind(b"\xff\xc4", 0, scans[-1])
    path.write_bytes(data[: tables if tables > scans[-2] else scans[-1]])
    with pytest.raises(ImageError, match="is cut short"):
        images.load(path)


@pytest.mark.parametrize("missing", [1, 4, 12, 16, 20])
def test_a_png_with_every_pixel_is_read_without_its_end(tmp_path, photo, missing):
    path = tmp_path / "a.png"
    Image.fromarray(photo).save(path)
    path.write_bytes(path.read_bytes()[:-missing])
    picture = images.load(path)
    assert np.array_equal(picture.rgb, photo)
    if missing >= 12:
        assert picture.notes == ("its last bytes are missing, after its last pixel",)


@pytest.mark.parametrize("format", ["WEBP", "JPEG2000", "AVIF", "HEIF", "GIF", "BMP", "TIFF"])
def test_of_no_format_a_file_without_its_second_half_is_read(tmp_path, photo, format):
    file = io.BytesIO()
    Image.fromarray(photo).save(file, format)
    data = file.getvalue()
    path = tmp_path / f"a.{format.lower()}"
    for kept in (0.3, 0.6, 0.9):
        path.write_bytes(data[: int(kept * len(data))])
        with pytest.raises(ImageError):
            images.load(path)


def test_what_follows_the_pixels_may_be_missing(tmp_path, photo):
    for format, options in (("WEBP", {"exif": adobe_exif()}), ("JPEG2000", {})):
        file = io.BytesIO()
        Image.fromarray(photo).save(file, format, **options)
        path = tmp_path / f"a.{format.lower()}"
        path.write_bytes(file.getvalue()[:-2])
        assert images.load(path).notes[-1] == "its last bytes are missing, after its last pixel"


@pytest.mark.parametrize("behind", [b"", b"\xff\xda" * 9, bytes(2 << 20), b"\xff\xd8\xff\xda\x00"])
@pytest.mark.parametrize("suffix", ["jpg", "png"])
def test_what_lies_behind_a_pictures_end_is_none_of_it(tmp_path, photo, suffix, behind):
    # The clip of a moving photo, the rest of a screenshot that was cut to size.
    path = tmp_path / f"a.{suffix}"
    Image.fromarray(photo).save(path, exif=adobe_exif(color_space=1, index=None))
    path.write_bytes(path.read_bytes() + behind)
    assert images.load(path).notes == ()
