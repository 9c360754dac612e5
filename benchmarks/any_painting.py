"""How well a painting that is not built in is painted after: one random test painting a class.

Every photo is painted after a random test painting of each class, as `--style PAINTING` would, and
judges say what they take the result for (`benchmarks.gallery`): how often for the painting's class,
and how often that is among their first three. Two are linear over all classes, one on pooled
features (what a picture shows) and one on their moments (how it is made); one is the committed
classifier over twenty classes, which knows no "various". By group: the four painters with built-in
styles, the classes that training has seen, and those it never did. The committed classifier over
five classes is asked about the four. Prints its table and writes JSON.

python -m benchmarks.any_painting --checkpoint FILE --judge /tmp/judge.safetensors
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from tqdm import tqdm

import models
from app.choosing import spread
from app.shipped import CHECKPOINT, CLASSIFIER, GALLERY_CLASSIFIER
from benchmarks.gallery import (
    BACKBONE,
    FEATURES,
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
    shares,
)
from benchmarks.reports import written
from models.judge import LinearJudge
from models.measures import edge_correlation

JUDGES = (*FEATURES, "classifier")


def group_of(name: str) -> str:
    """Which group of the table a class belongs to."""
    if name in PAINTERS:
        return "the four"
    return "kept out" if name in KEPT_OUT else "known"


class Jury:
    """Judges of a picture that know all classes, each by its name in the table.

    Args:
        linear: the judges that :func:`benchmarks.gallery.fitted_judge` fits, by kind of features.
        classifier: over all classes, of app.train_classifier.
    """

    def __init__(
        self, linear: Mapping[str, LinearJudge], classifier: models.StyleClassifier
    ) -> None:
        self.linear, self.classifier = dict(linear), classifier
        self.features = {kind: FEATURES[kind](BACKBONE) for kind in linear}

    def ranks(self, picture: torch.Tensor, name: str) -> dict[str, int]:
        """How many classes each judge has before a picture's own; of those it knows."""
        ranks = {}
        for kind, judge in self.linear.items():
            ranks[kind] = rank(judge(self.features[kind](picture)), judge.classes.index(name))
        if name in self.classifier.classes:
            scores = self.classifier.judge(picture).probabilities.view(1, -1)
            ranks["classifier"] = rank(scores, self.classifier.classes.index(name))
        return ranks

    def real(self, tests: Mapping[str, Pictures]) -> dict[str, dict[str, float]]:
        """What the judges say of real test pictures, class by class."""
        found = {}
        for name, pictures in tests.items():
            ranks = [self.ranks(pictures[i], name) for i in range(len(pictures))]
            found[name] = verdicts(ranks)
        return found


def verdicts(ranks: Sequence[Mapping[str, int]]) -> dict[str, float]:
    """JUDGE top1 and JUDGE top3 of some pictures of a class."""
    row = {}
    for judge in ranks[0]:
        for top, share in shares([each[judge] for each in ranks]).items():
            row[f"{judge} {top}"] = share
    return row


def mean_top1(real: Mapping[str, Mapping[str, float]], judge: str) -> float:
    """How often a judge is right on real pictures, a mean over the classes that it knows."""
    known = [row[f"{judge} top1"] for row in real.values() if f"{judge} top1" in row]
    return sum(known) / len(known)


@torch.no_grad()
def painted_after(
    network: models.Repainter,
    photos: Sequence[torch.Tensor],
    tests: dict[str, Pictures],
    jury: Jury,
    classifier: models.StyleClassifier | None,
    seed: int,
) -> dict[str, dict[str, float]]:
    """What the judges say of photos painted after one random test painting a photo, class by class.

    Returns:
        class -> JUDGE top1, JUDGE top3, edges (their correlation with the photo's), and five (the
        classifier's share) where it knows the class.
    """
    draw = random.Random(seed)
    names = [name for name in tests if name not in (PHOTO, MIXED)]
    rows = {}
    with tqdm(total=len(names) * len(photos), unit="picture", mininterval=5) as bar:
        for name in names:
            paintings = tests[name]
            ranks, edges, right = [], [], []
            for photo in photos:
                code = network.encode_style(paintings[draw.randrange(len(paintings))])
                picture = network.repaint(photo, code)
                ranks.append(jury.ranks(picture, name))
                edges.append(float(edge_correlation(photo, picture)))
                if classifier is not None and name in classifier.classes:
                    verdict = classifier.judge(picture).probabilities
                    right.append(classifier.classes[int(verdict.argmax())] == name)
                bar.update()
            rows[name] = verdicts(ranks) | {"edges": sum(edges) / len(edges)}
            if right:
                rows[name]["five"] = sum(right) / len(right)
    return rows


