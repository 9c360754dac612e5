"""The photo's own colors, added to the painting's."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from models.finish.filter import Filter, Original, corner
from models.measures import gray


@dataclass(frozen=True)
class Tint(Filter):
    """Adds a part of the photo's chroma.

    Args:
        colors: (B, 3, H, W), what is added.
    """

    amount = "tint"

    colors: Tensor

    @classmethod
    def of(cls, original: Original, amount: float) -> Tint:
        return cls(amount * chroma(original.photo))

    def on(self, picture: Tensor, strength: float) -> Tensor:
        return (picture + strength * corner(self.colors, picture)).clamp(-1, 1)


def chroma(photo: Tensor) -> Tensor:
    """Photos (B, 3, H, W) less their luma: added to a picture, it leaves the picture's luma."""
    return photo - gray(photo)
