"""What a discriminator sees turned and recolored."""

import pytest
import torch

from models.augmentation import augmented


@pytest.fixture
def images() -> torch.Tensor:
    return torch.rand(64, 3, 16, 16, generator=torch.Generator().manual_seed(0)) * 2 - 1


def test_a_share_of_zero_changes_nothing_and_of_one_every_picture(images):
    torch.testing.assert_close(augmented(images, 0.0), images)
    changed = (augmented(images, 1.0) - images).abs().amax((1, 2, 3)) > 1e-3
    assert changed.all()


def test_about_the_share_asked_for_is_changed(images):
    torch.manual_seed(0)
    gray = images[:, :, :1, :1].expand_as(images)  # turning it changes nothing
    changed = (augmented(gray, 0.25) - gray).abs().amax((1, 2, 3)) > 1e-5
    assert 8 <= int(changed.sum()) <= 24


def test_turning_keeps_the_pixels_and_their_neighbours(images):
    torch.manual_seed(0)
    ramp = torch.linspace(-1, 1, 16).expand(64, 3, 16, 16)
    seen = augmented(ramp, 0.5)
    # A recolored ramp is a ramp still, along one of the two directions.
    across = (seen[..., 1:] - seen[..., :-1]).flatten(1)
    down = (seen[..., 1:, :] - seen[..., :-1, :]).flatten(1)
    for a, d in zip(across.unbind(), down.unbind(), strict=True):
        assert (a.abs() < 1e-5).all() != (d.abs() < 1e-5).all()
    assert 8 <= int((across.abs() < 1e-5).all(1).sum()) <= 24


def test_gradients_go_through_and_a_saved_state_draws_the_same(images):
    images.requires_grad_()
    state = torch.get_rng_state()
    first = augmented(images, 0.5)
    first.square().sum().backward()
    assert torch.isfinite(images.grad).all() and (images.grad.abs().amax((1, 2, 3)) > 0).all()
    torch.set_rng_state(state)
    assert torch.equal(augmented(images, 0.5), first)
