"""What a step minimizes: the order of the losses, and means over the batch."""

from dataclasses import replace

import pytest
import torch

import models
from models import objective
from models.discriminator_objective import DiscriminatorObjective
from models.finish.flattening import Flattening
from models.finish.simplification import simplified
from models.objective import Batch, GeneratorObjective, Judges
from models.strokes import Canvas
from tests.grounds import PRINT

SIDE = 64


@pytest.fixture(scope="module")
def judges() -> Judges:
    torch.manual_seed(0)
    projection = models.EfficientNetFeatures()
    discriminator = models.FeatureDiscriminator(projection.channels, 3, width=8)
    perceptual = models.PerceptualNetwork("hed", last=objective.DEEPEST_LAYER)
    return Judges(perceptual, projection, discriminator)


def batch(count: int) -> Batch:
    torch.manual_seed(1)
    photos, paintings = (torch.rand(count, 3, SIDE, SIDE) * 2 - 1 for _ in range(2))
    return Batch(photos, paintings, torch.arange(count) % 2, window=(3, 5))


def part(whole: Batch, index: slice) -> Batch:
    tensors = (t[index] for t in (whole.photos, whole.paintings, whole.domains))
    return Batch(*tensors, taught=whole.taught[index], window=whole.window)


EVERYTHING = replace(
    objective.PERCEPTUAL, cycle=1, content_code=1, style_code=1, whitening=1, coloring=1
)


@pytest.mark.parametrize(
    ("coloring", "weights"),
    [("statistics", replace(EVERYTHING, coloring=0)), ("mlp", EVERYTHING)],
    ids=["statistics", "mlp"],
)
def test_every_loss_is_the_mean_of_its_parts(judges, coloring, weights):
    torch.manual_seed(0)
    config = models.RepainterConfig(width=8, blocks=1, group_size=8, coloring=coloring)
    step = GeneratorObjective(models.Repainter(config), torch.nn.ModuleList(), judges)
    learner = DiscriminatorObjective(judges.discriminator, 2)
    whole = batch(2)
    parts = [part(whole, slice(i, i + 1)) for i in range(2)]
    terms, judged = step(whole, weights)
    pieces = [step(p, weights) for p in parts]
    assert set(terms) == {n for n in vars(weights) if getattr(weights, n) > 0}
    for name, term in terms.items():
        mean = sum(piece[name] for piece, _ in pieces) / 2
        torch.testing.assert_close(term, mean, atol=1e-5, rtol=1e-3, msg=name)
    mean = sum(learner(j, p.domains) for (_, j), p in zip(pieces, parts, strict=True)) / 2
    torch.testing.assert_close(learner(judged, whole.domains), mean, atol=1e-5, rtol=1e-3)


def test_learned_codes_paint_the_first_photos_and_get_all_of_the_gradient(judges):
    torch.manual_seed(0)
    network = models.Repainter(models.RepainterConfig(width=8, blocks=1, group_size=8))
    whole = replace(batch(2), taught=(1,))
    codes = torch.nn.ModuleList(
        models.LearnedCode(network.encode_style(whole.paintings[i : i + 1])) for i in range(2)
    )
    step = GeneratorObjective(network, codes, judges)
    terms, _ = step(whole, objective.PERCEPTUAL)
    terms["style"].backward()
    touched = [any(p.grad is not None for p in code.parameters()) for code in codes]
    assert touched == [False, True]
    network.zero_grad()
    network.requires_grad_(False)
    terms, _ = step(replace(whole, taught=(0, 1)), objective.PERCEPTUAL)
    assert "reconstruction" not in terms
    sum(terms.values()).backward()
    assert all(float(p.grad.abs().sum()) > 0 for p in codes.parameters())
    assert all(p.grad is None for p in network.parameters())


def test_the_generator_s_step_leaves_the_judges_without_a_gradient(judges):
    torch.manual_seed(0)
    network = models.Repainter(models.RepainterConfig(width=8, blocks=1, group_size=8))
    terms, judged = GeneratorObjective(network, torch.nn.ModuleList(), judges)(
        batch(1), objective.PERCEPTUAL
    )
    terms["adversarial"].backward()
    assert all(p.grad is None for p in judges.discriminator.parameters())
    assert all(p.requires_grad for p in judges.discriminator.parameters())
    assert not any(m.requires_grad for seen in judged for m in seen.values())


