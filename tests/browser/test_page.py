"""The demo as its visitors see it, in a real browser."""

import base64
import io
import json
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import TimeoutError as TooLongError
from playwright.sync_api import expect

from tests.patience import PATIENCE


def upload(page, photo: Path) -> None:
    page.locator("#photo input[type=file]").set_input_files(photo)
    page.locator("#photo img[src]").wait_for()


@contextmanager
def another_setting(page, again: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Inside a control is moved; afterwards the page has its new value, and a wish has it, too.

    As a visitor would, ``again`` moves what does not move: in a panel that was just opened a
    control may be seen a moment before it listens.
    """
    before, deadline = page.evaluate(SETTINGS), time.monotonic() + PATIENCE
    yield
    while time.monotonic() < deadline:
        try:
            page.wait_for_function(f"before => {SETTINGS} !== before", arg=before, timeout=3000)
            return
        except TooLongError:
            again()
    pytest.fail("the page does not take the setting")


SETTINGS = "JSON.stringify(repaint.director.values)"


def choose(page, name: str) -> None:
    radio = page.get_by_role("radio", name=name).first
    if not radio.is_checked():
        with another_setting(page, lambda: radio.dispatch_event("change")):
            radio.locator("xpath=ancestor::label").click()  # as soon as it lies still


def slide(page, name: str, place: int) -> None:
    """Moves a slide: 0 is its least, 100 its middle, 200 its most."""
    control = page.locator(".slide", has_text=name).locator("input")
    with another_setting(page, lambda: control.fill(str(place))):
        control.fill(str(place))


def wished(page) -> int:
    """The number of the newest wish; see `painted`."""
    return int(page.evaluate("document.body.dataset.wish ?? 0"))


def paint(page) -> None:
    """Clicks, and waits for the result."""
    before = wished(page)
    page.get_by_role("button", name="Paint it").click()
    painted(page, before)


def painted(page, after: int = 0) -> None:
    """Waits for the whole painting of a wish later than that one."""
    page.wait_for_function(
        "after => { const { wish, shown, state } = document.body.dataset;"
        " return +wish > after && wish === shown && state === 'idle'"
        " && document.querySelector('#stage .frame').dataset.kind === 'painted'; }",
        arg=after,
    )


def download(page, name: str = "Download PNG") -> tuple[str, bytes]:
    """The downloaded file's name and what is in it."""
    page.wait_for_function(
        "name => [...document.querySelectorAll('a[role=button][href]:not([aria-disabled=true])')]"
        ".some(e => e.textContent.includes(name) && e.checkVisibility())",
        arg=name,
    )
    with page.expect_download() as started:
        page.get_by_role("button", name=name).click()
    return started.value.suggested_filename, Path(started.value.path()).read_bytes()


def kept(page, count: int) -> None:
    """Waits until so many paintings can be gone back to."""
    expect(page.locator("#result .strip button")).to_have_count(count)


def fits(page) -> None:
    """Waits until nothing is wider than the screen."""
    wide = page.viewport_size["width"]
    page.wait_for_function("wide => document.documentElement.scrollWidth <= wide", arg=wide)


def on_screen(page, *places: str) -> None:
    """Waits until these are seen as a whole without scrolling."""
    for place in places:
        page.wait_for_function(
            """([place, wide, high]) => {
              const box = document.querySelector(place).getBoundingClientRect();
              return box.width > 0 && box.height > 0 && box.left >= 0 && box.top >= 0
                && box.right <= wide && box.bottom <= high; }""",
            arg=[place, page.viewport_size["width"], page.viewport_size["height"]],
        )


def give_many(page, files: list[Path]) -> None:
    """Chooses photos, and waits until they are uploaded: there is a list of them."""
    page.locator("#photos input[type=file]").set_input_files(files)
    page.locator("#photos .file-preview, #photos table").first.wait_for()


def pixels(file: bytes | Path) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(file) if isinstance(file, bytes) else file))


