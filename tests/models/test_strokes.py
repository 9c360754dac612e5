"""What a network is shown of a photo's plain parts."""

import numpy as np
import pytest
import skimage.data
import torch
import torch.nn.functional as F

from app import augment, images
from models import strokes
from tests.models.small import picture, plain_photo_with_an_edge

ORIGIN = [(0, 0)]


def sky() -> torch.Tensor:
    """A real sky without a cloud, with the traces of its compression: (1, 3, 96, 200)."""
    return images.to_tensor(skimage.data.rocket()[:96, 220:420])


def fine(image: torch.Tensor) -> torch.Tensor:
    """What changes within a few pixels."""
    return image - F.avg_pool2d(image, 9, 1, 4, count_include_pad=False)


def test_plainness_is_high_in_grain_and_ramps_and_low_near_edges():
    plain = strokes.plainness(plain_photo_with_an_edge())
    assert plain.shape == (1, 1, 64, 64)
    assert float(plain[..., :20].min()) > 0.8 and float(plain[..., 44:].min()) > 0.8
    assert float(plain[..., 28:36].max()) < 0.1
    assert torch.equal(strokes.plainness(torch.zeros(2, 3, 18, 25)), torch.ones(2, 1, 18, 25))


def test_the_noise_of_a_plain_photo_is_gone_and_its_edges_are_as_they_were():
    photo = plain_photo_with_an_edge()
    smooth = strokes.prepare(photo, 0.0, ORIGIN)
    for part in (np.s_[..., :16], np.s_[..., 48:]):
        assert float(fine(smooth)[part].std()) < 0.3 * float(fine(photo)[part].std())
    torch.testing.assert_close(smooth[..., 30:34], photo[..., 30:34], atol=1e-3, rtol=0)
    assert (smooth - photo).abs().max() < 0.1


def test_a_sky_looks_the_same_however_it_was_compressed():
    given = [sky(), augment.compressed(sky(), 40)]
    raw, prepared = given, [strokes.prepare(photo, 0.02, ORIGIN) for photo in given]

    def difference(pair: list[torch.Tensor]) -> float:
        return float(fine(pair[0] - pair[1]).std())

    assert difference(prepared) < 0.4 * difference(raw)


def test_strokes_are_as_strong_as_asked_and_only_where_a_photo_is_plain():
    photo = plain_photo_with_an_edge()
    none, once, twice = (strokes.prepare(photo, 0.02 * s, ORIGIN) for s in (0, 1, 2))
    put = once - none
    torch.testing.assert_close(twice - none, 2 * put, atol=1e-6, rtol=0)
    assert float(put[..., :16].std()) == pytest.approx(0.02, rel=0.3)
    assert float(put[..., 30:34].abs().max()) < 1e-3
    torch.testing.assert_close(put[:, 0], put[:, 2], atol=1e-6, rtol=0)  # of no color


def test_the_canvas_goes_on_at_its_borders():
    plain = torch.zeros(1, 3, 32, 32)
    for origins in ([(strokes.SIDE + 5, 9)], [(5 - strokes.SIDE, 9)]):
        here = strokes.prepare(plain, 0.02, [(5, 9)])
        assert torch.equal(strokes.prepare(plain, 0.02, origins), here)
    across = strokes.prepare(plain, 1.0, [(strokes.SIDE - 16, 0)])[0, 0]
    jumps = (across[1:] - across[:-1]).abs().mean(1)
    assert float(jumps[15]) < 2 * float(jumps.mean())  # no seam


def test_strokes_have_a_direction_that_turns_from_place_to_place():
    canvas = strokes.prepare(torch.zeros(1, 3, strokes.SIDE, strokes.SIDE), 1.0, ORIGIN)[0, 0]
    assert float(canvas.std()) == pytest.approx(1.0, abs=0.01)
    down, across = torch.gradient(canvas)

    def smeared(part: torch.Tensor) -> torch.Tensor:
        return F.avg_pool2d(part[None, None], 32)

    # The structure tensor's coherence: 0 for spots, 1 for parallel lines.
    level, cross = smeared(across**2 - down**2), smeared(2 * across * down)
    coherence = (level**2 + cross**2).sqrt() / smeared(across**2 + down**2)
    assert float(coherence.mean()) > 0.5
    assert float(torch.atan2(cross, level).std()) > 0.3


def test_parts_of_a_photo_are_prepared_as_the_whole_is():
    photo = torch.cat([sky(), picture(96, 40)], -1)
    whole = strokes.prepare(photo, 0.05, [(3, 100)])
    top, left, margin = 20, 48, 16
    part = strokes.prepare(photo[..., top:, left:], 0.05, [(3 + top, 100 + left)])
    expected = whole[..., top + margin :, left + margin :]
    torch.testing.assert_close(part[..., margin:, margin:], expected, atol=1e-6, rtol=0)


def test_each_photo_of_a_batch_has_its_place():
    photos = torch.cat([sky(), sky()])
    both = strokes.prepare(photos, 0.02, [(0, 0), (40, 7)])
    for one, photo, place in zip(both, photos, ((0, 0), (40, 7)), strict=True):
        assert torch.equal(one, strokes.prepare(photo[None], 0.02, [place])[0])
    assert not torch.equal(both[0], both[1])
    with pytest.raises(ValueError, match="2 photos can't have 3 origins"):
        strokes.prepare(photos, 0.02, [(0, 0)] * 3)


@pytest.mark.parametrize("column", range(40, 44))
def test_what_a_column_sees_is_told_exactly(column):
    photo = 0.3 * picture(16, 88)
    first, last = strokes.sees(column, column)
    own = strokes.prepare(photo, 0.05, ORIGIN)[..., column]

    def changes(columns: slice) -> bool:
        changed = photo.clone()
        changed[..., columns] = -changed[..., columns].sign()
        now = strokes.prepare(changed, 0.05, ORIGIN)[..., column]
        return bool((now - own).abs().max() > 1e-6)

    assert not changes(slice(0, first)) and not changes(slice(last + 1, None))
    assert changes(slice(first, first + 4)) and changes(slice(last - 3, last + 1))


def test_gradients_go_through():
    photo = sky().requires_grad_()
    strokes.prepare(photo, 0.02, ORIGIN).square().sum().backward()
    assert torch.isfinite(photo.grad).all() and float(photo.grad.abs().max()) > 0
