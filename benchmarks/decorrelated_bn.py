"""Decorrelated batch normalization by every gradient: success rates, errors and times by size.

After Tables 3 to 6 and Fig. 7 of Robust Differentiable SVD and Tables 2 and 3 of
Backpropagation-Friendly Eigendecomposition: the papers' ResNet with a ZCA layer after its first
convolution, its 64 channels in groups of d. A run fails when a loss, a gradient or an answer is
not finite, or an eigensolver gives up; failures are counted, and their reasons kept. Writes a
page, its numbers as JSON and its curves as PNG; finished runs are kept in a file of JSON lines,
so that a benchmark stopped at any point goes on there.

python -m benchmarks.decorrelated_bn --quick
python -m benchmarks.decorrelated_bn --data cifar10 --folder data/ --device cuda
"""

from __future__ import annotations

import collections
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

import wct
from app.dataset import FolderError
from app.terminal import failed
from benchmarks import experiments
from benchmarks.cells import Cell, Cells
from benchmarks.classification import STEM, Recipe, ResNet, Split, mean_and_spread, table, train

NAME = "decorrelated_bn"
SIZES = (4, 8, 16, 32, 64)
BATCH_NORM = "BatchNorm"

# --- the layers -------------------------------------------------------------------------------


class TorchZCA(wct.ZCANorm2d):
    """ZCA as one writes it with torch alone: its own eigh, differentiated by its autograd (SVD)."""

    def whitening(self, covariance: Tensor) -> Tensor:
        eye = torch.eye(covariance.shape[-1], dtype=covariance.dtype, device=covariance.device)
        values, vectors = torch.linalg.eigh(covariance + self.eps * eye)
        return (vectors * values.rsqrt().unsqueeze(-2)) @ vectors.mT


class PlainZCA(wct.ZCANorm2d):
    """ZCA by plain power iteration as in the papers (PI): values come out as they do, unclamped."""

    def whitening(self, covariance: Tensor) -> Tensor:
        eye = torch.eye(covariance.shape[-1], dtype=covariance.dtype, device=covariance.device)
        return wct.inv_sqrtm(covariance + self.eps * eye, gradient=self.rule, eps=0.0)


@dataclass(frozen=True)
class Row:
    """A way to normalize: a ZCA layer and its options."""

    layer: type[wct.ZCANorm2d] = wct.ZCANorm2d
    gradient: wct.Rule | None = None
    solver: str = "auto"

    def norm(self, size: int, eps: float) -> Callable[[int], nn.Module]:
        rule = self.gradient if self.gradient is not None else wct.Exact()
        return lambda channels: self.layer(
            channels, group_size=size, eps=eps, gradient=rule, solver=self.solver
        )


ROWS = {
    "SVD (torch.linalg.eigh)": Row(TorchZCA),
    "analytic K": Row(gradient=wct.Analytic()),
    "PI": Row(PlainZCA, wct.PlainPowerIteration(19)),
    "SVD-PI": Row(gradient=wct.PowerIteration(19)),
    "SVD-Clip": Row(gradient=wct.Clip(100)),
    "SVD-Taylor": Row(gradient=wct.Taylor(9)),
    "SVD-Padé": Row(gradient=wct.Pade(100)),
    "exact (ours)": Row(gradient=wct.Exact()),
    "Newton-Schulz": Row(gradient=wct.Newton(5), solver="newton_schulz"),
}

