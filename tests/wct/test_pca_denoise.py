"""PCADenoise2d keeps what it is told to keep of a batch's variance."""

import copy

import pytest
import torch
from torch.autograd import gradcheck

import wct


def batch(*shape: int, dtype=torch.float64, seed: int = 0) -> torch.Tensor:
    """Features of a few strong directions and much weak noise."""
    generator = torch.Generator().manual_seed(seed)
    b, c, h, w = shape
    strong = torch.randn(b, 3, h, w, dtype=torch.float64, generator=generator)
    mixing = torch.randn(c, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(9))
    noise = 0.05 * torch.randn(shape, dtype=torch.float64, generator=generator)
    return (torch.einsum("dc,bchw->bdhw", mixing, strong) + noise + 2).to(dtype)


def spectrum(x: torch.Tensor) -> torch.Tensor:
    return torch.linalg.eigvalsh(torch.cov(x.transpose(0, 1).flatten(1), correction=0)).flip(0)


@pytest.mark.parametrize("keep", [1, 3, 8])
def test_so_many_components_are_left(keep):
    denoise = wct.PCADenoise2d(8, keep=keep, dtype=torch.float64)
    values = spectrum(denoise(batch(4, 8, 5, 5)))
    assert bool((values[:keep] > 1e-5).all())
    assert values[keep:].abs().sum() < 1e-12


@pytest.mark.parametrize("keep", [0.5, 0.9, 0.99])
def test_the_share_of_energy_is_kept_with_as_few_components_as_do(keep):
    x = batch(4, 8, 5, 5)
    all_of_it = spectrum(wct.PCADenoise2d(8, keep=1.0, dtype=torch.float64)(x))
    left = spectrum(wct.PCADenoise2d(8, keep=keep, dtype=torch.float64)(x))
    count = int((left > 1e-9).sum())
    shares = all_of_it.cumsum(0) / all_of_it.sum()
    assert shares[count - 1] >= keep
    assert count == 1 or shares[count - 2] < keep


def test_all_components_leave_the_standardized_features():
    x = batch(4, 8, 5, 5)
    standard = torch.nn.BatchNorm2d(8, eps=1e-5, dtype=torch.float64)(x)
    for keep in (8, 1.0):
        torch.testing.assert_close(wct.PCADenoise2d(8, keep=keep, dtype=torch.float64)(x), standard)


def test_noise_is_taken_out():
    clean = batch(4, 8, 9, 9)
    noisy = clean + 0.3 * torch.randn(clean.shape, generator=torch.Generator().manual_seed(5))
    denoise = wct.PCADenoise2d(8, keep=3, affine=False, dtype=torch.float64)
    scale = noisy.std((0, 2, 3), correction=0, keepdim=True)
    found = denoise(noisy) * scale + noisy.mean((0, 2, 3), keepdim=True)
    assert (found - clean).square().mean() < 0.75 * (noisy - clean).square().mean()


@pytest.mark.parametrize("group_size", [4, 8])
def test_projection_is_a_projection_in_each_group(group_size):
    denoise = wct.PCADenoise2d(8, keep=2, group_size=group_size, dtype=torch.float64)
    P, inverse_sigma = denoise.projection(denoise.covariance(batch(4, 8, 5, 5)))
    assert P.shape == (8 // group_size, group_size, group_size)
    assert inverse_sigma.shape == (8 // group_size, group_size, 1)
    torch.testing.assert_close(P @ P, P)
    ranks = P.diagonal(dim1=1, dim2=2).sum(-1)
    torch.testing.assert_close(ranks, torch.full((len(P),), 2.0, dtype=torch.float64))


def test_evaluation_is_a_fixed_map_of_the_running_statistics():
    denoise = wct.PCADenoise2d(8, keep=2, dtype=torch.float64)
    for seed in range(4):
        denoise(batch(4, 8, 5, 5, seed=seed))
    denoise.eval()
    state = copy.deepcopy(denoise.state_dict())
    x = batch(2, 8, 3, 3, seed=7)
    torch.testing.assert_close(denoise(x[:1]), denoise(x)[:1])
    assert all(torch.equal(denoise.state_dict()[key], value) for key, value in state.items())


def test_gradient_is_right_with_the_analytic_rule():
    denoise = wct.PCADenoise2d(
        4, keep=2, gradient="analytic", track_running_stats=False, dtype=torch.float64
    )
    assert gradcheck(denoise, (batch(2, 4, 3, 3).requires_grad_(),))


def test_equal_values_at_the_cut_have_a_finite_gradient():
    # The correlation is I: nothing tells the kept components from the dropped ones.
    x = torch.eye(4).repeat(1, 2).sub(0.25)[None, :, None].requires_grad_()
    denoise = wct.PCADenoise2d(4, keep=2)
    (denoise(x) * torch.arange(4.0).view(1, 4, 1, 1)).square().sum().backward()
    assert bool(torch.isfinite(x.grad).all())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"keep": 0}, "1 to 8 components of a group, got 0"),
        ({"keep": 9}, "1 to 8 components of a group, got 9"),
        ({"keep": 5, "group_size": 4}, "1 to 4 components of a group, got 5"),
        ({"keep": 1.5}, r"a share in \(0, 1\], got 1.5"),
        ({"keep": 0.0}, r"a share in \(0, 1\], got 0.0"),
        ({"group_size": 3}, "8 channels can't be split into groups of 3"),
    ],
)
def test_settings_out_of_range_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        wct.PCADenoise2d(8, **options)
