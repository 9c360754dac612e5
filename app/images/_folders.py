"""The pictures of a folder."""

from __future__ import annotations

import os
from pathlib import Path

from app.images._picture import ImageError

# What counts as a picture when a folder is read. HEIC is listed even where its reader is not
# installed: its owner should learn why it was not read instead of missing it in the output.
PICTURE_SUFFIXES = frozenset(
    (
        *(".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".apng", ".webp", ".gif", ".tif", ".tiff"),
        *(".bmp", ".dib", ".ppm", ".pgm", ".pbm", ".pnm", ".avif", ".jp2", ".heic", ".heif"),
        *(".hif", ".tga", ".ico", ".pcx", ".psd", ".qoi", ".sgi"),
    )
)


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
