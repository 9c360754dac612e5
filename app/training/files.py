"""The files that a run leaves beside its checkpoint, each whole or not at all."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

import models
from app import images
from app.dataset import PictureFolder
from app.out import OutError, check_out
from app.samples import sample_sheet
from app.training.failures import SaveError, TrainingError
from models.whole_file import reason_of, save_tensors, writing_whole


class RunFiles:
    """A run's files: ``FILE.safetensors``, and beside it ``.state.pt``, ``.csv``, ``.samples.png``.

    What another run left stays until there is something to take its place.

    Args:
        out: the checkpoint.
    """

    def __init__(self, out: Path) -> None:
        self.checkpoint = out
        self.state = out.with_suffix(".state.pt")
        self.log = out.with_suffix(".csv")
        self.samples = out.with_suffix(".samples.png")
        # Lines of a new run, as long as the log is another one's.
        self._held: list[Sequence[Any]] | None = None

    def check(self, size: int = 0) -> None:
        """Whether files of so many bytes can be written; sweeps what killed runs left half written.

        Raises:
            SaveError: they can't.
        """
        try:
            check_out(self.checkpoint, size)
        except OutError as error:
            raise SaveError(str(error)) from None

    # -- state

    def write_state(self, state: Mapping[str, Any]) -> None:
        """Everything needed to go on.

        Raises:
            SaveError: it could not be written.
        """
        with _saving(self.state):
            save_tensors(state, self.state)

    def write_checkpoint(
        self,
        network: models.Repainter,
        styles: Mapping[str, Sequence[models.StyleCode]],
        record: Mapping[str, Any],
    ) -> None:
        """The network with its styles.

        Raises:
            SaveError: it could not be written.
        """
        with _saving(self.checkpoint):
            models.save_checkpoint(self.checkpoint, network, styles, record)

    def write_samples(
        self,
        network: models.Repainter,
        photos: PictureFolder,
        rows: Sequence[tuple[PictureFolder, int, models.StyleCode]],
    ) -> None:
        """A sheet of what the network makes of some photos, see :func:`app.samples.sample_sheet`.

        Raises:
            SaveError: it could not be written.
        """
        with _saving(self.samples):
            sample_sheet(network, photos, rows, self.samples)

    # -- log

    def begin_log(self) -> None:
        """A new run's log: one that is there stays until :meth:`release_log`."""
        self._held = [] if self.log.exists() else None

    def add_to_log(self, names: Sequence[str], values: Sequence[Any]) -> None:
        """One more line.

        Args:
            names: of the columns.

        Raises:
            OSError: it could not be written.
        """
        if self._held is not None:
            self._held += [values] if self._held else [names, values]
            return
        with open(self.log, "a", newline="", encoding="utf-8") as log:
            csv.writer(log).writerows([values] if log.tell() else [names, values])

    def release_log(self) -> None:
        """Something of the run is saved: its log takes its place.

        Raises:
            OSError: it could not be written.
        """
        if self._held is None:
            return
        text = io.StringIO(newline="")
        csv.writer(text).writerows(self._held)
        with writing_whole(self.log) as part:
            part.write_bytes(text.getvalue().encode())
        self._held = None


def read_state(path: str | Path) -> tuple[Path, dict[str, Any], models.RepainterConfig]:
    """A run's state, from its own file or the name of its checkpoint, and the network's shape.

    Raises:
        TrainingError: no such file, or an unreadable one.
    """
    path = Path(path)
    if path.suffix == ".safetensors":
        path = path.with_suffix(".state.pt")
    if not path.is_file():
        raise TrainingError(f"{path}: there is no state to resume from")
    try:
        # weights_only: reads tensors and plain values, never runs code.
        state = torch.load(path, map_location="cpu", weights_only=True)
        if not isinstance(state, dict):
            raise ValueError(f"it holds a {type(state).__name__}")
        config = models.RepainterConfig(**state["config"])
        _check(state)
    except Exception as error:
        raise TrainingError(f"{path}: not a state of a training run ({reason_of(error)})") from None
    return path, state, config


def _check(state: dict[str, Any]) -> None:
    """Whether a state has all that belongs to one. Raises ValueError.

    What must fit the run is looked at when it is loaded.
    """
    state.setdefault("failed", 0)  # of a run before these were counted
    parts = {"domains": list, "recent": dict, "network": dict, "average": dict, "optimizers": dict}
    kinds_of: dict[str, type | tuple[type, ...]] = {
        **parts,
        "torch": torch.Tensor,
        "draw": (list, tuple),
    }
    for name, kind in kinds_of.items():
        if not isinstance(state.get(name), kind):
            raise ValueError(f"it has no {name!r}")
    if not isinstance(state.get("discriminator"), (dict, type(None))):
        raise ValueError("its 'discriminator' is none")
    for name, kinds in {"step": (int,), "failed": (int,), "seconds": (int, float)}.items():
        value: Any = state.get(name)
        if type(value) not in kinds or not 0 <= value < 1e12:
            raise ValueError(f"it has no {name!r}")
    for name, value in state["recent"].items():
        if not (isinstance(name, str) and type(value) in (int, float)):
            raise ValueError("its losses are no numbers")


@contextmanager
def _saving(path: Path) -> Iterator[None]:
    """Whatever a writer raises as one line that names the file."""
    try:
        yield
    except models.CheckpointError as error:
        raise SaveError(str(error)) from error
    except (OSError, RuntimeError, images.ImageError) as error:
        raise SaveError(
            f"{path}: could not be saved ({reason_of(error)}); what was there before is untouched"
        ) from error
