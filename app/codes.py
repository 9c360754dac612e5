"""Choose a style's built-in codes: the paintings that repaint photos most in their style.

python -m app.codes --checkpoint FILE --photos FOLDER --style NAME=FOLDER ... [--out FILE]

Which painting is the reference matters as much as training, so references are tried, not
averaged: many candidates on a few photos, the best of them on more. A linear judge on pooled
EfficientNet-Lite0 features, fitted to the same training folders, says how well a result passes for
its style. Only training pictures are looked at.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from tqdm import tqdm

import models
from app.dataset import FolderError, PictureFolder
from app.painter import available_device
from models.judge import LinearJudge, PooledFeatures

JUDGED_PICTURES = 300  # pictures a class that the judge is fitted to, each also mirrored
CANDIDATES, SCREEN_PHOTOS = 32, 6
FINALISTS, FINAL_PHOTOS = 4, 20
KEPT = 4
SPREAD = 12  # paintings a style among which its medoids are looked for
PHOTO_SIDE = 256  # pixels


@dataclass(frozen=True)
class Choice:
    """One style's codes, best first, with what was measured on training photos.

    accuracy: share of the final photos that the judge gave to the style, a code.
    """

    codes: list[models.StyleCode]
    accuracy: list[float]


def spread(count: int, length: int) -> list[int]:
    """Up to ``count`` indices spread evenly over ``range(length)``."""
    count = min(count, length)
    return [i * length // count for i in range(count)]


def medoids(rows: Tensor, count: int) -> list[int]:
    """Indices of the rows (N, D) that stand for all: each next one lowers the sum of distances
    to the nearest chosen row the most."""
    scale = rows.std(0).clamp_min(1e-6) if len(rows) > 1 else torch.ones(rows.shape[1])
    distances = torch.cdist(rows / scale, rows / scale)
    nearest = torch.full((len(rows),), math.inf)
    chosen: list[int] = []
    for _ in range(min(count, len(rows))):
        sums = torch.minimum(nearest, distances).sum(1)
        sums[chosen] = math.inf
        chosen.append(int(sums.argmin()))
        nearest = torch.minimum(nearest, distances[chosen[-1]])
    return chosen


def medoid_codes(
    network: models.Repainter, folder: PictureFolder, device: torch.device, count: int = KEPT
) -> list[models.StyleCode]:
    """Codes of the paintings that stand best for a folder, among some spread over it."""
    codes = [network.encode_style(folder.tensor(i).to(device)) for i in spread(SPREAD, len(folder))]
    rows = torch.cat([code.flatten().cpu() for code in codes])
    return [codes[i] for i in medoids(rows, count)]


def fit_judge(
    folders: Mapping[str, PictureFolder],
    backbone: PooledFeatures,
    device: torch.device,
    count: int = JUDGED_PICTURES,
) -> LinearJudge:
    """A judge of the folders' names, on up to ``count`` pictures of each, mirrored too."""
    rows, labels = [], []
    total = sum(min(len(folder), count) for folder in folders.values())
    with tqdm(total=total, desc="fitting the judge", unit="picture", leave=False) as bar:
        for label, folder in enumerate(folders.values()):
            for index in spread(count, len(folder)):
                picture = folder.tensor(index).to(device)
                rows += [backbone(picture), backbone(picture.flip(-1))]
                labels += [label, label]
                bar.update()
    judge = LinearJudge(tuple(folders)).to(device)
    return judge.fit(torch.cat(rows), torch.tensor(labels, device=device))


@torch.no_grad()
def scores(
    network: models.Repainter,
    contents: Sequence[Tensor],
    code: models.StyleCode,
    judge: LinearJudge,
    backbone: PooledFeatures,
    label: int,
) -> tuple[float, float]:
    """Mean log-probability of the class and share of pictures given to it.

    Args:
        contents: what ``network.encode_content`` made of the photos, once for all codes.
    """
    logits = torch.cat(
        [judge(backbone(network.generate(content, code).clamp(-1, 1))) for content in contents]
    )
    probabilities = logits.log_softmax(1)[:, label]
    return float(probabilities.mean()), float((logits.argmax(1) == label).float().mean())


