"""The one way to save a picture."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from app.images._color import srgb_profile
from app.images._picture import ImageError, Picture, flatten, image_of
from models import whole_file

# Quality 95 without chroma subsampling: brushwork is small patches of saturated color, which
# 4:2:0 would smear over neighboring pixels.
_ENCODERS: dict[str, tuple[str, dict[str, Any]]] = {
    "png": ("PNG", {}),
    "jpg": ("JPEG", {"quality": 95, "subsampling": 0}),
    "webp": ("WEBP", {"quality": 95}),
}
_LONGEST_SIDE = {"png": 2**31 - 1, "jpg": 65_500, "webp": 16_383}
_LONGEST_JPEG_EXIF = 65_533  # bytes that one segment of a JPEG holds

FORMATS = tuple(_ENCODERS)


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
    notes: tuple[str, ...] = ()
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
    image = image_of(pixels)
    options = {**options, "icc_profile": srgb_profile()}
    if exif:
        options["exif"] = exif
    with writing_whole(path, placing, durable=durable) as part, open(part, "xb") as file:
        image.save(file, encoder, **options)
    return notes


def output_format(name: str) -> str:
    """One of FORMATS for a format's name or suffix ("jpeg", ".JPG"); else ValueError."""
    if not isinstance(name, str):
        raise ValueError(f"pictures are saved as {', '.join(FORMATS)}, not as {name!r}")
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
    """As ``models.whole_file.writing_whole``, but raises ImageError where it cannot be written."""
    try:
        with whole_file.writing_whole(path, placing, durable=durable) as part:
            yield part
    except OSError as error:
        reason = f"cannot be written: {whole_file.reason_of(error)}"
        raise ImageError(str(path), reason) from error
