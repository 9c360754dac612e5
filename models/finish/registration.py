"""Colors in register: a printer's colors end where what is shown ends.

A decoder's colors run over an edge, and a rim of a color that is nowhere in the photo lies along
it: red around something black, say. Printers call it out of register. So the chroma of a painting
is predicted from the photo's colors: in every window a plane is fitted, a guided filter of a guide
in colors, and the prediction has the photo's edges. Where painting and prediction differ by much,
the painting moves to the prediction; where they differ by little, that is brushwork, and stays. The
luma stays as well, with everything that is drawn in it.
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

CELL = STRIDE  # pixels a side, whose mean is taken; tiles begin at multiples of it
RADIUS = 6  # cells to each side of a window's middle: wider than a rim
EDGES = 0.001  # of colors in [-1, 1]: windows of less variance than this are plain

RIM = 0.15  # of red and blue less luma, in [-1, 1]: what differs by more is out of register

# Pixels: what is farther from a pixel has no part in it, as in the file tone.py.
REACH = CELL * (2 * RADIUS + 2)


@dataclass(frozen=True)
class Registration(Filter):
    """Moves a painting's colors to where the photo's areas are.

    Args:
        photo: (B, 3, H, W).
        share: how far, 0 to 1, (1, 1, 1, 1).
    """

    amount = "register"

    photo: Tensor
    share: Tensor

    @classmethod
    def of(cls, original: Original, amount: float) -> Registration:
        photo = original.photo
        return cls(photo, photo.new_full((1, 1, 1, 1), amount))

    def on(self, picture: Tensor, strength: float) -> Tensor:
        return registered(picture, corner(self.photo, picture), strength * self.share)

    @staticmethod
    def reach(before: int, stroke_size: int) -> int:
        return before + REACH


def registered(picture: Tensor, photo: Tensor, share: Tensor | float) -> Tensor:
    """Pictures (B, 3, H, W) in [-1, 1] with their chroma moved to the photo's areas.

    Differentiable. The luma stays, except where a value would leave the range.

    Args:
        photo: (B, 3, H, W) in [-1, 1].
        share: 0 to 1, one for all or (B, 1, 1, 1).
    """
    height, width = picture.shape[-2:]
    light = gray(picture)
    # Red and blue less luma: green's part follows, since a chroma has no luma.
    own = picture[:, ::2] - light
    cells = F.avg_pool2d(torch.cat([photo, own], 1), CELL, ceil_mode=True)
    guide, wanted = cells.split((3, 2), 1)
    slope, offset = guided.planes(guide, wanted, RADIUS, EDGES)
    said = _whole(offset, (height, width))
    for channel in range(3):
        part = _whole(slope[:, channel], (height, width))
        said = torch.addcmul(said, part, photo[:, channel : channel + 1])
    missing = said - own
    # Little of what is little, nearly all of what is much.
    square = missing.square().sum(1, keepdim=True)
    red, blue = torch.addcmul(own, missing, share * square / (square + RIM**2)).split(1, 1)
    of_red, of_green, of_blue = LUMA
    green = (of_red * red + of_blue * blue) / -of_green
    return (light + torch.cat([red, green, blue], 1)).clamp(-1, 1)


def _whole(cells: Tensor, size: tuple[int, int]) -> Tensor:
    return guided.enlarged(cells, CELL)[..., : size[0], : size[1]]
