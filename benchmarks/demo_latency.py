"""Seconds from a tap on a style to its preview in the web demo, over a slow line, and memory.

Serves the demo in this process, drives it with the system's headless Chromium, and compares the
time from the tap to the picture shown with the time that the same painting takes by itself, right
after, with nothing remembered of its photo:

    python -m benchmarks.demo_latency --out demo_latency.json

Each round takes photos that were never seen before. Between a choice and the tap a visitor looks at
the picture, for --think seconds. Then a phone's photo of 3.3 MB is chosen over a line of 750 kbit/s
each way, which the browser emulates, and its painting of 1,024 px waited for; and --requests
photos are sent, twenty at a time: by four visitors, of whom a proxy tells, since one alone is not
given twenty places of the queue. Linux only: memory is read from /proc.
"""

import argparse
import itertools
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import numpy as np
import skimage.data
import torch
from PIL import Image
from tqdm import tqdm

from app import images
from app.limits import Limits
from app.painter import Painter
from app.shipped import CHECKPOINT
from models import StyleCode

SIDE = 512  # pixels of the photos and of the results
AT_ONCE = 20
VISITORS = [f"192.0.2.{number}" for number in range(1, 5)]  # addresses that nobody has
MOST_OVERHEAD, MOST_BESIDE = 1.2, 0.15  # tap to picture: in times the painting, and seconds
MOST_GROWTH = 50  # MB left after the requests
SLOW_LINE, SLOW_DELAY = 750_000 // 8, 100  # bytes a second, and milliseconds
PHONE_PHOTO, PHONE_SIDES = 3_300_000, (4000, 3000)  # bytes and pixels of a phone's photo
MOST_SLOW = 12.0  # seconds from choosing that to its painting of 1,024 px
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}

# Taps on a style, and resolves to the milliseconds until its painting is decoded and can be drawn.
_TAP = """async (number) => {
  const { dataset } = document.body;
  const before = dataset.shown;
  const radios = document.querySelectorAll("#styles input");
  const started = performance.now();
  (number < 0 ? radios[radios.length - 1] : radios[number]).click();
  // Not asked frame by frame, which would have the browser draw frames that nobody needs.
  await new Promise((changed) => {
    const watch = new MutationObserver(() => {
      if (dataset.shown === before || dataset.shown !== dataset.wish) return;
      watch.disconnect();
      changed();
    });
    watch.observe(document.body, { attributes: true, attributeFilter: ["data-shown"] });
  });
  await document.querySelector("#stage .after").decode();
  return performance.now() - started;
}"""


class Alone:
    """How long paintings take by themselves, with nothing remembered but what a style's code is."""

    def __init__(self, checkpoint: Path) -> None:
        self.painter = Painter(checkpoint, "cpu", limits=Limits(remembered_content=0))
        names = self.painter.style_names
        self.styles = [
            self.painter.style(f"{name}:{number + 1}")
            for name in names
            for number in range(self.painter.codes[name])
        ]
        self.own: dict[Path, StyleCode] = {}

    def seconds(self, photo: Path, style: int | Path) -> float:
        """Of a photo in a built-in style, by its number on the page, or an own painting's."""
        picture = images.load(photo)
        painting = images.load(style) if isinstance(style, Path) else None
        started = time.perf_counter()
        if painting is None:
            code = self.styles[style]
        else:
            code = self.own.get(style) or self.painter.encode(painting)
            self.own[style] = code
        self.painter.paint(picture, code, max_size=SIDE)
        return time.perf_counter() - started


