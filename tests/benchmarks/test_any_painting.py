"""The benchmark of paintings that are not built in: groups, ranks, and one whole small run."""

import json

import numpy as np
import pytest
import skimage.data
import torch
from PIL import Image

from app.shipped import CHECKPOINT
from benchmarks import any_painting, gallery


def write(folder, picture, count):
    folder.mkdir(parents=True)
    for i in range(count):
        piece = picture[20 * i : 20 * i + 98, 30 * i : 30 * i + 98]
        Image.fromarray(np.ascontiguousarray(piece)).save(folder / f"{i}.png")


@pytest.fixture(scope="module")
def collections(tmp_path_factory):
    """artworks and gallery, two pieces of real pictures a class and split."""
    root = tmp_path_factory.mktemp("collections")
    coffee, cat, person = (getattr(skimage.data, n)() for n in ("coffee", "chelsea", "astronaut"))
    classes = {
        "artworks": {"monet": coffee, "photo": person},
        "gallery": {"titian": cat, "degas": 255 - cat, "photo_people": person, "various": coffee},
    }
    for collection, own in classes.items():
        for name, picture in own.items():
            for split in ("train", "test"):
                write(root / collection / split / name, picture, 2)
    return root / "artworks", root / "gallery"


def test_photos_of_both_collections_are_one_class_and_take_turns(collections):
    folders = gallery.class_folders(*collections, "test")
    assert list(folders) == ["degas", "monet", "photo", "titian", "various"]
    assert [folder.name for folder in folders["photo"]] == ["photo", "photo_people"]
    photos = gallery.Pictures(folders["photo"])
    assert len(photos) == 4 and torch.equal(photos[0], photos[1])  # of the same person


def test_a_collection_without_folders_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no folders of pictures in test"):
        gallery.class_folders(tmp_path, tmp_path / "none", "test")


def test_ranks_count_the_classes_before_one():
    scores = torch.tensor([[0.1, 3.0, 2.0, -1.0]])
    assert [gallery.rank(scores, label) for label in range(4)] == [2, 0, 1, 3]
    assert gallery.shares([0, 2, 3, 0]) == {"top1": 0.5, "top3": 0.75}
    assert gallery.mean([{"a": 1.0}, {"a": 2.0}]) == {"a": 1.5}


def test_classes_are_in_the_group_that_says_what_training_saw():
    groups = [any_painting.group_of(name) for name in ("monet", "degas", "titian")]
    assert groups == ["the four", "known", "kept out"]


def test_every_class_but_photos_and_mixed_ones_is_painted_after(collections, tmp_path, capsys):
    artworks, own = collections
    out, judge = tmp_path / "report.json", tmp_path / "judge.safetensors"
    command = ["--artworks", str(artworks), "--gallery", str(own), "--limit", "2"]
    command += ["--checkpoint", str(CHECKPOINT), "--judge", str(judge), "--out", str(out)]
    assert any_painting.main(command) == 0
    report = json.loads(out.read_text())
    assert list(report["classes"]) == ["degas", "monet", "titian"]
    assert list(report["groups"]) == ["known", "the four", "kept out"]
    for row in report["classes"].values():
        for kind in ("pooled", "moments", "classifier"):
            assert 0 <= row[f"{kind} top1"] <= row[f"{kind} top3"] <= 1
        assert -1 <= row["edges"] <= 1
    assert "five" in report["classes"]["monet"] and "five" not in report["classes"]["degas"]
    groups, classes = report["groups"], report["classes"]
    assert groups["kept out"]["moments top1"] == classes["titian"]["moments top1"]
    assert report["real"]["titian"]["pooled top3"] == 1  # what it was fitted to
    assert judge.is_file() and judge.with_stem("judge-moments").is_file()
    assert "KEPT OUT" in capsys.readouterr().out


def test_a_missing_collection_is_one_line(tmp_path, capsys):
    command = ["--artworks", str(tmp_path), "--gallery", str(tmp_path)]
    assert any_painting.main(command) == 2
    assert capsys.readouterr().err.startswith("error: ")
