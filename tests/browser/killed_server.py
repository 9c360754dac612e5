"""The demo in a process of its own, for a test that kills it.

python -m tests.browser.killed_server CHECKPOINT PORT FOLDER HELD

Says "ready" once it serves. FOLDER: for uploads and results. HELD: while this file is there every
painting lasts, and is told of in a file beside it, named as this one with ".begun" behind.
"""

import sys
import time
from pathlib import Path

from app.painter import Painter
from tests.demo_server import serving


def main(checkpoint: str, port: str, folder: str, held: str) -> None:
    painter = Painter(checkpoint, device="cpu")
    real = painter.paint

    def paint(*given, progress=None, **options):
        while Path(held).exists():
            Path(f"{held}.begun").touch()
            progress(0.3)
            time.sleep(0.05)
        return real(*given, progress=progress, **options)

    painter.paint = paint
    with serving(painter, Path(folder), port=int(port)):
        print("ready", flush=True)
        while True:
            time.sleep(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
