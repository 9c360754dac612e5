"""Where the tiles of a large picture lie, and the samples that give it its statistics."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Box:
    """Rows top..bottom and columns left..right of a picture, the ends excluded; pixels."""

    top: int
    left: int
    bottom: int
    right: int

    @property
    def height(self) -> int:
        return self.bottom - self.top

    @property
    def width(self) -> int:
        return self.right - self.left

    @property
    def area(self) -> int:
        return self.height * self.width

    @property
    def slices(self) -> tuple[slice, slice]:
        """What picks the box from an array (H, W, ...)."""
        return slice(self.top, self.bottom), slice(self.left, self.right)

    def within(self, outer: Box) -> Box:
        """The same place, counted from another box's corner."""
        return Box(
            self.top - outer.top,
            self.left - outer.left,
            self.bottom - outer.top,
            self.right - outer.left,
        )


@dataclass(frozen=True)
class Tile:
    """A part of the result, and the larger part of the photo that it is painted from."""

    core: Box
    crop: Box


def plan(height: int, width: int, side: int, margin: int, stride: int) -> Iterator[Tile]:
    """Tiles of about equal size that cover the picture once, row by row.

    Args:
        side: the longest side of a tile's core, pixels; rounded up to a multiple of ``stride``.
        margin: pixels that a crop reaches beyond its core, within the picture; rounded up too.
    """
    margin = _round_up(margin, stride)
    for top, bottom in _intervals(height, side, stride):
        for left, right in _intervals(width, side, stride):
            crop = Box(
                max(0, top - margin),
                max(0, left - margin),
                min(height, bottom + margin),
                min(width, right + margin),
            )
            yield Tile(Box(top, left, bottom, right), crop)


def samples(
    bounds: Box,
    pixels: int,
    side: int,
    stride: int,
    weight: Callable[[Box], float] | None = None,
) -> list[Box]:
    """Boxes of one size, spread evenly over a part of a picture, of so many pixels in all.

    The part itself where it has no more pixels than that.

    Args:
        weight: how much a box counts; those of next to no weight are passed over.
    """
    if bounds.area <= pixels:
        return [bounds]
    height, width = min(side, bounds.height), min(side, bounds.width)
    count = max(1, pixels // (height * width))
    if weight is None:
        return _grid(bounds, height, width, count, stride)
    boxes = _grid(bounds, height, width, bounds.area // (height * width), stride)
    weights = np.array([weight(box) for box in boxes])
    boxes = [boxes[i] for i in np.flatnonzero(weights > weights.max() / 20)] or boxes
    return [boxes[i * len(boxes) // count] for i in range(count)] if count < len(boxes) else boxes


def _grid(bounds: Box, height: int, width: int, count: int, stride: int) -> list[Box]:
    """Up to ``count`` boxes, in the middle of cells of one shape."""
    columns = round(math.sqrt(count * height * bounds.width / (bounds.height * width)))
    columns = min(max(1, columns), count, bounds.width // width)
    rows = min(count // columns, bounds.height // height)
    columns = min(count // rows, bounds.width // width)
    tops = _spread(bounds.top, bounds.bottom, height, rows, stride)
    lefts = _spread(bounds.left, bounds.right, width, columns, stride)
    return [Box(top, left, top + height, left + width) for top in tops for left in lefts]


def _intervals(length: int, side: int, stride: int) -> list[tuple[int, int]]:
    count = math.ceil(length / _round_up(side, stride))
    step = _round_up(math.ceil(length / count), stride)
    return [(start, min(start + step, length)) for start in range(0, length, step)]


def _spread(start: int, end: int, side: int, count: int, stride: int) -> list[int]:
    # In the middle of cells of one size, and where the network's own grid has its lines.
    cells = (np.arange(count) + 0.5) * (end - start) / count - side / 2
    places = start + np.floor(cells / stride).astype(int) * stride
    return [int(place) for place in places.clip(start, end - side)]


def _round_up(length: int, stride: int) -> int:
    return -(-length // stride) * stride
