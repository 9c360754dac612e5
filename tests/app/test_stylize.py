"""The batch command line: what it paints, what it refuses, and what its exit codes say."""

import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import skimage.data
import torch
from PIL import Image

from app import batch, images, stylize
from app.look import Look
from app.painter import Painter, Region
from models import precision, whole_file
from tests.patience import PATIENCE

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def run(checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture):
    """Runs the command line on the tiny network; gives its exit code, stdout and stderr."""

    def command(*arguments: object, style: str = "dots", out: object = tmp_path / "out"):
        # The last of two equal options counts: a test's own ones come after these.
        argv = ["--checkpoint", checkpoint, "--device", "cpu", "--style", style, "--out", out]
        argv = [*map(str, argv), *map(str, arguments)]
        try:
            code = stylize.main(argv)
        except SystemExit as stop:
            code = stop.code
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return command


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """A folder with cat.jpg, cup.png, a text file and a subfolder with pilot.webp."""
    folder = tmp_path / "photos"
    (folder / "more").mkdir(parents=True)
    Image.fromarray(skimage.data.chelsea()[:40, :60]).save(folder / "cat.jpg")
    Image.fromarray(skimage.data.coffee()[:30, :50]).save(folder / "cup.png")
    Image.fromarray(skimage.data.astronaut()[:50, :40]).save(folder / "more" / "pilot.webp")
    (folder / "read me.txt").write_text("no picture")
    return folder


def written(folder: Path) -> list[str]:
    """Every file under a folder, leftovers included, but for the manifest of what was made."""
    files = [p for p in folder.rglob("*") if p.is_file() and p.name != batch.MANIFEST]
    return sorted(str(p.relative_to(folder)) for p in files)


def save(path: Path, pixels: np.ndarray, **options) -> Path:
    Image.fromarray(pixels).save(path, **options)
    return path


# --- What is painted and where it goes ------------------------------------------------------


def test_a_photo_becomes_a_painting_of_its_size_and_format(run, photos, tmp_path):
    code, _, err = run(photos / "cat.jpg")
    assert code == 0
    assert err.splitlines()[-1].startswith("1 painted")
    assert written(tmp_path / "out") == ["cat.jpg"]
    painted = images.load(tmp_path / "out" / "cat.jpg").rgb
    assert painted.shape == (40, 60, 3)
    assert not np.array_equal(painted, images.load(photos / "cat.jpg").rgb)


def test_of_a_folder_the_pictures_are_painted_and_other_files_passed_over(run, photos, tmp_path):
    code, _, err = run(photos)
    assert code == 0
    assert "read me" not in err
    assert written(tmp_path / "out") == ["cat.jpg", "cup.png"]


def test_recursive_mirrors_the_subfolders(run, photos, tmp_path):
    assert run(photos, "--recursive")[0] == 0
    assert written(tmp_path / "out") == ["cat.jpg", "cup.png", os.path.join("more", "pilot.webp")]


def test_a_glob_that_no_shell_expanded_is_expanded(run, photos, tmp_path):
    assert run(photos / "c*")[0] == 0
    assert written(tmp_path / "out") == ["cat.jpg", "cup.png"]


def test_a_name_with_brackets_is_a_file_where_there_is_one(run, tmp_path):
    save(tmp_path / "cat[1].png", skimage.data.chelsea()[:16, :16])
    assert run(tmp_path / "cat[1].png")[0] == 0
    assert written(tmp_path / "out") == ["cat[1].png"]


def test_a_photo_named_twice_is_painted_once(run, photos, tmp_path):
    _, out, _ = run(photos, photos / "cat.jpg", "--json")
    assert len(out.splitlines()) == 2


def test_results_inside_the_input_folder_are_not_read_as_photos(run, photos):
    out = photos / "painted"
    assert run(photos, "--recursive", out=out)[0] == 0
    first = written(out)
    assert run(photos, "--recursive", "--overwrite", out=out)[0] == 0
    assert written(out) == first == ["cat.jpg", "cup.png", os.path.join("more", "pilot.webp")]


@pytest.mark.parametrize("format", ["png", "jpg", "webp"])
def test_format_is_the_one_asked_for(run, photos, tmp_path, format):
    assert run(photos / "cup.png", "--format", format)[0] == 0
    with Image.open(tmp_path / "out" / f"cup.{format}") as result:
        assert result.format == {"png": "PNG", "jpg": "JPEG", "webp": "WEBP"}[format]


