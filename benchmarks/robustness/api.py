"""Malformed calls of the demo's routes: none is more than a sentence to whoever sent it."""

from __future__ import annotations

import argparse
import io
import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass

import httpx
import numpy as np
from PIL import Image

from app.look import OPTIONS
from benchmarks.robustness import Outcome
from benchmarks.robustness.served import Served, serving
from benchmarks.robustness.trial import WAITS

SIZES = {"calls": (200, "malformed calls of the demo's routes")}

SLOWEST = 10.0  # seconds of the processor; of the clock WAITS times as many
MOST_MEMORY = 300.0  # MB beyond what the demo has after one picture

API = "gradio_api"

ODD: list[object] = [
    None, True, False, -1, 0, 1, 1e308, -1e308, 10**30, 0.1, "", "a", "monet", [], [1], {},
    {"a": 1},
    "x" * 10_000, "\0", "../../../../etc/passwd", "/etc/passwd", "file:///etc/passwd",
    "http://127.0.0.1:1/a.png", "C:\\Windows\\win.ini", "data:image/png;base64,AAAA",
    {"path": "/etc/passwd"}, {"path": "/etc/passwd", "meta": {"_type": "gradio.FileData"}},
    {"path": "http://127.0.0.1:1/a.png", "meta": {"_type": "gradio.FileData"}},
    {"path": None, "url": "http://127.0.0.1:1/a.png"}, {"path": ["a"]}, {"path": ""},
    {"path": "../../x", "url": "file:///etc/passwd", "is_stream": True},
    [{"path": "/proc/self/environ"}],
    {"__type__": "update", "value": 1}, "${7*7}", "{{7*7}}", "\ud800", "\u202e", [[[[[[]]]]]],
]  # fmt: skip

PATHS = [
    "file=/etc/passwd", "file=../../../../etc/passwd", "file=%2Fetc%2Fpasswd", "file=//etc/passwd",
    "file=http://127.0.0.1:1/a", "file=.owner", "file/etc/passwd", "proxy=http://127.0.0.1:1/a",
    "run/stylize", "api/stylize", "call/stylize", "call/v2/stylize", "component_server", "mcp/sse",
    "process_recording", "stream/a/b/1/playlist.m3u8", "vibe-code", "dev/reload", "deep_link",
    "queue/status", "openapi.json", "custom_component/a/client/component/x", "heartbeat/../../x",
    "upload_progress", "queue/data", "startup-events", "login", "user", "%00", "a" * 5000,
]  # fmt: skip


@dataclass
class Caller:
    """What the page would send, and a connection to send something else."""

    served: Served
    client: httpx.Client
    photo: dict
    inputs: dict[int, list]

    def joined(self, number: int, data: object, session: str) -> str:
        """What becomes of a call that goes through the queue."""
        body = {"data": data, "fn_index": number, "session_hash": session}
        answer = self.client.post(
            f"{API}/queue/join",
            content=json.dumps(body).encode("utf-8", "surrogatepass"),
            headers={"content-type": "application/json"},
        )
        if answer.status_code != 200:
            return f"{answer.status_code} {answer.text}"
        text = ""
        with self.client.stream(
            "GET", f"{API}/queue/data", params={"session_hash": session}
        ) as events:
            for piece in events.iter_text():
                text += piece
                if "process_completed" in text:
                    break
        return f"200 {text}"


