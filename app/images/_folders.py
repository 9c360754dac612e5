"""The pictures of a folder."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from app.images._kinds import is_picture_name, kind_of_name
from app.images._picture import ImageError

_NAMED = 3  # files of a kind passed over that are named; of more, only the number is told


@dataclass(frozen=True)
class Listing:
    """What a folder holds.

    Attributes:
        pictures: by suffix, sorted.
        passed_over: a sentence for each kind of picture, clip or document that is not read from
            folders, and for each link that leads nowhere.
    """

    pictures: list[Path]
    passed_over: tuple[str, ...] = ()


def list_pictures(folder: str | os.PathLike, recursive: bool = False) -> list[Path]:
    """Paths of the pictures in a folder, by suffix, sorted; hidden files and folders left out.

    Raises ImageError where the folder is missing or cannot be read.
    """
    return look_through(folder, recursive).pictures


def look_through(folder: str | os.PathLike, recursive: bool = False) -> Listing:
    """The pictures of a folder and what else might have been meant; hidden files left out.

    Links to other folders are followed like subfolders, and every folder is read once, however
    many links lead to it: by its own name where it has one in here, and never in a circle.

    Raises ImageError where the folder is missing or cannot be read.
    """
    pictures: list[Path] = []
    others: dict[str, list[Path]] = {}
    for path in _files(Path(folder), recursive, others):
        if is_picture_name(path):
            pictures.append(path)
        elif kind := kind_of_name(path):
            hint = "named by itself, the picture in it is painted" if kind.raw else kind.remedy
            others.setdefault(f"{kind.what}: {hint}", []).append(path)
        elif recursive and path.is_symlink() and not path.exists():
            others.setdefault("a link that leads nowhere", []).append(path)
    words = (f"{_several(paths)}: passed over: {what}" for what, paths in sorted(others.items()))
    return Listing(sorted(pictures), tuple(words))


def folders_in(root: str | os.PathLike) -> Iterator[Path]:
    """A folder and all below it, each once, as `look_through` follows links; without hidden ones
    and those that cannot be read."""
    for folder, _ in _folders(Path(root), True, {}, lambda _: None):
        yield folder


def _files(root: Path, recursive: bool, others: dict[str, list[Path]]) -> Iterator[Path]:
    """The files of the folders; links and folders that are not followed go to `others`."""

    def unreadable(error: OSError) -> None:
        # One below, such as a disk's lost+found, does not keep anybody from the rest.
        if Path(error.filename) == root:
            _raise_unreadable(error)
        others.setdefault("a folder that cannot be read", []).append(Path(error.filename))

    for folder, names in _folders(root, recursive, others, unreadable):
        # Names that begin with a dot include the "._photo.jpg" that macOS leaves beside photos.
        yield from (folder / name for name in names if not name.startswith("."))


def _folders(
    root: Path,
    recursive: bool,
    others: dict[str, list[Path]],
    unreadable: Callable[[OSError], None],
) -> Iterator[tuple[Path, list[str]]]:
    around = {_identity(parent) for parent in Path(os.path.realpath(root)).parents}
    seen: set[tuple[int, int] | None] = set()
    waiting = deque([root])
    while waiting:
        links: list[Path] = []
        for parent, folders, names in os.walk(waiting.popleft(), onerror=unreadable):
            here = _identity(parent)
            if here is not None and here in seen:
                folders.clear()
                continue
            seen.add(here)
            folders[:] = sorted(name for name in folders if recursive and not name.startswith("."))
            links += [Path(parent, name) for name in folders if os.path.islink(f"{parent}/{name}")]
            yield Path(parent), names
        # Folders that lie here were read first, so that they go by their own names.
        for link in links:
            if (there := _identity(link)) is not None and there in around:
                others.setdefault("a link to a folder that this one lies in", []).append(link)
            else:
                waiting.append(link)


def _identity(folder: str | os.PathLike) -> tuple[int, int] | None:
    """What two names of one folder have in common; None where the system does not tell."""
    try:
        status = os.stat(folder)
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if status.st_ino else None


def _several(paths: Iterable[Path]) -> str:
    first, *others = sorted(paths)
    named = [str(first), *(path.name for path in others[: _NAMED - 1])]
    more = len(others) + 1 - len(named)
    if more:
        return f"{', '.join(named)} and {more} more"
    return " and ".join([", ".join(named[:-1]), named[-1]]) if others else named[0]


def _raise_unreadable(error: OSError) -> None:
    reason = "no such folder" if isinstance(error, FileNotFoundError) else error.strerror
    raise ImageError(str(error.filename), str(reason)) from error
