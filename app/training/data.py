"""What is learned from: folders that are read once, and the batches that are drawn from them."""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

import models
from app.batches import Batches, PictureMaker, Plan
from app.dataset import SHORT_SIDE, PictureFolder, draw_crops
from app.processes import Processes
from app.training.goals import Variant
from app.training.references import Signatures, drawn_grounds
from app.training.settings import Settings
from models import strokes
from models.objective import JITTER, Batch
from models.strokes import Canvas

SMALLEST_PAINTING = 0.85  # crops: paintings stay near their full scale
EXAMPLES = 4  # pictures a domain
FEW_PAINTINGS = 4  # fewer a style make a warning


class TrainingData:
    """Photos and paintings, and what is drawn of them: in one order for one seed.

    Args:
        processes: those that share the batches.

    Attributes:
        photos, styles: the folders; styles by name.
        domains: the styles' names, and ``photo``.
        variants: the codes to learn, and the paintings that teach them.
        signatures: of paintings, where the discriminator is told them.

    Raises:
        FolderError: a folder that can't be trained on.
    """

    def __init__(self, settings: Settings, processes: Processes) -> None:
        self.settings, self.processes = settings, processes
        self.draw = random.Random(settings.seed)
        largest = max(1.0, settings.photo_scales[1])
        self.photos = self.folder(settings.photos, "photo", round(SHORT_SIDE * largest))
        self.styles = {name: self.folder(f, name) for name, f in settings.styles.items()}
        self.domains = [*self.styles, "photo"]
        self._warn_of_few()
        taught = [Variant(name, self.folder(folder, name)) for name, folder in settings.learned]
        self.variants = [*taught, *settings.goal.own_variants(self.styles, taught)]
        # As a plan numbers them: the styles' folders, then the learned codes'.
        self.paintings = [*self.styles.values(), *(v.folder for v in self.variants)]
        self.signatures: Signatures | None = None
        self._batches = self._begin()

    def folder(self, folder: str | Path, name: str, short_side: int = SHORT_SIDE) -> PictureFolder:
        quiet = not self.processes.first
        return PictureFolder(folder, name=name, short_side=short_side, quiet=quiet)

    def _warn_of_few(self) -> None:
        for folder in self.styles.values():
            where = f"warning: {folder.folder}"
            if folder.distinct < FEW_PAINTINGS:
                few = "1 painting" if folder.distinct == 1 else f"{folder.distinct} paintings"
                self.processes.say(f"{where}: only {few}; more would teach more of a style")
            if folder.distinct < len(folder):
                again = len(folder) - folder.distinct
                self.processes.say(f"{where}: {again} of {len(folder)} are there twice")

    def examples(self) -> Tensor:
        """The middles of some pictures of every domain, (B, 3, size, size)."""
        size = self.settings.size
        folders = [*self.styles.values(), self.photos]
        several = [f.square(i, size) for f in folders for i in range(min(EXAMPLES, len(f)))]
        return torch.cat(several).to(self.processes.device)

    # -- batches

    def _begin(self) -> Batches:
        return Batches(
            self.draw,
            self._plan,
            PictureMaker(self.photos, self.paintings, self.settings.grain),
            workers=self.settings.workers or 0,
            pinned=self.processes.device.type == "cuda",
        )

    def state(self) -> tuple:
        """That of the draws after the last batch given."""
        return self._batches.state()

    def restore(self, state: tuple) -> None:
        """Goes on where another run was; what was drawn ahead is drawn again."""
        version, internal, gauss = state
        self.draw.setstate((version, tuple(internal), gauss))
        self._batches = self._begin()

    def batch(self) -> Batch:
        """Random photos, and as many paintings of styles drawn alike, however unequal."""
        plan, pictures = self._batches.next()
        device = self.processes.device
        photos, paintings = (t.to(device, non_blocking=True) for t in pictures[:2])
        given = None if pictures[2] is None else pictures[2].to(device, non_blocking=True)
        domains = torch.tensor(plan.domains, device=device)
        own, plain = self.settings.grounds, models.Ground()
        grounds = tuple(own.get(self.domains[i], plain) for i in plan.domains) if own else ()
        references, signatures, named = self.settings.references, None, None
        if references is not None and self.signatures is not None:
            grounds = tuple(plan.grounds)
            signatures = self.signatures.of([(n, crop.index) for n, crop in plan.paintings])
            named = references.named([self.domains[i] for i in plan.domains]).to(device)
        times = self.settings.calm
        calm = tuple(times.get(self.domains[i], 1.0) for i in plan.domains) if times else ()
        return Batch(
            photos,
            paintings,
            domains,
            given,
            plan.taught,
            plan.window,
            plan.canvas,
            grounds,
            calm,
            signatures,
            named,
        )

    def _plan(self) -> Plan:
        """Draws what a batch is made of.

        All processes draw the whole batch and each takes its part, so that together they see what
        one process with the larger batch would.
        """
        size, (count, taught) = self.settings.size, self._batch_counts()
        numbers = [self._variant(name) for name in self._names(taught, self._taught_names())]
        names = [self.variants[number].name for number in numbers]
        references = self.settings.references
        drawn = list(self.styles) if references is None else references.draws(list(self.styles))
        names += self._names(count - taught, drawn)
        wanted = [len(self.styles) + number for number in numbers]
        wanted += [list(self.styles).index(name) for name in names[taught:]]
        part = slice(self.processes.rank, None, self.processes.count)
        folders = [self.paintings[number] for number in wanted]
        smallest, largest = self.settings.photo_scales
        photos = draw_crops([self.photos] * count, size, self.draw, smallest, part, largest)
        crops = draw_crops(folders, size, self.draw, SMALLEST_PAINTING, part)
        grounds: Sequence[models.Ground] = ()
        if references is not None:
            grounds = drawn_grounds(
                names, self.settings.grounds, self.settings.goal.grounded, self.draw
            )
        grains = [self.draw.randrange(2**62) for _ in range(count if self.settings.grain else 0)]
        return Plan(
            photos,
            list(zip(wanted[part], crops, strict=True)),
            grains[part],
            [self.domains.index(name) for name in names[part]],
            tuple(numbers[part]),
            (self.draw.randrange(JITTER), self.draw.randrange(JITTER)),
            self._canvas(count, part),
            grounds[part],
        )

    def _canvas(self, count: int, part: slice) -> Canvas:
        """A place for each photo of a part of the batch, where the network sees strokes."""
        if not self.settings.config.strokes:
            return Canvas()
        place = functools.partial(self.draw.randrange, strokes.SIDE)
        return Canvas([(place(), place()) for _ in range(count)][part])

    def _batch_counts(self) -> tuple[int, int]:
        """Photos in a batch, all processes together, and how many learned codes paint."""
        count = self.settings.batch
        taught = self.settings.goal.taught_count(count, len(self.variants))
        return count * self.processes.count, taught * self.processes.count

    def _taught_names(self) -> list[str]:
        return list(dict.fromkeys(variant.name for variant in self.variants))

    def _variant(self, name: str) -> int:
        return self.draw.choice([i for i, v in enumerate(self.variants) if v.name == name])

    def _names(self, count: int, styles: Sequence[str]) -> list[str]:
        # Without replacement as far as it goes: a batch shows as many styles as it can.
        names: list[str] = []
        while len(names) < count:
            names += self.draw.sample(styles, len(styles))
        return names[:count]
