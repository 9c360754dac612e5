"""The static page paints in the browser itself what the command line paints."""

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import skimage.data
import torch
from PIL import Image
from playwright import sync_api as playwright

from app.painter import Painter
from app.site.serve import HEADERS, Bare
from benchmarks import site as measured
from models import periodic
from tests.app.conftest import save_tiny

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ROOT / ".venv" / "npm" / "node_modules"
RUNTIME = PACKAGES / "onnxruntime-web" / "dist"

pytest.importorskip("onnxscript", reason="make site-deps installs it")
if not RUNTIME.is_dir():
    pytest.skip("no onnxruntime-web: npm was not there to install it", allow_module_level=True)
from tests.exported import exported_once, refining_network  # noqa: E402


@pytest.fixture(scope="module")
def refining(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of two styles whose network refines the codes of paintings."""
    return save_tiny(refining_network(), tmp_path_factory.mktemp("refining") / "a.safetensors")


@pytest.fixture(scope="module")
def painter(refining: Path) -> Painter:
    return Painter(refining, device="cpu")


@pytest.fixture(scope="module")
def built(refining: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from app.site.build import build

    folder = tmp_path_factory.mktemp("site")
    example = folder / "example.png"
    Image.fromarray(skimage.data.coffee()[100:196, 100:228]).save(example)
    with pytest.MonkeyPatch.context() as patch:
        once = partial(exported_once, factory=tmp_path_factory)
        patch.setattr("app.export.folder.exported", once)
        build(folder / "site", RUNTIME, refining, example, "https://me.example/paint")
    return folder / "site"


@pytest.fixture(scope="module")
def address(built: Path) -> Iterator[str]:
    with measured.serving(built) as address:
        yield address


@pytest.fixture
def visit(browser, address: str) -> Iterator[Callable]:
    """Opens the page; afterwards nothing was asked of another host, and no error was logged."""
    contexts, wrong = [], []

    def visit(query="", prepare=lambda page: None, context=None, **options):
        if context is None:
            context = browser.new_context(**options)
            contexts.append(context)
        page = context.new_page()
        prepare(page)
        page.on("request", lambda r: r.url.startswith((address, "blob:")) or wrong.append(r.url))
        page.on("console", lambda m: m.type == "error" and wrong.append(m.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        return measured.Page(page, address, query)

    yield visit
    for context in contexts:
        context.close()
    assert not wrong


@pytest.fixture(scope="module")
def phone(browser):
    """A phone, whose browser keeps the page from one visit to the next."""
    with browser.new_context(viewport={"width": 360, "height": 740}) as context:
        yield context


@pytest.fixture
def page(visit, phone):
    page = visit(context=phone)
    yield page
    page.page.close()


def test_it_paints_as_the_command_line_does(page, painter: Painter):
    cat = measured.png(skimage.data.chelsea()[:90, 60:180])
    clear = np.dstack([skimage.data.chelsea()[:60, 60:140], np.full((60, 80), 128, np.uint8)])
    clear[:, :30, 3] = 255
    everything = dict.fromkeys(measured.AMOUNTS, 2.0) | {"keep_color": "matched", "brush_size": 2}
    cases = [
        measured.Case("a ground", ("cat.png", cat), "stripes"),
        measured.Case("half", ("cat.png", cat), "stripes", {"strength": 0.5}),
        measured.Case("everything", ("cat.png", cat), "dots", everything),
        measured.Case("broad", ("cat.png", cat), "stripes", {"brushwork": 3.0, "brush_size": 4}),
        measured.Case("own", ("cat.png", cat), ("own.png", measured.png(_painting()))),
        measured.Case(
            "turned", ("turned.jpg", measured.turned(skimage.data.coffee()[:80, :120])), "dots"
        ),
        measured.Case("clear", ("clear.png", measured.png(clear)), "dots"),
    ]
    for row in measured.compare(page, painter, cases):
        assert row["mean"] < measured.MOST_MEAN, row
        assert row["within"] > measured.LEAST_SHARE, row


GRAINED = """async ([width, height, side, top, left, size]) => {
  const { grained, map } = await import("./filters.js");
  const paper = Float32Array.from({ length: side * side }, (_, i) => ((7919 * i) % 1009) / 1009);
  const { data } = grained(map(3, height, width), paper, side, 0.5, top, left, size);
  return Array.from(data);
}"""


def test_its_grain_lies_where_the_command_line_s_does(page):
    width, height, side = 75, 60, periodic.SIDE
    paper = (7919 * torch.arange(side * side) % 1009 / 1009).reshape(1, 1, side, side)
    for size in (1, 2, 4):
        for top, left in ((0, 0), (-37, 1003), (side * size - 5, -6 * side)):
            right = 0.5 * periodic.cut(paper, torch.zeros(1, 3, height, width), [(top, left)], size)
            mine = page.page.evaluate(GRAINED, [width, height, side, top, left, size])
            mine = np.array(mine).reshape(1, 3, height, width)
            assert np.abs(mine - right.numpy()).max() < 1e-6, (size, top, left)


def _painting() -> np.ndarray:
    return skimage.data.astronaut()[:96, 200:296]


WATCH = """
window.seen = [];
new MutationObserver(() => window.seen.push(document.getElementById("progress").value))
  .observe(document.getElementById("progress"), { attributeFilter: ["value"] });
"""


def test_a_photo_too_large_for_one_piece_is_painted_in_tiles_with_progress(page, painter: Painter):
    large = Image.fromarray(skimage.data.coffee()).resize((4200, 252), Image.Resampling.BICUBIC)
    photo = ("large.png", measured.png(np.asarray(large)))
    case = measured.Case("tiles", photo, "dots", {"brush_size": 1})
    page.page.evaluate(WATCH)
    (row,) = measured.compare(page, painter, [case])
    assert row["mean"] < measured.MOST_MEAN, row
    assert row["within"] > measured.LEAST_SHARE, row
    assert len({value for value in page.page.evaluate("seen") if 0 < value < 1}) > 3


def test_it_works_by_keyboard_alone_and_fits_a_phone(page):
    page.page.locator("summary").click()
    assert page.page.evaluate(measured.WIDE) == 360
    measured.by_keyboard(page)
    assert page.page.evaluate(measured.WIDE) == 360


def test_styles_and_variants_are_pictures_of_that_very_photo(page):
    page.upload("#photo-file", "cat.png", measured.png(skimage.data.chelsea()[:90, 60:180]))
    page.choose("stripes")
    variants = page.page.locator("#variants [role=radio]")
    playwright.expect(variants).to_have_count(2)
    page.filled()
    pictures = page.page.eval_on_selector_all(
        ".styles canvas", "all => all.map(c => [c.width, c.height, c.toDataURL()])"
    )
    assert len(pictures) == 4
    assert {(width, height) for width, height, _ in pictures} == {(120, 90)}
    dots, stripes, first, second = (data for *_, data in pictures)
    assert stripes == first
    assert len({dots, first, second}) == 3
    page._forget()
    variants.last.click()
    page.says("Stripes 2, painted in")
    playwright.expect(variants.last).to_have_attribute("aria-checked", "true")
    page.choose("dots")
    playwright.expect(page.page.locator("#variants")).to_be_hidden()


FILE = """async ([event, bytes]) => {
  const data = new DataTransfer();
  data.items.add(new File([new Uint8Array(bytes)], "cat.png", { type: "image/png" }));
  const given = event === "paste" ? { clipboardData: data } : { dataTransfer: data };
  const kind = event === "paste" ? ClipboardEvent : DragEvent;
  dispatchEvent(new kind(event, { ...given, bubbles: true, cancelable: true }));
}"""


def test_photos_are_dropped_pasted_and_taken(page):
    inside = page.page
    for event, wide in (("drop", 50), ("paste", 60)):
        page._forget()
        content = measured.png(skimage.data.chelsea()[:40, :wide])
        inside.evaluate(FILE, [event, list(content)])
        page.painted()
        playwright.expect(inside.locator("#painted")).to_have_attribute("width", str(wide))
    page._forget()
    inside.locator("#camera").click()
    inside.locator("#snap").click()
    page.painted()
    playwright.expect(inside.locator("#lens")).to_be_hidden()
    assert int(inside.locator("#painted").get_attribute("width")) > 60


SHARES = """
let tries = 0;
navigator.canShare = () => true;
navigator.share = async ({ files }) => {
  if (!tries++) throw new DOMException("too late", "NotAllowedError");
  document.body.dataset.shared = [files[0].name, files[0].type, files[0].size > 100];
};
"""


def test_a_painting_is_copied_and_shared(visit):
    page = visit(
        prepare=lambda page: page.add_init_script(SHARES),
        permissions=["clipboard-read", "clipboard-write"],
    )
    inside = page.page
    inside.locator("#copy").click()
    page.says("Copied.")
    kinds = "async () => (await navigator.clipboard.read()).flatMap((one) => one.types)"
    assert inside.evaluate(kinds) == ["image/png"]
    # A browser refuses where making the file took longer than a tap counts: it is kept.
    inside.locator("#share").click()
    page.says("tap Share once more")
    inside.locator("#share").click()
    playwright.expect(inside.locator("body")).to_have_attribute(
        "data-shared", "example-dots.jpg,image/jpeg,true", timeout=measured.PATIENCE
    )


# Tells the page of each run of the network's costly half.
TELLS = """
const generate = Model.prototype.generate;
Model.prototype.generate = function (...given) {
  postMessage({ ran: true });
  return generate.apply(this, given);
};
"""
COUNTS = """
window.runs = 0;
window.Worker = class extends Worker {
  constructor(...given) {
    super(...given);
    this.addEventListener("message", ({ data }) => { if (data.ran) window.runs++; });
  }
};
"""


def test_a_slider_of_what_comes_after_the_network_does_not_run_it(visit):
    def prepare(page) -> None:
        _before(TELLS, "worker.js")(page)
        page.add_init_script(COUNTS)

    page = visit("?fill=no", prepare, service_workers="block")
    counted = page.page.evaluate("window.runs")
    assert counted > 0
    page.look(tint=1.5, outlines=2)
    assert page.page.evaluate("window.runs") == counted
    page.look(strength=0.5)
    assert page.page.evaluate("window.runs") > counted


# Paints a file for ever.
NEVER_DONE = """
addEventListener("message", ({ data }) => { if (data.kind === "file") for (;;); });
"""


def test_a_download_is_cancelled_whatever_it_is_at(visit):
    page = visit(prepare=_before(NEVER_DONE, "worker.js"), service_workers="block")
    inside = page.page
    page.upload("#painting-file", "own.png", measured.png(_painting()))
    page.filled()
    inside.locator("#download").click()
    inside.locator('#styles [data-style="stripes:1"]').click()
    inside.locator("#cancel").click()
    page.says("Stripes, painted in")  # what was asked for in the meantime
    playwright.expect(inside.locator("#cancel")).to_be_hidden()
    page._forget()
    inside.locator('#styles [data-style^="own"]').click()
    page.says("own, painted in")


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
        ("huge.png", _huge(), "huge.png has 900 megapixels; the most this page can hold are 60."),
    ):
        file = {"name": name, "mimeType": "image/png", "buffer": content}
        inside.locator("#photo-file").set_input_files(file)
        inside.get_by_role("alert").filter(has_text=words).wait_for()
    page.choose("stripes")
    playwright.expect(inside.get_by_role("alert")).to_be_hidden()


def _huge() -> bytes:
    """The first bytes of a PNG of 30,000 x 30,000 pixels."""
    side = (30_000).to_bytes(4, "big")
    return b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR" + side + side + b"\x08\x02\0\0\0"


# What a browser throws where it has no more memory, for more than so many numbers at once.
LITTLE_MEMORY = """
const Plenty = Float32Array;
self.Float32Array = new Proxy(Plenty, {
  construct(kind, given) {
    if (given[0] > 1_000_000) throw new RangeError("Array buffer allocation failed");
    return Reflect.construct(kind, given);
  },
});
"""


def _before(script: str, file: str) -> Callable:
    """Has a file of the page begin with a script."""

    def prepare(page) -> None:
        def answer(route) -> None:
            response = route.fetch()
            route.fulfill(response=response, body=script + response.text())

        page.route(f"**/{file}", answer)

    return prepare


def test_no_memory_is_a_sentence_and_the_page_goes_on(visit):
    page = visit(prepare=_before(LITTLE_MEMORY, "worker.js"), service_workers="block")
    large = Image.fromarray(skimage.data.coffee()).resize((1000, 800))
    file = {"name": "l.png", "mimeType": "image/png", "buffer": measured.png(np.asarray(large))}
    page.page.locator("#photo-file").set_input_files(file)
    words = "There is not enough memory"
    page.page.get_by_role("alert").filter(has_text=words).wait_for(timeout=measured.PATIENCE)
    page.choose("stripes")
    playwright.expect(page.page.get_by_role("alert")).to_be_hidden()


def test_the_example_is_seen_before_the_paints_are_ready(browser, address):
    from playwright.sync_api import expect

    with browser.new_context(service_workers="block") as context:
        page = context.new_page()
        page.set_default_timeout(measured.PATIENCE)
        page.route("**/model/weights.bin", lambda route: None)  # which is never answered
        page.goto(address)
        canvas = page.locator("#painted")
        expect(canvas).to_have_js_property("width", 128, timeout=measured.PATIENCE)


def test_without_webassembly_it_says_so(browser, built):
    with measured.serving(built) as address, browser.new_context() as context:
        page = context.new_page()
        page.set_default_timeout(measured.PATIENCE)
        page.add_init_script("delete self.WebAssembly")
        page.goto(address)
        page.get_by_role("alert").filter(has_text="too old to paint here").wait_for()


# A GPU, and a runtime that paints with it until it is lost.
GPU = """Object.defineProperty(navigator, "gpu", {
  value: { requestAdapter: async () => ({ info: {} }) },
});"""
LOST_AFTER = """
import * as ort from "./ort.wasm.min.mjs";
let runs = 0;
export const { env, Tensor } = ort;
export const InferenceSession = {
  async create(file, options) {
    const isGpu = options.executionProviders[0] === "webgpu";
    if (isGpu && %d === 0) throw new Error("no device");
    options = { ...options, executionProviders: ["wasm"] };
    const session = await ort.InferenceSession.create(file, options);
    if (!isGpu) return session;
    return {
      async run(feeds) {
        if (++runs > %d) throw new Error("Device is lost");
        return session.run(feeds);
      },
    };
  },
};
"""


@pytest.mark.parametrize("runs", [0, 5])
def test_a_lost_graphics_processor_gives_way_to_the_processor(visit, runs, painter):
    def prepare(page) -> None:
        page.add_init_script(GPU)
        page.route(
            "**/ort.webgpu.min.mjs*",
            lambda route: route.fulfill(
                body=LOST_AFTER % (runs, runs), content_type="text/javascript", headers=HEADERS
            ),
        )

    page = visit(prepare=prepare, service_workers="block")
    cat = measured.png(skimage.data.chelsea()[:90, 60:180])
    (row,) = measured.compare(page, painter, [measured.Case("cat", ("cat.png", cat), "stripes")])
    assert row["mean"] < measured.MOST_MEAN
    playwright.expect(page.page.locator("body")).to_have_attribute(
        "data-runs", re.compile("^wasm ")
    )


def test_it_has_nothing_serious_for_a_screen_reader_to_stumble_over(page):
    for scheme in ("light", "dark"):
        page.page.emulate_media(color_scheme=scheme)
        assert not measured.serious(page, PACKAGES / "axe-core" / "axe.min.js"), scheme


def test_any_host_sends_each_file_once_to_a_page_that_then_works_offline(browser, built):
    found = measured.visits(built, browser, Bare)
    # The service worker's own script is how a browser learns of a newer page.
    script = "/paint/sw.js"
    once = [path for path, _ in found["first"] if path != script]
    assert len(once) == len(set(once))
    needed = {"/paint/", "/paint/boot.js", "/paint/page.js", "/paint/model/weights.bin"}
    assert needed | {"/paint/runtime/ort-wasm-simd-threaded.wasm"} <= set(once)
    assert {path for path, _ in found["second"] + found["offline"]} <= {script}
    assert {path for path, _ in found["update"]} == {script, "/paint/page.css"}
    # Threads, which this host's headers don't allow.
    assert "Cross-Origin-Embedder-Policy" not in Bare.added
    assert found["isolated"]


def test_it_can_be_put_on_a_home_screen(page):
    session = page.page.context.new_cdp_session(page.page)
    found = session.send("Page.getInstallabilityErrors")["installabilityErrors"]
    assert {one["errorId"] for one in found} <= {"in-incognito"}  # as every context of the tests is


def test_a_link_to_it_is_shown_with_a_picture_that_no_visit_loads(built):
    page = (built / "index.html").read_text(encoding="utf-8")
    assert 'property="og:image" content="https://me.example/paint/card.jpg">' in page
    with Image.open(built / "card.jpg") as card:
        assert card.size == (1200, 630)
    assert "card.jpg" not in (built / "sw.js").read_text(encoding="utf-8")


def test_the_photos_and_what_they_become_have_their_size(page):
    small = skimage.data.chelsea()[:7, :9]
    page.upload("#photo-file", "tiny.png", measured.png(small))
    assert page.download().shape[:2] == (7, 9)
