"""A part of a photo and the style it is painted in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image
from torch import Tensor

import models
from app.tiles import Box


@dataclass(frozen=True, eq=False)
class Region:
    """A style, and where it is painted.

    style: the style code. mask: uint8 (H, W) of any size, stretched to the photo's; 255 is
    painted, 0 stays the photo, levels between mix the two in proportion. None is everywhere.

    Raises ValueError for a mask of another shape or type.
    """

    style: models.StyleCode
    mask: np.ndarray | None = None

    def __post_init__(self):
        mask = self.mask
        if mask is not None and (mask.ndim != 2 or mask.dtype != np.uint8 or mask.size == 0):
            raise ValueError(
                f"a mask is uint8 pixels of shape (H,W), got {mask.dtype} {mask.shape}"
            )

    def bounds(self, height: int, width: int) -> Box | None:
        """The smallest box of a photo of that size with all that is painted; None: nothing is."""
        if self.mask is None:
            return Box(0, 0, height, width)
        rows, columns = np.flatnonzero(self.mask.any(1)), np.flatnonzero(self.mask.any(0))
        if not len(rows):
            return None
        down, across = height / self.mask.shape[0], width / self.mask.shape[1]
        # One pixel of the mask farther: stretching is bilinear.
        return Box(
            max(0, int((rows[0] - 1) * down)),
            max(0, int((columns[0] - 1) * across)),
            min(height, int(np.ceil((rows[-1] + 2) * down))),
            min(width, int(np.ceil((columns[-1] + 2) * across))),
        )

    def coverage(self, box: Box, height: int, width: int) -> Tensor | None:
        """How much of each pixel of a box is painted, (1, 1, h, w) from 0 to 1.

        None where every pixel is painted in full. height, width: the photo's.
        """
        if self.mask is None:
            return None
        if self.mask.shape == (height, width):
            levels = self.mask[box.slices]
        else:
            down, across = self.mask.shape[0] / height, self.mask.shape[1] / width
            place = (box.left * across, box.top * down, box.right * across, box.bottom * down)
            stretched = Image.fromarray(self.mask).resize(
                (box.width, box.height), Image.Resampling.BILINEAR, box=place
            )
            levels = np.asarray(stretched)
        if (levels == 255).all():
            return None
        return torch.from_numpy(levels.astype(np.float32) / 255)[None, None]
