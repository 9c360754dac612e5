"""The demo as its visitors see it, in a real browser."""

import base64
import io
import json
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.patience import PATIENCE


def upload(page, photo: Path) -> None:
    page.locator("#photo input[type=file]").set_input_files(photo)
    page.locator("#photo img[src]").wait_for()


def choose(page, style: str) -> None:
    page.get_by_role("radio", name=style).first.check(force=True)


def unfold(page, name: str) -> None:
    """Opens a folded part. What is entered as it opens, faster than by hand, Gradio forgets."""
    page.get_by_role("button", name=name).click()
    page.wait_for_timeout(1000)


def slide(page, name: str, place: int) -> None:
    """Moves a slide: 0 is its least, 100 its middle, 200 its most."""
    page.locator(".slide", has_text=name).locator("input").fill(str(place))


def paint(page) -> None:
    """Clicks, and waits for the result."""
    before = int(page.evaluate("document.body.dataset.wish ?? 0"))
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
    unfold(page, "Finer controls")
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
    unfold(page, "Mix in a second style")
    page.get_by_label("Second style").click()
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
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + 0.2 * box["width"], box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.4 * box["width"], box["y"] + box["height"] / 2, steps=3)
    page.mouse.up()
    choose(page, "dots")
    paint(page)
    _, file = download(page)
    (drawn,) = [
        value
        for post in asked
        for value in json.loads(post)["data"]
        if isinstance(value, str) and value.startswith("data:image/png")
    ]
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
    for _ in range(100):
        page.keyboard.press("Space")
        # On a busy machine the photo may come once more, and what was drawn goes with the first.
        if "Only the colored part" in hint.inner_text():
            break
        page.wait_for_timeout(100)
    assert "Only the colored part" in hint.inner_text()
    page.keyboard.press("e")
    page.keyboard.press("Space")
    assert "With nothing drawn" in hint.inner_text()


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
    upload(page, photos / "coffee.jpg")
    painted(page)
    assert download(page)[0].startswith("coffee-")


def test_many_photos_come_back_as_one_zip_without_the_broken_one(page, photos, from_command_line):
    page.get_by_role("tab", name="Many photos").click()
    files = [photos / name for name in ("cat.png", "notes.jpg", "coffee.jpg")]
    page.locator("#photos input[type=file]").set_input_files(files)
    page.locator("#photos").get_by_text("notes").first.wait_for()
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
    assert "2 photos painted, 1 left out" in report.inner_text()
    assert "notes.jpg is not a picture" in report.inner_text()


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
    wish = int(page.evaluate("document.body.dataset.wish"))
    page.get_by_role("radio", name="stripes, variant 1").check(force=True)
    painted(page, wish)
    assert download(page)[0] == "chelsea-stripes.png"
    assert page.get_by_role("radio", name="stripes, variant 1").is_checked()


def test_what_there_is_to_know_of_a_result_is_told_in_words(page, photos):
    upload(page, photos / "cat.png")
    painted(page)
    page.get_by_text("About this picture").click()
    text = page.locator("#result dl").inner_text()
    for part in ("180 × 120 pixels", "1.5 × 1.0 cm", "Style", "dots", "seconds"):
        assert part in text
    assert "safetensors" not in text


def test_how_far_it_is_is_told_of_a_painting_that_takes_a_while(page, photos, held):
    upload(page, photos / "cat.png")
    page.locator("#desk .about", has_text="Painting").wait_for()
    page.get_by_role("button", name="Stop").click()


def test_stop_ends_a_painting_and_the_next_one_works(page, photos, held, server, monkeypatch):
    upload(page, photos / "cat.png")
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
    page.keyboard.press("ArrowDown")
    tab_to("Paint it")
    page.keyboard.press("Enter")
    painted(page, 1)
    assert download(page)[0] == "chelsea-stripes.png"


CONTROLS = {"button", "radio", "checkbox", "slider", "spinbutton", "combobox", "tab", "textbox"}


def test_every_control_and_picture_has_a_name_for_screen_readers(page, photos):
    upload(page, photos / "cat.png")
    paint(page)
    download(page)
    for closed in ("Paint only part", "Mix in a second style", "Finer"):
        page.get_by_role("button", name=closed).click()
    page.wait_for_timeout(500)
    nodes = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")["nodes"]
    seen = [n for n in nodes if not n.get("ignored") and n["role"]["value"] in CONTROLS]
    assert len(seen) > 30
    nameless = [n["role"]["value"] for n in seen if not n.get("name", {}).get("value", "").strip()]
    assert not nameless
    assert page.locator("img").count() > 10
    assert page.locator("img:not([alt])").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_sees_it_all_without_scrolling_sideways(open_page, photos, scheme):
    page = open_page(
        viewport={"width": 390, "height": 844}, color_scheme=scheme, has_touch=True, is_mobile=True
    )
    upload(page, photos / "cat.png")
    paint(page)
    download(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    brightness = np.mean([float(v) for v in background.strip("rgba()").split(",")[:3]])
    assert (brightness < 128) == (scheme == "dark")
