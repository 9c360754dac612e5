"""Options that several commands have."""

from __future__ import annotations

import argparse

from app import images


def positive(text: str) -> int:
    """A whole number above 0, for argparse."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number above 0, got {text!r}")
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
