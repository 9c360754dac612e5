"""The one way to load a picture."""

from __future__ import annotations

import io
import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import numpy as np
from PIL import ExifTags, Image, ImageChops, UnidentifiedImageError

from app.images import _color, _containers, _ending, _jpeg_xl, _kinds, _raw, _tiff, _told
from app.images._exif import exif_of, kept_exif, orientation, turned
from app.images._levels import eight_bit, split_alpha
from app.images._picture import MAX_PIXELS, ImageError, Picture, TooLargeError, pixels_of

try:
    import pillow_heif
except ImportError:
    pillow_heif = None  # type: ignore[assignment]  # there is no type for a module or none
else:
    pillow_heif.register_heif_opener()

# Raster formats that Pillow decodes in this process. EPS and WMF are left out on purpose: opening
# one starts another program, and the demo opens whatever a stranger uploads.
_READABLE = (
    *("JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP", "DIB", "PPM", "AVIF", "JPEG2000", "HEIF"),
    *("TGA", "ICO", "PCX", "PSD", "QOI", "SGI"),
)

# In these formats a second frame means an animation or a second page. In the others it means a
# thumbnail or a depth map (phone JPEGs) or layers (PSD), whose absence nobody would notice.
_FRAMES = {"GIF": "frames", "WEBP": "frames", "PNG": "frames", "AVIF": "frames", "TIFF": "pages"}

# How Pillow's readers, libheif and openjpeg say that a file ends too early.
_CUT_SHORT = ("truncated", "end of file", "broken data stream", "could not create decoder")
_DRAFT = 1.5  # a JPEG decoded at a reduced scale keeps this many times the pixels a side asked for
_HEAD = 1 << 20  # bytes in which a file says what its colors are

_GAIN_MAPS = (b"hdrgm:Version", b"urn:iso:std:iso:ts:21496:-1", b"aux:hdrgainmap", b"tmap")


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
    broken profile is ignored, with a note) or by what else the file says of them, wider samples
    become 8-bit, alpha is kept aside, and of an animation the first frame is taken, with a note.
    Of a camera raw file it is the largest picture inside, with a note; a file whose every pixel is
    there is read without its last bytes, with a note. The size is compared with `max_pixels`
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
    except ValueError as error:
        if isinstance(error, ImageError):
            raise
        raise ImageError(name, "is no name of a file") from error


def pixels_unpacked(path: str | os.PathLike, max_size: int | None = None) -> int | None:
    """How many pixels `load` would unpack, by the file's header; None where it doesn't say so.

    A guess by which memory is shared out: nothing is unpacked, and nothing is refused.
    """
    try:
        with open(path, "rb") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # Some readers take in much more than a header.
            _containers.check(file, str(path), MAX_PIXELS)
            image = _opened(file)
            # All scans of a progressive JPEG are held at its full size, whatever comes of them.
            if max_size is not None and not image.info.get("progressive"):
                _decode_smaller(image, max_size)
            return image.width * image.height
    except Exception:  # of what is damaged, or no picture; `load` says which
        return None


class _UnknownError(ImageError):
    """No reader knows the file."""


class _CutShortError(ImageError):
    """The file ends before its reader had all of it."""


def _read(file: BinaryIO, name: str, max_pixels: int, max_size: int | None) -> Picture:
    if not file.seekable():
        file = io.BytesIO(file.read())
    file.seek(0)
    head = file.read(512)
    if not head:
        raise ImageError(name, "is empty (0 bytes)")
    _containers.check(file, name, max_pixels)
    kind, by_name = _kinds.kind_of_bytes(head), _kinds.kind_of_name(name)
    with warnings.catch_warnings():
        # Pillow warns of odd metadata and of large pictures: the first does no harm to the
        # pixels and the second is refused below.
        warnings.simplefilter("ignore")
        if kind is not None and kind.raw:
            return _inside_raw(file, kind, name, max_pixels, max_size)
        if kind is _kinds.JPEG_XL and _jpeg_xl.is_readable():
            return _read_jpeg_xl(file, name, max_pixels)
        if kind not in (None, _kinds.HEIC):
            raise ImageError(name, f"is {kind.what}; {kind.remedy}")
        try:
            if _tiff.is_tiff(head):
                return _read_tiff(file, by_name, name, max_pixels)
            return _through_pillow(file, name, max_pixels, max_size)
        except _UnknownError as error:
            if kind is None and by_name is not None and by_name.raw:
                return _inside_raw(file, by_name, name, max_pixels, max_size)
            kind = kind or _kinds.variety_of_bytes(head) or by_name
            if kind is None or (kind is _kinds.HEIC and pillow_heif is not None):
                raise
            raise ImageError(name, f"is {kind.what}; {kind.remedy}") from error
        except _CutShortError:
            file.seek(0)
            whole = _ending.mended(file.read(), lambda data: _pixels_only(data, max_pixels))
            if whole is None:
                raise
            picture = _through_pillow(io.BytesIO(whole), name, max_pixels, max_size)
            return replace(picture, notes=(*picture.notes, _ending.MISSING))


