"""A tiny untrained network, saved as a checkpoint with two styles; folders to train on."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import skimage.data
import torch

import models
from app import images, train
from tests.grounds import PRINT
from tests.pieces import real_pictures, save_pieces


@pytest.fixture(scope="session")
def on_one_thread() -> Callable[[], AbstractContextManager[None]]:
    """Several threads' sums differ in their last bits from run to run; one thread's never do."""

    @contextmanager
    def on() -> Iterator[None]:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        yield
        torch.set_num_threads(threads)

    return on


@pytest.fixture
def one_thread(on_one_thread) -> Iterator[None]:
    with on_one_thread():
        yield


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint: the styles "dots" (one code) and "stripes" (two, which want less detail)."""
    torch.manual_seed(0)
    network = models.Repainter(
        models.RepainterConfig(width=8, blocks=1, group_size=8, strokes=0.05)
    ).eval()
    return save_tiny(network, tmp_path_factory.mktemp("checkpoint") / "tiny.safetensors")


def save_tiny(network: models.Repainter, path: Path) -> Path:
    """Saves a network with the styles "dots" and "stripes"."""
    paintings = {
        "dots": [skimage.data.coffee()[:64, :64]],
        "stripes": [skimage.data.chelsea()[:64, :64], skimage.data.astronaut()[:64, :64]],
    }
    styles = {
        name: [network.encode_style(images.to_tensor(pixels)) for pixels in several]
        for name, several in paintings.items()
    }
    styles["stripes"] = [replace(code, ground=PRINT) for code in styles["stripes"]]
    models.save_checkpoint(path, network, styles, {"steps": 0})
    return path


@pytest.fixture(scope="session")
def folders(tmp_path_factory) -> Path:
    """photos/, warm/ and cold/: pieces of three real pictures that scikit-image ships."""
    root = tmp_path_factory.mktemp("training")
    for name, pixels in zip(("photos", "warm", "cold"), real_pictures(), strict=True):
        corners = [(0, 0), (60, 100), (120, 200), (172, 60)]
        save_pieces(root / name, pixels, corners, (128, 128))
    return root


@pytest.fixture(scope="session")
def trained(folders, tmp_path_factory) -> Path:
    """A checkpoint of the styles "warm" and "cold", two steps old, its state, sheet, log beside."""
    out = tmp_path_factory.mktemp("trained") / "a.safetensors"
    styles = [f"--style={name}={folders / name}" for name in ("warm", "cold")]
    command = ["--photos", str(folders / "photos"), *styles, "--out", str(out), "--steps", "2"]
    shape = ["--width", "8", "--blocks", "1", "--size", "64", "--device", "cpu"]
    assert train.main([*command, *shape, "--codes", "medoids"]) == 0
    return out
