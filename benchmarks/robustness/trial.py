"""Trying one file after another in a process of its own: what it says, how long, how much memory.

A process that hangs or dies does so alone, and the next file gets a new one.
"""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import re
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

# Times as many seconds of the clock as of the processor: a machine's load that is reckoned with.
WAITS = 8


@dataclass(frozen=True)
class Trial:
    """What became of one: "done", "refused" (in one line), "traceback", "hang" or "crash".

    text: what was returned or said. seconds; processor: those of them that it used itself; peak_mb:
    of memory above what the process had before.
    """

    kind: str
    text: str
    seconds: float = 0.0
    processor: float = 0.0
    peak_mb: float = 0.0


class Tester:
    """Calls a function with one argument after another, each with `limit` seconds of the processor.

    Other work may share the processor, so that of the clock each has `WAITS` times as many.

    function: "package.module:name", which is imported in the process; it may return a string.
    refusals: "package.module:name" of the exceptions that are a refusal in order.
    """

    def __init__(self, function: str, refusals: list[str], limit: float = 10.0) -> None:
        self.given, self.limit = (function, refusals), limit
        self._process: multiprocessing.process.BaseProcess | None = None

    def try_one(self, argument: object) -> Trial:
        """One call of the function."""
        if self._process is None:
            context = multiprocessing.get_context("spawn")
            self._pipe, theirs = context.Pipe()
            self._process = context.Process(target=_work, args=(theirs, *self.given), daemon=True)
            self._process.start()
            theirs.close()
            self._pipe.recv()  # ready: importing is no part of it
        self._pipe.send(argument)
        began, used = time.monotonic(), processor_seconds(self._process.pid)
        try:
            while True:
                if self._pipe.poll(min(1.0, self.limit)):
                    return self._pipe.recv()
                clock = time.monotonic() - began
                processor = processor_seconds(self._process.pid) - used
                if processor > self.limit or clock > WAITS * self.limit:
                    break
            told = f"no answer in {clock:.0f} s, {processor:.0f} of the processor"
            trial = Trial("hang", told, clock, processor)
        except EOFError:
            self._process.join(5)
            trial = Trial("crash", f"the process ended with {self._process.exitcode}")
        self.close()
        return trial

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._pipe.close()
            self._process = None


@contextmanager
def testing(function: str, refusals: list[str], limit: float = 10.0) -> Iterator[Tester]:
    """A Tester that ends with its block."""
    tester = Tester(function, refusals, limit)
    try:
        yield tester
    finally:
        tester.close()


def _work(pipe, function: str, refusals: list[str]) -> None:
    call = _imported(function)
    refused = tuple(map(_imported, refusals))
    pipe.send("ready")
    while True:
        argument = pipe.recv()
        before = _reset_peak()
        started, used = time.monotonic(), time.process_time()
        try:
            kind, text = "done", str(call(argument) or "")
        except refused as error:
            text = str(error)
            kind = "refused" if text.strip() and "\n" not in text.strip() else "traceback"
        except Exception:
            kind, text = "traceback", traceback.format_exc()
        seconds, processor = time.monotonic() - started, time.process_time() - used
        peak = max(0.0, memory_mb("VmHWM") - before)
        pipe.send(Trial(kind, text[-2000:], seconds, processor, peak))


def _imported(name: str) -> object:
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _reset_peak() -> float:
    with contextlib.suppress(OSError):  # not Linux: peaks are then of all that was tried
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    return memory_mb("VmRSS")


def memory_mb(what: str, process: int | str = "self") -> float:
    """MB of memory that Linux tells of a process: VmRSS is now, VmHWM the most; 0 elsewhere."""
    try:
        text = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    except OSError:
        return 0.0
    found = re.search(rf"{what}:\s*(\d+)", text)
    return int(found[1]) / 1024 if found else 0.0


def processor_seconds(process: int) -> float:
    """Seconds that a process has used of the processor, as Linux tells them; 0 elsewhere."""
    try:
        text = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    except OSError:
        return 0.0
    user, system = text.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
