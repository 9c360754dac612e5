"""The one way to load a picture."""

from __future__ import annotations

import io
import os
import threading
import warnings
from pathlib import Path
from typing import BinaryIO

from PIL import Image, ImageCms, UnidentifiedImageError

from app.images import _containers
from app.images._color import through_profile
from app.images._exif import kept_exif, upright
from app.images._levels import eight_bit, split_alpha
from app.images._picture import MAX_PIXELS, ImageError, Picture, TooLargeError, pixels_of

try:
    import pillow_heif
except ImportError:
    pillow_heif = None
else:
    pillow_heif.register_heif_opener()
# Raster formats that Pillow decodes in this process. EPS and WMF are left out on purpose: opening
# one starts another program, and the demo opens whatever a stranger uploads.
_READABLE = (
    *("JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP", "DIB", "PPM", "AVIF", "JPEG2000", "HEIF"),
    *("TGA", "ICO", "PCX", "PSD", "QOI", "SGI"),
)

_HEIC_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")

# In these formats a second frame means an animation or a second page. In the others it means a
# thumbnail or a depth map (phone JPEGs) or layers (PSD), whose absence nobody would notice.
_FRAMES = {"GIF": "frames", "WEBP": "frames", "PNG": "frames", "AVIF": "frames", "TIFF": "pages"}

# How Pillow's readers and libheif say that a file ends too early.
_CUT_SHORT = ("truncated", "end of file")
_DRAFT = 1.5  # a JPEG decoded at a reduced scale keeps this many times the pixels a side asked for

# Pillow's own limit is a global of its module, lifted while a header is read.
_pillow_limit = threading.Lock()


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
    _containers.check(file, name, max_pixels)
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
    exif = kept_exif(image)
    image = upright(image, notes)
    color, alpha = split_alpha(image)
    color = eight_bit(color)
    if profile:
        color = through_profile(color, profile, notes)
    if color.mode == "LAB":
        color = ImageCms.profileToProfile(
            color, ImageCms.createProfile("LAB"), ImageCms.createProfile("sRGB"), outputMode="RGB"
        )
    color = color if color.mode == "RGB" else color.convert("RGB")
    return Picture(pixels_of(color), alpha, name, tuple(notes), exif)


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
