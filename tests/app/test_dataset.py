"""Folders of pictures: every kind is converted, what can't be read is named, crops keep scale."""

import random
import shutil

import numpy as np
import pytest
import skimage.data
import torch
from PIL import Image

from app.dataset import SHORT_SIDE, FolderError, PictureFolder, draw_crops


@pytest.fixture
def folder(tmp_path):
    cat = Image.fromarray(skimage.data.chelsea())
    cat.save(tmp_path / "rgb.png")
    cat.convert("L").save(tmp_path / "gray.png")
    cat.convert("P", palette=Image.Palette.ADAPTIVE).save(tmp_path / "palette.gif")
    cat.convert("CMYK").save(tmp_path / "cmyk.jpg")
    clear = cat.copy()
    clear.putalpha(0)
    clear.save(tmp_path / "clear.png")
    (tmp_path / "deeper").mkdir()
    cat.save(tmp_path / "deeper" / "more.jpg")
    return tmp_path


def test_every_kind_of_picture_becomes_rgb_of_one_scale(folder):
    pictures = PictureFolder(folder)
    assert len(pictures) == 6 and not pictures.skipped
    for index in range(6):
        image = pictures.image(index)
        assert image.mode == "RGB" and min(image.size) == SHORT_SIDE


def test_transparency_is_laid_on_white(folder):
    pictures = PictureFolder(folder)
    index = [p.name for p in pictures.paths].index("clear.png")
    assert pictures.tensor(index).min() == 1


def test_a_broken_picture_is_left_out_and_named(folder, capsys):
    (folder / "text.jpg").write_text("not a picture")
    whole = (folder / "cmyk.jpg").read_bytes()
    (folder / "cut.jpg").write_bytes(whole[: len(whole) // 2])
    pictures = PictureFolder(folder)
    assert len(pictures) == 6
    assert sorted(s.split(": ")[0].rsplit("/")[-1] for s in pictures.skipped) == [
        "cut.jpg",
        "text.jpg",
    ]
    error = capsys.readouterr().err
    assert "text.jpg" in error and "cut.jpg" in error


@pytest.mark.parametrize("content", [None, "text"])
def test_a_folder_without_a_readable_picture_is_refused(tmp_path, content):
    if content:
        (tmp_path / "a.jpg").write_text(content)
    with pytest.raises(FolderError, match=tmp_path.name):
        PictureFolder(tmp_path)
    with pytest.raises(FolderError, match="no such folder"):
        PictureFolder(tmp_path / "nowhere")


def test_a_count_is_spread_over_the_folder(tmp_path):
    for i in range(10):
        Image.new("RGB", (8, 8)).save(tmp_path / f"{i}.png")
    names = [p.name for p in PictureFolder(tmp_path, count=5).paths]
    assert names == ["0.png", "2.png", "4.png", "6.png", "8.png"]


def test_crops_have_their_size_and_range_whatever_the_picture(tmp_path):
    Image.new("RGB", (5, 300), (255, 0, 0)).save(tmp_path / "strip.png")
    Image.new("RGB", (1, 1), (255, 0, 0)).save(tmp_path / "dot.png")
    pictures, draw = PictureFolder(tmp_path), random.Random(0)
    for index in (0, 1):
        crop = pictures.crop(pictures.draw_crop(index, 64, draw, 0.8))
        assert crop.shape == (1, 3, 64, 64)
        red = torch.tensor([1.0, -1, -1]).view(1, 3, 1, 1).expand_as(crop)
        torch.testing.assert_close(crop, red)


def test_a_crop_at_full_scale_is_a_piece_of_the_picture(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (256, 300, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "noise.png")
    pictures = PictureFolder(tmp_path)
    crop = pictures.crop(pictures.draw_crop(0, 64, random.Random(1), 1.0))
    # Noise keeps its contrast only where no pixel was averaged with many others.
    assert crop.std() > 0.75 * (pixels / 127.5).std()


def test_the_same_seed_draws_the_same_crops_and_parts_of_them(folder):
    pictures = [PictureFolder(folder)] * 3
    first, second = (draw_crops(pictures, 64, random.Random(5), 0.7) for _ in range(2))
    assert first == second and first[0] != first[1]
    assert draw_crops(pictures, 64, random.Random(5), 0.7, slice(1, None, 2)) == [first[1]]


def test_repeated_pictures_are_counted_once_and_a_quiet_folder_says_nothing(folder, capsys):
    shutil.copy(folder / "rgb.png", folder / "again.png")
    (folder / "text.jpg").write_text("not a picture")
    pictures = PictureFolder(folder, quiet=True)
    assert len(pictures) == 7 and pictures.distinct == 6
    assert capsys.readouterr().err == ""
