"""Checkpoints: what is written comes back, and nothing wrong is ever loaded or run."""

import json
import os
import pickle
import struct
import time
from dataclasses import fields, replace

import pytest
import torch
from safetensors.torch import load_file, save_file

import models
from models import checkpoint as module
from models import weights_file as module_file

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
    reason = f"newer version of Repaint: version {module.VERSION + 1}"
    with pytest.raises(models.CheckpointError, match=reason):
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
HEADERS[3] = (HEADERS[2][0], HEADERS[2][1] | {"faces"})
HEADERS[4] = (HEADERS[3][0] | {"manners"}, HEADERS[3][1])


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
        (3, *HEADERS[3]),
        (4, *HEADERS[4]),
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


DEEP = "[" * 100_000 + "]" * 100_000


def write(path, tables: bytes, tensors: bytes = b"", length: int | None = None) -> None:
    """A safetensors file of any header."""
    length = len(tables) if length is None else length
    path.write_bytes(struct.pack("<Q", length % 2**64) + tables + tensors)


def parts(path) -> tuple[dict, bytes]:
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def refused(path, within: float = 5.0) -> str:
    """The one short line that says why it is not loaded, soon and without much memory."""
    began = time.process_time()
    with pytest.raises(models.CheckpointError) as caught:
        models.load_checkpoint(path)
    assert time.process_time() - began < within
    line = str(caught.value)
    assert line.startswith(str(path)) and "\n" not in line and len(line) < len(str(path)) + 300
    return line


NONE_OF_OURS = {
    "null": "null", "list": "[1]", "number": "7", "text": '"a"', "deep": DEEP, "nothing": "",
    "half": '{"kind": ', "deep within": f'{{"kind": {DEEP}}}', "true": "true",
    "a name twice": '{"kind": "repaint-repainter", "kind": "repaint-repainter", "version": 1}',
}  # fmt: skip


@pytest.mark.parametrize("kind", NONE_OF_OURS)
def test_a_header_that_is_none_of_ours_is_one_line(path, kind):
    tables, tensors = parts(path)
    tables["__metadata__"]["repaint"] = NONE_OF_OURS[kind]
    write(path, json.dumps(tables).encode(), tensors)
    assert "not one of Repaint's" in refused(path)


WRONG = {
    "no codes": lambda h: h["styles"].update(first=0),
    "half a code": lambda h: h["styles"].update(first=1.5),
    "true codes": lambda h: h["styles"].update(second=True),
    "fewer than none": lambda h: h["styles"].update(first=-1),
    "a million codes": lambda h: h["styles"].update(first=10**6),
    "more codes than there are numbers": lambda h: h["styles"].update(first=10**30),
    "codes in words": lambda h: h["styles"].update(first="2"),
    "styles as a list": lambda h: h.update(styles=["first"]),
    "styles as nothing": lambda h: h.update(styles=None),
    "no styles": lambda h: h.pop("styles"),
    "a style without a name": lambda h: h["styles"].update({"": 1}),
    "a style that is a path": lambda h: h["styles"].update({"../../x": 1}),
    "a style with a line break": lambda h: h["styles"].update({"a\nb": 1}),
    "a long name": lambda h: h["styles"].update({"x" * 10**5: 1}),
    "a million blocks": lambda h: h["config"].update(blocks=10**6),
    "endless blocks": lambda h: h["config"].update(blocks=10**30),
    "true blocks": lambda h: h["config"].update(blocks=True),
    "blocks in words": lambda h: h["config"].update(blocks="1"),
    "negative blocks": lambda h: h["config"].update(blocks=-1),
    "half a block": lambda h: h["config"].update(blocks=1.5),
    "a wide network": lambda h: h["config"].update(width=8 * 10**5),
    "a wider one": lambda h: h["config"].update(width=8 * 10**8),
    "much refinement": lambda h: h["config"].update(refinement=10**9),
    "many manners": lambda h: h["config"].update(refinement=8, manners=10**9),
    "manners without a refinement": lambda h: h["config"].update(refinement=0, manners=2),
    "large groups": lambda h: h["config"].update(group_size=10**9),
    "eps that is no number": lambda h: h["config"].update(eps=float("nan")),
    "endless eps": lambda h: h["config"].update(eps=float("inf")),
    "true eps": lambda h: h["config"].update(eps=True),
    "an unknown rule": lambda h: h["config"].update(gradient="x" * 10**5),
    "a rule that is none": lambda h: h["config"].update(gradient=7),
    "an unknown coloring": lambda h: h["config"].update(coloring=["statistics"]),
    "a configuration as a list": lambda h: h.update(config=[1]),
    "no configuration": lambda h: h.pop("config"),
    "settings of a long name": lambda h: h["config"].update({"x" * 10**5: 1}),
    "a ground that is no number": lambda h: h["grounds"]["first"][0].update(simplify=float("nan")),
    "a true ground": lambda h: h["grounds"]["first"][0].update(simplify=True),
    "a ground in words": lambda h: h["grounds"]["first"][0].update(simplify="1"),
    "a ground as a list": lambda h: h["grounds"].update(first=[[], []]),
    "grounds of letters": lambda h: h["grounds"].update(first="ab"),
    "grounds as a list": lambda h: h.update(grounds=[1]),
    "a record as a list": lambda h: h.update(record=[1]),
    "no version": lambda h: h.pop("version"),
    "version 0": lambda h: h.update(version=0),
    "true version": lambda h: h.update(version=True),
    "half a version": lambda h: h.update(version=1.5),
    "endless version": lambda h: h.update(version=10**400),
    "no kind": lambda h: h.pop("kind"),
    "a kind as a list": lambda h: h.update(kind=["a"] * 10**4),
}  # fmt: skip


