"""A clip comes out painted, frame for frame, with its sound, and without flicker."""

import math
from itertools import pairwise
from pathlib import Path

import av
import numpy as np
import pytest
import skimage.data
from PIL import Image

from app import video
from app.limits import Limits
from app.look import Look
from app.painter import Painter
from tests.app.clips.making import pan, read_clip, sound_of, times_of, write_clip


@pytest.fixture(scope="module")
def painter(checkpoint: Path) -> Painter:
    return Painter(checkpoint, device="cpu")


def paint(painter: Painter, source: Path, target: Path, **options) -> list[str]:
    look = Look(**options.pop("look", {}))
    style = painter.style("stripes")
    return video.repaint(source, target, painter, style, look, quiet=True, **options)


# --- What comes out -------------------------------------------------------------------------


def test_every_frame_is_painted_and_keeps_its_time(painter, tmp_path):
    times = [0, 50, 75, 200, 210, 400]
    source = write_clip(tmp_path / "walk.mp4", pan(skimage.data.coffee(), 6), times=times)
    assert paint(painter, source, tmp_path / "out.mp4") == []
    assert times_of(tmp_path / "out.mp4") == pytest.approx(times_of(source), abs=1e-3)
    frames, painted = read_clip(source), read_clip(tmp_path / "out.mp4")
    for before, after in zip(frames, painted, strict=True):
        assert after.shape == before.shape
        assert np.abs(after.astype(int) - before).mean() > 10


@pytest.mark.parametrize("suffix", ["mp4", "mov", "mkv"])
def test_strength_0_gives_back_the_frames(painter, tmp_path, suffix):
    source = write_clip(tmp_path / "walk.mp4", pan(skimage.data.coffee(), 3), pixels="yuv420p")
    paint(painter, source, tmp_path / f"out.{suffix}", look={"strength": 0})
    frames, painted = read_clip(source), read_clip(tmp_path / f"out.{suffix}")
    assert np.abs(np.subtract(frames, painted, dtype=int)).mean() < 4


def test_the_sound_is_copied_byte_for_byte(painter, tmp_path):
    source = write_clip(tmp_path / "song.mp4", pan(skimage.data.coffee(), 6), sound="aac")
    paint(painter, source, tmp_path / "out.mkv")
    assert sound_of(tmp_path / "out.mkv") == sound_of(source) != []


def test_webm_is_written(painter, tmp_path):
    source = write_clip(tmp_path / "song.mkv", pan(skimage.data.coffee(), 3), sound="libopus")
    paint(painter, source, tmp_path / "out.webm")
    assert sound_of(tmp_path / "out.webm") == sound_of(source) != []
    assert len(read_clip(tmp_path / "out.webm")) == 3


