"""Orthogonality for the layer before a spectral one, which keeps covariances well conditioned.

From "Improving Covariance Conditioning of the SVD Meta-layer by Orthogonality". A layer's weight
(out, in, ...) is always taken as one matrix, (out, in * ...), as a covariance of its outputs sees
it. The treatment of weights by normalization (eq. 11) is torch's own parametrization, named here
so that all treatments are found in one place: `wct.orthogonal.spectral_norm(layer)`.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.nn.utils.parametrizations import spectral_norm
from torch.utils.hooks import RemovableHandle

from wct._solver import full_precision

__all__ = [
    "apply_optimal_learning_rate",
    "nearest_orthogonal",
    "nearest_orthogonal_gradient",
    "optimal_learning_rate",
    "orthogonal_loss",
    "orthogonal_weight",
    "spectral_norm",
]


def _as_matrix(weight: Tensor) -> Tensor:
    """(out, in, ...) -> (out, in * ...): the weight of a Linear or a Conv2d as one matrix."""
    if weight.ndim < 2:
        raise ValueError(f"a weight must have shape (out, in, ...), got {tuple(weight.shape)}")
    return weight.flatten(1)


def orthogonal_loss(weight: Tensor) -> Tensor:
    """||W W^T - I||_F (eq. 12), a scalar: 0 when the rows are orthonormal.

    Args:
        weight: (out, in, ...); a wide or square one can reach 0. With more rows than columns
            the columns are taken instead, W^T W.

    Raises:
        ValueError: fewer than two dimensions.
    """
    W = _as_matrix(weight)
    W = W if W.shape[0] <= W.shape[1] else W.mT
    with full_precision(W):
        return torch.linalg.matrix_norm(
            W @ W.mT - torch.eye(len(W), dtype=W.dtype, device=W.device)
        )


class _Exponential(nn.Module):
    """weight = start * exp(W - W^T), read off as a matrix of the weight's shape (eq. 13).

    W - W^T is square, of the longer side N of the (out, in * ...) matrix, and W zero where the
    weight has no entries: every matrix with orthonormal rows (or columns) is reached. W begins
    as the weight itself. ``start`` is a constant orthogonal matrix, of which eq. 13 knows none:
    with it training begins at the orthogonal matrix nearest to that weight, and not near I.
    """

    start: Tensor

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.shape = weight.shape
        side = max(_as_matrix(weight).shape)
        start = torch.empty(side, side, device=weight.device, dtype=weight.dtype)
        self.register_buffer("start", start)

    def forward(self, W: Tensor) -> Tensor:
        tall = _tall(W)
        with full_precision(W):
            matrix = (self.start @ self._exponential(tall))[:, : tall.shape[1]]
        return (matrix if tall.shape == _as_matrix(W).shape else matrix.mT).reshape(W.shape)

    @staticmethod
    def _exponential(tall: Tensor) -> Tensor:
        square = nn.functional.pad(tall, (0, tall.shape[0] - tall.shape[1]))
        return torch.linalg.matrix_exp(square - square.mT)

    @torch.no_grad()
    def right_inverse(self, weight: Tensor) -> Tensor:
        """Has the weight start at the orthogonal matrix nearest to the one given."""
        if weight.shape != self.shape:
            raise ValueError(
                f"the weight must have shape {tuple(self.shape)}, got {tuple(weight.shape)}"
            )
        tall = _tall(weight)
        U, _, Vh = torch.linalg.svd(tall, full_matrices=False)
        nearest = U @ Vh
        basis, _ = torch.linalg.qr(nearest, mode="complete")
        basis = torch.cat((nearest, basis[:, nearest.shape[1] :]), 1)
        self.start.copy_(basis @ self._exponential(tall).mT)
        return weight.clone()


def _tall(weight: Tensor) -> Tensor:
    """The weight as a matrix with at least as many rows as columns."""
    matrix = _as_matrix(weight)
    return matrix if matrix.shape[0] >= matrix.shape[1] else matrix.mT


def orthogonal_weight(module: nn.Module, name: str = "weight") -> nn.Module:
    """Keeps a layer's weight orthogonal as it is trained, as the exponential of eq. 13.

    The (out, in * ...) matrix of the weight has orthonormal rows, or columns if it has more
    rows, from its own nearest orthogonal matrix on. What is trained is W in exp(W - W^T).
    torch's own parametrization takes each k x k slice of a convolution for a matrix instead,
    which leaves a 1 x 1 convolution with weights of +-1.

    Args:
        module: a Linear, a Conv2d, or any module with such a weight (out, in, ...).
        name: of the weight.

    Returns:
        The module itself; `torch.nn.utils.parametrize.remove_parametrizations` ends it.

    Raises:
        ValueError: no weight of that name with two dimensions or more, or an empty one; later,
            a weight of another shape that is assigned.
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor) or weight.ndim < 2 or weight.numel() == 0:
        shape = tuple(weight.shape) if isinstance(weight, Tensor) else None
        raise ValueError(
            f"{type(module).__name__} has no {name} of shape (out, in, ...), got {shape}"
        )
    return parametrize.register_parametrization(module, name, _Exponential(weight), unsafe=True)


def nearest_orthogonal(gradient: Tensor) -> Tensor:
    """U V^T for gradient = U S V^T (eq. 17): the nearest matrix with all singular values 1.

    Directions whose singular value is rounding next to the largest have no direction to keep
    and stay 0, so that a gradient of 0 stays 0.

    Args:
        gradient: (out, in, ...).

    Raises:
        ValueError: fewer than two dimensions.
    """
    G = _as_matrix(gradient)
    with full_precision(G):
        # Scaled, so that gradients far below 1 keep their digits.
        G = G.float() if G.dtype in (torch.float16, torch.bfloat16) else G
        scale = G.abs().amax().clamp_min(torch.finfo(G.dtype).tiny) if G.numel() else 1.0
        U, S, Vh = torch.linalg.svd(G / scale, full_matrices=False)
        rounding = max(G.shape) * torch.finfo(G.dtype).eps * S[..., :1]
        kept = (S - rounding > 0).to(G.dtype)
        return ((U * kept) @ Vh).to(gradient.dtype).view_as(gradient)


