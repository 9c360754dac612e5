"""Discriminators: a head a domain, and scores that do not depend on the features' size."""

import pytest
import torch

import models


def discriminators():
    pixels = models.MultiScaleDiscriminator(3, width=8), torch.randn(2, 3, 64, 64)
    features = {"a": torch.randn(2, 4, 12, 12), "b": torch.randn(2, 6, 7, 7)}
    return [pixels, (models.FeatureDiscriminator({"a": 4, "b": 6}, 3, width=8), features)]


@pytest.mark.parametrize(("discriminator", "seen"), discriminators(), ids=["pixels", "features"])
def test_each_domain_has_a_head_of_its_own_and_learns_alone(discriminator, seen):
    domains = torch.tensor([0, 2])
    heads, scores = discriminator.all_heads(seen), discriminator(seen, domains)
    assert [h.shape[1] for h in heads] == [3] * len(heads)
    for head, score in zip(heads, scores, strict=True):
        assert torch.equal(score[0], head[0, 0]) and torch.equal(score[1], head[1, 2])
    sum(s.mean() for s in scores).backward()
    last = [m for m in discriminator.modules() if isinstance(m, torch.nn.Conv2d)][-1]
    assert last.weight.grad[0].abs().sum() > 0 and last.weight.grad[1].abs().sum() == 0


def test_the_paper_s_discriminator_has_three_scales():
    heads = models.MultiScaleDiscriminator(2, width=4).all_heads(torch.randn(1, 3, 128, 128))
    assert [h.shape[-1] for h in heads] == [16, 8, 4]


def test_a_calibrated_discriminator_does_not_mind_the_features_scale():
    discriminator = models.FeatureDiscriminator({"a": 4}, 2, width=8)
    features = torch.rand(1, 4, 9, 9)
    discriminator.calibrate({"a": features})
    scores = discriminator.all_heads({"a": features})
    discriminator.calibrate({"a": 50 * features})
    torch.testing.assert_close(discriminator.all_heads({"a": 50 * features}), scores)


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (1, 7)])
def test_maps_smaller_than_the_kernel_have_scores_too(shape):
    discriminator = models.FeatureDiscriminator({"a": 4}, 2, width=8)
    (scores,) = discriminator.all_heads({"a": torch.rand(1, 4, *shape)})
    assert scores.shape == (1, 2, 1, max(1, shape[1] - 2))
    flat = discriminator.all_heads({"a": torch.ones(1, 4, *shape)})
    torch.testing.assert_close(
        flat[0][..., :1], discriminator.all_heads({"a": torch.ones(1, 4, 3, 3)})[0]
    )
