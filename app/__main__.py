"""python -m app: the web demo."""

import argparse
import os
import signal
import socket
import sys
import tempfile
from pathlib import Path

from app import images, shipped
from app.painter import Painter

# What the next start need not paint again; `make clean` removes it.
CACHE = Path(__file__).resolve().parents[1] / ".gradio"

# Bytes of content features that are kept, for the next style on the same photo: ten of 512 px or
# two of a megapixel. Visitors come and go, and a crowd of them should not leave more behind.
REMEMBERED_CONTENT = 64 * 2**20


def options(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line's options; a wrong one ends the program with exit code 2."""
    parser = argparse.ArgumentParser(prog="python -m app", description="Repaint's web demo.")
    parser.add_argument("--host", default="127.0.0.1", help="0.0.0.0 lets other machines in")
    parser.add_argument("--port", type=_port, default=7860)
    parser.add_argument("--share", action="store_true", help="a public link through gradio's relay")
    parser.add_argument("--checkpoint", type=Path, default=shipped.CHECKPOINT, metavar="FILE")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda", "mps"], default="auto")
    parser.add_argument(
        "--max-pixels",
        type=_pixels,
        default=images.MAX_PIXELS,
        metavar="N",
        help="refuse larger photos, in pixels (default %(default)s)",
    )
    parser.add_argument(
        "--max-queue",
        type=_waiting,
        default=32,
        metavar="N",
        help="visitors who may wait; others are asked to come back (default %(default)s)",
    )
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Serve the demo until it is stopped. Exit code: 0, or 2 where it cannot be started."""
    chosen = options(arguments)
    try:
        _check_address(chosen.host, chosen.port)
    except OSError as error:
        return _refused(f"cannot listen on {chosen.host}:{chosen.port}: {error.strerror}")

    try:
        painter = Painter(chosen.checkpoint, chosen.device, remembered_content=REMEMBERED_CONTENT)
    except (ValueError, OSError) as error:
        return _refused(error)
    with tempfile.TemporaryDirectory(prefix="repaint-") as folder:
        # Uploads and results are kept there: Gradio reads the variable when a page is built.
        os.environ["GRADIO_TEMP_DIR"] = folder
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
            address, public = demo.serve(page, chosen.host, chosen.port, share=chosen.share)
        except OSError as error:
            return _refused(error)
        print(f"Repaint is at {public or address} (Ctrl-C stops it)", flush=True)
        # A kill then ends the program like Ctrl-C does, with the folder removed.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        page.block_thread()
    return 0


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


def _waiting(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"at least 1 visitor may wait, not {text}")
    return number


def _pixels(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"a photo has at least 1 pixel, not {text}")
    return number


if __name__ == "__main__":
    sys.exit(main())
