"""The static page in Debian's Chromium: whether it paints as the command line does, and how fast.

    make site
    python -m benchmarks.site --site site --out benchmarks/results

Prints, and writes as JSON, by parts:

    sizes    MB of the built page, compressed
    roots    how well Newton-Schulz agrees with eigh on the covariances that occur
    equal    how far the page's pictures are from app.stylize's
    seams    steps where tiles meet
    visits   what a first visit, a second, one offline and an update transfer
    phone    360 px wide, by keyboard alone, and what axe-core finds
    speed    seconds for 512 px beside torch's, and the longest task of the main thread meanwhile
    large    12 megapixels: seconds and the browser's memory
    memory   the renderer's memory over fifty paintings
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import skimage.data
import torch
from PIL import Image

import wct
from app import images, terminal, tiles
from app.export.graphs import roots
from app.limits import LIMITS, Limits
from app.look import Look
from app.painter import Painter
from app.region_painter import RegionPainter
from app.regions import Region
from app.shipped import CHECKPOINT
from app.site.build import CARD, write_service_worker
from app.site.serve import Handler, server
from benchmarks.scale import seam_ratio
from models.network import STRIDE

PARTS = ("sizes", "roots", "equal", "seams", "visits", "phone", "speed", "large", "memory")
MOST_MEAN, MOST_LEVELS, LEAST_SHARE = 1.5, 12, 0.99
THREADS = (2, 1)  # of WASM
LARGE = (4000, 3000)  # pixels
SIDES = {1: 2200, 4: 2800}  # pixels, by the brush's size: larger than one tile
AXE = Path(".venv/npm/node_modules/axe-core/axe.min.js")
SERIOUS = ("serious", "critical")
PATIENCE = 900_000  # milliseconds; a busy machine is slow
EIGHTH_TURN = 6  # EXIF orientation: turned by a quarter to the right


@dataclass(frozen=True)
class Case:
    """A picture that the page and the command line paint alike.

    Args:
        photo: a file's name and bytes.
        style: a built-in name, or a painting's file name and bytes.
        look: by names of Look; where it isn't the default.
    """

    name: str
    photo: tuple[str, bytes]
    style: str | tuple[str, bytes]
    look: dict[str, Any] = field(default_factory=dict)


def png(pixels: np.ndarray) -> bytes:
    """Pixels as a PNG file."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "png")
    return file.getvalue()


def turned(pixels: np.ndarray) -> bytes:
    """A JPEG whose EXIF says that it lies on its side."""
    file, exif = io.BytesIO(), Image.Exif()
    exif[0x0112] = EIGHTH_TURN
    Image.fromarray(pixels).save(file, "jpeg", quality=95, exif=exif)
    return file.getvalue()


def cases(styles: Sequence[str], large: int = 2200) -> list[Case]:
    """Every case of issue 22.

    Args:
        large: the longest side, pixels, of the picture that needs tiles.
    """
    coffee, cat = skimage.data.coffee()[:300, :420], skimage.data.chelsea()[:240, :320]
    photo, face = ("coffee.png", png(coffee)), skimage.data.astronaut()[:260, 80:360]
    alpha = np.linspace(0, 255, 420).astype(np.uint8)[None, :, None].repeat(300, 0)
    alpha[:, -60:] = 255
    height = large * 2 // 3
    big = Image.fromarray(skimage.data.coffee()).resize((large, height), Image.Resampling.BICUBIC)
    first = styles[0]
    return [
        *(Case(style, photo, style) for style in styles),
        Case("an own painting", photo, ("painting.png", png(skimage.data.astronaut()))),
        Case("strength 0.5", photo, first, {"strength": 0.5}),
        Case("keep color, luminance", photo, first, {"keep_color": "luminance"}),
        Case("keep color, matched", photo, first, {"keep_color": "matched"}),
        Case("brush size 2", photo, first, {"brush_size": 2}),
        Case("every amount", ("face.png", png(face)), first, dict.fromkeys(AMOUNTS, 1.5)),
        Case("EXIF orientation 6", ("turned.jpg", turned(cat)), first),
        Case("transparency", ("clear.png", png(np.dstack([coffee, alpha]))), first),
        Case("tiles", ("large.png", png(np.asarray(big))), first, {"brush_size": 1}),
    ]


