"""The outlines of what a photo shows, as ink: the block that a print's black lines come from.

A woodblock print is cut twice over: one block for each color, and a key block for the lines around
them. The network paints the colors; the lines are drawn from the photo and printed on top.

There is a line where a photo is darker than its surroundings, by the difference of two Gaussians.
The difference is averaged along the edges, so that a line is one stroke and not a row of dots:
Kang, Lee and Chui, "Coherent Line Drawing", 2007, and Winnemoeller, Kyprianidis and Olsen, "XDoG:
An eXtended Difference-of-Gaussians Compendium", 2012. They follow an edge around its bends; over so
few pixels, straight steps to both sides give the same lines in a quarter of the time.

Larger strokes have wider lines: the difference is read at the network's own scale, and becomes ink
at full size, where its borders are as sharp as any.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from models.finish import guided
from models.finish.filter import Filter, Original, corner
from models.measures import gray

# Lengths in pixels; those of Gaussians are standard deviations.
WIDTH = 1.0  # of the narrower Gaussian, which is as wide as a line
AROUND = 1.6  # how many times wider the other one is
STEEP = 2.0  # of the Gaussian that the edges' directions are averaged with
LENGTH = 2.5  # of the one that the difference is averaged with, along an edge
HALF = 2  # directions are read from means over so many pixels a side; tiles begin at multiples
SAMPLES, SPACING = 3, 1.5  # how many are averaged to each side, and how far they are apart
FAINTEST = 0.016  # how much darker, of values in [-1, 1], a line is at least
CONTRAST = 40.0  # above that: how steeply ink grows with the difference


def _radius(deviation: float) -> int:
    return math.ceil(3 * deviation)


# Pixels: what is farther from a pixel than this has no part in its ink. Its own direction is
# averaged over the gradients around; the difference of Gaussians is read at some pixels from it.
REACH = max(
    HALF * (_radius(STEEP / HALF) + 2),
    HALF * math.ceil((SAMPLES * SPACING + 1 + _radius(AROUND * WIDTH)) / HALF),
)


@dataclass(frozen=True)
class Outlines(Filter):
    """Prints the outlines of what a photo shows on top of its painting.

    Args:
        ink: (B, 1, H, W), 0 to 1.
    """

    amount = "outlines"

    ink: Tensor

    @classmethod
    def of(cls, original: Original, amount: float) -> Outlines:
        return cls(amount * ink(original.reduced.photo, original.stroke_size))

    def on(self, picture: Tensor, strength: float) -> Tensor:
        return printed(picture, strength * corner(self.ink, picture))

    @staticmethod
    def reach(before: int, stroke_size: int) -> int:
        # Drawn from the photo alone; enlarging reads two pixels beside.
        return max(before, REACH if stroke_size == 1 else stroke_size * (REACH + 3))


@torch.no_grad()
def ink(image: Tensor, times: int = 1) -> Tensor:
    """How much ink there is: images (B, 3, h, w) in [-1, 1] -> (B, 1, times h, times w), 0 to 1.

    Args:
        times: how many times as large, and as wide, the lines are drawn.
    """
    with torch.autocast(image.device.type, enabled=False):
        image = image.float()
        luma = gray(image)
        step = _blurred(luma, WIDTH) - _blurred(luma, AROUND * WIDTH)
        darker = guided.smoothly_enlarged(-_along(step, _directions(image)), times)
        return torch.tanh(CONTRAST * (darker - FAINTEST).clamp_min(0))


def printed(picture: Tensor, ink: Tensor) -> Tensor:
    """Pictures (B, 3, H, W) in [-1, 1] with ink (B, 1, H, W), 0 to 1, on top; differentiable."""
    return (1 + picture) * (1 - ink) - 1


def _directions(image: Tensor) -> Tensor:
    """The edges' directions, unit vectors (B, H, W, 2) of columns and rows.

    The direction of least change: the minor axis of the structure tensor of all colors together.
    """
    height, width = image.shape[-2:]
    means = F.avg_pool2d(image, HALF, ceil_mode=True)
    padded = F.pad(means, (1, 1, 1, 1), mode="replicate")
    across = padded[..., 2:] - padded[..., :-2]
    across = across[..., :-2, :] + 2 * across[..., 1:-1, :] + across[..., 2:, :]
    down = padded[..., 2:, :] - padded[..., :-2, :]
    down = down[..., :-2] + 2 * down[..., 1:-1] + down[..., 2:]
    products = (across.square() - down.square(), across * down)
    difference, mixed = _blurred(torch.stack([p.sum(1) for p in products], 1), STEEP / HALF).unbind(
        1
    )
    steepest = torch.atan2(2 * mixed, difference) / 2
    directions = torch.stack([-steepest.sin(), steepest.cos()], -1)
    # Repeated, not mixed: of two that are nearly opposite the mean would be none.
    directions = directions.repeat_interleave(HALF, 1).repeat_interleave(HALF, 2)
    return directions[:, :height, :width]


def _along(image: Tensor, directions: Tensor) -> Tensor:
    """An image (B, 1, H, W) averaged along directions, the border repeated outside."""
    height, width = image.shape[-2:]
    # grid_sample counts from -1 to 1, whatever the size.
    rows, columns = (
        (torch.arange(n, device=image.device) * 2 + 1) / n - 1 for n in (height, width)
    )
    places = torch.stack(torch.meshgrid(columns, rows, indexing="xy"), -1)
    pixels = directions * image.new_tensor([2 / width, 2 / height])
    total, weights = image.clone(), 1.0
    for sample in range(1, SAMPLES + 1):
        distance = sample * SPACING
        weight = math.exp(-((distance / LENGTH) ** 2) / 2)
        for step in (distance, -distance):
            grid = torch.add(places, pixels, alpha=step)
            sampled = F.grid_sample(image, grid, padding_mode="border", align_corners=False)
            total.add_(sampled, alpha=weight)
            weights += weight
    return total.div_(weights)


@functools.cache
def _gaussian(deviation: float) -> Tensor:
    places = torch.arange(-_radius(deviation), _radius(deviation) + 1)
    kernel = torch.exp(-((places / deviation) ** 2) / 2)
    return kernel / kernel.sum()


def _blurred(image: Tensor, deviation: float) -> Tensor:
    """A Gaussian blur of images (B, C, H, W), the border repeated outside."""
    kernel, radius = _gaussian(deviation).to(image), _radius(deviation)
    batch, channels, height, width = image.shape
    x = F.pad(image, (radius,) * 4, mode="replicate").flatten(0, 1)[:, None]
    x = F.conv2d(F.conv2d(x, kernel.view(1, 1, -1, 1)), kernel.view(1, 1, 1, -1))
    return x.view(batch, channels, height, width)
