"""Which photos a command names, kept on disk: a million of them fit in little memory.

The rules are those of :mod:`app.listing`; inputs and outputs may also be in object stores.
"""

from __future__ import annotations

import glob
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

from app import images, listing
from app.batch import Job, note_of
from app.cluster import stores
from app.listing import CommandError

_TABLES = """
create table photo (
    number integer primary key, place text unique, input text, folder text,
    stem text, format text, output text, longer integer default 0
);
create table made (output text, result text, key text);
"""


class Plan:
    """The photos and their results' places.

    Args:
        file: where it is kept; for this run alone.
        out: the output folder or address.
    """

    def __init__(self, file: Path, out: str) -> None:
        self.out = out
        self.notes: list[str] = []
        self._rows = sqlite3.connect(file, isolation_level=None)
        self._rows.execute("pragma journal_mode = off")
        self._rows.execute("pragma synchronous = off")
        self._rows.executescript(_TABLES)

    def __len__(self) -> int:
        return self._rows.execute("select count(*) from photo").fetchone()[0]

    def fill(
        self, names: Iterable[str], format: str | None, recursive: bool, *, listed: Sequence[str]
    ) -> None:
        """Finds all photos that the names name; see :func:`app.listing.plan`.

        Raises CommandError and stores.StoreError.
        """
        self._rows.execute("begin")
        for name in names:
            self._add_all(_named(name, self.out, recursive, self.notes), format)
        for name in listed:
            for found, folder in _named(name, self.out, recursive, self.notes):
                if recursive and not stores.is_address(name) and not Path(name).is_absolute():
                    folder = "" if ".." in Path(name).parts else str(Path(found).parent)
                self._add_all([(found, folder)], format)
        self._rows.execute("create index by_output on photo (output)")
        self._rows.execute("commit")
        if not len(self):
            raise CommandError("no photo is named (give photos, folders, globs, or --from-file)")
        self._tell_apart()
        self._check()

    def _add_all(self, found: Iterable[tuple[str, str]], format: str | None) -> None:
        for name, folder in found:
            if not _is_text(name):
                self.notes.append(
                    f"{name}: was passed over: its name is not in UTF-8, and a cluster carries no "
                    "other (app.stylize paints it)"
                )
                continue
            path = _path(name)
            chosen = format or listing.own_format(path)
            output = self._placed(folder, f"{path.stem}.{chosen}")
            self._rows.execute(
                "insert or ignore into photo (place, input, folder, stem, format, output) "
                "values (?, ?, ?, ?, ?, ?)",
                (_place(name), name, folder, path.stem, chosen, output),
            )

    def _placed(self, folder: str, name: str) -> str:
        inside = str(PurePosixPath(folder) / name) if folder not in ("", ".") else name
        if stores.is_address(self.out):
            return stores.join(self.out, inside)
        return str(Path(self.out) / inside)

    def _tell_apart(self) -> None:
        """Longer names of results where several would be written to one file."""
        while True:
            shared = self._rows.execute(
                "select output from photo group by output having count(*) > 1"
            ).fetchall()
            changed = False
            for (output,) in shared:
                group = self._rows.execute(
                    "select number, input, folder, format, longer from photo where output = ?",
                    (output,),
                ).fetchall()
                paths = {row[0]: _path(row[1]) for row in group}
                longest = max(2 * len(path.parts) for path in paths.values())
                for length in range(1 + min(row[4] for row in group), longest):
                    longer = {row[0]: max(length, row[4]) for row in group}
                    names = {
                        number: listing.result_name(paths[number], format, longer[number])
                        for number, _, _, format, _ in group
                    }
                    if len(set(names.values())) == len(group):
                        break
                else:
                    continue
                for number, _, folder, _, _ in group:
                    self._rows.execute(
                        "update photo set output = ?, longer = ? where number = ?",
                        (self._placed(folder, names[number]), longer[number], number),
                    )
                changed = True
            if not changed:
                return

    def _check(self) -> None:
        twice = self._rows.execute(
            "select min(input), max(input), output from photo group by output having count(*) > 1"
        ).fetchone()
        if twice:
            raise CommandError(f"{twice[0]} and {twice[1]} would both be written to {twice[2]}")
        over = self._rows.execute(
            "select a.input from photo a join photo b on b.output = a.place limit 1"
        ).fetchone()
        if not over and not stores.is_address(self.out):
            # Paths may be written in several ways.
            for (output,) in self._rows.execute("select output from photo"):
                found = self._rows.execute(
                    "select input from photo where place = ?", (_place(output),)
                ).fetchone()
                if found:
                    over = found
                    break
        if over:
            raise CommandError(f"{over[0]} would be written over; choose another --out")
        count, first, output = self._rows.execute(
            "select count(*), min(input), min(output) from photo where longer > 0"
        ).fetchone()
        if count:
            others = f", and {count - 1} more results likewise" if count > 1 else ""
            self.notes.append(
                f"{first}: its result is named {_path(output).name}, to tell it from that of a "
                f"photo of the same name{others}"
            )

    def note_made(self, lines: Iterable[bytes]) -> None:
        """What earlier runs noted of results, as :class:`app.batch.Manifest` writes it."""
        self._rows.execute("begin")
        for line in lines:
            if (noted := note_of(line)) and all(map(_is_text, noted)):
                self._rows.execute("insert into made values (?, ?, ?)", noted)
        self._rows.execute("commit")
        self._rows.execute("create index if not exists of_output on made (output)")

    def name_in_out(self, output: str) -> str:
        """How the manifest calls a result."""
        return name_in(self.out, output)

    def jobs(self) -> Iterator[tuple[Job[str], dict[str, str]]]:
        """The photos in order, each with the digests and keys of results known in its place."""
        for name, output, format in self._rows.execute(
            "select input, output, format from photo order by number"
        ):
            known = self._rows.execute(
                "select result, key from made where output = ?", (self.name_in_out(output),)
            ).fetchall()
            yield Job(name, output, format), dict(known)

    def made(self) -> Iterator[tuple[str, str, str]]:
        """Each result ever noted, the last word on it: its place, its digest and its key."""
        yield from self._rows.execute("select distinct output, result, key from made")


