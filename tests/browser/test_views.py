"""The page in each of its views, phone and desktop, light and dark: a visit with all it offers."""

import io
import struct
import threading
import zlib
from pathlib import Path

import numpy as np
import pytest
import skimage.data
from PIL import Image
from playwright.sync_api import expect

from tests.browser.test_friend import DESKTOP, PHONE, at_rest, has_settings, said
from tests.browser.test_page import (
    choose,
    download,
    fits,
    give_many,
    kept,
    on_screen,
    paint,
    painted,
    pixels,
    slide,
    upload,
    wished,
)

VIEWS = [
    pytest.param({**device, "color_scheme": scheme}, id=f"{name}-{scheme}")
    for name, device in (("phone", PHONE), ("desktop", DESKTOP))
    for scheme in ("light", "dark")
]


@pytest.mark.parametrize("view", VIEWS)
def test_a_visit_in_each_view(open_page, photos, view):
    page = open_page(**view, permissions=["clipboard-read", "clipboard-write"])
    # A painted example is there on arrival, and paint is at hand.
    expect(page.locator("#stage .chip")).to_contain_text("example", use_inner_text=True)
    on_screen(page, "#desk .paint", "#photo .main")
    upload(page, photos / "cat.png")
    painted(page)
    download(page)
    # What there is to see is on the screen, however long the page.
    on_screen(page, "#desk .paint", "#stage .frame")
    # Words that need no explanation.
    words = ["Paint only part of the photo", "Strength", "Keep the photo's colors"]
    words += ["Finer controls", "small", "screen", "print", "full (slow)", "automatic", "fine"]
    words += ["broad", "very broad"]
    page.wait_for_function(
        "words => words.every(word => document.body.innerText.includes(word))", arg=words
    )
    # A style is a tap away.
    before = wished(page)
    choose(page, "stripes, variant 2")
    painted(page, before)
    kept(page, 2)
    # Less strength is seen at once, and then painted.
    before = wished(page)
    slide(page, "Strength", 100)
    painted(page, before)
    expect(page.locator("#stage .after")).to_have_css("opacity", "1")
    kept(page, 3)
    # The painting is copied; it can be painted over, and that be undone.
    page.get_by_role("button", name="Copy", exact=True).click()
    page.get_by_text("The painting is copied.").wait_for()
    before = wished(page)
    page.get_by_role("button", name="Paint over this result").click()
    page.locator("#photo .name", has_text="cat-stripes-2.png").wait_for()
    painted(page, before)
    kept(page, 4)
    before = wished(page)
    page.locator("#photo .undo").click()
    page.locator("#photo .name", has_text="cat.png").wait_for()
    painted(page, before)
    kept(page, 5)
    # Back to the first painting, with the settings that it had.
    page.locator("#result .strip button").last.click()
    has_settings(page, style="dots", strength=1)
    at_rest(page)
    # All as it was at first.
    choose(page, "very broad")
    page.get_by_role("button", name="Reset all settings").click()
    has_settings(page, style="dots", strength=1, brush_size="auto")
    page.get_by_role("tab", name="Many photos").click()
    page.locator("#photos").wait_for()
    expect(page.locator("#stage")).to_be_hidden()
    fits(page)


def test_less_strength_is_seen_before_it_is_painted(page, photos, painter, monkeypatch):
    upload(page, photos / "cat.png")
    painted(page)
    # Nothing is painted any more.
    monkeypatch.setattr(painter, "paint", lambda *_, progress, **__: [progress(0.5), 1 / 0])
    slide(page, "Strength", 50)
    page.wait_for_function(
        "Math.abs(getComputedStyle(document.querySelector('#stage .after')).opacity - 0.25) < 0.01"
    )
    said(page, "Something went wrong here")
    at_rest(page)
    monkeypatch.undo()
    paint(page)
    expect(page.locator("#stage .after")).to_have_css("opacity", "1")


def test_an_upload_tells_how_far_it_is(page, photos):
    line = page.context.new_cdp_session(page)
    line.send("Network.enable")
    slow = {"offline": False, "latency": 20, "downloadThroughput": -1, "uploadThroughput": 5_000}
    line.send("Network.emulateNetworkConditions", slow)
    page.locator("#photo input[type=file]").set_input_files(photos / "cat.png")
    page.locator("#photo .size", has_text="Uploading: ").wait_for()
    line.send("Network.emulateNetworkConditions", {**slow, "uploadThroughput": -1})
    painted(page)
    expect(page.locator("#photo .size")).to_contain_text("180 × 120 px")


def test_full_size_says_how_long_it_takes_before_it_is_painted(page, tmp_path, painter, server):
    large = Image.fromarray(skimage.data.astronaut()).resize((1400, 1400))
    large.save(tmp_path / "large.jpg")
    # As it was measured elsewhere: a full size that nobody waits for in this test.
    for strokes in (1, 2, 4, 8):
        server.studio.line._rates[strokes] = 100.0
    try:
        choose(page, "full (slow)")
        upload(page, tmp_path / "large.jpg")
        about = page.locator("#desk .about", has_text="about 3 min")
        about.wait_for()
        expect(about).to_contain_text("1400 × 1400 px")
        at_rest(page)
        expect(page.locator("#stage .frame")).to_have_attribute("data-kind", "preview")
    finally:
        server.studio.line._rates.clear()


