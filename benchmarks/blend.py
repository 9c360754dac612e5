"""Between two styles, and with the photo's colors: which way is best.

python -m benchmarks.blend [--only blend|color] [--out blend.json]

blend: the means of two codes are mixed linearly, and their roots in four ways. The pictures along
the way are compared by what style losses see, Gram matrices and moments of VGG16 features. A good
way is straight (the ends' distance over the path's length, at most 1), even (its longest step over
its mean step, at least 1), as far from one end as from the other in its middle (0.5), and keeps
contrast and saturation (the middle's over the mean of the ends').

color: how far the result's colors are from the photo's, once strokes are averaged out (CIEDE2000
at an eighth of the size), how much of the painting's luma it keeps (correlation), and how many
pixels are at the limit of what can be shown.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import skimage.color
import skimage.transform
import torch
from torch import Tensor
from tqdm import tqdm

import models
import wct
from app import color, images
from app.look import Look
from app.painter import Painter
from benchmarks.reports import written
from models.losses import gram, moments

ARTWORKS = Path(__file__).resolve().parents[2] / "shared" / "artworks"
LAYERS = ("relu1_1", "relu2_1", "relu3_1")
STEPS = 4


def roots(first: Tensor, second: Tensor, share: float) -> Tensor:
    """The roots themselves, linearly."""
    return (1 - share) * first + share * second


def covariances(first: Tensor, second: Tensor, share: float) -> Tensor:
    """The covariances, linearly: the colors of a mixed crowd."""
    mixed = (1 - share) * first @ first.mT + share * second @ second.mT
    return wct.sqrtm(mixed) @ _turn(first, second, share)


def optimal_transport(first: Tensor, second: Tensor, share: float) -> Tensor:
    """The covariances along the Bures-Wasserstein geodesic."""
    start = first @ first.mT
    root, inverse = wct.sqrtm(start), wct.inv_sqrtm(start)
    move = inverse @ wct.sqrtm(root @ second @ second.mT @ root) @ inverse
    move = (1 - share) * torch.eye(move.shape[-1]) + share * move
    return wct.sqrtm(move @ start @ move) @ _turn(first, second, share)


def geodesic(first: Tensor, second: Tensor, share: float) -> Tensor:
    """The covariances along the affine-invariant geodesic: variances change by factors."""
    start = first @ first.mT
    root, inverse = wct.sqrtm(start), wct.inv_sqrtm(start)
    between = wct.matrix_power(inverse @ second @ second.mT @ inverse, share)
    return wct.sqrtm(root @ between @ root) @ _turn(first, second, share)


WAYS: tuple[Callable[[Tensor, Tensor, float], Tensor], ...] = (
    roots,
    covariances,
    optimal_transport,
    geodesic,
)


def _turn(first: Tensor, second: Tensor, share: float) -> Tensor:
    """The rotation that a learned root holds beside its covariance's symmetric root."""
    turns = [wct.inv_sqrtm(root @ root.mT) @ root for root in (first, second)]
    left, _, right = torch.linalg.svd((1 - share) * turns[0] + share * turns[1])
    return left @ right


def between(
    first: models.StyleCode, second: models.StyleCode, share: float, way: Callable
) -> models.StyleCode:
    """A code on the way from one to another of the statistics network."""
    return models.StyleCode(
        tuple(
            way(a, b, share) if index % 2 else roots(a, b, share)
            for index, (a, b) in enumerate(zip(first.tensors, second.tensors, strict=True))
        )
    )


def style_features(network: models.PerceptualNetwork, picture: Tensor) -> list[Tensor]:
    """Gram matrix and moments of each layer."""
    features = network(picture, LAYERS)
    return [part.flatten() for f in features.values() for part in (gram(f), moments(f))]


def distance(first: list[Tensor], second: list[Tensor]) -> float:
    """Relative distance of style features, layers counting alike."""
    return statistics.fmean(
        float((a - b).norm() / (a.norm() + b.norm())) for a, b in zip(first, second, strict=True)
    )


def contrast_and_saturation(picture: Tensor) -> tuple[float, float]:
    return float(picture.mean(1).std()), float((picture.amax(1) - picture.amin(1)).mean())


