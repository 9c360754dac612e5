"""Covariance pooling by every root and gradient, on the artworks: tables shaped like the paper's.

After Tables 1, 2 and 5 of "Why Approximate Matrix Square Root Outperforms Accurate SVD". The
backbone is frozen and its maps of every picture are computed once and kept in a file; 1x1
reduction, pooling and linear layer are trained, standalone and hybrid, five seeds each.

Differences to the paper: five classes instead of a thousand, a frozen backbone, fewer channels,
Adam instead of SGD, and rules whose gradient of the root is computed as a filter of its divided
differences (see wct/_rules.py), so that even 1/(l_i - l_j) does not overflow.

python -m benchmarks.gcp_tables --out docs/gcp_tables.txt --json out/gcp_tables.json
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from tqdm import tqdm

import wct
from app.choosing import spread
from app.classes import class_folders, split_folder
from app.train_classifier import Phase, phases
from models.backbones import EfficientNetLite0

ROOT = Path(__file__).resolve().parents[1]
RATE = 5e-3  # of Adam
SIDE = 224  # pixels
AT_ONCE = 16
KEPT_SHARE = 200 / 256  # of the eigenvalues, by TopN

# Name in the paper -> rule of the eigendecomposition's gradient, with the paper's settings.
RULES = {
    "SVD-Padé": "pade",
    "SVD-Taylor": "taylor",
    "SVD-Newton": "newton",
    "SVD-Trunc": "clip",
    "SVD-TopN": "topn",
    "MPN-COV": "analytic",
    "SVD-exact (ours)": "exact",
}
AVERAGE, NEWTON_SCHULZ = "average pooling", "iSQRT-COV"

# The linear layer's rate as a multiple of RATE, chosen for both kinds of pooling among 1, 10 and 40
# by the error on a quarter of the training pictures (one seed). It decides the comparison: a
# covariance's entries are small, since their squares sum to 1, and at 1 it is far from trained.
AVERAGE_SHARE, COVARIANCE_SHARE = 10.0, 40.0


def rule(name: str, dimension: int) -> wct.Rule:
    """A gradient rule with the paper's settings for covariance pooling."""
    return {
        "pade": wct.Pade(100),
        "taylor": wct.Taylor(100),
        "newton": wct.Newton(10),
        "clip": wct.Clip(1e10),
        "topn": wct.TopN(max(1, round(KEPT_SHARE * dimension))),
        "analytic": wct.Analytic(),
        "exact": wct.Exact(),
    }[name]


# --- data -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Maps:
    """Backbone maps (N, C, h, w) in half precision and labels (N,)."""

    maps: Tensor
    labels: Tensor


def read_maps(artworks: Path, cache: Path) -> dict[str, Maps]:
    """The maps of every picture of train and test; computed where ``cache`` has none."""
    if cache.is_file():
        found = torch.load(cache, weights_only=True, mmap=True)
        return {split: Maps(*pair) for split, pair in found.items()}
    backbone = EfficientNetLite0()
    result = {}
    for split in ("train", "test"):
        folders = class_folders(split_folder(artworks, split))
        maps, labels = [], []
        for label, folder in enumerate(folders.values()):
            for start in tqdm(range(0, len(folder), AT_ONCE), desc=f"{split} {folder.name}"):
                indices = range(start, min(start + AT_ONCE, len(folder)))
                with torch.no_grad():
                    batch = backbone(torch.cat([folder.square(i, SIDE) for i in indices]))
                maps.append(batch.half().contiguous())
                labels += [label] * len(indices)
        result[split] = Maps(torch.cat(maps), torch.tensor(labels))
    cache.parent.mkdir(parents=True, exist_ok=True)
    torch.save({split: (part.maps, part.labels) for split, part in result.items()}, cache)
    return result


def limited(part: Maps, limit: int) -> Maps:
    """At most ``limit`` pictures of every class, evenly spread, in single precision."""
    chosen = []
    for label in range(int(part.labels.max()) + 1):
        indices = (part.labels == label).nonzero().flatten().tolist()
        chosen += [indices[i] for i in spread(limit, len(indices))]
    return Maps(part.maps[chosen].float(), part.labels[chosen])