# What the papers report, by data: row -> d -> (success %, smallest error, mean error, spread).
NONE = (0.0, None, None, None)
PAPER: dict[str, dict[str, dict[int, tuple[float | None, ...]]]] = {
    "cifar10": {
        "SVD (torch.linalg.eigh)": {
            4: (46.7, 4.59, 4.54, 0.08),
            **dict.fromkeys((8, 16, 32, 64), NONE),
        },
        "PI": {
            4: (100, 4.44, 4.99, 0.51),
            8: (6.7, 6.28, None, None),
            **dict.fromkeys((16, 32, 64), NONE),
        },
        "SVD-Clip": {
            4: (100, 4.57, 4.84, 0.23),
            8: (100, 4.66, 4.77, 0.66),
            16: (100, 4.70, 4.89, 0.16),
            32: (100, 4.76, 4.87, 0.13),
            64: (100, 4.62, 4.83, 0.15),
        },
        "SVD-PI": {
            4: (100, 4.59, 4.71, 0.11),
            8: (100, 4.43, 4.62, 0.18),
            16: (100, 4.40, 4.63, 0.14),
            32: (100, 4.46, 4.64, 0.15),
            64: (100, 4.44, 4.59, 0.09),
        },
        "SVD-Taylor": {
            4: (100, 4.33, 4.52, 0.09),
            8: (100, 4.34, 4.55, 0.12),
            16: (100, 4.33, 4.52, 0.14),
            32: (100, 4.40, 4.57, 0.16),
            64: (100, 4.40, 4.50, 0.08),
        },
        BATCH_NORM: {1: (100, 4.66, 4.81, 0.19)},
    },
    "cifar100": {
        "SVD-PI": {
            4: (100, 21.03, 21.51, 0.28),
            8: (100, 21.15, 21.56, 0.35),
            16: (100, 21.14, 21.45, 0.25),
            32: (100, 21.36, 21.58, 0.27),
            64: (100, 21.04, 21.39, 0.23),
        },
        "SVD-Taylor": {
            4: (100, 20.99, 21.24, 0.17),
            8: (100, 20.88, 21.32, 0.31),
            16: (100, 20.86, 21.30, 0.33),
            32: (100, 20.71, 20.99, 0.27),
            64: (100, 20.91, 21.14, 0.20),
        },
        BATCH_NORM: {1: (100, 21.68, 21.85, 0.14)},
    },
    "tiny-imagenet": {
        "SVD-PI": {
            4: (100, 36.24, 36.62, 0.46),
            8: (100, 36.78, 38.43, 1.66),
            16: (100, 36.88, 37.27, 0.36),
            32: (100, 36.78, 38.43, 1.65),
            64: (100, 36.48, 36.83, 0.22),
        },
        "SVD-Taylor": {
            4: (100, 36.30, 36.58, 0.30),
            8: (100, 36.42, 36.70, 0.29),
            16: (100, 35.68, 36.64, 0.66),
            32: (100, 36.96, 37.32, 0.28),
            64: (100, 36.16, 36.72, 0.41),
        },
        BATCH_NORM: {1: (100, 36.92, 37.15, 0.21)},
    },
}
# Table 3 of Robust Differentiable SVD: (eps, K) -> (success %, smallest, mean, spread), d = 64.
HYPERPARAMETERS = {
    (1e-4, 19): (50.0, 21.04, 21.31, 0.33),
    (1e-2, 19): (87.5, 21.12, 21.45, 0.26),
    (1e-2, 9): (100.0, 20.91, 21.14, 0.20),
}

