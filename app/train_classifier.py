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
import random
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from tqdm import tqdm

import models
import wct
from app import augment
from app.classes import class_folders, split_folder
from app.dataset import FolderError, PictureFolder
from app.painter import available_device
from models.backbones import BACKBONES
from models.classifier import POOLINGS, save_classifier

# --- settings ---------------------------------------------------------------------------------

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
SMALLEST_SCALE = 0.75  # of pictures before they are cropped
RECOLORED_SHARE = 0.3  # of the class photo: with a painting's colors it is still a photo
PHOTO = "photo"
RECORD_EVERY = 8  # steps between looks at the covariances
VIEWS_AT_ONCE = 16


@dataclass(frozen=True)
class Phase:
    """What holds in one epoch: share of the learning rate, and how the root is found."""

    rate: float
    solver: str


def phases(epochs: int, hybrid: bool, solver: str) -> list[Phase]:
    """The schedule. Hybrid: Newton-Schulz, then eigh from the warm-up before the last decay on.

    Section 3.4 of "Why Approximate Matrix Square Root Outperforms Accurate SVD".
    """
    decays = [math.ceil(share * epochs) for share in DECAYS]
    result = []
    for epoch in range(epochs):
        rate = RATES[sum(epoch >= decay for decay in decays)]
        late = epoch >= decays[-1] - WARM_UP_EPOCHS
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


# --- data -------------------------------------------------------------------------------------


class Examples:
    """Training pictures, cropped and roughened, and which of them are held back.

    Args:
        every: each picture of that number is held back; 0 holds none.
    """

    def __init__(
        self, folders: Mapping[str, PictureFolder], size: int, every: int, seed: int
    ) -> None:
        self.folders, self.size = folders, size
        self.draw = random.Random(seed)
        self.classes = tuple(folders)
        self.held = {
            name: [i for i in range(len(folder)) if every and i % every == every - 1]
            for name, folder in folders.items()
        }
        self.kept = {
            name: sorted(set(range(len(folder))) - set(self.held[name]))
            for name, folder in folders.items()
        }

    def view(self, name: str, index: int) -> Tensor:
        """A random crop of a picture, as it may come: (1, 3, size, size)."""
        crop = self._crop(name, index)
        if name == PHOTO and self.draw.random() < RECOLORED_SHARE:
            other = self.draw.choice([c for c in self.classes if c != PHOTO])
            crop = augment.recolored(crop, self._crop(other, self.draw.choice(self.kept[other])))
        return augment.roughened(crop, self.draw)

    def _crop(self, name: str, index: int) -> Tensor:
        folder = self.folders[name]
        return folder.crop(folder.draw_crop(index, self.size, self.draw, SMALLEST_SCALE))

    def order(self, count: int) -> list[tuple[int, int]]:
        """Label and index of ``count`` pictures of every class, mixed.

        A class is gone through as often as it takes, so that a small one weighs as much.
        """
        pairs = []
        for label, name in enumerate(self.classes):
            indices: list[int] = []
            while len(indices) < count:
                indices += self.draw.sample(self.kept[name], len(self.kept[name]))
            pairs += [(label, index) for index in indices[:count]]
        self.draw.shuffle(pairs)
        return pairs


@dataclass(frozen=True)
class Views:
    """What the frozen part of the backbone makes of every view, computed once.

    Attributes:
        maps: (N, C, h, w) in half precision.
        labels: (N,).
    """

    maps: Tensor
    labels: Tensor


def compute_views(examples: Examples, frozen: nn.Module, count: int, device: torch.device) -> Views:
    """``count`` views of every class through ``frozen``."""
    order = examples.order(count)
    maps: Tensor | None = None
    with torch.no_grad(), tqdm(total=len(order), desc="frozen part", unit="view") as bar:
        for start in range(0, len(order), VIEWS_AT_ONCE):
            part = order[start : start + VIEWS_AT_ONCE]
            pictures = torch.cat([examples.view(examples.classes[y], i) for y, i in part])
            result = frozen(pictures.to(device)).half().cpu()
            if maps is None:
                maps = torch.empty((len(order), *result.shape[1:]), dtype=torch.half)
            maps[start : start + len(part)] = result
            bar.update(len(part))
    return Views(maps, torch.tensor([label for label, _ in order]))


def mixed(
    maps: Tensor, targets: Tensor, concentration: float, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Each view with a little of another: Verma et al., "Manifold Mixup", 2019.

    Args:
        maps: (B, C, h, w), activations of the frozen part.
        targets: (B, classes), probabilities.
        concentration: both parameters of the beta distribution that shares are drawn from, above
            0; the larger, the more is mixed. A view keeps at least half of itself.
        generator: on the CPU.

    Returns:
        New maps and targets of the same shapes.
    """
    both = torch.full((len(maps), 2), concentration)
    gammas = torch._standard_gamma(both, generator=generator)
    shares = (gammas / gammas.sum(1, keepdim=True).clamp_min(1e-12)).amax(1).to(maps)
    other = torch.randperm(len(maps), generator=generator).to(maps.device)
    return (
        torch.lerp(maps[other], maps, shares[:, None, None, None]),
        torch.lerp(targets[other], targets, shares[:, None]),
    )


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
        self.phases = phases(arguments.epochs, not arguments.standalone, arguments.solver)
        self.generator = torch.Generator().manual_seed(arguments.seed)
        self.epochs: list[Epoch] = []
        self.steps = 0
        self.seconds = 0.0

    def views(self) -> Views:
        """Computed, or read from the file beside the checkpoint that a run like this one left."""
        arguments = self.arguments
        path = Path(arguments.out).with_suffix(".views.pt")
        same = {
            name: getattr(arguments, name)
            for name in ("artworks", "backbone", "views", "size", "frozen", "all_pictures", "seed")
        }
        if path.is_file():
            found = torch.load(path, weights_only=True, mmap=True)
            if found["settings"] == same:
                return Views(found["maps"], found["labels"])
        frozen = self.classifier.backbone.split(arguments.frozen)[0]
        views = compute_views(self.examples, frozen, arguments.views, self.device)
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save({"settings": same, "maps": views.maps, "labels": views.labels}, path)
        return views

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
        if covariance:
            self.classifier.pool.solver = self.average.pool.solver = phase.solver
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
    add("--seed", type=int, default=0)
    arguments = parser.parse_args(argv)
    for name in ("reduce", "epochs", "pictures", "batch", "views"):
        if getattr(arguments, name) < 1:
            parser.error(f"--{name} must be at least 1, got {getattr(arguments, name)}")
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
    """Exit code 0 done, 2 a wrong command line or unreadable input."""
    arguments = parse_arguments(argv)
    try:
        run = Run(arguments)
        run.train()
        save_classifier(arguments.out, run.average, run.record())
    except (FolderError, FileNotFoundError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
