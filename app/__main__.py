"""python -m app: the web demo."""

import argparse
import ipaddress
import os
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from app import shipped
from app.limits import LONGEST_QUEUE
from app.memory import allocate_in_one_arena
from app.options import add_max_pixels, add_precision, positive, say_precision
from app.own_folder import own_folder
from app.painter import Painter

# What the next start need not paint again; `make clean` removes it.
CACHE = Path(__file__).resolve().parents[1] / ".gradio"


def options(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line's options; a wrong one ends the program with exit code 2."""
    parser = argparse.ArgumentParser(prog="python -m app", description="Repaint's web demo.")
    parser.add_argument("--host", default="127.0.0.1", help="0.0.0.0 lets other machines in")
    parser.add_argument("--port", type=_port, default=7860)
    parser.add_argument("--share", action="store_true", help="a public link through gradio's relay")
    parser.add_argument("--checkpoint", type=Path, default=shipped.CHECKPOINT, metavar="FILE")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda", "mps"], default="auto")
    add_precision(parser)
    parser.add_argument(
        "--backend",
        type=_backend,
        metavar="ADDRESS",
        help="let the service (python -m app.serve) at this address, http://painters:8000, paint",
    )
    add_max_pixels(parser)
    parser.add_argument(
        "--max-queue",
        type=positive,
        default=LONGEST_QUEUE,
        metavar="N",
        help="visitors who may wait; others are asked to come back (default %(default)s)",
    )
    parser.add_argument(
        "--allow-host",
        action="append",
        default=[],
        type=_host,
        metavar="NAME",
        help="answer for this host name, too: needed behind a reverse proxy, and for names in a "
        "network (may be given several times)",
    )
    parser.add_argument(
        "--proxy",
        action="append",
        default=[],
        type=_address,
        metavar="ADDRESS",
        help="a reverse proxy's address: its X-Forwarded-For and -Proto are believed",
    )
    parser.add_argument(
        "--root-path",
        default="",
        type=_root_path,
        metavar="PATH",
        help="the path under which a reverse proxy serves the page, as /repaint, or its whole "
        "address, as https://example.org/repaint",
    )
    parser.add_argument(
        "--allow-embedding",
        action="append",
        default=[],
        type=_origin,
        metavar="ORIGIN",
        help="pages of this origin, as https://example.org, may show the demo in a frame",
    )
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Serve the demo until it is stopped. Exit code: 0, or 2 where it cannot be started."""
    chosen = options(arguments)
    try:
        with _ending_once() as is_ending:
            return _serve(chosen, is_ending)
    except (SystemExit, KeyboardInterrupt):
        return 0  # stopped: by a signal, or by Ctrl-C


def _serve(chosen: argparse.Namespace, is_ending: Callable[[], bool]) -> int:
    try:
        _check_address(chosen.host, chosen.port)
    except OSError as error:
        return _refused(f"cannot listen on {chosen.host}:{chosen.port}: {error.strerror}")

    allocate_in_one_arena()
    try:
        painter = _painter(chosen)
        say_precision(painter.precision, chosen.verbose)
    except (ValueError, OSError) as error:
        return _refused(error)
    with own_folder("repaint-demo-") as folder:
        # Uploads and results are kept there: Gradio reads the variable when a page is built.
        os.environ["GRADIO_TEMP_DIR"] = str(folder)
        # Only here, since importing Gradio takes seconds that a wrong option need not wait for.
        from app import demo

        page = demo.build(
            painter,
            max_pixels=chosen.max_pixels,
            max_queue=chosen.max_queue,
            judge=demo.find_judge(),
            cache=CACHE,
        )
        try:
            address, public = demo.serve(
                page,
                chosen.host,
                chosen.port,
                share=chosen.share,
                allow_hosts=chosen.allow_host,
                proxies=chosen.proxy,
                root_path=chosen.root_path,
                embedders=chosen.allow_embedding,
            )
        except (ValueError, OSError) as error:
            return _refused(error)
        try:
            print(f"Repaint is at {public or address} (Ctrl-C stops it)", flush=True)
            while not is_ending():
                time.sleep(0.2)
        finally:
            # Nobody writes into the folder any more when it is removed.
            page.close(verbose=False)
    return 0


def _painter(chosen: argparse.Namespace) -> Painter:
    if chosen.backend is None:
        return Painter(chosen.checkpoint, chosen.device, precision=chosen.precision)
    from app.demo.backend import Backend

    return Backend(chosen.backend, chosen.checkpoint)


@contextmanager
def _ending_once() -> Iterator[Callable[[], bool]]:
    """The first signal to end ends the program in order; further ones don't disturb that.

    A service manager, or a closed terminal, sends several at once. Gives what tells whether one
    has come: the exception that ends what is being done may be raised where it is lost.
    """
    came: list[object] = []

    def end(*given: object) -> None:
        came.append(given)
        for one in ending:
            # Not SIG_IGN: of a signal that is on its way already Python would then complain.
            signal.signal(one, lambda *_: None)
        raise SystemExit(0)

    named = ("SIGTERM", "SIGINT", "SIGHUP")
    ending = [getattr(signal, name) for name in named if hasattr(signal, name)]
    if threading.current_thread() is not threading.main_thread():
        yield lambda: bool(came)
        return
    before = {one: signal.getsignal(one) for one in ending}
    # What was ignored from the start, as nohup has it, stays so.
    ending = [one for one in ending if before[one] is not signal.SIG_IGN]
    for one in ending:
        signal.signal(one, end)
    try:
        yield lambda: bool(came)
    finally:
        for one in ending:
            signal.signal(one, before[one])


def _check_address(host: str, port: int) -> None:
    """Raise OSError where host:port can't be listened on: asked before the weights are read."""
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    with socket.socket(family, kind, protocol) as probe:
        if os.name == "posix":
            # As the server does: a port that was just let go of is free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(address)


def _refused(reason: object) -> int:
    print(f"python -m app: {reason}", file=sys.stderr)
    return 2


def _port(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 65535:
        raise argparse.ArgumentTypeError(f"a port is from 1 to 65535, not {text}")
    return number


def _address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text.strip("[]")))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"an address is written as 127.0.0.1, not {text}"
        ) from None


def _written_as(pattern: str, what: str) -> Callable[[str], str]:
    def check(text: str) -> str:
        if re.fullmatch(pattern, text) is None:
            raise argparse.ArgumentTypeError(f"{what}, not {text}")
        return text

    return check


_host = _written_as(r"(\[[0-9a-fA-F:.]+\]|[\w.-]+)(:\d{1,5})?", "a host is written as example.org")
_root_path = _written_as(r"(https?://[\w.:\[\]-]+)?(/[\w.~-]+)*/?", "a path is written as /repaint")
_backend = _written_as(
    r"https?://[\w.:\[\]-]+(/[\w.~-]+)*/?", "an address is written as http://painters:8000"
)
_origin = _written_as(r"https?://[\w.:\[\]-]+", "an origin is written as https://example.org")


if __name__ == "__main__":
    sys.exit(main())
