"""The web demo: one page, and two endpoints that gradio_client can call."""

import html
import os
import secrets
from importlib.util import find_spec
from pathlib import Path

# Read once, when gradio is imported: the page must work, and keep quiet, without a network.
os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"

import gradio as gr
from gradio import component_meta
from gradio.data_classes import ImageData

from app import images
from app.images import ImageError, Picture
from app.painter import Painter
from models import StyleCode

# How the built-in styles are written on the page; any other name is shown as it is.
TITLES = {"cezanne": "Cézanne", "monet": "Monet", "ukiyoe": "Ukiyo-e", "vangogh": "Van Gogh"}

# The choice beside the built-in names, which opens the upload of a painting.
OWN_PAINTING = "own"

# Pixels of a result's longest side. The network holds the whole picture, about 0.75 GB a
# megapixel, so that a phone's photo at its full size would not fit in a laptop.
LARGEST_SIDE = 2560

SIZES = [
    ("512 px", 512),
    ("1024 px", 1024),
    (f"Original, up to {LARGEST_SIDE} px", LARGEST_SIDE),
]

# A phone's raw-quality HEIC or a 50 megapixel JPEG passes.
LARGEST_UPLOAD = "50mb"

# Visitors beyond these are told that the queue is full; at a second or two a picture the last
# one waits for about a minute.
LONGEST_QUEUE = 32

# Seconds. A result stays long enough to be downloaded after a coffee.
CLEAN_EVERY, KEEP_FILES = 600, 3600

_EXAMPLES = [
    ("skimage", "data", ("chelsea.png", "coffee.png", "astronaut.png")),
    ("sklearn", "datasets/images", ("china.jpg", "flower.jpg")),
]

_THEME = gr.themes.Soft(
    neutral_hue="stone",
    # The theme's own fonts would be asked of the server, others of a font host.
    font=["system-ui", "Segoe UI", "Roboto", "Helvetica", "Arial", "sans-serif"],
    font_mono=["Consolas", "Menlo", "monospace"],
).set(
    background_fill_primary="*neutral_50",
    checkbox_border_color="*neutral_400",
    # One shade darker than the theme's, for the contrast of the white text on them.
    button_primary_background_fill="*primary_600",
    button_primary_background_fill_hover="*primary_700",
    checkbox_label_background_fill_selected="*primary_600",
    block_label_text_color="*primary_700",
    block_title_text_color="*primary_700",
)

# Full width from the start: the page would else widen with the first picture.
_CSS = ".gradio-container { width: 100%; max-width: 1200px !important; margin: 0 auto !important; }"

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
        if payload is None or payload.path is None:
            return None
        # Gradio checks this only where the request marks the path as a file's: without the check
        # here, a request could have any picture on this machine painted and sent.
        if not Path(payload.path).resolve().is_relative_to(Path(self.GRADIO_CACHE).resolve()):
            raise gr.Error("Upload the picture first.", print_exception=False)
        return payload.path


def example_photos() -> list[str]:
    """Paths of photos that come with an installed package; an empty list where none does."""
    for package, folder, names in _EXAMPLES:
        spec = find_spec(package)
        if spec is None or spec.origin is None:
            continue
        paths = [Path(spec.origin).parent / folder / name for name in names]
        found = [str(path) for path in paths if path.is_file()]
        if found:
            return found
    return []


def result_name(photo: str, style: str) -> str:
    """What a result is called: the photo's name, a dash, the style's name or its painting's."""
    return f"{Path(photo).stem[:60]}-{Path(style).stem[:60]}.png"


