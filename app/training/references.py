"""Training on paintings of any kind: what the discriminator is told of each, and their grounds."""

from __future__ import annotations

import argparse
import random
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

import models
from app.dataset import PictureFolder
from models.reference import signature

SIDE = 224  # pixels: the middle square, at the scale that strokes are trained at
# Of styles that have none of their own.
MODERATE = models.Ground(simplify=0.05, strokes=0.5, outlines=0.2, tint=0.15, tone=0.3)


@dataclass(frozen=True)
class References:
    """What was asked of a run whose discriminator is told its references.

    Attributes:
        mixed: styles of many painters, which have no head of their own.
        drawn: how many times as often as others a style is drawn; 1 where none is said.
    """

    mixed: frozenset[str] = frozenset()
    drawn: Mapping[str, int] = field(default_factory=dict)

    def draws(self, styles: Sequence[str]) -> list[str]:
        """The styles' names, each as often as it is drawn."""
        return [name for name in styles for _ in range(self.drawn.get(name, 1))]

    def named(self, styles: Sequence[str]) -> Tensor:
        """1 for styles that have a head, 0 for mixed ones: (B,)."""
        return torch.tensor([float(name not in self.mixed) for name in styles])


def references_of(options: argparse.Namespace, styles: Container[str]) -> References | None:
    """What a command line asks for; None without ``--references``.

    Raises:
        ValueError: a style that is not there, a number of times that is none, or an option that
            says nothing without the others.
    """
    if not options.references:
        if options.mixed or options.draw:
            raise ValueError("--mixed and --draw go with --references")
        return None
    drawn = {}
    for pair in options.draw:
        name, _, times = pair.partition("=")
        if not times.isdecimal() or int(times) < 1:
            raise ValueError(f"--draw must be NAME=TIMES, TIMES at least 1, got {pair!r}")
        drawn[name] = int(times)
    for option, names in (("--mixed", options.mixed), ("--draw", drawn)):
        for name in names:
            if name not in styles:
                raise ValueError(f"{option} {name}: there is no --style of that name")
    return References(frozenset(options.mixed), drawn)


def drawn_grounds(
    styles: Sequence[str],
    own: Mapping[str, models.Ground],
    share: float,
    draw: random.Random,
) -> list[models.Ground]:
    """A ground for a picture in each style: its own or a moderate one, or none.

    Args:
        share: of the pictures, that get a ground.
    """
    return [
        own.get(name, MODERATE) if draw.random() < share else models.Ground() for name in styles
    ]


class Signatures:
    """What the discriminator is told of paintings, each read once, when it is first drawn.

    Args:
        folders: of paintings, as a plan numbers them.
        projection: the frozen network whose features make a signature.
    """

    def __init__(
        self, folders: Sequence[PictureFolder], projection: nn.Module, device: torch.device
    ) -> None:
        self.folders, self.projection, self.device = tuple(folders), projection, device
        self._made: dict[tuple[int, int], Tensor] = {}

    @torch.no_grad()
    def of(self, paintings: Sequence[tuple[int, int]]) -> Tensor:
        """Signatures (B, N) of paintings, each the number of its folder and its own in there."""
        for number, index in paintings:
            if (number, index) not in self._made:
                square = self.folders[number].square(index, SIDE).to(self.device)
                self._made[number, index] = signature(self.projection(square))
        return torch.cat([self._made[painting] for painting in paintings])
