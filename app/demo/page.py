"""The page: what is on it and where, and which event leads to which action."""

import inspect
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.components import Component
from gradio.events import Dependency

from app import images
from app.demo.actions import QUICKLY, Actions
from app.demo.components import (
    Anything,
    ExamplePicker,
    MaskBrush,
    PictureFile,
    PictureFiles,
    StylePicker,
    api_input,
    shown_input,
)
from app.demo.examples import example_photos, thumbnails
from app.demo.jobs import Jobs
from app.demo.numbers import Judge
from app.demo.studio import OWN, TITLES, Studio, data_url
from app.demo.uploads import is_ours
from app.limits import LONGEST_QUEUE
from app.look import OPTIONS, explained
from app.painter import Painter

# Of a look's fields, those that are never folded away.
_ALWAYS_SEEN = ("strength", "keep_color", "brush_size")
_FIRST_OF_THE_FINER = ("brushwork", "simplify", "tone")  # the others stand beside them

_log = logging.getLogger(__name__)

SIZES = [("512 px", 512), ("1024 px", 1024), ("2048 px", 2048), ("Original", 0)]

# Seconds. A result stays long enough to be downloaded after a coffee.
CLEAN_EVERY, KEEP_FILES = 60, 3600

# Visitors whose state is kept, the last ones; it holds a result until its files are written.
SESSIONS = 200

# The Stop button is there while the page's body is busy. What is done with the last picture is not
# there while it is repainting: until the new one's files are, or it is sure that none will be. A
# picture that is quickly there needs no clock.
_BUSY = "(...given) => { document.body.classList.add('busy'); return given; }"
_IDLE = "() => document.body.classList.remove('busy')"
_REPAINTING = f"""(...given) => {{
  document.body.classList.add('busy', 'repainting', 'quick');
  setTimeout(() => document.body.classList.remove('quick'), {1000 * QUICKLY:.0f});
  return given;
}}"""
_REPAINTED = "() => document.body.classList.remove('repainting')"
_STOPPED = "() => document.body.classList.remove('busy', 'repainting')"

# Listeners whose answer comes at once, and those that wait in the queue.
_QUICK: dict[str, Any] = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}
_SLOW: dict[str, Any] = {"js": _BUSY, "api_visibility": "private", "scroll_to_output": True}

# Hands on what it is given, once the newest picture can be drawn.
_WHEN_SHOWN = """async (given) => {
  const picture = document.querySelectorAll("#comparison img")[1];
  if (picture) await picture.decode().catch(() => {});
  return given;
}"""

# Pixels; shown at half of it on a screen of twice the density.
_EXAMPLE_SIDE = 144

# What paints, one after the other: the page's button and strip and the endpoint. A batch has a
# place beside them, so that a visitor with one photo waits for one of its photos, not for all.
_ONE, _BATCH = "painter", "batch"


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
        delete_cache=(CLEAN_EVERY, KEEP_FILES),
        fill_width=True,
    ) as page:
        # Gradio reads the environment for its folder when a page is built.
        studio = Studio(painter, page.GRADIO_CACHE, max_pixels)
        actions = Actions(studio, judge)
        _lay_out(actions, cache)
        page.unload(actions.stop)
    # Where a test, or whoever embeds the page, sees what is running.
    page.jobs, page.studio = actions.jobs, studio
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
    max_queue: int

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
class _Photo:
    one: gr.Tab
    many: gr.Tab
    photo: PictureFile
    examples: ExamplePicker
    brush: MaskBrush
    photos: PictureFiles


@dataclass(frozen=True, kw_only=True)
class _Choices:
    """What is chosen beside the photo.

    look: the fields of a Look by their names.
    """

    style: StylePicker
    painting: PictureFile
    second: gr.Dropdown
    second_painting: PictureFile
    share: gr.Slider
    size: gr.Radio
    look: Mapping[str, Any]

    @property
    def by_name(self) -> dict[str, Component]:
        """Each as actions.page_wish calls it."""
        own = {each.name: getattr(self, each.name) for each in fields(self)}
        return own.pop("look") | own


@dataclass(frozen=True, kw_only=True)
class _Buttons:
    paint: gr.Button
    paint_all: gr.Button
    stop: gr.Button


