"""Losses: zero where they should be, and the same for a batch as for its parts."""

import pytest
import torch

from models import losses
from models.style_code import StyleCode
from tests.models.small import plain_photo_with_an_edge


def test_gram_of_two_orthogonal_channels():
    features = torch.tensor([[[[1.0, 0.0]], [[0.0, 2.0]]]])
    assert torch.equal(losses.gram(features), torch.tensor([[[0.5, 0.0], [0.0, 2.0]]]))


def test_moments_are_mean_and_standard_deviation():
    features = torch.randn(2, 5, 9, 7)
    expected = torch.cat([features.mean((2, 3)), features.flatten(2).std(2)], 1)
    torch.testing.assert_close(losses.moments(features), expected)


def test_style_loss_ignores_where_things_are_and_content_loss_does_not():
    features = torch.rand(2, 4, 8, 8)
    moved = features.roll(3, -1)
    assert losses.style_loss({"a": moved}, {"a": features}, {"a": 1.0}) < 1e-10
    assert losses.content_loss(moved, features) > 0.5
    assert losses.content_loss(features, features) == 0


def test_style_loss_weighs_layers_relative_to_their_sum():
    features = {"a": torch.rand(1, 3, 6, 6), "b": torch.rand(1, 3, 6, 6)}
    target = {"a": torch.rand(1, 3, 6, 6), "b": torch.rand(1, 3, 6, 6)}
    alone = [losses.style_loss(features, target, {k: 1.0}) for k in "ab"]
    both = losses.style_loss(features, target, {"a": 1.0, "b": 3.0})
    torch.testing.assert_close(both, (alone[0] + 3 * alone[1]) / 4)


def test_losses_do_not_depend_on_the_features_scale():
    features, target = torch.rand(1, 4, 8, 8), torch.rand(1, 4, 8, 8)
    small = losses.style_loss({"a": features}, {"a": target}, {"a": 1.0})
    large = losses.style_loss({"a": 100 * features}, {"a": 100 * target}, {"a": 1.0})
    torch.testing.assert_close(small, large)


def test_total_variation_of_stripes_one_pixel_wide():
    stripes = torch.tensor([0.0, 1.0]).repeat(4).expand(1, 3, 8, 8)
    assert losses.total_variation(stripes) == 1
    assert losses.total_variation(torch.ones(1, 3, 8, 8)) == 0


def test_lsgan_by_hand():
    # One image of domain 1 of three: its own head says 0 and 0.5, the others 0.2 and 0.
    heads = torch.tensor([[[[0.2, 0.2]], [[0.0, 0.5]], [[0.0, 0.0]]]])
    loss = losses.generator_adversarial([heads], torch.tensor([1]))
    assert loss == pytest.approx(0.625 + 0.04 / 2)


def test_whitening_penalty_is_zero_for_identity_only():
    assert losses.whitening_penalty([torch.eye(4)[None]]) == 0
    assert losses.whitening_penalty([2 * torch.eye(4)[None]]) == pytest.approx(0.25)


def test_coloring_penalty_is_zero_for_scaled_orthogonal_columns():
    orthogonal = torch.linalg.qr(torch.randn(1, 2, 6, 6)).Q * torch.arange(1, 7)
    assert losses.coloring_penalty([orthogonal]) < 1e-6
    assert losses.coloring_penalty([torch.ones(1, 2, 6, 6)]) > 0.5


def test_style_code_loss_counts_every_tensor_alike():
    target = StyleCode((torch.ones(1, 2), 100 * torch.ones(1, 3)))
    off = StyleCode((1.5 * torch.ones(1, 2), 100 * torch.ones(1, 3)))
    assert losses.style_code_loss(off, target) == pytest.approx(0.25)


def test_flat_variation_counts_stripes_on_plain_ground_alone():
    photo = plain_photo_with_an_edge()
    stripes = torch.zeros(1, 3, 64, 64)
    stripes[..., 4:8] = 1
    on_plain = float(losses.flat_variation(stripes, photo))
    on_edge = float(losses.flat_variation(stripes.roll(26, -1), photo))
    assert on_plain == pytest.approx(2 / 64, rel=0.1)
    assert on_edge < 0.1 * on_plain
    assert float(losses.flat_variation(torch.zeros_like(stripes), photo)) == 0


def test_grid_share_is_that_of_the_repeating_pattern():
    torch.manual_seed(0)
    noise = 0.1 * torch.randn(2, 3, 96, 96)
    pattern = torch.zeros(4, 4)
    pattern[0], pattern[2] = 1, -1  # lines, every 4 pixels
    lines = 0.1 * pattern.repeat(24, 24)
    assert float(losses.grid_share(noise, 4)) < 0.01
    assert float(losses.grid_share(lines.expand(1, 3, 96, 96), 4)) > 0.9
    assert float(losses.grid_share(noise + lines, 4)) == pytest.approx(1 / 3, abs=0.05)
    assert float(losses.grid_share(noise + lines, 3)) < 0.01
