"""The fast ways of a CPU give what the plain convolutions do, at the border too."""

import pytest
import torch
import torch.nn.functional as F

from models.convolutions import (
    convolution,
    convolved_phases,
    halved,
    is_fast,
    laid_out,
    pixels_of,
    shuffled,
    upsampled_phases,
)
from models.layers import Upsampling


@pytest.mark.parametrize("size", [(2, 2), (2, 9), (7, 5)])
def test_a_convolution_of_the_small_map_is_that_of_the_upsampled_one(size):
    upsampling = Upsampling(6, 4, 3, norm=False)
    x = torch.randn(2, 6, *size)
    expected = upsampling(x).detach()
    with torch.no_grad():
        torch.testing.assert_close(upsampling(x), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kernel", [3, 5, 7])
@pytest.mark.parametrize("size", [(4, 4), (4, 9), (7, 5)])
def test_a_convolution_of_phases_is_that_of_the_image_at_its_reflected_border_too(size, kernel):
    phases, weight, bias = (
        torch.randn(2, 12, *size),
        torch.randn(2, 3, kernel, kernel),
        torch.ones(2),
    )
    padded = F.pad(F.pixel_shuffle(phases, 2), (kernel // 2,) * 4, mode="reflect")
    expected = F.conv2d(padded, weight, bias)
    torch.testing.assert_close(convolved_phases(phases, weight, bias), expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("size", [(4, 4), (8, 20), (34, 12)])
def test_a_convolution_that_halves_reflects_the_border(size):
    layer, x = convolution(3, 5, 4, 2), torch.randn(2, 3, *size)
    torch.testing.assert_close(halved(layer, x), layer(x), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("size", [(2, 2), (2, 9), (7, 5)])
def test_phases_put_in_place_are_the_convolved_image(size):
    x, layer = torch.randn(2, 6, *size), convolution(6, 4, 3)
    large = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
    with torch.no_grad():
        phases = upsampled_phases(x, layer.weight, layer.bias)
        torch.testing.assert_close(shuffled(phases), layer(large), atol=1e-5, rtol=1e-5)


def test_the_pixels_of_phases_are_those_of_the_image_in_another_order():
    phases = torch.randn(2, 12, 3, 5)
    one, other = (x.flatten(2).sort(2).values for x in (pixels_of(phases), shuffled(phases)))
    assert torch.equal(one, other)


def test_the_fast_ways_are_not_taken_where_a_gradient_is_kept():
    x = torch.randn(1, 3, 8, 8)
    assert not is_fast(x) and laid_out(x) is x
    with torch.no_grad():
        assert is_fast(x)
        fast = laid_out(x)
    assert torch.equal(fast, x)
