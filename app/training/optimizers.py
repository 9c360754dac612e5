"""How weights move: Adam for each part that learns, and its rate over a run."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import nn

from app.training.settings import Settings

LEARNING_RATE = 4e-4  # perceptual recipe: found by the trial
PAPER_LEARNING_RATE = 1e-4
PERCEPTUAL_BETAS, PAPER_BETAS = (0.5, 0.99), (0.5, 0.999)
WEIGHT_DECAY = 1e-4


def learning_rate_share(step: int, progress: float) -> float:
    """Up over 100 steps, flat to the middle, then a cosine down to 3%."""
    down = max(0.0, (progress - 0.5) / 0.5)
    return min(1.0, (step + 1) / 100) * (0.03 + 0.97 * (1 + math.cos(math.pi * down)) / 2)


class Optimizers(dict[str, torch.optim.Adam]):
    """An Adam each for ``judge``, ``codes`` and ``generator``, where they have what can move.

    Args:
        modules: by these names; None where there is none.
    """

    def __init__(
        self, settings: Settings, modules: Mapping[str, nn.Module | None], *, fused: bool
    ) -> None:
        super().__init__()
        paper = settings.perceptual == "none"
        self.rate = settings.learning_rate or (PAPER_LEARNING_RATE if paper else LEARNING_RATE)
        self.code_rate = settings.goal.code_rate
        for name, module in modules.items():
            parameters = [p for p in module.parameters() if p.requires_grad] if module else []
            if parameters:
                self[name] = torch.optim.Adam(
                    parameters,
                    self.rate,
                    betas=PAPER_BETAS if paper else PERCEPTUAL_BETAS,
                    weight_decay=WEIGHT_DECAY if paper and name != "codes" else 0.0,
                    fused=fused,
                )

    def set_rates(self, step: int, progress: float) -> None:
        """The learning rates of a step."""
        rate = self.rate * learning_rate_share(step, progress)
        for name, optimizer in self.items():
            for group in optimizer.param_groups:
                group["lr"] = rate * (self.code_rate if name == "codes" else 1)