@contextmanager
def _errors_named(name: str) -> Iterator[None]:
    """Whatever a reader raises becomes an ImageError."""
    try:
        yield
    except ImageError:
        raise
    except UnidentifiedImageError as error:
        raise _UnknownError(name, "is not a picture in a format that can be read") from error
    except Image.DecompressionBombError as error:
        # An icon holds a picture far larger than it says.
        raise ImageError(name, "is damaged: it would unpack to more pixels than it says") from error
    except MemoryError as error:
        raise ImageError(name, "does not fit in memory") from error
    except _tiff.LayoutError as error:
        raise ImageError(name, f"is {error}") from error
    except Exception as error:
        # On damaged bytes Pillow's readers raise whatever their parsing ran into: SyntaxError,
        # struct.error, EOFError, IndexError, zlib.error. All of them mean the same to the owner.
        text = str(error).strip()
        if isinstance(error, EOFError) or any(word in text.lower() for word in _CUT_SHORT):
            reason = "is cut short: the file ends before the picture does"
            raise _CutShortError(name, reason) from error
        raise ImageError(name, f"is damaged: {text or type(error).__name__}") from error


def _through_pillow(
    file: BinaryIO,
    name: str,
    max_pixels: int,
    max_size: int | None = None,
    *,
    page: int = 0,
    frames: int | None = None,
) -> Picture:
    with _errors_named(name):
        image = _opened(file)
        if page:
            image.seek(page)
        _check_size(image.size, name, max_pixels)
        if max_size is not None:
            _decode_smaller(image, max_size)
        image.load()
        # An icon says how large it is only when its pixels are read.
        _check_size(image.size, name, max_pixels)
        # Counted before the pixels are touched: transposing gives an image that no longer knows.
        frames = _frame_count(image) if frames is None else frames
        notes = []
        if frames > 1:
            notes.append(f"only the first of its {frames} {_FRAMES[str(image.format)]} is used")
        # Pillow does not always miss the end of these two.
        if not _ending.is_there(file):
            notes.append(_ending.MISSING)
        return _decoded(image, _head(file), name, notes)


def _opened(file: BinaryIO) -> Image.Image:
    readable = [format for format in _READABLE if format in _registered()]
    file.seek(0)
    with _pillow_limit:
        limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
        try:
            return Image.open(file, formats=readable)
        finally:
            Image.MAX_IMAGE_PIXELS = limit


def _registered() -> dict:
    Image.init()
    return Image.OPEN


def _pixels_only(data: bytes, max_pixels: int) -> np.ndarray:
    image = _opened(io.BytesIO(data))
    _check_size(image.size, "picture", max_pixels)
    return np.asarray(image)


def _head(file: BinaryIO) -> bytes:
    file.seek(0)
    return file.read(_HEAD)


def _check_size(size: tuple[int, int], name: str, max_pixels: int) -> None:
    width, height = size
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
        width, height = (max(1, round(scale * side)) for side in image.size)
        image.draft(None, (width, height))


def _decoded(
    image: Image.Image, head: bytes, name: str, notes: list[str], exif: Image.Exif | None = None
) -> Picture:
    """An opened picture whose pixels are loaded.

    Args:
        notes: those known before.
        exif: what counts instead of the picture's own.
    """
    exif = exif_of(image, notes) if exif is None else exif
    told = _told.of(exif, head)
    notes += told.notes
    profile = None if told.wins else image.info.get("icc_profile") or told.profile
    if image.format == "JPEG" and image.mode == "CMYK" and "adobe" not in image.info:
        image = ImageChops.invert(image)  # Pillow took its ink for Adobe's, which is upside down
    color, alpha = split_alpha(turned(image, orientation(exif)))
    color = _in_srgb(eight_bit(color, notes), profile, told.space, notes)
    if any(mark in head for mark in _GAIN_MAPS):
        notes.append("its gain map for screens of high dynamic range was left out")
    return Picture(pixels_of(color), alpha, name, tuple(notes), kept_exif(exif))