@pytest.mark.parametrize(
    ("name", "result"), [("a.JPEG", "a.jpg"), ("a.jfif", "a.jpg"), ("a.tif", "a.png")]
)
def test_the_default_format_is_the_photos_own_or_else_png(run, tmp_path, name, result):
    format = "TIFF" if name.endswith("tif") else "JPEG"
    save(tmp_path / name, skimage.data.chelsea()[:16, :16], format=format)
    assert run(tmp_path / name)[0] == 0
    assert written(tmp_path / "out") == [result]


def test_strength_0_gives_back_the_photo_pixel_for_pixel(run, photos, tmp_path):
    assert run(photos / "cat.jpg", "--strength", 0, "--format", "png")[0] == 0
    result = images.load(tmp_path / "out" / "cat.png").rgb
    assert np.array_equal(result, images.load(photos / "cat.jpg").rgb)


def test_max_size_bounds_the_longest_side(run, photos, tmp_path):
    assert run(photos / "cat.jpg", "--max-size", 30)[0] == 0
    assert images.load(tmp_path / "out" / "cat.jpg").rgb.shape == (20, 30, 3)


def test_a_painting_of_ones_own_is_a_style(run, photos, tmp_path):
    assert run(photos / "cat.jpg", style=str(photos / "cup.png"))[0] == 0
    assert written(tmp_path / "out") == ["cat.jpg"]


def test_an_existing_result_is_skipped_and_said_so(run, photos, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "cat.jpg").write_bytes(b"mine")
    code, out, err = run(photos, "--json")
    assert code == 0
    assert (tmp_path / "out" / "cat.jpg").read_bytes() == b"mine"
    assert "cat.jpg: skipped" in err
    assert "--overwrite" in err
    assert err.splitlines()[-1].startswith("1 painted, 1 skipped")
    assert [json.loads(line)["status"] for line in out.splitlines()] == ["skipped", "done"]


def test_overwrite_replaces_an_existing_result(run, photos, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "cat.jpg").write_bytes(b"mine")
    assert run(photos / "cat.jpg", "--overwrite")[0] == 0
    assert images.load(tmp_path / "out" / "cat.jpg").rgb.shape == (40, 60, 3)


def test_json_prints_one_object_a_picture(run, photos, tmp_path):
    missing = tmp_path / "gone.jpg"
    code, out, _ = run(photos / "cat.jpg", missing, "--json")
    assert code == 1
    done, failed = [json.loads(line) for line in out.splitlines()]
    assert done["input"] == str(photos / "cat.jpg")
    assert done["output"] == str(tmp_path / "out" / "cat.jpg")
    assert (done["status"], done["reason"]) == ("done", None)
    assert (done["width"], done["height"]) == (60, 40)
    assert done["seconds"] > 0
    assert failed["input"] == str(missing)
    assert (failed["status"], failed["reason"]) == ("failed", "no such file")
    assert failed["output"] is failed["width"] is failed["height"] is None


def test_without_json_stdout_stays_empty(run, photos):
    assert run(photos)[1] == ""


def test_photos_are_listed_in_a_file_and_mirrored(run, photos, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = ["photos/cat.jpg", "", "photos/more/pilot.webp", "photos/gone.jpg"]
    (tmp_path / "list.txt").write_text("\r\n".join(names))
    code, _, err = run("--from-file", "list.txt", "--recursive")
    assert code == 1
    assert err.splitlines()[0] == "photos/gone.jpg: failed: no such file"
    assert written(tmp_path / "out") == [
        os.path.join("photos", "cat.jpg"),
        os.path.join("photos", "more", "pilot.webp"),
    ]


def test_photos_are_listed_on_standard_input(run, photos, tmp_path, monkeypatch):
    two_lines = photos / "two\nlines.png"
    save(two_lines, skimage.data.chelsea()[:16, :16])
    names = b"\0".join(os.fsencode(path) for path in (photos / "cup.png", two_lines)) + b"\0"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(names)))
    assert run("--from-file", "-")[0] == 0
    assert written(tmp_path / "out") == ["cup.png", "two\nlines.png"]


def test_max_pixels_refuses_and_lifts(run, photos, tmp_path):
    code, _, err = run(photos / "cat.jpg", "--max-pixels", 2399)
    assert code == 1
    assert "has 60 x 40 pixels" in err
    assert "--max-pixels reads larger ones" in err
    assert run(photos / "cat.jpg", "--max-pixels", 2400)[0] == 0


