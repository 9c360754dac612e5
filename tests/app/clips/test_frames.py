"""Frames come upright, whole and with their transparency."""

import av
import numpy as np
import pytest
from PIL import Image

from app.clips import Clip, upright_rgb
from tests.app.clips.making import (
    animation,
    opacity_of,
    read_clip,
    take_over,
    walk,
    write_clip,
)

LAYERS = [np.asarray(picture) for picture in animation(4)]


def transparent(folder, kind: str):
    """A clip or animation whose right half is transparent."""
    path = folder / f"half.{kind.split()[0]}"
    video = {
        "webm vp9": ("libvpx-vp9", "yuva420p", {"auto-alt-ref": "0"}),
        "webm vp8": ("libvpx", "yuva420p", {"auto-alt-ref": "0"}),
        "mov prores": ("prores_ks", "yuva444p10le", {"profile": "4444"}),
        "mov png": ("png", "rgba", {}),
        "mov qtrle": ("qtrle", "argb", {}),
        "mkv ffv1": ("ffv1", "yuva444p", {}),
    }
    if kind in video:
        codec, pixels, options = video[kind]
        return write_clip(path, LAYERS, codec=codec, pixels=pixels, options=options)
    first, *others = animation(4)
    how = {"gif": "GIF", "png": "PNG", "webp": "WEBP"}
    more = {"lossless": True} if kind == "webp" else {"disposal": 2} if kind == "gif" else {}
    first.save(path, how[kind], save_all=True, append_images=others, duration=80, **more)
    return path


