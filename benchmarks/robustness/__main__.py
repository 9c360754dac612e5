"""python -m benchmarks.robustness [--only PART ...] [--seed N] [--out FILE] [sizes].

Tries what strangers may send, and measures time and memory; exit code 1 where anything did harm.
The seed is printed, and makes the same again.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import random
import sys
import time
from dataclasses import asdict
from pathlib import Path

from benchmarks.robustness import PARTS

there = [name for name in PARTS if importlib.util.find_spec(f"benchmarks.robustness.{name}")]


def main(arguments: list[str] | None = None) -> int:
    """Run the chosen parts; the exit code is 1 where one of them found a fault."""
    parts = {name: importlib.import_module(f"benchmarks.robustness.{name}") for name in there}
    parser = argparse.ArgumentParser(prog="python -m benchmarks.robustness")
    parser.add_argument("--only", nargs="+", choices=there, default=there, metavar="PART")
    parser.add_argument("--seed", type=int, default=None, help="else a new one, which is printed")
    parser.add_argument("--out", type=Path, help="a JSON file for what was found")
    for part in parts.values():
        for name, (default, text) in part.SIZES.items():
            option = f"--{name.replace('_', '-')}"
            text = f"{text} (default %(default)s)"
            parser.add_argument(option, type=type(default), default=default, help=text)
    options = parser.parse_args(arguments)
    seed = random.SystemRandom().randrange(2**32) if options.seed is None else options.seed
    found, faults = {}, 0
    for name in options.only:
        print(f"{name}: seed {seed}", flush=True)
        started = time.monotonic()
        outcome = parts[name].run(options, random.Random(f"{seed} {name}"))
        minutes = (time.monotonic() - started) / 60
        told = {**outcome.counts, **outcome.figures}
        print("  " + ", ".join(f"{value} {what}" for what, value in told.items()))
        print(f"  {len(outcome.faults)} faults in {minutes:.1f} minutes", flush=True)
        for fault in outcome.faults:
            print(f"    {fault}", flush=True)
        found[name] = {"seed": seed, "minutes": round(minutes, 2), **asdict(outcome)}
        faults += len(outcome.faults)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
