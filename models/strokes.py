"""What a network sees of a photo where it is plain: faint strokes instead of the photo's noise.

Whitening makes all features vary alike, those of a clear sky too: its noise and the blocks of its
compression are amplified until the network paints them as a weave, the same in all skies. So where
a photo is plain its noise is smoothed away, and strokes too faint to be seen are put there, for
painted ones to grow from.

The strokes are noise smeared along a smooth flow: Cabral and Leedom, "Imaging Vector Fields Using
Line Integral Convolution", 1993. They lie still, as on a canvas that repeats every SIDE pixels: a
tile of a picture is prepared as the whole picture is.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from models.configuration import STRIDE
from models.finish import AS_THE_STYLE, Amounts, guided
from models.periodic import SEED, SIDE, Origins, blurred, cut, standardized

WIDTH = 2.0  # pixels, of a stroke: the standard deviation across it
LENGTH = 8  # pixels to each side of a stroke's middle
FLOW = 40.0  # pixels: the flow's directions change over about this distance
TILT, TURNS = 0.25, 0.7  # radians: the flow's mean direction, and its standard deviation
COARSEST = 16.0  # pixels; what is wider than this would be spots and not strokes

FLAT = 0.15  # a step from block to block, of values in [-1, 1], that is hardly plain any more
BLOCK = STRIDE  # pixels a side, so that tiles of a picture have the same blocks


@dataclass(frozen=True)
class Canvas:
    """Where photos lie on the canvas that carries the strokes.

    Args:
        origins: top and left of each photo.
        amounts: what a person wants of what the style wants.
        stroke_size: how many times larger than the network's own the strokes are, one of
            :data:`models.finish.enlargement.SIZES`; where parts of a picture are to fit together,
            origins are multiples of it.
    """

    origins: Origins = ((0, 0),)
    amounts: Amounts = AS_THE_STYLE
    stroke_size: int = 1


def prepare(photo: Tensor, amount: float, origins: Origins) -> Tensor:
    """Photos (B, 3, H, W) in [-1, 1], smoothed and with strokes where they are plain.

    Args:
        amount: the strokes' standard deviation in the plainest places.
        origins: as a :class:`Canvas` has them.

    Raises:
        ValueError: neither one origin nor as many as there are photos.
    """
    strokes = cut(_canvas(), photo, origins)
    means = _means(photo)
    smooth = F.avg_pool2d(means, 3, 1, 1, count_include_pad=False)
    size = photo.shape[-2:]
    ground = _enlarged(smooth, size) + amount * strokes
    return torch.lerp(photo, ground, _plain(means, size))


def sees(first: int, last: int) -> tuple[int, int]:
    """Which columns of a photo the prepared columns from first to last depend on.

    Enlarging reads the block on a column's nearer side beside its own, and whether a block is plain
    depends on two more to each side.

    Returns:
        The first and the last of them.
    """
    half = BLOCK // 2
    low = (first - half) // BLOCK - 2
    high = (last + half) // BLOCK + 2
    return BLOCK * low, BLOCK * high + BLOCK - 1


def plainness(photo: Tensor) -> Tensor:
    """Where photos (B, 3, H, W) in [-1, 1] are plain: (B, 1, H, W), 1 in a clear sky, 0 at edges.

    Read from means over blocks, which have lost grain and most of the traces of a JPEG.
    """
    return _plain(_means(photo), photo.shape[-2:])


def _means(photo: Tensor) -> Tensor:
    return F.avg_pool2d(photo, BLOCK, ceil_mode=True)


def _plain(means: Tensor, size: Sequence[int]) -> Tensor:
    across = (means[..., 1:] - means[..., :-1]).abs().amax(1, keepdim=True)
    down = (means[..., 1:, :] - means[..., :-1, :]).abs().amax(1, keepdim=True)
    step = torch.maximum(F.pad(across, (1, 0)), F.pad(down, (0, 0, 1, 0)))
    # A step lies between two blocks: neither is plain, nor are their neighbours.
    largest = F.max_pool2d(F.pad(step, (1, 2, 1, 2)), 4, 1)
    return _enlarged(torch.exp(-(largest / FLAT).square()), size)


def _enlarged(blocks: Tensor, size: Sequence[int]) -> Tensor:
    return guided.enlarged(blocks, BLOCK)[..., : size[0], : size[1]]


@functools.cache
def _canvas() -> Tensor:
    """Strokes of mean 0 and standard deviation 1 that go on at the opposite border."""
    draw = torch.Generator().manual_seed(SEED)
    with torch.no_grad():
        noise = blurred(torch.randn(1, 1, SIDE, SIDE, generator=draw), WIDTH)
        flow = blurred(torch.randn(1, 1, SIDE, SIDE, generator=draw), FLOW)
        flow = TILT + TURNS * standardized(flow)
        directions = torch.cat([flow.cos(), flow.sin()], 1)
        places = torch.arange(SIDE, dtype=torch.float32)
        start = torch.stack(torch.meshgrid(places, places, indexing="xy"))[None]
        strokes = noise.clone()
        for sign in (1, -1):
            place = start
            for _ in range(LENGTH):
                place = place + sign * _at(directions, place)
                strokes += _at(noise, place)
        strokes -= blurred(strokes, COARSEST)
        return standardized(strokes)


def _at(image: Tensor, places: Tensor) -> Tensor:
    """An image that goes on at the opposite border, between its pixels.

    Args:
        places: (1, 2, H, W), columns and rows.
    """
    image = F.pad(image, (0, 1, 0, 1), mode="circular")
    grid = (places % SIDE) * 2 / SIDE - 1
    return F.grid_sample(image, grid.permute(0, 2, 3, 1), mode="bilinear", align_corners=True)
