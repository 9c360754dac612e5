"""The grain lies still under tiles, and is as coarse as the strokes are."""

import pytest
import torch

from models import periodic
from models.finish import Original
from models.finish.enlargement import SIZES, reduced
from models.finish.grain import Grain, paper

AMOUNT = 0.02


def grain(side: tuple[int, int], origins: periodic.Origins, stroke_size: int) -> torch.Tensor:
    photos = torch.zeros(len(origins), 3, *side)
    return Grain.of(Original(photos, origins, stroke_size), AMOUNT).grain


def test_beside_the_finest_strokes_it_is_the_paper_itself():
    found = grain((600, 30), [(-7, 500)], 1)
    rows, columns = torch.arange(-7, 593) % periodic.SIDE, torch.arange(500, 530) % periodic.SIDE
    assert torch.equal(found, AMOUNT * paper()[:, :, rows][..., columns])


@pytest.mark.parametrize("stroke_size", SIZES)
def test_under_a_tile_lies_what_lies_there_under_the_whole_picture(stroke_size):
    top, left = -37, 1001
    whole = grain((200, 240), [(top, left)], stroke_size)
    places = [(0, 0), (8 * stroke_size, 16), (63, 101)]
    tiles = grain((64, 80), [(top + y, left + x) for y, x in places], stroke_size)
    for tile, (y, x) in zip(tiles, places, strict=True):
        assert torch.equal(tile, whole[0, :, y : y + 64, x : x + 80])


@pytest.mark.parametrize("stroke_size", [2, 4])
def test_it_goes_on_where_the_paper_ends(stroke_size):
    around = stroke_size * periodic.SIDE
    here, there = (grain((40, 48), [(y, -20)], stroke_size) for y in (-20, around - 20))
    assert torch.equal(here, there)
    steps = here.diff(dim=-2).abs().amax((0, 1, 3))
    assert steps.max() < 2 * steps.median()


@pytest.mark.parametrize("stroke_size", [2, 4])
def test_middles_of_pixels_lie_on_middles_of_those_of_the_paper(stroke_size):
    side = 24 * stroke_size
    whole = torch.nn.functional.interpolate(
        paper()[..., :32, :32], scale_factor=stroke_size, mode="bilinear", align_corners=False
    )
    at = 4 * stroke_size  # away from the border, where the paper goes on
    found = periodic.cut(paper(), torch.zeros(1, 3, side, side), [(at, at)], stroke_size)
    torch.testing.assert_close(found, whole[..., at : at + side, at : at + side])


@pytest.mark.parametrize("stroke_size", [2, 4, 8])
def test_seen_from_as_far_it_is_as_strong_beside_strokes_of_any_size(stroke_size):
    side = 256 * stroke_size
    seen = reduced(grain((side, side), [(0, 0)], stroke_size), stroke_size)
    fine = reduced(grain((side, side), [(0, 0)], 1), stroke_size)
    assert float(seen.std()) == pytest.approx(AMOUNT, rel=0.25)
    assert float(fine.std()) < 2 * AMOUNT / stroke_size  # what grain that stays fine would have
