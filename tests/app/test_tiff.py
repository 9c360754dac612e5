"""TIFF: every combination of samples, planes, parts and compressions, right or refused by name."""

import functools
import io
import itertools
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

WIDTH, HEIGHT = 50, 40
_y, _x = np.mgrid[:HEIGHT, :WIDTH]
RGB = np.stack([5 * _x, 6 * _y, 2 * (_x + _y)], axis=-1).astype(np.uint8)
ALPHA = (5 * _x).astype(np.uint8)

NUMBERS = ("u1", "u2", "u4", "f2", "f4", "f8")
KINDS = ("gray", "inverted", "gray and alpha", "rgb", "rgba", "cmyk", "lab")
COMPRESSIONS = (None, "zlib", "lzma")


def widened(levels: np.ndarray, number: str) -> np.ndarray:
    if number[0] == "f":
        return (levels / 255).astype(number)
    factor = {"u1": 1, "u2": 257, "u4": 0x01010101}[number]
    return levels.astype(number) * np.array(factor, number)


@functools.cache
def in_lab() -> Image.Image:
    srgb, lab = ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB")
    return ImageCms.profileToProfile(Image.fromarray(RGB), srgb, lab, outputMode="LAB")


@functools.cache
def from_lab() -> np.ndarray:
    srgb, lab = ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB")
    return np.asarray(ImageCms.profileToProfile(in_lab(), lab, srgb, outputMode="RGB"))


def written(path: Path, kind: str, number: str, apart: bool, **options) -> None:
    """Writes RGB in one of the KINDS."""
    levels = {
        "gray": RGB[..., 0],
        "inverted": 255 - RGB[..., 0],
        "gray and alpha": np.dstack([RGB[..., 0], ALPHA]),
        "rgb": RGB,
        "rgba": np.dstack([RGB, ALPHA]),
        "cmyk": np.dstack([255 - RGB, np.zeros_like(ALPHA)]),
    }.get(kind)
    if kind == "lab":
        levels = np.asarray(in_lab())
    samples = widened(levels, number)
    if levels.ndim == 3:
        options["planarconfig"] = "separate" if apart else "contig"
        samples = np.ascontiguousarray(np.moveaxis(samples, -1, 0)) if apart else samples
    if "alpha" in kind or kind == "rgba":
        options["extrasamples"] = ["unassalpha"]
    photometric = {"gray": "minisblack", "gray and alpha": "minisblack", "inverted": "miniswhite"}
    photometric |= {"rgb": "rgb", "rgba": "rgb", "cmyk": "separated", "lab": "cielab"}
    tifffile.imwrite(path, samples, photometric=photometric[kind], **options)


def right(path: Path, kind: str) -> str | None:
    """None where the file is read as what was written; else what is wrong."""
    picture = images.load(path)
    wanted = RGB[..., :1].repeat(3, axis=2) if "gray" in kind or kind == "inverted" else RGB
    if kind == "lab":  # of 8 bits it tells fewer colors apart
        wanted = from_lab()
    if picture.rgb.shape != wanted.shape:
        return f"shape {picture.rgb.shape}"
    off = np.abs(picture.rgb.astype(int) - wanted)
    if off.max() > 1:
        return f"off by {off.max()}"
    if ("alpha" in kind or kind == "rgba") != (picture.alpha is not None):
        return "alpha"
    if picture.alpha is not None and np.abs(picture.alpha.astype(int) - ALPHA).max() > 1:
        return "other alpha"
    return None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", NUMBERS)
def test_every_combination_is_right_or_refused_by_name(tmp_path, kind, number):
    path = tmp_path / "a.tif"
    wrong, read = [], 0
    layouts = itertools.product(
        (False, True) if kind not in ("gray", "inverted") else (False,),
        (None, (16, 32)),
        COMPRESSIONS,
        "<>",
        (False, True),
        (False, True),
    )
    for apart, tile, compression, order, big, predicted in layouts:
        if predicted and (compression != "zlib" or number[0] == "f"):
            continue
        layout = dict(tile=tile, compression=compression, byteorder=order, bigtiff=big)
        layout |= {"predictor": True} if predicted else {}
        layout |= {} if tile else {"rowsperstrip": 7}
        written(path, kind, number, apart, **layout)
        try:
            fault = right(path, kind)
            read += 1
        except ImageError as error:
            named = f"-bit {'floating-point ' if number[0] == 'f' else ''}" in error.reason
            common = compression != "lzma" and not (kind == "lab" and number not in ("u1", "u2"))
            fault = str(error) if common or not named else None
        if fault:
            wrong.append((apart, layout, fault))
    assert not wrong, wrong[:5]
    assert read or (kind == "lab" and number not in ("u1", "u2"))


