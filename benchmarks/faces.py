"""Whether faces stay faces: how many OpenCV's cascade finds again in paintings of people.

Paints photos of people by the command line, 1,024 px by default, and counts, of the faces of
80 px and more in which two cascades agree in the photo (`benchmarks.sizes`), those that the
first finds in the painting. The test photos hold few such faces. So the training photos are
painted too, in rows of their own: the network has seen these, but nothing ever told it of faces.

Prints its table and writes JSON.

python -m benchmarks.faces
python -m benchmarks.faces --size 512 --styles monet vangogh
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tqdm import tqdm

import models
from app import images
from app.shipped import CHECKPOINT
from benchmarks import sizes
from benchmarks.gallery import SHARED
from benchmarks.reports import written
from benchmarks.sizes import Box

FOLDERS = ("photos/{}/people", "gallery/{}/photo_people")
SPLITS = ("test", "train")


def with_faces(folders: list[Path], size: int) -> dict[Path, list[Box]]:
    """The photos of folders that show faces at a longer side of ``size`` pixels, and which.

    Of photos of one name the first is taken: the gallery has some of the large photos, small.

    Raises:
        ValueError: a folder holds no pictures, or one of them cannot be read.
    """
    photos: dict[str, Path] = {}
    for folder in folders:
        for path in images.list_pictures(folder):
            photos.setdefault(path.name, path)
    found = {path: sizes.agreed_faces(sizes.at_size(path, size)) for path in photos.values()}
    return {path: faces for path, faces in found.items() if faces}


def refound(photos: dict[Path, list[Box]], painted: list[Path]) -> int:
    """How many of the photos' faces are found in their paintings."""
    return sum(
        sizes.refound(faces, sizes.faces(images.to_tensor(images.flatten(images.load(path)).rgb)))
        for faces, path in zip(photos.values(), painted, strict=True)
    )


def print_table(report: dict) -> None:
    """A row a style: the share of faces, of test and of training photos."""
    splits = report["faces"]
    heads = "".join(f"{split + ' (' + str(count) + ')':>12}" for split, count in splits.items())
    print(f"{report['size']} px, brush size {report['brush']}\n{'style':12}{heads}")
    rows = list(report["styles"].values())
    everywhere = {split: sum(row[split] for row in rows) / len(rows) for split in splits}
    for style, row in (report["styles"] | {"all": everywhere}).items():
        print(f"{style:12}" + "".join(f"{row[split] / splits[split]:12.2f}" for split in splits))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--checkpoint", default=str(CHECKPOINT))
    add("--data", type=Path, default=SHARED, help="holds photos/ and gallery/")
    add("--splits", nargs="+", choices=SPLITS, default=SPLITS)
    add("--size", type=int, default=1024, help="of the longer side, pixels (1024)")
    add("--brush-size", default=sizes.DEFAULT, help="default, or a number")
    add("--styles", nargs="+", help="(all that are built in)")
    add("--out", type=Path, help="JSON file")
    arguments = parser.parse_args(argv)
    try:
        styles = arguments.styles or list(models.load_checkpoint(arguments.checkpoint).styles)
        photos = {}
        for split in arguments.splits:
            folders = [arguments.data / folder.format(split) for folder in FOLDERS]
            if shown := with_faces(folders, arguments.size):
                photos[split] = shown
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if not photos:
        print(f"error: {arguments.data}: no face of 80 px and more", file=sys.stderr)
        return 2
    report: dict = {
        "checkpoint": Path(arguments.checkpoint).name,
        "size": arguments.size,
        "brush": arguments.brush_size,
        "faces": {split: sum(map(len, shown.values())) for split, shown in photos.items()},
        "styles": {},
    }
    with tempfile.TemporaryDirectory() as folder:
        for style in tqdm(styles, unit="style"):
            report["styles"][style] = {
                split: refound(
                    shown,
                    sizes.paint(
                        list(shown),
                        *(style, arguments.size, arguments.brush_size),
                        *(arguments.checkpoint, Path(folder) / split),
                    ),
                )
                for split, shown in photos.items()
            }
            written(report, arguments.out)  # a long run may be cut off
    print_table(report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
