"""The service's HTTP, without Ray: what is painted, refused, counted and told to come back."""

import asyncio
import io
import json
import time

import httpx
import numpy as np
import pytest
import skimage.data
from PIL import Image
from prometheus_client.parser import text_string_to_metric_families

from app import images
from app.limits import Limits
from app.look import OPTIONS, Look
from app.painter import Painter
from app.serve.front import BusyError, Front
from app.serve.orders import Answer, Easel
from app.serve.pace import Pace
from tests.event_loop import run


def encoded(pixels, format="PNG"):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, format)
    return file.getvalue()


PHOTO = encoded(skimage.data.chelsea()[:48, :64])
PAINTING = encoded(skimage.data.coffee()[:64, :64])


@pytest.fixture(scope="module")
def easel(checkpoint):
    return Easel(Painter(checkpoint, "cpu", Limits(remembered_content=0)), max_pixels=64 * 64)


def front_of(easel, **how):
    async def paint(order):
        return easel.paint(order)

    given = {"paint": paint, "most": 4, **how}
    paint = given.pop("paint")
    return Front(paint, ["dots", "stripes"], ["dots", "stripes", "stripes:2"], **given)


def ask(front, *requests):
    """The answers to requests sent at once: (method, path, further arguments of httpx)."""

    async def all_of_them():
        transport = httpx.ASGITransport(front.application, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await asyncio.gather(
                *(client.request(method, path, **more) for method, path, more in requests)
            )

    return run(all_of_them())


def post(front, path, **more):
    return ask(front, ("POST", path, more))[0]


def pixels(answer):
    return np.array(Image.open(io.BytesIO(answer.content)))


@pytest.mark.parametrize(
    ("options", "look"),
    [
        ({}, {}),
        (
            {"strength": "0.4", "keep_color": "luminance"},
            {"strength": 0.4, "keep_color": "luminance"},
        ),
        ({"brush_size": "2", "simplify": "0"}, {"brush_size": 2, "simplify": 0.0}),
    ],
)
def test_an_answer_is_what_the_painter_paints(easel, one_thread, options, look):
    front = front_of(easel)
    in_address = post(front, "/stylize", params={"style": "dots", **options}, content=PHOTO)
    as_curl_has_it = {"content-type": "application/x-www-form-urlencoded"}
    by_curl = post(
        front,
        "/stylize",
        params={"style": "dots", **options},
        content=PHOTO,
        headers=as_curl_has_it,
    )
    in_form = post(front, "/stylize", data={"style": "dots", **options}, files={"photo": PHOTO})
    photo = images.load(io.BytesIO(PHOTO))
    wanted = easel.painter.paint(photo, easel.painter.style("dots"), Look(**look)).rgb
    for answer in (in_address, by_curl, in_form):
        assert (answer.status_code, answer.headers["content-type"]) == (200, "image/png")
        assert np.array_equal(pixels(answer), wanted)


def test_own_paintings_second_styles_and_masks_are_painted(easel, one_thread):
    front = front_of(easel)
    painter, photo = easel.painter, images.load(io.BytesIO(PHOTO))
    own = painter.encode(images.load(io.BytesIO(PAINTING)))
    files = {"photo": PHOTO, "painting": PAINTING}
    alone = post(front, "/stylize", files=files)
    assert np.array_equal(pixels(alone), painter.paint(photo, own).rgb)
    mixed = post(front, "/stylize", files=files, data={"style": "dots", "share": "0.25"})
    style = painter.blend([(painter.style("dots"), 0.75), (own, 0.25)])
    assert np.array_equal(pixels(mixed), painter.paint(photo, style).rgb)
    mask = np.zeros((48, 64), np.uint8)
    mask[:, 32:] = 255
    masked = post(
        front, "/stylize", files={"photo": PHOTO, "mask": encoded(mask)}, data={"style": "dots"}
    )
    assert np.array_equal(pixels(masked)[:, :20], photo.rgb[:, :20])
    assert not np.array_equal(pixels(masked)[:, 40:], photo.rgb[:, 40:])


def test_formats_have_their_types_and_sizes_their_pixels(easel):
    front = front_of(easel)
    for format, kind in (("jpg", "image/jpeg"), ("webp", "image/webp")):
        answer = post(
            front,
            "/stylize",
            params={"style": "dots", "format": format, "max_size": "32"},
            content=PHOTO,
        )
        assert answer.headers["content-type"] == kind
        assert pixels(answer).shape[:2] == (24, 32)


@pytest.mark.parametrize(
    ("params", "body", "status", "says"),
    [
        ({"style": "dots"}, b"", 400, "A photo is needed"),
        ({}, PHOTO, 422, "A style is needed"),
        ({"style": "monet"}, PHOTO, 422, "no style 'monet'"),
        ({"style": "../dots"}, PHOTO, 422, "no style"),
        ({"style": "dots", "strenght": "1"}, PHOTO, 422, "no option 'strenght'"),
        ({"style": "dots", "strength": "2"}, PHOTO, 422, "strength is a number from 0 to 1"),
        ({"style": "dots", "strength": "nan"}, PHOTO, 422, "strength is a number"),
        ({"style": "dots", "brush_size": "3"}, PHOTO, 422, "brush_size must be one of"),
        ({"style": "dots", "max_size": "0"}, PHOTO, 422, "max_size is a whole number"),
        ({"style": "dots", "format": "exe"}, PHOTO, 422, "saved as"),
        ({"style": "dots"}, b"Dear diary", 415, "is not a picture"),
        ({"style": "dots"}, PHOTO[:500], 415, "cut short"),
        ({"style": "dots"}, encoded(np.zeros((65, 64, 3), np.uint8)), 413, "65 pixels"),
        ({"style": "dots"}, b"x" * 200_001, 413, "at most"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(easel, params, body, status, says):
    front = front_of(easel, largest=200_000)
    answer = post(front, "/stylize", params=params, content=body)
    assert answer.status_code == status
    assert says in answer.text and len(answer.text.splitlines()) == 1
    assert front.waiting == 0


def test_a_form_is_not_read_beyond_the_limit(easel):
    front = front_of(easel, largest=10_000)

    async def endless():
        for _ in range(1000):
            yield b"x" * 1000
        raise AssertionError("it was read to its end")

    kind = {"content-type": "multipart/form-data; boundary=b"}
    answer = post(front, "/stylize", content=endless(), headers=kind)
    assert answer.status_code in (400, 413)


def test_beyond_the_queue_there_is_503_and_no_photo_is_mixed_up(easel):
    going_on = asyncio.Event()

    async def paint(order):
        await going_on.wait()
        return Answer(200, order.photo, "image/png")

    front = front_of(easel, paint=paint, most=3)

    async def crowd():
        transport = httpx.ASGITransport(front.application)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            bodies = [encoded(np.full((4, 4), number, np.uint8)) for number in range(8)]
            sent = [
                asyncio.create_task(client.post("/stylize?style=dots", content=body))
                for body in bodies
            ]
            while sum(task.done() for task in sent) < 5:
                await asyncio.sleep(0.01)
            going_on.set()
            return bodies, [await task for task in sent]

    bodies, answers = run(crowd())
    accepted = [i for i, answer in enumerate(answers) if answer.status_code == 200]
    assert len(accepted) == 3
    assert all(answers[i].content == bodies[i] for i in accepted)
    busy = [answer for answer in answers if answer.status_code == 503]
    assert len(busy) == 5
    assert all(1 <= int(answer.headers["retry-after"]) <= 60 for answer in busy)
    assert front.waiting == 0


def test_an_order_is_refused_where_those_before_it_would_take_too_long(easel):
    going_on = asyncio.Event()
    begin_by = []

    async def paint(order):
        begin_by.append(order.begin_by)
        await going_on.wait()
        return Answer(200, order.photo, "image/png")

    front = front_of(easel, paint=paint, most=100, longest_wait=60)
    clock = 0.0
    front.pace = Pace(front.painters, lambda: clock)
    # One picture took 25 s, so that two are done after 50 s, and three too late.
    number = front.pace.begin()
    clock = 25.0
    front.pace.end(number)

    async def crowd():
        transport = httpx.ASGITransport(front.application)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            sent = [
                asyncio.create_task(client.post("/stylize?style=dots", content=PHOTO))
                for _ in range(5)
            ]
            while sum(task.done() for task in sent) < 3:
                await asyncio.sleep(0.01)
            going_on.set()
            return [await task for task in sent]

    earliest = time.time()
    answers = run(crowd())
    assert sorted(answer.status_code for answer in answers) == [200, 200, 503, 503, 503]
    busy = next(answer for answer in answers if answer.status_code == 503)
    assert int(busy.headers["retry-after"]) == 50
    assert all(earliest + 60 <= each <= time.time() + 60 for each in begin_by)


def test_painters_without_room_and_errors_leave_the_queue_as_it_was(easel):
    async def busy(order):
        raise BusyError

    front = front_of(easel, paint=busy)
    assert post(front, "/stylize?style=dots", content=PHOTO).status_code == 503

    async def broken(order):
        raise KeyError("a mistake of ours")

    broken_front = front_of(easel, paint=broken)
    answer = post(broken_front, "/stylize?style=dots", content=PHOTO)
    assert answer.status_code == 500 and "mistake" not in answer.text
    assert front.waiting == broken_front.waiting == 0


def test_draining_takes_no_order(easel):
    front = front_of(easel)
    front.draining = True
    answers = ask(
        front, ("POST", "/stylize?style=dots", {"content": PHOTO}), ("GET", "/healthz", {})
    )
    assert [answer.status_code for answer in answers] == [503, 503]


def test_styles_health_and_documentation_are_there(easel):
    front = front_of(easel)
    styles, variants, health, docs, described = ask(
        front,
        ("GET", "/styles", {}),
        ("GET", "/styles?variants=true", {}),
        ("GET", "/healthz", {}),
        ("GET", "/docs", {}),
        ("GET", "/openapi.json", {}),
    )
    assert styles.json() == ["dots", "stripes"]
    assert variants.json() == ["dots", "stripes", "stripes:2"]
    assert health.json()["status"] == "ok"
    assert "http" + "s://" not in docs.text  # nothing of it is elsewhere
    parameters = described.json()["paths"]["/stylize"]["post"]["parameters"]
    assert set(OPTIONS) < {parameter["name"] for parameter in parameters}
    assert all(name in docs.text for name in OPTIONS)


def test_prometheus_reads_the_metrics(easel):
    front = front_of(easel)
    for _ in range(2):
        post(front, "/stylize?style=dots", content=PHOTO)
    post(front, "/stylize?style=dots", content=b"Dear diary")
    (answer,) = ask(front, ("GET", "/metrics", {}))
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    assert all(family.documentation for family in families.values())
    assert families["repaint_pictures_painted"].type == "counter"
    assert families["repaint_queue"].type == "gauge"
    values = {
        (sample.name, sample.labels.get("le")): sample.value
        for family in families.values()
        for sample in family.samples
    }
    assert values["repaint_pictures_painted_total", None] == 2
    assert values["repaint_refused_total", None] == 1
    steps = families["repaint_answer_seconds"]
    assert steps.type == "histogram"
    counts = [sample.value for sample in steps.samples if sample.name.endswith("_bucket")]
    assert counts == sorted(counts)
    assert counts[-1] == values["repaint_answer_seconds_count", None] == 2


def test_metrics_and_the_log_count_and_name_nobody(easel):
    front = front_of(easel)
    post(front, "/stylize?style=dots", content=PHOTO, headers={"x-forwarded-for": "192.0.2.77"})
    post(front, "/stylize?style=secret-name", content=PHOTO)
    (text,) = (answer.text for answer in ask(front, ("GET", "/metrics", {})))
    for line in ("repaint_pictures_painted_total 1", "repaint_refused_total 1", "repaint_queue 0"):
        assert line in text.splitlines()
    assert 'repaint_answer_seconds_bucket{le="+Inf"} 1' in text
    lines = front.take_lines()
    assert [json.loads(line)["status"] for line in lines] == [200, 422]
    assert "192.0.2.77" not in "".join(lines) and "secret-name" not in "".join(lines)
    assert front.take_lines() == []