AMOUNTS = ("brushwork", "simplify", "outlines", "tint", "tone", "faces")


@contextmanager
def browser() -> Iterator[Any]:
    """Debian's Chromium, or another that is on the path."""
    from playwright.sync_api import sync_playwright

    found = [shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome")]
    executable = next((path for path in found if path), None)
    with sync_playwright() as driver:
        options = ["--no-sandbox", "--disable-dev-shm-usage", "--enable-precise-memory-info"]
        yield driver.chromium.launch(executable_path=executable, args=options)


@contextmanager
def serving(folder: Path, kind: type[Handler] = Handler) -> Iterator[str]:
    """The page's address while it is served."""
    with server(folder, kind=kind) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}/"
        running.shutdown()


class Page:
    """The static page, as a visitor works it.

    Args:
        page: a page of playwright.
    """

    def __init__(self, page: Any, address: str, query: str = "") -> None:
        self.page = page
        page.set_default_timeout(PATIENCE)
        page.goto(address + query)
        self.painted()

    def painted(self) -> None:
        """Waits for a painting."""
        self.says("painted in")

    def says(self, text: str) -> None:
        """Waits for words in the line of what is going on."""
        from playwright.sync_api import expect

        expect(self.page.locator("#status")).to_contain_text(text, timeout=PATIENCE)

    def change(self, control: str, value: str) -> None:
        """Moves a slider or takes a choice of a list, and waits for the painting of it."""
        tag = self.page.locator(control).evaluate("node => node.tagName")
        if tag == "SELECT":
            self.page.locator(control).evaluate(SET, [value, "change"])
        else:
            self.page.locator(control).evaluate(SET, [value, "input"])

    def upload(self, what: str, name: str, content: bytes) -> None:
        """Chooses a file and waits for its painting."""
        self._forget()
        mime = "image/jpeg" if name.endswith(".jpg") else "image/png"
        file = {"name": name, "mimeType": mime, "buffer": content}
        self.page.locator(what).set_input_files(file)
        self.painted()

    def kept(self) -> None:
        """Waits until the page needs no network any more."""
        from playwright.sync_api import expect

        body = self.page.locator("body")
        expect(body).to_have_attribute("data-kept", "true", timeout=PATIENCE)

    def _forget(self) -> None:
        self.page.locator("#status").evaluate("node => { node.textContent = '' }")

    def choose(self, style: str) -> None:
        """Chooses a built-in style."""
        self._forget()
        self.page.locator(f'#styles [data-style="{style}:1"]').click()
        self.painted()

    def filled(self) -> None:
        """Waits until every style shows the photo: nothing is painted any more."""
        from playwright.sync_api import expect

        body = self.page.locator("body")
        photo = body.get_attribute("data-photo")
        expect(body).to_have_attribute("data-filled", photo, timeout=PATIENCE)

    @property
    def seconds(self) -> float:
        """That the last painting took."""
        return self.page.evaluate(LAST) / 1000

    def look(self, **options: Any) -> None:
        """Changes what is wanted, and waits for the painting of it."""
        for name, value in options.items():
            self._forget()
            self.change(f"#look-{name}", "" if value is None else str(value))
            self.painted()

    def plain(self) -> None:
        """Back to the look that suits the style."""
        self._forget()
        self.page.locator("#reset").click()
        self.painted()

    def download(self) -> np.ndarray:
        """The painting at its full size, as PNG: (H, W, 3 or 4) uint8."""
        self.page.locator("#type").select_option("image/png")
        with self.page.expect_download(timeout=PATIENCE) as waiting:
            self.page.locator("#download").click()
        return np.asarray(Image.open(waiting.value.path()))


