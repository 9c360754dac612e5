"""What Ray's proxy says in its own name, while the application is not there: 503."""

from __future__ import annotations

from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Ray Serve's proxies call what this variable names, if it is set where Ray is started.
VARIABLE = "RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH"
NAME = "app.serve.proxy:middlewares"

_AGAIN_AFTER = b"5"  # seconds
_TEXT = b"The service is starting or ending; try again later."

# While no application is known, and where the front ended with an order in hand.
_ITS_OWN = (404, 500)


class ComeBack:
    """An ASGI middleware: the proxy's own "not found" and errors are 503 and when to come back.

    The application's are JSON, and stay.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        replaced = False

        async def sending(message: Message) -> None:
            nonlocal replaced
            if message["type"] == "http.response.start" and _is_the_proxys(message):
                replaced = True
                headers = [
                    (b"content-type", b"text/plain; charset=utf-8"),
                    (b"content-length", str(len(_TEXT)).encode()),
                    (b"retry-after", _AGAIN_AFTER),
                ]
                await send({**message, "status": 503, "headers": headers})
            elif not replaced:
                await send(message)
            elif not message.get("more_body", False):
                await send({"type": "http.response.body", "body": _TEXT})

        await self.app(scope, receive, sending)


def _is_the_proxys(start: Message) -> bool:
    kinds = [value for name, value in start.get("headers", ()) if name.lower() == b"content-type"]
    return start["status"] in _ITS_OWN and any(kind.startswith(b"text/plain") for kind in kinds)


def middlewares() -> list[Middleware]:
    """What a proxy is to put around what it serves."""
    return [Middleware(ComeBack)]
