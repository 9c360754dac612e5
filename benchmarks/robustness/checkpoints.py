"""Mutated checkpoints: their headers, and their tensors."""

from __future__ import annotations

import argparse
import json
import random
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path

from app import shipped
from benchmarks.robustness import Outcome
from benchmarks.robustness.trial import testing

SIZES = {"checkpoints": (200, "checkpoints with a wrong header or wrong tensors")}

# Seconds, and MB of memory beside the file's own size: what is refused is refused before that.
SLOWEST, MOST_MEMORY = 10.0, 400.0


def load(path: str) -> str:
    """What app.stylize and the demo do with a checkpoint first."""
    import models

    loaded = models.load_checkpoint(path)
    return f"{len(loaded.styles)} styles"


def run(options: argparse.Namespace, generator: random.Random) -> Outcome:
    """Loads each in a process of its own."""
    outcome = Outcome()
    whole = shipped.CHECKPOINT.read_bytes()
    length = struct.unpack("<Q", whole[:8])[0]
    tables, tensors = json.loads(whole[8 : 8 + length]), whole[8 + length :]
    with (
        tempfile.TemporaryDirectory() as folder,
        testing(f"{__name__}:load", ["models:CheckpointError"]) as tester,
    ):
        for number in range(options.checkpoints):
            name, mutation = generator.choice(MUTATIONS)
            path = Path(folder, f"{number}-{name}.safetensors")
            path.write_bytes(mutation(generator, json.loads(json.dumps(tables)), tensors))
            trial = tester.try_one(str(path))
            outcome.judge(trial, f"number {number}, {name}", path.name, SLOWEST, MOST_MEMORY)
            path.unlink()
    return outcome


def _file(tables: object, tensors: bytes) -> bytes:
    text = tables if isinstance(tables, bytes) else json.dumps(tables).encode()
    return struct.pack("<Q", len(text)) + text + tensors


def _repaint(change: Callable) -> Callable:
    """A mutation of our own header."""

    def mutated(generator: random.Random, tables: dict, tensors: bytes) -> bytes:
        header = json.loads(tables["__metadata__"]["repaint"])
        header = change(generator, header)
        text = header if isinstance(header, str) else json.dumps(header)
        tables["__metadata__"]["repaint"] = text
        return _file(tables, tensors)

    return mutated


ODD: list[object] = [
    None, True, False, -1, 0, 1, 2.5, 1e308, float("nan"), float("inf"), -float("inf"), 10**6,
    10**30, "", "a", "3", [], [1], {}, {"a": 1}, "\0", "../../x", "\U0001f58c" * 100, [[[[]]]],
]  # fmt: skip


def _places(value: object, path: tuple = ()) -> list[tuple]:
    found = [path] if path else []
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    else:
        inner = []
    for key, each in inner:
        found += _places(each, (*path, key))
    return found


def _odd_value(generator: random.Random, header: dict) -> dict:
    # Not within the record of the training, which nothing reads.
    places = [place for place in _places(header) if place[0] != "record"]
    *outer, last = generator.choice(places)
    inside = header
    for key in outer:
        inside = inside[key]
    inside[last] = generator.choice(ODD)
    return header


def _without(generator: random.Random, header: dict) -> dict:
    header.pop(generator.choice(sorted(header)))
    return header


def _another(generator: random.Random, header: dict) -> object:
    return generator.choice(
        [*map(json.dumps, ODD), "", "{", "[" * 10**5, "[" * 10**5 + "]" * 10**5]
    )


def _more(generator: random.Random, header: dict) -> dict:
    part = header[generator.choice(["config", "styles", "grounds"])]
    part[generator.choice(["a", "", "a/b", "\0", "x" * 10**5])] = generator.choice(ODD)
    return header


def _table_value(generator: random.Random, tables: dict, tensors: bytes) -> bytes:
    name = generator.choice([key for key in tables if key != "__metadata__"])
    field = generator.choice(["dtype", "shape", "data_offsets"])
    odd = [
        "F16", "F32", "F64", "BF16", "I64", "BOOL", "U8", "X", [0, 0], [0, 2**62], [5, 1], [-1, 4],
        [0], [2**31, 2**31], [], *ODD,
    ]  # fmt: skip
    tables[name][field] = generator.choice(odd)
    return _file(tables, tensors)


def _tensor_gone(generator: random.Random, tables: dict, tensors: bytes) -> bytes:
    tables.pop(generator.choice([key for key in tables if key != "__metadata__"]))
    return _file(tables, tensors)


def _renamed(generator: random.Random, tables: dict, tensors: bytes) -> bytes:
    name = generator.choice([key for key in tables if key != "__metadata__"])
    tables[generator.choice(["a", "network/", "style/monet/99/0", "\0"])] = tables.pop(name)
    return _file(tables, tensors)


def _twice(generator: random.Random, tables: dict, tensors: bytes) -> bytes:
    text = json.dumps(tables)
    name = generator.choice([key for key in tables if key != "__metadata__"])
    again = f"{{{json.dumps(name)}: {json.dumps(tables[name])}, "
    return _file((again + text[1:]).encode(), tensors)


def _bits(generator: random.Random, tables: dict, tensors: bytes) -> bytes:
    data = bytearray(_file(tables, tensors))
    ends = generator.choice([8, 2000, len(data)])
    for _ in range(generator.choice([1, 10, 1000])):
        data[generator.randrange(ends)] = generator.randrange(256)
    return bytes(data)


def _numbers(generator: random.Random, tables: dict, tensors: bytes) -> bytes:
    """Half floats that are not finite, or the largest there are."""
    data, word = bytearray(tensors), generator.choice([0x7C00, 0xFC00, 0x7E00, 0x7BFF, 0xFBFF])
    for _ in range(generator.choice([1, 10, 1000])):
        place = generator.randrange(len(data) // 2) * 2
        data[place : place + 2] = struct.pack("<H", word)
    return _file(tables, bytes(data))


def _cut(generator: random.Random, tables: dict, tensors: bytes) -> bytes:
    data = _file(tables, tensors)
    return data[: generator.choice([0, 1, 7, 8, 9, 100, generator.randrange(len(data))])]


def _length(generator: random.Random, tables: dict, tensors: bytes) -> bytes:
    number = generator.choice([0, 1, 2**31, 2**63, 2**64 - 1, len(tensors), 10**8])
    return struct.pack("<Q", number) + _file(tables, tensors)[8:]


def _longer(generator: random.Random, tables: dict, tensors: bytes) -> bytes:
    return _file(tables, tensors + bytes(generator.choice([1, 100, 10**6])))


MUTATIONS = [
    ("odd value", _repaint(_odd_value)),
    ("odd value", _repaint(_odd_value)),
    ("odd value", _repaint(_odd_value)),
    ("key gone", _repaint(_without)),
    ("another header", _repaint(_another)),
    ("one more key", _repaint(_more)),
    ("table", _table_value),
    ("table", _table_value),
    ("tensor gone", _tensor_gone),
    ("renamed", _renamed),
    ("twice", _twice),
    ("bits", _bits),
    ("numbers", _numbers),
    ("numbers", _numbers),
    ("cut", _cut),
    ("length", _length),
    ("longer", _longer),
]
