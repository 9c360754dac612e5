"""A running demo and a real headless Chromium; skipped where that is absent and not required."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import gradio as gr
import numpy as np
import pytest
import skimage.data
from PIL import Image

from app.painter import Painter
from tests.app.conftest import checkpoint  # noqa: F401 (a fixture)
from tests.demo_server import serving
from tests.patience import PATIENCE

# What .ci/run sets: without a browser these tests then fail instead of being skipped.
REQUIRED = bool(os.environ.get("REPAINT_BROWSER_TESTS"))

if not REQUIRED:
    pytest.importorskip("playwright")
from playwright import sync_api as playwright  # noqa: E402

playwright.expect.set_options(timeout=1000 * PATIENCE)


@pytest.fixture(scope="session")
def browser() -> Iterator["playwright.Browser"]:
    """Debian's Chromium, or another that is on the path."""
    found = [shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome")]
    executable = next((path for path in found if path), None)
    if executable is None:
        if REQUIRED:
            pytest.fail("no chromium on the path, and the browser tests are required")
        pytest.skip("no chromium on the path")
    with playwright.sync_playwright() as driver:
        # Inside a container root has no sandbox, and /dev/shm is small.
        options = ["--no-sandbox", "--disable-dev-shm-usage"]
        # A camera whose picture moves, and a visitor who allows it.
        options += ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]
        browser = driver.chromium.launch(executable_path=executable, args=options)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def painter(checkpoint: Path) -> Painter:  # noqa: F811
    return Painter(checkpoint, device="cpu")


@pytest.fixture(scope="session")
def server(painter: Painter, tmp_path_factory: pytest.TempPathFactory) -> Iterator[gr.Blocks]:
    with serving(painter, tmp_path_factory.mktemp("uploads")) as page:
        yield page


@pytest.fixture
def open_page(browser, server: gr.Blocks) -> Iterator[Callable]:
    """Opens the demo; afterwards nothing was asked of another host, and no error was logged."""
    contexts, wrong = [], []

    def watch(page) -> None:
        local = (server.local_url, "data:", "blob:")
        page.on("request", lambda r: r.url.startswith(local) or wrong.append(f"asked {r.url}"))
        page.on("console", lambda m: m.type == "error" and wrong.append(f"console: {m.text}"))
        page.on("pageerror", lambda error: wrong.append(f"page: {error}"))

    def open_page(**options):
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(1000 * PATIENCE)
        watch(page)
        page.goto(server.local_url)
        page.wait_for_function("document.body.dataset.ready")
        return page

    open_page.wrong = wrong
    yield open_page
    for context in contexts:
        context.close()
    assert not wrong


@pytest.fixture
def page(open_page: Callable):
    return open_page(viewport={"width": 1280, "height": 900})


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """cat.png, coffee.jpg (EXIF orientation 6), painting.png, notes.jpg (which is text)."""
    folder = tmp_path_factory.mktemp("photos")
    Image.fromarray(skimage.data.chelsea()[:120, 60:240]).save(folder / "cat.png")
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(skimage.data.coffee()[:120, 100:260]).save(folder / "coffee.jpg", exif=exif)
    Image.fromarray(skimage.data.astronaut()[:96, 200:296]).save(folder / "painting.png")
    (folder / "notes.jpg").write_text("milk, eggs, ultramarine")
    return folder


@pytest.fixture(scope="session")
def from_command_line(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable:  # noqa: F811
    """The pixels that the command line makes of one photo: (H,W,3) uint8."""
    from app.stylize import main

    def stylize(photo: Path, *options: str) -> np.ndarray:
        out = tmp_path_factory.mktemp("out")
        asked = [str(photo), "--out", str(out), "--format", "png", "--device", "cpu"]
        assert main([*asked, "--checkpoint", str(checkpoint), *options]) == 0
        (result,) = out.glob("*.png")
        return np.asarray(Image.open(result))

    return stylize
