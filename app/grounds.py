"""What styles want of photos, as the command line says it: --ground NAME:tone=0.4,outlines=0.5."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import fields

import models

# Of a painting of one's own: little is known of its style, but friends are to stay friends.
OWN = models.Ground(faces=0.5)

FORM = "NAME:FIELD=NUMBER,..."
FIELDS = tuple(each.name for each in fields(models.Ground))


def add_ground_option(parser: argparse.ArgumentParser) -> None:
    """--ground, once a style; :func:`style_grounds` reads it."""
    explained = "; ".join(f"{each.name}: {each.metadata['help']}" for each in fields(models.Ground))
    parser.add_argument(
        "--ground",
        action="append",
        default=[],
        metavar=FORM,
        help="what this style wants of photos and of their paintings, tone=0.4,outlines=0.5 say; "
        f"a field that is not named is 0, strokes 1. {explained}",
    )


def style_grounds(
    texts: Sequence[str], styles: Iterable[str], checkpoint: models.Checkpoint | None
) -> dict[str, models.Ground]:
    """Every style's ground: the one asked for by FORM, or the checkpoint's.

    Raises:
        ValueError: one that has not this form, of a style not asked for, or out of range.
    """
    known = {} if checkpoint is None else checkpoint.styles
    grounds = {name: codes[0].ground for name, codes in known.items() if codes}
    styles = list(styles)
    for text in texts:
        name, colon, pairs = text.rpartition(":")
        if not colon:
            raise ValueError(_without_names(text, styles))
        if name not in styles:
            raise ValueError(f"--ground {name}: there is no --style of that name")
        try:
            grounds[name] = _ground(pairs)
        except ValueError as error:
            raise ValueError(f"--ground {text}: {error}") from None
    return grounds


def _ground(pairs: str) -> models.Ground:
    values: dict[str, float] = {}
    for pair in pairs.split(","):
        name, _, number = pair.partition("=")
        if name not in FIELDS:
            raise ValueError(f"{name!r} is none of {', '.join(FIELDS)}")
        if name in values:
            raise ValueError(f"{name} is given twice")
        try:
            values[name] = float(number)
        except ValueError:
            raise ValueError(f"{name} must be a number, got {number!r}") from None
    return models.Ground(**values)


def _without_names(text: str, styles: Sequence[str]) -> str:
    """What is wrong with a ground whose fields have no names, as they once had none."""
    name, _, numbers = text.partition("=")
    values = numbers.split(",")
    if name in styles and values[0] and len(values) <= len(FIELDS):
        named = ",".join(f"{field}={value}" for field, value in zip(FIELDS, values, strict=False))
        return f"--ground {text}: its fields have names now: --ground {name}:{named}"
    return f"--ground must be {FORM}, got {text!r}"
