"""Whether another state of the code trains to the same weights, bit by bit.

    git worktree add ../before COMMIT
    python -m benchmarks.same_training --before ../before

Each recipe runs a few steps with one seed on one thread, in the folder given and here, on pieces
of pictures that scikit-image ships. Compared are the checkpoint (tensors and header), everything
in the state to resume from, and the log, but for times. Then this code goes on from the state that
the other one left. Three minutes a recipe at most.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import skimage.data
import torch
from PIL import Image
from safetensors import safe_open

HERE = Path(__file__).resolve().parents[1]
SHAPE = ["--width=8", "--blocks=1"]
LEFT_OUT = ("seconds", "minutes", "version")  # times, and the header's own number
START = "statistics"  # the recipe that others begin from: {start}
RECIPES: dict[str, list[str]] = {
    START: [*SHAPE, "--steps=12", "--grain=0.5", "--codes=medoids"],
    "chosen codes": [*SHAPE, "--steps=1", "--augment=0.5"],
    "mlp": [*SHAPE, "--steps=3", "--coloring=mlp", "--codes=medoids"],
    "gd": [*SHAPE, "--steps=3", "--method=gd", "--precision=bfloat16", "--codes=medoids"],
    "no perceptual": [*SHAPE, "--steps=2", "--perceptual=none", "--codes=medoids"],
    "learn": [*SHAPE, "--steps=3", "--learn=warm={cold}", "--learn=warm={warm}", "--codes=medoids"],
    "on": ["--steps=2", "--init={start}", "--train=all", "--calm=warm=2", "--codes=medoids"],
    "new style": ["--steps=3", "--init={start}", "--style=new={cold}", "--train=codes"],
    "only new": ["--steps=2", "--init={start}", "--train=codes", "--only-new", "--codes=medoids"],
    "refinement": ["--steps=3", "--init={start}", "--train=refinement", "--refinement=8"],
}


def make_folders(root: Path) -> dict[str, Path]:
    """photos, warm and cold: four pieces each."""
    made = {}
    for name, pixels in (
        ("photos", skimage.data.astronaut()),
        ("warm", skimage.data.coffee()),
        ("cold", skimage.data.chelsea()[:, :, ::-1]),
    ):
        folder = made[name] = root / name
        folder.mkdir()
        for i, (top, left) in enumerate(((0, 0), (60, 100), (120, 200), (172, 60))):
            piece = np.ascontiguousarray(pixels[top : top + 128, left : left + 128])
            Image.fromarray(piece).save(folder / f"{i}.png")
    return made


def train(code: Path, out: Path, options: list[str], folders: dict[str, Path], start: Path) -> None:
    styles = [f"--style={name}={folders[name]}" for name in ("warm", "cold")]
    command = ["--photos", str(folders["photos"]), *styles, "--out", str(out)]
    command += ["--size=64", "--batch=2", "--device=cpu", "--seed=3"]
    command += [option.format(start=start, **folders) for option in options]
    done = subprocess.run(
        [sys.executable, "-m", "app.train", *command],
        cwd=code,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": ""},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"{code}: {' '.join(command)}: {done.stderr[-400:]}")


def read(out: Path) -> dict[str, Any]:
    """All that a run left, as one tree of plain values and tensors."""
    with safe_open(out, framework="pt") as file:
        header = json.loads(file.metadata()["repaint"])
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    log = out.with_suffix(".csv")
    rows = (
        list(csv.DictReader(log.read_text(encoding="utf-8").splitlines())) if log.exists() else []
    )
    state = torch.load(out.with_suffix(".state.pt"), weights_only=True)
    return {"header": header, "tensors": tensors, "state": state, "log": rows}


def differences(one: Any, other: Any, where: str = "") -> list[str]:
    """Where two trees differ; times are left out, and what a newer header has more is no harm."""
    if where.rsplit("/", 1)[-1] in LEFT_OUT:
        return []
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return [] if torch.equal(one, other) else [where]
    if isinstance(one, dict) and isinstance(other, dict):
        missing = [f"{where}/{key}" for key in one if key not in other]
        pairs = ((key, one[key], other[key]) for key in one if key in other)
        return missing + [d for key, a, b in pairs for d in differences(a, b, f"{where}/{key}")]
    if isinstance(one, (list, tuple)) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        return [d for i, (a, b) in pairs for d in differences(a, b, f"{where}/{i}")]
    return [] if one == other else [where]


def going_on(name: str, state: Path) -> list[str]:
    """The recipe's options, from a state that a run of it left, for two more steps."""
    options = [option for option in RECIPES[name] if not option.startswith("--steps")]
    steps = next(int(o.partition("=")[2]) for o in RECIPES[name] if o.startswith("--steps"))
    return [*options, f"--steps={steps + 2}", f"--resume={state}"]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--before", type=Path, required=True, help="folder with the other code")
    parser.add_argument("--keep", type=Path, help="folder that keeps the other code's results")
    parser.add_argument("--recipes", nargs="+", choices=list(RECIPES), default=list(RECIPES))
    options = parser.parse_args()
    before, failed = options.before.resolve(), 0
    with tempfile.TemporaryDirectory() as scratch:
        kept = (options.keep or Path(scratch, "kept")).resolve()
        folders = {n: kept / n for n in ("photos", "warm", "cold")}
        if not kept.exists():
            kept.mkdir(parents=True)
            make_folders(kept)
        start = kept / START / "a.safetensors"
        for name in dict.fromkeys([START, *options.recipes]):
            old = kept / name / "a.safetensors"
            for file, recipe in ((old, RECIPES[name]), (old.with_stem("b"), going_on(name, old))):
                if not file.exists():
                    train(before, file, recipe, folders, start)
        for name in options.recipes:
            old, new = kept / name / "a.safetensors", Path(scratch, "new", name, "a.safetensors")
            train(HERE, new, RECIPES[name], folders, start)
            train(HERE, new.with_stem("b"), going_on(name, old), folders, start)
            found = differences(read(old), read(new))
            found += differences(read(old.with_stem("b")), read(new.with_stem("b")), "gone on")
            failed += bool(found)
            print(
                f"{name}: {'differs in ' + ', '.join(found[:8]) if found else 'equal'}", flush=True
            )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
