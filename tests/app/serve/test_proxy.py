"""While no application runs, Ray's proxy says 503 and when to come back."""

import httpx
import pytest
from starlette.responses import PlainTextResponse

from app.serve.front import Front
from app.serve.proxy import middlewares
from tests.event_loop import run


def asked(application, path="/"):
    for middleware in middlewares():
        application = middleware.cls(application)

    async def ask():
        transport = httpx.ASGITransport(application, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.post(path, content=b"a photo")

    return run(ask())


@pytest.mark.parametrize("status", [404, 500])
def test_the_proxys_own_errors_are_come_back_later(status):
    answer = asked(PlainTextResponse("Path '/' not found. Ping /-/routes.", status))
    assert answer.status_code == 503 and int(answer.headers["retry-after"]) >= 1
    assert answer.text == "The service is starting or ending; try again later."


@pytest.mark.parametrize("status", [200, 415, 422, 503])
def test_other_answers_are_handed_on(status):
    answer = asked(PlainTextResponse("as it is", status, {"x-more": "1"}))
    assert (answer.status_code, answer.text, answer.headers["x-more"]) == (status, "as it is", "1")


def test_the_applications_own_errors_stay():
    front = Front(None, ["dots"], ["dots"], most=1)  # what paints is missing: a mistake
    assert asked(front.application, "/nowhere").status_code == 404
    assert asked(front.application, "/stylize?style=dots").status_code == 500
