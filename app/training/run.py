"""A training run: what is learned from, what learns, what teaches, and one step of them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from app.processes import Processes
from app.training.data import TrainingData
from app.training.failures import NotFiniteError
from app.training.files import RunFiles
from app.training.health import Health
from app.training.judges import make_judges
from app.training.learner import Learner
from app.training.optimizers import Optimizers
from app.training.settings import Settings
from models.discriminator_objective import DiscriminatorObjective
from models.objective import GeneratorObjective, Weights, at_progress
from models.precision import BFLOAT16

CLIP = 5.0  # norm of the gradient; rarely reached


@dataclass
class Clock:
    """How far a run is.

    Attributes:
        step: steps, those that were left out included.
        seconds: of training; saving is not counted.
        failed: steps that were left out.
    """

    step: int = 0
    seconds: float = 0.0
    failed: int = 0


@dataclass
class LossMeans:
    """The means of the losses over some steps, each over those that asked for it.

    Attributes:
        recent: over the last steps that a mean was taken of.
    """

    recent: dict[str, float] = field(default_factory=dict)
    steps: int = 0  # a resumed run may begin in the middle of some
    _sums: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    _counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def add(self, losses: Mapping[str, float]) -> None:
        """Those of one step."""
        for name, value in losses.items():
            self._sums[name] += value
            self._counts[name] += 1
        self.steps += 1

    def take(self) -> dict[str, float]:
        """The means since the last time; at least one step must have been added."""
        sums = sorted(self._sums.items())
        self.recent = {name: total / self._counts[name] for name, total in sums}
        self._sums.clear()
        self._counts.clear()
        self.steps = 0
        return self.recent


class Run:
    """A training run.

    Args:
        settings: what was asked for.
        processes: those that train together; this one alone by default.
        data: what is learned from; by default what the settings name.

    Raises:
        FolderError: a folder that can't be trained on.
        FileNotFoundError: the weights of a frozen network are not installed.
    """

    def __init__(
        self,
        settings: Settings,
        processes: Processes | None = None,
        data: TrainingData | None = None,
    ) -> None:
        self.settings = settings
        self.processes = processes or Processes(torch.device("cpu"))
        device = self.processes.device
        torch.manual_seed(settings.seed)
        self.data = data or TrainingData(settings, self.processes)
        self.learner = Learner(settings, self.data, device)
        judges = make_judges(settings, self.data, device)
        self.discriminator = judges.discriminator
        self.optimizers = Optimizers(
            settings,
            {
                "judge": self.discriminator,
                "codes": self.learner.codes,
                "generator": self.learner.network,
            },
            fused=device.type == "cuda",
        )
        photo = self.data.domains.index("photo")
        self.objective = GeneratorObjective(
            self.learner.network,
            self.learner.codes,
            judges,
            None if self.discriminator is None else photo,
        )
        self.generator = self.processes.distribute(self.objective, partly=bool(self.data.variants))
        if self.discriminator is not None:
            self.judge = self.processes.distribute(
                DiscriminatorObjective(self.discriminator, photo)
            )
        self.files = RunFiles(settings.out)
        self.clock, self.losses, self.health = Clock(), LossMeans(), Health()

    def progress(self) -> float:
        """Share of the run that is done, 0 to 1."""
        if self.settings.steps is not None:
            return min(1.0, self.clock.step / self.settings.steps)
        return min(1.0, self.clock.seconds / (60 * self.settings.minutes))

    def weights(self, progress: float) -> Weights:
        """The losses' weights at a share of the run."""
        weights = self.settings.weights
        # A trained network has its colors and strokes already.
        if self.settings.start is None:
            weights = at_progress(weights, progress)
        return weights.at_step(self.clock.step, self.settings.perceptual_every)

    def train_step(self, progress: float) -> None:
        """One step of the generator and one of the discriminator: both, or neither.

        Raises:
            NotFiniteError: a loss or a gradient that is not finite; nothing has moved.
        """
        self.optimizers.set_rates(self.clock.step, progress)
        self.learner.iterate(progress < self.settings.iterated)
        weights, batch = self.weights(progress), self.data.batch()
        problem = ""
        with self._autocast():
            try:
                terms, judged = self.generator(batch, weights)
            except ValueError as error:  # wct's, of a covariance that is not finite
                problem = str(error)
        # Asked together, since a process that stopped alone would leave the others waiting.
        if self.processes.largest(bool(problem))[0]:
            raise self._not_finite(problem or "another process met numbers that are not finite")
        total = sum(getattr(weights, name) * term for name, term in terms.items())
        losses = {"generator's": total}
        self._backward(total, ("generator", "codes"))
        if judged is not None:
            with self._autocast():
                losses["judge's"] = terms["discriminator"] = self.judge(
                    judged, batch.domains, batch.signatures, batch.named
                )
            self._backward(losses["judge's"], ("judge",))
        loss = self._descend(losses, terms)
        self.learner.follow(self.clock.step)
        self.health.watch(batch, weights, loss)
        self.clock.step += 1

    def leave_out(self) -> None:
        """Counts a step whose numbers were not finite."""
        self.clock.failed += 1
        self.clock.step += 1
        self.health.failed += 1

    def _autocast(self) -> torch.autocast:
        device = self.processes.device.type
        return torch.autocast(device, torch.bfloat16, enabled=self.settings.precision == BFLOAT16)

    def _backward(self, loss: Tensor, names: Sequence[str]) -> None:
        for name in names:
            if name in self.optimizers:
                self.optimizers[name].zero_grad(set_to_none=True)
        loss.backward()

    def _descend(self, losses: Mapping[str, Tensor], terms: Mapping[str, Tensor]) -> float:
        """The optimizers' step down the gradients, if all numbers are finite.

        Returns:
            The first of the losses, a mean over all processes.
        """
        if self.settings.orthogonal_gradient:
            self.learner.turn_gradients()
        norms = [
            nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], CLIP)
            for optimizer in self.optimizers.values()
        ]
        means = self.processes.mean(
            torch.stack([loss.detach().float() for loss in losses.values()])
        )
        device = self.processes.device
        singles = [x.detach().float().to(device) for x in (*norms, *terms.values())]
        # Read at once: each reading waits for the device.
        values = torch.cat([means, torch.stack(singles)]).tolist()
        for whose, value in zip(losses, values, strict=False):
            if not math.isfinite(value):
                raise self._not_finite(f"the {whose} loss is {value}")
        for name, value in zip(self.optimizers, values[len(losses) :], strict=False):
            if not math.isfinite(value):
                raise self._not_finite(f"the gradient of the {name} is not finite")
        for optimizer in self.optimizers.values():
            optimizer.step()
        self.losses.add(dict(zip(terms, values[-len(terms) :], strict=True)))
        return values[0]

    def _not_finite(self, what: str) -> NotFiniteError:
        return NotFiniteError(
            f"step {self.clock.step}: {what}; the last checkpoint and state are untouched: go on "
            f"with --resume {self.files.state} and a smaller --learning-rate"
        )
