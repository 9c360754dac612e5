"""Names in any script, on terminals and disks whose locale has no signs for them."""

from __future__ import annotations

import io
import os
import sys


def show_anything() -> None:
    r"""From here on, a character that stdout or stderr can't show is printed as ``\u5317``, say.

    Terminals of another encoding than UTF-8 (Windows' code pages, the C locale) have no signs for
    most of the world's names, and a print of one would raise. Where there is no stdout or stderr
    at all (a service, a window without a console), what is printed goes nowhere. Every command
    calls it first.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            # Else the next file that is opened would have this number, and libraries' messages.
            os.open(os.devnull, os.O_RDWR)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def failed(reason: object, code: int) -> int:
    """Says on stderr why a command ends here; returns its exit code."""
    print(f"error: {reason}", file=sys.stderr)
    return code


def typed(text: str) -> str:
    """A name from the command line or the disk as Unicode, whatever the locale.

    Where the locale is not UTF-8, Python hands out bytes that it has no characters for as lone
    surrogates; no file of ours could hold those, and the same name would be another one elsewhere.
    Paths stay as they are, since the system is asked for them.
    """
    if text.isascii():
        return text
    try:
        return os.fsencode(text).decode("utf-8")
    except UnicodeError:
        return text


def file_name(text: str) -> str:
    """The opposite of :func:`typed`: a name as the system takes it for a file's."""
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return os.fsdecode(text.encode("utf-8"))
    return text
