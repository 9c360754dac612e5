"""What a request orders: the options by their names, checked before anything is painted."""

from __future__ import annotations

import io
import json
import math
import tempfile
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import models
from app import images
from app.look import OPTIONS, Look, chosen
from app.memory import is_out_of_memory
from app.painter import Painter

TYPES = {"png": "image/png", "jpg": "image/jpeg", "webp": "image/webp"}

# The names of a request's options beside a look's, and what each is.
OTHERS = {
    "style": "a built-in style (monet; monet:2 is its second variant); without, `painting` is it",
    "second_style": "another style that has the share of it",
    "share": "of the second style, 0 to 1 (default: 0.5)",
    "max_size": "shrink the photo to this many pixels on its longest side",
    "format": "png (the default), jpg or webp",
}
FILES = {
    "photo": "the photo; a request whose body is the photo itself needs no other",
    "painting": "a painting of one's own: the style, or the second one beside a style",
    "second_painting": "another one, for the second style",
    "mask": "a picture: where it is white is painted",
}


class OrderError(ValueError):
    """What a request orders can't be done; one sentence, and HTTP's number for it."""

    def __init__(self, sentence: str, status: int = 422) -> None:
        super().__init__(images.one_line(sentence))
        self.status = status


@dataclass(frozen=True)
class Order:
    """A photo and how it is to be painted.

    Attributes:
        photo, painting, second_painting, mask: files' bytes.
        style, second: built-in styles' names; "" for the painting, or for none.
        share: of the second style.
        begin_by: on the clock (seconds since 1970), after which nobody wants it any more.
    """

    photo: bytes
    style: str
    look: Look
    second: str = ""
    share: float = 0.5
    painting: bytes | None = None
    second_painting: bytes | None = None
    mask: bytes | None = None
    max_size: int | None = None
    format: str = "png"
    begin_by: float = math.inf


@dataclass(frozen=True)
class Answer:
    """A picture's file, or why there is none.

    Attributes:
        status: HTTP's number.
        data: the file, or one sentence.
        seconds: that painting took.
        pixels: of the result.
    """

    status: int
    data: bytes
    type: str = "text/plain; charset=utf-8"
    seconds: float = 0.0
    pixels: int = 0
    notes: tuple[str, ...] = ()


def order(options: Mapping[str, str], files: Mapping[str, bytes], styles: Collection[str]) -> Order:
    """What a request's options and files order.

    Args:
        styles: all names that a style may have.

    Raises OrderError.
    """
    unknown = [name for name in options if name not in OTHERS and name not in OPTIONS]
    unknown += [name for name in files if name not in FILES]
    if unknown:
        known = ", ".join([*OTHERS, *OPTIONS, *FILES])
        raise OrderError(f"There is no option {unknown[0][:40]!r}; there are {known}.")
    if not files.get("photo"):
        raise OrderError("A photo is needed: as the body, or as the field photo.", 400)
    style, second = options.get("style", ""), options.get("second_style", "")
    painting = files.get("painting") or None
    for name in filter(None, (style, second)):
        # The painter would take a name that it does not know for a file on this machine.
        if name not in styles:
            raise OrderError(f"There is no style {name[:80]!r}; there are {', '.join(styles)}.")
    if not style and painting is None:
        raise OrderError("A style is needed: the option style, or the field painting.")
    try:
        look = Look(**{name: _value(name, options[name]) for name in OPTIONS if name in options})
        format = images.output_format(options.get("format") or "png")
    except ValueError as error:
        raise OrderError(str(error)) from error
    return Order(
        photo=files["photo"],
        style=style,
        look=look,
        second=second,
        share=_number("share", options.get("share", "0.5"), 0, 1),
        painting=painting,
        second_painting=files.get("second_painting") or None,
        mask=files.get("mask") or None,
        max_size=_pixels(options.get("max_size", "")),
        format=format,
    )


def _value(name: str, text: str) -> Any:
    option = OPTIONS[name]
    if "range" in option.metadata:
        return _number(name, text, *option.metadata["range"])
    return chosen(option, text)


def _number(name: str, text: str, least: float, most: float) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not least <= value <= most:
        raise OrderError(f"{name} is a number from {least:g} to {most:g}, not {text!r}.")
    return value


def _pixels(text: str) -> int | None:
    if not text:
        return None
    if not text.isdecimal() or not int(text[:9]) >= 1 or len(text) > 9:
        raise OrderError(f"max_size is a whole number of pixels, not {text!r}.")
    return int(text)


class Easel:
    """Paints orders with one painter.

    Args:
        max_pixels: pictures of more than these (width x height) are refused unread.
    """

    def __init__(self, painter: Painter, max_pixels: int = images.MAX_PIXELS) -> None:
        self.painter, self.max_pixels = painter, max_pixels

    def paint(self, order: Order) -> Answer:
        """The order's picture; whatever is wrong with it is an answer, too."""
        started = time.perf_counter()
        try:
            picture = self._read(order.photo, "the photo", order.max_size)
            mask = None
            if order.mask is not None:
                mask = images.gray(self._read(order.mask, "the mask"))
            after = self.painter.paint(picture, self._style(order), order.look, mask=mask)
            data, lost = _encoded(after, order.format)
        except OrderError as error:
            return Answer(error.status, str(error).encode())
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            text = "There is not enough memory for that size; max_size makes it smaller."
            return Answer(413, text.encode())
        seconds = time.perf_counter() - started
        pixels, notes = after.width * after.height, after.notes + lost
        return Answer(200, data, TYPES[order.format], seconds, pixels, notes)

    def _read(self, data: bytes, what: str, max_size: int | None = None) -> images.Picture:
        try:
            picture = images.load(io.BytesIO(data), self.max_pixels, max_size=max_size)
        except images.TooLargeError as error:
            raise OrderError(f"{what.capitalize()} {error.reason}.", 413) from error
        except images.ImageError as error:
            raise OrderError(f"{what.capitalize()} {error.reason}.", 415) from error
        # What EXIF tells of people, places and days is not for others' disks.
        return images.strip(picture if max_size is None else images.resize(picture, max_size))

    def _style(self, order: Order) -> models.StyleCode:
        first, second = order.painting, order.second_painting
        if order.style and second is None:
            first, second = None, order.painting
        one = self.painter.style(order.style) if order.style else self._own(first)
        if order.second:
            other = self.painter.style(order.second)
        elif second is not None:
            other = self._own(second)
        else:
            return one
        return self.painter.blend([(one, 1 - order.share), (other, order.share)])

    def _own(self, painting: bytes | None) -> models.StyleCode:
        assert painting is not None, "an order has a style or a painting"
        return self.painter.encode(self._read(painting, "the painting"))


def _encoded(picture: images.Picture, format: str) -> tuple[bytes, tuple[str, ...]]:
    with tempfile.TemporaryDirectory(prefix="repaint-") as folder:
        file = Path(folder) / f"painted.{format}"
        try:
            lost = images.save(picture, file, format, durable=False)
        except images.ImageError as error:
            raise OrderError(f"The result can't be sent: {error.reason}.") from error
        return file.read_bytes(), lost


def log_line(now: float, answer: Answer, waited: float) -> str:
    """One JSON line of a request, without a word of whom it came from or what was in it."""
    return json.dumps(
        {
            "time": round(now, 3),
            "status": answer.status,
            "painted_s": round(answer.seconds, 3),
            "waited_s": round(max(0.0, waited - answer.seconds), 3),
            "pixels": answer.pixels,
            "bytes": len(answer.data),
        }
    )
