"""Train a network, or one more style for it: folders of photos and paintings in, a checkpoint out.

python -m app.train --photos FOLDER --style NAME=FOLDER ... --out FILE.safetensors --minutes 120
python -m app.train --init FILE --photos FOLDER --style NEW=FOLDER --out FILE --minutes 20
torchrun --nproc_per_node=2 -m app.train ...
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace

from app.grounds import add_ground_option
from app.options import add_precision, say_precision
from app.painter import available_device
from app.processes import NoGPUError, Processes, together
from app.terminal import failed, show_anything
from app.training import (
    LEARNING_RATE,
    PAPER_LEARNING_RATE,
    NewCodes,
    Refinement,
    Run,
    Settings,
    StoppedError,
    TrainingError,
    WholeNetwork,
    settings_of,
    train,
)
from app.training.files import RunFiles
from app.training.kept import go_on
from app.training.saving import check_room, load_state
from app.training.settings import DEFAULT, GRAINED, PHOTO_SCALES, STROKES
from models.configuration import COLORINGS, METHODS
from models.precision import BFLOAT16, chosen

MOST_WORKERS = 8


def parse_arguments(argv: list[str] | None = None) -> Settings:
    """What the command line asks for, checked and complete.

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
    length.add_argument(
        "--minutes",
        type=float,
        help=f"train for this long ({WholeNetwork.minutes:.0f}; new styles {NewCodes.minutes:.0f})",
    )
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
        f"paintings ({Refinement.refinement_width} with --train refinement)",
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
    add(
        "--references",
        action="store_true",
        help="for paintings of any kind: the discriminator is told what the reference painting "
        "looks like, and half of the pictures are painted on a ground, the style's or a moderate "
        "one",
    )
    add(
        "--mixed",
        action="append",
        default=[],
        metavar="NAME",
        help="with --references: a style of many painters, which gets no head of its own",
    )
    add(
        "--draw",
        action="append",
        default=[],
        metavar="NAME=TIMES",
        help="with --references: how many times as often as others this style is drawn (1)",
    )
    add(
        "--photo-scales",
        type=float,
        nargs=2,
        default=PHOTO_SCALES,
        metavar=("FROM", "TO"),
        help="photos are cropped between so many times 256 px of their shorter side "
        f"({PHOTO_SCALES[0]} {PHOTO_SCALES[1]:.0f})",
    )
    add(
        "--perceptual-every",
        type=int,
        default=1,
        metavar="N",
        help="ask for content, style and reconstruction, which cost most, in every N-th step "
        "alone, N times as much (1)",
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
    add(
        "--go-on",
        metavar="FILE",
        help="begin with the network and the discriminator that were kept of another run (made by "
        "`python -m app.training.kept`)",
    )
    add("--device", default="auto", choices=("auto", "cpu", "cuda", "mps"))
    add_precision(parser)
    # As it was called before.
    add("--bf16", dest="precision", action="store_const", const=BFLOAT16, help=argparse.SUPPRESS)
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
        "--orthogonal-gradient",
        action="store_true",
        help="turn the gradient of the convolution before each hop into its nearest orthogonal "
        "one, of the same length; --weight orthogonality=NUMBER asks for orthogonal weights there",
    )
    add(
        "--iterated",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="of the run in which the hops take roots by Newton-Schulz iterations, before they "
        "decompose (0)",
    )
    add(
        "--codes",
        choices=("chosen", "medoids"),
        default="chosen",
        help="built-in codes at the end: by a judge on training photos (the default), or the "
        "fast way: learned ones, then medoids",
    )
    add("--checkpoint-minutes", type=float, default=5, help="between checkpoints and sheets (5)")
    options = parser.parse_args(argv)
    try:
        return settings_of(options)
    except ValueError as error:
        parser.error(str(error))


def main(argv: list[str] | None = None) -> int:
    """Exit code 0 done, 1 stopped with an error, 2 a wrong command line, 128 + N on signal N.

    Ctrl-C is signal 2: it saves everything and exits with 130.
    """
    show_anything()
    settings = parse_arguments(argv)
    try:
        device = available_device(settings.device)
        precision = chosen(settings.precision, device)
    except ValueError as error:
        return failed(error, 2)
    say_precision(precision, settings.verbose)
    settings = replace(settings, precision=precision.name)
    if settings.workers is None:
        half = (os.cpu_count() or 2) // 2
        workers = min(MOST_WORKERS, half) if device.type == "cuda" else 0
        settings = replace(settings, workers=workers)
    try:
        with together(device) as processes:
            return _run(settings, processes)
    except NoGPUError as error:
        return failed(error, 2)
    except KeyboardInterrupt:
        print("interrupted before training began; nothing was written", file=sys.stderr)
        return 130


def _run(settings: Settings, processes: Processes) -> int:
    if settings.goal.announcement:
        processes.say(settings.goal.announcement)
    try:
        if processes.first:
            RunFiles(settings.out).check()  # before folders are read
        run = Run(settings, processes)
        if settings.resume is not None:
            load_state(run, settings.resume)
        if settings.go_on is not None:
            go_on(run, settings.go_on)
        if processes.first:
            check_room(run)
    except (FileNotFoundError, ValueError, TrainingError) as error:
        processes.say(f"error: {error}")
        return 2
    settings.out.parent.mkdir(parents=True, exist_ok=True)
    try:
        train(run)
    except StoppedError as stopped:
        processes.say(str(stopped))
        return 128 + stopped.number
    except TrainingError as error:
        processes.say(f"error: {error}")
        return 1
    if processes.first:
        clock = run.clock
        print(f"{settings.out}: {clock.step} steps, {clock.seconds / 60:.1f} minutes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
