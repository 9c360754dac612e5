"""Small networks of every kind, and pictures for them."""

import torch

import models

SMALL = {
    "statistics": models.RepainterConfig(width=8, blocks=2, group_size=8),
    "strokes": models.RepainterConfig(width=8, blocks=2, group_size=8, strokes=0.1),
    "mlp": models.RepainterConfig(width=8, blocks=2, group_size=8, coloring="mlp", hidden=16),
    "gd": models.RepainterConfig(
        width=8, blocks=2, group_size=8, coloring="mlp", method="gd", hidden=16
    ),
}


def picture(height: int, width: int, seed: int = 0, batch: int = 1) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(batch, 3, height, width, generator=generator) * 2 - 1


def plain_photo_with_an_edge() -> torch.Tensor:
    """Left half dark, right half bright, each with grain and a faint ramp: (1, 3, 64, 64)."""
    generator = torch.Generator().manual_seed(0)
    photo = torch.linspace(-0.05, 0.05, 64)[:, None].expand(1, 3, 64, 64).clone()
    photo[..., 32:] += 0.6
    return photo + 0.01 * torch.randn(photo.shape, generator=generator)
