"""What is kept of a run, small enough to travel with the project, to go on from elsewhere.

python -m app.training.kept STATE --out FILE.safetensors

The averaged network and the discriminator, in fp16. Against a state, the weights that moved ahead
of their average are lost, and what the optimizers remembered: some hundred steps' worth.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path

from app.terminal import failed
from app.training.failures import SaveError, TrainingError
from app.training.files import read_state
from app.training.run import Run
from models.configuration import RepainterConfig
from models.weights_file import CheckpointError, read_weights, write_weights
from models.whole_file import reason_of

KIND = "repaint-training"
VERSION = 1
PARTS = ("average", "discriminator")


def keep(state_file: str | Path, out: Path) -> int:
    """Writes what is kept of a run's state; returns its step.

    Raises:
        TrainingError: no state, or one without a discriminator.
        SaveError: it could not be written.
    """
    path, state, config = read_state(state_file)
    if state.get("discriminator") is None:
        raise TrainingError(f"{path}: a run without a discriminator goes on from its checkpoint")
    tensors = {f"{part}.{k}": v for part in PARTS for k, v in state[part].items()}
    header = {
        "kind": KIND,
        "version": VERSION,
        "config": asdict(config),
        "domains": state["domains"],
        "step": state["step"],
        "seconds": state["seconds"],
        "losses": state["recent"],
    }
    try:
        write_weights(out, tensors, header)
    except CheckpointError as error:
        raise SaveError(str(error)) from None
    except OSError as error:
        raise SaveError(f"{out}: could not be saved ({reason_of(error)})") from None
    return state["step"]


def go_on(run: Run, path: Path) -> None:
    """A new run's network, average and discriminator from what was kept of another.

    Steps and minutes are counted anew, and so the learning rate rises again.

    Raises:
        TrainingError: no such file, or one of another network, other styles or other losses.
    """
    try:
        header, tensors = read_weights(path, KIND, VERSION)
        config, domains = RepainterConfig(**header["config"]), header["domains"]
    except (CheckpointError, KeyError, TypeError, ValueError) as error:
        raise TrainingError(
            str(error)
            if isinstance(error, CheckpointError)
            else f"{path}: not what is kept of a run ({reason_of(error)})"
        ) from None
    learner = run.learner
    if config != learner.network.config:
        raise TrainingError(f"{path}: trained {config}, asked for is {learner.network.config}")
    if domains != run.data.domains:
        raise TrainingError(f"{path}: trained {domains}, asked for are {run.data.domains}")
    modules = {"average": [learner.network, learner.average], "discriminator": [run.discriminator]}
    try:
        for part, several in modules.items():
            own = {k.removeprefix(f"{part}."): v for k, v in tensors.items() if k.startswith(part)}
            for module in several:
                if module is not None:
                    module.load_state_dict(own)
    except RuntimeError as error:
        raise TrainingError(f"{path}: was trained with other losses ({reason_of(error)})") from None
    if run.discriminator is None:
        raise TrainingError(f"{path}: was trained with a discriminator")


def main(argv: list[str] | None = None) -> int:
    """Exit code 0 done, 1 it could not be written, 2 no such state."""
    parser = argparse.ArgumentParser(
        prog="python -m app.training.kept",
        description="Keeps of a training run's state what another run can go on from, in a few MB.",
    )
    parser.add_argument("state", help="FILE.state.pt, or the run's checkpoint")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.safetensors")
    options = parser.parse_args(argv)
    try:
        step = keep(options.state, options.out)
    except SaveError as error:
        return failed(error, 1)
    except TrainingError as error:
        return failed(error, 2)
    print(f"{options.out}: step {step}, {options.out.stat().st_size / 2**20:.1f} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
