"""What a visitor had is still there after a lost connection."""

import threading

import pytest

from tests.browser.test_friend import DESKTOP, PHONE
from tests.browser.test_page import choose, download, painted, upload
from tests.patience import PATIENCE

STYLE = "stripes, variant 2"


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
    download(page)
    page.locator("#result .strip button").first.wait_for()
    slow.clear()
    slow.begun.clear()
    choose(page, STYLE)
    page.get_by_role("button", name="Paint it").click()
    page.wait_for_function("localStorage['repaint-pending']")
    assert slow.begun.wait(PATIENCE)


def all_is_there(page) -> None:
    page.wait_for_function("document.body.dataset.ready")
    painted(page)
    assert page.locator("#photo .name").inner_text() == "cat.png"
    assert page.get_by_role("radio", name=STYLE).is_checked()
    assert download(page)[0] == "cat-stripes-2.png", "what was under way was asked for again"
    page.wait_for_function("document.querySelectorAll('#result .strip button').length === 2")


@pytest.mark.parametrize("device", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_a_cut_line_loses_nothing(open_page, photos, slow, device):
    page = open_page(**device)
    begin(page, photos, slow)
    page.context.set_offline(True)
    page.wait_for_timeout(3000)
    page.context.set_offline(False)
    slow.set()
    all_is_there(page)
    open_page.wrong.clear()  # the browser logs what it could not reach
