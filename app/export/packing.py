"""Tensors as few bytes on their way to the page: half precision, and bytes for large matrices.

A file of tensors is their bytes one after the other; where each lies is told in a table beside it:

    {"name": ..., "shape": [...], "kind": "f16" | "i8" | "s16", "offset": bytes, "scales": bytes}

``i8``: a row of the matrix is its scale, a float32 at ``scales``, times whole numbers from -127 to
127. ``s16``: symmetric matrices, of whose rows only what is not left of the diagonal is there, in
half precision. Whoever reads it has float32 again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

# Numbers; a smaller tensor has nothing to spare.
LARGE = 20_000

LEVELS = 127  # of a byte, to each side of 0


def packed(
    tensors: Mapping[str, np.ndarray], large: int = LARGE, levels: int = LEVELS
) -> tuple[bytes, list[dict[str, Any]]]:
    """Tensors as bytes and their table.

    Args:
        large: how many numbers a matrix has at least to be kept in whole numbers; its rows are
            those of its first dimension.
        levels: the largest whole number; fewer are smaller once they are compressed.
    """
    file, table = bytearray(), []
    for name, values in tensors.items():
        entry: dict[str, Any] = {"name": name, "shape": list(values.shape)}
        if values.size >= large and values.ndim > 1:
            rows = values.reshape(len(values), -1)
            scales = np.maximum(np.abs(rows).max(1), 1e-12).astype(np.float32) / levels
            entry |= {"kind": "i8", "scales": _put(file, scales)}
            whole = np.rint(rows / scales[:, None]).clip(-levels, levels).astype(np.int8)
            entry["offset"] = _put(file, whole)
        elif _are_symmetric(values):
            row, column = np.triu_indices(values.shape[-1])
            upper = values[..., row, column].astype(np.float16)
            entry |= {"kind": "s16", "offset": _put(file, upper)}
        else:
            entry |= {"kind": "f16", "offset": _put(file, values.astype(np.float16))}
        table.append(entry)
    return bytes(file), table


def unpacked(file: bytes, table: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    """The tensors of a file, in float32, as the page reads them."""
    tensors = {}
    for entry in table:
        shape, size = entry["shape"], int(np.prod(entry["shape"]))
        if entry["kind"] == "i8":
            scales = np.frombuffer(file, np.float32, shape[0], entry["scales"])
            whole = np.frombuffer(file, np.int8, size, entry["offset"]).astype(np.float32)
            values = whole.reshape(shape[0], -1) * scales[:, None]
        elif entry["kind"] == "s16":
            rows, columns = np.triu_indices(shape[-1])
            count = size // shape[-1] ** 2 * len(rows)
            upper = np.frombuffer(file, np.float16, count, entry["offset"]).astype(np.float32)
            values = np.empty(shape, np.float32)
            values[..., rows, columns] = upper.reshape(*shape[:-2], len(rows))
            values[..., columns, rows] = values[..., rows, columns]
        else:
            values = np.frombuffer(file, np.float16, size, entry["offset"]).astype(np.float32)
        tensors[entry["name"]] = values.reshape(shape)
    return tensors


def _are_symmetric(values: np.ndarray) -> bool:
    square = values.ndim > 2 and values.shape[-1] == values.shape[-2] > 1
    return square and np.array_equal(values, values.swapaxes(-1, -2))


def _put(file: bytearray, values: np.ndarray) -> int:
    """Appends an array at a multiple of four bytes; returns where."""
    file.extend(bytes(-len(file) % 4))
    offset = len(file)
    file.extend(values.tobytes())
    return offset
