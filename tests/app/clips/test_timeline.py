"""Times that repeat, jump or stray are repaired, each stream's by itself or all in step."""

from fractions import Fraction

import numpy as np
import pytest

from app.clips.timeline import Timeline

SOUND, VIDEO = 1, 0
MS = Fraction(1, 1000)


def repaired(*, jumps: bool = False, **streams: list[int | None]) -> dict[str, list[int]]:
    """The times, in ms, of streams by name as they are repaired."""
    timeline = Timeline(jumps=jumps)
    for index, times in enumerate(streams.values()):
        for time in times:
            timeline.note(index, MS, time, 20)
    timeline.repair()
    return {
        name: [timeline.next(index) for _ in times]
        for index, (name, times) in enumerate(streams.items())
    }


def test_times_that_advance_stay():
    times = [0, 20, 45, 60, 5000, 5020]
    assert repaired(sound=times, video=times[:3]) == {"sound": times, "video": times[:3]}


@pytest.mark.parametrize(
    "times",
    [
        [0, 20, 20, 60, 80, 100, 120],
        [0, 20, 40, 40, 40, 100, 120],
        [0, 20, 19, 60, 80, 100, 120],
        [0, 20, 40, 5, 80, 100, 120],
    ],
)
def test_a_repeated_time_is_moved_and_no_other_one_is(times):
    sound = repaired(sound=times)["sound"]
    assert (np.diff(sound) > 0).all()
    assert sum(a != b for a, b in zip(sound, times, strict=True)) <= 2
    assert sound[-2:] == times[-2:]


@pytest.mark.parametrize("stray", [-90_000, 0, 400, 90_000_000])
@pytest.mark.parametrize("length", [1, 3])
def test_a_few_stray_times_do_not_move_what_follows(stray, length):
    times = list(range(1000, 3000, 20))
    moved = times.copy()
    moved[50 : 50 + length] = [stray + i for i in range(length)]
    assert repaired(sound=moved)["sound"] == pytest.approx(times, abs=20)


def test_what_begins_anew_in_all_streams_goes_on_in_step():
    video, sound = list(range(1400, 3400, 100)), list(range(1380, 3380, 20))
    times = repaired(video=video * 2, sound=sound * 2)
    # Both jump by the same, to behind what ends last.
    jumps = {
        times[name][len(part)] - part[0] for name, part in (("video", video), ("sound", sound))
    }
    assert jumps == {2020}
    for name in times:
        assert (np.diff(times[name]) > 0).all()


def test_sound_that_begins_anew_alone_goes_on_by_itself():
    video, sound = list(range(0, 4000, 100)), list(range(0, 2000, 20))
    times = repaired(video=video, sound=sound * 2)
    assert times["video"] == video
    assert times["sound"] == list(range(0, 4000, 20))


@pytest.mark.parametrize("jumps", [True, False])
def test_a_broadcast_whose_clock_jumps_has_no_hour_of_nothing(jumps):
    times = list(range(0, 1000, 100))
    times += [3_600_000 + time for time in times]
    shown = repaired(video=times, sound=times, jumps=jumps)["video"]
    assert shown == (list(range(0, 2000, 100)) if jumps else times)


def test_missing_times_are_filled_in_from_their_neighbours():
    assert repaired(video=[None, None, 100, 120, None, 160])["video"] == [
        60,
        80,
        100,
        120,
        140,
        160,
    ]
    assert repaired(video=[None, None, None])["video"] == [0, 20, 40]


def test_any_times_come_out_advancing():
    draw = np.random.default_rng(0)
    for _ in range(50):
        times = draw.integers(-(2**40), 2**40, draw.integers(1, 40)).tolist()
        assert (np.diff(repaired(sound=times, video=times[::-1])["sound"]) > 0).all()


def test_short_packets_whose_rounded_times_are_equal_stay_where_they_are():
    timeline, times = Timeline(), [round(0.83 * number) for number in range(1000)]
    for time in times:
        timeline.note(SOUND, MS, time, 1)
    timeline.repair()
    assert not timeline.changed
    assert [timeline.next(SOUND) for _ in times] == times
