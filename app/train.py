"""Train a network: folders of photos and paintings in, a checkpoint with their styles out.

python -m app.train --photos FOLDER --style NAME=FOLDER ... --out FILE.safetensors --minutes 120
"""

from __future__ import annotations

import argparse
import copy
import csv
import math
import os
import platform
import random
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from tqdm import tqdm

import models
from app import images
from app.codes import choose, record_of, style_folders
from app.dataset import PictureFolder, draw_crops
from app.painter import available_device
from models import losses

# --- settings ---------------------------------------------------------------------------------

LEARNING_RATE = 4e-4  # perceptual recipe: found by the trial
PAPER_LEARNING_RATE = 1e-4
PERCEPTUAL_BETAS, PAPER_BETAS = (0.5, 0.99), (0.5, 0.999)
WEIGHT_DECAY = 1e-4
CLIP = 5.0  # norm of the gradient; rarely reached
EMA = 0.99  # of some thousand steps, 0.999 would average over half of the run
CODE_EMA = 0.99  # a code is seen every few steps, so its average reaches less far back
CONTENT_LAYER = "relu3_3"
# Deeper layers carry strokes, shallow ones color, which the hops transfer by themselves.
STYLE_LAYERS = {"relu1_1": 0.5, "relu2_1": 1.0, "relu3_1": 1.5, "relu4_1": 1.5}
FEATURE_LAYERS = ("relu2_1", "relu3_1", "relu4_1")  # what the discriminator sees
SMALLEST_PHOTO, SMALLEST_PAINTING = 0.625, 0.85  # crops: paintings stay near their full scale
JITTER = 8  # pixels cut at random before the perceptual network, so that its pooling grid moves
CODES = 4  # style codes kept a style while training
CANDIDATES = 12  # paintings a style among which they are chosen
LEARNED_SHARE = 2 / 3  # of a batch; the rest keeps the network good for any painting
CODE_RATE = 3.0  # of the network's learning rate: a code is one layer deep and seen less often
LOG_STEPS = 10
SHEET_SIZE, SHEET_PHOTOS = 192, 6


@dataclass(frozen=True)
class Weights:
    """How much each loss counts; a loss of weight 0 is not computed."""

    content: float = 0.0  # perceptual, of the photo
    style: float = 0.0  # perceptual, of the painting
    variation: float = 0.0
    adversarial: float = 0.0
    reconstruction: float = 0.0
    cycle: float = 0.0
    content_code: float = 0.0
    style_code: float = 0.0
    whitening: float = 0.0  # GD-WCT's regularizers
    coloring: float = 0.0

    @property
    def perceptual(self) -> bool:
        return self.content > 0 or self.style > 0


PERCEPTUAL = Weights(content=0.6, style=6, variation=0.2, adversarial=0.4, reconstruction=3)
PAPER = Weights(adversarial=1, reconstruction=10, cycle=10, content_code=1, style_code=1)
GD = replace(PAPER, whitening=0.001, coloring=10)


def at_progress(weights: Weights, progress: float) -> Weights:
    """The perceptual recipe's order: colors first, then strokes, then the discriminator."""
    if not weights.perceptual:
        return weights
    strokes = min(1.0, 1 / 3 + progress / 0.3)
    adversarial = min(1.0, max(0.0, (progress - 0.25) / 0.2))
    return replace(
        weights, style=weights.style * strokes, adversarial=weights.adversarial * adversarial
    )


def learning_rate_share(step: int, progress: float) -> float:
    """Up over 100 steps, flat to the middle, then a cosine down to 3%."""
    down = max(0.0, (progress - 0.5) / 0.5)
    return min(1.0, (step + 1) / 100) * (0.03 + 0.97 * (1 + math.cos(math.pi * down)) / 2)


class TrainingError(RuntimeError):
    """Training can't go on; the message says why and what is safe."""


