"""python -m benchmarks.robustness.faults [FOLDER] [--only NAME ...] [--out FILE].

Runs each script of a folder of known faults against this program and prints a table of what came
of them; exit code 1 where one doesn't say what it should. What each has said is in FILE.

The scripts run in a scratch folder that looks like the project's root. Those of the open server
get a demo of their own. FOLDER is ../shared/faults unless told.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks.robustness.served import Served, serving

ROOT = Path(__file__).resolve().parents[2]
LONGEST = 3000  # seconds for a script: some train, and the machine may be busy


@dataclass(frozen=True)
class Fault:
    """What a script is given, and what it must and must not say.

    given: its arguments; of a demo that is served for it where `served`. must, never: patterns that
    its output has, and has not. most_mb: what the demo may grow by. change: of the script's text,
    where it can't reach the right answer as it is.
    """

    must: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    given: Callable[[Served, Path], list[str]] | None = None
    most_mb: float | None = None
    change: Callable[[str, Served], str] | None = None


def _port(served: Served, *_: object) -> list[str]:
    return [str(served.port)]


def _pid_file(served: Served, folder: Path) -> str:
    (folder / "pid").write_text(str(served.process.pid), encoding="utf-8")
    return str(folder / "pid")


def _own_host(text: str, served: Served) -> str:
    """The flood with the name that the server answers to: with another each page is refused."""
    return text.replace("Host: x", f"Host: 127.0.0.1:{served.port}")


PAINTED = r"(?m)^exit 0$"
FAILED = r"(?m)^exit [^0]"

FAULTS: dict[str, Fault] = {
    "bad_checkpoints.py": Fault(must=(r"header null .*rc 2",), never=("TRACEBACK", "rc timeout")),
    "batch_lists_and_links.sh": Fault(
        must=(r"(?s)## linked.*3 painted|linked", r"(?s)## same name.*"), never=("## unread.*\n$",)
    ),
    "big_json.py": Fault(
        given=lambda served, _: [served.url.rstrip("/"), "64"],
        must=(r"call/stylize \(4\d\d", r"stream/upload \(4\d\d"),
        never=(r"\(500",),
        most_mb=40,
    ),
    "demo_uploads_left.sh": Fault(must=(PAINTED,), never=("LEFT BEHIND",)),
    "flat_photo_ends_training.sh": Fault(must=(r"rc=0",), never=(r"rc=[^0]",)),
    "ico_bomb.py": Fault(must=("larger|pixels|limit",)),
    "image_checks.py": Fault(must=(r"got    32x32 mean \[[45]\d, (199|20[01]), 5[4-8]\]",)),
    "orphan_uploads.py": Fault(
        given=lambda served, _: [str(served.port), str(served.parent)],
        must=(r"(?s)after 60 s: \S+ 20971520\s*$|after 60 s:\s*$",),
        never=(r"other b'HTTP/1.1 200",),
    ),
    "page_copies_network.py": Fault(must=(r"one page: 0 MB",)),
    "page_flood.py": Fault(
        given=lambda served, folder: [str(served.port), _pid_file(served, folder), "40", "2"],
        must=(r"one page: 0\.0\d s", r"in 40 s [1-9]\d* answers"),
        most_mb=150,
        change=_own_host,
    ),
    "recording_lfi.py": Fault(
        given=lambda served, _: [served.url.rstrip("/")],
        must=(r"404",),
        never=("A VIDEO made", r" 200 "),
    ),
    "run_skips_queue.py": Fault(
        given=lambda served, folder: [str(served.port), "8", _pid_file(served, folder)],
        must=(r"\b40[34]\b",),
        never=(r", 200, ",),
        most_mb=60,
    ),
    "train_skip_overwrites_state.sh": Fault(never=("Traceback", r"e\+[12]\d", "inf|nan")),
    "train_small_faults.sh": Fault(never=("Traceback",)),
    "video_colon_in_name.sh": Fault(must=(PAINTED,), never=(FAILED,)),
    "video_cover_first.sh": Fault(must=(PAINTED, r"(?s)out \(wanted.*h264,96,20"), never=(FAILED,)),
    "video_duplicate_audio_dts.sh": Fault(must=(PAINTED,), never=(FAILED,)),
    "video_iphone_apac.sh": Fault(must=(PAINTED,), never=(FAILED, "Traceback")),
    "video_lost_quietly.sh": Fault(must=(PAINTED, "eng", "jpn", "chapter,"), never=(FAILED,)),
    "video_one_bad_frame.sh": Fault(must=(PAINTED,), never=(FAILED, "Traceback")),
    "video_sound_mkv_every_kind.sh": Fault(must=(PAINTED,), never=(FAILED,)),
    "video_start_time_kept.sh": Fault(must=(r"start_time=0\.0",), never=(FAILED, "=3[56]\\d\\d")),
    "wct_newton_schulz_trace.py": Fault(must=(r"trace -4e-8 5 ValueError",), never=("False",)),
    "windows_encoding.sh": Fault(
        must=(PAINTED, "report.md"), never=(FAILED, r"\s0 \w+ +\d+.*report")
    ),
}


def main(arguments: list[str] | None = None) -> int:
    """Run them; the exit code is 1 where one found a fault."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.robustness.faults")
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT.parent / "shared" / "faults")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="parts of the scripts' names")
    parser.add_argument("--out", type=Path, help="a JSON file for all that was said")
    options = parser.parse_args(arguments)
    scripts = sorted(p for p in options.folder.iterdir() if p.suffix in (".py", ".sh"))
    scripts = [p for p in scripts if p.name != "common.sh"]
    if options.only:
        scripts = [p for p in scripts if any(part in p.name for part in options.only)]
    if not scripts:
        parser.error(f"{options.folder}: no scripts")
    found = {}
    for script in scripts:
        began = time.monotonic()
        said, wrong = _run(script, FAULTS.get(script.name))
        seconds = time.monotonic() - began
        print(f"{script.name:34} {seconds:6.0f} s  {'; '.join(wrong) or 'as wanted'}", flush=True)
        found[script.name] = {"seconds": round(seconds, 1), "wrong": wrong, "said": said}
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 1 if any(one["wrong"] for one in found.values()) else 0