def print_table(report: dict) -> None:
    """The table on standard output: groups, and below each its classes."""
    print(f"{report['photos']} photos; linear judges on {BACKBONE}; top 1, top 3 of each judge")
    heads = "".join(f"{judge:>12}" for judge in JUDGES)
    print(f"\n{'painted after':16}{heads}   edges  five   real:{heads[5:]}")

    def pairs(row: dict) -> str:
        cells = []
        for judge in JUDGES:
            known = f"{judge} top1" in row
            cells.append(
                f"{row[f'{judge} top1']:7.2f}{row[f'{judge} top3']:5.2f}" if known else " " * 12
            )
        return "".join(cells)

    for group, row in report["groups"].items():
        own = {n: r for n, r in report["classes"].items() if group_of(n) == group}
        for name, numbers in [(group.upper(), row), *own.items()]:
            real = report["real"].get(name, report["real_groups"].get(group))
            five = f"{numbers['five']:6.2f}" if "five" in numbers else " " * 6
            print(f"{name:16}{pairs(numbers)}{numbers['edges']:8.2f}{five}   {pairs(real)}")
    known = ", ".join(f"{judge} {report['real_mean'][judge]:.2f}" for judge in JUDGES)
    print(f"\nreal test pictures, top 1, a mean over all classes that a judge knows: {known}")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--checkpoint", default=str(CHECKPOINT))
    parser.add_argument("--artworks", type=Path, default=SHARED / "artworks")
    parser.add_argument("--gallery", type=Path, default=SHARED / "gallery")
    parser.add_argument("--limit", type=int, default=40, help="test photos (40)")
    parser.add_argument("--judge", type=Path, help="file that keeps the linear judge")
    parser.add_argument("--classifier", default=str(CLASSIFIER), help="a style classifier's file")
    parser.add_argument("--over-all", default=str(GALLERY_CLASSIFIER), help="one over all classes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="JSON file")
    arguments = parser.parse_args(argv)
    try:
        network = models.load_checkpoint(arguments.checkpoint).network
        classifier, _ = models.load_classifier(arguments.classifier)
        over_all, _ = models.load_classifier(arguments.over_all)
        folders = class_folders(arguments.artworks, arguments.gallery, "test")
        linear = {
            kind: fitted_judge(arguments.artworks, arguments.gallery, arguments.judge, kind=kind)
            for kind in FEATURES
        }
    except (ValueError, FileNotFoundError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    jury = Jury(linear, over_all)
    tests = {n: Pictures(f, n) for n, f in folders.items() if n in linear["pooled"].classes}
    photos = tests[PHOTO]
    chosen = [photos[i] for i in spread(arguments.limit, len(photos))]
    rows = painted_after(network, chosen, tests, jury, classifier, arguments.seed)
    real = jury.real(tests)
    groups = dict.fromkeys(map(group_of, rows))
    grouped = {g: mean([r for n, r in rows.items() if group_of(n) == g]) for g in groups}
    report = {
        "checkpoint": Path(arguments.checkpoint).name,
        "photos": len(chosen),
        "groups": grouped,
        "classes": rows,
        "real": real,
        "real_groups": {g: mean([real[n] for n in rows if group_of(n) == g]) for g in groups},
        "real_mean": {judge: mean_top1(real, judge) for judge in JUDGES},
    }
    print_table(report)
    written(report, arguments.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
