"""Covariance pooling by every root and gradient, on the artworks: tables shaped like the paper's.

After Tables 1, 2 and 5 of "Why Approximate Matrix Square Root Outperforms Accurate SVD". The
backbone is frozen up to its last stage, whose maps of every picture are computed once and kept in
a file; the last stage, 1x1 reduction, pooling and linear layer are trained, standalone and
hybrid, in float64 and in float32. The root is pooled as it is, not normalized, of more channels
than there are positions (64 of 49), so that covariances are as ill-conditioned as the paper's.
MPN-COV is torch's own eigh and autograd. A run fails when a loss or a gradient is not finite:
it is counted, and its errors are left out of the means.

Differences to the paper: five classes instead of a thousand, a pretrained backbone, fewer
channels, Adam instead of SGD, and rules whose gradient of the root is computed as a filter of its
divided differences (see wct/_rules.py).

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
STAGE_SHARE = 0.05  # of it, for the pretrained last stage
SIDE = 112  # pixels: 7 x 7 positions
PRECISIONS = {"float64": torch.float64, "float32": torch.float32}
AT_ONCE = 16
KEPT_SHARE = 200 / 256  # of the eigenvalues, by TopN

AVERAGE, NEWTON_SCHULZ, MPN_COV = "average pooling", "iSQRT-COV", "MPN-COV"

# Name in the paper -> rule of the eigendecomposition's gradient, with the paper's settings.
RULES = {
    "SVD-Padé": "pade",
    "SVD-Taylor": "taylor",
    "SVD-Newton": "newton",
    "SVD-Trunc": "clip",
    "SVD-TopN": "topn",
    MPN_COV: "analytic",
    "SVD-exact (ours)": "exact",
}

# The linear layer's rate as a multiple of RATE, from which the best is chosen for average pooling
# and for covariances; a best one at an end of the row makes it longer.
SHARES = (0.1, 1.0, 10.0)


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
    """Maps before the backbone's last stage, (N, C, h, w) in half precision, and labels (N,)."""

    maps: Tensor
    labels: Tensor


def last_stage() -> nn.Module:
    """The backbone's last stage, from ImageNet: it is trained with each head."""
    return EfficientNetLite0().network[-1]


def read_maps(artworks: Path, cache: Path, limit: int) -> dict[str, Maps]:
    """The maps of ``limit`` pictures a class of train, and of all of test, kept in ``cache``."""
    if cache.is_file():
        found = torch.load(cache, weights_only=True)
        if found.get("limit") == limit:
            return {split: Maps(*found[split]) for split in ("train", "test")}
    network = EfficientNetLite0().network
    frozen = network[: len(network) - 1].eval()
    result = {}
    for split, count in (("train", limit), ("test", 10**6)):
        folders = class_folders(split_folder(artworks, split))
        maps, labels = [], []
        for label, folder in enumerate(folders.values()):
            chosen = list(spread(count, len(folder)))
            for start in tqdm(range(0, len(chosen), AT_ONCE), desc=f"{split} {folder.name}"):
                part = chosen[start : start + AT_ONCE]
                with torch.no_grad():
                    batch = frozen(torch.cat([folder.square(i, SIDE) for i in part]))
                maps.append(batch.half().contiguous())
                labels += [label] * len(part)
        result[split] = Maps(torch.cat(maps), torch.tensor(labels))
    cache.parent.mkdir(parents=True, exist_ok=True)
    kept = {split: (part.maps, part.labels) for split, part in result.items()}
    torch.save({"limit": limit, **kept}, cache)
    return result


# --- training ---------------------------------------------------------------------------------


class SvdPool(wct.CovariancePool):
    """The root as one writes it with torch alone: its own eigh and its autograd (MPN-COV)."""

    def forward(self, features: Tensor) -> Tensor:
        covariance = self.covariance(features)
        values, vectors = torch.linalg.eigh(covariance)
        values = values.clamp_min(torch.finfo(values.dtype).eps)
        root = (vectors * values.sqrt().unsqueeze(-2)) @ vectors.mT
        return root.flatten(1)[:, self._upper].to(features.dtype)


