"""Which photos a command names, and where their results go."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from app import images
from app.batch import Job


class CommandError(ValueError):
    """The command line asks for something that cannot be done; nothing was painted."""


def read_list(name: str) -> list[str]:
    """The names in a file, one a line, or between zero bytes as `find -print0` writes them.

    "-" is standard input; empty lines are passed over. Raises CommandError where it cannot be
    read or holds no name.
    """
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise CommandError(f"--from-file {name}: cannot be read: {error.strerror}") from error
    parts = data.split(b"\0") if b"\0" in data else data.splitlines()
    names = [os.fsdecode(part) for part in parts if part.strip()]
    if not names:
        raise CommandError(f"--from-file {name}: no name in it")
    return names


def plan(
    arguments: Sequence[str],
    out: Path,
    format: str | None = None,
    recursive: bool = False,
    listed: Sequence[str] = (),
) -> list[Job]:
    """The photos that the arguments (files, folders, globs) name, each with its output file.

    A file named in full is always part of it, even one that is missing: it fails later, by itself.
    Of folders and globs only files with a picture's suffix are taken, and none from the output
    folder where that lies inside. With `recursive`, the results of a folder's pictures lie in the
    same subfolders of `out`, and so do those of the `listed` relative paths.

    Raises CommandError where no photo is named, where a folder or glob holds no picture, where
    two photos would be written to one file and where a photo would be written over.
    """
    found: dict[str, tuple[Path, Path]] = {}
    for argument in arguments:
        for path, subfolder in _pictures_named(argument, out, recursive):
            found.setdefault(os.path.abspath(path), (path, subfolder))
    for name in listed:
        for path, subfolder in _pictures_named(name, out, recursive):
            if recursive and not Path(name).is_absolute() and ".." not in Path(name).parts:
                subfolder = path.parent
            found.setdefault(os.path.abspath(path), (path, subfolder))
    if not found:
        raise CommandError("no photo is named (give photos, folders, globs, or --from-file)")
    photos = {os.path.normcase(os.path.realpath(path)): path for path, _ in found.values()}
    jobs = []
    writers: dict[str, Path] = {}
    for path, subfolder in found.values():
        chosen = format or _own_format(path)
        output = out / subfolder / f"{path.stem}.{chosen}"
        target = os.path.normcase(os.path.realpath(output))
        if target in writers:
            raise CommandError(f"{writers[target]} and {path} would both be written to {output}")
        if target in photos:
            raise CommandError(f"{photos[target]} would be written over; choose another --out")
        writers[target] = path
        jobs.append(Job(path, output, chosen))
    return jobs


def _own_format(path: Path) -> str:
    """The format that the photo's suffix names, png where results cannot be saved in that."""
    try:
        return images.output_format(path.suffix)
    except ValueError:
        return "png"


def _pictures_named(argument: str, out: Path, recursive: bool) -> list[tuple[Path, Path]]:
    """The files that one argument names, each with the subfolder of the output it belongs in."""
    if not argument:
        raise CommandError("an empty name among the photos")
    path = Path(argument)
    if path.is_dir():
        root = path
        pictures = images.list_pictures(path, recursive)
        nothing = f"{argument}: no picture in this folder"
        nothing += "" if recursive else " (--recursive looks into its subfolders, too)"
    elif glob.has_magic(argument) and not path.exists():
        root = _glob_root(path)
        matches = sorted(glob.glob(argument, recursive=True))
        pictures = [Path(m) for m in matches if images.is_picture_name(m) and os.path.isfile(m)]
        nothing = f"{argument}: matches no picture"
    else:
        return [(path, Path())]
    # The results of the last run are not photos. Where both are one folder, they cannot be told
    # apart; then the checks in plan() speak up.
    if not _same_folder(out, root):
        pictures = [picture for picture in pictures if not _lies_in(picture, out)]
    if not pictures:
        raise CommandError(nothing)
    if not recursive:
        return [(picture, Path()) for picture in pictures]
    return [(picture, picture.parent.relative_to(root)) for picture in pictures]


def _glob_root(pattern: Path) -> Path:
    """The folder that a glob's matches lie in: its parts before the first wildcard."""
    parts = list(pattern.parts)
    first = next(i for i, part in enumerate(parts) if glob.has_magic(part))
    return Path(*parts[:first])


def _same_folder(one: Path, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def _lies_in(path: Path, folder: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))
