"""Keeping a photo's colors."""

import numpy as np
import pytest
import skimage.color
import skimage.data
import torch

import wct
from app import color, images


@pytest.fixture(scope="module")
def photo() -> torch.Tensor:
    return images.to_tensor(np.ascontiguousarray(skimage.data.coffee()[100:180, 100:220]))


@pytest.fixture(scope="module")
def painted() -> torch.Tensor:
    return images.to_tensor(np.ascontiguousarray(skimage.data.astronaut()[:80, 120:240]))


def moments(picture: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return wct.mean_and_covariance(picture, 1)


def ycbcr(picture: torch.Tensor) -> np.ndarray:
    return skimage.color.rgb2ycbcr((picture[0].permute(1, 2, 0).double().numpy() + 1) / 2)


def test_luminance_takes_luma_from_the_painting_and_chroma_from_the_photo(photo, painted):
    # At a third of the contrast nothing is clipped.
    photo, painted = photo / 3, painted / 3
    before, style, after = map(ycbcr, (photo, painted, color.luminance(photo, painted)))
    np.testing.assert_allclose(after[..., 0], style[..., 0], atol=0.05)
    np.testing.assert_allclose(after[..., 1:], before[..., 1:], atol=0.05)


def test_both_ways_stay_within_what_can_be_shown(photo, painted):
    for result in (
        color.luminance(photo, painted),
        color.matching(photo, painted)(painted),
    ):
        assert result.abs().max() <= 1


def test_a_painting_that_is_the_photo_is_kept(photo):
    torch.testing.assert_close(color.luminance(photo, photo), photo, atol=1e-6, rtol=0)
    torch.testing.assert_close(color.matching(photo, photo)(photo), photo, atol=2e-3, rtol=0)


def test_matched_colors_have_the_photos_mean_and_covariance(photo, painted):
    photo, painted = photo / 3, painted / 3
    matched = color.matching(photo, painted)(painted)
    (mean, covariance), (target_mean, target) = moments(matched), moments(photo)
    torch.testing.assert_close(mean, target_mean, atol=1e-4, rtol=0)
    torch.testing.assert_close(covariance, target, atol=5e-4, rtol=0)


def test_matching_reads_only_what_has_weight(photo, painted):
    weights = torch.zeros(1, 1, *photo.shape[-2:])
    weights[..., :60] = 1
    part = color.matching(photo[..., :60], painted[..., :60])
    torch.testing.assert_close(
        color.matching(photo, painted, weights).matrix, part.matrix, atol=1e-4, rtol=1e-4
    )


def test_a_flat_painting_is_not_blown_up(photo):
    flat = torch.full_like(photo, 0.2) + 1e-3 * torch.randn_like(photo)
    matched = color.matching(photo, flat)(flat)
    assert matched.std((2, 3)).max() < 0.1
