"""Stylize photos from the command line: python -m app.stylize PHOTO ... --style NAME --out FOLDER.

Exit codes: 0 all done, 1 some pictures failed, 2 the command line is wrong, 130 stopped by Ctrl-C.
"""

import argparse
import glob
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from tqdm import tqdm

import models
from app import images
from app.painter import Painter

DEFAULT_CHECKPOINT = Path(__file__).resolve().parents[1] / "checkpoints" / "artworks.safetensors"


class CommandError(ValueError):
    """The command line asks for something that cannot be done; nothing was painted."""


@dataclass(frozen=True)
class Job:
    """One photo to paint and the file to write it to."""

    input: Path
    output: Path
    format: str


@dataclass(frozen=True)
class Outcome:
    """What became of one photo; with --json, its line on stdout.

    status: "done", "failed" or "skipped". reason: one line for the latter two. output: None where
    none was written. seconds: from reading to writing. width, height: of the result, in pixels.
    """

    input: str
    output: str | None
    status: str
    reason: str | None = None
    seconds: float = 0.0
    width: int | None = None
    height: int | None = None
    notes: tuple[str, ...] = ()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    parser = _parser()
    args = parser.parse_args(argv)
    try:
        # Everything that can be wrong with the whole command is found before the first photo.
        jobs = plan(args.photos, args.out, args.format, args.recursive)
        painter = Painter(args.checkpoint, args.device)
        style = painter.style(args.style)
        _make_folder(args.out)
    except (ValueError, OSError) as error:
        print(f"{parser.prog}: error: {images.one_line(str(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted before the first picture", file=sys.stderr)
        return 130

    counts = Counter()
    started = time.perf_counter()
    progress = tqdm(jobs, unit="picture", file=sys.stderr, disable=None, dynamic_ncols=True)
    try:
        for job in progress:
            outcome = stylize(job, painter, style, args.strength, args.max_size, args.overwrite)
            counts[outcome.status] += 1
            _report(outcome, args.json)
    except KeyboardInterrupt:
        progress.close()
        left = len(jobs) - counts.total()
        print(f"interrupted: {_summary(counts)}, {left} left", file=sys.stderr)
        return 130
    seconds = time.perf_counter() - started
    print(f"{_summary(counts)} in {seconds:.1f} s; see {args.out}", file=sys.stderr)
    return 1 if counts["failed"] else 0


def plan(
    arguments: Sequence[str], out: Path, format: str | None = None, recursive: bool = False
) -> list[Job]:
    """The photos that the arguments (files, folders, globs) name, each with its output file.

    A file named in full is always part of it, even one that is missing: it fails later, by itself.
    Of folders and globs only files with a picture's suffix are taken, and none from the output
    folder where that lies inside.

    Raises CommandError where a folder or glob holds no picture, where two photos would be written
    to one file and where a photo would be written over.
    """
    found: dict[str, tuple[Path, Path]] = {}
    for argument in arguments:
        for path, subfolder in _pictures_named(argument, out, recursive):
            found.setdefault(os.path.abspath(path), (path, subfolder))
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


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"--out {folder}: cannot be made: {error.strerror}") from error
    if not os.access(folder, os.W_OK):
        raise CommandError(f"--out {folder}: cannot be written to")


def stylize(
    job: Job,
    painter: Painter,
    style: models.StyleCode,
    strength: float = 1.0,
    max_size: int | None = None,
    overwrite: bool = False,
) -> Outcome:
    """Load, paint and save one photo; whatever goes wrong becomes a failed outcome."""
    started = time.perf_counter()
    try:
        if job.output.exists() and not overwrite:
            reason = f"{job.output} exists already (--overwrite replaces it)"
            return Outcome(str(job.input), str(job.output), "skipped", images.one_line(reason))
        photo = images.load(job.input)
        painted = painter.paint(photo, style, strength, max_size)
        job.output.parent.mkdir(parents=True, exist_ok=True)
        lost = images.save(painted, job.output, job.format)
    except Exception as error:
        # One photo must not take the rest of the batch with it, whatever it ran into.
        seconds = time.perf_counter() - started
        reason = images.one_line(_reason(error, job))
        return Outcome(str(job.input), None, "failed", reason, round(seconds, 3))
    seconds = time.perf_counter() - started
    return Outcome(
        input=str(job.input),
        output=str(job.output),
        status="done",
        seconds=round(seconds, 3),
        width=painted.width,
        height=painted.height,
        notes=painted.notes + lost,
    )


