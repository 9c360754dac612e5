"""CovariancePool gives the upper triangle of the covariance's normalized root."""

import pytest
import torch
from torch.autograd import gradcheck

import wct


def images(*shape: int, dtype=torch.float64) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(*shape, dtype=torch.float64, generator=generator).to(dtype)


@pytest.mark.parametrize("solver", ["newton_schulz", "eigh", "auto"])
def test_it_is_the_upper_triangle_of_the_normalized_root(solver):
    x = images(2, 4, 5, 5)
    pooled = wct.CovariancePool(4, solver=solver)(x)
    root = wct.sqrtm(wct.mean_and_covariance(x, 1)[1][:, 0])
    root = root / root.square().sum((1, 2), keepdim=True).sqrt()  # eq. 29
    rows, columns = torch.triu_indices(4, 4)
    torch.testing.assert_close(pooled, root[:, rows, columns])


def test_without_normalization_it_is_the_root():
    x = images(1, 3, 5, 5)
    pooled = wct.CovariancePool(3, solver="eigh", normalize=False)(x)
    root = torch.zeros(3, 3, dtype=torch.float64)
    root[tuple(torch.triu_indices(3, 3))] = pooled[0]
    root = root + root.triu(1).mT
    torch.testing.assert_close(root @ root, wct.mean_and_covariance(x, 1)[1][0, 0])


def test_the_solver_can_be_switched_in_place():
    # Hybrid training: the same layer, the same state, another solver.
    pool = wct.CovariancePool(6, reduce=3, dtype=torch.float64)
    x = images(2, 6, 5, 5, dtype=torch.float32)
    before, state = pool(x), set(pool.state_dict())
    pool.solver = "eigh"
    torch.testing.assert_close(pool(x), before)
    assert set(pool.state_dict()) == state == {"reduce.weight"}
    with pytest.raises(ValueError, match="unknown solver 'svd'"):
        pool.solver = "svd"


@pytest.mark.parametrize("reduce", [None, 4])
def test_shapes_and_types(reduce):
    d = reduce or 8
    for dtype in (None, torch.float64):
        pooled = wct.CovariancePool(8, reduce=reduce, dtype=dtype)(images(3, 8, 4, 4).float())
        assert pooled.shape == (3, d * (d + 1) // 2)
        assert pooled.dtype == torch.float32


@pytest.mark.parametrize(
    ("solver", "gradient"), [("eigh", "exact"), ("newton_schulz", "newton"), ("eigh", "analytic")]
)
def test_gradients_are_right(solver, gradient):
    pool = wct.CovariancePool(3, solver=solver, gradient=gradient)
    assert gradcheck(pool, (images(2, 3, 4, 4).requires_grad_(),))


def test_newton_schulz_with_the_exact_rule_has_the_exact_gradient():
    gradients = []
    for solver in ("eigh", "newton_schulz"):
        x = images(2, 3, 4, 4).requires_grad_()
        pooled = wct.CovariancePool(3, solver=solver)(x)
        (pooled * torch.arange(6)).sum().backward()
        gradients.append(x.grad)
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("solver", ["newton_schulz", "eigh"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("case", ["zeros", "fewer positions than channels", "one position"])
def test_degenerate_features_are_finite_forward_and_backward(case, dtype, solver):
    x = {
        "zeros": torch.zeros(2, 8, 3, 3),
        "fewer positions than channels": images(2, 8, 2, 2),
        "one position": images(2, 8, 1, 1),
    }[case].to(dtype)
    x.requires_grad_()
    pooled = wct.CovariancePool(8, solver=solver)(x)
    (pooled * torch.arange(36)).sum().backward()
    assert bool(torch.isfinite(pooled).all())
    assert bool(torch.isfinite(x.grad).all())


def test_what_does_not_fit_is_refused_with_its_shape():
    with pytest.raises(ValueError, match=r"shape \(B, 8, H, W\), got \(2, 4, 3, 3\)"):
        wct.CovariancePool(8)(torch.zeros(2, 4, 3, 3))
    with pytest.raises(ValueError, match="at least 1, got 8 and 0"):
        wct.CovariancePool(8, reduce=0)
    with pytest.raises(ValueError, match="unknown solver 'svd'"):
        wct.CovariancePool(8, solver="svd")
