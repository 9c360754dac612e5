"""Colors in register: rims go, brushwork and light stay, and how far it reaches."""

import numpy as np
import pytest
import torch

import models
from models.finish import Finish, Original, guided, registration
from models.finish.filter import reduced
from models.measures import gray

HEIGHT, WIDTH = 120, 135


def photo():
    """A black left half and an orange right one, with a little noise."""
    torch.manual_seed(0)
    image = torch.full((1, 3, HEIGHT, WIDTH), -0.9)
    image[..., WIDTH // 2 :] = torch.tensor([0.8, 0.2, -0.4]).view(1, 3, 1, 1)
    return (image + 0.01 * torch.randn(1, 3, HEIGHT, WIDTH)).clamp(-1, 1)


def painting():
    """Dark blue and pink in the same places, and a red rim of 8 px along the dark side."""
    picture = torch.empty(1, 3, HEIGHT, WIDTH)
    middle = WIDTH // 2
    for columns, color in (
        (slice(None, middle - 8), (-0.8, -0.8, -0.6)),
        (slice(middle - 8, middle), (0.0, -0.95, -0.95)),
        (slice(middle, None), (0.7, 0.3, 0.4)),
    ):
        picture[..., columns] = torch.tensor(color).view(1, 3, 1, 1)
    return picture


def redness(picture, columns):
    return float((picture - gray(picture))[:, 0, :, columns].mean())


def test_a_rim_goes_and_areas_keep_their_colors():
    middle, before = WIDTH // 2, painting()
    after = registration.registered(before, photo(), 1.0)
    rim, beside = slice(middle - 8, middle), slice(middle - 50, middle - 20)
    assert redness(before, rim) > 0.5
    assert redness(after, rim) - redness(after, beside) < 0.5 * redness(before, rim)
    for columns in (beside, slice(middle + 10, None)):
        torch.testing.assert_close(after[..., columns], before[..., columns], atol=0.05, rtol=0)


def test_the_luma_and_brushwork_stay():
    # One color with the hue of its strokes, in the range so that nothing is cut off.
    strokes = 0.3 * painting() + 0.02 * torch.randn(1, 3, HEIGHT, WIDTH)
    after = registration.registered(strokes, photo(), 1.0)
    torch.testing.assert_close(gray(after), gray(strokes))
    plain = (..., slice(WIDTH // 2 + 60, None))
    assert 0.9 < float(after[plain].std() / strokes[plain].std()) <= 1.01


def test_a_share_goes_so_far():
    small = 0.3 * painting()
    whole = registration.registered(small, photo(), 1.0) - small
    assert float(whole.abs().max()) > 0.05
    torch.testing.assert_close(registration.registered(small, photo(), 0.25) - small, 0.25 * whole)
    torch.testing.assert_close(registration.registered(small, photo(), 0.0), small)
    shares = torch.tensor([0.25, 1.0]).view(2, 1, 1, 1)
    both = registration.registered(
        small.expand(2, -1, -1, -1), photo().expand(2, -1, -1, -1), shares
    )
    torch.testing.assert_close(both - small, torch.cat([0.25 * whole, whole]))


def test_larger_strokes_have_wider_rims():
    large = photo().repeat_interleave(2, 2).repeat_interleave(2, 3)
    ground = models.Ground(register=1.0)
    after = Finish.of(Original(photo()), ground).on(painting())
    wide = Finish.of(Original(large, stroke_size=2), ground).on(painting())
    assert wide.shape == large.shape
    rim = slice(WIDTH // 2 - 8, WIDTH // 2)
    assert redness(painting(), rim) > redness(after, rim) + 0.2
    # But for what enlarging softens.
    assert redness(reduced(wide, 2), rim) == pytest.approx(redness(after, rim), abs=0.1)


def test_what_is_farther_than_the_reach_has_no_part():
    picture, far = painting(), painting()
    row, column = 58, 61  # of the middle of a cell, whose edges see the farthest
    rows, columns = torch.arange(HEIGHT), torch.arange(WIDTH)
    reach = registration.REACH
    beyond = ((rows - row).abs()[:, None] > reach) | ((columns - column).abs() > reach)
    assert beyond.any()
    far[..., beyond] = torch.tensor([0.9, -0.9, 0.9]).view(1, 3, 1)
    a, b = (registration.registered(p, photo(), 1.0) for p in (picture, far))
    assert torch.equal(a[..., row, column], b[..., row, column])
    assert not torch.equal(a, b)


@pytest.mark.parametrize("shape", [(1, 1), (3, 50), (7, 9)])
def test_small_pictures_keep_their_shape(shape):
    torch.manual_seed(0)
    picture, image = torch.rand(2, 1, 3, *shape) * 2 - 1
    after = registration.registered(picture, image, 1.0)
    assert after.shape == picture.shape and torch.isfinite(after).all()


def test_the_gradient_reaches_the_painting():
    picture = (0.3 * painting()).requires_grad_()
    registration.registered(picture, photo(), 0.5).square().mean().backward()
    assert torch.isfinite(picture.grad).all() and (picture.grad != 0).all()


def test_planes_are_those_of_least_squares_in_every_window():
    torch.manual_seed(0)
    guide, wanted = torch.rand(2, 3, 9, 11).double(), torch.rand(2, 2, 9, 11).double()
    radius, edges = 1, 1e-3
    slope, offset = guided.planes(guide, wanted, radius, edges)
    found = np.zeros((3, 3, 4, 2))
    for i in range(3):
        for j in range(3):
            y, x = 3 + i, 4 + j
            window = (0, slice(None), slice(y - 1, y + 2), slice(x - 1, x + 2))
            g, w = guide[window].flatten(1).numpy(), wanted[window].flatten(1).numpy()
            g0, w0 = g - g.mean(1, keepdims=True), w - w.mean(1, keepdims=True)
            plane = np.linalg.solve(g0 @ g0.T / 9 + edges * np.eye(3), g0 @ w0.T / 9)
            found[i, j] = np.vstack([plane, w.mean(1) - g.mean(1) @ plane])
    mean = found.mean((0, 1))
    np.testing.assert_allclose(slope[0, :, :, 4, 5].numpy(), mean[:3], atol=1e-10)
    np.testing.assert_allclose(offset[0, :, 4, 5].numpy(), mean[3], atol=1e-10)