# --- training ---------------------------------------------------------------------------------


class Head(nn.Module):
    """Maps (B, C, h, w) -> logits, by one pooling."""

    def __init__(self, channels: int, classes: int, reduce: int, pooling: str) -> None:
        super().__init__()
        if pooling == AVERAGE:
            # The classifier without covariance pooling has no reduction: there is nothing to spare.
            self.pool: nn.Module = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
            width = channels
        else:
            solver = "newton_schulz" if pooling == NEWTON_SCHULZ else "eigh"
            gradient = "newton" if pooling == NEWTON_SCHULZ else RULES[pooling]
            self.pool = wct.CovariancePool(
                channels,
                reduce=reduce,
                solver=solver,
                gradient=rule(gradient, reduce),
                dtype=torch.float64,
            )
            width = reduce * (reduce + 1) // 2
        self.linear = nn.Linear(width, classes)

    def forward(self, maps: Tensor) -> Tensor:
        return self.linear(self.pool(maps))

    def switch(self, pooling: str) -> None:
        """The root and gradient of another pooling from here on."""
        self.pool.solver, self.pool.rule = "eigh", rule(RULES[pooling], _dimension(self.pool))


def _dimension(pool: wct.CovariancePool) -> int:
    return pool.reduce.out_channels


@dataclass
class Trained:
    """One run: test error and mean condition number after every epoch."""

    errors: list[float]
    conditions: list[float]
    finite: bool = True


class Training:
    """A head under training; may be copied in the middle."""

    def __init__(self, head: Head, train: Maps, test: Maps, batch: int, seed: int) -> None:
        self.head, self.train, self.test, self.batch = head, train, test, batch
        share = AVERAGE_SHARE if isinstance(head.pool, nn.Sequential) else COVARIANCE_SHARE
        self.optimizer = torch.optim.Adam(
            [
                {"params": list(head.linear.parameters()), "share": share},
                {"params": list(head.pool.parameters()), "share": 1.0},
            ],
            RATE,
        )
        self.generator = torch.Generator().manual_seed(seed)
        self.result = Trained([], [])

    def fork(self) -> Training:
        """The same training, to be gone on with in another way."""
        data = (self.train, self.test)
        self.train = self.test = Maps(torch.empty(0), torch.empty(0))
        generator, self.generator = self.generator, None
        copied = copy.deepcopy(self)
        self.train, self.test = copied.train, copied.test = data
        self.generator = generator
        copied.generator = torch.Generator()
        copied.generator.set_state(generator.get_state())
        return copied

    def epoch(self, phase: Phase) -> None:
        """Goes over the training pictures once; then tests."""
        for group in self.optimizer.param_groups:
            group["lr"] = RATE * phase.rate * group["share"]
        order = torch.randperm(len(self.train.labels), generator=self.generator)
        covariance = isinstance(self.head.pool, wct.CovariancePool)
        recorder = wct.SpectrumRecorder(self.head.pool, every=4) if covariance else None
        for chosen in order.split(self.batch):
            loss = F.cross_entropy(self.head(self.train.maps[chosen]), self.train.labels[chosen])
            self.optimizer.zero_grad()
            loss.backward()
            if not all(bool(p.grad.isfinite().all()) for p in self.head.parameters()):
                self.result.finite = False
                break
            self.optimizer.step()
        if recorder is not None:
            recorder.remove()
            logs = [math.log(r["condition_number"]) for r in recorder.records]
            self.result.conditions.append(math.exp(statistics.fmean(logs)))
        self.result.errors.append(self.error())

    @torch.no_grad()
    def error(self) -> float:
        """Share of the test pictures that is wrong."""
        parts = self.test.maps.split(64)
        predicted = torch.cat([self.head(part).argmax(1) for part in parts])
        return float((predicted != self.test.labels).float().mean())


