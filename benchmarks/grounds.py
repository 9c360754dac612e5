"""What each part of a style's ground does: a judge's shares, and times, with one after another.

Every built-in style's first code paints training photos, first without a ground, then with what is
left out of the photo and the strokes' strength, then with one field of the style's ground after
another. A linear judge on pooled EfficientNet-Lite0 features says how many it takes for the style.
No test picture is looked at: this is for choosing.

python -m benchmarks.grounds --judge FILE --sheet out/grounds.png
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from tqdm import tqdm

import models
from app import images, shipped
from app.choosing import Chooser
from app.dataset import PictureFolder
from models.judge import LinearJudge

ARTWORKS = Path("../shared/artworks/train")
FIRST = ("simplify", "strokes")  # what the network sees of a photo
STEPS = (FIRST, *((each.name,) for each in fields(models.Ground) if each.name not in FIRST))
SHOWN = 5  # photos on the sheet


def grounds(own: models.Ground) -> Iterator[tuple[str, models.Ground]]:
    """A plain ground, and then one part after another of a style's own."""
    ground = models.Ground()
    yield "none", ground
    for names in STEPS:
        ground = replace(ground, **{name: getattr(own, name) for name in names})
        yield "+ " + ", ".join(f"{name} {getattr(own, name):g}" for name in names), ground


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--checkpoint", type=Path, default=shipped.CHECKPOINT)
    parser.add_argument("--artworks", type=Path, default=ARTWORKS)
    parser.add_argument("--photos", type=int, default=40)
    parser.add_argument("--judge", help="a judge fitted before (fits one)")
    parser.add_argument("--sheet", type=Path, help="PNG of what some photos become")
    arguments = parser.parse_args()

    checkpoint, device = models.load_checkpoint(arguments.checkpoint), torch.device("cpu")
    network = checkpoint.network
    # Styles whose paintings are there.
    names = [n for n in checkpoint.styles if (arguments.artworks / n).is_dir()]
    folders = {n: PictureFolder(arguments.artworks / n, name=n) for n in names}
    photos = PictureFolder(arguments.artworks / "photo", name="photo")
    judge = LinearJudge.load(arguments.judge) if arguments.judge else None
    chooser = Chooser(network, photos, folders, device, judge, photo_count=arguments.photos)
    rows = []
    print(f"{'style':9} {'ground':26} {'share':>6} {'log p':>6} {'ms':>6}")
    for style in names:
        code = checkpoint.styles[style][0]
        label = chooser.judge.classes.index(style)
        for name, ground in tqdm(list(grounds(code.ground)), style, leave=False):
            started = time.perf_counter()
            with torch.no_grad():
                painted = [
                    network.repaint(x, replace(code, ground=ground)) for x in chooser.squares
                ]
                seconds = time.perf_counter() - started
                logits = torch.cat([chooser.judge(chooser.backbone(x)) for x in painted])
            share = float((logits.argmax(1) == label).float().mean())
            sure = float(logits.log_softmax(1)[:, label].mean())
            milliseconds = 1000 * seconds / len(painted)
            tqdm.write(f"{style:9} {name:26} {share:6.2f} {sure:6.2f} {milliseconds:6.0f}")
            rows.append(np.concatenate([images.to_rgb(x) for x in painted[:SHOWN]], 1))
    if arguments.sheet:
        arguments.sheet.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.concatenate(rows)).save(arguments.sheet)


if __name__ == "__main__":
    main()
