"""Codes between codes."""

from dataclasses import replace

import pytest
import torch

import models


def code(seed: int, size: int = 4) -> models.StyleCode:
    generator = torch.Generator().manual_seed(seed)
    return models.StyleCode(
        (
            torch.randn(1, 2, size, 1, generator=generator),
            torch.randn(1, 2, size, size, generator=generator),
        )
    )


def close(one: models.StyleCode, other: models.StyleCode) -> None:
    for a, b in zip(one.tensors, other.tensors, strict=True):
        torch.testing.assert_close(a, b)


def test_all_the_weight_on_one_code_is_that_code():
    blend = models.StyleCode.blend([code(0), code(1), code(2)], [0, 5, 0])
    assert all(torch.equal(a, b) for a, b in zip(blend.tensors, code(1).tensors, strict=True))


def test_weights_count_by_their_share():
    close(
        models.StyleCode.blend([code(0), code(1)], [1, 3]),
        models.StyleCode.blend([code(1), code(0)], [0.75, 0.25]),
    )


def test_a_code_blended_with_itself_stays():
    close(models.StyleCode.blend([code(3), code(3)], [0.2, 0.5]), code(3))


def test_a_blend_of_blends_is_the_blend_of_all():
    half = models.StyleCode.blend([code(0), code(1)], [1, 1])
    close(
        models.StyleCode.blend([half, code(2)], [2, 1]),
        models.StyleCode.blend([code(0), code(1), code(2)], [1, 1, 1]),
    )


@pytest.mark.parametrize(
    ("weights", "reason"),
    [
        ([1], "2 codes can't be blended with 1 weights"),
        ([0, 0], "some above"),
        ([2, -1], "at least 0"),
        ([float("nan"), 1], "at least 0"),
        ([float("inf"), 1], "at least 0"),
    ],
)
def test_weights_that_cannot_blend_are_refused(weights, reason):
    with pytest.raises(ValueError, match=reason):
        models.StyleCode.blend([code(0), code(1)], weights)


def test_codes_of_two_networks_are_refused():
    with pytest.raises(ValueError, match="not of one network"):
        models.StyleCode.blend([code(0), code(1, size=6)], [1, 1])


def test_grounds_go_along_and_are_mixed_by_their_shares():
    grounds = models.Ground(0.4, 0.0), models.Ground(0.0, 1.0)
    first, second = (replace(code(i), ground=g) for i, g in enumerate(grounds))
    assert first.to("cpu").detach()[:1].ground == grounds[0]
    assert models.StyleCode.cat([first, first]).ground == grounds[0]
    assert models.StyleCode.blend([first, second], [1, 3]).ground == models.Ground(0.1, 0.75)
    with pytest.raises(ValueError, match="one ground"):
        models.StyleCode.cat([first, second])


@pytest.mark.parametrize("wrong", [-0.1, 11, float("nan")])
def test_a_ground_out_of_range_is_refused(wrong):
    with pytest.raises(ValueError, match="simplify must be from 0 to 10"):
        models.Ground(simplify=wrong)
    with pytest.raises(ValueError, match="strokes must be from 0 to 10"):
        models.Ground(strokes=wrong)
    with pytest.raises(ValueError, match="tint must be from 0 to 10"):
        models.Ground(tint=wrong)
    with pytest.raises(ValueError, match="outlines must be from 0 to"):
        models.Ground(outlines=wrong)
    for share in ("outlines", "tone"):
        with pytest.raises(ValueError, match=f"{share} must be from 0 to 1,"):
            models.Ground(**{share: 1.01})


def test_a_ground_can_be_less_or_more_than_the_style_wants():
    some, none = models.Ground(0.2, 0.5), models.Ground(0.0, 0.0)

    def amounts(*all_of_them: float, **some_of_them: float) -> models.Amounts:
        return models.Amounts(*all_of_them, **some_of_them)

    assert some.of(amounts()) == some and some.of(amounts(0, 0)) == none.of(amounts()) == none
    assert some.of(amounts(simplify=0.5, brushwork=0.5)) == models.Ground(0.1, 0.25)
    assert some.of(amounts(simplify=2, brushwork=3)) == models.Ground(0.2 + 0.1, 0.5 + 2.0)
    assert none.of(amounts(simplify=3, brushwork=2)) == models.Ground(0.2, 1.0)
    dark, lit = models.Ground(outlines=0.8), models.Ground(tone=0.8)
    assert dark.of(amounts(outlines=0.5)).outlines == 0.4
    assert none.of(amounts(outlines=2)).outlines == 0.4
    assert dark.of(amounts(outlines=3)).outlines == 1  # black is black
    assert lit.of(amounts(tone=0.5)).tone == 0.4 and none.of(amounts(tone=2)).tone == 0.3
    assert lit.of(amounts(tone=3)).tone == 1
    assert models.Ground(grain=0.2).of(amounts(brushwork=0.5)).grain == 0.1
    assert models.Ground(flatten=0.2).of(amounts(simplify=0.5)).flatten == 0.1
    assert models.Ground(register=0.6).of(amounts(simplify=0.5)).register == 0.3
    assert models.Ground(tint=0.5).of(amounts(tint=2)).tint == 0.75
    assert none.of(amounts(tint=3)).tint == 0.5
