"""The demo as programs use it, its limits, and what it keeps of its visitors."""

import asyncio
import base64
import contextlib
import io
import math
import os
import re
import signal
import socket
import threading
import time
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import gradio as gr
import httpx
import numpy as np
import pytest
import skimage.data
from gradio_client import Client, handle_file
from gradio_client.exceptions import AppError
from PIL import Image

import models
from app import images
from app.__main__ import _ending_once, main
from app.demo import examples, gate, server
from app.demo.actions import Actions, page_wish
from app.demo.components import StylePicker
from app.demo.connections import Patience
from app.demo.jobs import Jobs, StoppedError
from app.demo.line import Line
from app.demo.paintings import learned_from
from app.demo.studio import (
    OWN,
    TITLES,
    Painted,
    RefusedError,
    Studio,
    Wish,
    drawn_mask,
    result_name,
    save_shown,
    sentence,
)
from app.demo.unwritten import Finished, Unwritten
from app.look import OPTIONS, Look
from app.painter import Painter
from app.shipped import CHECKPOINT
from tests.demo_server import free_port, serving
from tests.event_loop import run
from tests.patience import PATIENCE

MAX_PIXELS = 300_000
JSON = "application/json"

# Without httpx's own time-outs of five seconds.
get, post, stream = (
    partial(ask, timeout=PATIENCE) for ask in (httpx.get, httpx.post, httpx.stream)
)


@pytest.fixture(scope="module")
def painter(checkpoint: Path) -> Painter:
    return Painter(checkpoint, device="cpu")


@pytest.fixture(scope="module")
def page(painter: Painter, tmp_path_factory: pytest.TempPathFactory) -> Iterator[gr.Blocks]:
    folder = tmp_path_factory.mktemp("uploads")
    patience = Patience(idle=PATIENCE)  # longer than clients keep a connection
    with serving(painter, folder, max_pixels=MAX_PIXELS, patience=patience) as page:
        yield page


@pytest.fixture(scope="module")
def client(page: gr.Blocks, tmp_path_factory: pytest.TempPathFactory) -> Client:
    return Client(
        page.local_url,
        verbose=False,
        analytics_enabled=False,
        httpx_kwargs={"timeout": PATIENCE},
        download_files=tmp_path_factory.mktemp("downloads"),
    )


@pytest.fixture
def studio(painter: Painter, tmp_path: Path) -> Studio:
    return Studio(painter, tmp_path / "results")


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """chelsea.png, coffee.png, mask.png, turned.jpg (EXIF orientation 6), glass.png (alpha)."""
    folder = tmp_path_factory.mktemp("photos")
    pixels = skimage.data.chelsea()[:120, :161]
    Image.fromarray(pixels).save(folder / "chelsea.png")
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(pixels).save(folder / "turned.jpg", exif=exif)
    alpha = np.linspace(0, 255, pixels[..., 0].size).reshape(pixels.shape[:2]).astype(np.uint8)
    Image.fromarray(np.dstack([pixels, alpha])).save(folder / "glass.png")
    Image.fromarray(skimage.data.coffee()[:100, :100]).save(folder / "coffee.png")
    Image.fromarray(np.eye(12, dtype=np.uint8) * 255).save(folder / "mask.png")
    return folder


def assert_same_picture(file: str | Path, wanted: images.Picture) -> None:
    got = images.load(file)
    np.testing.assert_array_equal(got.rgb, wanted.rgb)
    assert (got.alpha is None) == (wanted.alpha is None)
    if wanted.alpha is not None:
        np.testing.assert_array_equal(got.alpha, wanted.alpha)


def test_styles_are_the_checkpoints(client: Client, painter: Painter) -> None:
    assert client.predict(api_name="/styles") == list(painter.style_names) == ["dots", "stripes"]
    assert client.predict(True, api_name="/styles") == ["dots", "stripes", "stripes:2"]


@pytest.mark.parametrize("name", ["chelsea.png", "turned.jpg", "glass.png"])
def test_a_result_is_the_painters_pixel_for_pixel(
    client: Client, painter: Painter, photos: Path, name: str
) -> None:
    file = client.predict(handle_file(photos / name), "stripes:2", api_name="/stylize")
    assert Path(file).name == f"{Path(name).stem}-stripes-2.png"
    assert_same_picture(file, painter.paint(images.load(photos / name), painter.style("stripes:2")))


def test_all_that_is_optional_reaches_the_painter(
    client: Client, painter: Painter, photos: Path
) -> None:
    amounts = {"brushwork": 2.5, "simplify": 2.0, "outlines": 1.5, "tint": 2.0, "tone": 1.5}
    file = client.predict(
        handle_file(photos / "chelsea.png"),
        "dots",
        0.5,
        max_size=80,
        second_style="stripes",
        share=0.25,
        keep_color="luminance",
        mask=handle_file(photos / "mask.png"),
        brush_size=2,
        **amounts,
        api_name="/stylize",
    )
    assert Path(file).name == "chelsea-dots-stripes.png"
    wanted = painter.paint(
        images.load(photos / "chelsea.png"),
        painter.blend([("dots", 0.75), ("stripes", 0.25)]),
        Look(**amounts, strength=0.5, keep_color="luminance", brush_size=2),
        max_size=80,
        mask=images.gray(images.load(photos / "mask.png")),
    )
    assert_same_picture(file, wanted)


