"""What happens on the page's clicks and on the endpoints' calls, in Gradio's terms."""

import dataclasses
import html
import logging
import shutil
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gradio as gr

from app import images
from app.demo.components import MaskBrush, shown_value
from app.demo.examples import example_photos
from app.demo.jobs import Jobs, StoppedError
from app.demo.numbers import Judge, table
from app.demo.studio import (
    OWN,
    TITLES,
    Painted,
    RefusedError,
    Studio,
    Wish,
    data_url,
    drawn_mask,
    result_name,
    save_shown,
    sentence,
)
from app.look import OPTIONS, Look, chosen

# Pixels of the photo under the mask's brush, and of a picture in the strip of all styles.
_BRUSH_SIDE, _STRIP_SIDE = 768, 320

# Seconds. A browser works for a good part of a frame on every report, perhaps on our processor.
_PROGRESS_EVERY = 0.25

# Seconds that a picture may take without a word of how far it is; what tells it costs, too.
QUICKLY = 0.6

# Formats that every browser shows.
_SHOWN_BY_BROWSERS = {".jpg", ".jpeg", ".png", ".webp", ".gif"}

_log = logging.getLogger(__name__)


@contextmanager
def answering() -> Iterator[None]:
    """Whatever goes wrong inside becomes one friendly sentence on the page."""
    try:
        yield
    except gr.Error:
        raise
    except StoppedError:
        raise gr.Error("Nothing was painted.", title="Stopped", print_exception=False) from None
    except Exception as error:
        # The message is shown as HTML.
        text = html.escape(_sentence(error), quote=False)
        raise gr.Error(text, title="Sorry", print_exception=False) from error


def _sentence(error: Exception) -> str:
    text = sentence(error)
    if text is None:
        _log.error("a picture could not be painted", exc_info=error)
        text = "Something went wrong here; please try again, or with another photo."
    return text


def page_wish(
    *,
    style: str,
    painting: str | None = None,
    second: str | None = None,
    second_painting: str | None = None,
    share: float = 0.5,
    size: int = 0,
    **look: Any,
) -> Wish:
    """What the page's choices are. size: pixels, or 0 for the photo's. look: as shown inputs."""
    return Wish(
        style=style,
        painting=painting,
        second=second or "",
        second_painting=second_painting,
        share=share,
        look=Look(**{name: shown_value(OPTIONS[name], value) for name, value in look.items()}),
        max_size=size or None,
    )


@dataclasses.dataclass
class Finished:
    """A result that the page shows already, on its way to its files to download.

    outdated: another result has taken its place on the page.
    """

    painted: Painted | None
    photo: str
    wish: Wish
    outdated: bool = False

    def take(self) -> Painted | None:
        """What was painted, once: a page's session lasts longer than its pixels need."""
        painted, self.painted = self.painted, None
        return painted

    def outdate(self) -> None:
        """Another result takes its place."""
        self.outdated, self.painted = True, None


