"""What a discriminator sees of pictures, so that it does not learn few paintings by heart."""

from __future__ import annotations

import torch
from torch import Tensor

BRIGHTNESS, SATURATION, CONTRAST = 0.3, 0.6, 0.4  # largest change


def augmented(images: Tensor, share: float) -> Tensor:
    """Pictures (B, 3, H, H) in [-1, 1], some of them turned and recolored; differentiable.

    Real and painted pictures alike go through it, so that nothing of it is learned: Zhao et al.,
    "Differentiable Augmentation for Data-Efficient GAN Training", 2020, and Karras et al.,
    "Training Generative Adversarial Networks with Limited Data", 2020, whose probability below 1
    keeps what is up and what is bright apart.

    Args:
        share: of the pictures that are turned, and of those that are recolored.
    """
    # Drawn on the CPU, whose state a training run saves.
    draws = torch.rand(6, len(images), 1, 1, 1).to(images.device, images.dtype, non_blocking=True)
    turned, upside_down, recolored = draws[0] < share / 2, draws[1] < share / 2, draws[2] < share
    images = torch.where(turned, images.mT, images)
    images = torch.where(upside_down, images.flip(-2), images)
    brightness, saturation, contrast = recolored * (2 * draws[3:6] - 1)
    gray = images.mean(1, keepdim=True)
    images = gray + (1 + SATURATION * saturation) * (images - gray)
    mean = images.mean((1, 2, 3), keepdim=True)
    return mean + (1 + CONTRAST * contrast) * (images - mean) + BRIGHTNESS * brightness
