"""A training run: its state, one step, the loop, and the files that it leaves."""

from __future__ import annotations

import argparse
import copy
import csv
import functools
import math
import os
import platform
import random
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn
from tqdm import tqdm

import models
from app import images
from app.batches import Batches, PictureMaker, Plan
from app.codes import SPREAD, Chooser, medoid_codes, record_of, spread
from app.dataset import PictureFolder, draw_crops
from app.processes import Processes
from app.samples import sample_sheet
from models import strokes
from models.objective import (
    DEEPEST_LAYER,
    JITTER,
    Batch,
    DiscriminatorObjective,
    GeneratorObjective,
    Judges,
    Weights,
    at_progress,
)
from models.strokes import Canvas

LEARNING_RATE = 4e-4  # perceptual recipe: found by the trial
PAPER_LEARNING_RATE = 1e-4
PERCEPTUAL_BETAS, PAPER_BETAS = (0.5, 0.99), (0.5, 0.999)
WEIGHT_DECAY = 1e-4
CLIP = 5.0  # norm of the gradient; rarely reached
EMA = 0.99  # of some thousand steps, 0.999 would average over half of the run
SMALLEST_PHOTO, SMALLEST_PAINTING = 0.625, 0.85  # crops: paintings stay near their full scale
LEARNED_SHARE = 2 / 3  # of a batch; the rest keeps the network good for any painting
# Of the network's learning rate. A code is seen every few steps, and moves alone with a new style.
CODE_RATE, NEW_CODE_RATE = 3.0, 10.0
FEATURE_WIDTH = 96  # of the discriminator on features
CALIBRATION = 4  # pictures a domain that show the discriminator its features' sizes
FEW_PAINTINGS = 4  # fewer a style make a warning
LOG_STEPS = 10


class TrainingError(RuntimeError):
    """Training can't go on; the message says why and what is safe."""


class NotFiniteError(TrainingError):
    """A step's numbers are not finite; the step was left out."""


class SaveError(TrainingError):
    """A file could not be written; what stood in its place before is untouched."""


class StoppedError(TrainingError):
    """A signal ended the run, and all is saved.

    Attributes:
        number: of the signal.
    """

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.number = number


def learning_rate_share(step: int, progress: float) -> float:
    """Up over 100 steps, flat to the middle, then a cosine down to 3%."""
    down = max(0.0, (progress - 0.5) / 0.5)
    return min(1.0, (step + 1) / 100) * (0.03 + 0.97 * (1 + math.cos(math.pi * down)) / 2)


@dataclass(frozen=True)
class Variant:
    """One code that is learned for a style, and the paintings that teach it."""

    name: str
    folder: PictureFolder


