"""The static page paints in the browser itself what the command line paints."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import skimage.data
from PIL import Image
from playwright import sync_api as playwright

from app.painter import Painter
from app.site.serve import HEADERS, Bare
from benchmarks import site as measured

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ROOT / ".venv" / "npm" / "node_modules"
RUNTIME = PACKAGES / "onnxruntime-web" / "dist"

pytest.importorskip("onnxscript", reason="make site-deps installs it")
if not RUNTIME.is_dir():
    pytest.skip("no onnxruntime-web: npm was not there to install it", allow_module_level=True)


@pytest.fixture(scope="session")
def built(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from app.site.build import build

    folder = tmp_path_factory.mktemp("site")
    example = folder / "example.png"
    Image.fromarray(skimage.data.coffee()[100:196, 100:228]).save(example)
    build(folder / "site", RUNTIME, checkpoint, example)
    return folder / "site"


@pytest.fixture
def visit(browser, built: Path) -> Iterator[Callable]:
    """Opens the page; afterwards nothing was asked of another host, and no error was logged."""
    contexts, wrong = [], []
    with measured.serving(built) as address:

        def visit(**options):
            context = browser.new_context(**options)
            contexts.append(context)
            page = context.new_page()
            page.on(
                "request", lambda r: r.url.startswith((address, "blob:")) or wrong.append(r.url)
            )
            page.on("console", lambda m: m.type == "error" and wrong.append(m.text))
            page.on("pageerror", lambda error: wrong.append(str(error)))
            return measured.Page(page, address)

        yield visit
        for context in contexts:
            context.close()
    assert not wrong


@pytest.fixture
def page(visit):
    return visit(viewport={"width": 360, "height": 740})


def test_it_paints_as_the_command_line_does(page, painter: Painter):
    cat = measured.png(skimage.data.chelsea()[:90, 60:180])
    clear = np.dstack([skimage.data.chelsea()[:60, 60:140], np.full((60, 80), 128, np.uint8)])
    clear[:, :30, 3] = 255
    everything = dict.fromkeys(measured.AMOUNTS, 2.0) | {"keep_color": "matched", "brush_size": 2}
    cases = [
        measured.Case("a ground", ("cat.png", cat), "stripes"),
        measured.Case("half", ("cat.png", cat), "stripes", {"strength": 0.5}),
        measured.Case("everything", ("cat.png", cat), "dots", everything),
        measured.Case("own", ("cat.png", cat), ("own.png", measured.png(_painting()))),
        measured.Case(
            "turned", ("turned.jpg", measured.turned(skimage.data.coffee()[:80, :120])), "dots"
        ),
        measured.Case("clear", ("clear.png", measured.png(clear)), "dots"),
    ]
    for row in measured.compare(page, painter, cases):
        assert row["mean"] < measured.MOST_MEAN, row
        assert row["within"] > measured.LEAST_SHARE, row


def _painting() -> np.ndarray:
    return skimage.data.astronaut()[:96, 200:296]


def test_it_works_by_keyboard_alone_and_fits_a_phone(page):
    inside = page.page
    assert inside.evaluate("document.documentElement.scrollWidth") == 360
    inside.locator("#choose").focus()
    inside.keyboard.press("Tab")
    inside.keyboard.press("Tab")
    assert inside.evaluate("document.activeElement.dataset.style") == "dots:1"
    page._forget()
    inside.keyboard.press("ArrowRight")
    page.painted()
    assert inside.evaluate("document.activeElement.dataset.style") == "stripes:1"
    assert inside.locator('[data-style="stripes:1"]').get_attribute("aria-checked") == "true"
    page._forget()
    inside.keyboard.press("Control+z")
    page.painted()
    assert inside.locator('[data-style="dots:1"]').get_attribute("aria-checked") == "true"


def test_bad_files_are_a_sentence_and_the_page_goes_on(page):
    inside = page.page
    for name, content, words in (
        ("notes.jpg", b"milk, eggs", "notes.jpg is no picture that this browser can open."),
        (
            "a.heic",
            b"\0\0\0\x18ftypheic" + bytes(40),
            "HEIC picture, which this browser can't open",
        ),
        ("none.png", b"", "none.png is empty."),
    ):
        file = {"name": name, "mimeType": "image/png", "buffer": content}
        inside.locator("#photo-file").set_input_files(file)
        inside.get_by_role("alert").filter(has_text=words).wait_for()
    page.choose("stripes")
    assert inside.get_by_role("alert").is_hidden()


def test_it_has_nothing_serious_for_a_screen_reader_to_stumble_over(page):
    axe = PACKAGES / "axe-core" / "axe.min.js"
    page.page.evaluate(axe.read_text(encoding="utf-8") + ";0")
    found = page.page.evaluate("axe.run().then(({ violations }) => violations)")
    serious = [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in SERIOUS]
    assert not serious


SERIOUS = ("serious", "critical")


def test_a_second_visit_works_offline(visit, built):
    first = visit()
    _kept(first)
    context = first.page.context
    context.set_offline(True)
    again = measured.Page(context.new_page(), first.page.url)
    again.choose("stripes")


def _kept(page: measured.Page) -> None:
    playwright.expect(page.page.locator("body")).to_have_attribute(
        "data-kept", "true", timeout=measured.PATIENCE
    )


def test_a_host_without_the_headers_has_threads_from_the_second_visit_on(browser, built):
    assert "Cross-Origin-Embedder-Policy" in HEADERS
    with measured.serving(built, Bare) as address, browser.new_context() as context:
        first = measured.Page(context.new_page(), address)
        assert first.page.locator("body").get_attribute("data-runs") == "wasm 1"
        _kept(first)
        second = measured.Page(context.new_page(), address)
        assert second.page.evaluate("crossOriginIsolated")


def test_the_photos_and_what_they_become_have_their_size(page):
    small = skimage.data.chelsea()[:7, :9]
    page.upload("#photo-file", "tiny.png", measured.png(small))
    assert page.download().shape[:2] == (7, 9)
