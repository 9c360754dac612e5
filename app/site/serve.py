"""The command ``python -m app.site.serve``: the built page on this machine, with its headers."""

from __future__ import annotations

import argparse
import contextlib
import functools
import gzip
import sys
from collections.abc import Mapping, Sequence
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

from app import terminal
from app.compression import takes_gzip

# What lets a page use threads, and nobody else's page embed it.
HEADERS = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "; ".join(
        (
            "default-src 'self'",
            "img-src 'self' blob: data:",
            "script-src 'self' 'wasm-unsafe-eval'",
            "worker-src 'self' blob:",
            "connect-src 'self' blob: data:",
            "style-src 'self' 'unsafe-inline'",
            "object-src 'none'; base-uri 'none'; frame-ancestors 'none'",
        )
    ),
    "Cache-Control": "no-cache",
}
TYPES = {
    ".mjs": "text/javascript",
    ".js": "text/javascript",
    ".wasm": "application/wasm",
    ".webmanifest": "application/manifest+json",
    ".onnx": "application/octet-stream",
    ".bin": "application/octet-stream",
    ".webp": "image/webp",
}
PACKED_ALREADY = {".jpg", ".png", ".webp"}


@functools.cache
def _zipped(path: str, changed: int) -> bytes:
    return gzip.compress(Path(path).read_bytes(), 9, mtime=0)


class Handler(SimpleHTTPRequestHandler):
    """Serves a folder, compressed where the browser can read that."""

    protocol_version = "HTTP/1.1"  # by 1.0 browsers don't ask whether what they have is still right
    extensions_map = SimpleHTTPRequestHandler.extensions_map | TYPES
    added: ClassVar[Mapping[str, str]] = HEADERS

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        if path.is_dir():
            path = path / "index.html"
        zips = takes_gzip(",".join(self.headers.get_all("Accept-Encoding", [])))
        if not (path.is_file() and zips and path.suffix not in PACKED_ALREADY):
            super().do_GET()
            return
        changed = path.stat().st_mtime_ns
        tag = f'"{changed:x}-{path.stat().st_size:x}"'
        if self.headers.get("If-None-Match") == tag:
            self.send_response(304)
            self.send_header("ETag", tag)
            self.end_headers()
            return
        body = _zipped(str(path), changed)
        self.send_response(200)
        self.send_header("ETag", tag)
        self.send_header("Vary", "Accept-Encoding")
        self.send_header("Content-Type", self.guess_type(str(path)))
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def end_headers(self) -> None:
        for name, value in self.added.items():
            self.send_header(name, value)
        super().end_headers()

    def log_message(self, *_: object) -> None:
        pass


class Bare(Handler):
    """A host as GitHub Pages: no header of one's own, and what it sends counts for ten minutes."""

    added: ClassVar[Mapping[str, str]] = {"Cache-Control": "max-age=600"}


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A browser that no longer listens is nobody's error."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


def server(folder: Path, port: int = 0, kind: type[Handler] = Handler) -> ThreadingHTTPServer:
    """A server of a folder on this machine alone; port 0 is any that is free."""
    return _Server(("127.0.0.1", port), functools.partial(kind, directory=str(folder)))


def main(argv: Sequence[str] | None = None) -> int:
    terminal.show_anything()
    parser = argparse.ArgumentParser(prog="python -m app.site.serve", description="Show the page.")
    parser.add_argument("--folder", type=Path, default=Path("site"))
    parser.add_argument("--port", type=int, default=8080)
    args = parser.parse_args(argv)
    if not (args.folder / "index.html").is_file():
        return terminal.failed(f"{args.folder} holds no page: make site builds it", 2)
    try:
        serving = server(args.folder, args.port)
    except OSError as error:
        return terminal.failed(f"port {args.port}: {error.strerror}", 2)
    print(f"http://127.0.0.1:{args.port}  (Ctrl-C ends it)")
    with contextlib.suppress(KeyboardInterrupt):
        serving.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