# --- the parts --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """How much is run.

    Attributes:
        success: the recipe of the runs that are counted as finished or failed, at the eps of
            Backpropagation-Friendly Eigendecomposition, and ``runs`` of them a cell.
        brief: how many steps ``brief_runs`` more of them have, of other seeds: what fails at once
            fails in them, too.
        errors: the recipe of the runs whose errors are compared, at the eps of Robust
            Differentiable SVD, and ``error_runs`` of them for each of ``error_sizes`` and
            ``error_rows``, beside plain batch normalization.
        hyperparameter_runs: of each row of Table 3.
        crops: of the artworks, a class.
        rounds: of the times, each with a batch of ``time_batch``.
    """

    success: Recipe
    errors: Recipe
    runs: int = 15
    brief: int = 0
    brief_runs: int = 0
    error_runs: int = 3
    error_sizes: tuple[int, ...] = SIZES
    error_rows: tuple[str, ...] = tuple(ROWS)
    hyperparameter_runs: int = 8
    success_eps: float = 1e-4
    error_eps: float = 1e-2
    crops: int = 4000
    rounds: int = 9
    time_batch: int = 128


def steps_of_epochs(epochs: int, pictures: int, batch: int = 128) -> int:
    return epochs * max(1, pictures // batch)


PLANS = {
    # Minutes, on one core.
    "quick": Plan(
        Recipe(steps=10, batch=8, width=2, tested=50),
        Recipe(steps=30, batch=16, width=4, tested=250),
        runs=3,
        error_runs=2,
        hyperparameter_runs=3,
        crops=100,
        rounds=1,
        time_batch=4,
    ),
    # A quarter of an hour on a core. Thirty steps of 16 pictures learn more at a third of the rate.
    "short": Plan(
        Recipe(steps=15, batch=16, width=2, tested=50),
        Recipe(steps=30, batch=16, rate=0.03, width=8, tested=200),
        runs=9,
        brief=4,
        brief_runs=6,
        error_sizes=(64,),
        hyperparameter_runs=6,
        crops=1000,
        rounds=3,
        time_batch=8,
    ),
    # The papers' own, with their 350 epochs of CIFAR's 50,000 pictures: days, on a GPU.
    "full": Plan(Recipe(steps=350 * 390), Recipe(steps=350 * 390), error_runs=5, success_eps=1e-4),
}


def cells_of(part: str, plan: Plan, data: str, seeds: int) -> list[Cell]:
    """The runs of a part, a seed after the other, so that what is stopped early is even.

    Those of the part ``success`` are ``seeds`` whole ones and the plan's brief ones.
    """
    recipe = plan.success if part == "success" else plan.errors
    eps = plan.success_eps if part == "success" else plan.error_eps
    sizes, rows = SIZES, tuple(ROWS)
    if part == "errors":
        sizes, rows = plan.error_sizes, plan.error_rows
    brief = replace(recipe, steps=plan.brief, tested=recipe.batch)
    brief_runs = plan.brief_runs if part == "success" else 0
    cells = []
    for seed in range(seeds + brief_runs):
        own = recipe if seed < seeds else brief
        common = {"part": part, "data": data, "crops": plan.crops, **asdict(own), "seed": seed}
        cells.append({**common, "row": BATCH_NORM, "d": 1, "eps": 1e-5})
        cells += [{**common, "row": row, "d": d, "eps": eps} for d in sizes for row in rows]
    return cells


def cells_of_hyperparameters(plan: Plan, data: str) -> list[Cell]:
    common = {"part": "success", "data": data, "crops": plan.crops, **asdict(plan.success)}
    return [
        {**common, "row": f"SVD-Taylor {degree}", "d": 64, "eps": eps, "seed": seed}
        for seed in range(plan.hyperparameter_runs)
        for eps, degree in HYPERPARAMETERS
    ]


def row_of(name: str) -> Row:
    if name.startswith("SVD-Taylor "):
        return replace(ROWS["SVD-Taylor"], gradient=wct.Taylor(int(name.split()[-1])))
    return ROWS[name]


def run(cell: Cell, split: Split, device: str) -> dict:
    """One training: what `benchmarks.classification.train` returns, and its seconds a step."""
    recipe = Recipe(
        **{key: cell[key] for key in ("steps", "batch", "rate", "width", "depth", "tested")}
    )
    torch.manual_seed(cell["seed"])
    if cell["row"] == BATCH_NORM:
        norm: Callable[[int], nn.Module] = nn.BatchNorm2d
    else:
        norm = row_of(cell["row"]).norm(cell["d"], cell["eps"])
    network = ResNet(norm, split.train.classes, width=recipe.width, depth=recipe.depth)
    start = time.process_time()
    result = train(network, split, recipe, cell["seed"], device=device)
    result["seconds"] = round(time.process_time() - start, 2)
    return result


def times(rounds: int, batch: int, device: str) -> dict[str, dict[int, dict[str, float]]]:
    """Milliseconds forward and backward of each layer alone, by d (Fig. 7): medians of rounds.

    The layers take turns, so that a busy machine is equally busy for all.
    """
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(batch, STEM, 32, 32, generator=generator).to(device)
    mix = torch.randn(STEM, STEM, generator=generator).to(device)
    features = torch.einsum("oc,bchw->bohw", mix, features)
    layers = {(BATCH_NORM, d): nn.BatchNorm2d(STEM).to(device) for d in SIZES}
    for name, row in ROWS.items():
        layers |= {(name, d): row.norm(d, 1e-2)(STEM).to(device) for d in SIZES}
    taken: dict = collections.defaultdict(lambda: ([], []))

    def clock() -> float:
        if device != "cpu":
            torch.cuda.synchronize()
            return time.perf_counter()
        return time.process_time()

    for number in range(rounds + 1):
        for key, layer in layers.items():
            x = features.clone().requires_grad_()
            start = clock()
            loss = layer(x).square().mean()
            middle = clock()
            loss.backward()
            end = clock()
            if number:  # the first loads what is loaded once
                taken[key][0].append(1e3 * (middle - start))
                taken[key][1].append(1e3 * (end - middle))
    found: dict[str, dict[int, dict[str, float]]] = collections.defaultdict(dict)
    for (name, d), (forward, backward) in taken.items():
        found[name][d] = {
            "forward": statistics.median(forward),
            "backward": statistics.median(backward),
        }
    return dict(found)


# --- the page ---------------------------------------------------------------------------------


def summary(runs: list[tuple[Cell, dict]]) -> dict[str, dict[int, dict]]:
    """Row -> d -> runs, how many failed and why, and smallest, mean and spread of the errors."""
    found: dict[str, dict[int, dict]] = collections.defaultdict(dict)
    grouped: dict = collections.defaultdict(list)
    for cell, result in runs:
        grouped[cell["row"], cell["d"]].append(result)
    for (row, d), results in grouped.items():
        done = [r["error"] for r in results if r["failed"] is None]
        failures = collections.Counter(r["failed"] for r in results if r["failed"] is not None)
        found[row][d] = {
            "runs": len(results),
            "success": 100 * len(done) / len(results),
            "failures": dict(failures),
            "first_failure": min((r["step"] for r in results if r["failed"]), default=None),
            "errors": mean_and_spread(done),
            "seconds": statistics.median(r["seconds"] for r in results),
        }
    return dict(found)


def success_table(found: dict, data: str) -> list[str]:
    """Success rates by d, ours and the paper's behind a slash."""
    paper = PAPER.get(data, {}) or PAPER["cifar10"]
    rows = []
    for name in (BATCH_NORM, *ROWS):
        cells = [name]
        for d in SIZES:
            ours = found.get(name, {}).get(1 if name == BATCH_NORM else d)
            theirs = paper.get(name, {}).get(d)
            text = "missing" if ours is None else f"{ours['success']:.0f}% of {ours['runs']}"
            cells.append(text + (f" / {theirs[0]:g}%" if theirs else ""))
        rows.append(cells)
    return table(["layer", *(f"d = {d}" for d in SIZES)], rows)


