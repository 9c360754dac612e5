"""What Gradio's page does not have: its own head, scripts and pictures.

They lie under /page/, and nothing else does.
"""

from __future__ import annotations

import html
import mimetypes
import re
from collections.abc import Mapping

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.demo.components import ASSETS
from app.demo.examples import CARD

TITLE = "Repaint: your photo as a painting"
DESCRIPTION = (
    "Choose a photo, tap a painter, and have it painted by Cézanne, Monet, Van Gogh or as a "
    "woodblock print. Free, in the browser, and your photo stays yours."
)
# Of the page's background in either scheme: a phone colors its bars with it.
THEME_COLORS = {"light": "#fafaf9", "dark": "#0c0a09"}

# In the order in which the page reads them.
SCRIPTS = ("store.js", "connection.js", "photos.js", "sharing.js", "director.js")

STYLE = "page.css"

PREFIX = "/page/"

# What Gradio's page says of itself to those who preview a link to it.
_ITS_OWN = re.compile(r"<meta\s+(?:property=\"og:|name=\"twitter:)[^>]*?/>\s*", re.DOTALL)


class Front:
    """Gradio's page with our head; beside it our scripts, and the pictures of `pictures`.

    application: Gradio's. pictures: files' bytes by their names. root_path: under which a reverse
    proxy serves the page.
    """

    def __init__(
        self, application: ASGIApp, pictures: Mapping[str, bytes], root_path: str = ""
    ) -> None:
        self.application, self.root_path = application, root_path.rstrip("/")
        self.files = dict(pictures)
        for name in (*SCRIPTS, STYLE, "icon.svg"):
            self.files[name] = (ASSETS / "page" / name).read_bytes()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if scope["type"] == "http" and path.startswith(PREFIX):
            await self._file(path.removeprefix(PREFIX), send)
        elif scope["type"] == "http" and path in ("/", "/favicon.ico", "/manifest.json"):
            await self._changed(path, scope, receive, send)
        else:
            await self.application(scope, receive, send)

    async def _file(self, name: str, send: Send) -> None:
        body = self.files.get(name)
        if body is None:
            await _answer(404, "text/plain", b"There is nothing here.", send)
        else:
            kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
            kind = "application/javascript" if name.endswith(".js") else kind
            await _answer(200, kind, body, send)

    async def _changed(self, path: str, scope: Scope, receive: Receive, send: Send) -> None:
        if path == "/favicon.ico":
            await self._file("icon.svg", send)
            return
        if path == "/manifest.json":
            await _answer(200, "application/manifest+json", _MANIFEST, send)
            return
        status, kind, body = 500, "text/plain", bytearray()

        async def collect(message: Message) -> None:
            nonlocal status, kind
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = dict(message["headers"])
                kind = headers.get(b"content-type", b"text/html").decode()
            elif message["type"] == "http.response.body":
                body.extend(message.get("body", b""))

        await self.application(scope, receive, collect)
        text = bytes(body)
        if status == 200:
            host = dict(scope["headers"]).get(b"host", b"").decode()
            address = f"{scope['scheme']}://{host}{self.root_path}"
            text = with_head(text.decode(), address).encode()
        await _answer(status, kind, text, send)


def with_head(page: str, address: str) -> str:
    """Gradio's page with a title, a preview and an icon of our own, and our scripts before its."""
    page = _ITS_OWN.sub("", page)
    meta = {
        "og:title": TITLE,
        "og:type": "website",
        "og:url": f"{address}/",
        "og:description": DESCRIPTION,
        "og:image": f"{address}{PREFIX}{CARD}",
        "og:image:alt": "A photo of a pagoda and its painting, side by side",
    }
    lines = [f"<title>{html.escape(TITLE)}</title>"]
    lines += [f'<meta name="description" content="{html.escape(DESCRIPTION)}" />']
    lines += [f'<meta property="{k}" content="{html.escape(v)}" />' for k, v in meta.items()]
    lines += ['<meta name="twitter:card" content="summary_large_image" />']
    lines += [
        f'<meta name="theme-color" content="{color}" media="(prefers-color-scheme: {scheme})" />'
        for scheme, color in THEME_COLORS.items()
    ]
    lines += ['<link rel="icon" type="image/svg+xml" href="./page/icon.svg" />']
    lines += [f'<script src="./page/{name}"></script>' for name in SCRIPTS]
    lines += [f'<link rel="stylesheet" href="./page/{STYLE}" />']
    head, opened, rest = page.partition("</head>")
    return head + "\n".join(lines) + opened + rest


_MANIFEST = b"""{"name": "Repaint", "short_name": "Repaint", "display": "browser",
 "icons": [{"src": "./page/icon.svg", "type": "image/svg+xml", "sizes": "any"}]}"""


async def _answer(status: int, kind: str, body: bytes, send: Send) -> None:
    headers = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
