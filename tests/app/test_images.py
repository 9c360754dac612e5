"""Every file becomes the right pixels or one line that names it and says why not."""

import io
import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import skimage.data
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import ExifTags, Image, ImageCms

from app import images
from app.images import ImageError, Picture


@pytest.fixture
def photo() -> np.ndarray:
    return np.ascontiguousarray(skimage.data.chelsea()[:60, :90])


def exif(orientation: int) -> bytes:
    block = Image.Exif()
    block[0x0112] = orientation
    return block.tobytes()


# --- What is read ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("orientation", "upright"),
    [
        (1, lambda p: p),
        (2, lambda p: p[:, ::-1]),
        (3, lambda p: p[::-1, ::-1]),
        (4, lambda p: p[::-1]),
        (5, lambda p: p.swapaxes(0, 1)),
        (6, lambda p: np.rot90(p, -1)),
        (7, lambda p: p[::-1, ::-1].swapaxes(0, 1)),
        (8, lambda p: np.rot90(p, 1)),
    ],
)
@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_each_exif_orientation_comes_out_upright(tmp_path, photo, orientation, upright, suffix):
    path = tmp_path / f"turned.{suffix}"
    Image.fromarray(photo).save(path, exif=exif(orientation))
    assert np.array_equal(images.load(path).rgb, upright(photo))


def test_a_jpeg_photo_with_orientation_6_comes_out_upright(tmp_path):
    upright = skimage.data.astronaut()[:64, :96]
    path = tmp_path / "phone.jpg"
    Image.fromarray(np.rot90(upright, 1)).save(path, exif=exif(6), quality=95, subsampling=0)
    loaded = images.load(path).rgb
    assert loaded.shape == upright.shape
    assert np.abs(loaded.astype(int) - upright).mean() < 4


def test_damaged_exif_is_ignored(tmp_path, photo):
    path = tmp_path / "odd.png"
    Image.fromarray(photo).save(path, exif=b"Exif\x00\x00MM\x00*\xff\xff\xff\xff")
    assert np.array_equal(images.load(path).rgb, photo)


@pytest.mark.parametrize("suffix", ["png", "tif", "pgm"])
def test_16_bit_gray_keeps_its_levels(tmp_path, suffix):
    levels = np.arange(256, dtype=np.uint16).reshape(16, 16)
    path = tmp_path / f"scan.{suffix}"
    Image.fromarray(levels * 257).save(path)
    loaded = images.load(path)
    assert np.array_equal(loaded.rgb, np.repeat(levels[..., None], 3, axis=2))


def test_dark_16_bit_gray_stays_dark(tmp_path):
    path = tmp_path / "night.png"
    Image.fromarray(np.full((4, 4), 514, np.uint16)).save(path)
    assert np.array_equal(images.load(path).rgb, np.full((4, 4, 3), 2))


def test_the_transparent_level_of_a_16_bit_gray_png_is_alpha(tmp_path):
    levels = np.array([[0, 1000], [1000, 65535]], np.uint16)
    path = tmp_path / "keyed.png"
    Image.fromarray(levels).save(path, transparency=1000)
    assert images.load(path).alpha.tolist() == [[255, 0], [0, 255]]


def test_floating_point_gray_is_0_to_1(tmp_path):
    path = tmp_path / "measured.tif"
    Image.fromarray(np.array([[0.0, 0.5, 1.0, np.nan]], np.float32)).save(path)
    assert images.load(path).rgb[0, :, 0].tolist() == [0, 128, 255, 0]


def test_32_bit_gray_is_scaled_by_its_full_range(tmp_path):
    path = tmp_path / "wide.tif"
    levels = np.array([[0, 128 << 24, 255 << 24]], np.uint32)
    Image.fromarray(levels.view(np.int32)).save(path)
    assert images.load(path).rgb[0, :, 0].tolist() == [0, 128, 255]


def test_a_cmyk_jpeg_has_the_colors_it_shows(tmp_path):
    path = tmp_path / "print.jpg"
    bands = [(255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255), (0, 0, 0)]
    flat = np.repeat(np.array(bands, np.uint8)[:, None], 16, axis=0).repeat(64, axis=1)
    # Pillow writes CMYK with Adobe's marker, so the file's numbers are inverted ones.
    Image.fromarray(flat).convert("CMYK").save(path, quality=100)
    loaded = images.load(path).rgb
    assert loaded.shape == flat.shape
    assert np.abs(loaded.astype(int) - flat).max() <= 8


