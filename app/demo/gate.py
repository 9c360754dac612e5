"""The gate: what of a request is looked at before Gradio sees any of it.

Gradio brings some sixty routes; the page and gradio_client use nineteen. Those are listed here
beside /page/, ours, and everything else does not exist: what a newer Gradio adds is
closed until somebody opens it here.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import re
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Collection
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from urllib.parse import quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.compression import takes_gzip
from app.demo.hosts import Hosts
from app.demo.places import Places, visitor
from app.demo.refusal import Refusal
from app.demo.uploads import LARGEST_UPLOAD, Uploads

_log = logging.getLogger(__name__)

# Bytes. Beside uploads the largest that a page sends is a drawn mask.
LARGEST_REQUEST = 2**20

# Seconds for a small body as a whole, for each piece of an upload, and the slowest that an upload
# may be on average, bytes a second.
SMALL_BODY_TIME, PIECE_TIME, SLOWEST_UPLOAD = 15.0, 30.0, 4096

# Seconds and bytes for which the rest of a refused body is read: a client that is cut off while it
# still sends does not see why.
_HEAR_OUT, _HEAR_OUT_BYTES = 5.0, 64 * 2**20

# Of a request: how many headers, and their bytes.
_MOST_HEADERS, _LONGEST_HEADERS = 100, 16 * 2**10

# Bytes of an answer that are handed on at a time, so that no more of it waits for a slow reader.
_PIECE = 64 * 2**10

# Bytes of kept answers: the page with all its scripts is about 12 MB.
_KEPT = 32 * 2**20
_COMPRESSED = ("text/", "application/javascript", "application/json", "image/svg")

# Stands for the host in a kept page until somebody asks for it by name.
_ANY_HOST = "repaint.invalid"

_NAME = r"[\w-]{1,64}"
_FILE_NAME = r"[\w.-]{1,128}"


@dataclass(frozen=True)
class Route:
    """One route that is open. kind: which of the gate's ways it goes.

    "kept": the same for everybody, made once. "json": a small body, which is looked at. "events":
    goes on for long. "upload", "progress", "file": of `Uploads`, never Gradio's.
    """

    methods: tuple[str, ...]
    path: str
    kind: str


_GET, _POST = ("GET", "HEAD"), ("POST",)

OPEN = (
    Route(_GET, "/", "kept"),
    Route(_GET, "/config", "kept"),
    Route(_GET, "/theme.css", "kept"),
    Route(_GET, "/favicon.ico", "kept"),
    Route(_GET, "/manifest.json", "kept"),
    Route(_GET, "/robots.txt", "kept"),
    Route(_GET, rf"/page/{_FILE_NAME}", "kept"),
    Route(_GET, rf"/assets/{_FILE_NAME}", "kept"),
    Route(_GET, rf"/static/(?:{_FILE_NAME}/){{0,3}}{_FILE_NAME}", "kept"),
    Route(_GET, "/gradio_api/info", "kept"),
    # A number that every server draws anew: by it a page sees that it has another one.
    Route(_GET, "/gradio_api/app_id", "kept"),
    Route(_POST, "/gradio_api/queue/join", "json"),
    Route(("GET",), "/gradio_api/queue/data", "events"),
    # Only listeners that do not wait in the queue: see Gate._refuse_body.
    Route(_POST, "/gradio_api/run/predict", "json"),
    Route(_POST, "/gradio_api/cancel", "json"),
    Route(_POST, "/gradio_api/reset", "json"),
    Route(("GET",), rf"/gradio_api/heartbeat/{_NAME}", "events"),
    Route(_POST, "/gradio_api/upload", "upload"),
    Route(("GET",), "/gradio_api/upload_progress", "progress"),
    Route(_GET, r"/gradio_api/file=(?P<path>.{1,1000})", "file"),
)

# What Gradio is told of a request. Above all not who asked whom through which proxy: it would take
# anybody's word for it.
_HEADERS = {b"host", b"content-type", b"content-length", b"accept", b"user-agent"}

_POLICY = "; ".join(
    [
        "default-src 'self'",
        # Gradio's page makes functions of text, and has scripts within it.
        "script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "media-src 'self' data: blob:",
        "font-src 'self' data:",
        "connect-src 'self' data: blob:",
        "worker-src 'self' blob:",
        "object-src 'none'",
        "base-uri 'self'",
        "form-action 'self'",
    ]
)


class Gate:
    """Lets in what the page needs, and tells everybody else why not.

    application: Gradio's. hosts: the names that the server answers for. is_direct: whether a
    listener, by its number, is to be run without the queue; None where there is none. uploads:
    where files go. places: of the queue. root_path: under which a reverse proxy serves the page
    ("/repaint"). embedders: origins whose pages may show this one in a frame. each: requests of one
    visitor that may run at a time.
    """

    def __init__(
        self,
        application: ASGIApp,
        *,
        hosts: Hosts,
        is_direct: Callable[[int], bool | None],
        uploads: Uploads,
        places: Places,
        root_path: str = "",
        embedders: Collection[str] = (),
        each: int = 128,
    ) -> None:
        self.application = application
        self.hosts, self.is_direct, self.uploads = hosts, is_direct, uploads
        self.places = places
        self.root_path = root_path.rstrip("/")
        self.each = each
        self.kept = Kept(application)
        self._routes = [(re.compile(route.path), route) for route in OPEN]
        self._running: Counter[str] = Counter()
        self._headers = {
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "same-origin",
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Permissions-Policy": "camera=(self), microphone=(), geolocation=(), payment=()",
            "Content-Security-Policy": f"{_POLICY}; frame-ancestors "
            + (" ".join(embedders) or "'none'"),
        }
        if not embedders:
            self._headers["X-Frame-Options"] = "DENY"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.application(scope, receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, self._with_headers(send))
        else:  # a websocket: nothing here is one
            await send({"type": "websocket.close", "code": 1008})

    def _with_headers(self, send: Send) -> Send:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers.setdefault(name, value)
            await send(message)

        return send_with_headers

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        address = scope["client"][0] if scope.get("client") else ""
        asks = visitor(address)
        self._running[asks] += 1
        try:
            if self._running[asks] > self.each:
                raise Refusal(503, "You have too many requests running; try again later.")
            host, scheme = self._check_asker(scope)
            scope = self._within(scope)
            route, path = self._find(scope)
            if route.kind == "kept":
                await self.kept.answer(scope, f"{scheme}://{host}", receive, send)
            elif route.kind == "file":
                await self.uploads.file(path)(scope, receive, send)
            elif route.kind == "upload":
                limited = self._limited(scope, receive, LARGEST_UPLOAD)
                answer = await self.uploads.upload(Request(scope, limited))
                await answer(scope, receive, send)
            elif route.kind == "progress":
                await self.uploads.progress(Request(scope))(scope, receive, send)
            else:
                heard = receive
                if route.kind == "json":
                    body = await self._read_json(scope, receive)
                    self._refuse_body(scope["path"], body)
                    heard = _replay(body, receive)
                told = [(key, value) for key, value in scope["headers"] if key in _HEADERS]
                scope = {**scope, "headers": told, "scheme": scheme}
                joins = route.path.endswith("/join")
                with self.places.joining(address) if joins else nullcontext():
                    await self._ask(route, scope, heard, send)
        except Refusal as refusal:
            await _refuse(refusal, scope, receive, send)
        except ClientDisconnect:
            pass
        finally:
            self._running[asks] -= 1
            if not self._running[asks]:
                del self._running[asks]

    async def _ask(self, route: Route, scope: Scope, receive: Receive, send: Send) -> None:
        """Has Gradio answer."""
        try:
            await self.application(scope, receive, send)
        except Exception as error:
            if route.kind != "events":
                raise
            # It has told the visitor that there is no such session, or no longer, and raises that
            # again where nobody can be answered: a page in the log for whoever asks.
            _log.debug("a stream of events ended", exc_info=error)
            with suppress(RuntimeError):
                await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _check_asker(self, scope: Scope) -> tuple[str, str]:
        """The host and the scheme that the request is for; refuses foreign pages' requests."""
        size = sum(len(name) + len(value) for name, value in scope["headers"])
        if len(scope["headers"]) > _MOST_HEADERS or size > _LONGEST_HEADERS:
            raise Refusal(431, "The headers of this request are too long.")
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not self.hosts.allows(host):
            shown = host if re.fullmatch(r"[\w.:\[\]-]{1,100}", host) else "that name"
            raise Refusal(
                403,
                f"This server does not answer for {shown}. "
                "If it should, start it with --allow-host and that name.",
            )
        scheme = scope.get("scheme", "http")
        # A browser sends one; of several it is unknown who has added which.
        if origins := headers.getlist("origin"):
            if not all(self.hosts.allows_origin(origin, host) for origin in origins):
                raise Refusal(403, "Pages of other origins may not ask this server.")
            scheme = origins[0].partition(":")[0]
        # Browsers say so even where they send no Origin: for pictures, scripts and links.
        elif headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not (
            headers.get("sec-fetch-mode") == "navigate" and scope["method"] in _GET
        ):
            raise Refusal(403, "Pages of other origins may not ask this server.")
        return host, scheme

    def _within(self, scope: Scope) -> Scope:
        """The request without the path that a reverse proxy serves the page under."""
        path = scope["path"]
        if self.root_path and (path + "/").startswith(self.root_path + "/"):
            path = path[len(self.root_path) :] or "/"
        return {**scope, "path": path, "raw_path": quote(path).encode(), "root_path": ""}

    def _find(self, scope: Scope) -> tuple[Route, str]:
        """The open route, and what its path names."""
        path, method = scope["path"], scope["method"]
        for pattern, route in self._routes:
            if found := pattern.fullmatch(path):
                if method not in route.methods:
                    raise Refusal(405, f"This is asked for with {route.methods[0]}.")
                return route, found.groupdict().get("path", "")
        raise Refusal(404, "There is nothing here.")

    def _limited(self, scope: Scope, receive: Receive, most: int) -> Receive:
        """As `receive`; refuses what is larger than `most` bytes, or comes too slowly."""
        length = Headers(scope=scope).get("content-length", "0")
        too_large = Refusal(
            413, f"This request is too large; at most {most / 2**20:g} MB are taken."
        )
        if not length.isdigit() or len(length) > 15 or int(length) > most:
            raise too_large
        small = most <= LARGEST_REQUEST
        began, came = time.monotonic(), 0

        async def receive_some() -> Message:
            nonlocal came
            took = time.monotonic() - began
            wait = SMALL_BODY_TIME - took if small else PIECE_TIME
            try:
                message = await asyncio.wait_for(receive(), max(wait, 0.001))
            except asyncio.TimeoutError:
                raise Refusal(408, "This request came too slowly.") from None
            came += len(message.get("body", b""))
            if came > most:
                raise too_large
            if not small and took > PIECE_TIME and came < took * SLOWEST_UPLOAD:
                raise Refusal(408, "This request came too slowly.")
            return message

        return receive_some

    async def _read_json(self, scope: Scope, receive: Receive) -> bytes:
        kind = Headers(scope=scope).get("content-type", "")
        if kind.partition(";")[0].strip().lower() != "application/json":
            # Anything else could be sent by a form on any page.
            raise Refusal(415, "This is asked with JSON, and says so in its Content-Type.")
        receive, body = self._limited(scope, receive, LARGEST_REQUEST), bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Refusal(400, "The request was cut off.")
            body += message.get("body", b"")
            if not message.get("more_body", False):
                return bytes(body)

    def _refuse_body(self, path: str, body: bytes) -> None:
        """Refuses what is no request of a page, before it becomes a mistake inside of Gradio."""
        try:
            asked = json.loads(body, parse_constant=_not_json)
            json.dumps(asked, ensure_ascii=False).encode()  # half a character is no text
        except (ValueError, RecursionError):
            raise Refusal(400, "This request is not JSON.") from None
        if not isinstance(asked, dict) or _depth(asked) > 20:
            raise Refusal(400, "This request is not of the form that the page sends.")
        session, event = asked.get("session_hash"), asked.get("event_id")
        for name in (session, event):
            if name is not None and not (isinstance(name, str) and re.fullmatch(_NAME, name)):
                raise Refusal(400, "A session is named by up to 64 letters and digits.")
        if path.endswith(("/cancel", "/reset")):
            return
        number, data = asked.get("fn_index"), asked.get("data")
        if not isinstance(data, list) or not isinstance(session, str):
            raise Refusal(400, 'This request lacks a list "data", or a "session_hash".')
        if type(number) is not int or (direct := self.is_direct(number)) is None:
            raise Refusal(404, "There is no listener of this number.")
        if path.endswith("/run/predict") and not direct:
            raise Refusal(403, "This waits in the queue: ask it of /gradio_api/queue/join.")


