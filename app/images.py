"""The one way to load a picture and the one way to save one.

Whatever the file holds, `load` hands out upright 8-bit sRGB pixels with the alpha channel beside
them, or raises an `ImageError` whose one line names the file and the reason.
"""

import functools
import io
import os
import re
import threading
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from PIL import ExifTags, Image, ImageCms, UnidentifiedImageError
from torch import Tensor

from app import mapped

try:
    import pillow_heif
except ImportError:
    pillow_heif = None
else:
    pillow_heif.register_heif_opener()

# A phone's 50 and 64 megapixel photos pass. A small file that would unpack to gigabytes does not.
MAX_PIXELS = 100_000_000

# Raster formats that Pillow decodes in this process. EPS and WMF are left out on purpose: opening
# one starts another program, and the demo opens whatever a stranger uploads.
_READABLE = (
    *("JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP", "DIB", "PPM", "AVIF", "JPEG2000", "HEIF"),
    *("TGA", "ICO", "PCX", "PSD", "QOI", "SGI"),
)

# What counts as a picture when a folder is read. HEIC is listed even where its reader is not
# installed: its owner should learn why it was not read instead of missing it in the output.
PICTURE_SUFFIXES = frozenset(
    (
        *(".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".apng", ".webp", ".gif", ".tif", ".tiff"),
        *(".bmp", ".dib", ".ppm", ".pgm", ".pbm", ".pnm", ".avif", ".jp2", ".heic", ".heif"),
        *(".hif", ".tga", ".ico", ".pcx", ".psd", ".qoi", ".sgi"),
    )
)

_HEIC_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")

# In these formats a second frame means an animation or a second page. In the others it means a
# thumbnail or a depth map (phone JPEGs) or layers (PSD), whose absence nobody would notice.
_FRAMES = {"GIF": "frames", "WEBP": "frames", "PNG": "frames", "AVIF": "frames", "TIFF": "pages"}

# How Pillow's readers and libheif say that a file ends too early.
_CUT_SHORT = ("truncated", "end of file")

_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}

# Quality 95 without chroma subsampling: brushwork is small patches of saturated color, which
# 4:2:0 would smear over neighboring pixels.
_ENCODERS = {
    "png": ("PNG", {}),
    "jpg": ("JPEG", {"quality": 95, "subsampling": 0}),
    "webp": ("WEBP", {"quality": 95}),
}
_LONGEST_SIDE = {"png": 2**31 - 1, "jpg": 65_500, "webp": 16_383}

_Tag = ExifTags.Base

# What is kept of the first EXIF directory. The rest of it, above all in a TIFF, says how the
# pixels lie in the file, or is a second copy of the metadata (XMP, IPTC) that would contradict it.
_ABOUT_THE_PICTURE = (
    *(_Tag.ImageDescription, _Tag.Make, _Tag.Model, _Tag.XResolution, _Tag.YResolution),
    *(_Tag.ResolutionUnit, _Tag.Software, _Tag.DateTime, _Tag.Artist, _Tag.HostComputer),
    *(_Tag.Rating, _Tag.RatingPercent, _Tag.Copyright, _Tag.XPTitle, _Tag.XPComment),
    *(_Tag.XPAuthor, _Tag.XPKeywords, _Tag.XPSubject),
)

# No longer true of the result: its size and its color space are its own.
_ABOUT_THE_FILE = (_Tag.ExifImageWidth, _Tag.ExifImageHeight, _Tag.ExifInteroperabilityOffset)

