"""Guided filters: what one image says of another, fitted by a line in every window.

He, Sun and Tang, "Guided Image Filtering", 2013; at a part of the size, as He and Sun, "Fast Guided
Filter", 2015. The lines have the edges of their guide, at whatever size that is.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def lines(guide: Tensor, wanted: Tensor, radius: int, edges: float) -> tuple[Tensor, Tensor]:
    """Slope and offset by which a guide says what is wanted, near every place; differentiable.

    Args:
        guide: (B, 1, h, w).
        wanted: (B, C, h, w).
        radius: pixels to each side of a window's middle. Twice as far away, nothing has a part.
        edges: the variance of a guide's window below which it is plain, and the slope nearer to 0.

    Returns:
        Both (B, C, h, w).
    """
    channels = wanted.shape[1]
    given = torch.cat([guide, guide * guide, wanted, guide * wanted], 1)
    mean, square, wanted, product = _windows(given, radius).split((1, 1, channels, channels), 1)
    slope = (product - mean * wanted) / (square - mean.square() + edges)
    slope, offset = _windows(torch.cat([slope, wanted - slope * mean], 1), radius).chunk(2, 1)
    return slope, offset


def enlarged(maps: Tensor, times: int) -> Tensor:
    """Maps (B, C, h, w) between the middles of their pixels: (B, C, times h, times w)."""
    return F.interpolate(maps, scale_factor=times, mode="bilinear", align_corners=False)


def _windows(maps: Tensor, radius: int) -> Tensor:
    """The mean of every window of maps (B, C, h, w), the border repeated outside."""
    padded = F.pad(maps, (radius,) * 4, mode="replicate")
    return F.avg_pool2d(padded, 2 * radius + 1, stride=1)
