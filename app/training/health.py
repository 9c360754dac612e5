"""Whether what training made is fit to be kept: a network that has exploded is not."""

from __future__ import annotations

import math
from collections import deque

import torch
from torch import nn

from app.training.learner import Learner
from models.objective import Batch, GeneratorObjective, Weights

MUCH_WORSE = 100.0  # times the smallest mean loss so far; a run that learns stays far below
MEMORY = 0.9  # of that mean: some ten steps, since one step alone may be a lucky one
BATCHES = 3  # that are tried: the first that does well is enough
LARGEST = torch.finfo(torch.float16).max  # what a checkpoint can hold


class Health:
    """Remembers how small the loss was, and the last batches, to try what was made of them on.

    A step's loss is that of the weights before it. What the step made of them shows at the next
    one, which may never come; so it is tried before it is saved.
    """

    def __init__(self) -> None:
        self.smallest = math.inf
        self.failed = 0
        self._mean: float | None = None
        self._last: deque[tuple[Batch, Weights]] = deque(maxlen=BATCHES)

    def watch(self, batch: Batch, weights: Weights, loss: float) -> None:
        """Takes note of a step whose numbers were finite.

        Args:
            loss: the generator's, weighted.
        """
        self._mean = loss if self._mean is None else MEMORY * self._mean + (1 - MEMORY) * loss
        self.smallest = min(self.smallest, self._mean)
        self._last.append((batch, weights))

    def problem(
        self, learner: Learner, objective: GeneratorObjective, judge: nn.Module | None
    ) -> str:
        """Why the weights are not to be saved; empty if they are fit."""
        for whose, module, largest in (
            ("network", learner.network, LARGEST),
            ("averaged network", learner.average, LARGEST),
            ("learned codes", learner.codes, LARGEST),
            ("averaged codes", learner.average_codes, LARGEST),
            ("discriminator", judge, math.inf),
        ):
            if module is not None and not _within(module, largest):
                return f"a weight of the {whose} is not finite, or too large for a checkpoint"
        if self.failed and not self._last:
            return f"not one of {self.failed} steps was finite"
        found = math.inf
        for batch, weights in reversed(self._last):
            found = min(found, _loss(objective, batch, weights))
            if found <= MUCH_WORSE * self.smallest:
                return ""
        if not self._last:  # a run that was at its end already
            return ""
        return f"its loss is {found:.3g}, which was {self.smallest:.3g} before"


def _within(module: nn.Module, largest: float) -> bool:
    """Whether all weights are finite and at most so large."""
    sizes = [p.detach().abs().max().float() for p in module.parameters() if p.numel()]
    if not sizes:
        return True
    size = float(torch.stack(sizes).max())  # not a number, if one of them is none
    return math.isfinite(size) and size <= largest


@torch.no_grad()
def _loss(objective: GeneratorObjective, batch: Batch, weights: Weights) -> float:
    """The weighted loss on a batch; infinite where it is not a number."""
    device = batch.photos.device
    # Whatever is drawn here is drawn again by the next step.
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        try:
            terms, _ = objective(batch, weights)
        except ValueError:  # wct's, of a covariance that is not finite
            return math.inf
    total = float(sum(getattr(weights, name) * term.detach() for name, term in terms.items()))
    return total if math.isfinite(total) else math.inf
