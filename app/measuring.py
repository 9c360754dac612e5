"""What is measured of a checkpoint: judges look at what it makes of photos."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from tqdm import tqdm

import models
from app import images
from app.dataset import PictureFolder
from models.classifier import Verdict
from models.judge import LinearJudge, PooledFeatures
from models.measures import LPIPS, edge_correlation, sharpness

JUDGED_AT_ONCE = 16  # pictures
SHEET_PHOTOS, SHEET_SIDE = 6, 128


@dataclass(frozen=True)
class Judges:
    """Who looks at the pictures.

    Attributes:
        classifier: says the class; its backbone gives the features of the Fréchet distance.
        second: another judge, and the features that it looks at.
        lpips: None where it could not be had.
        lpips_reason: why not.
    """

    classifier: models.StyleClassifier
    second: tuple[LinearJudge, PooledFeatures] | None
    lpips: LPIPS | None
    lpips_reason: str

    def second_classes(self, pictures: Tensor) -> list[str]:
        """What the second judge says of pictures (B, 3, H, W); empty without one."""
        if self.second is None:
            return []
        judge, backbone = self.second
        return [judge.classes[i] for i in judge(backbone(pictures)).argmax(1).tolist()]

    def classes(self, verdict: Verdict) -> list[str]:
        """The most probable class of each picture."""
        return [self.classifier.classes[i] for i in verdict.probabilities.argmax(1).tolist()]


@dataclass
class Judged:
    """What was measured on the pictures of one class or style."""

    called: list[str] = field(default_factory=list)
    second: list[str] = field(default_factory=list)
    features: list[Tensor] = field(default_factory=list)
    sharpness: list[float] = field(default_factory=list)
    edges: list[float] = field(default_factory=list)
    lpips: list[float] = field(default_factory=list)

    def share(self, name: str) -> float:
        """Of the pictures that were called ``name``."""
        return self.called.count(name) / len(self.called)

    def second_share(self, name: str) -> float:
        return self.second.count(name) / len(self.second)


def judge_real(
    judges: Judges, folders: Mapping[str, PictureFolder], device: torch.device
) -> dict[str, Judged]:
    """The judges on real pictures, a class a folder."""
    result = {}
    total = sum(len(folder) for folder in folders.values())
    with tqdm(total=total, desc="judging real pictures", unit="picture") as bar:
        for name, folder in folders.items():
            judged = result[name] = Judged()
            for batch in _same_size(folder):
                pictures = torch.cat([folder.tensor(index) for index in batch]).to(device)
                verdict = judges.classifier.judge(pictures)
                judged.called += judges.classes(verdict)
                judged.second += judges.second_classes(pictures)
                judged.features.append(verdict.features)
                bar.update(len(batch))
    return result


def _same_size(folder: PictureFolder) -> list[list[int]]:
    """The indices of a folder in batches of pictures of one size."""
    sizes = defaultdict(list)
    for index in range(len(folder)):
        sizes[folder.image(index).size].append(index)
    return [
        indices[start : start + JUDGED_AT_ONCE]
        for indices in sizes.values()
        for start in range(0, len(indices), JUDGED_AT_ONCE)
    ]


@dataclass
class Evaluation:
    """What was measured of one checkpoint.

    Attributes:
        styles: a style's name -> its pictures.
        seconds: of each picture, batch 1, its photo's encoding included.
        sheet: a style's name -> its first pictures, uint8 (side, side, 3).
    """

    styles: dict[str, Judged]
    seconds: list[float]
    sheet: dict[str, list[np.ndarray]]


@torch.no_grad()
def evaluate(
    checkpoint: models.Checkpoint, photos: Sequence[Tensor], judges: Judges, title: str
) -> Evaluation:
    """Paints every photo (1, 3, H, W) in every style, with the style's first code.

    A photo is encoded once for all styles of one ground; pictures are painted one by one, as
    someone who waits for one does, and judged many at a time.
    """
    network = checkpoint.network
    codes = {name: codes[0] for name, codes in checkpoint.styles.items()}
    result = Evaluation({name: Judged() for name in codes}, [], defaultdict(list))
    waiting: list[tuple[str, Tensor, Tensor]] = []
    with tqdm(total=len(photos) * len(codes), desc=title, unit="picture") as bar:
        for number, photo in enumerate(photos):
            encoded: dict[models.Ground, tuple[models.Content, float]] = {}
            for name, code in codes.items():
                if code.ground not in encoded:
                    start = time.perf_counter()
                    content = network.encode_photo(photo, ground=code.ground)
                    encoded[code.ground] = content, time.perf_counter() - start
                content, encoding = encoded[code.ground]
                start = time.perf_counter()
                picture = network.repaint(photo, code, content=content)
                # Reading a number waits for the device.
                float(picture[0, 0, 0, 0])
                result.seconds.append(encoding + time.perf_counter() - start)
                waiting.append((name, photo, picture))
                if number < SHEET_PHOTOS:
                    result.sheet[name].append(thumbnail(picture))
                bar.update()
                if len(waiting) == JUDGED_AT_ONCE:
                    _judge(judges, waiting, result.styles)
                    waiting.clear()
    if waiting:
        _judge(judges, waiting, result.styles)
    return result


def _judge(
    judges: Judges, painted: Sequence[tuple[str, Tensor, Tensor]], styles: Mapping[str, Judged]
) -> None:
    names, photos, pictures = zip(*painted, strict=True)
    photo, picture = torch.cat(photos), torch.cat(pictures)
    verdict = judges.classifier.judge(picture)
    columns = {
        "called": judges.classes(verdict),
        "second": judges.second_classes(picture),
        "features": list(verdict.features[:, None]),
        "sharpness": sharpness(picture).tolist(),
        "edges": edge_correlation(photo, picture).tolist(),
        "lpips": [] if judges.lpips is None else judges.lpips(photo, picture).tolist(),
    }
    for kind, values in columns.items():
        # A judge that is not there says nothing, of no picture.
        for name, value in zip(names, values, strict=False):
            getattr(styles[name], kind).append(value)


def thumbnail(picture: Tensor) -> np.ndarray:
    """A picture (1, 3, H, W) for the contact sheet, uint8 (SHEET_SIDE, SHEET_SIDE, 3)."""
    image = Image.fromarray(images.to_rgb(picture))
    return np.asarray(image.resize((SHEET_SIDE, SHEET_SIDE), Image.Resampling.LANCZOS))
