"""What is laid over the colors that a network paints: a tint of the photo's own, and outlines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from models import outlines
from models.style_code import Ground


@dataclass(frozen=True)
class Overlay:
    """What a photo gives to its painting directly, past the network.

    Args:
        tint: (B, 3, H, W), added to the painting's colors; None: nothing.
        ink: (B, 1, H, W), 0 to 1, printed on top; None: no outlines.
    """

    tint: Tensor | None = None
    ink: Tensor | None = None

    @staticmethod
    def of(photo: Tensor, ground: Ground) -> Overlay:
        """What a style's ground wants of photos (B, 3, H, W) in [-1, 1]."""
        return Overlay(
            ground.tint * chroma(photo) if ground.tint else None,
            ground.outlines * outlines.ink(photo) if ground.outlines else None,
        )

    @staticmethod
    def scattered(parts: Sequence[tuple[Sequence[int], Overlay]], count: int) -> Overlay:
        """One for a batch of so many, of one for each of several of its parts, with its rows."""

        def whole(name: str) -> Tensor | None:
            given = [(rows, getattr(part, name)) for rows, part in parts]
            given = [(rows, part) for rows, part in given if part is not None]
            if not given:
                return None
            result = given[0][1].new_zeros(count, *given[0][1].shape[1:])
            for rows, part in given:
                result[list(rows)] = part
            return result

        return Overlay(whole("tint"), whole("ink"))

    def over(self, picture: Tensor, strength: float = 1.0) -> Tensor:
        """Pictures (B, 3, h, w) in [-1, 1] with it on top, from their upper left corner.

        Differentiable; the pictures themselves where there is nothing.
        """
        height, width = picture.shape[-2:]
        if self.tint is not None:
            picture = (picture + strength * self.tint[..., :height, :width]).clamp(-1, 1)
        if self.ink is not None:
            picture = outlines.printed(picture, strength * self.ink[..., :height, :width])
        return picture

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return sum(part.nbytes for part in (self.tint, self.ink) if part is not None)


def chroma(photo: Tensor) -> Tensor:
    """Photos (B, 3, H, W) less their luma: added to a picture, it leaves the picture's luma."""
    weights = photo.new_tensor(outlines.LUMA).view(3, 1, 1)
    return photo - (photo * weights).sum(1, keepdim=True)