def error_table(
    found: dict, data: str, sizes: Sequence[int] = SIZES, names: Sequence[str] = tuple(ROWS)
) -> list[str]:
    """Smallest and mean error by d, ours and, where the data is the paper's, theirs."""
    paper = PAPER.get(data, {})
    rows = []
    for name in (BATCH_NORM, *names):
        ours_row, theirs_row = [name, "ours"], [name, "paper"]
        for d in sizes:
            place = 1 if name == BATCH_NORM else d
            ours = found.get(name, {}).get(place)
            if ours is None:
                ours_row.append("missing")
            elif ours["errors"] is None:
                ours_row.append(f"none of {ours['runs']}")
            else:
                least, mean, spread = ours["errors"]
                whole = "" if ours["success"] == 100 else f" ({ours['success']:.0f}%)"
                ours_row.append(f"{least:.1f}, {mean:.1f} ± {spread:.1f}{whole}")
            theirs = paper.get(name, {}).get(place)
            if theirs is None or theirs[1] is None:
                theirs_row.append("-")
            elif theirs[2] is None:
                theirs_row.append(f"{theirs[1]:.2f}")
            else:
                theirs_row.append(f"{theirs[1]:.2f}, {theirs[2]:.2f} ± {theirs[3]:.2f}")
        rows.append(ours_row)
        if name in paper:
            rows.append(theirs_row)
    return table(["layer", "", *(f"d = {d}" for d in sizes)], rows)


def hyperparameter_table(runs: list[tuple[Cell, dict]]) -> list[str]:
    rows = []
    for (eps, degree), theirs in HYPERPARAMETERS.items():
        chosen = [
            (cell, result)
            for cell, result in runs
            if cell["row"] == f"SVD-Taylor {degree}" and cell["eps"] == eps
        ]
        found = summary(chosen).get(f"SVD-Taylor {degree}", {}).get(64)
        if found is None:
            ours = ["missing", "missing"]
        else:
            errors = found["errors"]
            ours = [
                f"{found['success']:.0f}% of {found['runs']}",
                "-" if errors is None else f"{errors[0]:.1f}, {errors[1]:.1f} ± {errors[2]:.1f}",
            ]
        paper = [f"{theirs[0]}%", f"{theirs[1]}, {theirs[2]} ± {theirs[3]}"]
        rows.append([f"{eps:g}, {degree}", *ours, *paper])
    head = ["eps, K", "ours: success", "smallest, mean error", "paper: success", "error (CIFAR100)"]
    return table(head, rows)


