"""Train the judge of style on folders of pictures, a class a folder.

python -m app.train_classifier --artworks FOLDER --out FILE.safetensors

FOLDER/train has a subfolder a class. FOLDER/test is not looked at: what the classifier makes of
it is said by `python -m benchmarks.classifier_card`, when all is decided.
"""

from __future__ import annotations

import argparse
import copy
import math
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from tqdm import tqdm

import models
import wct
from app.classes import class_folders, split_folder
from app.dataset import FolderError, PictureFolder
from app.out import check_out, not_written
from app.painter import available_device
from app.terminal import failed, show_anything
from app.views import Examples, Views, compute_views, kept_views, mixed
from models.backbones import BACKBONES
from models.classifier import POOLINGS, save_classifier
from models.weights_file import CheckpointError

BACKBONE_RATE = 3e-4
HEAD_RATE = 3e-3
CLIP = 5.0  # norm of the gradient
WEIGHT_DECAY = 1e-2
SMOOTHING = 0.05  # of the labels
RATES = (1.0, 0.3, 0.06)  # shares of the learning rate, a step each
DECAYS = (0.55, 0.8)  # of the run; the paper's hybrid training changes the root at the last one
WARM_UP_EPOCHS = 1  # of the new root, before the last decay
FIRST_STEPS = 50  # over which the rate rises from 0
EMA = 0.99
HELD_BACK = 8  # every eighth picture of train is for choosing, and not trained on
RECORD_EVERY = 8  # steps between looks at the covariances


@dataclass(frozen=True)
class Phase:
    """What holds in one epoch: share of the learning rate, and how the root is found."""

    rate: float
    solver: str


def phases(
    epochs: int,
    hybrid: bool,
    solver: str,
    *,
    decays: Sequence[float] = DECAYS,
    rates: Sequence[float] = RATES,
    warm_up: int = WARM_UP_EPOCHS,
) -> list[Phase]:
    """The schedule. Hybrid: Newton-Schulz, then eigh from the warm-up before the last decay on.

    Section 3.4 of "Why Approximate Matrix Square Root Outperforms Accurate SVD", which divides
    the rate by 10 at each decay: after 1/3 and 2/3 of AlexNet's 30 epochs, with 1 epoch of
    warm-up, and after 1/2 and 3/4 of ResNet's 60, with 2.

    Args:
        decays: shares of the run after which the rate falls.
        rates: shares of the first rate, one more than there are decays.
        warm_up: epochs before the last decay from which on the root is eigh's.
    """
    starts = [math.ceil(share * epochs) for share in decays]
    result = []
    for epoch in range(epochs):
        rate = rates[sum(epoch >= start for start in starts)]
        late = epoch >= starts[-1] - warm_up
        root = ("eigh" if late else "newton_schulz") if hybrid else solver
        result.append(Phase(rate, root))
    return result


@dataclass
class Epoch:
    """What was measured in one epoch."""

    loss: float
    accuracy: float
    solver: str
    rate: float
    condition_number: float | None
    held_back: dict[str, float] = field(default_factory=dict)


# --- judging ----------------------------------------------------------------------------------


def confusion(
    classifier: models.StyleClassifier,
    folders: Mapping[str, PictureFolder],
    indices: Mapping[str, list[int]] | None = None,
    change: Callable[[Tensor], Tensor] = lambda picture: picture,
) -> dict[str, dict[str, float]]:
    """Class -> the share of its pictures that is given to each class.

    Args:
        indices: which pictures of each folder; all by default.
        change: is applied to every picture (1, 3, H, W) first.
    """
    device = next(classifier.parameters()).device
    table = {}
    for name, folder in folders.items():
        chosen = range(len(folder)) if indices is None else indices[name]
        counts = dict.fromkeys(classifier.classes, 0)
        for index in tqdm(chosen, desc=f"judging {name}", unit="picture", leave=False):
            verdict = classifier.judge(change(folder.tensor(index)).to(device))
            counts[classifier.classes[int(verdict.probabilities.argmax())]] += 1
        table[name] = {c: count / max(1, len(chosen)) for c, count in counts.items()}
    return table