@pytest.mark.parametrize("kind", WRONG)
def test_a_value_that_is_none_is_one_line(path, kind):
    rewrite(path, WRONG[kind])
    refused(path)


def test_a_network_larger_than_its_weights_is_never_built(path, monkeypatch):
    """What memory it asks for is counted before anything is written into it."""
    rewrite(path, lambda header: header["config"].update(width=4096, group_size=8))
    monkeypatch.setattr(torch.nn.init, "kaiming_uniform_", lambda *_, **__: None)
    assert "more weights than it holds" in refused(path)


def entry(change):
    def changed(tables: dict) -> dict:
        name = next(name for name in tables if name.startswith("network/"))
        return {**tables, name: {**tables[name], **change}}

    return changed


TABLES = {
    "offsets that overlap": entry({"data_offsets": [0, 2]}),
    "offsets backwards": entry({"data_offsets": [9, 1]}),
    "offsets past the end": entry({"data_offsets": [0, 2**62]}),
    "negative offsets": entry({"data_offsets": [-2, 2]}),
    "a huge shape": entry({"shape": [2**40, 2**40]}),
    "a negative shape": entry({"shape": [-1]}),
    "another shape": entry({"shape": [1, 2, 3]}),
    "a shape in words": entry({"shape": "8"}),
    "an unknown type": entry({"dtype": "F17"}),
    "a type that is none": entry({"dtype": None}),
    "whole numbers": entry({"dtype": "I16"}),
    "a table that is none": lambda tables: {**tables, "network/output.weight": 7},
    "a list": lambda tables: [tables],
    "nothing": lambda _: {},
    "metadata that is none": lambda tables: {**tables, "__metadata__": 7},
    "metadata of numbers": lambda tables: {**tables, "__metadata__": {"repaint": 7}},
}


@pytest.mark.parametrize("kind", TABLES)
def test_a_wrong_table_of_tensors_is_one_line(path, kind):
    tables, tensors = parts(path)
    write(path, json.dumps(TABLES[kind](tables)).encode(), tensors)
    refused(path)


def test_other_wrong_bytes_are_one_line(path):
    tables, tensors = parts(path)
    text = json.dumps(tables).encode()
    name = next(iter(tables))
    twice = b"{" + json.dumps({name: tables[name]}).encode()[1:-1] + b"," + text[1:]
    for wrong in (
        (DEEP.encode(), tensors),
        (b"[" * 10**6, tensors),
        (b'{"a":' * 10**5, tensors),
        (twice, tensors),
        (text, tensors + b"more"),
        (text, tensors[:-2]),
        (text, b""),
        (b"\xff" * 100, tensors),
        (b"", b""),
        (text + b" " * (module_file.LONGEST_HEADER + 1), tensors),
    ):
        write(path, *wrong)
        refused(path)
    for length in (-1, 2**63, 2**40, 0, 1, 10**8):
        write(path, text, tensors, length)
        refused(path)
    for start in range(8):
        path.write_bytes(bytes(start))
        refused(path)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("key", ["network/output.weight", "style/first/1/0", "style/second/0/1"])
def test_a_weight_that_is_not_finite_is_named(path, key, value):
    rewrite(path, change_tensors=lambda tensors: tensors[key].view(-1)[-1:].fill_(value))
    assert key in refused(path) and "not finite" in refused(path)


@pytest.mark.parametrize("dtype", [torch.int16, torch.bool, torch.uint8, torch.int64])
def test_weights_of_another_kind_are_named(path, dtype):
    key = "network/output.weight"
    rewrite(path, change_tensors=lambda tensors: tensors.update({key: tensors[key].to(dtype)}))
    assert key in refused(path)


def test_a_large_file_is_not_read(path, monkeypatch):
    monkeypatch.setattr(module_file, "LARGEST", 1000)
    monkeypatch.setattr(module_file, "safe_open", lambda *_, **__: pytest.fail("it was opened"))
    assert "more than a checkpoint" in refused(path)


def test_a_style_of_no_codes_is_not_saved(path, network):
    with pytest.raises(models.CheckpointError, match="0 codes"):
        models.save_checkpoint(path, network, {"empty": []}, {})
