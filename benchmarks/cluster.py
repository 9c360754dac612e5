"""What app.cluster and app.serve hold: broken files, lost machines, a killed driver, a crowd.

    batch     pictures from a store to a store, every 50th broken in a different way: results
              equal to app.stylize's byte by byte, failures by name, exit code 1, and the driver's
              memory in the first and the last tenth
    nodes     one of two machines killed (its processes, by their ids) at three random moments
    driver    the command killed with -9 at a random moment, and --resume
    overhead  one machine of two cores against app.stylize on the same pictures of 512 px, in turns
    limits    what the driver and the store have room for: pictures a second with workers that paint
              nothing, and requests a second and a picture
    serve     20 clients for two minutes at twice the capacity, and a replica killed in between

A Ray cluster of two nodes on this machine (``ray.cluster_utils.Cluster``) and an S3 server (``pip
install moto[server]``) on the loopback address. ``--count`` and ``--minutes`` make it shorter.

python -m benchmarks.cluster --out out/cluster.json
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx

from app import shipped
from app.batch import Outcome
from app.cluster import command as clustered
from app.cluster import engine, stores
from app.cluster.plan import Plan
from app.metrics import resident_bytes
from benchmarks.reports import written
from benchmarks.scale_batch import broken_ways, crops, encoded

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("batch", "nodes", "driver", "overhead", "limits", "serve")
SMALL = (96, 128)  # pixels a side: what is compared are bytes
SIDE = 512  # of overhead's pictures
CLIENTS = 20

# One thread's sums are the same each time. The workers of a cluster of one's own need not give way
# to other programs, and none is to be started before it is wanted.
ALONE = {
    "OMP_NUM_THREADS": "1",
    "RAY_worker_niceness": "0",
    "RAY_prestart_worker_first_driver": "0",
}
KEYS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def store() -> Iterator[str]:
    """An S3 server on the loopback address; what follows a bucket's name in an address."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while True:
            with suppress(httpx.HTTPError):
                httpx.put(f"http://127.0.0.1:{port}/museum", timeout=30).raise_for_status()
                break
            time.sleep(0.2)
        yield f"?endpoint_override=127.0.0.1:{port}&scheme=http&region=us-east-1"
    finally:
        server.kill()
        server.wait()


class Pictures:
    """Small pictures, every 50th broken, and what app.stylize makes of them."""

    def __init__(self, folder: Path, count: int, side: int | None = None) -> None:
        self.source, self.plain = folder / "photos", folder / "plain"
        self.source.mkdir(parents=True)
        ways, broken = broken_ways(), 0
        for i, crop in enumerate(crops(count, *SMALL, seed=21)):
            suffix = ("jpg", "png", "webp")[i % 3]
            data = encoded(crop if side is None else crop.resize((side, side)), suffix)
            if i % 50 == 49:
                data, broken = ways[broken % len(ways)](data), broken + 1
            (self.source / f"{i:05d}.{suffix}").write_bytes(data)
        self.count, self.broken = count, broken

    def paint(self, style: str) -> dict[str, bytes]:
        """The plain batch's results, by name."""
        command = [sys.executable, "-m", "app.stylize", str(self.source), "--style", style]
        subprocess.run(
            [*command, "--out", str(self.plain), "--device", "cpu"],
            cwd=ROOT,
            env=os.environ | ALONE,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        return {
            path.name: path.read_bytes() for path in self.plain.iterdir() if path.name[0] != "."
        }

    def upload(self, address: str, options: str) -> None:
        """Put them into a store's folder."""
        for path in sorted(self.source.iterdir()):
            stores.write(f"{address}/{path.name}{options}", path.read_bytes())


def downloaded(address: str) -> dict[str, bytes]:
    """A store's folder, by name."""
    return {stores.path_of(name).name: stores.read(name) for name in stores.files(address, False)}


@contextmanager
def two_nodes() -> Iterator[Any]:
    """A cluster: a head that paints nothing, and two nodes of a core each."""
    from ray.cluster_utils import Cluster

    limits = {"object_store_memory": 200 * 2**20, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **limits})
    try:
        for _ in range(2):
            cluster.add_node(num_cpus=1, object_store_memory=200 * 2**20)
        yield cluster
    finally:
        cluster.shutdown()


