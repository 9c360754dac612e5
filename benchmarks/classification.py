"""The papers' classification experiments: their data, their network, and one training run.

The data is CIFAR-10, CIFAR-100 or Tiny ImageNet where a user has them, and else small crops of
photos and paintings in five classes. The network is the papers' ResNet: first convolution 3 x 3
with stride 1, the norm layer under test after it, no pooling between, four stages of strides 1,
2, 2, 2 (Table 2 of Robust Differentiable SVD).
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn
from torchvision import datasets
from torchvision.models.resnet import BasicBlock, Bottleneck

from app.classes import class_folders, split_folder
from app.dataset import FolderError

ROOT = Path(__file__).resolve().parents[1]
ARTWORKS = ROOT.parent / "shared" / "artworks"
DATA = ("artworks", "cifar10", "cifar100", "tiny-imagenet")
# The whole picture brought to this short side, a crop of 32 px shows a part that can be named.
SHORT_SIDE, CROP = 64, 32
STEM = 64  # channels of the first convolution, which the norm layer under test sees

# --- data -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pictures:
    """Pictures (N, 3, side, side) of uint8 and labels (N,), and how many classes there are."""

    pictures: Tensor
    labels: Tensor
    classes: int

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, chosen: Tensor) -> tuple[Tensor, Tensor]:
        """Those pictures, in about [-1, 1], and their labels."""
        return self.pictures[chosen].float() / 127.5 - 1, self.labels[chosen]


@dataclass(frozen=True)
class Split:
    train: Pictures
    test: Pictures


def read(data: str, folder: Path | None, *, crops: int, keep: Path | None = None) -> Split:
    """The training and test pictures of one of DATA.

    Args:
        data: one of DATA.
        folder: where it lies; for the artworks, where they lie beside the clone when None.
        crops: of the artworks, how many a class for training; a fifth of it for testing.
        keep: a file in which the crops are kept, so that they are cut once.

    Raises:
        FolderError: the folder does not hold such data; the message names it.
    """
    if data == "artworks":
        return _artworks(folder or ARTWORKS, crops, keep)
    if folder is None:
        raise FolderError(f"{data} needs the folder in which it lies (--folder)")
    if not folder.is_dir():
        raise FolderError(f"{folder}: there is no such folder")
    if data == "tiny-imagenet":
        return _tiny_imagenet(folder)
    kind = {"cifar10": datasets.CIFAR10, "cifar100": datasets.CIFAR100}[data]
    try:
        parts = [kind(str(folder), train=train) for train in (True, False)]
    except (RuntimeError, OSError, KeyError, ValueError) as error:
        # Without a digest of its own, a changed or missing file is refused by torchvision.
        raise FolderError(
            f"{folder}: no {data} in it as torchvision keeps it ({kind.base_folder}/)"
        ) from error
    return Split(
        *(
            Pictures(
                torch.from_numpy(part.data).permute(0, 3, 1, 2).contiguous(),
                torch.tensor(part.targets),
                len(part.classes),
            )
            for part in parts
        )
    )


def _artworks(folder: Path, crops: int, keep: Path | None) -> Split:
    if keep is not None and keep.is_file():
        found = torch.load(keep, weights_only=True)
        if found["crops"] == crops:
            return Split(*(Pictures(*part) for part in found["parts"]))
    parts = []
    for split, count in (("train", crops), ("test", max(1, crops // 5))):
        draw = random.Random(split)
        pictures, labels = [], []
        folders = class_folders(split_folder(folder, split))
        for label, kind in enumerate(folders.values()):
            images = [_shrunk(kind.image(i)) for i in range(len(kind))]
            for number in range(count):
                pixels = images[number % len(images)]
                top = draw.randrange(pixels.shape[0] - CROP + 1)
                left = draw.randrange(pixels.shape[1] - CROP + 1)
                pictures.append(pixels[top : top + CROP, left : left + CROP])
                labels.append(label)
        stack = torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2).contiguous()
        parts.append((stack, torch.tensor(labels), len(folders)))
    if keep is not None:
        keep.parent.mkdir(parents=True, exist_ok=True)
        torch.save({"crops": crops, "parts": parts}, keep)
    return Split(*(Pictures(*part) for part in parts))


def _shrunk(image: Image.Image) -> np.ndarray:
    scale = SHORT_SIDE / min(image.size)
    size = (max(CROP, round(image.width * scale)), max(CROP, round(image.height * scale)))
    return np.asarray(image.resize(size, Image.Resampling.LANCZOS))


def _tiny_imagenet(folder: Path) -> Split:
    """tiny-imagenet-200 as it is handed out: train/CLASS/images/, val/ with val_annotations.txt."""
    root = folder / "tiny-imagenet-200" if (folder / "tiny-imagenet-200").is_dir() else folder
    annotations = root / "val" / "val_annotations.txt"
    if not (root / "train").is_dir() or not annotations.is_file():
        raise FolderError(f"{folder}: no train/ and val/val_annotations.txt of Tiny ImageNet in it")
    names = sorted(path.name for path in (root / "train").iterdir() if path.is_dir())
    place = {name: number for number, name in enumerate(names)}
    train = [
        (path, place[name])
        for name in names
        for path in sorted((root / "train" / name).rglob("*"))
        if path.suffix.lower() in (".jpeg", ".jpg", ".png")
    ]
    rows = [line.split("\t") for line in annotations.read_text("utf-8").splitlines() if line]
    try:
        test = [(root / "val" / "images" / row[0], place[row[1]]) for row in rows]
        parts = [_stacked(part, len(names)) for part in (train, test)]
    except (IndexError, KeyError, OSError, ValueError) as error:
        raise FolderError(f"{folder}: not of Tiny ImageNet's form ({error})") from error
    return Split(*parts)


def _stacked(files: list[tuple[Path, int]], classes: int) -> Pictures:
    pixels = [np.asarray(Image.open(path).convert("RGB")) for path, _ in files]
    stack = torch.from_numpy(np.stack(pixels)).permute(0, 3, 1, 2).contiguous()
    return Pictures(stack, torch.tensor([label for _, label in files]), classes)


# --- network ----------------------------------------------------------------------------------


class ResNet(nn.Module):
    """The papers' ResNet for small pictures, with a norm layer under test: (B, 3, H, W) -> logits.

    Args:
        norm: makes the layer under test of a number of channels.
        classes: how many logits.
        width: channels of the first stage, 64 in the papers; each later stage has twice as many.
        depth: 18 (basic blocks) or 50 (bottlenecks).
        stem: channels of the first convolution, 64 in the papers.
    """

    def __init__(
        self,
        norm: Callable[[int], nn.Module],
        classes: int,
        *,
        width: int = 64,
        depth: int = 18,
        stem: int = STEM,
    ) -> None:
        super().__init__()
        block, counts = {18: (BasicBlock, (2, 2, 2, 2)), 50: (Bottleneck, (3, 4, 6, 3))}[depth]
        self.conv1 = nn.Conv2d(3, stem, 3, padding=1, bias=False)
        self.norm = norm(stem)
        stages, channels = [], stem
        for stage, count in enumerate(counts):
            planes, stride = width << stage, 1 if stage == 0 else 2
            for number in range(count):
                step = stride if number == 0 else 1
                out = planes * block.expansion
                shortcut = None
                if step != 1 or channels != out:
                    shortcut = nn.Sequential(
                        nn.Conv2d(channels, out, 1, stride=step, bias=False), nn.BatchNorm2d(out)
                    )
                stages.append(block(channels, planes, step, shortcut))
                channels = out
        self.stages = nn.Sequential(*stages)
        self.channels = channels
        self.linear = nn.Linear(channels, classes)

    def features(self, pictures: Tensor) -> Tensor:
        """What is pooled, (B, channels, H/8, W/8)."""
        return self.stages(F.relu(self.norm(self.conv1(pictures))))

    def forward(self, pictures: Tensor) -> Tensor:
        return self.linear(self.features(pictures).mean((-2, -1)))


# --- a run ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Recipe:
    """How a run is trained, by the papers: SGD with momentum 0.9, weight decay 5e-4.

    Attributes:
        steps: of SGD; the rate falls to a tenth at 2/7, 4/7 and 6/7 of them, as after 100, 200
            and 300 of the papers' 350 epochs.
        batch: pictures a step, 128 in the papers.
        rate: the first learning rate, 0.1 in the papers.
        width, depth: of the network.
        tested: how many of the test pictures, evenly spread, are looked at; None for all.
    """

    steps: int
    batch: int = 128
    rate: float = 0.1
    width: int = 64
    depth: int = 18
    tested: int | None = None


def reason_of_failure(network: nn.Module, loss: Tensor) -> str:
    """What is not finite, the loss or the gradient of the first parameter; empty when all is."""
    if not bool(torch.isfinite(loss)):
        return "loss"
    gradients = [p.grad for p in network.parameters() if p.grad is not None]
    if bool(torch.isfinite(torch.stack([gradient.sum() for gradient in gradients]).sum())):
        return ""
    # A sum may overflow where nothing is wrong: each is looked at.
    for name, parameter in network.named_parameters():
        if parameter.grad is not None and not bool(torch.isfinite(parameter.grad).all()):
            return f"gradient of {name}"
    return ""


def train(
    network: nn.Module,
    split: Split,
    recipe: Recipe,
    seed: int,
    *,
    groups: list[dict] | None = None,
    extra: Callable[[], Tensor] | None = None,
    prepare: Callable[[torch.optim.Optimizer], None] | None = None,
    each: Callable[[int], None] | None = None,
    device: str = "cpu",
) -> dict:
    """Trains a network until it is done or something is not finite, and tests it.

    Args:
        groups: of the optimizer's parameters; all in one when None.
        extra: a loss that is added in each step.
        prepare: called with the optimizer before the first step.
        each: called after each step with its number, from 1.

    Returns:
        ``failed`` (the reason, or None), ``step`` (how many were made), ``losses`` (a mean of
        each twentieth) and ``error`` (percent of the test pictures, None after a failure).
    """
    network.to(device).train()
    optimizer = torch.optim.SGD(
        groups if groups is not None else network.parameters(),
        lr=recipe.rate,
        momentum=0.9,
        weight_decay=5e-4,
    )
    if prepare is not None:
        prepare(optimizer)
    drops = [max(1, recipe.steps * k // 7) for k in (2, 4, 6)]
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, drops, gamma=0.1)
    generator = torch.Generator().manual_seed(seed)
    losses, failed, step = [], None, 0
    order = torch.empty(0, dtype=torch.long)
    while step < recipe.steps and failed is None:
        if len(order) < recipe.batch:
            order = torch.randperm(len(split.train), generator=generator)
        chosen, order = order[: recipe.batch], order[recipe.batch :]
        pictures, labels = split.train.batch(chosen)
        pictures = augmented(pictures, generator)
        optimizer.zero_grad()
        try:
            loss = F.cross_entropy(network(pictures.to(device)), labels.to(device))
            (loss if extra is None else loss + extra()).backward()
            failed = reason_of_failure(network, loss) or None
        except (RuntimeError, ValueError) as error:
            # An eigensolver that does not converge, or that is handed what is not finite.
            if not _numerical(error):
                raise
            failed = str(error).splitlines()[0][:120]
        if failed is not None:
            break
        optimizer.step()
        scheduler.step()
        step += 1
        losses.append(float(loss.detach()))
        if each is not None:
            each(step)
    error = None
    if failed is None:
        error = test_error(network, split.test, device, recipe.tested)
        if error is None:
            failed = "the test"
    return {"failed": failed, "step": step, "losses": _twentieths(losses), "error": error}


def _numerical(error: Exception) -> bool:
    words = ("not finite", "linalg.", "converge")
    return isinstance(error, torch.linalg.LinAlgError) or any(w in str(error) for w in words)


def augmented(pictures: Tensor, generator: torch.Generator) -> Tensor:
    """Each picture mirrored half of the time, and the batch shifted by up to 4 px, as for CIFAR."""
    flips = torch.rand(len(pictures), generator=generator) < 0.5
    pictures = torch.where(flips[:, None, None, None], pictures.flip(-1), pictures)
    side = pictures.shape[-1]
    top, left = torch.randint(0, 9, (2,), generator=generator).tolist()
    return F.pad(pictures, (4, 4, 4, 4))[..., top : top + side, left : left + side]


@torch.no_grad()
def test_error(
    network: nn.Module, test: Pictures, device: str, tested: int | None = None
) -> float | None:
    """Percent of the test pictures that are taken for another class; None if one has no answer."""
    network.eval()
    wrong, count = 0, min(tested or len(test), len(test))
    for chosen in (torch.arange(count) * len(test) // count).split(128):
        pictures, labels = test.batch(chosen)
        logits = network(pictures.to(device))
        if not bool(torch.isfinite(logits).all()):
            return None
        wrong += int((logits.argmax(1).cpu() != labels).sum())
    return 100 * wrong / count


def _twentieths(losses: list[float]) -> list[float]:
    if not losses:
        return []
    parts = np.array_split(np.array(losses), min(20, len(losses)))
    return [round(float(part.mean()), 4) for part in parts]


# --- pages ------------------------------------------------------------------------------------


def mean_and_spread(values: Iterable[float]) -> tuple[float, float, float] | None:
    """Smallest, mean and standard deviation; None of none."""
    values = list(values)
    if not values:
        return None
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return min(values), float(np.mean(values)), spread


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    """A Markdown table."""
    return [
        "| " + " | ".join(head) + " |",
        "| " + " | ".join("---" for _ in head) + " |",
        *("| " + " | ".join(row) + " |" for row in rows),
    ]


def write_json(path: Path, report: dict) -> None:
    """The report, with what is not finite as null."""

    def plain(value):
        if isinstance(value, dict):
            return {str(k): plain(v) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return [plain(v) for v in value]
        if isinstance(value, float) and not math.isfinite(value):
            return None
        return value

    path.write_text(json.dumps(plain(report), indent=1) + "\n", encoding="utf-8")
