"""How light and dark a painting is where, after its photo: the night stays dark.

Whitening takes out how bright a photo is, and the coloring puts the paintings' brightness in. The
largest area of a photo, a night sky say, becomes as light as the largest areas of paintings are,
and a halo lies along its edges. So a share of the difference in luma between photo and painting is
given back. It goes through a guided filter first, so that it has the photo's edges and nothing of
the painting's strokes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from models.configuration import STRIDE
from models.finish import guided
from models.finish.filter import Filter, Original, corner
from models.measures import gray

CELL = STRIDE  # pixels a side, whose mean is taken; tiles begin at multiples of it
RADIUS = 2  # cells to each side of a window's middle
EDGES = 0.01  # of luma in [-1, 1]: windows of less variance than this are plain

# Pixels: what is farther from a pixel than this has no part in what is added to it. The guided
# filter sees two windows, enlarging its result half a cell more, and a pixel's own cell is one.
REACH = CELL * (2 * RADIUS + 2)


@dataclass(frozen=True)
class Tone(Filter):
    """Moves a painting's luma towards the photo's.

    Args:
        light: the photo's luma, (B, 1, H, W).
        share: how far, 0 to 1, (1, 1, 1, 1).
    """

    amount = "tone"

    light: Tensor
    share: Tensor

    @classmethod
    def of(cls, original: Original, amount: float) -> Tone:
        return cls(original.light, original.photo.new_full((1, 1, 1, 1), amount))

    def on(self, picture: Tensor, strength: float) -> Tensor:
        return toned(picture, corner(self.light, picture), strength * self.share)

    @staticmethod
    def reach(before: int, stroke_size: int) -> int:
        return before + REACH


def toned(picture: Tensor, light: Tensor, share: Tensor | float) -> Tensor:
    """Pictures (B, 3, H, W) in [-1, 1], their luma a share of the way to another; differentiable.

    The chroma stays, except where a value would leave the range.

    Args:
        light: the other luma, (B, 1, H, W).
        share: 0 to 1, one for all or (B, 1, 1, 1).
    """
    height, width = picture.shape[-2:]
    missing = light - gray(picture)
    cells = F.avg_pool2d(torch.cat([light, missing], 1), CELL, ceil_mode=True)
    guide, wanted = cells.split(1, 1)
    line = torch.cat(guided.lines(guide, wanted, RADIUS, EDGES), 1)
    slope, offset = guided.enlarged(line, CELL)[..., :height, :width].split(1, 1)
    return (picture + share * torch.addcmul(offset, slope, light)).clamp(-1, 1)
