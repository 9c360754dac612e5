"""Power iterations with deflation: Alg. 1's, behind an eigensolver, and the plain ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from wct._rules import Rule, Taylor, power_differences


@dataclass(frozen=True)
class PowerIteration(Rule):
    """The gradient of power iterations started at the eigenvectors (SVD-PI).

    Alg. 1 of Robust Differentiable SVD finds vector i by power iterations on the covariance
    less its i - 1 leading parts, and backpropagates through them (eq. 19) and through the
    deflation. In the basis of the eigenvectors that comes to, with n iterations,

    - K_ij = (1/l_i)(1 + r + ... + r^(n - 1)) for i < j, Taylor's of degree n - 1 (section 3.3);
    - K_ji = -(1/l_i)(1 + r + ... + r^(n - 2)): vector j sees vector i through the deflation
      alone, where one power is lost, so that K is skew-symmetric but for that last term.

    The rank is found as Alg. 1 finds it, and both passes keep the same set: deflation stops at
    the first value that is at most ``eps``, or whose Rayleigh quotient is off by
    ``disagreement``, or with which all but ``energy`` of the sum is reached, and that one and
    those after it are left out of V f(l) V^T. The first vector is always kept. Since the last
    value reaches all of the sum, it is always left out, however large it is, unless ``energy``
    is 0: ``inv_sqrtm(diag(1, 1/2, 1/4))`` is diag(1, 2^(1/2), 0).

    Args:
        iterations: n, at least 1; 19 in Backpropagation-Friendly Eigendecomposition.
        eps: the smallest value that is iterated on; None takes the eps of the call, to which
            values are clamped: a layer's own.
        energy: share of the sum of values that is left alone, in [0, 1); 0 drops none for it.
        disagreement: relative error of a Rayleigh quotient that ends the loop; the closed form
            has none.
        loop: run Alg. 1 itself, round-off of its deflation included, instead of the closed
            form. Slow; there to be compared with.
    """

    iterations: int = 19
    eps: float | None = None
    energy: float = 1e-4
    disagreement: float = 0.1
    loop: bool = False
    name: ClassVar[str] = "pi"

    def __post_init__(self) -> None:
        if self.iterations < 1:
            raise ValueError(f"iterations must be at least 1, got {self.iterations}")
        if not 0 <= self.energy < 1:
            raise ValueError(f"energy must be in [0, 1), got {self.energy}")

    def at(self, eps: float) -> PowerIteration:
        return replace(self, eps=eps) if self.eps is None else self

    def kept(self, values: Tensor) -> Tensor:
        reached = values.cumsum(-1) / values.sum(-1, keepdim=True)
        stops = values <= (self.eps or 0.0)
        if self.energy > 0:
            stops = stops | (reached >= 1 - self.energy)
        return _before_first(stops)

    def truncate(self, values: Tensor, vectors: Tensor) -> tuple[Tensor, Tensor]:
        if not self.loop or values.numel() == 0:
            return values, self.kept(values)
        covariance = (vectors * values.unsqueeze(-2)) @ vectors.mT
        _, quotients, kept = self._deflate(covariance, values, vectors)
        rest = values[..., quotients.shape[-1] :]
        return torch.where(kept, torch.cat((quotients, rest), -1), values), kept

    def coefficients(self, values: Tensor) -> Tensor:
        taylor = Taylor(self.iterations - 1).coefficients(values)
        shorter = Taylor(max(self.iterations - 2, 0)).coefficients(values)
        shorter = shorter if self.iterations > 1 else torch.zeros_like(shorter)
        # Row i of K is what vector i is multiplied by: none for the vectors that are dropped.
        return (taylor.triu() + shorter.tril()) * self.kept(values).unsqueeze(-1)

    def divided_differences(self, values: Tensor, exponent: float) -> Tensor:
        # Vector i carries f(l_i), so the entry of a pair is K_ij f_i + K_ji f_j.
        kept = self.kept(values)
        powers = torch.where(kept, values**exponent, torch.zeros_like(values))
        sided = self.coefficients(values) * powers.unsqueeze(-1)
        diagonal = power_differences(values, exponent).diagonal(dim1=-2, dim2=-1)
        diagonal = torch.where(kept, diagonal, torch.zeros_like(diagonal))
        return sided + sided.mT + torch.diag_embed(diagonal)

    def eigen_gradient(
        self, values: Tensor, vectors: Tensor, grad_values: Tensor, grad_vectors: Tensor
    ) -> Tensor:
        if not self.loop:
            return super().eigen_gradient(values, vectors, grad_values, grad_vectors)
        with torch.enable_grad():
            covariance = (vectors * values.unsqueeze(-2)) @ vectors.mT
            covariance = covariance.detach().requires_grad_()
            found, quotients, kept = self._deflate(covariance, values, vectors)
        weights = kept.to(values.dtype)
        rank = found.shape[-1]
        (grad,) = torch.autograd.grad(
            (found, quotients),
            covariance,
            (
                (grad_vectors * weights.unsqueeze(-2))[..., :rank],
                (grad_values * weights)[..., :rank],
            ),
        )
        # What the loop did not reach keeps the gradient of an eigenvalue, as in the closed form.
        alone = (vectors * (grad_values * (1 - weights)).unsqueeze(-2)) @ vectors.mT
        return (grad + grad.mT) / 2 + alone

    def matrix_gradient(
        self, values: Tensor, vectors: Tensor, exponent: float, grad: Tensor
    ) -> Tensor:
        if not self.loop:
            return super().matrix_gradient(values, vectors, exponent, grad)
        # f(M) = V f(l) V^T as a function of V and l, as Alg. 1 writes it.
        believed, kept = self.truncate(values, vectors)
        along = (vectors * (grad @ vectors)).sum(-2) * kept
        grad_vectors = 2 * grad @ vectors * (kept * believed**exponent).unsqueeze(-2)
        grad_values = exponent * believed ** (exponent - 1) * along
        return self.eigen_gradient(values, vectors, grad_values, grad_vectors)

    def _deflate(
        self, covariance: Tensor, values: Tensor, vectors: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Alg. 1, lines 5 to 15: vectors (..., d, rank), quotients (..., rank), kept (..., d)."""
        kept = self.kept(values)
        found, quotients = [], []
        for i in range(values.shape[-1]):
            if not bool(kept[..., i].any()):
                break
            vector = _Iterate.apply(covariance, vectors[..., i : i + 1], self.iterations)
            image = covariance @ vector
            quotient = (vector * image).sum((-2, -1)) / (vector * vector).sum((-2, -1))
            off = (quotient - values[..., i]).abs() >= self.disagreement * values[..., i]
            if i > 0 and bool(off.any()):
                later = torch.arange(values.shape[-1], device=values.device) >= i
                kept = kept & ~(off.unsqueeze(-1) & later)
            found.append(vector)
            quotients.append(quotient)
            covariance = covariance - image @ vector.mT  # eq. 24
        return torch.cat(found, -1), torch.stack(quotients, -1), kept


