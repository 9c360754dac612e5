"""Steps and pictures a second of training on a GPU, by precision, batch and how it is fed.

Each row is the committed network going on with all its losses, on the packed artworks, and is
given as a ratio to the first row. What a step spends its time on is listed below the table.

python -m benchmarks.pack_artworks          # before, where the artworks are
python -m benchmarks.train_speed            # on the GPU machine
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import ClassVar

import torch
from torch.profiler import ProfilerActivity, profile

from app import shipped, train
from app.dataset import PictureFolder
from app.processes import Processes
from app.training.data import TrainingData
from benchmarks.pack_artworks import FEATURES, PACKAGES, PACKED, STACK
from wct import _eigen

WARM = 6  # steps before the clock starts
ROWS = {
    "bf16": {},
    "float32 (TF32 convolutions)": {"precision": "float32"},
    "without workers": {"workers": 0},
    "convolutions tried out": {"try_out": True},
    "twice the batch": {"batch": 2},
    "network's channels last": {"channels_last": True, "try_out": True},
    "compiled frozen networks": {"compile": True, "try_out": True},
}


class SharedFolders(TrainingData):
    """Folders that are read once, whatever the number of runs."""

    read: ClassVar[dict[str, PictureFolder]] = {}

    def folder(self, folder: str | Path, name: str) -> PictureFolder:
        if str(folder) not in self.read:
            self.read[str(folder)] = super().folder(folder, name)
        return self.read[str(folder)]


def run_of(options: argparse.Namespace, row: dict, out: Path) -> train.Run:
    folders = sorted((options.packed / "train").iterdir())
    command = ["--photos", str(options.packed / "train" / "photo"), "--out", str(out)]
    command += [f"--style={f.name}={f}" for f in folders if f.name != "photo"]
    command += ["--init", str(options.init), "--train", "all", "--codes", "medoids"]
    command += ["--perceptual", str(options.packed / STACK)]
    command += ["--projection", str(options.packed / FEATURES)]
    command += ["--device", options.device, "--size", str(options.size), "--steps", "1000000"]
    command += ["--batch", str(options.batch * row.get("batch", 1))]
    command += ["--workers", str(row.get("workers", options.workers))]
    command += ["--precision", row.get("precision", "bfloat16")]
    command += ["--compile"] if row.get("compile") else []
    processes = Processes(train.available_device(options.device))
    settings = train.parse_arguments(command)
    run = train.Run(settings, processes, SharedFolders(settings, processes))
    if row.get("channels_last"):
        run.learner.network.to(memory_format=torch.channels_last)
    return run


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def measure(options: argparse.Namespace, row: dict, out: Path) -> dict[str, float]:
    run = run_of(options, row, out)
    tried = torch.backends.cudnn.flags(benchmark=bool(row.get("try_out")), allow_tf32=True)
    with tried if run.processes.device.type == "cuda" else nullcontext():
        start = time.perf_counter()
        for _ in range(WARM):
            run.train_step(0.5)
        wait(run.processes.device)
        began = time.perf_counter()
        for _ in range(options.steps):
            run.train_step(0.5)
        wait(run.processes.device)
        seconds = (time.perf_counter() - began) / options.steps
        start_up = began - start
        if row == {} and options.profile:
            print_profile(run)
    batch = run.settings.batch
    return {"step": seconds, "pictures": batch / seconds, "start_up": start_up}


def print_profile(run: train.Run) -> None:
    """Where a step's time goes on the GPU, and how much of the step the GPU works."""
    count = 3
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as recorded:
        for _ in range(count):
            run.train_step(0.5)
        wait(run.processes.device)
    averages = recorded.key_averages()
    kernels = [e for e in averages if e.device_type == torch.autograd.DeviceType.CUDA]
    busy = sum(e.self_device_time_total for e in kernels) / count / 1000
    calls = sum(e.count for e in kernels) // count
    print(f"kernels: {calls} a step, {busy:.1f} ms; the longest, ms a step and how many:")
    for e in sorted(kernels, key=lambda e: -e.self_device_time_total)[:16]:
        print(
            f"  {e.self_device_time_total / count / 1000:7.2f} {e.count // count:5d}  {e.key[:90]}"
        )
    for e in sorted(averages, key=lambda e: -e.self_cpu_time_total)[:10]:
        print(
            f"  CPU {e.self_cpu_time_total / count / 1000:7.2f} {e.count // count:5d}  {e.key[:70]}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--packed", type=Path, default=PACKED)
    parser.add_argument("--init", type=Path, default=shipped.CHECKPOINT)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--size", type=int, default=192)
    parser.add_argument("--batch", type=int, default=24)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--steps", type=int, default=40, help="timed steps a row")
    parser.add_argument("--rows", nargs="+", choices=list(ROWS), default=list(ROWS))
    parser.add_argument("--no-profile", dest="profile", action="store_false")
    parser.add_argument("--out", type=Path, help="JSON file")
    options = parser.parse_args()
    sys.path.insert(0, str(options.packed / PACKAGES))
    where = torch.cuda.get_device_name() if options.device == "cuda" else options.device
    print(f"torch {torch.__version__} on {where}, {os.cpu_count()} cores, {options.size} px")
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in options.rows:
            try:
                found[name] = measure(options, ROWS[name], Path(folder) / "a.safetensors")
            except torch.OutOfMemoryError as error:
                print(f"{name}: {str(error).splitlines()[0]}")
                continue
            first = next(iter(found.values()))["pictures"]
            print(
                f"{name:<30}{1000 * found[name]['step']:8.1f} ms a step"
                f"{found[name]['pictures']:8.1f} pictures a second"
                f"{found[name]['pictures'] / first:7.2f}"
                f"{found[name]['start_up']:8.1f} s for the first {WARM} steps",
                flush=True,
            )
    print("solvers measured:", _eigen._measured_fastest.cache_info())
    if options.out:
        options.out.write_text(
            json.dumps({"device": where, "rows": found}, indent=1) + "\n", encoding="utf-8"
        )


if __name__ == "__main__":
    main()
