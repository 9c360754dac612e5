"""What is damaged is left out, as players do, and it is said where; a clip cut off is refused."""

import re

import av
import numpy as np
import pytest

from app.clips import ClipError
from tests.app.clips.making import (
    damage,
    packets_of,
    read_clip,
    sound_of,
    take_over,
    times_of,
    walk,
    write_clip,
)

VP9 = {"codec": "libvpx-vp9", "options": {"g": "4", "crf": "30", "b:v": "0"}, "pixels": "yuv420p"}
ALL_KEY = {"codec": "png", "options": {}, "pixels": "rgb24"}


@pytest.mark.parametrize("numbers", [[5], [0], [23], [3, 4, 11]])
def test_damaged_frames_are_left_out_and_named_by_their_times(numbers, tmp_path):
    clip = write_clip(tmp_path / "walk.mov", walk(24), **ALL_KEY)
    damage(clip, *numbers, video=0)
    notes = take_over(clip, tmp_path / "out.mp4")
    (note,) = [note for note in notes if "damaged" in note]
    # Where the first frame is damaged, the result begins with the second.
    begin = 1 / 12 if 0 in numbers else 0
    places = [f"0:{max(0, number / 12 - begin):04.1f}" for number in numbers]
    assert note.endswith(f"left out, at {', '.join(places)}") and note[0] == str(len(numbers))
    kept = [number / 12 - begin for number in range(24) if number not in numbers]
    assert times_of(tmp_path / "out.mp4") == pytest.approx(kept, abs=2e-3)
    wanted = [frame for number, frame in enumerate(walk(24)) if number not in numbers]
    assert np.abs(np.subtract(read_clip(tmp_path / "out.mp4"), wanted, dtype=int)).mean() < 10


def test_frames_that_need_a_damaged_one_are_left_out_with_it(tmp_path):
    clip = write_clip(tmp_path / "walk.webm", walk(24), **VP9)
    damage(clip, 8, video=0)  # a key frame
    notes = take_over(clip, tmp_path / "out.mp4")
    assert len(notes) == 1 and re.fullmatch(
        r"\d+ damaged pieces? of its frames .*0:00\.7.*", notes[0]
    )
    assert 19 < len(read_clip(tmp_path / "out.mp4")) < 24


@pytest.mark.parametrize("source", ["mkv", "mp4"])
@pytest.mark.parametrize("target", ["mp4", "webm"])
def test_damaged_sound_is_left_out_and_named(source, target, tmp_path):
    clip = write_clip(tmp_path / f"song.{source}", walk(24), sound="aac", pixels="yuv420p")
    whole = sound_of(clip)
    content = bytearray(clip.read_bytes())
    for number in (20, 21):
        place = content.find(whole[number])
        content[place : place + len(whole[number])] = b"\xff" * len(whole[number])
    clip.write_bytes(content)
    notes = take_over(clip, tmp_path / f"out.{target}")
    (note,) = [note for note in notes if "damaged" in note]
    assert re.fullmatch(r"2 damaged pieces of its sound were left out, at 0:00\.4, 0:00\.4", note)
    if target == "mp4":
        assert sound_of(tmp_path / "out.mp4") == whole[:20] + whole[22:]
    assert len(read_clip(tmp_path / f"out.{target}")) == 24


def test_a_track_of_which_nothing_can_be_decoded_in_the_middle_is_no_reason_to_stop(tmp_path):
    clip = write_clip(tmp_path / "song.ts", walk(25), codec="mpeg2video", options={}, sound="aac",
                      pixels="yuv420p", container="mpegts")  # fmt: skip
    content, draw = bytearray(clip.read_bytes()), np.random.default_rng(1)
    start = len(content) // 188 // 2 * 188
    for packet in range(start, start + 20 * 188, 188):
        content[packet + 8 : packet + 188] = draw.bytes(180)
    clip.write_bytes(content)
    notes = take_over(clip, tmp_path / "out.mp4")
    assert any("damaged" in note or "repaired" in note for note in notes) or notes == []
    assert len(read_clip(tmp_path / "out.mp4")) > 10


