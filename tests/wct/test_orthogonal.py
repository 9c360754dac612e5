"""Orthogonal loss, gradient and learning rate, against their equations and their bounds."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from wct import orthogonal


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 4), (4, 2, 3, 3)])
def test_loss_is_zero_for_orthonormal_rows_or_columns_alone(shape):
    weight = orthogonal.nearest_orthogonal(random(*shape))
    assert float(orthogonal.orthogonal_loss(weight)) == pytest.approx(0, abs=1e-12)
    # Twice the weight: ||4 I - I|| of as many rows or columns.
    fewer = min(shape[0], weight[0].numel())
    assert float(orthogonal.orthogonal_loss(2 * weight)) == pytest.approx(3 * fewer**0.5)


def test_loss_pulls_a_weight_to_orthogonality():
    layer = nn.Conv2d(3, 8, 3)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.02)
    first = orthogonal.orthogonal_loss(layer.weight).item()
    for _ in range(100):
        optimizer.zero_grad()
        loss = orthogonal.orthogonal_loss(layer.weight)
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.1 * first


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 4), (4, 2, 3, 3)])
@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e20])
def test_nearest_orthogonal_is_the_polar_factor(shape, scale):
    G = random(*shape)
    U, _, Vh = torch.linalg.svd(G.flatten(1), full_matrices=False)
    found = orthogonal.nearest_orthogonal(G * scale)
    torch.testing.assert_close(found.flatten(1), U @ Vh)
    assert found.shape == G.shape


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 6), st.integers(0, 99), st.integers(0, 99))
def test_no_orthogonal_matrix_is_nearer(n, seed, other):
    # Eq. 14.
    G = random(n, n, seed=seed)
    nearest = orthogonal.nearest_orthogonal(G)
    rival, _ = torch.linalg.qr(random(n, n, seed=other + 1000))
    assert (G - nearest).norm() <= (G - rival).norm() + 1e-12


def test_directions_without_a_gradient_stay_without():
    assert torch.equal(orthogonal.nearest_orthogonal(torch.zeros(3, 4)), torch.zeros(3, 4))
    left, right = random(4, 1), random(1, 3)
    found = orthogonal.nearest_orthogonal(left @ right)
    torch.testing.assert_close(found, left / left.norm() @ right / right.norm())


@pytest.mark.parametrize("layer", [nn.Linear(5, 3), nn.Conv2d(2, 4, 3)])
def test_hook_makes_the_weights_gradient_orthogonal_and_leaves_the_bias(layer):
    x = torch.randn(2, 5) if isinstance(layer, nn.Linear) else torch.randn(2, 2, 6, 6)
    layer(x).square().sum().backward()
    plain, bias = layer.weight.grad.clone(), layer.bias.grad.clone()
    layer.zero_grad()
    handle = orthogonal.nearest_orthogonal_gradient(layer)
    layer(x).square().sum().backward()
    torch.testing.assert_close(
        layer.weight.grad, orthogonal.nearest_orthogonal(plain), rtol=1e-3, atol=1e-4
    )
    torch.testing.assert_close(layer.bias.grad, bias)
    handle.remove()
    layer.zero_grad()
    layer(x).square().sum().backward()
    torch.testing.assert_close(layer.weight.grad, plain)


def test_hook_works_beneath_a_parametrization():
    layer = orthogonal.orthogonal_weight(nn.Linear(4, 4, bias=False))
    handle = orthogonal.nearest_orthogonal_gradient(layer)
    layer(torch.randn(8, 4)).square().mul(torch.arange(4)).sum().backward()
    grad = layer.parametrizations.weight.original.grad
    singular = torch.linalg.svdvals(grad)
    # A direction without a gradient has none afterwards.
    assert bool(((singular - 1).abs() < 1e-4).logical_or(singular < 1e-4).all())
    handle.remove()


def test_torchs_parametrizations_are_at_hand():
    weight = orthogonal.orthogonal_weight(nn.Linear(4, 4)).weight
    torch.testing.assert_close(weight @ weight.mT, torch.eye(4), rtol=1e-5, atol=1e-5)
    layer = orthogonal.spectral_norm(nn.Linear(4, 4), n_power_iterations=50)
    largest = torch.linalg.svdvals(layer.weight).amax()
    assert largest.item() == pytest.approx(1, abs=1e-3)


def test_a_layer_without_a_weight_is_refused():
    with pytest.raises(ValueError, match="ReLU has no weight"):
        orthogonal.nearest_orthogonal_gradient(nn.ReLU())
    with pytest.raises(ValueError, match=r"BatchNorm2d has no weight.*got \(4,\)"):
        orthogonal.nearest_orthogonal_gradient(nn.BatchNorm2d(4))
    with pytest.raises(ValueError, match=r"\(out, in, \.\.\.\), got \(4,\)"):
        orthogonal.orthogonal_loss(torch.zeros(4))


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 8), st.integers(0, 200))
def test_optimal_learning_rate_is_inside_the_bounds_of_proposition_1(n, seed):
    W, _ = torch.linalg.qr(random(n, n, seed=seed))
    L, _ = torch.linalg.qr(random(n, n, seed=seed + 500))
    # The proposition's own premise, <L, W> of at least 1, does not follow from orthogonality.
    inner = float((W * L).sum())
    if inner < 1:
        L = orthogonal.nearest_orthogonal(L + (1 + n) * W)
    rate = orthogonal.optimal_learning_rate(W, L, learning_rate=1.0)
    assert 1 / (n * n + 2) * (1 - 1e-12) <= rate <= n * n / (n * n + 2)


def test_optimal_learning_rate_is_equation_20():
    w, l = random(3, 4), random(3, 4, seed=1) + random(3, 4)
    ww, lw, ll = ((a * b).sum() for a, b in ((w, w), (l, w), (l, l)))
    expected = float(ww * lw / (ww * ll + 2 * lw * lw))
    assert orthogonal.optimal_learning_rate(w, l, 10.0) == pytest.approx(expected)


def test_optimal_learning_rate_switches_to_the_usual_one():
    W = random(3, 3)
    assert orthogonal.optimal_learning_rate(W, W, 0.1) == 0.1  # eq. 21: 1/3 is too large
    assert orthogonal.optimal_learning_rate(W, -W, 0.1) == 0.1  # -1/3 would climb
    assert orthogonal.optimal_learning_rate(W, torch.zeros(3, 3), 0.1) == 0.1
    with pytest.raises(ValueError, match=r"one shape, got \(3, 3\) and \(3, 2\)"):
        orthogonal.optimal_learning_rate(W, W[:, :2], 0.1)
    with pytest.raises(ValueError, match="must not be negative, got -1"):
        orthogonal.optimal_learning_rate(W, W, -1)


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam])
def test_an_optimizer_takes_the_optimal_step_for_its_group_alone(kind):
    layer, head = nn.Linear(4, 4, bias=False), nn.Linear(4, 2)
    groups = [{"params": [layer.weight], "lr": 0.3}, {"params": head.parameters(), "lr": 0.3}]
    optimizer = kind(groups)
    handles = orthogonal.apply_optimal_learning_rate(optimizer, optimizer.param_groups[0])
    with torch.no_grad():
        layer.weight.copy_(torch.eye(4))
    weight, grad = layer.weight.detach().clone(), 3 * torch.eye(4)
    layer.weight.grad = grad.clone()
    rate = orthogonal.optimal_learning_rate(weight, grad, 0.3)
    assert rate < 0.3
    optimizer.step()
    step = rate * grad if kind is torch.optim.SGD else rate * torch.eye(4)
    torch.testing.assert_close(layer.weight.detach(), weight - step)
    assert [group["lr"] for group in optimizer.param_groups] == [0.3, 0.3]
    for handle in handles:
        handle.remove()
    if kind is torch.optim.SGD:
        before = layer.weight.detach().clone()
        optimizer.step()
        torch.testing.assert_close(layer.weight.detach(), before - 0.3 * grad)


def test_a_group_of_several_parameters_is_refused():
    layer = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    with pytest.raises(ValueError, match=r"got shapes \[\(4, 4\), \(4,\)\]"):
        orthogonal.apply_optimal_learning_rate(optimizer, optimizer.param_groups[0])
    with pytest.raises(ValueError, match=r"one of optimizer\.param_groups"):
        orthogonal.apply_optimal_learning_rate(optimizer, {"params": [layer.weight]})
