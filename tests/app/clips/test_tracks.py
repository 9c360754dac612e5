"""Sound and subtitles are kept, encoded anew or named, and that is known before any work."""

import re
from pathlib import Path

import av
import numpy as np
import pytest
from av.stream import Disposition

from app.clips import Clip
from tests.app.clips.making import (
    read_clip,
    sound_of,
    take_over,
    walk,
    write_clip,
)


@pytest.mark.parametrize(
    ("codec", "source", "target"),
    [
        ("aac", "mkv", "mp4"),
        ("aac", "mp4", "mov"),
        ("libopus", "mkv", "webm"),
        ("libopus", "webm", "mp4"),
        ("flac", "mkv", "mkv"),
        ("libmp3lame", "mkv", "mp4"),
    ],
)
def test_sound_that_the_container_holds_is_kept_to_the_byte(codec, source, target, tmp_path):
    video = {"codec": "libvpx-vp9", "options": {}} if source == "webm" else {}
    path = tmp_path / f"song.{source}"
    clip = write_clip(path, walk(6), sound=codec, pixels="yuv420p", **video)
    assert take_over(clip, tmp_path / f"out.{target}") == []
    assert sound_of(tmp_path / f"out.{target}") == sound_of(clip) != []


@pytest.mark.parametrize(
    ("codec", "source", "target", "wanted"),
    [
        ("wmav2", "asf", "mkv", "aac"),
        ("wmav2", "asf", "mp4", "aac"),
        ("wmav2", "asf", "webm", "opus"),
        ("aac", "mp4", "webm", "opus"),
        ("pcm_s16le", "mov", "webm", "opus"),
        ("pcm_s24be", "mov", "mp4", "aac"),
        ("pcm_s16le", "avi", "mp4", "aac"),
        ("adpcm_ima_wav", "avi", "mp4", "aac"),
    ],
)
def test_sound_that_it_cannot_hold_is_encoded_anew(codec, source, target, wanted, tmp_path):
    video = {"codec": "mpeg4", "options": {}, "pixels": "yuv420p"}
    clip = write_clip(tmp_path / f"song.{source}", walk(12), sound=codec, **video)
    notes = take_over(clip, tmp_path / f"out.{target}")
    name = {"aac": "AAC", "opus": "Opus"}[wanted]
    (note,) = [note for note in notes if "encoded anew" in note]
    assert note.startswith(f"its sound was encoded anew as {name}: ") and codec[:5] in note
    with av.open(str(tmp_path / f"out.{target}")) as container:
        assert container.streams.audio[0].codec_context.name.removeprefix("lib") == wanted
        frames = [frame.to_ndarray() for frame in container.decode(audio=0)]
        rate = container.streams.audio[0].rate
    # As long, and as loud, as what it was made of.
    assert sum(frame.shape[-1] for frame in frames) / rate == pytest.approx(1, abs=0.12)
    assert np.concatenate(frames, axis=-1).std() == pytest.approx(0.5 / 2**0.5, rel=0.15)


def test_what_becomes_of_the_sound_is_known_before_any_frame_is_read(tmp_path):
    clip = Clip(write_clip(tmp_path / "song.mp4", walk(6), sound="aac"))
    with clip.opened() as container:
        clip.plan(container, "webm")
    assert [track.encoder for track in clip.tracks] == ["libopus"]
    assert clip.notes and clip.count == 0


def unknown(path: Path, number: int) -> Path:
    """The clip with a track of sound of a kind that no decoder knows, as newer phones have."""
    content = bytearray(path.read_bytes())
    tables = [match.start() for match in re.finditer(b"stsd", content)]
    place = content.index(b"mp4a", tables[number])  # the video's is the first
    content[place : place + 4] = b"apac"
    esds = content.index(b"esds", place)
    content[esds : esds + 4] = b"dapa"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("target", ["mp4", "mkv", "webm"])
def test_a_track_of_an_unknown_kind_is_named_and_the_others_are_kept(number, target, tmp_path):
    path = tmp_path / "phone.mov"
    write_clip(path, walk(6), sound=["aac", "aac"], languages=["eng", "jpn"], pixels="yuv420p")
    good = sound_of(path, 2 - number)
    notes = take_over(unknown(path, number), tmp_path / f"out.{target}")
    language = ["eng", "jpn"][number - 1]
    kind = "it is of a kind that is not known here"
    assert f"its sound {number} [{language}] was left out: {kind}" in notes
    with av.open(str(tmp_path / f"out.{target}")) as container:
        (track,) = container.streams.audio
        assert track.language == ["jpn", "eng"][number - 1]
    if target != "webm":
        assert sound_of(tmp_path / f"out.{target}") == good