@torch.no_grad()
def blend_table(painter: Painter, photos: list[Path], side: int) -> list[dict]:
    """A row for each way: means over pairs of styles and photos."""
    vgg = models.PerceptualNetwork(last=LAYERS[-1])
    pairs = list(itertools.combinations(painter.style_names, 2))
    rows = []
    bar = tqdm(total=len(WAYS) * len(pairs) * len(photos), desc="blend", unit="path")
    for way in WAYS:
        figures = []
        for path, pair in itertools.product(photos, pairs):
            photo = images.to_tensor(images.resize(images.load(path), side).rgb)
            ends = [painter.style(name) for name in pair]
            pictures = [
                painter.network.repaint(photo, between(*ends, step / STEPS, way))
                for step in range(STEPS + 1)
            ]
            features = [style_features(vgg, picture) for picture in pictures]
            steps = [distance(a, b) for a, b in pairwise(features)]
            middle = features[STEPS // 2]
            to_ends = [distance(features[0], middle), distance(middle, features[-1])]
            looks = np.array([contrast_and_saturation(p) for p in pictures])
            kept = looks[STEPS // 2] / looks[[0, -1]].mean(0)
            figures.append(
                {
                    "straight": distance(features[0], features[-1]) / sum(steps),
                    "even": max(steps) / statistics.fmean(steps),
                    "off_middle": abs(to_ends[0] / sum(to_ends) - 0.5),
                    "contrast": kept[0],
                    "saturation": kept[1],
                }
            )
            bar.update()
        means = {key: float(np.mean([f[key] for f in figures])) for key in figures[0]}
        rows.append({"way": way.__name__, **means})
    bar.close()
    return rows


def color_table(painter: Painter, photos: list[Path], side: int) -> list[dict]:
    """A row for each way to keep color, and for none."""
    rows = []
    for way in tqdm((None, *color.WAYS), desc="color", unit="way"):
        figures = []
        for path, name in itertools.product(photos, painter.style_names):
            photo = images.resize(images.load(path), side)
            style = painter.style(name)
            painted = painter.paint(photo, style).rgb
            kept = painter.paint(photo, style, Look(keep_color=way)).rgb
            lab = [_averaged(skimage.color.rgb2lab(rgb)) for rgb in (photo.rgb, kept)]
            # Lightness is the painting's to choose: only hue and chroma are compared.
            lab[1][..., 0] = lab[0][..., 0]
            luma = [skimage.color.rgb2gray(rgb).ravel() for rgb in (painted, kept)]
            figures.append(
                {
                    "color_error": float(skimage.color.deltaE_ciede2000(*lab).mean()),
                    "luma_kept": float(np.corrcoef(*luma)[0, 1]),
                    "at_the_limit": float(((kept == 0) | (kept == 255)).any(-1).mean()),
                }
            )
        means = {key: float(np.mean([f[key] for f in figures])) for key in figures[0]}
        rows.append({"way": str(way), **means})
    return rows


def _averaged(lab: np.ndarray) -> np.ndarray:
    return skimage.transform.downscale_local_mean(lab, (8, 8, 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", default="checkpoints/artworks.safetensors")
    parser.add_argument("--artworks", type=Path, default=ARTWORKS)
    parser.add_argument("--only", choices=("blend", "color"))
    parser.add_argument("--photos", type=int, default=4, help="test photos")
    parser.add_argument("--side", type=int, default=256, help="pixels of their longest side")
    parser.add_argument("--out", type=Path, help="JSON file")
    arguments = parser.parse_args()
    painter = Painter(arguments.checkpoint, device="cpu")
    photos = images.list_pictures(arguments.artworks / "test" / "photo")
    photos = photos[:: max(1, len(photos) // arguments.photos)][: arguments.photos]
    report: dict = {"checkpoint": Path(arguments.checkpoint).name, "photos": len(photos)}
    for part, table in (("color", color_table), ("blend", blend_table)):
        if arguments.only in (None, part):
            report[part] = rows = table(painter, photos, arguments.side)
            print(f"\n{part}\n{'way':18}" + "".join(f"{key:>14}" for key in list(rows[0])[1:]))
            for row in rows:
                way, *figures = row.values()
                print(f"{way:18}" + "".join(f"{figure:14.3f}" for figure in figures))
    written(report, arguments.out)


if __name__ == "__main__":
    main()
