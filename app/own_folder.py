"""A folder for one process's files that is gone with it, whatever ended the process."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # Windows, where an open file can't be deleted and so is a lock itself
    fcntl = None  # type: ignore[assignment]  # there is no type for a module or none

_LOCK = ".owner"

# Seconds after which a folder that got no lock is nobody's: its process was killed in between.
_UNLOCKED = 3600


@contextmanager
def own_folder(prefix: str) -> Iterator[Path]:
    """A new folder in the system's temporary one, removed with all it holds at the end.

    What killed processes left of the same prefix is removed first. It is told from what others
    still use by a lock on a file in it, which the system releases when a process ends. Names are
    never followed through links, and folders of other users are left alone.
    """
    parent = Path(tempfile.gettempdir())
    remove_abandoned(parent, prefix)
    # Locked before it has the name that others look for.
    folder = Path(tempfile.mkdtemp(prefix=f"new-{prefix}", dir=parent))
    lock = open(folder / _LOCK, "xb")  # noqa: SIM115 (held until the folder is gone)
    try:
        _try_lock(lock)
        named = parent / folder.name.removeprefix("new-")
        with suppress(OSError):  # Windows renames no folder that holds an open file
            folder.rename(named)
            folder = named
        yield folder
    finally:
        if fcntl is None:
            lock.close()
        remove(folder)
        lock.close()


def remove_abandoned(parent: Path, prefix: str) -> None:
    """Remove the folders of that prefix whose processes are gone."""
    with suppress(OSError):
        for folder in sorted(parent.iterdir()):
            if folder.name.startswith((prefix, f"new-{prefix}")):
                with suppress(OSError):
                    _remove_if_abandoned(folder, named=folder.name.startswith(prefix))


def _remove_if_abandoned(folder: Path, named: bool) -> None:
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        return
    if hasattr(os, "getuid") and status.st_uid != os.getuid():
        return
    try:
        lock = os.fdopen(os.open(folder / _LOCK, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0)), "r+b")
    except FileNotFoundError:
        if time.time() - status.st_mtime > _UNLOCKED:
            remove(folder)
        return
    with contextlib.closing(lock):
        if not _try_lock(lock):
            return
        if not named and time.time() - status.st_mtime <= _UNLOCKED:
            return  # its process is about to lock it
        if fcntl is None:
            lock.close()
        remove(folder)


def _try_lock(file: BinaryIO) -> bool:
    """Lock the file until it is closed; False where another process has."""
    try:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    except OSError:
        return False
    return True


def remove(folder: Path) -> None:
    """Remove a folder and what it holds, though another thread may still be writing into it."""
    for _ in range(10):
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.lexists(folder):
            return
        time.sleep(0.05)