def test_exif_is_kept_and_stripped(run, tmp_path):
    block = Image.Exif()
    block.update({0x0110: "Mark II", 0x0132: "1833:06:05 10:00:00"})
    block[0x8825] = {1: "N", 2: (51.0, 30.0, 0.0)}
    save(tmp_path / "phone.jpg", skimage.data.chelsea()[:40, :60], exif=block)
    kept = []
    for options in ((), ("--strip", "--overwrite")):
        assert run(tmp_path / "phone.jpg", *options)[0] == 0
        with Image.open(tmp_path / "out" / "phone.jpg") as result:
            kept.append(set(result.getexif()))
    assert kept == [{0x0110, 0x0132, 0x8825}, {0x0110}]


def test_a_mask_keeps_the_photo_where_it_is_black(run, photos, tmp_path):
    mask = np.zeros((20, 30), np.uint8)
    mask[:, 15:] = 255
    save(tmp_path / "mask.png", mask)
    assert run(photos / "cup.png", "--mask", tmp_path / "mask.png")[0] == 0
    photo, result = images.load(photos / "cup.png"), images.load(tmp_path / "out" / "cup.png")
    assert np.array_equal(result.rgb[:, :20], photo.rgb[:, :20])
    assert np.abs(result.rgb[:, 30:].astype(int) - photo.rgb[:, 30:]).mean() > 5


def test_each_mask_has_a_style_of_its_own(run, photos, tmp_path, checkpoint):
    left = np.zeros((30, 50), np.uint8)
    left[:, :25] = 255
    masks = [save(tmp_path / "left.png", left), save(tmp_path / "right.png", 255 - left)]
    pairs = ("--mask", masks[0], "--style", "stripes", "--mask", masks[1])
    assert run(photos / "cup.png", *pairs)[0] == 0
    painter = Painter(checkpoint, "cpu")
    regions = [
        Region(painter.style("dots"), left),
        Region(painter.style("stripes"), 255 - left),
    ]
    wanted = painter.paint(images.load(photos / "cup.png"), regions)
    assert np.array_equal(images.load(tmp_path / "out" / "cup.png").rgb, wanted.rgb)


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (("--blend", "stripes=0.3"), [("dots", 0.7), ("stripes", 0.3)]),
        (
            ("--blend", "stripes=0.25", "--blend", "stripes:2=0.25"),
            [("dots", 0.5), ("stripes", 0.25), ("stripes:2", 0.25)],
        ),
    ],
)
def test_a_blend_shares_the_weight_with_the_style(
    run, photos, tmp_path, checkpoint, options, parts
):
    assert run(photos / "cup.png", *options)[0] == 0
    painter = Painter(checkpoint, "cpu")
    wanted = painter.paint(images.load(photos / "cup.png"), painter.blend(parts))
    result = images.load(tmp_path / "out" / "cup.png").rgb
    assert np.abs(result.astype(int) - wanted.rgb).max() <= 1


def test_a_blend_without_a_style_is_its_parts(run, photos, tmp_path, checkpoint, capsys):
    command = [photos / "cup.png", "--checkpoint", checkpoint, "--out", tmp_path / "out"]
    command += ["--blend", "dots=3", "--blend", "stripes=1", "--device", "cpu"]
    assert stylize.main([str(word) for word in command]) == 0
    painter = Painter(checkpoint, "cpu")
    code = painter.blend([("dots", 3), ("stripes", 1)])
    wanted = painter.paint(images.load(photos / "cup.png"), code)
    assert np.array_equal(images.load(tmp_path / "out" / "cup.png").rgb, wanted.rgb)


@pytest.mark.parametrize("together", [(), ("--batch", "2")])
@pytest.mark.parametrize("control", ["brushwork", "simplify", "outlines", "tint", "tone"])
def test_more_than_suits_a_style_reaches_the_painter(tmp_path, checkpoint, control, together):
    (tmp_path / "in").mkdir()
    for name in ("one.png", "two.png"):  # a plain sky for the one, a cat's hair for the other
        sky, cat = skimage.data.rocket()[:60, 240:320], skimage.data.chelsea()[60:140, 100:220]
        save(tmp_path / "in" / name, sky if control == "brushwork" else cat)
    command = [tmp_path / "in", "--checkpoint", checkpoint, "--out", tmp_path / "out"]
    command += ["--style", "stripes", f"--{control}", 3, "--device", "cpu", *together]
    assert stylize.main([str(word) for word in command]) == 0
    painter = Painter(checkpoint, "cpu")
    photo, style = images.load(tmp_path / "in" / "one.png"), painter.style("stripes")
    painted = images.load(tmp_path / "out" / "one.png").rgb.astype(int)
    wanted, usual = (
        painter.paint(photo, style, Look(**{control: amount})).rgb for amount in (3, 1)
    )
    assert np.abs(painted - wanted).max() <= 1
    assert np.abs(painted - wanted).mean() < 0.1 * np.abs(painted - usual).mean()


