"""Eigendecomposition and matrix powers of covariances, differentiable by a chosen rule."""

from __future__ import annotations

import functools
import time

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from wct._newton_schulz import SchulzRoot, newton_schulz
from wct._rules import Exact, Newton, Rule, as_rule, power_differences
from wct._solver import Solve, check_covariance, full_precision, remember_signature

SOLVERS = ("eigh", "eigh_cpu", "newton_schulz")
SAME_FUNCTION = ("eigh", "eigh_cpu")  # what "auto" chooses among


def _check_eps(eps: float) -> None:
    if not eps >= 0:
        raise ValueError(f"eps must not be negative, got {eps}")


def _decompose(covariance: Tensor, eps: float, on_cpu: bool = False) -> tuple[Tensor, Tensor]:
    """Eigenvalues, descending and at least ``eps``, and vectors, cut off from the graph."""
    _check_eps(eps)
    values, vectors = Solve.apply(covariance.detach(), on_cpu)
    return values.clamp_min(eps), vectors


@remember_signature
class _Spectrum(torch.autograd.Function):
    """Hands values and vectors on and ties them to their covariance by the rule's gradient."""

    generate_vmap_rule = True

    @staticmethod
    def forward(covariance: Tensor, values: Tensor, vectors: Tensor, rule: Rule):
        return values.clone(), vectors.clone()

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        ctx.rule = inputs[3]
        # The outputs, not the inputs: as members of the graph they can be differentiated again.
        ctx.save_for_backward(*output)

    @staticmethod
    def backward(ctx, grad_values: Tensor, grad_vectors: Tensor):
        values, vectors = ctx.saved_tensors
        with full_precision(values):
            grad = ctx.rule.eigen_gradient(values, vectors, grad_values, grad_vectors)
        return grad, None, None, None


@remember_signature
class _Power(torch.autograd.Function):
    """V diag(l^exponent) V^T, differentiated in the basis of the eigenvectors.

    Four products of matrices go back, against five through V and l by autograd, and half as much
    is kept for them.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(covariance: Tensor, values: Tensor, vectors: Tensor, exponent: float, rule: Rule):
        believed, kept = rule.truncate(values, vectors)
        powers = believed**exponent
        if kept is not None:
            powers = torch.where(kept, powers, torch.zeros_like(powers))
        return (vectors * powers.unsqueeze(-2)) @ vectors.mT

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        covariance, values, vectors, ctx.exponent, ctx.rule = inputs
        ctx.save_for_backward(covariance, values, vectors)

    @staticmethod
    def backward(ctx, grad: Tensor):
        covariance, values, vectors = ctx.saved_tensors
        grad = (grad + grad.mT) / 2
        with full_precision(grad):
            if not torch.is_grad_enabled():
                result = ctx.rule.matrix_gradient(values, vectors, ctx.exponent, grad)
            elif isinstance(ctx.rule, Exact):
                result = _ExactGradient.apply(covariance, grad, values, vectors, ctx.exponent)
            else:
                # Differentiated again, the gradient depends on the covariance by l and V.
                values, vectors = _Spectrum.apply(covariance, values, vectors, ctx.rule)
                result = ctx.rule.matrix_gradient(values, vectors, ctx.exponent, grad)
        return result, None, None, None, None


@remember_signature
class _ExactGradient(torch.autograd.Function):
    """The exact gradient of a matrix power as a function of the covariance, for its own gradient.

    Through V and l that would divide by l_i - l_j, although the result is finite at equal
    values. Here it is the second divided difference (Daleckii-Krein, second order): with G and
    H the first gradient and the one that comes back, in the basis of the eigenvectors,
    entry (i, j) is the sum over k of f[l_i, l_k, l_j] (G_ik H_kj + H_ik G_kj).
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(covariance: Tensor, grad: Tensor, values: Tensor, vectors: Tensor, exponent: float):
        inner = power_differences(values, exponent) * (vectors.mT @ grad @ vectors)
        return vectors @ inner @ vectors.mT

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        _, grad, values, vectors, ctx.exponent = inputs
        ctx.save_for_backward(grad, values, vectors)

    @staticmethod
    @once_differentiable
    def backward(ctx, back: Tensor):
        grad, values, vectors = ctx.saved_tensors
        back = (back + back.mT) / 2
        with full_precision(grad):
            G, H = (vectors.mT @ x @ vectors for x in (grad, back))
            total = torch.zeros_like(G)
            # One k at a time: all at once would take memory of d^3.
            for k in range(values.shape[-1]):
                pairs = G[..., :, k : k + 1] * H[..., k : k + 1, :]
                second = _second_differences(values, values[..., k : k + 1], ctx.exponent)
                total = total + second * (pairs + pairs.mT)
            to_covariance = vectors @ total @ vectors.mT
            to_grad = vectors @ (power_differences(values, ctx.exponent) * H) @ vectors.mT
        return to_covariance, to_grad, None, None, None


