"""Options that several commands have."""

from __future__ import annotations

import argparse
import sys

from app import images
from models.precision import AUTO, PRECISIONS, Precision

_MOST = 10**12  # of anything that is counted here; more is a slip


def positive(text: str) -> int:
    """A whole number above 0, for argparse."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number above 0, got {text!r}")
    if value > _MOST:
        raise argparse.ArgumentTypeError(f"must be at most {_MOST}, got {text!r}")
    return value


def add_max_pixels(parser: argparse.ArgumentParser) -> None:
    """--max-pixels: how large a photo is read."""
    parser.add_argument(
        "--max-pixels",
        type=positive,
        default=images.MAX_PIXELS,
        metavar="N",
        help="refuse larger photos, in pixels (default: %(default)s)",
    )


def add_precision(parser: argparse.ArgumentParser) -> None:
    """--precision, in what the network's convolutions are computed, and --verbose."""
    parser.add_argument(
        "--precision",
        choices=PRECISIONS,
        default=AUTO,
        help="in what the network's convolutions are computed: auto takes bfloat16 where a trial "
        "of the device shows that it is faster (default: %(default)s)",
    )
    parser.add_argument(
        "--verbose", action="store_true", help="also say which precision was taken, and why"
    )


def say_precision(precision: Precision, verbose: bool) -> None:
    """What was taken and why, on stderr, where a person asked for it."""
    if verbose:
        print(f"convolutions in {precision.name}: {precision.why}", file=sys.stderr)
