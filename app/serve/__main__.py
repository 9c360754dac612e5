"""python -m app.serve: the painting as a service, on Ray Serve."""

from __future__ import annotations

import argparse
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from app import images, shipped, terminal
from app.cluster import engine
from app.limits import LONGEST_QUEUE
from app.listing import CommandError
from app.options import add_max_pixels, add_precision, positive
from app.painter import Painter
from app.serve.front import LONGEST_WAIT

_DRAIN = 60.0  # seconds for what is in hand when the service is told to end


def options(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line's options; a wrong one ends the program with exit code 2."""
    parser = argparse.ArgumentParser(
        prog="python -m app.serve", description="The painting as a service: POST /stylize."
    )
    parser.add_argument("--host", default="127.0.0.1", help="0.0.0.0 lets other machines in")
    parser.add_argument("--port", type=_port, default=8000)
    parser.add_argument(
        "--address",
        default="local",
        metavar="local|auto|HOST:PORT",
        help="where it runs: on this machine alone (local, the default), on the Ray cluster that "
        "this machine belongs to (auto), or on the one at an address",
    )
    parser.add_argument("--checkpoint", type=Path, default=shipped.CHECKPOINT, metavar="FILE")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda", "mps"], default="auto")
    add_precision(parser)
    add_max_pixels(parser)
    parser.add_argument(
        "--max-bytes",
        type=positive,
        default=50 * 2**20,
        metavar="N",
        help="of a request (default: %(default)s)",
    )
    parser.add_argument(
        "--max-queue",
        type=positive,
        default=LONGEST_QUEUE,
        metavar="N",
        help="requests that may wait; others get 503 and Retry-After (default: %(default)s)",
    )
    parser.add_argument(
        "--max-wait",
        type=positive,
        default=LONGEST_WAIT,
        metavar="SECONDS",
        help="within which a photo is begun; one that would wait longer gets 503 and Retry-After, "
        "too (default: %(default)g)",
    )
    parser.add_argument(
        "--replicas",
        type=_replicas,
        default=(1, 1),
        metavar="N|N-M",
        help="painters: so many, or from N to M as the queue grows and shrinks (default: 1)",
    )
    parser.add_argument(
        "--num-cpus", type=positive, default=1, metavar="N", help="cores for each (default: 1)"
    )
    parser.add_argument(
        "--num-gpus", type=float, default=0, metavar="N", help="GPUs for each; 0.5: two share one"
    )
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until told to end. Exit code: 0, or 2 where it cannot be started."""
    terminal.show_anything()
    args = options(argv)
    try:
        engine.check_installed()
        engine.check_address(args.address)
        from app.serve import proxy
        from app.serve.deployment import Service, application

        if args.address == "local":
            # Elsewhere the proxies are others', too, and may not have this code.
            os.environ.setdefault(proxy.VARIABLE, proxy.NAME)
        painter = Painter(args.checkpoint, "cpu", precision="float32")
        service = Service(
            Path(args.checkpoint).read_bytes(),
            args.device,
            args.precision,
            args.max_pixels,
            args.max_bytes,
            args.replicas[0],
            args.replicas[1],
            args.max_queue,
            args.max_wait,
            args.num_cpus,
            args.num_gpus,
        )
        with engine.connected(args.address):
            from ray import serve

            handle = _started(args, application(service, painter))
            # Only now: Ray has handlers of its own, which would end the program at once.
            ended = threading.Event()
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda *_: ended.set())
            print(
                f"Repaint answers at http://{args.host}:{args.port}/", file=sys.stderr, flush=True
            )
            _until(ended, handle)
            serve.delete("repaint")  # and what else the cluster serves stays
    except (ValueError, OSError, CommandError, RuntimeError) as error:
        text = images.one_line(next(iter(str(error).splitlines()), type(error).__name__))
        print(f"python -m app.serve: error: {text}", file=sys.stderr)
        return 2
    return 0


def _started(args: argparse.Namespace, application: Any) -> Any:
    from ray import serve

    try:
        serve.start(
            http_options={"host": args.host, "port": args.port},
            logging_config={"enable_access_log": False, "log_level": "ERROR"},
        )
        return serve.run(application, name="repaint", route_prefix="/")
    except Exception as error:  # whatever any of its processes ran into
        text = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise CommandError(f"the service could not be started: {text}") from error


def _until(ended: threading.Event, handle: Any) -> None:
    """Prints the log's lines, and at the end waits for what is in hand."""
    while not ended.wait(1):
        _print_lines(handle)
    deadline = time.monotonic() + _DRAIN
    while time.monotonic() < deadline:
        if not handle.drain.remote().result(timeout_s=_DRAIN):
            break
        time.sleep(0.2)
    _print_lines(handle)


def _print_lines(handle: Any) -> None:
    try:
        lines = handle.take_lines.remote().result(timeout_s=30)
    except Exception:  # the front is being started anew: its next lines will come
        return
    for line in lines:
        print(line, flush=True)


def _port(text: str) -> int:
    number = positive(text)
    if number > 65535:
        raise argparse.ArgumentTypeError(f"a port is from 1 to 65535, not {text}")
    return number


def _replicas(text: str) -> tuple[int, int]:
    least, dash, most = text.partition("-")
    first = positive(least)
    last = positive(most) if dash else first
    if last < first:
        raise argparse.ArgumentTypeError(f"from few to many, not {text}")
    if math.isinf(last):
        raise argparse.ArgumentTypeError(f"a number, not {text}")
    return first, last


if __name__ == "__main__":
    sys.exit(main())