def test_a_palette_picture_has_its_palettes_colors(tmp_path):
    palette = Image.new("P", (2, 1))
    palette.putpalette([10, 20, 30, 200, 100, 50])
    palette.putdata([0, 1])
    palette.save(tmp_path / "few.png")
    loaded = images.load(tmp_path / "few.png")
    assert loaded.rgb.tolist() == [[[10, 20, 30], [200, 100, 50]]]
    assert loaded.alpha is None


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_alpha_is_kept_aside_and_colors_are_not_touched(tmp_path, photo, mode):
    alpha = np.tile(np.arange(90, dtype=np.uint8), (60, 1))
    picture = Image.fromarray(photo).convert(mode)
    picture.putalpha(Image.fromarray(alpha))
    picture.save(tmp_path / "cut.png")
    loaded = images.load(tmp_path / "cut.png")
    assert np.array_equal(loaded.alpha, alpha)
    colors = photo if mode == "RGBA" else np.array(Image.fromarray(photo).convert("L"))[..., None]
    assert np.array_equal(loaded.rgb, np.broadcast_to(colors, photo.shape))


def test_a_transparent_palette_entry_is_alpha(tmp_path):
    palette = Image.new("P", (2, 1))
    palette.putpalette([10, 20, 30, 200, 100, 50])
    palette.putdata([0, 1])
    palette.save(tmp_path / "icon.png", transparency=1)
    assert images.load(tmp_path / "icon.png").alpha.tolist() == [[255, 0]]


def test_of_an_animated_gif_the_first_frame_is_used_and_said_so(tmp_path):
    frames = [Image.new("RGB", (8, 8), color) for color in ("red", "lime", "blue")]
    frames[0].save(tmp_path / "moving.gif", save_all=True, append_images=frames[1:])
    loaded = images.load(tmp_path / "moving.gif")
    assert np.array_equal(loaded.rgb, np.broadcast_to((255, 0, 0), (8, 8, 3)))
    assert loaded.notes == ("only the first of its 3 frames is used",)


def test_of_a_turned_tiff_of_many_pages_the_first_is_used_upright(tmp_path, photo):
    page = Image.fromarray(photo)
    path = tmp_path / "pages.tif"
    page.save(path, save_all=True, append_images=[page.rotate(180)], exif=exif(6))
    loaded = images.load(path)
    assert np.array_equal(loaded.rgb, np.rot90(photo, -1))
    assert loaded.notes == ("only the first of its 2 pages is used",)


def test_a_one_bit_picture_is_black_and_white(tmp_path):
    Image.fromarray(np.array([[True, False]])).save(tmp_path / "fax.png")
    assert images.load(tmp_path / "fax.png").rgb[0, :, 0].tolist() == [255, 0]


def test_a_lab_picture_is_converted_to_srgb(tmp_path, photo):
    srgb, lab = ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB")
    path = tmp_path / "lab.tif"
    ImageCms.profileToProfile(Image.fromarray(photo), srgb, lab, outputMode="LAB").save(path)
    assert np.abs(images.load(path).rgb.astype(int) - photo).max() <= 6


def test_heic_is_read_where_its_reader_is_installed(tmp_path, photo):
    pytest.importorskip("pillow_heif")
    large = photo.repeat(2, 0).repeat(2, 1)
    Image.fromarray(large).save(tmp_path / "phone.heic", quality=95, exif=exif(6))
    loaded = images.load(tmp_path / "phone.heic").rgb
    assert loaded.shape == (180, 120, 3)
    assert np.abs(loaded.astype(int) - np.rot90(large, -1)).mean() < 4


def test_heic_without_its_reader_says_what_to_install(tmp_path, monkeypatch):
    path = tmp_path / "phone.heic"
    path.write_bytes(b"\x00\x00\x00\x18ftypheic" + bytes(64))
    monkeypatch.setattr(images._reading, "pillow_heif", None)
    with pytest.raises(ImageError, match=r"phone\.heic: .*install pillow-heif"):
        images.load(path)


def test_avif_is_read_upright(tmp_path, photo):
    Image.fromarray(photo).save(tmp_path / "phone.avif", quality=95, exif=exif(6))
    loaded = images.load(tmp_path / "phone.avif").rgb
    assert loaded.shape == (90, 60, 3)
    assert np.abs(loaded.astype(int) - np.rot90(photo, -1)).mean() < 4


