"""Choosing codes: medoids stand for their folder, folders come by name."""

import numpy as np
import pytest
import torch
from PIL import Image

import models
from app import choosing, codes, images
from app.named_folders import named_folders, style_folders
from app.samples import SHEET_SIZE


def test_medoids_stand_for_their_clusters():
    rows = torch.cat([torch.zeros(5, 2), torch.full((4, 2), 9.0)]) + 0.1 * torch.randn(9, 2)
    chosen = choosing.medoids(rows, 2)
    assert {int(i) // 5 for i in chosen} == {0, 1}
    assert len(set(choosing.medoids(rows, 20))) == 9


def test_a_single_painting_is_its_own_medoid():
    assert choosing.medoids(torch.ones(1, 3), 4) == [0]


def test_the_same_painting_again_does_not_confuse_the_medoids():
    assert sorted(choosing.medoids(torch.ones(3, 2), 3)) == [0, 1, 2]


def test_folders_keep_their_order_and_may_share_a_name_only_where_codes_are_learned():
    pairs = ["warm=a", "cold=b", "warm=c=d"]
    assert named_folders(pairs) == [("warm", "a"), ("cold", "b"), ("warm", "c=d")]
    with pytest.raises(ValueError, match="'warm' is taken"):
        style_folders(pairs)


def test_what_a_style_wants_of_photos_is_set_for_its_codes_and_kept(trained, folders, tmp_path):
    out, wanted = tmp_path / "b.safetensors", models.Ground(0.2, 0.5)
    more = [
        "--take",
        "warm=2.png,own:1",
        "--ground",
        "warm:simplify=0.2,strokes=0.5",
        "--out",
        str(out),
    ]
    assert codes.main(command(trained, folders, *more)) == 0
    styles = models.load_checkpoint(out).styles
    assert [code.ground for code in styles["warm"]] == [wanted, wanted]
    assert {code.ground for code in styles["cold"]} == {models.Ground()}
    # From there on it is the checkpoint's, also where codes are chosen anew.
    assert codes.main([*command(out, folders), "--candidates", "1"]) == 0
    assert {code.ground for code in models.load_checkpoint(out).styles["warm"]} == {wanted}


@pytest.mark.parametrize("pair", ["warm", "=a", "warm=", "a/b=c"])
def test_what_is_not_a_name_and_a_folder_is_refused(pair):
    with pytest.raises(ValueError, match="--learn must be NAME=FOLDER"):
        named_folders([pair], "--learn")


def command(trained, folders, *more: str) -> list[str]:
    styles = [f"--style={name}={folders / name}" for name in ("warm", "cold")]
    return ["--checkpoint", str(trained), "--photos", str(folders / "photos"), *styles, *more]


def test_a_code_that_stays_keeps_the_name_of_its_painting():
    before = {"warm": {"from": ["a.png", "b.png"]}}
    taken = choosing.Choice(["own:2", "c.png", "own:1"], [], [0.5, 0.25, 1.0])
    record = choosing.record_of({"warm": taken}, before)
    assert record["warm"]["from"] == ["b.png", "c.png", "a.png"]
    # A code that was learned has no painting.
    assert choosing.record_of({"cold": taken}, before)["cold"]["from"] == [
        "own:2",
        "c.png",
        "own:1",
    ]


def test_taken_codes_are_those_named_in_that_order_and_others_stay(
    trained, folders, tmp_path, capsys
):
    out = tmp_path / "b.safetensors"
    more = ["--take", "warm=2.png,own:3,0.png", "--out", str(out)]
    assert codes.main(command(trained, folders, *more)) == 0
    before, after = models.load_checkpoint(trained), models.load_checkpoint(out)
    painting = Image.open(folders / "warm" / "2.png")
    own = before.network.encode_style(images.to_tensor(np.asarray(painting)))
    for saved, tensor in zip(after.styles["warm"][0].tensors, own.tensors, strict=True):
        torch.testing.assert_close(saved, tensor, atol=2e-3, rtol=2e-3)
    for saved, tensor in zip(
        after.styles["warm"][1].tensors, before.styles["warm"][2].tensors, strict=True
    ):
        assert torch.equal(saved, tensor)
    assert len(after.styles["warm"]) == 3 and len(after.styles["cold"]) == 4
    record = after.record["codes"]
    assert record["warm"]["from"] == ["2.png", "own:3", "0.png"] and "cold" not in record
    assert all(0 <= a <= 1 for a in record["warm"]["accuracy_on_training_photos"])
    assert "own:3" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("take", "message"),
    [
        ("warm=none.png", "'none.png' is no painting in"),
        ("warm=own:5", "nor own:1 to own:4"),
        ("warm=own:0", "own:1 to own:4"),
        ("hot=0.png", "there is no --style of that name"),
        ("warm", "--take must be NAME=CODE,..."),
    ],
)
def test_a_code_that_is_not_there_can_t_be_taken(trained, folders, tmp_path, capsys, take, message):
    out = tmp_path / "b.safetensors"
    assert codes.main(command(trained, folders, "--take", take, "--out", str(out))) == 2
    assert message in capsys.readouterr().err and not out.exists()


def test_sheets_show_every_candidate_and_change_nothing(trained, folders, tmp_path):
    before = trained.read_bytes()
    sheets = tmp_path / "sheets"
    more = ["--sheets", str(sheets), "--candidates", "3"]
    assert codes.main(command(trained, folders, *more)) == 0
    assert trained.read_bytes() == before
    for name in ("warm", "cold"):
        with Image.open(sheets / f"{name}.png") as sheet:
            assert sheet.size == (SHEET_SIZE * 5, SHEET_SIZE * 4)


@pytest.mark.parametrize(
    ("option", "place"),
    [
        ("--out", "file/b.safetensors"),
        ("--out", "/proc/b.safetensors"),
        ("--sheets", "file"),
        ("--sheets", "file/sheets"),
    ],
)
def test_a_place_that_can_t_be_written_is_known_before_the_work(
    trained, folders, tmp_path, monkeypatch, capsys, option, place
):
    (tmp_path / "file").touch()
    monkeypatch.setattr(codes, "Chooser", lambda *_: pytest.fail("tried codes"))
    assert codes.main(command(trained, folders, option, str(tmp_path / place))) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith(f"error: {option} {tmp_path / place}") and "can't be written: " in line
