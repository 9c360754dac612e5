"""A training run, from its settings to its files.

``settings`` what was asked for, ``goals`` what moves, ``data`` what is learned from, ``learner``
what learns, ``judges`` what teaches it, ``optimizers``, ``run`` one step of all these, ``health``
whether what a step made is fit to be kept, ``files`` and ``saving`` what is left on the disk, and
``loop`` the story: step after step, to the end or to a signal.
"""

from app.training.failures import (
    DivergedError,
    NotFiniteError,
    SaveError,
    StoppedError,
    TrainingError,
)
from app.training.goals import NewCodes, Refinement, WholeNetwork
from app.training.loop import train
from app.training.optimizers import LEARNING_RATE, PAPER_LEARNING_RATE
from app.training.run import Run
from app.training.settings import Settings, settings_of

__all__ = [
    "LEARNING_RATE",
    "PAPER_LEARNING_RATE",
    "DivergedError",
    "NewCodes",
    "NotFiniteError",
    "Refinement",
    "Run",
    "SaveError",
    "Settings",
    "StoppedError",
    "TrainingError",
    "WholeNetwork",
    "settings_of",
    "train",
]
