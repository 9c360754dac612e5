"""What is kept of a painting: the tensors that color a photo's features."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from models.finish import Ground


@dataclass(frozen=True)
class StyleCode:
    """The style of one or more paintings, as a network of one coloring reads it.

    ``coloring="statistics"``: a mean (B, G, n, 1) and a root (B, G, n, n) for every hop, in order.
    ``coloring="mlp"``: one code (B, C).

    Attributes:
        ground: what it wants of a photo, one for all of the batch.
    """

    tensors: tuple[Tensor, ...]
    ground: Ground = field(default_factory=Ground)

    def to(self, device: str | torch.device) -> StyleCode:
        """The same code on another device, in float32."""
        tensors = tuple(t.to(device=device, dtype=torch.float32) for t in self.tensors)
        return StyleCode(tensors, self.ground)

    def detach(self) -> StyleCode:
        """The same code, cut from the graph that made it."""
        return StyleCode(tuple(t.detach() for t in self.tensors), self.ground)

    @staticmethod
    def cat(codes: Sequence[StyleCode]) -> StyleCode:
        """Codes of one ground, one after the other in one batch.

        Raises:
            ValueError: codes of several grounds.
        """
        grounds = {code.ground for code in codes}
        if len(grounds) > 1:
            raise ValueError(f"codes of one batch have one ground, got {grounds}")
        return StyleCode(
            tuple(torch.cat(parts) for parts in zip(*(c.tensors for c in codes), strict=True)),
            *grounds,
        )

    @staticmethod
    def blend(codes: Sequence[StyleCode], weights: Sequence[float]) -> StyleCode:
        """One code between several of one batch size, each with its weight.

        The weights are divided by their sum. Means, roots and the mlp's codes are mixed linearly.
        Where roots commute, that is the optimal transport between the covariances; unlike ways
        that rebuild a symmetric root, it also keeps the rotation in a learned one, so that all the
        weight on a code gives that code. Measured (benchmarks/blend.py), its path is as straight
        as optimal transport's and more even than that of linear covariances; the affine-invariant
        geodesic is the most even, but fades colors by a tenth on its way. Grounds are mixed, too.

        Raises:
            ValueError: no codes, another number of weights, weights that are negative, not finite
                or all zero, or codes of different networks.
        """
        total = sum(weights)
        if not codes or len(codes) != len(weights):
            raise ValueError(f"{len(codes)} codes can't be blended with {len(weights)} weights")
        if not (math.isfinite(total) and total > 0 and min(weights) >= 0):
            raise ValueError(f"weights must be at least 0, and some above, got {list(weights)}")
        shapes = {tuple(t.shape for t in code.tensors) for code in codes}
        if len(shapes) > 1:
            raise ValueError("these codes are not of one network")
        shares = [weight / total for weight in weights]

        def mixed(values: Iterable) -> Any:
            return sum(share * value for share, value in zip(shares, values, strict=True))

        tensors = tuple(map(mixed, zip(*(code.tensors for code in codes), strict=True)))
        return StyleCode(tensors, Ground.blend([code.ground for code in codes], shares))

    def __getitem__(self, index: slice) -> StyleCode:
        """The codes of some of the paintings in the batch."""
        if not isinstance(index, slice):
            raise TypeError("a style code is indexed by a slice, so that its batch stays")
        return StyleCode(tuple(t[index] for t in self.tensors), self.ground)

    def flatten(self) -> Tensor:
        """One row a painting: (B, numbers)."""
        return torch.cat([t.flatten(1) for t in self.tensors], 1)