def name_in(out: str, output: str) -> str:
    """A result's place in the output folder."""
    if stores.is_address(out):
        return stores.path_of(output).relative_to(stores.path_of(out)).as_posix()
    return Path(output).relative_to(out).as_posix()


def _is_text(name: str) -> bool:
    """Whether it can be written in UTF-8; a disk allows names of any bytes."""
    return not any("\ud800" <= character <= "\udfff" for character in name)


def _path(name: str) -> Path | PurePosixPath:
    return stores.path_of(name) if stores.is_address(name) else Path(name)


def _place(name: str) -> str:
    if stores.is_address(name):
        return name
    path = Path(name)
    return os.path.join(os.path.realpath(path.parent), path.name)


def _named(name: str, out: str, recursive: bool, notes: list[str]) -> Iterator[tuple[str, str]]:
    """The photos that one argument names, each with the subfolder of the output it belongs in."""
    if not stores.is_address(name):
        seen: dict[str, None] = {}
        for photo, inside in listing.pictures_named(name, _local(out), recursive, seen):
            yield str(photo), "" if inside == Path() else inside.as_posix()
        notes.extend(seen)
        return
    pattern = stores.split(name)[0]
    if glob.has_magic(pattern):
        root, found = stores.root_of(pattern), stores.matches(name)
        nothing = f"{name}: matches no picture"
    elif (kind := stores.kind(name)) == "folder":
        root, found = name, stores.files(name, recursive)
        nothing = f"{name}: no picture in this folder"
        nothing += "" if recursive else " (--recursive looks into its subfolders, too)"
    elif kind == "file" or images.is_picture_name(name.partition("?")[0]):
        yield name, ""
        return
    elif not stores.has_bucket(name):
        raise CommandError(f"{name}: there is no such bucket")
    else:
        raise CommandError(f"{name}: no such folder or picture")
    any_found = False
    top = stores.path_of(root)
    skipped = stores.path_of(out) if stores.is_address(out) else None
    for address in found:
        path = stores.path_of(address)
        if not images.is_picture_name(path.name):
            continue
        # The results of the last run are not photos.
        if skipped is not None and skipped != top and path.is_relative_to(skipped):
            continue
        any_found = True
        folder = path.parent.relative_to(top).as_posix() if recursive else ""
        yield address, "" if folder == "." else folder
    if not any_found:
        raise CommandError(nothing)


def _local(out: str) -> Path:
    # No local photo lies in an object store.
    return Path(os.devnull) / "nowhere" if stores.is_address(out) else Path(out)
