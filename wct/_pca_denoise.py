"""PCA denoising: features without their directions of least variance."""

from __future__ import annotations

import torch
from torch import Tensor

from wct._eigen import eigh
from wct._rules import Rule, Taylor
from wct._solver import full_precision
from wct._zca_norm import RunningCovariance


class PCADenoise2d(RunningCovariance):
    """Keeps the leading principal components of a batch's channels and drops the rest as noise.

    Section 3.2 of Backpropagation-Friendly Eigendecomposition: the channels are standardized,
    projected on the leading eigenvectors of their covariance, which is then a correlation, and
    projected back: weight * V_e V_e^T (x - mean)/sigma + bias. In evaluation the running
    statistics give sigma and V_e.

    (B, C, H, W) -> (B, C, H, W).

    Args:
        num_features: C.
        keep: a float in (0, 1] keeps as many components as hold that share of the sum of
            eigenvalues; an int keeps that many of each group.
        group_size: n, the channels of a group; all C when None.
        eps: added to the variances before their root is divided by.
        momentum, affine, track_running_stats: as in :class:`wct.ZCANorm2d`.
        gradient: the rule of the eigenvectors. The paper's 19 power iterations are Taylor's
            degree 18, which is the default: two kept components then cancel exactly.

    Raises:
        ValueError: ``keep`` is out of range, C is not divisible by ``group_size``; in forward,
            a wrong shape, or one value a channel in training.

    Example:
        >>> denoise = PCADenoise2d(32, keep=0.99)
        >>> denoise(torch.randn(4, 32, 6, 6)).shape
        torch.Size([4, 32, 6, 6])
    """

    def __init__(
        self,
        num_features: int,
        *,
        keep: float | int = 0.99,
        group_size: int | None = None,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        gradient: str | Rule = Taylor(18),  # noqa: B008  (rules are immutable)
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        size = num_features if group_size is None else group_size
        if isinstance(keep, int) and not 1 <= keep <= size:
            raise ValueError(f"keep must be 1 to {size} components of a group, got {keep}")
        if not isinstance(keep, int) and not 0 < keep <= 1:
            raise ValueError(f"keep must be a share in (0, 1], got {keep}")
        super().__init__(
            num_features,
            group_size=size,
            eps=eps,
            momentum=momentum,
            affine=affine,
            track_running_stats=track_running_stats,
            gradient=gradient,
            device=device,
            dtype=dtype,
        )
        self.keep = keep

    def _kept(self, values: Tensor) -> Tensor:
        """Which eigenvalues are kept, descending: (G, n) -> (G, n) of bool."""
        if isinstance(self.keep, int):
            kept = torch.arange(values.shape[-1], device=values.device) < self.keep
            return kept.expand_as(values)
        # A component is kept while those before it hold less than the share.
        before = values.cumsum(-1) - values
        return before < self.keep * values.sum(-1, keepdim=True)

    def projection(self, covariance: Tensor) -> tuple[Tensor, Tensor]:
        """V_e V_e^T of the correlation, (G, n, n), and each channel's 1 / sigma, (G, n, 1)."""
        variances = covariance.diagonal(dim1=-2, dim2=-1).unsqueeze(-1)
        inverse_sigma = (variances + self.eps).rsqrt()
        correlation = covariance * inverse_sigma * inverse_sigma.mT
        values, vectors = eigh(correlation, gradient=self.rule)
        kept = self._kept(values.detach()).to(vectors.dtype).unsqueeze(-2)
        with full_precision(vectors):
            return (vectors * kept) @ vectors.mT, inverse_sigma

    def forward(self, features: Tensor) -> Tensor:
        mean, covariance = self.statistics(features)
        projection, inverse_sigma = self.projection(covariance)
        return self.apply_matrix(features, projection * inverse_sigma.mT, mean)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, keep={self.keep}"
