"""The service's HTTP: what comes in is checked here, counted, and handed to whoever paints."""

from __future__ import annotations

import html
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace
from typing import Any

from fastapi import FastAPI
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response

from app.look import OPTIONS, explained
from app.metrics import Metrics
from app.serve.orders import FILES, OTHERS, TYPES, Answer, Order, OrderError, log_line, order
from app.serve.pace import Pace

LARGEST = 50 * 2**20  # bytes of a request
LONGEST_WAIT = 120.0  # seconds before an order is begun
_KEPT_LINES = 10_000


class BusyError(Exception):
    """Whoever paints has no room for one more."""


class Front:
    """The application.

    Args:
        paint: paints an order; raises BusyError.
        styles, variants: built-in names, and those with all their numbers.
        most: orders that may be in hand or wait at a time.
        largest: bytes of a request.
        painters: how many paint at a time.
        longest_wait: seconds within which an order is begun, or refused: at once where it would not
            be done by then, else when those before it took longer than was expected.
    """

    def __init__(
        self,
        paint: Callable[[Order], Awaitable[Answer]],
        styles: Collection[str],
        variants: Collection[str],
        *,
        most: int,
        largest: int = LARGEST,
        painters: Callable[[], int] = lambda: 1,
        longest_wait: float = LONGEST_WAIT,
    ) -> None:
        self._paint, self.styles, self.variants = paint, list(styles), list(variants)
        self.most, self.largest, self.painters = most, largest, painters
        self.longest_wait, self.pace = longest_wait, Pace(painters)
        self.metrics = Metrics()
        self.waiting = 0
        self.draining = False
        self.lines: deque[str] = deque(maxlen=_KEPT_LINES)
        # No page of FastAPI's own: its scripts would come from another host.
        self.application = FastAPI(title="Repaint", docs_url=None, redoc_url=None)
        self._add_routes()

    def take_lines(self) -> list[str]:
        """The log's lines since the last call."""
        lines = list(self.lines)
        self.lines.clear()
        return lines

    def _add_routes(self) -> None:
        add: Any = self.application.add_api_route
        picture = {"schema": {"type": "string", "format": "binary"}}
        add(
            "/stylize",
            self.stylize,
            methods=["POST"],
            summary="Paint a photo: the body, or the field `photo` of a form",
            response_class=Response,
            openapi_extra=_described(),
            responses={
                200: {"content": {kind: picture for kind in TYPES.values()}},
                413: {"description": "too many bytes or pixels"},
                415: {"description": "no picture that can be read"},
                422: {"description": "a wrong option"},
                503: {"description": "too many are waiting; Retry-After says for how long"},
            },
        )
        add("/styles", self.style_names, methods=["GET"], summary="The built-in styles' names")
        add("/healthz", self.health, methods=["GET"], summary="200 while orders are taken")
        add("/metrics", self.measured, methods=["GET"], summary="Numbers, as Prometheus reads them")
        add("/docs", self.documentation, methods=["GET"], include_in_schema=False)
        self.application.add_exception_handler(Exception, _failed)

    async def stylize(self, request: Request) -> Response:
        started = time.monotonic()
        if self.draining or self.waiting >= self.most or self._too_long():
            return self._busy(started)
        # From here on: a body that is on its way takes memory, too.
        self.waiting += 1
        self.metrics.waiting(self.waiting)
        try:
            wanted = await self._order(request)
            answer = await self._painted(wanted)
        except BusyError:
            return self._busy(started)
        except OrderError as error:
            answer = Answer(error.status, str(error).encode())
        except Exception:
            self._note(Answer(500, b""), started)
            raise
        finally:
            self.waiting -= 1
            self.metrics.waiting(self.waiting)
        self._note(answer, started)
        headers = {"X-Content-Type-Options": "nosniff"}
        if answer.notes:
            headers["X-Repaint-Notes"] = "; ".join(answer.notes).encode("ascii", "replace").decode()
        return Response(answer.data, answer.status, headers, answer.type)

    def _too_long(self) -> bool:
        # Whoever finds an idle painter waits for nobody. Others are to be done by then, as far as
        # is known; what is known wrongly has the time of one painting, and then `begin_by` holds.
        if self.waiting < self.painters():
            return False
        return self.pace.seconds(self.waiting + 1) > self.longest_wait

    async def _painted(self, wanted: Order) -> Answer:
        number, counts = self.pace.begin(), False  # as where the caller has gone
        try:
            answer = await self._paint(replace(wanted, begin_by=time.time() + self.longest_wait))
            counts = answer.status == 200
            return answer
        except BusyError:
            counts = True
            raise
        finally:
            self.pace.end(number, counts)

    def _note(self, answer: Answer, started: float) -> None:
        waited = time.monotonic() - started
        self.metrics.answered(answer.status, answer.seconds, waited)
        self.lines.append(log_line(time.time(), answer, waited))

    def _busy(self, started: float) -> Response:
        self._note(Answer(503, b""), started)
        after = str(min(60, max(1, math.ceil(self.pace.seconds(self.waiting)))))
        text = "Too many photos are waiting; try again later."
        return PlainTextResponse(text, 503, {"Retry-After": after})

    async def _order(self, request: Request) -> Order:
        options = {name: value for name, value in request.query_params.items() if value != ""}
        files: dict[str, bytes] = {}
        length = request.headers.get("content-length", "")
        if length.isdecimal() and int(length) > self.largest:
            raise OrderError(f"A request has at most {self.largest / 2**20:g} MB.", 413)
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        # curl calls a body a form where it isn't told otherwise, and such a form holds no photo.
        if kind == "multipart/form-data":
            limited = Request(request.scope, _limited(request.receive, self.largest))
            try:
                form = await limited.form(max_files=len(FILES), max_fields=64)
            except HTTPException as error:
                raise OrderError(f"The form can't be read: {error.detail}", 400) from error
            try:
                for name, value in form.multi_items():
                    if isinstance(value, UploadFile):
                        files[name] = await value.read()
                    elif value != "":
                        options[name] = value
            finally:
                await form.close()
        else:
            parts, count = [], 0
            async for part in request.stream():
                count += len(part)
                if count > self.largest:
                    raise OrderError(f"A request has at most {self.largest / 2**20:g} MB.", 413)
                parts.append(part)
            files["photo"] = b"".join(parts)
        return order(options, files, self.variants)

    async def style_names(self, variants: bool = False) -> list[str]:
        return self.variants if variants else self.styles

    async def health(self) -> Response:
        if self.draining:
            return JSONResponse({"status": "draining"}, 503)
        return JSONResponse({"status": "ok", "waiting": self.waiting, "most": self.most})

    async def measured(self) -> Response:
        return PlainTextResponse(self.metrics.text(), media_type=self.metrics.TYPE)

    async def documentation(self) -> Response:
        return HTMLResponse(_page())


