"""What a terminal can't show must not end a program whose work is done."""

from __future__ import annotations

import io
import sys


def show_anything() -> None:
    r"""From here on, a character that stdout or stderr can't show is printed as ``\u5317``, say.

    Terminals of another encoding than UTF-8 (Windows' code pages, the C locale) have no signs for
    most of the world's names, and a print of one would raise. Every command calls it first.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # None without a console
            stream.reconfigure(errors="backslashreplace")