@pytest.mark.parametrize("format", ["BMP", "WEBP", "TIFF", "PNG", "JPEG2000", "TGA", "QOI"])
def test_every_lossless_format_keeps_its_pixels(tmp_path, photo, format):
    path = tmp_path / f"photo.{format.lower()}"
    options = {"WEBP": {"lossless": True}, "JPEG2000": {"irreversible": False}}
    Image.fromarray(photo).save(path, format, **options.get(format, {}))
    loaded = images.load(path)
    assert np.array_equal(loaded.rgb, photo)
    assert (loaded.alpha, loaded.notes) == (None, ())


def test_16_bit_colors_become_8_bit(tmp_path):
    # Pillow writes no 16-bit color: a PPM is levels behind a line of text.
    levels = np.array([[[0, 257 * 100, 65_535], [257 * 7, 257 * 8, 257 * 9]]], ">u2")
    (tmp_path / "scan.ppm").write_bytes(b"P6 2 1 65535\n" + levels.tobytes())
    assert images.load(tmp_path / "scan.ppm").rgb.tolist() == [[[0, 100, 255], [7, 8, 9]]]


def test_a_jpeg_is_decoded_near_the_size_it_is_shrunk_to(tmp_path):
    rgb = np.asarray(Image.fromarray(skimage.data.coffee()).resize((1600, 1200)))
    Image.fromarray(rgb).save(tmp_path / "large.jpg", quality=95, exif=exif(6))
    small = images.load(tmp_path / "large.jpg", max_size=200)
    assert (small.width, small.height) == (300, 400)
    whole = images.resize(images.load(tmp_path / "large.jpg"), 200)
    shrunk = images.resize(small, 200)
    assert shrunk.rgb.shape == whole.rgb.shape
    assert np.abs(shrunk.rgb.astype(int) - whole.rgb).mean() < 1.5


@pytest.mark.parametrize("max_size", [1, 60, 90, 200])
def test_no_hint_makes_a_jpeg_smaller_than_asked_for(tmp_path, photo, max_size):
    Image.fromarray(photo).save(tmp_path / "a.jpg")
    loaded = images.load(tmp_path / "a.jpg", max_size=max_size)
    assert loaded.width >= min(max_size, 90)


def test_a_file_object_is_read_like_a_path(tmp_path, photo):
    file = io.BytesIO()
    Image.fromarray(photo).save(file, "PNG")
    # Where the last writer left it: at its end.
    assert np.array_equal(images.load(file).rgb, photo)


# --- Color profiles -------------------------------------------------------------------------


def profile_with_swapped_primaries() -> bytes:
    """An RGB profile whose red is sRGB's green and the other way: its effect cannot be missed."""
    data = bytearray(ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())
    for index in range(int.from_bytes(data[128:132], "big")):
        entry = 132 + 12 * index
        swapped = {b"rXYZ": b"gXYZ", b"gXYZ": b"rXYZ"}.get(bytes(data[entry : entry + 4]))
        if swapped:
            data[entry : entry + 4] = swapped
    return bytes(data)


def test_an_icc_profile_is_applied(tmp_path):
    pixels = np.broadcast_to(np.array([200, 40, 90], np.uint8), (4, 4, 3))
    path = tmp_path / "wide.png"
    Image.fromarray(pixels).save(path, icc_profile=profile_with_swapped_primaries())
    red, green, blue = images.load(path).rgb[0, 0].astype(int)
    assert abs(red - 40) <= 2
    assert abs(green - 200) <= 2
    assert abs(blue - 90) <= 2


def srgb_profile_of_another_maker() -> bytes:
    """sRGB but for the last digits of its primaries, as the profiles of cameras are."""
    data = bytearray(ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())
    for index in range(int.from_bytes(data[128:132], "big")):
        entry = 132 + 12 * index
        if data[entry : entry + 4] == b"rXYZ":
            # 12 bytes on in the tag lies Y, in units of 1/65536.
            place = int.from_bytes(data[entry + 4 : entry + 8], "big") + 12
            value = int.from_bytes(data[place : place + 4], "big") + 60
            data[place : place + 4] = value.to_bytes(4, "big")
    return bytes(data)


def test_an_srgb_profile_leaves_the_pixels_exactly_as_they_are(tmp_path):
    levels = np.linspace(0, 255, 9).astype(np.uint8)
    colors = np.stack(np.meshgrid(levels, levels, levels), axis=-1).reshape(27, 27, 3)
    profile = srgb_profile_of_another_maker()
    source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
    srgb = ImageCms.createProfile("sRGB")
    moved = ImageCms.profileToProfile(Image.fromarray(colors), source, srgb)
    assert not np.array_equal(np.asarray(moved), colors)  # or this test would show nothing
    Image.fromarray(colors).save(tmp_path / "tagged.png", icc_profile=profile)
    loaded = images.load(tmp_path / "tagged.png")
    assert np.array_equal(loaded.rgb, colors)
    assert loaded.notes == ()


