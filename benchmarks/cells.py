"""A table's cells, kept one JSON line each: a benchmark stopped at any point goes on there."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tqdm import tqdm

Cell = dict[str, Any]


class Cells:
    """Results by cell, in a file of JSON lines that grows by one line a finished cell.

    A cell is a dictionary that says all that its result depends on: a file may hold cells of
    several sizes, and each finds its own. A last line that a kill left half written is passed
    over.

    Args:
        path: of the file; made with its folder where it is missing.

    Raises:
        ValueError: the file is none of these; the message names it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._results: dict[str, Any] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = path.read_bytes().split(b"\n") if path.is_file() else []
        torn = False
        for number, line in enumerate(lines, start=1):
            try:
                found = json.loads(line) if line.strip() else None
                if found is not None:
                    self._results[self._key(found["cell"])] = found["result"]
            except (ValueError, KeyError, TypeError) as error:
                if number < len(lines):
                    raise ValueError(f"{path}: line {number} is no finished cell") from error
                torn = True
        # What a kill left of a line is cut off, or ended, so that the next one is whole.
        if lines and lines[-1]:
            kept = lines[:-1] if torn else lines
            path.write_bytes(b"".join(line + b"\n" for line in kept))

    @staticmethod
    def _key(cell: Cell) -> str:
        return json.dumps(cell, sort_keys=True)

    def __contains__(self, cell: Cell) -> bool:
        return self._key(cell) in self._results

    def __getitem__(self, cell: Cell) -> Any:
        return self._results[self._key(cell)]

    def get(self, cell: Cell) -> Any:
        """A cell's result, or None."""
        return self._results.get(self._key(cell))

    def keep(self, cell: Cell, result: Any) -> None:
        """Writes a finished cell down, for good."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"cell": cell, "result": result}) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self._results[self._key(cell)] = json.loads(json.dumps(result))

    def fill(self, cells: Iterable[Cell], compute: Callable[[Cell], Any], name: str) -> None:
        """Computes what is missing, in the order given, with a bar of progress."""
        missing = [cell for cell in cells if cell not in self]
        for cell in tqdm(missing, name, unit="cell", disable=not missing):
            self.keep(cell, compute(cell))

    def found(self, cells: Iterable[Cell]) -> list[tuple[Cell, Any]]:
        """Those of the cells that are there, with their results."""
        return [(cell, self[cell]) for cell in cells if cell in self]