# What `strip` leaves: the kind of camera and how it was set. A list of what may stay forgets no
# tag in which a person, a place, a day or a serial number could hide.
_IMPERSONAL = (
    *(_Tag.Make, _Tag.Model, _Tag.XResolution, _Tag.YResolution, _Tag.ResolutionUnit),
    *(_Tag.Software, _Tag.ExifVersion, _Tag.ColorSpace, _Tag.ExposureTime, _Tag.FNumber),
    *(_Tag.ExposureProgram, _Tag.ISOSpeedRatings, _Tag.SensitivityType, _Tag.ShutterSpeedValue),
    *(_Tag.ApertureValue, _Tag.BrightnessValue, _Tag.ExposureBiasValue, _Tag.MaxApertureValue),
    *(_Tag.MeteringMode, _Tag.LightSource, _Tag.Flash, _Tag.FocalLength, _Tag.ExposureMode),
    *(_Tag.FocalLengthIn35mmFilm, _Tag.WhiteBalance, _Tag.DigitalZoomRatio, _Tag.GainControl),
    *(_Tag.SceneCaptureType, _Tag.Contrast, _Tag.Saturation, _Tag.Sharpness),
    *(_Tag.LensSpecification, _Tag.LensMake, _Tag.LensModel),
)

_BAND = 512  # rows of a large picture that are copied at once
_SRGB = 1  # the EXIF color space
_LONGEST_JPEG_EXIF = 65_533  # bytes that one segment of a JPEG holds
_DRAFT = 1.5  # a JPEG decoded at a reduced scale keeps this many times the pixels a side asked for

FORMATS = tuple(_ENCODERS)


# Pillow's own limit is a global of its module, lifted while a header is read.
_pillow_limit = threading.Lock()


class ImageError(ValueError):
    """A picture that cannot be read or written; its text is one line, "FILE: reason"."""

    def __init__(self, name: str, reason: str):
        super().__init__(one_line(name), one_line(reason))
        self.name, self.reason = self.args

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


class TooLargeError(ImageError):
    """A picture of more pixels than the caller allows, refused before they are decoded."""


@dataclass(frozen=True, eq=False)
class Picture:
    """A decoded picture.

    rgb: uint8 (H,W,3), upright, sRGB; of a large picture, in a file (app.mapped). alpha: uint8
    (H,W), 255 opaque, or None where the file has no transparency. name: how messages call it, the
    file's path where it has one. notes: what was left out or guessed on the way, one sentence
    each. exif: the file's EXIF block without orientation, thumbnail and what described the file
    itself; empty where it has none.
    """

    rgb: np.ndarray
    alpha: np.ndarray | None = None
    name: str = "picture"
    notes: tuple[str, ...] = ()
    exif: bytes = b""

    @property
    def width(self) -> int:
        """Pixels across."""
        return self.rgb.shape[1]

    @property
    def height(self) -> int:
        """Pixels down."""
        return self.rgb.shape[0]


def load(
    source: str | os.PathLike | BinaryIO,
    max_pixels: int = MAX_PIXELS,
    *,
    max_size: int | None = None,
) -> Picture:
    """Read a picture from a path or a binary file object.

    EXIF orientation is applied, colors are converted to sRGB through the embedded ICC profile (a
    broken profile is ignored, with a note), 16-bit gray becomes 8-bit, alpha is kept aside, and of
    an animation the first frame is taken, with a note. The size is compared with `max_pixels`
    (width x height) before any pixel is decoded.

    max_size: the pixels a side that the caller will shrink the picture to. A JPEG much larger
    than that is decoded at 1/2, 1/4 or 1/8 of its size, several times faster, and comes with at
    least 1.5 times max_size on its longest side; other pictures come whole.

    Raises ImageError for anything that is not a whole, readable picture, and of these
    TooLargeError for too many pixels.
    """
    if not isinstance(source, (str, os.PathLike)):
        name = str(getattr(source, "name", None) or "picture")
        return _read(source, name, max_pixels, max_size)
    path = Path(source)
    name = str(path)
    try:
        # Opening a pipe would wait for a writer that never comes.
        if path.exists() and not path.is_file():
            what = "is a folder" if path.is_dir() else "is a device or a pipe"
            raise ImageError(name, f"{what}, not a picture")
        with open(path, "rb") as file:
            return _read(file, name, max_pixels, max_size)
    except FileNotFoundError:
        raise ImageError(name, "no such file") from None
    except PermissionError:
        raise ImageError(name, "cannot be read: permission denied") from None
    except OSError as error:
        raise ImageError(name, f"cannot be read: {error.strerror or error}") from error