@pytest.mark.parametrize("together", [(), ("--batch", "2")])
def test_the_brush_s_size_reaches_the_painter(tmp_path, checkpoint, together):
    (tmp_path / "in").mkdir()
    for name in ("one.png", "two.png"):
        save(tmp_path / "in" / name, skimage.data.chelsea()[60:140, 100:220])
    command = [tmp_path / "in", "--checkpoint", checkpoint, "--out", tmp_path / "out"]
    command += ["--style", "stripes", "--brush-size", 2, "--device", "cpu", *together]
    assert stylize.main([str(word) for word in command]) == 0
    painter = Painter(checkpoint, "cpu")
    wanted = painter.paint(
        images.load(tmp_path / "in" / "one.png"), painter.style("stripes"), Look(brush_size=2)
    )
    painted = images.load(tmp_path / "out" / "one.png").rgb.astype(int)
    assert np.abs(painted - wanted.rgb).max() <= 1


@pytest.mark.parametrize("way", ["luminance", "matched", None])
def test_keep_color_and_tile_reach_the_painter(run, photos, tmp_path, checkpoint, way):
    options = ("--tile", 16, "--keep-color", *([way] if way else []))
    assert run(photos / "cup.png", *options)[0] == 0
    painter = Painter(checkpoint, "cpu")
    photo, style = images.load(photos / "cup.png"), painter.style("dots")
    wanted = painter.paint(photo, style, Look(keep_color=way or "luminance"), tile=16)
    assert np.array_equal(images.load(tmp_path / "out" / "cup.png").rgb, wanted.rgb)


@pytest.mark.parametrize("options", [(), ("--keep-color", "matched", "--strength", 0.6)])
def test_pictures_painted_together_are_those_painted_alone(run, tmp_path, monkeypatch, options):
    folder = tmp_path / "album"
    folder.mkdir()
    for i in range(5):
        side = 40 if i % 2 else 44
        save(folder / f"{i}.png", skimage.data.chelsea()[20 * i : 20 * i + 40, :side])
    assert run(folder, *options, out=tmp_path / "alone")[0] == 0
    groups = []
    paint = Painter.paint_together
    monkeypatch.setattr(
        Painter,
        "paint_together",
        lambda own, several, *how: groups.append(several) or paint(own, several, *how),
    )
    assert run(folder, *options, "--batch", 4, out=tmp_path / "together")[0] == 0
    assert sorted(map(len, groups)) == [2, 3]
    assert written(tmp_path / "together") == written(tmp_path / "alone")
    for name in written(tmp_path / "alone"):
        alone, together = (
            images.load(tmp_path / out / name).rgb.astype(int) for out in ("alone", "together")
        )
        assert np.abs(alone - together).max() <= 1


def test_resume_goes_by_what_decides_a_result(run, photos, tmp_path):
    def painted(*options: object, style: str = "dots") -> str:
        return run(photos, "--resume", *options, style=style)[2].splitlines()[-1].split(" in ")[0]

    own = save(tmp_path / "own.png", skimage.data.coffee()[:40, :40])
    assert painted() == "2 painted"
    assert painted() == "0 painted, 2 done before"
    assert painted("--json", "--jobs", 2) == "0 painted, 2 done before"
    assert painted("--strength", 0.5) == "2 painted"
    assert painted(style=str(own)) == "2 painted"
    assert painted(style=str(own)) == "0 painted, 2 done before"
    save(tmp_path / "own.png", skimage.data.chelsea()[:40, :40])
    assert painted(style=str(own)) == "2 painted"


# --- Bad pictures ---------------------------------------------------------------------------


def missing(path: Path) -> None:
    pass


def empty(path: Path) -> None:
    path.touch()


def text(path: Path) -> None:
    path.write_text("Dear diary,\n" * 50)


def truncated(path: Path) -> None:
    save(path, skimage.data.chelsea()[:64, :64])
    path.write_bytes(path.read_bytes()[:-400])


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (missing, "no such file"),
        (empty, "is empty (0 bytes)"),
        (text, "is not a picture in a format that can be read"),
        (truncated, "is cut short: the file ends before the picture does"),
    ],
)
def test_a_bad_file_gets_one_line_and_the_rest_goes_on(run, photos, tmp_path, make, reason):
    bad = tmp_path / "bad.jpg"
    make(bad)
    code, _, err = run(bad, photos / "cat.jpg")
    assert code == 1
    lines = err.splitlines()
    assert lines[:1] == [f"{bad}: failed: {reason}"]
    assert lines[1].startswith("1 painted, 1 failed")
    assert len(lines) == 2
    assert written(tmp_path / "out") == ["cat.jpg"]