# --- losses -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Batch:
    """Photos and paintings (B, 3, size, size) in [-1, 1] and the paintings' domains (B,).

    Where codes are learned, the first photos are painted with them, and their paintings only say
    what the result should look like.
    """

    photos: Tensor
    paintings: Tensor
    domains: Tensor
    learned: models.StyleCode | None = None  # codes of the first photos, instead of paintings'


class Losses:
    """Computes the losses of one step; holds the frozen judge and the learning one."""

    def __init__(
        self,
        network: models.Repainter,
        perceptual: models.PerceptualNetwork | None,
        discriminator: nn.Module | None,
        photo_domain: int,
    ) -> None:
        self.network, self.perceptual = network, perceptual
        self.discriminator, self.photo_domain = discriminator, photo_domain

    def _features(self, image: Tensor, layers: tuple[str, ...]) -> dict[str, Tensor]:
        return self.perceptual(image, layers)

    def _judged(self, image: Tensor, features: Mapping[str, Tensor] | None):
        """What the discriminator looks at: features where there are some, else pixels."""
        if isinstance(self.discriminator, models.FeatureDiscriminator):
            return {layer: features[layer] for layer in FEATURE_LAYERS}
        return image

    def generator(
        self, batch: Batch, weights: Weights, draw: random.Random
    ) -> tuple[dict[str, Tensor], tuple]:
        """The generator's losses by name, and what the discriminator's step needs."""
        network, x, y = self.network, batch.photos, batch.paintings
        terms: dict[str, Tensor] = {}
        learned = 0 if batch.learned is None else len(batch.learned.tensors[0])
        own_y, style_y = network.reconstruct(y[learned:])
        if batch.learned is not None:
            style_y = models.StyleCode.cat([batch.learned, style_y])
        covariances: list[Tensor] | None = [] if weights.whitening > 0 else None
        content_x = network.encode_content(x)
        painted = network.generate(content_x, style_y, covariances=covariances)
        if weights.reconstruction > 0:
            terms["reconstruction"] = F.l1_loss(own_y, y[learned:])
        if weights.cycle > 0:
            self._paper_terms(batch, content_x, style_y, painted, terms)
        if weights.content_code > 0 or weights.style_code > 0:
            if weights.content_code > 0:
                again = network.encode_content(painted)
                terms["content_code"] = F.l1_loss(again, content_x.detach())
            if weights.style_code > 0:
                _, style_again = network.reconstruct(painted)
                terms["style_code"] = losses.style_code_loss(style_again, style_y.detach())
        if covariances is not None:
            terms["whitening"] = losses.whitening_penalty(covariances)
        if weights.coloring > 0:
            matrices = [mlp(style_y.tensors[0])[0] for mlp in network.mlps]
            terms["coloring"] = losses.coloring_penalty(matrices)
        if weights.variation > 0:
            terms["variation"] = losses.total_variation(painted)
        features = targets = None
        if self.perceptual is not None:
            top, left = draw.randrange(JITTER), draw.randrange(JITTER)
            height, width = (side - JITTER for side in x.shape[-2:])
            window = (..., slice(top, top + height), slice(left, left + width))
            layers = tuple(sorted({CONTENT_LAYER, *STYLE_LAYERS}))
            with torch.no_grad():
                targets = self._features(torch.cat([x[window], y[window]]), layers)
            features = self._features(painted[window], layers)
            of_x = {k: v[: len(x)] for k, v in targets.items()}
            of_y = {k: v[len(x) :] for k, v in targets.items()}
            terms["content"] = losses.content_loss(features[CONTENT_LAYER], of_x[CONTENT_LAYER])
            terms["style"] = losses.style_loss(features, of_y, STYLE_LAYERS)
        else:
            of_x = of_y = None
        judged = None
        if self.discriminator is not None and weights.adversarial > 0:
            self.discriminator.requires_grad_(False)
            heads = self.discriminator.all_heads(self._judged(painted, features))
            self.discriminator.requires_grad_(True)
            terms["adversarial"] = losses.generator_adversarial(heads, batch.domains)
        if self.discriminator is not None:
            judged = (
                self._judged(x, of_x),
                self._judged(y, of_y),
                _detach(self._judged(painted, features)),
            )
        return terms, judged

    def _paper_terms(
        self,
        batch: Batch,
        content_x: Tensor,
        style_y: models.StyleCode,
        painted: Tensor,
        terms: dict[str, Tensor],
    ) -> None:
        """The other way round, painting to photo, and the way back of both."""
        network, x, y = self.network, batch.photos, batch.paintings
        own_x, style_x = network.reconstruct(x)
        terms["reconstruction"] = terms.get("reconstruction", 0) + F.l1_loss(own_x, x)
        content_y = network.encode_content(y)
        photographed = network.generate(content_y, style_x)
        back_x = network.generate(network.encode_content(painted), style_x)
        back_y = network.generate(network.encode_content(photographed), style_y)
        terms["cycle"] = F.l1_loss(back_x, x) + F.l1_loss(back_y, y)

    def discriminator_loss(self, judged: tuple, batch: Batch) -> Tensor:
        """LSGAN a head a domain; photos and other domains' paintings count as false too.

        A painting shown to another painter's head teaches what tells the two apart, which is what
        a style is; it costs nothing, since all heads are computed together.
        """
        of_x, of_y, of_painted = judged
        index = torch.arange(len(batch.domains), device=batch.domains.device)
        photo = torch.full_like(batch.domains, self.photo_domain)
        total = 0.0
        real = self.discriminator.all_heads(of_y)
        fake = self.discriminator.all_heads(of_painted)
        photos = self.discriminator.all_heads(of_x)
        for scores_y, scores_p, scores_x in zip(real, fake, photos, strict=True):
            own = torch.zeros_like(scores_y[:, :, :1, :1])
            own[index, batch.domains] = 1.0
            photo_own = torch.zeros_like(own)
            photo_own[index, photo] = 1.0
            true = (scores_y - 1).square() * own + (scores_x - 1).square() * photo_own
            false = scores_p.square() * own
            others = scores_y.square() * (1 - own) + scores_x.square() * (1 - photo_own)
            per_image = (true + 2 * false).mean((2, 3)).sum(1) / 2
            total = total + (per_image + others.mean((2, 3)).sum(1) / (own.shape[1] - 1)).mean()
        return total / len(real)


