"""All filters together: what makes them act, how far they see, what they keep."""

from dataclasses import fields, replace

import pytest
import torch

import models
from models import finish
from models.finish import AFTER, BEFORE, Finish, Finishes, Original
from models.finish.enlargement import Enlargement, reduced
from models.finish.filter import Filter
from tests.models.small import picture

KINDS = (*BEFORE, *AFTER)
SOME = 0.4  # of any filter
EVERYTHING = models.Ground(**{each.name: SOME for each in fields(models.Ground)})


def made(kind: type[Filter], photo: torch.Tensor, stroke_size: int = 1) -> Filter:
    amount = stroke_size if kind.amount == "stroke_size" else SOME
    return kind.of(Original(photo, stroke_size=stroke_size), amount)


def test_each_part_of_a_ground_is_the_amount_of_one_filter():
    amounts = [kind.amount for kind in KINDS if kind.amount != "stroke_size"]
    assert sorted([*amounts, "strokes"]) == sorted(each.name for each in fields(models.Ground))


def test_a_person_s_amounts_scale_what_a_style_wants():
    scaled = {each.metadata["scaled_by"] for each in fields(models.Ground)}
    assert scaled == {each.name for each in fields(models.Amounts)}
    for each in fields(models.Amounts):
        for amount in (0.0, 3.0):
            others = {a.name: 1.0 for a in fields(models.Amounts)} | {each.name: amount}
            changed = EVERYTHING.of(models.Amounts(**others))
            for part in fields(models.Ground):
                own = part.metadata["scaled_by"] == each.name
                least, most = part.metadata["range"]
                after = getattr(changed, part.name)
                if not own:
                    assert after == SOME
                elif not amount:
                    assert after == least == 0
                else:
                    assert after == pytest.approx(min(SOME + 2 * part.metadata["more"], most))


@pytest.mark.parametrize("name", [each.name for each in fields(models.Amounts)])
@pytest.mark.parametrize("wrong", [-0.1, 3.1, float("nan"), float("inf")])
def test_an_amount_out_of_its_range_is_refused(name, wrong):
    with pytest.raises(ValueError, match=f"{name} must be between 0 and 3, got {wrong}"):
        models.Amounts(**{name: wrong})


