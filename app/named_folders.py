"""Folders that come by name: NAME=FOLDER on a command line."""

from __future__ import annotations

from collections.abc import Sequence

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
