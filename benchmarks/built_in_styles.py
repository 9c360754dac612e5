"""What a linear judge of all classes takes the built-in styles for, of photos painted in them.

Photos of the train split, since codes are chosen by them, or of the test split; the judge is that
of `benchmarks.any_painting`. Prints a line a style: how often the style is its first choice, how
often among its first three, and the correlation of edges with the photo's.

python -m benchmarks.built_in_styles --limit 12
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

import models
from app.choosing import spread
from app.shipped import CHECKPOINT
from benchmarks.gallery import (
    BACKBONE,
    PHOTO,
    SHARED,
    Pictures,
    class_folders,
    fitted_judge,
    mean,
    rank,
    shares,
)
from models.judge import PooledFeatures
from models.measures import edge_correlation

CLASSES = {"hokusai": "japan_landscape", "tarot": "tarot_pcs"}  # of styles called otherwise


@torch.no_grad()
def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--checkpoint", default=str(CHECKPOINT))
    parser.add_argument("--artworks", type=Path, default=SHARED / "artworks")
    parser.add_argument("--gallery", type=Path, default=SHARED / "gallery")
    parser.add_argument("--split", choices=("train", "test"), default="train")
    parser.add_argument("--limit", type=int, default=12, help="photos (12)")
    parser.add_argument("--judge", type=Path, help="file that keeps the linear judge")
    arguments = parser.parse_args(argv)
    try:
        checkpoint = models.load_checkpoint(arguments.checkpoint)
        folders = class_folders(arguments.artworks, arguments.gallery, arguments.split)
        judge = fitted_judge(arguments.artworks, arguments.gallery, arguments.judge)
    except (ValueError, FileNotFoundError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    features, pictures = PooledFeatures(BACKBONE), Pictures(folders[PHOTO], PHOTO)
    photos = [pictures[i] for i in spread(arguments.limit, len(pictures))]
    rows = {}
    for style, (code, *_) in checkpoint.styles.items():
        name = CLASSES.get(style, style)
        if name not in judge.classes:
            continue
        painted = [checkpoint.network.repaint(photo, code) for photo in photos]
        label = judge.classes.index(name)
        edges = [float(edge_correlation(a, b)) for a, b in zip(photos, painted, strict=True)]
        rows[style] = shares([rank(judge(features(x)), label) for x in painted]) | {
            "edges": sum(edges) / len(edges)
        }
    print(f"{len(photos)} {arguments.split} photos, linear judge on pooled {BACKBONE} features")
    print(f"{'style':12} top 1  top 3  edges")
    for style, row in (rows | {"all": mean(list(rows.values()))}).items():
        print(f"{style:12} {row['top1']:5.2f}  {row['top3']:5.2f}  {row['edges']:5.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