@pytest.mark.parametrize("size", [(1, 1), (1, 4000)])
def test_a_picture_of_one_pixel_and_a_strip_keep_their_size(run, tmp_path, size):
    width, height = size
    save(tmp_path / "odd.png", np.full((height, width, 3), 90, np.uint8))
    assert run(tmp_path / "odd.png")[0] == 0
    assert images.load(tmp_path / "out" / "odd.png").rgb.shape == (height, width, 3)


def test_an_all_black_picture_is_painted(run, tmp_path):
    save(tmp_path / "night.png", np.zeros((40, 40, 3), np.uint8))
    assert run(tmp_path / "night.png")[0] == 0
    assert images.load(tmp_path / "out" / "night.png").rgb.shape == (40, 40, 3)


def test_16_bit_gray_is_painted_like_its_8_bit_twin(run, tmp_path):
    levels = skimage.data.chelsea()[:40, :40, 1]
    save(tmp_path / "eight.png", levels)
    save(tmp_path / "sixteen.png", levels.astype(np.uint16) * 257)
    assert run(tmp_path / "eight.png", tmp_path / "sixteen.png")[0] == 0
    eight, sixteen = (
        images.load(tmp_path / "out" / name).rgb for name in ("eight.png", "sixteen.png")
    )
    assert np.array_equal(eight, sixteen)


def test_a_cmyk_jpeg_comes_back_in_its_colors(run, tmp_path):
    photo = skimage.data.astronaut()[:64, :64]
    Image.fromarray(photo).convert("CMYK").save(tmp_path / "print.jpg", quality=95)
    assert run(tmp_path / "print.jpg", "--strength", 0)[0] == 0
    result = images.load(tmp_path / "out" / "print.jpg").rgb
    assert np.abs(result.astype(int) - photo).mean() < 8


def test_the_first_frame_of_an_animated_gif_is_painted_and_said_so(run, tmp_path):
    frames = [Image.new("RGB", (20, 10), color) for color in ("red", "blue")]
    frames[0].save(tmp_path / "moving.gif", save_all=True, append_images=frames[1:])
    code, _, err = run(tmp_path / "moving.gif", "--strength", 0)
    assert code == 0
    assert f"{tmp_path / 'moving.gif'}: only the first of its 2 frames is used" in err
    result = images.load(tmp_path / "out" / "moving.png").rgb
    assert np.array_equal(result, np.broadcast_to((255, 0, 0), (10, 20, 3)))


def test_transparency_is_kept(run, tmp_path):
    rgba = np.dstack(
        [skimage.data.chelsea()[:40, :60], np.tile(np.arange(60, dtype=np.uint8), (40, 1))]
    )
    save(tmp_path / "cut.png", rgba)
    assert run(tmp_path / "cut.png")[0] == 0
    assert np.array_equal(images.load(tmp_path / "out" / "cut.png").alpha, rgba[..., 3])


def test_transparency_that_jpg_cannot_keep_is_said(run, tmp_path):
    save(tmp_path / "cut.png", np.full((20, 20, 4), 100, np.uint8))
    code, out, err = run(tmp_path / "cut.png", "--format", "jpg", "--json")
    assert code == 0
    assert "cut.png: its transparency was laid on white" in err
    assert "transparency" in json.loads(out)["notes"][0]


def test_exif_orientation_6_comes_out_upright(run, tmp_path):
    upright = skimage.data.astronaut()[:64, :96]
    exif = Image.Exif()
    exif[0x0112] = 6
    save(tmp_path / "phone.jpg", np.rot90(upright, 1), exif=exif, quality=95)
    assert run(tmp_path / "phone.jpg", "--strength", 0)[0] == 0
    with Image.open(tmp_path / "out" / "phone.jpg") as result:
        assert result.getexif().get(0x0112, 1) == 1
        pixels = np.asarray(result)
    assert pixels.shape == upright.shape
    assert np.abs(pixels.astype(int) - upright).mean() < 8


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (MemoryError(), "not enough memory for its size; --max-size makes it smaller"),
        (torch.OutOfMemoryError("CUDA out of memory"), "not enough memory for its size"),
        (
            RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: 9 bytes"),
            "not enough memory for its size",
        ),
        (RuntimeError("the solver\ndid not converge"), "RuntimeError: the solver"),
    ],
)
def test_an_unexpected_error_fails_one_picture(run, photos, tmp_path, monkeypatch, error, reason):
    paint = Painter.paint

    def fails_on_the_cat(self, picture, *rest, **options):
        if picture.name.endswith("cat.jpg"):
            raise error
        return paint(self, picture, *rest, **options)

    monkeypatch.setattr(Painter, "paint", fails_on_the_cat)
    code, _, err = run(photos)
    assert code == 1
    assert err.splitlines()[0].startswith(f"{photos / 'cat.jpg'}: failed: {reason}")
    assert len(err.splitlines()) == 2
    assert written(tmp_path / "out") == ["cup.png"]


