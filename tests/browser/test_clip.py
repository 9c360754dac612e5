"""The demo's tab of clips: a clip in, a painted frame at once, the clip out with its sound."""

import threading
from pathlib import Path

import av
import numpy as np
import pytest
from playwright.sync_api import expect

from app.clips import upright_rgb
from tests.app.clips.making import walk, write_clip
from tests.browser.test_friend import DESKTOP, PHONE, at_rest, said
from tests.browser.test_page import choose, download, fits, wait_until_idle
from tests.patience import PATIENCE


@pytest.fixture(scope="module")
def clips(tmp_path_factory) -> Path:
    """walk.mp4 (a second, with sound), and what is no clip, or none that is taken."""
    folder = tmp_path_factory.mktemp("clips")
    write_clip(folder / "walk.mp4", walk(12), sound="aac", pixels="yuv420p")
    times = [0, 50, 600 * 75]
    write_clip(folder / "long.mp4", walk(3), times=times, pixels="yuv420p")
    write_clip(folder / "long.mkv", walk(3), times=times)
    with av.open(str(folder / "sound.mp4"), "w") as writing:
        track = writing.add_stream("aac", rate=48_000, layout="mono")
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 48_000), np.float32), "fltp", "mono")
        frame.sample_rate = 48_000
        writing.mux(track.encode(frame) + track.encode())
    whole = (folder / "walk.mp4").read_bytes()
    (folder / "cut.mp4").write_bytes(whole[: len(whole) // 3])
    (folder / "empty.mp4").write_bytes(b"")
    (folder / "notes.mp4").write_text("milk, eggs, ultramarine")
    (folder / "playlist.mp4").write_text("#EXTM3U\n#EXTINF:1,\nfile:///etc/hostname\n")
    return folder


# The file, and what is said of it.
BAD = {
    "long.mp4": "a clip may last a minute",
    "long.mkv": "a clip may last a minute",
    "sound.mp4": "sound.mp4 holds no video",
    "cut.mp4": "cut.mp4 cannot be read as a clip",
    "empty.mp4": "empty.mp4 is empty",
    "notes.mp4": "notes.mp4 cannot be read as a clip",
    "playlist.mp4": "playlist.mp4 is a playlist",
}


def give(page, clip: Path) -> None:
    page.locator("#clip input[type=file]").set_input_files(clip)


def seen(page, before: str = "") -> str:
    """Waits for another painted frame than that one; its name."""
    page.wait_for_function(
        "before => { const { of } = document.querySelector('#clip-outcome .frame').dataset;"
        " return of && of !== before; }",
        arg=before,
    )
    return page.locator("#clip-outcome .frame").get_attribute("data-of")


def frames_and_sound(file: Path) -> tuple[list[np.ndarray], float]:
    """The frames' pixels, and the seconds of sound."""
    with av.open(str(file)) as reading:
        frames = [upright_rgb(frame) for frame in reading.decode(video=0)]
    with av.open(str(file)) as reading:
        sound = sum(frame.samples / frame.sample_rate for frame in reading.decode(audio=0))
    return frames, sound


@pytest.mark.parametrize("device", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_a_clip_is_seen_at_once_and_comes_back_painted_with_its_sound(
    open_page, clips, painter, device
):
    page = open_page(**device)
    page.get_by_role("tab", name="Video clip").click()
    for limit in ("60 seconds", "200 MB", "3840 × 2160"):
        expect(page.locator("#clip .about")).to_contain_text(limit, use_inner_text=True)
    page.get_by_role("button", name="Paint the clip").click()
    said(page, "Choose a clip first.")
    at_rest(page)
    give(page, clips / "walk.mp4")
    first = seen(page)
    expect(page.locator("#desk .about")).to_contain_text("1.0 s · 64 × 48 px · with sound")
    choose(page, "stripes, variant 1")
    seen(page, first)
    page.get_by_role("button", name="Paint the clip").click()
    name, file = download(page, "Download the clip")
    at_rest(page)
    assert name == "walk-stripes.mp4"
    path = clips.parent / name
    path.write_bytes(file)
    frames, sound = frames_and_sound(path)
    assert len(frames) == 12 and sound == pytest.approx(1.0, abs=0.1)
    before, _ = frames_and_sound(clips / "walk.mp4")
    assert np.abs(frames[5].astype(int) - before[5]).mean() > 3, "it is painted"
    # It plays in the page.
    page.wait_for_function("document.querySelector('#clip-outcome video').videoWidth === 64")
    fits(page)
    # The photo's tab is as it was, and back here the clip is still there.
    page.get_by_role("tab", name="One photo").click()
    page.locator("#photo").wait_for()
    page.get_by_role("tab", name="Video clip").click()
    expect(page.locator("#clip-outcome video")).to_be_visible()
    expect(page.locator("#clip-outcome .chip")).to_have_text("")  # painted as is chosen now


def test_whatever_is_no_clip_is_one_sentence_and_the_next_clip_is_painted(page, clips):
    page.get_by_role("tab", name="Video clip").click()
    for name, sentence in BAD.items():
        give(page, clips / name)
        said(page, name, sentence)
        at_rest(page)
        expect(page.locator("#clip .given")).to_be_hidden()
    give(page, clips / "walk.mp4")
    seen(page)
    page.get_by_role("button", name="Paint the clip").click()
    download(page, "Download the clip")
    assert "Traceback" not in page.inner_text("body")


def test_a_clip_is_stopped_and_then_painted(page, clips, painter, server, monkeypatch):
    page.get_by_role("tab", name="Video clip").click()
    give(page, clips / "walk.mp4")
    seen(page)
    go_on, frames, real = threading.Event(), [], painter.paint_frame

    def slow(*given, **options):
        frames.append(given)
        # Long enough to be told of; then it waits to be stopped.
        go_on.wait(0.3 if len(frames) < 6 else PATIENCE)
        return real(*given, **options)

    monkeypatch.setattr(painter, "paint_frame", slow)
    try:
        page.get_by_role("button", name="Paint the clip").click()
        page.locator("#clip-outcome progress[value]").wait_for()  # it tells how far it is
        with page.expect_response("**/run/predict"):
            page.get_by_role("button", name="Stop").click()
    finally:
        go_on.set()
    at_rest(page)
    wait_until_idle(server)
    assert len(frames) < 12, "it was painted to its end"
    monkeypatch.undo()
    expect(page.locator("#clip-outcome a.save")).to_be_hidden()
    page.get_by_role("button", name="Paint the clip").click()
    assert download(page, "Download the clip")[0] == "walk-dots.mp4"
