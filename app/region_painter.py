"""One style on one photo or a region of it: read from samples, painted whole or tile by tile."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

import models
from app import color, images, tiles
from app.limits import LIMITS, Limits
from app.look import Look
from app.regions import Region
from app.tiles import Box
from models import finish, statistics
from models.finish import Finish, Original
from models.finish.filter import reduced
from models.network import STRIDE, padded, padded_side
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


@dataclass(frozen=True)
class Drawing:
    """What the network makes of a whole photo, before it is finished.

    Attributes:
        picture: (1, 3, H, W), H and W the photo's over the stroke size.
        finish: what is done to it; None where that is not known yet.
    """

    picture: Tensor
    finish: Finish | None


class RegionPainter:
    """Paints one region of one photo in its style.

    A large photo is painted in tiles, each under the statistics of the whole. Where larger strokes
    leave so little of it that the network sees it whole, it does: then only what is done at full
    size is done in tiles.

    Args:
        rgb: the photo, (H, W, 3) uint8.
        stroke_size: how many times larger than the network's own the strokes are.
        origin: top and left of the photo on the canvas of its strokes, pixels; see
            :mod:`models.strokes`.
        held: under which statistics it is painted; None: its own, or those that it surveys.
        limits: how much is painted and read at a time.
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
        limits: Limits = LIMITS,
    ) -> None:
        self.network, self.device, self.rgb, self.region = network, device, rgb, region
        self.style, self.look, self.origin = region.style.to(device), look, origin
        self.stroke_size, self.held, self.limits = stroke_size, held, limits
        self._whole = Box(0, 0, *rgb.shape[:2])
        self._small: Tensor | None = None  # the painting at the network's own scale
        self._simplified: Tensor | None = None  # the photo, where it is kept

    @property
    def stride(self) -> int:
        """Pixels: tiles of the photo that begin at multiples of it fit together."""
        return STRIDE * self.stroke_size

    @property
    def reach(self) -> int:
        """Pixels: what is farther from a pixel of the photo has no part in its tile's painting."""
        if self.is_seen_whole:
            return finish.large_reach(self.ground, self.stroke_size)
        return finish.reach(self.network.reach, self.ground, self.stroke_size)

    @property
    def is_seen_whole(self) -> bool:
        """Whether larger strokes make a photo small enough for the network to see all of it."""
        height, width = (-(-side // self.stroke_size) for side in self.rgb.shape[:2])
        return self.stroke_size > 1 and height * width <= self.limits.whole

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

    def drawing_key(self) -> bytes:
        """The same where the network makes the same of the whole photo, however it is finished."""
        wanted = (self.ground.simplify, self.ground.strokes, self.look.strength)
        about = (self.rgb.shape, self.origin, self.stroke_size, wanted)
        digest = hashlib.blake2b(np.ascontiguousarray(self.rgb).data, digest_size=16)
        digest.update(repr(about).encode())
        covered = self.coverage(self._whole)
        for tensor in (*self.style.tensors, *(() if covered is None else (covered,))):
            digest.update(tensor.cpu().contiguous().numpy().data)
        return digest.digest()

    def draw(self, content: models.Content) -> Tensor:
        """What the network makes of the whole photo, before it is finished."""
        photo = self._tensor(self._whole)
        with statistics.record(self.coverage(self._whole)):
            return self.network.draw(photo, self.style, self.look.strength, content)

    def encode(self) -> models.Content:
        """What there is to paint in the whole photo, under the region's statistics."""
        with statistics.record(self.coverage(self._whole)):
            photo, canvas = self._tensor(self._whole), self._canvas([self._whole])
            return self.network.encode_photo(photo, canvas, self.style.ground)

    def before_tiles(self, tell: Callable[[], None] = lambda: None) -> None:
        """What is read or painted once of a photo that is painted in tiles.

        Args:
            tell: called now and then; what it raises ends the painting.
        """
        if self.is_seen_whole:
            self._paint_small(tell)
        else:
            pixels = self.stroke_size * self.limits.sampled(self._bounds.area)
            self.held = self._read([self.rgb], pixels)

    def survey_shot(self, frames: Sequence[np.ndarray]) -> Held:
        """What frames of one shot have in common: pictures of the photo's size."""
        # The network sees so many of the pixels of frames that larger strokes make smaller.
        pixels = self.stroke_size * self.limits.sampled_of_a_shot
        return self._read(frames, max(1, pixels // len(frames)))

    def _read(self, photos: Sequence[np.ndarray], pixels: int) -> Held:
        """What samples, of so many pixels of each of several photos, have in common."""
        boxes = self._samples(pixels)
        parts = [images.to_tensor(rgb[box.slices]) for rgb in photos for box in boxes]
        samples = torch.cat(parts).to(self.device)
        weights = self._weights(boxes * len(photos))
        with statistics.record(weights, pool=True) as read:
            painted = self._repaint(samples, self._canvas(boxes * len(photos)))
        matched = self.look.keep_color == "matched"
        return Held(read, color.matching(samples, painted, weights) if matched else None)

    def _samples(self, pixels: int) -> list[Box]:
        """Boxes of the region, of so many pixels in all."""
        weight = None if self.region.mask is None else self._weight
        side = self.limits.sample_side * self.stroke_size
        return tiles.samples(self._bounds, pixels, side, self.stride, weight)

    def _weights(self, boxes: Sequence[Box]) -> Tensor | None:
        """How much each pixel of boxes of one size counts, (B, 1, h, w); None: all the same."""
        covered = [self.coverage(box) for box in boxes]
        if all(part is None for part in covered):
            return None
        full = torch.ones(1, 1, boxes[0].height, boxes[0].width, device=self.device)
        weights = torch.cat([full if part is None else part for part in covered])
        # What little is painted may lie between the samples.
        return weights if weights.any() else None

    def _paint_small(self, tell: Callable[[], None]) -> None:
        """Paint all of the photo at the network's own scale."""
        size, held = self.stroke_size, self.held
        photo, seen = self._reduced(tell)
        covered = self.coverage(self._whole)
        weights = None if covered is None else reduced(covered, size)
        (top, left), ground = self.origin, self.ground
        with statistics.hold(held.statistics) if held else statistics.record(weights) as read:
            original = Original(seen, [(top // size, left // size)])
            content = self.network.encode_reduced(original, ground)
            self._small = self.network.repaint(photo, self.style, self.look.strength, content)
        if read is not None:
            self.held = Held(read, self._matching() if self.look.keep_color == "matched" else None)

    def _matching(self) -> color.Matching:
        """The map of colors, from samples of the finished painting."""
        boxes = self._samples(self.limits.sampled(self._bounds.area))
        photos = torch.cat([self._tensor(box) for box in boxes])
        painted = torch.cat([self._finished(box) for box in boxes])
        return color.matching(photos, painted, self._weights(boxes))

    def _reduced(self, tell: Callable[[], None]) -> tuple[Tensor, Tensor]:
        """The photo at the network's own scale, as it is, and simplified and padded.

        Strip by strip, whatever its size; if it is not too large, what is simplified is kept.
        """
        height, width = self.rgb.shape[:2]
        rows, columns = (padded_side(side, self.stroke_size) for side in (height, width))
        kept = None
        if finish.prepared_reach(self.ground) and 12 * rows * columns <= self.limits.simplified:
            kept = torch.empty(1, 3, rows, columns, device=self.device)
        step = -(-(self.limits.tile**2) // (width * self.stride)) * self.stride
        own, seen = [], []
        for top in range(0, height, step):
            strip = Box(top, 0, min(top + step, height), width)
            simplified = self._prepared(strip)
            if kept is not None:
                kept[..., top : top + simplified.shape[-2], :] = simplified
            seen.append(reduced(simplified, self.stroke_size))
            if self.look.strength < 1:  # else nobody asks for it
                own.append(reduced(self._tensor(strip), self.stroke_size))
            tell()
        self._simplified = kept
        whole = torch.cat(seen, 2)
        rows, columns = (-(-side // self.stroke_size) for side in (height, width))
        return torch.cat(own, 2) if own else whole[..., :rows, :columns], whole

    def _prepared(self, box: Box) -> Tensor:
        """What filters see of a box of the photo, padded where it ends where the photo does.

        The box begins at multiples of the stride.
        """
        height, width = self.rgb.shape[:2]
        bottom = padded_side(height, self.stroke_size) if box.bottom == height else box.bottom
        right = padded_side(width, self.stroke_size) if box.right == width else box.right
        if self._simplified is not None:
            return self._simplified[..., box.top : bottom, box.left : right]
        crop = self._around(box, max(1, finish.prepared_reach(self.ground)))
        photo = finish.prepared(padded(self._tensor(crop), self.stroke_size), self.ground)
        rows = slice(box.top - crop.top, bottom - crop.top)
        return photo[..., rows, box.left - crop.left : right - crop.left]

    def _around(self, box: Box, margin: int) -> Box:
        """What lies at most so many pixels around a box, out to the next strides."""
        stride, (height, width) = self.stride, self.rgb.shape[:2]
        return Box(
            max(0, (box.top - margin) // stride * stride),
            max(0, (box.left - margin) // stride * stride),
            min(height, -(-(box.bottom + margin) // stride) * stride),
            min(width, -(-(box.right + margin) // stride) * stride),
        )

    def _finished(self, box: Box) -> Tensor:
        """A box of the painting at full size, of the one at the network's own scale."""
        assert self._small is not None
        size, (top, left) = self.stroke_size, self.origin
        crop = self._around(box, self.reach)
        small = self._small[
            ...,
            crop.top // size : -(-crop.bottom // size),
            crop.left // size : -(-crop.right // size),
        ]
        original = Original(self._prepared(crop), [(top + crop.top, left + crop.left)], size)
        painted = Finish.large(original, self.ground).on(small, self.look.strength)
        rows, columns = box.within(crop).slices
        return painted[..., rows, columns]

    def _finished_anew(self, drawing: Drawing) -> Tensor:
        """The whole photo's painting, of what the network made of it."""
        on_top = drawing.finish
        if on_top is None:
            photo, canvas = self._tensor(self._whole), self._canvas([self._whole])
            on_top = self.network.finish_of(photo, canvas, self.style.ground)
        painted = on_top.on(drawing.picture, self.look.strength)
        return painted[..., : self._whole.height, : self._whole.width]

    def paint(
        self,
        tile: tiles.Tile,
        covered: Tensor | None,
        drawing: Drawing | None = None,
    ) -> Tensor:
        """The tile's core in the region's style, also where the region is not.

        Args:
            covered: the core's :meth:`coverage`.
            drawing: of the whole photo, where the tile is that.
        """
        held = self.held
        if self._small is not None:
            painted = self._finished(tile.core)
        elif drawing is not None:
            painted = self._finished_anew(drawing)
        else:
            crop, canvas = self._tensor(tile.crop), self._canvas([tile.crop])
            covered_crop = None if held else self.coverage(tile.crop)
            with statistics.hold(held.statistics) if held else statistics.record(covered_crop):
                painted = self._repaint(crop, canvas)
            rows, columns = tile.core.within(tile.crop).slices
            painted = painted[..., rows, columns]
        matching = None if held is None else held.matching
        if self.look.keep_color is None:
            return painted
        photo = self._tensor(tile.core)
        return color.kept(self.look.keep_color, photo, painted, covered, matching)

    def _repaint(self, photos: Tensor, canvas: Canvas) -> Tensor:
        return self.network.repaint(photos, self.style, self.look.strength, canvas=canvas)

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
