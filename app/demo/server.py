"""Serving the page: its look, its limits, and what it must not ask of other hosts."""

import ctypes
import gc
import sys
import threading
import time

import gradio as gr
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.demo.components import ASSETS
from app.demo.jobs import Jobs
from app.demo.page import CLEAN_EVERY, KEEP_FILES
from app.demo.studio import Studio

# A phone's raw-quality HEIC or a 50 megapixel JPEG passes.
LARGEST_UPLOAD = "50mb"

# Bytes. Beside uploads the largest that a page sends is a drawn mask.
LARGEST_REQUEST = 4 * 2**20

# Seconds without work after which the system gets back the memory that malloc keeps for the next
# picture. Sooner it would slow the visitor down who tries another style.
IDLE = 10

_THEME = gr.themes.Soft(
    primary_hue="teal",
    neutral_hue="stone",
    # The theme's own fonts would be asked of the server, others of a font host.
    font=["system-ui", "Segoe UI", "Roboto", "Helvetica", "Arial", "sans-serif"],
    font_mono=["Consolas", "Menlo", "monospace"],
).set(
    background_fill_primary="*neutral_50",
    checkbox_border_color="*neutral_400",
    # One shade darker than the theme's, for the contrast of the white text on them.
    button_primary_background_fill="*primary_700",
    button_primary_background_fill_hover="*primary_800",
    checkbox_label_background_fill_selected="*primary_700",
    body_text_color_subdued="*neutral_600",
    block_info_text_color="*neutral_600",
    block_label_background_fill="*background_fill_secondary",
    block_label_text_color="*neutral_700",
    block_title_background_fill="none",
    block_title_background_fill_dark="none",
    block_title_padding="0",
    block_title_text_color="*neutral_700",
    block_title_text_weight="600",
)


class SmallRequests:
    """Refuses requests of more than `most` bytes, as they come in; uploads have their own limit."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self.app, self.most = app, most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].endswith("/upload"):
            await self.app(scope, receive, send)
            return
        length = next((v for k, v in scope["headers"] if k == b"content-length"), b"0")
        if not length.isdigit() or int(length) > self.most:
            refusal = PlainTextResponse("This request is too large.", status_code=413)
            await refusal(scope, receive, send)
            return
        left = self.most

        async def receive_some() -> Message:
            nonlocal left
            message = await receive()
            left -= len(message.get("body", b""))
            # A body of unannounced length, which Starlette then takes for a broken connection.
            return message if left >= 0 else {"type": "http.disconnect"}

        await self.app(scope, receive_some, send)


def serve(
    page: gr.Blocks, host: str = "127.0.0.1", port: int = 7860, share: bool = False
) -> tuple[str, str | None]:
    """Start serving the page; returns its address, and the public one where `share` made it.

    It goes on in a thread until `page.close()`. Raises OSError where the port can't be had.
    """
    _, address, public = page.launch(
        server_name=host,
        server_port=port,
        share=share,
        prevent_thread_lock=True,
        quiet=True,
        # Gradio would ask itself for the page, and give up where that takes more than 3 seconds.
        _frontend=False,
        inbrowser=False,
        max_file_size=LARGEST_UPLOAD,
        footer_links=[],
        run_history=False,
        enable_monitoring=False,
        ssr_mode=False,
        pwa=False,
        theme=_THEME,
        css_paths=[ASSETS / "page.css"],
        js=(ASSETS / "page.js").read_text(),
        app_kwargs={"middleware": [Middleware(SmallRequests, most=LARGEST_REQUEST)]},
    )
    for keeper in (
        threading.Thread(target=_keep_clean, args=(page, page.studio), daemon=True),
        threading.Thread(target=_keep_small, args=(page, Rest(page.jobs)), daemon=True),
    ):
        keeper.start()
    return address, public


def _keep_clean(page: gr.Blocks, studio: Studio) -> None:
    """What Gradio's own cleaning leaves: files that were never sent, and folders."""
    while page.is_running:
        time.sleep(CLEAN_EVERY)
        studio.remove_old(KEEP_FILES)


class Rest:
    """Tells when nobody has wanted a picture for IDLE seconds, once after each stretch of work."""

    def __init__(self, jobs: Jobs) -> None:
        self.jobs = jobs
        self._begun, self._since, self._due = jobs.begun, 0.0, False

    def begins(self, now: float) -> bool:
        """Whether it does at this time, seconds on any clock; to be asked every second or so."""
        if len(self.jobs) or self.jobs.begun != self._begun:
            self._begun, self._since, self._due = self.jobs.begun, now, True
            return False
        begins = self._due and now - self._since >= IDLE
        self._due = self._due and not begins
        return begins


def _keep_small(page: gr.Blocks, rest: Rest) -> None:
    """After a crowd of visitors the process is hardly larger than before them.

    Threads free what others allocated, and malloc has kept 100 to 350 MB of it after 20 pictures.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    while trim and page.is_running:  # glibc's alone
        time.sleep(1)
        if rest.begins(time.monotonic()):
            gc.collect()
            trim(0)
