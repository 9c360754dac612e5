"""The demo as its visitors use it: a running server, asked over HTTP."""

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import gradio as gr
import httpx
import numpy as np
import pytest
import skimage.data
from gradio_client import Client, handle_file
from gradio_client.exceptions import AppError
from PIL import Image

from app import demo, images
from app.__main__ import main
from app.painter import Painter

MAX_PIXELS = 300_000


@pytest.fixture(scope="module")
def painter(checkpoint: Path) -> Painter:
    return Painter(checkpoint, device="cpu")


@pytest.fixture(scope="module")
def page(painter: Painter, tmp_path_factory: pytest.TempPathFactory) -> Iterator[gr.Blocks]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRADIO_TEMP_DIR", str(tmp_path_factory.mktemp("uploads")))
        page = demo.build(painter, max_pixels=MAX_PIXELS)
        demo.serve(page, port=free_port())
        yield page
        page.close(verbose=False)


@pytest.fixture(scope="module")
def client(page: gr.Blocks, tmp_path_factory: pytest.TempPathFactory) -> Client:
    return Client(
        page.local_url,
        verbose=False,
        analytics_enabled=False,
        download_files=tmp_path_factory.mktemp("downloads"),
    )


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """chelsea.png, turned.jpg (EXIF orientation 6), glass.png (with alpha), coffee.png."""
    folder = tmp_path_factory.mktemp("photos")
    pixels = skimage.data.chelsea()[:120, :161]
    Image.fromarray(pixels).save(folder / "chelsea.png")
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(pixels).save(folder / "turned.jpg", exif=exif)
    alpha = np.linspace(0, 255, pixels[..., 0].size).reshape(pixels.shape[:2]).astype(np.uint8)
    Image.fromarray(np.dstack([pixels, alpha])).save(folder / "glass.png")
    Image.fromarray(skimage.data.coffee()[:100, :100]).save(folder / "coffee.png")
    return folder


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def assert_same_picture(file: str | Path, wanted: images.Picture) -> None:
    got = images.load(file)
    np.testing.assert_array_equal(got.rgb, wanted.rgb)
    assert (got.alpha is None) == (wanted.alpha is None)
    if wanted.alpha is not None:
        np.testing.assert_array_equal(got.alpha, wanted.alpha)


def test_styles_are_the_checkpoints(client: Client, painter: Painter) -> None:
    assert client.predict(api_name="/styles") == list(painter.style_names) == ["dots", "stripes"]


@pytest.mark.parametrize("name", ["chelsea.png", "turned.jpg", "glass.png"])
def test_a_result_is_the_painters_pixel_for_pixel(
    client: Client, painter: Painter, photos: Path, name: str
) -> None:
    file = client.predict(handle_file(photos / name), "stripes", api_name="/stylize")
    assert Path(file).name == f"{Path(name).stem}-stripes.png"
    assert_same_picture(file, painter.paint(images.load(photos / name), painter.style("stripes")))


def test_strength_and_size_reach_the_painter(
    client: Client, painter: Painter, photos: Path
) -> None:
    file = client.predict(
        handle_file(photos / "chelsea.png"), "dots", 0.5, max_size=80, api_name="/stylize"
    )
    photo = images.load(photos / "chelsea.png")
    assert_same_picture(file, painter.paint(photo, painter.style("dots"), 0.5, max_size=80))


def test_an_own_painting_is_a_style(client: Client, painter: Painter, photos: Path) -> None:
    file = client.predict(
        handle_file(photos / "chelsea.png"),
        demo.OWN_PAINTING,
        painting=handle_file(photos / "coffee.png"),
        api_name="/stylize",
    )
    assert Path(file).name == "chelsea-coffee.png"
    photo, style = images.load(photos / "chelsea.png"), painter.style(photos / "coffee.png")
    assert_same_picture(file, painter.paint(photo, style))


