"""A new style, learned and judged: with settings so small that only the way is tested."""

import json
import shutil

import numpy as np
import pytest
import skimage.data
import torch
from PIL import Image

import models
from app import images, train, train_classifier
from app.dataset import PictureFolder
from benchmarks import new_style

TINY = ["--minutes", "0.001", "--photos", "3"]
TINY += ["--classifier-option=--views=4", "--classifier-option=--pictures=8"]
TINY += ["--classifier-option=--epochs=1", "--classifier-option=--batch=4"]
TINY += ["--classifier-option=--size=64", "--train-option=--size=64", "--train-option=--batch=1"]
TINY += ["--train-option=--codes=medoids", "--train-option=--variants=1"]


def save_pieces(folder, pixels, rows):
    folder.mkdir(parents=True)
    for row in rows:
        for column in range(3):
            piece = pixels[80 * row : 80 * row + 80, 100 * column : 100 * column + 80]
            name = folder / f"{row}{column}.png"
            Image.fromarray(np.ascontiguousarray(piece)).save(name)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """The artworks of two classes, a new style's folders, and a network that knows "dots"."""
    root = tmp_path_factory.mktemp("new_style")
    for name, pixels in (("photo", skimage.data.astronaut()), ("dots", skimage.data.coffee())):
        save_pieces(root / "artworks" / "train" / name, pixels, [0])
        save_pieces(root / "artworks" / "test" / name, pixels, [1])
    fur = skimage.data.chelsea()[:, :, ::-1]
    save_pieces(root / "learn", fur, [0])
    save_pieces(root / "class" / "train", fur, [1])
    save_pieces(root / "class" / "test", fur, [2])
    torch.manual_seed(0)
    network = models.Repainter(models.RepainterConfig(width=8, blocks=1, group_size=8)).eval()
    code = network.encode_style(images.to_tensor(skimage.data.coffee()[:64, :64]))
    models.save_checkpoint(root / "init.safetensors", network, {"dots": [code]}, {"steps": 0})
    return root


def command(root, out, *more):
    where = ["--artworks", str(root / "artworks"), "--init", str(root / "init.safetensors")]
    what = ["--style", f"fur={root / 'learn'}", "--class", str(root / "class")]
    return [*what, *where, "--out", str(out), *TINY, *more]


@pytest.fixture(scope="module")
def out(root, tmp_path_factory):
    folder = tmp_path_factory.mktemp("out")
    assert new_style.main(command(root, folder)) == 0
    return folder


def test_the_report_has_the_classes_the_codes_and_the_cost(out):
    report = json.loads((out / "new_style.json").read_text())
    assert set(report["real"]) == {"dots", "fur", "photo"}
    assert set(report["repainted"]) >= {"medoid", report["default"]}
    for row in (*report["real"].values(), *(p["called"] for p in report["repainted"].values())):
        assert sum(row.values()) == pytest.approx(1)
    assert report["classifier"]["trained_on"] == {"dots": 3, "fur": 3, "photo": 3}
    assert report["learning"]["steps"] >= 1 and report["learning"]["cpu_minutes"] > 0
    text = (out / "tables.md").read_text()
    assert "called fur" in text and "the same bits before and after" in text
    assert Image.open(out / "sheet.png").width > 3 * new_style.SHEET_SIDE


def test_what_is_finished_is_not_done_again(out, root, monkeypatch):
    for module in (train, train_classifier):
        monkeypatch.setattr(module, "main", lambda _: pytest.fail("trained again"))
    assert new_style.main(command(root, out)) == 0


def test_other_settings_in_the_same_folder_are_refused(out, root, capsys):
    assert new_style.main(command(root, out, "--seed", "1")) == 2
    assert "another seed" in capsys.readouterr().err


def test_learning_that_was_cut_off_goes_on_from_its_state(out, root, tmp_path, monkeypatch, capsys):
    commands = []
    for file in out.glob("classifier.*"):
        shutil.copy(file, tmp_path)

    def cut(options):
        commands.append(options)
        (tmp_path / "learned.state.pt").touch()
        return 130

    monkeypatch.setattr(train, "main", cut)
    for _ in range(2):
        assert new_style.main(command(root, tmp_path)) == 130
    assert "--resume" not in commands[0] and "--resume" in commands[1]
    assert "run it again" in capsys.readouterr().err


def test_a_painting_on_both_sides_is_refused(root, tmp_path, capsys):
    shutil.copytree(root / "class", tmp_path / "class")
    shutil.copy(root / "learn" / "00.png", tmp_path / "class" / "test" / "again.png")
    more = ["--class", str(tmp_path / "class")]
    assert new_style.main(command(root, tmp_path / "out", *more)) == 2
    assert "the same picture as" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("name", "reason"), [("dots", "one of the classes"), ("old", "knows")])
def test_a_style_that_is_not_new_is_refused(root, tmp_path, capsys, name, reason):
    init = tmp_path / "init.safetensors"
    start = models.load_checkpoint(root / "init.safetensors")
    models.save_checkpoint(init, start.network, {"old": start.styles["dots"]}, {})
    more = ["--style", f"{name}={root / 'learn'}", "--init", str(init)]
    assert new_style.main(command(root, tmp_path / "out", *more)) == 2
    assert reason in capsys.readouterr().err


def test_learned_codes_are_told_from_those_of_paintings(root):
    network = models.load_checkpoint(root / "init.safetensors").network
    paintings = PictureFolder(root / "learn")
    single = network.encode_style(paintings.tensor(1))
    rounded = models.StyleCode(tuple(t.half().float() for t in single.tensors))
    moved = models.StyleCode(tuple(1.2 * t for t in single.tensors))
    expected = {"learned": moved, "best painting": rounded}
    for names in (("learned", "best painting"), ("best painting", "learned")):
        checkpoint = models.Checkpoint(network, {"fur": [expected[n] for n in names]}, {})
        codes = new_style.kept_codes(checkpoint, "fur", paintings)
        assert tuple(codes) == names
        assert all(codes[name] is expected[name] for name in names)


def test_changed_pictures_of_an_old_style_are_seen(root):
    before, after = (models.load_checkpoint(root / "init.safetensors") for _ in range(2))
    photos = [PictureFolder(root / "artworks" / "test" / "photo").tensor(0)]
    assert new_style.left_alone(before, after, photos)
    after.styles["dots"] = [
        models.StyleCode(tuple(1.01 * t for t in after.styles["dots"][0].tensors))
    ]
    assert not new_style.left_alone(before, after, photos)