def run(options: argparse.Namespace, generator: random.Random) -> Outcome:
    """Sends them to a demo in a process of its own."""
    outcome = Outcome()
    with (
        serving("--device", "cpu") as served,
        httpx.Client(base_url=served.url, timeout=WAITS * SLOWEST) as client,
    ):
        caller = _caller(served, client)
        first = caller.joined(_number(client, "stylize"), _stylize(caller.photo), "first")
        if '"success":true' not in first:
            outcome.faults.append(f"an ordinary call was not answered: {first[-200:]}")
        before, slowest, busiest = served.memory(), 0.0, 0.0
        for number in range(options.calls):
            name, attack = generator.choice(ATTACKS)
            state = generator.getstate()
            started, used = time.monotonic(), served.processor()
            try:
                said = attack(generator, caller, f"call{number}")
            except httpx.TimeoutException:
                said = "hang"
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                said = f"closed: {type(error).__name__}"
            seconds = time.monotonic() - started
            processor = served.processor() - used
            slowest, busiest = max(slowest, seconds), max(busiest, processor)
            status = said.split(" ")[0].rstrip(":")
            outcome.count(status)
            wrong = status == "hang" or (status.startswith("5") and status not in ("503", "507"))
            if wrong or processor > SLOWEST or "Traceback" in said or "root:" in said:
                outcome.faults.append(
                    f"number {number}, {name}, in {seconds:.1f} s ({processor:.1f} s of the "
                    f"processor): {said[-300:]!r} "
                    f"(state {hash(state)})"
                )
        caller = _caller(served, client)  # the first photo's time is over
        again = caller.joined(_number(client, "stylize"), _stylize(caller.photo), "last")
        if '"success":true' not in again:
            outcome.faults.append(f"at the end an ordinary call was not answered: {again[-200:]}")
        outcome.faults += [f"traceback: {line}" for line in served.tracebacks()]
        ours = ("upload-", "result-")
        outcome.faults += [
            f"unfinished: {file}"
            for file in served.files()
            if not file.split("/")[1].startswith(ours)
        ]
        grown = served.peak() - before
        if grown > MOST_MEMORY:
            outcome.faults.append(f"{grown:.0f} MB more memory than after one picture")
        outcome.figures = {
            "slowest_s": round(slowest, 1),
            "slowest_processor_s": round(busiest, 1),
            "peak_growth_mb": round(grown),
        }
    return outcome


