"""How orthogonality conditions a covariance: ZCA and covariance pooling under every treatment.

After Tables 1 to 6 and Figs. 2 to 5 of "Improving Covariance Conditioning of the SVD Meta-layer by
Orthogonality": the layer before the spectral one gets spectral normalization (SN), an orthogonal
loss (OL), an orthogonal weight (OW), the nearest orthogonal gradient (NOG), the optimal learning
rate (OLR), and the combinations that the paper reports. Condition numbers are followed through
the training, solver failures are counted in the solver's fall-backs, and a step's time is taken
by turns. Writes a page, its numbers as JSON and its curves as PNG; finished runs are kept in a
file of JSON lines, so that a benchmark stopped at any point goes on there.

python -m benchmarks.conditioning --quick
python -m benchmarks.conditioning --data cifar100 --folder data/ --depth 50 --device cuda
"""

from __future__ import annotations

import collections
import math
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor, nn

import wct
from app.dataset import FolderError
from app.terminal import failed
from benchmarks import experiments
from benchmarks.cells import Cell, Cells
from benchmarks.classification import STEM, Recipe, ResNet, Split, mean_and_spread, table, train
from wct import orthogonal

NAME = "conditioning"
NETWORKS = ("zca", "pooling")
ZCA_EPS = 1e-5  # small beside the covariance, as where the paper's numbers reach 1e12
REDUCED = 32  # channels that are pooled; the maps have 16 positions
LOSS_WEIGHT = 1e-3  # of the orthogonal loss; the paper does not give its own
DIRECTIONS = 27  # that a 3 x 3 kernel on three channels can fill of the 64

# Row -> the treatments of the layer before the spectral one.
TREATMENTS: dict[str, tuple[str, ...]] = {
    "SVD": (),
    "SVD + SN": ("SN",),
    "SVD + OL": ("OL",),
    "SVD + OW": ("OW",),
    "SVD + NOG": ("NOG",),
    "SVD + OLR": ("OLR",),
    "SVD + NOG + SN": ("NOG", "SN"),
    "SVD + NOG + OL": ("NOG", "OL"),
    "SVD + NOG + OW": ("NOG", "OW"),
    "SVD + NOG + OLR": ("NOG", "OLR"),
    "SVD + OW + OLR": ("OW", "OLR"),
    "SVD + NOG + OW + OLR": ("NOG", "OW", "OLR"),
    "Newton-Schulz": (),
}
# What the paper reports: CIFAR-100 error (mean, spread, smallest) of its Tables 1 to 3, and the
# condition number that Figs. 2 to 4 and their text name.
PAPER_ZCA = {
    "SVD": (19.99, 0.16, 19.80, "1e12"),
    "SVD + SN": (19.94, 0.33, 19.60, "1e5"),
    "SVD + OL": (19.73, 0.28, 19.54, "varies"),
    "SVD + OW": (20.06, 0.17, 19.94, "1e3"),
    "SVD + NOG": (None, None, 19.15, "1e6"),
    "SVD + OLR": (19.50, 0.39, 18.95, "1e4"),
    "SVD + NOG + SN": (None, None, 19.20, "-"),
    "SVD + NOG + OL": (20.14, 0.39, 19.54, "-"),
    "SVD + NOG + OW": (19.22, 0.28, 18.90, "-"),
    "SVD + NOG + OLR": (19.77, 0.27, 19.36, "-"),
    "SVD + OW + OLR": (20.61, 0.22, 20.43, "-"),
    "SVD + NOG + OW + OLR": (19.05, 0.31, 18.77, "-"),
    "Newton-Schulz": (19.45, 0.33, 19.01, "1e5"),
}
# Table 5: ImageNet, ResNet-18 with pooling: solver failures and top-1 accuracy.
PAPER_POOLING = {
    "SVD": (5, 73.13),
    "SVD + SN": (2, 73.28),
    "SVD + OL": (1, 71.75),
    "SVD + OW": (2, 73.07),
    "SVD + NOG": (1, 73.51),
    "SVD + OLR": (0, 73.39),
    "SVD + NOG + OW": (0, 73.71),
    "SVD + NOG + OW + OLR": (0, 73.82),
    "Newton-Schulz": (0, 73.36),
}
# Table 6: milliseconds a step forward and backward; SVD is 44 + 95.
PAPER_TIMES = {
    "SVD + NOG": 141 / 139,
    "SVD + OLR": 140 / 139,
    "SVD + OW": 150 / 139,
    "SVD + NOG + OW + OLR": 155 / 139,
    "Newton-Schulz": 136 / 139,
}