class Stopwatch:
    """Seconds of each painting and each encoding of a painting, by a painter."""

    def __init__(self, painter: Painter) -> None:
        self.seconds = 0.0
        for name in ("paint", "encode"):
            setattr(painter, name, self._timed(getattr(painter, name)))

    def _timed(self, function: Callable) -> Callable:
        def timed(*arguments, **options):
            started = time.perf_counter()
            try:
                return function(*arguments, **options)
            finally:
                self.seconds += time.perf_counter() - started

        return timed

    def take(self) -> float:
        """The seconds since the last call."""
        seconds, self.seconds = self.seconds, 0.0
        return seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--checkpoint", type=Path, default=CHECKPOINT)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--think", type=float, default=1.0, help="seconds before each click")
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the numbers there as JSON")
    arguments = parser.parse_args()
    if shutil.which("chromium") is None:
        print("this benchmark needs chromium on the path", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="repaint-latency-") as folder:
        os.environ["GRADIO_TEMP_DIR"] = folder
        # Gradio reads the variable when it is imported.
        from app import demo

        painter = Painter(arguments.checkpoint, "cpu")
        stopwatch = Stopwatch(painter)
        page = demo.build(painter)
        address, _ = demo.serve(page, port=_free_port(), proxies=["127.0.0.1"])
        pictures = Pictures(Path(folder))
        alone = Alone(arguments.checkpoint)
        clicks = measure_clicks(
            address, pictures, stopwatch, alone, arguments.rounds, arguments.think
        )
        print(taps_table(clicks), flush=True)
        slow = measure_slow_line(address, Path(folder))
        print(slow, flush=True)
        page.close(verbose=False)
        crowd = measure_crowd(arguments.checkpoint, pictures, arguments.requests)
    report = {
        "machine": f"{platform.machine()}, {torch.get_num_threads()} threads",
        "torch": torch.__version__,
        "checkpoint": arguments.checkpoint.name,
        "side": SIDE,
        "rounds": arguments.rounds,
        "think": arguments.think,
        "clicks": clicks,
        "slow_line": slow,
        "requests": crowd,
    }
    print(table(report))
    if arguments.out:
        arguments.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 0


