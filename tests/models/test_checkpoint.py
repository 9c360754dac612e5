"""Checkpoints: what is written comes back, and nothing wrong is ever loaded or run."""

import json
import os
import pickle
from dataclasses import fields, replace

import pytest
import torch
from safetensors.torch import load_file, save_file

import models
from models import checkpoint as module

CONFIG = models.RepainterConfig(width=8, blocks=1, group_size=8)


@pytest.fixture
def network() -> models.Repainter:
    torch.manual_seed(0)
    return models.Repainter(CONFIG).eval()


@pytest.fixture
def path(tmp_path, network):
    file = tmp_path / "a.safetensors"
    painting = torch.rand(2, 3, 32, 32) * 2 - 1
    codes = [network.encode_style(painting[i : i + 1]) for i in range(2)]
    models.save_checkpoint(file, network, {"first": codes, "second": codes[:1]}, {"steps": 7})
    return file


def rewrite(path, change_header=None, change_tensors=None) -> None:
    """The same file with its header or tensors changed."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(json.loads(file.read(length))["__metadata__"]["repaint"])
    tensors = load_file(path)
    if change_header:
        change_header(header)
    if change_tensors:
        change_tensors(tensors)
    save_file(tensors, path, metadata={"repaint": json.dumps(header)})


def test_what_is_saved_comes_back(path, network):
    loaded = models.load_checkpoint(path)
    assert loaded.network.config == CONFIG and loaded.record == {"steps": 7}
    assert {name: len(codes) for name, codes in loaded.styles.items()} == {"first": 2, "second": 1}
    assert not loaded.network.training
    photo = torch.rand(1, 3, 32, 32) * 2 - 1
    code = loaded.styles["first"][0]
    # fp16 weights: three digits
    difference = loaded.network.repaint(photo, code) - network.repaint(photo, code)
    assert difference.abs().max() < 0.02


def test_a_code_s_ground_comes_back_and_an_old_file_has_plain_ones(path):
    loaded = models.load_checkpoint(path)
    assert {code.ground for codes in loaded.styles.values() for code in codes} == {models.Ground()}
    ground = models.Ground(simplify=0.3, strokes=0.1)
    first, second = loaded.styles["first"]
    styles = loaded.styles | {"first": [replace(first, ground=ground), second]}
    models.save_checkpoint(path, loaded.network, styles, loaded.record)
    again = models.load_checkpoint(path).styles
    assert [code.ground for code in again["first"]] == [ground, models.Ground()]
    rewrite(path, lambda header: header.pop("grounds"))
    assert models.load_checkpoint(path).styles["first"][0].ground == models.Ground()


@pytest.mark.parametrize(
    "grounds", [{"first": [{}]}, {"first": [{"simplify": -1}, {}]}, {"first": [{"x": 1}, {}]}, 3]
)
def test_wrong_grounds_are_refused(path, grounds):
    rewrite(path, lambda header: header.update(grounds=grounds))
    with pytest.raises(models.CheckpointError, match="its header is wrong"):
        models.load_checkpoint(path)


def test_an_mlp_network_comes_back_too(tmp_path):
    config = models.RepainterConfig(width=8, group_size=8, coloring="mlp", method="gd", hidden=8)
    network = models.Repainter(config)
    file = tmp_path / "mlp.safetensors"
    code = network.encode_style(torch.zeros(1, 3, 32, 32))
    models.save_checkpoint(file, network, {"x": [code]}, {})
    assert models.load_checkpoint(file).network.config == config


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(models.CheckpointError, match=r"nothing\.safetensors: there is no such"):
        models.load_checkpoint(tmp_path / "nothing.safetensors")


def test_a_truncated_file_is_refused(path):
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(models.CheckpointError, match=r"a\.safetensors: not a whole"):
        models.load_checkpoint(path)


class _Bomb:
    def __reduce__(self):
        return os.mkdir, ("exploded",)


@pytest.mark.parametrize("save", [torch.save, lambda o, p: p.write_bytes(pickle.dumps(o))])
def test_a_pickle_is_refused_and_never_runs(tmp_path, monkeypatch, save):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "bomb.safetensors"
    save(_Bomb(), file)
    with pytest.raises(models.CheckpointError, match="pickle"):
        models.load_checkpoint(file)
    assert not (tmp_path / "exploded").exists()


def test_a_foreign_safetensors_file_is_refused(tmp_path):
    save_file({"x": torch.zeros(2)}, tmp_path / "x.safetensors")
    with pytest.raises(models.CheckpointError, match="not one of Repaint's"):
        models.load_checkpoint(tmp_path / "x.safetensors")


def test_a_newer_version_is_refused_whatever_it_holds(path):
    def newer(header):
        header.update(version=module.VERSION + 1, more={})
        header["config"]["depth"] = 3

    rewrite(path, newer)
    with pytest.raises(models.CheckpointError, match="newer version of Repaint: version 3"):
        models.load_checkpoint(path)


@pytest.mark.parametrize("version", [None, "2", 1.5])
def test_a_version_that_is_no_number_is_refused(path, version):
    rewrite(path, lambda header: header.update(version=version))
    with pytest.raises(models.CheckpointError, match="its version is"):
        models.load_checkpoint(path)


# What the header of each version has of a network's configuration and of a ground. Version 1 began
# without the fields that version 2 counts as its own, and had all of them in the end.
BEGINNING = {"width", "blocks", "group_size", "coloring", "method", "gradient", "eps", "hidden"}
HEADERS = {
    1: (BEGINNING, None),
    2: (
        BEGINNING | {"refinement", "strokes"},
        {"simplify", "strokes", "outlines", "tint", "flatten", "grain", "tone", "register"},
    ),
}


def test_every_field_of_the_header_has_a_version():
    kinds = (models.RepainterConfig, models.Ground)
    found = tuple({each.name for each in fields(kind)} for kind in kinds)
    assert found == HEADERS[module.VERSION], "a new field needs since=VERSION + 1, and a row above"
    for version, names in HEADERS.items():
        for kind, known in zip(kinds, names, strict=True):
            since = {each.name for each in fields(kind) if each.metadata.get("since", 1) <= version}
            assert since == (known or set())


@pytest.mark.parametrize(
    ("version", "config", "ground"),
    [
        (1, *HEADERS[1]),
        (1, BEGINNING | {"strokes"}, {"simplify", "strokes"}),
        (1, *HEADERS[2]),
        (2, *HEADERS[2]),
    ],
)
def test_headers_of_older_versions_are_read(path, version, config, ground):
    def older(header):
        header["version"] = version
        header["config"] = {k: v for k, v in header["config"].items() if k in config}
        if ground is None:
            del header["grounds"]
        else:
            wanted = dict.fromkeys(ground, 0.25)
            header["grounds"] = {name: [wanted] * n for name, n in header["styles"].items()}

    before = models.load_checkpoint(path)
    rewrite(path, older)
    after = models.load_checkpoint(path)
    assert after.network.config == before.network.config
    wanted = models.Ground(**dict.fromkeys(ground or (), 0.25))
    assert {code.ground for codes in after.styles.values() for code in codes} == {wanted}
    state = before.network.state_dict()
    assert all(torch.equal(state[k], v) for k, v in after.network.state_dict().items())


def test_another_kind_is_refused(path):
    rewrite(path, lambda header: header.update(kind="repaint-style-classifier"))
    with pytest.raises(models.CheckpointError, match="repaint-style-classifier"):
        models.load_checkpoint(path)


def test_an_unknown_setting_is_refused(path):
    rewrite(path, lambda header: header["config"].update(depth=3))
    with pytest.raises(models.CheckpointError, match="depth"):
        models.load_checkpoint(path)


@pytest.mark.parametrize("key", ["network/output.weight", "style/first/1/0"])
def test_a_missing_key_is_named(path, key):
    rewrite(path, change_tensors=lambda tensors: tensors.pop(key))
    with pytest.raises(models.CheckpointError, match=r"missing"):
        models.load_checkpoint(path)


@pytest.mark.parametrize("key", ["network/output.weight", "style/first/1/0"])
def test_a_wrong_shape_is_named(path, key):
    rewrite(path, change_tensors=lambda tensors: tensors.update({key: torch.zeros(5)}))
    with pytest.raises(models.CheckpointError, match=r"has shape \(5,\)"):
        models.load_checkpoint(path)


def test_weights_that_are_not_finite_never_replace_a_good_file(path, network):
    before = path.read_bytes()
    with torch.no_grad():
        network.output.bias[0] = float("nan")
    with pytest.raises(models.CheckpointError, match="not finite"):
        models.save_checkpoint(path, network, {}, {})
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_weights_too_large_for_fp16_are_refused(path, network):
    with torch.no_grad():
        network.output.bias[0] = 1e6
    with pytest.raises(models.CheckpointError, match="not finite"):
        models.save_checkpoint(path, network, {}, {})


def test_weights_are_stored_as_fp16(path):
    assert {t.dtype for t in load_file(path).values()} == {torch.float16}
