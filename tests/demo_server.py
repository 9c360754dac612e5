"""The demo, served for the tests that ask it over HTTP or through a browser."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import gradio as gr
import pytest

from app import demo
from app.painter import Painter


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def serving(painter: Painter, folder: Path, **options) -> Iterator[gr.Blocks]:
    """The page while it is served; its uploads and results lie in `folder`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRADIO_TEMP_DIR", str(folder))
        page = demo.build(painter, **options)
        demo.serve(page, port=free_port())
        yield page
        page.close(verbose=False)