def test_a_profile_near_srgb_but_of_another_gamma_is_applied(tmp_path):
    data = bytearray(ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())
    # The three channels share one parametric curve: make it a plain power of 2.2.
    curve = data.index(b"para")
    power = int(2.2 * 65536).to_bytes(4, "big")
    data[curve : curve + 32] = b"para" + bytes(8) + power + bytes(16)
    Image.new("RGB", (4, 4), (24, 24, 24)).save(tmp_path / "gamma.png", icc_profile=bytes(data))
    # 24/255 to the power 2.2 is 0.0055 of white's light; sRGB's level for it is 16.8.
    assert np.abs(images.load(tmp_path / "gamma.png").rgb.astype(int) - 16.8).max() <= 2


@pytest.mark.parametrize("profile", [b"not a profile", bytes(200)])
def test_a_broken_profile_is_ignored_with_a_note(tmp_path, photo, profile):
    Image.fromarray(photo).save(tmp_path / "broken.png", icc_profile=profile)
    loaded = images.load(tmp_path / "broken.png")
    assert np.array_equal(loaded.rgb, photo)
    assert loaded.notes == ("its broken color profile was ignored",)


def test_an_rgb_profile_on_a_gray_picture_is_applied(tmp_path):
    path = tmp_path / "gray.png"
    Image.new("L", (4, 4), 130).save(path, icc_profile=profile_with_swapped_primaries())
    loaded = images.load(path)
    assert np.abs(loaded.rgb.astype(int) - 130).max() <= 3
    assert loaded.notes == ()


def test_a_profile_for_other_colors_is_ignored_with_a_note(tmp_path, photo):
    lab = ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB")).tobytes()
    Image.fromarray(photo).save(tmp_path / "odd.png", icc_profile=lab)
    loaded = images.load(tmp_path / "odd.png")
    assert np.array_equal(loaded.rgb, photo)
    assert loaded.notes == ("its color profile is for Lab colors and was ignored",)


# --- What cannot be read --------------------------------------------------------------------


def refused(path: Path, **options) -> str:
    """The reason for which a file is refused, after its name, as one line."""
    with pytest.raises(ImageError) as caught:
        images.load(path, **options)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"{path}: ")
    return message.removeprefix(f"{path}: ")


def test_a_missing_file(tmp_path):
    assert refused(tmp_path / "gone.jpg") == "no such file"


def test_a_folder(tmp_path):
    assert refused(tmp_path) == "is a folder, not a picture"


def test_an_empty_file(tmp_path):
    (tmp_path / "empty.jpg").touch()
    assert refused(tmp_path / "empty.jpg") == "is empty (0 bytes)"


def test_a_text_file_named_jpg(tmp_path):
    (tmp_path / "notes.jpg").write_text("Dear diary,\n" * 100)
    assert refused(tmp_path / "notes.jpg") == "is not a picture in a format that can be read"


@pytest.mark.parametrize("suffix", ["jpg", "png", "gif", "tif"])
@pytest.mark.parametrize("kept", [0.5, 0.95])
def test_a_truncated_picture(tmp_path, photo, suffix, kept):
    path = tmp_path / f"half.{suffix}"
    Image.fromarray(photo).save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(kept * len(whole))])
    assert refused(path) == "is cut short: the file ends before the picture does"


def test_damaged_bytes_inside_a_picture(tmp_path, photo):
    path = tmp_path / "scratched.png"
    Image.fromarray(photo).save(path)
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2 : len(whole) // 2 + 64] = bytes(64)
    path.write_bytes(whole)
    assert refused(path).startswith(("is damaged", "is cut short"))


def test_a_file_without_permission(tmp_path, photo, monkeypatch):
    path = tmp_path / "private.png"
    Image.fromarray(photo).save(path)

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    # A real chmod would not stop the tests where they run as root.
    monkeypatch.setattr(images._reading, "open", refuse, raising=False)
    assert refused(path) == "cannot be read: permission denied"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes on this system")
def test_a_pipe_is_refused_instead_of_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.jpg")
    assert refused(tmp_path / "pipe.jpg") == "is a device or a pipe, not a picture"


def test_too_many_pixels_are_refused_before_decoding(tmp_path, photo, monkeypatch):
    path = tmp_path / "large.png"
    Image.fromarray(photo).save(path)
    monkeypatch.setattr(Image.Image, "load", lambda self: pytest.fail("was decoded"))
    assert refused(path, max_pixels=60 * 90 - 1).startswith("has 90 x 60 pixels")


