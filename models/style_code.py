"""What is kept of a painting: the tensors that color a photo's features."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

LARGEST_GROUND = 10.0
SHARES = ("outlines", "tone", "register")  # of a ground: 1 is all there can be


def _most(name: str) -> float:
    return 1.0 if name in SHARES else LARGEST_GROUND


@dataclass(frozen=True)
class Amounts:
    """How much of what a style wants of a photo someone wants.

    0 is none, 1 what suits the style, and above it more; see :meth:`Ground.of`.

    Attributes:
        brushwork: how strong the strokes are where the photo is plain.
        simplify: how much detail is left out.
        outlines: how dark outlines are printed on top.
        tint: how much of the photo's own colors is added.
        tone: how far light and dark follow the photo's.
    """

    brushwork: float = 1.0
    simplify: float = 1.0
    outlines: float = 1.0
    tint: float = 1.0
    tone: float = 1.0


AS_THE_STYLE = Amounts()


@dataclass(frozen=True)
class Ground:
    """What a style wants of a photo before it is painted.

    Attributes:
        simplify: how much of its detail is left out: see :mod:`models.simplification`; 0: none.
        strokes: how strong the strokes are where it is plain, as a multiple of what the network
            was trained with: see :mod:`models.strokes`.
        outlines: how dark the outlines of what is shown are printed on top, 0 to 1: see
            :mod:`models.outlines`.
        tint: how much of the photo's own colors is added to the painting's: see
            :func:`models.finish.chroma`.
        flatten: how much of the painting's own fine texture is left out, as ``simplify`` does it
            to the photo.
        grain: of the paper or canvas, a standard deviation of values in [-1, 1].
        tone: how far the painting's light and dark go towards the photo's, 0 to 1: see
            :mod:`models.tone`.
        register: how far the painting's colors end where the photo's areas do, 0 to 1: see
            :mod:`models.registration`.
    """

    simplify: float = 0.0
    strokes: float = 1.0
    outlines: float = 0.0
    tint: float = 0.0
    flatten: float = 0.0
    grain: float = 0.0
    tone: float = 0.0
    register: float = 0.0

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            most = _most(name)
            if not 0 <= value <= most:
                raise ValueError(f"{name} must be from 0 to {most:g}, got {value}")

    def of(self, amounts: Amounts) -> Ground:
        """This ground where someone wants less or more than the style does."""
        times = asdict(amounts)
        return Ground(
            **{
                name: min(_amount(own, getattr(MORE, name), times[SCALED_BY[name]]), _most(name))
                for name, own in asdict(self).items()
            }
        )


# What each 1 above 1 of an amount adds, so that a style that wants none can be given some.
MORE = Ground(simplify=0.1, strokes=1.0, outlines=0.4, tint=0.25, tone=0.3)

# Which of a person's amounts scales what of a ground. To simplify is to leave out detail, the
# photo's and the painting's, and colors that an area has beside its own; the grain goes along with
# the strokes.
SCALED_BY = {
    "simplify": "simplify",
    "strokes": "brushwork",
    "outlines": "outlines",
    "tint": "tint",
    "flatten": "simplify",
    "grain": "brushwork",
    "tone": "tone",
    "register": "simplify",
}


def _amount(own: float, more: float, times: float) -> float:
    return min(times, 1) * own + max(times - 1, 0) * more


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

        grounds = [asdict(code.ground) for code in codes]
        ground = Ground(
            **{name: min(mixed(g[name] for g in grounds), _most(name)) for name in grounds[0]}
        )
        tensors = tuple(map(mixed, zip(*(code.tensors for code in codes), strict=True)))
        return StyleCode(tensors, ground)

    def __getitem__(self, index: slice) -> StyleCode:
        """The codes of some of the paintings in the batch."""
        if not isinstance(index, slice):
            raise TypeError("a style code is indexed by a slice, so that its batch stays")
        return StyleCode(tuple(t[index] for t in self.tensors), self.ground)

    def flatten(self) -> Tensor:
        """One row a painting: (B, numbers)."""
        return torch.cat([t.flatten(1) for t in self.tensors], 1)