class Actions:
    """The events of one page; `jobs` is what of them is running."""

    def __init__(self, studio: Studio, judge: Judge | None = None) -> None:
        self.studio, self.judge = studio, judge
        self.jobs = Jobs()
        self._getting_ready = threading.Lock()

    def example(self, clicked: gr.SelectData) -> str:
        """The example photo that was clicked, as if it had been uploaded."""
        path, _ = example_photos()[clicked.index]
        with self.studio.new_folder() as folder:
            return shutil.copy(path, str(folder))

    def look(self, photo: str | None, size: int = 0):
        """A new photo: in a form that browsers show, and under the mask's brush.

        size: as in `page_wish`; the photo is at hand at this size when it is to be painted.
        """
        if photo is None:
            # The photo was taken away already; by now there may be another one.
            return gr.skip(), MaskBrush()
        with answering():
            picture = self.studio.read(photo)
            for note in picture.notes:
                text = html.escape(f"{Path(photo).name}: {note}.", quote=False)
                gr.Info(text, title="Note")
            self.studio.read(photo, max_size=size or None)
            self.jobs.has_read()
            if Path(photo).suffix.lower() not in _SHOWN_BY_BROWSERS:
                with self.studio.new_folder() as folder:
                    photo = str(folder / f"{Path(photo).stem}.png")
                    images.save(picture, photo)
            else:
                photo = gr.skip()  # the same one again would be taken for a new one
            return photo, MaskBrush(data_url(picture, _BRUSH_SIDE))

    def get_ready(self, photo: str | None = None, **choices: Any) -> None:
        """Reads and encodes while the visitor still looks for the button, if nobody else waits.

        What is wrong with the photo or the style is said when it is to be painted.
        """
        # It does not wait in the queue, so one visitor's is done at a time and others' left out.
        if photo is None or len(self.jobs) or not self._getting_ready.acquire(blocking=False):
            return
        try:
            wish = page_wish(**choices)
            if wish.max_size is not None:  # a photo at its own size may be of any size
                self.studio.get_ready(photo, wish)
        except Exception as error:
            _log.debug("a photo was not made ready", exc_info=error)
        finally:
            self._getting_ready.release()
            self.jobs.has_read()

    def repaint(
        self,
        request: gr.Request,
        progress: gr.Progress = gr.Progress(),  # noqa: B008 (how Gradio hands one over)
        *,
        last: Finished | None = None,
        photo: str | None = None,
        mask: str | None = None,
        **choices: Any,
    ):
        """The painting; `files` then makes what is downloaded of it, once the page shows it.

        choices: as page_wish takes them.
        """
        with answering(), self.jobs.running(request.session_hash) as check:
            wish = page_wish(**choices)
            wish = dataclasses.replace(wish, mask=drawn_mask(mask))
            photo = str(self.studio.there(photo, "a photo"))
            picture = self.studio.read(photo, max_size=wish.max_size)
            painted = self.studio.paint(
                picture, wish, _reporter(progress, check, "Painting", after=QUICKLY)
            )
            before = self.studio.before(photo, painted.before, wish.max_size)
            with self.studio.new_folder() as folder:
                after = save_shown(painted.after, folder / "after")
            if last is not None:
                last.outdate()
            # No more than this: a browser takes its time for each part of the page that changes.
            return (str(before), str(after)), Finished(painted, photo, wish)

    def files(self, finished: Finished | None):
        """First takes back what belongs to the last picture, then hands out this one's files.

        Yields the facts about what was painted, and its two files to download.
        """
        painted = finished.take() if finished else None
        if finished is None or painted is None:
            return
        waiting = gr.DownloadButton(interactive=False)
        yield None, gr.Column(visible=True), waiting, waiting
        with answering(), self.studio.new_folder() as folder:
            files = []
            for format in ("png", "jpg"):
                files.append(str(folder / result_name(finished.photo, finished.wish, format)))
                images.save(painted.after, files[-1], format)
            if finished.outdated:
                return
            facts = {"photo": finished.photo, "result": files[0], "seconds": painted.seconds}
            ready = (gr.DownloadButton(value=file, interactive=True) for file in files)
            yield facts, gr.skip(), *ready

    def strip(self, request: gr.Request, photo: str | None = None, **choices: Any):
        """The photo in every built-in style, small, one after the other as they are painted."""
        with answering(), self.jobs.running(request.session_hash) as check:
            chosen = dataclasses.replace(page_wish(**choices), second="", max_size=_STRIP_SIDE)
            picture = self.studio.read(photo, max_size=_STRIP_SIDE)
            with self.studio.new_folder() as folder:
                shown = []
                for number, name in enumerate(self.studio.names):
                    wish = dataclasses.replace(chosen, style=name)
                    after = self.studio.paint(picture, wish, lambda _: check()).after
                    path = save_shown(after, folder / str(number))
                    shown.append((str(path), TITLES.get(name, name)))
                    yield gr.Gallery(shown, visible=True)

    def batch(
        self,
        request: gr.Request,
        progress: gr.Progress = gr.Progress(),  # noqa: B008 (how Gradio hands one over)
        *,
        photos: Sequence[str] = (),
        format: str = "png",
        **choices: Any,
    ):
        """All photos in one ZIP file, and what became of each. choices: as page_wish takes them."""
        with answering(), self.jobs.running(request.session_hash) as check:
            if not photos:
                raise RefusedError("Choose some photos first.")
            wish = page_wish(**choices)
            self.studio.code(wish)  # what is wrong with the style is wrong once, not per photo
            with self.studio.new_folder() as folder:
                file = folder / f"repainted-{wish.label[:60]}.zip".replace(":", "-")
                failed = []
                for number, photo in enumerate(photos):
                    doing = f"Painting {number + 1} of {len(photos)}"
                    report = _reporter(progress, check, doing, number / len(photos), len(photos))
                    try:
                        self._add(file, photo, wish, format, report)
                    except StoppedError:
                        raise
                    except Exception as error:
                        failed.append(_sentence(error))
                done = len(photos) - len(failed)
                ready = gr.DownloadButton(value=str(file) if done else None, interactive=done > 0)
                return ready, gr.HTML(_report(done, failed), visible=True)

    def _add(
        self, file: Path, photo: str, wish: Wish, format: str, report: Callable[[float], None]
    ) -> None:
        """Paint one photo into the ZIP file, under a name that no other in it has."""
        picture = self.studio.read(photo, max_size=wish.max_size)
        after = self.studio.paint(picture, wish, report).after
        path = file.parent / result_name(photo, wish, format)
        images.save(after, path, format)
        try:
            # Pictures are compressed already.
            with zipfile.ZipFile(file, "a", zipfile.ZIP_STORED) as archive:
                taken, name, number = set(archive.namelist()), path.name, 2
                while name in taken:
                    name, number = f"{path.stem}-{number}{path.suffix}", number + 1
                archive.write(path, name)
        finally:
            path.unlink()

    def pick(self, clicked: gr.SelectData) -> str:
        """The style of the picture that was clicked in the strip."""
        return self.studio.names[clicked.index]

    def measure(self, facts: dict | None, asked: bool):
        """The panel of numbers for the last result: the judge's opinion and a table."""
        if facts is None or not asked:
            return gr.skip(), gr.skip()
        with answering():
            after = self.studio.read(facts["result"], "a photo")
            before = self.studio.read(facts["photo"])
            before = images.resize(before, max(after.width, after.height))
            opinion = self.judge.opinion(after) if self.judge else None
            rows = table(before, after, facts["seconds"], self.studio.painter)
            return gr.Label(opinion, visible=opinion is not None), gr.HTML(rows)

    def stop(self, request: gr.Request) -> None:
        """Stop what this session has running."""
        self.jobs.stop(request.session_hash)

    def stylize(
        self,
        request: gr.Request,
        photo: str,
        style: str,
        painting: str | None = None,
        max_size: int | None = None,
        second_style: str = "",
        share: float = 0.5,
        mask: str | None = None,
        format: str = "png",
        **look: Any,
    ) -> str:
        """Repaint a photo; returns the picture's file.

        style: a name that /styles returns, or "" for `painting`, the file of an own one. max_size:
        the photo is shrunk to this many pixels on its longest side, None keeps its size.
        second_style, share: another style (or `painting`, beside a first style) that has this
        share, 0 to 1. mask: a picture's file; its white part is painted. format: "png" or "jpg".
        """
        with answering(), self.jobs.running(request.session_hash) as check:
            wish = Wish(
                style=style or OWN,
                painting=painting,
                second=second_style or (OWN if style and painting else ""),
                second_painting=painting,
                share=share,
                look=Look(**{name: chosen(OPTIONS[name], value) for name, value in look.items()}),
                max_size=max_size or None,
                mask=None if mask is None else images.gray(self.studio.read(mask, "a mask")),
            )
            picture = self.studio.read(photo, max_size=wish.max_size)
            after = self.studio.paint(picture, wish, lambda _: check()).after
            with self.studio.new_folder() as folder:
                path = folder / result_name(photo, wish, images.output_format(format))
                images.save(after, path)
            return str(path)

    def styles(self, variants: bool = False) -> list[str]:
        """The names of the built-in styles; with `variants`, also "monet:2" and so on."""
        return self.studio.every_style if variants else list(self.studio.names)


def _reporter(
    progress: gr.Progress,
    check: Callable[[], None],
    doing: str,
    start: float = 0.0,
    parts: int = 1,
    after: float = 0.0,
) -> Callable[[float], None]:
    """Shows how much is done of one part of `parts`, and raises where it was stopped.

    after: seconds before anything is shown.
    """
    shown = time.monotonic() + after - _PROGRESS_EVERY

    def report(done: float) -> None:
        nonlocal shown
        check()
        now = time.monotonic()
        if now - shown >= _PROGRESS_EVERY:
            shown = now
            progress(start + done / parts, desc=doing)

    return report


def _report(done: int, failed: list[str]) -> str:
    count = f"{done} photo{'' if done == 1 else 's'} painted"
    if not failed:
        return f"<p>{count}.</p>"
    lines = "".join(f"<li>{html.escape(line)}</li>" for line in failed)
    return f"<p>{count}, {len(failed)} left out:</p><ul>{lines}</ul>"
