"""What the page and its endpoints have painted: wishes in, files out. Knows nothing of Gradio."""

import base64
import binascii
import io
import itertools
import os
import re
import secrets
import shutil
import stat
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from numbers import Real
from pathlib import Path

import numpy as np
from PIL import Image

from app import images
from app.demo.decoding import Decoding
from app.demo.line import Line, Place
from app.demo.paintings import learned_from, shown_by
from app.images import ImageError, Picture
from app.look import AS_THE_STYLE, Look
from app.memory import is_out_of_memory
from app.painter import Painter
from models import StyleCode

# How the built-in styles are written on the page; any other name is shown as it is.
TITLES = {
    "cezanne": "Cézanne",
    "monet": "Monet",
    "ukiyoe": "Ukiyo-e",
    "vangogh": "Van Gogh",
    "hokusai": "Hokusai",
    "pointillism": "Pointillism",
    "etching": "Etching",
    "cubism": "Cubism",
    "fauvism": "Fauvism",
    "rousseau": "Rousseau",
    "pirosmani": "Pirosmani",
    "tarot": "Tarot",
}

# Stands for an upload among the styles. No checkpoint can have a style of that name: its names
# hold no slash.
OWN = "/painting"

# Pixels. What the page shows of a result; the file to download has them all.
_SHOWN_SIDE = 1600

# The photos read last, and the longest side, in pixels, up to which they are kept: 12 MB each. A
# visitor tries several styles on one photo.
_KEPT_PHOTOS, _KEPT_SIDE = 4, 2048

# How many photos' shown files are known again; those of others are written again.
_KNOWN_SHOWN = 256

# Characters and pixels of a drawn mask, as the page sends it: it draws at most 768 px a side.
_LONGEST_MASK, _MASK_PIXELS = 900_000, 2_000_000
_MASK_PREFIX = "data:image/png;base64,"


NO_SHARE = "The share of the second style is a number from 0 to 1."


class RefusedError(ValueError):
    """What a visitor asked for cannot be done; its text is one sentence for the visitor."""


class GoneError(RefusedError):
    """A visitor's file is here no longer: the page has it still, and can send it again."""


@dataclass(frozen=True)
class Wish:
    """How a photo is to be painted.

    style: a built-in style's name ("monet", "monet:2") or OWN. painting: the file of an own
    painting. second, second_painting: likewise, "" for none. share: of the second style, 0..1.
    look: as in Painter.paint. max_size: pixels on the longest side, None for the photo's own.
    mask: a picture whose white part is painted, None for everywhere.
    """

    style: str
    painting: str | None = None
    second: str = ""
    second_painting: str | None = None
    share: float = 0.5
    look: Look = AS_THE_STYLE
    max_size: int | None = None
    mask: np.ndarray | None = None

    def __post_init__(self) -> None:
        size = self.max_size
        if size is not None and not (isinstance(size, Real) and float(size).is_integer()):
            raise RefusedError(f"The max_size is a whole number of pixels, got {size}.")
        if not isinstance(self.share, Real):
            raise RefusedError(NO_SHARE)

    @property
    def blended(self) -> bool:
        """Whether both styles have a part in it."""
        return bool(self.second) and self.share > 0

    @property
    def label(self) -> str:
        """The styles' names for a file's name: "monet-2", "monet-vangogh"."""
        parts = [_label(self.style, self.painting)]
        if self.blended:
            parts.append(_label(self.second, self.second_painting))
        return "-".join(parts)


def _label(style: str, painting: str | None) -> str:
    return Path(painting or "painting").stem if style == OWN else style


@dataclass(frozen=True)
class Painted:
    """A result, the photo at its size, and the seconds that the painting alone took."""

    before: Picture
    after: Picture
    seconds: float


