"""The pictures of both collections by class, and the judge that knows all classes.

The classes are the folders of `artworks` and `gallery`, whatever is called photo_... together with
the photos. Paintings of KEPT_OUT are never trained on, by anything but this judge.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn
from tqdm import tqdm

from app.choosing import spread
from app.dataset import PictureFolder
from models.judge import LinearJudge, MomentFeatures, PooledFeatures

SHARED = Path(__file__).resolve().parents[2] / "shared"
BACKBONE = "efficientnet-lite2"  # that no training here has seen
PAINTERS = ("cezanne", "monet", "ukiyoe", "vangogh")
KEPT_OUT = ("pissarro", "titian", "vedute")
MIXED = "various"  # many painters: a class to be taken for, none to paint in
PHOTO = "photo"
# What a linear judge may look at: what a picture shows, and how it is made.
FEATURES: Mapping[str, Callable[[str], nn.Module]] = {
    "pooled": PooledFeatures,
    "moments": MomentFeatures,
}
JUDGED = 250  # pictures a class that the judge is fitted to, each also mirrored


def class_folders(artworks: Path, gallery: Path, split: str) -> dict[str, list[Path]]:
    """The folders of every class that has some, sorted by name.

    Args:
        split: train or test.

    Raises:
        FileNotFoundError: not one class in there.
    """
    folders: dict[str, list[Path]] = {}
    for collection in (artworks, gallery):
        found = sorted((collection / split).iterdir()) if (collection / split).is_dir() else []
        for folder in found:
            if folder.is_dir():
                name = PHOTO if folder.name.startswith(PHOTO) else folder.name
                folders.setdefault(name, []).append(folder)
    if not folders:
        raise FileNotFoundError(f"{artworks}, {gallery}: no folders of pictures in {split}")
    return dict(sorted(folders.items()))


class Pictures:
    """The pictures of several folders as one sequence of tensors (1, 3, H, W) in [-1, 1].

    The folders take turns, so that the first pictures are of all of them.
    """

    def __init__(self, folders: Sequence[Path], name: str = "") -> None:
        read = [PictureFolder(folder, name=name) for folder in folders]
        longest = max(len(folder) for folder in read)
        self._places = [(f, i) for i in range(longest) for f in read if i < len(f)]

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index: int) -> Tensor:
        folder, own = self._places[index]
        return folder.tensor(own)


def fitted_judge(
    artworks: Path,
    gallery: Path,
    file: Path | None = None,
    count: int = JUDGED,
    kind: str = "pooled",
) -> LinearJudge:
    """A linear judge of all classes of the training split, on features of BACKBONE.

    Args:
        file: keeps the judge for the next time; one of moments beside it, under a longer name.
        count: pictures a class, evenly spread.
        kind: of the features, one of FEATURES.
    """
    if file is not None and kind != "pooled":
        file = file.with_stem(f"{file.stem}-{kind}")
    if file is not None and file.is_file():
        return LinearJudge.load(file)
    classes = {n: Pictures(f, n) for n, f in class_folders(artworks, gallery, "train").items()}
    features = FEATURES[kind](BACKBONE)
    rows, labels = [], []
    total = sum(min(count, len(pictures)) for pictures in classes.values())
    with tqdm(total=total, desc="fitting the judge", unit="picture", mininterval=5) as bar:
        for label, pictures in enumerate(classes.values()):
            for index in spread(count, len(pictures)):
                picture = pictures[index]
                rows += [features(picture), features(picture.flip(-1))]
                labels += [label, label]
                bar.update()
    found = torch.cat(rows)
    judge = LinearJudge(tuple(classes), found.shape[1]).fit(found, torch.tensor(labels))
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        judge.save(file)
    return judge


def rank(scores: Tensor, label: int) -> int:
    """How many classes have a higher score than one, of scores (1, classes)."""
    return int((scores[0] > scores[0, label]).sum())


def shares(ranks: Sequence[int]) -> dict[str, float]:
    """The shares of ranks that are the first, and among the first three."""
    return {
        "top1": sum(r == 0 for r in ranks) / len(ranks),
        "top3": sum(r < 3 for r in ranks) / len(ranks),
    }


def mean(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each number of some rows."""
    return {key: sum(row[key] for row in rows) / len(rows) for key in rows[0]} if rows else {}