def picture(side: int = 64) -> bytes:
    """A PNG of noise."""
    pixels = np.random.default_rng(side).integers(0, 256, (side, side, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def _stylize(photo: dict, style: str = "monet", size: int = 64) -> list:
    finer = [1] * (len(OPTIONS) - 2)  # beside the strength and whose colors are kept
    return [photo, style, 1.0, None, size, "", 0.5, "", None, "png", *finer]


def _number(client: httpx.Client, name: str) -> int:
    dependencies = client.get("config").json()["dependencies"]
    return next(one["id"] for one in dependencies if one["api_name"] == name)


def _caller(served: Served, client: httpx.Client) -> Caller:
    (path,) = client.post(f"{API}/upload", files={"files": ("a.png", picture())}).json()
    photo = {"path": path, "meta": {"_type": "gradio.FileData"}}
    config = client.get("config").json()
    parts = {one["id"]: one for one in config["components"]}

    def value(number: int) -> object:
        props = parts[number]["props"]
        if parts[number]["type"] == "image" or props.get("elem_id") == "photo":
            return photo
        if props.get("name") == "channel":
            return {"wish": 1}
        return [photo] if parts[number]["type"] == "file" else props.get("value")

    inputs = {one["id"]: list(map(value, one["inputs"])) for one in config["dependencies"]}
    return Caller(served, client, photo, inputs)


def _odd_inputs(generator: random.Random, caller: Caller, session: str) -> str:
    number = generator.choice(sorted(caller.inputs))
    data = list(caller.inputs[number])
    for _ in range(generator.choice([1, 1, 3])):
        if data:
            data[generator.randrange(len(data))] = generator.choice(ODD)
    return caller.joined(number, data, session)


def _odd_stylize(generator: random.Random, caller: Caller, session: str) -> str:
    data = _stylize(caller.photo)
    data[generator.randrange(len(data))] = generator.choice(ODD)
    return caller.joined(_number(caller.client, "stylize"), data, session)


def _odd_count(generator: random.Random, caller: Caller, session: str) -> str:
    number = generator.choice(sorted(caller.inputs))
    data = caller.inputs[number]
    data = generator.choice([[], data[:-1], [*data, None], data * 20, [None] * 5000])
    return caller.joined(number, data, session)


def _odd_body(generator: random.Random, caller: Caller, session: str) -> str:
    number = generator.choice(sorted(caller.inputs))
    body: object = {
        "data": caller.inputs[number], "fn_index": number, "session_hash": session,
        "event_data": generator.choice(ODD), "trigger_id": generator.choice(ODD),
        "event_id": generator.choice([None, "a", "../x", 7]),
    }  # fmt: skip
    if generator.random() < 0.5:
        body[generator.choice(sorted(body))] = generator.choice(ODD)
    route = generator.choice(["queue/join", "run/predict", "cancel", "reset"])
    answer = caller.client.post(
        f"{API}/{route}",
        content=json.dumps(body).encode("utf-8", "surrogatepass"),
        headers={"content-type": "application/json"},
    )
    return f"{answer.status_code} {answer.text}"


def _bad_json(generator: random.Random, caller: Caller, session: str) -> str:
    content = generator.choice(
        [b"", b"{", b"[" * 10**5, b"\xff" * 100, b"NaN", b"9" * 10**5, b'{"data":' * 10**4,
         b"null", b'{"data":[],"data":[]}', b"a" * (2 * 2**20)]
    )  # fmt: skip
    route = generator.choice(["queue/join", "run/predict", "cancel", "reset"])
    kind = generator.choice(["application/json", "application/json; charset=x", "text/plain", ""])
    answer = caller.client.post(f"{API}/{route}", content=content, headers={"content-type": kind})
    return f"{answer.status_code} {answer.text}"


def _closed(generator: random.Random, caller: Caller, session: str) -> str:
    method = generator.choice(["GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD"])
    path = generator.choice(PATHS)
    root = generator.choice([f"{API}/", "", f"{API}/../"])
    with caller.client.stream(method, root + path) as answer:
        text = "" if answer.status_code == 200 else answer.read().decode(errors="replace")
        return f"{answer.status_code} {text}"


def _odd_upload(generator: random.Random, caller: Caller, session: str) -> str:
    head = b'--B\r\nContent-Disposition: form-data; name="%s"; filename="%s"\r\n\r\n'
    name = generator.choice([b"files", b"other", b"", b"\xff"])
    file = generator.choice([b"a.png", b"../../x", b"", b"\0", b"a" * 300, b"\xff\xfe", b"CON"])
    end = generator.choice([b"\r\n--B--\r\n", b"", b"\r\n--B", b"\r\n--C--\r\n"])
    body = head % (name, file) * generator.choice([1, 1, 700]) + b"x" * 1000 + end
    kind = generator.choice(
        ["multipart/form-data; boundary=B", "multipart/form-data", "text/plain",
         "multipart/form-data; boundary=" + "B" * 300]
    )  # fmt: skip
    answer = caller.client.post(f"{API}/upload", content=body, headers={"content-type": kind})
    return f"{answer.status_code} {answer.text}"


def _odd_headers(generator: random.Random, caller: Caller, session: str) -> str:
    headers = generator.choice(
        [{"host": "evil.example"}, {"host": "127.0.0.1"}, {"origin": "null"},
         {"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"},
         {"x-forwarded-host": "evil.example"},
         {"range": "bytes=0-," * 500},
         {"cookie": "a" * 8000}, {"accept-encoding": "gzip;q=x"}]
    )  # fmt: skip
    answer = caller.client.get(generator.choice(["", "config", f"{API}/info"]), headers=headers)
    if "evil" in answer.text and answer.status_code == 200:
        return "500 a foreign name is in the page"
    return f"{answer.status_code} {answer.text[:100]}"


Attack = Callable[[random.Random, Caller, str], str]
ATTACKS: list[tuple[str, Attack]] = [
    ("odd inputs", _odd_inputs),
    ("odd inputs", _odd_inputs),
    ("odd inputs of /stylize", _odd_stylize),
    ("odd inputs of /stylize", _odd_stylize),
    ("odd number of inputs", _odd_count),
    ("odd body", _odd_body),
    ("bad JSON", _bad_json),
    ("closed route", _closed),
    ("odd upload", _odd_upload),
    ("odd headers", _odd_headers),
]
