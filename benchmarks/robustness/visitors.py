"""Visitors of the demo: of the page, as a browser asks for what its channels bring, and others.

A visit is a function of a client of its own, numbers by chance, what it finds, the demo, and its
name, which stands before whatever it finds wrong.
"""

from __future__ import annotations

import json
import random
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import httpx

from app.demo.studio import OWN
from benchmarks.robustness import Outcome
from benchmarks.robustness.api import API, ATTACKS, Caller, _caller, _number, _stylize, picture
from benchmarks.robustness.served import Served

STYLES = ("monet", "vangogh", "ukiyoe", "cezanne")


class Page:
    """The page in one browser: its session, the photo it has sent, and what its channels answer."""

    def __init__(self, client: httpx.Client, served: Served, session: str) -> None:
        self.client, self.served, self.session = client, served, session
        self.wish = 0
        config = client.get("config").json()
        self._parts = {one["id"]: one for one in config["components"]}
        self._listeners = {one["api_name"]: one for one in config["dependencies"]}
        self.chosen: dict[str, object] = {}

    def __enter__(self) -> Page:
        """As the page is opened: it says all the while that it is there."""
        self._beat = threading.Thread(target=self._stay, daemon=True)
        self._opened = socket.create_connection(("127.0.0.1", self.served.port), timeout=60)
        self._opened.sendall(
            f"GET /{API}/heartbeat/{self.session} HTTP/1.1\r\n"
            f"Host: 127.0.0.1:{self.served.port}\r\n\r\n".encode()
        )
        self._beat.start()
        return self

    def _stay(self) -> None:
        try:
            while self._opened.recv(4096):
                pass
        except OSError:
            pass

    def __exit__(self, *_: object) -> None:
        self._opened.shutdown(socket.SHUT_RDWR)
        self._opened.close()
        self._beat.join()

    def choose(self, own: random.Random) -> None:
        """What else is chosen on the page, a painting of one's own now and then."""
        self.chosen["photo"] = self.uploaded(own.choice([64, 200, 400, 700]))
        self.chosen["styles"] = own.choice(STYLES)
        self.chosen["Size"] = own.choice([512, 1024, 0])
        if own.random() < 0.2:
            self.chosen |= {"styles": OWN, "painting": self.uploaded(300)}

    def uploaded(self, side: int) -> dict[str, object]:
        """A picture that was sent."""
        sent = self.client.post(f"{API}/upload", files={"files": (f"{side}.png", picture(side))})
        (path,) = sent.json()
        return {"path": path, "meta": {"_type": "gradio.FileData"}}

    def asked(self, channel: str, given: dict[str, object] | None = None) -> dict[str, Any]:
        """The last answer of a channel. Raises ValueError where there is none."""
        self.wish += 1
        return self._heard(self._join(channel, {"wish": self.wish} | (given or {})))

    def leave(self, channel: str) -> None:
        """Ask of a channel, and go away once something has been answered."""
        self._join(channel, {"wish": 1})
        with self.client.stream("GET", f"{API}/queue/data", params=self._named()) as events:
            next(events.iter_text())

    def stopped(self, channel: str, after: float) -> dict[str, Any]:
        """The last answer of a channel that is stopped after so many seconds."""
        number = self._join(channel, {"wish": 1})
        stop = threading.Timer(after, self._stop)
        stop.start()
        try:
            return self._heard(number)
        finally:
            stop.join()

    def _stop(self) -> None:
        body = {"data": [], "fn_index": self._listeners["stop"]["id"], "session_hash": self.session}
        with httpx.Client(base_url=self.served.url, timeout=300) as another:
            another.post(f"{API}/run/predict", json=body)

    def _named(self) -> dict[str, str]:
        return {"session_hash": self.session}

    def _join(self, channel: str, asked: dict[str, object]) -> int:
        listener = self._listeners[channel]
        data = [self._value(part, asked) for part in listener["inputs"]]
        body = {"data": data, "fn_index": listener["id"], "session_hash": self.session}
        answer = self.client.post(f"{API}/queue/join", json=body)
        if answer.status_code != 200:
            raise ValueError(f"{channel}: {answer.status_code} {answer.text[:200]}")
        return listener["outputs"][0]

    def _value(self, part: int, asked: dict[str, object]) -> object:
        props = self._parts[part]["props"]
        if props.get("name") == "channel":
            return asked
        for name in (props.get("elem_id"), props.get("label")):
            if name in self.chosen:
                return self.chosen[name]
        return props.get("value")

    def _heard(self, part: int) -> dict[str, Any]:
        told: dict[str, Any] = {}
        with self.client.stream("GET", f"{API}/queue/data", params=self._named()) as events:
            for line in events.iter_lines():
                if not line.startswith("data: "):
                    continue
                message = json.loads(line.removeprefix("data: "))
                output = message.get("output") or {}
                if message["msg"] == "process_completed" and not message["success"]:
                    raise ValueError(f"refused: {output}")
                told = _newest(told, output.get("data"))
                if message["msg"] == "process_completed":
                    return told
        raise ValueError(f"no end of the answer; the last one was {told}")