@pytest.mark.skipif(
    not hasattr(av.VideoStream, "set_display_rotation"), reason="this PyAV writes no rotation"
)
@pytest.mark.parametrize("rotation", [90, -90, 180])
def test_a_turned_clip_comes_out_upright(painter, tmp_path, rotation):
    upright = pan(skimage.data.coffee(), 2)
    # The display matrix turns what is stored counterclockwise.
    stored = [np.rot90(frame, -rotation // 90) for frame in upright]
    source = write_clip(tmp_path / "phone.mp4", stored, rotation=rotation, pixels="yuv420p")
    paint(painter, source, tmp_path / "out.mp4", look={"strength": 0})
    with av.open(str(tmp_path / "out.mp4")) as container:
        frames = list(container.decode(video=0))
    assert {frame.rotation for frame in frames} == {0}
    pixels = [frame.to_ndarray(format="rgb24") for frame in frames]
    assert np.abs(np.subtract(pixels, upright, dtype=int)).mean() < 10


def test_an_odd_size_grows_to_an_even_one(painter, tmp_path):
    source = write_clip(tmp_path / "odd.mkv", pan(skimage.data.coffee(), 2, 47, 63))
    paint(painter, source, tmp_path / "out.mp4")
    assert read_clip(tmp_path / "out.mp4")[0].shape == (48, 64, 3)


def test_max_size_shrinks_the_frames(painter, tmp_path):
    source = write_clip(tmp_path / "walk.mp4", pan(skimage.data.coffee(), 2))
    paint(painter, source, tmp_path / "out.mp4", max_size=32)
    assert read_clip(tmp_path / "out.mp4")[0].shape == (24, 32, 3)


def test_tags_are_kept_unless_stripped(painter, tmp_path):
    source = write_clip(tmp_path / "walk.mp4", pan(skimage.data.coffee(), 2))
    titles = []
    for strip in (False, True):
        paint(painter, source, tmp_path / "out.mp4", strip=strip)
        with av.open(str(tmp_path / "out.mp4")) as container:
            titles.append(container.metadata.get("title"))
    assert titles == ["A walk", None]


# --- Shots and flicker ----------------------------------------------------------------------


def shots_of(painter: Painter, frames: list[np.ndarray], **look) -> list[video.Shot]:
    survey = video.ShotSurvey(painter, painter.style("stripes"), Look(**look))
    for frame in frames:
        survey.add(frame)
    assert survey.finish() == len(frames)
    return survey.shots


def test_a_clip_is_cut_where_its_picture_changes(painter):
    walk = pan(skimage.data.coffee(), 7) + pan(skimage.data.chelsea(), 5)
    walk += pan(skimage.data.astronaut(), 1)
    places = [(shot.first, shot.last) for shot in shots_of(painter, walk)]
    assert places == [(0, 7), (7, 12), (12, 13)]


def test_noise_and_a_moving_camera_are_no_cuts(painter):
    draw = np.random.default_rng(0)
    walk = pan(skimage.data.coffee(), 30)
    noisy = [frame + draw.normal(0, 20, frame.shape) for frame in walk]
    assert len(shots_of(painter, [f.clip(0, 255).astype(np.uint8) for f in noisy])) == 1


def test_held_statistics_flicker_less(painter):
    # A bar that grows changes each frame's own statistics, though the rest stands still.
    still = np.ascontiguousarray(skimage.data.coffee()[100:148, 100:196])
    frames = [still.copy() for _ in range(4)]
    for i, frame in enumerate(frames):
        frame[:, : 9 * i] = 255
    style = painter.style("stripes")
    (shot,) = shots_of(painter, frames)
    loose = video.Shot(0, 4)

    def flicker(shot: video.Shot) -> float:
        painted = [
            painter.paint_frame(frame, style, held=shot.held).astype(int) for frame in frames
        ]
        right = [picture[:, 88:] for picture in painted]
        return float(np.mean([np.abs(a - b).mean() for a, b in pairwise(right)]))

    # Under held statistics what does not move is painted the same in every frame.
    assert flicker(shot) == 0
    assert flicker(loose) > 0.2


@pytest.mark.parametrize("step", [(0, 3), (-5, 2), (7, -1), (0, 0)])
def test_a_pan_is_followed_also_under_noise(step):
    photo, draw = skimage.data.coffee().astype(int), np.random.default_rng(0)
    camera = video.Pan()
    for i in range(5):
        top, left = 100 + i * step[0], 100 + i * step[1]
        frame = photo[top : top + 150, left : left + 200] + draw.integers(-6, 7, (150, 200, 3))
        moved = camera.follow(frame.clip(0, 255).astype(np.uint8))
        assert moved == tuple(camera.moved) == (i * step[0], i * step[1])


def test_a_slow_pan_is_followed_to_half_a_pixel():
    photo, camera = Image.fromarray(skimage.data.coffee()), video.Pan()
    for i in range(12):
        moved = (1, 0, 100 + 0.3 * i, 0, 1, 100)
        frame = photo.transform((200, 150), Image.Transform.AFFINE, moved, Image.Resampling.BICUBIC)
        camera.follow(np.asarray(frame))
        assert abs(camera.moved[1] - 0.3 * i) <= 0.5 and camera.moved[0] == 0


@pytest.mark.parametrize(("name", "grown", "turned"), [("coffee", 0.01, 0.0), ("rocket", 0.0, 0.5)])
def test_a_frame_of_long_ago_shows_no_pan_where_the_camera_zooms_or_turns(name, grown, turned):
    photo, camera = Image.fromarray(getattr(skimage.data, name)()), video.Pan()
    for i in range(12):
        scale, angle = 1 / (1 + grown) ** i, math.radians(turned * i)
        cos, sin = scale * math.cos(angle), scale * math.sin(angle)
        left, top = 250 - 120 * cos - 88 * sin, 200 + 120 * sin - 88 * cos
        way = (cos, sin, left, -sin, cos, top)
        frame = photo.transform((240, 176), Image.Transform.AFFINE, way, Image.Resampling.BICUBIC)
        assert max(map(abs, camera.follow(np.asarray(frame)))) <= 1


def test_where_nothing_can_be_followed_the_grid_stays():
    draw, camera = np.random.default_rng(0), video.Pan()
    for _ in range(4):
        assert camera.follow(draw.integers(0, 256, (90, 120, 3)).astype(np.uint8)) == (0, 0)
    for level in (0, 9, 9):
        assert camera.follow(np.full((90, 120, 3), level, np.uint8)) == (0, 0)


@pytest.mark.parametrize("brush_size", [1, 2])
def test_strokes_move_with_the_scene(painter, brush_size):
    frames = [np.ascontiguousarray(frame) for frame in pan(skimage.data.coffee(), 4, 96, 160)]
    (shot,) = shots_of(painter, frames, brush_size=brush_size)
    style = painter.style("stripes")
    look, camera = Look(brush_size=brush_size), video.Pan()
    fixed = [painter.paint_frame(frame, style, look, shot.held) for frame in frames]
    moving = [
        painter.paint_frame(frame, style, look, shot.held, camera.follow(frame)) for frame in frames
    ]

    def shimmer(painted: list[np.ndarray]) -> float:
        """Change of one place of the scene: the pan undone, and the frames' borders left out."""
        pairs = pairwise([frame[:, 30:-30].astype(int) for frame in painted])
        return float(np.mean([np.abs(a[:, 3:] - b[:, :-3]).mean() for a, b in pairs]))

    assert [frame.shape for frame in moving] == [frame.shape for frame in frames]
    assert shimmer(moving) < 0.1 * shimmer(fixed)


@pytest.mark.parametrize("brush_size", [1, 2])
def test_a_large_frame_in_tiles_equals_the_frame_painted_whole(painter, checkpoint, brush_size):
    frame = np.ascontiguousarray(skimage.data.coffee()[:200, :280])
    how = {"keep_color": "matched", "brush_size": brush_size}
    style, look = painter.style("stripes"), Look(**how)
    (shot,) = shots_of(painter, [frame], **how)
    whole = painter.paint_frame(frame, style, look, shot.held)
    small = Painter(checkpoint, "cpu", Limits(whole=1, tile=96))
    tiled = small.paint_frame(frame, style, look, shot.held)
    assert np.abs(whole.astype(int) - tiled).max() <= 1


# --- What is refused ------------------------------------------------------------------------


def run(checkpoint: Path, capsys, *arguments: object) -> tuple[int, str]:
    command = ["--checkpoint", checkpoint, "--device", "cpu", "--style", "dots", *arguments]
    try:
        code = video.main([str(word) for word in command])
    except SystemExit as stop:
        code = stop.code
    return code, capsys.readouterr().err


def test_the_command_line_paints_a_clip(checkpoint, capsys, tmp_path):
    source = write_clip(tmp_path / "walk.mp4", pan(skimage.data.coffee(), 3))
    out = tmp_path / "new" / "out.mp4"
    assert run(checkpoint, capsys, source, "--out", out, "--keep-color")[0] == 0
    assert len(read_clip(out)) == 3
    code, err = run(checkpoint, capsys, source, "--out", out)
    assert code == 2 and "exists already" in err
    assert run(checkpoint, capsys, source, "--out", out, "--overwrite")[0] == 0
    code, err = run(checkpoint, capsys, source, "--out", source, "--overwrite")
    assert code == 2 and "would be written over" in err


def test_the_command_line_has_larger_strokes(checkpoint, capsys, tmp_path):
    source = write_clip(tmp_path / "walk.mp4", pan(skimage.data.coffee(), 2))
    fine, large = tmp_path / "fine.mp4", tmp_path / "large.mp4"
    assert run(checkpoint, capsys, source, "--out", fine)[0] == 0
    assert run(checkpoint, capsys, source, "--out", large, "--brush-size", 4)[0] == 0
    change = np.subtract(read_clip(large)[0], read_clip(fine)[0], dtype=int)
    assert np.abs(change).mean() > 0.3  # else 0


@pytest.mark.parametrize("content", [b"", b"no clip", None])
def test_what_is_no_clip_is_named_in_one_line(checkpoint, capsys, tmp_path, content):
    if content is not None:
        (tmp_path / "bad.mp4").write_bytes(content)
    code, err = run(checkpoint, capsys, tmp_path / "bad.mp4", "--out", tmp_path / "out.mp4")
    assert code == 1
    assert err.startswith(f"{tmp_path / 'bad.mp4'}: ")
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "out.mp4").exists()


def test_a_full_disk_is_the_results_fault(painter, tmp_path, monkeypatch):
    source = write_clip(tmp_path / "walk.mp4", pan(skimage.data.coffee(), 3))

    def full(*_):
        raise av.error.OSError(28, "No space left on device")

    monkeypatch.setattr(painter, "paint_frame", full)
    with pytest.raises(video.ImageError, match=r"out\.mp4: cannot be written: No space left"):
        paint(painter, source, tmp_path / "out.mp4")
    assert [path.name for path in tmp_path.iterdir()] == ["walk.mp4"]


def test_another_suffix_is_refused_before_anything_is_read(checkpoint, capsys, tmp_path):
    code, err = run(checkpoint, capsys, tmp_path / "gone.mp4", "--out", tmp_path / "out.avi")
    assert code == 2
    assert "mp4, m4v, mov, mkv, webm" in err


def test_a_failure_on_the_way_leaves_no_file(painter, tmp_path, monkeypatch):
    source = write_clip(tmp_path / "walk.mp4", pan(skimage.data.coffee(), 3))

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(painter, "paint_frame", interrupted)
    with pytest.raises(KeyboardInterrupt):
        paint(painter, source, tmp_path / "out.mp4")
    assert [path.name for path in tmp_path.iterdir()] == ["walk.mp4"]
