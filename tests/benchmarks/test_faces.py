"""The benchmark of faces: one whole run on a person whom a dependency ships."""

import json

import pytest
import skimage.data
from PIL import Image

from app.shipped import CHECKPOINT
from benchmarks import faces


@pytest.fixture
def data(tmp_path):
    """Folders as in the data: a person among the test photos, a cat among the training photos."""
    for split, picture in (("test", skimage.data.astronaut()), ("train", skimage.data.chelsea())):
        for folder in faces.FOLDERS:
            (tmp_path / folder.format(split)).mkdir(parents=True)
            Image.fromarray(picture).save(tmp_path / folder.format(split) / "someone.png")
    return tmp_path


def test_a_face_is_counted_in_photo_and_painting(data, tmp_path, capsys):
    out = tmp_path / "report.json"
    command = ["--data", str(data), "--checkpoint", str(CHECKPOINT), "--styles", "vangogh"]
    assert faces.main([*command, "--size", "400", "--out", str(out)]) == 0
    report = json.loads(out.read_text())
    assert report["faces"] == {"test": 1}, "a cat's is none"
    assert report["styles"]["vangogh"]["test"] in (0, 1)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "400 px, brush size default" and lines[1].endswith("test (1)")
    assert lines[2].split()[0] == "vangogh" and lines[3].split()[0] == "all"


def test_photos_without_faces_are_one_line(data, capsys):
    assert faces.main(["--data", str(data), "--splits", "train"]) == 2
    assert capsys.readouterr().err == f"error: {data}: no face of 80 px and more\n"