LAST = "performance.getEntriesByName('painting').at(-1).duration"
SET = """(node, [value, event]) => {
  node.value = value;
  node.dispatchEvent(new Event(event, { bubbles: true }));
  if (event === "input") node.dispatchEvent(new Event("change", { bubbles: true }));
}"""


def wanted(painter: Painter, case: Case, folder: Path) -> np.ndarray:
    """What the command line makes of a case: (H, W, 3 or 4) uint8."""
    photo = folder / case.photo[0]
    photo.write_bytes(case.photo[1])
    style = case.style
    if not isinstance(style, str):
        (folder / style[0]).write_bytes(style[1])
        style = str(folder / style[0])
    picture = images.load(photo)
    result = painter.paint(picture, painter.style(style), Look(**case.look))
    return result.rgb if result.alpha is None else np.dstack([result.rgb, result.alpha])


def apart(mine: np.ndarray, right: np.ndarray) -> tuple[float, float]:
    """Mean difference in levels of 255, and the share of pixels within MOST_LEVELS.

    Pictures with alpha are laid on white and on black: what can't be seen is not compared.
    """
    grounds = (255,) if right.shape[-1] == 3 and mine.shape[-1] == 3 else (255, 0)
    differences = [np.abs(_on(mine, ground) - _on(right, ground)) for ground in grounds]
    worst = np.maximum.reduce(differences)
    return float(worst.mean()), float((worst.max(-1) <= MOST_LEVELS).mean())


def _on(pixels: np.ndarray, ground: int) -> np.ndarray:
    values = pixels[..., :3].astype(np.float64)
    if pixels.shape[-1] == 3:
        return values
    share = pixels[..., 3:] / 255
    return values * share + ground * (1 - share)


