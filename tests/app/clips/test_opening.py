"""A clip is a file, whatever its name, and nothing that leads to another file."""

import os
import struct
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image

from app.clips import ClipError, opened, opening
from tests.app.clips.making import read_clip, take_over, walk, write_clip

NAMES = (
    "12:30 clip.mp4",
    "file:x.mp4",
    "http:y.mp4",
    "concat:a.mp4|b.mp4",
    "subfile,,start,0,end,10,,:a.mp4",
    "data:,x.mp4",
    "pipe:0.mp4",
    "100%d.mp4",
    "%03d.mp4",
    "[x]*?.mp4",
    "-i.mp4",
    "new\nline.mp4",
    "über 北.mp4",
    os.fsdecode(b"not \xff utf-8.mp4"),
)


@pytest.fixture(scope="module")
def clip(tmp_path_factory) -> bytes:
    folder = tmp_path_factory.mktemp("clip")
    return write_clip(folder / "walk.mp4", walk(3), sound="aac", pixels="yuv420p").read_bytes()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("relative", [True, False])
def test_every_name_that_the_disk_allows_is_a_clips(clip, name, relative, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = Path("" if relative else tmp_path, "a:b")
    folder.mkdir()
    try:
        (folder / name).write_bytes(clip)
    except OSError:
        pytest.skip("this disk does not allow the name")
    assert take_over(folder / name, folder / f"{name}.mkv") == []
    assert len(read_clip_from(folder / f"{name}.mkv")) == 3


def read_clip_from(path: Path) -> list[av.VideoFrame]:
    with open(path, "rb") as file, av.open(file) as container:
        return list(container.decode(video=0))


PLAYLIST = "#EXTM3U\n#EXT-X-TARGETDURATION:5\n#EXTINF:5,\n{}\n#EXT-X-ENDLIST\n"
DASH = '<?xml version="1.0"?>\n<!-- x -->\n<MPD xmlns="urn:mpeg:dash:schema:mpd:2011">{}</MPD>'
ORDERS = {
    "playlist (HLS)": PLAYLIST,
    "list of clips (ffconcat)": "ffconcat version 1.0\nfile {}\n",
    "a list of clips": "# a comment\nfile '{}'\n",
    "playlist (DASH)": DASH,
    "session description (SDP)": "v=0\no=- 0 0 IN IP4 127.0.0.1\ns={}\nm=video 5004 RTP/AVP 96\n",
    "a playlist": "[playlist]\nFile1={}\n",
    "address": "{}\n",
}


@pytest.mark.parametrize("kind", ORDERS)
@pytest.mark.parametrize("suffix", ["mp4", "m3u8", "mkv", "png"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_what_names_other_files_is_refused_by_its_kind(clip, kind, suffix, mark, tmp_path):
    secret = tmp_path / "secret.mp4"
    secret.write_bytes(clip)
    path = tmp_path / f"innocent.{suffix}"
    path.write_text(mark + ORDERS[kind].format(f"file://{secret}"), encoding="utf-8")
    with pytest.raises(ClipError, match=rf"innocent\.{suffix}: is a") as refusal, opened(path):
        pass
    assert kind in str(refusal.value) and "\n" not in str(refusal.value)


def test_a_playlist_behind_a_clips_first_bytes_is_followed_no_more(clip, tmp_path):
    secret = tmp_path / "secret.mp4"
    secret.write_bytes(clip)
    for head in (b"\0" * 8, b"\x00\x00\x00\x08ftyp", clip[:40], b"\x1aE\xdf\xa3", b"GIF89a"):
        path = tmp_path / "mixed.mp4"
        path.write_bytes(head + b"\n" + PLAYLIST.format(f"file://{secret}").encode())
        with pytest.raises(ClipError, match=r"mixed\.mp4: "):
            take_over(path, tmp_path / "out.mp4")
        assert not (tmp_path / "out.mp4").exists()


def test_pictures_by_a_pattern_of_names_are_no_clip(tmp_path):
    for number in range(3):
        Image.new("RGB", (16, 16)).save(tmp_path / f"{number}.png")
    with pytest.raises(ClipError, match="no such file"), opened(tmp_path / "%d.png"):
        pass
    Image.new("RGB", (16, 16)).save(tmp_path / "%d.png")
    with pytest.raises(ClipError, match="is a picture"), opened(tmp_path / "%d.png"):
        pass


def box(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I4s", len(body) + 8, kind) + body


def with_reference(clip: bytes, entry: bytes, version: int = 0) -> bytes:
    """A copy of an MP4 whose media are said to be elsewhere."""
    result, place = b"", 0
    while place + 8 <= len(clip):
        size, kind = struct.unpack(">I4s", clip[place : place + 8])
        body = clip[place + 8 : place + size]
        if kind in (b"moov", b"trak", b"mdia", b"minf", b"dinf"):
            body = with_reference(body, entry)
        elif kind == b"dref":
            body = struct.pack(">II", 0, 1) + entry
        result, place = result + box(kind, body), place + size
    return result


@pytest.mark.parametrize(
    "entry",
    [
        box(b"url ", bytes(4) + b"file:///etc/passwd\0"),
        box(b"url ", bytes(4) + b"http://127.0.0.1/x\0"),
        box(b"urn ", bytes(4) + b"name\0/etc/passwd\0"),
        box(b"alis", bytes(4) + b"\x01" * 160),
    ],
)
def test_a_movie_whose_media_are_elsewhere_is_refused(clip, entry, tmp_path):
    (tmp_path / "movie.mov").write_bytes(with_reference(clip, entry))
    with (
        pytest.raises(ClipError, match=r"movie\.mov: keeps its video in another file"),
        opened(tmp_path / "movie.mov"),
    ):
        pass


def test_a_reference_movie_is_refused_and_a_clip_that_names_itself_is_not(clip, tmp_path):
    link = box(b"rdrf", bytes(4) + b"url " + struct.pack(">I", 18) + b"file:///etc/passwd")
    names = box(b"moov", box(b"rmra", box(b"rmda", link)))
    (tmp_path / "names.mov").write_bytes(box(b"ftyp", b"qt  \0\0\0\0qt  ") + names)
    with pytest.raises(ClipError, match="another file"), opened(tmp_path / "names.mov"):
        pass
    # An old mistake of writers: the flag is missing, but no other file is named.
    (tmp_path / "walk.mp4").write_bytes(with_reference(clip, box(b"url ", bytes(4))))
    with opened(tmp_path / "walk.mp4") as container:
        assert container.streams.video


def test_boxes_of_any_size_are_looked_through_in_no_time(clip, tmp_path):
    path, draw = tmp_path / "odd.mp4", np.random.default_rng(0)
    for size in (0, 1, 7, 8, 9, 2**31, 2**32 - 1):
        for place in draw.integers(0, len(clip) - 4, 20):
            path.write_bytes(clip[:place] + struct.pack(">I", size) + clip[place + 4 :])
            try:
                with opened(path):
                    pass
            except ClipError as error:
                assert str(error).startswith(str(path))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is empty"),
        (b"no clip", "cannot be read as a clip"),
        (b"\xff\xd8\xff\xe0" + bytes(100), "is a picture"),
        (b"WEBVTT\n\n00:00.000 --> 00:01.000\nhello", "cannot be read as a clip"),
        (b"1\n00:00:00,000 --> 00:00:01,000\nhello\n", "cannot be read as a clip"),
    ],
)
def test_what_is_no_clip_is_named(content, reason, tmp_path):
    (tmp_path / "bad.mp4").write_bytes(content)
    with (
        pytest.raises(ClipError, match=rf"bad\.mp4: {reason}") as refusal,
        opened(tmp_path / "bad.mp4"),
    ):
        pass
    assert len(str(refusal.value).splitlines()) == 1


def test_folders_pipes_and_nothing_are_no_files(tmp_path):
    (tmp_path / "folder.mp4").mkdir()
    os.mkfifo(tmp_path / "pipe.mp4")
    for name, reason in (("folder", "is no file"), ("pipe", "is no file"), ("no", "no such file")):
        with pytest.raises(ClipError, match=reason), opened(tmp_path / f"{name}.mp4"):
            pass


def test_a_webp_animation_is_read_as_its_frames(tmp_path):
    frames = [Image.fromarray(pixels) for pixels in walk(4)]
    how = {"save_all": True, "append_images": frames[1:], "duration": 125, "lossless": True}
    frames[0].save(tmp_path / "a.webp", **how)
    take_over(tmp_path / "a.webp", tmp_path / "a.mkv")
    assert np.abs(np.subtract(read_clip(tmp_path / "a.mkv"), walk(4), dtype=int)).mean() < 10


def test_a_webp_animation_of_too_many_pixels_in_all_is_refused_unpacked(tmp_path, monkeypatch):
    frames = [Image.fromarray(pixels) for pixels in walk(4)]
    frames[0].save(tmp_path / "a.webp", save_all=True, append_images=frames[1:], duration=80)
    monkeypatch.setattr(opening, "_MOST_ANIMATED", 3 * 48 * 64)
    monkeypatch.setattr(opening, "_loaded", lambda *_: pytest.fail("was unpacked"))
    with (
        pytest.raises(ClipError, match=r"a\.webp: is an animation of 4 frames of 64 x 48 pixels"),
        opened(tmp_path / "a.webp"),
    ):
        pass


def test_pictures_in_a_row_are_a_clip_where_the_name_says_so(tmp_path):
    for pixels in walk(3):
        Image.fromarray(pixels).save(tmp_path / "one.jpg")
        with open(tmp_path / "a.mjpeg", "ab") as file:
            file.write((tmp_path / "one.jpg").read_bytes())
    with opened(tmp_path / "a.mjpeg") as container:
        assert len(list(container.decode(video=0))) == 3


def test_a_webp_animation_that_claims_a_vast_canvas_is_refused(tmp_path):
    frames = [Image.fromarray(pixels) for pixels in walk(3)]
    frames[0].save(tmp_path / "a.webp", save_all=True, append_images=frames[1:], duration=80)
    content = (tmp_path / "a.webp").read_bytes()
    for canvas in (b"\xff\xff\xff", b"\xff\xff\x00", b"\x00\x00\x00"):
        (tmp_path / "vast.webp").write_bytes(content[:24] + canvas * 2 + content[30:])
        with (
            pytest.raises(ClipError, match=r"vast\.webp: ") as refusal,
            opened(tmp_path / "vast.webp"),
        ):
            pass
        assert len(str(refusal.value).splitlines()) == 1
