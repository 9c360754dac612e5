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


class StylePicker(gr.HTML):
    """Styles as a group of radio buttons with pictures; its value is the chosen style's name.

    groups: for each style its title and its variants, each a name and a picture's data URL.
    """

    def __init__(self, groups: Mapping[str, Sequence[tuple[str, str]]], value: str, **options: Any):
        super().__init__(
            value=value,
            html_template=_picker_html(groups, options.get("elem_id", "styles")),
            css_template=(ASSETS / "picker.css").read_text(encoding="utf-8"),
            js_on_load=(ASSETS / "picker.js").read_text(encoding="utf-8"),
            apply_default_css=False,
            **options,
        )


def _picker_html(groups: Mapping[str, Sequence[tuple[str, str]]], name: str) -> str:
    parts = ["<fieldset><legend>Style</legend><div class='groups'>"]
    for title, variants in groups.items():
        parts.append(f"<div class='group'><div class='title'>{_text(title)}</div><div class='row'>")
        for number, (style, picture) in enumerate(variants, 1):
            label = title if len(variants) == 1 else f"{title}, variant {number}"
            parts.append(
                f"<label><input type='radio' name='{name}' value='{_text(style)}'"
                f" aria-label='{_text(label)}'>"
                f"<img src='{picture}' alt='An example in the style {_text(label)}'></label>"
            )
        parts.append("</div></div>")
    parts.append(
        f"<label class='own'><input type='radio' name='{name}' value='{OWN}'>"
        "<span>A painting of your own</span></label></div></fieldset>"
    )
    return "".join(parts)


class ExamplePicker(gr.HTML):
    """Example photos as buttons; a click is a `select` event with the example's index.

    examples: of each what it shows, and a picture's data URL.
    """

    def __init__(self, examples: Sequence[tuple[str, str]], **options: Any):
        buttons = "".join(
            f"<button type='button'><img src='{picture}' alt='{_text(shows)}'></button>"
            for shows, picture in examples
        )
        super().__init__(
            html_template=f"<p>Or try one of these</p><div>{buttons}</div>",
            css_template=(ASSETS / "examples.css").read_text(encoding="utf-8"),
            js_on_load=(ASSETS / "examples.js").read_text(encoding="utf-8"),
            apply_default_css=False,
            **options,
        )


def _text(text: str) -> str:
    """Text for the template: neither its HTML nor its placeholders (${ }, {{ }}) are read."""
    escaped = html.escape(text)
    for mark in "${}`\\":
        escaped = escaped.replace(mark, f"&#{ord(mark)};")
    return escaped


class MaskBrush(gr.HTML):
    """A canvas on the photo where the part to paint is drawn.

    Its value is the mask as a PNG's data URL, white where drawn, or "" for none. photo: the
    photo's data URL; a new one clears the mask.
    """

    def __init__(self, photo: str = "", **options: Any):
        super().__init__(
            value="",
            html_template=(ASSETS / "brush.html").read_text(encoding="utf-8"),
            css_template=(ASSETS / "brush.css").read_text(encoding="utf-8"),
            js_on_load=(ASSETS / "brush.js").read_text(encoding="utf-8"),
            apply_default_css=False,
            photo=photo,
            **options,
        )
        # Gradio asks for what a constructor takes. Where gr.HTML has no attribute of that name it
        # makes an event of it, which holds the whole page and its network, for each visitor anew.
        self.photo = photo


def shown_input(option: Field) -> gr.Slider | gr.Checkbox | gr.Radio:
    """What of the page one of a look's fields is chosen with; see `shown_value`."""
    about, default = option.metadata, _default(option)
    if "range" in about:
        least, most = about["range"]
        info = about["info"] + ", 1 suits the style" * (option.name in AMOUNTS)
        step = about.get("step", 0.1)
        return gr.Slider(least, most, value=default, step=step, label=about["label"], info=info)
    if about["switched_on"] is not None:
        return gr.Checkbox(default is not None, label=about["label"])
    choices = [
        (f"{choice}×" if isinstance(choice, int) else str(choice).capitalize(), choice)
        for choice in about["choices"]
    ]
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