class Kept:
    """Answers that are the same for everybody, made once and kept, with their compressed form."""

    def __init__(self, application: ASGIApp) -> None:
        self.application = application
        self._answers: OrderedDict[tuple[str, str], _Answer] = OrderedDict()
        self._making = asyncio.Lock()

    async def answer(self, scope: Scope, root: str, receive: Receive, send: Send) -> None:
        """root: what the page is to take for the server's own address, "http://host:port"."""
        path = scope["path"]
        made = self._answers.get((path, ""))
        if made is None:
            async with self._making:
                made = self._answers.get((path, "")) or await self._make(path)
                if made.status == 200:
                    self._keep((path, ""), made)
        if made.names_host:
            asked = self._answers.get((path, root))
            if asked is None:
                asked = made.of_host(root)
                self._keep((path, root), asked)
            made = asked
            self._answers.move_to_end((path, root))
        elif made.status == 200:
            self._answers.move_to_end((path, ""))
        await made.send(scope, send)

    def _keep(self, key: tuple[str, str], answer: _Answer) -> None:
        self._answers[key] = answer
        while sum(len(kept) for kept in self._answers.values()) > _KEPT:
            self._answers.popitem(last=False)

    async def _make(self, path: str) -> _Answer:
        """Asks Gradio as a browser of no particular host would."""
        status, kind, body, asked = 500, "text/plain", bytearray(), False

        async def receive() -> Message:
            nonlocal asked
            if asked:
                await asyncio.Event().wait()
            asked = True
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Message) -> None:
            nonlocal status, kind
            if message["type"] == "http.response.start":
                status = message["status"]
                kind = Headers(raw=message["headers"]).get("content-type", kind)
            elif message["type"] == "http.response.body":
                body.extend(message.get("body", b""))

        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "server": (_ANY_HOST, 80),
            "client": None,
            "root_path": "",
            "path": path,
            "raw_path": quote(path).encode(),
            "query_string": b"",
            "headers": [(b"host", _ANY_HOST.encode())],
            "state": {},
        }
        await self.application(scope, receive, send)
        text = bytes(body)
        if path == "/":  # whose only address that does not heed the path it is served under
            text = text.replace(b'href="/manifest.json"', b'href="./manifest.json"')
        return _Answer(status, kind, text, lasting=path.startswith("/assets/"))