@pytest.mark.parametrize("kept", [0, 6])
def test_an_end_with_nothing_decodable_is_an_error(kept, tmp_path):
    clip = write_clip(tmp_path / "walk.mov", walk(30), **ALL_KEY)
    damage(clip, *range(kept, 30), video=0)
    why = (
        "holds no frame that can be decoded" if not kept else "nothing after 0:00.4 can be decoded"
    )
    with pytest.raises(ClipError, match=rf"walk\.mov: .*{re.escape(why)}"):
        take_over(clip, tmp_path / "out.mp4")
    assert not (tmp_path / "out.mp4").exists()


@pytest.mark.parametrize("share", [0.3, 0.6])
@pytest.mark.parametrize("first", ["moov", "mdat"])
def test_a_clip_cut_short_is_refused(share, first, tmp_path):
    clip = write_clip(tmp_path / "walk.mp4", walk(48), sound="aac", pixels="yuv420p")
    if first == "moov":
        flags = {"movflags": "faststart"}
        with (
            av.open(str(clip)) as reading,
            av.open(str(tmp_path / "first.mp4"), "w", container_options=flags) as writing,
        ):
            copies = {s.index: writing.add_stream_from_template(s) for s in reading.streams}
            for packet in reading.demux():
                if packet.size:
                    packet.stream = copies[packet.stream_index]
                    writing.mux(packet)
        clip = tmp_path / "first.mp4"
        assert clip.read_bytes().index(b"moov") < clip.read_bytes().index(b"mdat")
    whole = clip.read_bytes()
    (tmp_path / "cut.mp4").write_bytes(whole[: round(share * len(whole))])
    with pytest.raises(ClipError, match=r"cut\.mp4: cannot be read as a clip"):
        take_over(tmp_path / "cut.mp4", tmp_path / "out.mp4")


def test_a_few_bytes_less_at_the_end_are_a_note(tmp_path):
    clip = write_clip(tmp_path / "walk.mkv", walk(12), pixels="yuv420p")
    last = packets_of(clip, video=0)[-1]
    content = clip.read_bytes()
    clip.write_bytes(content[: content.find(bytes(last)) + len(bytes(last)) // 2])
    take_over(clip, tmp_path / "out.mp4")
    assert len(read_clip(tmp_path / "out.mp4")) in (11, 12)


@pytest.mark.parametrize("share", [0.4, 0.7])
def test_a_container_that_ends_early_without_a_word_is_named(share, tmp_path):
    clip = write_clip(tmp_path / "walk.mkv", walk(60), pixels="yuv420p")
    content = clip.read_bytes()
    packets = packets_of(clip, video=0)
    clip.write_bytes(content[: content.find(bytes(packets[round(share * 60)])) - 8])
    try:
        notes = take_over(clip, tmp_path / "out.mp4")
    except ClipError as error:
        assert "cannot be read as a clip" in str(error)
    else:
        assert any("though it says that it lasts until 0:05.0" in note for note in notes)


@pytest.mark.parametrize("begin", [0.0, 2.0, 7200.0])
def test_a_late_clip_of_matroska_is_not_said_to_end_early(begin, tmp_path):
    """Some write its length as the time of its end, whenever it begins."""
    clip = write_clip(tmp_path / "late.mkv", walk(12), pixels="yuv420p", begin=begin)
    assert take_over(clip, tmp_path / "out.mp4") == []


def test_a_cluster_that_is_lost_with_its_frames_is_named(tmp_path):
    """What FFmpeg passes over in looking for where the next one begins."""
    clip = write_clip(tmp_path / "walk.mkv", walk(60), pixels="yuv420p")
    content, packets = bytearray(clip.read_bytes()), packets_of(clip, video=0)
    lost = content.find(bytes(packets[40])) - 12
    content[lost : lost + 300] = bytes(300)
    clip.write_bytes(content)
    notes = take_over(clip, tmp_path / "out.mp4")
    assert any("damaged" in note or "it ends at" in note for note in notes)
