"""Faces stay faces: where a photo shows skin, its shading comes back and blotches of color go.

A network paints a cheek as it paints a wall, with hues and darks of its own, and a friend asks what
happened to the face. So where the photo has the colors of skin, in a window most of which has them,
two things are done. Of the difference in luma between photo and painting the part that has the
photo's edges is given back: eyes, mouth and the shade of a nose. And the chroma becomes the mean of
the painting's own over the skin around, moved as the photo's chroma moves there: one complexion,
the style's, in place of patches. Strokes stay, in the luma that the photo does not explain.

Skin of every shade lies in one part of the plane of red and blue differences: Chai and Ngan, "Face
Segmentation Using Skin-Color Map in Videophone Applications", 1999. So do sand, wood and autumn
leaves, which then look a little more like themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from models.configuration import STRIDE
from models.finish import guided
from models.finish.filter import Filter, Original, corner
from models.measures import LUMA, gray

# Of colors in [-1, 1], offsets from gray: the ranges of blue's and red's difference, and how
# softly they end.
BLUE, RED, SOFT = (-0.36, -0.016), (0.047, 0.345), 0.024
DARKEST, DARK_SOFT = -0.73, 0.06  # of luma: in the dark no hue is told
LITTLE, ENOUGH = 0.25, 0.5  # of a window: how much skin counts as none, and as whole

CELL = STRIDE  # pixels a side, whose mean is taken; tiles begin at multiples of it
AROUND = 5  # cells to each side: windows in which skin is counted
COMPLEXION = 5  # cells to each side: windows of one complexion
OWN = 0.35  # of how the photo's complexion differs from the painting's: what is kept of it

FINE = 2  # pixels a side: the shading's cells
RADIUS = 2  # of the shading's windows, cells
EDGES = 0.002  # of luma in [-1, 1]: windows of less variance than this are plain

# Pixels, as in the file tone.py: of the windows of a mean, taken twice.
COUNTED = CELL * (2 * AROUND + 2)
READ = CELL * (2 * COMPLEXION + 2)


@dataclass(frozen=True)
class Faces(Filter):
    """Gives skin its photo's shading, and one complexion.

    Args:
        photo: (B, 3, H, W).
        share: how far, 0 to 1, at every pixel: (B, 1, H, W); 0 where there is no skin.
    """

    amount = "faces"

    photo: Tensor
    share: Tensor

    @classmethod
    def of(cls, original: Original, amount: float) -> Faces:
        return cls(original.photo, amount * skin(original.photo))

    def on(self, picture: Tensor, strength: float) -> Tensor:
        share = corner(self.share, picture)
        if not share.any():
            return picture
        return shaded(picture, corner(self.photo, picture), share, strength)

    @staticmethod
    def reach(before: int, stroke_size: int) -> int:
        return max(before + READ, COUNTED + READ)


def skin(photo: Tensor) -> Tensor:
    """How far what lies around a pixel has the colors of skin, 0 to 1; differentiable.

    Args:
        photo: (B, 3, H, W) in [-1, 1].

    Returns:
        (B, 1, H, W), without the photo's edges.
    """
    height, width = photo.shape[-2:]
    light = gray(photo)
    # As in Y'CbCr: half of a difference over what it can be at most.
    blue = (photo[:, 2:] - light) / (2 * (1 - LUMA[2]))
    red = (photo[:, :1] - light) / (2 * (1 - LUMA[0]))
    seen = ((light - DARKEST) / DARK_SOFT).sigmoid()
    for difference, (least, most) in ((blue, BLUE), (red, RED)):
        seen = (
            seen * ((difference - least) / SOFT).sigmoid() * ((most - difference) / SOFT).sigmoid()
        )
    cells = _around(F.avg_pool2d(seen, CELL, ceil_mode=True), AROUND)
    counted = ((cells - LITTLE) / (ENOUGH - LITTLE)).clamp(0, 1)
    return guided.enlarged(counted, CELL)[..., :height, :width]


def shaded(picture: Tensor, photo: Tensor, share: Tensor, strength: float = 1.0) -> Tensor:
    """Pictures (B, 3, H, W) in [-1, 1], with a photo's shading and one complexion; differentiable.

    Args:
        photo: (B, 3, H, W) in [-1, 1].
        share: how far, 0 to 1, (B, 1, H, W): elsewhere than on skin it is 0.
        strength: 0 to 1, how much of it.
    """
    height, width = picture.shape[-2:]
    light, own = gray(photo), gray(picture)
    both = torch.cat([light, light - own], 1)
    cells = F.avg_pool2d(both, FINE, ceil_mode=True)
    guide, missing = cells.split(1, 1)
    line = torch.cat(guided.lines(guide, missing, RADIUS, EDGES), 1)
    slope, offset = guided.enlarged(line, FINE)[..., :height, :width].split(1, 1)
    missing = torch.addcmul(offset, slope, light)
    # Red and blue less luma; green's part follows, since a chroma has no luma.
    away = (photo[:, ::2] - light) - (picture[:, ::2] - own)
    move = away - (1 - OWN) * _complexion(away, share)
    share = strength * share
    red, blue = (share * move).split(1, 1)
    of_red, of_green, of_blue = LUMA
    green = (of_red * red + of_blue * blue) / -of_green
    return (picture + share * missing + torch.cat([red, green, blue], 1)).clamp(-1, 1)


def _complexion(chroma: Tensor, share: Tensor) -> Tensor:
    """The mean of a chroma (B, 2, H, W) over the skin around."""
    height, width = share.shape[-2:]
    weighted = F.avg_pool2d(torch.cat([share * chroma, share], 1), CELL, ceil_mode=True)
    sums, weight = _around(weighted, COMPLEXION).split((2, 1), 1)
    return guided.enlarged(sums / weight.clamp_min(1e-3), CELL)[..., :height, :width]


def _around(cells: Tensor, radius: int) -> Tensor:
    """The means of windows of the means of windows, so that they end softly."""
    return guided.windows(guided.windows(cells, radius), radius)
