"""The demo as a friend with a phone uses it: what goes wrong on the way is forgiven."""

import json
import re
import threading
from pathlib import Path

import axe_playwright_python
import numpy as np
import pytest
import skimage.data
from PIL import Image
from playwright.sync_api import expect

from tests.browser.test_page import (
    choose,
    download,
    fits,
    kept,
    on_screen,
    paint,
    painted,
    pixels,
    slide,
    unfold_all,
    upload,
    wished,
)
from tests.patience import PATIENCE

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
DESKTOP = {"viewport": {"width": 1280, "height": 900}}
AXE = Path(axe_playwright_python.__file__).with_name("axe.min.js")


def said(place, *texts: str) -> None:
    """Waits for a sentence with all of these words. place: a page, or a part of one."""
    alert = place.get_by_role("alert")
    for text in texts:
        alert = alert.filter(has_text=text)
    alert.first.wait_for()


def at_rest(page) -> None:
    """Nothing is being done, and there is no way to stop it."""
    page.wait_for_function("document.body.dataset.state !== 'busy'")
    page.get_by_role("button", name="Stop").wait_for(state="hidden")


def test_two_taps_and_no_scrolling_give_a_painting_on_a_phone(open_page, photos):
    page = open_page(**PHONE)
    # On arrival there is a painted example, with the photo's button and the styles around it.
    expect(page.locator("#stage .chip")).to_contain_text("example", use_inner_text=True)
    page.wait_for_function("document.querySelector('#stage .after').naturalWidth")
    on_screen(page, "#photo .main", "#stage .after")
    upload(page, photos / "coffee.jpg")  # the first tap; it is tall, as phones' photos are
    painted(page)
    before = wished(page)
    page.locator("#styles .row label").nth(1).tap()
    painted(page, before)
    assert page.evaluate("scrollY") == 0
    on_screen(page, "#stage .frame")
    expect(page.locator("#stage [role=status]")).to_contain_text("stripes")
    # A swipe over the picture scrolls the page, and so does one over the mask until one draws.
    expect(page.locator("#stage .at")).to_have_css("touch-action", "pan-y")
    page.get_by_role("button", name="Paint only part").click()
    canvas = page.locator("#brush canvas.ready")
    expect(canvas).to_have_css("touch-action", "pan-y")
    canvas.tap(position={"x": 40, "y": 40})
    hint = page.locator("#brush .hint")
    expect(hint).to_contain_text("With nothing drawn")
    page.locator("#brush .draw").click()
    canvas.tap(position={"x": 40, "y": 40})
    expect(hint).to_contain_text("Only the colored part")
    page.locator("#brush .undo").click()  # the one stroke; the tap before drew none
    expect(hint).to_contain_text("With nothing drawn")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("device", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_nothing_is_hard_to_see_or_to_reach(open_page, photos, device, scheme):
    page = open_page(**device, color_scheme=scheme)
    upload(page, photos / "cat.png")
    painted(page)
    download(page)
    page.get_by_text("About this picture").click()
    page.get_by_text("More to share").click()
    unfold_all(page)
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run()")
    assert len(found["passes"]) > 15
    assert not [
        (one["id"], node["html"][:200], node["failureSummary"])
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]
    if device is PHONE:
        small = page.evaluate(
            """() => [...document.querySelectorAll(
                 "button, a[role=button], summary, label:has(> input), [role=tab], [role=listbox]")]
               .filter(e => e.checkVisibility() && !e.matches(".visually-hidden *"))
               .map(e => [e.getBoundingClientRect(), e.outerHTML.slice(0, 150)])
               .filter(([box]) => box.width > 1 && (box.height < 43.5 || box.width < 43.5))
               .map(([box, html]) => [box.width, box.height, html])"""
        )
        assert not small
        fits(page)


def test_whatever_cannot_be_painted_leaves_the_page_usable(page, photos, open_page):
    asked = []
    page.on("request", lambda r: "queue/join" in r.url and asked.append(r.post_data))
    # No photo, no painting, no photos: said in the browser, and nothing is sent.
    page.get_by_role("button", name="Paint it").click()
    said(page, "Choose a photo first.")
    at_rest(page)
    upload(page, photos / "cat.png")
    painted(page)
    download(page)  # whose files are asked for last
    sent = len(asked)
    choose(page, "A painting of your own")
    page.get_by_role("button", name="Paint it").click()
    said(page, "Choose a painting first.")
    at_rest(page)
    page.get_by_role("tab", name="Many photos").click()
    page.get_by_role("button", name="Paint them all").click()
    said(page, "Choose some photos first.")
    assert len(asked) == sent
    page.get_by_role("tab", name="One photo").click()
    # A painting and a photo that are none.
    page.locator("#painting input[type=file]").set_input_files(photos / "notes.jpg")
    said(page.locator("#desk"), "notes.jpg is not a picture")
    at_rest(page)
    choose(page, "dots")
    page.locator("#photo input[type=file]").set_input_files(photos / "notes.jpg")
    said(page.locator("#photo"), "notes.jpg is not a picture")
    at_rest(page)
    # No icon of a broken picture.
    expect(page.locator("#photo img[src]")).to_have_count(0)
    upload(page, photos / "cat.png")
    paint(page)
    assert download(page)[0] == "cat-dots.png"
    assert page.get_by_text("Error", exact=True).count() == 0


def test_photo_settings_and_paintings_survive_a_reload(page, photos, open_page):
    upload(page, photos / "cat.png")
    painted(page)
    kept(page, 1)
    before = wished(page)
    choose(page, "stripes, variant 2")
    painted(page, before)
    kept(page, 2)
    before = wished(page)
    slide(page, "Strength", 150)
    painted(page, before)
    kept(page, 3)
    page.reload()
    page.wait_for_function("document.body.dataset.ready")
    open_page.wrong.clear()  # Gradio logs the streams that the reload ended
    expect(page.locator("#stage .frame")).to_have_attribute("data-kind", "painted")
    assert page.locator("body").get_attribute("data-wish") is None, "it is not painted anew"
    expect(page.locator("#photo .name")).to_have_text("cat.png")
    expect(page.get_by_role("radio", name="stripes, variant 2")).to_be_checked()
    has_settings(page, style="stripes:2", strength=0.75)
    kept(page, 3)
    # Back to the first of them, with its settings.
    page.locator("#result .strip button").last.click()
    has_settings(page, style="dots", strength=1)


def has_settings(page, **wanted: object) -> None:
    """Waits until the page has these settings."""
    page.wait_for_function(
        "wanted => Object.entries(wanted).every(([name, value]) =>"
        " window.repaint?.director.values[name] === value)",
        arg=wanted,
    )


def test_a_changed_setting_marks_the_painting_until_it_is_painted_anew(
    page, photos, painter, monkeypatch
):
    upload(page, photos / "cat.png")
    painted(page)
    download(page)
    before = wished(page)
    go_on, real = threading.Event(), painter.paint

    def held(*given, **options):
        go_on.wait(PATIENCE)
        return real(*given, **options)

    monkeypatch.setattr(painter, "paint", held)
    try:
        choose(page, "stripes, variant 1")
        page.locator("#stage .frame.stale").wait_for()
        page.locator("#result .actions").wait_for(state="hidden")
        expect(page.locator("#stage .chip")).to_contain_text("Not painted yet")
    finally:
        go_on.set()
    painted(page, before)
    page.locator("#result .actions").wait_for()
    assert download(page)[0] == "cat-stripes.png"


def test_a_large_photo_is_made_small_before_it_is_sent(page, tmp_path):
    large = Image.fromarray(skimage.data.astronaut()).resize((1500, 1500))
    large.save(tmp_path / "large.jpg", quality=97)
    with page.expect_response(lambda response: response.url.endswith("/upload")) as answer:
        upload(page, tmp_path / "large.jpg")
    sent = Path(answer.value.json()[0])  # the server is on this machine
    sent_bytes, sent_size = sent.stat().st_size, Image.open(sent).size
    painted(page)
    _, file = download(page)
    assert pixels(file).shape == (1024, 1024, 3)
    assert sent_size == (1024, 1024)
    assert sent_bytes < (tmp_path / "large.jpg").stat().st_size / 2
    expect(page.locator("#desk .about")).to_contain_text("1024 × 1024 px · 8.7 × 8.7 cm")


def test_a_photo_is_turned_and_cropped_before_it_is_painted(page, photos):
    upload(page, photos / "cat.png")
    page.get_by_role("button", name="Turn by a quarter").click()
    page.locator("#photo .size", has_text="120 × 180").wait_for()
    page.get_by_role("button", name="Crop").first.click()
    page.locator("#photo .edges input").nth(1).fill("50")
    page.locator("#photo .cut").click()
    page.locator("#photo .size", has_text="60 × 180").wait_for()
    paint(page)
    _, file = download(page)
    assert pixels(file).shape == (180, 60, 3)


def test_the_comparison_moves_by_keys_and_says_what_it_shows(page, photos):
    upload(page, photos / "cat.png")
    painted(page)
    expect(page.locator("#stage [role=status]")).to_contain_text("Done")  # it is drawn, too
    handle = page.get_by_role("slider", name="How much of the painting")
    handle.focus()
    line = "parseFloat(document.querySelector('#stage .frame').style.getPropertyValue('--from'))"
    before = page.evaluate(line)
    for _ in range(10):
        page.keyboard.press("ArrowRight")
    expect(handle).to_have_value("60")
    page.wait_for_function(f"before => {line} > before", arg=before)
    expect(page.locator("#stage .before")).to_have_attribute("alt", "Your photo")
    painting = re.compile("painted in the style dots")
    expect(page.locator("#stage .after")).to_have_attribute("alt", painting)


def test_a_link_has_the_style_and_the_settings_but_not_the_photo(page, photos, open_page):
    upload(page, photos / "cat.png")
    choose(page, "stripes, variant 2")
    slide(page, "Strength", 100)
    has_settings(page, style="stripes:2", strength=0.5)
    link = page.evaluate("repaint.director.link()")
    assert "#" in link and "cat" not in link
    other = open_page(**DESKTOP)
    other.goto("about:blank")
    other.goto(link)
    has_settings(other, style="stripes:2", strength=0.5)
    other.wait_for_function("document.body.dataset.ready")
    assert not other.locator("#photo img[src]").count()


def test_before_and_after_are_one_picture_and_one_clip(page, photos):
    upload(page, photos / "cat.png")
    painted(page)
    download(page)
    page.get_by_text("More to share").click()
    with page.expect_download() as started:
        page.get_by_role("button", name="Before and after").click()
    both = pixels(Path(started.value.path()).read_bytes())
    assert both.shape[0] > 2 * 119 and both.shape[1] == 180  # one above the other
    assert np.abs(both[:120].astype(int) - pixels(photos / "cat.png")).mean() < 6
    with page.expect_download() as started:
        page.get_by_role("button", name="As a clip").click()
    assert started.value.suggested_filename.startswith("cat-dots.")
    assert Path(started.value.path()).stat().st_size > 5000


def test_settings_are_all_reset_at_once(page):
    choose(page, "stripes, variant 1")
    choose(page, "very broad")
    has_settings(page, style="stripes", brush_size=4)
    page.get_by_role("button", name="Reset all settings").click()
    has_settings(page, style="dots", brush_size="auto")


def test_an_heic_without_a_type_is_taken(page, photos):
    pillow_heif = pytest.importorskip("pillow_heif")
    pillow_heif.register_heif_opener()
    phone = photos / "typeless.heic"
    Image.open(photos / "cat.png").save(phone, quality=95)
    page.evaluate(
        """(bytes) => {
          const given = new DataTransfer();
          given.items.add(new File([new Uint8Array(bytes)], "typeless.heic", {type: ""}));
          const input = document.querySelector("#photo input[type=file]");
          input.files = given.files;
          input.dispatchEvent(new Event("change", {bubbles: true}));
        }""",
        list(phone.read_bytes()),
    )
    painted(page)
    assert download(page)[0] == "typeless-dots.png"
    page.wait_for_function("document.querySelector('#photo img').naturalWidth === 180")


def test_two_visitors_never_see_each_others_pictures(open_page, photos):
    ann, bob = open_page(**DESKTOP), open_page(**PHONE)
    upload(ann, photos / "cat.png")
    upload(bob, photos / "coffee.jpg")
    painted(ann)
    painted(bob)
    assert download(ann)[0] == "cat-dots.png"
    assert download(bob)[0] == "coffee-dots.png"
    seen = [json.loads(page.evaluate("JSON.stringify(repaint.stage.shown)")) for page in (ann, bob)]
    assert not {seen[0]["after"], seen[0]["png"]} & {seen[1]["after"], seen[1]["png"]}