def test_no_sound_leaves_it_out(tmp_path):
    clip = write_clip(tmp_path / "song.mp4", walk(6), sound="aac")
    assert take_over(clip, tmp_path / "out.webm", sound=False) == [
        "its sound was left out, as asked"
    ]
    with av.open(str(tmp_path / "out.webm")) as container:
        assert not container.streams.audio and container.streams.video


def full(path: Path) -> Path:
    """A clip with all that a container may hold."""
    how = {"sound": ["aac", "aac"], "languages": ["eng", "jpn"], "pixels": "yuv420p"}
    plain = write_clip(path.with_name("plain.mkv"), walk(24), **how)
    with av.open(str(plain)) as reading, av.open(str(path), "w") as writing:
        copies = {s.index: writing.add_stream_from_template(s) for s in reading.streams}
        for index, stream in copies.items():
            stream.metadata.update(reading.streams[index].metadata)
        _, first, second = copies.values()
        first.disposition, second.disposition = 0, Disposition.default | Disposition.forced
        second.metadata["title"] = "Original"
        writing.metadata.update({"title": "Café", "artist": "Me"})
        if path.suffix == ".mkv":
            writing.add_attachment("font.ttf", "font/ttf", b"a font")
        seconds = {"time_base": copies[0].time_base}
        ticks = round(1 / copies[0].time_base)
        writing.set_chapters(
            [
                {"id": 1, "start": 0, "end": ticks, "metadata": {"title": "One"}, **seconds},
                {
                    "id": 2,
                    "start": ticks,
                    "end": 2 * ticks,
                    "metadata": {"title": "Two"},
                    **seconds,
                },
            ]
        )
        for packet in reading.demux():
            if packet.size:
                packet.stream = copies[packet.stream_index]
                writing.mux(packet)
    return path


@pytest.mark.parametrize("source", ["mkv", "mp4"])
@pytest.mark.parametrize("target", ["mkv", "mp4", "mov", "webm"])
def test_languages_titles_roles_and_chapters_are_kept(source, target, tmp_path):
    notes = take_over(full(tmp_path / f"full.{source}"), tmp_path / f"out.{target}")
    fonts = source == "mkv" and target != "mkv"
    assert ("its attached files were left out" in notes) == fonts
    assert not any("data tracks" in note for note in notes)
    with av.open(str(tmp_path / f"out.{target}")) as container:
        first, second = container.streams.audio
        assert (first.language, second.language) == ("eng", "jpn")
        assert not first.disposition & Disposition.default
        assert second.disposition & Disposition.default
        assert "Original" in (second.metadata.get("title"), second.metadata.get("name"))
        assert container.metadata["title"] == "Café"
        chapters = container.chapters()
        assert [chapter["metadata"]["title"] for chapter in chapters] == ["One", "Two"]
        starts = [float(chapter["start"] * chapter["time_base"]) for chapter in chapters]
        assert starts == pytest.approx([0, 1], abs=0.05)
        if source == target == "mkv":
            (font,) = container.streams.attachments
            assert (font.name, font.data) == ("font.ttf", b"a font")


def test_stripped_tags_are_gone_but_for_the_languages(tmp_path):
    take_over(full(tmp_path / "full.mkv"), tmp_path / "out.mkv", strip=True)
    with av.open(str(tmp_path / "out.mkv")) as container:
        assert not {"title", "ARTIST", "artist"} & set(container.metadata)
        assert [track.language for track in container.streams.audio] == ["eng", "jpn"]
        assert "title" not in container.streams.audio[1].metadata
        assert [chapter["metadata"] for chapter in container.chapters()] == [{}, {}]


SUBTITLES = b"1\n00:00:00,200 --> 00:00:00,900\nHello\n\n2\n00:00:01,200 --> 00:00:01,900\nWorld\n"


