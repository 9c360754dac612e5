"""What is kept of a run: its state to resume from, its checkpoint, a sheet of samples."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

import models
from app.choosing import Chooser, record_of
from app.training.failures import DivergedError, TrainingError
from app.training.files import read_state
from app.training.run import Run
from models.whole_file import reason_of


def state_of(run: Run) -> dict[str, Any]:
    """Everything needed to go on."""
    learner, variants = run.learner, run.data.variants
    return {
        "config": asdict(learner.network.config),
        "domains": run.data.domains,
        "step": run.clock.step,
        "seconds": run.clock.seconds,
        "failed": run.clock.failed,
        "recent": run.losses.recent,
        "draw": run.data.state(),
        "torch": torch.get_rng_state(),
        "network": learner.network.state_dict(),
        "average": learner.average.state_dict(),
        "discriminator": run.discriminator.state_dict() if run.discriminator else None,
        "codes": learner.codes.state_dict() if variants else None,
        "average_codes": learner.average_codes.state_dict() if variants else None,
        "optimizers": {k: v.state_dict() for k, v in run.optimizers.items()},
    }


def check_room(run: Run) -> None:
    """Whether the disk has room for a state.

    Raises:
        SaveError: it has not.
    """
    modules = (run.learner.network, run.learner.average, run.learner.codes, run.discriminator)
    count = sum(p.numel() for m in modules if m is not None for p in m.parameters())
    # Adam keeps two numbers a weight that moves.
    moved = [p for o in run.optimizers.values() for g in o.param_groups for p in g["params"]]
    run.files.check(4 * (count + 2 * sum(p.numel() for p in moved)))


def load_state(run: Run, path: str | Path) -> None:
    """Goes on where a state left off; ``path`` may also be its checkpoint.

    Raises:
        TrainingError: no such file, an unreadable one, or one of another network or styles.
    """
    path, state, config = read_state(path)
    learner, domains = run.learner, state["domains"]
    if config != learner.network.config:
        raise TrainingError(f"{path}: trained {config}, asked for is {learner.network.config}")
    if domains != run.data.domains:
        raise TrainingError(f"{path}: trained {domains}, asked for are {run.data.domains}")
    if (state["discriminator"] is None) != (run.discriminator is None):
        raise TrainingError(f"{path}: was trained with other losses")
    if run.data.variants:
        _load_codes(run, path, state)
    try:
        for name in ("network", "average", "discriminator"):
            module = getattr(run, name) if name == "discriminator" else getattr(learner, name)
            if module is not None:
                _load_weights(module, name, state[name])
        for name, optimizer in run.optimizers.items():
            if name in state["optimizers"]:
                _load_moments(optimizer, name, state["optimizers"][name])
        run.data.restore(state["draw"])
        torch.set_rng_state(state["torch"])
    except Exception as error:  # whatever a file can hold in the place of what belongs there
        raise TrainingError(f"{path}: not a state of this training ({reason_of(error)})") from None
    run.clock.step, run.clock.seconds = state["step"], state["seconds"]
    run.clock.failed = state["failed"]
    run.losses.recent = state["recent"]


def _load_weights(module: nn.Module, name: str, weights: Mapping[str, torch.Tensor]) -> None:
    try:
        module.load_state_dict(weights)
    except (RuntimeError, AttributeError, TypeError):
        raise ValueError(f"its {name} is of another shape") from None
    if not all(bool(value.isfinite().all()) for value in module.state_dict().values()):
        raise ValueError(f"its {name} has weights that are not finite")


def _load_moments(optimizer: torch.optim.Optimizer, name: str, given: Mapping[str, Any]) -> None:
    """What an optimizer remembers of each parameter; its options are this run's own."""
    own, moments = optimizer.state_dict(), given["state"]
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    for number, parameter in enumerate(parameters):
        for moment, value in moments.get(number, {}).items():
            shape = torch.Size() if moment == "step" else parameter.shape
            if value.shape != shape or not value.isfinite().all():
                raise ValueError(
                    f"the moments of its optimizer {name!r} are not those of its parts"
                )
    if not moments.keys() <= set(range(len(parameters))):
        raise ValueError(f"its optimizer {name!r} moves more parameters than this training's")
    optimizer.load_state_dict({"state": moments, "param_groups": own["param_groups"]})


def _load_codes(run: Run, path: Path, state: Mapping[str, Any]) -> None:
    if state.get("codes") is None:  # learning begins with this resume
        run.learner.begin_codes()
        return
    try:
        _load_weights(run.learner.codes, "codes", state["codes"])
        _load_weights(run.learner.average_codes, "averaged codes", state["average_codes"])
    except (ValueError, KeyError) as error:
        raise TrainingError(f"{path}: learned other codes ({reason_of(error)})") from None


