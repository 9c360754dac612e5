"""Whether anything a stranger sends does harm: mutated files, malformed calls, mixed visitors.

A part of it is a module of this package with

    SIZES    its numbers: {"name": (default, help)}, each an option of the command line
    run      run(options, generator) -> Outcome, where options has a field for each of SIZES
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from benchmarks.robustness.trial import Trial

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

    def judge(self, trial: Trial, name: str, file: str, slowest: float, most_memory: float) -> None:
        """Count what became of a file, and note as faults what should not have.

        Args:
            name: of the file and what was done to it, so that it can be made again.
            file: what a refusal must name.
            slowest, most_memory: seconds of the processor and MB that a trial may take.
        """
        self.count(trial.kind)
        slow = {"slowest_s": trial.seconds, "slowest_processor_s": trial.processor}
        for figure, value in {**slow, "peak_mb": trial.peak_mb}.items():
            self.figures[figure] = max(self.figures.get(figure, 0.0), round(value, 2))
        times = f"{trial.seconds:.1f} s ({trial.processor:.1f} s of the processor)"
        told = f"{name}: {trial.kind} in {times} and {trial.peak_mb:.0f} MB"
        wrong = trial.kind not in ("done", "refused")
        if wrong or trial.processor > slowest or trial.peak_mb > most_memory:
            last = "".join(trial.text.strip().splitlines()[-1:])
            self.faults.append(f"{told}: {last[:200]}")
        if trial.kind == "refused" and file not in trial.text:
            self.faults.append(f"{told}: the file isn't named: {trial.text[:200]}")