def test_a_full_disk_leaves_no_half_written_file(run, photos, tmp_path, monkeypatch):
    def full_disk(self, file, *_, **__):
        file.write(b"half a pict")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Image.Image, "save", full_disk)
    code, _, err = run(photos / "cat.jpg")
    assert code == 1
    assert f"{tmp_path / 'out' / 'cat.jpg'}: cannot be written: No space left on device" in err
    assert written(tmp_path / "out") == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_lets_the_picture_in_hand_be_finished(
    run, photos, tmp_path, monkeypatch, number, code
):
    paint = Painter.paint

    def interrupted(self, picture, *rest, **options):
        signal.raise_signal(number)
        return paint(self, picture, *rest, **options)

    monkeypatch.setattr(Painter, "paint", interrupted)
    before = signal.getsignal(number)
    stopped, _, err = run(photos)
    assert stopped == code
    assert signal.getsignal(number) is before
    last = "interrupted: 1 painted, 1 left; the same command with --resume does the rest"
    assert err.splitlines() == [last]
    assert written(tmp_path / "out") == ["cat.jpg"]
    monkeypatch.undo()
    assert run(photos, "--resume")[0] == 0
    assert written(tmp_path / "out") == ["cat.jpg", "cup.png"]


def test_a_second_ctrl_c_stops_at_once_and_leaves_no_half_written_file(
    run, photos, tmp_path, monkeypatch
):
    def interrupted_twice(self, picture, *rest, **options):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        pytest.fail("went on painting")

    monkeypatch.setattr(Painter, "paint", interrupted_twice)
    code, _, err = run(photos)
    assert code == 130
    assert err.splitlines()[-1].startswith("interrupted: 0 painted, 2 left")
    assert written(tmp_path / "out") == []


def test_several_painters_paint_what_one_does_and_leave_the_cores_as_they_were(run, tmp_path):
    (tmp_path / "cats").mkdir()
    for i in range(5):
        save(tmp_path / "cats" / f"{i}.png", skimage.data.chelsea()[20 * i : 20 * i + 60, :90])
    cores = torch.get_num_threads()
    for jobs in (1, 3):
        assert run(tmp_path / "cats", "--jobs", jobs, out=tmp_path / str(jobs))[0] == 0
        assert torch.get_num_threads() == cores
    assert written(tmp_path / "1") == written(tmp_path / "3") == [f"{i}.png" for i in range(5)]
    for name in written(tmp_path / "1"):
        one, other = (images.load(tmp_path / o / name).rgb.astype(int) for o in ("1", "3"))
        assert np.abs(one - other).max() <= 1  # sums in another order


def test_a_second_ctrl_c_stops_several_painters_at_their_next_hop(
    run, photos, tmp_path, monkeypatch
):
    paint, ended = Painter.paint, []

    def interrupted_twice(self, picture, *rest, progress, **options):
        main = threading.main_thread().ident
        for _ in range(10 * PATIENCE):
            signal.pthread_kill(main, signal.SIGINT)
            time.sleep(0.1)
            try:
                progress(0.5)
            except Exception:
                ended.append(picture.name)
                raise
        return paint(self, picture, *rest, **options)

    monkeypatch.setattr(Painter, "paint", interrupted_twice)
    code, _, err = run(photos, "--jobs", 2)
    assert code == 130
    assert "interrupted: 0 painted, 2 left" in err
    for _ in range(10 * PATIENCE):
        if ended:
            break
        time.sleep(0.1)
    assert ended and written(tmp_path / "out") == []


# --- Wrong command lines --------------------------------------------------------------------


def refused(result: tuple[int, str, str], out: Path) -> str:
    """The message of a command line that is wrong, and before which nothing was painted."""
    code, stdout, err = result
    assert code == 2
    assert stdout == ""
    assert "Traceback" not in err
    assert not out.exists() or written(out) == []
    return err.splitlines()[-1]


