"""Less detail in a photo, and the edges where they were."""

import numpy as np
import pytest
import skimage.data
import torch
from skimage.restoration import denoise_tv_chambolle

from app import images
from models.finish import simplification
from models.finish.simplification import REACH, simplified


@pytest.fixture(scope="module")
def photo() -> torch.Tensor:
    return images.to_tensor(np.ascontiguousarray(skimage.data.astronaut()[:160, 150:350]))


def variation(image: torch.Tensor) -> float:
    down, across = image.diff(dim=-2)[..., :-1], image.diff(dim=-1)[..., :-1, :]
    return float((down.square() + across.square()).sum(1).sqrt().mean())


def test_more_of_it_leaves_less_variation_and_none_leaves_the_photo(photo):
    assert torch.equal(simplified(photo, 0.0), photo)
    found = [variation(simplified(photo, amount)) for amount in (0.0, 0.05, 0.15, 0.3, 0.6)]
    assert found == sorted(found, reverse=True) and found[-1] < 0.5 * found[0]


def test_the_photo_itself_is_not_written_to(photo):
    before = photo.clone()
    simplified(photo, 0.3)
    simplified(photo, 0.0).zero_()
    assert torch.equal(photo, before)


def test_many_steps_come_to_what_scikit_image_finds(photo, monkeypatch):
    monkeypatch.setattr(simplification, "STEPS", 400)
    monkeypatch.setattr(simplification, "BLOCK", (1000, 1000))
    gray = photo.mean(1, keepdim=True)  # its colors are apart there
    # |x - image|^2 / (2 weight) + TV(x), of a picture in [0, 1] whose steps are half as large
    expected = denoise_tv_chambolle(
        (gray[0, 0].double().numpy() + 1) / 2, weight=0.15, max_num_iter=4000, eps=1e-9
    )
    error = simplified(gray, 0.3)[0, 0] - torch.from_numpy(expected * 2 - 1)
    assert float(error.abs().mean()) < 0.01 < float((gray - simplified(gray, 0.3)).abs().mean())


def test_the_few_steps_go_most_of_the_way(photo, monkeypatch):
    def energy(x: torch.Tensor) -> float:
        return float((x - photo).square().sum(1).mean()) / 2 + 0.3 * variation(x)

    few = energy(simplified(photo, 0.3))
    monkeypatch.setattr(simplification, "STEPS", 400)
    monkeypatch.setattr(simplification, "BLOCK", (1000, 1000))
    best = energy(simplified(photo, 0.3))
    assert best <= few < best + 0.15 * (energy(photo) - best)


def test_an_edge_stays_where_it_is_and_noise_goes():
    generator = torch.Generator().manual_seed(0)
    edge = torch.full((1, 3, 40, 40), -0.5)
    edge[..., 20:] = 0.5
    found = simplified(edge + 0.1 * torch.randn(edge.shape, generator=generator), 0.3)
    assert float(found[..., 2:-2, 20].min()) - float(found[..., 2:-2, 19].max()) > 0.5
    assert float(found[..., 4:16].std()) < 0.03


def test_what_is_out_of_reach_has_no_part(photo):
    whole = simplified(photo, 0.6)
    part = simplified(photo[..., 20 : 60 + 2 * REACH, 30 : 90 + 2 * REACH], 0.6)
    inner = part[..., REACH:-REACH, REACH:-REACH]
    outer = whole[..., 20 + REACH : 60 + REACH, 30 + REACH : 90 + REACH]
    torch.testing.assert_close(inner, outer, rtol=0, atol=1e-6)
    one_less = part[..., REACH - 6 : -REACH + 6, REACH - 6 : -REACH + 6]
    outer = whole[..., 14 + REACH : 66 + REACH, 24 + REACH : 96 + REACH]
    assert float((one_less - outer).abs().max()) > 1e-6  # it is no further than it says


def test_bands_leave_no_trace(photo, monkeypatch):
    whole = simplified(photo, 0.6)
    monkeypatch.setattr(simplification, "BLOCK", (24, 40))
    torch.testing.assert_close(simplified(photo, 0.6), whole, rtol=0, atol=1e-6)


def test_photos_of_a_batch_do_not_mix(photo):
    both = torch.cat([photo, photo.flip(-1)])
    torch.testing.assert_close(simplified(both, 0.3)[:1], simplified(photo, 0.3))


@pytest.mark.parametrize("size", [(1, 1), (1, 9), (9, 1)])
def test_the_smallest_pictures_pass(size):
    assert simplified(torch.zeros(1, 3, *size), 0.3).shape == (1, 3, *size)
