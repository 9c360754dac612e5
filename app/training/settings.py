"""What a run was asked for: built once from the command line, and frozen."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import models
from app.grounds import style_grounds
from app.named_folders import named_folders, named_times, style_folders
from app.terminal import typed
from app.training.goals import Goal, NewCodes, Refinement, WholeNetwork
from app.training.references import References, references_of
from models.objective import ANY_PAINTING, GD, PAPER, PERCEPTUAL, Weights
from models.precision import FLOAT32

GRAINED = 0.5  # share of the photos
STROKES = 0.02
PHOTO_SCALES = (0.625, 1.0)  # of 256 px, a photo's shorter side before it is cropped
DEFAULT = models.RepainterConfig()
SHAPE = ("width", "blocks", "group_size", "coloring", "method")  # what --init brings


@dataclass(frozen=True)
class Settings:
    """A run's settings, complete and checked.

    Attributes:
        photos: folder.
        styles: name -> folder of paintings.
        out: the checkpoint to write, and beside which the other files are.
        goal: what moves.
        config: the network's shape.
        weights: of the losses.
        perceptual, projection: the frozen networks, by name or file; perceptual may be ``none``.
        start: the checkpoint to start from.
        resume: the state to go on from.
        go_on: what was kept of another run, to begin with, see :mod:`app.training.kept`.
        references: for paintings of any kind; None: the discriminator knows painters alone.
        photo_scales: photos are cropped between so many times 256 px of their shorter side.
        perceptual_every: the losses that cost most are asked in every so-manieth step.
        learned: names and folders of codes to learn, beside the goal's own.
        grounds, calm: by style, where one is asked for.
        steps, minutes: one of them says how long.
        size: of the crops, pixels.
        batch: photos a step and process.
        workers: processes that make pictures; None: as the device suggests.
        skip_not_finite: so many steps may be left out.
        orthogonal_gradient: of the convolution before each hop.
        iterated: for this share of the run hops take roots by iteration.
    """

    photos: str
    styles: Mapping[str, str]
    out: Path
    goal: Goal
    config: models.RepainterConfig
    weights: Weights
    perceptual: str = "none"
    projection: str = "efficientnet-lite1"
    start: models.Checkpoint | None = None
    resume: Path | None = None
    go_on: Path | None = None
    references: References | None = None
    photo_scales: tuple[float, float] = PHOTO_SCALES
    perceptual_every: int = 1
    learned: Sequence[tuple[str, str]] = ()
    grounds: Mapping[str, models.Ground] = field(default_factory=dict)
    calm: Mapping[str, float] = field(default_factory=dict)
    steps: int | None = None
    minutes: float = 120.0
    size: int = 144
    batch: int = 3
    grain: float = 0.0
    augment: float = 0.0
    learning_rate: float | None = None
    device: str = "auto"
    precision: str = FLOAT32
    verbose: bool = False
    compile: bool = False
    workers: int | None = None
    seed: int = 0
    skip_not_finite: int = 0
    orthogonal_gradient: bool = False
    iterated: float = 0.0
    chooses_codes: bool = True
    checkpoint_minutes: float = 5.0


def settings_of(options: argparse.Namespace) -> Settings:
    """The settings that a command line asks for, see :mod:`app.train`.

    Raises:
        ValueError: a number out of range, a name that is not there, what does not go together, or
            a checkpoint that can't be read.
    """
    _check_numbers(options)
    if not options.out.endswith(".safetensors"):
        raise ValueError(f"--out must end in .safetensors, got {options.out}")
    styles = style_folders(options.style)
    start = models.load_checkpoint(options.init) if options.init else None
    goal = _goal(options, styles, start)
    config = _config(options, goal, start)
    learned = named_folders(options.learn, "--learn")
    for name, _ in learned:
        if name not in styles:
            raise ValueError(f"--learn {name}: there is no --style of that name")
    grounds = style_grounds([typed(text) for text in options.ground], styles, start)
    calm = named_times(options.calm, "--calm", styles)
    goal.check(start, config, learned, options.batch)
    if options.only_new and not isinstance(goal, NewCodes):
        raise ValueError("--only-new goes with --train codes")
    perceptual = _perceptual(options.perceptual, config, goal)
    references = references_of(options, styles)
    weights = _weights(options.weight, perceptual, config, references is not None)
    if references is not None and not (goal.reads_paintings and perceptual != "none"):
        raise ValueError(
            "--references goes with --train all or refinement, and with perceptual losses"
        )
    if (options.orthogonal_gradient or weights.orthogonality) and not goal.moves_network:
        raise ValueError("orthogonality is of the network's weights: it needs --train all")
    if options.iterated and (config.method == "gd" or not goal.moves_network):
        raise ValueError("--iterated is for the roots of a network that learns, of method svd")
    smallest, largest = options.photo_scales
    if not 0 < smallest <= largest <= 8:
        raise ValueError(f"--photo-scales must go up, from above 0 to 8, got {smallest} {largest}")
    if options.go_on and options.resume:
        raise ValueError("--go-on begins a new run, --resume goes on with one: only one of them")
    grain = options.grain
    if grain is None:
        grain = GRAINED if weights.perceptual and goal.moves_network else 0.0
    return Settings(
        photos=options.photos,
        styles=styles,
        out=Path(options.out),
        goal=goal,
        config=config,
        weights=weights,
        perceptual=perceptual,
        projection=options.projection,
        start=start,
        resume=Path(options.resume) if options.resume else None,
        go_on=Path(options.go_on) if options.go_on else None,
        references=references,
        photo_scales=(smallest, largest),
        perceptual_every=options.perceptual_every,
        learned=learned,
        grounds=grounds,
        calm=calm,
        steps=options.steps,
        minutes=goal.minutes if options.minutes is None else options.minutes,
        size=options.size,
        batch=options.batch,
        grain=grain,
        augment=options.augment,
        learning_rate=options.learning_rate,
        device=options.device,
        precision=options.precision,
        verbose=options.verbose,
        compile=options.compile,
        workers=options.workers,
        seed=options.seed,
        skip_not_finite=options.skip_not_finite,
        orthogonal_gradient=options.orthogonal_gradient,
        iterated=options.iterated,
        chooses_codes=options.codes == "chosen" and goal.chooses_codes,
        checkpoint_minutes=options.checkpoint_minutes,
    )


def _check_numbers(options: argparse.Namespace) -> None:
    length = ("steps", "minutes", "batch", "checkpoint_minutes", "perceptual_every")
    for name in (*length, "learning_rate", "variants", "refinement"):
        value = getattr(options, name)
        if value is not None and not value > 0:
            raise ValueError(f"--{name.replace('_', '-')} must be positive, got {value}")
    for name in ("grain", "augment", "iterated"):
        share = getattr(options, name)
        if share is not None and not 0 <= share <= 1:
            raise ValueError(f"--{name} must be between 0 and 1, got {share}")
    if options.workers is not None and options.workers < 0:
        raise ValueError(f"--workers must be at least 0, got {options.workers}")
    if options.size < 64 or options.size % 4:
        raise ValueError(f"--size must be a multiple of 4, at least 64, got {options.size}")


def _goal(
    options: argparse.Namespace, styles: Mapping[str, str], start: models.Checkpoint | None
) -> Goal:
    """The one asked for; by default new codes where the network has none of the styles."""
    chosen = options.train
    if chosen is None:
        new = start is not None and not set(styles) & set(start.styles)
        chosen = "codes" if new else "all"
    if chosen == "codes":
        return NewCodes(options.variants, options.only_new)
    return Refinement() if chosen == "refinement" else WholeNetwork()


def _config(
    options: argparse.Namespace, goal: Goal, start: models.Checkpoint | None
) -> models.RepainterConfig:
    """The network's shape: the checkpoint's, where one is given, else that of the options."""
    given = {name: getattr(options, name) for name in SHAPE}
    given = {name: value for name, value in given.items() if value is not None}
    rule = {} if options.gradient is None else {"gradient": options.gradient}
    if options.strokes is not None:
        rule["strokes"] = options.strokes
    if start is not None:
        own = start.network.config
        for name, value in given.items():
            if value != getattr(own, name):
                raise ValueError(
                    f"--init {options.init} has {name} {getattr(own, name)}, "
                    f"but --{name.replace('_', '-')} {value} is asked for"
                )
        return replace(own, **rule, refinement=_refinement_width(options, goal, own))
    if options.refinement is not None or goal.refinement_width:
        raise ValueError("a refinement needs --init: a network that has learned paintings' codes")
    given.setdefault("coloring", "mlp" if given.get("method") == "gd" else DEFAULT.coloring)
    width = given.get("width", DEFAULT.width)
    given.setdefault("group_size", min(32, width * (4 if given["coloring"] == "mlp" else 1)))
    if given["coloring"] == "statistics":
        rule.setdefault("strokes", STROKES)
    return replace(DEFAULT, **given, **rule)


def _refinement_width(options: argparse.Namespace, goal: Goal, own: models.RepainterConfig) -> int:
    """The checkpoint's, or that of one it gets now."""
    asked = options.refinement
    if own.refinement:
        if asked not in (None, own.refinement):
            raise ValueError(
                f"--init {options.init} has refinement {own.refinement}, "
                f"but --refinement {asked} is asked for"
            )
        return own.refinement
    return asked or goal.refinement_width


