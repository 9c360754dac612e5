"""Where tiles and samples lie."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from app.tiles import Box, plan, samples

lengths = st.integers(1, 500)
no_deadline = settings(deadline=None)  # a busy machine is no failure


@no_deadline
@given(lengths, lengths, st.integers(20, 300), st.integers(0, 90))
def test_tiles_cover_every_pixel_once_and_row_by_row(height, width, side, margin):
    covered = np.zeros((height, width), int)
    tops = []
    for tile in plan(height, width, side, margin, 4):
        covered[tile.core.slices] += 1
        tops.append((tile.core.top, tile.core.left))
    assert (covered == 1).all()
    assert tops == sorted(tops)


@no_deadline
@given(lengths, lengths, st.integers(20, 300), st.integers(0, 90))
def test_a_tile_is_painted_from_its_surroundings_on_the_networks_grid(height, width, side, margin):
    for tile in plan(height, width, side, margin, 4):
        core, crop = tile.core, tile.crop
        assert max(core.height, core.width) <= -(-side // 4) * 4
        for low, high, start, end, length in (
            (crop.top, crop.bottom, core.top, core.bottom, height),
            (crop.left, crop.right, core.left, core.right, width),
        ):
            assert low % 4 == 0 and (high % 4 == 0 or high == length)
            assert low == 0 or start - low >= margin
            assert high == length or high - end >= margin


def test_tiles_are_of_about_one_size():
    heights = {tile.core.height for tile in plan(1000, 10, 300, 52, 4)}
    assert max(heights) - min(heights) <= 16 and len(heights) <= 2


@no_deadline
@given(lengths, lengths, st.integers(1, 100_000), st.integers(8, 200))
def test_samples_have_one_size_and_lie_within(height, width, pixels, side):
    bounds = Box(12, 40, 12 + height, 40 + width)
    boxes = samples(bounds, pixels, side, 4)
    assert len({(box.height, box.width) for box in boxes}) == 1
    assert len(set(boxes)) == len(boxes)
    for box in boxes:
        inner = box.within(bounds)
        assert inner.top >= 0 and inner.left >= 0
        assert inner.bottom <= height and inner.right <= width
    if len(boxes) > 1:
        assert sum(box.area for box in boxes) <= pixels


def test_a_small_part_is_its_own_sample():
    bounds = Box(8, 4, 108, 204)
    assert samples(bounds, 20_000, 64, 4) == [bounds]


def test_samples_are_spread_over_the_whole_picture():
    boxes = samples(Box(0, 0, 1200, 2000), 16 * 128 * 128, 128, 4)
    # No point of the picture is far from a sample.
    centers = np.array([(b.top + 64, b.left + 64) for b in boxes])
    for corner in ((0, 0), (0, 2000), (1200, 0), (1200, 2000), (600, 1000)):
        assert np.linalg.norm(centers - corner, axis=1).min() < 400


def test_samples_of_a_thin_frame_lie_on_it():
    on_frame = np.zeros((1200, 2000), bool)
    on_frame[:40] = on_frame[-40:] = True
    on_frame[:, :40] = on_frame[:, -40:] = True
    boxes = samples(
        Box(0, 0, 1200, 2000), 16 * 128 * 128, 128, 4, lambda box: on_frame[box.slices].mean()
    )
    assert len(boxes) == 16
    assert all(on_frame[box.slices].any() for box in boxes)
