"""Ink where a photo has lines and edges, in strokes along them, and nowhere else."""

import numpy as np
import pytest
import skimage.data
import torch

from app import images
from models.finish import outlines
from models.finish.filter import Original
from models.finish.outlines import REACH, ink, printed


@pytest.fixture(scope="module")
def photo() -> torch.Tensor:
    return images.to_tensor(np.ascontiguousarray(skimage.data.astronaut()[:160, 150:350]))


def test_a_dark_line_is_ink_and_plain_paper_is_not():
    page = torch.full((1, 3, 40, 60), 0.5)
    page[..., 19:21, :] = -0.5
    found = ink(page)[0, 0]
    assert float(found[19:21].min()) > 0.99
    assert float(found[:14].max()) == float(found[26:].max()) == 0


def test_an_edge_has_its_line_on_the_dark_side():
    edge = torch.full((1, 3, 40, 40), -0.5)
    edge[..., 20:] = 0.5
    found = ink(edge)[0, 0]
    assert float(found[:, 18:20].min()) > 0.9 and float(found[:, 20:].max()) < 0.01
    assert torch.allclose(ink(edge.mT).mT, ink(edge), atol=1e-4)  # any direction alike


@pytest.mark.parametrize("size", [2, 4])
def test_larger_strokes_have_wider_lines_with_borders_as_sharp(size):
    side, line = 24 * size, 2 * size
    page = torch.full((1, 3, side, side), 0.5)
    page[..., 10 * size : 10 * size + line, :] = -0.5
    drawn = outlines.Outlines.of(Original(page, stroke_size=size), 1.0).ink[0, 0, :, side // 2]
    dark = int((drawn > 0.9).sum())
    assert line <= dark <= 2 * line
    # The way from paper to ink is shorter than the line is wide.
    assert int(((drawn > 0.1) & (drawn < 0.9)).sum()) <= 2 * size


@pytest.mark.parametrize("degrees", [0, 25, 45, 70, 90, 135])
def test_a_dotted_line_is_drawn_as_one_stroke(monkeypatch, degrees):
    rows, columns = torch.meshgrid(torch.arange(81.0) - 40, torch.arange(81.0) - 40, indexing="ij")
    angle = torch.tensor(degrees).deg2rad()
    along = columns * angle.cos() + rows * angle.sin()
    across = rows * angle.cos() - columns * angle.sin()
    dots = torch.exp(-(across**2)) * (0.5 + 0.5 * torch.cos(along * 2 * torch.pi / 5))
    page = (0.5 - 0.6 * dots).expand(1, 3, -1, -1)

    def gaps() -> float:
        drawn = ink(page)[0, 0]
        return float((drawn[(across.abs() < 0.5) & (along.abs() < 25)] < 0.5).float().mean())

    assert gaps() == 0
    monkeypatch.setattr(outlines, "SAMPLES", 0)
    assert gaps() > 0.1  # by the difference of Gaussians alone they are dots


def test_noise_that_nobody_sees_draws_nothing():
    generator = torch.Generator().manual_seed(0)
    assert float(ink(0.02 * torch.randn(1, 3, 64, 64, generator=generator)).max()) == 0


def test_what_is_out_of_reach_has_no_part(photo):
    whole = ink(photo)
    part = ink(photo[..., 20 : 60 + 2 * REACH, 30 : 90 + 2 * REACH])
    inner = part[..., REACH:-REACH, REACH:-REACH]
    outer = whole[..., 20 + REACH : 60 + REACH, 30 + REACH : 90 + REACH]
    torch.testing.assert_close(inner, outer, rtol=0, atol=1e-3)
    inner = part[..., REACH - 6 : -REACH + 6, REACH - 6 : -REACH + 6]
    outer = whole[..., 14 + REACH : 66 + REACH, 24 + REACH : 96 + REACH]
    assert float((inner - outer).abs().max()) > 1e-2  # it is not much further than it has to be


def test_photos_of_a_batch_do_not_mix(photo):
    both = torch.cat([photo, photo.flip(-1)])
    torch.testing.assert_close(ink(both)[:1], ink(photo), rtol=0, atol=1e-4)


@pytest.mark.parametrize("size", [(1, 1), (1, 9), (9, 1), (3, 5)])
def test_the_smallest_pictures_pass(size):
    found = ink(torch.rand(1, 3, *size))
    assert found.shape == (1, 1, *size) and bool(found.isfinite().all())


def test_ink_is_printed_black_over_any_color():
    picture = torch.rand(1, 3, 4, 4) * 2 - 1
    assert torch.equal(printed(picture, torch.ones(1, 1, 4, 4)), -torch.ones_like(picture))
    torch.testing.assert_close(printed(picture, torch.zeros(1, 1, 4, 4)), picture)
    picture.requires_grad_()
    printed(picture, torch.full((1, 1, 4, 4), 0.25)).sum().backward()
    assert bool((picture.grad == 0.75).all())
