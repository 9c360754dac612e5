"""The one way to write and to read a file of weights: safetensors, fp16, a JSON header."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from models.whole_file import writing_whole

_PICKLE = (b"PK", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")


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
            version.
    """
    if not path.is_file():
        raise CheckpointError(f"{path}: there is no such checkpoint")
    with open(path, "rb") as file:
        start = file.read(2)
    if start in _PICKLE:
        raise CheckpointError(f"{path}: this is a pickle, which could run code; it was not opened")
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            metadata = file.metadata() or {}
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path}: not a whole safetensors file ({error})") from None
    try:
        header = json.loads(metadata["repaint"])
    except (KeyError, ValueError):
        raise CheckpointError(f"{path}: a safetensors file, but not one of Repaint's") from None
    if header.get("kind") != kind:
        raise CheckpointError(f"{path}: holds a {header.get('kind')!r}, not a {kind!r}")
    found = header.get("version")
    if not isinstance(found, int):
        raise CheckpointError(f"{path}: its version is {found!r}, not a number")
    if found > version:
        raise CheckpointError(
            f"{path}: of a newer version of Repaint: version {found} of its header, and this one "
            f"reads up to version {version}"
        )
    return header, tensors
