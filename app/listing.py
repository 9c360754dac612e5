"""Which photos a command names, and where their results go."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from app import globs, images, listed_names
from app.batch import Job


class CommandError(ValueError):
    """The command line asks for something that cannot be done; nothing was painted."""


@dataclass(frozen=True)
class Plan:
    """What a command paints.

    Attributes:
        jobs: the photos in order, each with its output file.
        notes: one line each on what was passed over, and on results named after more than the
            photo's name.
    """

    jobs: list[Job]
    notes: tuple[str, ...] = ()


def read_list(name: str) -> list[str]:
    """The names in a file, one a line, or between zero bytes as `find -print0` writes them.

    "-" is standard input. What systems and editors write is read: any line ends, UTF-8 and UTF-16
    with or without a byte order mark, names in an older encoding, quoted names and file: addresses.
    Of the ways to read a line, the first that names something there is taken. Empty lines and those
    that begin with # are passed over.

    Raises CommandError where it cannot be read or holds no name.
    """
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise CommandError(f"--from-file {name}: cannot be read: {error.strerror}") from error
    names = listed_names.names(data)
    if not names:
        raise CommandError(f"--from-file {name}: no name in it")
    return names


def plan(
    arguments: Sequence[str],
    out: Path,
    format: str | None = None,
    recursive: bool = False,
    listed: Sequence[str] = (),
) -> Plan:
    """The photos that the arguments (files, folders, globs) name, each with its output file.

    A file named in full is always part of it, even one that is missing: it fails later, by itself.
    Of folders and globs only files with a picture's suffix are taken, and none from the output
    folder where that lies inside. With `recursive`, the results of a folder's pictures lie in the
    same subfolders of `out`, and so do those of the `listed` relative paths.

    A result has its photo's name with the suffix of its format. Where several would have one name,
    each keeps its photo's suffix, too: a.jpg and a.tif become a.jpg.png and a.tif.png. Where that
    is not enough, the photo's folders come before it: x/a.jpg and y/a.jpg become x-a.jpg, y-a.jpg.

    Raises CommandError where no photo is named, where a folder or glob holds no picture, where
    two photos would still be written to one file and where a photo would be written over.
    """
    found: dict[str, tuple[Path, Path]] = {}
    notes: dict[str, None] = {}
    for name in arguments:
        for path, subfolder in pictures_named(name, out, recursive, notes):
            found.setdefault(_photo(path), (path, subfolder))
    for name in listed:
        for path, subfolder in pictures_named(name, out, recursive, notes):
            if recursive and not Path(name).is_absolute() and ".." not in Path(name).parts:
                subfolder = path.parent
            found.setdefault(_photo(path), (path, subfolder))
    if not found:
        raise CommandError("no photo is named (give photos, folders, globs, or --from-file)")
    photos = {_place(path): path for path, _ in found.values()}
    jobs = _told_apart(
        [
            Job(path, out / subfolder / f"{path.stem}.{chosen}", chosen)
            for path, subfolder in found.values()
            for chosen in [format or own_format(path)]
        ]
    )
    writers: dict[str, Path] = {}
    for job in jobs:
        target = _place(job.output)
        if target in writers:
            raise CommandError(
                f"{writers[target]} and {job.input} would both be written to {job.output}"
            )
        if target in photos:
            raise CommandError(f"{photos[target]} would be written over; choose another --out")
        writers[target] = job.input
    longer = [job for job in jobs if job.output.stem != job.input.stem]
    if longer:
        first = longer[0]
        others = f", and {len(longer) - 1} more results likewise" if len(longer) > 1 else ""
        notes[
            f"{first.input}: its result is named {first.output.name}, to tell it from that of a "
            f"photo of the same name{others}"
        ] = None
    return Plan(jobs, tuple(notes))


def _told_apart(jobs: Sequence[Job]) -> list[Job]:
    """The jobs with longer names of results where several would be written to one file."""
    jobs, lengths = list(jobs), [0] * len(jobs)
    while True:
        groups: dict[str, list[int]] = {}
        for index, job in enumerate(jobs):
            groups.setdefault(_place(job.output), []).append(index)
        # A longer name may be another photo's own, as that of a.jpg.png is beside a.jpg and a.png:
        # such groups come up in the next round.
        groups = {place: group for place, group in groups.items() if len(group) > 1}
        changed = False
        for group in groups.values():
            longest = max(2 * len(jobs[index].input.absolute().parts) for index in group)
            for length in range(1 + min(lengths[index] for index in group), longest):
                longer = {i: max(length, lengths[i]) for i in group}
                names = {i: result_name(jobs[i].input, jobs[i].format, longer[i]) for i in group}
                if len(set(names.values())) == len(group):
                    break
            else:
                continue
            for index, name in names.items():
                output = jobs[index].output.with_name(name)
                jobs[index], lengths[index] = replace(jobs[index], output=output), longer[index]
            changed = True
        if not changed:
            return jobs


def result_name(photo: PurePath, format: str, length: int) -> str:
    """a.png, then a.jpg.png, then album-a.png, album-a.jpg.png, summer-album-a.png, and so on."""
    folders, suffixed = divmod(length, 2)
    absolute = photo.absolute() if isinstance(photo, Path) else photo
    parents = [part.strip("/\\:") for part in absolute.parent.parts]
    parts = parents[len(parents) - folders :] if folders else []
    return "-".join([*parts, photo.name if suffixed else photo.stem]) + f".{format}"


def _photo(path: Path) -> str:
    """One word for a photo, whichever links lead to its folder."""
    return os.path.join(os.path.realpath(path.parent), path.name)


def _place(path: Path) -> str:
    """One word for a file, however it is named."""
    return os.path.normcase(os.path.realpath(path))


def own_format(path: PurePath) -> str:
    """The format that the photo's suffix names, png where results cannot be saved in that."""
    try:
        return images.output_format(path.suffix)
    except ValueError:
        return "png"