class Command:
    """app.cluster as a program.

    Attributes:
        outcomes: lines that it printed. memory: its resident bytes after each. odd: what else it
            printed to stdout, where nothing else belongs.
    """

    def __init__(self, source: str, out: str, address: str, *more: str) -> None:
        command = [sys.executable, "-m", "app.cluster", source, "--out", out, "--json"]
        # Not a pipe: it could fill up while only the other one is read.
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (as long as the program runs)
        self.program = subprocess.Popen(
            [*command, "--style", "monet", "--device", "cpu", "--address", address, *more],
            cwd=ROOT,
            env=os.environ | ALONE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )
        self.outcomes: list[dict] = []
        self.memory: list[int] = []
        self.odd: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.program.stdout is not None
        for line in self.program.stdout:
            try:
                outcome = json.loads(line)
            except ValueError:
                self.odd.append(line)
                continue
            self.outcomes.append(outcome)
            self.memory.append(resident_bytes(self.program.pid) or 0)

    def until(self, outcomes: int) -> bool:
        """Waits for so many outcomes; False where it ended before."""
        while len(self.outcomes) < outcomes:
            if self.program.poll() is not None:
                return False
            time.sleep(0.05)
        return True

    def finish(self) -> int:
        """Runs to its end; the exit code."""
        code = self.program.wait()
        self._reader.join()
        return code

    def said(self) -> str:
        """What it wrote to stderr."""
        self.errors.seek(0)
        return self.errors.read()


