"""What happens on the page's clicks and on the endpoints' calls, in Gradio's terms."""

import html
import logging
import queue
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import gradio as gr

from app import images
from app.demo import clips
from app.demo.components import shown_value
from app.demo.examples import example_photos
from app.demo.jobs import Jobs, StoppedError
from app.demo.line import Place
from app.demo.numbers import Judge, facts
from app.demo.studio import (
    OWN,
    TITLES,
    GoneError,
    Painted,
    RefusedError,
    Studio,
    Wish,
    drawn_mask,
    megapixels,
    result_name,
    save_shown,
    sentence,
)
from app.demo.unwritten import Finished, Unwritten
from app.images import Picture
from app.look import OPTIONS, Look, chosen
from app.video import LOOKING
from models.finish.enlargement import SIZES

# Pixels of the longest side: what is painted at once, and of a picture among all styles.
PREVIEW_SIDE, _SMALL_SIDE = 512, 256

# Seconds. A browser works for a good part of a frame on every report, perhaps on our processor.
_PROGRESS_EVERY = 0.25

# And of telling how long a line is.
_WAITING_EVERY = 1.0

# The share from which on the judge's opinion is no guess.
_SURE = 0.7

# Seconds that a picture may take without a word of how far it is; what tells it costs, too.
QUICKLY = 0.6

# Formats that every browser shows.
_SHOWN_BY_BROWSERS = {".jpg", ".jpeg", ".png", ".webp", ".gif"}

Answer = dict[str, Any]

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


