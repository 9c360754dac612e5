"""Serving the page: its look, its limits, and what it must not ask of other hosts."""

import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from urllib.parse import urlsplit

import gradio as gr
from fastapi import FastAPI
from gradio import networking
from gradio.queueing import Event, Queue

from app.demo.connections import Patience, Server
from app.demo.front import Front
from app.demo.gate import Gate
from app.demo.hosts import Hosts
from app.demo.jobs import Jobs
from app.demo.page import CLEAN_EVERY, KEEP_FILES, PAGE_LINE, Page
from app.demo.places import Places
from app.demo.uploads import LARGEST_FILE, Uploads
from app.memory import give_back

PATIENCE = Patience()

# Seconds without work after which the photos read last are forgotten, and the system gets back the
# memory that malloc keeps for the next one. Sooner it would slow the visitor down who tries another
# style; later the photo is read again while they still look for the button.
IDLE = 10

# Wishes of one visitor that may be in the studio's line before they count as waiting.
AT_A_TIME = 4

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
    checkbox_label_background_fill_selected_dark="*primary_700",
    button_primary_background_fill_dark="*primary_700",
    button_primary_background_fill_hover_dark="*primary_800",
    link_text_color_dark="*primary_300",
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


def serve(
    page: Page,
    host: str = "127.0.0.1",
    port: int = 7860,
    share: bool = False,
    *,
    allow_hosts: Sequence[str] = (),
    proxies: Sequence[str] = (),
    root_path: str = "",
    embedders: Sequence[str] = (),
    patience: Patience = PATIENCE,
) -> tuple[str, str | None]:
    """Start serving the page; returns its address, and the public one where `share` made it.

    It goes on in a thread until `page.close()`. allow_hosts: further names that it answers for.
    proxies: addresses of reverse proxies. root_path: the path under which one of them serves the
    page ("/repaint"), or its whole address. embedders: origins whose pages may show this one in a
    frame. patience: what a visitor may take. Raises OSError where the port can't be had, ValueError
    for a wrong name.
    """
    names = Hosts(host, port, allow_hosts)
    path = root_path
    if "://" in root_path:
        names.add(root_path)
        path = urlsplit(root_path).path
    outer = gr.mount_gradio_app(
        FastAPI(openapi_url=None, docs_url=None, redoc_url=None),
        page,
        path="/",
        root_path=root_path.rstrip("/"),
        max_file_size=LARGEST_FILE,
        footer_links=[],
        run_history=False,
        enable_monitoring=False,
        ssr_mode=False,
        pwa=False,
        theme=_THEME,
    )
    gate = Gate(
        Front(outer, page.pictures, path),
        hosts=names,
        is_direct=lambda number: _is_direct(page, number),
        uploads=Uploads(page.GRADIO_CACHE),
        places=Places(page.max_queue, lambda: _waiting(page)),
        root_path=path,
        embedders=embedders,
        each=patience.each,
    )
    server = Server(gate, host, port, patience=patience, proxies=proxies)
    server.start()
    page.server = server  # type: ignore[assignment]  # gradio asks of it only what all have
    page.server_name, page.server_port = host, port
    page.app = page.server_app = outer.routes[-1].app
    # Without the second Gradio takes any file's name for one of its own.
    page.is_running = page.has_launched = True
    shown = "localhost" if names.everywhere else host
    address, public = f"http://{shown}:{port}/", None
    if share:
        public = _share(host, port, page.share_token)
        names.add(public)
    # Gradio's types know of no addresses.
    page.local_url, page.share_url = address, public  # type: ignore[assignment]
    for keeper in (
        threading.Thread(target=_keep_clean, args=(page, server), daemon=True),
        threading.Thread(target=_keep_small, args=(page, Rest(page.jobs)), daemon=True),
    ):
        keeper.start()
    return address, public


def _is_direct(page: gr.Blocks, number: int) -> bool | None:
    listener = page.fns.get(number)
    # What a page does alone has a number, too, but nothing that could be called.
    return None if listener is None or listener.fn is None else not listener.queue


def _waiting(page: gr.Blocks) -> list[str]:
    """Who waits in the queue or in the studio's line, by address, each as often as they do.

    A page has a few wishes at once without waiting: a newer one ends the older.
    """
    queues = page._queue.event_queue_per_concurrency_id.values()
    waiting = [_address(event) for each in queues for event in each.queue]
    begun: Counter[str] = Counter()
    for event in (event for job in page._queue.active_jobs for event in job or ()):
        if event.fn.concurrency_id == PAGE_LINE:
            begun[_address(event)] += 1
    return waiting + [one for one, count in begun.items() for _ in range(count - AT_A_TIME)]


def _address(event: Event) -> str:
    client = event.request.client
    return client.host if client else ""


def _share(host: str, port: int, token: str) -> str:
    """A public address through Gradio's relay. Raises OSError where there is none."""
    try:
        return networking.setup_tunnel(
            local_host=host,
            local_port=port,
            share_token=token,
            share_server_address=None,
            share_server_tls_certificate=None,
        )
    except Exception as error:  # its program can't be had or run, or its host not be reached
        raise OSError(f"no public link could be made: {error}") from error


def _keep_clean(page: Page, server: Server) -> None:
    sweeper = Sweeper(page._queue, page.temp_file_sets)
    while page.is_running:
        time.sleep(CLEAN_EVERY)
        page.studio.remove_old(KEEP_FILES)
        server.soon(sweeper.sweep)


class Sweeper:
    """Removes what Gradio keeps of visitors who went away: their sessions and unread messages.

    It would keep a session's name and its files' for ever, and the messages of the last 2,000
    however many there are. Whoever reads none between two sweeps is not there.

    names: sets of files' names.
    """

    def __init__(self, queue: Queue, names: Iterable[set[str]] = ()) -> None:
        self._queue, self._names = queue, names
        self._next: dict[str, object] = {}  # of each session, the message that it reads next

    async def sweep(self) -> None:
        """To be run by the server's loop, every minute or so."""
        for names in self._names:
            names.clear()
        queue, before, self._next = self._queue, self._next, {}
        messages, events = queue.pending_messages_per_session, queue.pending_event_ids_session
        for session in {*messages, *events}:
            # What is next in an asyncio.Queue it tells nobody.
            unread = getattr(messages.get(session), "_queue", ())
            if unread and unread[0] is not before.get(session):
                self._next[session] = unread[0]
                continue
            if unread:
                await queue.clean_events(session_hash=session)
            if not self._is_waiting(session):
                messages.pop(session, None)
                events.pop(session, None)

    def _is_waiting(self, session: str) -> bool:
        known = self._queue.event_ids_to_events
        events = map(known.get, self._queue.pending_event_ids_session.get(session, ()))
        return any(event is not None and event.alive for event in events)


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


def _keep_small(page: Page, rest: Rest) -> None:
    """After a crowd of visitors the process is hardly larger than before them.

    Threads free what others allocated, and malloc has kept 100 to 350 MB of it after 20 pictures.
    """
    while page.is_running:
        time.sleep(1)
        begins = rest.begins(time.monotonic())
        if begins:
            page.studio.forget()
        if page.unwritten.let_go() or begins:
            give_back()