def sweep(
    train: Maps, test: Maps, seed: int, *, epochs: int, reduce: int, batch: int
) -> dict[str, dict[str, Trained]]:
    """Training -> pooling -> its run with one seed, from which all poolings start alike."""
    result: dict[str, dict[str, Trained]] = {"standalone": {}, "hybrid": {}}
    schedule = phases(epochs, True, "eigh")
    switch = [phase.solver for phase in schedule].index("eigh")
    alone = [AVERAGE, NEWTON_SCHULZ, *RULES]
    channels, classes = train.maps.shape[1], int(train.labels.max()) + 1
    steps = len(alone) * epochs + len(RULES) * (epochs - switch)
    with tqdm(total=steps, desc=f"seed {seed}", unit="epoch") as bar:
        for name in alone:
            torch.manual_seed(seed)
            head = Head(channels, classes, reduce, name)
            training = Training(head, train, test, batch, seed)
            for number, phase in enumerate(schedule):
                if name == NEWTON_SCHULZ and number == switch:
                    result["hybrid"] = dict(_hybrids(training, schedule[switch:], bar))
                if training.result.finite:
                    training.epoch(phase)
                bar.update()
            result["standalone"][name] = training.result
    return result


def kept_sweep(path: Path, settings: dict, compute: Callable[[], dict]) -> dict:
    """A seed's sweep as JSON, read from ``path`` where one with these settings is kept there."""
    if path.is_file():
        found = json.loads(path.read_text(encoding="utf-8"))
        if found["settings"] == settings:
            return found["runs"]
    runs = {
        kind: {name: asdict(run) for name, run in part.items()} for kind, part in compute().items()
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"settings": settings, "runs": runs}), encoding="utf-8")
    return runs


def _hybrids(training: Training, schedule: list[Phase], bar: tqdm) -> Iterator[tuple[str, Trained]]:
    """Every rule's run from the switch on, after one common run of Newton-Schulz."""
    for name in RULES:
        forked = training.fork()
        forked.head.switch(name)
        for phase in schedule:
            if forked.result.finite:
                forked.epoch(phase)
            bar.update()
        yield name, forked.result


def times(train: Maps, reduce: int, batch: int, rounds: int) -> dict[str, tuple[float, float]]:
    """Pooling -> median seconds of a batch forward and backward, reduction included."""
    maps, result = train.maps[:batch], {}
    for name in (AVERAGE, NEWTON_SCHULZ, *RULES):
        torch.manual_seed(0)
        pool = Head(maps.shape[1], 2, reduce, name).pool
        forward, backward = [], []
        for _ in range(rounds + 1):
            x = maps.clone().requires_grad_()
            start = time.perf_counter()
            y = pool(x)
            middle = time.perf_counter()
            y.sum().backward()
            forward.append(middle - start)
            backward.append(time.perf_counter() - middle)
        result[name] = (statistics.median(forward[1:]), statistics.median(backward[1:]))
    return result


# --- tables -----------------------------------------------------------------------------------


def summary(runs: list[Trained]) -> dict:
    """Mean and spread over seeds, in percent; None where a gradient was not finite."""
    if not all(run.finite for run in runs):
        return {"diverged": sum(not run.finite for run in runs), "final": None, "best": None}
    final = [100 * run.errors[-1] for run in runs]
    best = [100 * min(run.errors) for run in runs]
    return {
        "diverged": 0,
        "final": statistics.fmean(final),
        "final_spread": statistics.stdev(final) if len(final) > 1 else 0.0,
        "best": statistics.fmean(best),
        "conditions": [
            statistics.fmean(values)
            for values in zip(*(run.conditions for run in runs), strict=True)
        ],
    }


