"""What a pattern of names matches, links that lead round and round included."""

from __future__ import annotations

import glob
import itertools
from collections.abc import Iterator
from pathlib import Path

from app import images

_ANY_FOLDERS = "**"


def matches(pattern: str) -> Iterator[str]:
    """The paths that a pattern matches; ``**`` stands for any folders, each of which is read once.

    `glob` follows links at each ``**``: in a folder with two that lead back to it, it takes every
    way through them, which has no end in practice.
    """
    parts = Path(pattern).parts
    if _ANY_FOLDERS not in parts:
        yield from sorted(glob.glob(pattern))
        return
    first = parts.index(_ANY_FOLDERS)
    rest = list(itertools.dropwhile(_ANY_FOLDERS.__eq__, parts[first:])) or ["*"]
    root = str(Path(*parts[:first]))
    for base in sorted(glob.glob(root)) if glob.has_magic(root) else [root]:
        for folder in images.folders_in(base):
            yield from matches(str(Path(glob.escape(str(folder)), *rest)))
