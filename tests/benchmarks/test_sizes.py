"""The benchmark of the sizes that people make: boxes of faces, views, and one whole small run."""

import json

import pytest
import skimage.data
import torch
from PIL import Image

from app import images
from app.shipped import CHECKPOINT
from benchmarks import sizes


def test_a_face_is_the_same_where_most_of_both_boxes_is():
    face = (10, 10, 100, 100)
    assert sizes.overlap(face, face) == 1
    assert sizes.overlap(face, (10, 60, 100, 100)) == pytest.approx(1 / 3)
    assert sizes.overlap(face, (200, 10, 100, 100)) == 0
    assert sizes.refound([face, (300, 0, 90, 90)], [(20, 15, 100, 100), (0, 300, 90, 90)]) == 1


def test_a_face_of_80_pixels_is_found_and_a_smaller_one_does_not_count():
    person = images.to_tensor(skimage.data.astronaut())
    (face,) = sizes.faces(person)
    assert face[0] < 224 < face[0] + face[2] and face[1] < 110 < face[1] + face[3]
    assert sizes.faces(person[..., ::4, ::4]) == []


def test_of_a_photo_only_what_two_cascades_find_is_a_face(monkeypatch):
    person = images.to_tensor(skimage.data.astronaut())
    assert sizes.agreed_faces(person) == sizes.faces(person)
    face, post = (10, 10, 100, 100), (300, 300, 90, 90)
    found = {sizes.CASCADE: [face, post], sizes.SECOND: [(20, 20, 80, 80), (600, 0, 90, 90)]}
    monkeypatch.setattr(sizes, "faces", lambda _, cascade=sizes.CASCADE, *more: found[cascade])
    assert sizes.agreed_faces(person) == [face]


def test_views_are_of_256_pixels():
    picture = torch.rand(1, 3, 300, 500) * 2 - 1
    assert sizes.whole(picture).shape == (1, 3, 256, 427)
    near = sizes.middle(picture)
    assert torch.equal(near, picture[..., 22:278, 122:378])


def test_styles_are_painted_at_every_size_and_stroke_size(tmp_path, capsys):
    (tmp_path / "people").mkdir()
    Image.fromarray(skimage.data.astronaut()).save(tmp_path / "people" / "person.png")
    out = tmp_path / "report.json"
    command = ["--photos", str(tmp_path), "--checkpoint", str(CHECKPOINT), "--styles", "monet"]
    command += ["--sizes", "200", "400", "--brush-sizes", "default", "2", "--out", str(out)]
    assert sizes.main(command) == 0
    report = json.loads(out.read_text())
    assert list(report["sizes"]) == ["200", "400"]
    for brushes in report["sizes"].values():
        assert list(brushes) == ["default", "2"]
        for rows in brushes.values():
            row = rows["monet"]
            assert rows["all"] == row and row["whole"] in (0, 1) and row["crop"] in (0, 1)
            assert 0 <= row["faces_kept"] <= row["faces_in_photos"]
    assert report["sizes"]["400"]["default"]["monet"]["faces_in_photos"] == 1
    assert report["sizes"]["200"]["default"]["monet"]["faces_in_photos"] == 0
    assert "400 px, brush size 2" in capsys.readouterr().out


def test_a_folder_without_photos_is_one_line(tmp_path, capsys):
    assert sizes.main(["--photos", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"error: {tmp_path}: no photos\n"