def test_the_discriminator_by_hand():
    class Heads(torch.nn.Module):
        def all_heads(self, scores):
            return [scores]

    def scores(*values: float) -> torch.Tensor:
        return torch.tensor(values).view(1, 3, 1, 1)

    # Domain 0 of two painters and photos: its head sees 1 and 0.5, the photos' head 1.
    judged = scores(0.2, 0.0, 1.0), scores(1.0, 0.4, 0.0), scores(0.5, 9.0, 9.0)
    loss = DiscriminatorObjective(Heads(), 2)(judged, torch.tensor([0]))
    assert loss == pytest.approx(0.5**2 + (0.2**2 + 0.4**2) / 2)


@pytest.mark.parametrize("weights", [objective.PAPER, objective.GD], ids=["svd", "gd"])
def test_both_directions_count_alike_in_the_papers_losses(weights):
    # Photos and paintings change places, and their domains with them: no loss may tell.
    torch.manual_seed(0)
    method = "gd" if weights is objective.GD else "svd"
    config = models.RepainterConfig(
        width=8, blocks=1, group_size=8, coloring="mlp", method=method, strokes=0
    )
    network = models.Repainter(config)
    discriminator = models.MultiScaleDiscriminator(3, width=4)
    photos, paintings = (torch.rand(2, 3, SIDE, SIDE) * 2 - 1 for _ in range(2))
    losses, learned = [], []
    for x, y, photo, painter in ((photos, paintings, 2, 0), (paintings, photos, 0, 2)):
        step = GeneratorObjective(
            network, torch.nn.ModuleList(), Judges(discriminator=discriminator), photo
        )
        terms, judged = step(Batch(x, y, torch.full((2,), painter)), weights)
        losses.append(terms)
        assert len(judged) == 4
        learned.append(
            DiscriminatorObjective(discriminator, photo)(judged, torch.full((2,), painter))
        )
    assert set(losses[0]) == {n for n in vars(weights) if getattr(weights, n) > 0}
    for name, term in losses[0].items():
        assert float(term.detach()) > 0
        torch.testing.assert_close(term, losses[1][name], msg=name)
    torch.testing.assert_close(*learned)


def test_each_loss_of_the_paper_has_a_part_of_painting_to_photo():
    # One-sided losses would not move with the paintings' content or the photos' style.
    torch.manual_seed(0)
    config = models.RepainterConfig(width=8, blocks=1, group_size=8, coloring="mlp", method="gd")
    network = models.Repainter(config)
    discriminator = models.MultiScaleDiscriminator(2, width=4)
    step = GeneratorObjective(
        network, torch.nn.ModuleList(), Judges(discriminator=discriminator), 1
    )
    x, y = (torch.rand(1, 3, SIDE, SIDE) * 2 - 1 for _ in range(2))
    made = []
    generate = network.generate

    def kept(content, code, *args, **kwargs):
        made.append(generate(content, code, *args, **kwargs))
        made[-1].retain_grad()
        return made[-1]

    network.generate = kept
    terms, _ = step(Batch(x, y, torch.zeros(1, dtype=torch.long)), objective.GD)
    photographed = made[1]
    for name in ("adversarial", "content_code", "style_code", "cycle"):
        (gradient,) = torch.autograd.grad(terms[name], photographed, retain_graph=True)
        assert float(gradient.abs().sum()) > 0, name


def test_the_papers_discriminator_weighs_real_and_false_alike():
    class Heads(torch.nn.Module):
        def all_heads(self, scores):
            return [scores]

    def scores(*values: float) -> torch.Tensor:
        return torch.tensor(values).view(1, 3, 1, 1).requires_grad_()

    # Photos, paintings of domain 0, photos painted, paintings made photos.
    judged = scores(9.0, 9.0, 0.5), scores(0.5, 9.0, 9.0), scores(0.5, 9, 9), scores(9, 9, 0.5)
    loss = DiscriminatorObjective(Heads(), 2)(judged, torch.tensor([0]))
    assert float(loss.detach()) == pytest.approx(4 * 0.5**2 / 2)
    loss.backward()
    slopes = [seen.grad.flatten().tolist() for seen in judged]
    assert slopes == [[0, 0, -0.5], [-0.5, 0, 0], [0.5, 0, 0], [0, 0, 0.5]]


def test_strokes_come_after_the_colors_and_the_discriminator_early():
    start, early, middle, end = (
        objective.at_progress(objective.PERCEPTUAL, p) for p in (0.0, 0.15, 0.3, 1.0)
    )
    assert start.adversarial == 0 < early.adversarial < middle.adversarial
    assert start.style < early.style < middle.style == end.style
    assert end == objective.PERCEPTUAL
    assert objective.at_progress(objective.PAPER, 0.0) == objective.PAPER