@pytest.mark.parametrize(
    ("kind", "stroke_size"),
    [(kind, 2 if kind.amount == "stroke_size" else 1) for kind in KINDS],
)
def test_what_lies_beyond_its_reach_has_no_part_in_a_filtered_pixel(kind, stroke_size):
    reach = kind.reach(0, stroke_size)
    side = 16 * (reach // 8 + 2)  # more than it reaches to either side
    photo, painting = picture(side, side), picture(side, side, seed=1)
    middle = side // 2 + 2
    away = (torch.arange(side) - middle).abs()
    far = torch.maximum(away[:, None], away) > reach
    assert far.any() and not far.all()
    pictures = (photo, painting), tuple(torch.where(far, -x, x) for x in (photo, painting))
    if kind is Enlargement:  # whose painting is smaller
        pictures = [(photo, reduced(small, stroke_size)) for photo, small in pictures]
    one, other = (made(kind, photo, stroke_size).on(x, 1.0) for photo, x in pictures)
    assert one.shape == photo.shape and not torch.equal(one, other)
    torch.testing.assert_close(
        one[..., middle, middle], other[..., middle, middle], atol=1e-6, rtol=0
    )


def test_the_reaches_add_up_in_the_order_of_the_filters():
    tone, outlines, enlargement, flattening = (
        next(kind for kind in AFTER if kind.amount == name)
        for name in ("tone", "outlines", "stroke_size", "flatten")
    )
    (simplification,) = BEFORE
    steps = flattening.reach(0, 1), enlargement.reach(0, 1), tone.reach(0, 1)
    assert finish.reach(50, models.Ground()) == 50
    assert finish.reach(50, models.Ground(tint=1.0, grain=1.0)) == 50
    assert finish.reach(50, models.Ground(tone=1.0)) == 50 + steps[2]
    assert finish.reach(50, models.Ground(outlines=1.0)) == 50
    assert finish.reach(0, models.Ground(outlines=1.0)) == outlines.reach(0, 1) > 0
    assert finish.reach(50, models.Ground(), 4) == 4 * (50 + steps[1])
    both = models.Ground(flatten=1.0, tone=1.0, simplify=1.0)
    expected = 4 * (50 + steps[0] + steps[1]) + steps[2] + simplification.reach(0, 4)
    assert finish.reach(50, both, 4) == expected
    # Once the painting at the network's own scale is there, only what is done to it later matters.
    later = 4 * steps[1] + steps[2] + simplification.reach(0, 4)
    assert finish.large_reach(both, 4) == later < expected
    assert finish.prepared_reach(both) == simplification.reach(0, 1)
    assert finish.prepared_reach(models.Ground(tone=1.0)) == 0


def test_a_plain_ground_does_nothing():
    photo = picture(32, 40)
    nothing = Finish.of(Original(photo), models.Ground())
    assert finish.prepared(photo, models.Ground()) is photo
    assert nothing.on(photo) is photo and nothing.nbytes == 0


@pytest.mark.parametrize("kind", AFTER)
def test_at_strength_0_a_filter_leaves_the_picture_or_only_enlarges_it(kind):
    photo = picture(64, 64)
    painting = photo[..., :32, :32] if kind.amount == "stroke_size" else photo.flip(-1)
    size = 2 if kind.amount == "stroke_size" else 1
    result = made(kind, photo, size).on(painting, 0.0)
    assert result.shape == photo.shape
    if size == 1:
        torch.testing.assert_close(result, painting, atol=1e-6, rtol=0)


def test_the_corner_of_a_finished_picture_is_the_finished_corner():
    photo, painting = picture(64, 72), picture(64, 72, seed=1)
    ground = replace(EVERYTHING, register=0.0, tone=0.0, flatten=0.0)  # which read what is around
    done = Finish.of(Original(photo), ground)
    assert torch.equal(done.on(painting[..., :60, :41]), done.on(painting)[..., :60, :41])


@pytest.mark.parametrize("stroke_size", [1, 2, 4])
def test_what_is_done_small_and_then_large_is_all_that_is_done(stroke_size):
    photo = picture(64, 96)
    painting = picture(64 // stroke_size, 96 // stroke_size, seed=1)
    original = Original(photo, [(16, 32)], stroke_size)
    small = Finish.small(original.reduced, EVERYTHING).on(painting, 0.7)
    assert small.shape == painting.shape and not torch.equal(small, painting)
    both = Finish.large(original, EVERYTHING).on(small, 0.7)
    assert torch.equal(both, Finish.of(original, EVERYTHING).on(painting, 0.7))


def test_memory_counts_once_what_filters_share():
    photo = picture(64, 64)
    luma, colors = 64 * 64 * 4, 3 * 64 * 64 * 4
    assert Finish.of(Original(photo), models.Ground(tint=1.0)).nbytes == colors
    done = Finish.of(Original(photo, stroke_size=2), models.Ground(tone=1.0))
    assert len(done.filters) == 2 and luma <= done.nbytes <= luma + 4


def test_each_picture_of_a_batch_is_finished_as_its_style_wants():
    photos, paintings = picture(48, 48, batch=3), picture(48, 48, seed=1, batch=3)
    one = Finish.of(Original(photos[[0, 2]]), EVERYTHING).differentiable
    done = Finishes((((0, 2), one), ((1,), Finish()))).on(paintings)
    assert torch.equal(done[1], paintings[1])
    assert torch.equal(done[[0, 2]], one.on(paintings[[0, 2]]))
    assert Finishes().on(paintings) is paintings


def test_what_is_differentiable_has_a_gradient_everywhere():
    photo = picture(48, 48)
    painting = (0.5 * picture(48, 48, seed=1)).requires_grad_()
    done = Finish.of(Original(photo), EVERYTHING)
    assert len(done.differentiable.filters) == len(done.filters) - 1  # but for the flattening
    done.differentiable.on(painting).square().sum().backward()
    assert torch.isfinite(painting.grad).all() and (painting.grad != 0).float().mean() > 0.9
