"""The open server: what a stranger may not do with it. One small server for all of it."""

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from types import FunctionType

import gradio as gr
import httpx
import numpy as np
import pytest
import torch
from gradio_client import Client, handle_file
from gradio_client.exceptions import AppError
from PIL import Image

from app import images, own_folder
from app.compression import takes_gzip
from app.demo import gate, uploads
from app.demo.connections import Patience
from app.demo.gate import OPEN, Kept, _Answer
from app.demo.hosts import Hosts
from app.demo.places import Places, visitor
from app.demo.refusal import Refusal
from app.look import OPTIONS
from app.painter import Painter
from tests.demo_server import free_port, serving
from tests.patience import PATIENCE

API = "/gradio_api"
PNG = b"\x89PNG\r\n\x1a\n"
FINER = [1] * (len(OPTIONS) - 2)  # a call's last inputs: strength and keep_color stand before
TAKEN = 10 + len(FINER)  # inputs of a call


@pytest.fixture(scope="module")
def painter(checkpoint: Path) -> Painter:
    return Painter(checkpoint, device="cpu")


@pytest.fixture(scope="module")
def page(painter: Painter, tmp_path_factory: pytest.TempPathFactory) -> Iterator[gr.Blocks]:
    # None of them waits for anything, however slow a machine is.
    patience = Patience(24, 12, header=PATIENCE, unread=PATIENCE, idle=PATIENCE)
    folder = tmp_path_factory.mktemp("uploads")
    named = ["repaint.example.org"]
    with serving(painter, folder, max_pixels=300_000, patience=patience, allow_hosts=named) as page:
        yield page


