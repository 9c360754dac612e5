"""Larger strokes: a painting of a smaller photo, enlarged, with the edges of the photo itself.

A network's strokes have a size in pixels, that of the pictures it was trained on. A larger photo is
painted with finer ones. With a brush of size 2, half of the photo's pixels a side are painted,
in a quarter of the time. Enlarged, strokes are twice as large, and edges would be soft: so what the
photo says of the painting, a line over its luma near every place, is read at the larger size.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from models import guided

SIZES = (1, 2, 4)
RADIUS = 2  # pixels of the smaller painting to each side of a window's middle
EDGES = 0.005  # of luma in [-1, 1]: windows of less variance than this are plain

# Pixels of the smaller painting: two windows, and what a cubic reads between pixels' middles.
REACH = 2 * RADIUS + 3


def reduced(image: Tensor, size: int) -> Tensor:
    """Images (B, C, H, W) by the means of size x size pixels, fewer at the lower right border."""
    return image if size == 1 else F.avg_pool2d(image, size, ceil_mode=True)


def enlarged(picture: Tensor, light: Tensor) -> Tensor:
    """Pictures (B, 3, h, w) in [-1, 1], by a whole number of times, with the edges of a photo.

    Args:
        light: the photo's luma (B, 1, H, W), H and W that many times h and w.
    """
    size = light.shape[-1] // picture.shape[-1]
    small = reduced(light, size)
    slope, offset = guided.lines(small, picture, RADIUS, EDGES)
    # What the photo does not say: the strokes.
    strokes = picture - (slope * small + offset)
    strokes = F.interpolate(strokes, scale_factor=size, mode="bicubic", align_corners=False)
    slope, offset = guided.enlarged(slope, size), guided.enlarged(offset, size)
    return (strokes + slope * light + offset).clamp(-1, 1)