@pytest.mark.parametrize(("target", "kept"), [("mkv", True), ("mp4", False), ("webm", False)])
def test_subtitles_are_kept_where_the_container_holds_them(target, kept, tmp_path):
    (tmp_path / "words.srt").write_bytes(SUBTITLES)
    plain = write_clip(tmp_path / "plain.mkv", walk(24), pixels="yuv420p")
    with (
        av.open(str(plain)) as reading,
        av.open(str(tmp_path / "words.srt")) as words,
        av.open(str(tmp_path / "both.mkv"), "w") as writing,
    ):
        video = writing.add_stream_from_template(reading.streams.video[0])
        text = writing.add_stream_from_template(words.streams.subtitles[0])
        text.metadata["language"], text.disposition = "fre", Disposition.forced
        for source, copy in ((words, text), (reading, video)):
            for packet in source.demux():
                if packet.size:
                    packet.stream = copy
                    writing.mux(packet)
    notes = take_over(tmp_path / "both.mkv", tmp_path / f"out.{target}")
    with av.open(str(tmp_path / f"out.{target}")) as container:
        assert len(container.streams.subtitles) == int(kept)
        if kept:
            assert notes == []
            (stream,) = container.streams.subtitles
            assert stream.language == "fre" and stream.disposition & Disposition.forced
            lines = [
                (bytes(p), float(p.pts * p.time_base)) for p in container.demux(stream) if p.size
            ]
            assert lines == [(b"Hello", pytest.approx(0.2)), (b"World", pytest.approx(1.2))]
        else:
            assert len(notes) == 1 and notes[0].startswith("its subtitles [fre] (")


def with_pictures(path: Path, *before: str, default: int | None = None) -> Path:
    """A clip of 12 frames behind other streams of video: "cover"s, or other "video"s of 3."""
    main = write_clip(path.with_name("main.mp4"), walk(12), sound="aac", pixels="yuv420p")
    other = write_clip(path.with_name("other.mp4"), [f[:, ::-1] for f in walk(3)], pixels="yuv420p")
    cover = write_clip(
        path.with_name("cover.mkv"), walk(1), codec="mjpeg", options={}, pixels="yuvj420p"
    )
    files = [{"cover": cover, "video": other}[kind] for kind in before] + [main]
    with av.open(str(path), "w") as writing:
        pairs = []
        for number, file in enumerate(files):
            reading = av.open(str(file))
            for stream in reading.streams:
                copy = writing.add_stream_from_template(stream, opaque=True)
                if stream.type == "video":
                    copy.disposition = Disposition.default if number == default else 0
                    if file == cover:
                        copy.disposition = Disposition.attached_pic
                pairs.append((reading, stream, copy))
        for reading, stream, copy in pairs:
            reading.seek(0)
            for packet in reading.demux(stream):
                if packet.size:
                    packet.stream = copy
                    writing.mux(packet)
            reading.seek(0)
    return path


@pytest.mark.parametrize("before", [["cover"], ["cover", "cover"]])
@pytest.mark.parametrize("suffix", ["mp4", "mkv"])
def test_a_cover_is_no_video(before, suffix, tmp_path):
    clip = with_pictures(tmp_path / f"covered.{suffix}", *before)
    notes = take_over(clip, tmp_path / "out.mp4")
    count = len(before) + 1
    # In Matroska covers are attached files; as tracks they don't say what they are.
    named = f"only number {count} of its {count} videos is kept"
    assert notes == ["its cover picture was left out" if suffix == "mp4" else named]
    assert len(read_clip(tmp_path / "out.mp4")) == 12


@pytest.mark.parametrize(("default", "chosen", "frames"), [(None, 1, 3), (0, 1, 3), (1, 2, 12)])
def test_of_several_videos_the_default_one_is_painted(default, chosen, frames, tmp_path):
    clip = with_pictures(tmp_path / "two.mkv", "video", default=default)
    notes = take_over(clip, tmp_path / "out.mp4")
    assert notes == [f"only number {chosen} of its 2 videos is kept"]
    assert len(read_clip(tmp_path / "out.mp4")) == frames


def test_sound_alone_and_a_cover_alone_are_no_clips(tmp_path):
    song = write_clip(tmp_path / "song.mp4", walk(2), sound="aac", pixels="yuv420p")
    with av.open(str(song)) as whole, av.open(str(tmp_path / "a.m4a"), "w", "mp4") as sound:
        stream = sound.add_stream_from_template(whole.streams.audio[0])
        for packet in whole.demux(audio=0):
            if packet.size:
                packet.stream = stream
                sound.mux(packet)
    with pytest.raises(ValueError, match=r"a\.m4a: holds no video"):
        take_over(tmp_path / "a.m4a", tmp_path / "out.mp4")