class Pictures:
    """Photos and paintings that were never seen before, made of two of scikit-image."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.made = folder, 0

    def new(self, source: np.ndarray) -> Path:
        self.made += 1
        shifted = np.roll(source[:SIDE, :SIDE], self.made, axis=1)
        path = self.folder / f"picture-{self.made}.png"
        picture = Image.fromarray(shifted).resize((SIDE, SIDE), Image.Resampling.LANCZOS)
        picture.save(path)
        return path

    def photo(self) -> Path:
        return self.new(skimage.data.astronaut())

    def painting(self) -> Path:
        return self.new(skimage.data.coffee()[:400, :400])


def measure_clicks(
    address: str,
    pictures: Pictures,
    stopwatch: Stopwatch,
    alone: Alone,
    rounds: int,
    think: float,
) -> dict[str, dict[str, float]]:
    """Median seconds a kind of click.

    Until the picture, of the painting alone, their ratio, and what was painted after the click.
    """
    from playwright.sync_api import sync_playwright

    seconds: dict[str, list[tuple[float, float, float]]] = {}
    with sync_playwright() as driver:
        options = ["--no-sandbox", "--disable-dev-shm-usage"]
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=options)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(120_000)
        page.goto(address)
        page.wait_for_function("document.body.dataset.ready")

        def upload(where: str, file: Path) -> None:
            before = page.evaluate("document.body.dataset.shown")
            page.locator(f"{where} input[type=file]").set_input_files(file)
            page.wait_for_function(
                "before => { const { wish, shown, state } = document.body.dataset;"
                " return shown !== before && shown === wish && state === 'idle'; }",
                arg=before,
            )
            page.wait_for_timeout(1000)  # the files to download belong to no tap

        def tap(kind: str, photo: Path, style: int | Path, measured: bool) -> None:
            page.wait_for_timeout(1000 * think)
            stopwatch.take()
            number = style if isinstance(style, int) else -1
            until_picture = page.evaluate(_TAP, number) / 1000
            painted = stopwatch.take()
            page.wait_for_timeout(1000)
            if measured:
                times = (until_picture, alone.seconds(photo, style), painted)
                seconds.setdefault(kind, []).append(times)

        page.evaluate(_TAP, len(alone.styles) - 1)
        for turn in tqdm(range(rounds + 1), desc="taps"):
            measured = turn > 0  # the first round warms up
            photo = pictures.photo()
            upload("#photo", photo)
            tap("a style on a photo", photo, 4 * (turn % 2), measured)
            tap("another style on it", photo, 1 + 4 * (turn % 2), measured)
            # Any other, so that the next photo's first style is a change.
            page.evaluate(_TAP, 2)
        browser.close()
    return {
        kind: {
            "click_to_picture": statistics.median(click for click, _, _ in times),
            "painting": statistics.median(painting for _, painting, _ in times),
            "ratio": statistics.median(click / painting for click, painting, _ in times),
            "after_the_click": statistics.median(after for _, _, after in times),
        }
        for kind, times in seconds.items()
    }


def measure_slow_line(address: str, folder: Path) -> dict[str, float]:
    """Seconds from choosing a phone's photo to its preview and its painting, and what was sent.

    On a phone, by two taps, photo and style, and without scrolling.
    """
    from playwright.sync_api import sync_playwright

    photo = _phone_photo(folder / "phone.jpg")
    with sync_playwright() as driver:
        options = ["--no-sandbox", "--disable-dev-shm-usage"]
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=options)
        page = browser.new_context(**PHONE).new_page()
        page.set_default_timeout(120_000)
        page.goto(address)
        page.wait_for_function("document.body.dataset.ready")
        page.locator("#styles .row label").nth(1).tap()  # the example's, so that the page is warm
        page.wait_for_function("document.body.dataset.state === 'idle'")
        page.wait_for_timeout(2000)
        session = page.context.new_cdp_session(page)
        session.send("Network.enable")
        line = {"offline": False, "latency": SLOW_DELAY}
        line |= {"downloadThroughput": SLOW_LINE, "uploadThroughput": SLOW_LINE}
        session.send("Network.emulateNetworkConditions", line)
        sent: list[int] = []
        page.on("request", lambda r: r.method == "POST" and sent.append(_length(r)))
        started = time.perf_counter()
        page.locator("#photo input[type=file]").set_input_files(photo)  # the first tap
        _shows(page, "preview")
        preview = time.perf_counter() - started
        _shows(page, "painted")
        painted = time.perf_counter() - started
        wish = page.evaluate("document.body.dataset.wish")
        tapped = time.perf_counter()
        page.locator("#styles .row label").nth(2).tap()
        page.wait_for_function(
            "before => +document.body.dataset.wish > +before"
            " && document.body.dataset.shown === document.body.dataset.wish",
            arg=wish,
        )
        style = time.perf_counter() - tapped
        scrolled = page.evaluate("scrollY")
        box = page.locator("#stage .frame").bounding_box()
        browser.close()
    return {
        "photo_bytes": photo.stat().st_size,
        "sent_bytes": sum(sent),
        "preview": preview,
        "painted": painted,
        "tap_on_a_style": style,
        "scrolled": scrolled,
        "is_seen": box["y"] >= 0 and box["y"] + box["height"] <= PHONE["viewport"]["height"],
    }


def _length(request) -> int:
    return int(request.headers.get("content-length") or len(request.post_data_buffer or b""))


def _shows(page, kind: str) -> None:
    page.wait_for_function(
        "kind => document.body.dataset.shown === document.body.dataset.wish"
        " && document.querySelector('#stage .frame').dataset.kind === kind"
        " && document.querySelector('#stage .after').complete",
        arg=kind,
    )


def _phone_photo(path: Path) -> Path:
    """A JPEG of a phone's size in bytes and pixels, of one of scikit-image's photos."""
    photo = Image.fromarray(skimage.data.coffee()).resize(PHONE_SIDES, Image.Resampling.BICUBIC)
    noise = np.random.default_rng(0).normal(0, 6, (*PHONE_SIDES[::-1], 1))
    pixels = np.clip(np.asarray(photo) + noise, 0, 255).astype(np.uint8)
    for quality in range(95, 20, -3):
        Image.fromarray(pixels).save(path, quality=quality)
        if path.stat().st_size <= PHONE_PHOTO:
            break
    return path


def measure_crowd(checkpoint: Path, pictures: Pictures, requests: int) -> dict[str, float]:
    """Photos sent, twenty at a time: how many came back, seconds until the last, memory in MB.

    The demo is a process of its own, whose memory has nothing of those who ask.
    """
    from gradio_client import Client, handle_file

    port = _free_port()
    command = [sys.executable, "-m", "app", "--port", str(port), "--proxy", "127.0.0.1"]
    environment = {**os.environ, "GRADIO_TEMP_DIR": tempfile.mkdtemp(dir=pictures.folder)}
    server = subprocess.Popen(
        [*command, "--checkpoint", str(checkpoint), "--device", "cpu"],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        address = f"http://127.0.0.1:{port}/"
        _wait_for(address, server)
        clients = [
            Client(
                address,
                headers={"X-Forwarded-For": visitor},
                verbose=False,
                analytics_enabled=False,
                download_files=tempfile.mkdtemp(dir=pictures.folder),
            )
            for visitor in VISITORS
        ]
        style = clients[0].predict(api_name="/styles")[0]
        turns = itertools.cycle(clients)

        def ask():
            return next(turns).submit(handle_file(pictures.photo()), style, api_name="/stylize")

        ask().result()
        before, started, most = _memory_at_rest(server.pid), time.perf_counter(), 0.0
        answered = 0
        for begun in tqdm(range(0, requests, AT_ONCE), desc="requests"):
            jobs = [ask() for _ in range(min(AT_ONCE, requests - begun))]
            while not all(job.done() for job in jobs):
                most = max(most, _memory(server.pid))
                time.sleep(0.05)
            answered += sum(_is_picture(job) for job in jobs)
        seconds = time.perf_counter() - started
        after = _memory_at_rest(server.pid)
    finally:
        server.terminate()
        server.wait()
    return {
        "asked": requests,
        "answered": answered,
        "seconds": seconds,
        "memory_before": before,
        "memory_most": most,
        "memory_after": after,
    }


def _wait_for(address: str, server: subprocess.Popen) -> None:
    """Until the demo answers.

    Raises:
        RuntimeError: it ended instead.
    """
    while server.poll() is None:
        try:
            with urllib.request.urlopen(address):
                return
        except OSError:
            time.sleep(0.5)
    raise RuntimeError(f"the demo ended with exit code {server.returncode}")


def _is_picture(job) -> bool:
    try:
        return images.load(job.result()).width == SIDE
    except Exception as error:
        print(f"a request failed: {error}", file=sys.stderr)
        return False


def _memory_at_rest(process: int) -> float:
    """MB that are left once the demo, without work for a while, has given back what it can."""
    from app.demo.server import IDLE

    time.sleep(IDLE + 3)
    return _memory(process)


def _memory(process: int) -> float:
    """MB that a process holds."""
    pages = int(Path(f"/proc/{process}/statm").read_text(encoding="utf-8").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def table(report: dict) -> str:
    """The report as text."""
    side, crowd, slow = report["side"], report["requests"], report["slow_line"]
    lines = [
        f"The web demo, photos and results of {side} px, medians of {report['rounds']} rounds, "
        f"{report['think']:g} s before each click; "
        f"{report['checkpoint']} on {report['machine']}, torch {report['torch']}",
        "",
        taps_table(report["clicks"]),
        "",
        f"Over a line of {8 * SLOW_LINE / 1000:.0f} kbit/s, a photo of "
        f"{slow['photo_bytes'] / 1e6:.1f} MB, of which {slow['sent_bytes'] / 1e6:.2f} were sent: "
        f"preview in {slow['preview']:.1f} s, painting of 1,024 px in {slow['painted']:.1f} s, "
        f"a tap on another style {slow['tap_on_a_style']:.1f} s; "
        f"scrolled by {slow['scrolled']:.0f} px, the picture "
        f"{'is' if slow['is_seen'] else 'is not'} on the screen",
    ]
    growth = crowd["memory_after"] - crowd["memory_before"]
    lines += [
        "",
        f"{crowd['asked']} requests, {AT_ONCE} at a time: {crowd['answered']} answered in "
        f"{crowd['seconds']:.1f} s; memory {crowd['memory_before']:.0f} MB before, "
        f"{crowd['memory_most']:.0f} at most, {crowd['memory_after']:.0f} after ({growth:+.0f})",
        f"Wanted: at most {MOST_OVERHEAD} times the painting and {MOST_BESIDE} s, at most "
        f"{MOST_SLOW:.0f} s over the slow line, all answered, at most +{MOST_GROWTH} MB.",
    ]
    return "\n".join(lines)


def taps_table(clicks: dict) -> str:
    """What is known of taps, a line a kind."""
    lines = [f"{'seconds':40} tap to picture  painting alone  allowed  painted after the tap"]
    for kind, row in clicks.items():
        allowed = MOST_OVERHEAD * row["painting"] + MOST_BESIDE
        lines.append(
            f"{kind:40} {row['click_to_picture']:14.3f}  {row['painting']:14.3f}"
            f"  {allowed:7.3f}  {row['after_the_click']:21.3f}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
