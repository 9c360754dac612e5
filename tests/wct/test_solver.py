"""The eigensolver never fails its caller: extremes, fallbacks, and what it says."""

import pytest
import torch

import wct
from wct import _eigen, _solver


@pytest.fixture(autouse=True)
def nothing_said_yet(monkeypatch):
    monkeypatch.setattr(_solver, "_said", set())


def rotated(values: torch.Tensor) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    d = len(values)
    vectors, _ = torch.linalg.qr(torch.randn(d, d, dtype=torch.float64, generator=generator))
    matrix = (vectors * values) @ vectors.mT
    return (matrix + matrix.mT) / 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [1e-37, 1e-30, 1.0, 1e30, 2e38])
def test_tiny_and_huge_covariances_keep_their_digits(dtype, scale):
    values = torch.tensor([1.0, 0.5, 0.5, 0.1], dtype=torch.float64)
    matrix = (rotated(values) * scale).to(dtype)
    found, _ = wct.eigh(matrix, eps=0.0)
    rounding = 20 * torch.finfo(dtype).eps
    torch.testing.assert_close(found.double() / scale, values, rtol=rounding, atol=rounding)
    root = wct.sqrtm(matrix, eps=0.0).double() / scale**0.5
    torch.testing.assert_close(root @ root, rotated(values), rtol=rounding, atol=rounding)


def test_an_ill_conditioned_covariance_is_right_to_its_largest_value():
    values = torch.logspace(0, -16, 12, dtype=torch.float64)
    found, _ = wct.eigh(rotated(values), eps=1e-18)
    torch.testing.assert_close(found, values, rtol=0, atol=1e-15)
    matrix = rotated(values).requires_grad_()
    wct.inv_sqrtm(matrix, eps=1e-16).sum().backward()
    assert bool(torch.isfinite(matrix.grad).all())


def test_a_rank_deficient_covariance_is_clamped():
    column = torch.arange(1.0, 5.0)[:, None]
    values, vectors = wct.eigh(column @ column.mT, eps=1e-3)
    torch.testing.assert_close(values, torch.tensor([30.0, 1e-3, 1e-3, 1e-3]))
    torch.testing.assert_close(vectors.mT @ vectors, torch.eye(4))


def test_zeros_have_an_orthogonal_basis():
    values, vectors = wct.eigh(torch.zeros(2, 3, 3), eps=1e-4)
    torch.testing.assert_close(values, torch.full((2, 3), 1e-4))
    torch.testing.assert_close(vectors.mT @ vectors, torch.eye(3).expand(2, 3, 3))


def test_ten_thousand_at_once():
    generator = torch.Generator().manual_seed(0)
    factors = torch.randn(10_000, 4, 6, generator=generator)
    batch = factors @ factors.mT
    root = wct.sqrtm(batch)
    torch.testing.assert_close(root @ root, batch, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_what_is_not_finite_is_refused_and_found(bad):
    batch = torch.eye(3).repeat(2, 1, 1)
    batch[1, 2, 0] = bad
    with pytest.raises(ValueError, match=r"not finite: it is -?(nan|inf) at index \(1, 2, 0\)"):
        wct.sqrtm(batch)


class Stubborn:
    """An eigensolver that gives up a number of times before it works."""

    def __init__(self, failures: int, by_nan: bool) -> None:
        self.left, self.by_nan, self.eigh = failures, by_nan, torch.linalg.eigh
        self.asked: list[torch.Tensor] = []

    def __call__(self, matrix: torch.Tensor):
        self.asked.append(matrix)
        self.left -= 1
        if self.left >= 0 and self.by_nan:
            return matrix[..., 0] * float("nan"), matrix
        if self.left >= 0:
            raise torch.linalg.LinAlgError("did not converge")
        return self.eigh(matrix)


@pytest.mark.parametrize("by_nan", [False, True])
@pytest.mark.parametrize(
    ("failures", "what"), [(1, "a jitter"), (2, "; float64 was"), (3, "float64 on the CPU")]
)
def test_a_solver_that_gives_up_is_helped_and_it_is_said_once(
    monkeypatch, recwarn, failures, what, by_nan
):
    matrix = rotated(torch.tensor([3.0, 2.0, 2.0], dtype=torch.float64)).float()
    expected = wct.sqrtm(matrix)
    for _ in range(2):
        stubborn = Stubborn(failures, by_nan)
        monkeypatch.setattr(torch.linalg, "eigh", stubborn)
        torch.testing.assert_close(wct.sqrtm(matrix), expected)
        assert stubborn.asked[-1].dtype == (torch.float32 if failures == 1 else torch.float64)
    said = [str(warning.message) for warning in recwarn if warning.category is RuntimeWarning]
    assert len(said) == 1
    assert what in said[0]


def test_a_solver_that_never_works_is_an_error(monkeypatch):
    monkeypatch.setattr(torch.linalg, "eigh", Stubborn(99, by_nan=False))
    with pytest.raises(torch.linalg.LinAlgError, match=r"converged on a batch of shape \(3, 3\)"):
        wct.sqrtm(torch.eye(3))


def test_auto_measures_once_and_takes_the_faster_way_to_eigh(monkeypatch):
    _eigen._measured_fastest.cache_clear()
    now, cost = [0.0], {"eigh": 3.0, "eigh_cpu": 2.0, "newton_schulz": 1.0}
    runs = []

    def power(covariance, exponent, *, solver, eps):
        now[0] += cost[solver]
        runs.append(solver)
        return covariance

    monkeypatch.setattr(_eigen, "matrix_power", power)
    monkeypatch.setattr(_eigen.time, "perf_counter", lambda: now[0])
    try:
        place = (torch.device("cpu"), torch.float32, 2, 3)
        assert _eigen._measured_fastest(*place) == "eigh_cpu"
        before = len(runs)
        assert _eigen._measured_fastest(*place) == "eigh_cpu"
        assert len(runs) == before
    finally:
        _eigen._measured_fastest.cache_clear()


@pytest.mark.parametrize("rule", [wct.Newton(5), wct.Exact(), wct.Taylor(9)], ids=lambda r: r.name)
@pytest.mark.parametrize("exponent", [0.5, -0.5])
def test_auto_is_one_function_whatever_is_fastest(monkeypatch, rule, exponent):
    # The smallest inverse root is 1e5 clamped, 1e3 by a shift, 7 after five iterations.
    covariance = torch.diag(torch.tensor([1.0, 1e-4, 1e-12], dtype=torch.float64))
    expected = wct.matrix_power(covariance, exponent, gradient=rule, eps=1e-10, solver="eigh")
    for fastest in _eigen.SAME_FUNCTION:
        monkeypatch.setattr(_eigen, "_fastest", lambda covariance, f=fastest: f)
        found = wct.matrix_power(covariance, exponent, gradient=rule, eps=1e-10)
        torch.testing.assert_close(found, expected)


def test_auto_runs_every_solver_it_measures():
    _eigen._measured_fastest.cache_clear()
    place = (torch.device("cpu"), torch.float32, 2, 3)
    assert _eigen._measured_fastest(*place) in _eigen.SAME_FUNCTION
    _eigen._measured_fastest.cache_clear()
