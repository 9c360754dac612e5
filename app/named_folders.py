"""What comes by a style's name on a command line: NAME=FOLDER, NAME=TIMES."""

from __future__ import annotations

import math
from collections.abc import Container, Sequence

from app.terminal import typed


def named_folders(pairs: Sequence[str], option: str = "--style") -> list[tuple[str, str]]:
    """NAME=FOLDER arguments as pairs, in their order.

    Raises:
        ValueError: one that is not NAME=FOLDER, or the name ``photo``.
    """
    folders = []
    for pair in pairs:
        name, separator, folder = pair.partition("=")
        if not separator or not name or not folder or "/" in name:
            raise ValueError(f"{option} must be NAME=FOLDER, got {pair!r}")
        if name == "photo":
            raise ValueError(f"the style name {name!r} is taken")
        folders.append((typed(name), folder))
    return folders


def style_folders(pairs: Sequence[str]) -> dict[str, str]:
    """NAME=FOLDER arguments as a dictionary.

    Raises:
        ValueError: see :func:`named_folders`; or a name that comes twice.
    """
    folders: dict[str, str] = {}
    for name, folder in named_folders(pairs):
        if name in folders:
            raise ValueError(f"the style name {name!r} is taken")
        folders[name] = folder
    return folders


def named_times(pairs: Sequence[str], option: str, styles: Container[str]) -> dict[str, float]:
    """Pairs of NAME=TIMES, for styles that there are.

    Args:
        option: which the pairs are of, for its errors.

    Raises:
        ValueError: another form, a style that is not there, or a number that is none or negative.
    """
    times = {}
    for pair in map(typed, pairs):
        name, _, number = pair.partition("=")
        if name not in styles:
            raise ValueError(f"{option} {name}: there is no --style of that name")
        try:
            times[name] = float(number)
        except ValueError:
            raise ValueError(f"{option} must be NAME=TIMES, got {pair!r}") from None
        if not (math.isfinite(times[name]) and times[name] >= 0):
            raise ValueError(f"{option} {pair}: must be at least 0")
    return times
