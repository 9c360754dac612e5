"""Train a network, or one more style for it: folders of photos and paintings in, a checkpoint out.

python -m app.train --photos FOLDER --style NAME=FOLDER ... --out FILE.safetensors --minutes 120
python -m app.train --init FILE --photos FOLDER --style NEW=FOLDER --out FILE --minutes 20
torchrun --nproc_per_node=2 -m app.train ...
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Container, Sequence
from dataclasses import asdict, replace

import models
from app.codes import named_folders, style_folders
from app.grounds import add_ground_option, style_grounds
from app.painter import available_device
from app.processes import Processes, together
from app.training import LEARNING_RATE, PAPER_LEARNING_RATE, Run, StoppedError, TrainingError
from models.configuration import COLORINGS, METHODS
from models.objective import GD, PAPER, PERCEPTUAL

MINUTES, NEW_STYLE_MINUTES = 120.0, 20.0
REFINEMENT = 128
GRAINED = 0.5  # share of the photos
STROKES = 0.02
MOST_WORKERS = 8
DEFAULT = models.RepainterConfig()
SHAPE = ("width", "blocks", "group_size", "coloring", "method")  # what --init brings


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    """The command line, checked and complete: shapes, weights, and the checkpoint to start from.

    Exits with code 2 and one line where something is wrong.
    """
    parser = argparse.ArgumentParser(
        prog="python -m app.train",
        description="Train a network on folders of photos and paintings. With --init and styles "
        "that the checkpoint does not have, only codes of the new styles are learned: the network "
        "and its other styles stay exactly as they are.",
    )
    add = parser.add_argument
    add("--photos", required=True, help="folder of photos")
    add("--style", required=True, action="append", metavar="NAME=FOLDER", help="repeat for more")
    add("--out", required=True, metavar="FILE.safetensors", help="the checkpoint to write")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--steps", type=int, help="train for this many steps")
    length.add_argument("--minutes", type=float, help="train for this long (120; new styles 20)")
    add("--init", metavar="FILE", help="start from this checkpoint's network")
    add(
        "--train",
        choices=("all", "codes", "refinement"),
        help="what moves: the network too, learned codes of the styles alone, or the refinement "
        "of paintings' codes alone (codes where --init has none of the styles, else all)",
    )
    add(
        "--refinement",
        type=int,
        metavar="WIDTH",
        help="with --init: give the network an MLP of that width that refines the codes of "
        f"paintings ({REFINEMENT} with --train refinement)",
    )
    add("--variants", type=int, default=2, help="codes a style with --train codes (2)")
    add(
        "--only-new",
        action="store_true",
        help="with --train codes: a checkpoint of the network and the new styles, "
        "without those that --init has",
    )
    add(
        "--learn",
        action="append",
        default=[],
        metavar="NAME=FOLDER",
        help="learn a code for the style NAME from these of its paintings; repeat for more styles "
        "or for more codes of one",
    )
    add(
        "--coloring",
        choices=COLORINGS,
        help="(statistics; mlp with --method gd)",
    )
    add("--method", choices=METHODS, help="how features are whitened (svd)")
    add("--gradient", help="rule of the matrix roots: exact, taylor, pade, ... (exact)")
    add("--width", type=int, help=f"channels of the first convolution ({DEFAULT.width})")
    add("--blocks", type=int, help=f"residual blocks ({DEFAULT.blocks})")
    add("--group-size", type=int, help="channels a whitening group (statistics: the width)")
    add(
        "--strokes",
        type=float,
        metavar="AMOUNT",
        help="faint strokes that the network sees where a photo is plain, instead of the photo's "
        f"noise: their standard deviation, of values in [-1, 1] ({STROKES} where a network of "
        "statistics begins anew, else what --init has)",
    )
    add_ground_option(parser)
    add(
        "--calm",
        action="append",
        default=[],
        metavar="NAME=TIMES",
        help="how many times the total variation counts in this style's pictures: above 1 for flat "
        "areas, as prints have them (1)",
    )
    add("--size", type=int, default=144, help="side of the training crops, pixels (144)")
    add("--batch", type=int, default=3, help="photos a step and process (3)")
    add(
        "--grain",
        type=float,
        metavar="SHARE",
        help="of the photos that the network sees with grain or compressed, while the losses "
        f"look at the clean ones: it learns not to paint what is not there ({GRAINED} where the "
        "network moves by perceptual losses, else 0)",
    )
    add(
        "--augment",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="of the pictures, real and painted, that the discriminator sees turned or recolored, "
        "so that it does not learn few paintings by heart in a long run (0)",
    )
    add("--perceptual", metavar="hed|vgg16|FILE|none", help="(hed; none with coloring mlp)")
    add(
        "--projection",
        default="efficientnet-lite1",
        metavar="NAME|FILE",
        help="the network whose features the discriminator sees (efficientnet-lite1)",
    )
    add("--weight", action="append", default=[], metavar="LOSS=VALUE", help="override a weight")
    add(
        "--learning-rate",
        type=float,
        help=f"({LEARNING_RATE}; without perceptual {PAPER_LEARNING_RATE})",
    )
    add("--resume", metavar="FILE", help="go on from FILE.state.pt of a run that was cut off")
    add("--device", default="auto", choices=("auto", "cpu", "cuda", "mps"))
    add("--bf16", action="store_true", help="autocast to bfloat16 outside the spectral layers")
    add("--compile", action="store_true", help="compile the frozen networks; pays in long runs")
    add(
        "--workers",
        type=int,
        metavar="N",
        help="processes that make the next steps' pictures (on a GPU half of the cores, at most "
        f"{MOST_WORKERS}; else 0)",
    )
    add("--seed", type=int, default=0)
    add(
        "--skip-not-finite",
        type=int,
        default=0,
        metavar="N",
        help="leave out and count up to N steps whose losses are not finite, instead of stopping",
    )
    add(
        "--codes",
        choices=("chosen", "medoids"),
        default="chosen",
        help="built-in codes at the end: by a judge on training photos (the default), or the "
        "fast way: learned ones, then medoids",
    )
    add("--checkpoint-minutes", type=float, default=5, help="between checkpoints and sheets (5)")
    arguments = parser.parse_args(argv)
    try:
        _check(arguments)
    except ValueError as error:
        parser.error(str(error))
    return arguments


def _check(arguments: argparse.Namespace) -> None:
    for name in (
        "steps",
        "minutes",
        "batch",
        "checkpoint_minutes",
        "learning_rate",
        "variants",
        "refinement",
    ):
        value = getattr(arguments, name)
        if value is not None and not value > 0:
            raise ValueError(f"--{name.replace('_', '-')} must be positive, got {value}")
    for name in ("grain", "augment"):
        share = getattr(arguments, name)
        if share is not None and not 0 <= share <= 1:
            raise ValueError(f"--{name} must be between 0 and 1, got {share}")
    if arguments.workers is not None and arguments.workers < 0:
        raise ValueError(f"--workers must be at least 0, got {arguments.workers}")
    if arguments.size < 64 or arguments.size % 4:
        raise ValueError(f"--size must be a multiple of 4, at least 64, got {arguments.size}")
    if not arguments.out.endswith(".safetensors"):
        raise ValueError(f"--out must end in .safetensors, got {arguments.out}")
    arguments.styles = style_folders(arguments.style)
    arguments.start = models.load_checkpoint(arguments.init) if arguments.init else None
    arguments.config = _config(arguments)
    arguments.grounds = style_grounds(arguments.ground, arguments.styles, arguments.start)
    arguments.calm = _calm(arguments.calm, arguments.styles)
    arguments.train = _train(arguments)
    if arguments.steps is None and arguments.minutes is None:
        arguments.minutes = MINUTES if arguments.train == "all" else NEW_STYLE_MINUTES
    arguments.learned = named_folders(arguments.learn, "--learn")
    for name, _ in arguments.learned:
        if name not in arguments.styles:
            raise ValueError(f"--learn {name}: there is no --style of that name")
    if arguments.learned and arguments.train == "refinement":
        raise ValueError("--learn goes with --train all or codes: a refinement leaves codes alone")
    if arguments.learned and arguments.train == "all" and arguments.batch < 2:
        raise ValueError("--learn needs a --batch of at least 2: a code and a painting a step")
    _check_losses(arguments)


def _calm(pairs: Sequence[str], styles: Container[str]) -> dict[str, float]:
    calm = {}
    for pair in pairs:
        name, _, number = pair.partition("=")
        if name not in styles:
            raise ValueError(f"--calm {name}: there is no --style of that name")
        try:
            calm[name] = float(number)
        except ValueError:
            raise ValueError(f"--calm must be NAME=TIMES, got {pair!r}") from None
        if not (math.isfinite(calm[name]) and calm[name] >= 0):
            raise ValueError(f"--calm {pair}: must be at least 0")
    return calm


def _config(arguments: argparse.Namespace) -> models.RepainterConfig:
    """The network's shape: the checkpoint's, where one is given, else that of the options."""
    given = {name: getattr(arguments, name) for name in SHAPE}
    given = {name: value for name, value in given.items() if value is not None}
    rule = {} if arguments.gradient is None else {"gradient": arguments.gradient}
    if arguments.strokes is not None:
        rule["strokes"] = arguments.strokes
    if arguments.start is not None:
        own = arguments.start.network.config
        for name, value in given.items():
            if value != getattr(own, name):
                raise ValueError(
                    f"--init {arguments.init} has {name} {getattr(own, name)}, "
                    f"but --{name.replace('_', '-')} {value} is asked for"
                )
        return replace(own, **rule, refinement=_refinement(arguments, own))
    if arguments.refinement is not None or arguments.train == "refinement":
        raise ValueError("a refinement needs --init: a network that has learned paintings' codes")
    given.setdefault("coloring", "mlp" if given.get("method") == "gd" else DEFAULT.coloring)
    width = given.get("width", DEFAULT.width)
    given.setdefault("group_size", min(32, width * (4 if given["coloring"] == "mlp" else 1)))
    if given["coloring"] == "statistics":
        rule.setdefault("strokes", STROKES)
    return replace(DEFAULT, **given, **rule)


def _refinement(arguments: argparse.Namespace, own: models.RepainterConfig) -> int:
    """The refinement's width: the checkpoint's, or that of one it gets now."""
    asked = arguments.refinement
    if own.refinement:
        if asked not in (None, own.refinement):
            raise ValueError(
                f"--init {arguments.init} has refinement {own.refinement}, "
                f"but --refinement {asked} is asked for"
            )
        return own.refinement
    return asked or (REFINEMENT if arguments.train == "refinement" else 0)


def _train(arguments: argparse.Namespace) -> str:
    """What moves: "all", "codes" or "refinement"."""
    start = arguments.start
    chosen = arguments.train
    if chosen is None:
        new = start is not None and not set(arguments.styles) & set(start.styles)
        chosen = "codes" if new else "all"
    if chosen == "codes" and start is None:
        raise ValueError("--train codes needs --init: the network that stays as it is")
    if chosen != "all" and arguments.config.strokes != start.network.config.strokes:
        raise ValueError("--strokes changes how all styles paint: it needs --train all")
    if arguments.only_new and chosen != "codes":
        raise ValueError("--only-new goes with --train codes")
    return chosen


def _check_losses(arguments: argparse.Namespace) -> None:
    still = arguments.train != "all"
    paper = arguments.config.coloring == "mlp" and not still
    if arguments.perceptual is None:
        arguments.perceptual = "none" if paper else "hed"
    sources = (*models.perceptual.SOURCES, "none")
    if not arguments.perceptual.endswith(".safetensors") and arguments.perceptual not in sources:
        raise ValueError(
            "--perceptual must be hed, vgg16, a .safetensors file or none, "
            f"got {arguments.perceptual!r}"
        )
    base = PERCEPTUAL if arguments.perceptual != "none" else PAPER
    if arguments.config.strokes:
        base = replace(base, flatness=0)  # strokes are there to be painted
    if arguments.config.method == "gd":
        base = replace(base, whitening=GD.whitening, coloring=GD.coloring)
    changes = {}
    for pair in arguments.weight:
        name, _, value = pair.partition("=")
        if name not in asdict(base):
            raise ValueError(f"unknown loss {name!r}; there are {', '.join(asdict(base))}")
        try:
            changes[name] = float(value)
        except ValueError:
            raise ValueError(f"--weight must be LOSS=NUMBER, got {pair!r}") from None
        if not changes[name] >= 0:
            raise ValueError(f"a weight can't be negative: {pair!r}")
    arguments.weights = replace(base, **changes)
    if arguments.grain is None:
        arguments.grain = GRAINED if arguments.weights.perceptual and not still else 0.0
    if arguments.perceptual == "none" and arguments.weights.perceptual:
        raise ValueError("the losses content and style need --perceptual hed or vgg16")


def main(argv: list[str] | None = None) -> int:
    """Exit code 0 done, 1 stopped with an error, 2 a wrong command line, 128 + N on signal N.

    Ctrl-C is signal 2: it saves everything and exits with 130.
    """
    arguments = parse_arguments(argv)
    try:
        device = available_device(arguments.device)
        if arguments.workers is None:
            half = (os.cpu_count() or 2) // 2
            arguments.workers = min(MOST_WORKERS, half) if device.type == "cuda" else 0
        with together(device) as processes:
            return _run(arguments, processes)
    except ValueError as error:  # no such device
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted before training began; nothing was written", file=sys.stderr)
        return 130


def _run(arguments: argparse.Namespace, processes: Processes) -> int:
    def say(line: str) -> None:
        if processes.first:
            print(line, file=sys.stderr)

    moving = {"codes": "codes are learned", "refinement": "the refinement of codes is learned"}
    if arguments.train in moving:
        say(f"the network stays as it is, {moving[arguments.train]} (--train all moves it too)")
    try:
        run = Run(arguments, processes)
        if arguments.resume:
            run.load_state(arguments.resume)
    except (FileNotFoundError, ValueError, TrainingError) as error:
        say(f"error: {error}")
        return 2
    run.out.parent.mkdir(parents=True, exist_ok=True)
    try:
        run.train()
    except StoppedError as stopped:
        say(str(stopped))
        return 128 + stopped.number
    except TrainingError as error:
        say(f"error: {error}")
        return 1
    if processes.first:
        print(f"{run.out}: {run.step} steps, {run.seconds / 60:.1f} minutes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