def _read(file: BinaryIO, name: str, max_pixels: int, max_size: int | None) -> Picture:
    if not file.seekable():
        file = io.BytesIO(file.read())
    file.seek(0)
    head = file.read(32)
    file.seek(0)
    if not head:
        raise ImageError(name, "is empty (0 bytes)")
    readable = [format for format in _READABLE if format in _registered()]
    try:
        with warnings.catch_warnings():
            # Pillow warns of odd metadata and of large pictures: the first does no harm to the
            # pixels and the second is refused below.
            warnings.simplefilter("ignore")
            with _pillow_limit:
                limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
                try:
                    image = Image.open(file, formats=readable)
                finally:
                    Image.MAX_IMAGE_PIXELS = limit
            _check_size(image, name, max_pixels)
            if max_size is not None:
                _decode_smaller(image, max_size)
            image.load()
            # An icon says how large it is only when its pixels are read.
            _check_size(image, name, max_pixels)
            return _decoded(image, name)
    except ImageError:
        raise
    except UnidentifiedImageError as error:
        if head[4:8] == b"ftyp" and head[8:12] in _HEIC_BRANDS and pillow_heif is None:
            reason = "is a HEIC picture; install pillow-heif to read those"
        else:
            reason = "is not a picture in a format that can be read"
        raise ImageError(name, reason) from error
    except Image.DecompressionBombError as error:
        # An icon holds a picture far larger than it says.
        raise ImageError(name, "is damaged: it would unpack to more pixels than it says") from error
    except MemoryError as error:
        raise ImageError(name, "does not fit in memory") from error
    except Exception as error:
        # On damaged bytes Pillow's readers raise whatever their parsing ran into: SyntaxError,
        # struct.error, EOFError, IndexError, zlib.error. All of them mean the same to the owner.
        text = str(error).strip()
        if isinstance(error, EOFError) or any(word in text.lower() for word in _CUT_SHORT):
            raise ImageError(name, "is cut short: the file ends before the picture does") from error
        raise ImageError(name, f"is damaged: {text or type(error).__name__}") from error


def _registered() -> dict:
    Image.init()
    return Image.OPEN


def _check_size(image: Image.Image, name: str, max_pixels: int) -> None:
    width, height = image.size
    if width < 1 or height < 1:
        raise ImageError(name, f"has no pixels ({width} x {height})")
    if width * height > max_pixels:
        raise TooLargeError(
            name,
            f"has {width} x {height} pixels, {width * height / 1e6:.3g} megapixels; "
            f"at most {max_pixels / 1e6:g} are read",
        )


def _decode_smaller(image: Image.Image, max_size: int) -> None:
    """Let a JPEG's decoder leave out scales that shrinking to max_size would average away."""
    scale = _DRAFT * max_size / max(image.size)
    if scale < 1:
        image.draft(None, tuple(max(1, round(scale * side)) for side in image.size))


def _decoded(image: Image.Image, name: str) -> Picture:
    notes = []
    # Counted before the pixels are touched: transposing gives an image that no longer knows.
    frames = _frame_count(image)
    if frames > 1:
        notes.append(f"only the first of its {frames} {_FRAMES[image.format]} is used")
    profile = image.info.get("icc_profile")
    exif = _kept_exif(image)
    image = _upright(image, notes)
    color, alpha = _split_alpha(image)
    color = _eight_bit(color)
    if profile:
        color = _through_profile(color, profile, notes)
    if color.mode == "LAB":
        color = ImageCms.profileToProfile(
            color, ImageCms.createProfile("LAB"), ImageCms.createProfile("sRGB"), outputMode="RGB"
        )
    color = color if color.mode == "RGB" else color.convert("RGB")
    return Picture(_pixels(color), alpha, name, tuple(notes), exif)


def _bands(height: int) -> Iterator[slice]:
    """Rows of a picture, a part at a time: what is copied of a large one is then soon let go."""
    for top in range(0, height, _BAND):
        yield slice(top, min(top + _BAND, height))


