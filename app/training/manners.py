r"""Manners: what paintings of a school have in common, learned beside a network that stays.

python -m app.training.manners --checkpoint FILE --photos FOLDER --style NAME=FOLDER ... \
    --plain various --out FILE

A code that is moved until a reader of schools takes what it paints for a school's gets there within
some dozen steps; a network that has to read that move off paintings, by a discriminator's word,
needs thousands. So each school has a move of its own, its manner, which is learned for itself, and
a painting gets those of the schools that it is taken for (:class:`models.CodeRefinement`). What is
plain is told apart from the schools, but has no manner: many painters in one folder, say.

The reader is linear, on the moments of EfficientNet-Lite1's features, which no measure here uses.
The checkpoint is written as it goes; a run that was cut off goes on from it (--checkpoint OUT).
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from tqdm import tqdm

import models
from app.choosing import spread
from app.dataset import FolderError, PictureFolder, draw_crops
from app.named_folders import named_times, style_folders
from app.terminal import failed, show_anything
from app.training.data import SMALLEST_PAINTING
from models import losses
from models.judge import LinearJudge
from models.objective import CONTENT_LAYER, DEEPEST_LAYER, JITTER, STYLE_LAYERS
from models.reference import signature
from models.strokes import SIDE, Canvas

SIZE = 128  # pixels: of the crops
BATCH = 3  # pictures a step, all of one school
CROPS = 480  # of each school, that the reader is fitted to
READ = 100  # paintings of a school that the gate is fitted to, whole and in parts
READER_DECAY, GATE_DECAY = 1e-2, 1e-3
PHOTO_SCALES = (0.56, 2.0)
RATE = 0.015
BETAS = (0.8, 0.99)
FOLLOW = 0.1  # of the average that is saved
# Content and style are asked in every second step, and count twice there.
EVERY = 2
ROUNDS_A_SAVE = 10


@dataclass(frozen=True)
class Weights:
    """How much each loss counts beside the reader's cross-entropy, which counts once."""

    content: float = 0.9
    style: float = 1.5
    variation: float = 2.0
    size: float = 5.0  # of the manner's mean square


@dataclass(frozen=True)
class School:
    """Paintings that are told apart from others.

    Attributes:
        plain: it has no manner.
        content: how many times the content loss counts.
    """

    name: str
    folder: PictureFolder
    plain: bool = False
    content: float = 1.0


@torch.no_grad()
def fitted_reader(
    schools: Sequence[School], photos: PictureFolder, projection: nn.Module, seed: int = 0
) -> LinearJudge:
    """A linear reader of the school of a part of a picture, by its signature; photos are one."""
    draw, size = random.Random(seed), SIZE - JITTER
    rows: list[Tensor] = []
    labels: list[int] = []
    kinds = [(school.folder, SMALLEST_PAINTING) for school in schools]
    kinds.append((photos, PHOTO_SCALES[0]))
    for label, (folder, smallest) in enumerate(tqdm(kinds, "fitting the reader", unit="school")):
        crops = draw_crops([folder] * CROPS, size, draw, smallest)
        for start in range(0, CROPS, 8):
            pictures = torch.cat([folder.crop(crop) for crop in crops[start : start + 8]])
            rows.append(signature(projection(pictures)))
        labels += [label] * CROPS
    features = torch.cat(rows)
    reader = LinearJudge([*(s.name for s in schools), "photo"], features.shape[1])
    return reader.fit(features, torch.tensor(labels), READER_DECAY)


class Paintings:
    """What a network reads of whole paintings, not refined, each once, when it is first drawn."""

    def __init__(self, network: models.Repainter) -> None:
        self.network = network
        self._read: dict[tuple[int, int], models.StyleCode] = {}

    def code(self, folder: PictureFolder, index: int) -> models.StyleCode:
        key = id(folder), index
        if key not in self._read:
            self._read[key] = self.network.read_style(folder.tensor(index))
        return self._read[key]


@torch.no_grad()
def fit_gate(
    network: models.Repainter, schools: Sequence[School], paintings: Paintings, seed: int = 0
) -> None:
    """Fits the refinement's gate to the schools' paintings, read whole and in parts."""
    refinement = network.refinement
    assert refinement is not None and refinement.gate is not None
    draw = random.Random(seed)
    seen: list[Tensor] = []
    labels: list[int] = []
    for label, school in enumerate(tqdm(schools, "fitting the gate", unit="school")):
        for index in spread(READ, len(school.folder)):
            (crop,) = draw_crops([school.folder], SIZE, draw, SMALLEST_PAINTING)
            part = network.read_style(school.folder.crop(crop))
            codes = models.StyleCode.cat([paintings.code(school.folder, index), part])
            seen.append(refinement.standardized(codes))
            labels += [label, label]
    features = torch.cat(seen)
    judge = LinearJudge([s.name for s in schools], features.shape[1])
    judge.fit(features, torch.tensor(labels), GATE_DECAY)
    weight = judge.linear.weight / judge.spread
    refinement.gate.weight.copy_(weight)
    refinement.gate.bias.copy_(judge.linear.bias - weight @ judge.center)


