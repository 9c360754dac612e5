"""A painting with less of its own fine texture.

A decoder fills what should be flat with a mesh of few pixels, the same everywhere. What a print
looks printed for goes with it; the paper's grain, which repeats nowhere, takes its place.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from models.finish.filter import Filter, Original
from models.finish.simplification import REACH, simplified


@dataclass(frozen=True)
class Flattening(Filter):
    """Takes texture out of a painting as simplification takes detail out of a photo.

    Without a gradient, so that training leaves it out.
    """

    amount = "flatten"
    has_gradient = False

    share: float

    @classmethod
    def of(cls, original: Original, amount: float) -> Flattening:
        return cls(amount)

    def on(self, picture: Tensor, strength: float) -> Tensor:
        return simplified(picture, strength * self.share)

    @staticmethod
    def reach(before: int, stroke_size: int) -> int:
        return before + REACH
