"""The report: its numbers, that two runs agree, and what it refuses."""

import json
from contextlib import nullcontext
from pathlib import Path

import pytest
import skimage.data
import torch
from PIL import Image

import models
from app import evaluate
from app.measuring import SHEET_SIDE
from app.report import Table
from models.judge import LinearJudge
from tests.full_disk import full_disk
from tests.pieces import save_pieces

CLASSES = ("dots", "photo", "stripes")


@pytest.fixture(scope="session")
def artworks(tmp_path_factory) -> Path:
    """test/{dots,photo,stripes}: three pieces of each of three real pictures."""
    root = tmp_path_factory.mktemp("artworks")
    for name, pixels in (
        ("dots", skimage.data.coffee()),
        ("photo", skimage.data.astronaut()),
        ("stripes", skimage.data.chelsea()),
    ):
        save_pieces(root / "test" / name, pixels, [(0, 50), (60, 50)], (128, 128))
        save_pieces(root / "test" / name, pixels, [(120, 50)], (128, 200))
    return root


@pytest.fixture(scope="session")
def classifier(tmp_path_factory) -> Path:
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("judge") / "judge.safetensors"
    judge = models.StyleClassifier(CLASSES, reduce=8, pretrained=True)
    models.save_classifier(path, judge, {})
    return path


@pytest.fixture(scope="session")
def second(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("second") / "linear.safetensors"
    LinearJudge(CLASSES).save(path)
    return path


@pytest.fixture
def command(artworks, classifier, checkpoint, tmp_path) -> list[str]:
    return [
        *("--photos", str(artworks / "test" / "photo"), "--artworks", str(artworks)),
        *("--checkpoint", str(checkpoint), "--classifier", str(classifier)),
        *("--out", str(tmp_path / "report"), "--device", "cpu"),
    ]


@pytest.fixture(scope="session")
def report(artworks, classifier, second, checkpoint, tmp_path_factory) -> Path:
    """The folder of a report of two checkpoints and two judges."""
    root = tmp_path_factory.mktemp("reports")
    copy = root / "copy.safetensors"
    copy.write_bytes(checkpoint.read_bytes())
    out = root / "report"
    assert (
        evaluate.main(
            [
                *("--photos", str(artworks / "test" / "photo"), "--artworks", str(artworks)),
                *("--checkpoint", str(checkpoint), str(copy), "--classifier", str(classifier)),
                *("--second-judge", str(second), "--out", str(out), "--device", "cpu"),
            ]
        )
        == 0
    )
    return out


def test_the_report_has_every_measure(report):
    found = json.loads((report / "report.json").read_text())
    assert set(found["real_accuracy"]) == {*CLASSES, "mean"}
    assert len(found["checkpoints"]) == 2
    for part in found["checkpoints"].values():
        assert set(part["style_accuracy"]) == set(part["sharpness"]) == {"dots", "stripes", "mean"}
        assert set(part["frechet"]) == set(part["second_judge"]) == {"dots", "stripes", "mean"}
        assert min(part["frechet"].values()) > 0 and part["seconds"] > 0
        assert -1 <= part["edge_correlation"] <= 1
        for name, difference in part["difference_to_real"].items():
            if name != "mean":
                expected = found["real_accuracy"][name] - part["style_accuracy"][name]
                assert difference == pytest.approx(expected)
        if part["lpips"] is None:
            assert part["lpips_reason"]


def test_the_same_weights_under_two_names_measure_the_same(report):
    parts = list(json.loads((report / "report.json").read_text())["checkpoints"].values())
    for part in parts:
        part.pop("seconds")
    assert parts[0] == parts[1]


def test_the_report_can_be_read_and_looked_at(report):
    text = (report / "report.md").read_text()
    plots = sorted(path.stem for path in report.glob("*.png"))
    assert plots == sorted(
        [
            *("style_accuracy", "second_judge", "sharpness", "content", "frechet", "seconds"),
            "contact_sheet",
        ]
    )
    assert all(f"({plot}.png)" in text for plot in plots)
    assert "copy.safetensors" in text and "Not FID" in text
    # The photos, and two styles of two checkpoints: five rows of three pictures.
    width, height = Image.open(report / "contact_sheet.png").size
    assert height > 5 * SHEET_SIDE and width > 3 * SHEET_SIDE


def test_lpips_without_its_backbone_says_why_and_the_rest_is_there(
    command, tmp_path, monkeypatch, capsys
):
    def absent():
        raise FileNotFoundError("AlexNet's weights can't be loaded")

    monkeypatch.setattr(evaluate, "LPIPS", absent)
    assert evaluate.main([*command, "--limit", "2"]) == 0
    assert "LPIPS was not measured: AlexNet's weights can't be loaded" in capsys.readouterr().out
    found = json.loads((tmp_path / "report" / "report.json").read_text())
    (part,) = found["checkpoints"].values()
    assert part["lpips"] is None and part["sharpness"]["dots"] > 0 and found["photos"] == 2


def test_a_report_that_exists_is_kept_unless_told_otherwise(command, tmp_path, capsys):
    mine = tmp_path / "report" / "mine.txt"
    mine.parent.mkdir()
    mine.write_text("mine")
    assert evaluate.main(command) == 2
    assert "exists already" in capsys.readouterr().err
    assert [path.name for path in mine.parent.iterdir()] == ["mine.txt"]
    assert evaluate.main([*command, "--overwrite", "--limit", "2"]) == 0
    assert mine.read_text() == "mine" and (mine.parent / "report.md").is_file()


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("file/report", "Not a directory"),
        ("/proc/report", "No such file or directory"),
        ("full", "File too large"),
    ],
)
def test_a_place_that_can_t_be_written_is_known_before_the_work(
    command, tmp_path, monkeypatch, capsys, place, reason
):
    (tmp_path / "file").touch()
    monkeypatch.setattr(evaluate, "judge_real", lambda *_: pytest.fail("measured"))
    with full_disk() if place == "full" else nullcontext():
        assert evaluate.main(swap(command, "--out", tmp_path / place)) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("error: --out ") and line.endswith(f"can't be written: {reason}")
    assert not (tmp_path / "full").exists()


