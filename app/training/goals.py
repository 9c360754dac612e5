"""What a run moves, and all that follows from it: a goal is chosen once and then asked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import models
from app.dataset import PictureFolder

LEARNED_SHARE = 2 / 3  # of a batch; the rest keeps the network good for any painting

Styles = Mapping[str, Sequence[models.StyleCode]]
Record = dict[str, Any]
Start: TypeAlias = models.Checkpoint | None  # what a run begins with
Learned = Sequence[tuple[str, str]]  # names and folders of --learn


@dataclass(frozen=True)
class Variant:
    """One code that is learned for a style, and the paintings that teach it."""

    name: str
    folder: PictureFolder


class Goal(ABC):
    """What moves. The class attributes are what else depends on it."""

    moves_network: ClassVar[bool] = False
    # Where --minutes and --steps are not given.
    minutes: ClassVar[float] = 20.0
    # Of the network's learning rate: a code is seen every few steps.
    code_rate: ClassVar[float] = 3.0
    # Of the refinement that a network without one is given; 0: none.
    refinement_width: ClassVar[int] = 0
    # Whether paintings' codes change, so that samples show some.
    reads_paintings: ClassVar[bool] = True
    # With references: share of the pictures that are painted on a ground. Paintings of one's own
    # are painted without one, built-in styles on theirs.
    grounded: ClassVar[float] = 0.0
    # Whether built-in codes are chosen at the end.
    chooses_codes: ClassVar[bool] = True
    # Said before training begins.
    announcement: ClassVar[str] = ""

    @abstractmethod
    def release(self, network: models.Repainter) -> None:
        """Lets the weights move that are to move, and no others."""

    def check(
        self, start: Start, config: models.RepainterConfig, learned: Learned, batch: int
    ) -> None:
        """Whether it goes with the checkpoint to start from, and the codes to learn.

        Raises:
            ValueError: it does not.
        """
        if start is not None and config.strokes != start.network.config.strokes:
            raise ValueError("--strokes changes how all styles paint: it needs --train all")

    def own_variants(
        self, styles: Mapping[str, PictureFolder], taught: Sequence[Variant]
    ) -> list[Variant]:
        """The codes that are learned beside those asked for by ``--learn``."""
        return []

    def taught_count(self, batch: int, variants: int) -> int:
        """How many of a batch's photos are painted with learned codes, of which there are some."""
        return min(batch - 1, round(batch * LEARNED_SHARE)) if variants else 0

    @abstractmethod
    def kept(self, start: Start, styles: Styles, record: Record) -> tuple[Styles, Record]:
        """The styles and the record of the checkpoint to write.

        Args:
            start: the checkpoint that the run began with.
            styles: the codes that the run made.
            record: of this run.
        """


@dataclass(frozen=True)
class WholeNetwork(Goal):
    """The network moves, and with it every code that is read off a painting."""

    moves_network = True
    minutes = 120.0
    grounded = 0.5

    def release(self, network: models.Repainter) -> None:
        network.requires_grad_(True)

    def check(
        self, start: Start, config: models.RepainterConfig, learned: Learned, batch: int
    ) -> None:
        if learned and batch < 2:
            raise ValueError("--learn needs a --batch of at least 2: a code and a painting a step")

    def kept(self, start: Start, styles: Styles, record: Record) -> tuple[Styles, Record]:
        before = {} if start is None else {"started_from": start.record}
        return styles, {**record, **before}


@dataclass(frozen=True)
class NewCodes(Goal):
    """Codes of new styles are learned; the network and its other styles stay as they are.

    Args:
        count: codes a style.
        only_new: the checkpoint to write is without the styles that the network had.
    """

    count: int = 2
    only_new: bool = False

    code_rate = 10.0  # a code moves alone
    reads_paintings = False
    announcement = "the network stays as it is, codes are learned (--train all moves it too)"

    def release(self, network: models.Repainter) -> None:
        network.requires_grad_(False)

    def check(
        self, start: Start, config: models.RepainterConfig, learned: Learned, batch: int
    ) -> None:
        if start is None:
            raise ValueError("--train codes needs --init: the network that stays as it is")
        super().check(start, config, learned, batch)

    def own_variants(
        self, styles: Mapping[str, PictureFolder], taught: Sequence[Variant]
    ) -> list[Variant]:
        names = {variant.name for variant in taught}
        return [
            Variant(name, folder)
            for name, folder in styles.items()
            if name not in names
            for _ in range(min(self.count, len(folder)))
        ]

    def taught_count(self, batch: int, variants: int) -> int:
        return batch

    def kept(self, start: Start, styles: Styles, record: Record) -> tuple[Styles, Record]:
        assert start is not None
        added = start.record.get("added", {}) | dict.fromkeys(styles, record)
        both = styles if self.only_new else {**start.styles, **styles}
        return both, {**start.record, "added": added}


@dataclass(frozen=True)
class Refinement(Goal):
    """What the network reads off paintings is refined; the rest and all codes stay as they are."""

    refinement_width = 128
    chooses_codes = False
    announcement = (
        "the network stays as it is, the refinement of codes is learned (--train all moves it too)"
    )

    def release(self, network: models.Repainter) -> None:
        network.requires_grad_(False)
        assert network.refinement is not None
        network.refinement.requires_grad_(True)

    def check(
        self, start: Start, config: models.RepainterConfig, learned: Learned, batch: int
    ) -> None:
        super().check(start, config, learned, batch)
        if learned:
            raise ValueError(
                "--learn goes with --train all or codes: a refinement leaves codes alone"
            )

    def kept(self, start: Start, styles: Styles, record: Record) -> tuple[Styles, Record]:
        assert start is not None
        return start.styles, {**start.record, "refinement": dict(record)}
