"""The demo's screenshots, of a phone and a desktop, light and dark:

python -m benchmarks.screenshots --out docs/screenshots

--more adds the views that are in no document: on arrival, further down, clips.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from app.painter import Painter
from app.shipped import CHECKPOINT
from benchmarks.demo_latency import PHONE, _free_port, _shows

VIEWS: dict[str, dict[str, Any]] = {
    "phone": PHONE,
    "desktop": {"viewport": {"width": 1280, "height": 900}},
}


def take(browser, address: str, out: Path, device: str, scheme: str, clip: Path | None) -> None:
    """The page with an example painted. clip: with one, the further views, too."""
    context = browser.new_context(**VIEWS[device], color_scheme=scheme)
    page = context.new_page()
    page.set_default_timeout(300_000)
    page.goto(address)
    page.wait_for_function("document.body.dataset.ready")

    def shot(name: str = "", **options: Any) -> None:
        page.wait_for_timeout(600)
        page.screenshot(path=out / f"{device}-{scheme}{name}.png", **options)

    if clip is not None:
        shot("-arrival")
    page.get_by_role("button", name="A pagoda").click()
    _shows(page, "painted")
    page.wait_for_function("document.querySelectorAll('#result .strip button').length")
    page.evaluate("scrollTo(0, 0)")
    shot()
    if clip is None:
        context.close()
        return
    page.get_by_role("button", name="Finer controls").click()
    page.get_by_role("button", name="Mix in").click()
    page.get_by_text("About this picture").click()
    shot("-all", full_page=True)
    page.get_by_role("button", name="Show my photo in each").click()
    page.wait_for_function("!document.body.classList.contains('everything')")
    page.locator("#styles").scroll_into_view_if_needed()
    shot("-styles")
    page.evaluate("scrollTo(0, 0)")
    page.get_by_role("tab", name="Many photos").click()
    shot("-many")
    page.get_by_role("tab", name="Video clip").click()
    shot("-clip-arrival")
    page.locator("#clip input[type=file]").set_input_files(clip)
    page.locator("#clip-outcome .frame[data-of]").wait_for()
    shot("-clip")
    page.get_by_role("button", name="Paint the clip").click()
    page.locator("#clip-outcome a.save").wait_for()
    shot("-clip-painted")
    context.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--more", type=Path, metavar="CLIP", help="further views, with this clip")
    parser.add_argument("--checkpoint", type=Path, default=CHECKPOINT)
    arguments = parser.parse_args()
    chromium = shutil.which("chromium")
    if chromium is None:
        print("this needs chromium on the path", file=sys.stderr)
        return 2
    from playwright.sync_api import sync_playwright

    arguments.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="repaint-screenshots-") as folder:
        os.environ["GRADIO_TEMP_DIR"] = folder
        # Gradio reads the variable when it is imported.
        from app import demo
        from app.__main__ import CACHE

        page = demo.build(Painter(arguments.checkpoint, "cpu"), cache=CACHE)
        address, _ = demo.serve(page, port=_free_port())
        with sync_playwright() as driver:
            options = ["--no-sandbox", "--disable-dev-shm-usage"]
            browser = driver.chromium.launch(executable_path=chromium, args=options)
            for device in VIEWS:
                for scheme in ("light", "dark"):
                    take(browser, address, arguments.out, device, scheme, arguments.more)
            browser.close()
        page.close(verbose=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