def _detach(value):
    if isinstance(value, Mapping):
        return {k: v.detach() for k, v in value.items()}
    return value.detach()


# --- styles and samples -----------------------------------------------------------------------


def medoids(rows: Tensor, count: int) -> list[int]:
    """Indices of the rows (N, D) that stand for all: each next one lowers the sum of distances
    to the nearest chosen row the most."""
    spread = rows.std(0).clamp_min(1e-6) if len(rows) > 1 else torch.ones(rows.shape[1])
    distances = torch.cdist(rows / spread, rows / spread)
    nearest = torch.full((len(rows),), math.inf)
    chosen: list[int] = []
    for _ in range(min(count, len(rows))):
        sums = torch.minimum(nearest, distances).sum(1)
        sums[chosen] = math.inf
        chosen.append(int(sums.argmin()))
        nearest = torch.minimum(nearest, distances[chosen[-1]])
    return chosen


def medoid_codes(
    network: models.Repainter, folder: PictureFolder, device: torch.device
) -> list[models.StyleCode]:
    """Codes of the paintings that stand best for a folder, among some spread over it."""
    count = min(CANDIDATES, len(folder))
    indices = [i * len(folder) // count for i in range(count)]
    codes = [network.encode_style(folder.tensor(i).to(device)) for i in indices]
    rows = torch.cat([code.flatten().cpu() for code in codes])
    return [codes[i] for i in medoids(rows, CODES)]


@torch.no_grad()
def sample_sheet(
    network: models.Repainter,
    photos: PictureFolder,
    styles: Mapping[str, PictureFolder],
    path: Path,
    device: torch.device,
) -> None:
    """A PNG of photos across and styles down, each row led by its painting."""
    count = min(SHEET_PHOTOS, len(photos))
    row = [photos.square(i * len(photos) // count, SHEET_SIZE).to(device) for i in range(count)]
    blank = torch.ones_like(row[0])
    rows = [torch.cat([blank, *row], -1)]
    for folder in styles.values():
        for i in (len(folder) // 3, 2 * len(folder) // 3):
            painting = folder.square(i, SHEET_SIZE).to(device)
            code = network.encode_style(folder.tensor(i).to(device))
            rows.append(torch.cat([painting, *(network.repaint(x, code) for x in row)], -1))
    sheet = images.Picture(images.to_rgb(torch.cat(rows, -2)), name=path.name)
    images.save(sheet, path, "png")


# --- the run ----------------------------------------------------------------------------------


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m app.train",
        description="Train a network on folders of photos and paintings.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--photos", required=True, help="folder of photos")
    add("--style", required=True, action="append", metavar="NAME=FOLDER", help="repeat for more")
    add("--out", required=True, metavar="FILE.safetensors", help="the checkpoint to write")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--steps", type=int, help="train for this many steps")
    length.add_argument("--minutes", type=float, help="train for this long (120 if neither)")
    add("--coloring", choices=("statistics", "mlp"), help="(statistics; mlp with --method gd)")
    add("--method", choices=("svd", "gd"), default="svd", help="how features are whitened")
    add("--gradient", default="exact", help="rule of the matrix roots: exact, taylor, pade, ...")
    add("--width", type=int, default=24, help="channels of the first convolution")
    add("--blocks", type=int, default=4, help="residual blocks")
    add("--group-size", type=int, help="channels a whitening group (statistics: the width)")
    add("--size", type=int, default=160, help="side of the training crops, pixels")
    add("--batch", type=int, default=2, help="photos a step")
    add("--perceptual", metavar="hed|vgg16|FILE|none", help="(hed; none with coloring mlp)")
    add("--weight", action="append", default=[], metavar="LOSS=VALUE", help="override a weight")
    add("--learning-rate", type=float, help=f"({LEARNING_RATE}; without perceptual 1e-4)")
    add(
        "--learn",
        action="append",
        default=[],
        metavar="NAME=FOLDER",
        help="learn a code for the style NAME from these of its paintings, beside the network",
    )
    add("--init", metavar="FILE", help="start from this checkpoint's network")
    add("--resume", metavar="FILE", help="go on from FILE.state.pt of a run that was cut off")
    add("--device", default="auto", choices=("auto", "cpu", "cuda", "mps"))
    add("--bf16", action="store_true", help="autocast to bfloat16 outside the spectral layers")
    add("--seed", type=int, default=0)
    add(
        "--codes",
        choices=("chosen", "medoids"),
        default="chosen",
        help="built-in codes at the end: by a judge on training photos, or the fast way",
    )
    add("--checkpoint-minutes", type=float, default=5, help="between checkpoints and sheets")
    arguments = parser.parse_args(argv)
    try:
        _check(arguments)
    except ValueError as error:
        parser.error(str(error))
    return arguments


def _check(arguments: argparse.Namespace) -> None:
    if arguments.coloring is None:
        arguments.coloring = "mlp" if arguments.method == "gd" else "statistics"
    if arguments.perceptual is None:
        arguments.perceptual = "none" if arguments.coloring == "mlp" else "hed"
    if not arguments.perceptual.endswith(".safetensors") and arguments.perceptual not in (
        *models.perceptual.SOURCES,
        "none",
    ):
        raise ValueError(
            "--perceptual must be hed, vgg16, a .safetensors file or none, "
            f"got {arguments.perceptual!r}"
        )
    if arguments.group_size is None:
        arguments.group_size = min(32, arguments.width * (4 if arguments.coloring == "mlp" else 1))
    if arguments.steps is None and arguments.minutes is None:
        arguments.minutes = 120.0
    for name in ("steps", "minutes", "batch", "checkpoint_minutes", "learning_rate"):
        value = getattr(arguments, name)
        if value is not None and not value > 0:
            raise ValueError(f"--{name.replace('_', '-')} must be positive, got {value}")
    if arguments.size < 64 or arguments.size % 4:
        raise ValueError(f"--size must be a multiple of 4, at least 64, got {arguments.size}")
    if not arguments.out.endswith(".safetensors"):
        raise ValueError(f"--out must end in .safetensors, got {arguments.out}")
    arguments.styles = style_folders(arguments.style)
    arguments.learned = style_folders(arguments.learn)
    if unknown := sorted(set(arguments.learned) - set(arguments.styles)):
        raise ValueError(f"--learn {unknown[0]}: there is no --style of that name")
    if arguments.learned and arguments.batch < 2:
        raise ValueError("--learn needs a --batch of at least 2: a code and a painting a step")
    base = PERCEPTUAL if arguments.perceptual != "none" else PAPER
    if arguments.method == "gd":
        base = replace(base, whitening=GD.whitening, coloring=GD.coloring)
    changes = {}
    for pair in arguments.weight:
        name, _, value = pair.partition("=")
        if name not in asdict(base):
            raise ValueError(f"unknown loss {name!r}; there are {', '.join(asdict(base))}")
        try:
            changes[name] = float(value)
        except ValueError:
            raise ValueError(f"--weight must be LOSS=NUMBER, got {pair!r}") from None
        if not changes[name] >= 0:
            raise ValueError(f"a weight can't be negative: {pair!r}")
    arguments.weights = replace(base, **changes)
    if arguments.perceptual == "none" and arguments.weights.perceptual:
        raise ValueError("the losses content and style need --perceptual hed or vgg16")
    # Checks the shape; --init brings its own.
    arguments.config = models.RepainterConfig(
        width=arguments.width,
        blocks=arguments.blocks,
        group_size=arguments.group_size,
        coloring=arguments.coloring,
        method=arguments.method,
        gradient=arguments.gradient,
    )


class Run:
    """A training run: everything that a resumed one must find again."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments, self.out = arguments, Path(arguments.out)
        self.device = available_device(arguments.device)
        self.draw = random.Random(arguments.seed)
        torch.manual_seed(arguments.seed)
        self.photos = PictureFolder(arguments.photos, name="photo")
        self.styles = {n: PictureFolder(f, name=n) for n, f in arguments.styles.items()}
        self.domains = [*self.styles, "photo"]
        config = arguments.config
        if arguments.init:
            start = models.load_checkpoint(arguments.init)
            config = replace(start.network.config, gradient=arguments.gradient)
        self.network = models.Repainter(config)
        if arguments.init:
            self.network.load_state_dict(start.network.state_dict())
        self.network.to(self.device)
        self.average = copy.deepcopy(self.network).eval().requires_grad_(False)
        self.learned = {n: PictureFolder(f, name=n) for n, f in arguments.learned.items()}
        self.codes = self._first_codes() if self.learned else None
        self.average_codes = copy.deepcopy(self.codes)
        perceptual = None
        if arguments.perceptual != "none":
            perceptual = models.PerceptualNetwork(arguments.perceptual).to(self.device)
        self.discriminator = None
        if arguments.weights.adversarial > 0:
            if perceptual is not None:
                channels = {k: models.perceptual.CHANNELS[k] for k in FEATURE_LAYERS}
                self.discriminator = models.FeatureDiscriminator(channels, len(self.domains))
            else:
                self.discriminator = models.MultiScaleDiscriminator(
                    len(self.domains), width=2 * config.width
                )
            self.discriminator.to(self.device)
        paper = perceptual is None
        self.rate = arguments.learning_rate or (PAPER_LEARNING_RATE if paper else LEARNING_RATE)
        betas = PAPER_BETAS if paper else PERCEPTUAL_BETAS
        decay = WEIGHT_DECAY if paper else 0.0
        self.optimizers = {
            name: torch.optim.Adam(module.parameters(), self.rate, betas=betas, weight_decay=decay)
            for name, module in (("generator", self.network), ("judge", self.discriminator))
            if module is not None
        }
        if self.codes is not None:
            self.optimizers["codes"] = torch.optim.Adam(
                self.codes.parameters(), self.rate, betas=betas
            )
        self.losses = Losses(
            self.network, perceptual, self.discriminator, self.domains.index("photo")
        )
        self.step, self.seconds = 0, 0.0
        self.sums: dict[str, float] = defaultdict(float)
        self.summed = 0  # steps; a resumed run may begin in the middle of LOG_STEPS
        self.recent: dict[str, float] = {}

    def _first_codes(self) -> nn.ModuleDict:
        """A code a learned style, from the first of its paintings, as parameters."""
        codes = {}
        for name, folder in self.learned.items():
            code = self.average.encode_style(folder.tensor(0).to(self.device))
            codes[name] = nn.ParameterList(nn.Parameter(t.clone()) for t in code.tensors)
        return nn.ModuleDict(codes)

    # -- files

    @property
    def state_path(self) -> Path:
        return self.out.with_suffix(".state.pt")

    def save_state(self) -> None:
        """Everything needed to go on, written beside the checkpoint in one move."""
        state = {
            "config": asdict(self.network.config),
            "domains": self.domains,
            "step": self.step,
            "seconds": self.seconds,
            "recent": self.recent,
            "draw": self.draw.getstate(),
            "torch": torch.get_rng_state(),
            "network": self.network.state_dict(),
            "average": self.average.state_dict(),
            "discriminator": self.discriminator.state_dict() if self.discriminator else None,
            "codes": self.codes.state_dict() if self.codes is not None else None,
            "average_codes": self.average_codes.state_dict() if self.codes is not None else None,
            "optimizers": {k: v.state_dict() for k, v in self.optimizers.items()},
        }
        temporary = self.state_path.with_suffix(".tmp")
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
        if self.codes is not None:
            self._load_codes(state)
        for name, optimizer in self.optimizers.items():
            if name in state["optimizers"]:
                optimizer.load_state_dict(state["optimizers"][name])
        version, internal, gauss = state["draw"]
        self.draw.setstate((version, tuple(internal), gauss))
        torch.set_rng_state(state["torch"])
        self.step, self.seconds, self.recent = state["step"], state["seconds"], state["recent"]

    def _load_codes(self, state: dict) -> None:
        if state.get("codes") is None:  # learning begins with this resume, where the network is
            self.codes.load_state_dict(self._first_codes().state_dict())
            self.average_codes.load_state_dict(self.codes.state_dict())
            return
        try:
            self.codes.load_state_dict(state["codes"])
            self.average_codes.load_state_dict(state["average_codes"])
        except RuntimeError as error:
            raise TrainingError(f"the state learned other codes ({error})") from None

    def record(self) -> dict:
        """What the checkpoint's header says of its training."""
        return {
            "data": {"photo": len(self.photos)} | {k: len(v) for k, v in self.styles.items()},
            "steps": self.step,
            "minutes": round(self.seconds / 60, 1),
            "crop": self.arguments.size,
            "batch": self.arguments.batch,
            "device": f"{self.device.type}, {torch.get_num_threads()} threads"
            if self.device.type == "cpu"
            else torch.cuda.get_device_name(),
            "machine": platform.machine(),
            "torch": torch.__version__.split("+")[0],
            "weights": {k: v for k, v in asdict(self.arguments.weights).items() if v},
            "losses": {k: round(v, 4) for k, v in self.recent.items()},
            "seed": self.arguments.seed,
        } | ({"learned_from": {k: len(v) for k, v in self.learned.items()}} if self.learned else {})

    def save(self) -> None:
        """State, checkpoint and sample sheet, the last two from the averaged weights."""
        self.save_state()
        styles = {n: medoid_codes(self.average, f, self.device) for n, f in self.styles.items()}
        for name in self.learned:
            styles[name] = [self._learned_code(self.average_codes, [name]), *styles[name]]
        models.save_checkpoint(self.out, self.average, styles, self.record())
        sheet = self.out.with_suffix(".samples.png")
        sample_sheet(self.average, self.photos, self.styles, sheet, self.device)

    def choose_codes(self) -> None:
        """The checkpoint once more, with the codes that repaint training photos best."""
        learned = {n: [self._learned_code(self.average_codes, [n])] for n in self.learned}
        try:
            chosen = choose(self.average, self.photos, self.styles, self.device, given=learned)
        except FileNotFoundError as error:
            print(f"codes are medoids, not chosen: {error}", file=sys.stderr)
            return
        codes = {name: choice.codes for name, choice in chosen.items()}
        record = self.record() | {"codes": record_of(chosen)}
        models.save_checkpoint(self.out, self.average, codes, record)

    # -- one step

    @staticmethod
    def _learned_code(codes: nn.ModuleDict, names: Sequence[str]) -> models.StyleCode:
        return models.StyleCode.cat([models.StyleCode(tuple(codes[name])) for name in names])

    def batch(self) -> Batch:
        """Random photos, and as many paintings of styles drawn alike, however unequal."""
        size, count = self.arguments.size, self.arguments.batch
        taught = min(count - 1, round(count * LEARNED_SHARE)) if self.learned else 0
        taught_names = self._names(taught, self.learned)
        names = [*taught_names, *self._names(count - taught, self.styles)]
        photos = draw_crops([self.photos] * count, size, self.draw, SMALLEST_PHOTO)
        folders = [self.learned[n] for n in taught_names]
        folders += [self.styles[n] for n in names[taught:]]
        paintings = draw_crops(folders, size, self.draw, SMALLEST_PAINTING)
        return Batch(
            torch.cat(photos).to(self.device),
            torch.cat(paintings).to(self.device),
            torch.tensor([self.domains.index(n) for n in names], device=self.device),
            self._learned_code(self.codes, taught_names) if taught else None,
        )

    def _names(self, count: int, styles: Mapping[str, PictureFolder]) -> list[str]:
        # Without replacement as far as it goes: a batch shows as many styles as it can.
        names: list[str] = []
        while len(names) < count:
            names += self.draw.sample(list(styles), len(styles))
        return names[:count]

    def train_step(self, progress: float) -> None:
        """One step of the generator and one of the discriminator.

        Raises:
            TrainingError: a loss that is not finite.
        """
        share = learning_rate_share(self.step, progress)
        for name, optimizer in self.optimizers.items():
            for group in optimizer.param_groups:
                group["lr"] = self.rate * share * (CODE_RATE if name == "codes" else 1)
        weights = at_progress(self.arguments.weights, progress)
        batch = self.batch()
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.arguments.bf16):
            try:
                terms, judged = self.losses.generator(batch, weights, self.draw)
            except ValueError as error:  # wct's, of a covariance that is not finite
                raise self._not_finite(str(error)) from error
            total = sum(getattr(weights, name) * term for name, term in terms.items())
        if self.codes is not None:
            self.optimizers["codes"].zero_grad(set_to_none=True)
        self._descend("generator", total, self.network)
        if self.codes is not None:
            nn.utils.clip_grad_norm_(self.codes.parameters(), CLIP)
            self.optimizers["codes"].step()
        if judged is not None:
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.arguments.bf16):
                terms["discriminator"] = self.losses.discriminator_loss(judged, batch)
            self._descend("judge", terms["discriminator"], self.discriminator)
        decay = min(EMA, (1 + self.step) / (10 + self.step))
        with torch.no_grad():
            pairs = zip(self.average.parameters(), self.network.parameters(), strict=True)
            for average, parameter in pairs:
                average.lerp_(parameter, 1 - decay)
            if self.codes is not None:
                pairs = zip(self.average_codes.parameters(), self.codes.parameters(), strict=True)
                for average, parameter in pairs:
                    average.lerp_(parameter, 1 - CODE_EMA)
        self.step += 1
        self.summed += 1
        for name, term in terms.items():
            self.sums[name] += float(term.detach())

    def _descend(self, name: str, loss: Tensor, module: nn.Module) -> None:
        if not bool(torch.isfinite(loss)):
            raise self._not_finite(f"the {name}'s loss is {float(loss)}")
        optimizer = self.optimizers[name]
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(module.parameters(), CLIP)
        if not bool(torch.isfinite(norm)):
            raise self._not_finite(f"the {name}'s gradient is not finite")
        optimizer.step()

    def _not_finite(self, what: str) -> TrainingError:
        return TrainingError(
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
        """Runs to the end, or to the first signal to stop, and saves."""
        stop: list[int] = []
        handlers = {s: signal.signal(s, lambda n, _: stop.append(n)) for s in _signals()}
        by_steps = self.arguments.steps is not None
        bar = tqdm(
            total=self.arguments.steps if by_steps else round(60 * self.arguments.minutes),
            initial=self.step if by_steps else round(self.seconds),
            unit="step" if by_steps else "s",
            desc="training",
            mininterval=1.0 if sys.stderr.isatty() else 30.0,
        )
        log = self._open_log()
        clock = saved = time.monotonic()
        try:
            while self.progress() < 1 and not stop:
                self.train_step(self.progress())
                now = time.monotonic()
                self.seconds += now - clock
                clock = now
                bar.update((self.step if by_steps else round(self.seconds)) - bar.n)
                if self.step % LOG_STEPS == 0:
                    self._log(log, bar)
                if now - saved > 60 * self.arguments.checkpoint_minutes:
                    self.save()
                    clock = saved = time.monotonic()
            bar.set_description("saving")
            self.save()
            if not stop and self.arguments.codes == "chosen":
                self.choose_codes()
        finally:
            bar.close()
            log.close()
            for number, handler in handlers.items():
                signal.signal(number, handler)
        if stop:
            raise TrainingError(f"stopped at step {self.step}; --resume {self.state_path} goes on")

    def _open_log(self):
        path = self.out.with_suffix(".csv")
        if self.step == 0:
            path.unlink(missing_ok=True)
        return open(path, "a", newline="")

    def _log(self, log, bar: tqdm) -> None:
        self.recent = {k: v / self.summed for k, v in sorted(self.sums.items())}
        self.sums.clear()
        self.summed = 0
        names = [*sorted(asdict(self.arguments.weights)), "discriminator"]
        writer = csv.writer(log)
        if log.tell() == 0:
            writer.writerow(["step", "seconds", *names])
        values = [f"{self.recent[n]:.4f}" if n in self.recent else "" for n in names]
        writer.writerow([self.step, round(self.seconds), *values])
        log.flush()
        shown = " ".join(f"{k} {v:.3f}" for k, v in self.recent.items())
        bar.set_postfix_str(f"step {self.step} {shown}", refresh=False)


def _signals() -> tuple[signal.Signals, ...]:
    return (signal.SIGINT, signal.SIGTERM)


def main(argv: list[str] | None = None) -> int:
    """Exit code 0 done, 1 stopped with an error, 2 a wrong command line."""
    arguments = parse_arguments(argv)
    try:
        run = Run(arguments)
        if arguments.resume:
            run.load_state(arguments.resume)
    except (FileNotFoundError, ValueError, TrainingError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    run.out.parent.mkdir(parents=True, exist_ok=True)
    try:
        run.train()
    except (TrainingError, models.CheckpointError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{run.out}: {run.step} steps, {run.seconds / 60:.1f} minutes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