class Studio:
    """Paints what visitors wish, with one painter and into one folder.

    folder: where results go, each into a folder of its own that nobody can guess. max_pixels:
    pictures of more than these (width x height) are refused before they are decoded. at_once: how
    many paintings are made at a time.
    """

    def __init__(
        self,
        painter: Painter,
        folder: str | Path,
        max_pixels: int = images.MAX_PIXELS,
        at_once: int = 1,
    ) -> None:
        self.painter = painter
        self.line = Line(at_once)
        self.folder = Path(folder)
        self.max_pixels = max_pixels
        self.names = tuple(painter.style_names)
        self._shown: OrderedDict[tuple, Path] = OrderedDict()
        self._read_last: OrderedDict[tuple, Picture] = OrderedDict()
        self._keeping = threading.Lock()
        self.decoding = Decoding()
        self.shows = shown_by(painter.record)
        self.learned_from = learned_from(painter.record)
        # The names of all codes of each built-in style: "monet", "monet:2", ...
        self.variants = {
            name: [name, *(f"{name}:{number}" for number in range(2, codes + 1))]
            for name, codes in painter.codes.items()
        }

    @property
    def every_style(self) -> list[str]:
        """The names of all codes of all built-in styles."""
        return list(itertools.chain.from_iterable(self.variants.values()))

    def title(self, style: str) -> str:
        """A built-in style in words: its painter, and what the painting shows."""
        name, _, number = style.partition(":")
        title = TITLES.get(name, name)
        shows = self.shows.get(style)
        return f"{title}: {shows}" if shows else f"{title} {number}" if number else title

    def told(self, wish: Wish) -> str:
        """The wish's style in words."""
        styles = [wish.style, wish.second] if wish.blended else [wish.style]
        return " and ".join(
            "your own painting" if style == OWN else self.title(style) for style in styles
        )

    def read(
        self, file: str | Path | None, what: str = "a photo", max_size: int | None = None
    ) -> Picture:
        """A visitor's picture, without what its EXIF data says of people, places and days.

        max_size: the longest side, pixels; None for the file's own. Its pixels are not to be
        written to, since they may be handed out again. Raises RefusedError where there is none,
        ImageError for one that cannot be read.
        """
        file = self.there(file, what)
        status = file.stat()
        key = (file, max_size, status.st_mtime_ns, status.st_size)
        if (known := self._known(key)) is not None:
            return known
        with self.decoding.picture(file, max_size):
            # Another request for it may have been before this one.
            if (known := self._known(key)) is not None:
                return known
            picture = images.load(file, self.max_pixels, max_size=max_size)
            picture = picture if max_size is None else images.resize(picture, max_size)
            picture = images.strip(picture)
        if max_size is not None and max_size <= _KEPT_SIDE:
            with self._keeping:
                self._read_last[key] = picture
                while len(self._read_last) > _KEPT_PHOTOS:
                    self._read_last.popitem(last=False)
        return picture

    def _known(self, key: tuple) -> Picture | None:
        with self._keeping:
            if key in self._read_last:
                self._read_last.move_to_end(key)
            return self._read_last.get(key)

    def forget(self) -> None:
        """Let go of the photos read last, and of what the painter remembers of them."""
        with self._keeping:
            self._read_last.clear()
        self.painter.forget()

    def there(self, file: str | Path | None, what: str) -> Path:
        """A visitor's file. Raises RefusedError where it is not there, or no longer."""
        if file is None:
            raise RefusedError(f"Choose {what} first.")
        if not Path(file).is_file():
            # It was removed after its hour, while the page stayed open.
            raise GoneError(f"Upload {what} again, please.")
        return Path(file)

    def code(self, wish: Wish) -> StyleCode:
        """The wish's style, blended where it has two."""
        first = self._code(wish.style, wish.painting)
        if not wish.blended:
            return first
        if not 0 <= wish.share <= 1:
            raise RefusedError(NO_SHARE)
        second = self._code(wish.second, wish.second_painting)
        return self.painter.blend([(first, 1 - wish.share), (second, wish.share)])

    def _code(self, style: str, painting: str | None) -> StyleCode:
        if style == OWN:
            file = self.there(painting, "a painting")
            with self.decoding.picture(file):
                return self.painter.style(file, max_pixels=self.max_pixels)
        # The painter would take a name that it does not know for a file on this machine.
        if style not in self.every_style:
            names = ", ".join(self.names)
            raise RefusedError(f"There is no style {style!r}; there are {names}.")
        return self.painter.style(style)

    def before(self, file: str | Path, photo: Picture, max_size: int | None) -> Path:
        """What a page shows of a photo beside its painting, written once: it is not sent again."""
        key = (str(file), max_size)
        path = self._shown.get(key)
        if path is None or not path.is_file():
            with self.new_folder() as folder:
                path = self._shown[key] = save_shown(photo, folder / "before")
            while len(self._shown) > _KNOWN_SHOWN:
                with suppress(KeyError):  # by two visitors at once
                    self._shown.popitem(last=False)
        with suppress(FileNotFoundError):
            os.utime(path.parent)  # kept for another hour
        return path

    def paint(
        self,
        photo: Picture,
        wish: Wish,
        progress: Callable[[float], None] | None = None,
        *,
        quick: bool = False,
        waiting: Callable[[Place], None] | None = None,
    ) -> Painted:
        """The photo painted, when it is its turn. What `progress` or `waiting` raises stops it.

        quick: it goes before those that are not. waiting: called while others are painted.
        """
        if wish.max_size is not None:
            photo = images.resize(photo, wish.max_size)
        code = self.code(wish)
        strokes = wish.look.stroke_size(photo.height, photo.width)
        with self.line.turn(megapixels(photo), strokes, quick=quick, waiting=waiting) as place:

            def told(done: float) -> None:
                place.done = done
                if progress is not None:
                    progress(done)

            started = time.perf_counter()
            after = self.painter.paint(photo, code, wish.look, mask=wish.mask, progress=told)
            return Painted(photo, after, time.perf_counter() - started)

    @contextmanager
    def new_folder(self) -> Iterator[Path]:
        """A folder for one answer's files; removed again where the answer fails or is stopped."""
        # The files of one visitor are not another's to read.
        folder = self.folder / f"result-{secrets.token_hex(16)}"
        folder.mkdir(parents=True)
        try:
            yield folder
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def remove_old(self, older_than: float) -> None:
        """Remove what came or was made more than `older_than` seconds ago, whatever it is."""
        with suppress(OSError):
            for path in self.folder.iterdir():
                with suppress(OSError):  # gone already
                    status = path.lstat()
                    if path.name.startswith(".") or time.time() - status.st_mtime <= older_than:
                        continue
                    if stat.S_ISDIR(status.st_mode):
                        shutil.rmtree(path)
                    else:
                        path.unlink()


