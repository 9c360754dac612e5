"""Stylize photos from the command line: python -m app.stylize PHOTO ... --style NAME --out FOLDER.

Exit codes: 0 all done, 1 some pictures failed, 2 the command line is wrong, 130 stopped by Ctrl-C
(143 by SIGTERM), 141 where nobody reads what it prints.
"""

import argparse
import functools
import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import Field, asdict
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import torch
from tqdm import tqdm

import models
from app import batch, images, shipped, terminal
from app.batch import Outcome
from app.limits import Limits
from app.listing import CommandError, plan, read_list
from app.look import OPTIONS, Look, chosen, explained
from app.options import add_max_pixels, add_precision, positive, say_precision
from app.painter import Painter, Region
from models import whole_file

# What shells report of a program that a closed pipe ended, as it ends `yes | head`.
BROKEN_PIPE = 141

# Where the network runs on a GPU, it waits for the CPU's decoding and encoding, not they for it.
JOBS_ON_A_GPU = 8
TOGETHER_ON_A_GPU = 16

_ROOM = 1 << 20  # bytes that the disk must have left before a batch begins


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    terminal.show_anything()
    try:
        return _main(argv)
    except BrokenPipeError:
        # What is still in the streams' buffers would raise again when the program ends.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            os.dup2(nowhere, stream.fileno())
        return BROKEN_PIPE


def _main(argv: Sequence[str] | None) -> int:
    parser = _parser()
    args = parser.parse_args(argv)
    try:
        # Everything that can be wrong with the whole command is found before the first photo.
        listed = read_list(args.from_file) if args.from_file else []
        planned = plan(args.photos, args.out, args.format, args.recursive, listed)
        jobs = planned.jobs
        # Each photo is painted once: what the painter could remember would only take memory.
        painter = Painter(
            args.checkpoint, args.device, Limits(remembered_content=0), args.precision
        )
        say_precision(painter.precision, args.verbose)
        work = _work(args, painter)
        _make_folder(args.out)
    except (ValueError, OSError) as error:
        print(f"{parser.prog}: error: {images.one_line(str(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted before the first picture", file=sys.stderr)
        return 130

    for note in planned.notes:
        print(images.one_line(note), file=sys.stderr)
    counts: Counter[str] = Counter()
    cores = torch.get_num_threads()
    started = time.perf_counter()
    with batch.stop_on_signals() as stop:
        outcomes = batch.run(jobs, work, args.out, stop)
        progress = tqdm(total=len(jobs), unit="picture", disable=None, dynamic_ncols=True)
        try:
            for outcome in outcomes:
                counts[counted_as(outcome)] += 1
                report(outcome, args.json)
                progress.update()
        except KeyboardInterrupt:
            # The second Ctrl-C: what is being written is left to the threads that write it.
            outcomes.close()
            if not stop():
                raise
        finally:
            progress.close()
            torch.set_num_threads(cores)
    left = len(jobs) - counts.total()
    if stop() and left:
        go_on = "the same command with --resume does the rest"
        print(f"interrupted: {summary(counts)}, {left} left; {go_on}", file=sys.stderr)
        return stop.exit_code
    seconds = time.perf_counter() - started
    print(f"{summary(counts)} in {seconds:.1f} s; see {args.out}", file=sys.stderr)
    return 1 if counts["failed"] else 0


class _AbandonedError(Exception):
    """The batch was given up while a picture of it was painted."""