def test_a_decompression_bomb_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "bomb.png"
    Image.new("1", (20_000, 20_000)).save(path)
    assert path.stat().st_size < 100_000
    assert refused(path) == ("has 20000 x 20000 pixels, 400 megapixels; at most 100 are read")
    limit = Image.MAX_IMAGE_PIXELS
    with pytest.raises(images.TooLargeError):
        images.load(path, max_pixels=399_999_999)
    assert limit == Image.MAX_IMAGE_PIXELS


def test_a_higher_limit_lifts_pillows_own(tmp_path, monkeypatch):
    # Pillow refuses twice its limit; a small limit stands for its 179 megapixels.
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 500)
    Image.new("L", (60, 50), 7).save(tmp_path / "wall.png")
    assert images.load(tmp_path / "wall.png", max_pixels=3000).rgb.shape == (50, 60, 3)


def test_an_icon_that_hides_a_large_picture_is_refused(tmp_path):
    inner = io.BytesIO()
    Image.new("L", (300, 300)).save(inner, "PNG")
    data = inner.getvalue()
    # One entry that says 16 x 16, and a picture of 300 x 300 in its place.
    entry = struct.pack("<BBBBHHLL", 16, 16, 0, 0, 1, 32, len(data), 22)
    path = tmp_path / "small.ico"
    path.write_bytes(struct.pack("<HHH", 0, 1, 1) + entry + data)
    assert refused(path, max_pixels=80_000).startswith("has 300 x 300 pixels")


def test_postscript_is_never_given_to_a_program(tmp_path, photo):
    path = tmp_path / "drawing.jpg"
    Image.fromarray(photo).save(path, "EPS")
    assert refused(path) == "is a PostScript drawing; export it as PNG or JPEG first"


def test_a_line_break_in_a_name_does_not_break_the_line(tmp_path):
    with pytest.raises(ImageError) as caught:
        images.load(tmp_path / "two\nlines.jpg")
    assert str(caught.value).endswith(r"two\nlines.jpg: no such file")


# --- Tensors --------------------------------------------------------------------------------


def test_every_level_survives_the_round_trip_through_a_tensor():
    levels = np.arange(256, dtype=np.uint8).reshape(16, 16)
    rgb = np.dstack([levels, levels[::-1], levels.T])
    tensor = images.to_tensor(rgb)
    assert tensor.shape == (1, 3, 16, 16)
    assert tensor.min() == -1
    assert tensor.max() == 1
    assert np.array_equal(images.to_rgb(tensor), rgb)


def test_values_beyond_the_range_are_clamped():
    tensor = torch.tensor([-2.0, 0.0, 3.0]).reshape(1, 3, 1, 1)
    assert images.to_rgb(tensor).tolist() == [[[0, 128, 255]]]


def test_a_value_that_is_not_finite_is_refused():
    with pytest.raises(ValueError, match="not finite"):
        images.to_rgb(torch.full((1, 3, 2, 2), torch.nan))


@pytest.mark.parametrize("shape", [(4, 4), (4, 4, 4), (3, 4, 4)])
def test_another_shape_of_pixels_is_refused_with_its_shape(shape):
    with pytest.raises(ValueError, match=str(shape).replace("(", r"\(").replace(")", r"\)")):
        images.to_tensor(np.zeros(shape, np.uint8))


# --- Resizing -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "max_size", "expected"),
    [
        ((90, 60), 45, (45, 30)),
        ((60, 90), 45, (30, 45)),
        ((90, 60), 500, (90, 60)),
        ((1, 4000), 100, (1, 100)),
        ((1, 1), 1, (1, 1)),
    ],
)
def test_the_longest_side_is_at_most_max_size(size, max_size, expected):
    width, height = size
    shrunk = images.resize(Picture(np.zeros((height, width, 3), np.uint8)), max_size)
    assert (shrunk.width, shrunk.height) == expected


def test_hidden_colors_do_not_bleed_into_visible_edges():
    rgb = np.zeros((64, 64, 3), np.uint8)
    rgb[:, :31] = (255, 0, 0)  # visible red beside invisible green
    rgb[:, 31:] = (0, 255, 0)
    alpha = np.zeros((64, 64), np.uint8)
    alpha[:, :31] = 255
    small = images.resize(Picture(rgb, alpha), 16)
    assert small.alpha.shape == (16, 16)
    assert small.rgb[small.alpha > 32][:, 1].max() <= 4


