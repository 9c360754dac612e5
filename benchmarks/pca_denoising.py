"""PCA denoising in a network: energy kept, eigenvectors kept, power iterations.

After Tables 4 and 5 and Figs. 3 and 4 of Backpropagation-Friendly Eigendecomposition: the papers'
ResNet with a PCA denoising layer after its first convolution, all 64 channels in one matrix.
Writes a page, its numbers as JSON and its curves as PNG; finished runs are kept in a file of JSON
lines, so that a benchmark stopped at any point goes on there.

python -m benchmarks.pca_denoising --quick
python -m benchmarks.pca_denoising --data cifar10 --folder data/ --device cuda
"""

from __future__ import annotations

import collections
import sys
import time
from collections.abc import Callable
from dataclasses import asdict

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

import wct
from app.dataset import FolderError
from app.terminal import failed
from benchmarks import experiments
from benchmarks.cells import Cell, Cells
from benchmarks.classification import Recipe, ResNet, Split, mean_and_spread, table, train

NAME = "pca_denoising"
ITERATIONS = 19  # unless they are what is varied

# What the paper reports on CIFAR-10: a row's setting -> (mean error, spread).
ENERGIES = {
    0.85: (5.60, 0.74),
    0.90: (5.05, 0.07),
    0.95: (4.67, 0.06),
    0.99: (4.63, 0.11),
    0.995: (4.72, 0.10),
    1.0: (4.81, 0.19),
}
VECTORS = {2: (5.09, 0.12), 4: (4.82, 0.07), 8: (4.64, 0.18), 16: (4.63, 0.17), 32: (4.65, 0.08)}
COUNTS = {
    1: (4.72, 0.10),
    2: (4.63, 0.09),
    4: (4.67, 0.09),
    9: (4.61, 0.14),
    14: (4.69, 0.11),
    19: (4.63, 0.11),
    29: (4.61, 0.03),
}
METHODS = {
    "BatchNorm": (4.81, 0.19),
    "PCA (PI)": (5.35, 0.25),
    "PCA (SVD)": None,  # NaN in all of the paper's runs
    "PCA (SVD-PI)": (4.63, 0.11),
    "PCA (SVD-Taylor)": None,
}
COUNTED_ENERGY = 0.999  # kept where the iterations are varied


class TorchPCA(wct.PCADenoise2d):
    """The layer as one writes it with torch alone: its own eigh and its autograd (SVD)."""

    def projection(self, covariance: Tensor) -> tuple[Tensor, Tensor]:
        variances = covariance.diagonal(dim1=-2, dim2=-1).unsqueeze(-1)
        inverse_sigma = (variances + self.eps).rsqrt()
        values, vectors = torch.linalg.eigh(covariance * inverse_sigma * inverse_sigma.mT)
        values, vectors = values.flip(-1), vectors.flip(-1)
        kept = self._kept(values.detach().clamp_min(0)).to(vectors.dtype).unsqueeze(-2)
        return (vectors * kept) @ vectors.mT, inverse_sigma


def iterations(count: int) -> wct.Rule:
    """The gradient of that many power iterations, behind an eigensolver, nothing dropped for it."""
    return wct.PowerIteration(count, energy=0.0)


def norm_of(part: str, setting: float | int | str) -> Callable[[int], nn.Module]:
    """The layer of a row."""
    if part == "energy":
        options = {"keep": float(setting), "gradient": iterations(ITERATIONS)}
    elif part == "vectors":
        options = {"keep": int(setting), "gradient": iterations(ITERATIONS)}
    elif part == "iterations":
        options = {"keep": COUNTED_ENERGY, "gradient": iterations(int(setting))}
    elif setting == "BatchNorm":
        return nn.BatchNorm2d
    else:
        rule = {
            "PCA (PI)": wct.PlainPowerIteration(ITERATIONS),
            "PCA (SVD)": wct.Taylor(0),
            "PCA (SVD-PI)": iterations(ITERATIONS),
            "PCA (SVD-Taylor)": wct.Taylor(9),
        }[str(setting)]
        layer = TorchPCA if setting == "PCA (SVD)" else wct.PCADenoise2d
        return lambda channels: layer(channels, keep=0.99, gradient=rule)
    return lambda channels: wct.PCADenoise2d(channels, **options)


PARTS = {
    "energy": ("Preserved energy (Table 4a)", "share kept", ENERGIES),
    "vectors": ("Eigenvectors (Table 4b)", "vectors", VECTORS),
    "iterations": ("Power iterations (Table 4c)", "iterations", COUNTS),
    "methods": ("Methods, 99 % kept (Table 5)", "layer", METHODS),
}


PLANS = {
    "quick": experiments.Plan(Recipe(steps=15, batch=8, width=2, tested=100), runs=2, crops=100),
    "short": experiments.Plan(Recipe(steps=40, batch=16, width=4, tested=500), runs=3, crops=1000),
    "full": experiments.Plan(Recipe(steps=350 * 390), runs=5),
}


def cells_of(plan: experiments.Plan, data: str) -> list[Cell]:
    """All runs, a seed after the other, so that what is stopped early is even."""
    common = {"data": data, "crops": plan.crops, **asdict(plan.recipe)}
    return [
        {**common, "part": part, "setting": setting, "seed": seed}
        for seed in range(plan.runs)
        for part, (_, _, paper) in PARTS.items()
        for setting in paper
    ]


