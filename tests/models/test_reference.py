"""Signatures of paintings, and heads that are told which painting a picture should be like."""

from dataclasses import replace

import pytest
import torch

import models
from models import objective, reference
from models.discriminator_objective import DiscriminatorObjective
from models.objective import Batch, GeneratorObjective, Judges
from models.reference import ReferenceDiscriminator

CHANNELS = {"a": 4, "b": 6}


def features(count: int, seed: int = 0, scale: float = 1.0) -> dict[str, torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    sides = {"a": 12, "b": 7}
    return {
        k: scale * torch.randn(count, c, sides[k], sides[k], generator=draw)
        for k, c in CHANNELS.items()
    }


def test_a_signature_does_not_say_where_things_are():
    seen = features(2)
    signature = reference.signature(seen)
    assert signature.shape == (2, 2 * (4 + 6))
    turned = {layer: maps.flip(-1).mT for layer, maps in seen.items()}
    torch.testing.assert_close(reference.signature(turned), signature)
    louder = reference.signature({layer: 3 * maps for layer, maps in seen.items()})
    torch.testing.assert_close(louder[:, :4], 3 * signature[:, :4])
    assert (louder[:, 4:8] > signature[:, 4:8]).all()


def test_a_map_of_one_pixel_has_a_finite_signature_and_gradient():
    maps = torch.ones(1, 4, 1, 1, requires_grad=True)
    signature = reference.signature({"a": maps})
    signature.sum().backward()
    assert signature.isfinite().all() and maps.grad.isfinite().all()


def test_a_picture_is_most_like_itself():
    torch.manual_seed(0)
    discriminator = ReferenceDiscriminator(CHANNELS, 2, width=8)
    discriminator.calibrate(features(8))
    one, other = features(1, 1), features(1, 2, scale=2.0)
    own = reference.signature(one)
    assert discriminator.unlikeness(one, own) == 0
    assert discriminator.unlikeness(other, own) > 0.5


def test_the_score_depends_on_what_the_head_is_told_and_the_class_heads_do_not():
    torch.manual_seed(0)
    discriminator = ReferenceDiscriminator(CHANNELS, 3, width=8)
    discriminator.calibrate(features(8))
    seen = features(2)
    hidden = discriminator.hidden(seen)
    told = reference.signature(seen)
    scores = discriminator.reference_scores(hidden, told)
    assert [tuple(score.shape) for score in scores] == [(2, 10, 10), (2, 5, 5)]
    swapped = discriminator.reference_scores(hidden, told.flip(0))
    assert all((a - b).abs().max() > 1e-3 for a, b in zip(scores, swapped, strict=True))
    for head, own in zip(discriminator.heads(hidden), discriminator.all_heads(seen), strict=True):
        torch.testing.assert_close(head, own)


def test_a_head_learns_which_painting_a_part_is_of():
    torch.manual_seed(0)
    discriminator = ReferenceDiscriminator(CHANNELS, 2, width=8)
    # Two paintings that differ by their channels' means alone, seen in parts.
    shift = {k: torch.randn(2, c, 1, 1) for k, c in CHANNELS.items()}

    def part(seed: int) -> dict[str, torch.Tensor]:
        return {k: x + 2 * shift[k] for k, x in features(2, seed).items()}

    discriminator.calibrate(part(99))
    told = reference.signature(part(98))
    nothing = features(2, 97)
    optimizer = torch.optim.Adam(discriminator.parameters(), 1e-2)
    for seed in range(30):
        seen = [discriminator.hidden(x) for x in (nothing, part(seed), nothing)]
        loss = reference.discriminator_reference(
            discriminator, tuple(seen), told, torch.tensor([0, 1])
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    def score(signatures: torch.Tensor) -> float:
        with torch.no_grad():
            hidden = discriminator.hidden(part(200))
            scores = discriminator.reference_scores(hidden, signatures)
        return float(sum(s.mean() for s in scores))

    assert score(told) > score(told.flip(0)) + 0.5


def test_another_painting_of_one_painter_is_not_called_false():
    class Scores(ReferenceDiscriminator):
        def reference_scores(self, hidden, signatures):
            return [maps[:, 0] for maps in hidden]

    def maps(*values: float) -> list[torch.Tensor]:
        return [torch.tensor(values).view(2, 1, 1, 1)]

    discriminator = Scores({"a": 4}, 2, width=8)
    hidden = maps(0.2, 0.2), maps(1.0, 0.6), maps(0.4, 0.4)
    told = torch.zeros(2, 8)
    same, different = (
        reference.discriminator_reference(discriminator, hidden, told, torch.tensor(domains))
        for domains in ([1, 1], [0, 1])
    )
    true, false, photo, others = 0.4**2 / 2, 0.4**2, 0.2**2, (1 + 0.6**2) / 2
    assert float(same) == pytest.approx((true + false + photo / 2) / 2)
    assert float(different) == pytest.approx((true + false + (photo + others) / 2) / 2)


def test_a_step_with_references_moves_network_and_discriminator_apart():
    torch.manual_seed(0)
    projection = models.EfficientNetFeatures()
    discriminator = ReferenceDiscriminator(projection.channels, 3, width=8)
    network = models.Repainter(models.RepainterConfig(width=8, blocks=1, group_size=8))
    photos, paintings = (torch.rand(2, 3, 64, 64) * 2 - 1 for _ in range(2))
    told = reference.signature(projection(paintings))
    discriminator.calibrate(projection(torch.cat([photos, paintings])))
    weights = objective.Weights(adversarial=1, reference=1, likeness=1)
    step = GeneratorObjective(
        network, torch.nn.ModuleList(), Judges(None, projection, discriminator)
    )
    named = torch.tensor([1.0, 0.0])
    batch = Batch(
        photos, paintings, torch.tensor([0, 1]), window=(0, 0), signatures=told, named=named
    )
    terms, judged = step(batch, weights)
    assert set(terms) == {"adversarial", "reference", "likeness"}
    sum(terms.values()).backward()
    assert all(p.grad is None for p in discriminator.parameters())
    learner = DiscriminatorObjective(discriminator, 2)
    learner(judged, batch.domains, told, named).backward()
    assert all(p.grad is not None for p in discriminator.parameters())
    # A painting of a mixed domain says nothing about any painter's head.
    first = replace(batch, domains=torch.tensor([0, 0]))
    with torch.no_grad():
        again, _ = step(first, weights)
    assert float(again["adversarial"]) == pytest.approx(float(terms["adversarial"]))