def test_a_max_size_below_one_is_refused():
    with pytest.raises(ValueError, match="at least 1"):
        images.resize(Picture(np.zeros((2, 2, 3), np.uint8)), 0)


# --- Saving ---------------------------------------------------------------------------------


def test_png_gives_back_every_pixel(tmp_path, photo):
    alpha = np.arange(60 * 90, dtype=np.uint16).reshape(60, 90).astype(np.uint8)
    assert images.save(Picture(photo, alpha), tmp_path / "a.png") == ()
    loaded = images.load(tmp_path / "a.png")
    assert np.array_equal(loaded.rgb, photo)
    assert np.array_equal(loaded.alpha, alpha)


def test_webp_keeps_alpha(tmp_path, photo):
    alpha = np.full((60, 90), 200, np.uint8)
    assert images.save(Picture(photo, alpha), tmp_path / "a.webp") == ()
    assert np.array_equal(images.load(tmp_path / "a.webp").alpha, alpha)


def test_jpg_lays_transparency_on_white_and_says_so(tmp_path):
    black = np.zeros((16, 32, 3), np.uint8)
    alpha = np.repeat(np.array([[255] * 16 + [0] * 16], np.uint8), 16, axis=0)
    notes = images.save(Picture(black, alpha), tmp_path / "a.jpg")
    assert len(notes) == 1
    assert "white" in notes[0]
    loaded = images.load(tmp_path / "a.jpg").rgb
    assert loaded[:, :12].max() < 10
    assert loaded[:, 20:].min() > 245


def test_jpg_of_an_opaque_alpha_loses_nothing_and_says_nothing(tmp_path, photo):
    opaque = np.full((60, 90), 255, np.uint8)
    assert images.save(Picture(photo, opaque), tmp_path / "a.jpg") == ()


def test_jpg_keeps_the_full_resolution_of_colors(tmp_path, photo):
    images.save(Picture(photo), tmp_path / "a.jpg")
    with Image.open(tmp_path / "a.jpg") as saved:
        assert all(layer[1:3] == (1, 1) for layer in saved.layer)


def test_a_failed_save_leaves_the_old_file_and_no_other(tmp_path, photo, monkeypatch):
    path = tmp_path / "a.png"
    path.write_bytes(b"the old file")

    def full_disk(self, file, *_, **__):
        file.write(b"half a pict")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Image.Image, "save", full_disk)
    with pytest.raises(ImageError, match=r"a\.png: cannot be written: No space left on device"):
        images.save(Picture(photo), path)
    assert path.read_bytes() == b"the old file"
    assert list(tmp_path.iterdir()) == [path]


def test_ctrl_c_while_saving_leaves_no_file(tmp_path, photo, monkeypatch):
    def interrupted(self, file, *_, **__):
        file.write(b"half a pict")
        raise KeyboardInterrupt

    monkeypatch.setattr(Image.Image, "save", interrupted)
    with pytest.raises(KeyboardInterrupt):
        images.save(Picture(photo), tmp_path / "a.png")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_the_outputs_place_is_named(tmp_path, photo):
    (tmp_path / "a.png").mkdir()
    with pytest.raises(ImageError, match=r"a\.png: cannot be written"):
        images.save(Picture(photo), tmp_path / "a.png")
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]


def test_a_side_too_long_for_webp_is_refused(tmp_path):
    strip = Picture(np.zeros((1, 16_384, 3), np.uint8))
    with pytest.raises(ImageError, match="webp holds at most 16383 pixels a side, not 16384"):
        images.save(strip, tmp_path / "a.webp")


def test_another_format_is_refused(tmp_path, photo):
    with pytest.raises(ValueError, match="png, jpg, webp"):
        images.save(Picture(photo), tmp_path / "a.gif")


@pytest.mark.skipif(os.name != "posix", reason="permissions of another kind")
def test_a_saved_file_has_the_permissions_of_any_other(tmp_path, photo):
    images.save(Picture(photo), tmp_path / "a.png")
    (tmp_path / "plain").touch()
    assert (tmp_path / "a.png").stat().st_mode == (tmp_path / "plain").stat().st_mode


# --- Metadata -------------------------------------------------------------------------------

PRIVATE = "Ada Lovelace"
SERIAL = "SN-1815"