@pytest.mark.parametrize(
    "compression", ["tiff_lzw", "packbits", "tiff_adobe_deflate", "zstd", None]
)
@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "CMYK", "I;16"])
def test_what_libtiff_writes_is_read(tmp_path, mode, compression):
    source = Image.fromarray(RGB)
    if mode == "I;16":
        source = Image.fromarray(RGB[..., 0].astype(np.uint16) * 257)
    else:
        source = source.convert(mode)
    source.save(tmp_path / "a.tif", compression=compression)
    wide = RGB[..., :1].repeat(3, axis=2)
    wanted = wide if mode == "I;16" else np.asarray(source.convert("RGB"))
    assert np.array_equal(images.load(tmp_path / "a.tif").rgb, wanted)


@pytest.mark.parametrize("compression", ["group3", "group4"])
def test_a_fax_is_read(tmp_path, compression):
    page = Image.fromarray(RGB).convert("1")
    page.save(tmp_path / "fax.tif", compression=compression)
    assert np.array_equal(images.load(tmp_path / "fax.tif").rgb, np.asarray(page.convert("RGB")))


def test_a_jpeg_in_a_tiff_is_read(tmp_path):
    cat = skimage.data.chelsea()[:64, :96]
    Image.fromarray(cat).save(tmp_path / "a.tif", compression="jpeg", quality=95)
    assert np.abs(images.load(tmp_path / "a.tif").rgb.astype(int) - cat).mean() < 4


@pytest.mark.parametrize("number", ["u1", "u2", "f4"])
def test_colors_that_alpha_has_multiplied_are_divided_by_it(tmp_path, number):
    shown = np.dstack([RGB * (ALPHA[..., None] / 255), ALPHA]).round().astype(np.uint8)
    samples = widened(shown, number)
    tifffile.imwrite(tmp_path / "a.tif", samples, photometric="rgb", extrasamples=["assocalpha"])
    picture = images.load(tmp_path / "a.tif")
    seen = ALPHA > 60
    assert np.abs(picture.rgb.astype(int) - RGB)[seen].max() <= 3
    assert np.array_equal(picture.alpha, ALPHA)


@pytest.mark.parametrize("number", ["u1", "u2"])
def test_channels_that_are_no_alpha_do_not_become_one(tmp_path, number):
    samples = widened(np.dstack([RGB, ALPHA]), number)
    tifffile.imwrite(tmp_path / "a.tif", samples, photometric="rgb", extrasamples=["unspecified"])
    picture = images.load(tmp_path / "a.tif")
    assert np.array_equal(picture.rgb, RGB) and picture.alpha is None


@pytest.mark.parametrize(
    ("samples", "white", "noted"),
    [
        (np.array([[0.0, 0.5, 1.0]]), 1, False),
        (np.array([[0.0, 0.5, 1.0, 1.25]]), 1, True),
        (np.array([[0.0, 128.0, 255.0]]), 255, False),
        (np.array([[0.0, 128.0, 65535.0]]), 65535, False),
        (np.array([[0.0, 0.25, 40.5]]), 1, True),
        (np.array([[0.0, np.nan, 1.0]]), 1, False),
    ],
)
def test_floating_point_white_is_1_unless_all_are_whole_numbers(tmp_path, samples, white, noted):
    for shape in ("gray", "rgb"):
        values = samples.astype(np.float32)
        values = np.repeat(values[..., None], 3, axis=2) if shape == "rgb" else values
        photometric = "rgb" if shape == "rgb" else "minisblack"
        tifffile.imwrite(tmp_path / "a.tif", values, photometric=photometric)
        picture = images.load(tmp_path / "a.tif")
        wanted = (np.nan_to_num(samples).clip(0, white) * 255 / white).round()
        assert np.array_equal(picture.rgb[..., 1], wanted)
        assert bool(picture.notes) == noted


def test_signed_samples_are_refused_by_name(tmp_path):
    tifffile.imwrite(tmp_path / "heights.tif", np.zeros((8, 8), np.int16))
    with pytest.raises(
        ImageError, match=r"heights\.tif: is a TIFF of 1 x 16-bit signed gray samples"
    ):
        images.load(tmp_path / "heights.tif")


@pytest.mark.parametrize("number", ["u1", "u2"])
@pytest.mark.parametrize("below", [True, False])
def test_the_picture_is_not_its_thumbnail(tmp_path, number, below):
    small, large = widened(RGB[::4, ::4], number), widened(RGB, number)
    with tifffile.TiffWriter(tmp_path / "a.tif") as tiff:
        tiff.write(small, photometric="rgb", subfiletype=1, subifds=int(below))
        tiff.write(large, photometric="rgb")
    assert np.array_equal(images.load(tmp_path / "a.tif").rgb, RGB)


