"""Choosing a style's built-in codes: many candidates on a few photos, the best of them on more.

A linear judge on pooled EfficientNet-Lite0 features, fitted to the training folders, says how well
a result passes for its style. Only training pictures are looked at.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor
from tqdm import tqdm

import models
from app.dataset import PictureFolder
from app.samples import sample_sheet
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

    Attributes:
        names: a painting's file name, or what a code was given as, a code.
        accuracy: share of the final photos that the judge gave to the style, a code.
    """

    names: list[str]
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
    squares: Sequence[Tensor],
    contents: Sequence[models.Content],
    code: models.StyleCode,
    judge: LinearJudge,
    backbone: PooledFeatures,
    label: int,
) -> tuple[float, float]:
    """Mean log-probability of the class and share of pictures given to it.

    Args:
        squares: the photos.
        contents: what ``network.encode_photo`` made of them, once for all codes of a ground.
    """
    logits = torch.cat(
        [
            judge(backbone(network.repaint(square, code, content=content)))
            for square, content in zip(squares, contents, strict=True)
        ]
    )
    probabilities = logits.log_softmax(1)[:, label]
    return float(probabilities.mean()), float((logits.argmax(1) == label).float().mean())


class Chooser:
    """Tries codes on training photos, and says how often a judge gives the results to the style.

    Args:
        photos: on which codes are tried.
        styles: folders of the styles' paintings.
        judge: one that knows the styles; without it, one is fitted to the folders.
        grounds: what styles want of photos, where it is known.
        photo_count: of photos, spread over the folder.

    Raises:
        FileNotFoundError: the judge's weights are not installed.
        ValueError: the judge does not know a style.
    """

    @torch.no_grad()
    def __init__(
        self,
        network: models.Repainter,
        photos: PictureFolder,
        styles: Mapping[str, PictureFolder],
        device: torch.device,
        judge: LinearJudge | None = None,
        grounds: Mapping[str, models.Ground] | None = None,
        photo_count: int = FINAL_PHOTOS,
    ) -> None:
        self.network, self.photos, self.styles, self.device = network, photos, styles, device
        self.grounds = dict(grounds or {})
        self.backbone = PooledFeatures().to(device)
        self.judge = judge or fit_judge({**styles, "photo": photos}, self.backbone, device)
        if unknown := sorted(set(styles) - set(self.judge.classes)):
            raise ValueError(f"the judge knows {self.judge.classes}, not {unknown[0]!r}")
        chosen = spread(photo_count, len(photos))
        self.squares = [photos.square(i, PHOTO_SIDE).to(device) for i in chosen]
        self.contents: dict[models.Ground, list[models.Content]] = {}

    def code(self, style: str, index: int) -> models.StyleCode:
        """That of a painting of the style's folder."""
        code = self.network.encode_style(self.styles[style].tensor(index).to(self.device))
        return replace(code, ground=self.grounds.get(style, code.ground))

    @torch.no_grad()
    def _score(
        self, style: str, code: models.StyleCode, *, quick: bool = False
    ) -> tuple[float, float]:
        """Mean log-probability of the style, and the share of pictures given to it."""
        if code.ground not in self.contents:
            self.contents[code.ground] = [
                self.network.encode_photo(square, ground=code.ground) for square in self.squares
            ]
        squares, contents = self.squares, self.contents[code.ground]
        if quick:
            some = slice(None, None, max(1, len(contents) // SCREEN_PHOTOS))
            squares, contents = squares[some][:SCREEN_PHOTOS], contents[some][:SCREEN_PHOTOS]
        label = self.judge.classes.index(style)
        return scores(self.network, squares, contents, code, self.judge, self.backbone, label)

    def best(
        self,
        candidates_a_style: int = CANDIDATES,
        given: Mapping[str, Mapping[str, models.StyleCode]] | None = None,
    ) -> dict[str, Choice]:
        """The best codes of every style.

        Args:
            given: named codes that a style has already, learned ones say; they stand for choice
                too.
            candidates_a_style: paintings that are tried, evenly spread over a style's folder.

        Raises:
            ValueError: fewer than one candidate.
        """
        _check_candidates(candidates_a_style)
        given = given or {}
        steps = sum(
            min(candidates_a_style, len(folder))
            + min(FINALISTS, candidates_a_style, len(folder))
            + len(given.get(name, ()))
            for name, folder in self.styles.items()
        )
        chosen = {}
        with tqdm(total=steps, desc="choosing codes", unit="code") as bar:
            for style, folder in self.styles.items():
                candidates = []
                for index in spread(candidates_a_style, len(folder)):
                    code = self.code(style, index)
                    score, _ = self._score(style, code, quick=True)
                    candidates.append((score, folder.paths[index].name, code))
                    bar.update()
                candidates.sort(key=lambda candidate: -candidate[0])
                finalists = [(name, code) for _, name, code in candidates[:FINALISTS]]
                finals = []
                for name, code in [*given.get(style, {}).items(), *finalists]:
                    score, share = self._score(style, code)
                    finals.append((share, score, name, code))
                    bar.update()
                finals.sort(key=lambda final: (-final[0], -final[1]))
                best = finals[:KEPT]
                chosen[style] = Choice(
                    [name for _, _, name, _ in best],
                    [code for *_, code in best],
                    [share for share, *_ in best],
                )
        return chosen

    def measured(self, style: str, codes: Mapping[str, models.StyleCode]) -> Choice:
        """Named codes in the order given, with how each does."""
        shares = [self._score(style, code)[1] for code in codes.values()]
        return Choice(list(codes), list(codes.values()), shares)

    def sheet(self, style: str, path: Path, candidates: int = CANDIDATES) -> None:
        """Writes what candidates, evenly spread over a style's folder, make of some photos.

        Each row has the painting's file name on it and how often the judge agrees.

        Raises:
            ValueError: fewer than one candidate.
        """
        _check_candidates(candidates)
        folder, rows, labels = self.styles[style], [], []
        indices = spread(candidates, len(folder))
        for index in tqdm(indices, desc=f"candidates of {style}", unit="code"):
            code, name = self.code(style, index), folder.paths[index].name
            _, share = self._score(style, code)
            rows.append((folder, index, code))
            labels.append(f"{name} {share:.0%}")
        sample_sheet(self.network, self.photos, rows, path, labels)


def _check_candidates(count: int) -> None:
    if count < 1:
        raise ValueError(f"at least one candidate a style is needed, got {count}")


def record_of(chosen: Mapping[str, Choice], before: Mapping[str, dict] | None = None) -> dict:
    """What a checkpoint's header says of the choice.

    Args:
        before: what it said until now: a code that stays keeps the painting's name that it had.
    """
    known = {name: about.get("from", []) for name, about in (before or {}).items()}

    def named(style: str, code: str) -> str:
        number = code.removeprefix("own:")
        if code.startswith("own:") and number.isdecimal():
            names = known.get(style, [])[int(number) - 1 : int(number)]
            return names[0] if names else code
        return code

    return {
        name: {
            "from": [named(name, code) for code in choice.names],
            "accuracy_on_training_photos": [round(a, 3) for a in choice.accuracy],
        }
        for name, choice in chosen.items()
    }