def _second_differences(values: Tensor, middle: Tensor, exponent: float) -> Tensor:
    """f[l_i, m, l_j] for f(l) = l^exponent: values (..., d), m (..., 1) -> (..., d, d)."""
    a, b, c = torch.broadcast_tensors(
        values.unsqueeze(-1), middle.unsqueeze(-1), values.unsqueeze(-2)
    )
    if exponent in (0.5, -0.5):
        a, b, c = a.sqrt(), b.sqrt(), c.sqrt()
        sums = (a + b) * (b + c) * (a + c)
        return -1 / sums if exponent > 0 else (a + b + c) / (a * b * c * sums)
    # In ascending order x, y, z the first differences are subtracted over the widest gap.
    ordered = torch.stack((a, b, c), -1).sort(-1).values
    x, y, z = ordered.unbind(-1)
    wide = (z - x) > 0.02 * z
    lower = power_differences(ordered[..., :2], exponent)[..., 0, 1]
    upper = power_differences(ordered[..., 1:], exponent)[..., 0, 1]
    apart = (upper - lower) / torch.where(wide, z - x, torch.ones_like(x))
    # Near each other: the series around the mean m, sum over n of f^(n)(m)/n! h_(n-2), where
    # h are the complete symmetric polynomials of the offsets u; u sums to 0, so h_1 is 0.
    m = ordered.mean(-1)
    u, v, w = ((t - m) / m for t in (x, y, z))
    e2, e3 = u * v + v * w + u * w, u * v * w
    h: tuple[float | Tensor, ...] = (1, 0, -e2, e3, e2 * e2, -2 * e2 * e3, e3 * e3 - e2 * e2 * e2)
    series, binomial = torch.zeros_like(m), exponent * (exponent - 1) / 2
    for n, h_n in enumerate(h, start=2):
        series = series + binomial * h_n
        binomial *= (exponent - n) / (n + 1)
    return torch.where(wide, apart, m ** (exponent - 2) * series)


def eigh(
    covariance: Tensor, *, gradient: str | Rule = "taylor", eps: float = 1e-10
) -> tuple[Tensor, Tensor]:
    """Eigenvalues, descending, and eigenvectors of a symmetric matrix.

    The gradient is taken at the clamped values and goes straight through the clamp: which of
    two values at eps is a rounding below it is chance, and must not decide about a gradient.

    Args:
        covariance: (..., d, d), float32 or float64; symmetrized before use.
        gradient: the rule, or its name, that replaces 1/(l_i - l_j) in the backward pass.
        eps: values are clamped to it from below (Alg. 2 of Robust Differentiable SVD).

    Returns:
        Values (..., d) and vectors (..., d, d), one vector a column. A rule that truncates
        (``pi``, ``topn``) gives a column of zeros for a vector that it drops, so that
        V f(l) V^T leaves it out, whatever f is.

    Raises:
        ValueError: wrong shape or type, entries that are not finite, a negative eps, or a rule
            that differentiates matrix functions alone (``exact``, ``newton``).
    """
    rule = as_rule(gradient).at(eps)
    covariance = check_covariance(covariance)
    rule.check(covariance.shape[-1], None)
    with full_precision(covariance):
        own = rule.decompose(covariance)
        if own is not None:
            return _clamp_through(own[0], eps), own[1]
        values, vectors = _decompose(covariance, eps)
        believed, kept = rule.truncate(values, vectors)
        spectrum, basis = _Spectrum.apply(covariance, values, vectors, rule)
        if believed is not values:
            spectrum = spectrum + (believed - values)
        return spectrum, basis if kept is None else basis * kept.to(basis.dtype).unsqueeze(-2)


def _clamp_through(values: Tensor, eps: float) -> Tensor:
    """Values of at least ``eps``, with a gradient that goes straight through."""
    _check_eps(eps)
    return values + (values.detach().clamp_min(eps) - values.detach())