def _in_srgb(
    color: Image.Image, profile: bytes | None, space: _told.Space | None, notes: list[str]
) -> Image.Image:
    """An 8-bit image of any mode as RGB."""
    if profile:
        color = _color.through_profile(color, profile, notes)
    elif space is not None:
        color = _color.through_space(color, space, notes)
    if color.mode == "LAB":
        return _color.lab_to_srgb(color)
    if color.mode == "CMYK" and not profile:
        notes.append("its CMYK colors come without a profile; how they are printed was guessed")
    return color if color.mode == "RGB" else color.convert("RGB")


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


def _read_tiff(file: BinaryIO, by_name: _kinds.Kind | None, name: str, max_pixels: int) -> Picture:
    try:
        tiff = _tiff.Tiff(file)
    except Exception:  # a damaged file raises whatever its parsing runs into
        return _through_pillow(file, name, max_pixels)
    with _errors_named(name):
        if tiff.is_sensor or (by_name is not None and by_name.raw):
            kind = by_name if by_name is not None and by_name.raw else _kinds.DNG
            return _inside_raw(file, kind, name, max_pixels, None)
        _check_size(tiff.size, name, max_pixels)
        if tiff.pillow_reads():
            try:
                return _through_pillow(
                    file, name, max_pixels, page=tiff.index or 0, frames=tiff.pages
                )
            except _UnknownError:
                if not tiff.is_unpacked_here():
                    raise tiff.refusal() from None
            except ImageError as error:
                if tiff.is_cut:
                    raise EOFError from error
                if tiff.is_webp:  # which libtiff, as Pillow's packages have it, can't unpack
                    raise tiff.refusal() from error
                raise
        return _unpacked(tiff, file, name, _raw.exif(file))


def _unpacked(tiff: _tiff.Tiff, file: BinaryIO, name: str, exif: Image.Exif | None) -> Picture:
    page = tiff.unpack()
    notes = list(page.notes)
    if tiff.pages > 1:
        notes.insert(0, f"only the first of its {tiff.pages} pages is used")
    told = _told.of(exif, _head(file))
    color = _in_srgb(page.image, tiff.profile, told.space, notes)
    color, alpha = turned(color, tiff.orientation), page.alpha
    if alpha is not None:
        alpha = np.array(turned(Image.fromarray(alpha), tiff.orientation))
    return Picture(pixels_of(color), alpha, name, tuple(notes), kept_exif(exif))


def _read_jpeg_xl(file: BinaryIO, name: str, max_pixels: int) -> Picture:
    with _errors_named(name):
        image = _jpeg_xl.opened(file, lambda size: _check_size(size, name, max_pixels))
        _check_size(image.size, name, max_pixels)
        exif = exif_of(image, [])
        if exif is not None:
            exif.pop(ExifTags.Base.Orientation, None)  # its reader has turned it already
        return _decoded(image, b"", name, [], exif)


def _inside_raw(
    file: BinaryIO, kind: _kinds.Kind, name: str, max_pixels: int, max_size: int | None
) -> Picture:
    """The largest finished picture in a camera raw file."""
    exif = _raw.exif(file)
    jpeg, place = _raw.largest_preview(file) or (b"", None)
    pixels = place.width * place.height if place else 0
    plain = _raw.largest_plain(file)
    if plain is not None and plain.size[0] * plain.size[1] > pixels:
        place = None
    with _errors_named(name):
        if plain is not None and place is None:
            _check_size(plain.size, name, max_pixels)
            picture = _unpacked(plain, file, name, exif)
            width, height = plain.size
        elif place is not None:
            _containers.check(io.BytesIO(jpeg), name, max_pixels)
            image = _opened(io.BytesIO(jpeg))
            _check_size(image.size, name, max_pixels)
            if max_size is not None:
                _decode_smaller(image, max_size)
            image.load()
            own = exif_of(image, [])
            # Most previews leave it to the file around them which side is up.
            told = exif if orientation(own) is None and exif is not None else own
            picture = _decoded(image, jpeg[:_HEAD], name, [], told)
            width, height = place.width, place.height
        else:
            raise ImageError(name, f"is {kind.what} without a picture in it; {kind.remedy}")
    note = f"is {kind.what}: the finished picture in it is used, {width} x {height} pixels"
    return replace(picture, notes=(note, *picture.notes))
