"""Whether anything a stranger sends does harm: mutated files, malformed calls, mixed visitors.

A part of it is a module of this package with

    SIZES    its numbers: {"name": (default, help)}, each an option of the command line
    run      run(options, generator) -> Outcome, where options has a field for each of SIZES
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

PARTS = ("pictures", "clips", "checkpoints", "api", "server")


@dataclass
class Outcome:
    """What a part found.

    Attributes:
        counts: what became of what was tried, by its name: {"read": 12, "refused": 988}.
        figures: what was measured, with its unit in its name: {"peak_mb": 40}.
        faults: what should not be: one line each, that says how to make it again.
    """

    counts: dict[str, int] = field(default_factory=dict)
    figures: dict[str, Any] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def count(self, name: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1
