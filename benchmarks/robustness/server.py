"""300 requests one after the other, then minutes of mixed visitors: what the demo keeps of them."""

from __future__ import annotations

import argparse
import random
import threading
import time
import traceback

import httpx

from benchmarks.robustness import Outcome
from benchmarks.robustness.served import EVERY, KEEP, Served, serving
from benchmarks.robustness.visitors import VISITS, paint

SIZES = {
    "requests": (300, "photos painted one after the other"),
    "minutes": (20.0, "minutes of visitors of all kinds, four at a time"),
}

VISITORS = 4
MOST_GROWN = 50.0  # MB that it may have beyond what it had after the tenth request
# Seconds until a process at rest has given back its memory: app.demo.server.IDLE and some.
REST = 14
# And until it lets go of results whose files nobody asked for: app.demo.unwritten.Unwritten's.
UNWRITTEN = 60


def run(options: argparse.Namespace, generator: random.Random) -> Outcome:
    """Memory is compared at rest; files are waited for with a shorter time of keeping them."""
    outcome = Outcome()
    with serving("--device", "cpu") as served:
        with httpx.Client(base_url=served.url, timeout=300) as client:
            for number in range(options.requests):
                name = f"request{number}"
                try:
                    paint(client, generator, outcome, name)
                except Exception as error:
                    outcome.faults.append(_told(name, error))
                if number + 1 == min(10, options.requests):
                    time.sleep(REST)
                    tenth = served.memory()
        time.sleep(REST)
        after = served.memory()
        _visit(options, generator, served, outcome)
        time.sleep(UNWRITTEN + REST)
        last = served.memory()
        outcome.figures = {
            "mb_after_10": round(tenth),
            "mb_after_requests": round(after),
            "mb_after_visitors": round(last),
            "peak_mb": round(served.peak()),
        }
        for what, memory in (("requests", after), ("visitors", last)):
            if memory - tenth > MOST_GROWN:
                outcome.faults.append(f"{memory - tenth:.0f} MB more after all {what}")
        outcome.faults += [f"traceback: {line}" for line in served.tracebacks()]
        time.sleep(KEEP + 3 * EVERY)
        outcome.faults += [f"left after its time: {file}" for file in served.files()]
        parent = served.parent
        served.process.terminate()
        served.process.wait(60)
        if left := sorted(path.name for path in parent.iterdir()):
            outcome.faults.append(f"left at the end: {left}")
    return outcome


def _visit(
    options: argparse.Namespace, generator: random.Random, served: Served, outcome: Outcome
) -> None:
    ends = time.monotonic() + 60 * options.minutes
    lock = threading.Lock()

    def visitor(own: random.Random, number: int) -> None:
        visits = 0
        while time.monotonic() < ends:
            visits += 1
            what, visit = own.choice(VISITS)
            name = f"visitor{number}x{visits}"
            found = Outcome()
            try:
                with httpx.Client(base_url=served.url, timeout=300) as client:
                    visit(client, own, found, served, name)
                found.count(what)
            except Exception as error:
                found.count(f"{what}: failed")
                found.faults.append(_told(f"{name}, {what}", error))
            with lock:
                for name, count in found.counts.items():
                    outcome.counts[name] = outcome.counts.get(name, 0) + count
                outcome.faults += found.faults

    visitors = [
        threading.Thread(target=visitor, args=(random.Random(generator.random()), number))
        for number in range(VISITORS)
    ]
    for one in visitors:
        one.start()
    for one in visitors:
        one.join()


def _told(name: str, error: Exception) -> str:
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{name}: {type(error).__name__}: {str(error)[:300]} ({place.name}, line {place.lineno})"