def _perceptual(asked: str | None, config: models.RepainterConfig, goal: Goal) -> str:
    """The frozen network of the perceptual losses, by name or file; ``none`` is the paper's."""
    if asked is None:
        return "none" if config.coloring == "mlp" and goal.moves_network else "hed"
    if not asked.endswith(".safetensors") and asked not in (*models.perceptual.SOURCES, "none"):
        raise ValueError(
            f"--perceptual must be hed, vgg16, a .safetensors file or none, got {asked!r}"
        )
    return asked


def _weights(
    pairs: Sequence[str], perceptual: str, config: models.RepainterConfig, references: bool
) -> Weights:
    """The recipe's weights, with those that are asked for otherwise."""
    base = PAPER if perceptual == "none" else ANY_PAINTING if references else PERCEPTUAL
    if config.strokes:
        base = replace(base, flatness=0)  # strokes are there to be painted
    if config.method == "gd":
        base = replace(base, whitening=GD.whitening, coloring=GD.coloring)
    changes = {}
    for pair in pairs:
        name, _, value = pair.partition("=")
        if name not in asdict(base):
            raise ValueError(f"unknown loss {name!r}; there are {', '.join(asdict(base))}")
        try:
            changes[name] = float(value)
        except ValueError:
            raise ValueError(f"--weight must be LOSS=NUMBER, got {pair!r}") from None
        if not changes[name] >= 0:
            raise ValueError(f"a weight can't be negative: {pair!r}")
    weights = replace(base, **changes)
    if not references and (weights.reference or weights.likeness):
        raise ValueError("the losses reference and likeness need --references")
    if perceptual == "none" and weights.perceptual:
        raise ValueError("the losses content and style need --perceptual hed or vgg16")
    return weights