def lines(report: dict) -> list[str]:
    """The tables as text."""
    settings = report["settings"]
    text = [
        "Covariance pooling on frozen EfficientNet-Lite0 maps of the artworks",
        f"{settings['train_pictures']} training and {settings['test_pictures']} test pictures, "
        f"{settings['reduce']} channels, {settings['epochs']} epochs, {settings['seeds']} seeds, "
        f"batch {settings['batch']}",
        f"The linear layer learns {AVERAGE_SHARE:.0f} (average) and {COVARIANCE_SHARE:.0f} "
        "(covariance) times as fast as the rest: the best of 1, 10",
        "and 40 for each on training pictures. The comparison of the two depends on it.",
        "",
        "Test error, percent: mean and standard deviation over the seeds (after Table 2)",
        f"{'pooling':18} {'standalone, final':>18} {'best':>7} {'hybrid, final':>18} {'best':>7}",
    ]
    for name in (AVERAGE, NEWTON_SCHULZ, *RULES):
        cells = [_cells(report["errors"][kind].get(name)) for kind in ("standalone", "hybrid")]
        text.append(f"{name:18} {' '.join(cells)}")
    text += ["", "Mean condition number by epoch, standalone (after Table 1)"]
    for name in (NEWTON_SCHULZ, *RULES):
        values = report["errors"]["standalone"][name].get("conditions", [])
        text.append(f"{name:18} {' '.join(f'{value:9.2e}' for value in values)}")
    text += [
        "",
        f"Milliseconds a batch of {settings['batch']} (after Table 5)",
        f"{'pooling':18} {'forward':>8} {'backward':>8} {'total':>8}",
    ]
    for name, (forward, backward) in report["seconds"].items():
        numbers = (1e3 * forward, 1e3 * backward, 1e3 * (forward + backward))
        text.append(f"{name:18} " + " ".join(f"{number:8.1f}" for number in numbers))
    average = report["errors"]["standalone"][AVERAGE]["final"]
    text += ["", "Against average pooling, final error, mean of the seeds"]
    for kind in ("standalone", "hybrid"):
        for name in ("SVD-exact (ours)", "SVD-Padé"):
            error = report["errors"][kind][name]["final"]
            if error is not None:
                text.append(f"{name} {kind}: {average - error:+.2f} points better")
    return text


def _cells(part: dict | None) -> str:
    if part is None:
        return f"{'':18} {'':7}"
    if part["final"] is None:
        return f"{'not finite':>18} {'':7}"
    final = f"{part['final']:.2f} ± {part['final_spread']:.2f}"
    return f"{final:>18} {part['best']:7.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--artworks", type=Path, default=ROOT.parent / "shared" / "artworks")
    add("--cache", type=Path, default=ROOT / "out" / "gcp_maps.pt", help="keeps the maps")
    add("--limit", type=int, default=136, help="training pictures a class")
    add("--runs", type=Path, default=ROOT / "out" / "gcp_runs", help="keeps every seed's runs")
    add("--seeds", type=int, default=5)
    add("--first-seed", type=int, default=0)
    add("--epochs", type=int, default=6)
    add("--reduce", type=int, default=24, help="channels after the reduction")
    add("--batch", type=int, default=16)
    add("--out", type=Path, help="text file")
    add("--json", type=Path, help="JSON file")
    arguments = parser.parse_args()
    maps = read_maps(arguments.artworks, arguments.cache)
    train, test = limited(maps["train"], arguments.limit), limited(maps["test"], 10**6)
    settings = {
        "train_pictures": len(train.labels),
        "test_pictures": len(test.labels),
        "rate": RATE,
        "linear_shares": [AVERAGE_SHARE, COVARIANCE_SHARE],
        **{name: getattr(arguments, name) for name in ("reduce", "epochs", "batch")},
    }
    several: dict[str, dict[str, list[Trained]]] = {"standalone": {}, "hybrid": {}}
    for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
        compute = partial(
            sweep,
            train,
            test,
            seed,
            epochs=arguments.epochs,
            reduce=arguments.reduce,
            batch=arguments.batch,
        )
        runs = kept_sweep(arguments.runs / f"seed{seed}.json", settings, compute)
        for kind, part in runs.items():
            for name, run in part.items():
                several[kind].setdefault(name, []).append(Trained(**run))
    report = {
        "settings": {**settings, "seeds": arguments.seeds, "threads": torch.get_num_threads()},
        "errors": {
            kind: {name: summary(trained) for name, trained in part.items()}
            for kind, part in several.items()
        },
        "seconds": times(train, arguments.reduce, arguments.batch, rounds=7),
    }
    text = "\n".join(lines(report)) + "\n"
    print(text)
    for path, content in ((arguments.out, text), (arguments.json, json.dumps(report, indent=1))):
        if path:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