def test_what_is_chosen_on_the_page_reaches_the_painter_by_its_name(page: gr.Blocks) -> None:
    (paint,) = (fn for fn in page.fns.values() if fn.name == "paint")
    inputs = dict(zip(paint.input_keyword_names, paint.inputs, strict=True))
    assert {name: inputs[name].label for name in OPTIONS} == {
        name: option.metadata["label"] for name, option in OPTIONS.items()
    }
    others = {"asked", "photo", "mask", "style", "painting", "second", "second_painting"}
    assert inputs.keys() == {*OPTIONS, *others, "share", "size"}
    wish = page_wish(
        style="dots", strength=0.5, tint=2, tone=0, keep_color=True, brush_size=4, size=64
    )
    assert wish.look == Look(strength=0.5, tint=2, tone=0, keep_color="luminance", brush_size=4)
    assert wish.max_size == 64


def test_an_own_painting_is_a_style_or_the_second_one(
    client: Client, painter: Painter, photos: Path
) -> None:
    photo, own = handle_file(photos / "chelsea.png"), handle_file(photos / "coffee.png")
    code = painter.style(photos / "coffee.png")
    file = client.predict(photo, "", painting=own, api_name="/stylize")
    assert Path(file).name == "chelsea-coffee.png"
    assert_same_picture(file, painter.paint(images.load(photos / "chelsea.png"), code))
    file = client.predict(photo, "dots", painting=own, share=0.4, api_name="/stylize")
    blended = painter.blend([("dots", 0.6), (code, 0.4)])
    assert_same_picture(file, painter.paint(images.load(photos / "chelsea.png"), blended))


def test_a_jpeg_is_sent_where_it_is_asked_for(client: Client, photos: Path) -> None:
    file = client.predict(
        handle_file(photos / "chelsea.png"), "dots", format="jpg", api_name="/stylize"
    )
    assert Path(file).name == "chelsea-dots.jpg"
    with Image.open(file) as picture:
        assert picture.format == "JPEG"


def test_a_dozen_requests_at_once_are_all_answered(
    client: Client, painter: Painter, photos: Path, page: gr.Blocks
) -> None:
    photo = handle_file(photos / "chelsea.png")
    jobs = [client.submit(photo, "dots", api_name="/stylize") for _ in range(12)]
    wanted = painter.paint(images.load(photos / "chelsea.png"), painter.style("dots"))
    for job in jobs:
        assert_same_picture(job.result(timeout=PATIENCE), wanted)
    wait_until(lambda: len(page.jobs) == 0)


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"style": "monnet"}, "There is no style 'monnet'; there are dots, stripes."),
        ({"style": "../secret.png"}, "There is no style '../secret.png'; there are dots, stripes."),
        ({"strength": 2}, "Strength must be between 0 and 1, got 2"),
        ({"brushwork": 4}, "Brushwork must be between 0 and 3, got 4"),
        ({"simplify": 4}, "Simplify must be between 0 and 3, got 4"),
        ({"tint": -1}, "Tint must be between 0 and 3, got -1"),
        ({"tone": 4}, "Tone must be between 0 and 3, got 4"),
        ({"brush_size": 3}, "Brush_size must be one of ('auto', 1, 2, 4, 8), got '3'"),
        ({"outlines": 4}, "Outlines must be between 0 and 3, got 4"),
        ({"strength": "strong"}, "Strength must be between 0 and 1, got strong"),
        ({"tint": None}, "Tint must be between 0 and 3, got None"),
        ({"brush_size": "huge"}, "Brush_size must be one of ('auto', 1, 2, 4, 8), got 'huge'"),
        ({"max_size": "large"}, "The max_size is a whole number of pixels, got large."),
        ({"share": "half"}, "The share of the second style is a number from 0 to 1."),
        ({"share": -1, "second_style": "stripes"}, None),
        ({"share": 3, "second_style": "stripes"}, "The share of the second style is a number"),
        ({"max_size": -5}, "A picture's longest side must be at least 1 pixel"),
        ({"keep_color": "blue"}, "Keep_color must be one of"),
        ({"format": "gif"}, "Pictures are saved as png, jpg, webp, not as 'gif'."),
        ({"style": ""}, "Choose a painting first."),
        ({"photo": None}, "Choose a photo first."),
    ],
)
def test_what_cannot_be_done_is_one_friendly_sentence(
    client: Client, photos: Path, asked: dict, sentence: str | None
) -> None:
    call = {"photo": handle_file(photos / "chelsea.png"), "style": "dots", **asked}
    if sentence is None:  # none of the second style is as good as no second style
        assert Path(client.predict(**call, api_name="/stylize")).name == "chelsea-dots.png"
        return
    with pytest.raises(AppError) as refused:
        client.predict(**call, api_name="/stylize")
    assert str(refused.value).startswith(sentence)
    assert "Traceback" not in str(refused.value)