class Actions:
    """The events of one page; `jobs` is what of them is running.

    What is answered to the page's channels is a dict. Its `kind` says what came of it: "waiting"
    and "painting" while it lasts; "preview" and "painted"; "stopped", "sorry" with a `text`, or
    "gone" for files that the page is to send again. What the page asked comes back with it.
    """

    def __init__(self, studio: Studio, judge: Judge | None = None) -> None:
        self.studio, self.judge = studio, judge
        self.jobs = Jobs()
        self.unwritten = Unwritten()

    def look(self, photo: str | None) -> Answer:
        """What is to be said of a new photo, and a picture of it where browsers show none."""
        if photo is None:
            return {}
        try:
            picture = self.studio.read(photo)
            self.jobs.has_read()
            notes = [f"{Path(photo).name}: {note}." for note in picture.notes]
            answer = {"path": photo, "notes": notes, "shown": None}
            if Path(photo).suffix.lower() not in _SHOWN_BY_BROWSERS:
                with self.studio.new_folder() as folder:
                    answer["shown"] = str(save_shown(picture, folder / "photo"))
            return answer | {"width": picture.width, "height": picture.height}
        except GoneError:
            return {"path": photo, "gone": True}
        except Exception as error:
            return {"path": photo, "wrong": _sentence(error)}

    def preview(
        self,
        request: gr.Request,
        asked: Answer,
        *,
        photo: str | None = None,
        mask: str | None = None,
        **choices: Any,
    ) -> Iterator[Answer]:
        """At once and small what `paint` makes; the whole where that is no larger.

        Without a photo an example is painted. choices: as page_wish takes them.
        """
        yield from self._painting(request, asked, photo, mask, choices, quick=True)

    def paint(
        self,
        request: gr.Request,
        asked: Answer,
        *,
        photo: str | None = None,
        mask: str | None = None,
        **choices: Any,
    ) -> Iterator[Answer]:
        """The painting; `files` then makes what is downloaded of it, once the page shows it.

        choices: as page_wish takes them.
        """
        yield from self._painting(request, asked, photo, mask, choices, quick=False)

    def _painting(
        self,
        request: gr.Request,
        asked: Answer,
        photo: str | None,
        mask: str | None,
        choices: dict[str, Any],
        quick: bool,
    ) -> Iterator[Answer]:
        # What the page has of its photo already need not go over a slow line once more.
        has_photo = photo is not None and asked.get("has_photo") is True
        asked = _echoed(asked)

        def work(tell: Callable[[Answer], None]) -> tuple[Answer, None]:
            with self.jobs.running(request.session_hash, "one", asked.get("wish", 0)) as check:
                wish = replace(page_wish(**choices), mask=drawn_mask(mask))
                file = photo
                if file is None and quick:
                    file = example_photos()[0][0]
                file = str(self.studio.there(file, "a photo"))
                full = self.studio.read(file, max_size=wish.max_size)
                small = quick and max(full.width, full.height) > PREVIEW_SIDE
                wanted = _smaller(wish, full) if small else wish
                picture = self.studio.read(file, max_size=wanted.max_size) if small else full
                painted = self.studio.paint(
                    picture,
                    wanted,
                    _reporter(tell, check),
                    quick=quick,
                    waiting=_waiting(self.studio, tell, check),
                )
                before = None
                if not has_photo:
                    side = max(painted.before.width, painted.before.height)
                    before = str(self.studio.before(file, painted.before, side))
                preview = small or photo is None
                answer = self._shown(file, wish, painted, full, before, preview)
                if answer["kind"] == "painted":
                    self.unwritten.put(request.session_hash, Finished(painted, file, wish))
                return answer, None

        for answer, _ in _told(work, asked):
            yield answer

    def _shown(
        self,
        photo: str,
        wish: Wish,
        painted: Painted,
        full: Picture,
        before: str | None,
        preview: bool,
    ) -> Answer:
        """What the page shows of a painting. before: the photo's picture, None where it has one."""
        with self.studio.new_folder() as folder:
            after = save_shown(painted.after, folder / "after")
        strokes = wish.look.stroke_size(full.height, full.width)
        answer: Answer = {
            "kind": "preview" if preview else "painted",
            "before": before,
            "after": str(after),
            "label": self.studio.told(wish),
            "name": Path(result_name(photo, wish, "png")).stem,
            "full_seconds": self.studio.line.seconds(megapixels(full), strokes),
        }
        if not preview:
            answer["facts"] = facts(painted.after, answer["label"], painted.seconds)
        return answer

    def files(self, request: gr.Request, asked: Answer) -> Answer:
        """The two files to download of what was painted."""
        finished = self.unwritten.take(request.session_hash)
        if finished is None:
            return {}
        try:
            with self.studio.new_folder() as folder:
                files = {}
                for format in ("png", "jpg"):
                    files[format] = folder / result_name(finished.photo, finished.wish, format)
                    images.save(finished.painted.after, files[format], format)
                if self.unwritten.has(request.session_hash):  # the page shows another one
                    return {}
        except Exception as error:
            return _echoed(asked) | {"kind": "sorry", "text": _sentence(error)}
        return _echoed(asked) | {format: str(file) for format, file in files.items()}

    def every(
        self, request: gr.Request, asked: Answer, *, photo: str | None = None, **choices: Any
    ) -> Iterator[Answer]:
        """The photo in every code of every built-in style, small, as they are painted."""

        def work(tell: Callable[[Answer], None]) -> tuple[Answer, None]:
            with self.jobs.running(request.session_hash, "every") as check:
                wish = replace(page_wish(**choices), second="", max_size=_SMALL_SIDE)
                picture = self.studio.read(photo, max_size=_SMALL_SIDE)
                with self.studio.new_folder() as folder:
                    shown: dict[str, str] = {}
                    for number, name in enumerate(self.studio.every_style):
                        one = replace(wish, style=name)
                        after = self.studio.paint(picture, one, lambda _: check()).after
                        shown[name] = str(save_shown(after, folder / str(number)))
                        tell({"kind": "painting", "pictures": dict(shown)})
                return {"kind": "painted", "pictures": shown}, None

        for answer, _ in _told(work, _echoed(asked)):
            yield answer

    def batch(
        self,
        request: gr.Request,
        asked: Answer,
        *,
        photos: Sequence[str] = (),
        format: str = "png",
        **choices: Any,
    ) -> Iterator[Answer]:
        """All photos in one ZIP file, and what became of each; what was finished where stopped.

        choices: as page_wish takes them.
        """

        def work(tell: Callable[[Answer], None]) -> tuple[Answer, None]:
            with self.jobs.running(request.session_hash) as check:
                return self._batch(tell, check, photos, format, page_wish(**choices)), None

        for answer, _ in _told(work, _echoed(asked)):
            yield answer

    def _batch(
        self,
        tell: Callable[[Answer], None],
        check: Callable[[], None],
        photos: Sequence[str],
        format: str,
        wish: Wish,
    ) -> Answer:
        if not photos:
            raise RefusedError("Choose some photos first.")
        self.studio.code(wish)  # what is wrong with the style is wrong once, not per photo
        with self.studio.new_folder() as folder:
            file = folder / f"repainted-{wish.label[:60]}.zip".replace(":", "-")
            left, done = [], 0
            for number, photo in enumerate(photos):
                doing = f"Painting {number + 1} of {len(photos)}"
                report = _reporter(tell, check, doing, number / len(photos), len(photos))
                try:
                    report(0.0)
                    self._add(file, photo, wish, format, report)
                    done += 1
                except StoppedError:
                    left += [
                        f"{Path(name).name}: not painted, stopped." for name in photos[number:]
                    ]
                    break
                except Exception as error:
                    left.append(_sentence(error))
            stopped = done + len(left) == len(photos) and any(x.endswith("stopped.") for x in left)
            count = f"{done} photo{'' if done == 1 else 's'} painted"
            text = f"{'Stopped: ' * stopped}{count}{f', {len(left)} left out:' if left else '.'}"
            answer: Answer = {"kind": "painted", "text": text, "left": left, "zip": None}
            return answer | ({"zip": str(file), "name": file.name} if done else {})

    def _add(
        self, file: Path, photo: str, wish: Wish, format: str, report: Callable[[float], None]
    ) -> None:
        """Paint one photo into the ZIP file, under a name that no other in it has."""
        picture = self.studio.read(photo, max_size=wish.max_size)
        after = self.studio.paint(picture, wish, report, waiting=lambda _: report(0.0)).after
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

    def glimpse(
        self,
        request: gr.Request,
        asked: Answer,
        *,
        clip: str | None = None,
        clip_size: int = PREVIEW_SIDE,
        **choices: Any,
    ) -> Iterator[Answer]:
        """One frame of a clip, painted as all will be, and what there is to know of the clip.

        clip_size: pixels of the longest side. choices: as page_wish takes them.
        """

        def work(tell: Callable[[Answer], None]) -> tuple[Answer, None]:
            with self.jobs.running(request.session_hash, "glimpse") as check:
                file = self.studio.there(clip, "a clip")
                try:
                    with self.studio.decoding.clip:
                        seen = clips.glimpse(file)
                except (RefusedError, images.ImageError) as error:
                    return {"kind": "refused", "text": _sentence(error)}, None
                wish = page_wish(**choices | {"size": clip_size})
                frame = images.resize(seen.frame, wish.max_size or clip_size)
                tell({"kind": "seen", "told": seen.told})
                painted = self.studio.paint(
                    images.resize(frame, PREVIEW_SIDE),
                    _smaller(wish, frame),
                    lambda _: check(),
                    quick=True,
                    waiting=_waiting(self.studio, tell, check),
                )
                with self.studio.new_folder() as folder:
                    shown = str(save_shown(painted.after, folder / "frame"))
                strokes = wish.look.stroke_size(frame.height, frame.width)
                each = self.studio.line.seconds(megapixels(frame), strokes)
                return {
                    "kind": "preview",
                    "after": shown,
                    "label": self.studio.told(wish),
                    "told": seen.told,
                    "seconds": None if seen.frames is None else seen.frames * each,
                }, None

        for answer, _ in _told(work, _echoed(asked)):
            yield answer

    def clip(
        self,
        request: gr.Request,
        asked: Answer,
        *,
        clip: str | None = None,
        clip_size: int = PREVIEW_SIDE,
        **choices: Any,
    ) -> Iterator[Answer]:
        """A clip painted frame by frame, with its sound, and notes on what was left out.

        clip_size, choices: as of `glimpse`.
        """

        def work(tell: Callable[[Answer], None]) -> tuple[Answer, None]:
            with self.jobs.running(request.session_hash, "clip") as check:
                file = self.studio.there(clip, "a clip")
                wish = page_wish(**choices | {"size": clip_size})
                tell({"kind": "painting", "text": "Looking through the clip"})
                report = None

                def told(doing: str, number: int, count: int | None) -> None:
                    nonlocal report
                    check()
                    if doing != LOOKING:
                        # From its first frame on the time that is left can be told.
                        report = report or _reporter(tell, check)
                        report(number / max(1, count or 1))

                others = _waiting(self.studio, tell, check)

                def waiting(place: Place) -> None:
                    # Between its frames others' are painted, of which there is nothing to say.
                    check() if report else others(place)

                with self.studio.new_folder() as folder:
                    target = folder / result_name(str(file), wish, "mp4")
                    notes = clips.paint(self.studio, file, target, wish, told, waiting)
                notes = [f"{note[:1].upper()}{note[1:]}." for note in notes]
                answer = {"kind": "painted", "clip": str(target), "name": target.name}
                return answer | {"notes": notes, "label": self.studio.told(wish)}, None

        for answer, _ in _told(work, _echoed(asked)):
            yield answer

    def about(self, asked: Answer) -> Answer:
        """The judge's opinion of a result, where it is sure and agrees: a guess helps nobody."""
        path = (asked.get("picture") or {}).get("path")
        style = str(asked.get("style", "")).partition(":")[0]
        if self.judge is None or style not in TITLES or not isinstance(path, str):
            return {}
        try:
            shares = self.judge.opinion(self.studio.read(path, "a photo"))
        except Exception as error:
            _log.debug("no opinion", exc_info=error)
            return {}
        best, share = max(shares.items(), key=lambda item: item[1])
        if best != TITLES[style] or share < _SURE:
            return {}
        told = f"{best}, and is {share:.0%} sure"
        return _echoed(asked) | {"facts": {"A judge of styles takes it for": told}}

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