KINDS = (
    "webm vp9",
    "webm vp8",
    "mov prores",
    "mov png",
    "mov qtrle",
    "mkv ffv1",
    "gif",
    "png",
    "webp",
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("target", ["webm", "mov", "mkv"])
def test_transparency_is_kept_where_the_container_can(kind, target, tmp_path):
    assert take_over(transparent(tmp_path, kind), tmp_path / f"out.{target}") == []
    opacity = np.array(opacity_of(tmp_path / f"out.{target}")).astype(int)
    assert len(opacity) == 4
    assert (opacity[:, :, :28] > 230).all() and (opacity[:, :, 36:] < 25).all()


@pytest.mark.parametrize("kind", KINDS)
def test_where_it_cannot_the_frames_are_laid_on_white_with_a_note(kind, tmp_path):
    notes = take_over(transparent(tmp_path, kind), tmp_path / "out.mp4")
    assert notes == ["its transparency was laid on white: mp4 holds none (webm does)"]
    frames = np.array(read_clip(tmp_path / "out.mp4")).astype(int)
    assert (frames[:, :, 36:] > 240).all()
    assert np.abs(frames[:, :, 20:28] - (200, 60, 30)).mean() < 12


@pytest.mark.parametrize("target", ["webm", "mov", "mp4"])
def test_an_opaque_clip_of_a_format_with_transparency_is_written_as_any_other(target, tmp_path):
    opaque = [layers.copy() for layers in LAYERS]
    for layers in opaque:
        layers[..., 3] = 255
    clip = write_clip(tmp_path / "a.mov", opaque, codec="png", pixels="rgba", options={})
    assert take_over(clip, tmp_path / f"out.{target}") == []
    with av.open(str(tmp_path / f"out.{target}")) as container:
        assert container.streams.video[0].pix_fmt == "yuv420p"


def interlaced(path, **how):
    """A bar that moves fast, in fields: odd rows are half a frame later than even ones."""
    frames = []
    for number in range(8):
        fields = []
        for half in range(2):
            rgb = np.full((64, 96, 3), 40, np.uint8)
            left = 4 * (2 * number + half)
            rgb[:, left : left + 24] = 220
            fields.append(rgb)
        frame = fields[0].copy()
        frame[1::2] = fields[1][1::2]
        frames.append(frame)
    options = {"x264-params": "interlaced=1:tff=1", "crf": "5"}
    return write_clip(path, frames, options=options, pixels="yuv420p", **how)


def combing(frame: np.ndarray) -> float:
    """How much neighbouring rows differ, more than rows that are two apart."""
    rows = frame[..., 1].astype(int)
    near, far = np.abs(rows[2:] - rows[1:-1]).mean(), np.abs(rows[2:] - rows[:-2]).mean()
    return float(near - far)


@pytest.mark.parametrize("suffix", ["mp4", "mkv", "ts"])
def test_an_interlaced_clip_is_made_of_whole_frames(suffix, tmp_path):
    clip = interlaced(tmp_path / f"fields.{suffix}", container={"ts": "mpegts"}.get(suffix))
    notes = take_over(clip, tmp_path / "out.mp4")
    assert notes == ["it is interlaced: its fields were made whole frames (bwdif)"]
    before, after = read_clip(clip), read_clip(tmp_path / "out.mp4")
    assert len(after) == len(before) == 8
    assert min(map(combing, before)) > 5
    assert max(map(combing, after)) < 0.3 * min(map(combing, before))
    with av.open(str(tmp_path / "out.mp4")) as container:
        frames = list(container.decode(video=0))
    assert not any(frame.interlaced_frame for frame in frames)
    steps = np.diff([frame.time for frame in frames])
    assert steps == pytest.approx(1 / 12, abs=2e-3)


MATRICES = {
    # Rows and columns as the display matrix has them: a, b, c, d; and what numpy makes of it.
    "turned by 90": ((0, 1, -1, 0), lambda p: np.rot90(p, -1)),
    "turned by 180": ((-1, 0, 0, -1), lambda p: np.rot90(p, 2)),
    "turned by 270": ((0, -1, 1, 0), lambda p: np.rot90(p, 1)),
    "mirrored": ((-1, 0, 0, 1), np.fliplr),
    "upside down": ((1, 0, 0, -1), np.flipud),
    "transposed": ((0, 1, 1, 0), lambda p: p.swapaxes(0, 1)),
}


@pytest.mark.parametrize("name", MATRICES)
def test_a_turned_or_mirrored_clip_comes_out_upright(name, tmp_path):
    matrix, turned = MATRICES[name]
    clip = write_clip(tmp_path / "phone.mp4", walk(2), pixels="yuv420p")
    raw = bytearray(clip.read_bytes())
    place = raw.index(b"tkhd") + 4 + 40  # of a header of version 0
    a, b, c, d = (int(value * 65536).to_bytes(4, "big", signed=True) for value in matrix)
    raw[place : place + 32] = a + b + bytes(4) + c + d + bytes(4) + bytes(8)
    clip.write_bytes(raw)
    take_over(clip, tmp_path / "out.mp4")
    wanted = [turned(frame) for frame in walk(2)]
    frames = read_clip(tmp_path / "out.mp4")
    assert frames[0].shape == wanted[0].shape
    assert np.abs(np.subtract(frames, wanted, dtype=int)).mean() < 10
    with av.open(str(tmp_path / "out.mp4")) as container:
        assert next(container.decode(video=0)).rotation == 0


def test_a_clip_of_odd_sides_and_changing_sizes_is_of_the_first_frames_size(tmp_path):
    frames = [frame[:47, :63] for frame in walk(3)]
    clip = write_clip(tmp_path / "odd.mkv", frames)
    take_over(clip, tmp_path / "out.mp4")
    assert read_clip(tmp_path / "out.mp4")[0].shape == (48, 64, 3)


def test_a_frames_colors_are_read_by_its_matrix(tmp_path):
    Image.fromarray(walk(1)[0]).save(tmp_path / "still.png")
    clip = Clip(write_clip(tmp_path / "walk.mkv", walk(1)))
    with clip.opened() as container:
        (frame,) = clip.survey(container)
        assert np.abs(upright_rgb(frame).astype(int) - walk(1)[0]).mean() < 5
