"""Whitened features have covariance I, colored ones the target's, whatever comes in."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck

import wct
from wct._whitening import PART


def images(*shape: int, dtype=torch.float64, seed: int = 0) -> torch.Tensor:
    """Correlated features of mean 3, so that there is something to whiten."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(*shape, dtype=torch.float64, generator=generator)
    mixing = torch.randn(shape[1], shape[1], dtype=torch.float64, generator=generator)
    return (torch.einsum("dc,bchw->bdhw", mixing, x) + 3).to(dtype)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 3),
    st.sampled_from([(4, 1), (4, 2), (6, 3), (8, 1)]),
    st.sampled_from([1e-3, 1.0, 1e3]),
    st.sampled_from([1e-6, 1e-2]),
)
def test_whitened_features_have_covariance_i_within_the_effect_of_eps(batch, split, scale, eps):
    channels, groups = split
    x = images(batch, channels, 6, 7) * scale
    _, before = wct.mean_and_covariance(x, groups)
    mean, after = wct.mean_and_covariance(wct.whiten(x, groups=groups, eps=eps), groups)
    values = torch.linalg.eigvalsh(before).clamp_min(0)
    torch.testing.assert_close(
        torch.linalg.eigvalsh(after), values / (values + eps), rtol=1e-8, atol=1e-8
    )
    assert mean.abs().max() < 1e-9


def test_colored_features_have_the_targets_covariance_and_mean():
    content, style = images(2, 6, 8, 9), images(2, 6, 5, 4, seed=1)
    mean, covariance = wct.mean_and_covariance(style, 2)
    for colored in (
        wct.whiten_and_color(content, mean, covariance, groups=2, eps=1e-12),
        wct.Color()(wct.whiten(content, groups=2, eps=1e-12), mean, covariance),
        wct.color(wct.whiten(content, groups=2, eps=1e-12), wct.sqrtm(covariance), mean),
    ):
        found_mean, found = wct.mean_and_covariance(colored, 2)
        torch.testing.assert_close(found, covariance)
        torch.testing.assert_close(found_mean, mean)


def test_one_style_colors_a_batch():
    content, style = images(3, 6, 8, 9), images(1, 6, 5, 4, seed=1)
    mean, covariance = wct.mean_and_covariance(style, 2)
    colored = wct.whiten_and_color(content, mean, covariance, eps=1e-12)
    found = wct.mean_and_covariance(colored, 2)[1]
    torch.testing.assert_close(found, covariance.expand(3, 2, 3, 3))


def test_a_picture_in_its_own_style_is_itself():
    x = images(1, 6, 8, 9)
    same = wct.whiten_and_color(x, *wct.mean_and_covariance(x, 2), eps=1e-12)
    torch.testing.assert_close(same, x)


def test_zca_is_the_whitening_nearest_to_the_features():
    # It doesn't rotate: whitened and centered features are positively correlated.
    x = images(1, 4, 8, 9)
    mean, _ = wct.mean_and_covariance(x, 1)
    cross = (wct.whiten(x, groups=1) * (x - mean.view(1, 4, 1, 1))).sum((0, 2, 3))
    assert bool((cross > 0).all())


@pytest.mark.parametrize("eps", [1e-4, 1e-2])
def test_a_relative_eps_whitens_small_features_like_large_ones(eps):
    x = images(1, 6, 8, 9)
    whitened = [
        wct.whiten(x * scale, groups=2, eps=eps, eps_mode="relative") for scale in (1e-4, 1.0, 1e4)
    ]
    torch.testing.assert_close(whitened[0], whitened[1])
    torch.testing.assert_close(whitened[2], whitened[1])
    # An absolute one washes the small ones out.
    washed_out = wct.whiten(x * 1e-4, groups=2, eps=eps)
    assert washed_out.std() < 0.1 * whitened[0].std()


def test_a_relative_eps_is_relative_to_the_mean_eigenvalue():
    x = images(1, 6, 8, 9)
    mean_value = float(wct.mean_and_covariance(x, 1)[1].diagonal(dim1=-2, dim2=-1).mean())
    relative = wct.whiten(x, groups=1, eps=0.1, eps_mode="relative")
    torch.testing.assert_close(relative, wct.whiten(x, groups=1, eps=0.1 * mean_value))


@pytest.mark.parametrize("mode", ["absolute", "relative"])
@pytest.mark.parametrize("name", ["exact", "analytic"])
def test_whitening_passes_gradcheck(mode, name):
    x = images(1, 4, 3, 3).requires_grad_()
    assert gradcheck(lambda x: wct.whiten(x, groups=2, gradient=name, eps=0.1, eps_mode=mode), (x,))


def test_whitening_and_coloring_passes_gradcheck():
    x = images(1, 4, 3, 3).requires_grad_()
    mean, covariance = wct.mean_and_covariance(images(1, 4, 3, 3, seed=1), 2)
    mean.requires_grad_()
    covariance.requires_grad_()
    assert gradcheck(
        lambda *inputs: wct.whiten_and_color(*inputs, gradient="exact", eps=0.1),
        (x, mean, covariance),
    )