def _pixels(image: Image.Image) -> np.ndarray:
    """An RGB image's pixels, in a file where they are many."""
    pixels = mapped.new_pixels((image.height, image.width, 3))
    if not mapped.is_mapped(pixels):
        return np.array(image)
    for rows in _bands(image.height):
        pixels[rows] = np.asarray(image.crop((0, rows.start, image.width, rows.stop)))
        mapped.let_go(pixels)
    return pixels


def _image(pixels: np.ndarray) -> Image.Image:
    """The inverse of `_pixels`."""
    if not mapped.is_mapped(pixels):
        return Image.fromarray(np.ascontiguousarray(pixels))
    height, width = pixels.shape[:2]
    image = Image.new("RGB", (width, height))
    for rows in _bands(height):
        image.paste(Image.fromarray(np.ascontiguousarray(pixels[rows])), (0, rows.start))
        mapped.let_go(pixels)
    return image


def _frame_count(image: Image.Image) -> int:
    if image.format not in _FRAMES:
        return 1
    try:
        frames = getattr(image, "n_frames", 1)
        # Counting may have walked through the file: come back to the first frame.
        image.seek(0)
        image.load()
        return frames
    except (EOFError, OSError, SyntaxError):
        # A later frame is damaged; the first one, which is all that is used, is loaded already.
        return 1


def _kept_exif(image: Image.Image) -> bytes:
    """The EXIF block that goes with the result, or nothing where there is none to read."""
    try:
        whole = image.getexif()
        details = dict(whole.get_ifd(ExifTags.IFD.Exif))
        kept = Image.Exif()
        kept.update({tag: whole[tag] for tag in _ABOUT_THE_PICTURE if tag in whole})
        for tag in _ABOUT_THE_FILE:
            details.pop(tag, None)
        if details:
            kept[ExifTags.IFD.Exif] = details | {_Tag.ColorSpace: _SRGB}
        if place := dict(whole.get_ifd(ExifTags.IFD.GPSInfo)):
            kept[ExifTags.IFD.GPSInfo] = place
        return kept.tobytes() if kept else b""
    except Exception:  # a damaged block raises whatever its parsing runs into
        return b""


def _upright(image: Image.Image, notes: list[str]) -> Image.Image:
    try:
        orientation = image.getexif().get(ExifTags.Base.Orientation, 1)
    except Exception:  # a damaged EXIF block raises struct.error, SyntaxError, KeyError, ...
        notes.append("its damaged EXIF data was ignored")
        return image
    method = _UPRIGHT.get(orientation)
    return image if method is None else image.transpose(method)


def _split_alpha(image: Image.Image) -> tuple[Image.Image, np.ndarray | None]:
    """The picture's opaque part, palettes resolved, and its alpha (H,W) uint8 or None."""
    if image.mode.startswith("I"):
        key = image.info.get("transparency")
        if not isinstance(key, int):
            return image, None
        # A 16-bit gray PNG can declare one gray level transparent.
        return image, np.where(np.asarray(image) == key, 0, 255).astype(np.uint8)
    if image.mode == "F" or not image.has_transparency_data:
        return (image.convert("RGB") if image.mode in ("P", "PA") else image), None
    gray = image.mode in ("1", "L", "LA", "La")
    with_alpha = image.convert("LA" if gray else "RGBA")
    alpha = np.array(with_alpha.getchannel("A"))
    return with_alpha.convert("L" if gray else "RGB"), alpha


