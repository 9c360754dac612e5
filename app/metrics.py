"""What a service has done, in Prometheus' text form."""

from __future__ import annotations

import bisect
import threading
from collections import Counter

# Seconds: a picture's is from 0.1 on a GPU to a minute for 50 megapixels on two cores.
_STEPS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0)


class Metrics:
    """Counts of one process; its methods may be called from any thread.

    Attributes:
        TYPE: of the text, for HTTP.
    """

    TYPE = "text/plain; version=0.0.4; charset=utf-8"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: Counter[int] = Counter()
        self._buckets = [0] * (len(_STEPS) + 1)
        self._painted_seconds = self._answered_seconds = 0.0
        self._waiting = 0

    def answered(self, status: int, painted: float, seconds: float) -> None:
        """One request's answer, and the seconds that painting and all of it took."""
        with self._lock:
            self._answers[status] += 1
            if status == 200:
                self._buckets[bisect.bisect_left(_STEPS, seconds)] += 1
                self._painted_seconds += painted
                self._answered_seconds += seconds

    def waiting(self, count: int) -> None:
        """How many are in hand or wait now."""
        with self._lock:
            self._waiting = count

    def text(self) -> str:
        """All of it, and this process's memory."""
        with self._lock:
            painted = self._answers[200]
            busy = self._answers[503]
            failed = sum(count for status, count in self._answers.items() if status >= 500) - busy
            refused = self._answers.total() - painted - busy - failed
            lines = [
                *_told("pictures_painted_total", "counter", "Pictures painted.", painted),
                *_told("failures_total", "counter", "Answers that failed here.", failed),
                *_told("refused_total", "counter", "Requests with a mistake.", refused),
                *_told("busy_total", "counter", "Requests told to come back later.", busy),
                *_told("queue", "gauge", "Requests in hand or waiting.", self._waiting),
                *_told(
                    "painting_seconds_total",
                    "counter",
                    "Seconds of painting.",
                    round(self._painted_seconds, 3),
                ),
                "# HELP repaint_answer_seconds Seconds from a request to its picture.",
                "# TYPE repaint_answer_seconds histogram",
            ]
            total = 0
            for step, count in zip((*_STEPS, float("inf")), self._buckets, strict=True):
                total += count
                mark = "+Inf" if step == float("inf") else f"{step:g}"
                lines.append(f'repaint_answer_seconds_bucket{{le="{mark}"}} {total}')
            lines.append(f"repaint_answer_seconds_sum {self._answered_seconds:.3f}")
            lines.append(f"repaint_answer_seconds_count {total}")
        memory = resident_bytes()
        if memory is not None:
            lines += _told("memory_bytes", "gauge", "Memory of the process that answers.", memory)
        return "\n".join(lines) + "\n"


def _told(name: str, kind: str, what: str, value: float) -> list[str]:
    name = f"repaint_{name}"
    return [f"# HELP {name} {what}", f"# TYPE {name} {kind}", f"{name} {value}"]


def resident_bytes(process: int | str = "self") -> int | None:
    """A process's memory; None where the system doesn't tell (Linux does)."""
    try:
        with open(f"/proc/{process}/status", encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None
