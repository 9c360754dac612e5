"""300 requests one after the other, then minutes of mixed visitors: what the demo keeps of them."""

from __future__ import annotations

import argparse
import random
import socket
import threading
import time
from collections.abc import Callable

import httpx

from benchmarks.robustness import Outcome
from benchmarks.robustness.api import ATTACKS, Caller, _caller, _number, _stylize, picture
from benchmarks.robustness.served import EVERY, KEEP, Served, serving

SIZES = {
    "requests": (300, "photos painted one after the other"),
    "minutes": (20.0, "minutes of visitors of all kinds, four at a time"),
}

VISITORS = 4
MOST_GROWN = 50.0  # MB that it may have beyond what it had after the tenth request
REST = (
    14  # seconds until a process at rest has given back its memory: app.demo.server.IDLE and some
)

API = "gradio_api"
STYLES = ("monet", "vangogh", "ukiyoe", "cezanne")


def run(options: argparse.Namespace, generator: random.Random) -> Outcome:
    """Memory is compared at rest; files are waited for with a shorter time of keeping them."""
    outcome = Outcome()
    with serving("--device", "cpu") as served:
        with httpx.Client(base_url=served.url, timeout=300) as client:
            for number in range(options.requests):
                _paint(client, generator, outcome, f"request{number}")
                if number + 1 == min(10, options.requests):
                    time.sleep(REST)
                    tenth = served.memory()
        time.sleep(REST)
        after = served.memory()
        _visit(options, generator, served, outcome)
        time.sleep(REST)
        last = served.memory()
        outcome.figures = {
            "mb_after_10": round(tenth),
            "mb_after_requests": round(after),
            "mb_after_visitors": round(last),
            "peak_mb": round(served.peak()),
        }
        for what, memory in (("requests", after), ("visitors", last)):
            if memory - tenth > MOST_GROWN:
                outcome.faults.append(f"{memory - tenth:.0f} MB more after all {what}")
        outcome.faults += [f"traceback: {line}" for line in served.tracebacks()]
        time.sleep(KEEP + 3 * EVERY)
        outcome.faults += [f"left after its time: {file}" for file in served.files()]
        parent = served.parent
        served.process.terminate()
        served.process.wait(60)
        if left := sorted(path.name for path in parent.iterdir()):
            outcome.faults.append(f"left at the end: {left}")
    return outcome


def _paint(client: httpx.Client, generator: random.Random, outcome: Outcome, name: str) -> None:
    """A photo uploaded, painted and downloaded."""
    caller = _caller_of(client, generator)
    size = generator.choice([64, 128, 256])
    data = _stylize(caller.photo, generator.choice(STYLES), size)
    said = caller.joined(_number(client, "stylize"), data, name)
    _, found, rest = said.partition('"path":"')
    if not found:
        outcome.count("not painted")
        outcome.faults.append(f"{name} was not painted: {said[-200:]}")
        return
    file = client.get(f"{API}/file={rest.partition(chr(34))[0]}")
    outcome.count("painted" if file.content.startswith(b"\x89PNG") else "not sent")


def _caller_of(client: httpx.Client, generator: random.Random) -> Caller:
    side = generator.choice([64, 200, 400])
    (path,) = client.post(f"{API}/upload", files={"files": ("a.png", picture(side))}).json()
    return Caller(None, client, {"path": path, "meta": {"_type": "gradio.FileData"}}, {})


def _visit(
    options: argparse.Namespace, generator: random.Random, served: Served, outcome: Outcome
) -> None:
    ends = time.monotonic() + 60 * options.minutes
    lock = threading.Lock()

    def visitor(own: random.Random, number: int) -> None:
        visits = 0
        while time.monotonic() < ends:
            visits += 1
            what, visit = own.choice(VISITS)
            with httpx.Client(base_url=served.url, timeout=300) as client:
                found = Outcome()
                try:
                    visit(client, own, found, served, f"visitor{number}x{visits}")
                    found.count(what)
                except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
                    found.count(f"{what}: {type(error).__name__}")
            with lock:
                for name, count in found.counts.items():
                    outcome.counts[name] = outcome.counts.get(name, 0) + count
                outcome.faults += found.faults

    visitors = [
        threading.Thread(target=visitor, args=(random.Random(generator.random()), number))
        for number in range(VISITORS)
    ]
    for one in visitors:
        one.start()
    for one in visitors:
        one.join()


def _looks(client: httpx.Client, *_: object) -> None:
    """Opens the page and some of what it loads."""
    text = client.get("").text
    for part in text.split('"./assets/')[1:]:
        client.get(f"assets/{part.partition(chr(34))[0]}")
    client.get("theme.css")


def _paints(client: httpx.Client, own: random.Random, found: Outcome, _: Served, name: str) -> None:
    _paint(client, own, found, name)


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
        said = attack(own, caller, f"{name}a{number}")
        if said.startswith("5") and not said.startswith(("503", "507")):
            found.faults.append(f"{what}: {said[:300]}")


Visit = Callable[[httpx.Client, random.Random, Outcome, Served, str], None]
VISITS: list[tuple[str, Visit]] = [
    ("looks", _looks),
    ("paints", _paints),
    ("paints", _paints),
    ("leaves", _leaves),
    ("cuts off", _cuts_off),
    ("does not read", _does_not_read),
    ("attacks", _attacks),
]
