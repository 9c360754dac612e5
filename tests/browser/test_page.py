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
    page.locator("#photo img").wait_for()


def choose(page, style: str) -> None:
    page.get_by_role("radio", name=style).check(force=True)


def unfold(page, name: str) -> None:
    """Opens a folded part. What is entered as it opens, faster than by hand, Gradio forgets."""
    page.get_by_role("button", name=name).click()
    page.wait_for_timeout(1000)


def shown(page) -> str:
    """The address of the result that is shown, "" for none."""
    pictures = page.locator("#comparison img")
    return pictures.nth(1).get_attribute("src") if pictures.count() > 1 else ""


def paint(page) -> None:
    """Clicks, and waits for another result than what was there."""
    before = shown(page)
    page.get_by_role("button", name="Paint it").click()
    page.wait_for_function(
        "before => { const after = document.querySelectorAll('#comparison img')[1];"
        " return after && after.getAttribute('src') !== before && after.naturalWidth; }",
        arg=before,
    )


def download(page, name: str = "Download PNG") -> tuple[str, bytes]:
    """The downloaded file's name and what is in it."""
    page.wait_for_function(
        "name => [...document.querySelectorAll('button, a')]"
        ".some(e => e.textContent.includes(name) && !e.disabled)",
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
    page.get_by_label("number input for Simplify").fill("2")
    page.get_by_label("number input for Outlines").fill("1.5")
    page.get_by_label("number input for Tint").fill("0.5")
    page.get_by_label("number input for Tone").fill("1.7")
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
    page.get_by_role("button", name="Use as photo").click()
    page.wait_for_function("document.querySelector('#photo img').src.includes('stripes-2')")
    choose(page, "dots")
    page.get_by_label("number input for Strength").fill("0.5")
    page.get_by_label("number input for Brushwork").fill("2")
    choose(page, "4×")
    page.get_by_role("checkbox", name="Keep the photo's colors").check()
    choose(page, "512 px")
    paint(page)
    name, file = download(page)
    assert name == "cat-stripes-2-dots.png"
    photo = photos.parent / "cat-stripes-2.png"
    Image.fromarray(wanted).save(photo)
    half = ("--strength", "0.5", "--brushwork", "2", "--brush-size", "4", *sliders)
    again = from_command_line(photo, "--style", "dots", *half, "--keep-color")
    np.testing.assert_array_equal(pixels(file), again)


def test_the_photo_is_encoded_while_the_visitor_looks_for_the_button(page, photos, painter):
    kept = painter._contents.kept
    kept.clear()
    upload(page, photos / "cat.png")
    choose(page, "dots")

    def wait_for_content(count: int) -> None:
        for _ in range(50 * PATIENCE):
            if len(kept) == count:
                return
            threading.Event().wait(0.02)
        pytest.fail(f"{len(kept)} contents are remembered, not {count}")

    wait_for_content(1)
    choose(page, "stripes, variant 2")  # which wants another ground
    wait_for_content(2)
    before = dict(kept)
    paint(page)
    assert dict(kept) == before


def test_a_turned_photo_in_the_style_of_an_own_painting(page, photos, from_command_line):
    upload(page, photos / "coffee.jpg")
    choose(page, "A painting of your own")
    page.get_by_label("Your painting").or_(page.locator("#painting")).first.wait_for()
    page.locator("#painting input[type=file]").set_input_files(photos / "painting.png")
    page.locator("#painting img").wait_for()
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
    # No browser but Safari shows it: the page gets a PNG.
    page.wait_for_function(
        "() => { const photo = document.querySelector('#photo img');"
        " return photo && photo.src.endsWith('phone.png') && photo.naturalWidth; }"
    )
    choose(page, "dots")
    paint(page)
    name, file = download(page)
    assert name == "phone-dots.png"
    wanted = from_command_line(phone, "--style", "dots", "--max-size", "1024")
    np.testing.assert_array_equal(pixels(file), wanted)


def test_a_picture_from_the_camera_is_painted(page):
    page.get_by_label("Capture from camera").first.click()
    page.get_by_text("Click to Access Webcam").click()
    page.wait_for_function("() => document.querySelector('#photo video').videoWidth > 0")
    page.get_by_label("capture photo").click()
    page.locator("#photo img").wait_for()
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
    page.get_by_label("number input for Its share").fill("0.25")
    paint(page)
    name, file = download(page)
    assert name == "cat-dots-stripes.png"
    wanted = from_command_line(photos / "cat.png", "--style", "dots", "--blend", "stripes=0.25")
    np.testing.assert_array_equal(pixels(file), wanted)


def test_only_the_drawn_part_is_painted(page, photos, from_command_line):
    asked = []
    page.on("request", lambda r: "queue/join" in r.url and asked.append(r.post_data))
    upload(page, photos / "cat.png")
    page.get_by_role("button", name="Only here").click()
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
    page.get_by_role("button", name="Only here").click()
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


def test_a_picture_pasted_anywhere_is_the_photo(page, photos):
    upload(page, photos / "cat.png")
    before = page.locator("#photo img").get_attribute("src")
    page.evaluate(
        """async (url) => {
          const file = new File([await (await fetch(url)).blob()], "pasted.png",
                                {type: "image/png"});
          const clipboardData = new DataTransfer();
          clipboardData.items.add(file);
          document.body.dispatchEvent(
            new ClipboardEvent("paste", {clipboardData, bubbles: true}));
        }""",
        before,
    )
    page.wait_for_function("document.querySelector('#photo img')?.src.endsWith('pasted.png')")


def test_a_photo_chosen_right_after_another_was_taken_away_stays(page, photos):
    upload(page, photos / "cat.png")
    page.wait_for_timeout(500)
    page.evaluate(
        """() => { const fetched = window.fetch; let first = true;
        window.fetch = async (...what) => {
          if (first && String(what[0]).includes("queue/join")) {
            first = false;
            await new Promise(done => setTimeout(done, 1000));
          }
          return fetched(...what);
        }; }"""
    )
    page.locator("#photo .icon-button-wrapper button").first.click()
    upload(page, photos / "coffee.jpg")
    # The answer to the taking away comes after the upload, and must not take this one along.
    page.wait_for_timeout(2500)
    assert "coffee" in page.locator("#photo img").get_attribute("src")


def test_many_photos_come_back_as_one_zip_without_the_broken_one(page, photos, from_command_line):
    page.get_by_role("tab", name="Many photos").click()
    files = [photos / name for name in ("cat.png", "notes.jpg", "coffee.jpg")]
    page.locator("#photos input[type=file]").set_input_files(files)
    page.get_by_text("notes.jpg").or_(page.get_by_text("notes")).first.wait_for()
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


def test_an_example_in_every_style_and_one_of_them_chosen(page):
    page.get_by_role("button", name="A cat's face").click()
    page.locator("#photo img").wait_for()
    page.get_by_role("button", name="This photo in every style").click()
    page.locator("#strip button img").nth(1).wait_for()
    page.locator("#strip button").nth(1).click()
    name, _ = download(page)
    assert name == "chelsea-stripes.png"
    assert page.get_by_role("radio", name="stripes, variant 1").is_checked()


def test_the_numbers_of_a_result_are_shown(page, photos):
    upload(page, photos / "cat.png")
    paint(page)
    download(page)
    page.get_by_role("button", name="Numbers").click()
    page.locator("#numbers table").wait_for()
    text = page.locator("#numbers").inner_text()
    for row in (
        "Sharpness of the photo",
        "Sharpness of the painting",
        "Seconds",
        "tiny.safetensors",
    ):
        assert row in text
    assert "180 × 120" in text


def test_how_far_it_is_is_told_of_a_painting_that_takes_a_while(page, photos, held):
    upload(page, photos / "cat.png")
    told = page.locator("#comparison [data-testid=status-tracker]").get_by_text("Painting")
    page.get_by_role("button", name="Paint it").click()
    told.wait_for()
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
    page.locator("#result").wait_for(state="hidden")
    page.get_by_role("button", name="Stop").click()
    wait_until_idle(server)
    page.locator("#result").wait_for(state="visible")
    assert download(page)[0] == "cat-dots.png"
    # Nor does a painting that fails take it away.
    page.locator("#styles .own input").check(force=True)
    page.get_by_role("button", name="Paint it").click()
    page.get_by_text("Choose a painting first").wait_for()
    page.locator("#result").wait_for(state="visible")


def test_a_reload_in_the_middle_leaves_the_server_healthy(
    page, photos, held, server, monkeypatch, open_page
):
    upload(page, photos / "cat.png")
    page.get_by_role("button", name="Paint it").click()
    assert held.wait(PATIENCE)
    page.reload()
    page.get_by_role("button", name="Paint it").wait_for()
    open_page.wrong.clear()  # Gradio logs the streams that the reload ended
    wait_until_idle(server)
    monkeypatch.undo()
    upload(page, photos / "cat.png")
    paint(page)
    assert download(page)[0] == "cat-dots.png"


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
    page.locator("#photo img").wait_for()
    tab_to("dots")
    page.keyboard.press("ArrowDown")
    tab_to("Paint it")
    page.keyboard.press("Enter")
    page.locator("#comparison img").nth(1).wait_for()
    assert download(page)[0] == "chelsea-stripes.png"


CONTROLS = {"button", "radio", "checkbox", "slider", "spinbutton", "combobox", "tab", "textbox"}


def test_every_control_and_picture_has_a_name_for_screen_readers(page, photos):
    upload(page, photos / "cat.png")
    paint(page)
    download(page)
    for closed in ("Only here", "Mix in a second style", "Numbers"):
        page.get_by_role("button", name=closed).click()
    page.locator("#numbers table").wait_for()
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
