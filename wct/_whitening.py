"""Whitening and coloring of features, per image and per group of channels (eqs. 30-33).

Features are (B, C, H, W), G groups have n = C / G channels each. All is computed in float32 or
better: features in half precision are whitened in float32 and handed back as they came.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from wct._eigen import inv_sqrtm, sqrtm
from wct._rules import Rule, as_rule
from wct._solver import full_precision

EPS_MODES = ("absolute", "relative")

# The smallest mean eigenvalue that a relative eps is relative to: below it, features are
# constant but for rounding, and their covariance to the power -3/2 is beyond float32.
SMALLEST_SCALE = 1e-12

# Numbers that are centered at once where nothing is to be kept for a gradient: 2 MB of float32,
# which stay in a processor's cache until they are multiplied.
PART = 2**19


def split_groups(features: Tensor, groups: int) -> Tensor:
    """(B, C, H, W) -> (B, groups, C / groups, H * W), a view where the memory allows.

    Raises:
        ValueError: not four dimensions, no positions, or C not divisible by ``groups``.
    """
    if features.ndim != 4:
        raise ValueError(f"features must have shape (B, C, H, W), got {tuple(features.shape)}")
    batch, channels, height, width = features.shape
    if groups < 1 or channels % groups:
        raise ValueError(
            f"{channels} channels can't be split into {groups} groups: "
            f"features have shape {tuple(features.shape)}"
        )
    if height * width == 0:
        raise ValueError(f"features have no positions: shape {tuple(features.shape)}")
    return features.reshape(batch, groups, channels // groups, height * width)


def at_least_float32(tensor: Tensor) -> Tensor:
    """The tensor, or its float32 copy when it is in half precision."""
    return tensor if tensor.dtype == torch.float64 else tensor.float()


def mean_and_covariance(features: Tensor, groups: int) -> tuple[Tensor, Tensor]:
    """Mean (B, G, n, 1) and covariance (B, G, n, n) of each image's groups of channels.

    The covariance is divided by the number of positions, so that one position gives zeros.

    Args:
        features: (B, C, H, W).
        groups: G, a divisor of C.

    Raises:
        ValueError: see :func:`split_groups`.
    """
    grouped = split_groups(features, groups)
    with full_precision(grouped):
        if grouped.device.type == "cpu" and not (torch.is_grad_enabled() and grouped.requires_grad):
            return _moments_by_parts(grouped)
        grouped = at_least_float32(grouped)
        mean = grouped.mean(-1, keepdim=True)
        centered = grouped - mean
        return mean, centered @ centered.mT / grouped.shape[-1]


def _moments_by_parts(grouped: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and covariance of (B, G, n, P), without a centered copy of all of it."""
    batch, groups, n, positions = grouped.shape
    precision = torch.float64 if grouped.dtype == torch.float64 else torch.float32
    mean = grouped.mean(-1, keepdim=True, dtype=precision)
    total = mean.new_zeros(batch, groups, n, n)
    for part in grouped.split(max(256, PART // max(1, batch * groups * n)), -1):
        centered = part - mean
        total += centered @ centered.mT
    return mean, total / positions


def transform(features: Tensor, matrix: Tensor, mean_in: Tensor, mean_out: Tensor) -> Tensor:
    """matrix (x - mean_in) + mean_out at every position, in one product a group.

    Args:
        features: (B, C, H, W).
        matrix: (B or 1, G, n, n).
        mean_in, mean_out: (B or 1, G, n, 1).

    Returns:
        (B, C, H, W), of the features' type.
    """
    batch, channels, height, width = features.shape
    groups, n = matrix.shape[-3], matrix.shape[-1]
    grouped = split_groups(features, groups).reshape(batch * groups, n, height * width)
    with full_precision(features):
        # matrix x + (mean_out - matrix mean_in): the features are read once and written once.
        shift = (mean_out - matrix @ mean_in).expand(batch, groups, n, 1).reshape(-1, n, 1)
        matrix = matrix.expand(batch, groups, n, n).reshape(-1, n, n)
        moved = torch.baddbmm(shift, matrix, grouped.to(matrix.dtype))
    return moved.to(features.dtype).reshape(batch, channels, height, width)


def whitening_matrix(
    covariance: Tensor,
    *,
    eps: float = 1e-2,
    eps_mode: str = "absolute",
    gradient: str | Rule = "taylor",
    solver: str = "auto",
) -> Tensor:
    """(covariance + eps I)^(-1/2), eq. 30: (..., n, n) -> (..., n, n).

    Args:
        covariance: (..., n, n), positive semi-definite.
        eps: added to the diagonal; positive.
        eps_mode: ``absolute`` adds eps itself; ``relative`` adds eps times the mean eigenvalue,
            so that features scaled by a factor are whitened to the same result. An absolute eps
            that is large beside small features leaves them small and correlated.
        gradient, solver: as in :func:`wct.inv_sqrtm`.

    Raises:
        ValueError: eps is not positive, or an unknown ``eps_mode``.
    """
    _check_eps(eps, eps_mode)
    eye = torch.eye(covariance.shape[-1], dtype=covariance.dtype, device=covariance.device)
    # A clamp to eps is nothing to values that eps was added to; Newton-Schulz would add it again.
    least = 0.0 if solver == "newton_schulz" else eps
    if eps_mode == "absolute":
        return inv_sqrtm(covariance + eps * eye, gradient=gradient, eps=least, solver=solver)
    mean_value = covariance.diagonal(dim1=-2, dim2=-1).mean(-1)[..., None, None]
    mean_value = mean_value.clamp_min(SMALLEST_SCALE)
    # (c (A + eps I))^(-1/2) = c^(-1/2) (A + eps I)^(-1/2), where A has a mean eigenvalue of 1.
    relative = covariance / mean_value + eps * eye
    root = inv_sqrtm(relative, gradient=gradient, eps=least, solver=solver)
    return root * mean_value.rsqrt()


def _check_eps(eps: float, eps_mode: str) -> None:
    if not eps > 0:
        raise ValueError(f"eps must be positive, got {eps}")
    if eps_mode not in EPS_MODES:
        raise ValueError(f"eps_mode must be one of {', '.join(EPS_MODES)}, got {eps_mode!r}")


def whiten(
    features: Tensor,
    *,
    groups: int = 8,
    eps: float = 1e-2,
    eps_mode: str = "absolute",
    gradient: str | Rule = "taylor",
    solver: str = "auto",
) -> Tensor:
    """Features of mean 0 and covariance I: (covariance + eps I)^(-1/2) (x - mean), eq. 31.

    What comes out has the eigenvalues l / (l + eps), so that directions of little variance
    stay small instead of turning into noise.

    Args:
        features: (B, C, H, W); each image and each of the ``groups`` is whitened by itself.
        groups: G, a divisor of C.
        eps, eps_mode, gradient, solver: as in :func:`wct.whitening_matrix`.

    Returns:
        (B, C, H, W), of the features' type.

    Raises:
        ValueError: a wrong shape, C not divisible by ``groups``, or features that are not finite.
    """
    mean, covariance = mean_and_covariance(features, groups)
    whitening = whitening_matrix(
        covariance, eps=eps, eps_mode=eps_mode, gradient=gradient, solver=solver
    )
    return transform(features, whitening, mean, torch.zeros_like(mean))


def color(features: Tensor, root: Tensor, mean: Tensor) -> Tensor:
    """Whitened features with a new covariance, root root^T, and a new mean (eq. 33).

    Args:
        features: (B, C, H, W), whitened.
        root: (B or 1, G, n, n), a square root of the target covariance.
        mean: (B or 1, G, n, 1), the target mean.
    """
    return transform(features, root, torch.zeros_like(mean), mean)


def whiten_and_color(
    content: Tensor,
    mean: Tensor,
    covariance: Tensor,
    *,
    groups: int | None = None,
    eps: float = 1e-2,
    eps_mode: str = "absolute",
    gradient: str | Rule = "taylor",
    solver: str = "auto",
) -> Tensor:
    """The content's features with another mean and covariance (eqs. 30-33), in one product.

    S_c S_w (x - mean of x) + mean with S_w = (covariance of x + eps I)^(-1/2) and
    S_c = covariance^(1/2).

    Args:
        content: (B, C, H, W).
        mean: (B or 1, G, n, 1), the target mean, as :func:`wct.mean_and_covariance` gives it.
        covariance: (B or 1, G, n, n), the target covariance.
        groups: G; the covariance's own when None.
        eps, eps_mode, gradient, solver: as in :func:`wct.whitening_matrix`.

    Returns:
        (B, C, H, W), of the content's type.

    Raises:
        ValueError: a wrong shape, or a mean and a covariance that don't fit the content.
    """
    if covariance.ndim != 4:
        raise ValueError(
            f"the covariance must have shape (B or 1, G, n, n), got {tuple(covariance.shape)}"
        )
    groups = covariance.shape[1] if groups is None else groups
    content_mean, content_covariance = mean_and_covariance(content, groups)
    batch, _, n, _ = content_mean.shape
    for name, target, last in (("mean", mean, 1), ("covariance", covariance, n)):
        if (
            target.ndim != 4
            or target.shape[0] not in (1, batch)
            or target.shape[1:]
            != (
                groups,
                n,
                last,
            )
        ):
            raise ValueError(
                f"the {name} must have shape ({batch} or 1, {groups}, {n}, {last}) for content of "
                f"shape {tuple(content.shape)}, got {tuple(target.shape)}"
            )
    whitening = whitening_matrix(
        content_covariance, eps=eps, eps_mode=eps_mode, gradient=gradient, solver=solver
    )
    root = sqrtm(at_least_float32(covariance), gradient=gradient, solver=solver)
    with full_precision(content):
        matrix = root @ whitening
    return transform(content, matrix, content_mean, at_least_float32(mean))


class Whiten(nn.Module):
    """Whitens each image's groups of channels: (B, C, H, W) -> (B, C, H, W). See `whiten`."""

    def __init__(
        self,
        *,
        groups: int = 8,
        eps: float = 1e-2,
        eps_mode: str = "absolute",
        gradient: str | Rule = "taylor",
        solver: str = "auto",
    ) -> None:
        super().__init__()
        _check_eps(eps, eps_mode)
        self.groups, self.eps, self.eps_mode = groups, eps, eps_mode
        self.rule, self.solver = as_rule(gradient), solver

    def covariance(self, features: Tensor) -> Tensor:
        """What is whitened, (B, G, n, n), before eps is added."""
        return mean_and_covariance(features, self.groups)[1]

    def forward(self, features: Tensor) -> Tensor:
        return whiten(
            features,
            groups=self.groups,
            eps=self.eps,
            eps_mode=self.eps_mode,
            gradient=self.rule,
            solver=self.solver,
        )

    def extra_repr(self) -> str:
        return (
            f"groups={self.groups}, eps={self.eps}, eps_mode={self.eps_mode!r}, "
            f"gradient={self.rule}"
        )


class Color(nn.Module):
    """Gives whitened features a mean and a covariance (eqs. 32 and 33).

    forward(features (B, C, H, W), mean (B or 1, G, n, 1), covariance (B or 1, G, n, n)) gives
    (B, C, H, W). The root of the covariance is differentiated by the rule ``gradient``; values
    are clamped to ``eps``.
    """

    def __init__(
        self, *, eps: float = 1e-10, gradient: str | Rule = "exact", solver: str = "auto"
    ) -> None:
        super().__init__()
        _check_eps(eps, "absolute")
        self.eps, self.rule, self.solver = eps, as_rule(gradient), solver

    def forward(self, features: Tensor, mean: Tensor, covariance: Tensor) -> Tensor:
        root = sqrtm(covariance, gradient=self.rule, eps=self.eps, solver=self.solver)
        return color(features, root, mean)

    def extra_repr(self) -> str:
        return f"eps={self.eps}, gradient={self.rule}"