class Head(nn.Module):
    """Maps (B, C, h, w) -> logits, by the backbone's last stage and one pooling."""

    def __init__(
        self, stage: nn.Module, channels: int, classes: int, reduce: int, pooling: str, dtype: str
    ) -> None:
        super().__init__()
        self.stage = copy.deepcopy(stage)
        if pooling == AVERAGE:
            # The classifier without covariance pooling has no reduction: there is nothing to spare.
            self.pool: nn.Module = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
            width = channels
        else:
            layer = SvdPool if pooling == MPN_COV else wct.CovariancePool
            iterated = pooling == NEWTON_SCHULZ
            name = "newton" if iterated else RULES[pooling]
            self.pool = layer(
                channels,
                reduce=reduce,
                solver="newton_schulz" if iterated else "eigh",
                gradient=wct.Newton(5) if iterated else rule(name, reduce),
                normalize=False,
                dtype=PRECISIONS[dtype],
            )
            width = reduce * (reduce + 1) // 2
        self.linear = nn.Linear(width, classes)

    def forward(self, maps: Tensor) -> Tensor:
        return self.linear(self.pool(self.stage(maps)))

    def switch(self, pooling: str) -> None:
        """The root and gradient of another pooling from here on."""
        if pooling == MPN_COV:
            self.pool.__class__ = SvdPool
        else:
            self.pool.solver, self.pool.rule = "eigh", rule(RULES[pooling], _dimension(self.pool))


def _dimension(pool: wct.CovariancePool) -> int:
    return pool.reduce.out_channels


@dataclass
class Trained:
    """One run: test error after every epoch, and each look's worst condition number, by epoch."""

    errors: list[float]
    conditions: list[list[float]]
    finite: bool = True