@dataclass(frozen=True, kw_only=True)
class _One:
    panel: gr.Column
    comparison: gr.ImageSlider
    after: gr.Column
    png: gr.DownloadButton
    jpg: gr.DownloadButton
    again: gr.Button
    every: gr.Button
    strip: gr.Gallery
    numbers: gr.Accordion
    opinion: gr.Label
    table: gr.HTML
    finished: gr.State
    facts: gr.State
    measuring: gr.State


@dataclass(frozen=True, kw_only=True)
class _Many:
    panel: gr.Column
    format: gr.Radio
    archive: gr.DownloadButton
    report: gr.HTML


def _lay_out(actions: Actions, cache: Path | None) -> None:
    gr.HTML(
        "<h1>Repaint</h1><p>Your photo, in the style of a painting. "
        "What you upload stays on this server and is deleted after an hour.</p>",
        elem_id="heading",
    )
    with gr.Row(equal_height=False):
        with gr.Column(scale=5, min_width=320):
            given = _photo_section()
            styles = _style_section(actions.studio, cache)
        with gr.Column(scale=6, min_width=320):
            size, look = _options_section()
            buttons = _buttons_section()
            one = _one_section()
            many = _many_section()
    choices = _Choices(**styles, size=size, look=look)
    _wire_inputs(actions, given, choices, one, many, buttons)
    _wire_painting(actions, given, choices, one, many, buttons)
    _endpoints(actions)


def _photo_section() -> _Photo:
    with gr.Tabs():
        with gr.Tab("One photo") as one_tab:
            photo = PictureFile(
                label="Photo",
                type="filepath",
                sources=["upload", "webcam", "clipboard"],
                buttons=[],
                height=300,
                elem_id="photo",
            )
            examples = ExamplePicker(
                [
                    (shows, data_url(images.load(path, max_size=_EXAMPLE_SIDE), _EXAMPLE_SIDE))
                    for path, shows in example_photos()
                ],
                elem_id="examples",
            )
            with gr.Accordion("Only here: paint a part of it", open=False):
                brush = MaskBrush(elem_id="brush")
        with gr.Tab("Many photos") as many_tab:
            photos = PictureFiles(
                label="Photos", file_count="multiple", type="filepath", height=300, elem_id="photos"
            )
    return _Photo(
        one=one_tab, many=many_tab, photo=photo, examples=examples, brush=brush, photos=photos
    )


def _style_section(studio: Studio, cache: Path | None) -> dict[str, Any]:
    pictures = thumbnails(studio, images.load(example_photos()[0][0]), cache)
    groups = {
        TITLES.get(name, name): [(variant, pictures[variant]) for variant in variants]
        for name, variants in studio.variants.items()
    }
    first = studio.names[0] if studio.names else OWN
    style = StylePicker(groups, value=first, elem_id="styles")
    painting = _painting("Your painting", "painting", visible=first == OWN)
    with gr.Accordion("Mix in a second style", open=False):
        second = gr.Dropdown(
            [("None", ""), *_named(groups), ("A painting of your own", OWN)],
            value="",
            label="Second style",
        )
        second_painting = _painting("Your second painting", "second-painting", visible=False)
        share = gr.Slider(
            0, 1, value=0.5, step=0.05, label="Its share", info="0 is only the first, 1 the second"
        )
    return {
        "style": style,
        "painting": painting,
        "second": second,
        "second_painting": second_painting,
        "share": share,
    }


def _options_section() -> tuple[gr.Radio, dict[str, Component]]:
    """The size, and the fields of a Look by their names."""
    shown: dict[str, Component] = {}

    def show(names: Iterable[str]) -> None:
        with gr.Column(min_width=260):
            shown.update((name, shown_input(OPTIONS[name])) for name in names)

    others = [name for name in OPTIONS if name not in (*_ALWAYS_SEEN, *_FIRST_OF_THE_FINER)]
    with gr.Row(equal_height=True, elem_id="options"):
        show(("strength", "keep_color"))
        with gr.Column(min_width=260):
            size = gr.Radio(SIZES, value=1024, label="Longest side, at most")
            shown["brush_size"] = shown_input(OPTIONS["brush_size"])
    with gr.Accordion("Finer controls", open=False), gr.Row():
        show(_FIRST_OF_THE_FINER)
        show(others)
    return size, shown