def compare(page: Page, painter: Painter, chosen: Sequence[Case]) -> list[dict[str, Any]]:
    """Paints each case with both, and says how far they are apart."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for case in chosen:
            page.plain()
            page.upload("#photo-file", *case.photo)
            if isinstance(case.style, str):
                page.choose(case.style)
            else:
                page.upload("#painting-file", *case.style)
            page.look(**case.look)
            mine = page.download()
            right = wanted(painter, case, Path(folder))
            if mine.shape[-1] == 4 and right.shape[-1] == 3:
                mine = mine[..., :3]
            mean, share = apart(mine, right)
            row = {"case": case.name, "mean": mean, "within": share}
            rows.append(row)
            print(
                f"{case.name:24} mean {mean:.3f}, {100 * share:.2f}% within {MOST_LEVELS}",
                flush=True,
            )
    return rows


def zipped(folder: Path) -> dict[str, float]:
    """MB of the built page as a host sends it to a visitor, gzipped where that helps."""
    sizes = {"ours": 0.0, "runtime": 0.0, "runtime with WebGPU": 0.0}
    for path in folder.rglob("*"):
        if not path.is_file() or path.name == CARD:
            continue
        content = path.read_bytes()
        size = min(len(content), len(gzip.compress(content, 9))) / 1e6
        if path.parent.name != "runtime":
            sizes["ours"] += size
        elif "webgpu" in path.name or "asyncify" in path.name:
            sizes["runtime with WebGPU"] += size
        else:
            sizes["runtime"] += size
    return sizes


def seams(
    page: Page, painter: Painter, names: Sequence[str], sides: dict[int, int]
) -> list[dict[str, Any]]:
    """Steps across the columns where tiles meet, over those of the picture that is painted whole.

    A step's size is that of the steps next to it, see `benchmarks.scale.seam_ratio`, which alone
    says little: without any tiles it is as far from 1, by what the picture shows there and by the
    network's own grid.

    Args:
        sides: the longest side, pixels, of a photo that needs tiles, by the brush's size.
    """
    rows = []
    for size, large in sides.items():
        height = large * 2 // 3
        picture = Image.fromarray(skimage.data.coffee())
        photo = np.asarray(picture.resize((large, height), Image.Resampling.BICUBIC))
        look = Look(brush_size=size)
        page.plain()
        page.upload("#photo-file", "large.png", png(photo))
        page.look(brush_size=size)
        for name in names:
            page.choose(name)
            style = painter.style(name)
            reach = RegionPainter(
                painter.network, painter.device, photo, Region(style), look, size
            ).reach
            side = LIMITS.tile * min(2, size)
            side = side if size > 1 else side // 2  # as the page's painter.js cuts
            cut = tiles.plan(height, large, side, reach, STRIDE * size)
            places = sorted({tile.core.left for tile in cut} - {0})
            mine = page.download()
            given = images.Picture(photo)
            ways = {
                "page": mine,
                "painter": painter.paint(given, style, look, tile=side).rgb,
                "whole": painter.paint(given, style, look, tile=large).rgb,
            }
            row: dict[str, Any] = {"style": name, "brush size": size, "tiles": len(places) + 1}
            row |= {way: seam_ratio(pixels[..., :3], places) for way, pixels in ways.items()}
            row["over whole"] = row["page"] / row["whole"]
            rows.append(row)
            print(row, flush=True)
    return rows


def counting(kind: type[Handler], sent: list[tuple[str, int]]) -> type[Handler]:
    """A host of a kind, which adds to a list what it sends: paths and bytes of bodies."""

    class Counting(kind):  # type: ignore[misc, valid-type]
        def send_response(self, code: int, message: str | None = None) -> None:
            self.code = code
            super().send_response(code, message)

        def send_header(self, keyword: str, value: str) -> None:
            super().send_header(keyword, value)
            if keyword == "Content-Length" and self.code == 200:
                sent.append((self.path.partition("?")[0], int(value)))

    return Counting


def visits(folder: Path, running: Any, kind: type[Handler] = Handler) -> dict[str, Any]:
    """What is sent on a first visit, a second, one without a network, and after an update.

    The page lies below the host's root, as on GitHub Pages; the update is a line of page.css.

    Returns:
        For each the paths and bytes, and whether the second is isolated, as threads need it.
    """
    sent: list[tuple[str, int]] = []
    found: dict[str, Any] = {}

    def taken() -> list[tuple[str, int]]:
        some = sent.copy()
        sent.clear()
        return some

    with tempfile.TemporaryDirectory() as root, serving(Path(root), counting(kind, sent)) as host:
        built, address = Path(root) / "paint", f"{host}paint/"
        shutil.copytree(folder, built)
        context = running.new_context(viewport={"width": 390, "height": 844})
        for visit in ("first", "second"):
            page = Page(context.new_page(), address)
            page.kept()
            page.filled()
            found[visit] = taken()
            found["isolated"] = page.page.evaluate("crossOriginIsolated")
            page.page.close()
        context.set_offline(True)
        page = Page(context.new_page(), address)
        page.filled()
        found["offline"] = taken()
        page.page.close()
        context.set_offline(False)
        with (built / "page.css").open("a", encoding="utf-8") as style:
            style.write(":root { --newer: yes }\n")
        write_service_worker(built)
        # The older page is shown until the newer is there as a whole and the older is closed.
        while True:
            page = Page(context.new_page(), address)
            if page.page.evaluate(NEWER):
                break
            page.page.wait_for_function(WAITS)
            page.page.close()
        found["update"] = taken()
        context.close()
    return found


NEWER = "getComputedStyle(document.documentElement).getPropertyValue('--newer')"
WAITS = "async () => (await navigator.serviceWorker.getRegistration()).waiting"


def megabytes(found: dict[str, Any]) -> dict[str, Any]:
    """What `visits` found, summed up."""
    names = ("first", "second", "offline", "update")
    moved: dict[str, Any] = {name: sum(size for _, size in found[name]) / 1e6 for name in names}
    paths = [path for path, _ in found["first"]]
    return moved | {"sent twice": sorted({path for path in paths if paths.count(path) > 1})}


def by_keyboard(page: Page) -> None:
    """Another style, a variant, a slider, undo and a download without a pointer.

    Raises:
        AssertionError: something can't be reached, or does something else.
    """
    inside, keys = page.page, page.page.keyboard
    styles = inside.eval_on_selector_all(STYLES, "all => all.map(b => b.dataset.style)")
    inside.evaluate("document.activeElement?.blur()")
    inside.locator("body").press("Tab")

    def tab_to(what: str) -> None:
        for _ in range(40):
            if inside.evaluate(f"document.activeElement.matches({json.dumps(what)})"):
                return
            keys.press("Tab")
        raise AssertionError(f"the tab key does not lead to {what}")

    def painted_by(key: str) -> None:
        page._forget()
        keys.press(key)
        page.painted()

    def is_checked(style: str) -> bool:
        return inside.locator(f'[data-style="{style}"][aria-checked=true]').count() > 0

    tab_to("#compare")
    keys.press("ArrowRight")
    assert inside.locator("#compare").input_value() == "1"
    tab_to("#choose")
    tab_to('#styles [aria-checked="true"]')
    assert is_checked(styles[0])
    painted_by("ArrowRight")
    assert is_checked(styles[1])
    painted_by("Control+z")
    assert is_checked(styles[0])
    tab_to("#look-strength")
    painted_by("ArrowLeft")
    assert inside.locator("#look-strength").input_value() == "0.95"
    tab_to("#undo")
    painted_by("Enter")
    assert inside.locator("#look-strength").input_value() == "1"
    inside.keyboard.press("Shift+Tab")
    inside.evaluate("document.activeElement.blur()")
    tab_to("#download")
    with inside.expect_download(timeout=PATIENCE):
        keys.press("Enter")


def serious(page: Page, axe: Path) -> list[tuple[str, str]]:
    """What axe-core finds of serious or critical impact: its rule and where."""
    page.page.evaluate(axe.read_text(encoding="utf-8") + ";0")
    found = page.page.evaluate("axe.run().then(({ violations }) => violations)")
    return [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in SERIOUS]


def phone(address: str, running: Any, axe: Path) -> dict[str, Any]:
    """How the page is on a narrow phone, in light and dark."""
    found: dict[str, Any] = {}
    for scheme in ("light", "dark"):
        context = running.new_context(viewport={"width": 360, "height": 740}, color_scheme=scheme)
        page = Page(context.new_page(), address)
        page.page.locator("summary").first.click()
        found[scheme] = {"width": page.page.evaluate(WIDE), "serious": serious(page, axe)}
        if scheme == "light":
            by_keyboard(page)
            found["by keyboard alone"] = True
        context.close()
    return found


STYLES = "#styles [role=radio]"
WIDE = "document.documentElement.scrollWidth"


def speed(address: str, context: Any, painter: Painter, rounds: int) -> dict[str, Any]:
    """Seconds for 512 px with WASM beside torch's, in turns, on a photo that is new to both."""
    photo = images.resize(images.Picture(skimage.data.coffee()), 512)
    pages = {}
    for threads in THREADS:
        page = pages[threads] = Page(
            context.new_page(), address, f"?run=wasm&threads={threads}&fill=no"
        )
        page.upload("#photo-file", "coffee.png", png(photo.rgb))
    names, rows = painter.style_names, []
    for turn in range(rounds):
        name = names[turn % len(names)]
        style, row = painter.style(name), {"style": name}
        painter.forget()
        began = time.perf_counter()
        painter.paint(photo, style)
        row["torch"] = time.perf_counter() - began
        for threads, page in pages.items():
            page.page.bring_to_front()
            page.choose(name)
            page.page.evaluate(WATCH)
            page.upload("#photo-file", "coffee.png", png(photo.rgb))
            row[f"wasm{threads}"] = page.seconds
            row[f"longest{threads}"] = page.page.evaluate("window.longest")
        rows.append(row)
        print({k: v if isinstance(v, str) else round(v, 3) for k, v in row.items()}, flush=True)
    found: dict[str, Any] = {"rows": rows}
    torch_seconds = statistics.median(row["torch"] for row in rows)
    for threads in THREADS:
        seconds = statistics.median(row[f"wasm{threads}"] for row in rows)
        found[f"times torch, {threads} threads"] = seconds / torch_seconds
    found["longest task, ms"] = max(row[f"longest{t}"] for row in rows for t in THREADS)
    print({k: v for k, v in found.items() if k != "rows"}, flush=True)
    return found


