"""The grain of the paper or the canvas.

It has a size on the canvas, as strokes have: a picture of larger strokes has a larger grain, so
that seen whole it has any. Fine grain alone is gone when 2,048 pixels are seen as 256, and what is
left is taken for a photo.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch
from torch import Tensor

from models import periodic
from models.finish.filter import Filter, Original, corner

FINEST = 0.5  # pixels: how far the grain is blurred, a standard deviation
# Enlarged bilinearly, by 2 as by 8, it has lost contrast; with this the standard deviation at full
# size is about what it was.
ENLARGED = 1.25


@dataclass(frozen=True)
class Grain(Filter):
    """Adds grain, the same to all three colors.

    Args:
        grain: (B, 1, H, W) or one for all, what is added.
    """

    amount = "grain"

    grain: Tensor

    @classmethod
    def of(cls, original: Original, amount: float) -> Grain:
        size = original.stroke_size
        amount *= ENLARGED if size > 1 else 1
        return cls(amount * periodic.cut(paper(), original.photo, original.origins, size))

    def on(self, picture: Tensor, strength: float) -> Tensor:
        return (picture + strength * corner(self.grain, picture)).clamp(-1, 1)


@functools.cache
def paper() -> Tensor:
    """Grain of mean 0 and standard deviation 1, (1, 1, SIDE, SIDE), on a canvas that repeats."""
    side = periodic.SIDE
    draw = torch.Generator().manual_seed(periodic.SEED + 1)
    noise = torch.randn(1, 1, side, side, generator=draw)
    return periodic.standardized(periodic.blurred(noise, FINEST))