def _echoed(asked: Answer) -> Answer:
    """Of what the page asked what tells it apart from other askings."""
    wish = asked.get("wish")
    return {"wish": wish} if isinstance(wish, (int, float)) else {}


def _smaller(wish: Wish, full: Picture) -> Wish:
    """A wish whose preview looks as the whole does when it is seen as small.

    Where the strokes have a size of their own, they are smaller by as much as the picture is.
    """
    look = wish.look
    if isinstance(look.brush_size, int):
        times = max(full.width, full.height) / PREVIEW_SIDE
        fitting = [size for size in SIZES if size <= max(1, look.brush_size / times)]
        look = replace(look, brush_size=max(fitting, default=SIZES[0]))
    return replace(wish, max_size=PREVIEW_SIDE, look=look)


def _told(
    work: Callable[[Callable[[Answer], None]], tuple[Answer, None]], asked: Answer
) -> Iterator[tuple[Answer, Any]]:
    """Does the work in a thread of its own, and hands on what it tells and, last, returns.

    Whatever goes wrong is told, too: a page that Gradio has show an error stays with it.
    """
    told: queue.SimpleQueue[tuple[Answer, Any] | None] = queue.SimpleQueue()

    def run() -> None:
        try:
            told.put(work(lambda answer: told.put((answer, gr.skip()))))
        except StoppedError:
            told.put(({"kind": "stopped"}, gr.skip()))
        except GoneError as error:
            told.put(({"kind": "gone", "text": str(error)}, gr.skip()))
        except Exception as error:
            told.put(({"kind": "sorry", "text": _sentence(error)}, gr.skip()))
        told.put(None)

    threading.Thread(target=run, daemon=True).start()
    while (one := told.get()) is not None:
        answer, finished = one
        yield asked | answer, gr.skip() if finished is None else finished


