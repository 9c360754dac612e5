"""The pictures that a classifier learns from: cropped and roughened, and computed in part once."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from tqdm import tqdm

from app import augment
from app.dataset import PictureFolder
from app.terminal import typed
from models.whole_file import reason_of, save_tensors

SMALLEST_SCALE = 0.75  # of pictures before they are cropped
RECOLORED_SHARE = 0.3  # of the class photo: with a painting's colors it is still a photo
PHOTO = "photo"
VIEWS_AT_ONCE = 16


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
    maps = torch.empty(0)
    with torch.no_grad(), tqdm(total=len(order), desc="frozen part", unit="view") as bar:
        for start in range(0, len(order), VIEWS_AT_ONCE):
            part = order[start : start + VIEWS_AT_ONCE]
            pictures = torch.cat([examples.view(examples.classes[y], i) for y, i in part])
            result = frozen(pictures.to(device)).half().cpu()
            if start == 0:
                maps = torch.empty((len(order), *result.shape[1:]), dtype=torch.half)
            maps[start : start + len(part)] = result
            bar.update(len(part))
    return Views(maps, torch.tensor([label for label, _ in order]))


def kept_views(path: Path, settings: Mapping[str, Any], compute: Callable[[], Views]) -> Views:
    """Views from the file that a run of the same settings left, else computed and left there.

    The file only saves time: one that is cut short or can't be written is said, and no error.
    """
    found = _read_views(path, settings) if path.is_file() else None
    if found is not None:
        return found
    views = compute()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save_tensors({"settings": dict(settings), "maps": views.maps, "labels": views.labels}, path)
    except OSError as error:
        tqdm.write(f"note: {path}: not kept for the next run ({reason_of(error)})", sys.stderr)
    return views


def _read_views(path: Path, settings: Mapping[str, Any]) -> Views | None:
    """None where the file is of other settings, or can't be read."""
    try:
        # A large file is mapped; torch can do that only where its name is Unicode.
        if typed(str(path)) == str(path):
            found = torch.load(path, weights_only=True, mmap=True)
        else:
            with open(path, "rb") as file:
                found = torch.load(file, weights_only=True)
        if found["settings"] != settings:
            return None
        views = Views(found["maps"], found["labels"])
        if len(views.maps) != len(views.labels) or views.maps.ndim != 4:
            raise ValueError("its views and labels don't fit")
    except Exception as error:  # a cut zip, a foreign pickle, ...: whatever it is, it is made anew
        tqdm.write(
            f"note: {path}: can't be used, and is made anew ({reason_of(error)})", sys.stderr
        )
        return None
    return views


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
