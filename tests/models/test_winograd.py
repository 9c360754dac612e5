"""Convolutions by tiles are the plain ones, with the same gradients."""

import pytest
import torch
import torch.nn.functional as F

from models import winograd
from models.winograd import convolved

SHAPES = [  # inputs, outputs, kernel, padding, height, width
    (48, 50, 3, 1, 30, 41),
    (50, 48, 3, 0, 33, 24),
    (24, 12, 5, 2, 40, 31),
    (12, 16, 5, 0, 36, 36),
]


@pytest.fixture
def by_tiles(monkeypatch):
    if not torch.backends.nnpack.is_available():
        pytest.skip("this build of torch cannot")
    monkeypatch.setattr(winograd, "is_faster", lambda: True)


def drawn(inputs, outputs, kernel, height, width, batch=2):
    torch.manual_seed(0)
    weight = torch.randn(outputs, inputs, kernel, kernel) / (inputs * kernel**2) ** 0.5
    return torch.randn(batch, inputs, height, width), weight, torch.randn(outputs)


@pytest.mark.parametrize(("inputs", "outputs", "kernel", "padding", "height", "width"), SHAPES)
@pytest.mark.parametrize("biased", [True, False])
def test_values_and_gradients_are_those_of_the_plain_convolution(
    by_tiles, inputs, outputs, kernel, padding, height, width, biased
):
    x, weight, bias = drawn(inputs, outputs, kernel, height, width)
    given = [x, weight, bias] if biased else [x, weight]
    found = []
    for convolve, precision in ((convolved, torch.float32), (F.conv2d, torch.float64)):
        leaves = [each.to(precision).requires_grad_() for each in given]
        result = convolve(*leaves, padding=padding)
        gradients = torch.autograd.grad(result.square().sum() / 1000, leaves)
        found.append([result, *gradients])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other.float(), atol=2e-3, rtol=2e-3)


def test_the_gradient_has_a_gradient(by_tiles):
    x, weight, bias = drawn(48, 48, 3, 26, 26, batch=1)
    found = []
    for convolve, precision in ((convolved, torch.float32), (F.conv2d, torch.float64)):
        leaf = x.to(precision).requires_grad_()
        result = convolve(leaf, weight.to(precision), bias.to(precision), padding=1).tanh()
        (slope,) = torch.autograd.grad(result.sum(), leaf, create_graph=True)
        found.append(torch.autograd.grad(slope.square().sum(), leaf)[0])
    torch.testing.assert_close(found[0], found[1].float(), atol=2e-3, rtol=2e-3)


@pytest.mark.parametrize("change", ["small", "double", "narrow", "autocast"])
def test_what_does_not_suit_is_convolved_plainly(by_tiles, change, monkeypatch):
    monkeypatch.setattr(winograd, "_by_tiles", lambda *_: pytest.fail("by tiles"))
    side, channels = (8 if change == "small" else 40), (32 if change == "narrow" else 64)
    x, weight, bias = drawn(channels, 64, 3, side, side)
    if change == "double":
        x, weight, bias = x.double(), weight.double(), bias.double()
    with torch.autocast("cpu", torch.bfloat16, enabled=change == "autocast"):
        assert torch.equal(convolved(x, weight, bias, 1), F.conv2d(x, weight, bias, padding=1))


def test_a_torch_without_it_convolves_plainly(monkeypatch):
    def broken(*_):
        raise RuntimeError("NNPACK is off")

    monkeypatch.setattr(winograd, "_by_tiles", broken)
    assert winograd.is_faster.__wrapped__() is False
