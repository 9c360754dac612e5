"""Sheets of pictures that show what a network makes of photos."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont

import models
from app import images
from app.dataset import PictureFolder

SHEET_SIZE, SHEET_PHOTOS = 192, 6
LABEL_SIZE = 14  # pixels


@torch.no_grad()
def sample_sheet(
    network: models.Repainter,
    photos: PictureFolder,
    rows: Sequence[tuple[PictureFolder, int, models.StyleCode]],
    path: Path,
    labels: Sequence[str] = (),
) -> None:
    """Writes a PNG of photos across and styles down, each row led by a painting.

    Args:
        rows: the painting, as its folder and number there, and the code that the row is painted
            with.
        labels: a line of text a row, written on its painting.
    """
    device = next(network.parameters()).device
    count = min(SHEET_PHOTOS, len(photos))
    row = [photos.square(i * len(photos) // count, SHEET_SIZE).to(device) for i in range(count)]
    blank = torch.ones_like(row[0])
    lines = [torch.cat([blank, *row], -1)]
    for folder, index, code in rows:
        painting = folder.square(index, SHEET_SIZE).to(device)
        lines.append(torch.cat([painting, *(network.repaint(x, code) for x in row)], -1))
    rgb = images.to_rgb(torch.cat(lines, -2))
    if labels:
        rgb = _labeled(rgb, labels)
    images.save(images.Picture(rgb, name=path.name), path, "png")


def _labeled(rgb: np.ndarray, labels: Sequence[str]) -> np.ndarray:
    """The sheet with a line of text below on each row's painting."""
    sheet = Image.fromarray(rgb)
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(LABEL_SIZE)
    for number, label in enumerate(labels, 1):
        corner = (4, (number + 1) * SHEET_SIZE - LABEL_SIZE - 4)
        draw.rectangle(draw.textbbox(corner, label, font), fill="white")
        draw.text(corner, label, "black", font)
    return np.asarray(sheet)
