"""The static page in Debian's Chromium: whether it paints as the command line does, and how fast.

    make site
    python -m benchmarks.site --site site --out benchmarks/results

Prints, and writes as JSON: how far the page's pictures are from app.stylize's, what a first and a
second visit transfer, seconds and longest tasks while it paints, memory over many paintings, and
how well Newton-Schulz agrees with eigh on the covariances that occur.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import skimage.data
import torch
from PIL import Image

import wct
from app import images, terminal
from app.export.graphs import roots
from app.look import Look
from app.painter import Painter
from app.shipped import CHECKPOINT
from app.site.serve import Handler, server

MOST_MEAN, MOST_LEVELS, LEAST_SHARE = 1.5, 12, 0.99
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

    def _forget(self) -> None:
        self.page.locator("#status").evaluate("node => { node.textContent = '' }")

    def choose(self, style: str) -> None:
        """Chooses a built-in style."""
        self._forget()
        self.page.locator(f'#styles [data-style="{style}:1"]').click()
        self.painted()

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


def seam(pixels: np.ndarray, places: Sequence[int]) -> float:
    """Steps across columns where tiles meet, beside those next to them: 1 is no seam."""
    values = pixels[..., :3].astype(np.float64)
    steps = np.abs(np.diff(values, axis=1)).mean((0, 2))
    around = [steps[p + d] for p in places for d in (-9, -7, -5, -3, 3, 5, 7, 9)]
    return float(np.mean([steps[place - 1] for place in places]) / np.mean(around))


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
    """MB of the built page as a host sends it, gzipped where that helps."""
    sizes = {"ours": 0.0, "runtime": 0.0, "runtime with WebGPU": 0.0}
    for path in folder.rglob("*"):
        if not path.is_file():
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


def speed(address: str, context: Any, painter: Painter, rounds: int) -> list[dict[str, Any]]:
    """Seconds for 512 px with one and two threads of WASM beside torch's, in turns."""
    photo = images.resize(images.Picture(skimage.data.coffee()), 512)
    rows = []
    pages = {}
    for threads in (1, 2):
        page = Page(context.new_page(), address, f"?run=wasm&threads={threads}")
        page.upload("#photo-file", "coffee.png", png(photo.rgb))
        pages[threads] = page
    names = painter.style_names
    for turn in range(rounds):
        name = names[turn % len(names)]
        began = time.perf_counter()
        painter.paint(photo, painter.style(name))
        row: dict[str, Any] = {"style": name, "torch": time.perf_counter() - began}
        for threads, page in pages.items():
            page.page.evaluate(WATCH)
            page.choose(names[(turn + 1) % len(names)])
            page.choose(name)
            words = page.page.inner_text("#status")
            row[f"wasm{threads}"] = float(words.rsplit(" in ", 1)[1].split(" s")[0])
            row[f"longest{threads}"] = page.page.evaluate("window.longest")
        rows.append(row)
        print(json.dumps(row), flush=True)
    return rows


# Tasks of more than 50 ms on the main thread, as the browser reports them.
WATCH = """() => {
  window.longest ??= 0;
  window.watcher ??= new PerformanceObserver((list) => {
    for (const task of list.getEntries()) window.longest = Math.max(window.longest, task.duration);
  });
  window.watcher.observe({ entryTypes: ["longtask"] });
}"""


def memory(page: Page, session: Any, paintings: int) -> list[float]:
    """MB of the renderer's processes after each painting."""
    used = []
    names = page.page.eval_on_selector_all(
        "#styles [role=radio]", "all => all.map(b => b.dataset.style)"
    )
    for turn in range(paintings):
        page.choose(names[turn % len(names)].removesuffix(":1"))
        used.append(renderers(session))
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
    painter = Painter(args.checkpoint, "cpu")
    torch.set_num_threads(2)
    report: dict[str, Any] = {"sizes": zipped(args.site)}
    print("MB, compressed:", {k: round(v, 2) for k, v in report["sizes"].items()})
    photos = [skimage.data.coffee(), skimage.data.chelsea(), skimage.data.astronaut()]
    report["newton_schulz"] = conditions(painter, [p[::2, ::2].copy() for p in photos])
    print(report["newton_schulz"], flush=True)
    with serving(args.site) as address, browser() as running:
        session = running.new_browser_cdp_session()
        context = running.new_context(viewport={"width": 1280, "height": 900})
        page = Page(context.new_page(), address, "?run=wasm")
        if "equal" in args.only:
            report["equal"] = compare(page, painter, cases(painter.style_names))
        page.page.close()
        if "speed" in args.only:
            report["speed"] = speed(address, context, painter, args.rounds)
        if "memory" in args.only:
            for other in context.pages:
                other.close()
            page = Page(context.new_page(), address, "?run=wasm")
            report["memory"] = memory(page, session, args.paintings)
            tenth, last = report["memory"][9], report["memory"][-1]
            print(f"memory after painting 10: {tenth:.0f} MB, after the last: {last:.0f} MB")
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / "site.json").write_text(json.dumps(report, indent=1), encoding="utf-8")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.site", description=__doc__)
    parser.add_argument("--site", type=Path, default=Path("site"), help="what make site built")
    parser.add_argument("--checkpoint", type=Path, default=CHECKPOINT)
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where site.json goes")
    parser.add_argument("--only", nargs="+", default=["equal", "speed", "memory"])
    parser.add_argument("--rounds", type=int, default=4, help="of painting 512 px, in turns")
    parser.add_argument("--paintings", type=int, default=50, help="in a row, for the memory")
    return parser


if __name__ == "__main__":
    sys.exit(main())
