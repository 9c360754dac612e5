"""How good the built-in styles are at the sizes that people make: 512, 1,024 and 2,048 px.

Paints large test photos by the command line, at several sizes of their longer side, and asks:

- whole, crop: the share that the committed classifier gives to the style, of paintings seen whole
  (their shorter side shrunk to 256 px) and of their middle 256 px at full size;
- faces: how many of the faces that OpenCV's cascade finds in the photo, 80 px wide or more, it
  finds in the painting. In photos it also takes gloves and posts for faces, more often than not,
  and whether these are found again says nothing: so a second cascade must agree with it there;
- regularity of the texture where the photo is plain (`models.measures.regularity`).

Prints its tables and writes JSON, what there is so far after each stroke size.

python -m benchmarks.sizes --limit 8
python -m benchmarks.sizes --sizes 1024 --brush-sizes 1 2 4
python -m benchmarks.sizes --sizes 256 1024 --classifier checkpoints/gallery_classifier.safetensors
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import torch
import torch.nn.functional as F
from tqdm import tqdm

import models
from app import images, stylize
from app.choosing import spread
from app.shipped import CHECKPOINT, CLASSIFIER
from benchmarks.built_in_styles import CLASSES
from benchmarks.gallery import SHARED
from benchmarks.reports import written
from models import strokes
from models.measures import regularity

SIZES = (512, 1024, 2048)
DEFAULT = "default"  # what the command line does without --brush-size
SEEN = 256  # pixels
SMALLEST_FACE = 80  # pixels
OVERLAP = 0.3  # of two boxes, their intersection over their union: one face
NEIGHBORS = 6  # detections that must agree
CASCADE = "haarcascade_frontalface_default.xml"
# Another training of the same kind, for photos: it finds fewer faces, and other posts and gloves.
SECOND, SECOND_NEIGHBORS = "haarcascade_frontalface_alt2.xml", 2

Box = tuple[int, int, int, int]  # left, top, width, height


@dataclass(frozen=True)
class Shown:
    """A photo at a size and what is known of it, its picture (1, 3, H, W) in [-1, 1]."""

    path: Path
    picture: torch.Tensor
    faces: list[Box]
    plain: torch.Tensor


def faces(
    picture: torch.Tensor,
    cascade: str = CASCADE,
    neighbors: int = NEIGHBORS,
    smallest: int = SMALLEST_FACE,
) -> list[Box]:
    """The faces that a cascade finds in a picture (1, 3, H, W) in [-1, 1]."""
    gray = cv2.cvtColor(np.ascontiguousarray(images.to_rgb(picture)), cv2.COLOR_RGB2GRAY)
    finder = cv2.CascadeClassifier(cv2.data.haarcascades + cascade)
    found = finder.detectMultiScale(gray, minNeighbors=neighbors, minSize=(smallest, smallest))
    return [tuple(map(int, box)) for box in found]


def agreed_faces(photo: torch.Tensor) -> list[Box]:
    """The faces of a photo (1, 3, H, W) in [-1, 1] in which two cascades agree."""
    found = faces(photo)
    # The second draws its boxes somewhat smaller.
    others = faces(photo, SECOND, SECOND_NEIGHBORS, SMALLEST_FACE // 2) if found else []
    return [face for face in found if refound([face], others)]


def overlap(first: Box, second: Box) -> float:
    """The intersection of two boxes over their union."""
    sides = [
        max(0, min(a + c, b + d) - max(a, b))
        for a, b, c, d in zip(first[:2], second[:2], first[2:], second[2:], strict=True)
    ]
    both = sides[0] * sides[1]
    return both / (first[2] * first[3] + second[2] * second[3] - both)


def refound(wanted: Sequence[Box], found: Sequence[Box]) -> int:
    """How many of the wanted faces are among those found."""
    return sum(any(overlap(face, other) >= OVERLAP for other in found) for face in wanted)


def at_size(path: Path, size: int) -> torch.Tensor:
    """A photo with a longer side of at most ``size`` pixels, as the command line shrinks it."""
    return images.to_tensor(images.flatten(images.resize(images.load(path), size)).rgb)


def whole(picture: torch.Tensor) -> torch.Tensor:
    """A picture with a shorter side of 256 px."""
    height, width = picture.shape[-2:]
    scale = SEEN / min(height, width)
    size = (round(scale * height), round(scale * width))
    return F.interpolate(picture, size, mode="bicubic", antialias=True, align_corners=False).clamp(
        -1, 1
    )


def middle(picture: torch.Tensor) -> torch.Tensor:
    """The middle 256 px of a picture."""
    top, left = (max(0, side - SEEN) // 2 for side in picture.shape[-2:])
    return picture[..., top : top + SEEN, left : left + SEEN]


def paint(
    photos: Sequence[Path], style: str, size: int, brush: str, checkpoint: str, folder: Path
) -> list[Path]:
    """Paints photos by the command line into a folder; the results in the photos' order.

    Raises:
        RuntimeError: one could not be painted; the reason is on stderr.
    """
    own = [] if brush == DEFAULT else ["--brush-size", brush]
    code = stylize.main(
        [
            *map(str, photos),
            *("--style", style, "--checkpoint", checkpoint, "--max-size", str(size)),
            *("--out", str(folder), "--format", "png", "--overwrite", *own),
        ]
    )
    results = [folder / f"{path.stem}.png" for path in photos]
    if code or not all(path.is_file() for path in results):
        raise RuntimeError(f"not all photos could be painted in {style} at {size} px")
    return results


def measured(
    shown: Sequence[Shown], painted: Sequence[Path], style: str, judge: models.StyleClassifier
) -> dict:
    """What is measured of a style's paintings of photos."""
    label = judge.classes.index(CLASSES.get(style, style))
    seen_whole, seen_near, regular, kept = [], [], [], 0
    for photo, path in zip(shown, painted, strict=True):
        picture = images.to_tensor(images.flatten(images.load(path)).rgb)
        for rows, view in ((seen_whole, whole(picture)), (seen_near, middle(picture))):
            rows.append(int(judge.judge(view).probabilities.argmax()) == label)
        # A picture may be read smaller already, and then come out a pixel larger.
        plain = F.interpolate(photo.plain, picture.shape[-2:])
        regular.append(regularity(picture, plain))
        kept += refound(photo.faces, faces(picture)) if photo.faces else 0
    known = [value for value in regular if value is not None]
    return {
        "whole": statistics.fmean(seen_whole),
        "crop": statistics.fmean(seen_near),
        "faces_in_photos": sum(len(photo.faces) for photo in shown),
        "faces_kept": kept,
        "regularity": statistics.fmean(known) if known else None,
    }


