"""Choose a style's built-in codes: the paintings that repaint photos most in their style.

python -m app.codes --checkpoint FILE --photos FOLDER --style NAME=FOLDER ... [--out FILE]
python -m app.codes ... --sheets FOLDER
python -m app.codes ... --take NAME=PAINTING,PAINTING,own:1 --out FILE

Which painting is the reference matters as much as training, so references are tried, not
averaged: many candidates on a few photos, the best of them on more. A linear judge on pooled
EfficientNet-Lite0 features, fitted to the same training folders, says how well a result passes for
its style. Only training pictures are looked at.

A judge has no taste. ``--sheets`` writes what every candidate makes of some training photos, for a
person to look at, and ``--take`` keeps what that person liked: paintings by their file names, and
``own:N``, the N-th code that the checkpoint has for the style; the judge still says how each does.
``--ground`` says what a style wants of photos and of their paintings: see models.Ground.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import models
from app import images
from app.choosing import CANDIDATES, Chooser, record_of
from app.dataset import FolderError, PictureFolder
from app.grounds import add_ground_option, style_grounds
from app.named_folders import style_folders
from app.out import check_out, not_written
from app.painter import available_device
from app.terminal import failed, file_name, show_anything, typed
from models.judge import LinearJudge


def taken_codes(
    chooser: Chooser, style: str, names: Sequence[str], own: Sequence[models.StyleCode]
) -> dict[str, models.StyleCode]:
    """The codes that ``--take`` names: file names of a style's paintings, or ``own:N``.

    Args:
        own: the codes that the checkpoint has for the style.

    Raises:
        ValueError: no such painting or code.
    """
    folder = chooser.styles[style]
    numbers = {path.name: index for index, path in enumerate(folder.paths)}
    codes = {}
    for name in names:
        if name in numbers:
            codes[name] = chooser.code(style, numbers[name])
            continue
        number = name.removeprefix("own:")
        if not (name.startswith("own:") and number.isdecimal() and 0 < int(number) <= len(own)):
            raise ValueError(
                f"--take {style}: {name!r} is no painting in {folder.folder}, nor own:1 to "
                f"own:{len(own)}"
            )
        code = own[int(number) - 1]
        codes[name] = replace(code, ground=chooser.grounds.get(style, code.ground))
    return codes


def _taken(pairs: Sequence[str], styles: Mapping[str, str]) -> dict[str, list[str]]:
    """NAME=CODE,CODE arguments: the codes a style.

    Raises:
        ValueError: one that is not NAME=CODE,..., or of a style that is not asked for.
    """
    taken = {}
    for pair in pairs:
        name, separator, codes = pair.partition("=")
        name = typed(name)
        if not separator or not codes.strip(","):
            raise ValueError(f"--take must be NAME=CODE,..., got {pair!r}")
        if name not in styles:
            raise ValueError(f"--take {name}: there is no --style of that name")
        taken[name] = [code for code in codes.split(",") if code]
    return taken


def main(argv: list[str] | None = None) -> int:
    """Exit code 0 done, 1 a file could not be written, 2 a wrong command line or input."""
    show_anything()
    parser = argparse.ArgumentParser(
        prog="python -m app.codes",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--photos", required=True, help="folder of training photos")
    parser.add_argument("--style", required=True, action="append", metavar="NAME=FOLDER")
    parser.add_argument("--out", help="checkpoint to write (the same file)")
    parser.add_argument("--candidates", type=int, default=CANDIDATES, help="paintings a style")
    way = parser.add_mutually_exclusive_group()
    way.add_argument(
        "--sheets", metavar="FOLDER", help="write NAME.png of a style's candidates, change nothing"
    )
    way.add_argument(
        "--take",
        action="append",
        default=[],
        metavar="NAME=CODE,...",
        help="this style's codes, best first: file names of its paintings, or own:N",
    )
    add_ground_option(parser)
    parser.add_argument("--judge", help="a judge fitted before (fits one)")
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args(argv)
    out = Path(arguments.out or arguments.checkpoint)
    sheets = Path(arguments.sheets) if arguments.sheets else None
    try:
        device = available_device(arguments.device)
        checkpoint = models.load_checkpoint(arguments.checkpoint, device)
        if sheets is not None:
            check_out(sheets / "any.png", option="--sheets")
        else:
            check_out(out, Path(arguments.checkpoint).stat().st_size)
        folders = style_folders(arguments.style)
        taken = _taken(arguments.take, folders)
        styles = {n: PictureFolder(f, name=n) for n, f in folders.items()}
        photos = PictureFolder(arguments.photos, name="photo")
        grounds = style_grounds([typed(text) for text in arguments.ground], folders, checkpoint)
        judge = LinearJudge.load(arguments.judge).to(device) if arguments.judge else None
        chooser = Chooser(checkpoint.network, photos, styles, device, judge, grounds)
        if sheets is not None:
            return _write_sheets(chooser, sheets, arguments.candidates)
        chosen = {
            name: chooser.measured(
                name, taken_codes(chooser, name, names, checkpoint.styles.get(name, []))
            )
            for name, names in taken.items()
        }
        if not chosen:  # else styles that were not taken by hand stay as they are
            # What a style has for its default, a learned code say, is only displaced by a better.
            own = {
                name: {"own:1": replace(codes[0], ground=grounds[name])}
                for name, codes in checkpoint.styles.items()
            }
            chosen = chooser.best(arguments.candidates, own)
    except (FolderError, FileNotFoundError, ValueError) as error:
        return failed(error, 2)
    codes = {
        name: [replace(code, ground=grounds[name]) for code in own]
        for name, own in checkpoint.styles.items()
    } | {name: choice.codes for name, choice in chosen.items()}
    kept = _chosen_before(checkpoint.record)
    record = checkpoint.record | {"codes": kept | record_of(chosen, kept)}
    try:
        models.save_checkpoint(out, checkpoint.network, codes, record)
    except OSError as error:
        return failed(not_written(out, error), 1)
    except models.CheckpointError as error:
        return failed(error, 1)
    for name, choice in chosen.items():
        shares = ", ".join(
            f"{code} {share:.2f}" for code, share in zip(choice.names, choice.accuracy, strict=True)
        )
        print(f"{name}: accuracy on training photos, a code: {shares}")
    return 0


def _chosen_before(record: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What a record says of codes, as far as it is of the form that `record_of` gives it."""
    codes = record.get("codes")
    return {
        name: about
        for name, about in (codes.items() if isinstance(codes, dict) else ())
        if isinstance(about, dict) and isinstance(about.get("from", []), list)
    }


def _write_sheets(chooser: Chooser, folder: Path, candidates: int) -> int:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for style in chooser.styles:
            path = folder / file_name(f"{style}.png")
            chooser.sheet(style, path, candidates)
            print(path)
    except OSError as error:
        return failed(not_written(folder, error, option="--sheets"), 1)
    except images.ImageError as error:
        return failed(error, 1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