@pytest.fixture(scope="module")
def impatient(
    page: gr.Blocks, painter: Painter, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[gr.Blocks]:
    """Another server, for what ends connections."""
    folder, patience = os.environ["GRADIO_TEMP_DIR"], Patience(header=0.5, unread=2.0)
    with (
        serving(painter, tmp_path_factory.mktemp("none"), patience=patience) as other,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("GRADIO_TEMP_DIR", folder)  # the page's, which goes on being served
        yield other


@pytest.fixture
def ask(page: gr.Blocks) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=page.local_url, timeout=PATIENCE) as client:
        yield client


@pytest.fixture(scope="module")
def photo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("photo") / "leaf.png"
    pixels = np.random.default_rng(0).integers(0, 256, (48, 64, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return path


def number_of(page: gr.Blocks, name: str) -> int:
    return next(number for number, fn in page.fns.items() if fn.name == name)


def said(page: gr.Blocks, client: httpx.Client, name: str, data: list, session: str) -> str:
    """What the queue answers to a listener's inputs, as the page reads it."""
    asked = {"data": data, "fn_index": number_of(page, name), "session_hash": session}
    client.post(f"{API}/queue/join", json=asked).raise_for_status()
    return client.get(f"{API}/queue/data", params={"session_hash": session}).text


# What Gradio has and this page does not use, as of the version that was looked at last.
CLOSED = [
    "/gradio_api/user",
    "/gradio_api/login_check",
    "/gradio_api/token",
    "/gradio_api/dev/reload",
    "/openapi.json",
    "/login",
    "/logout",
    "/svelte/{path:path}",
    "/gradio_api/runs",
    "/gradio_api/deep_link",
    "/gradio_api/openapi.json",
    "/gradio_api/custom_component/{id}/{environment}/{type}/{file_name}",
    "/gradio_api/proxy={url_path:path}",
    "/gradio_api/stream/{event_id}",
    "/gradio_api/stream/{event_id}/close",
    "/gradio_api/stream/{session_hash}/{run}/{component_id}/playlist.m3u8",
    "/gradio_api/stream/{session_hash}/{run}/{component_id}/{segment_id}.{ext}",
    "/gradio_api/stream/{session_hash}/{run}/{component_id}/playlist-file",
    "/gradio_api/file/{path:path}",
    "/gradio_api/run/{api_name}",
    "/gradio_api/api/{api_name}",
    "/gradio_api/call/v2/{api_name}",
    "/gradio_api/call/{api_name}",
    "/gradio_api/call/v2/{api_name}/{event_id}",
    "/gradio_api/call/{api_name}/{event_id}",
    "/gradio_api/component_server",
    "/gradio_api/queue/status",
    "/gradio_api/startup-events",
    "/gradio_api/theme.css",
    "/pwa_icon",
    "/pwa_icon/{size}",
    "/monitoring",
    "/monitoring/summary",
    "/monitoring/{key}",
    "/gradio_api/process_recording",
    "/gradio_api/vibe-edit",
    "/gradio_api/undo-vibe-edit",
    "/gradio_api/vibe-code",
    "/gradio_api/vibe-starter-queries",
    "/gradio_api/run-history/connect",
    "/gradio_api/run-history/buckets",
    "/gradio_api/run-history/records",
    "/gradio_api/run-history/records/{endpoint}/{record_id}/assets/{asset_id}",
]

# Gradio's names of the routes that are open; uploads and files are answered by the gate itself.
OPENED = [
    "/",
    "/config",
    "/theme.css",
    "/favicon.ico",
    "/manifest.json",
    "/robots.txt",
    "/assets/{path:path}",
    "/static/{path:path}",
    "/gradio_api/info",
    "/gradio_api/app_id",
    "/gradio_api/queue/join",
    "/gradio_api/queue/data",
    "/gradio_api/cancel",
    "/gradio_api/reset",
    "/gradio_api/heartbeat/{session_hash}",
    "/gradio_api/upload",
    "/gradio_api/upload_progress",
    "/gradio_api/file={path_or_url:path}",
]


def routes_of(page: gr.Blocks) -> list[tuple[str, set[str]]]:
    found, left = [], list(page.app.routes)
    while left:
        route = left.pop()
        if inner := getattr(getattr(route, "original_router", None), "routes", None):
            left += inner
        elif hasattr(route, "path"):
            found.append((route.path, set(getattr(route, "methods", None) or {"GET"})))
    return found


def test_each_route_of_the_installed_gradio_was_decided_about(page: gr.Blocks) -> None:
    undecided = {
        path for path, _ in routes_of(page) if (path.rstrip("/") or "/") not in {*CLOSED, *OPENED}
    }
    assert not undecided, "open them in app/demo/gate.py, or name them as closed here"
    assert len(routes_of(page)) > 50, "the routes were not found"


def test_what_the_page_does_not_use_is_not_there(page: gr.Blocks, ask: httpx.Client) -> None:
    """Whatever its method, with or without a slash at the end, and wherever it is written."""
    closed = {path for path, _ in routes_of(page) if path.rstrip("/") in CLOSED}
    for path in sorted(closed):
        filled = path.replace(":path", "").replace("{", "").replace("}", "")
        for variant in (filled, filled + "/", filled.replace("/", "%2F")):
            for method in ("GET", "POST", "HEAD", "PUT", "OPTIONS"):
                answer = ask.request(method, variant)
                assert answer.status_code in (404, 405), (method, variant, answer.text)


@pytest.mark.parametrize(
    "path",
    [
        "/..%2f..%2f..%2fetc/passwd", "/assets/../config", "/assets/%2e%2e/%2e%2e/routes.py",
        "/assets/..%5c..%5croutes.py", "/static/../../templates/frontend/index.html",
        "/assets//etc/passwd", "/docs", "/redoc", "/openapi.json", "/gradio_api/",
        "/GRADIO_API/info",
        "/gradio_api/mcp/", "/gradio_api/mcp/sse", "/gradio_api/file", "/gradio_api/file=",
    ],
)  # fmt: skip
def test_what_is_not_on_the_list_is_not_there(page: gr.Blocks, path: str) -> None:
    # As it is written: httpx would tidy it up first.
    answer = raw(
        page, f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{page.server_port}\r\n\r\n".encode()
    )
    assert answer.startswith((b"HTTP/1.1 404", b"HTTP/1.1 400")), answer[:80]


def raw(page: gr.Blocks, request: bytes) -> bytes:
    """The answer to a request that is the only one of its connection."""
    first, rest = request.split(b"\r\n", 1)
    address = ("127.0.0.1", page.server_port)
    with socket.create_connection(address, timeout=PATIENCE) as connection:
        connection.sendall(first + b"\r\nConnection: close\r\n" + rest)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while piece := connection.recv(2**16):
            answer += piece
        return answer


def lying(folder: Path) -> set[Path]:
    """What lies in a folder of which the server may take something away meanwhile."""
    return {Path(place, name) for place, *names in os.walk(folder) for name in chain(*names)}


def nothing_is_added(folder: Path, before: set[Path]) -> bool:
    """Whether a folder comes to hold no more than before, and stays so for half a second.

    A server takes some time to see that a visitor is gone, and begins what was sent before that.
    """
    still, end = 0, time.monotonic() + PATIENCE
    while still < 10 and time.monotonic() < end:
        still = still + 1 if lying(folder) <= before else 0
        time.sleep(0.05)
    return still == 10


def test_a_playlist_never_reaches_ffmpeg(
    page: gr.Blocks, ask: httpx.Client, tmp_path: Path
) -> None:
    secret = tmp_path / "private.ts"
    secret.write_bytes(b"\x47" * 188)
    playlist = f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nfile://{secret}\n".encode()
    form = {"video": ("v.mp4", playlist, "video/mp4")}
    assert ask.post(f"{API}/process_recording", files=form).status_code == 404
    # As a picture it is none.
    (path,) = ask.post(f"{API}/upload", files={"files": ("v.png", playlist)}).json()
    data = [{"path": path, "meta": {"_type": "gradio.FileData"}}, "dots", 1.0, None, None]
    answer = said(
        page,
        ask,
        "stylize",
        [*data, "", 0.5, "", None, "png", *FINER],
        "playlist",
    )
    assert "not a picture" in answer
    # As a clip it is refused before anything that it names is opened.
    (path,) = ask.post(f"{API}/upload", files={"files": ("v.mp4", playlist)}).json()
    listener = next(one for one in page.fns.values() if one.name == "clip")
    data = [None if one.stateful else one.value for one in listener.inputs]
    data[:2] = [{}, {"path": path}]
    body = {"data": data, "fn_index": listener._id, "session_hash": "clip"}
    ask.post(f"{API}/queue/join", json=body).raise_for_status()
    told = ask.get(f"{API}/queue/data", params={"session_hash": "clip"}).text
    assert "v.mp4 is a playlist (HLS), which names other files and is never followed" in told


# --- the page itself


def test_a_page_is_made_once_and_copies_no_network(
    page: gr.Blocks, ask: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = ask.get("/")
    monkeypatch.setattr(torch.Tensor, "__deepcopy__", lambda *_: pytest.fail("copied a tensor"))
    monkeypatch.setattr(Kept, "_make", lambda *_: pytest.fail("made again"))
    again = ask.get("/?deep_link=x&page=y")
    assert again.text == first.text and again.headers["content-encoding"] == "gzip"
    for refused in ("identity", "gzip;q=0", "*;q=0, identity"):
        plain = ask.get("/", headers={"accept-encoding": refused})
        assert plain.text == first.text and "content-encoding" not in plain.headers
    assert ask.head("/").text == ""


@pytest.mark.parametrize(
    ("accepted", "zips"),
    [
        ("gzip, deflate, br", True),
        ("deflate;q=1.0, GZip ; q=0.5", True),
        ("identity;q=0, *;q=0.1", True),
        ("x-gzip", True),
        ("", False),
        ("gzip;q=0, *", False),
        ("gzip; q=0.000", False),
        ("*;q=0", False),
        ("br, not-gzip", False),
        ("gzip;q=high", False),
    ],
)
def test_only_who_reads_gzip_gets_it(accepted: str, zips: bool) -> None:
    assert takes_gzip(accepted) == zips


def test_a_page_s_components_are_plain_values(page: gr.Blocks) -> None:
    def plain(value: object) -> bool:
        if isinstance(value, dict):
            return all(map(plain, value.values()))
        if isinstance(value, (list, tuple)):
            return all(map(plain, value))
        # A function is never copied.
        return isinstance(value, (str, int, float, type(None), FunctionType))

    odd = [
        (component["type"], name)
        for component in page.get_config_file()["components"]
        for name, value in component["props"].items()
        if not plain(value)
    ]
    assert not odd, "such a value may lead to the whole application, network included"


def test_a_page_names_the_host_that_it_was_asked_by(page: gr.Blocks, ask: httpx.Client) -> None:
    port = page.server_port
    for host in (f"127.0.0.1:{port}", f"localhost:{port}", "repaint.example.org"):
        config = ask.get("/config", headers={"host": host}).json()
        assert config["root"].rstrip("/") == f"http://{host}"
    lie = {"x-forwarded-host": "evil.example", "x-gradio-server": "http://evil.example"}
    for path in ("/", "/config", f"{API}/info"):
        assert "evil" not in ask.get(path, headers=lie).text


def test_kept_pages_have_an_end() -> None:
    kept = Kept(lambda *_: None)
    for number in range(50):
        kept._keep((f"/assets/{number}", ""), _Answer(200, "image/png", bytes(gate._KEPT // 10)))
    assert sum(map(len, kept._answers.values())) <= gate._KEPT


# --- who may ask


@pytest.mark.parametrize(
    ("served", "host", "allowed"),
    [
        ("127.0.0.1", "127.0.0.1:7860", True),
        ("127.0.0.1", "localhost:7860", True),
        ("127.0.0.1", "LOCALHOST.:7860", True),
        ("127.0.0.1", "[::1]:7860", True),
        ("localhost", "127.0.0.1:7860", True),
        ("::1", "[::1]:7860", True),
        ("127.0.0.1", "127.0.0.1", False),
        ("127.0.0.1", "127.0.0.1:80", False),
        ("127.0.0.1", "192.168.1.5:7860", False),
        ("127.0.0.1", "evil.example:7860", False),
        ("127.0.0.1", "127.0.0.1.evil.example:7860", False),
        ("127.0.0.1", "localhost.evil.example:7860", False),
        ("127.0.0.1", "127.0.0.1:7860@evil.example", False),
        ("127.0.0.1", "evil.example#127.0.0.1:7860", False),
        ("127.0.0.1", "", False),
        ("127.0.0.1", "2130706433:7860", False),
        ("127.0.0.1", "0x7f.1:7860", False),
        ("0.0.0.0", "192.168.1.5:7860", True),
        ("0.0.0.0", "[fe80::1]:7860", True),
        ("0.0.0.0", "localhost:8000", True),
        ("0.0.0.0", "evil.example:7860", False),
        ("::", "10.0.0.1:7860", True),
        ("192.168.1.5", "192.168.1.5:7860", True),
        ("192.168.1.5", "192.168.1.6:7860", False),
        ("192.168.1.5", "localhost:7860", False),
        ("0.0.0.0", "given.example", True),
        ("127.0.0.1", "given.example:443", True),
        ("127.0.0.1", "ported.example:8443", True),
        ("127.0.0.1", "ported.example:7860", False),
        ("127.0.0.1", "whole.example", True),
    ],
)
def test_only_its_own_names_are_answered(served: str, host: str, allowed: bool) -> None:
    given = ["given.example", "ported.example:8443", "https://whole.example"]
    assert Hosts(served, 7860, given).allows(host) is allowed


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1:1", "x"])
@pytest.mark.parametrize("path", ["/", "/config", f"{API}/queue/data?session_hash=a", "/nothing"])
def test_a_name_that_was_pointed_here_is_told_nothing(
    page: gr.Blocks, ask: httpx.Client, host: str, path: str
) -> None:
    answer = ask.get(path, headers={"host": host.format(port=page.server_port)})
    assert answer.status_code == 403
    assert "does not answer for" in answer.text and "--allow-host" in answer.text


FOREIGN = [
    {"origin": "http://evil.example"},
    {"origin": "https://evil.example", "sec-fetch-site": "cross-site"},
    {"origin": "null"},
    {"origin": "http://127.0.0.1:1"},
    {"origin": "http://localhost"},
    {"origin": "http://127.0.0.1:{port}.evil.example"},
    {"origin": "file://127.0.0.1:{port}"},
    {"origin": "http://[::1"},
    {"origin": "http://127.0.0.1:{port}@evil.example"},
    {"origin": ""},
    {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"},
    {"sec-fetch-site": "same-site", "sec-fetch-mode": "cors"},
]


@pytest.mark.parametrize("headers", FOREIGN)
def test_a_foreign_page_is_answered_nothing(
    page: gr.Blocks, ask: httpx.Client, headers: dict
) -> None:
    headers = {name: text.format(port=page.server_port) for name, text in headers.items()}
    asked = {"data": [], "fn_index": number_of(page, "styles"), "session_hash": "foreign"}
    answers = [
        ask.get("/config", headers=headers),
        ask.post(f"{API}/queue/join", json=asked, headers=headers),
        ask.post(f"{API}/upload", files={"files": ("a.png", PNG)}, headers=headers),
        ask.options(
            f"{API}/queue/join", headers={**headers, "access-control-request-method": "POST"}
        ),
    ]
    for answer in answers:
        assert answer.status_code == 403
        assert not [name for name in answer.headers if name.startswith("access-control-")]


def test_a_second_origin_counts_as_well(page: gr.Blocks, ask: httpx.Client) -> None:
    own = ("origin", f"http://127.0.0.1:{page.server_port}")
    assert ask.get("/config", headers=[own]).status_code == 200
    assert ask.get("/config", headers=[own, ("origin", "http://evil.example")]).status_code == 403


def test_own_pages_and_links_from_elsewhere_are_answered(
    page: gr.Blocks, ask: httpx.Client
) -> None:
    own = {"origin": page.local_url.rstrip("/"), "sec-fetch-site": "same-origin"}
    assert ask.get("/config", headers=own).status_code == 200
    # Behind a proxy the browser's name for it may be another than the proxy's.
    proxied = {"origin": "https://repaint.example.org", "sec-fetch-site": "same-origin"}
    assert ask.get("/config", headers=proxied).status_code == 200
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert ask.get("/", headers=link).status_code == 200


def test_a_form_on_another_page_can_ask_for_nothing(page: gr.Blocks, ask: httpx.Client) -> None:
    """Its kinds of content are sent without asking first, and older browsers name no origin."""
    asked = json.dumps({"data": [], "fn_index": 0, "session_hash": "form"}).encode()
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        for path in ("queue/join", "run/predict", "cancel", "reset"):
            answer = ask.post(f"{API}/{path}", content=asked, headers={"content-type": kind})
            assert answer.status_code == 415


@pytest.mark.parametrize("path", ["/", "/config", "/nothing", f"{API}/file=/etc/passwd"])
def test_every_answer_says_what_browsers_may_do_with_it(ask: httpx.Client, path: str) -> None:
    headers = ask.get(path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "same-origin"
    assert "camera=(self)" in headers["permissions-policy"]
    assert headers["cross-origin-resource-policy"] == "same-origin"


def test_a_page_that_may_embed_it_is_named() -> None:
    embedded = gate.Gate(
        None,
        hosts=Hosts("127.0.0.1", 7860),
        is_direct=lambda _: None,
        uploads=None,
        places=None,
        embedders=["https://blog.example"],
    )
    assert embedded._headers["Content-Security-Policy"].endswith(
        "frame-ancestors https://blog.example"
    )
    assert "X-Frame-Options" not in embedded._headers


# --- bodies


BIG = {
    "announced": lambda size: {"content": bytes(size)},
    "unannounced": lambda size: {"content": (bytes(2**16) for _ in range(0, size, 2**16))},
}


@pytest.mark.parametrize("sent", BIG)
@pytest.mark.parametrize("path", ["queue/join", "run/predict", "cancel", "reset"])
def test_a_large_body_is_refused_wherever_it_goes(ask: httpx.Client, path: str, sent: str) -> None:
    headers = {"content-type": "application/json"}
    answer = ask.post(f"{API}/{path}", headers=headers, **BIG[sent](4 * 2**20))
    assert answer.status_code == 413
    assert "too large; at most 1 MB" in answer.text


@pytest.mark.parametrize(
    "path", ["call/upload", "run/upload", "stream/upload", "component_server", "x/upload"]
)
def test_a_large_body_for_a_closed_route_is_not_kept(ask: httpx.Client, path: str) -> None:
    headers = {"content-type": "application/json"}
    answer = ask.post(f"{API}/{path}", headers=headers, **BIG["unannounced"](8 * 2**20))
    assert answer.status_code == 404


@pytest.mark.parametrize("length", ["-1", "1e9", "99999999999999999999", "0x10", "5000000000"])
def test_an_odd_length_is_refused(page: gr.Blocks, length: str) -> None:
    request = (
        f"POST {API}/queue/join HTTP/1.1\r\nHost: 127.0.0.1:{page.server_port}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{{}}"
    )
    status = int(raw(page, request.encode()).split()[1])
    assert status in (400, 413)


def test_a_body_that_comes_too_slowly_is_told_so(
    page: gr.Blocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "SMALL_BODY_TIME", 0.3)
    monkeypatch.setattr(gate, "PIECE_TIME", 0.3)
    monkeypatch.setattr(gate, "_HEAR_OUT", 0.3)
    for path, kind in (
        ("queue/join", "application/json"),
        ("upload", "multipart/form-data; boundary=B"),
    ):
        with socket.create_connection(("127.0.0.1", page.server_port), timeout=PATIENCE) as slow:
            slow.sendall(
                f"POST {API}/{path} HTTP/1.1\r\nHost: 127.0.0.1:{page.server_port}\r\n"
                f"Content-Type: {kind}\r\nContent-Length: 1000\r\n\r\n".encode()
            )
            slow.sendall(b"--B\r\n")
            answer = b""
            while piece := slow.recv(2**16):
                answer += piece
        assert answer.startswith(b"HTTP/1.1 408") and b"too slowly" in answer


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"[]", b"7", b"null", b'"text"', b"\xff\xfe", b"[" * 100_000, b'{"data":' * 5000,
        b'{"data": [], "session_hash": 7}', b'{"data": {}, "session_hash": "a"}',
        b'{"data": [], "session_hash": "a/../b"}', b'{"data": [], "session_hash": "a"}',
        b'{"data": [], "session_hash": "%s", "fn_index": 0}' % (b"a" * 65),
        b'{"data": [], "session_hash": "a", "fn_index": true}',
        b'{"data": [], "session_hash": "a", "fn_index": 1e3}',
        b'{"data": [], "session_hash": "a", "fn_index": -1}',
        b'{"data": [], "session_hash": "a", "fn_index": 99999}',
        b'{"data": ["\\ud800"], "session_hash": "a", "fn_index": 0}',
        b'{"data": [NaN], "session_hash": "a", "fn_index": 0}',
        b'{"data": [%s], "session_hash": "a", "fn_index": 0}' % (b"9" * 10_000),
        b'{"data": [%s1%s], "session_hash": "a", "fn_index": 0}' % (b"[" * 50, b"]" * 50),
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", ["queue/join", "run/predict"])
def test_what_no_page_sends_is_one_sentence(
    ask: httpx.Client, capfd: pytest.CaptureFixture[str], path: str, body: bytes
) -> None:
    answer = ask.post(f"{API}/{path}", content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 404)
    assert answer.json()["detail"].endswith(".")
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({0: {"path": "/etc/passwd"}}, "Upload the picture first"),
        ({0: {"path": "http://127.0.0.1:1/a.png"}}, "Upload the picture first"),
        ({0: {"path": "file:///etc/passwd", "meta": {"_type": "gradio.FileData"}}}, "Upload the"),
        ({3: [[{"path": "https://evil.example/a.png"}]]}, "Upload the picture first"),
        ({0: {"path": ["a"]}}, "Upload the picture first"),
        ({0: {"path": None, "url": "http://127.0.0.1:1/a"}}, ""),
        ({0: "text"}, "not of the kinds"),
        ({0: 7}, "not of the kinds"),
        ({0: {"path": "../../etc/passwd"}}, ""),
        ({0: {"path": "a\0b"}}, ""),
        ({2: "much"}, ""),
        ({2: {"a": 1}}, ""),
        ({2: 1e308}, ""),
        ({1: 7, 5: ["monet"]}, ""),
        ({9: None}, "Choose a photo first"),
        ({TAKEN: "one more"}, f"takes {TAKEN} inputs, not {TAKEN + 1}"),
    ],
)
def test_wrong_inputs_are_one_sentence(
    page: gr.Blocks,
    ask: httpx.Client,
    capfd: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
    change: dict,
    sentence: str,
) -> None:
    data = [None, "dots", 1.0, None, None, "", 0.5, "", None, "png", *FINER, None]
    data = [change.get(place, value) for place, value in enumerate(data)]
    data = data if TAKEN in change else data[:TAKEN]
    session = f"wrong{abs(hash(request.node.name))}"
    answer = said(page, ask, "stylize", data, session)
    assert '"success":false' in answer and sentence in answer
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize("name", [None, 7, ["png"], {}])
def test_a_format_that_is_no_name_is_refused(name: object) -> None:
    with pytest.raises(ValueError, match="pictures are saved as"):
        images.output_format(name)


def test_an_event_that_no_page_has_is_one_sentence(
    page: gr.Blocks, ask: httpx.Client, capfd: pytest.CaptureFixture[str]
) -> None:
    number = number_of(page, "stop")
    for event in (None, 7, [], {}, {"index": "x"}, {"index": 10**9}):
        asked = {"data": [], "fn_index": number, "session_hash": "event", "event_data": event}
        assert ask.post(f"{API}/run/predict", json=asked).status_code in (200, 422)
    nothing = [number for number, fn in page.fns.items() if fn.fn is None]
    assert nothing
    for number in nothing:
        asked = {"data": [], "fn_index": number, "session_hash": "nothing"}
        assert ask.post(f"{API}/queue/join", json=asked).status_code == 404
    assert "Traceback" not in capfd.readouterr().err


FOREIGN_FILES = [
    "/etc/hostname",
    "/proc/self/environ",
    "{secret}",
    "{folder}/../secret.png",
    "{folder}/.owner",
    "{folder}/tmp12345678",
    "{folder}/upload-0/a.png",
    "{folder}/upload-" + "0" * 32 + "/../../secret.png",
    "{cwd}/README.md",
    "README.md",
]


@pytest.mark.parametrize("wrapped", [False, True])
def test_no_listener_takes_a_file_that_nobody_uploaded(
    page: gr.Blocks, ask: httpx.Client, tmp_path: Path, wrapped: bool
) -> None:
    """Nor is it copied to where it could be asked for: whichever listener, at whichever input."""
    folder = page.studio.folder
    secret = folder.parent / "secret.png"
    Image.new("RGB", (8, 8)).save(secret)
    before, asked = lying(folder), 0
    for number, listener in page.fns.items():
        kinds = (
            "PictureFile",
            "PictureFiles",
            *(() if wrapped else ("PhotoPicker", "ClipPicker", "Channel")),
        )
        files = [place for place, one in enumerate(listener.inputs) if type(one).__name__ in kinds]
        if listener.fn is None or not files:
            continue
        for place in files:
            waiting = []  # together: the queue looks now and then
            for name in FOREIGN_FILES:
                path = name.format(secret=secret, folder=folder, cwd=os.getcwd())
                file = {"path": path, "meta": {"_type": "gradio.FileData"}}
                data = [None if one.stateful else one.value for one in listener.inputs]
                data[place] = [file] if wrapped else file
                if type(listener.inputs[place]).__name__ == "Channel":
                    data[place] = {"picture": file}
                asked += 1
                session = f"foreign{asked}{wrapped}"
                body = {"data": data, "fn_index": number, "session_hash": session}
                if listener.queue:
                    ask.post(f"{API}/queue/join", json=body).raise_for_status()
                    waiting.append(session)
                else:
                    assert ask.post(f"{API}/run/predict", json=body).status_code == 500
            for session in waiting:
                told = ask.get(f"{API}/queue/data", params={"session_hash": session}).text
                assert '"success":false' in told and "Upload the picture first" in told
    assert asked > (30 if wrapped else 60)
    assert nothing_is_added(folder, before)


# --- the queue


def test_events_of_no_session_are_one_message_and_no_line_of_the_log(
    page: gr.Blocks, ask: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    logging.getLogger("uvicorn.error").addHandler(caplog.handler)
    try:
        for session in ("nobody", "%00", "a&session_hash=b"):
            answer = ask.get(f"{API}/queue/data?session_hash={session}")
            assert answer.status_code == 200 and answer.text.count("data:") == 1
            assert '"session_not_found":true' in answer.text
        kind = "multipart/form-data; boundary=B"
        answer = ask.post(f"{API}/upload", content=b"nothing", headers={"content-type": kind})
        assert answer.status_code == 400
        # What is logged of an answer is logged before the next one on its connection.
        assert ask.get("/robots.txt").status_code == 200
    finally:
        logging.getLogger("uvicorn.error").removeHandler(caplog.handler)
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


def test_what_waits_in_the_queue_can_be_asked_for_in_no_other_way(
    page: gr.Blocks, ask: httpx.Client
) -> None:
    queued = [number for number, fn in page.fns.items() if fn.queue]
    assert len(queued) >= 5
    for number in queued:
        asked = {"data": [], "fn_index": number, "session_hash": "around"}
        for path in ("run/predict", "run/stylize", "api/stylize", "api/predict", "call/stylize"):
            answer = ask.post(f"{API}/{path}", json={**asked, "api_name": "stylize"})
            assert answer.status_code in (403, 404), (number, path)


@contextmanager
def nobody_painting(page: gr.Blocks) -> Iterator[None]:
    """Whoever joins the queue waits until the block ends."""
    begin = page._queue.process_events

    async def hold(*given, **options) -> None:
        while holding:
            await asyncio.sleep(0.05)
        await begin(*given, **options)

    holding = [True]
    page._queue.process_events = hold
    try:
        yield
    finally:
        holding.clear()
        ends = time.monotonic() + PATIENCE
        while len(page._queue) and time.monotonic() < ends:
            time.sleep(0.05)
        page._queue.process_events = begin


def test_one_visitor_never_has_all_of_the_queue_s_places(
    painter: Painter, tmp_path: Path, photo: Path
) -> None:
    """Many at once, under as many names: another visitor still finds a place."""
    options = {"max_queue": 8, "proxies": ["127.0.0.1"]}
    with (
        serving(painter, tmp_path, **options) as page,
        httpx.Client(base_url=page.local_url, timeout=PATIENCE) as client,
    ):
        files = {"files": ("a.png", photo.read_bytes())}
        (path,) = client.post(f"{API}/upload", files=files).json()
        given = {"path": path, "meta": {"_type": "gradio.FileData"}}
        data = [given, "dots", 1.0, None, 64, "", 0.5, "", None, "png", *FINER]
        number = number_of(page, "stylize")

        def join(session: str, forwarded: str) -> httpx.Response:
            asked = {"data": data, "fn_index": number, "session_hash": session}
            headers = {"x-forwarded-for": forwarded}
            return client.post(f"{API}/queue/join", json=asked, headers=headers)

        def all_join(count: int, forwarded: str) -> list[httpx.Response]:
            with ThreadPoolExecutor(count) as pool:
                names = [f"{forwarded.replace('.', '-')}x{n}" for n in range(count)]
                return list(pool.map(lambda name: join(name, forwarded), names))

        with nobody_painting(page):
            assert join("painted-meanwhile", "198.51.100.1").status_code == 200
            answers = all_join(12, "203.0.113.7")
            assert sum(one.status_code == 200 for one in answers) <= 4
            refused = [one for one in answers if one.status_code != 200]
            assert {one.status_code for one in refused} == {429}
            assert all("waiting already" in one.json()["detail"] for one in refused)
            # Whatever a visitor writes there before the proxy does is not believed.
            assert join("again", "192.0.2.9, 203.0.113.7").status_code == 429
            assert join("other", "198.51.100.2").status_code == 200
            assert sum(one.status_code == 200 for one in all_join(6, "198.51.100.3")) <= 3
            assert join("last", "198.51.100.4").status_code == 200
        assert join("once more", "203.0.113.7").status_code in (200, 400)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("203.0.113.7", "203.0.113.7", True),
        ("203.0.113.7", "203.0.113.8", False),
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", True),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
        ("::ffff:203.0.113.7", "203.0.113.7", True),
        ("::ffff:203.0.113.7", "::ffff:203.0.113.8", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        ("", "203.0.113.7", False),
        ("unknown", "unknown", True),
    ],
)
def test_a_visitor_is_an_address_or_half_of_a_long_one(one: str, other: str, same: bool) -> None:
    assert (visitor(one) == visitor(other)) is same


@pytest.mark.parametrize(
    ("places", "others", "own"), [(32, 0, 16), (32, 8, 12), (8, 4, 2), (1, 0, 1), (3, 2, 1)]
)
def test_a_visitor_may_have_as_many_places_as_stay_free(places: int, others: int, own: int) -> None:
    waiting = [f"198.51.100.{number}" for number in range(others)]
    shared = Places(places, lambda: waiting)
    while True:
        try:
            with shared.joining("203.0.113.7"):
                waiting.append("203.0.113.7")
        except Refusal as refusal:
            assert refusal.status == 429
            break
        assert len(waiting) <= places
    assert waiting.count("203.0.113.7") == own


# --- files


def upload(part: bytes, length: int | None = None) -> bytes:
    return (
        f"POST {API}/upload HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n"
        "Content-Type: multipart/form-data; boundary=B\r\n"
        f"Content-Length: {length or len(part)}\r\n\r\n".encode()
        + part
    )


def form(
    name: str = "files", file: str | None = "a.png", body: bytes = PNG, end: bytes = b""
) -> bytes:
    named = f'; filename="{file}"' if file is not None else ""
    head = f'--B\r\nContent-Disposition: form-data; name="{name}"{named}\r\n\r\n'
    return head.encode() + body + (end or b"\r\n--B--\r\n")


UPLOADS = {
    "cut off in the middle": upload(form(end=b"-"), 100_000),
    "without an end": upload(form(end=b"\r\n")),
    "under another name": upload(form("other")),
    "a field that is no file": upload(form("files", None)),
    "a good one, then another name": upload(form(end=b"\r\n") + form("other")),
    "no form": upload(b"anything"),
    "long headers": upload(form(file="a" * 5000)),
    "many headers": upload(b"--B\r\n" + b"a: b\r\n" * 50 + b"\r\n\r\n--B--\r\n"),
    "nothing": upload(b"--B--\r\n")[:-1],
}


@pytest.mark.parametrize("kind", UPLOADS)
def test_an_upload_that_is_none_leaves_nothing(page: gr.Blocks, kind: str) -> None:
    before = lying(page.studio.folder)
    request = UPLOADS[kind].replace(b"PORT", str(page.server_port).encode())
    answer = raw(page, request)
    assert b" 200 " not in answer[:20]
    assert nothing_is_added(page.studio.folder, before)


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("cat.png", "cat.png"),
        ("../../../etc/cron.d/x", "x"),
        ("..\\..\\x.png", "x.png"),
        ("/etc/passwd", "passwd"),
        ("..", "upload"),
        (".hidden", "hidden"),
        ("a" * 600 + ".png", None),
        ("Ünïcode 你好.png", "Ünïcode 你好.png"),
    ],
)
def test_an_upload_s_name_is_a_name_in_a_folder_of_its_own(
    page: gr.Blocks, ask: httpx.Client, name: str, kept: str | None
) -> None:
    (path,) = ask.post(f"{API}/upload", files={"files": (name, PNG)}).json()
    path = Path(path)
    assert path.parent.parent == page.studio.folder and path.read_bytes() == PNG
    assert path.parent.name.startswith("upload-") and len(path.name.encode()) <= 250
    assert kept is None or path.name == kept


def test_a_full_disk_is_one_sentence(
    page: gr.Blocks, ask: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.demo.uploads.KEPT_FREE", 2**60)
    answer = ask.post(f"{API}/upload", files={"files": ("a.png", PNG)})
    assert answer.status_code == 507 and "no room" in answer.text


def test_a_clip_may_be_larger_than_a_picture(
    page: gr.Blocks, ask: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "LARGEST_FILE", 1000)
    monkeypatch.setattr(uploads, "LARGEST_CLIP", 3000)
    for name, size, status in (
        ("a.png", 2000, 413),
        ("a.MP4", 2000, 200),
        ("a.mp4", 4000, 413),
        ("mp4", 2000, 413),
    ):
        answer = ask.post(f"{API}/upload", files={"files": (name, bytes(size))})
        assert answer.status_code == status, name


def test_an_upload_tells_how_far_it_is(ask: httpx.Client) -> None:
    path = f"{API}/upload?upload_id=abc"
    assert ask.post(path, files={"files": ("a.png", bytes(200_000))}).status_code == 200
    told = ask.get(f"{API}/upload_progress?upload_id=abc").text
    assert '"orig_name": "a.png"' in told and told.rstrip().endswith('data: {"msg": "done"}')


def test_only_what_this_server_wrote_is_sent(
    page: gr.Blocks, ask: httpx.Client, tmp_path: Path
) -> None:
    folder = page.studio.folder
    (path,) = ask.post(f"{API}/upload", files={"files": ("a.svg", b"<svg onload='x'/>")}).json()
    answer = ask.get(f"{API}/file={path}")
    assert answer.content == b"<svg onload='x'/>"
    assert answer.headers["content-disposition"].startswith("attachment")
    assert "sandbox" in answer.headers["content-security-policy"]
    (folder / "tmp12345678").write_bytes(PNG)
    (folder / "deep_links").mkdir(exist_ok=True)
    (folder / "deep_links" / "state.json").write_text("[]")
    secret = tmp_path / "secret.png"
    secret.write_bytes(PNG)
    link = folder / ("upload-" + "0" * 32)
    link.symlink_to(tmp_path)
    inner = folder / ("upload-" + "1" * 32)
    inner.mkdir()
    (inner / "a.png").symlink_to(secret)
    refused = [
        secret, "/etc/hostname", folder, folder / "tmp12345678", folder / "deep_links/state.json",
        f"{path}/../../../secret.png", Path(path).parent, link / "secret.png", inner / "a.png",
        "http://127.0.0.1:1/a.png", "file:///etc/hostname", "//evil.example/a", f"{path}%00.png",
        "~/.ssh/id_rsa", "relative.png", str(path).replace("/", "\\"),
    ]  # fmt: skip
    for name in refused:
        for prefix in ("file=", "file/", "proxy="):
            assert ask.get(f"{API}/{prefix}{name}").status_code == 404, name
    link.unlink()


def test_a_part_of_a_file_is_sent_and_no_header_is_sent_back(ask: httpx.Client) -> None:
    (path,) = ask.post(f"{API}/upload", files={"files": ("a.png", bytes(1000))}).json()
    headers = {"range": "bytes=0-9", "x-secret": "1", "cookie": "a=b"}
    answer = ask.get(f"{API}/file={path}", headers=headers)
    assert answer.status_code == 206 and len(answer.content) == 10
    assert not {"x-secret", "cookie"} & set(answer.headers)
    many = {"range": "bytes=" + ",".join(f"{n}-{n}" for n in range(0, 900, 2))}
    assert len(ask.get(f"{API}/file={path}", headers=many).content) <= 2000


# --- folders that killed servers leave


def test_a_folder_is_gone_with_its_process_and_never_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_folder.tempfile, "gettempdir", lambda: str(tmp_path))
    script = (
        "import sys, time; from app.own_folder import own_folder\n"
        "with own_folder('demo-') as folder:\n"
        "    (folder / 'upload').write_text('x'); print(folder, flush=True); time.sleep(600)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        theirs = Path(process.stdout.readline().strip())
        other = tmp_path / "demo-other"
        other.mkdir()  # of a process that has not locked it yet
        precious = tmp_path / "precious"
        precious.mkdir()
        (precious / "file").write_text("x")
        (tmp_path / "demo-link").symlink_to(precious)
        (theirs / "link").symlink_to(precious)
        with own_folder.own_folder("demo-") as ours:
            assert theirs.is_dir() and ours.is_dir() and other.is_dir()
        assert not ours.exists()
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert theirs.is_dir(), "nothing tidied up after a kill -9"
        os.utime(other, (0, 0))
        with own_folder.own_folder("demo-"):
            assert not theirs.exists() and not other.exists()
        assert (precious / "file").read_text() == "x"
    finally:
        process.kill()
        process.communicate()


def test_several_signals_at_once_leave_no_file(checkpoint: Path, tmp_path: Path) -> None:
    port = free_port()
    command = [sys.executable, "-m", "app", "--port", str(port), "--checkpoint", str(checkpoint)]
    process = subprocess.Popen(
        [*command, "--device", "cpu", "--max-queue", "2"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        address = f"http://127.0.0.1:{port}/"
        assert process.stdout.readline().startswith(f"Repaint is at {address}")
        (folder,) = tmp_path.glob("repaint-demo-*")
        upload = {"files": ("cat.png", b"anything")}
        answer = httpx.post(f"{address}gradio_api/upload", files=upload, timeout=PATIENCE)
        (uploaded,) = answer.json()
        assert Path(uploaded).is_relative_to(folder) and Path(uploaded).is_file()
        for number in range(300):
            (folder / f"{number}.jpg").write_text("x")
        for one in (signal.SIGTERM, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            process.send_signal(one)
        _, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0 and "Traceback" not in errors
        assert not list(tmp_path.glob("*repaint-*"))
    finally:
        process.kill()
        process.communicate()


# --- connections


def test_connections_that_do_nothing_give_way(page: gr.Blocks, ask: httpx.Client) -> None:
    """Forty that ask for nothing, for half of something, or do not read: others are answered."""
    head = f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{page.server_port}\r\n".encode()
    idle = []
    try:
        for request in (b"", head, head + b"\r\n", (head + b"\r\n") * 3) * 10:
            connection = socket.create_connection(("127.0.0.1", page.server_port))
            connection.sendall(request)
            idle.append(connection)
        assert ask.get("/robots.txt").status_code == 200
        ends = time.monotonic() + PATIENCE
        while len(page.server.crowd) > 13 and time.monotonic() < ends:
            time.sleep(0.02)
        assert len(page.server.crowd) <= 13
    finally:
        for connection in idle:
            connection.close()


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\n", b"GET", b"\r\n"])
def test_a_request_that_never_ends_is_ended(impatient: gr.Blocks, sent: bytes) -> None:
    address = ("127.0.0.1", impatient.server_port)
    with socket.create_connection(address, timeout=PATIENCE) as connection:
        connection.sendall(sent)
        with contextlib.suppress(ConnectionError):
            while connection.recv(1000):  # at most that it is no request
                pass


def test_a_byte_now_and_then_keeps_no_connection(impatient: gr.Blocks) -> None:
    address = ("127.0.0.1", impatient.server_port)
    with socket.create_connection(address, timeout=PATIENCE) as connection:
        began = time.monotonic()
        with pytest.raises(ConnectionError):
            while True:
                connection.sendall(b"G")
                time.sleep(0.1)
                assert time.monotonic() - began < PATIENCE


def test_an_answer_nobody_reads_waits_in_the_kernel_alone(impatient: gr.Blocks) -> None:
    """At most a piece of it is in this process, and the connection ends after its time."""
    head = f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{impatient.server_port}\r\n\r\n".encode()
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", impatient.server_port))
        connection.sendall(head * 40)
        waiting = []
        for _ in range(20 * PATIENCE):
            crowd = list(impatient.server.server_state.connections)
            waiting += [one.transport.get_write_buffer_size() for one in crowd]
            if waiting and not crowd:
                break
            time.sleep(0.05)
        assert max(waiting) <= 3 * 2**16
        assert not list(impatient.server.server_state.connections), "it never ended"


def test_long_headers_are_refused(page: gr.Blocks) -> None:
    head = f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{page.server_port}\r\n".encode()
    many = head + b"".join(b"x-%d: y\r\n" % number for number in range(5000)) + b"\r\n"
    long = head + b"x: " + b"y" * 100_000 + b"\r\n\r\n"
    for request in (many, long):
        with contextlib.suppress(ConnectionError):  # it may not hear us out
            assert raw(page, request).startswith(b"HTTP/1.1 4")


# --- what must go on working


def documented_client(address: str, downloads: Path) -> Client:
    return Client(
        address,
        verbose=False,
        analytics_enabled=False,
        httpx_kwargs={"timeout": PATIENCE},
        download_files=downloads,
    )


def test_the_documented_client_works_by_each_name(
    page: gr.Blocks, photo: Path, tmp_path: Path
) -> None:
    for host in ("127.0.0.1", "localhost"):
        client = documented_client(f"http://{host}:{page.server_port}", tmp_path)
        assert client.predict(api_name="/styles") == ["dots", "stripes"]
        assert {"/stylize", "/styles"} == set(
            client.view_api(return_format="dict")["named_endpoints"]
        )
        painted = client.predict(handle_file(photo), "dots", 0.8, api_name="/stylize")
        with Image.open(painted) as picture:
            assert picture.size == (64, 48)
        with pytest.raises(AppError, match="There is no style"):
            client.predict(handle_file(photo), "nobody", api_name="/stylize")
        client.close()


class ReverseProxy:
    """A small one that serves the demo under a path, and takes the path away or leaves it."""

    def __init__(self, target: str, path: str, strips: bool) -> None:
        self.target, self.path, self.strips = target, path, strips

    async def __call__(self, scope, receive, send) -> None:
        if scope["type"] != "http":
            return
        path = scope["path"]
        if not path.startswith(self.path):
            await send({"type": "http.response.start", "status": 404, "headers": []})
            await send({"type": "http.response.body", "body": b"outside of the path"})
            return
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        path = path[len(self.path) :] if self.strips else path
        url = f"{self.target}{path}?{scope['query_string'].decode()}"
        headers = [(k, v) for k, v in scope["headers"] if k not in (b"connection", b"te")]
        async with (
            httpx.AsyncClient(timeout=PATIENCE) as client,
            client.stream(scope["method"], url, content=body, headers=headers) as answer,
        ):
            kept = [(k.lower(), v) for k, v in answer.headers.raw]
            await send(
                {"type": "http.response.start", "status": answer.status_code, "headers": kept}
            )
            async for piece in answer.aiter_raw():
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})


@contextmanager
def proxying(target: str, path: str, strips: bool) -> Iterator[int]:
    import uvicorn

    port = free_port()
    config = uvicorn.Config(
        ReverseProxy(target, path, strips), port=port, lifespan="off", log_level="critical"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield port
    server.should_exit = True
    server.force_exit = True
    thread.join(PATIENCE)


@pytest.mark.parametrize("strips", [True, False])
def test_a_path_of_a_reverse_proxy_is_a_place_to_live(
    painter: Painter, photo: Path, tmp_path: Path, strips: bool
) -> None:
    port, get = free_port(), partial(httpx.get, timeout=PATIENCE)
    options = {"root_path": "/repaint", "proxies": ["127.0.0.1"]}
    with (
        proxying(f"http://127.0.0.1:{port}", "/repaint", strips) as outside,
        serving(
            painter, tmp_path / "files", port=port, allow_hosts=[f"127.0.0.1:{outside}"], **options
        ),
    ):
        address = f"http://127.0.0.1:{outside}/repaint/"
        text = get(address).text
        assert f'"root":"http://127.0.0.1:{outside}/repaint"' in text
        assert "evil" not in get(address, headers={"x-forwarded-host": "evil.example"}).text
        for asset in ("assets/", "static/"):
            assert f'"/{asset}' not in text
        assert get(f"{address}theme.css").status_code == 200
        secure = {"x-forwarded-proto": "https"}
        assert f'"https://127.0.0.1:{outside}/repaint"' in get(address, headers=secure).text
        client = documented_client(address, tmp_path / "down")
        painted = client.predict(handle_file(photo), "dots", api_name="/stylize")
        with Image.open(painted) as picture:
            assert picture.size == (64, 48)
        client.close()


def test_open_routes_are_what_a_browser_and_the_client_ask_for() -> None:
    """Each is named once, none by a pattern that takes in more than it says."""
    assert len({route.path for route in OPEN}) == len(OPEN)
    assert not [route.path for route in OPEN if ".*" in route.path]