def _newest(told: dict[str, Any], data: object) -> dict[str, Any]:
    """An answer as the page has it: later ones say only what has changed of the one before."""
    first = data[0] if isinstance(data, list) and data else None
    if isinstance(first, dict):
        return first
    if not isinstance(first, list):
        return told
    for change in first:
        how, where, value = change
        if not where:
            told = value if isinstance(value, dict) else told
            continue
        told = json.loads(json.dumps(told))
        inner = told
        for key in where[:-1]:
            inner = inner[key]
        if how == "delete":
            del inner[where[-1]]
        elif how == "append":
            inner[where[-1]] += value
        else:
            inner[where[-1]] = value
    return told


def paint(client: httpx.Client, generator: random.Random, found: Outcome, name: str) -> None:
    """A photo uploaded, painted and downloaded, as another program asks for it."""
    caller = _caller_of(client, generator)
    size = generator.choice([64, 128, 256])
    data = _stylize(caller.photo, generator.choice(STYLES), size)
    said = caller.joined(_number(client, "stylize"), data, name)
    _, painted, rest = said.partition('"path":"')
    if not painted:
        raise ValueError(f"not painted: {said[-200:]}")
    file = client.get(f"{API}/file={rest.partition(chr(34))[0]}")
    found.count("painted" if file.content.startswith(b"\x89PNG") else "not sent")


def _caller_of(client: httpx.Client, generator: random.Random) -> Caller:
    side = generator.choice([64, 200, 400])
    (path,) = client.post(f"{API}/upload", files={"files": ("a.png", picture(side))}).json()
    return Caller(None, client, {"path": path, "meta": {"_type": "gradio.FileData"}}, {})


def _looks(client: httpx.Client, *_: object) -> None:
    """Opens the page and some of what it loads."""
    text = client.get("").text
    for part in text.split('"./assets/')[1:]:
        client.get(f"assets/{part.partition(chr(34))[0]}")
    client.get("theme.css")


def _paints(client: httpx.Client, own: random.Random, found: Outcome, _: Served, name: str) -> None:
    paint(client, own, found, name)


def _tries_styles(
    client: httpx.Client, own: random.Random, found: Outcome, served: Served, name: str
) -> None:
    """A photo, previews of it in several styles, the painting, its files, what is known of it."""
    with Page(client, served, name) as page:
        page.choose(own)
        _expect(page.asked("look"), "width")
        for _number in range(own.randrange(3)):
            _expect(page.asked("preview"), "after")
            page.chosen["styles"] = own.choice(STYLES)
        _expect(page.asked("paint"), "after")
        files = _expect(page.asked("files"), "png", "jpg")
        for format, begins in (("png", b"\x89PNG"), ("jpg", b"\xff\xd8")):
            file = client.get(f"{API}/file={files[format]}")
            if not file.content.startswith(begins):
                raise ValueError(f"{files[format]}: {file.status_code} {file.content[:100]!r}")
        picture = {"picture": {"path": files["png"]}, "style": page.chosen["styles"]}
        page.asked("about", picture)
        found.count("painted on the page")


