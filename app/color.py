"""Two ways to keep a photo's colors in its painting (Gatys et al., 2016, "Preserving Color").

``luminance``: every pixel takes its lightness from the painting and its color from the photo.
``matched``: the painting's colors are moved, by one affine map, so that their mean and covariance
are the photo's. The painting they gave their method beforehand; a style code no longer has one,
so here it is the result that is matched.

Pictures are (1, 3, H, W) in [-1, 1], sRGB.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

import wct
from models import statistics
from models.measures import gray

WAYS = ("luminance", "matched")

# Added to the variance of the colors, in [-1, 1]: two levels of 255. A gray or flat painting
# would else have its noise blown up to the photo's colors.
_EPS = (2 / 127.5) ** 2


def kept(
    way: str | None,
    photo: Tensor,
    painted: Tensor,
    weights: Tensor | None = None,
    held: Matching | None = None,
) -> Tensor:
    """The painting with its photo's colors, in one of WAYS; None: as it was painted.

    Args:
        weights: as in :func:`matching`.
        held: the map of the colors; None: the one that these pictures have.
    """
    if way == "luminance":
        return luminance(photo, painted)
    if way == "matched":
        return (held or matching(photo, painted, weights))(painted)
    return painted


def luminance(photo: Tensor, painted: Tensor) -> Tensor:
    """The painting's luma with the photo's chroma, in YCbCr, clamped to what can be shown."""
    # With Cb and Cr kept, all three channels change by what Y changes.
    return (photo + gray(painted - photo)).clamp(-1, 1)


@dataclass(frozen=True)
class Matching:
    """The affine map of colors that gives a painting the mean and covariance of its photo.

    Args:
        matrix: (1, 1, 3, 3).
        mean_in, mean_out: (1, 1, 3, 1).
    """

    matrix: Tensor
    mean_in: Tensor
    mean_out: Tensor

    def __call__(self, painted: Tensor) -> Tensor:
        return wct.transform(painted, self.matrix, self.mean_in, self.mean_out).clamp(-1, 1)


def matching(photo: Tensor, painted: Tensor, weights: Tensor | None = None) -> Matching:
    """The map that gives the painting's colors the photo's mean and covariance.

    Of all linear maps that do it, the one that moves the colors least: the optimal transport
    between two Gaussians, R^(-1) (R C R)^(1/2) R^(-1) with R the root of the painting's covariance
    and C the photo's.

    Args:
        photo, painted: (B, 3, H, W), a picture or samples of one.
        weights: (B, 1, H, W), how much each pixel counts; all the same by default.
    """
    with statistics.record(weights, pool=True):
        mean_out, target = statistics.mean_and_covariance(photo, 1)
        mean_in, covariance = statistics.mean_and_covariance(painted, 1)
    # Colors that hardly vary in one direction have an inverse root of 60: in double precision, and
    # on the CPU, since not every device has that.
    noise = _EPS * torch.eye(3, dtype=torch.float64)
    target, covariance = target.cpu().double() + noise, covariance.cpu().double() + noise
    root, inverse = wct.sqrtm(covariance), wct.inv_sqrtm(covariance)
    matrix = inverse @ wct.sqrtm(root @ target @ root) @ inverse
    return Matching(matrix.to(mean_in), mean_in, mean_out)
