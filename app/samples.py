"""Sheets of pictures that show what a network makes of photos."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

import models
from app import images
from app.dataset import PictureFolder

SHEET_SIZE, SHEET_PHOTOS = 192, 6


@torch.no_grad()
def sample_sheet(
    network: models.Repainter,
    photos: PictureFolder,
    rows: Sequence[tuple[PictureFolder, int, models.StyleCode]],
    path: Path,
) -> None:
    """Writes a PNG of photos across and styles down, each row led by a painting.

    Args:
        rows: the painting, as its folder and number there, and the code that the row is painted
            with.
    """
    device = next(network.parameters()).device
    count = min(SHEET_PHOTOS, len(photos))
    row = [photos.square(i * len(photos) // count, SHEET_SIZE).to(device) for i in range(count)]
    blank = torch.ones_like(row[0])
    lines = [torch.cat([blank, *row], -1)]
    for folder, index, code in rows:
        painting = folder.square(index, SHEET_SIZE).to(device)
        lines.append(torch.cat([painting, *(network.repaint(x, code) for x in row)], -1))
    sheet = images.Picture(images.to_rgb(torch.cat(lines, -2)), name=path.name)
    images.save(sheet, path, "png")
