"""Guided filters: an image predicted from another, its guide, by a line fitted in every window.

He, Sun and Tang, "Guided Image Filtering", 2013. The prediction has the edges of the guide. Slopes
and offsets are smooth, so that they may be fitted at a smaller size and enlarged for a guide at
full size: He and Sun, "Fast Guided Filter", 2015.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def lines(guide: Tensor, wanted: Tensor, radius: int, edges: float) -> tuple[Tensor, Tensor]:
    """At every place the line, slope * guide + offset, that fits an image best; differentiable.

    Args:
        guide: (B, 1, h, w).
        wanted: the image that is fitted, (B, C, h, w).
        radius: pixels to each side of a window's middle. A place depends on what is up to twice as
            far away.
        edges: windows where the guide's variance is below this count as plain: slopes go to 0.

    Returns:
        Slopes and offsets, both (B, C, h, w).
    """
    channels = wanted.shape[1]
    given = torch.cat([guide, guide * guide, wanted, guide * wanted], 1)
    mean, square, wanted, product = windows(given, radius).split((1, 1, channels, channels), 1)
    slope = (product - mean * wanted) / (square - mean.square() + edges)
    slope, offset = windows(torch.cat([slope, wanted - slope * mean], 1), radius).chunk(2, 1)
    return slope, offset


def planes(guide: Tensor, wanted: Tensor, radius: int, edges: float) -> tuple[Tensor, Tensor]:
    """As :func:`lines`, with a guide in colors: slopes for each of its three channels.

    Args:
        guide: (B, 3, h, w).
        wanted: (B, C, h, w).

    Returns:
        Slopes (B, 3, C, h, w), by the guide's channel first, and offsets (B, C, h, w).
    """
    channels = wanted.shape[1]
    rows, columns = (0, 0, 0, 1, 1, 2), (0, 1, 2, 1, 2, 2)  # of a symmetric matrix
    squares = guide[:, rows] * guide[:, columns]
    products = (guide[:, :, None] * wanted[:, None]).flatten(1, 2)
    means = windows(torch.cat([guide, wanted, squares, products], 1), radius)
    mean, level, squares, products = means.split((3, channels, 6, 3 * channels), 1)
    squares = squares - mean[:, rows] * mean[:, columns]
    a, b, c, d, e, f = squares.unbind(1)
    a, d, f = a + edges, d + edges, f + edges
    # Of a matrix 3 x 3 the cofactors are faster than a solver, and positive definite it is.
    first = (d * f - e * e, c * e - b * f, b * e - c * d)  # of the first row
    others = (a * f - c * c, b * c - a * e, a * d - b * b)
    inverse = torch.stack((*first, *others), 1)
    inverse = inverse / (a * first[0] + b * first[1] + c * first[2])[:, None]
    cross = products.unflatten(1, (3, channels)) - mean[:, :, None] * level[:, None]
    order = ((0, 1, 2), (1, 3, 4), (2, 4, 5))
    slope = torch.stack(
        [sum(inverse[:, k, None] * cross[:, j] for j, k in enumerate(row)) for row in order], 1
    )
    offset = level - (slope * mean[:, :, None]).sum(1)
    found = windows(torch.cat([slope.flatten(1, 2), offset], 1), radius)
    return found[:, : 3 * channels].unflatten(1, (3, channels)), found[:, 3 * channels :]


def enlarged(maps: Tensor, times: int) -> Tensor:
    """Maps (B, C, h, w) enlarged bilinearly: (B, C, times h, times w)."""
    # Channels as images: of three together torch rounds otherwise with another number of threads.
    each = maps.flatten(0, 1)[:, None]
    whole = F.interpolate(each, scale_factor=times, mode="bilinear", align_corners=False)
    return whole.view(*maps.shape[:2], *whole.shape[-2:])


def smoothly_enlarged(maps: Tensor, times: int) -> Tensor:
    """Maps (B, C, h, w) enlarged by cubic curves (of the steepness -0.5): (B, C, times h, times w).

    At the border curves go through the pixels that there are.
    """
    if times == 1:
        return maps
    each = maps.flatten(0, 1)[:, None]
    # Enlarging has no aliases: what it switches is the separable way, in a third of the time.
    whole = F.interpolate(
        each, scale_factor=times, mode="bicubic", align_corners=False, antialias=True
    )
    return whole.view(*maps.shape[:2], *whole.shape[-2:])


def windows(maps: Tensor, radius: int) -> Tensor:
    """The mean of every window of maps (B, C, h, w), the border repeated outside."""
    maps, side = F.pad(maps, (radius,) * 4, mode="replicate"), 2 * radius + 1
    return _sums(_sums(maps, side, -1), side, -2) / side**2


def _sums(maps: Tensor, side: int, dim: int) -> Tensor:
    """The sums of so many neighbors along a dimension, which becomes shorter by side - 1.

    Out of sums of 1, 2, 4, ... neighbors: for 13 it takes a tenth of avg_pool2d's time.

    Args:
        side: odd.
    """
    length, start, width = maps.shape[dim] - side + 1, 1, 1
    total = maps.narrow(dim, 0, length)
    while 2 * width <= side:
        pairs = maps.shape[dim] - width
        maps = maps.narrow(dim, 0, pairs) + maps.narrow(dim, width, pairs)
        width *= 2
        if side & width:
            total = total + maps.narrow(dim, start, length)
            start += width
    return total