def mean_of(rows: Sequence[dict]) -> dict:
    """All styles together: means, and the faces of all."""
    known = [row["regularity"] for row in rows if row["regularity"] is not None]
    return {
        "whole": statistics.fmean(row["whole"] for row in rows),
        "crop": statistics.fmean(row["crop"] for row in rows),
        "faces_in_photos": sum(row["faces_in_photos"] for row in rows),
        "faces_kept": sum(row["faces_kept"] for row in rows),
        "regularity": statistics.fmean(known) if known else None,
    }


def print_tables(report: dict) -> None:
    """A table a size, a block a stroke size."""
    print(f"{report['photos']} photos")
    for size, brushes in report["sizes"].items():
        for brush, rows in brushes.items():
            print(f"\n{size} px, brush size {brush}\n{'style':12} whole  crop  faces  regularity")
            for style, row in rows.items():
                wanted, regular = row["faces_in_photos"], row["regularity"]
                kept = f"{row['faces_kept'] / wanted:5.2f}" if wanted else "    -"
                regular = "         -" if regular is None else f"{regular:10.1f}"
                print(f"{style:12} {row['whole']:5.2f}  {row['crop']:4.2f}  {kept}  {regular}")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--checkpoint", default=str(CHECKPOINT))
    add("--photos", type=Path, default=SHARED / "photos" / "test")
    add("--limit", type=int, default=16, help="photos of each folder in there (16)")
    add("--sizes", type=int, nargs="+", default=SIZES, help="of the longer side, pixels")
    add("--brush-sizes", nargs="+", default=(DEFAULT,), help="default, or numbers")
    add("--styles", nargs="+", help="(all that are built in)")
    add("--classifier", default=str(CLASSIFIER), help="a style classifier's file")
    add("--out", type=Path, help="JSON file")
    arguments = parser.parse_args(argv)
    try:
        judge, _ = models.load_classifier(arguments.classifier)
        built_in = list(models.load_checkpoint(arguments.checkpoint).styles)
        found = images.list_pictures(arguments.photos, recursive=True)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    styles = [s for s in arguments.styles or built_in if CLASSES.get(s, s) in judge.classes]
    folders: dict[Path, list[Path]] = {}
    for path in found:
        folders.setdefault(path.parent, []).append(path)
    photos = [own[i] for own in folders.values() for i in spread(arguments.limit, len(own))]
    if not photos or not styles:
        missing = f"{arguments.photos}: no photos" if not photos else "no style is one of a class"
        print(f"error: {missing}", file=sys.stderr)
        return 2
    report: dict = {
        "checkpoint": Path(arguments.checkpoint).name,
        "photos": len(photos),
        "sizes": {},
    }
    steps = len(arguments.sizes) * len(arguments.brush_sizes) * len(styles)
    with tempfile.TemporaryDirectory() as folder, tqdm(total=steps, unit="style") as bar:
        for size in arguments.sizes:
            shown = []
            for path in photos:
                picture = at_size(path, size)
                shown.append(
                    Shown(path, picture, agreed_faces(picture), strokes.plainness(picture))
                )
            brushes: dict = report["sizes"].setdefault(str(size), {})
            for brush in arguments.brush_sizes:
                rows = {}
                for style in styles:
                    painted = paint(photos, style, size, brush, arguments.checkpoint, Path(folder))
                    rows[style] = measured(shown, painted, style, judge)
                    bar.update()
                brushes[brush] = rows | {"all": mean_of(list(rows.values()))}
                written(report, arguments.out)  # a long run may be cut off
    print_tables(report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