def judged(command: Command, code: int, results: dict, wanted: dict, pictures: Pictures) -> dict:
    """What a run came to."""
    counts = Counter(outcome["status"] for outcome in command.outcomes)
    failed = [o for o in command.outcomes if o["status"] == "failed"]
    names = {Path(o["input"].partition("?")[0]).name for o in failed}
    tenth = max(1, len(command.memory) // 10)
    first, last = command.memory[:tenth], command.memory[-tenth:]
    report = {
        "pictures": pictures.count,
        "results": len(results),
        "equal": sum(results.get(name) == data for name, data in wanted.items()),
        "wanted": len(wanted),
        "failed_by_name": len(names),
        "broken": pictures.broken,
        "statuses": dict(counts),
        "exit_code": code,
        "lines_that_are_no_outcome": len(command.odd),
    }
    if first:
        report |= {
            "driver_MB_first_tenth": round(statistics.mean(first) / 2**20, 1),
            "driver_MB_last_tenth": round(statistics.mean(last) / 2**20, 1),
        }
    if code not in (0, 1) or report["equal"] < len(wanted):
        report["said"] = command.said()[-2000:]
    return report


def kill(pids: list[int]) -> None:
    """End processes of ours at once."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def family(pid: int) -> list[int]:
    """A process and all that it started."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    pids = [pid]
    with suppress(OSError):
        for child in children.read_text(encoding="utf-8").split():
            pids += family(int(child))
    return pids


def processes_of(node: Any) -> list[int]:
    """The ids of a node's processes, of its workers, too."""
    own = [info.process.pid for infos in node.all_processes.values() for info in infos]
    return [each for pid in own for each in family(pid)]


def measured_batch(options: str, pictures: Pictures, wanted: dict, cluster: Any) -> dict:
    started = time.perf_counter()
    command = Command(f"s3://museum/in{options}", f"s3://museum/out{options}", cluster.address)
    code = command.finish()
    seconds = time.perf_counter() - started
    report = judged(command, code, downloaded(f"s3://museum/out{options}"), wanted, pictures)
    return report | {"seconds": round(seconds, 1)}


def measured_nodes(options: str, pictures: Pictures, wanted: dict, cluster: Any) -> dict:
    draw = random.Random(4)
    moments = sorted(draw.sample(range(1, int(0.9 * pictures.count)), 3))
    out = f"s3://museum/nodes{options}"
    command = Command(f"s3://museum/in{options}", out, cluster.address)
    killed = 0
    for moment in moments:
        if not command.until(moment):
            break
        node = draw.choice(cluster.list_all_nodes()[1:])
        kill(processes_of(node))
        killed += 1
        cluster.remove_node(node, allow_graceful=False)
        cluster.add_node(num_cpus=1, object_store_memory=200 * 2**20, wait=False)
    code = command.finish()
    return judged(command, code, downloaded(out), wanted, pictures) | {"killed": killed}


def measured_driver(options: str, pictures: Pictures, wanted: dict, cluster: Any) -> dict:
    out = f"s3://museum/driver{options}"
    first = Command(f"s3://museum/in{options}", out, cluster.address)
    first.until(random.Random(5).randrange(1, pictures.count // 2))
    first.program.kill()
    first.finish()
    before = len(downloaded(out))
    command = Command(f"s3://museum/in{options}", out, cluster.address, "--resume")
    code = command.finish()
    return judged(command, code, downloaded(out), wanted, pictures) | {"before": before}


def measured_overhead(folder: Path, count: int, rounds: int) -> Iterator[dict]:
    """What is known after each command."""
    pictures = Pictures(folder, count, SIDE)
    common = [str(pictures.source), "--style", "monet", "--device", "cpu", "--overwrite", "--json"]
    plain = [sys.executable, "-m", "app.stylize", *common]
    commands = {
        "plain": (plain, "2"),
        # Two threads, too: each of its two painters then has a core.
        "plain_jobs_2": ([*plain, "--jobs", "2"], "2"),
        "cluster": ([sys.executable, "-m", "app.cluster", *common, "--address", "local"], "1"),
    }
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    rates: dict[str, float] = {}
    for _ in range(rounds):
        for name, (command, threads) in commands.items():
            started, times = time.perf_counter(), []
            with subprocess.Popen(
                [*command, "--out", str(folder / name)],
                cwd=ROOT,
                env=os.environ | ALONE | {"OMP_NUM_THREADS": threads},
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            ) as program:
                assert program.stdout is not None
                for _line in program.stdout:
                    times.append(time.perf_counter())
            seconds[name].append(round(time.perf_counter() - started, 1))
            # Between the first and the last picture: without the start.
            rates[name] = round((len(times) - 1) / (times[-1] - times[0]), 2)
            report = {
                "pictures": count,
                "pixels": SIDE,
                "outcomes": len(times),
                "seconds": seconds,
                "pictures_a_second": rates,
            }
            if all(seconds.values()):
                least = {name: min(each) for name, each in seconds.items()}
                fastest = min(least["plain"], least["plain_jobs_2"])
                report["ratio"] = round(least["cluster"] / fastest, 3)
                report["ratio_to_default"] = round(least["cluster"] / least["plain"], 3)
            yield report


class PaintsNothing:
    """In place of a worker: what is left is the driver's work."""

    def __init__(self, *_: object) -> None:
        pass

    def __call__(self, table: Any) -> dict[str, list[str]]:
        done = [Outcome(str(name), "", "done") for name in table["input"]]
        return {"outcome": [json.dumps(asdict(outcome)) for outcome in done]}


def measured_limits(folder: Path, count: int) -> dict:
    """The driver's and the store's, apart from one another."""
    photos = folder / "photos"
    photos.mkdir(parents=True)
    for number in range(count):
        (photos / f"{number:06d}.png").touch()  # nobody reads them
    given = [str(photos), "--style", "monet", "--out", str(folder / "out"), "--address", "local"]
    args = clustered._parser().parse_args([*given, "--device", "cpu"])
    started = time.perf_counter()
    plan = Plan(folder / "plan", args.out)
    plan.fill(args.photos, args.format, args.recursive, listed=[])
    planned = time.perf_counter() - started
    memory, times = [], []
    with engine.connected(args.address) as ray:
        task = clustered._task(args)
        started = time.perf_counter()
        for _ in clustered.outcomes(args, plan, task, ray, PaintsNothing):
            memory.append(resident_bytes() or 0)
            times.append(time.perf_counter() - started)
    tenth = max(1, count // 10)
    report = {
        "pictures": count,
        "outcomes": len(times),
        "planned_a_second": round(count / planned),
        "first_after_s": round(times[0], 1),
        "driver_a_second": round((len(times) - 1) / (times[-1] - times[0])),
        "driver_MB_first_tenth": round(statistics.mean(memory[:tenth]) / 2**20, 1),
        "driver_MB_last_tenth": round(statistics.mean(memory[-tenth:]) / 2**20, 1),
    }
    data = os.urandom(100_000)
    with store() as options:
        names = [f"s3://museum/limit/{number}.png{options}" for number in range(200)]
        for name, call in (("puts", lambda name: stores.write(name, data)), ("gets", stores.read)):
            started = time.perf_counter()
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                list(pool.map(call, names))
            report[f"store_{name}_a_second"] = round(len(names) / (time.perf_counter() - started))
    return report


def measured_serve(minutes: float) -> dict:
    """Clients that never rest are as many as are needed for twice the capacity, and more."""
    port, queue, wait = free_port(), 4, 1
    command = [sys.executable, "-m", "app.serve", "--port", str(port), "--replicas", "2"]
    with (
        tempfile.TemporaryDirectory() as folder,
        open(Path(folder) / "log", "w+", encoding="utf-8") as log,
    ):
        service = subprocess.Popen(
            [*command, "--max-queue", str(queue), "--max-wait", str(wait)],
            cwd=ROOT,
            env=os.environ | ALONE,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            report = _crowd(f"http://127.0.0.1:{port}", service, minutes)
        finally:
            service.terminate()
            service.wait()
        log.seek(0)
        lines = [json.loads(line) for line in log if line.startswith("{")]
    painted = sorted(line["painted_s"] for line in lines if line["status"] == 200)
    report["painted_p95_s"] = painted[int(0.95 * len(painted))] if painted else None
    report["in_hand_at_most"], report["begun_within_s"] = 2 + queue, wait
    if painted:
        # What is not begun by then is refused, whoever was killed; then it is painted.
        report["queue_limit_s"] = round(wait + report["painted_p95_s"], 2)
    return report


def _crowd(address: str, service: subprocess.Popen, minutes: float) -> dict:
    from app.look import Look
    from app.painter import Painter

    while service.poll() is None:
        with suppress(httpx.HTTPError):
            httpx.get(f"{address}/healthz", timeout=10).raise_for_status()
            break
        time.sleep(0.5)
    photos = [encoded(crop, "png") for crop in crops(CLIENTS, *SMALL, seed=9)]
    painter = Painter(shipped.CHECKPOINT, "cpu")
    wanted = [_painted(painter, photo, Look()) for photo in photos]
    end = time.monotonic() + 60 * minutes
    answers: list[tuple[int, int, float, bool]] = []

    def client(number: int) -> None:
        with httpx.Client(timeout=600) as own:
            while time.monotonic() < end:
                started = time.monotonic()
                try:
                    answer = own.post(
                        f"{address}/stylize", params={"style": "monet"}, content=photos[number]
                    )
                except httpx.HTTPError:
                    answers.append((number, 0, time.monotonic() - started, False))
                    continue
                right = answer.status_code == 200 and _near(answer.content, wanted[number])
                answers.append((number, answer.status_code, time.monotonic() - started, right))
                if answer.status_code == 503:
                    time.sleep(min(1.0, float(answer.headers["retry-after"])))

    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as crowd:
        running = [crowd.submit(client, number) for number in range(CLIENTS)]
        time.sleep(30 * minutes)
        killed = _kill_a_replica(service.pid)
        for each in running:
            each.result()
    accepted = sorted(seconds for _, status, seconds, _ in answers if status == 200)
    return {
        "minutes": minutes,
        "clients": CLIENTS,
        "statuses": dict(Counter(status for _, status, _, _ in answers)),
        "of_its_photo": sum(right for *_, right in answers),
        "asked_a_second": round(len(answers) / (60 * minutes), 1),
        "painted_a_second": round(len(accepted) / (60 * minutes), 1),
        "killed_replicas": killed,
        "p50_s": round(statistics.median(accepted), 2) if accepted else None,
        "p95_s": round(accepted[int(0.95 * len(accepted))], 2) if accepted else None,
    }


def _painted(painter: Any, photo: bytes, look: Any) -> Any:
    import io

    from app import images

    return painter.paint(images.load(io.BytesIO(photo)), painter.style("monet"), look).rgb


def _near(data: bytes, wanted: Any) -> bool:
    """Whether a picture is that one, up to what another number of threads rounds otherwise."""
    import io

    import numpy as np

    from app import images

    pixels = images.load(io.BytesIO(data)).rgb
    return pixels.shape == wanted.shape and bool(
        np.abs(pixels.astype(int) - wanted.astype(int)).max() <= 2
    )


def _kill_a_replica(pid: int) -> int:
    for each in family(pid):
        with suppress(OSError):
            if "ServeReplica:repaint:painter" in Path(f"/proc/{each}/cmdline").read_text(
                encoding="utf-8"
            ):
                kill([each])
                return 1
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--count", type=int, default=1000, help="pictures of batch")
    parser.add_argument("--fewer", type=int, default=200, help="of nodes, driver and overhead")
    parser.add_argument("--rounds", type=int, default=2, help="of overhead")
    parser.add_argument("--many", type=int, default=200_000, help="pictures of limits")
    parser.add_argument("--minutes", type=float, default=2.0, help="of serve")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    os.environ.update(ALONE | KEYS)
    report: dict[str, object] = {}
    folder = Path(tempfile.mkdtemp(prefix="repaint-cluster-"))
    try:
        in_store = [part for part in ("batch", "nodes", "driver") if part in args.only]
        for part in in_store:
            # Each with a store and a cluster of its own: what one leaves is not the next one's.
            pictures = Pictures(folder / part, args.count if part == "batch" else args.fewer)
            wanted = pictures.paint("monet")
            with store() as options, two_nodes() as cluster:
                pictures.upload("s3://museum/in", options)
                measure = globals()[f"measured_{part}"]
                report[part] = measure(options, pictures, wanted, cluster)
            print(part, json.dumps(report[part]), flush=True)
            written(report, args.out)
        if "overhead" in args.only:
            for known in measured_overhead(folder / "overhead", args.fewer, args.rounds):
                report["overhead"] = known
                print("overhead", json.dumps(known), flush=True)
                written(report, args.out)
        if "limits" in args.only:
            report["limits"] = measured_limits(folder / "limits", args.many)
            print("limits", json.dumps(report["limits"]), flush=True)
            written(report, args.out)
        if "serve" in args.only:
            report["serve"] = measured_serve(args.minutes)
            print("serve", json.dumps(report["serve"]), flush=True)
        written(report, args.out)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