def build(painter: Painter, max_pixels: int = images.MAX_PIXELS) -> gr.Blocks:
    """The page and its endpoints `/stylize` and `/styles`, painting with `painter`.

    Photos and paintings of more than `max_pixels` (width x height) are refused unread.
    """
    names = list(painter.style_names)

    def read(file: str | None, what: str) -> Picture:
        if file is None:
            raise gr.Error(f"Choose {what} first.", print_exception=False)
        if not Path(file).is_file():
            # Its hour is over (KEEP_FILES), while the page stayed open.
            raise gr.Error(f"Upload {what} again, please.", print_exception=False)
        return images.load(file, max_pixels=max_pixels)

    def style_code(style: str, painting: str | None) -> StyleCode:
        if style != OWN_PAINTING:
            return painter.style(style)
        return painter.encode(read(painting, "a painting"))

    def paint(
        photo: str | None, style: str, strength: float, painting: str | None, size: int
    ) -> tuple[Picture, Path]:
        """The photo as it was read, and the result's file."""
        try:
            before = read(photo, "a photo")
            code = style_code(style, painting)
            after = painter.paint(before, code, strength=strength, max_size=size)
            # Each result in a folder that nobody can guess: the files of one visitor are not
            # another's to read.
            folder = Path(result_file.GRADIO_CACHE) / secrets.token_hex(16)
            folder.mkdir(parents=True)
            path = folder / result_name(photo, painting if style == OWN_PAINTING else style)
            images.save(after, path, "png")
        except ImageError as error:
            # The file's path on this machine is nothing to a visitor, and the message is shown
            # as HTML.
            sentence = html.escape(f"{Path(error.name).name} {error.reason}.", quote=False)
            raise gr.Error(sentence, print_exception=False) from error
        return before, path

    def repaint(photo, style, strength, painting, size):
        before, path = paint(photo, style, strength, painting, size)
        for note in before.notes:
            gr.Info(html.escape(f"{Path(photo).name}: {note}.", quote=False), title="Note")
        before = images.resize(before, size)
        format = "jpg" if before.alpha is None else "png"
        images.save(before, path.with_name(f"before.{format}"), format)
        shown = (str(path.with_name(f"before.{format}")), str(path))
        return shown, gr.DownloadButton(value=str(path), interactive=True)

    def stylize(
        photo: str,
        style: str,
        strength: float = 1.0,
        painting: str | None = None,
        max_size: int = LARGEST_SIDE,
    ) -> str:
        """Repaint a photo; returns the picture as a PNG file.

        style: a name that /styles returns, or "own" with a painting's file. strength: 0 (the
        photo) to 1. max_size: the photo is shrunk to this many pixels on its longest side.
        """
        return str(paint(photo, style, strength, painting, max_size)[1])

    def styles() -> list[str]:
        """The names of the built-in styles."""
        return names

    with gr.Blocks(
        title="Repaint", analytics_enabled=False, delete_cache=(CLEAN_EVERY, KEEP_FILES)
    ) as demo:
        gr.Markdown("# Repaint\nYour photo, in the style of a painting.")
        with gr.Row(equal_height=False):
            with gr.Column():
                photo = PictureFile(
                    label="Photo",
                    type="filepath",
                    sources=["upload", "webcam", "clipboard"],
                    buttons=[],
                    height=320,
                )
                if found := example_photos():
                    gr.Examples(found, photo, label="Or try one of these", cache_examples=False)
                style = gr.Radio(
                    [(TITLES.get(name, name), name) for name in names]
                    + [("A painting of your own", OWN_PAINTING)],
                    value=names[0] if names else OWN_PAINTING,
                    label="Style",
                )
                painting = PictureFile(
                    label="Your painting",
                    type="filepath",
                    sources=["upload", "clipboard"],
                    buttons=[],
                    height=220,
                    visible=not names,
                )
                strength = gr.Slider(
                    0, 1, value=1.0, step=0.05, label="Strength", info="0 is the photo as it is"
                )
                size = gr.Radio(SIZES, value=1024, label="Longest side of the result")
                button = gr.Button("Repaint", variant="primary", size="lg")
            with gr.Column():
                comparison = gr.ImageSlider(
                    label="Before and after",
                    interactive=False,
                    buttons=["fullscreen"],
                    max_height=640,
                )
                download = gr.DownloadButton("Download the painting", interactive=False)

        style.input(
            lambda chosen: gr.Image(visible=chosen == OWN_PAINTING),
            style,
            painting,
            queue=False,
            show_progress="hidden",
            api_visibility="private",
        )
        # One painter: the page and the endpoint share one place in the queue.
        button.click(
            repaint,
            [photo, style, strength, painting, size],
            [comparison, download],
            concurrency_id="painter",
            show_progress_on=comparison,
            scroll_to_output=True,
            api_visibility="private",
        )
        # The endpoint's own defaults differ from the page's: whoever calls it wants the photo's
        # size. Its parts are not on the page.
        with gr.Row(visible=False):
            max_size = gr.Number(LARGEST_SIDE, minimum=1, maximum=LARGEST_SIDE, precision=0)
            result_file = gr.File(label="picture")
            gr.Button().click(
                stylize,
                [photo, style, strength, painting, max_size],
                result_file,
                concurrency_id="painter",
                api_name="stylize",
            )
        gr.api(styles, api_name="styles", queue=False)

    return demo.queue(default_concurrency_limit=1, max_size=LONGEST_QUEUE)


def serve(
    demo: gr.Blocks, host: str = "127.0.0.1", port: int = 7860, share: bool = False
) -> tuple[str, str | None]:
    """Start serving the page; returns its address, and the public one where `share` made it.

    It goes on in a thread until `demo.close()`. Raises OSError where the port can't be had.
    """
    _, address, public = demo.launch(
        server_name=host,
        server_port=port,
        share=share,
        prevent_thread_lock=True,
        quiet=True,
        inbrowser=False,
        max_file_size=LARGEST_UPLOAD,
        footer_links=[],
        run_history=False,
        enable_monitoring=False,
        ssr_mode=False,
        pwa=False,
        theme=_THEME,
        css=_CSS,
    )
    return address, public
