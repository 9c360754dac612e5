"""One style on one photo or a region of it: read from samples, painted whole or tile by tile."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

import models
from app import color, images, tiles
from app.limits import Limits
from app.look import Look
from app.regions import Region
from app.tiles import Box
from models import finish, statistics
from models.network import STRIDE
from models.strokes import Canvas


@dataclass(frozen=True)
class Held:
    """What is read once, of a photo or of frames of a clip, and held in its tiles or frames.

    Attributes:
        statistics: what the network's hops read.
        matching: the map of colors, with keep_color="matched".
    """

    statistics: statistics.Statistics
    matching: color.Matching | None = None


class RegionPainter:
    """Paints one region of one photo in its style.

    Args:
        rgb: the photo, (H, W, 3) uint8.
        stroke_size: how many times larger than the network's own the strokes are.
        origin: top and left of the photo on the canvas of its strokes, pixels; see
            :mod:`models.strokes`.
        held: under which statistics it is painted; None: its own, or those that it surveys.
    """

    def __init__(
        self,
        network: models.Repainter,
        device: torch.device,
        rgb: np.ndarray,
        region: Region,
        look: Look,
        stroke_size: int,
        origin: tuple[int, int] = (0, 0),
        held: Held | None = None,
    ) -> None:
        self.network, self.device, self.rgb, self.region = network, device, rgb, region
        self.style, self.look, self.origin = region.style.to(device), look, origin
        self.stroke_size, self.held = stroke_size, held
        self._whole = Box(0, 0, *rgb.shape[:2])

    @property
    def stride(self) -> int:
        """Pixels: tiles of the photo that begin at multiples of it fit together."""
        return STRIDE * self.stroke_size

    @property
    def reach(self) -> int:
        """Pixels: what is farther from a pixel of the photo has no part in its painting."""
        return finish.reach(self.network.reach, self.ground, self.stroke_size)

    @property
    def ground(self) -> models.Ground:
        """What is made of the photo: what its style wants, more or less."""
        return self.style.ground.of(self.look)

    def coverage(self, box: Box) -> Tensor | None:
        """How much of each pixel of a box is painted; see Region.coverage."""
        covered = self.region.coverage(box, *self.rgb.shape[:2])
        return None if covered is None else covered.to(self.device)

    def content_key(self) -> bytes:
        """The same for photos with the same content features."""
        digest = hashlib.blake2b(np.ascontiguousarray(self.rgb).data, digest_size=16)
        digest.update(repr((self.rgb.shape, self.origin, self.ground, self.stroke_size)).encode())
        covered = self.coverage(self._whole)
        if covered is not None and self.network.config.architecture.norms:
            # The encoder's norms read the region's statistics.
            digest.update(covered.cpu().numpy().data)
        return digest.digest()

    def encode(self) -> models.Content:
        """What there is to paint in the whole photo, under the region's statistics."""
        with statistics.record(self.coverage(self._whole)):
            photo, canvas = self._tensor(self._whole), self._canvas([self._whole])
            return self.network.encode_photo(photo, canvas, self.style.ground)

    def survey(self, limits: Limits) -> None:
        """Read the region's statistics from samples, to hold them in every tile."""
        area = self._bounds.area
        self.held = self._read([self.rgb], self.stroke_size * limits.sampled(area), limits)

    def survey_shot(self, frames: Sequence[np.ndarray], limits: Limits) -> Held:
        """What frames of one shot have in common: pictures of the photo's size."""
        # The network sees so many of the pixels of frames that larger strokes make smaller.
        pixels = self.stroke_size * limits.sampled_of_a_shot
        return self._read(frames, max(1, pixels // len(frames)), limits)

    def _read(self, photos: Sequence[np.ndarray], pixels: int, limits: Limits) -> Held:
        """What samples, of so many pixels of each of several photos, have in common."""
        weight = None if self.region.mask is None else self._weight
        side = limits.sample_side * self.stroke_size
        boxes = tiles.samples(self._bounds, pixels, side, self.stride, weight)
        parts = [images.to_tensor(rgb[box.slices]) for rgb in photos for box in boxes]
        samples = torch.cat(parts).to(self.device)
        covered = [self.coverage(box) for box in boxes] * len(photos)
        weights = None
        if any(part is not None for part in covered):
            full = samples.new_ones(1, 1, *samples.shape[-2:])
            weights = torch.cat([full if part is None else part for part in covered])
            if not weights.any():  # what little is painted lies between the samples
                weights = None
        with statistics.record(weights, pool=True) as read:
            painted = self._repaint(samples, self._canvas(boxes * len(photos)))
        matched = self.look.keep_color == "matched"
        return Held(read, color.matching(samples, painted, weights) if matched else None)

    def paint(
        self,
        tile: tiles.Tile,
        photo: Tensor,
        covered: Tensor | None,
        content: models.Content | None = None,
    ) -> Tensor:
        """The tile's core in the region's style, also where the region is not.

        Args:
            photo, covered: of the core: the photo, (1, 3, h, w), and its :meth:`coverage`.
            content: what :meth:`encode` gave, where the tile is the whole photo.
        """
        crop, canvas, held = self._tensor(tile.crop), self._canvas([tile.crop]), self.held
        if held is not None:
            with statistics.hold(held.statistics):
                painted = self._repaint(crop, canvas, content)
        else:
            with statistics.record(self.coverage(tile.crop)):
                painted = self._repaint(crop, canvas, content)
        rows, columns = tile.core.within(tile.crop).slices
        painted = painted[..., rows, columns]
        matching = None if held is None else held.matching
        return color.kept(self.look.keep_color, photo, painted, covered, matching)

    def _repaint(
        self, photos: Tensor, canvas: Canvas, content: models.Content | None = None
    ) -> Tensor:
        return self.network.repaint(photos, self.style, self.look.strength, content, canvas)

    @property
    def _bounds(self) -> Box:
        bounds = self.region.bounds(*self.rgb.shape[:2])
        assert bounds is not None, "where nothing is painted there is no region to paint"
        return bounds

    def _weight(self, box: Box) -> float:
        covered = self.coverage(box)
        return 1.0 if covered is None else float(covered.mean())

    def _canvas(self, boxes: Sequence[Box]) -> Canvas:
        """Where parts of the photo lie on its canvas."""
        top, left = self.origin
        places = [(top + box.top, left + box.left) for box in boxes]
        return Canvas(places, self.look, self.stroke_size)

    def _tensor(self, box: Box) -> Tensor:
        return images.to_tensor(self.rgb[box.slices]).to(self.device)
