"""Larger strokes: small paintings enlarged, with the edges of the photo."""

import pytest
import torch

import models
from models.finish import enlargement
from models.measures import gray
from models.strokes import Canvas
from tests.models.small import SMALL, picture


def step(side: int) -> torch.Tensor:
    """A photo of a dark and a light half, its edge between two pixels of half of its size."""
    photo = torch.full((1, 3, side, side), -0.6)
    photo[..., side // 2 + 1 :] = 0.6
    return photo


@pytest.mark.parametrize("size", [2, 4])
def test_an_enlarged_painting_has_the_photo_s_edges_and_its_own_colors(size):
    photo = step(64)
    light = gray(photo)
    color = torch.tensor([0.2, 0.5, -0.3]).view(1, 3, 1, 1)
    small = enlargement.reduced(light, size) * color  # painted in another color, and weaker
    large = enlargement.enlarged(small, light)
    assert large.shape == photo.shape
    assert float((large - light * color).abs().mean()) < 0.01
    # Along the edge it is sharper than what a cubic makes of it.
    cubic = torch.nn.functional.interpolate(small, scale_factor=size, mode="bicubic")
    off = [(p - light * color).abs()[..., 28:38].mean() for p in (large, cubic)]
    assert off[0] < 0.5 * off[1]


def test_strokes_that_the_photo_knows_nothing_of_become_as_much_larger():
    flat = torch.full((1, 1, 96, 96), 0.3)
    wave = 0.4 * torch.sin(torch.arange(48) * torch.pi / 4)  # of 8 pixels
    small = wave.expand(1, 3, 48, 48)
    large = enlargement.enlarged(small, flat)
    spectrum = torch.fft.rfft(large[0, 0, 48, 16:80]).abs()
    assert int(spectrum[1:].argmax()) + 1 == 64 // 16
    assert 0.35 < float(large[..., 16:80].max()) < 0.45


def test_means_are_of_whole_cells_and_of_what_is_left_at_the_border():
    image = torch.arange(15.0).view(1, 1, 3, 5)
    torch.testing.assert_close(
        enlargement.reduced(image, 2), torch.tensor([[[[3.0, 5.0, 6.5], [10.5, 12.5, 14.0]]]])
    )
    assert enlargement.reduced(image, 1) is image


@pytest.mark.parametrize("kind", SMALL)
@pytest.mark.parametrize("size", [(1, 1), (3, 70), (33, 47), (64, 48)])
@pytest.mark.parametrize("stroke_size", [2, 4])
def test_any_size_of_photo_can_be_painted(kind, size, stroke_size):
    torch.manual_seed(0)
    network = models.Repainter(SMALL[kind]).eval()
    photo, canvas = picture(*size), Canvas(stroke_size=stroke_size)
    code = network.encode_style(picture(40, 40, seed=1))
    painted = network.repaint(photo, code, canvas=canvas)
    assert painted.shape == photo.shape and torch.isfinite(painted).all()
    content = network.encode_photo(photo, canvas, code.ground)
    assert torch.equal(network.repaint(photo, code, content=content), painted)
    assert torch.equal(network.repaint(photo, code, 0.0, canvas=canvas), photo)
    little = network.repaint(photo, code, 0.02, canvas=canvas)
    assert float((little - photo).abs().mean()) <= float((painted - photo).abs().mean())


def test_the_network_computes_on_the_small_photo():
    torch.manual_seed(0)
    network = models.Repainter(SMALL["statistics"]).eval()
    content = network.encode_photo(picture(64, 96), Canvas(stroke_size=2))
    assert content.features.shape[-2:] == (8, 12)