def time_table(found: dict) -> list[str]:
    """Forward + backward milliseconds, and backward as a multiple of Taylor's."""
    rows = []
    for name, by_size in found.items():
        cells = [name]
        for d in SIZES:
            taylor = found["SVD-Taylor"][d]["backward"]
            this = by_size[d]
            cells.append(
                f"{this['forward']:.1f} + {this['backward']:.1f} ({this['backward'] / taylor:.2f})"
            )
        rows.append(cells)
    return table(["layer", *(f"d = {d}" for d in SIZES)], rows)


def failure_lines(found: dict) -> list[str]:
    lines = []
    for row, by_size in found.items():
        for d, cell in sorted(by_size.items()):
            for reason, count in cell["failures"].items():
                lines.append(
                    f"- {row}, d = {d}: {count} of {cell['runs']}, {reason} (the earliest after "
                    f"{cell['first_failure']} steps)"
                )
    return lines or ["- none"]


def draw(report: dict) -> Figure:
    """Success rates by d, training losses at the largest d, and backward times."""
    figure = Figure(figsize=(15, 4.5), layout="constrained")
    (left, middle, right) = figure.subplots(1, 3)
    for row, by_size in report["success"].items():
        if row in ROWS:
            places = [d for d in SIZES if d in by_size]
            left.plot(places, [by_size[d]["success"] for d in places], marker="o", label=row)
    left.set(xscale="log", xlabel="d", ylabel="runs without a failure, %", ylim=(-5, 105))
    left.set_xticks(SIZES, [str(d) for d in SIZES])
    left.minorticks_off()
    left.legend(fontsize=7)
    for row, losses in report["curves"].items():
        if losses:
            places = [100 * (k + 1) / len(losses) for k in range(len(losses))]
            middle.plot(places, losses, label=row)
    middle.set(xlabel="% of the steps", ylabel=f"training loss, d = {SIZES[-1]}")
    if report["curves"]:
        middle.legend(fontsize=7)
    for row, by_size in report["times"].items():
        right.plot(SIZES, [by_size[d]["backward"] for d in SIZES], marker="o", label=row)
    right.set(xscale="log", yscale="log", xlabel="d", ylabel="backward, ms")
    right.set_xticks(SIZES, [str(d) for d in SIZES])
    right.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
    if report["times"]:
        right.legend(fontsize=7)
    return figure


def error_lines(report: dict) -> list[str]:
    return [
        "## Errors",
        "",
        "Test error in percent: smallest, mean ± standard deviation of the finished runs.",
        "",
        *error_table(
            report["errors"],
            report["data"],
            report["plan"]["error_sizes"],
            report["plan"]["error_rows"],
        ),
        "",
        "Failures among these runs:",
        "",
        *failure_lines(report["errors"]),
        "",
    ]


