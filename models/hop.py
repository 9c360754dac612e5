"""The hop: whitening and coloring of one feature map."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import wct
from models import statistics
from models.affine import Affine
from models.configuration import RepainterConfig

# Enough for the smallest of 24 values, eps = 1e-2 beside variances near 1, to be nearly whitened.
ITERATIONS = wct.Newton(10)


class Hop(nn.Module):
    """x <- (1 - a) x + a ( S_c S_w (x - mu_w) + mu_c ), per image and per group.

    ``alpha``, the learned a of the mlp network, is held at 1 in the statistics network.

    Attributes:
        iterates: roots are those of ten Newton-Schulz iterations, with their own gradient, instead
            of an eigendecomposition's: a training may begin so.
    """

    iterates = False

    def __init__(self, channels: int, config: RepainterConfig) -> None:
        super().__init__()
        self.groups, self.eps = channels // config.group_size, config.eps
        self.method, self.rule = config.method, wct.as_rule(config.gradient)
        learned = config.architecture.learns_share
        self.alpha = nn.Parameter(torch.tensor(0.6)) if learned else None

    def record(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean (B, G, n, 1) and root of the covariance (B, G, n, n) of x (B, C, H, W)."""
        with torch.autocast(x.device.type, enabled=False):
            mean, covariance = statistics.mean_and_covariance(x, self.groups)
            return mean, self._power(covariance, 0.5)

    def covariance(self, x: Tensor) -> Tensor:
        """What is whitened of features (B, C, H, W), for a recorder: (B, G, n, n)."""
        return wct.mean_and_covariance(x.float(), self.groups)[1]

    def coloring(self, matrix: Tensor) -> Tensor:
        """The coloring matrix S_c of an MLP's output A; both (B, G, n, n).

        svd: (A A^T + eps I)^(1/2). gd: U D U^T, with D the lengths and U the directions of A's
        columns.
        """
        with torch.autocast(matrix.device.type, enabled=False):
            matrix = matrix.float()
            if self.method == "gd":
                lengths = matrix.norm(dim=-2, keepdim=True).clamp_min(1e-6)
                directions = matrix / lengths
                return (directions * lengths) @ directions.mT
            return self._power(matrix @ matrix.mT, 0.5)

    def forward(
        self,
        x: Tensor,
        mean: Tensor,
        root: Tensor,
        strength: float = 1.0,
        covariances: list[Tensor] | None = None,
    ) -> Affine:
        """What is to be done to x (B, C, H, W) to color it with a mean and a root.

        Args:
            mean: mu_c, (B, G, n, 1).
            root: S_c, (B, G, n, n).
            strength: 0 to 1, the share of its way that the hop goes.
            covariances: if given, that of x is appended, (B, G, n, n).
        """
        with torch.autocast(x.device.type, enabled=False):
            own_mean, covariance = statistics.mean_and_covariance(x, self.groups)
            if covariances is not None:
                covariances.append(covariance)
            # gd: the features are pushed to covariance I by the training.
            matrix = root if self.method == "gd" else root @ self._power(covariance, -0.5)
            share = strength if self.alpha is None else strength * self.alpha
            eye = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
            matrix = (1 - share) * eye + share * matrix
            shift = (1 - share) * own_mean + share * mean - matrix @ own_mean
            return Affine(matrix, shift)

    def _power(self, covariance: Tensor, exponent: float) -> Tensor:
        """(covariance + eps I)^exponent, exponent 0.5 or -0.5."""
        eye = torch.eye(covariance.shape[-1], dtype=covariance.dtype, device=covariance.device)
        regular = covariance + self.eps * eye
        if self.iterates:
            # It would add an eps of its own, where eigh clamps to it.
            return wct.matrix_power(
                regular, exponent, gradient=ITERATIONS, eps=0.0, solver="newton_schulz"
            )
        return wct.matrix_power(regular, exponent, gradient=self.rule, eps=self.eps)
