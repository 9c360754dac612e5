"""The page: what is on it and where, and which event leads to which action."""

import inspect
import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.components import Component

from app import images
from app.demo.actions import Actions
from app.demo.clips import LONGEST, SIDES
from app.demo.components import (
    Anything,
    Channel,
    ClipPicker,
    ClipResult,
    Desk,
    ExamplePicker,
    Many,
    MaskBrush,
    PhotoPicker,
    PictureFile,
    PictureFiles,
    Result,
    Slide,
    Stage,
    StylePicker,
    api_input,
    shown_input,
)
from app.demo.examples import Shown, arrival_style, pictures
from app.demo.jobs import Jobs
from app.demo.numbers import Judge
from app.demo.studio import OWN, TITLES, Studio
from app.demo.unwritten import Unwritten
from app.demo.uploads import LARGEST_CLIP, is_ours
from app.limits import LONGEST_QUEUE
from app.look import OPTIONS, explained
from app.painter import Painter

# Of a look's fields, those that are never folded away.
_ALWAYS_SEEN = ("strength", "keep_color", "brush_size")

_log = logging.getLogger(__name__)

SIZES = [("small", 512), ("screen", 1024), ("print", 2048), ("full (slow)", 0)]
# Of a clip, whose every frame takes as long as a photo of its size.
CLIP_SIZES = [("small", 384), ("medium", 512), ("large (slow)", 1024)]

# Seconds. A result stays long enough to be downloaded after a coffee. Gradio's own cleaning ends
# for ever where a file comes just then, and does not forget those that somebody else has removed.
CLEAN_EVERY, KEEP_FILES = 60, 3600

# Visitors of whom Gradio keeps a copy of the page's settings, a quarter of a megabyte each. Nothing
# here reads it: what belongs to a session is kept in Actions.
SESSIONS = 8

# Listeners whose answer comes at once.
_QUICK: dict[str, Any] = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}
# Those that wait in the queue. The page shows itself how far they are.
_QUEUED: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}

# What is asked of the endpoint is painted one after the other. The page's own wishes wait in the
# studio's line, where a preview goes before what takes long; each waits in a thread.
_ENDPOINT, PAGE_LINE, _WAITING = "painter", "page", 24

# After what came of no answer. Where it was the connection, it is asked for again.
_FAILED = {
    name: f"() => repaint.{part}.failed({argument})"
    for name, part, argument in (
        ("preview", "director", ""),
        ("paint", "director", ""),
        ("every", "director", "'every'"),
        ("files", "director", "'files'"),
        ("looked", "photos.photo", ""),
        ("batch", "batch", ""),
        ("glimpse", "video", ""),
        ("video", "video", ""),
    )
}


def build(
    painter: Painter,
    max_pixels: int = images.MAX_PIXELS,
    *,
    max_queue: int = LONGEST_QUEUE,
    judge: Judge | None = None,
    cache: Path | None = None,
) -> "Page":
    """The page and its endpoints `/stylize` and `/styles`, painting with `painter`.

    Photos and paintings of more than `max_pixels` (width x height) are refused unread. max_queue:
    how many may wait. judge: whose opinion is among the numbers. cache: a folder for the styles'
    thumbnails, which else are painted at every start.
    """
    with Page(
        title="Repaint",
        analytics_enabled=False,
        fill_width=True,
    ) as page:
        # Gradio reads the environment for its folder when a page is built.
        studio = Studio(painter, page.GRADIO_CACHE, max_pixels)
        actions = Actions(studio, judge)
        shown = pictures(studio, cache)
        _lay_out(page, actions, shown)
        page.unload(actions.stop)
    # Where a test, or whoever embeds the page, sees what is running.
    page.jobs, page.studio, page.unwritten = actions.jobs, studio, actions.unwritten
    page.pictures = shown.files
    page.state_session_capacity = SESSIONS
    # Not open: what waits in the queue can be asked for in no other way.
    page.max_queue = max_queue
    page.queue(default_concurrency_limit=1, max_size=max_queue, api_open=False)
    page._queue.ANALYTICS_MAX_EVENTS = 100  # nobody looks at them; Gradio would keep 10,000
    return page