@torch.no_grad()
def choose(
    network: models.Repainter,
    photos: PictureFolder,
    styles: Mapping[str, PictureFolder],
    device: torch.device,
    candidates_a_style: int = CANDIDATES,
    given: Mapping[str, Sequence[models.StyleCode]] | None = None,
    judge: LinearJudge | None = None,
) -> dict[str, Choice]:
    """The best codes of every style, on training photos.

    Args:
        given: codes that a style has already, learned ones say; they stand for choice too.
        judge: one that knows the styles; without it, one is fitted to the folders.
        candidates_a_style: paintings that are tried, evenly spread over a style's folder.

    Raises:
        ValueError: fewer than one candidate.
        FileNotFoundError: the judge's weights are not installed.
    """
    if candidates_a_style < 1:
        raise ValueError(f"at least one candidate a style is needed, got {candidates_a_style}")
    backbone = PooledFeatures().to(device)
    judge = judge or fit_judge({**styles, "photo": photos}, backbone, device)
    if unknown := sorted(set(styles) - set(judge.classes)):
        raise ValueError(f"the judge knows {judge.classes}, not {unknown[0]!r}")
    contents = [
        network.encode_content(photos.square(i, PHOTO_SIDE).to(device))
        for i in spread(FINAL_PHOTOS, len(photos))
    ]
    screen = contents[:: max(1, len(contents) // SCREEN_PHOTOS)][:SCREEN_PHOTOS]
    given = given or {}
    steps = sum(
        min(candidates_a_style, len(folder))
        + min(FINALISTS, candidates_a_style, len(folder))
        + len(given.get(name, ()))
        for name, folder in styles.items()
    )
    chosen = {}
    with tqdm(total=steps, desc="choosing codes", unit="code") as bar:
        for name, folder in styles.items():
            label = judge.classes.index(name)
            candidates = []
            for index in spread(candidates_a_style, len(folder)):
                code = network.encode_style(folder.tensor(index).to(device))
                score, _ = scores(network, screen, code, judge, backbone, label)
                candidates.append((score, code))
                bar.update()
            candidates.sort(key=lambda candidate: -candidate[0])
            finals = []
            for code in [*given.get(name, ()), *(code for _, code in candidates[:FINALISTS])]:
                score, share = scores(network, contents, code, judge, backbone, label)
                finals.append((share, score, code))
                bar.update()
            finals.sort(key=lambda final: (-final[0], -final[1]))
            best = finals[:KEPT]
            chosen[name] = Choice([code for *_, code in best], [share for share, *_ in best])
    return chosen


def named_folders(pairs: Sequence[str], option: str = "--style") -> list[tuple[str, str]]:
    """NAME=FOLDER arguments as pairs, in their order.

    Raises:
        ValueError: one that is not NAME=FOLDER, or the name ``photo``.
    """
    folders = []
    for pair in pairs:
        name, separator, folder = pair.partition("=")
        if not separator or not name or not folder or "/" in name:
            raise ValueError(f"{option} must be NAME=FOLDER, got {pair!r}")
        if name == "photo":
            raise ValueError(f"the style name {name!r} is taken")
        folders.append((name, folder))
    return folders


def style_folders(pairs: Sequence[str]) -> dict[str, str]:
    """NAME=FOLDER arguments as a dictionary.

    Raises:
        ValueError: see :func:`named_folders`; or a name that comes twice.
    """
    folders: dict[str, str] = {}
    for name, folder in named_folders(pairs):
        if name in folders:
            raise ValueError(f"the style name {name!r} is taken")
        folders[name] = folder
    return folders


def main(argv: list[str] | None = None) -> int:
    """Exit code 0 done, 2 a wrong command line or unreadable input."""
    parser = argparse.ArgumentParser(prog="python -m app.codes", description=__doc__)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--photos", required=True, help="folder of training photos")
    parser.add_argument("--style", required=True, action="append", metavar="NAME=FOLDER")
    parser.add_argument("--out", help="checkpoint to write (the same file)")
    parser.add_argument("--candidates", type=int, default=CANDIDATES, help="paintings a style")
    parser.add_argument("--judge", help="a judge fitted before (fits one)")
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args(argv)
    try:
        device = available_device(arguments.device)
        checkpoint = models.load_checkpoint(arguments.checkpoint, device)
        folders = style_folders(arguments.style)
        styles = {n: PictureFolder(f, name=n) for n, f in folders.items()}
        photos = PictureFolder(arguments.photos, name="photo")
        judge = LinearJudge.load(arguments.judge).to(device) if arguments.judge else None
        chosen = choose(
            checkpoint.network,
            photos,
            styles,
            device,
            arguments.candidates,
            # What a style has for its default, a learned code say, is only displaced by a better.
            {name: codes[:1] for name, codes in checkpoint.styles.items()},
            judge,
        )
    except (FolderError, FileNotFoundError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    codes = checkpoint.styles | {name: choice.codes for name, choice in chosen.items()}
    record = checkpoint.record | {"codes": record_of(chosen)}
    out = Path(arguments.out or arguments.checkpoint)
    models.save_checkpoint(out, checkpoint.network, codes, record)
    for name, choice in chosen.items():
        shares = " ".join(f"{share:.2f}" for share in choice.accuracy)
        print(f"{name}: accuracy on training photos, a code: {shares}")
    return 0


def record_of(chosen: Mapping[str, Choice]) -> dict:
    """What a checkpoint's header says of the choice."""
    return {
        name: {"accuracy_on_training_photos": [round(a, 3) for a in choice.accuracy]}
        for name, choice in chosen.items()
    }


if __name__ == "__main__":
    sys.exit(main())