class _Answer:
    def __init__(self, status: int, kind: str, body: bytes, lasting: bool = False) -> None:
        self.status, self.kind, self.body, self.lasting = status, kind, body, lasting
        self.names_host = f"http://{_ANY_HOST}".encode() in body
        self.compressed: bytes | None = None
        if not self.names_host and kind.startswith(_COMPRESSED) and len(body) > 512:
            self.compressed = gzip.compress(body, 6)

    def __len__(self) -> int:
        return len(self.body) + len(self.compressed or b"")

    def of_host(self, root: str) -> _Answer:
        text = self.body.replace(f"http://{_ANY_HOST}".encode(), root.encode())
        return _Answer(self.status, self.kind, text, self.lasting)

    async def send(self, scope: Scope, send: Send) -> None:
        zips = takes_gzip(",".join(Headers(scope=scope).getlist("accept-encoding")))
        body = self.compressed if self.compressed and zips else self.body
        headers = {
            "Content-Type": self.kind,
            "Content-Length": str(len(body)),
            "Cache-Control": "public, max-age=31536000, immutable" if self.lasting else "no-cache",
            "Vary": "Accept-Encoding",
        }
        if body is self.compressed:
            headers["Content-Encoding"] = "gzip"
        raw = [(key.lower().encode(), value.encode()) for key, value in headers.items()]
        await send({"type": "http.response.start", "status": self.status, "headers": raw})
        pieces = range(0, len(body), _PIECE) if scope["method"] != "HEAD" else ()
        for start in pieces:
            piece = body[start : start + _PIECE]
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _refuse(refusal: Refusal, scope: Scope, receive: Receive, send: Send) -> None:
    """Says why, and then reads what the client still sends, or it would not see the answer."""
    if scope["path"].endswith("/upload") or scope["method"] != "POST":
        answer: Response = PlainTextResponse(refusal.sentence, refusal.status)
    else:
        answer = JSONResponse(
            {"detail": refusal.sentence, "error": refusal.sentence}, refusal.status
        )
    answer.headers["Connection"] = "close"
    answer.headers["Cache-Control"] = "no-store"
    await send(
        {"type": "http.response.start", "status": refusal.status, "headers": answer.raw_headers}
    )
    await send({"type": "http.response.body", "body": answer.body, "more_body": True})
    if _has_body(scope):
        await _hear_out(receive)
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def _has_body(scope: Scope) -> bool:
    headers = Headers(scope=scope)
    if headers.get("expect", "").lower() == "100-continue":
        return False  # such a client waits for the answer before it sends anything
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers


async def _hear_out(receive: Receive) -> None:
    ends, left = time.monotonic() + _HEAR_OUT, _HEAR_OUT_BYTES
    while left > 0:
        try:
            message = await asyncio.wait_for(receive(), max(ends - time.monotonic(), 0.001))
        except (asyncio.TimeoutError, Refusal):
            return
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            return
        left -= len(message.get("body", b""))


def _replay(body: bytes, receive: Receive) -> Callable[[], Awaitable[Message]]:
    given = False

    async def receive_again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


def _not_json(name: str) -> None:
    raise ValueError(f"{name} is no number")


def _depth(value: object) -> int:
    """How deep lists and objects lie in each other; json.loads has refused what is endless."""
    depth, level = 0, [value]
    while level:
        depth += 1
        level = [
            inner
            for outer in level
            for inner in (
                outer.values()
                if isinstance(outer, dict)
                else outer
                if isinstance(outer, list)
                else ()
            )
            if isinstance(inner, (dict, list))
        ]
    return depth