def _run(script: Path, fault: Fault | None) -> tuple[str, list[str]]:
    """What a script said, and what is wrong with that."""
    if fault is None:
        return "", ["nobody has said yet what it should say"]
    with _root() as root:
        if fault.given is None:
            return _judged(fault, _said(script, [], root), 0.0)
        with serving("--device", "cpu") as served:
            given = fault.given(served, root)
            if fault.change is not None:
                text = script.read_text(encoding="utf-8")
                script = root / script.name
                script.write_text(fault.change(text, served), encoding="utf-8")
            before = served.memory()
            said = _said(script, given, root)
            return _judged(fault, said, served.peak() - before)


def _judged(fault: Fault, said: str, grown: float) -> tuple[str, list[str]]:
    wrong = [f"lacks {pattern!r}" for pattern in fault.must if not re.search(pattern, said)]
    wrong += [f"has {pattern!r}" for pattern in fault.never if re.search(pattern, said)]
    if re.search(r"(?m)^Traceback", said):
        wrong.append("has a traceback")
    if fault.most_mb is not None and grown > fault.most_mb:
        wrong.append(f"the server grew by {grown:.0f} MB")
    return said, wrong


def _said(script: Path, given: list[str], root: Path) -> str:
    shell = [sys.executable] if script.suffix == ".py" else ["bash"]
    environment = {**os.environ, "PYTHONPATH": str(root), "MAIN": str(root), "PY": sys.executable}
    try:
        done = subprocess.run(
            [*shell, str(script.resolve()), *given],
            cwd=root,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=LONGEST,
        )
    except subprocess.TimeoutExpired as error:
        return f"{(error.output or b'').decode(errors='replace')}\nTraceback: no end"
    return done.stdout.decode(errors="replace")


@contextmanager
def _root() -> Iterator[Path]:
    """A scratch folder that looks like the project's root, with what scripts expect in work/."""
    with tempfile.TemporaryDirectory() as folder:
        root, generator = Path(folder), np.random.default_rng(0)
        for name in ("app", "models", "wct", "checkpoints", "benchmarks"):
            (root / name).symlink_to(ROOT / name)
        for place in ("work/ph/p0.png", "work/canary/secret.png"):
            _picture(root / place, generator)
        for number in range(4):
            _picture(root / f"work/train/warm/{number}.png", generator)
        for place in ("private.mp4", "private.ts", "secret.txt"):
            (root / "work/canary" / place).write_bytes(b"canary" * 100)
        (root / "work/tmp3").mkdir()
        yield root


def _picture(path: Path, generator: np.random.Generator) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = generator.integers(0, 256, (16, 16, 3), dtype=np.uint8)
    Image.fromarray(pixels).resize((192, 160)).save(path)


if __name__ == "__main__":
    sys.exit(main())