class Page(gr.Blocks):
    """gr.Blocks that answers a request of the wrong form with a sentence, not with a traceback."""

    studio: Studio
    jobs: Jobs
    unwritten: Unwritten
    max_queue: int
    pictures: dict[str, bytes]

    async def preprocess_data(self, block_fn, inputs, *given, **options):
        """As of gr.Blocks. Raises gr.Error for inputs that are not what the listener takes."""
        if len(inputs) != len(block_fn.inputs):
            raise _wrong(f"This takes {len(block_fn.inputs)} inputs, not {len(inputs)}.")
        # Gradio looks at this, too, but not at all that a request may hold, nor in every way in
        # which a page can be served; and it would fetch any address.
        if not _names_own_files_only(inputs, self.GRADIO_CACHE):
            raise _wrong("Upload the picture first.")
        try:
            return await super().preprocess_data(block_fn, inputs, *given, **options)
        except gr.Error as error:
            error.print_exception = False
            raise
        except Exception as error:
            raise _wrong("The inputs are not of the kinds that this takes.") from error

    async def process_api(self, *given, **options):
        """As of gr.Blocks. Raises gr.Error for events that no page has, a click on nothing say."""
        try:
            return await super().process_api(*given, **options)
        except gr.Error:
            raise
        except Exception as error:
            _log.warning("an event could not be answered: %s: %s", type(error).__name__, error)
            _log.debug("this one", exc_info=error)
            raise _wrong("This can't be answered.") from error


def _wrong(sentence: str) -> gr.Error:
    return gr.Error(sentence, title="Sorry", print_exception=False)


def _names_own_files_only(value: object, folder: str) -> bool:
    """Whether each file in it, however deep, is one that this server wrote into its folder."""
    if isinstance(value, Mapping):
        path = value.get("path")
        if path and not (isinstance(path, str) and is_ours(path, folder)):
            return False
        return all(_names_own_files_only(inner, folder) for inner in value.values())
    if isinstance(value, list):
        return all(_names_own_files_only(inner, folder) for inner in value)
    return True


@dataclass(frozen=True, kw_only=True)
class _Choices:
    """What is chosen beside the photo.

    look: the fields of a Look by their names.
    """

    style: StylePicker
    painting: PhotoPicker
    second: gr.Dropdown
    second_painting: PhotoPicker
    share: Slide
    size: gr.Radio
    look: Mapping[str, Any]

    @property
    def by_name(self) -> dict[str, Component]:
        """Each as actions.page_wish calls it."""
        own = {each.name: getattr(self, each.name) for each in fields(self)}
        return own.pop("look") | own

    @property
    def settings(self) -> dict[str, Component]:
        """Those that a page can be told in a link: all but pictures."""
        return {n: c for n, c in self.by_name.items() if not isinstance(c, PhotoPicker)}


def _lay_out(page: gr.Blocks, actions: Actions, shown: Shown) -> None:
    gr.HTML(
        "<h1>Repaint</h1><p>Your photo, in the style of a painting. "
        "What you upload stays on this server and is deleted after an hour.</p>",
        elem_id="heading",
        elem_classes=["bare"],
    )
    paints_clips = actions.studio.painter.paints_clips
    modes = [("one", "One photo"), ("many", "Many photos"), ("video", "Video clip")]
    with gr.Tabs(elem_id="modes"):
        for name, title in modes if paints_clips else modes[:2]:
            with gr.Tab(title) as tab:
                pass
            tab.select(None, js=f"() => repaint.director.mode('{name}')", **_QUICK)
    with gr.Column(elem_id="bench"):
        photo = PhotoPicker(
            "photo",
            "Your photo",
            "Choose a photo",
            "Another photo",
            elem_id="photo",
            elem_classes=["only-one"],
        )
        photos = PictureFiles(
            label="Photos",
            file_count="multiple",
            type="filepath",
            height=220,
            elem_id="photos",
            elem_classes=["only-many"],
        )
        if paints_clips:
            clip = ClipPicker(
                LONGEST, LARGEST_CLIP, SIDES, elem_id="clip", elem_classes=["only-video"]
            )
        ExamplePicker(shown.examples, elem_id="examples", elem_classes=["only-one"])
        with gr.Column(elem_id="outcome"):
            Stage(_arrival(actions.studio), elem_id="stage", elem_classes=["only-one"])
            Result(elem_id="result", elem_classes=["only-one"])
            with gr.Column(elem_classes=["only-many"]):
                format = gr.Radio(
                    [("PNG", "png"), ("JPEG", "jpg")], value="jpg", label="Save them as"
                )
                Many(elem_id="report")
            if paints_clips:
                ClipResult(elem_id="clip-outcome", elem_classes=["only-video"])
        styles = _style_section(actions.studio, shown)
        size, look = _options_section()
        if paints_clips:
            clip_size = gr.Radio(
                CLIP_SIZES,
                value=512,
                label="Size of the clip",
                elem_id="clip-size",
                elem_classes=["only-video"],
            )
        with gr.Accordion(
            "Paint only part of the photo", open=False, elem_classes=["only-one", "with-photo"]
        ):
            brush = MaskBrush("", elem_id="brush")
        reset = gr.Button("Reset all settings", elem_id="reset")
        Desk(elem_id="desk")
    reset.click(None, js="() => repaint.director.reset()", **_QUICK)
    choices = _Choices(**styles, size=size, look=look)
    _wire_settings(page, choices)
    _wire_painting(actions, choices, photo, brush)
    _wire_batch(actions, choices, photos, format)
    if paints_clips:
        _wire_clip(actions, choices, clip, clip_size)
    _endpoints(actions)


