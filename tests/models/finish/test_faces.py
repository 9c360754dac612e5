"""Faces: blotches go, features come back, what is no skin stays, and how far it reaches."""

import pytest
import skimage.data
import torch

from models.finish import faces
from models.finish.filter import Original
from models.measures import gray

# Skin in sRGB, light to dark: medians of cheeks in portraits, by eye.
COMPLEXIONS = [(236, 188, 160), (224, 172, 138), (198, 134, 98), (141, 85, 54), (84, 50, 34)]
OTHERS = {
    "sky": (140, 180, 225),
    "leaves": (70, 110, 40),
    "stone": (150, 150, 150),
    "black": (6, 5, 5),
    "sea": (30, 70, 110),
    "rose": (240, 20, 90),
}
SIDE = 160


def plain(color, side=SIDE):
    return (torch.tensor(color) / 127.5 - 1).view(1, 3, 1, 1).expand(1, 3, side, side).clone()


def face():
    """A plain cheek with two dark eyes, half of a picture whose other half is sky."""
    picture = plain(COMPLEXIONS[1])
    picture[..., SIDE // 2 :] = plain(OTHERS["sky"])[..., SIDE // 2 :]
    for top in (40, 90):
        picture[..., top : top + 10, 30:44] = -0.7
    return picture


def blotched(picture):
    """A painting with blue and yellow patches of 16 px that the photo knows nothing of."""
    torch.manual_seed(0)
    patches = torch.randn(1, 1, SIDE // 16, SIDE // 16).sign()
    patches = patches.repeat_interleave(16, 2).repeat_interleave(16, 3)
    return (0.5 * picture + 0.2 * patches * torch.tensor([1.0, 0.3, -1.0]).view(1, 3, 1, 1)).clamp(
        -1, 1
    )


@pytest.mark.parametrize("color", COMPLEXIONS)
def test_skin_of_every_shade_is_found(color):
    assert float(faces.skin(plain(color)).min()) > 0.9


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_skin_is_not(name):
    assert float(faces.skin(plain(OTHERS[name])).max()) == 0


def test_a_face_in_a_photo_is_found_and_the_background_less():
    photo = torch.from_numpy(skimage.data.astronaut()).permute(2, 0, 1)[None] / 127.5 - 1
    found = faces.skin(photo)
    face, flag = found[..., 70:170, 180:260], found[..., 20:200, 30:90]
    assert float(face.mean()) > 0.95 and float(flag.mean()) < 0.5


def test_blotches_go_and_the_sky_stays_as_painted():
    photo, before = face(), blotched(face())
    after = faces.Faces.of(Original(photo), 1.0).on(before, 1.0)
    cheek, sky = (..., slice(None), slice(5, 28)), (..., slice(None), slice(-20, None))

    def patchy(picture):
        return float((picture - gray(picture))[cheek].std((-2, -1)).mean())

    assert patchy(before) > 0.1 and patchy(after) < 0.3 * patchy(before)
    assert torch.equal(after[sky], before[sky])


def test_eyes_that_were_painted_over_come_back():
    photo = face()
    before = plain(COMPLEXIONS[2])
    after = faces.Faces.of(Original(photo), 1.0).on(before, 1.0)
    eye, cheek = (..., slice(43, 47), slice(34, 40)), (..., slice(65, 75), slice(30, 44))
    wanted = float(gray(photo)[eye].mean() - gray(photo)[cheek].mean())
    assert float(gray(after)[eye].mean() - gray(after)[cheek].mean()) < 0.6 * wanted < 0


def test_a_painting_without_skin_is_the_very_same():
    painting = blotched(plain(OTHERS["leaves"]))
    assert faces.Faces.of(Original(plain(OTHERS["leaves"])), 1.0).on(painting, 1.0) is painting


def test_strength_and_amount_say_how_far():
    photo, before = face(), 0.5 * blotched(face())
    whole = faces.Faces.of(Original(photo), 1.0)
    assert torch.equal(whole.on(before, 0.0), before)
    move = whole.on(before, 1.0) - before
    torch.testing.assert_close(whole.on(before, 0.5) - before, 0.5 * move, atol=1e-5, rtol=0)
    # The complexion is a weighted mean, so that a common factor of the weights says nothing.
    half = faces.Faces.of(Original(photo), 0.5).on(before, 1.0)
    torch.testing.assert_close(half - before, 0.5 * move, atol=1e-2, rtol=0)


def test_what_is_farther_than_the_reach_has_no_part():
    torch.manual_seed(0)
    reach = faces.Faces.reach(0, 1)
    side = 2 * (reach + 24)
    photo = plain(COMPLEXIONS[1], side) + 0.1 * torch.randn(1, 3, side, side)
    painting = 0.5 * photo + 0.1 * torch.randn(1, 3, side, side)
    place = side // 2 + 2
    near = (torch.arange(side) - place).abs() <= reach
    near = near[:, None] & near
    other, far = (x.masked_fill(~near, 0.4) for x in (photo, painting))
    a = faces.Faces.of(Original(photo), 0.7).on(painting, 1.0)
    b = faces.Faces.of(Original(other), 0.7).on(far, 1.0)
    torch.testing.assert_close(a[..., place, place], b[..., place, place], atol=1e-6, rtol=0)
    assert not torch.equal(a, b)


@pytest.mark.parametrize("shape", [(1, 1), (3, 50), (7, 9)])
def test_small_pictures_keep_their_shape(shape):
    photo = plain(COMPLEXIONS[0], 64)[..., : shape[0], : shape[1]]
    after = faces.Faces.of(Original(photo), 1.0).on(-photo, 1.0)
    assert after.shape == photo.shape and torch.isfinite(after).all()


def test_the_gradient_reaches_the_painting():
    picture = (0.5 * blotched(face())).requires_grad_()
    faces.Faces.of(Original(face()), 0.5).on(picture, 1.0).square().mean().backward()
    assert torch.isfinite(picture.grad).all() and (picture.grad != 0).all()