@pytest.fixture
def documented() -> bytes:
    """An EXIF block as a phone writes it: camera, exposure, dates, place, owner."""
    block = Image.Exif()
    block.update(
        {0x010F: "Lochkamera", 0x0110: "Mark II", 0x0112: 6, 0x0132: "1833:06:05 10:00:00"}
    )
    block.update({0x013B: PRIVATE, 0x8298: PRIVATE, 0x010E: PRIVATE})
    block[0x8769] = {
        0x829A: 0.02,
        0x8827: 400,
        0xA001: 65535,
        0xA002: 90,
        0xA003: 60,
        0xA434: "Plate 35 mm",
        0x9003: "1833:06:05 10:00:00",
        0x9011: "+01:00",
        0xA430: PRIVATE,
        0xA431: SERIAL,
        0xA435: SERIAL,
        0x927C: SERIAL.encode(),
        0x9286: PRIVATE.encode(),
    }
    block[0x8825] = {1: "N", 2: (51.0, 30.0, 0.0), 3: "W", 4: (0.0, 7.0, 0.0)}
    return block.tobytes()


@pytest.mark.parametrize("source", ["jpg", "png", "webp", "tif", "avif", "heic"])
@pytest.mark.parametrize("result", ["jpg", "png", "webp"])
def test_exif_goes_with_the_picture_but_for_what_is_no_longer_true(
    tmp_path, photo, documented, source, result
):
    Image.fromarray(photo).save(tmp_path / f"a.{source}", exif=documented)
    images.save(images.load(tmp_path / f"a.{source}"), tmp_path / f"b.{result}")
    with Image.open(tmp_path / f"b.{result}") as saved:
        assert saved.size == (60, 90)
        kept = saved.getexif()
        details, place = kept.get_ifd(0x8769), kept.get_ifd(0x8825)
        assert kept.get_ifd(ExifTags.IFD.IFD1) == {}
    assert set(kept) == {0x010F, 0x0110, 0x0132, 0x013B, 0x8298, 0x010E, 0x8769, 0x8825}
    assert (kept[0x0110], details[0x8827], details[0x9003]) == ("Mark II", 400, kept[0x0132])
    assert details[0xA001] == 1
    assert {0xA002, 0xA003}.isdisjoint(details)
    assert place[2] == (51.0, 30.0, 0.0)
    assert np.array_equal(images.load(tmp_path / f"b.{result}").rgb.shape, (90, 60, 3))


def test_a_thumbnail_is_left_out(tmp_path, photo):
    # Two directories, the second of which holds the thumbnail's place and length.
    maker, thumbnail = b"Lochkamera\0", b"\xff\xd8 a small face \xff\xd9"
    first = struct.pack("<HHHLLL", 1, 0x010F, 2, len(maker), 56, 26)
    second = struct.pack("<HHHLLHHLLL", 2, 0x0201, 4, 1, 67, 0x0202, 4, 1, len(thumbnail), 0)
    block = b"II*\0" + struct.pack("<L", 8) + first + second + maker + thumbnail
    Image.fromarray(photo).save(tmp_path / "a.jpg", exif=b"Exif\0\0" + block)
    with Image.open(tmp_path / "a.jpg") as source:
        assert 0x0201 in source.getexif().get_ifd(ExifTags.IFD.IFD1)
    loaded = images.load(tmp_path / "a.jpg")
    assert b"Lochkamera" in loaded.exif
    assert b"a small face" not in loaded.exif


@pytest.mark.parametrize("result", ["jpg", "png", "webp"])
def test_strip_leaves_the_camera_and_no_person_place_day_or_serial(
    tmp_path, photo, documented, result
):
    Image.fromarray(photo).save(tmp_path / "a.jpg", exif=documented)
    stripped = images.strip(images.load(tmp_path / "a.jpg"))
    images.save(stripped, tmp_path / f"b.{result}")
    with Image.open(tmp_path / f"b.{result}") as saved:
        kept = saved.getexif()
        assert set(kept) == {0x010F, 0x0110, 0x8769}
        assert set(kept.get_ifd(0x8769)) == {0x829A, 0x8827, 0xA001, 0xA434}
    data = (tmp_path / f"b.{result}").read_bytes()
    assert PRIVATE.encode() not in data
    assert SERIAL.encode() not in data
    assert b"1833" not in data


def test_a_picture_without_exif_gets_none(tmp_path, photo):
    Image.fromarray(photo).save(tmp_path / "a.png")
    loaded = images.load(tmp_path / "a.png")
    assert loaded.exif == images.strip(loaded).exif == b""
    images.save(loaded, tmp_path / "b.jpg")
    with Image.open(tmp_path / "b.jpg") as saved:
        assert "exif" not in saved.info


