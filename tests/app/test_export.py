"""A checkpoint as ONNX graphs paints as the network itself does."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import models
import wct
from app.export import __main__ as command
from app.export.graphs import Coder, roots
from app.export.packing import packed, unpacked
from app.look import OPTIONS
from app.shipped import CHECKPOINT
from models import statistics
from models.finish import AFTER, BEFORE, Ground
from tests.models.small import picture

onnx_graphs = pytest.importorskip("app.export.onnx_graphs", reason="make site-deps installs onnx")
folder = pytest.importorskip("app.export.folder")
from tests.exported import exported_once, refining_network  # noqa: E402


@pytest.fixture(scope="module")
def network() -> models.Repainter:
    return refining_network()


@pytest.fixture(scope="module")
def graphs(network, tmp_path_factory):
    return exported_once(network, tmp_path_factory)


@pytest.fixture(scope="module")
def run(graphs):
    return folder.Runner(graphs, graphs.weights)


@pytest.mark.parametrize("size", [(8, 8), (36, 52)])
@pytest.mark.parametrize("strength", [1.0, 0.4, 0.0])
def test_the_graphs_paint_as_the_network_does_at_any_size(network, run, size, strength):
    photo, code = picture(*size), network.encode_style(picture(40, 40, seed=1))
    right = network.generate(network.encode_content(photo), code, strength)
    mine, *_ = run.generator(run.encoder(photo), list(code.tensors), strength)
    assert np.abs(mine - right.numpy()).max() < 1e-3


def test_statistics_of_samples_are_pooled_and_held_in_tiles(network, run):
    code = network.encode_style(picture(40, 40, seed=1))
    samples, tile = picture(16, 24, seed=2, batch=3), picture(24, 20, seed=3)
    with statistics.record(pool=True) as read:
        network.generate(network.encode_content(samples), code)
    _, *held = run.generator(run.encoder(samples), list(code.tensors))
    for mine, right in zip(held, (part for pair in read.moments for part in pair), strict=True):
        assert np.abs(mine - right.numpy()).max() < 1e-3
    with statistics.hold(read):
        right = network.generate(network.encode_content(tile), code)
    mine, *_ = run.generator(run.encoder(tile), list(code.tensors), held=held)
    assert np.abs(mine - right.numpy()).max() < 1e-3


def test_the_code_of_a_painting_is_the_refined_one(network, run):
    painting = picture(32, 40, seed=4)
    right = network.encode_style(painting)
    for mine, part in zip(run.code_of(painting), right.tensors, strict=True):
        assert np.abs(mine - part.numpy()).max() < 1e-3


def test_only_one_half_of_a_symmetric_move_is_kept(network):
    coder = Coder(network)
    assert coder.moves.numel() < 0.7 * network.refinement.moves.weight.numel()
    assert coder.manners.numel() < 0.7 * network.refinement.manners.weight.numel()


@pytest.mark.parametrize("condition", [1.0, 30.0, 1e3])
def test_newton_schulz_with_a_fixed_number_of_steps_agrees_with_eigh(condition):
    torch.manual_seed(0)
    directions = torch.linalg.qr(torch.randn(5, 24, 24, dtype=torch.float64))[0]
    values = torch.logspace(0, np.log10(condition), 24, dtype=torch.float64) * 0.01
    covariance = (directions * values) @ directions.mT
    root, inverse = roots(covariance.float())
    assert torch.allclose(root.double(), wct.sqrtm(covariance), rtol=1e-4, atol=1e-4)
    right = wct.inv_sqrtm(covariance)
    assert (inverse - right).norm() < 1e-3 * right.norm()


def test_the_graphs_share_their_weights_and_stay_small(graphs, network):
    held = sum(values.size for values in graphs.weights.values())
    assert held < sum(parameter.numel() for parameter in network.parameters())
    assert max(map(len, graphs.files.values())) < 150_000


def test_packed_tensors_come_back_within_their_precision():
    draw = np.random.default_rng(0)
    tensors = {
        "large": draw.normal(size=(30, 40)).astype(np.float32),
        "small": draw.normal(size=(3,)).astype(np.float32),
        "zero": np.zeros((20, 60), np.float32),
    }
    file, table = packed(tensors, large=1000)
    assert len(file) < 30 * 40 + 20 * 60 + 4 * 50 + 16
    for name, values in unpacked(file, table).items():
        step = np.abs(tensors[name]).max() / 127
        assert values.shape == tensors[name].shape
        assert np.abs(values - tensors[name]).max() <= step / 2 + 1e-6


def test_of_symmetric_matrices_half_is_kept():
    draw = np.random.default_rng(0).normal(size=(3, 8, 8)).astype(np.float32)
    roots, others = draw + draw.swapaxes(1, 2), draw
    file, table = packed({"roots": roots, "others": others})
    assert len(file) == 2 * (3 * 36 + 3 * 64)
    back = unpacked(file, table)
    assert np.array_equal(back["roots"], roots.astype(np.float16))
    assert np.array_equal(back["others"], others.astype(np.float16))


def test_packing_the_shipped_weights_is_not_more_than_an_export_allows():
    # Without graphs, whose export takes a minute: they paint as the network itself does.
    network, packed_one = (models.load_checkpoint(CHECKPOINT).network for _ in range(2))
    state = packed_one.state_dict()
    weights, table = packed({name: values.numpy() for name, values in state.items()})
    for name, values in unpacked(weights, table).items():
        state[name].copy_(torch.from_numpy(values))
    drawn = folder._drawn(96, 128)
    with torch.no_grad():
        right, mine = (
            each.generate(each.encode_content(drawn), each.encode_style(drawn))
            for each in (network, packed_one)
        )
    assert 127.5 * float((mine - right).abs().mean()) < folder.MOST_APART


def test_the_page_is_told_every_field_of_a_ground_and_of_a_look(checkpoint):
    from app.painter import Painter

    told = json.loads(json.dumps(folder.numbers(Painter(checkpoint, "cpu"))))
    assert told["ground"].keys() == Ground.__dataclass_fields__.keys()
    assert list(told["options"]) == list(OPTIONS)


def test_the_page_has_every_filter_in_its_place():
    kinds = (*BEFORE, *AFTER)
    # A new filter goes into app/site/filters.js and painter.js, its numbers into folder.numbers.
    assert tuple(kind.__name__ for kind in kinds) == folder.PAGE_FILTERS


def test_a_network_of_mlps_is_refused_in_a_line(tmp_path: Path, capsys):
    config = models.RepainterConfig(width=8, blocks=1, group_size=8, coloring="mlp", hidden=16)
    network = models.Repainter(config)
    file = tmp_path / "mlp.safetensors"
    code = models.StyleCode((torch.zeros(1, 32),))
    models.save_checkpoint(file, network, {"a": [code]}, {})
    assert command.main(["--checkpoint", str(file), "--out", str(tmp_path / "out")]) == 2
    assert "only networks of the coloring 'statistics'" in capsys.readouterr().err


def test_a_missing_checkpoint_is_a_line(tmp_path: Path, capsys):
    missing = tmp_path / "none.safetensors"
    assert command.main(["--checkpoint", str(missing), "--out", str(tmp_path / "out")]) == 2
    assert "none.safetensors" in capsys.readouterr().err