def pictures_named(
    argument: str, out: Path, recursive: bool, notes: dict[str, None]
) -> list[tuple[Path, Path]]:
    """The files that one argument names, each with the subfolder of the output it belongs in.

    What is passed over goes to the notes.
    """
    if not argument:
        raise CommandError("an empty name among the photos")
    path = Path(argument)
    try:
        is_folder, is_there = path.is_dir(), path.exists()
    except OSError:  # a name that is too long, say: it fails by itself, and alone
        return [(path, Path())]
    if is_folder:
        root = path
        listing = images.look_through(path, recursive)
        pictures, passed_over = listing.pictures, listing.passed_over
        nothing = f"{argument}: no picture in this folder"
        nothing += "" if recursive else " (--recursive looks into its subfolders, too)"
    elif glob.has_magic(argument) and not is_there:
        root = _glob_root(path)
        matches = [Path(m) for m in globs.matches(argument)]
        # Whoever writes *.nef wants those.
        raw = (kind := images.kind_of_name(argument)) is not None and kind.raw
        pictures = [m for m in matches if (raw or images.is_picture_name(m)) and m.is_file()]
        # Links may lead to a photo in several ways: the shortest is taken.
        shortest = sorted(pictures, key=lambda picture: len(picture.parts), reverse=True)
        pictures = sorted({_photo(picture): picture for picture in shortest}.values())
        nothing, passed_over = f"{argument}: matches no picture", ()
    else:
        return [(path, Path())]
    # The results of the last run are not photos. Where both are one folder, they cannot be told
    # apart; then the checks in plan() speak up.
    if not _same_folder(out, root):
        pictures = [picture for picture in pictures if not _lies_in(picture, out)]
    if not pictures:
        raise CommandError("; ".join([nothing, *passed_over]))
    notes.update(dict.fromkeys(passed_over))
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