def empty_png(width: int, height: int) -> bytes:
    """A PNG that says that it has so many pixels, and has one bit for each."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + check

    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    rows = zlib.compress(bytes((width // 8 + 1) * height), 9)
    signature = b"\x89PNG\r\n\x1a\n"
    return signature + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


@pytest.fixture(scope="module")
def bad(tmp_path_factory, photos: Path) -> dict[str, str]:
    """Files that cannot be painted, and what is said of each."""
    folder = tmp_path_factory.mktemp("bad")
    whole = io.BytesIO()
    Image.fromarray(skimage.data.coffee()).save(whole, "JPEG")
    made = {
        "empty.jpg": (b"", "empty.jpg is empty"),
        "notes.png": (b"milk, eggs, ultramarine", "notes.png is not a picture"),
        "drawing.svg": (
            b"<svg xmlns='http://www.w3.org/2000/svg'/>",
            "drawing.svg is an SVG drawing",
        ),
        "paper.pdf.jpg": (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", "paper.pdf.jpg is a PDF"),
        "head.jpg": (whole.getvalue()[:300], "head.jpg"),
        "phone.heic": (b"\0\0\0\x18ftypheic\0\0\0\0heicmif1" + bytes(64), "phone.heic"),
        "walk.mp4": (b"\0\0\0\x18ftypmp42", "walk.mp4 is a video; the tab Video clip paints those"),
        "huge.png": (empty_png(14_000, 9_000), "huge.png has 14000 x 9000 pixels"),
    }
    for name, (data, _) in made.items():
        (folder / name).write_bytes(data)
    return {str(folder / name): sentence for name, (_, sentence) in made.items()}


def test_the_page_is_usable_after_every_file_that_cannot_be_painted(page, photos, bad):
    choose(page, "full (slow)")  # else the browser makes the huge one small, and it is painted
    for file, sentence in bad.items():
        page.locator("#photo input[type=file]").set_input_files(file)
        said(page, sentence)
        at_rest(page)
        expect(page.locator("#photo .about")).to_be_hidden()
        before = wished(page)
        upload(page, photos / "cat.png")
        painted(page, before)
        page.get_by_role("button", name="Remove: Your photo").click()
    # As a painting, too.
    upload(page, photos / "cat.png")
    choose(page, "A painting of your own")
    for file, sentence in bad.items():
        if "huge" in file:  # of a painting no more than 1,024 pixels are ever sent
            continue
        page.locator("#painting input[type=file]").set_input_files(file)
        said(page, sentence)
        at_rest(page)
    choose(page, "dots")
    paint(page)
    assert download(page)[0] == "cat-dots.png"


def test_a_stopped_batch_keeps_what_was_finished(page, photos, painter, monkeypatch):
    real, painted_now = painter.paint, []

    def paint_one(*given, progress=None, **options):
        while len(painted_now) == 1:  # the second one waits to be stopped
            progress(0.5)
            page_waits.wait(0.05)
        painted_now.append(1)
        return real(*given, progress=progress, **options)

    page_waits = threading.Event()
    page.get_by_role("tab", name="Many photos").click()
    files = [photos / name for name in ("cat.png", "coffee.jpg", "painting.png")]
    give_many(page, files)
    page.get_by_role("button", name="Choose others").first.wait_for()
    assert "image/*" in page.locator("#photos input[type=file]").get_attribute("accept")
    choose(page, "dots")
    monkeypatch.setattr(painter, "paint", paint_one)
    page.get_by_role("button", name="Paint them all").click()
    page.locator("#desk .about, #report .state", has_text="Painting 2 of 3").first.wait_for()
    page.get_by_role("button", name="Stop").click()
    at_rest(page)
    report = page.locator("#report")
    expect(report).to_contain_text("Stopped: 1 photo painted, 2 left out")
    expect(report).to_contain_text("coffee.jpg: not painted, stopped.")
    assert download(page, "Download all as ZIP")[0] == "repainted-dots.zip"


def test_the_shared_pictures_pixels_are_those_of_the_painting(page, photos):
    """The share sheet gets the painting's file, where a device has one."""
    page.evaluate(
        """() => {
          navigator.canShare = () => true;
          navigator.share = async ({ files }) => { window.shared = await files[0].arrayBuffer(); };
          document.querySelector('#result .share').hidden = false;
        }"""
    )
    upload(page, photos / "cat.png")
    painted(page)
    _, file = download(page, "Download JPEG")
    page.get_by_role("button", name="Share", exact=True).click()
    page.wait_for_function("window.shared")
    shared = page.evaluate("Array.from(new Uint8Array(window.shared))")
    np.testing.assert_array_equal(pixels(bytes(shared)), pixels(file))