def test_the_pages_button_shows_the_photo_beside_its_painting(
    page: gr.Blocks, painter: Painter, photos: Path
) -> None:
    button = next(number for number, fn in page.fns.items() if fn.name == "repaint")
    api = httpx.Client(base_url=f"{page.local_url}gradio_api", timeout=30)
    with open(photos / "glass.png", "rb") as file:
        uploaded = api.post("/upload", files={"files": file}).json()[0]
    photo = {"path": uploaded, "meta": {"_type": "gradio.FileData"}}
    asked = {"data": [photo, "dots", 1, None, 512], "fn_index": button, "session_hash": "visitor"}
    api.post("/queue/join", json=asked).raise_for_status()
    with api.stream("GET", "/queue/data", params={"session_hash": "visitor"}) as events:
        messages = (json.loads(line[5:]) for line in events.iter_lines() if line)
        done = next(message for message in messages if message["msg"] == "process_completed")
    (before, after), download = done["output"]["data"]
    assert_same_picture(before["path"], images.load(photos / "glass.png"))
    wanted = painter.paint(images.load(photos / "glass.png"), painter.style("dots"))
    assert_same_picture(after["path"], wanted)
    assert download["value"]["path"] == after["path"] and download["interactive"]


def test_what_is_not_a_picture_gives_one_friendly_sentence(client: Client, tmp_path: Path) -> None:
    (tmp_path / "notes.jpg").write_text("milk, eggs, ultramarine")
    with pytest.raises(AppError) as refused:
        client.predict(handle_file(tmp_path / "notes.jpg"), "dots", api_name="/stylize")
    assert str(refused.value) == "notes.jpg is not a picture in a format that can be read."


def test_a_photo_with_too_many_pixels_is_refused(client: Client, tmp_path: Path) -> None:
    Image.new("L", (MAX_PIXELS // 500 + 1, 500)).save(tmp_path / "wall.png")
    with pytest.raises(AppError, match=r"wall\.png has 601 x 500 pixels"):
        client.predict(handle_file(tmp_path / "wall.png"), "dots", api_name="/stylize")


def test_nothing_chosen_says_what_to_choose(client: Client, photos: Path) -> None:
    with pytest.raises(AppError, match="Choose a photo first"):
        client.predict(None, "dots", api_name="/stylize")
    with pytest.raises(AppError, match="Choose a painting first"):
        client.predict(handle_file(photos / "coffee.png"), demo.OWN_PAINTING, api_name="/stylize")


@pytest.mark.parametrize("meta", [{}, {"meta": {"_type": "gradio.FileData"}}])
def test_a_file_of_the_server_that_nobody_uploaded_is_refused(
    page: gr.Blocks, photos: Path, meta: dict
) -> None:
    secret = {"path": str(photos / "coffee.png"), **meta}
    call = f"{page.local_url}gradio_api/call/stylize"
    event = httpx.post(call, json={"data": [secret, "dots", 1, None, 512]}).json()["event_id"]
    answer = httpx.get(f"{call}/{event}", timeout=30).text
    assert "event: error" in answer
    assert "coffee" not in answer


def test_the_page_loads_nothing_from_another_host(page: gr.Blocks) -> None:
    document = httpx.get(page.local_url).text
    loaded = re.findall(r"<(?:script|link|img|iframe)\b[^>]*?(?:src|href)=[\"']([^\"']+)", document)
    assert loaded, "the page's own scripts were not found"
    loaded += page.theme._stylesheets
    styles = httpx.get(f"{page.local_url}theme.css").text
    assert "--body-background-fill" in styles
    loaded += re.findall(r"(?:url\(|@import\s+)[\"']?([^\"')]+)", styles)
    hosts = {httpx.URL(address).host for address in loaded} - {""}
    assert hosts <= {"127.0.0.1"}
    assert page.config["analytics_enabled"] is False


def test_examples_are_pictures() -> None:
    examples = demo.example_photos()
    assert examples
    for path in examples:
        assert images.load(path).width > 100


def test_a_port_in_use_is_one_line_and_exit_code_2(
    checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
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


@pytest.mark.parametrize("wrong", [["--port", "0"], ["--port", "x"], ["--max-pixels", "0"]])
def test_a_wrong_option_is_exit_code_2(wrong: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(wrong)
    assert ended.value.code == 2
