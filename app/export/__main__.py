"""The command ``python -m app.export``: a checkpoint as ONNX graphs and small files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from app import images, terminal
from app.shipped import CHECKPOINT

NEEDS = ("onnx", "onnxscript", "onnxruntime")


def main(argv: Sequence[str] | None = None) -> int:
    terminal.show_anything()
    args = _parser().parse_args(argv)
    try:
        from app.export.folder import export
    except ModuleNotFoundError as error:
        if error.name not in NEEDS:
            raise
        return terminal.failed(f"{error.name} is missing: make site-deps installs it", 2)
    from app.painter import Painter

    try:
        painter = Painter(args.checkpoint, "cpu")
        example = images.load(args.example) if args.example else None
        apart = export(painter, args.out, example, print)
    except (ValueError, OSError) as error:
        return terminal.failed(error, 2)
    size = sum(file.stat().st_size for file in args.out.iterdir())
    print(f"{args.out}: {size / 1e6:.1f} MB; pictures differ by at most {apart:.1f} of 255 levels")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m app.export",
        description="Write a checkpoint as ONNX graphs, packed weights and style codes, for "
        "runtimes without torch: the static page's (see make site).",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    parser.add_argument(
        "--checkpoint",
        type=Path,
        default=CHECKPOINT,
        metavar="FILE",
        help="the network and its styles (default: the one that comes with Repaint)",
    )
    parser.add_argument(
        "--example", type=Path, metavar="PHOTO", help="what the styles' thumbnails show"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
