"""The result begins at 0, picture and sound in step, whatever the clip's clock says."""

import struct
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from tests.app.clips.making import (
    SOUND,
    TICK,
    rewrite,
    sound_of,
    sound_times,
    take_over,
    times_of,
    walk,
    write_clip,
)

# The last 1,024 samples that an encoder holds, and what it puts before the first.
NEARLY = 0.06


def begins_and_ends(path: Path) -> tuple[float, float]:
    """Seconds of the first and the last moment of a clip, as players see it."""
    with av.open(str(path)) as container:
        start = (container.start_time or 0) / av.time_base
        return start, start + container.duration / av.time_base


@pytest.mark.parametrize("begin", [0.0, 1.4, 3600.0, 50_000.0])
@pytest.mark.parametrize(("suffix", "codec"), [("ts", "mpeg2video"), ("mpg", "mpeg2video")])
@pytest.mark.parametrize("target", ["mp4", "mkv"])
def test_a_broadcast_of_any_hour_begins_at_0(begin, suffix, codec, target, tmp_path):
    kind = {"ts": "mpegts", "mpg": "vob"}[suffix]
    clip = write_clip(
        tmp_path / f"late.{suffix}",
        walk(12),
        codec=codec,
        options={},
        sound="mp2",
        pixels="yuv420p",
        begin=begin,
        container=kind,
    )
    out = tmp_path / f"out.{target}"
    take_over(clip, out)
    assert begins_and_ends(out) == pytest.approx((0, 12 / 25), abs=0.1)
    assert times_of(out) == pytest.approx(np.arange(12) / 25, abs=0.03)
    assert sound_times(out)[0] == pytest.approx(0, abs=NEARLY)


@pytest.mark.parametrize("late", ["sound", "video"])
@pytest.mark.parametrize("seconds", [0.5, 2.0])
@pytest.mark.parametrize("suffix", ["mkv", "mp4"])
def test_what_begins_later_goes_on_beginning_later(late, seconds, suffix, tmp_path):
    clip = write_clip(tmp_path / "both.mp4", walk(12), sound="aac", pixels="yuv420p")
    shifted = tmp_path / f"shifted.{suffix}"

    def later(packet: av.Packet, _: int) -> av.Packet:
        if (packet.stream.type == "audio") == (late == "sound"):
            packet.pts += round(seconds / packet.time_base)
            packet.dts += round(seconds / packet.time_base)
        return packet

    rewrite(clip, shifted, later)
    take_over(shifted, tmp_path / "out.mp4")
    begins = {
        "video": times_of(tmp_path / "out.mp4")[0],
        "sound": sound_times(tmp_path / "out.mp4")[0],
    }
    other = "video" if late == "sound" else "sound"
    assert begins[late] - begins[other] == pytest.approx(seconds, abs=NEARLY)
    assert min(begins.values()) == pytest.approx(0, abs=NEARLY)


def test_an_edit_list_and_negative_times_are_kept(tmp_path):
    clip = write_clip(tmp_path / "walk.mp4", walk(12), sound="aac", pixels="yuv420p", begin=-0.25)
    assert b"elst" in clip.read_bytes()
    take_over(clip, tmp_path / "out.mp4")
    # What is before 0 an edit list leaves out.
    assert begins_and_ends(tmp_path / "out.mp4") == pytest.approx((0, 0.75), abs=0.1)
    assert len(times_of(tmp_path / "out.mp4")) == len(times_of(clip))


@pytest.mark.parametrize("number", [7, 20])
@pytest.mark.parametrize("step", [0, -1, -100])
def test_a_sound_time_that_repeats_or_goes_back_is_repaired(number, step, tmp_path):
    clip = write_clip(tmp_path / "song.mkv", walk(12), sound="aac", pixels="yuv420p")
    times = sound_times(clip)
    raw = bytearray(clip.read_bytes())
    # In Matroska a block begins with its track's number and its time in the cluster, in ms.
    place = raw.find(sound_of(clip)[number]) - 4
    before = struct.unpack_from(">xh", raw, place)[0]
    wanted = before - round(1000 * (times[number] - times[number - 1])) + step
    struct.pack_into(">h", raw, place + 1, max(-32768, wanted))
    clip.write_bytes(raw)
    notes = take_over(clip, tmp_path / "out.mp4")
    assert notes == ["its sound had times that repeat or go back: they were repaired"]
    repaired = sound_times(tmp_path / "out.mp4")
    assert len(repaired) == len(times) and (np.diff(repaired) > 0).all()
    assert sound_of(tmp_path / "out.mp4") == sound_of(clip)
    assert repaired[-1] - repaired[0] == pytest.approx(times[-1] - times[0], abs=NEARLY)