class _Painters:
    """The painter given, or one more for each thread that paints beside others.

    Each of several has its share of the cores: that is faster than all of them at one picture,
    whose layers leave some idle.
    """

    def __init__(self, first: Painter, count: int) -> None:
        self.first, self.count = first, count
        self._own, self._cores = threading.local(), torch.get_num_threads()

    def mine(self) -> Painter:
        """This thread's painter."""
        if self.count == 1:
            return self.first
        if not hasattr(self._own, "painter"):
            torch.set_num_threads(max(1, self._cores // self.count))
            precision = self.first.precision.name
            self._own.painter = Painter(self.first.path, "cpu", self.first.limits, precision)
        return self._own.painter


def _work(args: argparse.Namespace, painter: Painter) -> batch.Work:
    """What the options ask to do to every photo."""
    style, look = given_style(args, painter), look_of(args)
    on_gpu = painter.device.type != "cpu"
    painters = _Painters(painter, 1 if on_gpu else args.jobs or 1)
    abandoned = threading.Event()

    def check(_: float) -> None:
        if abandoned.is_set():
            raise _AbandonedError

    def paint(pictures: Sequence[images.Picture]) -> list[images.Picture]:
        progress = check if painters.count > 1 else None
        return paint_alike(painters.mine(), pictures, style, look, args.tile, progress)

    together = args.batch or (TOGETHER_ON_A_GPU if on_gpu else 1)
    return batch.Work(
        paint,
        settings_of(args),
        max_pixels=args.max_pixels,
        max_size=args.max_size,
        strip=args.strip,
        overwrite=args.overwrite,
        resume=args.resume,
        jobs=args.jobs or (min(JOBS_ON_A_GPU, os.cpu_count() or 1) if on_gpu else 1),
        # Regions belong to one photo, and tiles are cut from one.
        together=1 if args.mask or args.tile else together,
        painters=painters.count,
        abandoned=abandoned,
    )


def paint_alike(
    painter: Painter,
    pictures: Sequence[images.Picture],
    style: models.StyleCode | list[Region],
    look: Look,
    tile: int | None = None,
    progress: Callable[[float], None] | None = None,
) -> list[images.Picture]:
    """Pictures of one size, painted together where that is possible; see ``Painter.paint``."""
    # Beyond its limit the painter cuts tiles, and each of them fills the device alone.
    whole = pictures[0].width * pictures[0].height <= painter.limits.whole
    if len(pictures) > 1 and whole and isinstance(style, models.StyleCode):
        return painter.paint_together(pictures, style, look)
    return [
        painter.paint(picture, style, look, tile=tile, progress=progress) for picture in pictures
    ]


def given_style(args: argparse.Namespace, painter: Painter) -> models.StyleCode | list[Region]:
    """The code that --style and --blend make, or the regions that --style and --mask do."""
    if not args.mask:
        return style_of(args.style, args.blend, painter)
    if args.blend or len(args.mask) != len(args.style):
        given = f"{len(args.style)} --style, {len(args.mask)} --mask"
        given += ", --blend" if args.blend else ""
        raise CommandError(f"every --mask needs a --style of its own, and no --blend: {given}")
    pairs = zip(args.style, args.mask, strict=True)
    return [Region(painter.style(style), _mask(mask, args)) for style, mask in pairs]


def style_of(
    styles: Sequence[str], blend: Sequence[tuple[str, float]], painter: Painter
) -> models.StyleCode:
    """The code of one --style, or of what --blend mixes; --style gets what the weights leave of 1.

    Raises CommandError for none or several --style and for weights that leave it nothing, and
    what ``Painter.style`` raises.
    """
    if not styles and not blend:
        raise CommandError("a style is needed: --style or --blend")
    if len(styles) > 1:
        raise CommandError("several --style need a --mask each; --blend mixes styles")
    if not blend:
        return painter.style(styles[0])
    parts = list(blend)
    rest = 1 - sum(weight for _, weight in blend)
    if styles:
        if rest <= 0:
            raise CommandError(f"the weights of --blend leave nothing to --style {styles[0]}")
        parts.append((styles[0], rest))
    return painter.blend(parts)


def _mask(path: str, args: argparse.Namespace) -> np.ndarray:
    return images.gray(images.load(path, args.max_pixels))


def settings_of(args: argparse.Namespace) -> dict[str, object]:
    """All that decides a result but the photo: a change of any makes another result."""
    return {
        "checkpoint": batch.digest(args.checkpoint),
        "style": [_name_or_digest(style) for style in args.style],
        "blend": [(_name_or_digest(style), weight) for style, weight in args.blend],
        "mask": [batch.digest(mask) for mask in args.mask],
        **asdict(look_of(args)),
        "max_size": args.max_size,
        "tile": args.tile,
        "strip": args.strip,
    }


def _name_or_digest(style: str) -> str:
    return batch.digest(style) if os.path.isfile(style) else style


def _make_folder(folder: Path) -> None:
    """Makes the output folder and tries whether a file can be written there."""
    try:
        whole_file.check_place(folder / "painting", _ROOM)
        batch.Manifest(folder).check()
    except OSError as error:
        reason = whole_file.reason_of(error)
        raise CommandError(f"--out {folder}: cannot be written to: {reason}") from error


def counted_as(outcome: Outcome) -> str:
    """The word that an outcome goes by when a command sums up."""
    return "done before" if outcome.already_done else outcome.status


def report(outcome: Outcome, as_json: bool, to: TextIO | None = None) -> None:
    """What a command says of one picture: a line a note and a failure, and JSON if asked for.

    to: where JSON goes, if not to stdout.
    """
    name = images.one_line(outcome.input)
    lines = [f"{name}: {note}" for note in outcome.notes]
    # After --resume a line for each of the thousands that were done would bury the others.
    if outcome.status != "done" and not outcome.already_done:
        lines.append(f"{name}: {outcome.status}: {outcome.reason}")
    for line in lines:
        tqdm.write(line, file=sys.stderr)
    if as_json:
        # tqdm.write lifts a progress bar out of the way where both streams are one terminal.
        to = to or sys.stdout
        tqdm.write(json.dumps(asdict(outcome)), file=to)
        to.flush()


def summary(counts: Counter) -> str:
    """How many pictures came to which end."""
    words = [f"{counts['done']} painted"]
    others = ("done before", "skipped", "failed")
    words += [f"{counts[other]} {other}" for other in others if counts[other]]
    return ", ".join(words)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m app.stylize",
        description="Repaint photos in the style of a painting.",
        epilog="Exit codes: 0 all done, 1 some pictures failed, 2 the command line is wrong.",
    )
    add_batch_options(parser, out=_folder)
    parser.add_argument(
        "--jobs",
        type=positive,
        metavar="N",
        help="photos read, and pictures painted and written, at the same time (default: 1). On a "
        "CPU each has its share of the cores and its own memory; 0.4 GB a megapixel is usual. A "
        f"GPU paints by itself, and would else wait for the rest: up to {JOBS_ON_A_GPU} there",
    )
    return parser


def add_batch_options(parser: argparse.ArgumentParser, out: Callable[[str], object]) -> None:
    """All options of a batch, wherever it runs.

    Args:
        out: reads what --out names.
    """
    parser.add_argument(
        "photos", nargs="*", metavar="PHOTO|FOLDER|GLOB", help="photos, folders of photos, globs"
    )
    parser.add_argument(
        "--from-file",
        metavar="FILE",
        help="read more of them from a file, one a line, or from standard input (-), in any "
        "encoding",
    )
    add_style_options(parser)
    parser.add_argument(
        "--out", required=True, type=out, metavar="FOLDER", help="where the results are written"
    )
    parser.add_argument(
        "--mask",
        action="append",
        default=[],
        metavar="IMAGE",
        help="paint where this picture is white and leave the photo where it is black; the first "
        "belongs to the first --style, and so on",
    )
    parser.add_argument(
        "--tile",
        type=positive,
        metavar="PX",
        help="paint in tiles of this side; the default does so for pictures too large to paint "
        "at once",
    )
    add_max_pixels(parser)
    parser.add_argument(
        "--format",
        choices=images.FORMATS,
        help="default: the photo's own, or else png. Results that would have one name keep the "
        "photos' suffixes (a.jpg and a.tif become a.jpg.png and a.tif.png) or get their folders' "
        "names (x-a.jpg and y-a.jpg)",
    )
    parser.add_argument(
        "--strip",
        action="store_true",
        help="leave out what EXIF tells of people, places and days: dates, GPS, artist, "
        "copyright, owner, serial numbers, comments",
    )
    add_network_options(parser)
    parser.add_argument("--overwrite", action="store_true", help="replace results that exist")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="pass over results that are whole and made of the same photo with the same options, "
        f"as {batch.MANIFEST} in --out says; paint the others",
    )
    parser.add_argument(
        "--recursive",
        action="store_true",
        help="read subfolders and linked folders, too, each once, and mirror them in --out",
    )
    parser.add_argument(
        "--batch",
        type=positive,
        metavar="N",
        help="pictures of one size painted at the same time (default: 1; on a GPU, "
        f"{TOGETHER_ON_A_GPU}, if they are small)",
    )
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object a picture on stdout"
    )