def _compares(
    client: httpx.Client, own: random.Random, _: Outcome, served: Served, name: str
) -> None:
    """The photo in every style; most don't wait for the last of them."""
    with Page(client, served, name) as page:
        page.choose(own)
        if own.random() < 0.3:
            _expect(page.asked("every"), "pictures")
        else:
            page.stopped("every", after=3 * own.random())


def _many(client: httpx.Client, own: random.Random, _: Outcome, served: Served, name: str) -> None:
    """Several photos in one file."""
    with Page(client, served, name) as page:
        page.choose(own)
        page.chosen["photos"] = [page.uploaded(own.choice([64, 200])) for _number in range(3)]
        answer = _expect(page.asked("batch"), "zip")
        file = client.get(f"{API}/file={answer['zip']}")
        if not file.content.startswith(b"PK"):
            raise ValueError(f"{answer['zip']}: {file.status_code} {file.content[:100]!r}")


def _expect(answer: dict[str, Any], *names: str) -> dict[str, Any]:
    if any(answer.get(name) is None for name in names):
        raise ValueError(f"no {' and '.join(names)} in {str(answer)[:300]}")
    return answer


def _changes_mind(
    client: httpx.Client, own: random.Random, _: Outcome, served: Served, name: str
) -> None:
    """Stops a painting, or closes the page while it is painted, or before its files are asked."""
    with Page(client, served, name) as page:
        page.choose(own)
        how = own.randrange(3)
        if how == 0:
            page.stopped("paint", after=own.random())
        elif how == 1:
            page.leave("paint")
        else:
            page.asked("paint")


def _leaves(
    client: httpx.Client, own: random.Random, _: Outcome, served: Served, name: str
) -> None:
    """Asks for a picture and goes away."""
    caller = _caller_of(client, own)
    body = {
        "data": _stylize(caller.photo, own.choice(STYLES), 256),
        "fn_index": _number(client, "stylize"),
        "session_hash": name,
    }
    client.post(f"{API}/queue/join", json=body)
    with client.stream("GET", f"{API}/queue/data", params={"session_hash": name}) as events:
        next(events.iter_text())


def _cuts_off(_: httpx.Client, own: random.Random, __: Outcome, served: Served, ___: str) -> None:
    """Begins an upload and goes away in the middle."""
    with socket.create_connection(("127.0.0.1", served.port), timeout=30) as connection:
        part = b'--B\r\nContent-Disposition: form-data; name="files"; filename="z.png"\r\n\r\n'
        connection.sendall(
            b"POST /gradio_api/upload HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
            b"Content-Type: multipart/form-data; boundary=B\r\nContent-Length: %d\r\n\r\n"
            % (served.port, 20 * 2**20)
            + part
            + bytes(own.randrange(4 * 2**20))
        )


def _does_not_read(
    _: httpx.Client, own: random.Random, __: Outcome, served: Served, ___: str
) -> None:
    connections = []
    request = b"GET / HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % served.port
    try:
        for _number in range(20):
            connection = socket.create_connection(("127.0.0.1", served.port), timeout=30)
            connection.sendall(request * 3)
            connections.append(connection)
        time.sleep(own.random() * 3)
    finally:
        for connection in connections:
            connection.close()


def _attacks(
    client: httpx.Client, own: random.Random, found: Outcome, served: Served, name: str
) -> None:
    caller = _caller(served, client)
    for number in range(5):
        what, attack = own.choice(ATTACKS)
        try:
            said = attack(own, caller, f"{name}a{number}")
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            found.count(f"attack ended by {type(error).__name__}")
            continue
        if said.startswith("5") and not said.startswith(("503", "507")):
            found.faults.append(f"{name}: {what}: {said[:300]}")


Visit = Callable[[httpx.Client, random.Random, Outcome, Served, str], None]
VISITS: list[tuple[str, Visit]] = [
    ("looks", _looks),
    ("paints by API", _paints),
    ("tries styles", _tries_styles),
    ("tries styles", _tries_styles),
    ("compares", _compares),
    ("many photos", _many),
    ("changes its mind", _changes_mind),
    ("leaves", _leaves),
    ("cuts off", _cuts_off),
    ("does not read", _does_not_read),
    ("attacks", _attacks),
]