# Tasks of more than 50 ms on the main thread, as the browser reports them.
WATCH = """() => {
  window.longest = 0;
  window.watcher ??= new PerformanceObserver((list) => {
    for (const task of list.getEntries()) window.longest = Math.max(window.longest, task.duration);
  });
  window.watcher.observe({ entryTypes: ["longtask"] });
}"""


def large(address: str, running: Any, side: tuple[int, int]) -> dict[str, float]:
    """12 megapixels as JPEG, in and out: seconds, and MB of the whole browser at most."""
    picture = Image.fromarray(skimage.data.coffee()).resize(side, Image.Resampling.BICUBIC)
    file = io.BytesIO()
    picture.save(file, "jpeg", quality=92)
    context = running.new_context(viewport={"width": 390, "height": 844})
    page = Page(context.new_page(), address, "?run=wasm")
    with peak() as most:
        page.upload("#photo-file", "large.jpg", file.getvalue())
        page.page.locator("#type").select_option("image/jpeg")
        began = time.perf_counter()
        with page.page.expect_download(timeout=PATIENCE) as waiting:
            page.page.locator("#download").click()
        seconds = time.perf_counter() - began
    with Image.open(waiting.value.path()) as made:
        assert made.size == side
    context.close()
    return {"megapixels": side[0] * side[1] / 1e6, "seconds": seconds, "peak MB": most[0]}


