"""The pictures of training steps: drawn in one order, made ahead by other processes."""

from __future__ import annotations

import random
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from app import augment
from app.dataset import Crop, PictureFolder
from models.finish import Ground
from models.strokes import Canvas

AHEAD = 3  # batches a worker


@dataclass(frozen=True)
class Plan:
    """What was drawn for one step, without a pixel of it.

    Attributes:
        photos: a crop each.
        paintings: the number of the folder and the crop, each.
        grains: a seed for each photo's grain; none where all are shown clean.
        domains: the paintings' own.
        taught, window, canvas, grounds: as in :class:`models.objective.Batch`; grounds only where
            they are drawn.
    """

    photos: Sequence[Crop]
    paintings: Sequence[tuple[int, Crop]]
    grains: Sequence[int] = ()
    domains: Sequence[int] = ()
    taught: tuple[int, ...] = ()
    window: tuple[int, int] = (0, 0)
    canvas: Canvas = field(default_factory=Canvas)
    grounds: Sequence[Ground] = ()


# Photos, paintings, and what the network sees of the photos, (B, 3, size, size) each.
Pictures = tuple[Tensor, Tensor, Tensor | None]


class PictureMaker(Dataset):
    """Makes the pictures of a plan.

    Args:
        photos: where photos are cropped from.
        paintings: the folders that a plan's paintings name by number.
        grain: share of the photos that the network sees grained or compressed.
    """

    def __init__(
        self, photos: PictureFolder, paintings: Sequence[PictureFolder], grain: float
    ) -> None:
        self.photos, self.paintings, self.grain = photos, tuple(paintings), grain

    def __getitem__(self, plan: Plan) -> Pictures:
        photos = [self.photos.crop(crop) for crop in plan.photos]
        paintings = [self.paintings[number].crop(crop) for number, crop in plan.paintings]
        given = None
        if plan.grains:
            pairs = zip(photos, plan.grains, strict=True)
            given = torch.cat([self._seen(photo, seed) for photo, seed in pairs])
        return torch.cat(photos), torch.cat(paintings), given

    def _seen(self, photo: Tensor, seed: int) -> Tensor:
        draw = random.Random(seed)
        return augment.grained(photo, draw) if draw.random() < self.grain else photo


class Batches:
    """An endless run of plans and their pictures, the same for any number of workers.

    Args:
        plan: draws the next plan from ``draw``.
        workers: processes that make pictures while a step runs; 0: made when asked for.
        pinned: in memory that a GPU copies from while the CPU goes on.
    """

    def __init__(
        self,
        draw: random.Random,
        plan: Callable[[], Plan],
        maker: PictureMaker,
        *,
        workers: int = 0,
        pinned: bool = False,
    ) -> None:
        self._draw, self._plan = draw, plan
        self._drawn: deque[tuple[Plan, tuple]] = deque()
        self._loader = DataLoader(
            maker,
            sampler=self._plans(),
            batch_size=None,
            collate_fn=_as_it_is,
            num_workers=workers,
            prefetch_factor=AHEAD if workers else None,
            worker_init_fn=_leave_signals_to_the_first,
            pin_memory=pinned,
            generator=torch.Generator(),  # leaves torch's own random numbers alone
        )
        self._made: Iterator[Pictures] | None = None
        self._state: tuple | None = None

    def _plans(self) -> Iterator[Plan]:
        while True:
            plan = self._plan()
            self._drawn.append((plan, self._draw.getstate()))
            yield plan

    def next(self) -> tuple[Plan, Pictures]:
        """The next step's plan and its pictures."""
        if self._made is None:
            self._made = iter(self._loader)
        pictures = next(self._made)
        plan, self._state = self._drawn.popleft()
        return plan, pictures

    def state(self) -> tuple:
        """The state of ``draw`` after the last plan given, whatever was drawn ahead since."""
        return self._draw.getstate() if self._state is None else self._state


def _as_it_is(pictures: Any) -> Any:
    return pictures


def _leave_signals_to_the_first(worker: int) -> None:
    # Ctrl-C reaches all processes of a terminal; the one that trains saves, and then ends these.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
