"""The page's own components: uploads, a picker of styles, a mask's brush, the options of a look."""

import html
from collections.abc import Mapping, Sequence
from dataclasses import Field
from pathlib import Path
from typing import Any

import gradio as gr
from gradio import component_meta
from gradio.data_classes import FileData, ImageData, ListFiles

from app.demo.studio import OWN
from app.look import AMOUNTS

ASSETS = Path(__file__).parent / "assets"

# Gradio writes a type stub beside the source of every component class; ours needs none.
component_meta.create_or_modify_pyi = lambda *_: None


class PictureFile(gr.Image):
    """An image upload that hands over the file as it was uploaded.

    gr.Image opens the file with Pillow first, which fails on a broken one before app.images can
    say why.
    """

    is_template = True  # the browser shows it as its parent, a gr.Image

    def preprocess(self, payload: ImageData | None) -> str | None:
        """The uploaded file's path, or None where there is none.

        Raises gr.Error for a path outside the folder of uploads.
        """
        return None if payload is None else _uploaded(payload.path, self.GRADIO_CACHE)


class PictureFiles(gr.File):
    """An upload of several files, handed over as they were uploaded; gr.File would copy them."""

    is_template = True

    def preprocess(self, payload: ListFiles | FileData | None) -> list[str]:
        """The uploaded files' paths. Raises gr.Error for one outside the folder of uploads."""
        if payload is None:
            return []
        files = payload.root if isinstance(payload, ListFiles) else [payload]
        return [path for f in files if (path := _uploaded(f.path, self.GRADIO_CACHE))]


def _uploaded(path: str | None, folder: str) -> str | None:
    # Gradio checks this only where the request marks the path as a file's: without the check
    # here, a request could have any picture on this machine painted and sent.
    if path and not Path(path).resolve().is_relative_to(Path(folder).resolve()):
        raise gr.Error("Upload the picture first.", print_exception=False)
    return path


def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


class _Own(gr.HTML):
    """A component of the page's own; its html, css and js are the files called `assets`.

    named: what stands in the html for a word in capitals behind a dollar sign. options: of
    gr.HTML; its props are attributes of their own, since gr.HTML makes events of what it lacks.
    """

    assets = ""

    def __init__(self, value: Any = None, named: Mapping[str, str] | None = None, **options: Any):
        template = options.pop("html_template", None) or _asset(f"{self.assets}.html")
        for word, text in (named or {}).items():
            template = template.replace(f"${word}", text)
        super().__init__(
            value=value,
            html_template=template,
            css_template=_asset(f"{self.assets}.css"),
            js_on_load=_asset(f"{self.assets}.js"),
            apply_default_css=False,
            elem_classes=["bare", *options.pop("elem_classes", [])],
            **options,
        )


class _Chosen(_Own):
    """A file that a visitor chooses; its value has the path that its upload was given."""

    def preprocess(self, payload: Any) -> str | None:
        """The uploaded file's path, or None where there is none.

        Raises gr.Error for a path outside the folder of uploads.
        """
        if not isinstance(payload, Mapping):
            return None
        path = payload.get("path")
        return _uploaded(path, self.GRADIO_CACHE) if isinstance(path, str) else None


class PhotoPicker(_Chosen):
    """A picture that a visitor chooses; its value has the path that its upload was given.

    name: as the page's scripts call it. label: as it is told of; choose, another: what the button
    says without and with one.
    """

    assets = "photo"

    def __init__(self, name: str, label: str, choose: str, another: str, **options: Any):
        named = {"WHAT": _text(label), "CHOOSE": _text(choose)}
        super().__init__(None, named, name=name, choose=choose, another=another, **options)
        self.name, self.choose, self.another = name, choose, another


class ClipPicker(_Chosen):
    """A clip that a visitor chooses.

    What it may be at most is said beside it: seconds, the file's bytes, the sides of its frames.
    """

    assets = "clip"

    def __init__(self, seconds: int, size: int, sides: tuple[int, int], **options: Any):
        words = f"Up to {seconds} seconds, {size >> 20} MB and {sides[0]} × {sides[1]} pixels."
        props = {"seconds": seconds, "size": size, "pixels": sides[0] * sides[1]}
        super().__init__(None, {"LIMITS": _text(words)}, **props, **options)


class StylePicker(_Own):
    """Styles as a group of radio buttons with pictures; its value is the chosen style's name.

    groups: for each style its title and its variants, each a name, a picture's address, and what
    the painting shows that it was learned from, "" where that is not known.
    """

    assets = "picker"

    def __init__(
        self, groups: Mapping[str, Sequence[tuple[str, str, str]]], value: str, **options: Any
    ):
        html_template = _picker_html(groups, options.get("elem_id", "styles"))
        super().__init__(value, html_template=html_template, **options)


def _picker_html(groups: Mapping[str, Sequence[tuple[str, str, str]]], name: str) -> str:
    parts = ["<fieldset><legend>Style</legend><div class='groups'>"]
    for title, variants in groups.items():
        parts.append(f"<div class='group'><div class='title'>{_text(title)}</div><div class='row'>")
        for number, (style, picture, shows) in enumerate(variants, 1):
            label = title if len(variants) == 1 else f"{title}, variant {number}"
            label += f", learned from {shows}" * bool(shows)
            short = f"{title}: {shows}" if shows else label
            parts.append(
                f"<label title='{_text(label)}'>"
                f"<input type='radio' name='{name}' value='{_text(style)}'"
                f" data-title='{_text(short)}' aria-label='{_text(label)}'>"
                f"<img src='{_text(picture)}' alt='An example in the style {_text(label)}'></label>"
            )
        parts.append("</div></div>")
    parts.append(
        "</div><span class='chosen' aria-hidden='true'></span><div class='more'>"
        f"<label class='own'><input type='radio' name='{name}' value='{OWN}'"
        " data-title='A painting of your own'><span>A painting of your own</span></label>"
        "<button type='button' class='every'>Show my photo in each style</button></div></fieldset>"
    )
    return "".join(parts)