def _painting(label: str, name: str, visible: bool) -> PictureFile:
    return PictureFile(
        label=label,
        type="filepath",
        sources=["upload", "clipboard"],
        buttons=[],
        height=220,
        elem_id=name,
        visible=visible,
    )


def _named(groups: Mapping[str, Sequence[tuple[str, str]]]) -> Iterator[tuple[str, str]]:
    for title, variants in groups.items():
        for number, (name, _) in enumerate(variants, 1):
            yield (title if number == 1 else f"{title}, variant {number}", name)


def _buttons_section() -> _Buttons:
    with gr.Row():
        paint = gr.Button("Paint it", variant="primary", size="lg", scale=3)
        paint_all = gr.Button(
            "Paint them all", variant="primary", size="lg", scale=3, visible=False
        )
        stop = gr.Button("Stop", size="lg", scale=1, min_width=90, elem_id="stop")
    return _Buttons(paint=paint, paint_all=paint_all, stop=stop)


def _one_section() -> _One:
    with gr.Column(visible=True) as panel:
        comparison = gr.ImageSlider(
            label="Before and after",
            interactive=False,
            buttons=["fullscreen"],
            max_height=720,
            elem_id="comparison",
        )
        with gr.Column(visible=False, elem_id="result") as after, gr.Row():
            png = gr.DownloadButton("Download PNG", interactive=False, size="md", min_width=120)
            jpg = gr.DownloadButton("Download JPEG", interactive=False, size="md", min_width=120)
            again = gr.Button("Use as photo", size="md", min_width=120)
        every = gr.Button("This photo in every style", size="md")
        strip = gr.Gallery(
            label="Every style: click one to paint in it",
            visible=False,
            columns=4,
            object_fit="cover",
            allow_preview=False,
            interactive=False,
            buttons=[],
            elem_id="strip",
        )
        with gr.Accordion("Numbers", open=False) as numbers:
            opinion = gr.Label(label="What a judge of styles takes it for", visible=False)
            table = gr.HTML("<p>Paint a photo first.</p>", elem_id="numbers")
        finished, facts, measuring = gr.State(None), gr.State(None), gr.State(False)
    return _One(
        panel=panel,
        comparison=comparison,
        after=after,
        png=png,
        jpg=jpg,
        again=again,
        every=every,
        strip=strip,
        numbers=numbers,
        opinion=opinion,
        table=table,
        finished=finished,
        facts=facts,
        measuring=measuring,
    )


def _many_section() -> _Many:
    with gr.Column(visible=False) as panel:
        format = gr.Radio([("PNG", "png"), ("JPEG", "jpg")], value="jpg", label="Save them as")
        archive = gr.DownloadButton("Download all as ZIP", interactive=False)
        report = gr.HTML(elem_id="report", min_height=80)
    return _Many(panel=panel, format=format, archive=archive, report=report)


def _wire_inputs(
    actions: Actions, given: _Photo, choices: _Choices, one: _One, many: _Many, buttons: _Buttons
) -> None:
    """What is seen of the page: it follows the photo, the tab and the chosen styles."""
    # What the last photo looks like in every style is put away.
    given.photo.change(lambda: gr.Gallery(visible=False), None, one.strip, **_QUICK)
    # Through the queue: what is wrong with a photo is shown only then.
    looked = given.photo.change(
        actions.look,
        [given.photo, choices.size],
        [given.photo, given.brush],
        concurrency_limit=4,
        show_progress="hidden",
        api_visibility="private",
    )
    # What takes time before a photo can be painted is done before it is asked for.
    ready: dict[str, Any] = {
        "fn": actions.get_ready,
        **_named_inputs(choices, photo=given.photo),
        **_QUICK,
    }
    looked.success(**ready)
    gr.on(
        [
            choices.style.change,
            choices.painting.change,
            choices.second.change,
            choices.second_painting.change,
            choices.size.change,
            choices.look["brush_size"].change,
        ],
        trigger_mode="always_last",
        **ready,
    )
    given.examples.select(actions.example, None, given.photo, **_QUICK)
    for tab, single in ((given.one, True), (given.many, False)):
        tab.select(
            lambda single=single: (
                gr.Column(visible=single),
                gr.Column(visible=not single),
                gr.Button(visible=single),
                gr.Button(visible=not single),
            ),
            outputs=[one.panel, many.panel, buttons.paint, buttons.paint_all],
            **_QUICK,
        )
    for chosen, upload in (
        (choices.style, choices.painting),
        (choices.second, choices.second_painting),
    ):
        chosen.change(lambda style: gr.Image(visible=style == OWN), chosen, upload, **_QUICK)
    one.again.click(
        lambda facts: facts["result"] if facts else gr.skip(), one.facts, given.photo, **_QUICK
    )