def _arrival(studio: Studio) -> dict[str, Any]:
    """What is on the stage before anything was painted."""
    label = studio.title(arrival_style(studio)) if studio.names else ""
    return {
        "before": "./page/example-before.jpg",
        "after": "./page/example-after.jpg",
        "kind": "example",
        "label": label,
        "chip": f"An example, painted in the style {label}" if label else "",
    }


def _style_section(studio: Studio, shown: Shown) -> dict[str, Any]:
    groups = {
        TITLES.get(name, name): [
            (variant, f"./page/{shown.styles[variant]}", studio.learned_from.get(variant, ""))
            for variant in variants
        ]
        for name, variants in studio.variants.items()
    }
    first = arrival_style(studio) if studio.names else OWN
    style = StylePicker(groups, value=first, elem_id="styles")
    painting = _painting("painting", "Your painting", "painting")
    with gr.Accordion("Mix in a second style", open=False):
        named = [(studio.title(variant), variant) for variant in studio.every_style]
        second = gr.Dropdown(
            [("None", ""), *named, ("A painting of your own", OWN)],
            value="",
            label="Second style",
            elem_id="second",
        )
        second_painting = _painting("second_painting", "Your second painting", "second-painting")
        share = Slide("Mix", 0.5, ("first", "second"), elem_id="share")
    return {
        "style": style,
        "painting": painting,
        "second": second,
        "second_painting": second_painting,
        "share": share,
    }


def _painting(name: str, label: str, place: str) -> PhotoPicker:
    return PhotoPicker(name, label, "Choose a painting", "Another painting", elem_id=place)


def _options_section() -> tuple[gr.Radio, dict[str, Component]]:
    """The size, and the fields of a Look by their names."""
    shown: dict[str, Component] = {}

    def show(names: Iterable[str]) -> None:
        shown.update((name, shown_input(OPTIONS[name])) for name in names)

    with gr.Column(elem_id="options"):
        show(["strength"])
        size = gr.Radio(SIZES, value=1024, label="Size", elem_id="size")
        show(["brush_size", "keep_color"])
    with gr.Accordion("Finer controls", open=False, elem_id="finer"):
        show(name for name in OPTIONS if name not in _ALWAYS_SEEN)
    return size, shown


def _wire_settings(page: gr.Blocks, choices: _Choices) -> None:
    """The page's scripts know all settings, and can set them."""
    settings = choices.settings
    names, given = json.dumps(list(settings)), list(settings.values())
    page.load(None, given, js=f"(...v) => repaint.director.begin(v, {names})", **_QUICK)
    gr.on(
        [each.change for each in given],  # type: ignore[attr-defined]
        None,
        given,
        js="(...v) => repaint.director.chosen(v)",
        **_QUICK,
    )
    apply = Channel("apply")
    apply.asked(None, None, given, js="() => repaint.director.applied()", **_QUICK)