@contextmanager
def peak() -> Iterator[list[float]]:
    """The most memory, MB, that the browsers which this process has started took meanwhile."""
    most, over = [0.0], threading.Event()

    def watch() -> None:
        while not over.wait(0.25):
            most[0] = max(most[0], sum(_own_memory(number) for number in _browsers()))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield most
    finally:
        over.set()
        thread.join()


def _browsers() -> list[int]:
    """Processes of a browser that descend from this one."""
    parents, names = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            start, _, rest = path.read_text(encoding="utf-8", errors="replace").rpartition(")")
            names[int(path.parent.name)] = start.partition("(")[2]
            parents[int(path.parent.name)] = int(rest.split()[1])

    def is_ours(number: int) -> bool:
        while number in parents:
            if number == os.getpid():
                return True
            number = parents[number]
        return False

    return [number for number in parents if "chrom" in names[number] and is_ours(number)]


def _own_memory(number: int) -> float:
    """MB of a process; what several share counts once for all of them."""
    try:
        lines = Path(f"/proc/{number}/smaps_rollup").read_text(encoding="utf-8").splitlines()
    except OSError:  # it has ended meanwhile
        return 0.0
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def memory(page: Page, session: Any, paintings: int) -> list[float]:
    """MB of the renderer's processes after each painting."""
    used = []
    names = page.page.eval_on_selector_all(STYLES, "all => all.map(b => b.dataset.style)")
    for turn in range(paintings):
        page.choose(names[turn % len(names)].removesuffix(":1"))
        used.append(renderers(session))
        if turn % 10 == 9:
            print(f"memory after painting {turn + 1}: {used[-1]:.0f} MB", flush=True)
    return used