def _before_first(stops: Tensor) -> Tensor:
    """True before the first True of the last dimension, and at the first place anyhow."""
    before = stops.to(torch.int64).cumsum(-1) == 0
    first = torch.arange(stops.shape[-1], device=stops.device) == 0
    return before | first


@dataclass(frozen=True)
class PlainPowerIteration(Rule):
    """Power iterations forward and backward, from a random start, with deflation (PI).

    The baseline of Backpropagation-Friendly Eigendecomposition and of Robust Differentiable
    SVD, with no eigensolver in it: vector i is what ``iterations`` steps v <- M v / |M v| make
    of a random one, its value is the Rayleigh quotient, and M loses that part (eq. 24). The
    gradient is the true one of all this (eq. 3). Where two values are close, or few iterations
    are made, the vectors are no eigenvectors, and the error of one is handed on to the next: a
    value may come out negative. It is clamped to the eps of the call, as all values are.

    Args:
        iterations: for each vector, at least 1; 19 in the paper.
        seed: of the starts; None draws them from torch's own generator, so that each call
            starts elsewhere.
    """

    iterations: int = 19
    seed: int | None = None
    name: ClassVar[str] = "pi_plain"

    def __post_init__(self) -> None:
        if self.iterations < 1:
            raise ValueError(f"iterations must be at least 1, got {self.iterations}")

    def coefficients(self, values: Tensor) -> Tensor:
        raise ValueError("the rule 'pi_plain' has a forward pass of its own, and no coefficients")

    def decompose(self, covariance: Tensor) -> tuple[Tensor, Tensor]:
        if not bool(torch.isfinite(covariance).all()):
            raise ValueError(f"the covariance of shape {tuple(covariance.shape)} is not finite")
        generator = None
        if self.seed is not None:
            generator = torch.Generator(covariance.device).manual_seed(self.seed)
        matrix = (covariance + covariance.mT) / 2
        vectors, values = [], []
        for _ in range(matrix.shape[-1]):
            vector = torch.randn(
                (*matrix.shape[:-1], 1),
                dtype=matrix.dtype,
                device=matrix.device,
                generator=generator,
            )
            vector = _unit(vector, vector)
            for _ in range(self.iterations):
                vector = _unit(matrix @ vector, vector)
            image = matrix @ vector
            vectors.append(vector)
            values.append((vector * image).sum((-2, -1)))
            matrix = matrix - image @ vector.mT
        if not vectors:
            return matrix.diagonal(dim1=-2, dim2=-1), matrix
        return torch.stack(values, -1), torch.cat(vectors, -1)


def _unit(vector: Tensor, before: Tensor) -> Tensor:
    """A column over its length; where it is zeros, as a matrix of zeros makes it, ``before``."""
    squares = (vector * vector).sum((-2, -1), keepdim=True)
    some = squares > 0
    return torch.where(some, vector / torch.where(some, squares, 1.0).sqrt(), before)


class _Iterate(torch.autograd.Function):
    """Power iterations that start at an eigenvector: they stay there, with eq. 19 for gradient."""

    @staticmethod
    def forward(ctx, covariance: Tensor, vector: Tensor, iterations: int) -> Tensor:
        ctx.save_for_backward(covariance, vector)
        ctx.iterations = iterations
        return vector.clone()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad: Tensor):
        covariance, vector = ctx.saved_tensors
        norm = torch.linalg.vector_norm(covariance @ vector, dim=(-2, -1), keepdim=True)
        term = (grad - vector @ (vector.mT @ grad)) / norm
        total = term
        for _ in range(ctx.iterations - 1):
            term = covariance @ term / norm
            total = total + term
        return total @ vector.mT, None, None
