"""One style, made ready to paint one photo or a region of it, whole or tile by tile."""

from __future__ import annotations

import hashlib

import numpy as np
import torch
from torch import Tensor

import models
from app import color, images, tiles
from app.look import Look
from app.regions import Region
from app.tiles import Box
from models import finish, statistics
from models.network import STRIDE
from models.strokes import Canvas

# Pixels. A larger photo is painted in tiles, and so is none of these: about 0.4 GB a megapixel.
WHOLE = 2 * 1024 * 1024

# A tiled photo's statistics are read from samples: an eighth of its pixels, within these limits,
# and all of them up to WHOLE. Each reading is repeated for every region.
SAMPLE_SIDE = 128
SAMPLED_SHARE, FEWEST_SAMPLED = 8, 512 * 1024


class Brush:
    """One region's style, made ready for one photo.

    Args:
        origin: top and left of the photo on the canvas of its strokes, pixels; see
            `models.strokes`.
    """

    def __init__(
        self,
        network: models.Repainter,
        device: torch.device,
        rgb: np.ndarray,
        region: Region,
        look: Look,
        origin: tuple[int, int] = (0, 0),
    ):
        self.network, self.device, self.rgb, self.region = network, device, rgb, region
        self.style, self.look, self.origin = region.style.to(device), look, origin
        self._whole = Box(0, 0, *rgb.shape[:2])
        self.held: statistics.Statistics | None = None
        self.matching: color.Matching | None = None

    @property
    def stride(self) -> int:
        """Pixels: tiles of the photo that begin at multiples of it fit together."""
        return STRIDE * self.look.brush_size

    @property
    def reach(self) -> int:
        """Pixels: what is farther from a pixel of the photo has no part in its painting."""
        return finish.reach(self.network.reach, self.ground, self.look.brush_size)

    @property
    def ground(self) -> models.Ground:
        """What is made of the photo: what its style wants, more or less."""
        return self.style.ground.of(self.look)

    def share(self, box: Box) -> Tensor | None:
        """How much of each pixel of a box is painted; see Region.share."""
        share = self.region.share(box, *self.rgb.shape[:2])
        return None if share is None else share.to(self.device)

    def content_key(self) -> bytes:
        """The same for photos with the same content features."""
        digest = hashlib.blake2b(np.ascontiguousarray(self.rgb), digest_size=16)
        digest.update(
            repr((self.rgb.shape, self.origin, self.ground, self.look.brush_size)).encode()
        )
        share = self.share(self._whole)
        if share is not None and self.network.config.coloring == "mlp":
            # Its encoder's norms read the region's statistics.
            digest.update(share.cpu().numpy())
        return digest.digest()

    def encode(self) -> models.Content:
        """What there is to paint in the whole photo, under the region's statistics."""
        with statistics.record(self.share(self._whole)):
            photo, canvas = self._tensor(self._whole), self._canvas(self._whole)
            return self.network.encode_photo(photo, canvas, self.style.ground)

    def survey(self) -> None:
        """Read the region's statistics from samples, to hold them in every tile."""
        bounds = self.region.bounds(*self.rgb.shape[:2])
        weight = None if self.region.mask is None else self._weight
        side = SAMPLE_SIDE * self.look.brush_size
        pixels = min(bounds.area, self.look.brush_size * _sampled(bounds.area))
        boxes = tiles.samples(bounds, pixels, side, self.stride, weight)
        photos = torch.cat([self._tensor(box) for box in boxes])
        shares = [self.share(box) for box in boxes]
        weights = None
        if any(share is not None for share in shares):
            full = photos.new_ones(1, 1, *photos.shape[-2:])
            weights = torch.cat([full if share is None else share for share in shares])
            if not weights.any():  # what little is painted lies between the samples
                weights = None
        with statistics.record(weights, pool=True) as self.held:
            canvas = self._canvas(*boxes)
            painted = self.network.repaint(photos, self.style, self.look.strength, canvas=canvas)
        if self.look.keep_color == "matched":
            self.matching = color.matching(photos, painted, weights)

    def paint(self, tile: tiles.Tile, photo: Tensor, content: models.Content | None) -> Tensor:
        """The tile's core in the region's style, also where the region is not."""
        crop, canvas = self._tensor(tile.crop), self._canvas(tile.crop)
        if self.held is not None:
            with statistics.hold(self.held):
                painted = self.network.repaint(
                    crop, self.style, self.look.strength, content, canvas
                )
        else:
            with statistics.record(self.share(tile.crop)):
                painted = self.network.repaint(
                    crop, self.style, self.look.strength, content, canvas
                )
        painted = painted[(..., *tile.core.within(tile.crop).slices)]
        if self.look.keep_color == "luminance":
            return color.luminance(photo, painted)
        if self.look.keep_color == "matched":
            share = self.share(tile.core)
            return (self.matching or color.matching(photo, painted, share))(painted)
        return painted

    def _weight(self, box: Box) -> float:
        share = self.share(box)
        return 1.0 if share is None else float(share.mean())

    def _canvas(self, *boxes: Box) -> Canvas:
        """Where parts of the photo lie on its canvas."""
        top, left = self.origin
        places = [(top + box.top, left + box.left) for box in boxes]
        return Canvas(places, self.look, self.look.brush_size)

    def _tensor(self, box: Box) -> Tensor:
        return images.to_tensor(self.rgb[box.slices]).to(self.device)


def _sampled(pixels: int) -> int:
    """How many of a region's pixels its statistics are read from."""
    if pixels <= WHOLE:
        return pixels
    return min(max(pixels // SAMPLED_SHARE, FEWEST_SAMPLED), WHOLE)
