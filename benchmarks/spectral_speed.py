"""Milliseconds and memory of every rule and solver, as ratios to torch's eigh and its autograd.

The function is the square root of a covariance, M^(1/2). Torch's own is V l^(1/2) V^T with
(l, V) = torch.linalg.eigh(M), differentiated by autograd, in the same run. All rules of wct
share one forward pass; the solvers have their own. Everything is run by turns, and a ratio is the
median of those of single rounds: what slows the machine for a while slows both.

python -m benchmarks.spectral_speed --out out/spectral_speed.json
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor

import wct
from wct import _eigen

BASE = "torch"
RULES = {
    "analytic": wct.Analytic(),
    "clip": wct.Clip(100),
    "taylor 9": wct.Taylor(9),
    "taylor 100": wct.Taylor(100),
    "pade 100": wct.Pade(100),
    "pade surrogate": wct.PadeSurrogate(100),
    "pi 19": wct.PowerIteration(19, energy=0.0),
    "pi 19, loop": wct.PowerIteration(19, energy=0.0, loop=True),
    "topn": None,  # 200 of 256, and as large a share of fewer
    "newton 10": wct.Newton(10),
    "exact": wct.Exact(),
}
SOLVERS = {
    "schulz, exact": {"solver": "newton_schulz", "gradient": wct.Exact()},
    "schulz 5": {"solver": "newton_schulz", "gradient": wct.Newton(5)},
    "eigh on the CPU": {"solver": "eigh_cpu"},
}


def torchs_root(covariance: Tensor) -> Tensor:
    values, vectors = torch.linalg.eigh(covariance)
    return (vectors * values.sqrt().unsqueeze(-2)) @ vectors.mT


class Clock:
    """Milliseconds of several functions that are run by turns.

    On one CPU thread the time is the processor's own, which other processes do not lengthen but
    for the caches and frequency that they share.
    """

    def __init__(self, device: torch.device, repeats: int, longest: float) -> None:
        self.device, self.repeats, self.longest = device, repeats, longest
        self.alone = device.type == "cpu" and torch.get_num_threads() == 1

    def now(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.process_time() if self.alone else time.perf_counter()

    def by_turns(self, runs: Mapping[str, Callable[[], object]]) -> dict[str, list[float]]:
        """The times of each, round after round; what takes long is in the first rounds alone."""
        times: dict[str, list[float]] = {name: [] for name in runs}
        for run in runs.values():
            run()  # warm up
        for _ in range(self.repeats):
            for name, run in runs.items():
                if sum(times[name]) < 1000 * self.longest or name == BASE:
                    start = self.now()
                    run()
                    times[name].append(1000 * (self.now() - start))
        return times


def figures(times: Mapping[str, list[float]]) -> dict[str, tuple[float, float]]:
    """Of each its median, and the median of its ratios to torch's own in the same round."""
    return {
        name: (
            statistics.median(own),
            statistics.median(a / b for a, b in zip(own, times[BASE], strict=False)),
        )
        for name, own in times.items()
    }


def saved_megabytes(function: Callable[[Tensor], Tensor], covariance: Tensor) -> float:
    """What the graph keeps for the backward pass, each storage once, the input left out."""
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    leaf = covariance.clone().requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        root = function(leaf)
    kept.pop(leaf.untyped_storage().data_ptr(), None)
    del root
    return sum(kept.values()) / 2**20


