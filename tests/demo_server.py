"""The demo, served for the tests that ask it over HTTP or through a browser."""

import contextlib
import random
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import gradio as gr
import pytest

from app import demo
from app.painter import Painter

# Options of demo.build; others are demo.serve's.
BUILT = ("max_pixels", "max_queue", "judge", "cache")


def free_port() -> int:
    """A port that nobody listens on, and that nobody is given before it is used.

    The ports that systems give to whoever asks for any begin at 32,768.
    """
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@contextmanager
def serving(
    painter: Painter, folder: Path, *, port: int | None = None, **options
) -> Iterator[gr.Blocks]:
    """The page while it is served; its uploads and results lie in `folder`.

    options: of demo.build, and of demo.serve.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRADIO_TEMP_DIR", str(folder))
        built = {name: options.pop(name) for name in BUILT if name in options}
        page = demo.build(painter, **built)
        demo.serve(page, port=port or free_port(), **options)
        yield page
        page.close(verbose=False)