def add_style_options(parser: argparse.ArgumentParser) -> None:
    """What says how to paint: --style, --blend, --strength, --simplify and so on."""
    parser.add_argument(
        "--style",
        action="append",
        default=[],
        metavar="NAME|IMAGE",
        help="a built-in style (monet; monet:2 is its second variant) or a picture of your own",
    )
    parser.add_argument(
        "--blend",
        action="append",
        type=_blend,
        default=[],
        metavar="NAME|IMAGE=WEIGHT",
        help="mix styles; with --style, that one gets what the weights leave of 1",
    )
    for option in OPTIONS.values():
        _add_option(parser, option)
    parser.add_argument(
        "--max-size",
        type=positive,
        metavar="PX",
        help="shrink to this many pixels on the longest side",
    )


def _add_option(parser: argparse.ArgumentParser, option: Field) -> None:
    """One of a look's fields, as its metadata says."""
    about, name = option.metadata, "--" + option.name.replace("_", "-")
    how: dict[str, Any] = {"default": option.default, "help": explained(option)}
    if "range" in about:
        least, most = about["range"]
        how |= {"type": functools.partial(_number, least=least, most=most)}
        how |= {"metavar": f"{least:g}..{most:g}"}
    else:
        known = tuple(choice for choice in about["choices"] if choice is not None)
        # What is no choice stays as it is, and argparse says what the choices are.
        how |= {"type": functools.partial(chosen, option), "choices": known}
        if about["switched_on"] is not None:
            how |= {"nargs": "?", "const": about["switched_on"]}
    parser.add_argument(name, **how)