def page(report: dict) -> list[str]:
    """The page, from the report alone."""
    plan, data = report["plan"], report["data"]
    success, errors = plan["success"], plan["errors"]
    missing = report["missing"]
    lines = [
        "# Decorrelated batch normalization",
        "",
        "Written by `python -m benchmarks.decorrelated_bn`, after Tables 3 to 6 and Fig. 7 of",
        "Robust Differentiable SVD and Tables 2 and 3 of Backpropagation-Friendly",
        f"Eigendecomposition. A ResNet{success['depth']} as theirs, with a ZCA layer for its first",
        f"norm: {STEM} channels in groups of d. All in float32.",
        "",
        "## What was run",
        "",
        f"- Data: {data}"
        + (
            f", 32 px crops of pictures brought to 64 px, five classes, {plan['crops']} a class "
            f"for training and {plan['crops'] // 5} for testing, split by picture (the papers: "
            "CIFAR)."
            if data == "artworks"
            else "."
        ),
        f"- Success rates: {plan['runs']} seeds a cell, {success['steps']} steps of "
        f"{success['batch']} pictures, first stage {success['width']} channels wide, eps "
        f"{plan['success_eps']:g}"
        + (f", and {plan['brief_runs']} more of {plan['brief']} steps." if plan["brief"] else "."),
        "- Errors: not run at this size."
        if not plan["error_runs"]
        else f"- Errors: {plan['error_runs']} seeds a cell, d = "
        f"{', '.join(map(str, plan['error_sizes']))}, {errors['steps']} steps of "
        f"{errors['batch']} from a learning rate of {errors['rate']:g}, width {errors['width']}, "
        f"eps {plan['error_eps']:g}, tested on {errors['tested'] or 'all'} pictures.",
        "- The papers: 350 epochs of 50,000 pictures (137,000 steps of 128), width 64, 15 seeds.",
        f"- Missing of this plan: {missing} of {report['planned']} runs."
        if missing
        else "- Nothing of this plan is missing.",
        "",
        "## Success rates",
        "",
        "Runs in which loss, gradients and answers stayed finite; behind the slash the paper's"
        + ("." if data in PAPER else ", on CIFAR-10."),
        "",
        *success_table(report["success"], data),
        "",
        "What failed, and where:",
        "",
        *failure_lines(report["success"]),
        "",
        *(error_lines(report) if plan["error_runs"] else []),
        "## Hyperparameters",
        "",
        "SVD-Taylor at d = 64, as Table 3 of Robust Differentiable SVD (theirs on CIFAR-100).",
        "",
        *report["hyperparameter_table"],
        "",
        "## Times",
        "",
        f"The layer alone, {report['time_batch']} pictures of 32 x 32 with {STEM} channels: "
        "milliseconds forward + backward",
        "(backward as a multiple of SVD-Taylor's), medians of runs that take turns, in processor "
        "time on one CPU thread.",
        "",
        *(time_table(report["times"]) if report["times"] else ["Missing."]),
        "",
        "![Success rates, training losses and times](decorrelated_bn.png)",
    ]
    return lines + experiments.notes_of(report)


def main(argv: list[str] | None = None) -> int:
    parser = experiments.parser_of(__doc__, NAME, PLANS)
    parser.add_argument("--error-runs", type=int, help="seeds a cell for errors, like --runs")
    parser.add_argument(
        "--error-sizes", type=int, nargs="+", choices=SIZES, help="d whose errors are compared"
    )
    parser.add_argument("--error-rows", nargs="+", choices=tuple(ROWS), help="rows, likewise")
    options = parser.parse_args(argv)
    plan = PLANS["quick" if options.quick else options.size]
    plan = replace(
        plan,
        success=experiments.changed(plan.success, options),
        errors=experiments.changed(plan.errors, options),
        runs=plan.runs if options.runs is None else options.runs,
        error_runs=plan.error_runs if options.error_runs is None else options.error_runs,
        error_sizes=tuple(options.error_sizes or plan.error_sizes),
        error_rows=tuple(options.error_rows or plan.error_rows),
    )
    try:
        kept = Cells(options.work / "runs.jsonl")
        if not options.write_only:
            split = experiments.read_for(options, plan.crops)
    except (FolderError, ValueError) as error:
        return failed(error, 2)
    success = cells_of("success", plan, options.data, plan.runs)
    errors = cells_of("errors", plan, options.data, plan.error_runs)
    hyperparameters = cells_of_hyperparameters(plan, options.data)
    timing: Cell = {
        "part": "times",
        "device": options.device,
        "batch": plan.time_batch,
        "rounds": plan.rounds,
    }
    if not options.write_only:
        for name, cells in (
            ("success rates", success),
            ("hyperparameters", hyperparameters),
            ("errors", errors),
        ):
            kept.fill(cells, lambda cell: run(cell, split, options.device), name)
            if timing not in kept:
                kept.keep(timing, times(plan.rounds, plan.time_batch, options.device))
    planned = [*success, *hyperparameters, *errors]
    report = {
        **experiments.begun_report(plan, options, planned, kept),
        "success": summary(kept.found(success)),
        "errors": summary(kept.found(errors)),
        "hyperparameter_table": hyperparameter_table(kept.found(hyperparameters)),
        "times": {
            row: {int(d): cell for d, cell in by_size.items()}
            for row, by_size in (kept.get(timing) or {}).items()
        },
        "time_batch": timing["batch"],
        "curves": {
            cell["row"]: result["losses"]
            for cell, result in kept.found(errors or success)
            if cell["seed"] == 0 and cell["d"] in (1, SIZES[-1])
        },
    }
    experiments.write(report, page(report), draw, options.out / NAME)
    return 0


if __name__ == "__main__":
    sys.exit(main())
