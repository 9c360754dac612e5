"""A photo with less detail: flat areas, and the edges between them kept."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from models.finish.filter import Filter, Original

STEPS = 8
BLOCK = 192, 512  # rows and columns: with what each pixel knows they stay in a processor's cache
REACH = STEPS + 1  # pixels: each step carries what a pixel knows one further, and so does the end


@dataclass(frozen=True)
class Simplification(Filter):
    """Leaves detail out of a photo before it is painted."""

    amount = "simplify"

    share: float

    @classmethod
    def of(cls, original: Original, amount: float) -> Simplification:
        return cls(amount)

    def on(self, picture: Tensor, strength: float) -> Tensor:
        return simplified(picture, strength * self.share)

    @staticmethod
    def reach(before: int, stroke_size: int) -> int:
        return before + REACH


def simplified(image: Tensor, amount: float) -> Tensor:
    """Images (B, 3, H, W) with their total variation reduced; a new tensor.

    STEPS steps of minimizing |x - image|^2 / 2 + amount TV(x): Beck and Teboulle, "Fast
    Gradient-Based Algorithms for Constrained Total Variation Image Denoising and Deblurring
    Problems", 2009. A pixel's variation is the length of the steps down and across of its three
    colors together, so that their edges stay in one place. So few steps don't reach the minimum:
    changes that are slow over more than STEPS pixels stay.

    Args:
        amount: 0 keeps everything. Detail is lost if its contrast, of values in [-1, 1], times its
            width in pixels is below a few times the amount.
    """
    result = image.clone()
    if not amount > 0:
        return result
    # Block by block, each with what it reaches. All of them share their memory: new memory costs
    # more than a sum.
    memory = [image.new_empty(0) for _ in range(5)]
    rows, columns = (
        [(max(0, start - REACH), start, start + size) for start in range(0, side, size)]
        for side, size in zip(image.shape[-2:], BLOCK, strict=True)
    )
    for (above, top, bottom), (before, left, right) in itertools.product(rows, columns):
        part = image[..., above : bottom + REACH, before : right + REACH]
        part = _simplified(part, amount, memory)
        result[..., top:bottom, left:right] = part[
            ..., top - above : bottom - above, left - before : right - before
        ]
    return result


def _simplified(image: Tensor, amount: float, memory: Sequence[Tensor]) -> Tensor:
    # What is subtracted is a divergence: the field's first row or column is that of steps down,
    # the second of steps across, both from a pixel to the next.
    shape = image.shape
    field, ahead, new = (_shaped(given, 2, *shape) for given in memory[:3])
    x, length = _shaped(memory[3], *shape), _shaped(memory[4], shape[0], 1, *shape[2:])
    for given in (field, ahead, new):
        given.zero_()  # the last row's steps down and the last column's across stay 0
    step, pace = 1 / (8 * amount), 1.0
    for number in range(1, STEPS + 1):
        if number == 1:
            x.copy_(image)
        else:
            _less(image, ahead, amount, x)
        _ahead_by(ahead[0, ..., :-1, :], x[..., 1:, :], x[..., :-1, :], step, new[0, ..., :-1, :])
        _ahead_by(ahead[1, ..., :-1], x[..., 1:], x[..., :-1], step, new[1, ..., :-1])
        new *= _square(new, length).clamp_min_(1).rsqrt_()
        next_pace = (1 + (1 + 4 * pace**2) ** 0.5) / 2
        if number < STEPS:
            torch.lerp(field, new, 1 + (pace - 1) / next_pace, out=ahead)
        field, new, pace = new, field, next_pace
    return _less(image, field, amount, x)


def _shaped(memory: Tensor, *shape: int) -> Tensor:
    """A tensor in some memory, which grows where it is too small."""
    size = math.prod(shape)
    if memory.numel() < size:
        memory.resize_(size)
    return memory[:size].view(shape)


def _ahead_by(start: Tensor, to: Tensor, of: Tensor, step: float, out: Tensor) -> None:
    """``start`` plus ``step`` times the difference."""
    torch.sub(to, of, out=out)
    torch.add(start, out, alpha=step, out=out)


def _square(field: Tensor, out: Tensor) -> Tensor:
    """The squared length of what a field has at a pixel, all colors together: (B, 1, H, W)."""
    # As one norm over two dimensions it takes ten times as long.
    first, *others = [plane for direction in field.unbind() for plane in direction.split(1, 1)]
    torch.mul(first, first, out=out)
    for plane in others:
        out.addcmul_(plane, plane)
    return out


def _less(image: Tensor, field: Tensor, amount: float, out: Tensor) -> Tensor:
    """The image plus ``amount`` times the field's divergence."""
    down, across = field.unbind()
    torch.add(image, down, alpha=amount, out=out).add_(across, alpha=amount)
    out[..., 1:, :].sub_(down[..., :-1, :], alpha=amount)
    out[..., 1:].sub_(across[..., :-1], alpha=amount)
    return out