def megapixels(picture: Picture) -> float:
    """How many millions of pixels it has."""
    return picture.width * picture.height / 1e6


def result_name(photo: str, wish: Wish, format: str) -> str:
    """What a result is called: the photo's name, a dash, the style's, without odd characters."""
    stem = f"{Path(photo).stem[:60]}-{wish.label[:60]}"
    return re.sub(r"[^\w.()+ -]+", "-", stem).strip(" .-") + f".{format}"


def save_shown(picture: Picture, path: Path) -> Path:
    """Write what the page shows of a picture: small, and quick to write; returns its path."""
    picture = images.resize(picture, _SHOWN_SIDE)
    format = "jpg" if picture.alpha is None else "png"
    path = path.with_suffix(f".{format}")
    images.save(picture, path, format, durable=False)
    return path


def drawn_mask(text: str | None) -> np.ndarray | None:
    """The mask (H,W) uint8 that the page's brush sent; None for none, or for an empty one.

    Raises RefusedError for anything else than a PNG's data URL.
    """
    if not text:
        return None
    if len(text) > _LONGEST_MASK or not text.startswith(_MASK_PREFIX):
        raise RefusedError("The drawn part could not be read; clear it and draw again.")
    try:
        file = io.BytesIO(base64.b64decode(text[len(_MASK_PREFIX) :], validate=True))
        mask = images.load(file, max_pixels=_MASK_PIXELS)
    except (binascii.Error, ImageError) as error:
        raise RefusedError("The drawn part could not be read; clear it and draw again.") from error
    drawn = images.gray(mask)
    return drawn if drawn.any() else None


def jpeg(picture: Picture, side: int) -> bytes:
    """A JPEG file of a picture, at most `side` pixels."""
    small = images.flatten(images.resize(picture, side))
    file = io.BytesIO()
    Image.fromarray(small.rgb).save(file, "JPEG", quality=85)
    return file.getvalue()


def sentence(error: BaseException) -> str | None:
    """One friendly sentence about what went wrong; None for what nobody foresaw."""
    if isinstance(error, RefusedError):
        return str(error)
    if isinstance(error, ImageError):
        # The file's path on this machine is nothing to a visitor, nor is a command line.
        reason = error.reason.replace("python -m app.video", "the tab Video clip")
        return f"{Path(error.name).name} {reason}."
    if isinstance(error, ValueError):
        text = images.one_line(str(error))
        return f"{text[:1].upper()}{text[1:]}."
    if is_out_of_memory(error):
        return "There is not enough memory for that size; choose a smaller one."
    return None