class Training:
    """A head under training; may be copied in the middle."""

    def __init__(
        self, head: Head, train: Maps, test: Maps, batch: int, seed: int, share: float
    ) -> None:
        self.head, self.train, self.test, self.batch = head, train, test, batch
        self.optimizer = torch.optim.Adam(
            [
                {"params": list(head.linear.parameters()), "share": share},
                {"params": list(head.pool.parameters()), "share": 1.0},
                {"params": list(head.stage.parameters()), "share": STAGE_SHARE},
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
        looks: list[float] = []
        for number, chosen in enumerate(order.split(self.batch)):
            maps, labels = self.train.maps[chosen], self.train.labels[chosen]
            features = self.head.stage(maps)
            if covariance and number % 4 == 0:
                with torch.no_grad():
                    spread_of = self.head.pool.covariance(features).double()
                    looks.append(float(wct.condition_number(spread_of).amax()))
            try:
                loss = F.cross_entropy(self.head.linear(self.head.pool(features)), labels)
                self.optimizer.zero_grad()
                loss.backward()
                gradients = [p.grad for p in self.head.parameters() if p.grad is not None]
                fine = all(bool(g.isfinite().all()) for g in gradients)
            except (torch.linalg.LinAlgError, ValueError):
                fine = False  # no convergence, or not finite forward
            if not fine:
                self.result.finite = False
                break
            self.optimizer.step()
        if covariance:
            self.result.conditions.append(looks)
        self.result.errors.append(self.error() if self.result.finite else math.nan)

    @torch.no_grad()
    def error(self) -> float:
        """Share of the test pictures that is wrong."""
        parts = self.test.maps.split(64)
        predicted = torch.cat([self.head(part).argmax(1) for part in parts])
        return float((predicted != self.test.labels).float().mean())


def best_share(train: Maps, pooling: str, epochs: int, reduce: int, batch: int) -> float:
    """The linear layer's rate, as a multiple of RATE, by the error on a quarter of the training."""
    held = torch.arange(len(train.labels)) % 4 == 3
    parts = [Maps(train.maps[part], train.labels[part]) for part in (~held, held)]
    stage = last_stage()
    channels, classes = stage_channels(stage, train), int(train.labels.max()) + 1
    errors: dict[float, float] = {}
    shares = list(SHARES)
    while True:
        for share in shares:
            if share not in errors:
                torch.manual_seed(0)
                head = Head(stage, channels, classes, reduce, pooling, "float64")
                training = Training(head, *parts, batch, 0, share)
                for phase in phases(epochs, False, "eigh"):
                    if training.result.finite:
                        training.epoch(phase)
                last = training.result.errors[-1]
                errors[share] = last if math.isfinite(last) else 1.0
        best = min(shares, key=errors.__getitem__)
        if best not in (shares[0], shares[-1]) or len(shares) > 7:
            return best
        shares = [best / 4, *shares] if best == shares[0] else [*shares, best * 4]


def stage_channels(stage: nn.Module, train: Maps) -> int:
    """Channels that the last stage makes of the maps."""
    with torch.no_grad():
        return stage(train.maps[:1]).shape[1]


def sweep(
    train: Maps,
    test: Maps,
    seed: int,
    *,
    epochs: int,
    reduce: int,
    batch: int,
    shares: tuple[float, float] = (1.0, 1.0),
    dtype: str = "float64",
) -> dict[str, dict[str, Trained]]:
    """Training -> pooling -> its run with one seed, from which all poolings start alike.

    Args:
        shares: of the linear layer's rate, with average pooling and with covariances.
    """
    result: dict[str, dict[str, Trained]] = {"standalone": {}, "hybrid": {}}
    schedule = phases(epochs, True, "eigh")
    switch = [phase.solver for phase in schedule].index("eigh")
    alone = [AVERAGE, NEWTON_SCHULZ, *RULES]
    stage = last_stage()
    channels, classes = stage_channels(stage, train), int(train.labels.max()) + 1
    steps = len(alone) * epochs + len(RULES) * (epochs - switch)
    with tqdm(total=steps, desc=f"seed {seed}, {dtype}", unit="epoch") as bar:
        for name in alone:
            torch.manual_seed(seed)
            head = Head(stage, channels, classes, reduce, name, dtype)
            share = shares[0 if name == AVERAGE else 1]
            training = Training(head, train, test, batch, seed, share)
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
        pool = Head(nn.Identity(), maps.shape[1], 2, reduce, name, "float64").pool
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
    """Mean and spread over the seeds that stayed finite, in percent, and how many did not.

    ``conditions``, an epoch: the median of all looks' worst condition numbers, infinite ones
    included, and the share of them that is infinite.
    """
    done = [run for run in runs if run.finite]
    final = [100 * run.errors[-1] for run in done]
    conditions = []
    for looks in zip(*(run.conditions for run in runs), strict=False):
        values = [value for run in looks for value in run]
        if values:
            endless = sum(math.isinf(value) for value in values) / len(values)
            conditions.append((statistics.median_low(values), endless))
    return {
        "runs": len(runs),
        "diverged": len(runs) - len(done),
        "final": statistics.fmean(final) if final else None,
        "final_spread": statistics.stdev(final) if len(final) > 1 else 0.0,
        "best": statistics.fmean(100 * min(run.errors) for run in done) if done else None,
        "conditions": conditions,
    }


def lines(report: dict) -> list[str]:
    """The tables as text."""
    settings = report["settings"]
    average, covariance = settings["linear_shares"]
    text = [
        "Covariance pooling on EfficientNet-Lite0 maps of the artworks, the last stage trained",
        f"{settings['train_pictures']} training and {settings['test_pictures']} test pictures, "
        f"{settings['reduce']} channels of {settings['positions']} positions, not normalized, "
        f"{settings['epochs']} epochs, {settings['seeds']} seeds, batch {settings['batch']}",
        f"The linear layer learns {average:g} (average) and {covariance:g} (covariance) times as "
        "fast as the reduction, by the error on",
        "a quarter of the training pictures; neither is at the end of what was tried.",
    ]
    for precision, errors in report["errors"].items():
        text += [
            "",
            f"{precision}: test error, percent, mean and standard deviation over the seeds that "
            "stayed finite (after Table 2)",
            f"{'pooling':18} {'standalone, final':>18} {'best':>7} {'failed':>8} "
            f"{'hybrid, final':>18} {'best':>7} {'failed':>8}",
        ]
        for name in (AVERAGE, NEWTON_SCHULZ, *RULES):
            cells = [_cells(errors[kind].get(name)) for kind in ("standalone", "hybrid")]
            text.append(f"{name:18} {' '.join(cells)}")
        text += [
            "",
            f"{precision}: median of a batch's worst condition number, and in brackets the share "
            "of infinite ones, by epoch, standalone (after Table 1)",
        ]
        for name in (NEWTON_SCHULZ, *RULES):
            values = errors["standalone"][name]["conditions"]
            cells = [f"{value:9.2e} ({100 * endless:3.0f}%)" for value, endless in values]
            text.append(f"{name:18} {' '.join(cells)}")
    text += [
        "",
        f"Milliseconds a batch of {settings['batch']} in float64 (after Table 5)",
        f"{'pooling':18} {'forward':>8} {'backward':>8} {'total':>8}",
    ]
    for name, (forward, backward) in report["seconds"].items():
        numbers = (1e3 * forward, 1e3 * backward, 1e3 * (forward + backward))
        text.append(f"{name:18} " + " ".join(f"{number:8.1f}" for number in numbers))
    return text


def _cells(part: dict | None) -> str:
    if part is None:
        return f"{'':18} {'':7} {'':8}"
    failed = f"{part['diverged']} of {part['runs']}"
    if part["final"] is None:
        return f"{'none finite':>18} {'':7} {failed:>8}"
    final = f"{part['final']:.2f} ± {part['final_spread']:.2f}"
    return f"{final:>18} {part['best']:7.2f} {failed:>8}"


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
    add("--reduce", type=int, default=64, help="channels after the reduction")
    add("--batch", type=int, default=16)
    add("--share-epochs", type=int, default=3, help="epochs by which the linear rate is chosen")
    add("--out", type=Path, help="text file")
    add("--json", type=Path, help="JSON file")
    arguments = parser.parse_args()
    maps = read_maps(arguments.artworks, arguments.cache, arguments.limit)
    train, test = (Maps(maps[s].maps.float(), maps[s].labels) for s in ("train", "test"))
    settings = {
        "train_pictures": len(train.labels),
        "test_pictures": len(test.labels),
        "positions": train.maps.shape[-2] * train.maps.shape[-1],
        "rate": RATE,
        **{name: getattr(arguments, name) for name in ("reduce", "epochs", "batch")},
    }

    def choose() -> dict:
        sizes = (arguments.share_epochs, arguments.reduce, arguments.batch)
        shares = [best_share(train, name, *sizes) for name in (AVERAGE, NEWTON_SCHULZ)]
        return {"shares": {"chosen": Trained(shares, [])}}

    chosen = kept_sweep(arguments.runs / "shares.json", settings, choose)
    average, covariance = chosen["shares"]["chosen"]["errors"]
    settings["linear_shares"] = [average, covariance]
    errors: dict[str, dict[str, dict[str, list[Trained]]]] = {}
    for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
        for precision in PRECISIONS:
            compute = partial(
                sweep,
                train,
                test,
                seed,
                epochs=arguments.epochs,
                reduce=arguments.reduce,
                batch=arguments.batch,
                shares=(average, covariance),
                dtype=precision,
            )
            file = arguments.runs / f"seed{seed}-{precision}.json"
            runs = kept_sweep(file, settings, compute)
            several = errors.setdefault(precision, {"standalone": {}, "hybrid": {}})
            for kind, part in runs.items():
                for name, run in part.items():
                    several[kind].setdefault(name, []).append(Trained(**run))
    report = {
        "settings": {**settings, "seeds": arguments.seeds, "threads": torch.get_num_threads()},
        "errors": {
            precision: {
                kind: {name: summary(trained) for name, trained in part.items()}
                for kind, part in several.items()
            }
            for precision, several in errors.items()
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
