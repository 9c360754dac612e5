"""What each filter has, and what it may take from the photo."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor

from models.measures import gray
from models.periodic import Origins


@dataclass(frozen=True)
class Original:
    """The photos that are painted, as filters read them.

    Args:
        photo: (B, 3, H, W) in [-1, 1], simplified where the style wants it.
        origins: where the photos lie on the canvas, see :mod:`models.periodic`.
        stroke_size: how many times larger than the network's own the strokes are.
    """

    photo: Tensor
    origins: Origins = ((0, 0),)
    stroke_size: int = 1

    @functools.cached_property
    def light(self) -> Tensor:
        """The photos' luma, (B, 1, H, W): computed once and shared by the filters that need it."""
        return gray(self.photo)

    @functools.cached_property
    def reduced(self) -> Original:
        """The same at the network's own scale, which larger strokes are painted at."""
        size = self.stroke_size
        if size == 1:
            return self
        return Original(
            reduced(self.photo, size), [(y // size, x // size) for y, x in self.origins]
        )


@dataclass(frozen=True)
class Filter(ABC):
    """One thing that is done to a photo before the network, or to a painting after it.

    A subclass is a frozen dataclass that holds what it has taken from the photo. How much of it is
    done is one number, its amount.

    Attributes:
        amount: the name of that number: a field of :class:`models.Ground`, or ``stroke_size``.
        nothing: the number up to which nothing is done.
        has_gradient: whether a painting's gradient goes through.
    """

    amount: ClassVar[str]
    nothing: ClassVar[float] = 0.0
    has_gradient: ClassVar[bool] = True

    @classmethod
    @abstractmethod
    def of(cls, original: Original, amount: float) -> Filter:
        """The filter for these photos, of an amount above :attr:`nothing`."""

    @abstractmethod
    def on(self, picture: Tensor, strength: float) -> Tensor:
        """Pictures (B, 3, h, w) in [-1, 1], filtered.

        They may be smaller than the photos: they are then the photos' upper left corner.

        Args:
            strength: 0 to 1, how far the picture is from the photo to the painting.
        """

    @staticmethod
    def reach(before: int, stroke_size: int) -> int:
        """How far from a filtered pixel something may lie that has a part in it, pixels.

        Args:
            before: how far it was in the picture that is filtered.
            stroke_size: how many times larger than that one a picture becomes.
        """
        return before

    @property
    def tensors(self) -> list[Tensor]:
        """What it has taken from the photo, and keeps in memory."""
        values = (getattr(self, field.name) for field in fields(self))
        return [value for value in values if isinstance(value, Tensor)]


def reduced(image: Tensor, size: int) -> Tensor:
    """Images (B, C, H, W), a pixel for the mean of size x size of theirs.

    At the right and at the bottom border, the mean of those that are left.
    """
    return image if size == 1 else F.avg_pool2d(image, size, ceil_mode=True)


def corner(maps: Tensor, picture: Tensor) -> Tensor:
    """The upper left part of maps (B, C, H, W) that is as large as a picture."""
    height, width = picture.shape[-2:]
    return maps[..., :height, :width]
