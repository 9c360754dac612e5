"""Files of visitors: what comes in by an upload, and what goes out by its name."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import re
import secrets
import shutil
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import anyio.to_thread
from gradio_client.utils import strip_invalid_filename_characters
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import Request
from starlette.responses import (
    FileResponse,
    JSONResponse,
    PlainTextResponse,
    Response,
    StreamingResponse,
)

from app.demo.refusal import Refusal

if TYPE_CHECKING:  # where alone the library has it
    from python_multipart.multipart import MultipartCallbacks

# Bytes of one file: a phone's raw-quality HEIC or a 50 megapixel JPEG passes.
LARGEST_FILE = 50 * 2**20
# And of a clip, by its name: a minute in full HD as phones record it.
LARGEST_CLIP = 200 * 2**20
CLIP_SUFFIXES = {".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".3gp", ".mpg", ".mpeg"}
CLIP_SUFFIXES |= {".ts", ".mts", ".m2ts", ".wmv", ".ogv", ".flv"}
# Bytes and files of one request: the page sends all photos of a batch in one.
LARGEST_UPLOAD, MOST_FILES = 2**30, 500
# Bytes that stay free on the disk whatever is uploaded.
KEPT_FREE = 2**30
# Bytes and number of the headers of a file's part.
_LONGEST_PART_HEADER, _MOST_PART_HEADERS = 2048, 8

# Uploads whose progress is watched, and the seconds that one is remembered after its end.
_MOST_WATCHED, _REMEMBERED = 500, 10

# What this server wrote itself: uploads, results, and Gradio's copies of the page's own pictures.
_OURS = re.compile(r"upload-[0-9a-f]{32}|result-[0-9a-f]{32}|[0-9a-f]{64}")

# Shown by a browser within a page; anything else is only to be saved.
_SHOWN = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".webp": "image/webp"}
_SHOWN |= {".gif": "image/gif", ".mp4": "video/mp4"}


# How an upload is malformed is the visitor's own affair: it would fill the log.
logging.getLogger("python_multipart").setLevel(logging.ERROR)

_NO_ROOM = "There is no room for it; try again later."


class _Parts:
    """Writes the files of a multipart body into folders of their own, piece by piece."""

    def __init__(self, folder: Path, progress: _Progress | None) -> None:
        self.folder, self.progress = folder, progress
        self.files: list[Path] = []
        self.folders: list[Path] = []
        self.complete = False
        self._open: BinaryIO | None = None
        self._headers: dict[bytes, bytes] = {}
        self._name, self._value = b"", b""
        self._size, self._most = 0, LARGEST_FILE

    def callbacks(self) -> MultipartCallbacks:
        return {
            "on_part_begin": self._begin,
            "on_header_field": self._header_name,
            "on_header_value": self._header_value,
            "on_header_end": self._header_end,
            "on_headers_finished": self._headers_finished,
            "on_part_data": self._data,
            "on_part_end": self.close,
            "on_end": self._end,
        }

    def _begin(self) -> None:
        self._headers, self._name, self._value, self._size = {}, b"", b"", 0

    def _header_name(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]
        self._check_header()

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]
        self._check_header()

    def _check_header(self) -> None:
        if len(self._name) + len(self._value) > _LONGEST_PART_HEADER:
            raise Refusal(413, "The upload's headers are too long.")

    def _header_end(self) -> None:
        if len(self._headers) >= _MOST_PART_HEADERS:
            raise Refusal(413, "The upload has too many headers.")
        self._headers[self._name.lower()] = self._value
        self._name, self._value = b"", b""

    def _headers_finished(self) -> None:
        _, given = parse_options_header(self._headers.get(b"content-disposition", b""))
        if given.get(b"name") != b"files" or b"filename" not in given:
            raise Refusal(400, 'An upload holds files only, in fields of the name "files".')
        if len(self.files) >= MOST_FILES:
            raise Refusal(413, f"An upload holds at most {MOST_FILES} files.")
        folder = self.folder / f"upload-{secrets.token_hex(16)}"
        folder.mkdir(parents=True)
        self.folders.append(folder)
        name = Path(given[b"filename"].decode("utf-8", "replace").replace("\\", "/")).name
        name = strip_invalid_filename_characters(name).strip(". ") or "upload"
        self.files.append(folder / name)
        is_clip = self.files[-1].suffix.lower() in CLIP_SUFFIXES
        self._most = LARGEST_CLIP if is_clip else LARGEST_FILE
        self._open = open(self.files[-1], "xb")  # noqa: SIM115 (closed by `close`)

    def _data(self, data: bytes, start: int, end: int) -> None:
        self._size += end - start
        if self._size > self._most:
            raise Refusal(413, f"A file may have at most {self._most >> 20} MB.")
        assert self._open is not None  # since the part's headers ended
        self._open.write(data[start:end])
        if self.progress is not None:
            self.progress.came(self.files[-1].name, end - start)

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def _end(self) -> None:
        self.complete = True

    def discard(self) -> None:
        """Remove all that was written."""
        self.close()
        for folder in self.folders:
            shutil.rmtree(folder, ignore_errors=True)


@dataclass
class _Progress:
    """How much of an upload has come and was not told yet."""

    name: str = ""
    came_bytes: int = 0
    done: float = math.inf
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def came(self, name: str, size: int) -> None:
        self.name, self.came_bytes = name, self.came_bytes + size


class Uploads:
    """The routes of files. folder: where they lie, all in folders that nobody can guess."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._watched: dict[str, _Progress] = {}

    async def upload(self, request: Request) -> Response:
        """Files in, their paths out; whatever happens on the way, no unfinished one stays.

        Raises Refusal for what is no upload, or too large.
        """
        kind, given = parse_options_header(request.headers.get("content-type", ""))
        boundary = given.get(b"boundary")
        if kind != b"multipart/form-data" or not boundary or len(boundary) > 200:
            raise Refusal(415, "An upload is a form of the kind multipart/form-data.")
        with self._watching(request.query_params.get("upload_id")) as progress:
            return JSONResponse(await self._receive(request, boundary, progress))

    async def _receive(
        self, request: Request, boundary: bytes, progress: _Progress | None
    ) -> list[str]:
        parts = _Parts(self.folder, progress)
        parser = MultipartParser(boundary, parts.callbacks())
        try:
            self._check_room(int(request.headers.get("content-length") or 0))
            async for piece in request.stream():
                if piece:
                    self._check_room(len(piece))
                    await anyio.to_thread.run_sync(parser.write, piece)
                    if progress is not None:
                        progress.changed.set()
            parser.finalize()
        except BaseException as error:  # a visitor who went away included
            parts.discard()
            if isinstance(error, OSError):
                raise Refusal(507, _NO_ROOM) from error
            if isinstance(error, FormParserError):
                raise Refusal(400, "The upload can't be read.") from error
            raise
        if not parts.complete:
            parts.discard()
            raise Refusal(400, "The upload was cut off.")
        return [str(path) for path in parts.files]

    def _check_room(self, size: int) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        if shutil.disk_usage(self.folder).free < KEPT_FREE + size:
            raise Refusal(507, _NO_ROOM)

    @contextmanager
    def _watching(self, name: str | None) -> Iterator[_Progress | None]:
        now = time.monotonic()
        for old in [key for key, one in self._watched.items() if one.done + _REMEMBERED < now]:
            del self._watched[old]
        if not name or len(name) > 64 or len(self._watched) >= _MOST_WATCHED:
            yield None
            return
        progress = self._watched.setdefault(name, _Progress())
        try:
            yield progress
        finally:
            progress.done = time.monotonic()
            progress.changed.set()

    def progress(self, request: Request) -> Response:
        """How far an upload is, as server-sent events."""
        name = request.query_params.get("upload_id", "")

        async def events() -> AsyncIterator[str]:
            for _ in range(30):  # it is asked for at about the time when the upload begins
                if name in self._watched:
                    break
                await asyncio.sleep(0.1)
            progress = self._watched.get(name)
            while progress is not None:
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(progress.changed.wait(), 15)
                progress.changed.clear()
                came, progress.came_bytes = progress.came_bytes, 0
                told: dict[str, str | int] = {"msg": "heartbeat"}
                if came:
                    told = {"msg": "update", "orig_name": progress.name, "chunk_size": came}
                yield f"data: {json.dumps(told)}\n\n"
                if progress.done < math.inf:
                    break
            yield f"data: {json.dumps({'msg': 'done'})}\n\n"

        return StreamingResponse(events(), media_type="text/event-stream")

    def file(self, path: str) -> Response:
        """A file that this server wrote for a visitor, by the name that only the visitor has."""
        found = self._find(path)
        if found is None:
            return PlainTextResponse("There is no such file, or no longer.", 404)
        kind = _SHOWN.get(found.suffix.lower())
        return FileResponse(
            found,
            media_type=kind or "application/octet-stream",
            filename=found.name,
            content_disposition_type="inline" if kind else "attachment",
            headers={
                "Cache-Control": "private, max-age=3600",
                # Whatever a browser takes it for, nothing in it is run.
                "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
            },
        )

    def _find(self, path: str) -> Path | None:
        return Path(path) if is_ours(path, self.folder) and Path(path).is_file() else None


def is_ours(path: str, folder: str | Path) -> bool:
    """Whether a file of that name, there or gone, is one that this server wrote into its folder."""
    try:
        parent, name = Path(path).relative_to(Path(folder).absolute()).parts
        place = Path(folder).absolute() / parent
        # Neither is a link: one could lead anywhere.
        return (
            _OURS.fullmatch(parent) is not None
            and name not in (".", "..")
            and not (place.is_symlink() or (place / name).is_symlink())
        )
    except (ValueError, OSError):
        return False
