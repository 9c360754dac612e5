"""One loaded network, its built-in styles and styles from pictures."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import skimage.data
import torch
from PIL import Image

import models
from app import color, images
from app.images import ImageError, Picture
from app.limits import Limits
from app.look import Look
from app.painter import Painter, Region, available_device
from app.shipped import CHECKPOINT
from app.tiles import Box
from models.finish.simplification import simplified


@pytest.fixture(scope="module")
def tiny(checkpoint: Path) -> Painter:
    return Painter(checkpoint, device="cpu")


@pytest.fixture
def photo() -> Picture:
    return Picture(np.ascontiguousarray(skimage.data.chelsea()[:50, :70]))


def same(one: models.StyleCode, other: models.StyleCode) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one.tensors, other.tensors, strict=True))


def test_built_in_names_are_listed(tiny):
    assert tiny.style_names == ("dots", "stripes")
    assert tiny.codes == {"dots": 1, "stripes": 2}


def test_a_name_is_its_first_code_and_a_number_picks_another(tiny):
    assert same(tiny.style("stripes"), tiny.style("stripes:1"))
    assert not same(tiny.style("stripes:1"), tiny.style("stripes:2"))


@pytest.mark.parametrize("name", ["stripes:0", "stripes:3"])
def test_a_number_beyond_the_codes_is_refused(tiny, name):
    with pytest.raises(ValueError, match="1 to 2"):
        tiny.style(name)


def test_an_unknown_style_lists_the_names_and_the_closest(tiny):
    with pytest.raises(ValueError) as caught:
        tiny.style("Stripe")
    message = str(caught.value)
    assert "dots, stripes" in message
    assert "did you mean 'stripes'?" in message


def test_a_style_that_resembles_nothing_gets_no_guess(tiny):
    with pytest.raises(ValueError) as caught:
        tiny.style("qqqqqq")
    assert "did you mean" not in str(caught.value)


def test_a_painting_of_ones_own_is_a_style(tiny, tmp_path):
    painting = skimage.data.coffee()[:80, :100]
    Image.fromarray(painting).save(tmp_path / "mine.png")
    code = tiny.style(tmp_path / "mine.png")
    assert same(code, tiny.network.encode_style(images.to_tensor(painting)))


def test_a_painting_is_read_at_no_more_than_the_style_size(tiny, tmp_path, monkeypatch):
    seen = []
    encode = tiny.network.encode_style
    monkeypatch.setattr(
        tiny.network, "encode_style", lambda tensor: seen.append(tensor.shape) or encode(tensor)
    )
    side = tiny.limits.style_side
    Image.new("RGB", (2 * side, side)).save(tmp_path / "large.png")
    tiny.style(tmp_path / "large.png")
    assert seen == [(1, 3, side // 2, side)]


def test_what_transparency_hides_is_no_part_of_a_style(tiny, tmp_path):
    def style_hiding(color: tuple[int, int, int]) -> models.StyleCode:
        hidden = Image.new("RGBA", (40, 40), (*color, 0))
        hidden.paste((200, 30, 60, 255), (10, 10, 30, 30))
        hidden.save(tmp_path / f"{color[0]}.png")
        return tiny.style(tmp_path / f"{color[0]}.png")

    assert same(style_hiding((0, 255, 0)), style_hiding((255, 0, 255)))


def test_a_pictures_code_is_remembered_until_its_file_changes(tiny, tmp_path):
    path = tmp_path / "mine.bmp"  # both versions have one size
    Image.fromarray(skimage.data.coffee()[:40, :40]).save(path)
    first = tiny.style(path)
    assert tiny.style(path) is first
    Image.fromarray(skimage.data.chelsea()[:40, :40]).save(path)
    # A coarse clock could give both versions one time.
    os.utime(path, ns=(1, 1))
    assert not same(tiny.style(path), first)


def test_only_so_many_pictures_are_remembered(checkpoint, tmp_path):
    own = Painter(checkpoint, "cpu", Limits(remembered_paintings=2))
    paths = [tmp_path / f"{level}.png" for level in (10, 20, 30)]
    for path in paths:
        Image.new("RGB", (16, 16), (int(path.stem),) * 3).save(path)
    codes = [own.style(path) for path in paths]
    assert own.style(paths[2]) is codes[2]
    assert own.style(paths[0]) is not codes[0]


def test_a_built_in_name_wins_over_a_file_of_that_name(tiny, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Image.new("RGB", (16, 16), "red").save("dots", "PNG")
    built_in = tiny.style("dots")
    assert not same(tiny.style("./dots"), built_in)
    (tmp_path / "dots").unlink()
    assert same(tiny.style("dots"), built_in)


def test_an_unreadable_painting_is_named_with_its_reason(tiny, tmp_path):
    (tmp_path / "mine.jpg").write_text("not a painting")
    with pytest.raises(ImageError, match=r"mine\.jpg: is not a picture"):
        tiny.style(tmp_path / "mine.jpg")


def test_strength_0_gives_back_the_photo_pixel_for_pixel(tiny, photo):
    painted = tiny.paint(photo, tiny.style("dots"), Look(strength=0))
    assert np.array_equal(painted.rgb, photo.rgb)


def test_full_strength_changes_the_photo_and_half_lies_between(tiny, photo):
    def distance(strength: float) -> float:
        painted = tiny.paint(photo, tiny.style("dots"), Look(strength=strength))
        return float(np.abs(painted.rgb.astype(float) - photo.rgb).mean())

    assert 0 < distance(0.5) < distance(1.0)


def test_two_paintings_of_one_style_give_two_pictures(tiny, photo):
    first = tiny.paint(photo, tiny.style("stripes:1"))
    second = tiny.paint(photo, tiny.style("stripes:2"))
    assert not np.array_equal(first.rgb, second.rgb)


def test_alpha_name_and_notes_go_with_the_picture(tiny, photo):
    alpha = np.tile(np.arange(70, dtype=np.uint8), (50, 1))
    picture = Picture(photo.rgb, alpha, "cat.png", ("a note",))
    painted = tiny.paint(picture, tiny.style("dots"))
    assert np.array_equal(painted.alpha, alpha)
    assert painted.rgb.shape == photo.rgb.shape
    assert (painted.name, painted.notes) == ("cat.png", ("a note",))


def test_max_size_shrinks_the_photo_and_its_alpha(tiny, photo):
    picture = Picture(photo.rgb, np.full((50, 70), 99, np.uint8))
    painted = tiny.paint(picture, tiny.style("dots"), max_size=35)
    assert (painted.width, painted.height) == (35, 25)
    assert painted.alpha.shape == (25, 35)


@pytest.mark.parametrize("size", [(1, 1), (1, 400), (400, 1), (3, 5)])
def test_the_smallest_pictures_keep_their_size(tiny, size):
    width, height = size
    gray = Picture(np.full((height, width, 3), 77, np.uint8))
    assert tiny.paint(gray, tiny.style("dots")).rgb.shape == (height, width, 3)


def test_brushwork_makes_a_plain_photo_livelier_and_is_not_mixed_up_with_another(tiny):
    sky, style = Picture(skimage.data.rocket()[:80, 240:400]), tiny.style("dots")

    def roughness(brushwork: float) -> float:
        painted = tiny.paint(sky, style, Look(brushwork)).rgb
        return float(np.abs(np.diff(painted.astype(float), axis=1)).mean())

    assert roughness(0) < roughness(1) < roughness(3)  # content of each is remembered apart


def test_what_a_style_wants_left_out_is_left_out_and_can_be_more_or_less(tiny, large):
    style = replace(tiny.style("dots"), ground=models.Ground(simplify=0.3))
    found = {s: tiny.paint(large, style, Look(simplify=s)).rgb for s in (0, 0.5, 1, 3)}
    plain = tiny.paint(large, tiny.style("dots")).rgb
    assert np.array_equal(found[0], plain)  # content of each is remembered apart

    def roughness(rgb: np.ndarray) -> float:
        return float(np.abs(np.diff(rgb.astype(float), axis=1)).mean())

    roughnesses = [roughness(rgb) for rgb in found.values()]
    assert roughnesses == sorted(roughnesses, reverse=True) and len(set(roughnesses)) == 4
    # A style that wants none is given some where it is asked for.
    more = roughness(tiny.paint(large, tiny.style("dots"), Look(simplify=3)).rgb)
    assert roughness(found[1]) < more < roughness(plain)


def test_outlines_are_printed_dark_and_only_where_they_are(tiny, large):
    style, plain = tiny.style("dots"), tiny.paint(large, tiny.style("dots")).rgb
    printing = replace(style, ground=models.Ground(outlines=0.8))
    found = {o: tiny.paint(large, printing, Look(outlines=o)).rgb for o in (0, 0.5, 1)}
    assert np.array_equal(found[0], plain)  # content of each is remembered apart
    assert (found[0] >= found[0.5]).all() and (found[0.5] >= found[1]).all()
    darker = found[0].astype(int) - found[1]
    assert 0.01 < (darker > 20).any(2).mean() < 0.5
    # A style that has none gets some where they are asked for, and half of a strength half.
    np.testing.assert_array_equal(tiny.paint(large, style, Look(outlines=3)).rgb, found[1])
    half, bare = (
        tiny.paint(large, printing, Look(strength=0.5, outlines=o)).rgb.astype(int) for o in (1, 0)
    )
    assert 0 < (bare - half).max() <= 0.4 * 255 + 1


def test_what_is_flattened_is_the_painting(tiny, large):
    style = tiny.style("dots")
    plain, flat, flatter = (
        images.to_tensor(tiny.paint(large, replace(style, ground=models.Ground(flatten=f))).rgb)
        for f in (0, 0.01, 0.03)
    )
    assert float((simplified(plain, 0.01) - flat).abs().max()) <= 3 / 127.5  # but for rounding
    assert float(flatter.diff().abs().mean()) < float(flat.diff().abs().mean())


@pytest.mark.parametrize("brush_size", [1, 2, 4])
def test_the_grain_of_paper_lies_still_under_tiles_and_goes_with_the_brushwork(
    tiny, large, brush_size
):
    style = replace(tiny.style("dots"), ground=models.Ground(strokes=0.0, grain=0.1))
    larger = Picture(np.tile(large.rgb, (brush_size, brush_size, 1))[:-1])
    whole, bare = (
        tiny.paint(larger, style, Look(brushwork=b, brush_size=brush_size)).rgb.astype(float)
        for b in (1, 0)
    )
    shown = ((whole > 0) & (whole < 255)).all(2)
    grain = (whole - bare)[shown]
    assert 0.08 < grain.std() / 127.5 < 0.12 and abs(grain.mean()) < 1
    assert np.ptp(grain, axis=1).max() <= 1  # all colors alike
    mask = np.full(larger.rgb.shape[:2], 255, np.uint8)
    look = Look(brush_size=brush_size)
    tiled = tiny.paint(larger, style, look, tile=64 * brush_size, mask=mask)
    assert levels(tiled, Picture(whole.astype(np.uint8))).max() <= 2


def test_a_tint_adds_the_photo_s_colors_and_leaves_the_luma(tiny, large):
    style, plain = tiny.style("dots"), tiny.paint(large, tiny.style("dots")).rgb.astype(float)
    tinted = tiny.paint(large, replace(style, ground=models.Ground(tint=0.25))).rgb.astype(float)
    np.testing.assert_array_equal(tiny.paint(large, style, Look(tint=2)).rgb, tinted)
    shown = ((tinted > 0) & (tinted < 255)).all(2)  # where nothing was cut off

    def luma(rgb: np.ndarray) -> np.ndarray:
        return rgb @ (0.299, 0.587, 0.114)

    assert np.abs(luma(tinted) - luma(plain))[shown].max() <= 1
    own = large.rgb - luma(large.rgb)[..., None]
    np.testing.assert_allclose((tinted - plain)[shown], 0.25 * own[shown], atol=1.1)
    assert np.abs(own).max() > 20


def test_tone_has_the_painting_dark_where_the_photo_is(tiny, large):
    style, own = tiny.style("dots"), large.rgb @ (0.299, 0.587, 0.114)
    toned = replace(style, ground=models.Ground(tone=0.5))

    def off(style: models.StyleCode, tone: float) -> float:
        """How far luma is from the photo's, over 16 px, levels."""
        painted = tiny.paint(large, style, Look(tone=tone)).rgb
        height, width = (16 * (n // 16) for n in own.shape)
        missing = (painted @ (0.299, 0.587, 0.114) - own)[:height, :width]
        return float(np.abs(missing.reshape(height // 16, 16, -1, 16).mean((1, 3))).mean())

    found = [off(toned, tone) for tone in (0, 0.5, 1, 3)]
    assert found == sorted(found, reverse=True) and found[0] == off(style, 1)
    assert found[2] < 0.6 * found[0] and found[3] < 0.15 * found[0]
    assert off(style, 3) == pytest.approx(off(toned, 4 / 3), rel=0.01)  # some where it wants none


@pytest.mark.parametrize("brush_size", [1, 2, 4])
@pytest.mark.parametrize("strength", [1.0, 0.6])
def test_tiles_are_simplified_and_outlined_as_the_whole_is(tiny, large, brush_size, strength):
    style = replace(
        tiny.style("dots"),
        ground=models.Ground(
            simplify=0.3, outlines=0.8, tint=0.3, flatten=0.2, tone=0.5, register=0.8
        ),
    )
    larger = Picture(np.tile(large.rgb, (brush_size, brush_size, 1))[:-1])
    mask = np.full(larger.rgb.shape[:2], 255, np.uint8)
    whole, tiled = (
        tiny.paint(larger, style, Look(strength=strength, brush_size=brush_size), **tiles)
        for tiles in ({}, {"tile": 64 * brush_size, "mask": mask})
    )
    assert levels(tiled, whole).max() <= 2


def test_a_larger_brush_makes_larger_strokes_and_is_not_mixed_up_with_another(tiny):
    sky, style = Picture(skimage.data.rocket()[:160, 240:400]), tiny.style("dots")
    painted = [
        tiny.paint(sky, style, Look(brush_size=size)).rgb.astype(float) for size in (1, 2, 4)
    ]

    def fineness(rgb: np.ndarray) -> float:
        return float(np.abs(np.diff(rgb, axis=1)).mean() / rgb.std())

    one, two, four = map(fineness, painted)
    assert one > 1.2 * two > 1.2 * four  # content of each is remembered apart


def test_a_brush_of_another_size_is_refused(tiny, photo):
    with pytest.raises(ValueError, match="brush_size must be one of"):
        Look(brush_size=3)


@pytest.mark.parametrize("control", ["brushwork", "simplify", "outlines", "tint", "tone"])
@pytest.mark.parametrize("amount", [-0.01, 3.1, float("nan")])
def test_what_suits_a_style_outside_its_range_is_refused(tiny, photo, control, amount):
    with pytest.raises(ValueError, match=f"{control} must be between 0 and 3"):
        Look(**{control: amount})


@pytest.mark.parametrize("strength", [-0.01, 1.01, float("nan"), float("inf")])
def test_a_strength_outside_0_to_1_is_refused(tiny, photo, strength):
    with pytest.raises(ValueError, match="between 0 and 1"):
        tiny.paint(photo, tiny.style("dots"), Look(strength=strength))


@pytest.fixture(scope="module")
def large() -> Picture:
    return Picture(np.ascontiguousarray(skimage.data.coffee()[:186, :301]))


def levels(one: Picture, other: Picture) -> np.ndarray:
    return np.abs(one.rgb.astype(int) - other.rgb)


def halves(height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    left = np.zeros((height, width), np.uint8)
    left[:, : width // 2] = 255
    return left, 255 - left


@pytest.mark.parametrize("keep_color", [None, *color.WAYS])
@pytest.mark.parametrize("strength", [0.5, 1.0])
def test_tiles_join_to_the_picture_that_is_painted_whole(tiny, large, strength, keep_color):
    style = tiny.style("dots")
    look = Look(strength=strength, keep_color=keep_color)
    whole = tiny.paint(large, style, look)
    tiled = tiny.paint(large, style, look, tile=64)
    # Rounding to 8 bits may fall either way.
    assert levels(whole, tiled).max() <= 1


def test_tiles_under_a_mask_join_too(tiny, large):
    regions = [
        Region(tiny.style(name), mask)
        for name, mask in zip(("dots", "stripes"), halves(31, 50), strict=True)
    ]
    whole, tiled = (tiny.paint(large, regions, tile=tile) for tile in (None, 64))
    assert levels(whole, tiled).max() <= 1


def test_a_photo_beyond_the_budget_is_tiled_under_statistics_of_samples(
    checkpoint, tiny, large, monkeypatch
):
    style = tiny.style("dots")
    whole = tiny.paint(large, style)
    limits = Limits(whole=100 * 100, tile=64, sample_side=32, fewest_sampled=50 * 100)
    small, seen = Painter(checkpoint, "cpu", limits), []
    repaint = small.network.repaint
    monkeypatch.setattr(
        small.network,
        "repaint",
        lambda photo, *a, **k: seen.append(photo.shape) or repaint(photo, *a, **k),
    )
    tiled = small.paint(large, style)
    assert max(batch * height * width for batch, _, height, width in seen) < large.rgb.size / 3
    assert seen[0][0] > 1 and seen[0][2:] == (32, 32)
    assert 0 < levels(whole, tiled).mean() < 6


@pytest.mark.parametrize("style", ["dots", "stripes"])
@pytest.mark.parametrize(
    ("size", "strength", "masked", "simplified"),
    [(2, 1.0, False, 10**7), (2, 0.6, True, 10**7), (4, 1.0, True, 0), (8, 0.6, False, 0)],
)
def test_where_larger_strokes_leave_little_the_network_sees_all_of_a_large_photo(
    checkpoint, tiny, large, style, size, strength, masked, simplified
):
    limits = Limits(whole=100 * 151, tile=64, simplified=simplified)
    small, sides = Painter(checkpoint, "cpu", limits), []
    encode = small.network.content_encoder.forward
    small.network.content_encoder.forward = lambda x: sides.append(x.shape[2:]) or encode(x)
    look = Look(strength=strength, brush_size=size)
    mask = halves(31, 50)[0] if masked else None
    whole = tiny.paint(large, tiny.style(style), look, mask=mask)
    told: list[float] = []
    painted = small.paint(large, small.style(style), look, mask=mask, progress=told.append)
    assert len(sides) == 1 and min(sides[0]) >= 186 / size
    assert told[-1] == 1 and told == sorted(told) and len(told) > 10
    # Rounding to 8 bits may fall either way; a mask's levels are averaged over strokes.
    assert levels(whole, painted).max() <= (3 if masked else 1)
    assert levels(whole, painted).mean() < 0.05


def test_colors_are_matched_alike_in_all_of_a_large_photo(checkpoint, tiny, large):
    limits = Limits(whole=100 * 151, tile=64, sample_side=16, fewest_sampled=186 * 301)
    small, look = Painter(checkpoint, "cpu", limits), Look(brush_size=2, keep_color="matched")
    whole, painted = (p.paint(large, p.style("stripes"), look) for p in (tiny, small))
    apart = whole.rgb.astype(float) - painted.rgb
    # Samples are not the whole, but there is no step from tile to tile.
    assert np.abs(apart.mean((0, 1))).max() < 6
    for edge in (64, 128):
        across = np.abs(np.diff(apart[:, edge - 1 : edge + 1], axis=1)).mean()
        assert across <= np.abs(np.diff(apart, axis=1)).mean() + 0.3


def test_frames_of_a_clip_hold_their_statistics_in_tiles_too(checkpoint, tiny, large):
    limits = Limits(whole=100 * 151, tile=64)
    small, look = Painter(checkpoint, "cpu", limits), Look(brush_size=2)
    held = tiny.survey([large.rgb], tiny.style("stripes"), look)
    one, other = (
        p.paint_frame(large.rgb, p.style("stripes"), look, held, (8, 16)) for p in (tiny, small)
    )
    assert np.abs(one.astype(int) - other).max() <= 1


def test_black_of_a_mask_stays_the_photo_and_white_is_painted(tiny, photo):
    left, _ = halves(50, 70)
    painted = tiny.paint(photo, tiny.style("dots"), mask=left)
    assert np.array_equal(painted.rgb[:, 35:], photo.rgb[:, 35:])
    assert levels(painted, photo)[:, :35].mean() > 5


def test_gray_of_a_mask_mixes_in_proportion(tiny, photo):
    style = tiny.style("dots")
    full = tiny.paint(photo, style).rgb.astype(float)
    mixed = tiny.paint(photo, style, mask=np.full((50, 70), 51, np.uint8))
    expected = photo.rgb + 0.2 * (full - photo.rgb)
    assert np.abs(mixed.rgb - expected).max() <= 1


def test_a_white_mask_of_any_size_is_no_mask(tiny, photo):
    style = tiny.style("dots")
    masked = tiny.paint(photo, style, mask=np.full((3, 200), 255, np.uint8))
    assert np.array_equal(masked.rgb, tiny.paint(photo, style).rgb)


def test_a_black_mask_gives_back_the_photo(tiny, photo):
    masked = tiny.paint(photo, tiny.style("dots"), mask=np.zeros((5, 5), np.uint8))
    assert np.array_equal(masked.rgb, photo.rgb)


def test_a_regions_statistics_are_its_own(tiny, large):
    reach = tiny.network.reach
    left, _ = halves(186, 301)
    elsewhere = large.rgb.copy()
    noise = np.random.default_rng(0).integers(0, 256, elsewhere.shape, np.uint8)
    elsewhere[:, 150 + reach :] = noise[:, 150 + reach :]
    one, other = (
        tiny.paint(Picture(rgb), tiny.style("dots"), mask=left) for rgb in (large.rgb, elsewhere)
    )
    assert levels(one, other)[:, :150].max() <= 1
    whole, changed = (
        tiny.paint(Picture(rgb), tiny.style("dots")) for rgb in (large.rgb, elsewhere)
    )
    assert levels(whole, changed)[:, :150].max() > 3


def test_each_region_has_its_style_and_the_last_lies_on_top(tiny, photo):
    dots, stripes = tiny.style("dots"), tiny.style("stripes")
    left, right = halves(50, 70)
    both = tiny.paint(photo, [Region(dots, left), Region(stripes, right)])
    for mask, style, half in ((left, dots, np.s_[:, :35]), (right, stripes, np.s_[:, 35:])):
        alone = tiny.paint(photo, style, mask=mask)
        assert np.array_equal(both.rgb[half], alone.rgb[half])
    covered = tiny.paint(photo, [Region(dots), Region(stripes)])
    assert np.array_equal(covered.rgb, tiny.paint(photo, stripes).rgb)


def test_a_mask_beside_regions_or_of_another_type_is_refused(tiny, photo):
    mask = np.full((50, 70), 255, np.uint8)
    with pytest.raises(ValueError, match="masks of their own"):
        tiny.paint(photo, [Region(tiny.style("dots"))], mask=mask)
    with pytest.raises(ValueError, match=r"uint8 pixels of shape \(H,W\)"):
        Region(tiny.style("dots"), mask / 255)


def test_a_stretched_mask_is_the_same_in_every_box(tiny):
    region = Region(
        tiny.style("dots"), np.random.default_rng(0).integers(0, 256, (9, 13), np.uint8)
    )
    whole = region.coverage(Box(0, 0, 60, 80), 60, 80)
    part = region.coverage(Box(12, 20, 40, 64), 60, 80)
    assert (whole[..., 12:40, 20:64] - part).abs().max() <= 1 / 255
    bounds = Region(region.style, np.pad(np.full((2, 2), 255, np.uint8), 4)).bounds(100, 100)
    share = Region(region.style, np.pad(np.full((2, 2), 255, np.uint8), 4)).coverage(
        Box(0, 0, 100, 100), 100, 100
    )
    share[(..., *bounds.slices)] = 0
    assert not share.any()


def test_keeping_color_is_one_of_two_ways(tiny, photo):
    style = tiny.style("dots")
    results = [tiny.paint(photo, style, Look(keep_color=way)).rgb for way in (None, *color.WAYS)]
    assert not any(np.array_equal(results[i], results[i - 1]) for i in range(3))
    means = [result.mean((0, 1)) for result in results]
    away = [np.abs(mean - photo.rgb.mean((0, 1))).max() for mean in means]
    assert away[2] < away[0]
    with pytest.raises(ValueError, match="keep_color must be one of"):
        Look(keep_color="hue")


@pytest.mark.parametrize("tile", [None, 64])
def test_progress_goes_from_0_to_1(tiny, large, tile):
    shares = []
    tiny.forget()  # else the network has nothing to do
    tiny.paint(large, tiny.style("dots"), tile=tile, progress=shares.append)
    assert shares[0] == 0 and shares[-1] == 1 and shares == sorted(shares)
    # Every hop is told, so that a single photo can be stopped, too.
    assert len(shares) > len(tiny.network.hops)
    assert not any(hop._forward_hooks for hop in tiny.network.hops)


def test_painting_ends_with_what_progress_raises_and_can_begin_again(tiny, large):
    class CancelledError(Exception):
        pass

    def cancel(share: float) -> None:
        if share > 0.3:
            raise CancelledError

    with pytest.raises(CancelledError):
        tiny.paint(large, tiny.style("dots"), tile=64, progress=cancel)
    assert tiny.paint(large, tiny.style("dots")).rgb.shape == large.rgb.shape


def test_a_tile_below_one_pixel_is_refused(tiny, photo):
    with pytest.raises(ValueError, match="at least 1 pixel"):
        tiny.paint(photo, tiny.style("dots"), tile=0)


def test_a_second_style_spares_the_encoder_by_content_not_by_name(checkpoint, photo, monkeypatch):
    own, encoded = Painter(checkpoint, device="cpu"), []
    encode = own.network.encode_photo
    monkeypatch.setattr(
        own.network, "encode_photo", lambda *given: encoded.append(1) or encode(*given)
    )
    first = own.paint(photo, own.style("stripes:2"))
    again = own.paint(Picture(photo.rgb.copy(), name="another"), own.style("stripes:2"))
    own.paint(photo, own.style("stripes"))
    assert len(encoded) == 1
    assert np.array_equal(first.rgb, again.rgb)
    own.paint(Picture(photo.rgb[::-1]), own.style("stripes:2"))
    assert len(encoded) == 2
    own.paint(photo, own.style("dots"))  # which wants another ground
    assert len(encoded) == 3
    # And what is encoded ahead is not encoded again.
    ahead, look = Picture(photo.rgb[:, ::-1].copy()), Look(simplify=2)
    own.remember(ahead, own.style("dots"), look)
    assert len(encoded) == 4
    painted = own.paint(ahead, own.style("dots"), look)
    assert len(encoded) == 4
    forgetful = Painter(checkpoint, device="cpu", limits=Limits(remembered_content=0))
    wanted = forgetful.paint(ahead, own.style("dots"), look)
    np.testing.assert_array_equal(painted.rgb, wanted.rgb)


def test_only_so_much_content_is_remembered(checkpoint, photo, monkeypatch):
    most = 2 * 32 * 13 * 18 * 4
    limits = Limits(remembered_content=most, remembered_drawings=0)
    own = Painter(checkpoint, device="cpu", limits=limits)
    encoded = []
    encode = own.network.encode_photo
    monkeypatch.setattr(
        own.network, "encode_photo", lambda *given: encoded.append(1) or encode(*given)
    )
    shifted = [Picture(np.roll(photo.rgb, shift, 0)) for shift in range(3)]
    for picture in (*shifted, shifted[2], shifted[1]):
        own.paint(picture, own.style("dots"))
    assert len(encoded) == 3
    own.paint(shifted[0], own.style("dots"))
    assert len(encoded) == 4
    own.remember(Picture(np.tile(photo.rgb, (9, 9, 1))), own.style("dots"))  # it would not stay
    assert len(encoded) == 4
    none = Painter(checkpoint, device="cpu", limits=Limits(remembered_content=0))
    assert np.array_equal(
        none.paint(photo, none.style("dots")).rgb, own.paint(photo, own.style("dots")).rgb
    )


def test_a_blend_lies_between_its_styles(tiny, photo):
    parts = [("dots", 3), (tiny.style("stripes"), 1)]
    blend = tiny.blend(parts)
    assert same(tiny.blend([("dots", 2)]), tiny.style("dots"))
    painted = [
        tiny.paint(photo, code).rgb.astype(float)
        for code in (tiny.style("dots"), blend, tiny.style("stripes"))
    ]
    apart = np.abs(painted[0] - painted[2]).mean()
    assert (
        0 < np.abs(painted[0] - painted[1]).mean() < np.abs(painted[1] - painted[2]).mean() < apart
    )


@pytest.mark.parametrize(
    "parts", [[], [("dots", -1), ("stripes", 2)], [("dots", 0)], [("dots", float("nan"))]]
)
def test_weights_that_cannot_blend_are_refused(tiny, parts):
    with pytest.raises(ValueError, match="weights"):
        tiny.blend(parts)


def test_a_missing_checkpoint_is_named(tmp_path):
    with pytest.raises(models.CheckpointError, match=r"gone\.safetensors"):
        Painter(tmp_path / "gone.safetensors")


@pytest.mark.parametrize(
    ("cuda", "mps", "chosen"),
    [(True, True, "cuda"), (False, True, "mps"), (False, False, "cpu")],
)
def test_auto_takes_cuda_then_mps_then_cpu(monkeypatch, cuda, mps, chosen):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    assert available_device("auto").type == chosen


def test_a_device_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="'cuda' is not available on this machine"):
        available_device("cuda")


def test_an_unknown_device_is_refused():
    with pytest.raises(ValueError, match="unknown device 'abacus'"):
        available_device("abacus")


def seam(rgb: np.ndarray, side: int) -> float:
    """How much larger the steps between columns are where tiles meet than elsewhere."""
    steps = np.abs(np.diff(rgb.astype(int), axis=1)).mean((0, 2))
    meets = np.arange(side - 1, len(steps), side)
    return float(steps[meets].mean() / np.delete(steps, meets).mean())


def test_tiles_in_bfloat16_join_as_those_in_float32_do():
    photo = Picture(np.ascontiguousarray(skimage.data.chelsea()[20:148, 90:282]))
    painted = []
    for precision in ("float32", "bfloat16"):
        painter = Painter(CHECKPOINT, "cpu", precision=precision)
        painted.append(painter.paint(photo, painter.style("cezanne"), tile=64).rgb)
    full, half = painted
    assert seam(half, 64) <= 1.05 * seam(full, 64)
    assert 0 < np.abs(full.astype(int) - half).mean() < 0.6


def test_what_is_done_after_the_network_is_done_anew_without_it(checkpoint, photo, monkeypatch):
    """A slider of the finish: from what is kept, and the same as painted at once, also in part."""
    own, drawn = Painter(checkpoint, device="cpu"), []
    draw = own.network.draw
    monkeypatch.setattr(own.network, "draw", lambda *given: drawn.append(1) or draw(*given))
    style, mask = own.style("stripes"), np.zeros(photo.rgb.shape[:2], np.uint8)
    mask[:, :40] = 255
    cheap = [Look(), Look(tint=2), Look(tone=3, faces=2), Look(outlines=2, keep_color="luminance")]
    alone = Painter(checkpoint, device="cpu", limits=Limits(remembered_content=0))
    for given in (None, mask):
        drawn.clear()
        for look in cheap:
            painted = own.paint(photo, style, look, mask=given)
            wanted = alone.paint(photo, style, look, mask=given)
            np.testing.assert_array_equal(painted.rgb, wanted.rgb)
        assert len(drawn) == 1
    # What the network has a part in is painted by it.
    for look in (Look(strength=0.5), Look(brushwork=2), Look(simplify=2), Look(brush_size=2)):
        drawn.clear()
        own.paint(photo, style, look)
        assert len(drawn) == 1, look
        own.paint(photo, own.style("dots"), look)
        assert len(drawn) == 2, "another style"
    own.forget()
    own.paint(photo, style)
    assert len(drawn) == 3