def test_losses_look_at_the_clean_photo_and_the_network_at_what_it_is_given():
    seen = []

    class Network(models.Repainter):
        def encode_content(self, photo):
            seen.append(photo)
            return super().encode_content(photo)

    torch.manual_seed(0)
    network = Network(models.RepainterConfig(width=8, blocks=1, group_size=8))
    step = GeneratorObjective(network, torch.nn.ModuleList(), Judges())
    clean = batch(2)
    grained = replace(clean, given=clean.photos + 1)
    weights = objective.Weights(flatness=1)
    with torch.no_grad():
        terms, _ = step(grained, weights)
    assert any(photo is grained.given for photo in seen)
    assert not any(photo is grained.photos for photo in seen)
    # The same pictures with photos that are nowhere plain cost nothing.
    busy = replace(grained, photos=torch.rand_like(clean.photos).round() * 2 - 1)
    with torch.no_grad():
        busy_terms, _ = step(busy, weights)
    assert float(busy_terms["flatness"]) < float(terms["flatness"])


def test_every_photo_is_prepared_as_its_style_wants_and_compared_with_what_is_left(judges):
    torch.manual_seed(0)
    config = models.RepainterConfig(width=8, blocks=1, group_size=8, strokes=0.05)
    network = models.Repainter(config)
    step = GeneratorObjective(network, torch.nn.ModuleList(), judges)
    plain = models.Ground()
    canvas = Canvas([(0, 0), (40, 7), (3, 3)])
    whole = replace(batch(3), canvas=canvas, grounds=(PRINT, plain, PRINT))
    given, shown, finishes = step._prepared(whole)
    picture = torch.rand_like(given)
    for i, ground in enumerate(whole.grounds):
        photo, own = whole.photos[i : i + 1], Canvas([canvas.origins[i]])
        alone, on_top = network.prepare(photo, own, ground)
        assert torch.allclose(given[i : i + 1], alone, atol=1e-6)
        flattens = any(isinstance(one, Flattening) for one in on_top.filters)
        assert flattens == (ground == PRINT)
        expected = on_top.differentiable.on(picture[i : i + 1])
        assert torch.allclose(finishes.on(picture)[i : i + 1], expected, atol=1e-4)
        assert torch.equal(expected, picture[i : i + 1]) == (ground == plain)
        assert torch.allclose(shown[i : i + 1], simplified(photo, ground.simplify), atol=1e-6)
    # Nothing wanted is nothing done.
    *same, finishes = step._prepared(replace(whole, grounds=(plain,) * 3))
    *bare, none = step._prepared(replace(whole, grounds=()))
    assert all(map(torch.equal, same, bare))
    assert finishes.on(picture) is picture and none.on(picture) is picture
    # What is trained has a gradient everywhere.
    picture.requires_grad_()
    step._prepared(whole)[2].on(picture).sum().backward()
    assert torch.isfinite(picture.grad).all() and (picture.grad != 0).any((1, 2, 3)).all()


def test_outlines_are_seen_by_the_judges_and_not_held_against_the_network(judges):
    torch.manual_seed(0)
    network = models.Repainter(models.RepainterConfig(width=8, blocks=1, group_size=8))
    step = GeneratorObjective(network, torch.nn.ModuleList(), judges)
    weights = objective.Weights(content=1, variation=1)
    plain = batch(2)
    inked = replace(plain, grounds=(models.Ground(outlines=1.0),) * 2)
    with torch.no_grad():
        bare, printed = (step(one, weights)[0] for one in (plain, inked))
    assert float(bare["variation"]) == float(printed["variation"])
    assert float(bare["content"]) != float(printed["content"])


def test_calm_is_how_often_a_photo_s_variation_counts(judges):
    torch.manual_seed(0)
    network = models.Repainter(models.RepainterConfig(width=8, blocks=1, group_size=8))
    step = GeneratorObjective(network, torch.nn.ModuleList(), judges)
    whole = batch(2)
    with torch.no_grad():
        once, none, first, second = (
            float(step(replace(whole, calm=calm), objective.Weights(variation=1))[0]["variation"])
            for calm in ((), (0, 0), (3, 0), (0, 3))
        )
    assert none == 0 and first != second and first + second == pytest.approx(3 * once)
