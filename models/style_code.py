"""What is kept of a painting: the tensors that color a photo's features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class StyleCode:
    """The style of one or more paintings, as a network of one coloring reads it.

    ``coloring="statistics"``: a mean (B, G, n, 1) and a root (B, G, n, n) for every hop, in order.
    ``coloring="mlp"``: one code (B, C).
    """

    tensors: tuple[Tensor, ...]

    def to(self, device: str | torch.device) -> StyleCode:
        """The same code on another device, in float32."""
        return StyleCode(tuple(t.to(device=device, dtype=torch.float32) for t in self.tensors))

    def detach(self) -> StyleCode:
        """The same code, cut from the graph that made it."""
        return StyleCode(tuple(t.detach() for t in self.tensors))

    @staticmethod
    def cat(codes: Sequence[StyleCode]) -> StyleCode:
        """Codes one after the other in one batch."""
        return StyleCode(
            tuple(torch.cat(parts) for parts in zip(*(c.tensors for c in codes), strict=True))
        )

    def __getitem__(self, index: slice) -> StyleCode:
        """The codes of some of the paintings in the batch."""
        if not isinstance(index, slice):
            raise TypeError("a style code is indexed by a slice, so that its batch stays")
        return StyleCode(tuple(t[index] for t in self.tensors))

    def flatten(self) -> Tensor:
        """One row a painting: (B, numbers)."""
        return torch.cat([t.flatten(1) for t in self.tensors], 1)