def _reporter(
    tell: Callable[[Answer], None],
    check: Callable[[], None],
    doing: str = "Painting",
    start: float = 0.0,
    parts: int = 1,
) -> Callable[[float], None]:
    """Tells how much is done of one part of `parts`, and raises where it was stopped."""
    shown = time.monotonic() + (QUICKLY if parts == 1 else 0) - _PROGRESS_EVERY
    began = time.monotonic()

    def report(done: float) -> None:
        nonlocal shown
        check()
        now = time.monotonic()
        if now - shown >= _PROGRESS_EVERY:
            shown = now
            text = doing
            if parts == 1 and done > 0.05:
                text += _about((now - began) * (1 - done) / done)
            tell({"kind": "painting", "done": round(start + done / parts, 3), "text": text})

    return report


def _waiting(
    studio: Studio, tell: Callable[[Answer], None], check: Callable[[], None]
) -> Callable[[Place], None]:
    shown = time.monotonic() + QUICKLY - _WAITING_EVERY

    def waiting(place: Place) -> None:
        nonlocal shown
        check()
        now = time.monotonic()
        if now - shown >= _WAITING_EVERY:
            shown = now
            left = _about(studio.line.ahead(place))
            tell({"kind": "waiting", "text": f"Others are painting first{left}"})

    return waiting


def _about(seconds: float) -> str:
    if seconds < 1.5:
        return ""
    if seconds < 90:
        return f": about {seconds:.0f} s left"
    return f": about {seconds / 60:.0f} min left"