@pytest.fixture
def held(painter, monkeypatch) -> threading.Event:
    """Makes every painting last until it is stopped, or until the event is set; set is `begun`."""
    begun, release, paint = threading.Event(), threading.Event(), painter.paint

    def slow(*arguments, progress=None, **options):
        begun.set()
        while not release.wait(0.2):
            progress(0.5)
        return paint(*arguments, progress=progress, **options)

    monkeypatch.setattr(painter, "paint", slow)
    yield begun
    release.set()


def wait_until_idle(server) -> None:
    for _ in range(50 * PATIENCE):
        if not len(server.jobs):
            return
        threading.Event().wait(0.02)
    pytest.fail("something is painted still")


def test_an_uploaded_photo_is_painted_shown_and_downloaded(page, photos, from_command_line):
    upload(page, photos / "cat.png")
    choose(page, "stripes, variant 2")
    page.get_by_role("button", name="Finer controls").click()
    slide(page, "Leave out detail", 150)
    slide(page, "Outlines", 125)
    slide(page, "Add the photo's colors", 50)
    slide(page, "Keep light and dark", 135)
    paint(page)
    name, file = download(page)
    assert name == "cat-stripes-2.png"
    sliders = ("--simplify", "2", "--outlines", "1.5", "--tint", "0.5", "--tone", "1.7")
    how = ("--style", "stripes:2", *sliders, "--max-size", "1024")
    wanted = from_command_line(photos / "cat.png", *how)
    np.testing.assert_array_equal(pixels(file), wanted)
    name, file = download(page, "Download JPEG")
    assert name == "cat-stripes-2.jpg"
    assert np.abs(pixels(file).astype(int) - wanted).mean() < 4

    # And from there on: the result as the photo, with its name, strength and colors.
    page.get_by_role("button", name="Paint over this result").click()
    page.locator("#photo .name", has_text="cat-stripes-2.png").wait_for()
    choose(page, "dots")
    slide(page, "Strength", 100)
    slide(page, "Strokes in plain areas", 150)
    choose(page, "very broad")
    with another_setting(page):
        page.get_by_role("checkbox", name="Keep the photo's colors").check()
    choose(page, "small")
    paint(page)
    name, file = download(page)
    assert name == "cat-stripes-2-dots.png"
    photo = photos.parent / "cat-stripes-2.png"
    Image.fromarray(wanted).save(photo)
    half = ("--strength", "0.5", "--brushwork", "2", "--brush-size", "4", *sliders)
    again = from_command_line(photo, "--style", "dots", *half, "--keep-color")
    np.testing.assert_array_equal(pixels(file), again)


def test_a_turned_photo_in_the_style_of_an_own_painting(page, photos, from_command_line):
    upload(page, photos / "coffee.jpg")
    choose(page, "A painting of your own")
    page.locator("#painting input[type=file]").set_input_files(photos / "painting.png")
    page.locator("#painting img[src]").wait_for()
    paint(page)
    name, file = download(page)
    assert name == "coffee-painting.png"
    wanted = from_command_line(photos / "coffee.jpg", "--style", str(photos / "painting.png"))
    assert wanted.shape == (160, 120, 3)
    np.testing.assert_array_equal(pixels(file), wanted)


def test_a_phones_heic_is_shown_and_painted(page, photos, from_command_line):
    pillow_heif = pytest.importorskip("pillow_heif")
    pillow_heif.register_heif_opener()
    phone = photos / "phone.heic"
    Image.open(photos / "cat.png").save(phone, quality=95)
    upload(page, phone)
    # No browser but Safari shows it: the page gets another picture of it.
    page.wait_for_function("() => document.querySelector('#photo img')?.naturalWidth")
    choose(page, "dots")
    paint(page)
    name, file = download(page)
    assert name == "phone-dots.png"
    wanted = from_command_line(phone, "--style", "dots", "--max-size", "1024")
    np.testing.assert_array_equal(pixels(file), wanted)


def test_a_picture_from_the_camera_is_painted(page):
    page.get_by_role("button", name="Camera").click()
    page.wait_for_function("() => document.querySelector('#photo video').videoWidth > 0")
    page.get_by_role("button", name="Take the picture").click()
    page.locator("#photo img[src]").wait_for()
    choose(page, "dots")
    paint(page)
    _, file = download(page)
    assert min(pixels(file).shape[:2]) > 100 and pixels(file).std() > 5


