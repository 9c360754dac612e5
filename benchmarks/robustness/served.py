"""The demo in a process of its own, to be attacked: its address, its folder, its log, its memory.

python -m benchmarks.robustness.served KEEP [options of python -m app]

keeps visitors' files for KEEP seconds instead of an hour, so that their end can be waited for.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from benchmarks.robustness.trial import memory_mb, processor_seconds

KEEP = 120  # seconds: longer than anything waits in the queue of a busy machine
EVERY = 10  # seconds between two looks for old files and for visitors who went away


@dataclass(frozen=True)
class Served:
    """A running demo.

    url: with a slash at its end. parent: where its folder is, and nothing else. log: what it
    wrote to the terminal.
    """

    url: str
    port: int
    process: subprocess.Popen
    parent: Path
    log: Path

    def memory(self) -> float:
        """MB that it has now."""
        return memory_mb("VmRSS", self.process.pid)

    def peak(self) -> float:
        """MB that it had at most."""
        return memory_mb("VmHWM", self.process.pid)

    def processor(self) -> float:
        """Seconds of the processor that it has used."""
        return processor_seconds(self.process.pid)

    def files(self) -> list[str]:
        """What lies in its folder, its own lock aside."""
        found = sorted(path for path in self.parent.rglob("*") if path.is_file())
        return [str(path.relative_to(self.parent)) for path in found if path.name != ".owner"]

    def tracebacks(self) -> list[str]:
        """The last line of each traceback in its log."""
        lines, found = self.log.read_text(errors="replace", encoding="utf-8").splitlines(), []
        for number, line in enumerate(lines):
            if line.startswith("Traceback"):
                after = (text for text in lines[number + 1 :] if not text.startswith(" "))
                found.append(next(after, "?"))
        return found


@contextmanager
def serving(*options: str) -> Iterator[Served]:
    """The demo with the shipped checkpoint, until the block ends."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        parent = Path(folder, "served")
        parent.mkdir()
        # Importing the page before the demo begins must leave nothing where that is looked for.
        elsewhere = str(Path(folder, "gradio"))
        environment = {**os.environ, "TMPDIR": str(parent), "GRADIO_TEMP_DIR": elsewhere}
        command = [sys.executable, "-m", __name__, str(KEEP), "--port", str(port), *options]
        with open(log, "wb") as out:
            process = subprocess.Popen(command, stdout=out, stderr=out, env=environment)
        try:
            served = Served(f"http://127.0.0.1:{port}/", port, process, parent, log)
            while not _answers(served.url):
                if process.poll() is not None:
                    raise RuntimeError(
                        f"the demo did not start: {log.read_text(encoding='utf-8')[-500:]}"
                    )
                time.sleep(0.5)
            yield served
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}robots.txt", timeout=5).status_code == 200
    except httpx.HTTPError:
        return False


def main() -> int:
    from app.__main__ import main as serve
    from app.demo import page, server

    for module in (page, server):
        module.KEEP_FILES, module.CLEAN_EVERY = int(sys.argv[1]), EVERY
    return serve(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
