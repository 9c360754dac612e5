"""Whether what a command is asked to write can be written: known before its work, not after it."""

from __future__ import annotations

from pathlib import Path

from models.whole_file import check_place, reason_of, remove_leftovers


class OutError(ValueError):
    """A place that can't be written; the message names the option, the place and the reason."""


def check_out(path: Path, size: int = 0, *, option: str = "--out") -> None:
    """Tries ``path``, and sweeps what killed runs left half written beside it.

    Args:
        size: bytes that the disk must have room for.
        option: that names the place.

    Raises:
        OutError: it can't be written.
    """
    try:
        check_place(path, size)
    except OSError as error:
        raise OutError(not_written(path, error, option=option)) from None
    remove_leftovers([path.parent])


def not_written(path: Path, error: OSError, *, option: str = "--out") -> str:
    """The line that says so."""
    return f"{option} {path}: can't be written: {reason_of(error)}"