class Run:
    """A training run: everything that a resumed one must find again.

    Args:
        arguments: what ``app.train.parse_arguments`` made of the command line.
        processes: those that train together; this one alone by default.

    Raises:
        FolderError: a folder that can't be trained on.
        FileNotFoundError: the weights of a frozen network are not installed.
    """

    def __init__(self, arguments: argparse.Namespace, processes: Processes | None = None) -> None:
        self.arguments, self.out = arguments, Path(arguments.out)
        self.processes = processes or Processes(torch.device("cpu"))
        self.device = self.processes.device
        self.draw = random.Random(arguments.seed)
        torch.manual_seed(arguments.seed)
        self.photos = self._folder(arguments.photos, "photo")
        self.styles = {n: self._folder(f, n) for n, f in arguments.styles.items()}
        self.domains = [*self.styles, "photo"]
        self._warn_of_few()
        self.network = models.Repainter(arguments.config)
        self.network.to(self.device)
        if arguments.start is not None:
            self._start_from(arguments.start.network)
        self.network.requires_grad_(arguments.train == "all")
        if arguments.train == "refinement":
            self.network.refinement.requires_grad_(True)
        self.average = copy.deepcopy(self.network).eval().requires_grad_(False)
        self.variants = self._variants()
        self.codes = self._first_codes()
        self.average_codes = copy.deepcopy(self.codes).requires_grad_(False)
        self._prepare_losses()
        self.batches = self._batches()
        self.step, self.seconds, self.failed = 0, 0.0, 0
        self.sums: dict[str, float] = defaultdict(float)
        self.summed = 0  # steps; a resumed run may begin in the middle of LOG_STEPS
        self.recent: dict[str, float] = {}

    # -- what is learned from

    def _folder(self, folder: str | Path, name: str) -> PictureFolder:
        return PictureFolder(folder, name=name, quiet=not self.processes.first)

    def _warn_of_few(self) -> None:
        for folder in self.styles.values() if self.processes.first else ():
            if folder.distinct < FEW_PAINTINGS:
                few = "1 painting" if folder.distinct == 1 else f"{folder.distinct} paintings"
                self._say(f"warning: {folder.folder}: only {few}; more would teach more of a style")
            if folder.distinct < len(folder):
                again = len(folder) - folder.distinct
                self._say(f"warning: {folder.folder}: {again} of {len(folder)} are there twice")

    def _start_from(self, network: models.Repainter) -> None:
        """Takes a network's weights; a refinement that it does not have begins as the identity."""
        self.network.load_state_dict(self.network.state_dict() | network.state_dict())
        if network.refinement is None and self.network.refinement is not None:
            codes = [
                network.encode_style(folder.tensor(i)).to(self.device)
                for folder in self.styles.values()
                for i in spread(SPREAD, len(folder))
            ]
            self.network.refinement.calibrate(models.StyleCode.cat(codes))

    def _variants(self) -> list[Variant]:
        given = self.arguments.learned
        variants = [Variant(name, self._folder(folder, name)) for name, folder in given]
        if self.arguments.train == "codes":
            taught = {name for name, _ in given}
            for name, folder in self.styles.items():
                count = min(self.arguments.variants, len(folder))
                variants += [Variant(name, folder)] * (0 if name in taught else count)
        return variants

    def _first_codes(self) -> nn.ModuleList:
        """A learned code a variant; each begins at a painting that stands for its folder."""
        starts: dict[int, list[models.StyleCode]] = {}
        codes = nn.ModuleList()
        for variant in self.variants:
            key = id(variant.folder)
            if key not in starts:
                count = sum(v.folder is variant.folder for v in self.variants)
                starts[key] = medoid_codes(self.average, variant.folder, self.device, count)
            codes.append(models.LearnedCode(starts[key].pop(0)))
        return codes.to(self.device)

    # -- what teaches

    def _prepare_losses(self) -> None:
        arguments, device = self.arguments, self.device
        perceptual = projection = discriminator = None
        if arguments.perceptual != "none":
            perceptual = models.PerceptualNetwork(arguments.perceptual, last=DEEPEST_LAYER)
            perceptual = self._frozen(perceptual)
        if arguments.weights.adversarial > 0 and perceptual is not None:
            projection = self._frozen(models.EfficientNetFeatures(arguments.projection))
            discriminator = models.FeatureDiscriminator(
                projection.channels, len(self.domains), width=FEATURE_WIDTH
            ).to(device)
            discriminator.calibrate(projection(self._examples()))
        elif arguments.weights.adversarial > 0:
            width = 2 * self.network.config.width
            discriminator = models.MultiScaleDiscriminator(len(self.domains), width=width)
            discriminator.to(device)
        self.discriminator = discriminator
        judges = Judges(perceptual, projection, discriminator, arguments.augment)
        paper = perceptual is None
        self.rate = arguments.learning_rate or (PAPER_LEARNING_RATE if paper else LEARNING_RATE)
        betas = PAPER_BETAS if paper else PERCEPTUAL_BETAS
        decay = WEIGHT_DECAY if paper else 0.0
        modules = {
            "judge": (discriminator, decay),
            "codes": (self.codes, 0.0),
            "generator": (self.network, decay),
        }
        self.optimizers = {
            name: torch.optim.Adam(
                parameters, self.rate, betas=betas, weight_decay=decay, fused=self._on_gpu
            )
            for name, (module, decay) in modules.items()
            if module is not None
            and (parameters := [p for p in module.parameters() if p.requires_grad])
        }
        photo = self.domains.index("photo") if discriminator is not None else None
        self.generator = self.processes.distribute(
            GeneratorObjective(self.network, self.codes, judges, photo), partly=bool(self.variants)
        )
        if discriminator is not None:
            self.judge = self.processes.distribute(
                DiscriminatorObjective(discriminator, self.domains.index("photo"))
            )

    def _frozen(self, module: nn.Module) -> nn.Module:
        module = module.to(self.device)
        if self._on_gpu:
            module = module.to(memory_format=torch.channels_last)
        if self.arguments.compile:
            # A machine that can't compile trains as before.
            torch._dynamo.config.suppress_errors = True
            module.compile(dynamic=False)
        return module

    def _examples(self) -> Tensor:
        """The middles of some pictures of every domain, (B, 3, size, size)."""
        size = self.arguments.size
        folders = [*self.styles.values(), self.photos]
        several = [f.square(i, size) for f in folders for i in range(min(CALIBRATION, len(f)))]
        return torch.cat(several).to(self.device)

    @property
    def _on_gpu(self) -> bool:
        return self.device.type == "cuda"

    # -- files

    @property
    def state_path(self) -> Path:
        return self.out.with_suffix(".state.pt")

    def save_state(self) -> None:
        """Everything needed to go on, written beside the checkpoint in one move.

        Raises:
            SaveError: it could not be written.
        """
        state = {
            "config": asdict(self.network.config),
            "domains": self.domains,
            "step": self.step,
            "seconds": self.seconds,
            "failed": self.failed,
            "recent": self.recent,
            "draw": self.batches.state(),
            "torch": torch.get_rng_state(),
            "network": self.network.state_dict(),
            "average": self.average.state_dict(),
            "discriminator": self.discriminator.state_dict() if self.discriminator else None,
            "codes": self.codes.state_dict() if self.variants else None,
            "average_codes": self.average_codes.state_dict() if self.variants else None,
            "optimizers": {k: v.state_dict() for k, v in self.optimizers.items()},
        }
        temporary = self.state_path.with_suffix(".tmp")
        with _saving(self.state_path, temporary):
            torch.save(state, temporary)
            os.replace(temporary, self.state_path)

    def load_state(self, path: str | Path) -> None:
        """Goes on where a state left off; ``path`` may also be its checkpoint.

        Raises:
            TrainingError: no such file, an unreadable one, or one of another network or styles.
        """
        path = Path(path)
        if path.suffix == ".safetensors":
            path = path.with_suffix(".state.pt")
        if not path.is_file():
            raise TrainingError(f"{path}: there is no state to resume from")
        try:
            # weights_only: reads tensors and plain values, never runs code.
            state = torch.load(path, map_location="cpu", weights_only=True)
            config = models.RepainterConfig(**state["config"])
            domains = state["domains"]
        except Exception as error:
            raise TrainingError(f"{path}: not a state of a training run ({error})") from None
        if config != self.network.config:
            raise TrainingError(f"{path}: trained {config}, asked for is {self.network.config}")
        if domains != self.domains:
            raise TrainingError(f"{path}: trained {domains}, asked for are {self.domains}")
        if (state["discriminator"] is None) != (self.discriminator is None):
            raise TrainingError(f"{path}: was trained with other losses")
        self.network.load_state_dict(state["network"])
        self.average.load_state_dict(state["average"])
        if self.discriminator is not None:
            self.discriminator.load_state_dict(state["discriminator"])
        if self.variants:
            self._load_codes(path, state)
        for name, optimizer in self.optimizers.items():
            if name in state["optimizers"]:
                optimizer.load_state_dict(state["optimizers"][name])
        version, internal, gauss = state["draw"]
        self.draw.setstate((version, tuple(internal), gauss))
        self.batches = self._batches()  # what was drawn ahead was drawn from another state
        torch.set_rng_state(state["torch"])
        self.step, self.seconds, self.recent = state["step"], state["seconds"], state["recent"]
        self.failed = state.get("failed", 0)

    def _load_codes(self, path: Path, state: dict) -> None:
        if state.get("codes") is None:  # learning begins with this resume, where the network is
            self.codes.load_state_dict(self._first_codes().state_dict())
            self.average_codes.load_state_dict(self.codes.state_dict())
            return
        try:
            self.codes.load_state_dict(state["codes"])
            self.average_codes.load_state_dict(state["average_codes"])
        except RuntimeError as error:
            raise TrainingError(f"{path}: learned other codes ({error})") from None

    def record(self) -> dict:
        """What the checkpoint's header says of its training."""
        arguments = self.arguments
        on_cpu = self.device.type == "cpu"
        device = (
            f"cpu, {torch.get_num_threads()} threads" if on_cpu else torch.cuda.get_device_name()
        )
        record = {
            "data": {"photo": len(self.photos)} | {k: len(v) for k, v in self.styles.items()},
            "steps": self.step,
            "failed_steps": self.failed,
            "minutes": round(self.seconds / 60, 1),
            "crop": arguments.size,
            "batch": arguments.batch * self.processes.count,
            "device": device,
            "machine": platform.machine(),
            "torch": torch.__version__.split("+")[0],
            "weights": {k: v for k, v in asdict(arguments.weights).items() if v},
            "grain": arguments.grain,
            "augment": arguments.augment,
            "calm": arguments.calm,
            "losses": {k: round(v, 4) for k, v in self.recent.items()},
            "seed": arguments.seed,
        }
        if self.variants:
            taught = {name: [] for name in self.styles}
            for variant in self.variants:
                taught[variant.name].append(len(variant.folder))
            record["learned_from"] = {name: counts for name, counts in taught.items() if counts}
        return record

    def learned_codes(self) -> dict[str, list[models.StyleCode]]:
        """The averaged learned codes of every style that has some, in the order given."""
        learned: dict[str, list[models.StyleCode]] = {}
        with torch.no_grad():
            for variant, code in zip(self.variants, self.average_codes, strict=True):
                learned.setdefault(variant.name, []).append(code())
        return learned

    def save(self) -> None:
        """State, checkpoint and sample sheet, the last two from the averaged weights.

        Raises:
            SaveError: one could not be written.
        """
        self.save_state()
        learned = self.learned_codes()
        styles = {
            name: [*learned.get(name, ()), *self._medoids(folder)]
            for name, folder in self.styles.items()
        }
        self._save_checkpoint(styles, {})
        rows = []
        for name, folder in self.styles.items():
            rows += [(folder, 0, code) for code in learned.get(name, ())]
            if self.arguments.train != "codes":
                for i in (len(folder) // 3, 2 * len(folder) // 3):
                    code = self.average.encode_style(folder.tensor(i).to(self.device))
                    rows.append((folder, i, code))
        sheet = self.out.with_suffix(".samples.png")
        with _saving(sheet):
            sample_sheet(self.average, self.photos, rows, sheet)

    def _medoids(self, folder: PictureFolder) -> list[models.StyleCode]:
        # Where codes alone are learned, those of paintings only stand for choice at the end.
        moved = self.arguments.train == "all"
        return medoid_codes(self.average, folder, self.device) if moved else []

    def _save_checkpoint(
        self, styles: dict[str, list[models.StyleCode]], more_record: dict
    ) -> None:
        """The averaged network with these styles; a frozen one with those it had before, too."""
        record, start = self.record() | more_record, self.arguments.start
        grounds = self.arguments.grounds
        styles = {
            name: [replace(code, ground=grounds.get(name, code.ground)) for code in codes]
            for name, codes in styles.items()
        }
        if self.arguments.train == "all" and start is not None:
            record |= {"started_from": start.record}
        if self.arguments.train == "refinement":
            record, styles = start.record | {"refinement": record}, start.styles
        elif self.arguments.train == "codes":
            added = dict.fromkeys(styles, record)
            record = start.record | {"added": start.record.get("added", {}) | added}
            if not self.arguments.only_new:
                styles = start.styles | styles
        with _saving(self.out):
            models.save_checkpoint(self.out, self.average, styles, record)

    @property
    def _chooses_codes(self) -> bool:
        # A refinement leaves the built-in codes as they are.
        return self.arguments.codes == "chosen" and self.arguments.train != "refinement"

    def choose_codes(self) -> None:
        """The checkpoint once more, with the codes that repaint training photos best."""
        learned, start = self.learned_codes(), self.arguments.start
        given = {}
        for name in self.styles:
            given[name] = {f"learned {i}": c for i, c in enumerate(learned.get(name, ()), 1)}
            # A code still paints much as it did, unless the network moved far.
            before = start.styles.get(name, ()) if start is not None else ()
            given[name] |= {f"before {i}": c for i, c in enumerate(before, 1)}
        try:
            grounds = self.arguments.grounds
            chooser = Chooser(self.average, self.photos, self.styles, self.device, grounds=grounds)
            chosen = chooser.best(given=given)
        except FileNotFoundError as error:
            self._say(f"codes are medoids, not chosen: {error}")
            return
        codes = {name: choice.codes for name, choice in chosen.items()}
        self._save_checkpoint(codes, {"codes": record_of(chosen)})

    # -- one step

    @property
    def _paintings(self) -> list[PictureFolder]:
        """The folders of paintings as a plan numbers them: the styles', the learned codes'."""
        return [*self.styles.values(), *(variant.folder for variant in self.variants)]

    def _batches(self) -> Batches:
        return Batches(
            self.draw,
            self._plan,
            PictureMaker(self.photos, self._paintings, self.arguments.grain),
            workers=self.arguments.workers or 0,
            pinned=self._on_gpu,
        )

    def batch(self) -> Batch:
        """Random photos, and as many paintings of styles drawn alike, however unequal."""
        plan, pictures = self.batches.next()
        photos, paintings, given = (
            None if t is None else t.to(self.device, non_blocking=True) for t in pictures
        )
        domains = torch.tensor(plan.domains, device=self.device)
        own, plain = self.arguments.grounds, models.Ground()
        grounds = tuple(own.get(self.domains[i], plain) for i in plan.domains) if own else ()
        times = self.arguments.calm
        calm = tuple(times.get(self.domains[i], 1.0) for i in plan.domains) if times else ()
        return Batch(
            photos, paintings, domains, given, plan.taught, plan.window, plan.canvas, grounds, calm
        )

    def _plan(self) -> Plan:
        """Draws what a batch is made of.

        All processes draw the whole batch and each takes its part, so that together they see what
        one process with the larger batch would.
        """
        size, (count, taught) = self.arguments.size, self._batch_counts()
        numbers = [self._variant(name) for name in self._names(taught, self._taught_names())]
        names = [self.variants[number].name for number in numbers]
        names += self._names(count - taught, list(self.styles))
        wanted = [len(self.styles) + number for number in numbers]
        wanted += [list(self.styles).index(name) for name in names[taught:]]
        part = slice(self.processes.rank, None, self.processes.count)
        paintings = self._paintings
        folders = [paintings[number] for number in wanted]
        photos = draw_crops([self.photos] * count, size, self.draw, SMALLEST_PHOTO, part)
        crops = draw_crops(folders, size, self.draw, SMALLEST_PAINTING, part)
        grains = [self.draw.randrange(2**62) for _ in range(count if self.arguments.grain else 0)]
        return Plan(
            photos,
            list(zip(wanted[part], crops, strict=True)),
            grains[part],
            [self.domains.index(name) for name in names[part]],
            tuple(numbers[part]),
            (self.draw.randrange(JITTER), self.draw.randrange(JITTER)),
            self._canvas(count, part),
        )

    def _canvas(self, count: int, part: slice) -> Canvas:
        """A place for each photo of a part of the batch, where the network sees strokes."""
        if not self.arguments.config.strokes:
            return Canvas()
        place = functools.partial(self.draw.randrange, strokes.SIDE)
        return Canvas([(place(), place()) for _ in range(count)][part])

    def _batch_counts(self) -> tuple[int, int]:
        """Photos in a batch, all processes together, and how many learned codes paint."""
        count = self.arguments.batch
        taught = 0
        if self.arguments.train == "codes":
            taught = count
        elif self.variants:
            taught = min(count - 1, round(count * LEARNED_SHARE))
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

    def _weights(self, progress: float) -> Weights:
        weights = self.arguments.weights
        # A trained network has its colors and strokes already.
        return weights if self.arguments.start is not None else at_progress(weights, progress)

    def _rates(self, progress: float) -> None:
        rate = self.rate * learning_rate_share(self.step, progress)
        factor = NEW_CODE_RATE if self.arguments.train == "codes" else CODE_RATE
        for name, optimizer in self.optimizers.items():
            for group in optimizer.param_groups:
                group["lr"] = rate * (factor if name == "codes" else 1)

    def train_step(self, progress: float) -> None:
        """One step of the generator and one of the discriminator: both, or neither.

        Raises:
            TrainingError: a loss or a gradient that is not finite; nothing has moved.
        """
        self._rates(progress)
        weights, batch = self._weights(progress), self.batch()
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
                losses["judge's"] = terms["discriminator"] = self.judge(judged, batch.domains)
            self._backward(losses["judge's"], ("judge",))
        self._descend(losses, terms)
        self._follow()
        self.step += 1
        self.summed += 1

    def _autocast(self) -> torch.autocast:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.arguments.bf16)

    def _backward(self, loss: Tensor, names: Sequence[str]) -> None:
        for name in names:
            if name in self.optimizers:
                self.optimizers[name].zero_grad(set_to_none=True)
        loss.backward()

    def _descend(self, losses: dict[str, Tensor], terms: dict[str, Tensor]) -> None:
        """The optimizers' step down the gradients, if all numbers are finite."""
        norms = [
            nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], CLIP)
            for optimizer in self.optimizers.values()
        ]
        means = self.processes.mean(
            torch.stack([loss.detach().float() for loss in losses.values()])
        )
        singles = [x.detach().float().to(self.device) for x in (*norms, *terms.values())]
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
        for name, value in zip(terms, values[-len(terms) :], strict=True):
            self.sums[name] += value

    @torch.no_grad()
    def _follow(self) -> None:
        """The averages, one step after what they average."""
        follow = get_ema_multi_avg_fn(min(EMA, (1 + self.step) / (10 + self.step)))
        averaged, parameters = list(self.average_codes.parameters()), list(self.codes.parameters())
        if self.arguments.train != "codes":
            averaged += self.average.parameters()
            parameters += self.network.parameters()
        follow(averaged, parameters, None)

    def _not_finite(self, what: str) -> NotFiniteError:
        return NotFiniteError(
            f"step {self.step}: {what}; the last checkpoint and state are untouched: go on with "
            f"--resume {self.state_path} and a smaller --learning-rate"
        )

    # -- the loop

    def progress(self) -> float:
        """Share of the run that is done, 0 to 1."""
        if self.arguments.steps is not None:
            return min(1.0, self.step / self.arguments.steps)
        return min(1.0, self.seconds / (60 * self.arguments.minutes))

    def train(self) -> None:
        """Runs to the end, or to the first signal to stop, and saves.

        Raises:
            StoppedError: a signal came; all is saved.
            SaveError: the last files could not be written.
            TrainingError: a loss that is not finite.
        """
        caught: list[int] = []
        handlers = {s: signal.signal(s, lambda n, _: caught.append(n)) for s in _signals()}
        bar = self._bar()
        if self.step == 0 and self.processes.first:
            self.out.with_suffix(".csv").unlink(missing_ok=True)
        try:
            stop = self._loop(bar, caught)
            bar.set_description("saving")
            try:
                if self.processes.first:
                    self.save()
                    if not stop and self._chooses_codes:
                        self.choose_codes()
            finally:
                if stop:
                    # The one that writes is not left alone: torchrun ends it with the others.
                    self.processes.wait()
        finally:
            bar.close()
            for number, handler in handlers.items():
                signal.signal(number, handler)
        if stop:
            raise StoppedError(
                f"stopped at step {self.step}, all is saved; --resume {self.state_path} goes on",
                stop,
            )

    def _loop(self, bar: tqdm, caught: Sequence[int]) -> int:
        """Trains to the end (0) or to a signal (its number)."""
        clock = saved = time.monotonic()
        stop = 0
        while self.progress() < 1 and not stop:
            try:
                self.train_step(self.progress())
            except NotFiniteError:
                if self.failed >= self.arguments.skip_not_finite:
                    raise
                self.failed += 1
                self.step += 1
            now = time.monotonic()
            seconds, number = self.seconds + now - clock, caught[0] if caught else 0
            # All processes end at the same step.
            self.seconds, stop = self.processes.largest(seconds, number)
            clock = now
            bar.update((self.step if self._by_steps else round(self.seconds)) - bar.n)
            if self.step % LOG_STEPS == 0 and self.summed:
                self._log(bar)
            if now - saved > 60 * self.arguments.checkpoint_minutes:
                if self.processes.first:
                    self._save_on_the_way()
                clock = saved = time.monotonic()
        if self.summed:
            self._log(bar)
        return int(stop)

    def _save_on_the_way(self) -> None:
        try:
            self.save()
        except SaveError as error:  # a full disk may be emptied before the end
            self._say(f"error: {error}; training goes on")

    @property
    def _by_steps(self) -> bool:
        return self.arguments.steps is not None

    def _bar(self) -> tqdm:
        return tqdm(
            total=self.arguments.steps if self._by_steps else round(60 * self.arguments.minutes),
            initial=self.step if self._by_steps else round(self.seconds),
            unit="step" if self._by_steps else "s",
            desc="training",
            mininterval=1.0 if sys.stderr.isatty() else 30.0,
            disable=not self.processes.first,
        )

    def _log(self, bar: tqdm) -> None:
        self.recent = {k: v / self.summed for k, v in sorted(self.sums.items())}
        self.sums.clear()
        self.summed = 0
        if not self.processes.first:
            return
        shown = " ".join(f"{k} {v:.3f}" for k, v in self.recent.items())
        bar.set_postfix_str(f"step {self.step} {shown}", refresh=False)
        names = [*sorted(asdict(self.arguments.weights)), "discriminator"]
        values = [f"{self.recent[n]:.4f}" if n in self.recent else "" for n in names]
        path = self.out.with_suffix(".csv")
        try:
            with open(path, "a", newline="") as log:
                writer = csv.writer(log)
                if log.tell() == 0:
                    writer.writerow(["step", "seconds", *names])
                writer.writerow([self.step, round(self.seconds), *values])
        except OSError as error:
            self._say(f"warning: {path}: {error.strerror}; a line of the log is lost")

    def _say(self, line: str) -> None:
        if self.processes.first:
            tqdm.write(line, file=sys.stderr)


def _signals() -> tuple[signal.Signals, ...]:
    return (signal.SIGINT, signal.SIGTERM)


@contextmanager
def _saving(path: Path, temporary: Path | None = None) -> Iterator[None]:
    """Whatever a writer raises as one line that names the file."""
    try:
        yield
    except models.CheckpointError as error:
        raise SaveError(str(error)) from error
    except (OSError, RuntimeError, SafetensorError, images.ImageError) as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise SaveError(
            f"{path}: could not be saved ({reason}); what was there before is untouched"
        ) from error
