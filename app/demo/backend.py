"""A painter whose pictures a service paints elsewhere: a small machine serves the page alone."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, TimeoutError
from dataclasses import dataclass, fields, replace

import httpx
import numpy as np
from PIL import Image

import models
from app import images
from app.look import AS_THE_STYLE, Look
from app.painter import Painter
from app.regions import Region

_ASK_EVERY = 0.2  # seconds between two looks at whether the visitor still wants the picture
_WITHIN = 600.0  # seconds for a picture, waiting in the service's queue included
_CONNECTING = 10.0


class BackendError(ValueError):
    """The service did not paint; its text is a sentence for the visitor."""


@dataclass(frozen=True)
class Recipe(models.StyleCode):
    """A style as the service is told it.

    Attributes:
        parts: names of built-in styles, or paintings' files, with their weights.
    """

    parts: tuple[tuple[str | bytes, float], ...] = ()


class Backend(Painter):
    """As Painter, for the demo; styles are told by their names, pictures are sent.

    Args:
        address: the service's, as http://painters:8000.
        checkpoint: the same as the service's: its styles are shown on the page.

    Raises:
        ValueError: the service can't be reached, or has other styles.
    """

    paints_clips = False  # a clip's frames would go one by one

    def __init__(self, address: str, checkpoint: str | os.PathLike) -> None:
        super().__init__(checkpoint, "cpu", precision="float32")
        self.address = address.rstrip("/")
        self._client = httpx.Client(timeout=httpx.Timeout(_WITHIN, connect=_CONNECTING))
        self._sending = ThreadPoolExecutor(16, "backend")
        try:
            answer = self._client.get(f"{self.address}/styles", timeout=_CONNECTING)
            there = set(answer.raise_for_status().json())
        except (httpx.HTTPError, ValueError, TypeError) as error:
            raise ValueError(f"--backend {address}: no service answers there: {error}") from None
        if missing := [name for name in self.style_names if name not in there]:
            raise ValueError(f"--backend {address}: it has no style {missing[0]!r}")

    def style(
        self, name_or_path: str | os.PathLike, *, max_pixels: int = images.MAX_PIXELS
    ) -> models.StyleCode:
        code = self._built_in_style(str(name_or_path))
        if code is not None:
            return Recipe(code.tensors, code.ground, ((str(name_or_path), 1.0),))
        # Read here, too: what is no picture is not sent.
        painting = images.load(name_or_path, max_pixels=max_pixels)
        small = images.resize(images.flatten(painting), self.limits.style_side)
        return Recipe((), parts=((_png(small), 1.0),))

    def blend(
        self, parts: Sequence[tuple[str | os.PathLike | models.StyleCode, float]]
    ) -> models.StyleCode:
        named = []
        for part, weight in parts:
            code = part if isinstance(part, models.StyleCode) else self.style(part)
            if not isinstance(code, Recipe):
                raise TypeError("a service paints recipes")
            named.append((code.parts[0][0], weight))
        return Recipe((), parts=tuple(named))

    def remember(
        self, picture: images.Picture, style: models.StyleCode, look: Look = AS_THE_STYLE
    ) -> None:
        """Nothing: what is remembered would be elsewhere."""

    def paint(
        self,
        picture: images.Picture,
        style: models.StyleCode | Sequence[Region],
        look: Look = AS_THE_STYLE,
        *,
        max_size: int | None = None,
        mask: np.ndarray | None = None,
        tile: int | None = None,
        progress: Callable[[float], None] | None = None,
    ) -> images.Picture:
        if not isinstance(style, Recipe):
            raise TypeError("a service paints recipes")
        if max_size is not None:
            picture = images.resize(picture, max_size)
        options, files = _told(style, look)
        files["photo"] = _png(replace(picture, alpha=None))
        if mask is not None:
            files["mask"] = _png_of(mask)
        sent = self._sending.submit(
            self._client.post, f"{self.address}/stylize", data=options, files=files
        )
        answer = _awaited(sent, progress)
        if answer.status_code == 503:
            after = answer.headers.get("retry-after", "60")
            raise BackendError(f"the painters are busy; try again in {after} seconds")
        if answer.status_code != 200:
            raise BackendError(
                images.one_line(answer.text[:200]).rstrip(".") or "nothing came back"
            )
        painted = images.load(io.BytesIO(answer.content)).rgb
        if painted.shape != picture.rgb.shape:
            raise BackendError("the painters sent back another size")
        return replace(picture, rgb=painted)


def _told(style: Recipe, look: Look) -> tuple[dict[str, str], dict[str, bytes]]:
    options = {"format": "png"}
    for option in fields(look):
        value = getattr(look, option.name)
        if value is not None:
            options[option.name] = str(value)
    files: dict[str, bytes] = {}
    weights = [weight for _, weight in style.parts]
    for number, (part, _) in enumerate(style.parts):
        second = "second_" if number else ""
        if isinstance(part, bytes):
            files[f"{second}painting"] = part
        else:
            options[f"{second}style"] = part
    if len(weights) == 2:
        options["share"] = str(weights[1] / math.fsum(weights))
    return options, files


def _awaited(
    sent: Future[httpx.Response], progress: Callable[[float], None] | None
) -> httpx.Response:
    """The answer; what ``progress`` raises gives it up."""
    while True:
        try:
            return sent.result(_ASK_EVERY)
        except httpx.HTTPError as error:
            raise BackendError("the painters can't be reached; try again later") from error
        except TimeoutError:
            if progress is not None:
                progress(0.0)


def _png(picture: images.Picture) -> bytes:
    return _png_of(picture.rgb)


def _png_of(pixels: np.ndarray) -> bytes:
    file = io.BytesIO()
    # Losslessly, but not as small as can be: it goes over a near network.
    Image.fromarray(np.ascontiguousarray(pixels)).save(file, "PNG", compress_level=1)
    return file.getvalue()
