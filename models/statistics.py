"""Statistics that can be held: what a pass's hops and norms read, recorded and replayed.

A hop or a norm reads the mean and the covariance of its whole feature map, so that a tile or the
next frame would be painted differently from the picture around it. Recorded in one pass and held
in others, they are the same everywhere:

    with statistics.record() as recorded:
        network.repaint(sample, code)
    with statistics.hold(recorded):  # one pass a block
        network.repaint(tile, code)

Layers call :func:`mean_and_covariance` here instead of that of ``wct``; outside both blocks it is
the same. What is recorded after the first hop depends on the style code and the strength too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import wct

# Variance of a map that is constant but for rounding. One pixel that is one level of 255 off its
# neighbours gives some 1e-9.
CONSTANT = 1e-10


@dataclass(frozen=True)
class Statistics:
    """The means and covariances of one pass, in the order in which its layers asked for them.

    Args:
        moments: (B, G, n, 1) and (B, G, n, n) a layer; B is 1 where they were pooled.
    """

    moments: list[tuple[Tensor, Tensor]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.moments)

    def to(self, device: str | torch.device) -> Statistics:
        """The same statistics on another device."""
        return Statistics([(mean.to(device), c.to(device)) for mean, c in self.moments])


class _Recorder:
    def __init__(self, weights: Tensor | None, pool: bool) -> None:
        self.weights, self.pool, self.recorded = weights, pool, Statistics()

    def mean_and_covariance(self, features: Tensor, groups: int) -> tuple[Tensor, Tensor]:
        if self.weights is None and not self.pool:
            moments = wct.mean_and_covariance(features, groups)
        else:
            mean, covariance, total = _weighted(features, groups, self._weights_of(features))
            moments = _pooled(mean, covariance, total) if self.pool else (mean, covariance)
        self.recorded.moments.append(moments)
        return moments

    def _weights_of(self, features: Tensor) -> Tensor:
        batch, _, height, width = features.shape
        precision = torch.promote_types(features.dtype, torch.float32)
        if self.weights is None:
            return features.new_ones(batch, 1, 1, height * width, dtype=precision)
        weights = F.adaptive_avg_pool2d(
            self.weights.to(features.device, precision), (height, width)
        )
        return weights.expand(batch, 1, height, width).reshape(batch, 1, 1, height * width)


class _Player:
    def __init__(self, held: Statistics) -> None:
        self.held, self.position = held, 0

    def mean_and_covariance(self, features: Tensor, groups: int) -> tuple[Tensor, Tensor]:
        if self.position == len(self.held):
            raise ValueError(
                f"only {len(self.held)} statistics were recorded, and the pass asks for more: "
                "hold() lasts one pass, of the network and with the strength that were recorded"
            )
        mean, covariance = self.held.moments[self.position]
        channels = features.shape[1]
        if mean.shape[1:] != (groups, channels // groups, 1):
            raise ValueError(
                f"statistics number {self.position} were recorded of a layer of another shape: "
                f"{tuple(mean.shape)} for {channels} channels in {groups} groups"
            )
        self.position += 1
        return mean, covariance


_current: ContextVar[_Recorder | _Player | None] = ContextVar("statistics", default=None)


def places_count() -> bool:
    """Whether what is recorded now asks where in the picture a feature is."""
    current = _current.get()
    return isinstance(current, _Recorder) and current.weights is not None


@contextmanager
def record(weights: Tensor | None = None, *, pool: bool = False) -> Iterator[Statistics]:
    """Fills the statistics it gives with those of the passes inside the block.

    Args:
        weights: (B or 1, 1, H, W), at least 0: how much each position of the picture counts; all
            the same by default. They are averaged down to each layer's resolution.
        pool: the images of a batch share their statistics, as the parts of one picture do.

    Raises:
        ValueError: weights of another shape, negative, or all zero.
    """
    if weights is not None:
        if weights.ndim != 4 or weights.shape[1] != 1:
            raise ValueError(f"weights must have shape (B, 1, H, W), got {tuple(weights.shape)}")
        totals = weights.sum() if pool else weights.sum((1, 2, 3))
        if weights.min() < 0 or not (totals > 0).all():
            raise ValueError("weights must be at least 0, and some must be above")
    recorder = _Recorder(weights, pool)
    with _during(recorder):
        yield recorder.recorded


@contextmanager
def hold(held: Statistics) -> Iterator[None]:
    """The one pass inside the block reads the given statistics instead of its own.

    Raises:
        ValueError: from the pass, where it asks for more statistics or for other shapes.
    """
    with _during(_Player(held)):
        yield


@contextmanager
def _during(source: _Recorder | _Player) -> Iterator[None]:
    token = _current.set(source)
    try:
        yield
    finally:
        _current.reset(token)


def mean_and_covariance(features: Tensor, groups: int) -> tuple[Tensor, Tensor]:
    """`wct.mean_and_covariance`, recorded in a `record` block, and replayed in a `hold` block."""
    source = _current.get()
    return (source or wct).mean_and_covariance(features, groups)


class InstanceNorm(nn.InstanceNorm2d):
    """Instance norm whose statistics can be held; no weights, as nn.InstanceNorm2d by default.

    A constant map, as a black picture gives, passes no gradient on: it has nothing to be brought
    to variance 1, and its 1 / sqrt(eps) = 316 a layer, multiplied over a dozen layers, would be
    beyond float32.
    """

    def forward(self, x: Tensor) -> Tensor:
        if _current.get() is None:
            return super().forward(_without_constants(x) if x.requires_grad else x)
        mean, variance = mean_and_covariance(x, self.num_features)
        return (x - mean) * (variance + self.eps).rsqrt()


def _without_constants(x: Tensor) -> Tensor:
    """The same (B, C, H, W), cut from the graph where a map is constant but for rounding."""
    with torch.no_grad():
        constant = x.float().var((2, 3), correction=0, keepdim=True) < CONSTANT
    return torch.where(constant, x.detach(), x)


class LayerNorm(nn.GroupNorm):
    """Layer norm over channels and positions (one group) whose statistics can be held."""

    def __init__(self, channels: int) -> None:
        super().__init__(1, channels)

    def forward(self, x: Tensor) -> Tensor:
        if _current.get() is None:
            return super().forward(x)
        means, variances = mean_and_covariance(x, self.num_channels)
        mean = means.mean(1, keepdim=True)
        variance = (variances + (means - mean).square()).mean(1, keepdim=True)
        scale = self.weight[:, None, None] * (variance + self.eps).rsqrt()
        return (x - mean) * scale + self.bias[:, None, None]


def _weighted(features: Tensor, groups: int, weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mean (B, G, n, 1), covariance (B, G, n, n) and sum of the weights (B, 1, 1, 1).

    Args:
        weights: (B, 1, 1, H * W).
    """
    grouped = wct.split_groups(features, groups).to(weights.dtype)
    total = weights.sum(-1, keepdim=True)
    # An image of a pooled batch may lie outside of the region: it then counts for nothing.
    share = weights / total.clamp_min(torch.finfo(weights.dtype).tiny)
    mean = (grouped * share).sum(-1, keepdim=True)
    centered = (grouped - mean) * share.sqrt()
    return mean, centered @ centered.mT, total


def _pooled(mean: Tensor, covariance: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
    """The moments of all images together: covariance within plus covariance between."""
    share = total / total.sum()
    pooled = (share * mean).sum(0, keepdim=True)
    away = mean - pooled
    return pooled, (share * (covariance + away @ away.mT)).sum(0, keepdim=True)
