"""ZCANorm2d decorrelates a batch and stands in for BatchNorm2d."""

import copy

import pytest
import torch
from torch import nn
from torch.autograd import gradcheck

import wct


def batch(*shape: int, dtype=torch.float64, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(*shape, dtype=torch.float64, generator=generator)
    mixing = torch.randn(shape[1], shape[1], dtype=torch.float64, generator=generator)
    return (torch.einsum("dc,bchw->bdhw", mixing, x) + 3).to(dtype)


def covariance(x: torch.Tensor) -> torch.Tensor:
    rows = x.transpose(0, 1).flatten(1)
    return torch.cov(rows, correction=0)


@pytest.mark.parametrize("group_size", [1, 4, 8])
def test_a_training_batch_comes_out_white_within_its_groups(group_size):
    norm = wct.ZCANorm2d(8, group_size=group_size, eps=1e-10, dtype=torch.float64)
    found = covariance(norm(batch(4, 8, 5, 5)))
    for start in range(0, 8, group_size):
        block = found[start : start + group_size, start : start + group_size]
        torch.testing.assert_close(block, torch.eye(group_size, dtype=torch.float64))


@pytest.mark.parametrize("momentum", [0.1, None])
@pytest.mark.parametrize("affine", [True, False])
def test_groups_of_one_channel_are_batch_normalization(momentum, affine):
    options = {"momentum": momentum, "affine": affine, "eps": 1e-5, "dtype": torch.float64}
    ours, torchs = wct.ZCANorm2d(4, group_size=1, **options), nn.BatchNorm2d(4, **options)
    for seed in range(3):
        x = batch(3, 4, 5, 5, seed=seed)
        torch.testing.assert_close(ours(x), torchs(x))
    torch.testing.assert_close(ours.running_mean, torchs.running_mean)
    torch.testing.assert_close(ours.running_covariance.flatten(), torchs.running_var)
    assert torch.equal(ours.num_batches_tracked, torchs.num_batches_tracked)
    ours.eval()
    torchs.eval()
    torch.testing.assert_close(ours(batch(2, 4, 3, 3)), torchs(batch(2, 4, 3, 3)))


def test_a_batch_normalizations_state_is_taken():
    torchs = nn.BatchNorm2d(8, dtype=torch.float64)
    torchs(batch(3, 8, 5, 5))
    nn.init.normal_(torchs.weight)
    ours = wct.ZCANorm2d(8, group_size=4, eps=torchs.eps, dtype=torch.float64)
    state = torchs.state_dict()
    ours.load_state_dict(state)
    assert "running_var" in state
    x = batch(2, 8, 3, 3, seed=1)
    torch.testing.assert_close(ours.eval()(x), torchs.eval()(x))


def test_state_goes_round():
    norm = wct.ZCANorm2d(8, group_size=4)
    norm(batch(3, 8, 5, 5, dtype=torch.float32))
    other = wct.ZCANorm2d(8, group_size=4)
    other.load_state_dict(copy.deepcopy(norm.state_dict()))
    x = batch(2, 8, 3, 3, dtype=torch.float32, seed=1)
    assert torch.equal(other.eval()(x), norm.eval()(x))


def test_evaluation_is_a_fixed_affine_map():
    norm = wct.ZCANorm2d(8, group_size=4, dtype=torch.float64)
    for seed in range(3):
        norm(batch(3, 8, 5, 5, seed=seed))
    norm.eval()
    state = copy.deepcopy(norm.state_dict())
    x, y = batch(2, 8, 4, 4, seed=5), batch(2, 8, 4, 4, seed=6)
    torch.testing.assert_close(norm(0.3 * x + 0.7 * y), 0.3 * norm(x) + 0.7 * norm(y))
    # One picture alone is mapped as it is within a batch, and nothing is learned from it.
    torch.testing.assert_close(norm(x[:1]), norm(x)[:1])
    assert all(torch.equal(norm.state_dict()[key], value) for key, value in state.items())


def test_evaluation_whitens_by_the_running_covariance():
    norm = wct.ZCANorm2d(4, group_size=4, eps=1e-3, dtype=torch.float64)
    for _ in range(3):
        norm(batch(3, 4, 5, 5))
    norm.eval()
    expected = wct.inv_sqrtm(norm.running_covariance[0] + 1e-3 * torch.eye(4))
    x = batch(1, 4, 2, 2, seed=1)
    centered = x - norm.running_mean.view(1, 4, 1, 1)
    torch.testing.assert_close(norm(x), torch.einsum("dc,bchw->bdhw", expected, centered))


def test_without_running_statistics_evaluation_uses_the_batch():
    norm = wct.ZCANorm2d(4, group_size=2, track_running_stats=False)
    x = batch(3, 4, 5, 5, dtype=torch.float32)
    assert torch.equal(norm.eval()(x), norm.train()(x))
    assert set(norm.state_dict()) == {"weight", "bias"}


def test_weight_and_bias_scale_and_shift_each_channel():
    norm = wct.ZCANorm2d(4, group_size=2, dtype=torch.float64)
    x = batch(3, 4, 5, 5)
    plain = norm(x)
    with torch.no_grad():
        norm.weight.copy_(torch.arange(1.0, 5.0))
        norm.bias.copy_(torch.arange(4.0))
    scale, shift = (t.view(1, 4, 1, 1).double() for t in (torch.arange(1, 5), torch.arange(4)))
    torch.testing.assert_close(norm(x), plain * scale + shift)
    norm.reset_parameters()
    assert torch.equal(norm.running_covariance[0], torch.eye(2, dtype=torch.float64))
    assert torch.equal(norm.weight, torch.ones(4, dtype=torch.float64))


def test_gradients_of_features_weight_and_bias_are_right():
    norm = wct.ZCANorm2d(
        4, group_size=2, gradient="exact", track_running_stats=False, dtype=torch.float64
    )
    x = batch(2, 4, 2, 2).requires_grad_()

    def forward(x, weight, bias):
        return torch.func.functional_call(norm, {"weight": weight, "bias": bias}, (x,))

    parameters = [p.detach().clone().requires_grad_() for p in (norm.weight, norm.bias)]
    assert gradcheck(forward, (x, *parameters))


def test_a_dead_channel_and_a_copied_one_stay_finite():
    x = batch(3, 4, 5, 5, dtype=torch.float32)
    x[:, 1] = 0
    x[:, 3] = x[:, 2]
    x.requires_grad_()
    out = wct.ZCANorm2d(4, group_size=4)(x)
    out.square().sum().backward()
    assert bool(torch.isfinite(out).all())
    assert bool(torch.isfinite(x.grad).all())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: wct.ZCANorm2d(10, group_size=4), "10 channels can't be split into groups of 4"),
        (lambda: wct.ZCANorm2d(8, eps=0.0, group_size=4), "eps must be positive, got 0.0"),
        (lambda: wct.ZCANorm2d(4, group_size=2)(torch.zeros(2, 3, 4, 4)), r"got \(2, 3, 4, 4\)"),
        (lambda: wct.ZCANorm2d(4, group_size=2)(torch.zeros(2, 4)), r"got \(2, 4\)"),
        (
            lambda: wct.ZCANorm2d(4, group_size=2)(torch.zeros(1, 4, 1, 1)),
            r"more than one value a channel, got \(1, 4, 1, 1\)",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_its_shape(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_it_stands_in_for_batch_normalization_in_a_network():
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(3, 16, 3), wct.ZCANorm2d(16), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 16, 2)
    )
    x, target = torch.randn(16, 3, 6, 6), torch.arange(16) % 2
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05)
    losses = []
    for _ in range(15):
        loss = nn.functional.cross_entropy(network(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


def test_newton_schulz_whitens_as_the_eigensolver_does():
    x = batch(4, 8, 5, 5)
    options = {"group_size": 4, "eps": 1e-2, "dtype": torch.float64}
    by_eigh = wct.ZCANorm2d(8, gradient="exact", solver="eigh", **options)
    for rule in ("exact", wct.Newton(15)):
        iterated = wct.ZCANorm2d(8, gradient=rule, solver="newton_schulz", **options)
        torch.testing.assert_close(iterated(x), by_eigh(x), rtol=1e-4, atol=1e-4)
    # A few iterations whiten in part: the layer is the iteration, not an eigensolver beside it.
    few = wct.ZCANorm2d(8, gradient=wct.Newton(2), solver="newton_schulz", **options)
    assert (few(x) - by_eigh(x)).abs().max() > 1e-2


def test_an_unknown_solver_is_refused():
    with pytest.raises(ValueError, match="unknown solver 'svd'; there are auto, eigh"):
        wct.ZCANorm2d(16, solver="svd")
    with pytest.raises(ValueError, match="which the rule 'taylor' needs"):
        wct.ZCANorm2d(16, solver="newton_schulz", gradient="taylor")(torch.randn(2, 16, 4, 4))
