"""Treatments on the style network: the columns of a real, tiny size, and what a stop leaves."""

import json

import numpy as np
import pytest
import skimage.data
from PIL import Image

from app import train
from benchmarks import style_treatments
from benchmarks.style_tables import STYLES

TINY = ["--width", "8", "--size", "64", "--batch", "1", "--steps", "2", "--photos", "2"]
SOME = ["as it is", "orthogonal gradients"]


@pytest.fixture(scope="module")
def artworks(tmp_path_factory):
    """train/ and test/ of the five classes, two pieces of one real picture each."""
    root = tmp_path_factory.mktemp("artworks")
    picture = skimage.data.astronaut()
    for split in ("train", "test"):
        for i, name in enumerate((*STYLES, "photo")):
            (root / split / name).mkdir(parents=True)
            for j in range(2):
                piece = np.ascontiguousarray(picture[40 * i : 40 * i + 96, 60 * j : 60 * j + 96])
                Image.fromarray(piece).save(root / split / name / f"{j}.png")
    return root


def test_a_comparison_that_was_stopped_goes_on_to_its_page(artworks, tmp_path, monkeypatch):
    where = ["--artworks", str(artworks), "--work", str(tmp_path / "work")]
    command = [*where, "--out", str(tmp_path / "docs"), *TINY, "--columns", *SOME]
    whole, made = train.main, []

    def stopped(argv: list[str]) -> int:
        made.append(argv)
        return whole(argv) if len(made) == 1 else 130

    monkeypatch.setattr(train, "main", stopped)
    assert style_treatments.main(command) == 130
    monkeypatch.setattr(train, "main", lambda argv: made.append(argv) or whole(argv))
    assert style_treatments.main(command) == 0
    # The finished column is not trained again.
    assert len(made) == 3
    assert [("--orthogonal-gradient" in argv) for argv in made] == [False, True, True]
    report = json.loads((tmp_path / "docs" / "style_treatments.json").read_text())
    assert list(report["found"]) == SOME
    assert len(report["found"][SOME[0]]["conditions"]) == 7
    assert report["records"][SOME[1]]["orthogonal_gradient"] is True
    (tmp_path / "notes.md").write_text("Nothing yet.")
    again = [*command, "--write-only", "--notes", str(tmp_path / "notes.md")]
    assert style_treatments.main(again) == 0 and len(made) == 3
    page = (tmp_path / "docs" / "style_treatments.md").read_text()
    assert "2 steps of 1 crops of 64 px" in page and page.endswith("Nothing yet.\n")


def test_a_folder_of_another_form_is_named(tmp_path, capsys):
    assert style_treatments.main(["--artworks", str(tmp_path)]) == 2
    assert f"{tmp_path}: no train/photo/ in it" in capsys.readouterr().err
