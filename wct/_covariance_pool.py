"""Global covariance pooling: an image as the square root of its channels' covariance."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from wct._eigen import SOLVERS, sqrtm
from wct._rules import Rule, as_rule
from wct._whitening import mean_and_covariance


class CovariancePool(nn.Module):
    """The upper triangle of covariance^(1/2), in the place of average pooling.

    Eqs. 1-3 of "Why Approximate Matrix Square Root Outperforms Accurate SVD", normalized by
    eq. 29 of Robust Differentiable SVD. For the first paper's hybrid training, train with
    ``newton_schulz`` and set ``pool.solver = "eigh"`` when the learning rate is low: nothing else
    changes, there is no state.

    (B, C, H, W) -> (B, D (D + 1) / 2) with D = ``reduce`` or C.

    Args:
        channels: C.
        solver: ``newton_schulz``, ``eigh``, or another one of :func:`wct.matrix_power`.
        gradient: the rule of the root; ``newton_schulz`` takes exact and newton alone, and with
            newton its iterations are those of the rule.
        reduce: D, the channels after a 1x1 convolution without bias; None has no convolution.
        normalize: divide by the root's Frobenius norm (eq. 29 with alpha = 1/2), so that the
            eigenvalues' squares sum to 1.
        eps: the smallest eigenvalue that is believed; the type's rounding when None.
        dtype: of the covariance and its root; the paper needs float64 for eigh, since small
            eigenvalues drown in float32. None keeps the features' own.

    Raises:
        ValueError: an unknown solver or rule, or in forward a wrong shape.

    Example:
        >>> pool = CovariancePool(64, reduce=8)
        >>> pool(torch.randn(2, 64, 6, 6)).shape
        torch.Size([2, 36])
    """

    _upper: Tensor

    def __init__(
        self,
        channels: int,
        *,
        solver: str = "newton_schulz",
        gradient: str | Rule = "exact",
        reduce: int | None = None,
        normalize: bool = True,
        eps: float | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if channels < 1 or (reduce is not None and reduce < 1):
            raise ValueError(f"channels and reduce must be at least 1, got {channels} and {reduce}")
        self.channels, self.normalize, self.eps, self.dtype = channels, normalize, eps, dtype
        self.solver, self.rule = solver, as_rule(gradient)
        self.reduce = None if reduce is None else nn.Conv2d(channels, reduce, 1, bias=False)
        d = channels if reduce is None else reduce
        rows, columns = torch.triu_indices(d, d)
        self.register_buffer("_upper", rows * d + columns, persistent=False)

    @property
    def solver(self) -> str:
        """How the root is found; may be set at any time."""
        return self._solver

    @solver.setter
    def solver(self, solver: str) -> None:
        if solver not in (*SOLVERS, "auto"):
            raise ValueError(f"unknown solver {solver!r}; there are auto, {', '.join(SOLVERS)}")
        self._solver = solver

    def covariance(self, features: Tensor) -> Tensor:
        """The covariance that is pooled, (B, D, D), after the reduction."""
        if features.ndim != 4 or features.shape[1] != self.channels:
            raise ValueError(
                f"features must have shape (B, {self.channels}, H, W), got {tuple(features.shape)}"
            )
        if self.reduce is not None:
            features = self.reduce(features)
        if self.dtype is not None:
            features = features.to(self.dtype)
        return mean_and_covariance(features, 1)[1].squeeze(1)

    def forward(self, features: Tensor) -> Tensor:
        covariance = self.covariance(features)
        eps = torch.finfo(covariance.dtype).eps if self.eps is None else self.eps
        root = sqrtm(covariance, gradient=self.rule, eps=eps, solver=self.solver)
        if self.normalize:
            # At least sqrt(eps): the clamp keeps each eigenvalue of the root there.
            root = root / torch.linalg.matrix_norm(root, keepdim=True)
        return root.flatten(1)[:, self._upper].to(features.dtype)

    def extra_repr(self) -> str:
        return f"{self.channels}, solver={self.solver!r}, gradient={self.rule}"
