"""Newton-Schulz roots agree with the eigensolver's, and their gradients with the exact one."""

import pytest
import torch
from torch.autograd import gradcheck

import wct


def batch(*spectra: list[float], dtype=torch.float64) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    values = torch.tensor(spectra, dtype=torch.float64)
    d = values.shape[-1]
    vectors, _ = torch.linalg.qr(
        torch.randn(len(spectra), d, d, dtype=torch.float64, generator=generator)
    )
    return ((vectors * values.unsqueeze(-2)) @ vectors.mT).to(dtype)


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_both_roots_come_at_once_at_any_scale(scale):
    covariance = batch([5, 2, 2, 0.1], [1, 1, 1, 1])
    root, inverse = wct.newton_schulz(covariance * scale)
    torch.testing.assert_close(root / scale**0.5, wct.sqrtm(covariance))
    torch.testing.assert_close(inverse * scale**0.5, wct.inv_sqrtm(covariance))


def test_iterates_are_the_papers():
    # Eqs. 7-9, two iterations written out.
    covariance = batch([3, 1])
    A, eye = covariance / 4, torch.eye(2, dtype=torch.float64)
    Y1, Z1 = A @ (3 * eye - A) / 2, (3 * eye - A) / 2
    Y2, Z2 = Y1 @ (3 * eye - Z1 @ Y1) / 2, (3 * eye - Z1 @ Y1) @ Z1 / 2
    root, inverse = wct.newton_schulz(covariance, iterations=2)
    torch.testing.assert_close(root, 2 * Y2)
    torch.testing.assert_close(inverse, Z2 / 2)


def test_iterations_can_be_differentiated_through():
    covariance = batch([3, 2, 0.5]).requires_grad_()
    assert gradcheck(lambda m: wct.newton_schulz(m, iterations=4), (covariance,))


@pytest.mark.parametrize("function", [wct.sqrtm, wct.inv_sqrtm])
def test_exact_gradient_without_eigenvalues(function):
    covariance = batch([5, 2, 2, 0.1], [3, 1, 1, 1e-2])
    weights = torch.arange(16, dtype=torch.float64).view(4, 4)
    gradients = []
    for solver in ("eigh", "newton_schulz"):
        leaf = covariance.clone().requires_grad_()
        (function(leaf, solver=solver, eps=1e-14) * weights).sum().backward()
        gradients.append(leaf.grad)
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("function", [wct.sqrtm, wct.inv_sqrtm])
def test_vmap_of_values_and_of_gradients(function):
    covariances = batch([3, 2, 1], [3, 1, 1], [2, 2, 0.5])
    weights = torch.arange(9, dtype=torch.float64).view(3, 3)

    def loss(m):
        return (function(m, solver="newton_schulz") * weights).sum()

    found = torch.func.vmap(torch.func.grad(loss))(covariances)
    leaf = covariances.clone().requires_grad_()
    torch.func.vmap(loss)(leaf).sum().backward()
    torch.testing.assert_close(found, leaf.grad)
    exact = torch.func.vmap(torch.func.grad(lambda m: (function(m) * weights).sum()))
    torch.testing.assert_close(found, exact(covariances), rtol=1e-6, atol=1e-6)


def test_a_second_derivative_of_the_exact_rule_is_refused_not_wrong():
    leaf = batch([3, 2, 1]).requires_grad_()
    root = wct.sqrtm(leaf, solver="newton_schulz")
    (grad,) = torch.autograd.grad(root.square().sum(), leaf, create_graph=True)
    with pytest.raises(RuntimeError, match="can't be differentiated twice"):
        grad.sum().backward()


def test_newton_rule_with_newton_schulz_takes_the_rules_iterations():
    covariance = batch([3, 2, 1])
    found = wct.sqrtm(covariance, gradient=wct.Newton(3), solver="newton_schulz", eps=0.0)
    torch.testing.assert_close(found, wct.newton_schulz(covariance, iterations=3)[0])


def test_float32_of_a_usual_covariance_is_right():
    covariance = batch([3, 1, 0.3, 0.02], dtype=torch.float32)
    root, inverse = wct.newton_schulz(covariance)
    torch.testing.assert_close(root, wct.sqrtm(covariance), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(inverse, wct.inv_sqrtm(covariance), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("values", [[0, 0, 0], [1, 0, 0], [1, 1e-9, 0]])
def test_a_singular_covariance_stays_finite(values, dtype):
    covariance = batch(values, dtype=dtype).requires_grad_()
    eps = 4 * torch.finfo(dtype).eps
    root = wct.sqrtm(covariance, solver="newton_schulz", eps=eps)
    root.sum().backward()
    # The iteration's round-off grows with the root's condition number, 1 / sqrt(eps).
    assert (root @ root - covariance).abs().max() <= torch.finfo(dtype).eps ** 0.5
    assert bool(torch.isfinite(covariance.grad).all())


def test_what_newton_schulz_cannot_do_is_said():
    eye = torch.eye(3)
    with pytest.raises(ValueError, match="iterations must be at least 1, got 0"):
        wct.newton_schulz(eye, iterations=0)
    for iterations in (None, 5):
        with pytest.raises(ValueError, match="trace that is not negative, got -3"):
            wct.newton_schulz(-eye, iterations=iterations)
        with pytest.raises(ValueError, match="trace that is not negative, got nan"):
            wct.newton_schulz(eye * float("nan"), iterations=iterations)
    with pytest.raises(ValueError, match="which the rule 'taylor' needs"):
        wct.sqrtm(eye, gradient="taylor", solver="newton_schulz")
    with pytest.raises(ValueError, match=r"exponents 0\.5 and -0\.5, got 2\.0"):
        wct.matrix_power(eye, 2, solver="newton_schulz")


@pytest.mark.parametrize("iterations", [None, 5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_zeros_in_a_batch_are_finite_and_leave_the_others_alone(iterations, dtype):
    covariance = torch.cat((torch.zeros(1, 3, 3, dtype=dtype), batch([3, 2, 0.5], dtype=dtype)))
    covariance.requires_grad_()
    root, inverse = wct.newton_schulz(covariance, iterations=iterations)
    assert torch.equal(root[0], torch.zeros(3, 3, dtype=dtype))
    alone = wct.newton_schulz(covariance[1:], iterations=iterations)
    torch.testing.assert_close(root[1:], alone[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(inverse[1:], alone[1], rtol=1e-4, atol=1e-5)
    (root.sum() + inverse.sum()).backward()
    assert bool(torch.isfinite(inverse).all()) and bool(torch.isfinite(covariance.grad).all())


@pytest.mark.parametrize("rule", ["exact", "newton"])
@pytest.mark.parametrize("value", [0.0, -1e-8])
def test_variance_that_rounding_took_below_zero_has_a_finite_root(rule, value):
    covariance = (value * torch.eye(4)).requires_grad_()
    for function in (wct.sqrtm, wct.inv_sqrtm):
        root = function(covariance, gradient=rule, solver="newton_schulz", eps=1e-10)
        root.sum().backward()
        assert bool(torch.isfinite(root).all()) and bool(torch.isfinite(covariance.grad).all())
