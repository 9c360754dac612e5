"""Matrix square roots by Newton-Schulz iteration: products of matrices, no eigensolver."""

from __future__ import annotations

import torch
from torch import Tensor

from wct._solver import check_covariance, full_precision

# What a float64 root of condition number 1e12 needs: each step multiplies a small one by 1.5.
MOST_ITERATIONS = 60


def newton_schulz(covariance: Tensor, *, iterations: int | None = None) -> tuple[Tensor, Tensor]:
    """Square root and inverse square root of a covariance at once, by coupled iteration.

    Eqs. 7-9 of "Why Approximate Matrix Square Root Outperforms Accurate SVD": with A the
    covariance over its trace, Y <- Y T and Z <- T Z where T = (3 I - Z Y)/2. Autograd goes back
    through every iteration and gives eq. 10.

    Args:
        covariance: (..., d, d), float32 or float64, positive definite; symmetrized before use.
        iterations: how many; None goes on until the worst matrix of the batch stops improving.
            A value l of the covariance needs about 5 - log(l / trace)/0.8 of them.

    Returns:
        The root and the inverse root, each (..., d, d). A matrix of zeros, whose inverse root is
        infinite, gives zeros and what the iterations make of I: 1.5^iterations I. All is finite,
        the gradient too.

    Raises:
        ValueError: wrong shape or type, a trace that is negative or not finite (whatever the
            iterations), or fewer than one iteration.
    """
    covariance = check_covariance(covariance)
    if iterations is not None and iterations < 1:
        raise ValueError(f"iterations must be at least 1, got {iterations}")
    with full_precision(covariance):
        covariance = (covariance + covariance.mT) / 2
        trace = covariance.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None]
        if not bool(((trace >= 0) & torch.isfinite(trace)).all()):
            raise ValueError(
                "newton_schulz needs covariances of finite trace that is not negative, got "
                f"{trace.min().item()} to {trace.max().item()}"
            )
        # Of a trace of 0 nothing is to be divided by, nor a root differentiated.
        empty = trace == 0
        trace = torch.where(empty, torch.ones_like(trace), trace)
        eye = torch.eye(covariance.shape[-1], dtype=covariance.dtype, device=covariance.device)
        Y, Z = covariance / trace, eye.expand_as(covariance)
        residual = float("inf")
        for _ in range(iterations or MOST_ITERATIONS):
            product = Z @ Y
            if iterations is None:
                apart = torch.where(empty, torch.zeros_like(product), product.detach() - eye)
                last, residual = residual, float(apart.abs().amax()) if apart.numel() else 0.0
                # Round-off grows again once the iteration has converged.
                if last < 0.1 and residual >= last / 2:
                    break
            T = (3 * eye - product) / 2
            Y, Z = Y @ T, T @ Z
        return Y * trace.sqrt(), Z / trace.sqrt()


def solve_lyapunov(root: Tensor, right: Tensor) -> Tensor:
    """X with root X + X root = right, for a positive definite root, by Newton-Schulz iteration.

    The iteration for the matrix sign of [[root, right], [0, -root]], whose upper right block
    tends to 2 X while the root tends to I. (..., d, d) each.
    """
    eye = torch.eye(root.shape[-1], dtype=root.dtype, device=root.device)
    norm = torch.linalg.matrix_norm(root, keepdim=True)
    B, C = root / norm, right / norm
    residual = float("inf")
    for _ in range(MOST_ITERATIONS):
        square = B @ B
        last, residual = residual, float((square - eye).abs().amax()) if B.numel() else 0.0
        if residual == 0 or (last < 0.1 and residual > last / 2):
            break
        T = 3 * eye - square
        C = (C @ T - B @ (B @ C - C @ B)) / 2
        B = B @ T / 2
    return C / 2


def _batch_first(tensor: Tensor, dim: int | None, size: int) -> Tensor:
    """What vmap hands over, with the mapped dimension first, or repeated where there is none."""
    return tensor.expand(size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)


class SchulzRoot(torch.autograd.Function):
    """A root by Newton-Schulz with the exact gradient, which keeps one matrix, not the iterates.

    For S = M^(1/2), dL/dM solves S X + X S = dL/dS. For Z = M^(-1/2), dM is -Z^-1 d(Z^2) Z^-1
    turned round: dL/dM = -Z^2 X Z^2 with Z X + X Z = dL/dZ.
    """

    @staticmethod
    def forward(covariance: Tensor, exponent: float) -> Tensor:
        return newton_schulz(covariance)[0 if exponent > 0 else 1]

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        ctx.exponent = inputs[1]
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad: Tensor):
        return _SchulzGradient.apply(*ctx.saved_tensors, grad, ctx.exponent), None

    @staticmethod
    def vmap(info, in_dims, covariance: Tensor, exponent: float):
        return SchulzRoot.apply(covariance.movedim(in_dims[0], 0), exponent), 0


class _SchulzGradient(torch.autograd.Function):
    """The backward pass of `SchulzRoot`, apart so that vmap finds matrices in it, too."""

    @staticmethod
    def forward(result: Tensor, grad: Tensor, exponent: float) -> Tensor:
        with full_precision(result):
            X = solve_lyapunov(result, (grad + grad.mT) / 2)
            if exponent < 0:
                square = result @ result
                X = -square @ X @ square
        return (X + X.mT) / 2

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        pass

    @staticmethod
    def backward(ctx, grad: Tensor):
        raise RuntimeError(
            "newton_schulz with the rule 'exact' can't be differentiated twice; "
            "use the solver eigh, or the rule newton"
        )

    @staticmethod
    def vmap(info, in_dims, result: Tensor, grad: Tensor, exponent: float):
        result, grad = (
            _batch_first(tensor, dim, info.batch_size)
            for tensor, dim in ((result, in_dims[0]), (grad, in_dims[1]))
        )
        return _SchulzGradient.apply(result, grad, exponent), 0