def test_a_report_that_can_t_be_written_is_printed_and_one_line_says_why(
    command, tmp_path, monkeypatch, capsys
):
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(evaluate.Table, "plot", full)
    assert evaluate.main([*command, "--limit", "2"]) == 1
    printed = capsys.readouterr()
    assert "Style accuracy" in printed.out
    assert printed.err.splitlines()[-1] == (
        f"error: --out {tmp_path / 'report'}: can't be written: No space left on device"
    )
    assert not list((tmp_path / "report").glob(".*"))


def swap(command: list[str], option: str, value) -> list[str]:
    place = command.index(option) + 1
    return [*command[:place], str(value), *command[place + 1 :]]


def last_error(capsys) -> str:
    return capsys.readouterr().err.strip().splitlines()[-1]


def test_a_checkpoint_of_another_kind_is_named(command, classifier, checkpoint, capsys):
    assert evaluate.main(swap(command, "--checkpoint", classifier)) == 2
    assert "holds a 'repaint-style-classifier'" in last_error(capsys)
    assert evaluate.main(swap(command, "--classifier", checkpoint)) == 2
    assert "holds a 'repaint-repainter'" in last_error(capsys)


def test_folders_that_can_not_be_used_are_named(command, tmp_path, capsys):
    empty = tmp_path / "empty"
    (empty / "test").mkdir(parents=True)
    for option, value, message in (
        ("--photos", empty, "no pictures"),
        ("--artworks", empty, "has no subfolders"),
        ("--artworks", tmp_path / "none", "there is no such folder"),
        ("--artworks", empty / "test", "has no subfolder 'test'"),
    ):
        assert evaluate.main(swap(command, option, value)) == 2
        error = last_error(capsys)
        assert error.startswith("error: ") and message in error


def test_a_style_that_the_judge_does_not_know_is_named_and_the_others_are_measured(
    command, tmp_path, capsys
):
    other = tmp_path / "other.safetensors"
    models.save_classifier(other, models.StyleClassifier(("dots", "photo"), reduce=8), {})
    assert evaluate.main(swap(command, "--classifier", other)) == 0
    assert "not measured: stripes: not among dots, photo, which" in capsys.readouterr().err
    (part,) = json.loads((tmp_path / "report" / "report.json").read_text())["checkpoints"].values()
    assert set(part["style_accuracy"]) == {"dots", "mean"}


def test_a_checkpoint_none_of_whose_styles_the_judge_knows_is_refused(command, tmp_path, capsys):
    other = tmp_path / "other.safetensors"
    models.save_classifier(other, models.StyleClassifier(("clouds", "photo"), reduce=8), {})
    assert evaluate.main(swap(command, "--classifier", other)) == 2
    assert "none of its styles is among photo, which the classifier" in last_error(capsys)


def test_a_table_says_what_was_not_measured():
    table = Table("a", "A", {"x": {"one": 0.5, "two": None}, "y": {"one": 1.0}}, "A note.", 2)
    lines = table.markdown().splitlines()
    assert "| one | 0.50 | 1.00 |" in lines and "| two | not measured | not measured |" in lines
