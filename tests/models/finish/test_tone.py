"""Light and dark after the photo: what is given back, what stays, and how far it reaches."""

import pytest
import torch

from models.finish import tone
from models.measures import gray


@pytest.fixture
def strokes():
    """A gray-blue painting that knows nothing of its photo, with strokes of a pixel or two."""
    torch.manual_seed(0)
    color = torch.tensor([0.1, 0.2, 0.35]).view(1, 3, 1, 1)
    return color + 0.05 * torch.randn(1, 1, 62, 75).expand(1, 3, -1, -1)


def step(height=62, width=75):
    """A photo's luma: a dark half and a light one."""
    light = torch.full((1, 1, height, width), -0.5)
    light[..., width // 2 :] = 0.5
    return light


def test_the_photo_s_light_and_dark_come_back_and_the_strokes_stay(strokes):
    light = step()
    toned = tone.toned(strokes, light, 1.0)
    before, after = gray(strokes) - gray(strokes).mean(), gray(toned) - light
    assert abs(float(after.mean())) < 0.01
    both = torch.stack([before.flatten(), after.flatten()])
    assert float(torch.corrcoef(both)[0, 1]) > 0.9
    assert 0.9 < float(after.std() / before.std()) < 1.1
    torch.testing.assert_close(toned - gray(toned), strokes - gray(strokes))  # and so do colors


def test_no_halo_is_left_along_an_edge():
    light = step()
    flat = torch.zeros(1, 3, 62, 75)
    off = (gray(tone.toned(flat, light, 1.0)) - light).abs()
    assert float(off.max()) < 0.1  # of a step of 1


def test_a_share_goes_so_far(strokes):
    light = step()
    whole = tone.toned(strokes, light, 1.0) - strokes
    torch.testing.assert_close(tone.toned(strokes, light, 0.25) - strokes, 0.25 * whole)
    assert torch.equal(tone.toned(strokes, light, 0.0), strokes)
    # One share for each picture.
    shares = torch.tensor([0.25, 1.0]).view(2, 1, 1, 1)
    both = tone.toned(strokes.expand(2, -1, -1, -1), light.expand(2, -1, -1, -1), shares)
    torch.testing.assert_close(both - strokes, torch.cat([0.25 * whole, whole]))


def test_what_is_farther_than_the_reach_has_no_part(strokes):
    light, far = step(), strokes.clone()
    row, column = 30, 37  # of the middle of a cell, whose edges see the farthest
    rows, columns = (torch.arange(n) for n in strokes.shape[-2:])
    beyond = ((rows - row).abs()[:, None] > tone.REACH) | ((columns - column).abs() > tone.REACH)
    far[..., beyond] = 0.9
    a, b = (tone.toned(picture, light, 1.0) for picture in (strokes, far))
    assert torch.equal(a[..., row, column], b[..., row, column])
    assert not torch.equal(a, b)


@pytest.mark.parametrize("shape", [(1, 1), (3, 50), (7, 9)])
def test_small_pictures_keep_their_shape_and_get_their_light(shape):
    light = torch.full((1, 1, *shape), -0.4)
    toned = tone.toned(torch.full((1, 3, *shape), 0.3), light, 1.0)
    assert toned.shape == (1, 3, *shape)
    torch.testing.assert_close(gray(toned), light)


def test_the_gradient_reaches_the_painting(strokes):
    strokes.requires_grad_()
    tone.toned(strokes, step(), 0.5).square().mean().backward()
    assert torch.isfinite(strokes.grad).all() and (strokes.grad != 0).all()