def test_the_picture_is_not_the_mask_before_it(tmp_path):
    with tifffile.TiffWriter(tmp_path / "a.tif") as tiff:
        tiff.write(RGB[..., 0] > 99, photometric="mask", subfiletype=4)
        tiff.write(RGB, photometric="rgb")
    assert np.array_equal(images.load(tmp_path / "a.tif").rgb, RGB)


@pytest.mark.parametrize("apart", ["separate", "contig"])
def test_of_many_channels_the_first_ones_are_used_and_said_so(tmp_path, apart):
    samples = np.stack([RGB[..., 0]] * 5, axis=0 if apart == "separate" else -1)
    tifffile.imwrite(tmp_path / "a.tif", samples, photometric="minisblack", planarconfig=apart)
    picture = images.load(tmp_path / "a.tif")
    assert np.array_equal(picture.rgb[..., 1], RGB[..., 0])
    assert picture.notes == ("4 further channels of it were left out",)


@pytest.mark.parametrize("number", ["u1", "u2", "f4"])
def test_of_several_pages_the_first_is_used_and_said_so(tmp_path, number):
    pages = np.stack([RGB, 255 - RGB, RGB[::-1]])
    samples = widened(pages, number)
    tifffile.imwrite(tmp_path / "a.tif", samples, photometric="rgb")
    picture = images.load(tmp_path / "a.tif")
    assert np.abs(picture.rgb.astype(int) - RGB).max() <= 1
    assert picture.notes == ("only the first of its 3 pages is used",)


@pytest.mark.parametrize("number", ["u1", "u2", "f4"])
def test_each_layout_is_turned_upright(tmp_path, number):
    samples = widened(np.dstack([RGB, ALPHA]), number)
    options = dict(photometric="rgb", extrasamples=["unassalpha"])
    tags = [(274, "H", 1, 6, True)]
    tifffile.imwrite(tmp_path / "a.tif", samples, extratags=tags, **options)
    picture = images.load(tmp_path / "a.tif")
    assert np.array_equal(picture.rgb, np.rot90(RGB, -1))
    assert np.array_equal(picture.alpha, np.rot90(ALPHA, -1))


@pytest.mark.parametrize("number", ["u2", "f4"])
@pytest.mark.parametrize("compression", [None, "zlib"])
def test_a_cut_file_is_refused(tmp_path, number, compression):
    tifffile.imwrite(
        tmp_path / "a.tif", widened(RGB, number), photometric="rgb", compression=compression
    )
    whole = (tmp_path / "a.tif").read_bytes()
    (tmp_path / "a.tif").write_bytes(whole[: len(whole) - 700])
    with pytest.raises(ImageError, match="is cut short"):
        images.load(tmp_path / "a.tif")


def test_a_small_file_unpacks_to_no_more_than_its_picture(tmp_path):
    # One strip of 16 rows in the file's own words, and zeros for 60 megabytes behind it.
    tifffile.imwrite(tmp_path / "a.tif", np.zeros((16, 16, 3), np.uint16), compression="zlib")
    data = bytearray((tmp_path / "a.tif").read_bytes())
    packing = zlib.compressobj(1)
    bomb = b"".join(packing.compress(bytes(1 << 20)) for _ in range(60)) + packing.flush()
    with tifffile.TiffFile(tmp_path / "a.tif") as tiff:
        tags = tiff.pages[0].tags
        places = tags["StripOffsets"].valueoffset, tags["StripByteCounts"].valueoffset
    for place, value in zip(places, (len(data), len(bomb)), strict=True):
        data[place : place + 4] = value.to_bytes(4, "little")
    (tmp_path / "a.tif").write_bytes(bytes(data) + bomb)
    assert images.load(tmp_path / "a.tif").rgb.max() == 0


def test_too_many_pixels_are_refused_before_they_are_unpacked(tmp_path):
    tifffile.imwrite(tmp_path / "a.tif", np.zeros((60, 60, 3), np.float32), photometric="rgb")
    with pytest.raises(images.TooLargeError, match="has 60 x 60 pixels"):
        images.load(tmp_path / "a.tif", max_pixels=3599)


def test_a_tiff_of_webp_parts_is_called_by_its_name(tmp_path):
    """libtiff says of it what it says of a damaged one."""
    part = io.BytesIO()
    Image.new("RGB", (16, 16)).save(part, "WEBP", lossless=True)
    data = part.getvalue()
    tags = [(256, 16), (257, 16), (258, 8), (259, 50001), (262, 2), (273, 122), (277, 3)]
    tags += [(278, 16), (279, len(data))]
    table = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags)
    head = struct.pack("<2sHIH", b"II", 42, 8, len(tags)) + table + bytes(4)
    (tmp_path / "a.tif").write_bytes(head + data)
    assert len(head) == 122
    try:
        assert images.load(tmp_path / "a.tif").width == 16  # where libtiff has it
    except images.ImageError as error:
        assert "compressed with webp, which is not read" in str(error)
