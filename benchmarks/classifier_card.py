"""What the judge of style makes of held-out pictures, and whether it judges style alone.

Accuracy and confusion on test pictures; the same pictures after JPEG, shrunk and mirrored; photos
with nothing of a painting but its colors. Prints the tables, writes JSON and the card.

python -m benchmarks.classifier_card --classifier checkpoints/style_classifier.safetensors
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path

from torch import Tensor
from tqdm import tqdm

import models
from app import augment, shipped
from app.choosing import spread
from app.classes import class_folders, split_folder
from app.dataset import PictureFolder
from app.train_classifier import accuracies, confusion
from app.views import PHOTO

ROOT = Path(__file__).resolve().parents[1]
QUALITY, SCALE = 50, 0.6
CHANGES: dict[str, Callable[[Tensor], Tensor]] = {
    f"JPEG at quality {QUALITY}": lambda picture: augment.compressed(picture, QUALITY),
    f"scaled to {SCALE:.0%}": lambda picture: augment.scaled(picture, SCALE),
    "mirrored": lambda picture: picture.flip(-1),
}


def called(classifier: models.StyleClassifier, picture: Tensor) -> str:
    """The class that a picture is given to."""
    return classifier.classes[int(classifier.judge(picture).probabilities.argmax())]


def kept(
    classifier: models.StyleClassifier, paintings: Mapping[str, PictureFolder], limit: int
) -> dict[str, float]:
    """Change -> share of paintings that are given to the same class after it as before."""
    same = dict.fromkeys(CHANGES, 0)
    pictures = [
        folder.tensor(index)
        for folder in paintings.values()
        for index in spread(limit, len(folder))
    ]
    for picture in tqdm(pictures, desc="changed paintings", unit="picture", leave=False):
        before = called(classifier, picture)
        for name, change in CHANGES.items():
            same[name] += called(classifier, change(picture)) == before
    return {name: count / len(pictures) for name, count in same.items()}


def recolored(
    classifier: models.StyleClassifier,
    photos: PictureFolder,
    paintings: Mapping[str, PictureFolder],
    limit: int,
    seed: int,
) -> dict[str, float]:
    """Style -> share of photos called so with the Lab mean and deviation of a painting of it."""
    draw = random.Random(seed)
    shares = {}
    for name, folder in paintings.items():
        hits = 0
        chosen = spread(limit, len(photos))
        for index in tqdm(chosen, desc=f"photos like {name}", unit="photo", leave=False):
            palette = folder.tensor(draw.randrange(len(folder)))
            shifted = augment.recolored(photos.tensor(index), palette)
            hits += called(classifier, shifted) == name
        shares[name] = hits / len(chosen)
    return shares


def measure(classifier: models.StyleClassifier, artworks: Path, limit: int, seed: int) -> dict:
    """All figures of the card.

    Args:
        limit: photos and paintings a class for the changed pictures; the confusion has all.
    """
    tests = class_folders(split_folder(artworks, "test"))
    table = confusion(classifier, tests)
    sizes = {name: len(folder) for name, folder in tests.items()}
    paintings = {name: folder for name, folder in tests.items() if name != PHOTO}
    return {
        "pictures": sizes,
        "confusion": table,
        "accuracy": accuracies(table, sizes),
        "kept": kept(classifier, paintings, limit),
        "recolored": recolored(classifier, tests[PHOTO], paintings, limit, seed),
        "changed_pictures_a_class": limit,
        "seed": seed,
    }


def markdown(name: str, record: Mapping, figures: Mapping) -> str:
    """The card."""
    accuracy, sizes = figures["accuracy"], figures["pictures"]
    classes = list(sizes)
    settings = record["settings"]
    last = record["epochs"][-1]
    lines = [
        f"# {name}",
        "",
        "The judge of style that `python -m app.evaluate` uses: it says which class a picture "
        "belongs to. A picture and its mirror image are brought to the backbone's scale and "
        "covered by squares, one for a square picture and two for 3:2, whose probabilities are "
        "averaged.",
        "",
        "## How it was made",
        "",
        "`python -m app.train_classifier`; the settings, as they stand in the file's header:",
        "",
        "| | |",
        "| --- | --- |",
        *(f"| {key} | {value} |" for key, value in settings.items()),
        f"| training | {record['training']} |",
        f"| pictures trained on | {_counts(record['trained_on'])} |",
        f"| held back, to choose by | {_counts(record['held_back'])} |",
        f"| minutes | {record['minutes']} on {record['machine']}, torch {record['torch']} |",
        "",
        "| epoch | loss | accuracy | rate | root | condition number |",
        "| --- | --- | --- | --- | --- | --- |",
        *(
            f"| {i} | {epoch['loss']:.3f} | {epoch['accuracy']:.3f} | {epoch['rate']} | "
            f"{epoch['solver']} | {_condition(epoch['condition_number'])} |"
            for i, epoch in enumerate(record["epochs"], 1)
        ),
        "",
        "Loss and accuracy are those of the training views; the condition number is the geometric "
        "mean of the worst covariance of a batch.",
    ]
    if last["held_back"]:
        shares = ", ".join(f"{key} {share:.3f}" for key, share in last["held_back"].items())
        lines += ["", f"On the training pictures that were held back: {shares}."]
    lines += [
        "",
        "## How good it is",
        "",
        f"On test pictures, none of which was trained on: **{accuracy['all pictures']:.1%}** are "
        f"right, {accuracy['mean']:.1%} on the mean of the classes.",
        "",
        f"| real class | pictures | {' | '.join(f'called {c}' for c in classes)} |",
        f"| --- | --- |{' --- |' * len(classes)}",
        *(
            f"| {c} | {sizes[c]} | "
            + " | ".join(f"{figures['confusion'][c][other]:.3f}" for other in classes)
            + " |"
            for c in classes
        ),
        "",
        f"Judge or mirror ({figures['changed_pictures_a_class']} pictures a class at most):",
        "",
        "| what was done | share |",
        "| --- | --- |",
        *(
            f"| painting {change}: keeps its class | {share:.3f} |"
            for change, share in figures["kept"].items()
        ),
        *(
            f"| photo with the Lab mean and deviation of a painting of {style}: called {style} | "
            f"{share:.3f} |"
            for style, share in figures["recolored"].items()
        ),
        "",
    ]
    return "\n".join(lines)


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def _condition(value: float | None) -> str:
    return "" if value is None else f"{value:.1e}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--classifier", type=Path, default=shipped.CLASSIFIER)
    add("--artworks", type=Path, default=ROOT.parent / "shared" / "artworks")
    add("--limit", type=int, default=70, help="changed pictures a class")
    add("--seed", type=int, default=0)
    add("--out", type=Path, help="JSON file")
    add("--card", type=Path, help="Markdown file")
    arguments = parser.parse_args()
    classifier, record = models.load_classifier(arguments.classifier)
    figures = measure(classifier, arguments.artworks, arguments.limit, arguments.seed)
    card = markdown(arguments.classifier.name, record, figures)
    print(card)
    for path, text in ((arguments.out, json.dumps(figures, indent=1)), (arguments.card, card)):
        if path:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
