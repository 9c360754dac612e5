"""A painting with less of its own fine texture.

A decoder fills what should be flat with a mesh of few pixels, the same everywhere. What a print
looks printed for goes with it; the paper's grain, which repeats nowhere, takes its place.
"""

from __future__ import annotations

from dataclasses import dataclass

from models.finish.simplification import Simplification


@dataclass(frozen=True)
class Flattening(Simplification):
    """Takes texture out of a painting as simplification takes detail out of a photo.

    Without a gradient, so that training leaves it out.
    """

    amount = "flatten"
    has_gradient = False
