"""Why training can't go on."""

from __future__ import annotations


class TrainingError(RuntimeError):
    """Training can't go on; the message says why and what is safe."""


class NotFiniteError(TrainingError):
    """A step's numbers are not finite; the step was left out."""


class DivergedError(TrainingError):
    """What training made is worse than nothing; it was not saved."""


class SaveError(TrainingError):
    """A file could not be written; what stood in its place before is untouched."""


class StoppedError(TrainingError):
    """A signal ended the run; the message says what is saved.

    Attributes:
        number: of the signal.
    """

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.number = number