def record(run: Run) -> dict[str, Any]:
    """What the checkpoint's header says of its training."""
    settings, data = run.settings, run.data
    on_cpu = run.processes.device.type == "cpu"
    device = f"cpu, {torch.get_num_threads()} threads" if on_cpu else torch.cuda.get_device_name()
    found: dict[str, Any] = {
        "data": {"photo": len(data.photos)} | {k: len(v) for k, v in data.styles.items()},
        "steps": run.clock.step,
        "failed_steps": run.clock.failed,
        "minutes": round(run.clock.seconds / 60, 1),
        "crop": settings.size,
        "batch": settings.batch * run.processes.count,
        "device": device,
        "machine": platform.machine(),
        "torch": torch.__version__.split("+")[0],
        "weights": {k: v for k, v in asdict(settings.weights).items() if v},
        "grain": settings.grain,
        "augment": settings.augment,
        **({"orthogonal_gradient": True} if settings.orthogonal_gradient else {}),
        **({"iterated": settings.iterated} if settings.iterated else {}),
        "calm": dict(settings.calm),
        "losses": {k: round(v, 4) for k, v in run.losses.recent.items()},
        "seed": settings.seed,
    }
    if data.variants:
        taught: dict[str, list[int]] = {name: [] for name in data.styles}
        for variant in data.variants:
            taught[variant.name].append(len(variant.folder))
        found["learned_from"] = {name: counts for name, counts in taught.items() if counts}
    return found


def save(run: Run) -> None:
    """State, checkpoint and sample sheet, the last two from the averaged weights.

    Raises:
        DivergedError: the weights are not worth it; all files are untouched.
        SaveError: one could not be written.
    """
    learned = run.learner.learned_codes()
    reason = run.health.problem(run.learner, run.objective, run.discriminator)
    if not reason:
        try:
            styles = {
                name: [*learned.get(name, ()), *_medoids(run, name)] for name in run.data.styles
            }
        except ValueError as error:  # wct's, of a covariance that is not finite
            reason = str(error)
    if reason:
        raise DivergedError(
            f"step {run.clock.step}: the weights have diverged: {reason}; what was saved before is "
            f"untouched: go on with --resume {run.files.state} and a smaller --learning-rate"
        )
    run.files.write_state(state_of(run))
    save_checkpoint(run, styles)
    run.files.write_samples(run.learner.average, run.data.photos, _samples(run, learned))
    try:
        run.files.release_log()
    except OSError as error:
        run.processes.say(f"warning: {run.files.log}: {error.strerror}; the log is lost")


def _medoids(run: Run, name: str) -> list[models.StyleCode]:
    # Where codes alone are learned, those of paintings only stand for choice at the end.
    moved = run.settings.goal.moves_network
    return run.learner.medoids(run.data.styles[name]) if moved else []


def _samples(run: Run, learned: Mapping[str, Sequence[models.StyleCode]]) -> list[tuple]:
    """The rows of the sheet: learned codes, and two paintings where their codes change."""
    rows: list[tuple] = []
    for name, folder in run.data.styles.items():
        rows += [(folder, 0, code) for code in learned.get(name, ())]
        if run.settings.goal.reads_paintings:
            for i in (len(folder) // 3, 2 * len(folder) // 3):
                painting = folder.tensor(i).to(run.processes.device)
                rows.append((folder, i, run.learner.average.encode_style(painting)))
    return rows


def save_checkpoint(
    run: Run,
    styles: Mapping[str, Sequence[models.StyleCode]],
    more_record: Mapping[str, Any] | None = None,
) -> None:
    """The averaged network with these styles; a frozen one with those it had before, too.

    Raises:
        SaveError: it could not be written.
    """
    grounds = run.settings.grounds
    styles = {
        name: [replace(code, ground=grounds.get(name, code.ground)) for code in codes]
        for name, codes in styles.items()
    }
    whole = {**record(run), **(more_record or {})}
    kept, whole = run.settings.goal.kept(run.settings.start, styles, whole)
    run.files.write_checkpoint(run.learner.average, kept, whole)


def choose_codes(run: Run) -> None:
    """The checkpoint once more, with the codes that repaint training photos best.

    Raises:
        SaveError: it could not be written.
    """
    learned, start = run.learner.learned_codes(), run.settings.start
    given: dict[str, dict[str, models.StyleCode]] = {}
    for name in run.data.styles:
        # A code still paints much as it did, unless the network moved far.
        before = start.styles.get(name, ()) if start is not None else ()
        given[name] = {f"learned {i}": c for i, c in enumerate(learned.get(name, ()), 1)}
        given[name] |= {f"before {i}": c for i, c in enumerate(before, 1)}
    try:
        chooser = Chooser(
            run.learner.average,
            run.data.photos,
            run.data.styles,
            run.processes.device,
            grounds=run.settings.grounds,
        )
        chosen = chooser.best(given=given)
    except FileNotFoundError as error:
        run.processes.say(f"codes are medoids, not chosen: {error}")
        return
    codes = {name: choice.codes for name, choice in chosen.items()}
    save_checkpoint(run, codes, {"codes": record_of(chosen)})