@dataclass
class Lesson:
    """One school's manner while it is learned: a step at a time, alone.

    Attributes:
        manner: (numbers of a move, 1).
        average: of the last steps: what is saved.
    """

    school: School
    number: int
    manner: Tensor
    average: Tensor = field(init=False)
    optimizer: torch.optim.Adam = field(init=False)

    def __post_init__(self) -> None:
        self.average = self.manner.clone()
        self.manner.requires_grad_(True)
        self.optimizer = torch.optim.Adam([self.manner], RATE, betas=BETAS)


class Teacher:
    """What all lessons share: the network that stays, what looks at its pictures, and photos."""

    def __init__(
        self,
        network: models.Repainter,
        reader: LinearJudge,
        photos: PictureFolder,
        projection: nn.Module,
        perceptual: nn.Module,
        paintings: Paintings,
        weights: Weights,
        seed: int = 0,
    ) -> None:
        self.network, self.reader, self.photos = network, reader, photos
        self.projection, self.perceptual, self.paintings = projection, perceptual, paintings
        self.weights, self.draw = weights, random.Random(seed)

    def step(self, lesson: Lesson, number: int, rate: float) -> float:
        """One step of one lesson; returns the reader's cross-entropy."""
        school, network, weights = lesson.school, self.network, self.weights
        smallest, largest = PHOTO_SCALES
        drawn = draw_crops([self.photos] * BATCH, SIZE, self.draw, smallest, slice(None), largest)
        photos = torch.cat([self.photos.crop(crop) for crop in drawn])
        crops = draw_crops([school.folder] * BATCH, SIZE, self.draw, SMALLEST_PAINTING)
        parts = torch.cat([school.folder.crop(crop) for crop in crops])
        with torch.no_grad():
            # As a person's own is read, and as a part of it is.
            whole = number // EVERY % 2 == 0
            code = (
                models.StyleCode.cat([self.paintings.code(school.folder, c.index) for c in crops])
                if whole
                else network.read_style(parts)
            )
            place = self.draw.randrange
            places = Canvas([(place(SIDE), place(SIDE)) for _ in range(BATCH)])
            content = network.encode_content(network.prepare(photos, places)[0])
        assert network.refinement is not None
        moved = network.refinement.moved(code, lesson.manner.T)
        picture = network.generate(content, moved)
        top, left = place(JITTER), place(JITTER)

        def seen(images: Tensor) -> Tensor:
            return images[..., top : top + SIZE - JITTER, left : left + SIZE - JITTER]

        goal = torch.full((BATCH,), lesson.number)
        wrong = F.cross_entropy(self.reader(signature(self.projection(seen(picture)))), goal)
        loss = wrong + weights.variation * losses.total_variation(picture)
        loss = loss + weights.size * lesson.manner.square().mean()
        if number % EVERY == 0:
            loss = loss + EVERY * self._perceptual(seen(photos), seen(parts), seen(picture), school)
        for group in lesson.optimizer.param_groups:
            group["lr"] = rate
        lesson.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if bool(torch.isfinite(loss)):
            lesson.optimizer.step()
        with torch.no_grad():
            lesson.average.lerp_(lesson.manner, max(FOLLOW, 1 / (number + 1)))
        return float(wrong.detach())

    def _perceptual(
        self, photos: Tensor, paintings: Tensor, pictures: Tensor, school: School
    ) -> Tensor:
        look = self.perceptual
        with torch.no_grad():
            of_photos = look(photos, (CONTENT_LAYER,))[CONTENT_LAYER]
            of_paintings = look(paintings, tuple(STYLE_LAYERS))
        features = look(pictures, tuple(sorted({CONTENT_LAYER, *STYLE_LAYERS})))
        content = losses.content_loss(features[CONTENT_LAYER], of_photos)
        style = losses.style_loss(features, of_paintings, STYLE_LAYERS)
        return self.weights.content * school.content * content + self.weights.style * style


def rate_of(number: int, rounds: int) -> float:
    """The learning rate of a round: down a cosine to a twentieth."""
    return RATE * (0.05 + 0.95 * (1 + math.cos(math.pi * number / rounds)) / 2)


def with_manners(network: models.Repainter, count: int) -> models.Repainter:
    """The same network with room for as many manners; with those it has, where they are as many.

    Raises:
        ValueError: it has no refinement, or another number of manners.
    """
    config = network.config
    if not config.refinement:
        raise ValueError("the network has no refinement: train one first (app.train)")
    if config.manners == count:
        return network
    if config.manners:
        raise ValueError(f"the network has {config.manners} manners, not {count}")
    larger = models.Repainter(replace(config, manners=count))
    larger.load_state_dict(larger.state_dict() | network.state_dict())
    return larger.eval().requires_grad_(False)


def _lessons(network: models.Repainter, schools: Sequence[School]) -> list[Lesson]:
    refinement = network.refinement
    assert refinement is not None and refinement.manners is not None
    now = refinement.manners.weight.detach()
    return [
        Lesson(school, number, now[:, number : number + 1].clone())
        for number, school in enumerate(schools)
        if not school.plain
    ]


