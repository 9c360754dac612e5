"""A sheet of real photos across and built-in styles down, all made from what packages ship.

The photos come with scikit-image and scikit-learn; the rest is what the checkpoint paints.

python -m benchmarks.sample_sheet --checkpoint checkpoints/artworks.safetensors
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import skimage.data
import torch
from PIL import Image
from sklearn.datasets import load_sample_images

import models
from app import images

SIDE = 220  # pixels of a square on the sheet
GAP = 6


def photos() -> list[np.ndarray]:
    """Six real photos, uint8 (H, W, 3)."""
    china, flower = load_sample_images().images
    return [
        china,
        skimage.data.rocket(),
        skimage.data.chelsea(),
        skimage.data.coffee(),
        flower,
        skimage.data.astronaut(),
    ]


def square(rgb: np.ndarray, side: int = SIDE) -> torch.Tensor:
    """The middle square of a photo, (1, 3, side, side) in [-1, 1]."""
    image = Image.fromarray(np.ascontiguousarray(rgb))
    short = min(image.size)
    left, top = (image.width - short) / 2, (image.height - short) / 2
    box = (left, top, left + short, top + short)
    small = image.resize((side, side), Image.Resampling.LANCZOS, box=box)
    return images.to_tensor(np.asarray(small))


def sheet(checkpoint: models.Checkpoint, codes: int = 1) -> np.ndarray:
    """Photos across, ``codes`` codes of every style down: uint8 (H, W, 3) on white."""
    row = [square(photo) for photo in photos()]
    rows = [row]
    for several in checkpoint.styles.values():
        for code in several[:codes]:
            rows.append([checkpoint.network.repaint(photo, code) for photo in row])
    step = SIDE + GAP
    page = torch.ones(1, 3, len(rows) * step + GAP, len(row) * step + GAP)
    for i, pictures in enumerate(rows):
        for j, picture in enumerate(pictures):
            top, left = GAP + i * step, GAP + j * step
            page[..., top : top + SIDE, left : left + SIDE] = picture
    return images.to_rgb(page)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", default="checkpoints/artworks.safetensors")
    parser.add_argument("--codes", type=int, default=1, help="codes a style")
    parser.add_argument("--out", type=Path, default=Path("checkpoints/samples.jpg"))
    arguments = parser.parse_args()
    checkpoint = models.load_checkpoint(arguments.checkpoint)
    images.save(images.Picture(sheet(checkpoint, arguments.codes)), arguments.out)
    print(f"{arguments.out}: {', '.join(checkpoint.styles)}, top to bottom")


if __name__ == "__main__":
    main()