def test_two_styles_are_blended(page, photos, from_command_line):
    upload(page, photos / "cat.png")
    choose(page, "dots")
    page.get_by_role("button", name="Mix in a second style").click()
    page.get_by_label("Second style").click()
    with another_setting(page):
        page.get_by_role("option", name="stripes", exact=True).click()
    slide(page, "Mix", 50)
    paint(page)
    name, file = download(page)
    assert name == "cat-dots-stripes.png"
    wanted = from_command_line(photos / "cat.png", "--style", "dots", "--blend", "stripes=0.25")
    np.testing.assert_array_equal(pixels(file), wanted)


def test_only_the_drawn_part_is_painted(page, photos, from_command_line):
    asked = []
    page.on("request", lambda r: "queue/join" in r.url and asked.append(r.post_data))
    upload(page, photos / "cat.png")
    page.get_by_role("button", name="Paint only part").click()
    canvas = page.locator("#brush canvas.ready")
    box = canvas.bounding_box()
    left, right = ({"x": part * box["width"], "y": box["height"] / 2} for part in (0.2, 0.4))
    canvas.drag_to(canvas, source_position=left, target_position=right)
    choose(page, "dots")
    paint(page)
    _, file = download(page)
    (drawn,) = {
        value
        for post in asked
        for value in json.loads(post)["data"]
        if isinstance(value, str) and value.startswith("data:image/png")
    }
    mask = photos.parent / "mask.png"
    mask.write_bytes(base64.b64decode(drawn.split(",")[1]))
    wanted = from_command_line(photos / "cat.png", "--style", "dots", "--mask", str(mask))
    np.testing.assert_array_equal(pixels(file), wanted)
    changed = (pixels(file) != pixels(photos / "cat.png")).any(-1)
    assert changed[50:70, 40:70].mean() > 0.5
    assert not changed[:, 100:].any()


def test_the_brush_works_by_keyboard(page, photos):
    upload(page, photos / "cat.png")
    page.get_by_role("button", name="Paint only part").click()
    canvas = page.locator("#brush canvas.ready")
    canvas.wait_for()  # what is folded away takes no focus
    canvas.focus()
    hint = page.locator("#brush .hint")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    expect(hint).to_contain_text("Only the colored part")
    page.keyboard.press("e")
    page.keyboard.press("Space")
    expect(hint).to_contain_text("With nothing drawn")


def test_what_was_drawn_stays_while_the_photo_is_uploaded(page, photos):
    waiting = []
    page.route("**/upload*", lambda route: waiting.append(route))
    with page.expect_request("**/upload*"):
        upload(page, photos / "cat.png")
    page.get_by_role("button", name="Paint only part").click()
    page.locator("#brush canvas.ready").click()
    hint = page.locator("#brush .hint")
    expect(hint).to_contain_text("Only the colored part")
    (one,) = waiting
    one.continue_()
    painted(page)
    expect(hint).to_contain_text("Only the colored part")


def test_a_picture_pasted_or_dropped_anywhere_is_the_photo(page, photos):
    upload(page, photos / "cat.png")
    page.evaluate(
        """async () => {
          const picture = await (await fetch(document.querySelector("#photo img").src)).blob();
          const clipboardData = new DataTransfer();
          clipboardData.items.add(new File([picture], "pasted.png", {type: "image/png"}));
          document.body.dispatchEvent(
            new ClipboardEvent("paste", {clipboardData, bubbles: true}));
        }"""
    )
    page.locator("#photo .name", has_text="pasted.png").wait_for()
    for place in ("#photo .drop", "#outcome"):
        name = f"{place[1:6]}.png"
        page.evaluate(
            """async ([place, name]) => {
              const picture = await (await fetch(document.querySelector("#photo img").src)).blob();
              const dataTransfer = new DataTransfer();
              dataTransfer.items.add(new File([picture], name, {type: "image/png"}));
              document.querySelector(place).dispatchEvent(
                new DragEvent("drop", {dataTransfer, bubbles: true, cancelable: true}));
            }""",
            [place, name],
        )
        page.locator("#photo .name", has_text=name).wait_for()