class ExamplePicker(gr.HTML):
    """Example photos as buttons; a click has one for the photo.

    examples: of each what it shows, the name of its small picture and of its file, under page/.
    """

    def __init__(self, examples: Sequence[tuple[str, str, str]], **options: Any):
        buttons = "".join(
            f"<button type='button' data-file='{_text(file)}'>"
            f"<img src='./page/{_text(picture)}' alt='{_text(shows)}'></button>"
            for shows, picture, file in examples
        )
        super().__init__(
            html_template=f"<p>Or try one of these</p><div>{buttons}</div>",
            css_template=_asset("examples.css"),
            js_on_load=_asset("examples.js"),
            apply_default_css=False,
            elem_classes=["bare", *options.pop("elem_classes", [])],
            **options,
        )


def _text(text: str) -> str:
    """Text for the template: neither its HTML nor its placeholders (${ }, {{ }}) are read."""
    escaped = html.escape(text)
    for mark in "${}`\\":
        escaped = escaped.replace(mark, f"&#{ord(mark)};")
    return escaped


class MaskBrush(_Own):
    """A canvas on the photo where the part to paint is drawn.

    Its value is the mask as a PNG's data URL, white where drawn, or "" for none.
    """

    assets = "brush"


class Stage(_Own):
    """The photo and its painting, and what is done with them. Its value is shown at first."""

    assets = "stage"


class Result(_Own):
    """What is done with a painting, those painted before it, and what there is to know of it."""

    assets = "result"


class Desk(_Own):
    """The button that paints, always at hand, and what is to be said of a painting."""

    assets = "desk"


class Many(_Own):
    """What became of several photos."""

    assets = "many"


class ClipResult(_Own):
    """A frame of a clip as it will be painted, and then the painted clip."""

    assets = "clip_result"


class Channel(gr.HTML):
    """Hands what the page wishes to an action (`asked`), and its answer, a dict, to the page."""

    def __init__(self, name: str):
        super().__init__(
            html_template="",
            js_on_load=_asset("channel.js"),
            apply_default_css=False,
            elem_classes=["silent"],
            name=name,
        )
        self.name = name

    def preprocess(self, payload: Any) -> dict[str, Any]:  # type: ignore[override]
        """What the page asks beside its settings.

        Raises gr.Error for a picture outside the folder of uploads.
        """
        asked = dict(payload) if isinstance(payload, Mapping) else {}
        if "picture" in asked:
            picture = asked["picture"]
            path = picture.get("path") if isinstance(picture, Mapping) else None
            path = path if isinstance(path, str) else None
            asked["picture"] = {"path": _uploaded(path, self.GRADIO_CACHE)}
        return asked


class Slide(_Own):
    """A number chosen on a slide that says in words what its ends, and its middle, are.

    words: of the least, where there is one of the middle, and of the most.
    """

    assets = "slide"

    def __init__(
        self,
        label: str,
        value: float,
        words: Sequence[str],
        least: float = 0.0,
        most: float = 1.0,
        middle: float | None = None,
        **options: Any,
    ):
        shown = "".join(f"<span>{_text(word)}</span>" for word in words)
        props = {"least": least, "middle": middle, "most": most, "words": list(words)}
        named = {"LABEL": _text(label), "WORDS": shown}
        super().__init__(value, named, label=label, **props, **options)
        self.least, self.middle, self.most, self.words = least, middle, most, list(words)


def shown_input(option: Field) -> Slide | gr.Checkbox | gr.Radio:
    """What of the page one of a look's fields is chosen with; see `shown_value`."""
    about, default = option.metadata, _default(option)
    if "range" in about:
        least, most = about["range"]
        if option.name in AMOUNTS:
            words = ("none", "as the style", "strong")
            return Slide(about["label"], default, words, least, most, middle=default)
        return Slide(about["label"], default, ("photo", "painting"), least, most)
    if about["switched_on"] is not None:
        return gr.Checkbox(default is not None, label=about["label"])
    words = about.get("words", {})
    choices = [(words.get(choice, str(choice)), choice) for choice in about["choices"]]
    return gr.Radio(choices, value=default, label=about["label"])


def _default(option: Field) -> Any:
    return option.default


def shown_value(option: Field, value: Any) -> Any:
    """What a look has, where its `shown_input` has this value."""
    switched_on = option.metadata.get("switched_on")
    return value if switched_on is None else switched_on if value else None


class Anything(gr.Number):
    """A number of the API that hands over whatever it is sent: what takes it says what is wrong."""

    is_template = True

    def preprocess(self, payload: Any) -> Any:
        """The payload itself."""
        return payload


def api_input(option: Field) -> gr.Number | gr.Textbox:
    """The API's input for one of a look's fields."""
    default = _default(option)
    if isinstance(default, float):
        return Anything(default, label=option.name)
    if isinstance(default, int):
        return Anything(default, label=option.name, precision=0)
    return gr.Textbox("" if default is None else default, label=option.name)
