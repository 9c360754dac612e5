"""Whether the style classifier sees another style where convolutions are in bfloat16.

The same photos in the same styles in both precisions: how many verdicts are the same, and how many
are right. A processor without bfloat16 takes long for it.

python -m benchmarks.precision_verdicts --photos test/photo/ --limit 25
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import models
from app import images, shipped
from app.choosing import spread
from app.painter import Painter
from benchmarks.gallery import SHARED
from models.precision import BFLOAT16, FLOAT32

SIDE = 256  # pixels, of the longest side: what the classifier knows


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--checkpoint", default=str(shipped.CHECKPOINT))
    parser.add_argument("--classifier", default=str(shipped.CLASSIFIER))
    parser.add_argument("--photos", type=Path, default=SHARED / "artworks" / "test" / "photo")
    parser.add_argument("--limit", type=int, default=25, help="photos")
    arguments = parser.parse_args(argv)
    files = sorted(arguments.photos.glob("*.jpg"))
    if not files:
        print(f"error: {arguments.photos}: no photos (*.jpg)", file=sys.stderr)
        return 2
    judge, _ = models.load_classifier(arguments.classifier)
    painters = [Painter(arguments.checkpoint, "cpu", precision=p) for p in (FLOAT32, BFLOAT16)]
    styles = [style for style in painters[0].style_names if style in judge.classes]
    asked = same = 0
    right = [0, 0]
    for index in spread(arguments.limit, len(files)):
        photo = images.load(files[index])
        for style in styles:
            called = []
            for painter in painters:
                painted = painter.paint(photo, painter.style(style), max_size=SIDE)
                shares = judge.judge(images.to_tensor(painted.rgb)).probabilities
                called.append(judge.classes[int(shares.argmax())])
            asked, same = asked + 1, same + (called[0] == called[1])
            right = [n + (name == style) for n, name in zip(right, called, strict=True)]
    print(
        f"{asked} pictures: {same} verdicts the same; "
        f"right in {FLOAT32} {right[0]}, in {BFLOAT16} {right[1]}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