def accuracies(
    table: Mapping[str, Mapping[str, float]], sizes: Mapping[str, int]
) -> dict[str, float]:
    """Share of each class's pictures that is right, their mean, and the share of all pictures."""
    right = {name: row[name] for name, row in table.items()}
    total = sum(sizes[name] for name in right)
    overall = sum(right[name] * sizes[name] for name in right) / total
    return {**right, "mean": sum(right.values()) / len(right), "all pictures": overall}


# --- the run ----------------------------------------------------------------------------------


class Run:
    """A training run."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.device = available_device(arguments.device)
        torch.manual_seed(arguments.seed)
        folders = class_folders(split_folder(arguments.artworks, "train"))
        every = 0 if arguments.all_pictures else HELD_BACK
        self.examples = Examples(folders, arguments.size, every, arguments.seed)
        self.classifier = models.StyleClassifier(
            self.examples.classes,
            backbone=arguments.backbone,
            pooling=arguments.pooling,
            reduce=arguments.reduce,
            gradient=arguments.gradient,
            pretrained=True,
        ).to(self.device)
        self.classifier.backbone.split(arguments.frozen)[0].requires_grad_(False)
        self.average = copy.deepcopy(self.classifier).eval().requires_grad_(False)
        learned = [p for p in self.classifier.backbone.parameters() if p.requires_grad]
        head = [*self.classifier.pool.parameters(), *self.classifier.linear.parameters()]
        groups = [{"params": head, "full": arguments.head_rate}]
        if learned:
            groups.append({"params": learned, "full": arguments.rate})
        self.optimizer = torch.optim.AdamW(groups, weight_decay=WEIGHT_DECAY)
        self.phases = phases(
            arguments.epochs,
            not arguments.standalone,
            arguments.solver,
            decays=arguments.decays,
            rates=[1.0, *arguments.decay_to],
            warm_up=arguments.warm_up,
        )
        self.generator = torch.Generator().manual_seed(arguments.seed)
        self.epochs: list[Epoch] = []
        self.steps = 0
        self.seconds = 0.0

    def views(self) -> Views:
        """Computed, or read from the file beside the checkpoint that a run like this one left."""
        arguments = self.arguments
        same = {
            name: getattr(arguments, name)
            for name in ("artworks", "backbone", "views", "size", "frozen", "all_pictures", "seed")
        }
        frozen = self.classifier.backbone.split(arguments.frozen)[0]
        return kept_views(
            Path(arguments.out).with_suffix(".views.pt"),
            same,
            lambda: compute_views(self.examples, frozen, arguments.views, self.device),
        )

    @property
    def size(self) -> int:
        """Bytes of the file to write, in half precision."""
        return 2 * sum(tensor.numel() for tensor in self.average.state_dict().values())

    def train(self) -> None:
        """All epochs."""
        start = time.monotonic()
        views = self.views()
        self.seconds += time.monotonic() - start
        batches = max(1, self.arguments.pictures // self.arguments.batch)
        total = batches * self.arguments.epochs
        with tqdm(total=total, desc="training", unit="step") as bar:
            for number, phase in enumerate(self.phases):
                start = time.monotonic()
                epoch = self._epoch(phase, views, batches, bar)
                self.seconds += time.monotonic() - start
                if number == len(self.phases) - 1 and any(self.examples.held.values()):
                    epoch.held_back = self.held_back()
                self.epochs.append(epoch)
                tqdm.write(_line(number, epoch))

    def _epoch(self, phase: Phase, views: Views, batches: int, bar: tqdm) -> Epoch:
        covariance = self.arguments.pooling == "covariance"
        for pool in (self.classifier.pool, self.average.pool):
            if isinstance(pool, wct.CovariancePool):
                pool.solver = phase.solver
        recorder = (
            wct.SpectrumRecorder(self.classifier.pool, every=RECORD_EVERY) if covariance else None
        )
        losses, right = [], 0
        order = torch.randperm(len(views.labels), generator=self.generator)
        for step in range(batches):
            chosen = order[
                torch.arange(step * self.arguments.batch, (step + 1) * self.arguments.batch)
                % len(order)
            ]
            maps = views.maps[chosen].float().to(self.device)
            loss, hits = self._step(maps, views.labels[chosen].to(self.device), phase.rate)
            losses.append(loss)
            right += hits
            bar.set_postfix(loss=f"{loss:.3f}", refresh=False)
            bar.update()
        condition = None
        if recorder is not None:
            recorder.remove()
            condition = _geometric_mean([r["condition_number"] for r in recorder.records])
        return Epoch(
            loss=sum(losses) / batches,
            accuracy=right / (batches * self.arguments.batch),
            solver=phase.solver if covariance else "none",
            rate=phase.rate,
            condition_number=condition,
        )

    def _step(self, maps: Tensor, labels: Tensor, rate: float) -> tuple[float, int]:
        self.steps += 1
        for group in self.optimizer.param_groups:
            group["lr"] = group["full"] * rate * min(1.0, self.steps / FIRST_STEPS)
        rest = self.classifier.backbone.split(self.arguments.frozen)[1]
        targets = F.one_hot(labels, len(self.classifier.classes)).to(maps.dtype)
        if self.arguments.mixup:
            maps, targets = mixed(maps, targets, self.arguments.mixup, self.generator)
        logits = self.classifier.logits(rest(maps))
        loss = F.cross_entropy(logits, targets, label_smoothing=SMOOTHING)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.classifier.parameters(), CLIP)
        self.optimizer.step()
        with torch.no_grad():
            # At first an average over few steps: the start is no part of the result.
            share = min(EMA, self.steps / (self.steps + 10))
            pairs = zip(self.average.parameters(), self.classifier.parameters(), strict=True)
            for mean, now in pairs:
                mean.lerp_(now, 1 - share)
        return float(loss.detach()), int((logits.argmax(1) == labels).sum())

    def held_back(self) -> dict[str, float]:
        """Accuracies on the training pictures that are not trained on."""
        held = self.examples.held
        table = confusion(self.average, self.examples.folders, held)
        return accuracies(table, {name: len(indices) for name, indices in held.items()})

    def record(self) -> dict:
        """What the checkpoint's header says of the run."""
        keep = ("backbone", "pooling", "reduce", "gradient", "size", "batch", "pictures")
        more = ("views", "frozen", "rate", "head_rate", "mixup", "seed")
        return {
            "settings": {name: getattr(self.arguments, name) for name in (*keep, *more)},
            "training": "standalone" if self.arguments.standalone else "hybrid",
            "trained_on": {name: len(kept) for name, kept in self.examples.kept.items()},
            "held_back": {name: len(held) for name, held in self.examples.held.items()},
            "minutes": round(self.seconds / 60, 1),
            "machine": f"{platform.machine()}, {self.device}, {torch.get_num_threads()} threads",
            "torch": torch.__version__,
            "epochs": [vars(epoch) for epoch in self.epochs],
        }


