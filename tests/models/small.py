"""Small networks of every kind, and pictures for them."""

import torch

import models

SMALL = {
    "statistics": models.RepainterConfig(width=8, blocks=2, group_size=8),
    "mlp": models.RepainterConfig(width=8, blocks=2, group_size=8, coloring="mlp", hidden=16),
    "gd": models.RepainterConfig(
        width=8, blocks=2, group_size=8, coloring="mlp", method="gd", hidden=16
    ),
}


def picture(height: int, width: int, seed: int = 0, batch: int = 1) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(batch, 3, height, width, generator=generator) * 2 - 1