# --- networks ---------------------------------------------------------------------------------


class PoolingNetwork(ResNet):
    """The same ResNet with batch normalization, its last maps pooled by their covariance's root."""

    def __init__(self, classes: int, solver: str, rule: wct.Rule, **options: int) -> None:
        super().__init__(nn.BatchNorm2d, classes, **options)
        self.pool = wct.CovariancePool(
            self.channels,
            reduce=REDUCED,
            solver=solver,
            gradient=rule,
            normalize=False,
            dtype=torch.float64,
        )
        self.linear = nn.Linear(REDUCED * (REDUCED + 1) // 2, classes)

    def forward(self, pictures: Tensor) -> Tensor:
        return self.linear(self.pool(self.features(pictures)))


def network_of(cell: Cell, classes: int) -> tuple[nn.Module, nn.Module, nn.Module]:
    """A row's network, its spectral layer, and the layer before that."""
    iterated = cell["row"] == "Newton-Schulz"
    solver = "newton_schulz" if iterated else "eigh"
    rule = wct.Newton(5) if iterated else wct.Pade(100)  # the paper's own gradient of the SVD
    options = {"width": cell["width"], "depth": cell["depth"]}
    if cell["network"] == "zca":
        norm = wct.ZCANorm2d(STEM, group_size=STEM, eps=ZCA_EPS, gradient=rule, solver=solver)
        network: ResNet = ResNet(lambda channels: norm, classes, **options)
        return network, norm, network.conv1
    pooled = PoolingNetwork(classes, solver, rule, **options)
    return pooled, pooled.pool, pooled.pool.reduce


@dataclass
class Treated:
    """A network under training, with all that its treatments ask for."""

    network: nn.Module
    layer: nn.Module
    before: nn.Module
    treatments: tuple[str, ...]

    def __post_init__(self) -> None:
        if "SN" in self.treatments:
            orthogonal.spectral_norm(self.before)
        if "OW" in self.treatments:
            orthogonal.orthogonal_weight(self.before)
        if "NOG" in self.treatments:
            orthogonal.nearest_orthogonal_gradient(self.before)

    def weight(self) -> nn.Parameter:
        """What the optimizer moves of the layer before, beneath a parametrization if there is."""
        (weight,) = (p for n, p in self.before.named_parameters() if "bias" not in n)
        return weight

    def groups(self) -> list[dict]:
        """The optimizer's parameters: that weight in a group of its own."""
        weight = self.weight()
        others = [p for p in self.network.parameters() if p is not weight]
        return [{"params": others}, {"params": [weight]}]

    def prepare(self, optimizer: torch.optim.Optimizer) -> None:
        if "OLR" in self.treatments:
            orthogonal.apply_optimal_learning_rate(optimizer, optimizer.param_groups[1])

    def extra(self) -> Tensor:
        return LOSS_WEIGHT * orthogonal.orthogonal_loss(self.before.weight)


class Conditions:
    """Condition numbers of what a spectral layer is given, every so many forward passes.

    ``whole`` is the largest value over the smallest with the layer's eps on both, in float64;
    ``filled`` is the largest over the last that the layer before can fill, without eps.
    """

    def __init__(self, layer: nn.Module, eps: float, filled: int, every: int) -> None:
        self.eps, self.filled, self.every, self.calls = eps, filled, every, 0
        self.records: list[tuple[float, float]] = []
        self.handle = layer.register_forward_pre_hook(self._look)

    def _look(self, layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        self.calls += 1
        if not layer.training or (self.calls - 1) % self.every:
            return
        with torch.no_grad():
            covariance = layer.covariance(inputs[0]).double()
            if not bool(torch.isfinite(covariance).all()):
                return
            values = torch.linalg.eigvalsh(covariance).flip(-1).clamp_min(0) + self.eps
        whole = (values[..., 0] / values[..., -1]).log().mean().exp()
        filled = (values[..., 0] / values[..., min(self.filled, values.shape[-1]) - 1]).log()
        self.records.append((float(whole), float(filled.mean().exp())))


def run(cell: Cell, split: Split, device: str) -> dict:
    """One training, with its condition numbers and solver failures."""
    recipe = Recipe(**{k: cell[k] for k in ("steps", "batch", "rate", "width", "depth", "tested")})
    torch.manual_seed(cell["seed"])
    treated = Treated(*network_of(cell, split.train.classes), TREATMENTS[cell["row"]])
    treated.network.to(device)
    zca = cell["network"] == "zca"
    eps = ZCA_EPS if zca else torch.finfo(torch.float64).eps
    # Of 16 positions about their mean, 15 directions are filled.
    filled = DIRECTIONS if zca else (split.train.pictures.shape[-1] // 8) ** 2 - 1
    conditions = Conditions(treated.layer, eps, filled, max(1, recipe.steps // 20))
    failures, start = wct.solver_failures(), time.process_time()
    result = train(
        treated.network,
        split,
        recipe,
        cell["seed"],
        groups=treated.groups(),
        prepare=treated.prepare,
        extra=treated.extra if "OL" in treated.treatments else None,
        device=device,
    )
    result["seconds"] = round(time.process_time() - start, 2)
    result["solver_failures"] = wct.solver_failures() - failures
    result["conditions"] = conditions.records
    return result


def step_times(
    recipe: Recipe, side: int, classes: int, rounds: int, device: str
) -> dict[str, dict[str, float]]:
    """Seconds of a whole step of the ZCA network by row (Table 6), and shares of SVD's: medians.

    The rows take turns.
    """
    pictures = torch.rand(recipe.batch, 3, side, side).to(device) * 2 - 1
    labels = torch.arange(recipe.batch, device=device) % classes
    runs = {}
    for row in TREATMENTS:
        torch.manual_seed(0)
        cell = {"row": row, "network": "zca", "width": recipe.width, "depth": recipe.depth}
        treated = Treated(*network_of(cell, classes), TREATMENTS[row])
        treated.network.to(device).train()
        optimizer = torch.optim.SGD(treated.groups(), lr=1e-3, momentum=0.9, weight_decay=5e-4)
        treated.prepare(optimizer)
        runs[row] = (treated, optimizer)
    taken: dict[str, list[float]] = collections.defaultdict(list)
    clock: Callable[[], float] = time.process_time if device == "cpu" else time.perf_counter
    for number in range(rounds + 1):
        for row, (treated, optimizer) in runs.items():
            if device != "cpu":
                torch.cuda.synchronize()
            start = clock()
            optimizer.zero_grad()
            loss = F.cross_entropy(treated.network(pictures), labels)
            (loss + treated.extra() if "OL" in treated.treatments else loss).backward()
            optimizer.step()
            if device != "cpu":
                torch.cuda.synchronize()
            if number:
                taken[row].append(clock() - start)
    base = taken["SVD"]
    return {
        row: {
            "seconds": statistics.median(seconds),
            # Of the same round: what slows the machine slows both.
            "share": statistics.median(own / svd for own, svd in zip(seconds, base, strict=True)),
        }
        for row, seconds in taken.items()
    }


# --- plan and page ----------------------------------------------------------------------------


@dataclass(frozen=True)
class TimedPlan(experiments.Plan):
    """How much is run, and rounds of steps that are timed."""

    rounds: int = 20


PLANS = {
    "quick": TimedPlan(Recipe(15, batch=8, width=2, tested=100), runs=2, crops=100, rounds=2),
    "short": TimedPlan(
        Recipe(steps=40, batch=16, width=4, tested=250), runs=3, crops=1000, rounds=9
    ),
    "full": TimedPlan(Recipe(350 * 390), runs=10),
}


def cells_of(plan: TimedPlan, data: str) -> list[Cell]:
    """All runs, a seed after the other, so that what is stopped early is even."""
    common = {"data": data, "crops": plan.crops, **asdict(plan.recipe)}
    return [
        {**common, "network": network, "row": row, "seed": seed}
        for seed in range(plan.runs)
        for network in NETWORKS
        for row in TREATMENTS
    ]


def summary(runs: list[tuple[Cell, dict]]) -> dict[str, dict[str, dict]]:
    """Network -> row -> errors, failures, and condition numbers through the training."""
    grouped: dict = collections.defaultdict(list)
    for cell, result in runs:
        grouped[cell["network"], cell["row"]].append(result)
    found: dict[str, dict[str, dict]] = {network: {} for network in NETWORKS}
    for (network, row), results in grouped.items():
        done = [r for r in results if r["failed"] is None]
        longest = max((len(r["conditions"]) for r in results), default=0)
        curves: list[list[float]] = [[], []]
        for place in range(longest):
            for which, curve in enumerate(curves):
                there = [r["conditions"][place] for r in results if len(r["conditions"]) > place]
                curve.append(math.exp(statistics.fmean(math.log(pair[which]) for pair in there)))
        found[network][row] = {
            "runs": len(results),
            "failures": dict(
                collections.Counter(r["failed"] for r in results if r["failed"] is not None)
            ),
            "solver_failures": sum(r["solver_failures"] for r in results),
            "errors": mean_and_spread(r["error"] for r in done),
            "whole": curves[0],
            "filled": curves[1],
            "seconds": statistics.fmean(r["seconds"] for r in results),
        }
    return found


def _number(value: float) -> str:
    return f"{value:.1e}" if value >= 1000 else f"{value:.0f}"


def rows_of(network: str, found: dict[str, dict]) -> list[str]:
    """A network's table: ours and the paper's."""
    rows = []
    for row in TREATMENTS:
        ours = found.get(row)
        if ours is None:
            cells = ["missing", *("-" for _ in range(4))]
        else:
            errors, failed = ours["errors"], sum(ours["failures"].values())
            late = [curve[-max(1, len(curve) // 4) :] for curve in (ours["whole"], ours["filled"])]
            cells = [
                "-" if errors is None else f"{errors[0]:.1f}, {errors[1]:.1f} ± {errors[2]:.1f}",
                *(_number(statistics.geometric_mean(part)) if part else "-" for part in late),
                str(ours["solver_failures"]),
                f"{failed} of {ours['runs']}"
                + (f" ({', '.join(ours['failures'])})" if failed else ""),
            ]
        if network == "zca":
            mean, spread, least, condition = PAPER_ZCA[row]
            text = f"{least}" if mean is None else f"{least}, {mean} ± {spread}"
            cells += [text, condition]
        else:
            theirs = PAPER_POOLING.get(row)
            cells += ["-", "-"] if theirs is None else [f"{100 - theirs[1]:.2f}", str(theirs[0])]
        rows.append([row, *cells])
    paper = (
        ["paper: CIFAR-100 error", "its condition number"]
        if network == "zca"
        else ["paper: ImageNet error", "its solver failures"]
    )
    head = ["", "error: smallest, mean ± spread", "condition number, last quarter"]
    head += ["within what is filled", "solver failures", "failed runs", *paper]
    return table(head, rows)


def time_rows(times: dict[str, dict[str, float]]) -> list[str]:
    rows = [
        [
            row,
            f"{1e3 * own['seconds']:.1f}",
            f"{own['share']:.3f}",
            f"{PAPER_TIMES[row]:.3f}" if row in PAPER_TIMES else "-",
        ]
        for row, own in times.items()
    ]
    return table(["", "ms a step", "of SVD's", "paper"], rows)


def draw(report: dict) -> Figure:
    """Condition numbers through the training of both networks."""
    figure = Figure(figsize=(16, 5), layout="constrained")
    axes = figure.subplots(1, 3)
    shown = (("zca", "whole"), ("zca", "filled"), ("pooling", "whole"))
    titles = ("ZCA: with eps", f"ZCA: the {DIRECTIONS} directions filled", "covariance pooling")
    for place, (network, which), title in zip(axes, shown, titles, strict=True):
        for number, (row, found) in enumerate(report["found"][network].items()):
            style = "-" if number < 10 else "--"
            place.plot(found[which], style, label=row)
        place.set(yscale="log", title=title, xlabel="looks, through the training")
        place.set_ylabel("condition number")
    axes[0].legend(fontsize=7)
    return figure


def page(report: dict) -> list[str]:
    """The page, from the report alone."""
    lines = [
        "# Conditioning by orthogonality",
        "",
        "Written by `python -m benchmarks.conditioning`, after Tables 1 to 6 and Figs. 2 to 5 of",
        '"Improving Covariance Conditioning of the SVD Meta-layer by Orthogonality". The layer',
        "before the spectral one is treated: the first convolution before a ZCA layer of 64",
        f"channels (float32, eps {ZCA_EPS:g}), and the 1 x 1 reduction to {REDUCED} channels",
        "before covariance pooling (float64, unnormalized). The SVD's gradient is `wct.Pade(100)`,",
        f"as the paper's; OL counts {LOSS_WEIGHT:g}, since the paper does not say how much.",
        "",
        "A first convolution of 3 x 3 kernels on three channels fills 27 directions of 64,",
        "whatever its weight: the covariance before a ZCA layer of 64 channels is singular, and",
        "its condition number is its largest value over eps. Beside it stands that of the 27",
        "directions alone (15 for pooling, from 16 positions).",
        "",
        *experiments.what_was_run(report),
        "",
        "## ZCA (Tables 1 to 4, Figs. 2 to 4)",
        "",
        *rows_of("zca", report["found"]["zca"]),
        "",
        "## Covariance pooling (Table 5, Fig. 5)",
        "",
        *rows_of("pooling", report["found"]["pooling"]),
        "",
        "## Time (Table 6)",
        "",
    ]
    if report["times"] is None:
        lines.append("Missing.")
    else:
        lines += [
            f"A whole step of the ZCA network, medians of {report['plan']['rounds']} rounds in "
            "which the rows take turns, in",
            "processor time on one CPU thread, and of the shares of SVD's in the same round (the",
            "paper: ResNet-50 on a GPU).",
            "",
            *time_rows(report["times"]),
        ]
    lines += ["", f"![Condition numbers through the training]({NAME}.png)"]
    return lines + experiments.notes_of(report)


def main(argv: list[str] | None = None) -> int:
    options = experiments.parser_of(__doc__, NAME, PLANS).parse_args(argv)
    plan = experiments.plan_of(PLANS, options)
    cells = cells_of(plan, options.data)
    timing: Cell = {"part": "step times", **asdict(plan.recipe), "rounds": plan.rounds}
    timing["device"] = options.device
    try:
        kept = Cells(options.work / "runs.jsonl")
        if not options.write_only:
            split = experiments.read_for(options, plan.crops)
            if timing not in kept:
                side, classes = split.train.pictures.shape[-1], split.train.classes
                taken = step_times(plan.recipe, side, classes, plan.rounds, options.device)
                kept.keep(timing, taken)
            kept.fill(cells, lambda cell: run(cell, split, options.device), "runs")
    except (FolderError, ValueError) as error:
        return failed(error, 2)
    report = {
        **experiments.begun_report(plan, options, cells, kept),
        "found": summary(kept.found(cells)),
        "times": kept.get(timing),
    }
    experiments.write(report, page(report), draw, options.out / NAME)
    return 0


if __name__ == "__main__":
    sys.exit(main())
