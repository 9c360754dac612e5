"""A symmetric eigensolver that does not fail its caller."""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager

import torch
from torch import Tensor

_said: set[str] = set()


def _say_once(message: str) -> None:
    if message not in _said:
        _said.add(message)
        warnings.warn(message, RuntimeWarning, stacklevel=4)


def full_precision(tensor: Tensor) -> AbstractContextManager:
    """Autocast off for the device of ``tensor``: spectra are never computed in half precision."""
    return torch.autocast(tensor.device.type, enabled=False)


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


def _largest_entries(covariance: Tensor) -> Tensor:
    """The largest magnitude of each matrix, (..., 1, 1), or a ValueError if it is not finite."""
    largest = covariance.abs().amax((-2, -1), keepdim=True)
    # amax hands NaN and infinity on, so that one small tensor tells about every entry.
    if not bool(torch.isfinite(largest).all()):
        finite = torch.isfinite(covariance)
        where = tuple((~finite).nonzero()[0].tolist())
        raise ValueError(
            f"the covariance of shape {tuple(covariance.shape)} is not finite: it is "
            f"{covariance[where].item()} at index {where}, and "
            f"{int((~finite).sum())} of its {covariance.numel()} entries are not"
        )
    return largest


def _try_eigh(matrix: Tensor) -> tuple[Tensor, Tensor] | None:
    try:
        values, vectors = torch.linalg.eigh(matrix)
    except torch.linalg.LinAlgError:
        return None
    # Some GPU solvers report failure by NaN alone.
    return (values, vectors) if bool(torch.isfinite(values).all()) else None


def _fall_back(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Decompose what the solver gave up on: jittered, then in float64, then on the CPU."""
    d, eps = matrix.shape[-1], torch.finfo(matrix.dtype).eps
    # Distinct shifts of a few roundings (the entries are at most 1) separate repeated values.
    jitter = torch.linspace(0, d * eps, d, dtype=matrix.dtype, device=matrix.device)
    jittered = matrix + torch.diag_embed(jitter)
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
        # Scaling by a power of two is free of rounding, and keeps a solver that squares its
        # input from under- and overflow at 1e-30 or 1e30.
        largest = _largest_entries(covariance).clamp_min(torch.finfo(covariance.dtype).tiny)
        scale = largest / torch.frexp(largest).mantissa
        scaled = covariance * (0.5 / scale)
        scaled = scaled + scaled.mT
        values, vectors = _try_eigh(scaled) or _fall_back(scaled)
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