def run(cell: Cell, split: Split, device: str) -> dict:
    """One training, with how many components were kept at its end."""
    recipe = Recipe(**{k: cell[k] for k in ("steps", "batch", "rate", "width", "depth", "tested")})
    torch.manual_seed(cell["seed"])
    network = ResNet(
        norm_of(cell["part"], cell["setting"]),
        split.train.classes,
        width=recipe.width,
        depth=recipe.depth,
    )
    start = time.process_time()
    result = train(network, split, recipe, cell["seed"], device=device)
    result["seconds"] = round(time.process_time() - start, 2)
    result["kept"] = None
    if isinstance(network.norm, wct.PCADenoise2d) and result["failed"] is None:
        with torch.no_grad():
            projection, _ = network.norm.projection(network.norm.running_covariance)
        result["kept"] = round(float(projection.diagonal(dim1=-2, dim2=-1).sum()), 1)
    return result


def summary(runs: list[tuple[Cell, dict]]) -> dict[str, dict[str, dict]]:
    """Part -> setting -> how many runs, failures by reason, errors, and components kept."""
    grouped: dict = collections.defaultdict(list)
    for cell, result in runs:
        grouped[cell["part"], str(cell["setting"])].append(result)
    found: dict[str, dict[str, dict]] = {part: {} for part in PARTS}
    for (part, setting), results in grouped.items():
        done = [r for r in results if r["failed"] is None]
        kept = [r["kept"] for r in done if r["kept"] is not None]
        found[part][setting] = {
            "runs": len(results),
            "failures": dict(
                collections.Counter(r["failed"] for r in results if r["failed"] is not None)
            ),
            "errors": mean_and_spread(r["error"] for r in done),
            "kept": sum(kept) / len(kept) if kept else None,
            "seconds": sum(r["seconds"] for r in results) / len(results),
            "losses": results[0]["losses"],
        }
    return found


def rows_of(part: str, found: dict[str, dict]) -> list[str]:
    """A part's table: ours and the paper's."""
    _, head, paper = PARTS[part]
    rows = []
    for setting, theirs in paper.items():
        ours = found.get(str(setting))
        if ours is None:
            cells = ["missing", "-", "-"]
        else:
            errors = ours["errors"]
            failed = sum(ours["failures"].values())
            cells = [
                "-" if errors is None else f"{errors[0]:.1f}, {errors[1]:.1f} ± {errors[2]:.1f}",
                "-" if ours["kept"] is None else f"{ours['kept']:.0f}",
                f"{failed} of {ours['runs']}"
                + (f" ({', '.join(ours['failures'])})" if failed else ""),
            ]
        if theirs is not None:
            cells.append(f"{theirs[0]:.2f} ± {theirs[1]:.2f}")
        else:
            cells.append("NaN in all" if setting == "PCA (SVD)" else "-")
        rows.append([str(setting), *cells])
    return table(
        [head, "ours: smallest, mean ± spread", "components", "failed", "paper (CIFAR-10)"], rows
    )


def draw(report: dict) -> Figure:
    """Error against each setting, and the training losses of the methods."""
    figure = Figure(figsize=(17, 4), layout="constrained")
    axes = figure.subplots(1, 4)
    for place, (part, (title, head, paper)) in zip(axes, PARTS.items(), strict=True):
        found = report["found"][part]
        if part == "methods":
            for name, row in found.items():
                place.plot(row["losses"], label=name)
            place.set(title="Training loss of the first seed", xlabel="twentieth of the run")
            place.legend(fontsize=7)
            continue
        shown = [s for s in paper if found.get(str(s), {}).get("errors")]
        errors = [found[str(s)]["errors"] for s in shown]
        ticks = range(len(shown))
        place.errorbar(ticks, [e[1] for e in errors], [e[2] for e in errors], marker="o", capsize=3)
        place.set_xticks(ticks, [str(s) for s in shown])
        place.set(title=title, xlabel=head, ylabel="test error, %")
    return figure


def page(report: dict) -> list[str]:
    """The page, from the report alone."""
    lines = [
        "# PCA denoising",
        "",
        "Written by `python -m benchmarks.pca_denoising`, after Tables 4 and 5 and Figs. 3 and 4",
        "of Backpropagation-Friendly Eigendecomposition: a PCA denoising layer in the place of the",
        "first norm, all 64 channels in one matrix, in float32. Where the iterations are varied, "
        f"{100 * COUNTED_ENERGY:g} %",
        "of the energy is kept. `Components` is how many are kept by the running covariance at the",
        "end.",
        "",
        *experiments.what_was_run(report),
    ]
    for part, (title, _, _) in PARTS.items():
        lines += ["", f"## {title}", "", *rows_of(part, report["found"][part])]
    lines += ["", f"![Errors and training losses]({NAME}.png)"]
    return lines + experiments.notes_of(report)


def main(argv: list[str] | None = None) -> int:
    options = experiments.parser_of(__doc__, NAME, PLANS).parse_args(argv)
    plan = experiments.plan_of(PLANS, options)
    cells = cells_of(plan, options.data)
    try:
        kept = Cells(options.work / "runs.jsonl")
        if not options.write_only:
            split = experiments.read_for(options, plan.crops)
            kept.fill(cells, lambda cell: run(cell, split, options.device), "runs")
    except (FolderError, ValueError) as error:
        return failed(error, 2)
    report = {
        **experiments.begun_report(plan, options, cells, kept),
        "found": summary(kept.found(cells)),
    }
    experiments.write(report, page(report), draw, options.out / NAME)
    return 0


if __name__ == "__main__":
    sys.exit(main())
