"""The one way to write and to read a file of weights: safetensors, fp16, a JSON header."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor
from torch.overrides import TorchFunctionMode

from models.whole_file import writing_whole

_PICKLE = (b"PK", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")


# Bytes of a file that is read as a checkpoint, and of its header; ours have 10 MB and 20 KB.
LARGEST, LONGEST_HEADER = 2**30, 4 * 2**20

_FLOATS = ("F16", "BF16", "F32", "F64")

# Characters of what a file says that are repeated in a message.
_SHOWN = 120


class CheckpointError(ValueError):
    """A checkpoint that can't be used; the message names the file and the reason."""


def write_weights(path: Path, tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> None:
    """Writes tensors in fp16 and the header; whole or not at all.

    Raises:
        CheckpointError: a tensor that is not finite, in fp16 either.
        OSError: the file can't be written.
    """
    halves = {k: v.detach().cpu().half().contiguous() for k, v in tensors.items()}
    broken = [k for k, v in halves.items() if not bool(torch.isfinite(v).all())]
    if broken:
        raise CheckpointError(f"{path}: not saved, {broken[0]} is not finite")
    path.parent.mkdir(parents=True, exist_ok=True)
    with writing_whole(path) as part:
        try:
            save_file(halves, part, metadata={"repaint": json.dumps(header)})
        except SafetensorError as error:
            raise _os_error(error) from None


def _os_error(error: SafetensorError) -> OSError:
    """What the system said, where safetensors wrapped it: "... (os error 28)"."""
    number = re.search(r"os error (\d+)", str(error))
    if number is None:
        return OSError(str(error))
    return OSError(int(number[1]), os.strerror(int(number[1])))


def read_weights(path: Path, kind: str, version: int) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Header and tensors of a file of that kind, up to that version; nothing in it is run.

    Raises:
        CheckpointError: a missing, truncated or foreign file, a pickle, another kind, a newer
            version, weights that are not floating-point numbers or not finite; in one short line.
    """
    if not path.is_file():
        raise CheckpointError(f"{path}: there is no such checkpoint")
    _check_outside(path)
    tensors: dict[str, Tensor] = {}
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            metadata = file.metadata() or {}
            for key in file.keys():  # noqa: SIM118
                dtype = file.get_slice(key).get_dtype()
                if dtype not in _FLOATS:
                    raise CheckpointError(f"{path}: {short(key)} is {dtype}, not floating point")
                tensors[key] = file.get_tensor(key)
    except (SafetensorError, OSError) as error:
        reason = short(str(error))
        raise CheckpointError(f"{path}: not a whole safetensors file ({reason})") from None
    try:
        header = json.loads(metadata["repaint"], object_pairs_hook=_once)
    except (KeyError, ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise CheckpointError(f"{path}: a safetensors file, but not one of Repaint's")
    if header.get("kind") != kind:
        raise CheckpointError(f"{path}: holds a {short(repr(header.get('kind')))}, not a {kind!r}")
    found = header.get("version")
    if type(found) is not int or found < 1:
        raise CheckpointError(f"{path}: its version is {short(found)}, not a number from 1")
    if found > version:
        raise CheckpointError(
            f"{path}: of a newer version of Repaint: version {short(found)} of its header, and "
            f"this one reads up to version {version}"
        )
    for key, tensor in tensors.items():
        if not bool(torch.isfinite(tensor).all()):
            raise CheckpointError(f"{path}: {short(key)} holds values that are not finite")
    return header, tensors


def _check_outside(path: Path) -> None:
    """What a file is before anything reads it as a whole."""
    try:
        with open(path, "rb") as file:
            start = file.read(8)
            length = int.from_bytes(start, "little")
            size = os.fstat(file.fileno()).st_size
            if start.startswith(_PICKLE):
                raise CheckpointError(
                    f"{path}: this is a pickle, which could run code; it was not opened"
                )
            if size > LARGEST:
                raise CheckpointError(f"{path}: has {size / 2**30:.1f} GB, more than a checkpoint")
            if len(start) == 8 and length <= size - 8:
                if length > LONGEST_HEADER:
                    raise CheckpointError(
                        f"{path}: its header has {length / 2**20:.0f} MB, more than a checkpoint's"
                    )
                json.loads(file.read(length), object_pairs_hook=_once)
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        if isinstance(error, CheckpointError):
            raise
        reason = short(str(error))
        raise CheckpointError(f"{path}: not a whole safetensors file ({reason})") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, whose names readers of it would otherwise choose among."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is there twice")
    return found


def short(value: object) -> str:
    """A value from a file as it is shown in a line: of at most some hundred characters."""
    text = value if isinstance(value, str) else repr(value)
    if isinstance(value, str) and len(value) <= _SHOWN and value.isprintable():
        return text
    shown = text[: _SHOWN + 1].encode("unicode_escape").decode()
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."


@contextmanager
def building(elements: int) -> Iterator[None]:
    """Inside, a network is built that may have at most so many weights.

    A header that names a larger one than its file has the weights of would else take all memory,
    and minutes, before that was found out.

    Raises:
        ValueError: it has more.
    """
    with _Budget(elements):
        yield


class _Budget(TorchFunctionMode):
    """Counts what layers ask memory for, before anything is written into it."""

    def __init__(self, elements: int) -> None:
        super().__init__()
        self.left = elements

    def __torch_function__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func is torch.empty:
            self.left -= result.numel()
            if self.left < 0:
                raise ValueError("it names a network of more weights than it holds")
        return result