def nearest_orthogonal_gradient(module: nn.Module) -> RemovableHandle:
    """Replaces each gradient of a layer's weight by the nearest orthogonal one (eq. 17).

    The weight's other gradients, of the bias and of other layers, stay as they are. Works with
    a parametrized weight, too: there the gradient of the parameter beneath is replaced. Where
    gradients of several backward passes are accumulated, it is their sum that is replaced.

    Args:
        module: a Linear, a Conv2d, or any module with a ``weight`` of two dimensions or more.

    Returns:
        A handle; ``handle.remove()`` gives the gradients back.

    Raises:
        ValueError: the module has no such weight.
    """
    beneath = getattr(module, "parametrizations", None)
    if beneath is not None and "weight" in beneath:
        weight = beneath.weight.original
    else:
        weight = getattr(module, "weight", None)
    if not isinstance(weight, Tensor) or weight.ndim < 2:
        shape = tuple(weight.shape) if isinstance(weight, Tensor) else None
        raise ValueError(
            f"{type(module).__name__} has no weight of shape (out, in, ...), got {shape}"
        )
    return weight.register_post_accumulate_grad_hook(_OrthogonalSum())


class _OrthogonalSum:
    """Turns an accumulated gradient into its nearest orthogonal one, and remembers the sum."""

    def __init__(self) -> None:
        self._sum = self._turned = torch.zeros(())
        self._written: Tensor | None = None
        self._version = -1

    @torch.no_grad()
    def __call__(self, weight: Tensor) -> None:
        gradient = weight.grad
        if gradient is None:
            return
        # Changed once since it was written, it was added to; else it is a new one, or was zeroed.
        if gradient is self._written and gradient._version == self._version + 1:
            self._sum = self._sum + (gradient - self._turned)
        else:
            self._sum = gradient.clone()
        self._turned = nearest_orthogonal(self._sum)
        gradient.copy_(self._turned)
        self._written, self._version = gradient, gradient._version


def optimal_learning_rate(weight: Tensor, gradient: Tensor, learning_rate: float) -> float:
    """The paper's step for the layer before a spectral one, if it is a small one.

    Eq. 20, w^T w l^T w / (w^T w l^T l + 2 (l^T w)^2) with w the weight and l the gradient as
    vectors, and the switch of eq. 21: the learning rate itself where that is smaller. A step
    that is not positive would climb, and counts as too large.

    The paper derives it from bringing weight - step * gradient nearest to orthogonal (eq. 18),
    but with vectors in the place of matrices, and drops I and the higher powers of the step. It
    does not do what eq. 18 says: with random weights and gradients it takes the weight farther
    from orthogonal more often than not. What it does is to make steps short where the gradient
    is long beside the weight.

    Args:
        weight, gradient: of the same shape.
        learning_rate: of the other layers.

    Raises:
        ValueError: the shapes differ, or the learning rate is negative.
    """
    if weight.shape != gradient.shape:
        raise ValueError(
            f"weight and gradient must have one shape, got {tuple(weight.shape)} and "
            f"{tuple(gradient.shape)}"
        )
    if learning_rate < 0:
        raise ValueError(f"learning_rate must not be negative, got {learning_rate}")
    w, l = weight.detach().double().flatten(), gradient.detach().double().flatten()
    ww, lw, ll = float(w @ w), float(l @ w), float(l @ l)
    below = ww * ll + 2 * lw * lw
    step = ww * lw / below if below > 0 else math.inf
    return step if 0 < step < learning_rate else learning_rate


def apply_optimal_learning_rate(
    optimizer: torch.optim.Optimizer, group: dict
) -> tuple[RemovableHandle, RemovableHandle]:
    """Lets each step of an optimizer take the optimal learning rate for one weight (eq. 21).

    The group's ``lr`` is what a scheduler sees and sets; it is replaced for the length of a
    step alone.

    Args:
        optimizer: any torch optimizer.
        group: one of ``optimizer.param_groups``, with one weight (out, in, ...) in it.

    Returns:
        Two handles; ``handle.remove()`` on both ends it.

    Raises:
        ValueError: the group is not the optimizer's, or holds anything but one such weight.

    Example:
        >>> layer = nn.Linear(4, 4, bias=False)
        >>> optimizer = torch.optim.SGD([{"params": [layer.weight]}], lr=0.1)
        >>> handles = apply_optimal_learning_rate(optimizer, optimizer.param_groups[0])
    """
    if not any(group is one for one in optimizer.param_groups):
        raise ValueError("the group must be one of optimizer.param_groups")
    shapes = [tuple(parameter.shape) for parameter in group["params"]]
    if len(shapes) != 1 or len(shapes[0]) < 2:
        raise ValueError(
            f"the group must hold one weight of shape (out, in, ...), got shapes {shapes}"
        )
    usual: list[float] = []

    def before(*_) -> None:
        (weight,) = group["params"]
        usual[:] = [group["lr"]]
        if weight.grad is not None:
            group["lr"] = optimal_learning_rate(weight, weight.grad, float(group["lr"]))

    def after(*_) -> None:
        group["lr"] = usual.pop()

    return optimizer.register_step_pre_hook(before), optimizer.register_step_post_hook(after)