@pytest.mark.parametrize("target", ["mp4", "mkv", "webm"])
def test_two_recordings_in_one_file_go_on_one_after_the_other(target, tmp_path):
    how = {"codec": "mpeg2video", "options": {}, "sound": "aac", "pixels": "yuv420p"}
    one = write_clip(tmp_path / "one.ts", walk(25), **how, container="mpegts", begin=5.0)
    (tmp_path / "two.ts").write_bytes(one.read_bytes() * 2)
    out = tmp_path / f"out.{target}"
    take_over(tmp_path / "two.ts", out)
    times = np.array(times_of(out))
    # The decoder holds the last frame of the first back, and some leave it out.
    assert len(times) in (49, 50) and (np.diff(times) > 0).all()
    assert np.diff(times).max() < 0.35
    assert begins_and_ends(out) == pytest.approx((0, 2), abs=0.2)
    sound = np.array(sound_times(out))
    assert (np.diff(sound) > 0).all() and sound[-1] == pytest.approx(2, abs=0.2)


def test_the_last_frame_and_gaps_keep_their_durations(tmp_path):
    times = [0, 50, 75, 300, 310, 900]
    clip = write_clip(
        tmp_path / "walk.mkv", walk(6), times=times, pixels="yuv420p", options={"bf": "0"}
    )
    with av.open(str(clip)) as source, av.open(str(tmp_path / "long.mp4"), "w") as writing:
        stream = writing.add_stream_from_template(source.streams.video[0])
        packets = [packet for packet in source.demux(video=0) if packet.size]
        for packet in packets:
            packet.stream = stream
            last = packet.pts * packet.time_base >= 900 * TICK
            packet.duration = round((2 if last else 0.05) / packet.time_base)
            writing.mux(packet)
    assert begins_and_ends(tmp_path / "long.mp4")[1] == pytest.approx(3.5, abs=0.02)
    for suffix in ("mp4", "mov", "mkv", "webm"):
        out = tmp_path / f"out.{suffix}"
        assert take_over(tmp_path / "long.mp4", out) == []
        assert times_of(out) == pytest.approx([float(time * TICK) for time in times], abs=2e-3)
        assert begins_and_ends(out)[1] == pytest.approx(3.5, abs=0.02)


def test_sound_encoded_anew_stays_in_step(tmp_path):
    """A click in the middle of silence is where it was, also behind a gap in the sound's times."""
    path = tmp_path / "click.mkv"
    write_clip(tmp_path / "walk.mkv", walk(24), pixels="yuv420p")
    wave = np.zeros(2 * SOUND, np.float32)
    wave[round(1.5 * SOUND) :][:480] = 0.9
    with av.open(str(tmp_path / "walk.mkv")) as source, av.open(str(path), "w") as writing:
        video = writing.add_stream_from_template(source.streams.video[0])
        track = writing.add_stream("pcm_s16le", rate=SOUND, layout="mono")
        for packet in source.demux(video=0):
            if packet.size:
                packet.stream = video
                writing.mux(packet)
        for start in range(0, len(wave), 960):
            if 0.3 <= start / SOUND < 0.8:
                continue
            piece = (wave[None, start : start + 960] * 32767).astype(np.int16)
            samples = av.AudioFrame.from_ndarray(piece, "s16", "mono")
            samples.sample_rate, samples.pts, samples.time_base = SOUND, start, Fraction(1, SOUND)
            writing.mux(track.encode(samples))
        writing.mux(track.encode())
    notes = take_over(path, tmp_path / "out.webm")
    assert notes == ["its sound was encoded anew as Opus: webm cannot hold pcm_s16le"]
    with av.open(str(tmp_path / "out.webm")) as container:
        frames = [
            (frame.time, np.abs(frame.to_ndarray()).max()) for frame in container.decode(audio=0)
        ]
    loud = [time for time, level in frames if level > 0.2]
    assert loud and all(abs(time - 1.5) < 0.05 for time in loud)
