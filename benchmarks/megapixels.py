"""What a megapixel of a large photo takes, over one of a photo of 1,024 px.

Processor seconds, so that other programs do not count, on one thread, and the most memory so far.

python -m benchmarks.megapixels --styles monet ukiyoe --sides 1024 2048 4899
"""

from __future__ import annotations

import argparse
import resource
import sys
import time

import torch

from app import images, shipped
from app.limits import Limits
from app.painter import Painter
from benchmarks.speed import photo_of


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--checkpoint", default=str(shipped.CHECKPOINT))
    parser.add_argument("--styles", nargs="+", default=["monet", "ukiyoe"])
    parser.add_argument("--sides", type=int, nargs="+", default=[1024, 2048, 4899])
    arguments = parser.parse_args(argv)
    torch.set_num_threads(1)
    painter = Painter(arguments.checkpoint, "cpu", Limits(remembered_content=0))
    print("style          side  seconds  a megapixel  over the first   MB")
    for style in arguments.styles:
        code, first = painter.style(style), None
        painter.paint(images.Picture(photo_of(256)), code)  # what only the first one takes
        for side in arguments.sides:
            photo = images.Picture(photo_of(side))
            start = time.process_time()
            painter.paint(photo, code)
            took = time.process_time() - start
            each = took / (side**2 / 1e6)
            first = first or each
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
            print(
                f"{style:12} {side:6} {took:8.2f} {each:12.3f} {each / first:15.2f} {memory:6}",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
