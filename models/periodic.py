"""A canvas or a sheet of paper of any size: images that go on at their opposite border.

Whatever lies on it lies still. A tile of a picture finds the same strokes and the same grain under
it as the whole picture does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

SIDE = 512  # pixels: a canvas repeats after so many
SEED = 0

# Top and left of each photo on the canvas, pixels, of any sign; one may stand for all.
Origins = Sequence[tuple[int, int]]


def cut(canvas: Tensor, photo: Tensor, origins: Origins, size: int = 1) -> Tensor:
    """What of a canvas (1, 1, SIDE, SIDE) lies under photos (B, 3, H, W): (B or 1, 1, H, W).

    Args:
        size: how many times larger the canvas is than it was drawn, bilinearly. It repeats after
            as many times SIDE.

    Raises:
        ValueError: neither one origin nor as many as there are photos.
    """
    if len(origins) not in (1, len(photo)):
        raise ValueError(f"{len(photo)} photos can't have {len(origins)} origins")
    canvas = canvas.to(photo)
    height, width = (torch.arange(n, device=photo.device) for n in photo.shape[-2:])
    if size == 1:
        places = (((height + top) % SIDE, (width + left) % SIDE) for top, left in origins)
        return torch.cat([canvas[:, :, rows[:, None], columns] for rows, columns in places])
    return torch.cat(
        [
            _lines(_lines(canvas, height + top, size, -2), width + left, size, -1)
            for top, left in origins
        ]
    )


def _lines(canvas: Tensor, places: Tensor, size: int, dimension: int) -> Tensor:
    """The lines of an enlarged canvas at some places, along one dimension."""
    # Of the middles of pixels, in halves of the smaller canvas's parts: whole numbers stay exact.
    parts = 2 * places + 1 - size
    first = parts.div(2 * size, rounding_mode="floor")
    shape = [1] * canvas.ndim
    shape[dimension] = -1
    share = ((parts - 2 * size * first).to(canvas) / (2 * size)).reshape(shape)
    before, after = (canvas.index_select(dimension, i % SIDE) for i in (first, first + 1))
    return torch.lerp(before, after, share)


def blurred(image: Tensor, deviation: float) -> Tensor:
    """A Gaussian blur, its standard deviation in pixels, of an image that goes on at the border."""
    rows, columns = (torch.fft.fftfreq(image.shape[-2]), torch.fft.rfftfreq(image.shape[-1]))
    gain = torch.exp(-2 * (math.pi * deviation) ** 2 * (rows[:, None] ** 2 + columns**2))
    return torch.fft.irfft2(torch.fft.rfft2(image) * gain, s=image.shape[-2:])


def standardized(image: Tensor) -> Tensor:
    """The image with mean 0 and standard deviation 1, whatever the number of threads.

    Torch adds up a large image in as many parts as there are threads, and rounds accordingly; rows
    are added up by one thread each.
    """
    return (image - image.mean(-1).mean()) / image.std()