async def _failed(request: Request, error: Exception) -> Response:
    """A mistake of ours; JSON, which tells it from what a proxy says in its own name."""
    return JSONResponse({"detail": "Internal Server Error"}, 500)


def _limited(receive: Any, most: int) -> Any:
    """The same, but no more than so many bytes come of it."""
    count = 0

    async def limited() -> Any:
        nonlocal count
        message = await receive()
        count += len(message.get("body", b""))
        if count > most:
            raise OrderError(f"A request has at most {most / 2**20:g} MB.", 413)
        return message

    return limited


def _parameters() -> list[dict]:
    described = [
        {"name": name, "in": "query", "description": text, "schema": {"type": "string"}}
        for name, text in OTHERS.items()
    ]
    for name, option in OPTIONS.items():
        schema: dict[str, Any] = {"type": "string", "default": option.default}
        if "range" in option.metadata:
            least, most = option.metadata["range"]
            schema |= {"type": "number", "minimum": least, "maximum": most}
        else:
            known = [str(choice) for choice in option.metadata["choices"] if choice is not None]
            schema |= {"enum": known}
            if option.default is None:
                del schema["default"]
        described.append(
            {"name": name, "in": "query", "description": explained(option), "schema": schema}
        )
    return described


def _described() -> dict:
    """What OpenAPI says of an order."""
    file = {"type": "string", "format": "binary"}
    fields = {name: {**file, "description": text} for name, text in FILES.items()}
    fields |= {
        each["name"]: {**each["schema"], "description": each["description"]}
        for each in _parameters()
    }
    form = {"schema": {"type": "object", "properties": fields, "required": ["photo"]}}
    content = {"multipart/form-data": form, "image/*": {"schema": file}}
    return {
        "parameters": _parameters(),
        "requestBody": {"required": True, "content": content},
    }


def _page() -> str:
    """The service's documentation: one page that needs nothing from elsewhere."""
    rows = "".join(
        f"<tr><td><code>{html.escape(name)}</code><td>{html.escape(text)}"
        for name, text in [
            *FILES.items(),
            *OTHERS.items(),
            *((name, explained(option)) for name, option in OPTIONS.items()),
        ]
    )
    return f"""<!doctype html><html lang="en"><meta charset="utf-8"><title>Repaint</title>
<style>
body {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 50rem; margin: 2rem auto }}
td {{ padding: .2rem .8rem .2rem 0; vertical-align: top }}
pre {{ background: #eee; padding: 1rem }}
</style><h1>Repaint: the service</h1>
<p><code>POST /stylize</code> paints a photo: the request's body, or the field
<code>photo</code> of a form. Options stand in the address or are fields of the form.</p>
<pre>curl --data-binary @cat.jpg -H 'Content-Type: image/jpeg' \\
     'http://HOST/stylize?style=monet&amp;strength=0.8&amp;format=jpg' -o painted.jpg
curl -F photo=@cat.jpg -F painting=@own.png http://HOST/stylize -o painted.png</pre>
<table>{rows}</table>
<p>Answers: 200 with the picture; 413, 415 or 422 with a sentence on what is wrong; 503 with
<code>Retry-After</code> where too many wait.</p>
<p><code>GET /styles</code>, <code>GET /healthz</code>, <code>GET /metrics</code>;
<a href="openapi.json">openapi.json</a> has it all for programs.</p></html>"""
