"""What is done to a painting after the network: less texture, colors in register, the photo's
colors and light, grain, outlines.

A decoder fills what should be flat with a texture of its own, a mesh of few pixels, the same
everywhere. Flattened, it is gone, and with it what has a print look printed; the grain of paper,
which repeats nowhere, takes its place.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from models import brush_size, outlines, registration, strokes, tone
from models.measures import gray
from models.simplification import simplified
from models.strokes import SIDE, Origins
from models.style_code import Ground

GRAIN = 0.5  # pixels: how far the paper's grain is blurred, a standard deviation


@dataclass(frozen=True)
class Finish:
    """What becomes of a painting after the network, with what its photo gives to it directly.

    Args:
        flatten: how much of its fine texture is left out first, a weave say; see
            :func:`models.simplification.simplified`.
        colors: the photo, (B, 3, H, W), where register needs it.
        register: how far the painting's colors keep to its areas, 0 to 1, (B, 1, 1, 1) or one for
            all; see :func:`models.registration.registered`. None: as painted.
        tint: (B, 3, H, W), added to the painting's colors; None: nothing.
        light: the photo's luma, (B, 1, H, W), where tone or brush need it.
        tone: how far the painting's luma goes towards it, 0 to 1, (B, 1, 1, 1) or one for all; see
            :func:`models.tone.toned`. None: it stays as painted.
        grain: (B, 1, H, W) or one for all, added to all three colors; None: no grain.
        ink: (B, 1, H, W), 0 to 1, printed on top; None: no outlines.
        brush: how many times the painting is enlarged after it is flattened; see
            :func:`models.brush_size.enlarged`.
    """

    flatten: float = 0.0
    colors: Tensor | None = None
    register: Tensor | None = None
    tint: Tensor | None = None
    light: Tensor | None = None
    tone: Tensor | None = None
    grain: Tensor | None = None
    ink: Tensor | None = None
    brush: int = 1

    @staticmethod
    def of(photo: Tensor, ground: Ground, origins: Origins = ((0, 0),), brush: int = 1) -> Finish:
        """What a style's ground wants for photos (B, 3, H, W) in [-1, 1].

        Args:
            origins, brush: where the photos lie on the paper, and how large the strokes are, as a
                :class:`models.strokes.Canvas` has it.
        """

        def share(amount: float) -> Tensor | None:
            return photo.new_full((1, 1, 1, 1), amount) if amount else None

        return Finish(
            ground.flatten,
            photo if ground.register else None,
            share(ground.register),
            ground.tint * chroma(photo) if ground.tint else None,
            gray(photo) if ground.tone or brush > 1 else None,
            share(ground.tone),
            ground.grain * strokes.cut(paper(), photo, origins) if ground.grain else None,
            ground.outlines * outlines.ink(photo) if ground.outlines else None,
            brush,
        )

    @staticmethod
    def scattered(parts: Sequence[tuple[Sequence[int], Finish]], count: int) -> Finish:
        """One for a batch of so many, of one for each of several of its parts, with its rows.

        Nothing is flattened: it is for training, and that has no gradient.
        """

        def whole(name: str) -> Tensor | None:
            given = [(rows, getattr(part, name)) for rows, part in parts]
            given = [(rows, part) for rows, part in given if part is not None]
            if not given:
                return None
            result = given[0][1].new_zeros(count, *given[0][1].shape[1:])
            for rows, part in given:
                result[list(rows)] = part  # one for all goes to each row
            return result

        names = ("colors", "register", "tint", "light", "tone", "grain", "ink")
        return Finish(0.0, *map(whole, names))

    def on(self, picture: Tensor, strength: float = 1.0) -> Tensor:
        """Pictures (B, 3, h, w) in [-1, 1] with it on top, from their upper left corner.

        Differentiable but for what is flattened; the pictures themselves where there is nothing.

        Returns:
            (B, 3, brush h, brush w).
        """
        height, width = (self.brush * side for side in picture.shape[-2:])
        if self.flatten:
            picture = simplified(picture, strength * self.flatten)
        light = None if self.light is None else self.light[..., :height, :width]
        if self.brush > 1:
            picture = brush_size.enlarged(picture, light)
        if self.register is not None:
            colors = self.colors[..., :height, :width]
            share = strength * self.register
            picture = registration.registered(picture, colors, share, self.brush)
        if self.tint is not None:
            picture = (picture + strength * self.tint[..., :height, :width]).clamp(-1, 1)
        if self.tone is not None:
            picture = tone.toned(picture, light, strength * self.tone)
        if self.grain is not None:
            picture = (picture + strength * self.grain[..., :height, :width]).clamp(-1, 1)
        if self.ink is not None:
            picture = outlines.printed(picture, strength * self.ink[..., :height, :width])
        return picture

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        parts = (self.colors, self.tint, self.light, self.grain, self.ink)
        return sum(part.nbytes for part in parts if part is not None)


def chroma(photo: Tensor) -> Tensor:
    """Photos (B, 3, H, W) less their luma: added to a picture, it leaves the picture's luma."""
    return photo - gray(photo)


@functools.cache
def paper() -> Tensor:
    """Grain of mean 0 and standard deviation 1 that goes on at the opposite border."""
    draw = torch.Generator().manual_seed(strokes.SEED + 1)
    grain = strokes.blurred(torch.randn(1, 1, SIDE, SIDE, generator=draw), GRAIN)
    return (grain - grain.mean()) / grain.std()
