"""One loaded network, its built-in styles and styles from pictures."""

import os
from pathlib import Path

import numpy as np
import pytest
import skimage.data
import torch
from PIL import Image

import models
from app import images, painter
from app.images import ImageError, Picture
from app.painter import Painter, available_device


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
    Image.new("RGB", (2 * painter.STYLE_SIZE, painter.STYLE_SIZE)).save(tmp_path / "large.png")
    tiny.style(tmp_path / "large.png")
    assert seen == [(1, 3, painter.STYLE_SIZE // 2, painter.STYLE_SIZE)]


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


def test_only_so_many_pictures_are_remembered(checkpoint, tmp_path, monkeypatch):
    monkeypatch.setattr(painter, "_REMEMBERED_PICTURES", 2)
    own = Painter(checkpoint, device="cpu")
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
    painted = tiny.paint(photo, tiny.style("dots"), strength=0)
    assert np.array_equal(painted.rgb, photo.rgb)


def test_full_strength_changes_the_photo_and_half_lies_between(tiny, photo):
    def distance(strength: float) -> float:
        painted = tiny.paint(photo, tiny.style("dots"), strength)
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


@pytest.mark.parametrize("strength", [-0.01, 1.01, float("nan"), float("inf")])
def test_a_strength_outside_0_to_1_is_refused(tiny, photo, strength):
    with pytest.raises(ValueError, match="between 0 and 1"):
        tiny.paint(photo, tiny.style("dots"), strength)


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