def _eight_bit(image: Image.Image) -> Image.Image:
    """Wider gray (modes I;16, I, F) as 8-bit gray; any other mode as it is."""
    if image.mode.startswith("I"):
        levels = np.asarray(image)
        # Mode I also carries 32-bit TIFFs, whose unsigned values Pillow stores as signed ones.
        if image.mode == "I" and (levels.min() < 0 or levels.max() > 65_535):
            return Image.fromarray((levels.view(np.uint32) >> 24).astype(np.uint8))
        # 65535 = 257 * 255: this maps white to white, and a widened 8-bit level back to itself.
        return Image.fromarray(((levels.astype(np.uint32) + 128) // 257).astype(np.uint8))
    if image.mode == "F":
        values = np.nan_to_num(np.asarray(image), nan=0.0, posinf=0.0, neginf=0.0)
        # Floating-point gray is 0..1 by convention; files that hold integers exceed it.
        brightest = values.max()
        full_scale = next((full for full in (1.0, 255.0, 65_535.0) if brightest <= full), brightest)
        return Image.fromarray((values.clip(0) * (255 / full_scale)).round().astype(np.uint8))
    return image


def _through_profile(image: Image.Image, profile: bytes, notes: list[str]) -> Image.Image:
    """Colors taken from the profile's space to sRGB; the image as it was if that cannot be done."""
    try:
        source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        space = source.profile.xcolor_space.strip()
        mode = {"RGB": "RGB", "GRAY": "L", "CMYK": "CMYK", "Lab": "LAB"}.get(space)
        if mode == "RGB" and image.mode in ("1", "L", "YCbCr", "RGBX"):
            image = image.convert("RGB")
        if mode == "L" and image.mode == "1":
            image = image.convert("L")
        if mode != image.mode:
            notes.append(f"its color profile is for {space or 'unknown'} colors and was ignored")
            return image
        transform = ImageCms.buildTransform(
            source,
            ImageCms.createProfile("sRGB"),
            mode,
            "RGB",
            ImageCms.Intent.RELATIVE_COLORIMETRIC,
            ImageCms.Flags.BLACKPOINTCOMPENSATION,
        )
        if mode == "RGB" and _is_identity(transform):
            return image
        return ImageCms.applyTransform(image, transform)
    except (ImageCms.PyCMSError, OSError, ValueError, TypeError):
        notes.append("its broken color profile was ignored")
        return image


def _is_identity(transform: ImageCms.ImageCmsTransform) -> bool:
    """Whether an RGB transform moves colors by less than rounding to 8 bits would.

    Most tagged photos carry one of the many sRGB profiles. Their pixels should stay exactly as
    they are, so that strength 0 gives back the photo. On this grid of colors those move by 0.004
    to 0.1 levels on average, plain gamma 2.2 by 1.3 and Display P3 by 10.
    """
    levels = np.linspace(0, 255, 9).astype(np.uint8)
    grid = np.stack(np.meshgrid(levels, levels, levels), axis=-1).reshape(27, 27, 3)
    moved = np.asarray(ImageCms.applyTransform(Image.fromarray(grid), transform))
    return float(np.abs(moved.astype(int) - grid).mean()) < 0.3


def to_tensor(rgb: np.ndarray) -> Tensor:
    """Pixels (H,W,3) uint8 as a network's input, (1,3,H,W) float32 in [-1,1].

    Raises ValueError for another shape or type.
    """
    if rgb.ndim != 3 or rgb.shape[2] != 3 or rgb.dtype != np.uint8:
        raise ValueError(f"wanted uint8 pixels of shape (H,W,3), got {rgb.dtype} {rgb.shape}")
    pixels = torch.from_numpy(np.ascontiguousarray(rgb.transpose(2, 0, 1)))
    return pixels[None].to(torch.float32).div_(127.5).sub_(1.0)


def to_rgb(tensor: Tensor) -> np.ndarray:
    """A network's output (1,3,H,W), clamped to [-1,1], as pixels (H,W,3) uint8.

    The inverse of `to_tensor`, exact for every level. Raises ValueError for another shape and for
    values that are not finite, which no pixel can show.
    """
    if tensor.ndim != 4 or tensor.shape[0] != 1 or tensor.shape[1] != 3:
        raise ValueError(f"wanted a picture of shape (1,3,H,W), got {tuple(tensor.shape)}")
    levels = tensor.detach()[0].to("cpu", torch.float32).add(1.0).mul_(127.5)
    if not torch.isfinite(levels).all():
        raise ValueError("the network's picture holds values that are not finite")
    pixels = levels.round_().clamp_(0, 255).to(torch.uint8)
    return pixels.permute(1, 2, 0).contiguous().numpy()


def resize(picture: Picture, max_size: int) -> Picture:
    """Shrink so that the longest side is at most `max_size` pixels; never enlarge.

    Lanczos; with alpha the colors are weighted by it, so that no hidden color bleeds into an edge.
    Raises ValueError for a `max_size` below 1.
    """
    if max_size < 1:
        raise ValueError(f"a picture's longest side must be at least 1 pixel, got {max_size}")
    scale = max_size / max(picture.width, picture.height)
    if scale >= 1:
        return picture
    size = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
    rgb = np.array(Image.fromarray(picture.rgb).resize(size, Image.Resampling.LANCZOS))
    if picture.alpha is None:
        return replace(picture, rgb=rgb)
    # Pillow premultiplies RGBA for the filter and divides afterwards. That leaves black where
    # nothing is visible, a color the picture may not have: keep the plain average there.
    rgba = np.dstack([picture.rgb, picture.alpha])
    rgba = np.array(Image.fromarray(rgba).resize(size, Image.Resampling.LANCZOS))
    alpha = np.ascontiguousarray(rgba[..., 3])
    visible = np.where(alpha[..., None] > 0, rgba[..., :3], rgb)
    return replace(picture, rgb=visible, alpha=alpha)


def strip(picture: Picture) -> Picture:
    """The picture without what its EXIF block tells of people, places and days.

    Kept are the camera's and the lens's make and model, the exposure and its settings, the
    resolution and the software. All else goes: dates, GPS, artist, copyright, owner, serial
    numbers, unique ids, the maker's notes, and every field of free text.
    """
    if not picture.exif:
        return picture
    whole = Image.Exif()
    whole.load(picture.exif)
    details = whole.get_ifd(ExifTags.IFD.Exif)
    kept = Image.Exif()
    kept.update({tag: whole[tag] for tag in _IMPERSONAL if tag in whole})
    if details := {tag: details[tag] for tag in _IMPERSONAL if tag in details}:
        kept[ExifTags.IFD.Exif] = details
    return replace(picture, exif=kept.tobytes() if kept else b"")


def gray(picture: Picture) -> np.ndarray:
    """The picture as a mask, uint8 (H,W): its brightness, and 0 where it is transparent."""
    level = np.array(Image.fromarray(picture.rgb).convert("L"))
    if picture.alpha is None:
        return level
    return ((level.astype(np.uint16) * picture.alpha + 127) // 255).astype(np.uint8)


def flatten(picture: Picture) -> Picture:
    """The picture laid on white, without alpha; itself where it has none."""
    if picture.alpha is None:
        return picture
    alpha = picture.alpha[..., None].astype(np.uint16)
    # (x + 127) // 255 rounds to the nearest; 255 * 255 + 127 fits 16 bits.
    blended = (picture.rgb * alpha + 255 * (255 - alpha) + 127) // 255
    return replace(picture, rgb=blended.astype(np.uint8), alpha=None)


def save(
    picture: Picture,
    path: str | os.PathLike,
    format: str | None = None,
    *,
    placing: Callable[[Path], object] | None = None,
    durable: bool = True,
) -> tuple[str, ...]:
    """Write a picture as png, jpg or webp (by default what the path's suffix says).

    The file appears whole or not at all: it is written beside its place under another name, which
    is removed if anything fails, and then moved there. An sRGB profile and the picture's EXIF
    block go into it. png and webp keep alpha; for jpg the picture is laid on white. Returns notes
    on what the format could not keep.

    placing: called with the whole file's other name just before it is moved into its place.
    durable: wait until the disk has it, so that it is whole even after the power fails.

    Raises ImageError where the file cannot be written, ValueError for another format.
    """
    path = Path(path)
    format = output_format(format if format is not None else path.suffix)
    side = max(picture.width, picture.height)
    if side > _LONGEST_SIDE[format]:
        raise ImageError(
            str(path), f"{format} holds at most {_LONGEST_SIDE[format]} pixels a side, not {side}"
        )
    notes = ()
    if format == "jpg" and picture.alpha is not None:
        if picture.alpha.min() < 255:
            notes = ("its transparency was laid on white, since jpg has none",)
        picture = flatten(picture)
    exif = picture.exif
    if format == "jpg" and len(exif) > _LONGEST_JPEG_EXIF:
        notes += ("its EXIF data was left out, since jpg holds no more than 64 KB of it",)
        exif = b""
    pixels = picture.rgb if picture.alpha is None else np.dstack([picture.rgb, picture.alpha])
    encoder, options = _ENCODERS[format]
    image = _image(pixels)
    options = {**options, "icc_profile": _srgb_profile()}
    if exif:
        options["exif"] = exif
    with writing_whole(path, placing, durable=durable) as part, open(part, "xb") as file:
        image.save(file, encoder, **options)
    return notes


@functools.cache
def _srgb_profile() -> bytes:
    profile = bytearray(ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())
    # Bytes 24 to 36 say when the profile was made, which is now: two runs would differ by it.
    profile[24:36] = b"".join(part.to_bytes(2, "big") for part in (2026, 1, 1, 0, 0, 0))
    return bytes(profile)


def output_format(name: str) -> str:
    """One of FORMATS for a format's name or suffix ("jpeg", ".JPG"); else ValueError."""
    format = name.lower().lstrip(".")
    format = "jpg" if format in ("jpeg", "jpe", "jfif") else format
    if format not in _ENCODERS:
        raise ValueError(f"pictures are saved as {', '.join(FORMATS)}, not as {name!r}")
    return format


@contextmanager
def writing_whole(
    path: str | os.PathLike,
    placing: Callable[[Path], object] | None = None,
    *,
    durable: bool = True,
) -> Iterator[Path]:
    """Gives the name beside `path` to write to; what is written is then moved to `path`.

    The file appears whole or not at all, whatever happens in between; its other name is gone
    afterwards. placing: called with the other name just before the move. durable: as in save.

    Raises ImageError where it cannot be written.
    """
    path = Path(path)
    part = path.with_name(f".repaint-{os.getpid()}-{uuid.uuid4().hex}.part")
    try:
        # Not tempfile: the file gets the permissions that the user's umask says.
        yield part
        if durable:
            with open(part, "rb+") as file:
                os.fsync(file.fileno())
        if placing is not None:
            placing(part)
        os.replace(part, path)
    except OSError as error:
        raise ImageError(str(path), f"cannot be written: {error.strerror or error}") from error
    finally:
        # Gone already after the move; still there after any failure, Ctrl-C included.
        part.unlink(missing_ok=True)


def remove_leftovers(folders: Iterable[Path]) -> None:
    """Delete unfinished files that killed processes of this machine left in the folders."""
    for folder in folders:
        for part in folder.glob(".repaint-*-*.part"):
            named = re.fullmatch(r"\.repaint-(\d+)-[0-9a-f]{32}\.part", part.name)
            if named and not _is_running(int(named[1])):
                part.unlink(missing_ok=True)


def _is_running(process: int) -> bool:
    if os.name != "posix":
        return True  # there is no harmless signal to ask with
    if process == os.getpid():
        return False  # this one has not begun: in a container a number comes back
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def list_pictures(folder: str | os.PathLike, recursive: bool = False) -> list[Path]:
    """Paths of the pictures in a folder, by suffix, sorted; hidden files and folders left out.

    Raises ImageError where the folder is missing or cannot be read.
    """
    folder = Path(folder)
    found = []
    for parent, folders, names in os.walk(folder, onerror=_raise_unreadable):
        # Names that begin with a dot include the "._photo.jpg" that macOS leaves beside photos.
        folders[:] = [name for name in folders if recursive and not name.startswith(".")]
        found += [
            Path(parent, name)
            for name in names
            if is_picture_name(name) and not name.startswith(".")
        ]
    return sorted(found)


def is_picture_name(name: str | os.PathLike) -> bool:
    """Whether a file's suffix is one of a picture."""
    return Path(name).suffix.lower() in PICTURE_SUFFIXES


def _raise_unreadable(error: OSError) -> None:
    reason = "no such folder" if isinstance(error, FileNotFoundError) else error.strerror
    raise ImageError(str(error.filename), str(reason)) from error


def one_line(text: str) -> str:
    """The text with line breaks and control characters escaped, for a file's name may hold any."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in str(text)
    )
