"""Folders of pictures sorted into classes, a subfolder a class."""

from __future__ import annotations

from pathlib import Path

from app.dataset import FolderError, PictureFolder
from app.terminal import typed

SMALLEST_CLASS = 2  # pictures; of one, nothing can be held back to choose by


def class_folders(folder: str | Path) -> dict[str, PictureFolder]:
    """The classes of a folder, by name: its subfolders with their pictures.

    Raises:
        FolderError: no such folder, no subfolders, fewer than two, or one of them with fewer
            than two readable pictures.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise FolderError(f"{folder}: there is no such folder")
    names = sorted(
        path.name for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")
    )
    if not names:
        raise FolderError(f"{folder}: has no subfolders; it needs one a class")
    if len(names) < 2:
        raise FolderError(f"{folder}: has one class alone, {names[0]!r}; it needs two or more")
    folders = {typed(name): PictureFolder(folder / name, name=typed(name)) for name in names}
    for pictures in folders.values():
        if len(pictures) < SMALLEST_CLASS:
            raise FolderError(
                f"{pictures.folder}: one picture alone; a class needs at least {SMALLEST_CLASS}"
            )
    return folders


def split_folder(artworks: str | Path, split: str) -> Path:
    """The folder of a split, ``train`` or ``test``.

    Raises:
        FolderError: no such folder, or no such split in it.
    """
    artworks = Path(artworks)
    if not artworks.is_dir():
        raise FolderError(f"{artworks}: there is no such folder")
    if not (artworks / split).is_dir():
        raise FolderError(f"{artworks}: has no subfolder {split!r}")
    return artworks / split