def test_what_is_not_a_picture_gives_one_friendly_sentence(client: Client, tmp_path: Path) -> None:
    (tmp_path / "notes.jpg").write_text("milk, eggs, ultramarine")
    with pytest.raises(AppError) as refused:
        client.predict(handle_file(tmp_path / "notes.jpg"), "dots", api_name="/stylize")
    assert str(refused.value) == "notes.jpg is not a picture in a format that can be read."


@pytest.mark.parametrize("painting", [False, True])
def test_a_picture_with_too_many_pixels_is_refused(
    client: Client, photos: Path, tmp_path: Path, painting: bool
) -> None:
    Image.new("L", (MAX_PIXELS // 500 + 1, 500)).save(tmp_path / "wall.png")
    large, small = handle_file(tmp_path / "wall.png"), handle_file(photos / "coffee.png")
    call = {"photo": small, "style": "", "painting": large} if painting else {"photo": large}
    with pytest.raises(AppError, match=r"wall\.png has 601 x 500 pixels"):
        client.predict(**{"style": "dots", **call}, api_name="/stylize")


def test_an_error_nobody_foresaw_says_nothing_of_this_machine(tmp_path: Path) -> None:
    assert sentence(RuntimeError(f"{tmp_path / 'weights'}: bad")) is None
    damaged = images.ImageError(str(tmp_path / "cat.png"), "is damaged")
    assert sentence(damaged) == "cat.png is damaged."
    assert "memory" in sentence(MemoryError())


@pytest.mark.parametrize("meta", [{}, {"meta": {"_type": "gradio.FileData"}}])
@pytest.mark.parametrize("action", ["stylize", "paint", "preview", "batch", "clip"])
def test_a_file_of_the_server_that_nobody_uploaded_is_refused(
    page: gr.Blocks, photos: Path, meta: dict, action: str
) -> None:
    before = set(page.studio.folder.rglob("coffee.png"))  # which other tests have uploaded
    secret = {"path": str(photos / "coffee.png"), **meta}
    style = ["dots", None, "", None, 0.5, 1, False, 0]
    data = {
        "stylize": [secret, "dots", 1, None, None, "", 0.5, "", None, "png"],
        "paint": [{}, None, secret, "", *style],
        "preview": [{}, None, secret, "", *style],
        "batch": [{}, [secret], "png", *style],
        "clip": [{}, secret, 512, *style],
    }[action]
    number = next(number for number, fn in page.fns.items() if fn.name == action)
    # All of them, or it would be refused for their number.
    data += [1] * (len(page.fns[number].inputs) - len(data))
    api = httpx.Client(base_url=f"{page.local_url}gradio_api", timeout=PATIENCE)
    session = f"{action}{len(meta)}"
    asked = {"data": data, "fn_index": number, "session_hash": session}
    api.post("/queue/join", json=asked).raise_for_status()
    answer = api.get("/queue/data", params={"session_hash": session}).text
    assert '"success":false' in answer and "Upload the picture first" in answer
    assert "coffee" not in answer
    assert set(page.studio.folder.rglob("coffee.png")) == before


def test_one_visitor_cannot_name_anothers_files(
    client: Client, page: gr.Blocks, photos: Path
) -> None:
    before = set(page.studio.folder.glob("result-*"))
    for _ in range(2):
        client.predict(handle_file(photos / "coffee.png"), "dots", api_name="/stylize")
    made = set(page.studio.folder.glob("result-*")) - before
    assert len(made) == 2, "the same picture, yet in two folders"
    assert all(re.fullmatch(r"result-[0-9a-f]{32}", folder.name) for folder in made)
    for path in (page.studio.folder, photos / "coffee.png", Path("/etc/hostname")):
        answer = get(f"{page.local_url}gradio_api/file={path}")
        assert answer.status_code in (403, 404)


def test_too_large_requests_are_refused_unread(page: gr.Blocks) -> None:
    upload = {"files": ("wall.png", io.BytesIO(bytes(50 * 2**20 + 1)))}
    answer = post(f"{page.local_url}gradio_api/upload", files=upload)
    assert answer.status_code == 413
    join = f"{page.local_url}gradio_api/queue/join"
    body, kind = b'{"data": ["' + bytes(gate.LARGEST_REQUEST) + b'"]}', {"content-type": JSON}
    assert post(join, content=body, headers=kind).status_code == 413
    unannounced = post(join, content=iter([body]), headers=kind)
    assert unannounced.status_code == 413


def test_old_results_go_away_and_new_ones_stay(studio: Studio) -> None:
    with studio.new_folder() as old, studio.new_folder() as new:
        (old / "a.png").write_bytes(b"a")
        (new / "b.png").write_bytes(b"b")
    uploaded, unfinished = studio.folder / "upload-c0ffee", studio.folder / "tmpdecaf"
    uploaded.mkdir()
    (uploaded / "cat.png").write_bytes(b"c")
    unfinished.write_bytes(b"half of a")
    hours_ago = time.time() - 7200
    for path in (old, uploaded, unfinished):
        os.utime(path, (hours_ago, hours_ago))
    studio.remove_old(3600)
    assert sorted(studio.folder.iterdir()) == [new]


def test_what_nobody_reads_is_kept_for_one_look_only(page: gr.Blocks) -> None:
    number = next(n for n, fn in page.fns.items() if fn.api_name == "look")
    ask = httpx.Client(base_url=f"{page.local_url}gradio_api", timeout=PATIENCE)
    queue, sweeper = page._queue, server.Sweeper(page._queue)
    messages, events = queue.pending_messages_per_session, queue.pending_event_ids_session

    def join(session: str) -> None:
        body = {"data": [None], "fn_index": number, "session_hash": session}
        ask.post("/queue/join", json=body).raise_for_status()
        wait_until(lambda: session in messages and not queue.event_ids_to_events)

    def sweep() -> None:
        done = threading.Event()

        async def one() -> None:
            await sweeper.sweep()
            done.set()

        page.server.soon(one)
        assert done.wait(PATIENCE)

    for session in ("left", "reads"):
        join(session)
    sweep()
    assert {"left", "reads"} <= messages.keys() & events.keys()
    # Who reads in between still gets everything, and what comes later, too.
    assert "process_completed" in ask.get("/queue/data", params={"session_hash": "reads"}).text
    join("reads")
    sweep()
    assert "left" not in messages and "left" not in events
    assert "process_completed" in ask.get("/queue/data", params={"session_hash": "reads"}).text
    sweep()
    assert "reads" not in messages and "reads" not in events


def test_what_still_waits_in_the_queue_is_no_sweepings() -> None:
    event = SimpleNamespace(alive=True)
    queue = SimpleNamespace(
        pending_messages_per_session={"waits": asyncio.Queue()},
        pending_event_ids_session={"waits": {"a"}, "running": {"a"}, "over": set(), "dead": {"b"}},
        event_ids_to_events={"a": event, "b": SimpleNamespace(alive=False)},
    )
    names = {"a result's file"}
    run(server.Sweeper(queue, [names]).sweep())
    assert not names
    assert queue.pending_messages_per_session.keys() == {"waits"}
    assert queue.pending_event_ids_session.keys() == {"waits", "running"}


def wait_until(is_so) -> None:
    ends = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < ends
        time.sleep(0.02)


def test_a_folder_goes_away_with_what_failed(studio: Studio) -> None:
    with pytest.raises(StoppedError), studio.new_folder():
        raise StoppedError
    assert not list(studio.folder.iterdir())


def test_a_style_may_be_called_anything(painter: Painter, photos: Path, tmp_path: Path) -> None:
    name = "own <b>${alert(1)}{{value}}"
    styles = {name: [painter.style("dots")]}
    models.save_checkpoint(tmp_path / "odd.safetensors", painter.network, styles, {})
    odd = Painter(tmp_path / "odd.safetensors", device="cpu")
    actions = Actions(Studio(odd, tmp_path / "results"))
    visitor = SimpleNamespace(session_hash="visitor")
    file = actions.stylize(visitor, str(photos / "coffee.png"), name)
    assert re.fullmatch(r"[\w.()+ -]+\.png", Path(file).name)
    picker = StylePicker({name: [(name, "", name)]}, value=name).html_template
    assert "<b>" not in picker
    assert "${" not in picker and "{{" not in picker


@pytest.mark.parametrize(
    ("photo", "wish", "name"),
    [
        ("IMG_1.HEIC", Wish("monet"), "IMG_1-monet.png"),
        ("my cat.jpg", Wish("monet:2"), "my cat-monet-2.png"),
        ("cat.jpg", Wish("monet", second="vangogh:3", share=0.5), "cat-monet-vangogh-3.png"),
        ("cat.jpg", Wish("monet", second="vangogh", share=0), "cat-monet.png"),
        ("cat.jpg", Wish(OWN, painting="/x/Sunflowers.tif"), "cat-Sunflowers.png"),
        ('a"b<c>|d?*.jpg', Wish("monet"), "a-b-c-d--monet.png"),
        ("x" * 300 + ".jpg", Wish("monet"), "x" * 60 + "-monet.png"),
    ],
)
def test_a_result_is_called_after_its_photo_and_style(photo: str, wish: Wish, name: str) -> None:
    assert result_name(photo, wish, "png") == name


def png_url(levels: np.ndarray) -> str:
    file = io.BytesIO()
    Image.fromarray(levels).save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def test_a_drawn_mask_is_its_opaque_white() -> None:
    drawn = np.zeros((6, 8, 4), np.uint8)
    drawn[1:3, 2:5] = 255
    np.testing.assert_array_equal(drawn_mask(png_url(drawn)), drawn[..., 3])
    assert drawn_mask("") is None
    assert drawn_mask(png_url(np.zeros_like(drawn))) is None


@pytest.mark.parametrize(
    "text",
    ["/etc/passwd", "data:image/png;base64,!", "data:image/png;base64,AAAA", "d" * 3_000_000],
)
def test_what_is_no_drawn_mask_is_refused(text: str) -> None:
    with pytest.raises(RefusedError, match="clear it and draw again"):
        drawn_mask(text)


def test_a_photo_is_decoded_once_for_several_styles(
    studio: Studio, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "photo.png"
    file.write_bytes((photos / "coffee.png").read_bytes())
    first = studio.read(file, max_size=64)
    assert max(first.width, first.height) == 64
    with monkeypatch.context() as patch:
        patch.setattr(images, "load", lambda *_, **__: pytest.fail("decoded again"))
        assert studio.read(file, max_size=64) is first
    images.save(images.load(file, max_size=32), file)  # another one of its name
    assert studio.read(file, max_size=64) is not first
    assert studio.read(file, max_size=20).width <= 20


def asked_for(actions: Actions, name: str = "paint", **inputs) -> dict:
    """The last answer to a page's wish."""
    *_, answer = getattr(actions, name)(VISITOR, {"wish": 7}, **inputs)
    return answer


VISITOR = SimpleNamespace(session_hash="visitor")


def test_the_files_are_of_the_newest_result_and_are_written_once(
    studio: Studio, photos: Path
) -> None:
    actions = Actions(studio)
    inputs = {"photo": str(photos / "coffee.png"), "style": "dots"}
    asked_for(actions, size=40, **inputs)
    answer = asked_for(actions, size=64, **inputs)
    assert answer["wish"] == 7 and answer["kind"] == "painted"
    files = actions.files(VISITOR, {"wish": 7})
    assert files["wish"] == 7 and Path(files["png"]).name == "coffee-dots.png"
    assert images.load(files["png"]).width == images.load(files["jpg"]).width == 64
    # A page keeps no pixels of what it has the files of.
    assert actions.files(VISITOR, {"wish": 7}) == {}
    asked_for(actions, size=40, **inputs)
    assert actions.files(SimpleNamespace(session_hash="another"), {"wish": 7}) == {}


def test_a_result_that_another_one_replaced_gets_no_files(
    studio: Studio, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    actions, save = Actions(studio), images.save
    inputs = {"photo": str(photos / "coffee.png"), "style": "dots", "size": 40}
    asked_for(actions, **inputs)

    def slowly(picture, path, *given, **options):  # until the next result is there
        monkeypatch.setattr(images, "save", save)
        asked_for(actions, **inputs)
        return save(picture, path, *given, **options)

    monkeypatch.setattr(images, "save", slowly)
    assert actions.files(VISITOR, {"wish": 7}) == {}
    assert set(actions.files(VISITOR, {"wish": 7})) == {"wish", "png", "jpg"}


def test_results_that_nobody_asks_for_are_let_go_of(monkeypatch: pytest.MonkeyPatch) -> None:
    picture = images.Picture(np.zeros((10, 10, 3), np.uint8))  # 300 bytes, and as many before
    finished = [Finished(Painted(picture, picture, 1.0), "photo.png", Wish("dots")) for _ in "abcd"]
    unwritten = Unwritten(most=1300, keep=60)
    for session, one in zip("abcd", finished, strict=True):
        unwritten.put(session, one)
    assert [unwritten.take(session) for session in "ab"] == [None, None]
    assert unwritten.take("c") is finished[2] and unwritten.has("d")
    assert not unwritten.let_go() and unwritten.has("d")
    later = time.monotonic() + 61
    # The name in that module only: the clock itself is also what a server's timers go by.
    monkeypatch.setattr("app.demo.unwritten.time", SimpleNamespace(monotonic=lambda: later))
    assert unwritten.let_go() and not unwritten.has("d")
    small = Unwritten(most=1)
    small.put("a", finished[0])
    assert small.has("a")  # the newest stays however large it is


def test_a_preview_is_small_and_painted_as_the_whole_is(
    studio: Studio, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.demo.actions.PREVIEW_SIDE", 40)
    wishes, paint = [], studio.paint
    monkeypatch.setattr(
        studio,
        "paint",
        lambda photo, wish, *g, **o: wishes.append(wish) or paint(photo, wish, *g, **o),
    )
    inputs = {"photo": str(photos / "coffee.png"), "style": "dots", "brush_size": 4, "tint": 2}
    actions = Actions(studio)
    answer = asked_for(actions, "preview", size=80, **inputs)
    assert answer["kind"] == "preview" and not actions.unwritten.has("visitor")
    assert images.load(answer["after"]).width == 40
    # Strokes that are four times as large are twice as large where the picture is half as large.
    assert wishes[0].look == Look(tint=2, brush_size=2)
    assert answer["full_seconds"] > 0
    # Where the whole is no larger it is what is painted.
    answer = asked_for(actions, "preview", size=32, **inputs)
    assert answer["kind"] == "painted" and wishes[1].look.brush_size == 4
    assert actions.unwritten.has("visitor")


def test_without_a_photo_an_example_shows_what_a_style_does(studio: Studio) -> None:
    answer = asked_for(Actions(studio), "preview", style="dots", size=1024)
    assert answer["kind"] == "preview"
    assert images.load(answer["after"]).width == 512
    answer = asked_for(Actions(studio), style="dots", size=1024)
    assert answer == {"wish": 7, "kind": "sorry", "text": "Choose a photo first."}


def test_a_newer_wish_of_a_page_ends_its_older_one(studio: Studio, photos: Path) -> None:
    actions, begun, go_on = Actions(studio), threading.Event(), threading.Event()
    paint = studio.painter.paint

    def slow(*given, progress=None, **options):
        begun.set()
        while not go_on.wait(0.05):
            progress(0.5)
        return paint(*given, progress=progress, **options)

    inputs = {"photo": str(photos / "coffee.png"), "style": "dots", "size": 64}
    studio.painter.paint = slow
    with ThreadPoolExecutor(2) as pool:
        try:
            older = pool.submit(lambda: list(actions.paint(VISITOR, {}, **inputs)))
            assert begun.wait(PATIENCE)
            newer = pool.submit(lambda: list(actions.preview(VISITOR, {}, **inputs)))
            assert older.result(PATIENCE)[-1] == {"kind": "stopped"}
            go_on.set()
            assert newer.result(PATIENCE)[-1]["kind"] == "painted"
        finally:
            go_on.set()
            studio.painter.paint = paint


def test_a_file_that_is_gone_is_asked_for_again(studio: Studio, tmp_path: Path) -> None:
    photo = str(tmp_path / "gone.png")
    answer = asked_for(Actions(studio), photo=photo, style="dots")
    assert answer == {"wish": 7, "kind": "gone", "text": "Upload a photo again, please."}
    assert Actions(studio).look(photo) == {"path": photo, "gone": True}


def test_a_batch_that_was_stopped_keeps_what_was_finished(
    studio: Studio, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    actions, add = Actions(studio), Actions._add

    def add_then_stop(self, *given):
        add(self, *given)
        self.stop(VISITOR)

    monkeypatch.setattr(Actions, "_add", add_then_stop)
    files = [str(photos / name) for name in ("coffee.png", "chelsea.png", "glass.png")]
    *_, last = actions.batch(VISITOR, {}, photos=files, style="dots", size=48)
    assert last["text"] == "Stopped: 1 photo painted, 2 left out:"
    assert last["left"] == [
        "chelsea.png: not painted, stopped.",
        "glass.png: not painted, stopped.",
    ]
    with zipfile.ZipFile(last["zip"]) as archive:
        assert archive.namelist() == ["coffee-dots.png"]


def test_the_line_lets_previews_go_first_and_knows_how_long_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = 0.0
    monkeypatch.setattr("app.demo.line.time", SimpleNamespace(monotonic=lambda: clock))
    line, order, go_on = Line(), [], threading.Event()

    def wait(name: str, megapixels: float, quick: bool = False) -> threading.Thread:
        def painting() -> None:
            with line.turn(megapixels, quick=quick):
                order.append(name)
                go_on.wait(PATIENCE)

        thread = threading.Thread(target=painting)
        thread.start()
        return thread

    threads = [wait("first", 4)]
    wait_until(lambda: order)
    for number, given in enumerate([("large", 8), ("also", 8), ("quick", 0.2, True)], 2):
        threads.append(wait(*given))
        wait_until(lambda number=number: len(line._places) == number)
    large, also, quick = line._places[1:]
    # A megapixel takes three seconds, as long as none was measured.
    assert line.ahead(quick) == pytest.approx(12)
    clock = 2.0
    assert line.ahead(quick) == pytest.approx(10)
    assert line.ahead(large) == pytest.approx(10.6)
    assert line.ahead(also) == pytest.approx(34.6)
    go_on.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert order == ["first", "quick", "large", "also"]
    assert line.seconds(1) <= 0.5  # it has learned


def test_the_judge_says_nothing_where_it_guesses_or_disagrees(studio: Studio, photos: Path) -> None:
    asked = {"wish": 3, "picture": {"path": str(photos / "coffee.png")}, "style": "monet:2"}

    def about(**shares: float) -> dict:
        judge = SimpleNamespace(
            opinion=lambda _: {k.replace("_", " "): v for k, v in shares.items()}
        )
        return Actions(studio, judge).about(asked)

    sure = about(Monet=0.8, Cézanne=0.2)
    assert sure["wish"] == 3
    assert sure["facts"] == {"A judge of styles takes it for": "Monet, and is 80% sure"}
    assert about(Monet=0.6, Cézanne=0.4) == {}, "a guess"
    assert about(Monet=0.2, Van_Gogh=0.8) == {}, "another style"
    assert Actions(studio, None).about(asked) == {}


def test_every_built_in_style_is_named_and_says_what_it_was_learned_from() -> None:
    record = models.load_checkpoint(CHECKPOINT, device="cpu")
    codes = {name: len(several) for name, several in record.styles.items()}
    assert len(codes) == 12 and set(codes) <= set(TITLES)
    from_paintings = learned_from(record.record)
    names = [
        name if number == 0 else f"{name}:{number + 1}"
        for name, several in codes.items()
        for number in range(several)
    ]
    assert set(names) == set(from_paintings) and len(set(from_paintings.values())) == len(names)
    assert from_paintings["vangogh"] == "harvest on a plain"
    assert from_paintings["hokusai"] == "109 prints by Hokusai and Hiroshige"
    assert from_paintings["hokusai:2"] == "Fuji above a lake"


def test_a_code_of_many_pictures_is_named_wherever_it_stands() -> None:
    record = {
        "added": {"tarot": {"learned_from": {"tarot": [74]}}},
        "codes": {"tarot": {"from": ["tarot_pcs_0019.jpg", "own:1"]}},
    }
    cards = "74 tarot cards by Pamela Colman Smith"
    assert learned_from(record) == {"tarot": "the six of pentacles", "tarot:2": cards}
    assert learned_from({"added": record["added"]}) == {"tarot": cards}


@pytest.mark.parametrize("codes", [5, [1], {"tarot": 5}, {"tarot": {"from": 5}}, {"tarot": None}])
def test_a_record_of_another_form_says_nothing_of_codes(codes: object) -> None:
    added = {"tarot": {"learned_from": {"tarot": [74]}}, "monet": 3}
    cards = "74 tarot cards by Pamela Colman Smith"
    assert learned_from({"codes": codes, "added": added}) == {"tarot": cards}
    assert learned_from({"codes": codes, "added": codes}) == {}


def test_rest_begins_once_after_each_stretch_of_work() -> None:
    jobs = Jobs()
    rest, time, rests = server.Rest(jobs), 1000.0, []
    for work in ("", "seen", "seen", "", "", "", "", "between", "", "", "", ""):
        time += server.IDLE / 2
        with contextlib.ExitStack() as running:
            if work:
                running.enter_context(jobs.running("visitor"))
            if work == "between":  # it is over before anybody looks
                running.close()
            rests.append(rest.begins(time))
    assert [number for number, begins in enumerate(rests) if begins] == [4, 9]


def test_a_process_at_rest_gives_its_memory_back(
    page: gr.Blocks, client: Client, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The page's own server looks every second, and would wait for ten.
    monkeypatch.setattr(server, "IDLE", math.inf)
    given_back, kept = threading.Event(), page.studio.painter._contents.kept
    client.predict(handle_file(photos / "coffee.png"), "dots", max_size=64, api_name="/stylize")
    assert kept
    monkeypatch.setattr(server, "IDLE", 0)
    monkeypatch.setattr(server, "give_back", given_back.set)
    assert given_back.wait(PATIENCE)
    wait_until(lambda: not kept)


def test_a_photo_that_is_painted_again_is_not_shown_anew(studio: Studio, photos: Path) -> None:
    actions = Actions(studio)

    def paint(name: str, size: int) -> tuple[str, str]:
        answer = asked_for(actions, photo=str(photos / name), style="dots", size=size)
        return answer["before"], answer["after"]

    before, after = paint("coffee.png", 64)
    again, after_again = paint("coffee.png", 64)
    assert again == before and after_again != after
    smaller, _ = paint("coffee.png", 48)
    assert smaller != before and images.load(smaller).width == 48
    other, _ = paint("chelsea.png", 48)
    assert other != smaller
    Path(other).unlink()  # its hour is over
    written, _ = paint("chelsea.png", 48)
    assert written != other and Path(written).is_file()


def test_what_is_shown_is_small_and_keeps_transparency(tmp_path: Path) -> None:
    large = images.Picture(np.zeros((20, 3000, 3), np.uint8), np.full((20, 3000), 7, np.uint8))
    shown = images.load(save_shown(large, tmp_path / "large"))
    assert shown.width == 1600
    assert (shown.alpha == 7).all()


def test_the_pages_pictures_are_painted_once_for_the_same_weights(
    studio: Studio, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def painted() -> dict[str, bytes]:
        shown = examples.pictures(studio, tmp_path)
        return {name: shown.files[file] for name, file in shown.styles.items()}

    first = painted()
    assert list(first) == ["dots", "stripes", "stripes:2"]
    assert len(set(first.values())) == 3
    with monkeypatch.context() as patch:
        patch.setattr(studio, "paint", lambda *_: pytest.fail("painted again"))
        assert painted() == first
    style = studio.painter.style
    with monkeypatch.context() as patch:  # for what the styles want of a photo, too
        other = models.Ground(simplify=1.0)
        patch.setattr(studio.painter, "style", lambda name: replace(style(name), ground=other))
        assert painted()["dots"] != first["dots"]
    *_, weight = studio.painter.network.parameters()
    before = weight.data
    try:
        weight.data = before + 0.1
        studio.forget()  # no weight changes while it serves
        assert painted() != first
    finally:
        weight.data = before
        studio.forget()


def test_a_links_preview_says_what_the_page_is(page: gr.Blocks) -> None:
    text = get(page.local_url).text
    assert "<title>Repaint: your photo as a painting</title>" in text
    assert "Gradio" not in "".join(re.findall(r"<meta[^>]*>", text))
    (picture,) = re.findall(r'og:image" content="([^"]+)"', text)
    assert picture == f"{page.local_url}page/card.jpg"
    card = Image.open(io.BytesIO(get(picture).content))
    assert card.size == (1200, 630)
    assert 'name="theme-color"' in text and 'rel="icon"' in text
    assert get(f"{page.local_url}favicon.ico").headers["content-type"] == "image/svg+xml"
    assert get(f"{page.local_url}page/page.js").status_code == 404


def test_the_page_is_sent_compressed_and_is_small(page: gr.Blocks) -> None:
    with stream("GET", page.local_url, headers={"accept-encoding": "gzip"}) as answer:
        assert answer.headers["content-encoding"] == "gzip"
        assert len(b"".join(answer.iter_raw())) < 60_000


def test_the_newest_wish_goes_on_in_whatever_order_requests_arrive() -> None:
    jobs = Jobs()
    with jobs.running("ann", "one", 3) as newest, jobs.running("bob", "one", 1) as other:
        with jobs.running("ann", "one", 2) as late, pytest.raises(StoppedError):
            late()
        newest()
        other()
        with jobs.running("ann", "one", 4) as newer:
            newer()
            with pytest.raises(StoppedError):
                newest()


def test_stopping_a_session_stops_what_it_has_running_and_nothing_else() -> None:
    jobs = Jobs()
    with jobs.running("ann") as ann, jobs.running("ann") as also_ann, jobs.running("bob") as bob:
        jobs.stop("ann")
        jobs.stop("nobody")
        bob()
        for check in (ann, also_ann):
            with pytest.raises(StoppedError):
                check()
        assert len(jobs) == 3
    assert len(jobs) == 0
    with jobs.running("ann") as later:
        later()


def test_the_page_loads_nothing_from_another_host(page: gr.Blocks) -> None:
    document = get(page.local_url).text
    loaded = re.findall(r"<(?:script|link|img|iframe)\b[^>]*?(?:src|href)=[\"']([^\"']+)", document)
    assert loaded, "the page's own scripts were not found"
    loaded += page.theme._stylesheets
    styles = get(f"{page.local_url}theme.css").text
    assert "--body-background-fill" in styles
    loaded += re.findall(r"(?:url\(|@import\s+)[\"']?([^\"')]+)", styles)
    hosts = {httpx.URL(address).host for address in loaded} - {""}
    assert hosts <= {"127.0.0.1"}
    assert page.config["analytics_enabled"] is False


def test_examples_are_pictures() -> None:
    found = examples.example_photos()
    assert found
    for path, shows in found:
        assert images.load(path).width > 100
        assert shows


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP"])
def test_one_signal_of_any_kind_ends_the_server(name: str) -> None:
    """What it leaves then is asked in test_security.py, where several come at once."""

    def outside(*_: object) -> None:
        pytest.fail("not the server's")

    number = getattr(signal, name)
    before = signal.signal(number, outside)  # a shell in the background may have it ignored
    try:
        with _ending_once() as is_ending:
            assert not is_ending()
            with pytest.raises(SystemExit) as ended:
                signal.raise_signal(number)
            assert ended.value.code == 0 and is_ending()
            signal.raise_signal(number)
        assert signal.getsignal(number) is outside
    finally:
        signal.signal(number, before)


def test_a_port_in_use_is_one_line_and_exit_code_2(
    checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port = free_port()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        assert main(["--port", str(port), "--checkpoint", str(checkpoint)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert f"127.0.0.1:{port}" in lines[0] and "in use" in lines[0]


def test_a_missing_checkpoint_is_one_line_that_names_it_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = str(tmp_path / "missing.safetensors")
    assert main(["--port", str(free_port()), "--checkpoint", missing]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert missing in lines[0]


@pytest.mark.parametrize(
    "wrong", [["--port", "0"], ["--port", "x"], ["--max-pixels", "0"], ["--max-queue", "0"]]
)
def test_a_wrong_option_is_exit_code_2(wrong: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(wrong)
    assert ended.value.code == 2
