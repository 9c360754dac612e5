"""A symmetric eigensolver that does not fail its caller."""

from __future__ import annotations

import inspect
import math
import warnings
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

_said: set[str] = set()
_failures = 0


def solver_failures() -> int:
    """How many calls of an eigensolver did not converge in this process and had to be helped.

    A call decomposes a whole batch; what helped is said once, by a warning.
    """
    return _failures


def _say_once(message: str) -> None:
    if message not in _said:
        _said.add(message)
        warnings.warn(message, RuntimeWarning, stacklevel=4)


def full_precision(tensor: Tensor) -> AbstractContextManager:
    """Autocast off for the device of ``tensor``: spectra are never computed in half precision."""
    kind = tensor.device.type
    return torch.autocast(kind, enabled=False) if torch.is_autocast_enabled(kind) else nullcontext()


def check_covariance(covariance: Tensor) -> Tensor:
    """The covariance, if its shape and type can be decomposed.

    Under autocast, products of float32 features come as float16 or bfloat16: they are taken back
    to float32. Elsewhere half precision is the caller's mistake.

    Raises:
        ValueError: not (..., d, d), or not float32 or float64.
    """
    if covariance.ndim < 2 or covariance.shape[-1] != covariance.shape[-2]:
        raise ValueError(f"a covariance must have shape (..., d, d), got {tuple(covariance.shape)}")
    if covariance.dtype in (torch.float16, torch.bfloat16) and torch.is_autocast_enabled(
        covariance.device.type
    ):
        return covariance.float()
    if covariance.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"a covariance must be float32 or float64, got {covariance.dtype}")
    return covariance


def _refuse_unless_finite(covariance: Tensor) -> None:
    finite = torch.isfinite(covariance)
    if not bool(finite.all()):
        where = tuple((~finite).nonzero()[0].tolist())
        raise ValueError(
            f"the covariance of shape {tuple(covariance.shape)} is not finite: it is "
            f"{covariance[where].item()} at index {where}, and "
            f"{int((~finite).sum())} of its {covariance.numel()} entries are not"
        )


def _try_eigh(matrix: Tensor) -> tuple[Tensor, Tensor] | None:
    try:
        values, vectors = torch.linalg.eigh(matrix)
    except torch.linalg.LinAlgError:
        return None
    # Some solvers report failure by NaN alone, which amax hands on.
    largest = values.amax().item()
    return (values, vectors) if math.isfinite(largest) else None


def _fall_back(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Decompose what the solver gave up on: jittered, then in float64, then on the CPU."""
    global _failures
    _failures += 1
    d, eps = matrix.shape[-1], torch.finfo(matrix.dtype).eps
    # Distinct shifts of a few roundings separate repeated values.
    shifts = torch.linspace(0, d * eps, d, dtype=matrix.dtype, device=matrix.device)
    largest = matrix.abs().amax((-2, -1))
    jittered = matrix + torch.diag_embed(largest.unsqueeze(-1) * shifts)
    for how, attempt in (
        ("a jitter of its diagonal", jittered),
        ("float64", jittered.double()),
        ("float64 on the CPU", jittered.cpu().double()),
    ):
        solved = _try_eigh(attempt)
        if solved is not None:
            _say_once(f"an eigendecomposition did not converge; {how} was needed")
            return solved[0].to(matrix), solved[1].to(matrix)
    raise torch.linalg.LinAlgError(
        f"no eigensolver converged on a batch of shape {tuple(matrix.shape)}"
    )


def remember_signature(function: type[torch.autograd.Function]) -> type[torch.autograd.Function]:
    """Has torch find the signature of ``forward`` made, which it otherwise makes in each call.

    That takes as long as the decomposition of a small matrix does.
    """
    setattr(function.forward, "__signature__", inspect.signature(function.forward))  # noqa: B010
    return function


@remember_signature
class Solve(torch.autograd.Function):
    """Eigenvalues, descending, and vectors, without a gradient: rules bring their own."""

    @staticmethod
    def forward(covariance: Tensor, on_cpu: bool) -> tuple[Tensor, Tensor]:
        if covariance.numel() == 0:
            return covariance.diagonal(dim1=-2, dim2=-1).clone(), covariance.clone()
        if covariance.device.type == "mps":
            _say_once("MPS has no eigensolver; eigendecompositions go through the CPU")
            on_cpu = True
        if on_cpu and covariance.device.type != "cpu":
            values, vectors = Solve.forward(covariance.cpu(), on_cpu)
            return values.to(covariance), vectors.to(covariance)
        half = covariance * 0.5
        matrix, scale = half + half.mT, None
        if covariance.device.type != "cpu":
            # LAPACK scales what it is given; solvers that don't are kept from under- and
            # overflow at 1e-30 or 1e30. A power of two is free of rounding.
            largest = matrix.abs().amax((-2, -1), keepdim=True)
            largest = largest.clamp_min(torch.finfo(matrix.dtype).tiny)
            scale = largest / torch.frexp(largest).mantissa
            matrix = matrix / scale
        solved = _try_eigh(matrix)
        if solved is None:
            _refuse_unless_finite(covariance)
            solved = _fall_back(matrix)
        values, vectors = solved
        if scale is not None:
            values = values * scale.squeeze(-1)
        return values.flip(-1), vectors.flip(-1)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        ctx.mark_non_differentiable(*output)

    @staticmethod
    def backward(ctx, grad_values, grad_vectors):
        return None, None

    @staticmethod
    def vmap(info, in_dims, covariance: Tensor, on_cpu: bool):
        # Every batch shape is accepted, so that vmap is a matter of where the batch is.
        return Solve.apply(covariance.movedim(in_dims[0], 0), on_cpu), (0, 0)
