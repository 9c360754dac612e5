"""What Gram losses alone could reach: pixels optimized until a painting's are met, then judged.

A network can't do better on the perceptual losses than its pictures' own pixels, moved freely. If
these still pass for another painter's or a photo, then more steps, more weight or a larger network
on the same losses will not help.

python -m benchmarks.gram_ceiling --out out/gram_ceiling.json
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch import Tensor
from tqdm import tqdm

import models
from app import images, shipped
from app.choosing import spread
from app.dataset import PictureFolder
from benchmarks.reports import written
from benchmarks.stylize_quality import ARTWORKS, CLASSES
from models import losses

STYLES = tuple(name for name in CLASSES if name != "photo")
CONTENT_LAYER = "relu3_3"
STYLE_LAYERS = {"relu1_1": 0.5, "relu2_1": 1.0, "relu3_1": 1.5, "relu4_1": 1.5}
CONTENT, STYLE, VARIATION = 0.4, 5.0, 1.0  # weights
RATE = 0.04
CANDIDATES = 24  # paintings a style; the one that the judge is surest of is the reference
SIDE = 192  # pixels


def surest(folder: PictureFolder, judge: models.StyleClassifier, label: int) -> Tensor:
    """The painting, (1, 3, H, W), that the judge is surest of."""
    pictures = [folder.tensor(i) for i in spread(CANDIDATES, len(folder))]
    return max(pictures, key=lambda x: float(judge.judge(x).probabilities[0, label]))


def optimize(
    photos: Tensor, painting: Tensor, perceptual: models.PerceptualNetwork, steps: int
) -> tuple[Tensor, dict[str, float]]:
    """The photos (B, 3, H, W), their pixels moved towards a painting's statistics; last losses."""
    with torch.no_grad():
        content = perceptual(photos, (CONTENT_LAYER,))[CONTENT_LAYER]
        style = perceptual(painting, tuple(STYLE_LAYERS))
        style = {layer: x.expand(len(photos), -1, -1, -1) for layer, x in style.items()}
    pixels = photos.clone().requires_grad_(True)
    optimizer = torch.optim.Adam([pixels], lr=RATE)
    terms: dict[str, Tensor] = {}
    for _ in range(steps):
        features = perceptual(pixels, (CONTENT_LAYER, *STYLE_LAYERS))
        terms = {
            "content": losses.content_loss(features[CONTENT_LAYER], content),
            "style": losses.style_loss(features, style, STYLE_LAYERS),
            "variation": losses.total_variation(pixels),
        }
        total = CONTENT * terms["content"] + STYLE * terms["style"] + VARIATION * terms["variation"]
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        with torch.no_grad():
            pixels.clamp_(-1, 1)
    return pixels.detach(), {name: float(term.detach()) for name, term in terms.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--artworks", type=Path, default=ARTWORKS)
    parser.add_argument("--photos", type=int, default=2, help="training photos")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--out", type=Path, help="JSON file; the pictures go beside it as PNG")
    arguments = parser.parse_args()
    judge, _ = models.load_classifier(shipped.CLASSIFIER)
    perceptual = models.PerceptualNetwork("hed")
    train = arguments.artworks / "train"
    folder = PictureFolder(train / "photo")
    photos = torch.cat([folder.square(i, SIDE) for i in spread(arguments.photos, len(folder))])
    report: dict = {"photos": arguments.photos, "steps": arguments.steps, "styles": {}}
    rows = [photos]
    for name in tqdm(STYLES, unit="style"):
        label = judge.classes.index(name)
        painting = surest(PictureFolder(train / name), judge, label)
        pictures, terms = optimize(photos, painting, perceptual, arguments.steps)
        called = [judge.classes[i] for i in judge.judge(pictures).probabilities.argmax(1)]
        report["styles"][name] = terms | {"called": called}
        rows.append(pictures)
    print(f"{'style':<10} {'style loss':>10} {'content':>8}  called")
    for name, row in report["styles"].items():
        print(f"{name:<10} {row['style']:>10.3f} {row['content']:>8.3f}  {' '.join(row['called'])}")
    written(report, arguments.out)
    if arguments.out:
        sheet = torch.cat([torch.cat(list(row), -1) for row in rows], -2)[None]
        picture = images.Picture(images.to_rgb(sheet))
        images.save(picture, arguments.out.with_suffix(".png"))


if __name__ == "__main__":
    main()
