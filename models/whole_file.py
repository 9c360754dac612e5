"""The one way to write a file: it appears whole or not at all, whatever happens in between."""

from __future__ import annotations

import errno
import os
import re
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

import torch


@contextmanager
def writing_whole(
    path: str | os.PathLike[str],
    placing: Callable[[Path], object] | None = None,
    *,
    durable: bool = True,
) -> Iterator[Path]:
    """Gives a name beside ``path`` to write to; what is written there is then moved to ``path``.

    The other name is gone afterwards, and what stood at ``path`` is untouched by any failure.

    Args:
        placing: called with the other name just before the move.
        durable: wait until the disk has it, so that it is whole even after the power fails.

    Raises:
        OSError: it can't be written.
    """
    path = Path(path)
    # Not tempfile: the file gets the permissions that the user's umask says.
    part = path.with_name(f".repaint-{os.getpid()}-{uuid.uuid4().hex}.part")
    try:
        yield part
        if durable:
            with open(part, "rb+") as file:
                os.fsync(file.fileno())
        if placing is not None:
            placing(part)
        os.replace(part, path)
    finally:
        # Gone already after the move; still there after any failure, Ctrl-C included.
        part.unlink(missing_ok=True)


def save_tensors(state: Any, path: str | os.PathLike[str]) -> None:
    """``torch.save``, whole or not at all.

    Raises:
        OSError: it can't be written; a full disk says so, which torch's own error does not.
    """
    with writing_whole(path) as part, open(part, "xb") as file:
        noting = _Noting(file)
        try:
            torch.save(state, cast(IO[bytes], noting))
        except RuntimeError as error:
            raise noting.error or error from None


class _Noting:
    """A file that remembers why a write failed: torch's writer drops the reason."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.error: OSError | None = None

    def write(self, data: Any) -> int:
        try:
            return self._file.write(data)
        except OSError as error:
            self.error = error
            raise

    def flush(self) -> None:
        self._file.flush()


def check_place(path: str | os.PathLike[str], size: int = 0) -> None:
    """Tries whether a file could be written at ``path``, and its folder made; leaves neither.

    Args:
        size: bytes that the disk must have room for.

    Raises:
        OSError: it could not; the error names ``path`` and the reason.
    """
    path = Path(path)
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        with suppress(FileNotFoundError):
            path.lstat()  # fails where the name is too long for the disk
        with _folder(path.parent):
            part = path.with_name(f".repaint-{os.getpid()}-{uuid.uuid4().hex}.part")
            try:
                with open(part, "xb") as file:
                    _fill(file, max(1, size))
            finally:
                part.unlink(missing_ok=True)
    except OSError as error:
        # The subclass follows from the number.
        raise OSError(error.errno, reason_of(error), str(path)) from None


@contextmanager
def _folder(folder: Path) -> Iterator[None]:
    """The folder is there; those that were made for it are gone afterwards."""
    missing = [each for each in (folder, *folder.parents) if not os.path.lexists(each)]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except FileExistsError:  # a file has its name, which "File exists" would not say
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from None
    finally:
        for each in missing:
            with suppress(OSError):  # never made
                each.rmdir()


def _fill(file: BinaryIO, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(file.fileno(), 0, size)
            return
        except OSError as error:  # this kind of disk can't
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                raise
    block = bytes(2**20)
    for start in range(0, size, len(block)):
        file.write(block[: size - start])
    file.flush()


def remove_leftovers(folders: Iterable[Path]) -> None:
    """Deletes unfinished files that killed processes of this machine left in the folders."""
    for folder in folders:
        for part in folder.glob(".repaint-*-*.part"):
            named = re.fullmatch(r"\.repaint-(\d+)-[0-9a-f]{32}\.part", part.name)
            if named and not _is_running(int(named[1])):
                part.unlink(missing_ok=True)


def _is_running(process: int) -> bool:
    if os.name != "posix":
        return True  # there is no harmless signal to ask with
    if process == os.getpid():
        return False  # this one has not begun: in a container a number comes back
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def reason_of(error: BaseException) -> str:
    """Why a file could not be written or read, in one line: the system's words if there are any."""
    strerror = getattr(error, "strerror", None)
    lines = str(error).strip().splitlines()
    return strerror or (lines[0] if lines else type(error).__name__)
