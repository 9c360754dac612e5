"""Gradient rules: what stands in for 1/(l_i - l_j) when a loss flows back through eigenvectors.

For M = V diag(l) V^T the gradient is dL/dM = V ( K^T o (V^T dL/dV) + diag(dL/dl) ) V^T.
The rules differ in K alone. Values come descending, so r = l_j / l_i <= 1 for i < j.

For a power f(M) = V diag(l^p) V^T that becomes dL/dM = V ( D o (V^T dL/df(M) V) ) V^T with
D_ij = K_ij (f(l_i) - f(l_j)) off the diagonal and f'(l_i) on it. The true D is the divided
difference (f(l_i) - f(l_j)) / (l_i - l_j), so that a rule is a filter K_ij (l_i - l_j) of it,
between 0 and 1. It is computed that way: f(l_i) - f(l_j) loses all its digits as the values
near each other, the filter and the divided difference none.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

RULES: dict[str, type[Rule]] = {}


class Rule:
    """A choice of K, the skew-symmetric matrix with K_ij ~ 1/(l_i - l_j)."""

    name: ClassVar[str]

    def __init_subclass__(cls) -> None:
        # Makes a rule known to `as_rule`, a caller's own one included.
        if "name" in cls.__dict__:
            RULES[cls.name] = cls

    def coefficients(self, values: Tensor) -> Tensor:
        """K for eigenvalues in descending order.

        Args:
            values: (..., d), positive.

        Returns:
            (..., d, d) with a zero diagonal.

        Raises:
            ValueError: the values have no dimension, or the rule has no coefficients.
        """
        raise ValueError(f"the rule {self.name!r} has no coefficients")

    def shares(self, values: Tensor) -> Tensor:
        """K_ij (l_i - l_j), how much of the true gradient the rule lets through.

        (..., d) -> (..., d, d), symmetric, between 0 and 1 off the diagonal, which is 0.
        """
        return self.coefficients(values) * (values.unsqueeze(-1) - values.unsqueeze(-2))

    def divided_differences(self, values: Tensor, exponent: float) -> Tensor:
        """D for the matrix power f(l) = l^exponent: (..., d) -> (..., d, d), symmetric."""
        # The diagonal is f'(l) under every rule: no rule touches the eigenvalues' gradient.
        shares = self.shares(values)
        shares = shares + torch.eye(values.shape[-1], dtype=values.dtype, device=values.device)
        return shares * power_differences(values, exponent)

    def power_gradient(self, values: Tensor, exponent: float, grad: Tensor) -> Tensor:
        """Gradient of a matrix power in the basis of the eigenvectors.

        Args:
            values: (..., d), descending.
            exponent: of the power.
            grad: (..., d, d), symmetric: V^T dL/df(M) V.

        Returns:
            (..., d, d): V^T dL/dM V.
        """
        return self.divided_differences(values, exponent) * grad

    def eigen_gradient(
        self, values: Tensor, vectors: Tensor, grad_values: Tensor, grad_vectors: Tensor
    ) -> Tensor:
        """dL/dM from dL/dl and dL/dV (eq. 2 of Robust Differentiable SVD), symmetrized.

        Args:
            values, grad_values: (..., d).
            vectors, grad_vectors: (..., d, d).
        """
        inner = self.coefficients(values).mT * (vectors.mT @ grad_vectors)
        inner = inner + torch.diag_embed(grad_values)
        return vectors @ ((inner + inner.mT) / 2) @ vectors.mT

    def matrix_gradient(
        self, values: Tensor, vectors: Tensor, exponent: float, grad: Tensor
    ) -> Tensor:
        """dL/dM from dL/df(M) for the power f(l) = l^exponent, both symmetric (..., d, d)."""
        inner = self.power_gradient(values, exponent, vectors.mT @ grad @ vectors)
        return vectors @ inner @ vectors.mT

    def kept(self, values: Tensor) -> Tensor | None:
        """Which eigenvectors take part, (..., d) of bool; None when all do.

        The forward pass leaves the others out, and so the backward pass does: a matrix function
        is made of the kept ones alone, and `wct.eigh` gives a column of zeros for a dropped one.
        """
        return None

    def truncate(self, values: Tensor, vectors: Tensor) -> tuple[Tensor, Tensor | None]:
        """What the forward pass works with: the values, and which of the vectors are kept."""
        return values, self.kept(values)

    def at(self, eps: float) -> Rule:
        """The rule for a call whose values are clamped to ``eps``: itself, unless it asks."""
        return self

    def decompose(self, covariance: Tensor) -> tuple[Tensor, Tensor] | None:
        """The rule's own values (..., d) and vectors (..., d, d), differentiated by autograd.

        None leaves the forward pass to an eigensolver, and the backward pass to the rule.
        """
        return None

    def check(self, d: int, exponent: float | None) -> None:
        """Whether the rule can differentiate a power of a d x d matrix, or its spectrum (None).

        Raises:
            ValueError: it can't; called in the forward pass, so that backward does not raise.
        """


def power_differences(values: Tensor, exponent: float) -> Tensor:
    """(a^p - b^p)/(a - b) of every pair of values, and p a^(p-1) where they are equal.

    (..., d) -> (..., d, d). Accurate to rounding for all positive values (Daleckii-Krein).
    """
    if exponent == 0.5:
        roots = values.sqrt()
        return 1 / (roots.unsqueeze(-1) + roots.unsqueeze(-2))
    if exponent == -0.5:
        roots = values.sqrt()
        rows, columns = roots.unsqueeze(-1), roots.unsqueeze(-2)
        return -1 / (rows * columns * (rows + columns))
    # a^(p-1) expm1(p u)/expm1(u) with u = log(b/a) <= 0, and p at u = 0.
    large, small = _ordered_pairs(values)
    near = torch.log1p(-_relative_gaps(large, small))
    u = torch.where(2 * small > large, near, (small / large).log())
    equal = u == 0
    safe = torch.where(equal, torch.full_like(u, -1.0), u)
    quotient = torch.expm1(exponent * safe) / torch.expm1(safe)
    return large ** (exponent - 1) * torch.where(equal, torch.full_like(u, exponent), quotient)


def _ordered_pairs(values: Tensor) -> tuple[Tensor, Tensor]:
    """Larger and smaller value of every pair: (..., d) -> twice (..., d, d)."""
    if values.ndim < 1:
        raise ValueError(f"eigenvalues must have shape (..., d), got {tuple(values.shape)}")
    rows, columns = values.unsqueeze(-1), values.unsqueeze(-2)
    return torch.maximum(rows, columns), torch.minimum(rows, columns)


def _sign(values: Tensor) -> Tensor:
    """The skew-symmetric sign of K, (d, d): +1 above the diagonal, 0 on it, -1 below."""
    d = values.shape[-1]
    ones = torch.ones(d, d, dtype=values.dtype, device=values.device)
    return ones.triu(1) - ones.tril(-1)


def _relative_gaps(large: Tensor, small: Tensor) -> Tensor:
    """1 - r, from a difference that is free of rounding where it matters, as r nears 1.

    Kept below 1 by a rounding, so that log(r) and its derivative are finite.
    """
    return ((large - small) / large).clamp_max(1 - torch.finfo(large.dtype).eps)


def _power(base: Tensor, exponent: int) -> Tensor:
    """base^exponent for an integer of at least 1, by squaring: several times faster than pow."""
    power = base
    for bit in bin(exponent)[3:]:
        power = power * power
        if bit == "1":
            power = power * base
    return power


def _geometric_sum(ratio: Tensor, relative_gap: Tensor, terms: int) -> Tensor:
    """1 + r + ... + r^(terms - 1) without a loop over the terms, and without cancellation.

    Far from r = 1 it is (1 - r^terms) / (1 - r). Near it, where that is 0/0, the sum of k terms
    is doubled by S_2k = S_k (1 + r^k): nothing is subtracted.
    """
    total, power = torch.ones_like(ratio), ratio
    for bit in bin(terms)[3:]:
        total, power = total * (1 + power), power * power
        if bit == "1":
            total, power = total + power, power * ratio
    near = power > 0.5
    gap = torch.where(near, torch.ones_like(ratio), relative_gap)
    return torch.where(near, total, (1 - power) / gap)


def _check_least(least: int, **given: int) -> None:
    for name, value in given.items():
        if value < least:
            raise ValueError(f"{name} must be at least {least}, got {value}")


@dataclass(frozen=True)
class Analytic(Rule):
    """1/(l_i - l_j) as it is (eq. 3 of Robust Differentiable SVD): infinite at equal values."""

    name: ClassVar[str] = "analytic"

    def coefficients(self, values: Tensor) -> Tensor:
        large, small = _ordered_pairs(values)
        sign = _sign(values)
        # The diagonal's 1/0 is replaced, not multiplied away: 0 * inf would be NaN.
        gap = torch.where(sign == 0, torch.ones_like(large), large - small)
        return sign / gap


@dataclass(frozen=True)
class Clip(Rule):
    """1/(l_i - l_j) clamped to [-threshold, threshold] (SVD-Clip; SVD-Trunc with 1e10).

    Eq. 12 of "Why Approximate Matrix Square Root Outperforms Accurate SVD".

    Args:
        threshold: positive; 100 for whitening, 1e10 for covariance pooling in float64.
    """

    threshold: float = 100.0
    name: ClassVar[str] = "clip"

    def __post_init__(self) -> None:
        if not self.threshold > 0:
            raise ValueError(f"threshold must be positive, got {self.threshold}")

    def coefficients(self, values: Tensor) -> Tensor:
        large, small = _ordered_pairs(values)
        # min(1/gap, T) = 1/max(gap, 1/T), without a division by zero.
        return _sign(values) / (large - small).clamp_min(1 / self.threshold)

    def shares(self, values: Tensor) -> Tensor:
        gap = (values.unsqueeze(-1) - values.unsqueeze(-2)).abs()
        return (gap * self.threshold).clamp_max(1)


@dataclass(frozen=True)
class _OfDegree(Rule):
    """A series, or what stands for one, up to a power of r."""

    degree: int = 100

    def __post_init__(self) -> None:
        _check_least(0, degree=self.degree)


@dataclass(frozen=True)
class Taylor(_OfDegree):
    """(1/l_i)(1 + r + ... + r^degree), eq. 9 of Robust Differentiable SVD, in closed form.

    Bounded by (degree + 1)/l_i, which it is at equal values.

    Args:
        degree: at least 0; 9 for style transfer and whitening, 100 for covariance pooling.
    """

    degree: int = 9
    name: ClassVar[str] = "taylor"

    def coefficients(self, values: Tensor) -> Tensor:
        large, small = _ordered_pairs(values)
        gap = (large - small) / large
        total = _geometric_sum(small / large, gap, self.degree + 1)
        return _sign(values) * total / large

    def shares(self, values: Tensor) -> Tensor:
        large, small = _ordered_pairs(values)
        return 1 - _power(small / large, self.degree + 1)


@functools.lru_cache(maxsize=64)
def _pade_poles(count: int) -> tuple[tuple[float, float], ...]:
    """Places in (0, 1) and residues of a [count - 1/count] approximant; see `Pade`.

    The denominators of successive approximants are orthogonal polynomials and follow a
    recurrence of three terms (theorem 2 of the paper's appendix): their zeros are the
    eigenvalues of its tridiagonal matrix, their residues the first components' squares. This
    keeps all digits where the linear system (eq. 19) has none left.
    """
    k = torch.arange(1, count, dtype=torch.float64)
    off = k / (4 * k * k - 1).sqrt() / 2
    places, vectors = torch.linalg.eigh(
        torch.eye(count, dtype=torch.float64) / 2 + off.diag(1) + off.diag(-1)
    )
    return tuple(zip(places.tolist(), vectors[0].square().tolist(), strict=True))


@dataclass(frozen=True)
class Pade(_OfDegree):
    """(1/l_i) P(r)/Q(r), a Pade approximant of 1/(1 - r) that is matched to a degree (SVD-Pade).

    Eqs. 17-21 of "Why Approximate Matrix Square Root Outperforms Accurate SVD". As they stand,
    they have no solution to be found: 1/(1 - r) is rational itself, all its approximants from
    [0/1] on equal it, the linear system for their coefficients is singular, and what a solver
    returns is round-off with a random value, and a random sign, at r = 1. The paper's theorem 3
    is about the integral of 1/(1 - s r) over a measure of s with an extent, which 1/(1 - r),
    a single point, lacks. Here it gets one that is below rounding: s is spread evenly over
    [1 - width, 1]. Its series is 1 + r + r^2 + ... in every digit of the type, and its
    approximants are what the theorem says:

    - they have degrees of their own: [N - 1/N] with N = degree / 2 + 1 is the sum over k of
      w_k / (1 - r (1 - width u_k)), all w_k > 0 and 0 < u_k < 1;
    - so they are positive and grow with r on all of [0, 1], and their poles lie beyond it;
    - they are largest at r = 1: 2 (1 + 1/2 + ... + 1/N) / width.

    Degree 0 is the constant 1. From degree 1 on, 1/(1 - r) is met to the last digit for every r
    below 1, and the degree tells at r = 1 alone. The width is the type's eps / 2^13: the value
    at r = 1 is 3.3e20 for degree 100 in float64 (the paper has 6.48e20) and 6.2e11 in float32,
    where the paper's bound times 1/eps would leave no room for a gradient.

    Args:
        degree: the highest power of r that is matched, at least 0.
    """

    name: ClassVar[str] = "pade"

    def coefficients(self, values: Tensor) -> Tensor:
        large, small = _ordered_pairs(values)
        gap = (large - small) / large
        if self.degree == 0:
            return _sign(values) / large
        lost, direct, apart = self._sums(gap, small / large, values.dtype)
        # Apart, 1/(1 - r) less what is lost of it, with one rounding; else the sum itself.
        far = (1 - lost) / torch.where(apart, gap, torch.ones_like(gap))
        return _sign(values) * torch.where(apart, far, direct) / large

    def shares(self, values: Tensor) -> Tensor:
        large, small = _ordered_pairs(values)
        gap = (large - small) / large
        if self.degree == 0:
            return gap
        lost, direct, apart = self._sums(gap, small / large, values.dtype)
        return torch.where(apart, 1 - lost, gap * direct)

    def _sums(
        self, gap: Tensor, ratio: Tensor, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor, Tensor]:
        """1 - (1 - r) P/Q, P/Q, and where r is so far from 1 that the first is the better."""
        width = torch.finfo(dtype).eps / 2**13
        lost, direct = torch.zeros_like(gap), torch.zeros_like(gap)
        for place, weight in _pade_poles(self.degree // 2 + 1):
            # 1 - r (1 - width u) = (1 - r) + r width u: two positive terms, nothing cancels.
            beyond = ratio * (width * place)
            term = weight / (gap + beyond)
            direct = direct + term
            lost = lost + beyond * term
        return lost, direct, gap > width


@dataclass(frozen=True)
class PadeSurrogate(_OfDegree):
    """(1/l_i) / (1 - r + delta r^(degree + 1)): what `Pade` comes to, at the cost of a power.

    No approximant of a degree, but a rational function with its properties: it agrees with the
    series of 1/(1 - r) up to r^degree, is positive and grows on all of [0, 1], and is 1/delta at
    r = 1. delta is the type's eps / 2^14, so that 1/delta is 7.4e19 in float64 and 1.4e11 in
    float32; for r < 0.9999 the relative error delta r^(degree + 1)/(1 - r) is below rounding.

    Args:
        degree: the highest power of r that is matched, at least 0.
    """

    name: ClassVar[str] = "pade_surrogate"

    def coefficients(self, values: Tensor) -> Tensor:
        large, _ = _ordered_pairs(values)
        return _sign(values) / self._denominator(values)[1] / large

    def shares(self, values: Tensor) -> Tensor:
        gap, denominator = self._denominator(values)
        return gap / denominator

    def _denominator(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """1 - r and Q(r) of every pair."""
        large, small = _ordered_pairs(values)
        gap = (large - small) / large
        delta = torch.finfo(values.dtype).eps / 2**14
        return gap, gap + delta * _power(small / large, self.degree + 1)


@dataclass(frozen=True)
class TopN(Rule):
    """1/(l_i - l_j) among the n largest values, the others taken as zero (SVD-TopN, eq. 11).

    The forward pass is truncated, too: a matrix power has rank n. With l_j = 0, K_ij is 1/l_i
    between a kept value and a dropped one, so that it is bounded by 1/l_n there; between two
    dropped ones it is 0. Two equal values among the kept are as infinite as with ``analytic``.

    Args:
        n: how many values are kept, at least 1; the paper keeps 200 of 256.
    """

    n: int = 200
    name: ClassVar[str] = "topn"

    def __post_init__(self) -> None:
        _check_least(1, n=self.n)

    def check(self, d: int, exponent: float | None) -> None:
        if d < self.n:
            raise ValueError(f"TopN(n={self.n}) needs at least {self.n} eigenvalues, got {d}")

    def kept(self, values: Tensor) -> Tensor:
        self.check(values.shape[-1], None)
        return (torch.arange(values.shape[-1], device=values.device) < self.n).expand_as(values)

    def coefficients(self, values: Tensor) -> Tensor:
        large, small = _ordered_pairs(values)
        self.check(values.shape[-1], None)
        sign = _sign(values)
        dropped = torch.arange(values.shape[-1], device=values.device) >= self.n
        one = dropped.unsqueeze(-1) | dropped.unsqueeze(-2)
        both = dropped.unsqueeze(-1) & dropped.unsqueeze(-2)
        gap = torch.where(one, large, large - small)
        gap = torch.where(sign == 0, torch.ones_like(gap), gap)
        return torch.where(both, torch.zeros_like(gap), sign / gap)

    def divided_differences(self, values: Tensor, exponent: float) -> Tensor:
        kept = self.kept(values)
        both = kept.unsqueeze(-1) & kept.unsqueeze(-2)
        among = super().divided_differences(values, exponent)
        # A dropped value has f = 0: K_ij (f_i - 0), the same from either side.
        powers = torch.where(kept, values**exponent, torch.zeros_like(values))
        K = self.coefficients(values)
        between = K * (powers.unsqueeze(-1) - powers.unsqueeze(-2))
        return torch.where(both, among, between)


_NO_COEFFICIENTS = (
    "the rule {!r} differentiates {}, not eigenvectors; "
    "wct.eigh needs analytic, clip, taylor, pade, pade_surrogate, pi, pi_plain or topn"
)


@dataclass(frozen=True)
class Newton(Rule):
    """The gradient of coupled Newton-Schulz iterations, behind an exact forward (SVD-Newton).

    It replaces the gradient of a whole function, the square root or its inverse, and has no K.
    The iterates (eqs. 7-10 of "Why Approximate Matrix Square Root Outperforms Accurate SVD")
    are polynomials of the covariance, so they share its eigenvectors, and the derivative of an
    iteration is the divided difference of a polynomial of one value. Carried along by the
    product rule [fg]_ij = f_i [g]_ij + [f]_ij g_j, all iterations cost products of entries, no
    product of matrices, and nothing is stored for them.

    Args:
        iterations: at least 1; the paper takes 10.
    """

    iterations: int = 10
    name: ClassVar[str] = "newton"

    def __post_init__(self) -> None:
        _check_least(1, iterations=self.iterations)

    def check(self, d: int, exponent: float | None) -> None:
        if exponent is None:
            self.coefficients(torch.empty(0))
        if exponent not in (0.5, -0.5):
            raise ValueError(
                f"the rule 'newton' is for the exponents 0.5 and -0.5 alone, got {exponent}"
            )

    def coefficients(self, values: Tensor) -> Tensor:
        raise ValueError(_NO_COEFFICIENTS.format("newton", "square roots (sqrtm, inv_sqrtm)"))

    def divided_differences(self, values: Tensor, exponent: float) -> Tensor:
        raise ValueError(
            "the rule 'newton' is no product of entries, since it divides by the trace; "
            "use power_gradient"
        )

    def power_gradient(self, values: Tensor, exponent: float, grad: Tensor) -> Tensor:
        self.check(values.shape[-1], exponent)
        trace = values.sum(-1, keepdim=True)
        a = values / trace  # eq. 8
        y, z = a, torch.ones_like(a)
        # Divided differences of y and z, both functions of a: those of a itself are all 1.
        Dy = torch.ones_like(grad)
        Dz = torch.zeros_like(grad)
        for _ in range(self.iterations):  # eq. 7
            t = (3 - z * y) / 2
            Dt = -(z.unsqueeze(-1) * Dy + Dz * y.unsqueeze(-2)) / 2
            Dy = y.unsqueeze(-1) * Dt + Dy * t.unsqueeze(-2)
            Dz = t.unsqueeze(-1) * Dz + Dt * z.unsqueeze(-2)
            y, z = y * t, t * z
        iterate, D = (y, Dy) if exponent > 0 else (z, Dz)
        # M^p = trace^p iterate(M / trace): the trace moves with M, too (eqs. 9 and 10).
        through_a = D * grad * trace.unsqueeze(-1) ** (exponent - 1)
        diagonal = grad.diagonal(dim1=-2, dim2=-1)
        along_trace = exponent * trace ** (exponent - 1) * (iterate * diagonal).sum(-1, True)
        along_trace = along_trace - (a * through_a.diagonal(dim1=-2, dim2=-1)).sum(-1, keepdim=True)
        return through_a + torch.diag_embed(along_trace.expand_as(values))


@dataclass(frozen=True)
class Exact(Rule):
    """The divided difference of the matrix function itself (Daleckii-Krein); no K at all.

    For a power it is finite for all positive values, equal ones included: at most
    1/(2 sqrt eps) for the square root and 1/(2 eps^1.5) for its inverse when l >= eps.
    """

    name: ClassVar[str] = "exact"

    def check(self, d: int, exponent: float | None) -> None:
        if exponent is None:
            self.coefficients(torch.empty(0))

    def coefficients(self, values: Tensor) -> Tensor:
        functions = "matrix functions (sqrtm, inv_sqrtm, matrix_power)"
        raise ValueError(_NO_COEFFICIENTS.format("exact", functions))

    def divided_differences(self, values: Tensor, exponent: float) -> Tensor:
        return power_differences(values, exponent)


def as_rule(gradient: str | Rule) -> Rule:
    """The rule itself, or the one of that name with its default settings.

    Args:
        gradient: a rule, or one of the names analytic, clip, taylor, pade, pade_surrogate, pi,
            pi_plain, topn, newton, exact.

    Raises:
        ValueError: no rule has that name.
    """
    if isinstance(gradient, Rule):
        return gradient
    if gradient not in RULES:
        raise ValueError(f"unknown gradient rule {gradient!r}; there are {', '.join(RULES)}")
    return RULES[gradient]()
