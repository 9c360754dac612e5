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


@pytest.mark.parametrize("set_to_none", [True, False])
def test_accumulated_gradients_are_those_of_the_whole_batch(set_to_none):
    layer, x = nn.Linear(5, 3), torch.randn(8, 5)
    orthogonal.nearest_orthogonal_gradient(layer)
    for _ in range(2):
        layer.zero_grad(set_to_none=set_to_none)
        layer(x).square().sum().backward()
        whole = layer.weight.grad.clone()
        layer.zero_grad(set_to_none=set_to_none)
        for part in x.split(2):
            layer(part).square().sum().backward()
        torch.testing.assert_close(layer.weight.grad, whole, rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(whole @ whole.mT, torch.eye(3), rtol=0, atol=1e-4)


LAYERS = [
    lambda: nn.Linear(4, 4),
    lambda: nn.Linear(7, 3),
    lambda: nn.Linear(3, 7),
    lambda: nn.Conv2d(32, 32, 1),
    lambda: nn.Conv2d(3, 64, 3),
    lambda: nn.Conv2d(16, 8, 3),
    lambda: nn.Conv2d(8, 8, (1, 3), groups=4),
]


def as_matrix(layer: nn.Module) -> torch.Tensor:
    """(out, in k k), or its transpose: with at least as many columns as rows."""
    matrix = layer.weight.flatten(1)
    return matrix if matrix.shape[0] <= matrix.shape[1] else matrix.mT


@pytest.mark.parametrize("make", LAYERS)
def test_weight_is_orthogonal_as_one_matrix_from_start_to_end(make):
    torch.manual_seed(0)
    layer = make().double()
    nearest = orthogonal.nearest_orthogonal(layer.weight.detach())
    assert orthogonal.orthogonal_weight(layer) is layer
    # Training begins at what is nearest to the layer's own.
    torch.testing.assert_close(layer.weight, nearest)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    inner = torch.randn_like(layer.weight)
    for _ in range(5):
        optimizer.zero_grad()
        (layer.weight * inner).sum().backward()
        optimizer.step()
    matrix = as_matrix(layer)
    torch.testing.assert_close(matrix @ matrix.mT, torch.eye(len(matrix), dtype=torch.float64))
    assert (layer.weight - nearest).abs().max() > 1e-2


def test_training_reaches_any_orthogonal_matrix():
    torch.manual_seed(0)
    layer = nn.Conv2d(3, 4, 2).double()
    orthogonal.orthogonal_weight(layer)
    goal = orthogonal.nearest_orthogonal(random(4, 3, 2, 2, seed=5))
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.2)
    for _ in range(500):
        optimizer.zero_grad()
        (layer.weight - goal).square().sum().backward()
        optimizer.step()
    torch.testing.assert_close(layer.weight, goal, rtol=0, atol=1e-4)


def test_covariance_after_an_orthogonal_convolution_is_as_well_conditioned_as_before():
    # torch's own parametrization makes weights of +-1 of a 1 x 1 kernel: condition number 68.
    torch.manual_seed(0)
    layer = orthogonal.orthogonal_weight(nn.Conv2d(32, 32, 1, bias=False).double())
    values = torch.linalg.svdvals(layer.weight.flatten(1))
    assert float(values.amax() / values.amin()) == pytest.approx(1, abs=1e-6)


def test_an_orthogonal_weight_can_be_assigned_and_saved():
    torch.manual_seed(0)
    layer, other = (orthogonal.orthogonal_weight(nn.Conv2d(3, 4, 2)) for _ in range(2))
    goal = orthogonal.nearest_orthogonal(torch.randn(4, 3, 2, 2))
    layer.weight = goal
    torch.testing.assert_close(layer.weight, goal, rtol=1e-4, atol=1e-5)
    other.load_state_dict(layer.state_dict())
    assert torch.equal(other.weight, layer.weight)
    with pytest.raises(ValueError, match=r"shape \(4, 3, 2, 2\), got \(4, 3, 3, 3\)"):
        layer.weight = torch.randn(4, 3, 3, 3)


@pytest.mark.parametrize("module", [nn.ReLU(), nn.BatchNorm2d(4), nn.Linear(0, 3)])
def test_a_weight_that_is_no_matrix_cannot_be_orthogonal(module):
    with pytest.raises(ValueError, match=r"has no weight of shape \(out, in, \.\.\.\), got"):
        orthogonal.orthogonal_weight(module)


def test_torchs_spectral_norm_is_at_hand():
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


def test_the_papers_step_leads_away_from_orthogonal_more_often_than_not():
    # What the docstring says of eqs. 18 to 20.
    away = 0
    for seed in range(200):
        W, gradient = random(6, 6, seed=seed) / 6**0.5, random(6, 6, seed=1000 + seed)
        step = orthogonal.optimal_learning_rate(W, gradient, 1.0)
        away += int(orthogonal.orthogonal_loss(W - step * gradient) > orthogonal.orthogonal_loss(W))
    assert away > 120