def _named_inputs(choices: _Choices, **others: Component) -> dict[str, Any]:
    """An event's inputs, all of which reach its action by name."""
    return {"inputs_kwargs": others | choices.by_name}


def _wire_painting(
    actions: Actions, given: _Photo, choices: _Choices, one: _One, many: _Many, buttons: _Buttons
) -> None:
    """What the buttons paint, the numbers about it, and how it is stopped."""
    painting = _named_inputs(choices, last=one.finished, photo=given.photo, mask=given.brush)
    painting |= {"outputs": [one.comparison, one.finished]}
    painting |= {"concurrency_id": _ONE, "show_progress_on": one.comparison}
    painting |= {**_SLOW, "js": _REPAINTING}
    click = buttons.paint.click(actions.repaint, **painting)
    strip = one.every.click(
        actions.strip,
        outputs=one.strip,
        **_named_inputs(choices, photo=given.photo),
        concurrency_id=_ONE,
        **_SLOW,
    )
    # A style clicked in the strip is chosen and painted.
    pick = one.strip.select(actions.pick, None, choices.style, **_QUICK)
    again = pick.then(actions.repaint, **painting)
    batch = buttons.paint_all.click(
        actions.batch,
        outputs=[many.archive, many.report],
        **_named_inputs(choices, photos=given.photos, format=many.format),
        concurrency_id=_BATCH,
        show_progress_on=many.report,
        **_SLOW,
    )
    files = [_wire_files(actions, one, painted) for painted in (click, again)]
    for over in (click.failure, again.failure, *(written.then for written in files)):
        over(None, js=_REPAINTED)
    _wire_numbers(actions, one, files)

    running = [click, strip, again, batch]
    for event in running:
        event.then(None, js=_IDLE)
    buttons.stop.click(actions.stop, **_QUICK)
    buttons.stop.click(None, js=_STOPPED, cancels=running)


def _wire_files(actions: Actions, one: _One, painted: Dependency) -> Dependency:
    """The files to download: the page asks for them when it shows the picture.

    Written before, they would hold up the picture that it loads and decodes meanwhile. They begin
    by taking back the last picture's. The page alone cannot tell whose files have come, where a
    visitor paints again before they have, or they could not be written.
    """
    return painted.success(
        actions.files,
        one.finished,
        [one.facts, one.after, one.png, one.jpg],
        concurrency_id="files",
        concurrency_limit=4,  # the last picture's files must not stay for others' sake
        show_progress="minimal",
        show_progress_on=one.comparison,
        api_visibility="private",
        js=_WHEN_SHOWN,
    )


def _wire_numbers(actions: Actions, one: _One, files: Iterable[Dependency]) -> None:
    """The numbers are measured while their panel is open, and never before the picture is shown."""
    measured: dict[str, Any] = {
        "fn": actions.measure,
        "inputs": [one.facts, one.measuring],
        "outputs": [one.opinion, one.table],
        "concurrency_id": "numbers",
        "show_progress": "minimal",
        "api_visibility": "private",
    }
    one.numbers.expand(lambda: True, None, one.measuring, **_QUICK).then(**measured)
    one.numbers.collapse(lambda: False, None, one.measuring, **_QUICK)
    for written in files:
        written.success(**measured)


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
            concurrency_id=_ONE,
            api_name="stylize",
            api_description="\n".join([inspect.getdoc(actions.stylize) or "", *about]),
        )
    gr.api(actions.styles, api_name="styles", queue=False)