@pytest.mark.parametrize("option", ["--simplify", "--tone", "--faces"])
@pytest.mark.parametrize("number", ["-0.1", "3.1", "nan", "bold"])
def test_a_number_outside_0_to_3(run, photos, tmp_path, option, number):
    message = refused(run(photos, f"{option}={number}"), tmp_path / "out")
    assert message.endswith(f"{option}: must be a number from 0 to 3, got '{number}'")


@pytest.mark.parametrize("strength", ["-0.1", "1.01", "nan", "inf", "much"])
def test_a_strength_outside_0_to_1(run, photos, tmp_path, strength):
    message = refused(run(photos, f"--strength={strength}"), tmp_path / "out")
    assert message.endswith(f"--strength: must be a number from 0 to 1, got '{strength}'")


@pytest.mark.parametrize("size", ["0", "-5", "2.5", "big"])
def test_a_max_size_that_is_no_number_of_pixels(run, photos, tmp_path, size):
    assert f"got '{size}'" in refused(run(photos, f"--max-size={size}"), tmp_path / "out")


def test_an_unknown_style(run, photos, tmp_path):
    message = refused(run(photos, style="stripe"), tmp_path / "out")
    assert "dots, stripes" in message
    assert "did you mean 'stripes'?" in message


def test_an_unreadable_style_picture(run, photos, tmp_path):
    message = refused(run(photos, style=str(photos / "read me.txt")), tmp_path / "out")
    assert message.endswith("read me.txt: is not a picture in a format that can be read")


def test_a_missing_checkpoint(run, photos, tmp_path):
    gone = tmp_path / "gone.safetensors"
    assert str(gone) in refused(run(photos, "--checkpoint", gone), tmp_path / "out")


def test_a_checkpoint_that_is_none(run, photos, tmp_path):
    message = refused(run(photos, "--checkpoint", photos / "read me.txt"), tmp_path / "out")
    assert "read me.txt" in message


def test_no_out_folder(photos, checkpoint, capsys):
    with pytest.raises(SystemExit) as stop:
        stylize.main([str(photos), "--style", "dots", "--checkpoint", str(checkpoint)])
    assert stop.value.code == 2
    assert "--out" in capsys.readouterr().err


def test_an_empty_name(run, photos, tmp_path):
    assert "empty name" in refused(run(""), tmp_path / "out")
    assert "must name a folder" in refused(run(photos, out=""), tmp_path / "out")


@pytest.mark.parametrize("out", ["taken", "taken/below/it"])
def test_an_out_folder_that_is_a_file_or_below_one(run, photos, tmp_path, out):
    (tmp_path / "taken").write_text("a file")
    code, _, err = run(photos, out=tmp_path / out)
    assert code == 2
    assert f"--out {tmp_path / out}: cannot be written to: Not a directory" in err


@pytest.mark.parametrize(
    "reason", ["No space left on device", "Read-only file system", "Permission denied"]
)
def test_an_out_folder_that_nothing_can_be_written_to(run, photos, tmp_path, monkeypatch, reason):
    def fill(*_):
        raise OSError(28, reason)

    monkeypatch.setattr(whole_file, "_fill", fill)
    monkeypatch.setattr(Painter, "paint", lambda *_, **__: pytest.fail("was painted first"))
    assert refused(run(photos), tmp_path / "out").endswith(f"cannot be written to: {reason}")


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to(path.name)])
def test_an_out_folder_whose_notes_are_no_file(run, photos, tmp_path, make):
    (tmp_path / "out").mkdir()
    make(tmp_path / "out" / batch.MANIFEST)
    code, _, err = run(photos, "--resume")
    assert code == 2
    assert f"--out {tmp_path / 'out'}: cannot be written to: .repaint.jsonl in it is no file" in err


def test_a_folder_without_a_picture(run, tmp_path):
    (tmp_path / "bare" / "sub").mkdir(parents=True)
    message = refused(run(tmp_path / "bare"), tmp_path / "out")
    assert "bare: no picture in this folder" in message
    assert "--recursive" in message


def test_a_glob_that_matches_no_picture(run, photos, tmp_path):
    message = refused(run(photos / "*.tx?"), tmp_path / "out")
    assert message.endswith("*.tx?: matches no picture")


def test_two_photos_of_one_name_are_painted_and_resumed_under_longer_ones(run, photos, tmp_path):
    save(photos / "cat.png", skimage.data.chelsea()[:16, :16])
    code, _, err = run(photos, "--format", "png")
    assert code == 0
    assert "cat.jpg: its result is named cat.jpg.png" in err
    assert written(tmp_path / "out") == ["cat.jpg.png", "cat.png.png", "cup.png"]
    again = run(photos, "--format", "png", "--resume")[2].splitlines()[-1]
    assert again.startswith("0 painted, 3 done before")