@pytest.mark.parametrize("mode", ["absolute", "relative"])
@pytest.mark.parametrize("name", ["taylor", "pade", "pi", "clip", "exact", "newton"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("case", ["one position", "zeros", "constant", "one channel repeated"])
def test_degenerate_features_are_finite_forward_and_backward(case, dtype, name, mode):
    x = {
        "one position": images(1, 8, 1, 1),
        "zeros": torch.zeros(1, 8, 4, 4, dtype=torch.float64),
        "constant": torch.full((1, 8, 4, 4), 7.3, dtype=torch.float64),
        "one channel repeated": images(1, 1, 4, 4).expand(1, 8, 4, 4),
    }[case].to(dtype)
    x = x.contiguous().requires_grad_()
    whitened = wct.whiten(x, groups=2, gradient=name, eps_mode=mode)
    whitened.square().sum().backward()
    assert bool(torch.isfinite(whitened).all())
    assert bool(torch.isfinite(x.grad).all())


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_moments_taken_part_by_part_are_those_of_the_whole(layout, dtype):
    torch.manual_seed(0)
    size = (2, 12, 231, 200)  # more than two parts, the last of another length
    assert torch.Size(size).numel() > 2 * PART and torch.Size(size).numel() % PART
    features = (3 + torch.randn(size)).to(dtype).contiguous(memory_format=layout)
    mean, covariance = wct.mean_and_covariance(features, 3)
    for b in range(2):
        for g in range(3):
            whole = features[b, 4 * g : 4 * g + 4].flatten(1).double()
            torch.testing.assert_close(mean[b, g, :, 0].double(), whole.mean(1), atol=1e-5, rtol=0)
            expected = torch.cov(whole, correction=0)
            torch.testing.assert_close(covariance[b, g].double(), expected, atol=2e-4, rtol=0)


def test_one_position_has_no_covariance_and_whitens_to_zero():
    x = images(2, 4, 1, 1)
    assert torch.equal(wct.mean_and_covariance(x, 2)[1], torch.zeros(2, 2, 2, 2).double())
    torch.testing.assert_close(wct.whiten(x, groups=2), torch.zeros_like(x))


def test_transform_is_the_affine_map_at_every_position():
    x = images(2, 6, 3, 4)
    matrix = images(2, 2, 3, 3, seed=1)
    mean_in, mean_out = images(2, 2, 3, 1, seed=2), images(1, 2, 3, 1, seed=3)
    found = wct.split_groups(wct.transform(x, matrix, mean_in, mean_out), 2)
    torch.testing.assert_close(found, matrix @ (wct.split_groups(x, 2) - mean_in) + mean_out)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_half_features_are_whitened_in_float32_and_come_back_as_half(kind):
    x = images(1, 8, 6, 6, dtype=torch.float32).to(kind)
    whitened = wct.Whiten(groups=2)(x)
    assert whitened.dtype == kind
    assert wct.mean_and_covariance(x, 2)[1].dtype == torch.float32
    torch.testing.assert_close(whitened, wct.whiten(x.float(), groups=2).to(kind))


def test_autocast_whitens_in_float32():
    x = images(1, 8, 6, 6, dtype=torch.float32)
    plain = wct.Whiten(groups=2)(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(wct.Whiten(groups=2)(x), plain)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: wct.whiten(x[0]), r"shape \(B, C, H, W\), got \(6, 4, 4\)"),
        (lambda x: wct.whiten(x, groups=4), "6 channels can't be split into 4 groups"),
        (lambda x: wct.whiten(x, groups=0), "6 channels can't be split into 0 groups"),
        (lambda x: wct.whiten(x[:, :, :0], groups=2), r"no positions: shape \(1, 6, 0, 4\)"),
        (lambda x: wct.whiten(x, groups=2, eps=0), "eps must be positive, got 0"),
        (lambda x: wct.Whiten(groups=2, eps=-1), "eps must be positive, got -1"),
        (lambda x: wct.Whiten(eps_mode="share"), "eps_mode must be one of absolute, relative"),
        (lambda x: wct.whiten(x * float("nan"), groups=2), "not finite: it is nan at index"),
        (
            lambda x: wct.whiten_and_color(x, torch.zeros(1, 2, 3, 1), torch.eye(3)),
            r"covariance must have shape \(B or 1, G, n, n\), got \(3, 3\)",
        ),
        (
            lambda x: wct.whiten_and_color(
                x, torch.zeros(1, 2, 3, 1), torch.eye(3).expand(2, 2, 3, 3)
            ),
            r"covariance must have shape \(1 or 1, 2, 3, 3\).*got \(2, 2, 3, 3\)",
        ),
        (
            lambda x: wct.whiten_and_color(
                x, torch.zeros(1, 2, 3), torch.eye(3).expand(1, 2, 3, 3)
            ),
            r"mean must have shape \(1 or 1, 2, 3, 1\).*got \(1, 2, 3\)",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_its_shape(call, message):
    with pytest.raises(ValueError, match=message):
        call(images(1, 6, 4, 4, dtype=torch.float32))


def test_an_empty_batch_stays_empty():
    assert wct.whiten(torch.zeros(0, 6, 4, 4), groups=2).shape == (0, 6, 4, 4)