def test_a_photo_chosen_right_after_another_was_taken_away_stays(page, photos):
    upload(page, photos / "cat.png")
    page.get_by_role("button", name="Remove: Your photo").click()
    before = wished(page)  # the first photo may be painted already
    upload(page, photos / "coffee.jpg")
    painted(page, before)
    assert download(page)[0].startswith("coffee-")


def test_many_photos_come_back_as_one_zip_without_the_broken_one(page, photos, from_command_line):
    page.get_by_role("tab", name="Many photos").click()
    files = [photos / name for name in ("cat.png", "notes.jpg", "coffee.jpg")]
    give_many(page, files)
    choose(page, "dots")
    page.get_by_role("radio", name="PNG").check()
    page.get_by_role("button", name="Paint them all").click()
    name, file = download(page, "Download all as ZIP")
    assert name == "repainted-dots.zip"
    with zipfile.ZipFile(io.BytesIO(file)) as archive:
        assert sorted(archive.namelist()) == ["cat-dots.png", "coffee-dots.png"]
        for photo, result in (("cat.png", "cat-dots.png"), ("coffee.jpg", "coffee-dots.png")):
            wanted = from_command_line(photos / photo, "--style", "dots")
            np.testing.assert_array_equal(pixels(archive.read(result)), wanted)
    report = page.locator("#report")
    expect(report).to_contain_text("2 photos painted, 1 left out")
    expect(report).to_contain_text("notes.jpg is not a picture")


def test_a_text_file_as_photo_gives_one_friendly_sentence(page, photos):
    page.locator("#photo input[type=file]").set_input_files(photos / "notes.jpg")
    sentence = page.get_by_text("notes.jpg is not a picture in a format that can be read.")
    sentence.first.wait_for()
    assert "Traceback" not in page.inner_text("body")


def test_an_example_in_every_style_each_a_tap_away(page):
    page.get_by_role("button", name="A cat's face").click()
    painted(page)
    thumbnails = page.locator("#styles .row img")
    before = [thumbnails.nth(n).get_attribute("src") for n in range(3)]
    page.get_by_role("button", name="Show my photo in each style").click()
    page.wait_for_function("!document.body.classList.contains('everything')")
    after = [thumbnails.nth(n).get_attribute("src") for n in range(3)]
    assert thumbnails.count() == 3 and not set(before) & set(after)
    before = wished(page)
    choose(page, "stripes, variant 1")
    painted(page, before)
    assert download(page)[0] == "chelsea-stripes.png"
    expect(page.get_by_role("radio", name="stripes, variant 1")).to_be_checked()


def test_what_there_is_to_know_of_a_result_is_told_in_words(page, photos):
    upload(page, photos / "cat.png")
    painted(page)
    page.get_by_text("About this picture").click()
    told = page.locator("#result dl")
    for part in ("180 × 120 pixels", "1.5 × 1.0 cm", "Style", "dots", "seconds"):
        expect(told).to_contain_text(part, use_inner_text=True)
    assert "safetensors" not in told.inner_text()


def test_how_far_it_is_is_told_of_a_painting_that_takes_a_while(page, photos, held):
    upload(page, photos / "cat.png")
    page.locator("#desk .about", has_text="Painting").wait_for()
    page.get_by_role("button", name="Stop").click()


def test_stop_ends_a_painting_and_the_next_one_works(page, photos, held, server, monkeypatch):
    upload(page, photos / "cat.png")
    assert held.wait(PATIENCE)  # for the preview
    held.clear()
    page.get_by_role("button", name="Paint it").click()
    assert held.wait(PATIENCE)
    page.get_by_role("button", name="Stop").click()
    wait_until_idle(server)
    monkeypatch.undo()
    page.get_by_role("button", name="Stop").wait_for(state="hidden")
    paint(page)
    assert download(page)[0] == "cat-dots.png"