def renderers(session: Any) -> float:
    """MB of memory of the browser's renderers, as the system counts it."""
    processes = session.send("SystemInfo.getProcessInfo")["processInfo"]
    total = 0.0
    for process in processes:
        if process["type"] == "renderer":
            status = Path(f"/proc/{process['id']}/status").read_text(encoding="utf-8")
            line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
            total += int(line.split()[1]) / 1024
    return total


def conditions(painter: Painter, photos: Sequence[np.ndarray]) -> dict[str, float]:
    """The largest condition number at the hops, and how far the fixed iteration is from eigh."""
    seen: list[torch.Tensor] = []
    hooks = [
        hop.register_forward_pre_hook(lambda hop, given: seen.append(hop.covariance(given[0])))
        for hop in painter.network.hops
    ]
    for photo in photos:
        for name in painter.style_names:
            painter.paint(images.Picture(photo), painter.style(name))
    for hook in hooks:
        hook.remove()
    eps = painter.network.config.eps
    n = painter.network.config.group_size
    matrices = torch.cat([c.reshape(-1, n, n) for c in seen]).double() + eps * torch.eye(n)
    values = torch.linalg.eigvalsh(matrices)
    right = wct.inv_sqrtm(matrices)
    mine = roots(matrices.float())[1].double()
    error = torch.linalg.matrix_norm(mine - right) / torch.linalg.matrix_norm(right)
    return {
        "covariances": len(matrices),
        "largest condition number": float((values[:, -1] / values[:, 0]).max()),
        "largest relative error": float(error.max()),
    }


def main(argv: Sequence[str] | None = None) -> int:
    terminal.show_anything()
    args = _parser().parse_args(argv)
    report: dict[str, Any] = {}
    if args.out and (args.out / "site.json").is_file():
        report = json.loads((args.out / "site.json").read_text(encoding="utf-8"))
    painter = Painter(args.checkpoint, "cpu", Limits(remembered_drawings=0))  # else it is no race
    torch.set_num_threads(2)
    photos = [skimage.data.coffee(), skimage.data.chelsea(), skimage.data.astronaut()]
    with serving(args.site) as address, browser() as running:
        session = running.new_browser_cdp_session()
        context = running.new_context(viewport={"width": 1280, "height": 900})

        def opened() -> Page:
            return Page(context.new_page(), address, "?run=wasm&fill=no")

        parts: dict[str, Callable[[], Any]] = {
            "sizes": lambda: zipped(args.site),
            "roots": lambda: conditions(painter, [p[::2, ::2].copy() for p in photos]),
            "equal": lambda: compare(opened(), painter, cases(painter.style_names)),
            "seams": lambda: seams(opened(), painter, painter.style_names[: args.rounds], SIDES),
            "visits": lambda: megabytes(visits(args.site, running)),
            "phone": lambda: phone(address, running, args.axe),
            "speed": lambda: speed(address, context, painter, args.rounds),
            "large": lambda: large(address, running, LARGE),
            "memory": lambda: memory(opened(), session, args.paintings),
        }
        for part in args.only:
            report[part] = parts[part]()
            if part in ("sizes", "roots", "visits", "phone", "large"):
                print(part, report[part], flush=True)
            for page in context.pages:
                page.close()
            if args.out:
                args.out.mkdir(parents=True, exist_ok=True)
                text = json.dumps(report, indent=1)
                (args.out / "site.json").write_text(text, encoding="utf-8")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.site",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--site", type=Path, default=Path("site"), help="what make site built")
    parser.add_argument("--checkpoint", type=Path, default=CHECKPOINT)
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where site.json goes")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, metavar="PART")
    parser.add_argument("--rounds", type=int, default=4, help="of painting 512 px, in turns")
    parser.add_argument("--paintings", type=int, default=50, help="in a row, for the memory")
    parser.add_argument("--axe", type=Path, default=AXE, help="axe-core's script")
    return parser


if __name__ == "__main__":
    sys.exit(main())
