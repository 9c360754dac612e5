"""The ceiling of Gram losses: pixels that move towards a painting's statistics."""

import skimage.data
import torch
import torch.nn.functional as F

import models
from app import images
from benchmarks import gram_ceiling


def test_pixels_come_nearer_to_a_painting_than_the_photo_was():
    perceptual = models.PerceptualNetwork("hed")
    photo, painting = (
        F.interpolate(images.to_tensor(picture), size=(64, 64), mode="area")
        for picture in (skimage.data.astronaut(), skimage.data.coffee())
    )
    _, first = gram_ceiling.optimize(photo, painting, perceptual, 1)
    moved, last = gram_ceiling.optimize(photo, painting, perceptual, 12)
    assert last["style"] < 0.5 * first["style"]
    assert not torch.equal(moved, photo) and float(moved.abs().max()) <= 1