def _reason(error: Exception, job: Job) -> str:
    """One line for the photo's owner, without the photo's name, which is printed before it."""
    if isinstance(error, images.ImageError):
        about_input = error.name == images.one_line(str(job.input))
        return error.reason if about_input else str(error)
    text = str(error).strip().splitlines()
    text = text[0] if text else ""
    # torch says it in three ways: its own CUDA error, and RuntimeErrors of two CPU allocators.
    memory = (MemoryError, torch.OutOfMemoryError)
    if isinstance(error, memory) or "allocate" in text or "not enough memory" in text:
        return "not enough memory for its size; --max-size makes it smaller"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _report(outcome: Outcome, as_json: bool) -> None:
    name = images.one_line(outcome.input)
    lines = [f"{name}: {note}" for note in outcome.notes]
    if outcome.status != "done":
        lines.append(f"{name}: {outcome.status}: {outcome.reason}")
    for line in lines:
        tqdm.write(line, file=sys.stderr)
    if as_json:
        # tqdm.write lifts a progress bar out of the way where both streams are one terminal.
        tqdm.write(json.dumps(asdict(outcome)), file=sys.stdout)
        sys.stdout.flush()


def _summary(counts: Counter) -> str:
    words = [f"{counts['done']} painted"]
    words += [f"{counts[status]} {status}" for status in ("skipped", "failed") if counts[status]]
    return ", ".join(words)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m app.stylize",
        description="Repaint photos in the style of a painting.",
        epilog="Exit codes: 0 all done, 1 some pictures failed, 2 the command line is wrong.",
    )
    parser.add_argument(
        "photos", nargs="+", metavar="PHOTO|FOLDER|GLOB", help="photos, folders of photos, globs"
    )
    parser.add_argument(
        "--style",
        required=True,
        metavar="NAME|IMAGE",
        help="a built-in style (monet; monet:2 is its second variant) or a picture of your own",
    )
    parser.add_argument(
        "--out", required=True, type=_folder, metavar="FOLDER", help="where the results are written"
    )
    parser.add_argument(
        "--strength",
        type=_strength,
        default=1.0,
        metavar="0..1",
        help="0 is the photo, 1 (the default) the full style",
    )
    parser.add_argument(
        "--max-size",
        type=_max_size,
        metavar="PX",
        help="shrink photos to this many pixels on their longest side",
    )
    parser.add_argument(
        "--format", choices=images.FORMATS, help="default: the photo's own, or else png"
    )
    parser.add_argument(
        "--device", choices=("auto", "cpu", "cuda", "mps"), default="auto", help="default: auto"
    )
    parser.add_argument(
        "--checkpoint",
        type=Path,
        default=DEFAULT_CHECKPOINT,
        metavar="FILE",
        help="the trained network; default: the one that comes with Repaint",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace results that exist")
    parser.add_argument(
        "--recursive", action="store_true", help="read subfolders, too, and mirror them in --out"
    )
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object a picture on stdout"
    )
    return parser


def _folder(text: str) -> Path:
    if not text:  # Path("") would be the current folder
        raise argparse.ArgumentTypeError("must name a folder")
    return Path(text)


def _strength(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not 0 <= value <= 1:  # false for NaN, too
        raise argparse.ArgumentTypeError(f"must be a number from 0 to 1, got {text!r}")
    return value


def _max_size(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of pixels above 0, got {text!r}")
    return value


if __name__ == "__main__":
    sys.exit(main())