def test_a_photo_is_never_written_over(run, photos):
    before = (photos / "cat.jpg").read_bytes()
    code, _, err = run(photos, "--overwrite", out=photos)
    assert code == 2
    assert f"{photos / 'cat.jpg'} would be written over" in err
    assert (photos / "cat.jpg").read_bytes() == before


def test_a_device_that_is_not_there(run, photos, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    message = refused(run(photos, "--device", "cuda"), tmp_path / "out")
    assert message.endswith("device 'cuda' is not available on this machine")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ((), "no photo is named"),
        (("{cat}", "--style", "stripes"), "several --style need a --mask each"),
        (("{cat}", "--mask", "{cat}", "--mask", "{cat}"), "every --mask needs a --style"),
        (("{cat}", "--mask", "{cat}", "--blend", "dots=1"), "every --mask needs a --style"),
        (("{cat}", "--mask", "gone.png"), "gone.png: no such file"),
        (("{cat}", "--blend", "stripes=1"), "leave nothing to --style dots"),
        (("{cat}", "--blend", "stripes"), "NAME|IMAGE=WEIGHT"),
        (("{cat}", "--blend", "stripes=-1"), "NAME|IMAGE=WEIGHT"),
        (("{cat}", "--blend", "strips=0.5"), "did you mean 'stripes'?"),
        (("{cat}", "--keep-color", "hue"), "luminance"),
        (("{cat}", "--tile", "0"), "--tile: must be a whole number above 0"),
        (("{cat}", "--jobs", "0"), "--jobs: must be a whole number above 0"),
        (("--from-file", "gone.txt"), "gone.txt: cannot be read"),
        (("--from-file", os.devnull), "no name in it"),
    ],
)
def test_options_that_do_not_go_together(run, photos, tmp_path, options, reason):
    options = [option.format(cat=photos / "cat.jpg") for option in options]
    assert reason in refused(run(*options), tmp_path / "out")


def test_no_style(photos, checkpoint, tmp_path, capsys):
    command = [photos, "--checkpoint", checkpoint, "--out", tmp_path / "out", "--device", "cpu"]
    assert stylize.main([str(word) for word in command]) == 2
    assert "--style or --blend" in capsys.readouterr().err


# --- As a program ---------------------------------------------------------------------------


def program(*arguments: object) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "app.stylize", *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )


def test_the_programs_exit_code_is_1_when_a_picture_failed(photos, checkpoint, tmp_path):
    bad = tmp_path / "bad.jpg"
    bad.write_text("no picture")
    out = tmp_path / "out"
    options = ("--style", "dots", "--checkpoint", checkpoint, "--out", out, "--json")
    result = program(bad, photos / "cup.png", *options)
    assert result.returncode == 1
    assert [json.loads(line)["status"] for line in result.stdout.splitlines()] == ["failed", "done"]
    assert result.stderr.splitlines()[0].startswith(f"{bad}: failed: ")
    assert written(out) == ["cup.png"]


def test_bfloat16_paints_nearly_the_same_and_nothing_at_strength_0(run, photos, tmp_path):
    cup = photos / "cup.png"
    made = {}
    for name in ("float32", "bfloat16"):
        out = tmp_path / name
        assert run(cup, "--precision", name, out=out)[0] == 0
        made[name] = images.load(out / "cup.png").rgb.astype(int)
    change = np.abs(made["bfloat16"] - made["float32"])
    assert 0 < change.mean() < 8  # the tiny network's random weights calm nothing
    out = tmp_path / "none"
    assert run(cup, "--precision", "bfloat16", "--strength", 0, out=out)[0] == 0
    assert np.array_equal(images.load(out / "cup.png").rgb, images.load(cup).rgb)


def test_what_was_taken_and_why_is_said_where_asked_for(run, photos):
    _, _, err = run(photos / "cup.png", "--precision", "float32", "--verbose")
    assert err.count("convolutions in float32: as asked for\n") == 1
    assert "convolutions" not in run(photos / "cup.png", "--overwrite")[2]


def test_bfloat16_where_the_device_cannot_is_one_line(run, photos, monkeypatch):
    def broken(*_):
        raise RuntimeError("no kernel\nat all")

    monkeypatch.setattr(precision, "_convolve", broken)
    code, _, err = run(photos / "cup.png", "--precision", "bfloat16")
    assert code == 2
    assert "the device cpu cannot compute in bfloat16 (no kernel); it can in float32\n" in err
    assert err.count("\n") == 1
