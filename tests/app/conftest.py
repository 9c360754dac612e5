"""A tiny untrained network, saved as a checkpoint with two styles."""

from pathlib import Path

import pytest
import skimage.data
import torch

import models
from app import images


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint whose styles are "dots" (one code) and "stripes" (two codes)."""
    torch.manual_seed(0)
    network = models.Repainter(models.RepainterConfig(width=8, blocks=1, group_size=8)).eval()
    paintings = {
        "dots": [skimage.data.coffee()[:64, :64]],
        "stripes": [skimage.data.chelsea()[:64, :64], skimage.data.astronaut()[:64, :64]],
    }
    styles = {
        name: [network.encode_style(images.to_tensor(pixels)) for pixels in several]
        for name, several in paintings.items()
    }
    path = tmp_path_factory.mktemp("checkpoint") / "tiny.safetensors"
    models.save_checkpoint(path, network, styles, {"steps": 0})
    return path
