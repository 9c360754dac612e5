"""Graphs of a tiny network: their export takes half a minute, so a run of tests does it once."""

import hashlib
import os
import pickle

import pytest
import torch
from filelock import FileLock

import models
from app.export.onnx_graphs import Graphs, exported


def refining_network() -> models.Repainter:
    """A tiny network whose codes are refined, and not by nothing; always the same, and as it
    comes back from a checkpoint, which has half precision.
    """
    torch.manual_seed(0)
    config = models.RepainterConfig(
        width=8, blocks=1, group_size=8, strokes=0.05, refinement=16, manners=3
    )
    network = models.Repainter(config).eval().requires_grad_(False)
    torch.nn.init.normal_(network.refinement.moves.weight, std=0.05)
    torch.nn.init.normal_(network.refinement.moves.bias, std=0.05)
    torch.nn.init.normal_(network.refinement.manners.weight, std=0.2)
    torch.nn.init.normal_(network.refinement.gate.weight, std=0.1)
    return network.half().float()


def exported_once(network: models.Repainter, factory: pytest.TempPathFactory) -> Graphs:
    """A network's graphs, from another process of this run of tests where one has made them."""
    folder = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    digest = hashlib.sha256(repr(network.config).encode())
    for values in network.state_dict().values():
        digest.update(values.numpy().tobytes())
    file = folder / f"graphs-{digest.hexdigest()[:16]}.pickle"
    with FileLock(file.with_suffix(".lock")):
        if not file.is_file():
            file.write_bytes(pickle.dumps(exported(network)))
    return pickle.loads(file.read_bytes())