def look_of(args: argparse.Namespace) -> Look:
    """What these options say of how to paint."""
    return Look(**{name: getattr(args, name) for name in OPTIONS})


def add_network_options(parser: argparse.ArgumentParser) -> None:
    """Which network paints, where and in what: --device, --checkpoint and --precision."""
    add_precision(parser)
    parser.add_argument(
        "--device", choices=("auto", "cpu", "cuda", "mps"), default="auto", help="default: auto"
    )
    parser.add_argument(
        "--checkpoint",
        type=Path,
        default=shipped.CHECKPOINT,
        metavar="FILE",
        help="the trained network; default: the one that comes with Repaint",
    )


def _folder(text: str) -> Path:
    if not text:  # Path("") would be the current folder
        raise argparse.ArgumentTypeError("must name a folder")
    return Path(text)


def _number(text: str, least: float, most: float) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not least <= value <= most:  # false for NaN, too
        raise argparse.ArgumentTypeError(
            f"must be a number from {least:g} to {most:g}, got {text!r}"
        )
    return value


def _blend(text: str) -> tuple[str, float]:
    style, _, number = text.rpartition("=")
    try:
        weight = float(number)
    except ValueError:
        weight = float("nan")
    if not style or not 0 <= weight < float("inf"):
        raise argparse.ArgumentTypeError(f"must be NAME|IMAGE=WEIGHT, got {text!r}")
    return style, weight


if __name__ == "__main__":
    sys.exit(main())
