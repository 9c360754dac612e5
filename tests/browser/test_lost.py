"""What a visitor had is still there after a lost connection, or a server that was restarted."""

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.test_friend import DESKTOP, PHONE, at_rest, said
from tests.browser.test_page import (
    choose,
    download,
    give_many,
    kept,
    painted,
    upload,
    wished,
)
from tests.demo_server import free_port
from tests.patience import PATIENCE

STYLE = "stripes, variant 2"
LOST = "The connection to the server is lost"


@pytest.fixture
def slow(painter, monkeypatch):
    """Once cleared, each painting lasts until it is set; `slow.begun` is set as one begins."""
    go_on, real = threading.Event(), painter.paint
    go_on.begun = threading.Event()
    go_on.set()

    def paint(*given, progress=None, **options):
        go_on.begun.set()
        while not go_on.wait(0.1):
            progress(0.3)
        return real(*given, progress=progress, **options)

    monkeypatch.setattr(painter, "paint", paint)
    yield go_on
    go_on.set()


def begin(page, photos, slow) -> None:
    """A painting in the strip, other settings, and another painting under way."""
    upload(page, photos / "cat.png")
    painted(page)
    kept(page, 1)
    slow.clear()
    slow.begun.clear()
    choose(page, STYLE)
    page.get_by_role("button", name="Paint it").click()
    page.wait_for_function("localStorage['repaint-pending']")
    assert slow.begun.wait(PATIENCE)


def all_is_there(page) -> None:
    page.wait_for_function("document.body.dataset.ready")
    painted(page)
    expect(page.locator("#photo .name")).to_have_text("cat.png")
    expect(page.get_by_role("radio", name=STYLE)).to_be_checked()
    assert download(page)[0] == "cat-stripes-2.png", "what was under way was asked for again"
    kept(page, 2)


@pytest.mark.parametrize("device", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_a_cut_line_loses_nothing(open_page, photos, slow, device):
    page = open_page(**device)
    begin(page, photos, slow)
    page.context.set_offline(True)
    page.wait_for_timeout(3000)  # what is open may stay so, and nothing be said
    page.context.set_offline(False)
    slow.set()
    all_is_there(page)
    open_page.wrong.clear()  # the browser logs what it could not reach


def test_a_wish_without_a_connection_waits_for_it(open_page, photos):
    page = open_page(**PHONE)
    upload(page, photos / "cat.png")
    painted(page)
    download(page)
    page.context.set_offline(True)
    before = wished(page)
    choose(page, STYLE)
    said(page, LOST)
    page.context.set_offline(False)
    painted(page, before)
    assert download(page)[0] == "cat-stripes-2.png"
    page.get_by_text(LOST).wait_for(state="hidden")
    open_page.wrong.clear()  # the browser logs what it could not reach


def test_a_stop_without_a_connection_is_told_to_the_server_once_there_is_one(
    open_page, photos, slow, server
):
    page = open_page(**PHONE)
    page.get_by_role("tab", name="Many photos").click()
    give_many(page, [photos / "cat.png"])
    slow.clear()
    slow.begun.clear()
    page.get_by_role("button", name="Paint them all").click()
    assert slow.begun.wait(PATIENCE)
    page.route("**/run/predict", lambda route: route.abort())
    page.get_by_role("button", name="Stop").click()
    page.get_by_text("Stopped.", exact=True).first.wait_for()
    at_rest(page)
    assert len(server.jobs) == 1, "the server has not heard of it"
    page.unroute("**/run/predict")
    page.locator("#report").get_by_text("Stopped: 0 photos painted, 1 left out").wait_for()
    open_page.wrong.clear()  # the browser logs what it could not reach


class Killable:
    """A server in a process of its own, on a port that it has again after each start."""

    def __init__(self, checkpoint: Path, folder: Path) -> None:
        self.checkpoint, self.folder, self.port = checkpoint, folder, free_port()
        self.held = folder / "held"
        self.address = f"http://127.0.0.1:{self.port}/"
        self.starts, self.process = 0, None

    def start(self) -> None:
        self.starts += 1
        folder = self.folder / str(self.starts)  # what was sent to the one before is lost
        folder.mkdir()
        what = [self.checkpoint, str(self.port), folder, self.held]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.browser.killed_server", *what],
            cwd=Path(__file__).parents[2],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout.readline() == "ready\n", "the server did not start"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def wait_until_painting(self) -> None:
        for _ in range(20 * PATIENCE):
            if Path(f"{self.held}.begun").exists():
                return
            time.sleep(0.05)
        pytest.fail("nothing is painted")


@pytest.fixture
def killable(checkpoint, tmp_path):
    server = Killable(checkpoint, tmp_path)
    try:
        server.start()
        yield server
    finally:
        server.kill()


def test_a_restarted_server_is_asked_again_by_the_page_itself(browser, killable, photos):
    with browser.new_context(**PHONE) as context:
        page = context.new_page()
        page.set_default_timeout(1000 * PATIENCE)
        page.goto(killable.address)
        page.wait_for_function("document.body.dataset.ready")
        upload(page, photos / "cat.png")
        painted(page)
        kept(page, 1)
        page.evaluate("window.opened = 'once'")
        killable.held.touch()
        choose(page, STYLE)
        page.get_by_role("button", name="Paint it").click()
        page.wait_for_function("localStorage['repaint-pending']")
        killable.wait_until_painting()
        killable.kill()
        killable.held.unlink()
        said(page, LOST)
        killable.start()
        all_is_there(page)
        page.get_by_text(LOST).wait_for(state="hidden")
        assert page.evaluate("window.opened") == "once", "nothing had to be loaded anew"
