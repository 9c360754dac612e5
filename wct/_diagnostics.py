"""What tells whether a spectral layer trains well: conditioning, smoothness, a recorder."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from wct._solver import Solve, check_covariance, full_precision


def condition_number(covariance: Tensor) -> Tensor:
    """Largest over smallest singular value, which are the eigenvalues' magnitudes.

    Eq. 1 of "Improving Covariance Conditioning of the SVD Meta-layer by Orthogonality". Above
    1e14 in float64 a matrix counts as ill-conditioned. It has no gradient.

    Args:
        covariance: (..., d, d) with d at least 1, float32 or float64.

    Returns:
        (...): at least 1, and infinity for a singular matrix, zeros included.

    Raises:
        ValueError: wrong shape or type, or entries that are not finite.
    """
    covariance = check_covariance(covariance)
    if covariance.shape[-1] == 0:
        raise ValueError(f"no eigenvalues in a covariance of shape {tuple(covariance.shape)}")
    sizes = Solve.apply(covariance.detach(), False)[0].abs()
    if sizes.numel() == 0:
        return sizes.sum(-1)
    smallest = sizes.amin(-1)
    singular = smallest == 0
    ratio = sizes.amax(-1) / torch.where(singular, torch.ones_like(smallest), smallest)
    return torch.where(singular, torch.full_like(ratio, float("inf")), ratio)


def beta_smoothness(
    loss: Callable[[Tensor], Tensor],
    at: Tensor,
    *,
    steps: Sequence[float] = (1e-3, 3e-3, 1e-2, 3e-2, 1e-1),
) -> Tensor:
    """The effective beta of a loss: how fast its gradient changes downhill.

    The largest ||g(x - s u) - g(x)|| / s over the distances s, where g is the gradient and u its
    direction at x; what Figs. 2 and 4 of "Why Approximate Matrix Square Root Outperforms
    Accurate SVD" compare. Smaller is smoother; for a quadratic loss it is at most the largest
    curvature.

    Args:
        loss: takes a tensor like ``at`` and returns a scalar.
        at: the point x, any shape.
        steps: the distances, positive, in the units of ``at``.

    Returns:
        A scalar; 0 where the gradient is 0.

    Raises:
        ValueError: no steps, or one that is not positive.
    """
    if not steps or min(steps) <= 0:
        raise ValueError(f"steps must be positive, got {tuple(steps)}")

    def gradient(point: Tensor) -> Tensor:
        point = point.detach().requires_grad_()
        with torch.enable_grad():
            return torch.autograd.grad(loss(point), point)[0]

    here = gradient(at)
    length = torch.linalg.vector_norm(here)
    if float(length) == 0:
        return torch.zeros_like(length)
    direction = here / length
    changes = [
        torch.linalg.vector_norm(gradient(at.detach() - step * direction) - here) / step
        for step in steps
    ]
    return torch.stack(changes).amax()


class SpectrumRecorder:
    """Writes down, as a layer trains, how its covariances are conditioned.

    Attach it to a Whiten, ZCANorm2d, PCADenoise2d, CovariancePool, a style-transfer network's hop,
    or any layer with a method ``covariance(features) -> (..., d, d)``. ``records`` gets a
    dictionary a forward pass, the worst of its batch: ``call`` (from 0), ``condition_number``,
    ``largest``, ``second`` (largest of the second values) and ``smallest`` eigenvalue,
    ``first_ratio`` (how near the first two values of a matrix come: the smallest l_1 / l_2), and
    after the backward pass ``gradient``, the largest magnitude in the gradient of the layer's
    input.

    Args:
        layer: the layer to listen to.
        every: record one forward pass in that many.

    Raises:
        ValueError: the layer has no ``covariance``, or ``every`` is less than 1.

    Example:
        >>> from wct import Whiten
        >>> layer = Whiten(groups=2)
        >>> with SpectrumRecorder(layer) as recorder:
        ...     _ = layer(torch.randn(1, 8, 4, 4))
        >>> sorted(recorder.records[0])
        ['call', 'condition_number', 'first_ratio', 'largest', 'second', 'smallest']
    """

    def __init__(self, layer: nn.Module, *, every: int = 1) -> None:
        if not callable(getattr(layer, "covariance", None)):
            raise ValueError(f"{type(layer).__name__} has no covariance(features) to record")
        if every < 1:
            raise ValueError(f"every must be at least 1, got {every}")
        self.records: list[dict[str, float]] = []
        self._every, self._calls = every, 0
        self._handle = layer.register_forward_pre_hook(self._record)

    def _record(self, layer: Any, inputs: tuple[Tensor, ...]) -> None:
        call, self._calls = self._calls, self._calls + 1
        if call % self._every:
            return
        features = inputs[0]
        with torch.no_grad(), full_precision(features):
            covariance = check_covariance(layer.covariance(features))
            values, _ = Solve.apply(covariance, False)
            # Of a single channel, the first value is all there is.
            second = values[..., min(1, values.shape[-1] - 1)].clamp_min(0)
            ratios = values[..., 0] / second  # infinite where the second is 0, NaN for zeros
            record = {
                "call": call,
                "condition_number": float(condition_number(covariance).amax()),
                "largest": float(values.amax()),
                "second": float(second.amax()),
                "first_ratio": float(ratios.nan_to_num(nan=1.0, posinf=math.inf).amin()),
                "smallest": float(values.amin()),
            }
        self.records.append(record)
        if features.requires_grad:
            features.register_hook(
                lambda grad: record.update(gradient=float(grad.detach().abs().amax()))
            )

    def remove(self) -> None:
        """Stop listening; the records stay."""
        self._handle.remove()

    def __enter__(self) -> SpectrumRecorder:
        return self

    def __exit__(self, *_) -> None:
        self.remove()
