"""Checkpoints: one safetensors file, its meaning as JSON in the header, never a pickle."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from models.coloring import code_shapes
from models.configuration import RepainterConfig
from models.finish import Ground
from models.network import Repainter
from models.style_code import StyleCode
from models.weights_file import CheckpointError, building, read_weights, short, write_weights

KIND = "repaint-repainter"

# A field of the header that grows a network's configuration or a ground says in its metadata since
# which version it is there (1 where it doesn't), so that the version grows with it: an older
# program then names a newer version instead of a field that it does not know. What a file of an
# older version lacks has its default. Until version 2 fields came without a new number: a file of
# version 1 may have any of version 2's.
VERSION = max(each.metadata.get("since", 1) for each in (*fields(RepainterConfig), *fields(Ground)))
# Weights that a network may have beyond its file's, which is then refused by what is missing.
_SPARE = 2**20

# Of a style: characters of its name, and codes; ours have 7 and 5.
LONGEST_NAME, MOST_CODES = 100, 1000

_CODE = "style/{name}/{index}/{part}"


@dataclass(frozen=True)
class Checkpoint:
    """A network ready to repaint.

    Attributes:
        network: in eval mode.
        styles: name -> its style codes, the default one first.
        record: how it was trained: data counts, steps, minutes, device, losses, metrics.
    """

    network: Repainter
    styles: dict[str, list[StyleCode]]
    record: dict[str, Any]


def save_checkpoint(
    path: str | Path,
    network: Repainter,
    styles: Mapping[str, Sequence[StyleCode]],
    record: Mapping[str, Any],
) -> None:
    """Writes weights and codes in fp16; whole or not at all.

    Raises:
        CheckpointError: weights or codes that are not finite, in fp16 either.
    """
    path = Path(path)
    tensors = {f"network/{k}": v for k, v in network.state_dict().items()}
    for name, codes in styles.items():
        if not name or "/" in name or not name.isprintable() or len(name) > LONGEST_NAME:
            raise CheckpointError(f"{path}: {name!r} can't be the name of a style")
        if not 1 <= len(codes) <= MOST_CODES:
            raise CheckpointError(f"{path}: {name!r} has {len(codes)} codes, not 1 to {MOST_CODES}")
        for index, code in enumerate(codes):
            for part, tensor in enumerate(code.tensors):
                tensors[_CODE.format(name=name, index=index, part=part)] = tensor
    header = {
        "kind": KIND,
        "version": VERSION,
        "config": asdict(network.config),
        "styles": {name: len(codes) for name, codes in styles.items()},
        "grounds": {
            name: [asdict(code.ground) for code in codes] for name, codes in styles.items()
        },
        "record": dict(record),
    }
    write_weights(path, tensors, header)


def load_checkpoint(path: str | Path, device: str | torch.device = "cpu") -> Checkpoint:
    """Reads a network and its styles.

    Raises:
        CheckpointError: a missing, truncated or foreign file, a pickle, another kind of
            checkpoint, a newer version, a missing key or a wrong shape.
    """
    path = Path(path)
    header, tensors = read_weights(path, KIND, VERSION)
    held = sum(tensor.numel() for key, tensor in tensors.items() if key.startswith("network/"))
    try:
        config = _config(header)
        with building(held + _SPARE):
            network = Repainter(config)
        counts = _counts(header)
        grounds = _grounds(header, counts)
        record = _table(header.get("record", {}), "record")
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RuntimeError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else error
        raise CheckpointError(f"{path}: its header is wrong: {short(str(reason))}") from None
    expected = network.state_dict()
    weights = {}
    for key, old in expected.items():
        if f"network/{key}" not in tensors:
            raise CheckpointError(f"{path}: the weight {key} is missing")
        weights[key] = tensors[f"network/{key}"].float()
        if weights[key].shape != old.shape:
            raise CheckpointError(
                f"{path}: the weight {key} has shape {tuple(weights[key].shape)}, "
                f"but its network needs {tuple(old.shape)}"
            )
    network.load_state_dict(weights)
    network.eval().requires_grad_(False).to(device)
    styles = {}
    for name, count in counts.items():
        codes = [_read_code(path, tensors, network, name, index) for index in range(count)]
        styles[name] = [
            replace(code, ground=ground).to(device)
            for code, ground in zip(codes, grounds[name], strict=True)
        ]
    return Checkpoint(network, styles, record)


def _config(header: Mapping[str, Any]) -> RepainterConfig:
    given = _table(header["config"], "config")
    known = {field.name: field.default for field in fields(RepainterConfig)}
    if unknown := sorted(set(given) - set(known)):
        raise ValueError(f"unknown settings {unknown}")
    for name, value in given.items():
        _check_kind(name, value, known[name])
    return RepainterConfig(**given)


def _check_kind(name: str, value: object, like: object) -> None:
    """Raises ValueError for a value that JSON has of another kind than a field's default."""
    if isinstance(like, float):  # True is an int, but no number
        right = isinstance(value, (int, float)) and type(value) is not bool and math.isfinite(value)
    else:
        right = type(value) is type(like)
    if not right:
        wanted = {float: "a number", int: "a whole number", str: "a word"}[type(like)]
        raise ValueError(f"{name} is {wanted}, not {short(value)}")


def _table(given: object, name: str) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise ValueError(f"{name} is {short(given)}, not a table")
    return given


def _counts(header: Mapping[str, Any]) -> dict[str, int]:
    """How many codes each style has."""
    counts = _table(header["styles"], "styles")
    for name, count in counts.items():
        if not name or "/" in name or not name.isprintable() or len(name) > LONGEST_NAME:
            raise ValueError(f"{short(repr(name))} can't be the name of a style")
        if type(count) is not int or not 1 <= count <= MOST_CODES:
            raise ValueError(f"a style has 1 to {MOST_CODES} codes; {name} has {short(count)}")
    return counts


def _grounds(header: Mapping[str, Any], counts: Mapping[str, int]) -> dict[str, list[Ground]]:
    """Every code's ground; a file from before there were any has plain ones."""
    given = _table(header.get("grounds", {}), "grounds")
    grounds = {}
    for name, count in counts.items():
        tables = given.get(name, [{}] * count)
        if not isinstance(tables, list) or len(tables) != count:
            raise ValueError(f"{name} has {count} codes, and not as many grounds")
        for table in tables:
            for field, value in _table(table, "a ground").items():
                _check_kind(field, value, 0.0)
        grounds[name] = [Ground(**table) for table in tables]
    return grounds


def _read_code(
    path: Path, tensors: Mapping[str, Tensor], network: Repainter, name: str, index: int
) -> StyleCode:
    parts = []
    for part, shape in enumerate(code_shapes(network.config)):
        key = _CODE.format(name=name, index=index, part=part)
        if key not in tensors:
            raise CheckpointError(f"{path}: the style code {key} is missing")
        if tuple(tensors[key].shape) != shape:
            raise CheckpointError(
                f"{path}: {key} has shape {tuple(tensors[key].shape)}, its network needs {shape}"
            )
        parts.append(tensors[key])
    return StyleCode(tuple(parts))
