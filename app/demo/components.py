"""The page's own components: uploads handed over as files, a picker of styles, a mask's brush."""

import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gradio as gr
from gradio import component_meta
from gradio.data_classes import FileData, ImageData, ListFiles

from app.demo.studio import OWN

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
            css_template=(ASSETS / "picker.css").read_text(),
            js_on_load=(ASSETS / "picker.js").read_text(),
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
            css_template=(ASSETS / "examples.css").read_text(),
            js_on_load=(ASSETS / "examples.js").read_text(),
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
            html_template=(ASSETS / "brush.html").read_text(),
            css_template=(ASSETS / "brush.css").read_text(),
            js_on_load=(ASSETS / "brush.js").read_text(),
            apply_default_css=False,
            photo=photo,
            **options,
        )
        # Gradio asks for what a constructor takes. Where gr.HTML has no attribute of that name it
        # makes an event of it, which holds the whole page and its network, for each visitor anew.
        self.photo = photo
