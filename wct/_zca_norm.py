"""ZCA whitening of a batch in the place of batch normalization (Alg. 2)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from wct._eigen import SOLVERS
from wct._rules import Rule, as_rule
from wct._solver import full_precision
from wct._whitening import at_least_float32, split_groups, transform, whitening_matrix


def batch_statistics(features: Tensor, groups: int) -> tuple[Tensor, Tensor]:
    """Mean (G, n, 1) and covariance (G, n, n) over the images and positions of a batch."""
    grouped = at_least_float32(split_groups(features, groups))
    # One row a channel, the images side by side: (G, n, B * H * W).
    grouped = grouped.permute(1, 2, 0, 3).flatten(2)
    with full_precision(grouped):
        mean = grouped.mean(-1, keepdim=True)
        centered = grouped - mean
        return mean, centered @ centered.mT / grouped.shape[-1]


class RunningCovariance(nn.Module):
    """A batch's mean and covariance in training, their running averages in evaluation.

    What `torch.nn.BatchNorm2d` keeps, with a covariance a group in place of the variances. A
    BatchNorm2d's ``state_dict`` is taken as well: its ``running_var`` becomes the diagonal.

    Args:
        num_features: C.
        group_size: n, the channels of a group; C must be divisible by it.
        eps, momentum, affine, track_running_stats: as in BatchNorm2d.
        gradient: the rule of the eigenvectors' gradient.
    """

    running_mean: Tensor
    running_covariance: Tensor
    num_batches_tracked: Tensor

    def __init__(
        self,
        num_features: int,
        *,
        group_size: int,
        eps: float,
        momentum: float | None,
        affine: bool,
        track_running_stats: bool,
        gradient: str | Rule,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
    ) -> None:
        super().__init__()
        if group_size < 1 or num_features < 1 or num_features % group_size:
            raise ValueError(f"{num_features} channels can't be split into groups of {group_size}")
        if not eps > 0:
            raise ValueError(f"eps must be positive, got {eps}")
        self.num_features, self.group_size = num_features, group_size
        self.groups = num_features // group_size
        self.eps, self.momentum, self.affine = eps, momentum, affine
        self.track_running_stats, self.rule = track_running_stats, as_rule(gradient)
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        if affine:
            self.weight = nn.Parameter(torch.empty(num_features, **made))
            self.bias = nn.Parameter(torch.empty(num_features, **made))
        else:
            self.register_parameter("weight", None)
            self.register_parameter("bias", None)
        kept = track_running_stats
        covariance = torch.empty(self.groups, group_size, group_size, **made)
        self.register_buffer("running_mean", torch.empty(num_features, **made) if kept else None)
        self.register_buffer("running_covariance", covariance if kept else None)
        self.register_buffer(
            "num_batches_tracked", torch.tensor(0, device=device) if kept else None
        )
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Back to mean 0 and covariance I."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_covariance.copy_(torch.eye(self.group_size))
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Back to the identity: statistics, weight 1 and bias 0."""
        self.reset_running_stats()
        if self.affine:
            nn.init.ones_(self.weight)
            nn.init.zeros_(self.bias)

    def covariance(self, features: Tensor) -> Tensor:
        """The covariance of a batch, (G, n, n), before eps is added."""
        return batch_statistics(features, self.groups)[1]

    def statistics(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Mean (G, n, 1) and covariance (G, n, n) to normalize by; training updates the running
        ones.

        Raises:
            ValueError: a wrong shape, or one value a channel in training.
        """
        if features.ndim != 4 or features.shape[1] != self.num_features:
            raise ValueError(
                f"features must have shape (B, {self.num_features}, H, W), "
                f"got {tuple(features.shape)}"
            )
        if not self.training and self.track_running_stats:
            mean = self.running_mean.view(self.groups, self.group_size, 1)
            return at_least_float32(mean), at_least_float32(self.running_covariance)
        count = features.numel() // self.num_features
        if self.training and count <= 1:
            raise ValueError(
                f"training needs more than one value a channel, got {tuple(features.shape)}"
            )
        mean, covariance = batch_statistics(features, self.groups)
        if self.training and self.track_running_stats:
            self._update(mean.detach(), covariance.detach() * (count / (count - 1)))
        return mean, covariance

    @torch.no_grad()
    def _update(self, mean: Tensor, covariance: Tensor) -> None:
        self.num_batches_tracked.add_(1)
        share = self.momentum
        if share is None:  # a plain average, as in BatchNorm2d
            share = 1 / float(self.num_batches_tracked)
        self.running_mean.lerp_(mean.flatten().to(self.running_mean), share)
        self.running_covariance.lerp_(covariance.to(self.running_covariance), share)

    def apply_matrix(self, features: Tensor, matrix: Tensor, mean: Tensor) -> Tensor:
        """weight * matrix (x - mean) + bias: matrix (G, n, n), mean (G, n, 1)."""
        shift = torch.zeros_like(mean)
        if self.affine:
            matrix = matrix * self.weight.view(self.groups, self.group_size, 1)
            shift = self.bias.view(self.groups, self.group_size, 1).to(matrix.dtype)
        return transform(features, matrix[None], mean[None], shift[None])

    def _load_from_state_dict(self, state_dict, prefix, *args, **kwargs) -> None:
        ours, theirs = f"{prefix}running_covariance", f"{prefix}running_var"
        if self.track_running_stats and theirs in state_dict and ours not in state_dict:
            # Without changing the caller's dictionary: `load_state_dict` hands on a copy.
            variances = state_dict.pop(theirs).view(self.groups, self.group_size)
            state_dict[ours] = torch.diag_embed(variances)
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, group_size={self.group_size}, eps={self.eps}, "
            f"momentum={self.momentum}, affine={self.affine}, "
            f"track_running_stats={self.track_running_stats}, gradient={self.rule}"
        )


class ZCANorm2d(RunningCovariance):
    """Decorrelates the channels of a batch; a drop-in for `torch.nn.BatchNorm2d`.

    Alg. 2 of Robust Differentiable SVD: weight * (covariance + eps I)^(-1/2) (x - mean) + bias,
    the covariance taken within each group of channels over images and positions. In evaluation
    the whitening matrix is computed from the running covariance, which varies less from batch
    to batch than whitening matrices do.

    (B, C, H, W) -> (B, C, H, W).

    Args:
        num_features: C.
        group_size: n, 4 to 64 in the paper; 1 is batch normalization.
        eps: added to the covariance's diagonal.
        momentum: the newest batch's share of the running statistics; None averages all.
        affine: whether there are a weight and a bias for each channel.
        track_running_stats: False uses the batch's statistics in evaluation, too.
        gradient: the rule of the inverse root.
        solver: how the inverse root is found, as in :func:`wct.inv_sqrtm`: ``newton_schulz`` with
            the rule ``wct.Newton(5)`` is the papers' Newton-Schulz row.

    Raises:
        ValueError: C not divisible by ``group_size``, or an unknown solver; in forward, a wrong
            shape, one value a channel in training, or a rule that can't be used with the solver.

    Example:
        >>> norm = ZCANorm2d(32, group_size=8)
        >>> norm(torch.randn(4, 32, 6, 6)).shape
        torch.Size([4, 32, 6, 6])

        With the values of Robust Differentiable SVD, and of Backpropagation-Friendly
        Eigendecomposition, where one matrix holds all 64 channels:

        >>> robust = ZCANorm2d(64, group_size=64, eps=1e-2, gradient="taylor")
        >>> friendly = ZCANorm2d(64, group_size=64, eps=1e-4, gradient="pi")
    """

    def __init__(
        self,
        num_features: int,
        *,
        group_size: int = 16,
        eps: float = 1e-3,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        gradient: str | Rule = "taylor",
        solver: str = "auto",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            num_features,
            group_size=group_size,
            eps=eps,
            momentum=momentum,
            affine=affine,
            track_running_stats=track_running_stats,
            gradient=gradient,
            device=device,
            dtype=dtype,
        )
        if solver not in (*SOLVERS, "auto"):
            raise ValueError(f"unknown solver {solver!r}; there are auto, {', '.join(SOLVERS)}")
        self.solver = solver

    def whitening(self, covariance: Tensor) -> Tensor:
        """(covariance + eps I)^(-1/2), (G, n, n) -> (G, n, n)."""
        return whitening_matrix(covariance, eps=self.eps, gradient=self.rule, solver=self.solver)

    def forward(self, features: Tensor) -> Tensor:
        mean, covariance = self.statistics(features)
        return self.apply_matrix(features, self.whitening(covariance), mean)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, solver={self.solver!r}"
