"""Larger strokes: a painting of a smaller photo, enlarged, with the edges of the photo itself.

A network's strokes have a size in pixels, that of the pictures it was trained on, so that a larger
photo would be painted with finer ones. At stroke size 2 the network paints a photo of half the
width and height, in a quarter of the time. Enlarged, the strokes are twice as large, but the edges
would be soft. So the painting is split by a guided filter: what follows the photo's luma is
computed from the luma at full size and has its edges; the rest, the strokes, is enlarged.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from models.finish import guided
from models.finish.filter import Filter, Original, reduced

SIZES = (1, 2, 4, 8)
RADIUS = 2  # pixels of the smaller painting to each side of a window's middle
EDGES = 0.005  # of luma in [-1, 1]: windows of less variance than this are plain

# Pixels of the smaller painting: the guided filter's two windows, and what bicubic interpolation
# reads beside them.
REACH = 2 * RADIUS + 3


@dataclass(frozen=True)
class Enlargement(Filter):
    """Enlarges a painting to the size of its photo.

    Args:
        light: the photo's luma, (B, 1, H, W).
        size: how many times larger the painting becomes.
    """

    amount = "stroke_size"
    nothing = 1.0

    light: Tensor
    size: int

    @classmethod
    def of(cls, original: Original, amount: float) -> Enlargement:
        return cls(original.light, original.stroke_size)

    def on(self, picture: Tensor, strength: float) -> Tensor:
        height, width = (self.size * side for side in picture.shape[-2:])
        return enlarged(picture, self.light[..., :height, :width])

    @staticmethod
    def reach(before: int, stroke_size: int) -> int:
        return stroke_size * (before + REACH)


def enlarged(picture: Tensor, light: Tensor) -> Tensor:
    """Pictures (B, 3, h, w) in [-1, 1], a whole number of times as large, with a photo's edges.

    Args:
        light: the photo's luma (B, 1, H, W), H and W that many times h and w.
    """
    size = light.shape[-1] // picture.shape[-1]
    small = reduced(light, size)
    slope, _ = guided.lines(small, picture, RADIUS, EDGES)
    # What the photo does not say: the strokes, and the colors of areas.
    own = guided.smoothly_enlarged(picture - slope * small, size)
    return own.addcmul_(guided.enlarged(slope, size), light).clamp_(-1, 1)