def matrix_power(
    covariance: Tensor,
    exponent: float,
    *,
    gradient: str | Rule = "exact",
    eps: float = 1e-10,
    solver: str = "auto",
) -> Tensor:
    """covariance^exponent = V diag(l^exponent) V^T, with l clamped to ``eps`` from below.

    The gradient is taken at the clamped values and goes straight through the clamp, so it is
    bounded whatever the covariance, and no rounding around eps decides about it.

    It can be differentiated once more: exactly with ``exact`` and ``analytic``; with the others
    what comes is the derivative of their approximation.

    Args:
        covariance: (..., d, d), float32 or float64; symmetrized before use.
        exponent: any real number.
        gradient: a rule or its name; ``exact`` is the true derivative.
        eps: the smallest eigenvalue that is believed; 0 bounds no gradient.
        solver: ``eigh``; ``eigh_cpu``, the same by way of the CPU; ``newton_schulz``, for the
            exponents 0.5 and -0.5 and the rules ``exact`` and ``newton``, which adds eps to the
            diagonal instead of clamping and with ``newton`` stops after the rule's iterations;
            or ``auto``: eigh on a CPU, and elsewhere the faster of the two ways to eigh,
            measured once for a device and shape. ``auto`` never takes another function. A rule
            with a forward pass of its own (``pi_plain``) has no use for a solver.

    Returns:
        (..., d, d), symmetric.

    Raises:
        ValueError: wrong shape or type, entries that are not finite, a negative eps, an unknown
            solver, or a rule that can't differentiate this power (``newton`` is for 0.5 and
            -0.5, ``topn`` needs n values) or can't be used with this solver.
    """
    rule, exponent = as_rule(gradient).at(eps), float(exponent)
    covariance = check_covariance(covariance)
    rule.check(covariance.shape[-1], exponent)
    if solver not in (*SOLVERS, "auto"):
        raise ValueError(f"unknown solver {solver!r}; there are auto, {', '.join(SOLVERS)}")
    with full_precision(covariance):
        if solver == "newton_schulz":
            return _schulz_power(covariance, exponent, rule, eps)
        own = rule.decompose(covariance)
        if own is not None:
            powers = _clamp_through(own[0], eps) ** exponent
            return (own[1] * powers.unsqueeze(-2)) @ own[1].mT
        if solver == "auto":
            solver = _fastest(covariance)
        values, vectors = _decompose(covariance, eps, solver == "eigh_cpu")
        return _Power.apply(covariance, values, vectors, exponent, rule)


def _schulz_power(covariance: Tensor, exponent: float, rule: Rule, eps: float) -> Tensor:
    if exponent not in (0.5, -0.5):
        raise ValueError(f"newton_schulz is for the exponents 0.5 and -0.5, got {exponent}")
    eye = torch.eye(covariance.shape[-1], dtype=covariance.dtype, device=covariance.device)
    # A few roundings of the trace on top: an eigenvalue that rounding took below 0 would grow
    # with every iteration.
    # And where all variance is a rounding below 0, no more than that of it.
    trace = covariance.detach().diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None]
    rounding = 4 * torch.finfo(covariance.dtype).eps * trace.abs()
    shifted = covariance + (eps + rounding + (-trace).clamp_min(0)) * eye
    if isinstance(rule, Newton):
        return newton_schulz(shifted, iterations=rule.iterations)[0 if exponent > 0 else 1]
    if isinstance(rule, Exact):
        return SchulzRoot.apply(shifted, exponent)
    raise ValueError(
        f"newton_schulz finds no eigenvalues, which the rule {rule.name!r} needs; "
        "use the rule exact or newton, or the solver eigh"
    )


def _fastest(covariance: Tensor) -> str:
    # Only ways to one and the same function: Newton-Schulz shifts where these clamp.
    # A CPU's own eigensolver is as fast as any at the sizes of a group.
    if covariance.device.type == "cpu" or covariance.numel() == 0:
        return "eigh"
    d = covariance.shape[-1]
    # Rounded up to a power of two, so that the last, smaller batch is not measured again.
    batch = 1 << (covariance.numel() // d**2 - 1).bit_length()
    return _measured_fastest(covariance.device, covariance.dtype, batch, d)


@functools.lru_cache(maxsize=256)
def _measured_fastest(device: torch.device, dtype: torch.dtype, batch: int, d: int) -> str:
    """The way to eigh that takes the least time on this device for a batch of d x d matrices.

    Measured, since it changes with the libraries: batched eigh on CUDA became 30 to 130 times
    slower from one release to another.
    """
    # Its own generator leaves the caller's random numbers as they are.
    generator = torch.Generator().manual_seed(0)
    factors = torch.randn(batch, d, 2 * d, dtype=dtype, generator=generator).to(device)
    covariance = factors @ factors.mT / (2 * d)
    seconds = {}
    for solver in SAME_FUNCTION:
        # The first run loads kernels, and is not the measure.
        for _ in range(2):
            start = time.perf_counter()
            with torch.no_grad():
                root = matrix_power(covariance, 0.5, solver=solver, eps=1e-3)
            # Reading a number waits for the device, whichever it is.
            float(root[0, 0, 0])
            seconds[solver] = time.perf_counter() - start
    return min(seconds, key=seconds.__getitem__)


def sqrtm(
    covariance: Tensor,
    *,
    gradient: str | Rule = "exact",
    eps: float = 1e-10,
    solver: str = "auto",
) -> Tensor:
    """The symmetric square root, covariance^(1/2); see :func:`matrix_power`."""
    return matrix_power(covariance, 0.5, gradient=gradient, eps=eps, solver=solver)


def inv_sqrtm(
    covariance: Tensor,
    *,
    gradient: str | Rule = "exact",
    eps: float = 1e-10,
    solver: str = "auto",
) -> Tensor:
    """The inverse symmetric square root, covariance^(-1/2); see :func:`matrix_power`."""
    return matrix_power(covariance, -0.5, gradient=gradient, eps=eps, solver=solver)
