"""How well a painting that is not built in is painted after: one random test painting a class.

Every photo is painted after a random test painting of each class, as `--style PAINTING` would, and
a linear judge over all classes says what it takes the result for (`benchmarks.gallery`): how often
for the painting's class, and how often that is among its first three. By group: the four painters
with built-in styles, the classes that training has seen, and those it never did. The committed
classifier, which knows the four, is asked about theirs, too. Prints its table and writes JSON.

python -m benchmarks.any_painting --checkpoint FILE --judge /tmp/judge.safetensors
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from tqdm import tqdm

import models
from app.choosing import spread
from app.shipped import CHECKPOINT, CLASSIFIER
from benchmarks.gallery import (
    BACKBONE,
    KEPT_OUT,
    MIXED,
    PAINTERS,
    PHOTO,
    SHARED,
    Pictures,
    class_folders,
    fitted_judge,
    mean,
    rank,
    real_accuracy,
    shares,
)
from benchmarks.reports import written
from models.judge import LinearJudge, PooledFeatures
from models.measures import edge_correlation


def group_of(name: str) -> str:
    """Which group of the table a class belongs to."""
    if name in PAINTERS:
        return "the four"
    return "kept out" if name in KEPT_OUT else "known"


@torch.no_grad()
def painted_after(
    network: models.Repainter,
    photos: Sequence[torch.Tensor],
    tests: dict[str, Pictures],
    judge: LinearJudge,
    features: PooledFeatures,
    classifier: models.StyleClassifier | None,
    seed: int,
) -> dict[str, dict[str, float]]:
    """What the judges say of photos painted after one random test painting a photo, class by class.

    Returns:
        class -> top1, top3, photo (the share that the judge takes for a photo), edges (their
        correlation with the photo's), and classifier (its share) where it knows the class.
    """
    draw = random.Random(seed)
    names = [name for name in tests if name not in (PHOTO, MIXED)]
    rows = {}
    with tqdm(total=len(names) * len(photos), unit="picture", mininterval=5) as bar:
        for name in names:
            label, paintings = judge.classes.index(name), tests[name]
            ranks, called, edges, right = [], [], [], []
            for photo in photos:
                code = network.encode_style(paintings[draw.randrange(len(paintings))])
                picture = network.repaint(photo, code)
                scores = judge(features(picture))
                ranks.append(rank(scores, label))
                called.append(judge.classes[int(scores.argmax())])
                edges.append(float(edge_correlation(photo, picture)))
                if classifier is not None and name in classifier.classes:
                    verdict = classifier.judge(picture).probabilities
                    right.append(classifier.classes[int(verdict.argmax())] == name)
                bar.update()
            rows[name] = shares(ranks) | {
                "photo": called.count(PHOTO) / len(called),
                "edges": sum(edges) / len(edges),
            }
            if right:
                rows[name]["classifier"] = sum(right) / len(right)
    return rows


def print_table(report: dict) -> None:
    """The table on standard output: groups, and below each its classes."""
    print(f"{report['photos']} photos, linear judge on pooled {BACKBONE} features")
    print(f"\n{'painted after':18} top 1  top 3  photo  edges  classifier   real: top 1  top 3")
    for group, row in report["groups"].items():
        own = {n: r for n, r in report["classes"].items() if group_of(n) == group}
        for name, numbers in [(group.upper(), row), *own.items()]:
            real = report["real"].get(name, report["real_groups"].get(group))
            known = f"{numbers['classifier']:10.2f}" if "classifier" in numbers else " " * 10
            print(
                f"{name:18} {numbers['top1']:5.2f}  {numbers['top3']:5.2f}  {numbers['photo']:5.2f}"
                f"  {numbers['edges']:5.2f}  {known}   {real['top1']:11.2f}  {real['top3']:5.2f}"
            )


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--checkpoint", default=str(CHECKPOINT))
    parser.add_argument("--artworks", type=Path, default=SHARED / "artworks")
    parser.add_argument("--gallery", type=Path, default=SHARED / "gallery")
    parser.add_argument("--limit", type=int, default=40, help="test photos (40)")
    parser.add_argument("--judge", type=Path, help="file that keeps the linear judge")
    parser.add_argument("--classifier", default=str(CLASSIFIER), help="a style classifier's file")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="JSON file")
    arguments = parser.parse_args(argv)
    try:
        network = models.load_checkpoint(arguments.checkpoint).network
        classifier, _ = models.load_classifier(arguments.classifier)
        folders = class_folders(arguments.artworks, arguments.gallery, "test")
        judge = fitted_judge(arguments.artworks, arguments.gallery, arguments.judge)
    except (ValueError, FileNotFoundError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    tests = {n: Pictures(f, n) for n, f in folders.items() if n in judge.classes}
    features = PooledFeatures(BACKBONE)
    photos = tests[PHOTO]
    chosen = [photos[i] for i in spread(arguments.limit, len(photos))]
    rows = painted_after(network, chosen, tests, judge, features, classifier, arguments.seed)
    real = real_accuracy(judge, features, tests)
    groups = dict.fromkeys(map(group_of, rows))
    grouped = {g: mean([r for n, r in rows.items() if group_of(n) == g]) for g in groups}
    report = {
        "checkpoint": Path(arguments.checkpoint).name,
        "photos": len(chosen),
        "groups": grouped,
        "classes": rows,
        "real": real,
        "real_groups": {g: mean([real[n] for n in rows if group_of(n) == g]) for g in groups},
        "real_mean": mean(list(real.values())),
    }
    print_table(report)
    written(report, arguments.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
