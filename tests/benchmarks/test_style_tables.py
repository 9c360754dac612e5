"""The comparison of style transfers: trained in pieces, the paper's numbers beside ours."""

import json

import numpy as np
import pytest
import skimage.data
import torch
from PIL import Image

import models
from app import samples, train
from benchmarks import style_tables
from benchmarks.style_tables import COLUMNS, STYLES, file_of

TINY = ["--width", "8", "--blocks", "1", "--group-size", "8", "--size", "64", "--batch", "1"]
TINY += ["--steps", "2", "--device", "cpu", "--photos", "2"]


@pytest.fixture(scope="module", autouse=True)
def brief():
    """No six seconds of steps, nor large sheets of samples."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(style_tables, "LEAST_MINUTES", 0.001)
        patch.setattr(samples, "SHEET_SIZE", 32)
        yield


@pytest.fixture(scope="module")
def artworks(tmp_path_factory):
    """train/ and test/ of the five classes, two pieces of real pictures each."""
    root = tmp_path_factory.mktemp("artworks")
    pictures = [
        getattr(skimage.data, name)() for name in ("astronaut", "coffee", "chelsea", "rocket")
    ]
    for split in ("train", "test"):
        for i, name in enumerate((*STYLES, "photo")):
            (root / split / name).mkdir(parents=True)
            for j in range(2):
                pixels = pictures[(i + j) % len(pictures)]
                piece = np.ascontiguousarray(pixels[20 * i : 20 * i + 96, 30 * j : 30 * j + 96])
                Image.fromarray(piece).save(root / split / name / f"{j}.png")
    return root


@pytest.fixture(scope="module")
def out(artworks, tmp_path_factory):
    """A finished comparison of two steps a column."""
    folder = tmp_path_factory.mktemp("out")
    command = ["--artworks", str(artworks), "--out", str(folder), *TINY]
    assert style_tables.main(command) == 0
    return folder


def test_columns_differ_in_method_and_rule_alone(out):
    configs = {name: models.load_checkpoint(file_of(out, name)).network.config for name in COLUMNS}
    assert {name: (c.method, c.gradient) for name, c in configs.items() if c.coloring == "mlp"} == {
        "SVD-WCT": ("svd", "taylor"),
        "GD-WCT": ("gd", "exact"),
        "Clip-WCT": ("svd", "clip"),
        "PI-WCT": ("svd", "pi"),
        "Padé": ("svd", "pade"),
        "exact": ("svd", "exact"),
    }
    assert {(c.width, c.blocks, c.group_size) for c in configs.values() if c.coloring == "mlp"} == {
        (8, 1, 8)
    }


def test_every_table_has_ours_and_the_paper_s(out):
    text = (out / "tables.md").read_text()
    for words in ("Table 8", "Table 9", "Table 10", "not finite", *COLUMNS, "GD-WCT, paper"):
        assert words in text
    svd = next(line for line in text.splitlines() if line.startswith("| ukiyoe"))
    assert "0.680" in svd and "0.491" in svd
    assert (out / "report" / "contact_sheet.png").stat().st_size > 0


def test_a_finished_comparison_trains_nothing_again(out, artworks, monkeypatch):
    monkeypatch.setattr(train, "main", lambda _: pytest.fail("trained again"))
    command = ["--artworks", str(artworks), "--out", str(out), *TINY]
    assert style_tables.main(command) == 0


def test_other_settings_in_the_same_folder_are_refused(out, artworks, capsys):
    command = ["--artworks", str(artworks), "--out", str(out), *TINY, "--seed", "1"]
    assert style_tables.main(command) == 2
    assert "another seed" in capsys.readouterr().err


@pytest.mark.parametrize("code", [130, 1])
def test_a_column_that_was_cut_off_goes_on_from_its_state(
    artworks, tmp_path, monkeypatch, capsys, code
):
    commands = []

    def cut(command: list[str]) -> int:
        commands.append(command)
        file_of(tmp_path, "SVD-WCT").with_suffix(".state.pt").touch()
        return code

    monkeypatch.setattr(train, "main", cut)
    for _ in range(2):
        arguments = ["--artworks", str(artworks), "--out", str(tmp_path), *TINY]
        assert style_tables.main(arguments) == code
    assert "--resume" not in commands[0] and "--resume" in commands[1]
    assert "run it again" in capsys.readouterr().err


def test_columns_can_be_trained_by_several_calls(artworks, out, tmp_path, monkeypatch, capsys):
    command = ["--artworks", str(artworks), "--out", str(tmp_path), *TINY]
    monkeypatch.setattr(style_tables, "measure", lambda _: pytest.fail("measured a part"))
    assert style_tables.main([*command, "--columns", "GD-WCT"]) == 0
    assert {f.name for f in tmp_path.glob("*.safetensors")} == {"gd-wct.safetensors"}
    alone, beside_others = (models.load_checkpoint(file_of(f, "GD-WCT")) for f in (tmp_path, out))
    others = beside_others.network.state_dict()
    assert all(torch.equal(v, others[k]) for k, v in alone.network.state_dict().items())
    assert style_tables.main([*command, "--columns", "statistics", "SVD-WCT"]) == 0
    with pytest.raises(SystemExit):  # as many minutes as SVD-WCT, which is another call's
        style_tables.parse_arguments([*command, "--columns", "statistics"])
    assert "SVD-WCT" in capsys.readouterr().err


def test_tables_can_be_made_without_some_columns(artworks, out, capsys):
    command = ["--artworks", str(artworks), "--out", str(out), *TINY]
    kept = json.loads((out / "tables.json").read_text())
    left_out = ["Padé", "exact", "PI-WCT", "statistics"]
    assert style_tables.main([*command, "--leave-out", *left_out]) == 0
    made = json.loads((out / "tables.json").read_text())
    assert list(made["training"]) == ["SVD-WCT", "GD-WCT", "Clip-WCT"]
    assert made["sharpness"]["GD-WCT"] == kept["sharpness"]["GD-WCT"]
