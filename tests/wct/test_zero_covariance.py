"""Constant features, and covariances of zeros, are no error in any layer, rule or precision."""

import pytest
import torch

import wct
from wct._rules import RULES

# Infinite where two values are equal, by their definition: they are there to be compared with.
UNBOUNDED = ("analytic", "topn")
NAMES = [name for name in RULES if name not in UNBOUNDED]
FORWARD = [wct.Analytic(), wct.TopN(2), *NAMES]


@pytest.mark.parametrize("rule", FORWARD, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_roots_of_zeros_are_finite_and_so_are_their_gradients(rule, dtype):
    batch = torch.zeros(2, 4, 4, dtype=dtype, requires_grad=True)
    for function in (wct.sqrtm, wct.inv_sqrtm):
        batch.grad = None
        root = function(batch, gradient=rule)
        assert bool(torch.isfinite(root).all())
        root.sum().backward()
        if rule in NAMES:
            assert bool(torch.isfinite(batch.grad).all())
    if rule not in ("exact", "newton"):
        values, vectors = wct.eigh(batch, gradient=rule)
        assert bool(torch.isfinite(values).all()) and bool(torch.isfinite(vectors).all())


def layers(rule: str) -> list[torch.nn.Module]:
    found = [
        wct.Whiten(groups=2, eps=1e-2, gradient=rule),
        wct.Whiten(groups=2, eps=1e-2, eps_mode="relative", gradient=rule),
        wct.ZCANorm2d(8, group_size=4, eps=1e-4, gradient=rule),
        wct.CovariancePool(8, solver="eigh", gradient=rule, eps=1e-5),
    ]
    if rule in ("exact", "newton"):
        found += [
            wct.Whiten(groups=2, gradient=rule, solver="newton_schulz"),
            wct.ZCANorm2d(8, group_size=4, gradient=rule, solver="newton_schulz"),
            wct.CovariancePool(8, solver="newton_schulz", gradient=rule),
        ]
    else:
        found.append(wct.PCADenoise2d(8, keep=0.9, gradient=rule))
    return found


@pytest.mark.parametrize("rule", NAMES)
@pytest.mark.parametrize("value", [0.0, 0.7])
@pytest.mark.parametrize("precision", ["float32", "float64", "bfloat16", "autocast"])
def test_constant_features_train_every_layer(rule, value, precision):
    dtype = torch.float32 if precision == "autocast" else getattr(torch, precision)
    for layer in layers(rule):
        features = torch.full((2, 8, 5, 5), value, dtype=dtype, requires_grad=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "autocast"):
            out = layer(features)
            (out.float() * torch.linspace(-1, 1, out.numel()).view_as(out)).sum().backward()
        assert bool(torch.isfinite(out).all()), layer
        assert bool(torch.isfinite(features.grad).all()), layer


@pytest.mark.parametrize("rule", NAMES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_constant_content_takes_the_style_of_constant_style(rule, dtype):
    content = torch.full((1, 8, 5, 5), 0.2, dtype=dtype, requires_grad=True)
    style = torch.full((1, 8, 3, 3), 0.7, dtype=dtype, requires_grad=True)
    mean, covariance = wct.mean_and_covariance(style, 2)
    out = wct.whiten_and_color(content, mean, covariance, gradient=rule)
    torch.testing.assert_close(out.float(), torch.full((1, 8, 5, 5), 0.7), rtol=0, atol=5e-3)
    (out.float() * torch.linspace(-1, 1, 200).view(1, 8, 5, 5)).sum().backward()
    assert bool(torch.isfinite(content.grad).all()) and bool(torch.isfinite(style.grad).all())
