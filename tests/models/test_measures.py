"""Measures: each says what it claims to say, on numbers done by hand and on real pictures."""

import math

import numpy as np
import pytest
import skimage.data
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from skimage.filters import gaussian

import wct
from models import measures


def tensor(rgb: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(rgb.astype(np.float32)).permute(2, 0, 1)[None] / 127.5 - 1


CAT = skimage.data.chelsea()[:256, 100:356]
COFFEE = skimage.data.coffee()[:256, :256]


def test_sharpness_of_three_by_three_pixels_done_by_hand():
    levels = np.array([[0, 3, 10], [4, 3, 15], [4, 7, 15]])
    gray = tensor(np.repeat(levels[..., None], 3, 2))
    # Differences (to the right, below) of the four pixels that have both:
    # (3, 4), (7, 0), (-1, 0), (12, 4)
    expected = (5 + 7 + 1 + math.sqrt(160)) / 4
    assert float(measures.sharpness(gray)) == pytest.approx(expected, rel=1e-5)


def test_a_constant_picture_has_no_sharpness():
    assert float(measures.sharpness(torch.full((1, 3, 9, 12), 0.3))) == pytest.approx(0, abs=1e-4)


def test_the_more_a_photo_is_blurred_the_less_sharp_it_is():
    blurred = [
        tensor(255 * gaussian(CAT / 255, sigma, channel_axis=2)) for sigma in (0.01, 0.5, 1, 2, 4)
    ]
    values = measures.sharpness(torch.cat(blurred))
    assert bool((values[1:] < values[:-1]).all()), values


def test_edges_are_those_of_the_same_photo_and_not_of_another():
    cat, coffee = tensor(CAT), tensor(COFFEE)
    with_itself, inverted, other = measures.edge_correlation(
        cat.expand(3, -1, -1, -1), torch.cat([cat, -cat, coffee])
    ).tolist()
    assert with_itself == pytest.approx(1, abs=1e-5)
    assert inverted == pytest.approx(1, abs=1e-4)  # light and dark change places, edges do not
    assert abs(other) < 0.2
    assert float(measures.edge_correlation(cat, torch.zeros_like(cat))) == 0


def test_frechet_distance_is_that_of_the_formula():
    generator = torch.Generator().manual_seed(0)
    first = torch.randn(60, 5, generator=generator, dtype=torch.float64)
    second = first.flip(0)[:40] @ torch.diag(torch.tensor([3.0, 1, 2, 0.5, 1]).double()) + 0.7
    c1, c2 = torch.cov(first.T), torch.cov(second.T)
    root = wct.sqrtm(c1)
    expected = (first.mean(0) - second.mean(0)).square().sum() + torch.trace(
        c1 + c2 - 2 * wct.sqrtm(root @ c2 @ root)
    )
    assert measures.frechet_distance(first, second) == pytest.approx(float(expected), rel=1e-6)


@given(seed=st.integers(0, 1000), shift=st.floats(-5, 5), count=st.integers(2, 9))
@settings(max_examples=30, deadline=None)
def test_frechet_distance_is_symmetric_and_grows_by_the_square_of_a_shift(seed, shift, count):
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(count, 12, generator=generator, dtype=torch.float64)
    moved = features + shift
    distance = measures.frechet_distance(features, moved)
    assert distance == pytest.approx(12 * shift**2, abs=1e-8)
    assert distance == pytest.approx(measures.frechet_distance(moved, features), abs=1e-8)


@pytest.mark.parametrize(
    ("measure", "inputs"),
    [
        (measures.sharpness, (torch.zeros(1, 1, 4, 4),)),
        (measures.sharpness, (torch.zeros(1, 3, 1, 4),)),
        (measures.edge_correlation, (torch.zeros(3, 4, 4), torch.zeros(1, 3, 4, 4))),
        (measures.frechet_distance, (torch.zeros(4, 3), torch.zeros(4, 2))),
        (measures.frechet_distance, (torch.zeros(1, 3), torch.zeros(4, 3))),
    ],
)
def test_a_wrong_shape_is_named(measure, inputs):
    with pytest.raises(ValueError, match="got"):
        measure(*inputs)


def test_lpips_says_why_it_can_not_measure(monkeypatch):
    monkeypatch.setattr(measures.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(FileNotFoundError, match="lpips is not installed"):
        measures.LPIPS()


def noise(deviation: float, side: int = 128) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return deviation * torch.randn(1, 1, side, side, generator=generator).expand(1, 3, -1, -1)


@pytest.mark.parametrize("deviation", [0.03, 0.2])
def test_white_noise_has_little_regularity_whatever_its_strength(deviation):
    found = measures.regularity(noise(deviation), torch.ones(1, 1, 128, 128))
    assert found == pytest.approx(1.3, abs=0.1)


def test_a_weave_is_regular_also_where_it_is_faint_and_under_noise():
    place = torch.arange(128.0)
    weave = torch.sin(0.9 * (place + place[:, None])) + torch.sin(0.9 * (place - place[:, None]))
    weave = 0.03 * weave.expand(1, 3, -1, -1)
    plain = torch.ones(1, 1, 128, 128)
    assert measures.regularity(weave, plain) > 30
    assert 2 < measures.regularity(weave + noise(0.03), plain) < 10
    ramp = place.expand(1, 3, 128, 128) / 256
    assert measures.regularity(weave + ramp, plain) > 0.9 * measures.regularity(weave, plain)


def test_lines_that_turn_from_place_to_place_are_less_regular_than_a_weave():
    place = torch.arange(128.0) - 64
    rings = torch.sin(0.9 * (place**2 + place[:, None] ** 2).sqrt()).expand(1, 3, -1, -1)
    lines = torch.sin(0.9 * place).expand(1, 3, 128, 128)
    plain = torch.ones(1, 1, 128, 128)
    assert measures.regularity(rings, plain) < 0.4 * measures.regularity(lines, plain)


def test_regularity_is_of_plain_patches_alone():
    weave = torch.sin(torch.arange(128.0)).expand(1, 3, 128, 128)
    plain = torch.zeros(1, 1, 128, 128)
    assert measures.regularity(weave, plain) is None
    plain[..., :64, :64] = 1
    mixed = torch.where(plain > 0, weave, noise(0.1))
    assert measures.regularity(mixed, plain) > 10
    plain[..., 48:, :] = plain[..., 48:] = 0
    assert measures.regularity(weave, plain) is None  # four patches say nothing
    assert measures.regularity(torch.zeros(1, 3, 128, 128), torch.ones(1, 1, 128, 128)) is None
    assert measures.regularity(torch.zeros(1, 3, 20, 128), torch.ones(1, 1, 20, 128)) is None
    with pytest.raises(ValueError, match="one picture"):
        measures.regularity(torch.zeros(2, 3, 64, 64), torch.ones(2, 1, 64, 64))