def test_the_last_picture_can_be_had_until_and_unless_another_takes_its_place(
    page, photos, request, server
):
    upload(page, photos / "cat.png")
    paint(page)
    assert download(page)[0] == "cat-dots.png"
    begun = request.getfixturevalue("held")
    page.get_by_role("button", name="Paint it").click()
    assert begun.wait(PATIENCE)
    # Else who clicks as the new picture appears would get the one before.
    page.locator("#result .actions").wait_for(state="hidden")
    page.get_by_role("button", name="Stop").click()
    wait_until_idle(server)
    page.locator("#result .actions").wait_for()
    assert download(page)[0] == "cat-dots.png"


def test_what_was_under_way_at_a_reload_is_painted_again(
    page, photos, held, server, monkeypatch, open_page
):
    upload(page, photos / "cat.png")
    choose(page, "stripes, variant 2")
    page.get_by_role("button", name="Paint it").click()
    page.wait_for_function("localStorage['repaint-pending']")
    assert held.wait(PATIENCE)
    monkeypatch.undo()  # before the page asks again: only what is under way is held
    page.reload()
    page.wait_for_function("document.body.dataset.ready")
    open_page.wrong.clear()  # Gradio logs the streams that the reload ended
    painted(page)
    assert download(page)[0] == "cat-stripes-2.png"
    wait_until_idle(server)  # what nobody waits for any more is not painted


def test_a_visitor_with_a_keyboard_alone_gets_a_painting(page):
    def tab_to(name: str) -> None:
        for _ in range(60):
            page.keyboard.press("Tab")
            focused = page.evaluate(
                "(e => (e.getAttribute('aria-label') || e.querySelector('img')?.alt ||"
                " e.textContent || '').trim())(document.activeElement)"
            )
            if focused.startswith(name):
                return
        pytest.fail(f"Tab never reached {name!r}")

    tab_to("A cat's face")
    page.keyboard.press("Enter")
    page.locator("#photo img[src]").wait_for()
    tab_to("dots")
    with another_setting(page):
        page.keyboard.press("ArrowDown")
    tab_to("Paint it")
    page.keyboard.press("Enter")
    painted(page, 1)
    assert download(page)[0] == "chelsea-stripes.png"


def unfold_all(page) -> None:
    """Opens every folded part, and waits until what lies in them can be used."""
    for folded in ("Mix in a second style", "Finer", "Paint only part"):
        page.get_by_role("button", name=folded).click()
    page.get_by_label("Second style").wait_for()
    page.locator(".slide", has_text="Leave out detail").wait_for()
    page.locator("#brush canvas.ready").wait_for()
    still(page)


def still(page) -> None:
    """Waits until nothing moves, and no color changes."""
    page.wait_for_function(
        """() => document.getAnimations().every(({ playState, effect }) =>
             playState !== "running" || effect.getComputedTiming().iterations === Infinity)"""
    )


CONTROLS = {"button", "radio", "checkbox", "slider", "spinbutton", "combobox", "tab", "textbox"}


def test_every_control_and_picture_has_a_name_for_screen_readers(page, photos):
    upload(page, photos / "cat.png")
    paint(page)
    download(page)
    unfold_all(page)
    nodes = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")["nodes"]
    seen = [n for n in nodes if not n.get("ignored") and n["role"]["value"] in CONTROLS]
    assert len(seen) > 30
    nameless = [n["role"]["value"] for n in seen if not n.get("name", {}).get("value", "").strip()]
    assert not nameless
    assert page.locator("img").count() > 10
    expect(page.locator("img:not([alt])")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_sees_it_all_without_scrolling_sideways(open_page, photos, scheme):
    page = open_page(
        viewport={"width": 390, "height": 844}, color_scheme=scheme, has_touch=True, is_mobile=True
    )
    upload(page, photos / "cat.png")
    paint(page)
    download(page)
    fits(page)
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    brightness = np.mean([float(v) for v in background.strip("rgba()").split(",")[:3]])
    assert (brightness < 128) == (scheme == "dark")
