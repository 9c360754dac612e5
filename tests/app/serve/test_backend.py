"""The demo with a service that paints: the same pictures, and a sentence for what goes wrong."""

import threading
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import skimage.data
import uvicorn
from PIL import Image

from app import images
from app.__main__ import main
from app.demo.backend import Backend, BackendError
from app.demo.jobs import StoppedError
from app.limits import Limits
from app.look import Look
from app.painter import Painter
from app.serve.front import BusyError, Front
from app.serve.orders import Easel


@contextmanager
def served(paint):
    """The address of a service that paints so."""
    front = Front(paint, ["dots", "stripes"], ["dots", "stripes", "stripes:2"], most=8)
    server = uvicorn.Server(uvicorn.Config(front.application, port=0, log_level="error"))
    server.install_signal_handlers = lambda: None
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def painter(checkpoint):
    return Painter(checkpoint, "cpu", Limits(remembered_content=0))


@pytest.fixture(scope="module")
def backend(painter, checkpoint):
    easel = Easel(painter)

    async def paint(order):
        return easel.paint(order)

    with served(paint) as address:
        yield Backend(address, checkpoint)


@pytest.fixture
def photo():
    alpha = np.full((48, 64), 255, np.uint8)
    alpha[:8] = 0
    return images.Picture(skimage.data.chelsea()[:48, :64].copy(), alpha, "cat.png", exif=b"Exif")


@pytest.fixture
def painting(tmp_path):
    file = tmp_path / "own.png"
    Image.fromarray(skimage.data.coffee()[:64, :64]).save(file)
    return file


def test_a_service_paints_what_the_page_would(backend, painter, photo, painting, one_thread):
    mask = np.zeros((48, 64), np.uint8)
    mask[:, 20:] = 255
    look = Look(strength=0.5, keep_color="matched", brush_size=2)
    for make in (
        lambda p: p.style("stripes:2"),
        lambda p: p.style(painting),
        lambda p: p.blend([(p.style("dots"), 0.25), (p.style(painting), 0.75)]),
        lambda p: p.blend([(p.style(painting), 0.5), (p.style("dots"), 0.5)]),
    ):
        wanted = painter.paint(photo, make(painter), look, mask=mask)
        came = backend.paint(photo, make(backend), look, mask=mask)
        assert np.array_equal(came.rgb, wanted.rgb)
        assert (came.name, came.exif) == (photo.name, photo.exif) and came.alpha is photo.alpha


def test_a_painting_that_is_none_is_not_sent(backend, tmp_path):
    (tmp_path / "no.png").write_bytes(b"Dear diary")
    with pytest.raises(images.ImageError, match="not a picture"):
        backend.style(tmp_path / "no.png")


def test_busy_painters_and_those_that_are_gone_are_told(checkpoint, photo):
    async def paint(order):
        raise BusyError

    with served(paint) as address:
        backend = Backend(address, checkpoint)
        style = backend.style("dots")
        with pytest.raises(BackendError, match="busy; try again in"):
            backend.paint(photo, style)
    with pytest.raises(BackendError, match="can't be reached"):
        backend.paint(photo, style)


def test_a_visitor_can_stop_while_a_service_paints(checkpoint, photo, painter):
    going_on = threading.Event()

    async def paint(order):
        import asyncio

        await asyncio.to_thread(going_on.wait)
        return Easel(painter).paint(order)

    def stopped(done):
        raise StoppedError

    with served(paint) as address:
        backend = Backend(address, checkpoint)
        with pytest.raises(StoppedError):
            backend.paint(photo, backend.style("dots"), progress=stopped)
        going_on.set()


def test_a_wrong_backend_is_refused_before_the_page_is_there(capsys, checkpoint):
    given = ["--checkpoint", str(checkpoint), "--port", "47861"]
    assert main([*given, "--backend", "http://127.0.0.1:9"]) == 2
    assert "no service answers there" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        main([*given, "--backend", "painters"])
    assert ended.value.code == 2


def test_pictures_of_another_size_are_not_taken(checkpoint, photo, painter):
    easel = Easel(painter)

    async def paint(order):
        return easel.paint(replace(order, max_size=20))

    with served(paint) as address:
        backend = Backend(address, checkpoint)
        with pytest.raises(BackendError, match="another size"):
            backend.paint(photo, backend.style("dots"))