@torch.no_grad()
def _learned(network: models.Repainter, lessons: Sequence[Lesson]) -> None:
    """Gives the network what was learned."""
    assert network.refinement is not None and network.refinement.manners is not None
    for each in lessons:
        network.refinement.manners.weight[:, each.number] = each.average[:, 0]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m app.training.manners",
        description="Gives a network a manner a school: what its paintings have in common.",
    )
    add = parser.add_argument
    add("--checkpoint", required=True, help="of a network with a refinement")
    add("--photos", required=True, help="folder of photos")
    add("--style", action="append", required=True, metavar="NAME=FOLDER", help="a school")
    add(
        "--plain",
        action="append",
        default=[],
        metavar="NAME",
        help="a style that is told apart, but has no manner",
    )
    add(
        "--content",
        action="append",
        default=[],
        metavar="NAME=TIMES",
        help="how many times the photo's things count in a style (1)",
    )
    add("--rounds", type=int, default=100, help="steps a school (100)")
    add("--seed", type=int, default=0)
    add("--out", type=Path, required=True, metavar="FILE.safetensors")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Exit code 0 done, 1 it could not be written, 2 a wrong command line or file."""
    show_anything()
    options = _parser().parse_args(argv)
    try:
        checkpoint = models.load_checkpoint(options.checkpoint)
        schools, teacher, network = _prepared(options, checkpoint)
    except (ValueError, FolderError, FileNotFoundError) as error:
        return failed(error, 2)
    lessons, began = _lessons(network, schools), time.monotonic()

    def save(rounds: int) -> None:
        _learned(network, lessons)
        about: dict[str, Any] = {
            "schools": {each.name: len(each.folder) for each in schools},
            "plain": [each.name for each in schools if each.plain],
            "rounds": rounds,
            "minutes": round((time.monotonic() - began) / 60, 1),
            "seed": options.seed,
        }
        record = {**checkpoint.record, "manners": about}
        models.save_checkpoint(options.out, network, checkpoint.styles, record)

    options.out.parent.mkdir(parents=True, exist_ok=True)
    bar = tqdm(total=options.rounds * len(lessons), desc="learning", unit="step", mininterval=1)
    wrong = 0.0
    try:
        for number in range(options.rounds):
            rate = rate_of(number, options.rounds)
            each = [teacher.step(lesson, number, rate) for lesson in _shown(lessons, bar)]
            wrong = sum(each) / len(each)
            bar.set_postfix_str(f"round {number + 1}, cross-entropy {wrong:.3f}")
            if (number + 1) % ROUNDS_A_SAVE == 0 or number + 1 == options.rounds:
                save(number + 1)
    except (OSError, models.CheckpointError) as error:
        return failed(error, 1)
    except KeyboardInterrupt:
        print(f"\ninterrupted; {options.out} is of the last round that was saved", file=sys.stderr)
        return 130
    finally:
        bar.close()
    print(f"{options.out}: {len(lessons)} manners, cross-entropy {wrong:.3f}")
    return 0


def _shown(lessons: Sequence[Lesson], bar: tqdm) -> Iterator[Lesson]:
    for lesson in lessons:
        yield lesson
        bar.update()


def _prepared(
    options: argparse.Namespace, checkpoint: models.Checkpoint
) -> tuple[list[School], Teacher, models.Repainter]:
    """All that is needed to learn. Raises ValueError, FolderError and FileNotFoundError."""
    if options.rounds < 1:
        raise ValueError(f"--rounds must be positive, got {options.rounds}")
    styles = style_folders(options.style)
    for name in options.plain:
        if name not in styles:
            raise ValueError(f"--plain {name}: there is no --style of that name")
    if len(set(styles) - set(options.plain)) == 0 or len(styles) < 2:
        raise ValueError("two styles are needed to tell apart, one of them not --plain")
    if not options.out.name.endswith(".safetensors"):
        raise ValueError(f"--out must end in .safetensors, got {options.out}")
    times = named_times(options.content, "--content", styles)
    if not checkpoint.network.config.refinement:
        raise ValueError("the network has no refinement: train one first (app.train)")
    projection = models.EfficientNetFeatures()
    perceptual = models.PerceptualNetwork("hed", last=DEEPEST_LAYER)
    photos = PictureFolder(options.photos, name="photo", short_side=512)
    schools = [
        School(name, PictureFolder(where, name=name), name in options.plain, times.get(name, 1.0))
        for name, where in styles.items()
    ]
    network = with_manners(checkpoint.network, len(schools))
    paintings = Paintings(network)
    if network is not checkpoint.network:
        fit_gate(network, schools, paintings, options.seed)
    reader = fitted_reader(schools, photos, projection, options.seed)
    teacher = Teacher(
        network, reader, photos, projection, perceptual, paintings, Weights(), options.seed
    )
    return schools, teacher, network


if __name__ == "__main__":
    sys.exit(main())