def measure(d: int, batch: int, clock: Clock, dtype: torch.dtype) -> dict[str, dict[str, float]]:
    """Forward and backward milliseconds and saved megabytes of everything at one size."""
    generator = torch.Generator().manual_seed(0)
    factors = torch.randn(batch, d, 2 * d, generator=generator, dtype=dtype).to(clock.device)
    covariance = factors @ factors.mT / (2 * d) + 1e-3 * torch.eye(d, device=clock.device)
    weights = torch.randn(batch, d, d, generator=generator, dtype=dtype).to(clock.device)

    functions: dict[str, Callable[[Tensor], Tensor]] = {BASE: torchs_root}
    for name, rule in RULES.items():
        chosen = wct.TopN(max(1, d * 200 // 256)) if rule is None else rule
        functions[name] = lambda m, r=chosen: wct.sqrtm(m, gradient=r, solver="eigh")
    for name, options in SOLVERS.items():
        functions[name] = lambda m, o=options: wct.sqrtm(m, **o)

    # Rules differ in backward alone: their forward is timed once, as exact's.
    leaf = covariance.clone().requires_grad_()
    forward = {name: lambda f=functions[name]: f(leaf) for name in (BASE, "exact", *SOLVERS)}
    leaves = {name: covariance.clone().requires_grad_() for name in functions}
    roots = {name: function(leaves[name]) for name, function in functions.items()}
    backward = {
        name: lambda r=roots[name], x=leaves[name]: torch.autograd.grad(
            r, x, weights, retain_graph=True
        )
        for name in functions
    }
    there, back = figures(clock.by_turns(forward)), figures(clock.by_turns(backward))
    del roots, backward
    found: dict[str, dict[str, float]] = {}
    for name, function in functions.items():
        found[name] = {"backward": back[name][0], "backward ratio": back[name][1]}
        if name in there:
            found[name] |= {"forward": there[name][0], "forward ratio": there[name][1]}
        found[name]["megabytes"] = saved_megabytes(function, covariance)
    if clock.device.type != "cpu":
        found["auto"] = {"picks": _eigen._fastest(covariance)}
    return found


def print_size(d: int, batch: int, found: dict[str, dict[str, float]]) -> None:
    base = found[BASE]
    print(f"\nd = {d}, batch = {batch}{'':8}forward ms  ratio   backward ms  ratio      MB  ratio")
    for name, row in found.items():
        if "picks" in row:
            print(f"  auto picks {row['picks']}")
            continue
        forward = f"{'as exact':>10}{'':7}"
        if "forward" in row:
            forward = f"{row['forward']:10.2f}{row['forward ratio']:7.2f}"
        backward = f"{row['backward']:14.2f}{row['backward ratio']:7.2f}"
        memory = f"{row['megabytes']:8.2f}{row['megabytes'] / base['megabytes']:7.2f}"
        print(f"  {name:<26}{forward}{backward}{memory}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[16, 32, 64, 256])
    parser.add_argument("--batches", type=int, nargs="+", default=[8, 64, 256])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--longest", type=float, default=2.0, help="seconds of repeats a figure")
    parser.add_argument("--largest", type=int, default=64 * 256**2, help="entries of a batch")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--double", action="store_true", help="float64 instead of float32")
    parser.add_argument("--out", type=Path, help="JSON file")
    options = parser.parse_args()

    device = torch.device(options.device)
    clock = Clock(device, options.repeats, options.longest)
    cores, load = os.cpu_count(), os.getloadavg()[0]
    kind = "processor time, free of load" if clock.alone else "wall time: load shows in it"
    where = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    print(
        f"torch {torch.__version__} on {where}, {torch.get_num_threads()} threads, {cores} cores, "
        f"load {load:.1f} at the start; {options.repeats} rounds by turns, medians, {kind}"
    )
    sizes = {}
    for d in options.sizes:
        for batch in options.batches:
            if batch * d * d > options.largest:
                print(f"\nd = {d}, batch = {batch}: left out, see --largest")
                continue
            sizes[f"{d}x{batch}"] = measure(
                d, batch, clock, torch.float64 if options.double else torch.float32
            )
            print_size(d, batch, sizes[f"{d}x{batch}"])
    print(f"\nload at the end {os.getloadavg()[0]:.1f}")
    if options.out:
        record = {"torch": torch.__version__, "device": where, "clock": kind, "load": load}
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(
            json.dumps({**record, "sizes": sizes}, indent=1) + "\n", encoding="utf-8"
        )


if __name__ == "__main__":
    main()