def _geometric_mean(values: list[float]) -> float | None:
    finite = [math.log(value) for value in values if math.isfinite(value)]
    return math.exp(sum(finite) / len(finite)) if finite else None


def _line(number: int, epoch: Epoch) -> str:
    condition = "" if epoch.condition_number is None else f"{epoch.condition_number:.1e}"
    held = " ".join(f"{name} {share:.3f}" for name, share in epoch.held_back.items())
    return (
        f"epoch {number + 1}: loss {epoch.loss:.3f}, accuracy {epoch.accuracy:.3f}, "
        f"rate {epoch.rate}, root {epoch.solver}, condition {condition}; held back: {held}"
    )


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m app.train_classifier",
        description="Train the judge of style on folders of pictures, a class a folder.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--artworks", required=True, help="folder with train/CLASS/")
    add("--out", required=True, metavar="FILE.safetensors", help="the classifier to write")
    add("--backbone", choices=tuple(BACKBONES), default="efficientnet-lite0")
    add("--pooling", choices=POOLINGS, default="covariance")
    add("--reduce", type=int, default=48, help="channels after the 1x1 reduction")
    add("--gradient", default="exact", help="rule of the root: exact, newton, pade, taylor, ...")
    add(
        "--standalone",
        action="store_true",
        help="one --solver from the first epoch to the last, instead of the hybrid training",
    )
    add("--solver", choices=("newton_schulz", "eigh"), default="eigh", help="with --standalone")
    add("--epochs", type=int, default=10)
    add("--pictures", type=int, default=2000, help="views an epoch")
    add("--batch", type=int, default=25)
    add("--size", type=int, default=192, help="side of the training crops, pixels")
    add(
        "--frozen",
        type=int,
        default=10,
        help="first stages of the backbone that keep their weights; they are computed once",
    )
    add("--views", type=int, default=900, help="of a class, cropped and roughened, computed once")
    add("--rate", type=float, default=BACKBONE_RATE, help="learning rate of the backbone")
    add("--head-rate", type=float, default=HEAD_RATE, help="of pooling and linear layer")
    add(
        "--mixup",
        type=float,
        default=0.0,
        metavar="CONCENTRATION",
        help="mix views and their labels in pairs, by shares from a beta distribution; 0: none",
    )
    add("--all-pictures", action="store_true", help="hold no training pictures back")
    add("--device", default="auto")
    add(
        "--decays",
        type=float,
        nargs=2,
        default=DECAYS,
        metavar="SHARE",
        help="of the run, after which the rate falls (the paper: 0.333 0.667, for ResNet 0.5 0.75)",
    )
    add(
        "--decay-to",
        type=float,
        nargs=2,
        default=RATES[1:],
        metavar="SHARE",
        help="of the first rate, to which it falls (the paper: 0.1 0.01)",
    )
    add(
        "--warm-up",
        type=int,
        default=WARM_UP_EPOCHS,
        help="epochs with the new root before the last decay (the paper: 1, for ResNet 2)",
    )
    add("--seed", type=int, default=0)
    arguments = parser.parse_args(argv)
    for name in ("reduce", "epochs", "pictures", "batch", "views"):
        if getattr(arguments, name) < 1:
            parser.error(f"--{name} must be at least 1, got {getattr(arguments, name)}")
    for name, values in (("decays", arguments.decays), ("decay-to", arguments.decay_to)):
        if not all(0 < value < 1 for value in values):
            parser.error(f"--{name} must be shares between 0 and 1, got {values}")
    if list(arguments.decays) != sorted(arguments.decays):
        parser.error(f"--decays must come in order, got {arguments.decays}")
    if arguments.warm_up < 0:
        parser.error(f"--warm-up must not be below 0, got {arguments.warm_up}")
    if arguments.mixup < 0:
        parser.error(f"--mixup must not be below 0, got {arguments.mixup}")
    if arguments.size < 64:
        parser.error(f"--size must be at least 64, got {arguments.size}")
    if not arguments.out.endswith(".safetensors"):
        parser.error(f"--out must end in .safetensors, got {arguments.out}")
    try:
        wct.as_rule(arguments.gradient)
    except ValueError as error:
        parser.error(str(error))
    return arguments


def main(argv: list[str] | None = None) -> int:
    """Exit code 0 done, 1 the classifier could not be written, 2 a wrong command line or input."""
    show_anything()
    arguments = parse_arguments(argv)
    out = Path(arguments.out)
    try:
        check_out(out)  # before pictures are read
        run = Run(arguments)
        check_out(out, run.size)
    except (FolderError, FileNotFoundError, ValueError) as error:
        return failed(error, 2)
    try:
        run.train()
        save_classifier(out, run.average, run.record())
    except OSError as error:
        return failed(not_written(out, error), 1)
    except CheckpointError as error:
        return failed(error, 1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