def test_exif_too_long_for_jpg_is_left_out_and_said_so(tmp_path, photo):
    block = Image.Exif()
    block[0x8769] = {0x927C: bytes(70_000)}
    Image.fromarray(photo).save(tmp_path / "a.png", exif=block)
    loaded = images.load(tmp_path / "a.png")
    notes = images.save(loaded, tmp_path / "b.jpg")
    assert len(notes) == 1
    assert "64 KB" in notes[0]
    assert images.save(loaded, tmp_path / "b.webp") == ()


@pytest.mark.parametrize("format", ["jpg", "png", "webp"])
def test_results_say_that_they_are_srgb_and_are_the_same_twice(tmp_path, photo, format):
    for name in ("a", "b"):
        images._color.srgb_profile.cache_clear()
        images.save(Picture(photo), tmp_path / f"{name}.{format}")
    with Image.open(tmp_path / f"a.{format}") as saved:
        profile = ImageCms.ImageCmsProfile(io.BytesIO(saved.info["icc_profile"]))
    assert "sRGB" in ImageCms.getProfileDescription(profile)
    assert (tmp_path / f"a.{format}").read_bytes() == (tmp_path / f"b.{format}").read_bytes()
    assert profile.tobytes()[24:36] != bytes(12)


# --- Masks ----------------------------------------------------------------------------------


def test_a_mask_is_brightness_and_dark_where_it_is_transparent():
    rgb = np.repeat(np.array([[[255], [255], [100], [0]]], np.uint8), 3, axis=2)
    alpha = np.array([[255, 0, 255, 255]], np.uint8)
    assert images.gray(Picture(rgb)).tolist() == [[255, 255, 100, 0]]
    assert images.gray(Picture(rgb, alpha)).tolist() == [[255, 0, 100, 0]]


# --- Leftovers ------------------------------------------------------------------------------


@pytest.mark.skipif(os.name != "posix", reason="processes cannot be asked for")
def test_only_what_dead_processes_left_is_removed(tmp_path):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    name = f"-{'0' * 32}.part"
    (tmp_path / f".repaint-{dead.pid}{name}").touch()
    alive = [f".repaint-{os.getppid()}{name}", ".repaint-x.part", "holiday.part"]
    for other in alive:
        (tmp_path / other).touch()
    images.remove_leftovers([tmp_path, tmp_path / "not yet made"])
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(alive)


# --- Mutated files --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def originals() -> dict[str, bytes]:
    """A small photo in every format that is written here, with alpha and EXIF where it can be."""
    photo = Image.fromarray(skimage.data.chelsea()[:24, :32])
    clear = photo.convert("RGBA")
    files = {}
    for format in ("JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP", "AVIF", "HEIF", "JPEG2000", "PPM"):
        file = io.BytesIO()
        options = {"exif": exif(6)} if format in ("JPEG", "PNG", "WEBP", "TIFF", "HEIF") else {}
        (clear if format in ("PNG", "WEBP", "TIFF") else photo).save(file, format, **options)
        files[format] = file.getvalue()
    return files


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.data())
def test_a_mutated_file_gives_a_picture_or_one_line(originals, data):
    whole = bytearray(originals[data.draw(st.sampled_from(sorted(originals)))])
    for _ in range(data.draw(st.integers(0, 6))):
        place = data.draw(st.integers(0, min(len(whole) - 1, 400)) | st.integers(0, len(whole) - 1))
        whole[place] = data.draw(st.sampled_from((0, 1, 127, 128, 255)) | st.integers(0, 255))
    cut = data.draw(st.integers(0, len(whole)) | st.just(len(whole)))
    try:
        picture = images.load(io.BytesIO(whole[:cut]), max_pixels=1_000_000)
    except ImageError as error:
        assert "\n" not in str(error)
        return
    assert picture.rgb.dtype == np.uint8
    assert picture.rgb.shape == (picture.height, picture.width, 3)
    assert picture.alpha is None or picture.alpha.shape == picture.rgb.shape[:2]
    assert picture.rgb.size > 0
    images.to_tensor(picture.rgb)


# --- Folders --------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path) -> Path:
    for name in ("b.JPG", "a.png", "notes.txt", "._b.jpg", "sub/c.heic", ".trash/d.png"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    (tmp_path / "folder.png").mkdir()
    return tmp_path


def test_a_folders_pictures_are_listed_by_suffix_and_sorted(folder):
    assert images.list_pictures(folder) == [folder / "a.png", folder / "b.JPG"]


def test_subfolders_are_listed_when_asked(folder):
    expected = [folder / "a.png", folder / "b.JPG", folder / "sub" / "c.heic"]
    assert images.list_pictures(folder, recursive=True) == expected


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(ImageError, match="gone: no such folder"):
        images.list_pictures(tmp_path / "gone")