def _wire_painting(
    actions: Actions, choices: _Choices, photo: PhotoPicker, brush: MaskBrush
) -> None:
    """What is painted of one photo, what is said of it, and how it is stopped."""
    looked = Channel("looked")
    # Through the queue: another visitor's large photo may be looked at just now.
    photo.change(actions.look, photo, looked, concurrency_limit=4, **_QUEUED).failure(
        None, js=_FAILED["looked"]
    )
    page_line: dict[str, Any] = {
        "concurrency_id": PAGE_LINE,
        "concurrency_limit": _WAITING,
        **_QUEUED,
    }
    for name, paint in (("preview", actions.preview), ("paint", actions.paint)):
        channel = Channel(name)
        inputs = {"asked": channel, "photo": photo, "mask": brush}
        channel.asked(
            paint,
            inputs_kwargs=inputs | choices.by_name,
            outputs=channel,
            trigger_mode="multiple",
            **page_line,
        ).failure(None, js=_FAILED[name])
    files = Channel("files")
    files.asked(
        actions.files,
        files,
        files,
        concurrency_id="files",
        concurrency_limit=4,
        trigger_mode="multiple",
        **_QUEUED,
    ).failure(None, js=_FAILED["files"])
    every = Channel("every")
    every.asked(
        actions.every,
        inputs_kwargs={"asked": every, "photo": photo} | choices.by_name,
        outputs=every,
        **page_line,
    ).failure(None, js=_FAILED["every"])
    about = Channel("about")
    about.asked(actions.about, about, about, concurrency_id="numbers", **_QUEUED)
    stop = Channel("stop")
    stop.asked(actions.stop, **_QUICK)


def _wire_batch(
    actions: Actions, choices: _Choices, photos: PictureFiles, format: gr.Radio
) -> None:
    batch = Channel("batch")
    batch.asked(
        actions.batch,
        inputs_kwargs={"asked": batch, "photos": photos, "format": format} | choices.by_name,
        outputs=batch,
        concurrency_id="batch",
        concurrency_limit=4,
        **_QUEUED,
    ).failure(None, js=_FAILED["batch"])
    unchosen = Channel("unchosen")
    unchosen.asked(None, None, photos, js="() => null", **_QUICK)


def _wire_clip(actions: Actions, choices: _Choices, clip: ClipPicker, clip_size: gr.Radio) -> None:
    clip_size.change(None, js="() => repaint.video.changed()", **_QUICK)
    lines: dict[str, dict[str, Any]] = {
        "glimpse": {"concurrency_id": PAGE_LINE, "concurrency_limit": _WAITING},
        "video": {"concurrency_id": "video", "concurrency_limit": 2},
    }
    for name, action in (("glimpse", actions.glimpse), ("video", actions.clip)):
        channel = Channel(name)
        channel.asked(
            action,
            inputs_kwargs={"asked": channel, "clip": clip, "clip_size": clip_size}
            | choices.by_name,
            outputs=channel,
            trigger_mode="multiple",
            **lines[name],
            **_QUEUED,
        ).failure(None, js=_FAILED[name])


def _endpoints(actions: Actions) -> None:
    """What gradio_client can call. Their inputs are not on the page, whose defaults differ."""
    with gr.Row(visible=False):
        look = {name: api_input(option) for name, option in OPTIONS.items()}
        # By these names, or in this order: README names the first three.
        inputs: dict[str, Any] = {
            "photo": PictureFile(label="photo", type="filepath"),
            "style": gr.Textbox(label="style"),
            "strength": look.pop("strength"),
            "painting": PictureFile(label="painting", type="filepath"),
            "max_size": Anything(None, label="max_size", precision=0),
            "second_style": gr.Textbox("", label="second_style"),
            "share": Anything(0.5, label="share"),
            "keep_color": look.pop("keep_color"),
            "mask": PictureFile(label="mask", type="filepath"),
            "format": gr.Textbox("png", label="format"),
            **look,
        }
        about = [f"{name}: {explained(option)}." for name, option in OPTIONS.items()]
        gr.Button().click(
            actions.stylize,
            inputs_kwargs=inputs,
            outputs=gr.File(label="picture"),
            concurrency_id=_ENDPOINT,
            api_name="stylize",
            api_description="\n".join([inspect.getdoc(actions.stylize) or "", *about]),
        )
    gr.api(actions.styles, api_name="styles", queue=False)
