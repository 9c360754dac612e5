"""The one engine: a loaded network, its styles, and what it paints with them.

A still, a batch of pictures of one size and a frame of a clip go through it: it surveys, cuts
tiles, keeps colors and remembers.
"""

import difflib
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

import models
from app import color, images, mapped, tiles
from app.cores import FairShare
from app.grounds import OWN
from app.limits import CONTENT_BYTES, LIMITS, Limits
from app.look import AS_THE_STYLE, Look
from app.region_painter import Drawing, Held, RegionPainter
from app.regions import Region
from app.tiles import Box
from models.network import STRIDE
from models.precision import AUTO, chosen
from models.strokes import Canvas


class Painter:
    """Paints photos with the network and the styles of one checkpoint file.

    device: "auto" (the first available of cuda, mps, cpu) or the name of a torch device.
    limits: how much is painted, read and remembered at a time.
    precision: in what convolutions are computed, "auto", "float32" or "bfloat16"; see
    models.precision. Styles are read in float32.

    style_names: the built-in styles, in the checkpoint's order. codes: how many codes each has.
    path: the checkpoint's file. paints_clips: whether it has `survey` and `paint_frame`.

    Raises models.CheckpointError, a ValueError, where the checkpoint cannot be used, and
    ValueError for a device that this machine does not have, or that cannot compute in bfloat16.
    """

    paints_clips = True

    def __init__(
        self,
        checkpoint_path: str | os.PathLike,
        device: str = "auto",
        limits: Limits = LIMITS,
        precision: str = AUTO,
    ) -> None:
        self.path = Path(checkpoint_path)
        self.device = available_device(device)
        self.limits = limits
        checkpoint = models.load_checkpoint(self.path, device=str(self.device))
        self.network = checkpoint.network
        self.record = checkpoint.record
        self.precision = chosen(precision, self.device)
        self.network.compute_in(self.precision.dtype)
        self._built_in = checkpoint.styles
        self.codes = {name: len(codes) for name, codes in checkpoint.styles.items()}
        self.style_names = tuple(checkpoint.styles)
        self._from_pictures: OrderedDict[tuple, models.StyleCode] = OrderedDict()
        self._contents = _Contents(limits.remembered_content)
        self._drawings = _Drawings(
            limits.remembered_drawings if limits.remembered_content else 0, self._contents
        )
        # The demo serves each visitor in a thread of its own. One picture at a time is as fast on
        # one device, and holds no more memory than one.
        self._one_at_a_time = threading.Lock()
        self._cores = FairShare() if self.device.type == "cpu" else None
        if self._cores is not None:
            for hop in self.network.hops:
                hop.register_forward_pre_hook(self._share_cores)

    def _share_cores(self, *_: object) -> None:
        if self._cores is not None:
            self._cores.adjust()

    def style(
        self, name_or_path: str | os.PathLike, *, max_pixels: int = images.MAX_PIXELS
    ) -> models.StyleCode:
        """The style code of a built-in style or of a picture file.

        "monet" is the built-in style's first code, "monet:2" its second. A built-in name wins over
        a file of that name ("./monet" is the file). Codes of pictures are remembered until their
        file changes. max_pixels: as in images.load.

        Raises ValueError that lists the built-in names where the name is neither, and
        images.ImageError where the file cannot be read.
        """
        code = self._built_in_style(str(name_or_path))
        if code is not None:
            return code
        path = Path(name_or_path)
        if not path.exists():
            raise ValueError(self._unknown(str(name_or_path)))
        status = path.stat()
        key = (path.resolve(), status.st_mtime_ns, status.st_size)
        with self._one_at_a_time:
            if key in self._from_pictures:
                self._from_pictures.move_to_end(key)
                return self._from_pictures[key]
        code = self.encode(images.load(path, max_pixels=max_pixels))
        with self._one_at_a_time:
            self._from_pictures[key] = code
            while len(self._from_pictures) > self.limits.remembered_paintings:
                self._from_pictures.popitem(last=False)
        return code

    def encode(self, painting: images.Picture) -> models.StyleCode:
        """The style code of a painting, without its alpha, on the ground of one's own paintings."""
        # What lies under transparent pixels is arbitrary, and must not become part of a style.
        painting = images.resize(images.flatten(painting), self.limits.style_side)
        tensor = images.to_tensor(painting.rgb).to(self.device)
        with self._one_at_a_time, torch.no_grad():
            return replace(self.network.encode_style(tensor), ground=OWN)

    def blend(
        self, parts: Sequence[tuple[str | os.PathLike | models.StyleCode, float]]
    ) -> models.StyleCode:
        """One style between several, each with its weight; see `models.StyleCode.blend`.

        The weights are divided by their sum. Raises ValueError for no parts, for weights that are
        negative, not finite or all zero, and what `style` raises.
        """
        codes = [
            part if isinstance(part, models.StyleCode) else self.style(part) for part, _ in parts
        ]
        return models.StyleCode.blend(
            [code.to(self.device) for code in codes], [weight for _, weight in parts]
        )

    def remember(
        self,
        picture: images.Picture,
        style: models.StyleCode,
        look: Look = AS_THE_STYLE,
    ) -> None:
        """Encode a picture that may be painted soon: `paint` with the same is faster then.

        Nothing is done for a picture whose content would not be kept.
        """
        pixels = picture.width * picture.height
        too_large = CONTENT_BYTES * pixels > self.limits.remembered_content
        if too_large or pixels > self.limits.whole:
            return
        with self._one_at_a_time, torch.no_grad():
            self._contents.of(self._ready(picture.rgb, Region(style), look))

    def forget(self) -> None:
        """Let go of what is remembered of photos; their next painting takes as long as the first.

        What is being painted is waited for.
        """
        with self._one_at_a_time:
            self._contents.kept.clear()
            self._drawings.kept.clear()

    def paint(
        self,
        picture: images.Picture,
        style: models.StyleCode | Sequence[Region],
        look: Look = AS_THE_STYLE,
        *,
        max_size: int | None = None,
        mask: np.ndarray | None = None,
        tile: int | None = None,
        progress: Callable[[float], None] | None = None,
    ) -> images.Picture:
        """The picture in a style, with its own alpha, name and notes.

        style: one, or regions with a style each; a later region lies over an earlier one, and
        where none lies the photo stays. look: how it is painted; brushwork is without effect on a
        network that was trained without. max_size: the photo is first shrunk to this many pixels
        on its longest side; None keeps its size. mask: where a single style is painted, as in
        Region. tile: the side of the tiles, pixels; None paints the photo whole up to
        limits.whole pixels and in tiles beyond. progress: called with how much is done, from
        0 to 1; what it raises ends the painting.

        Raises ValueError for a max_size or tile below 1, or a mask beside regions.
        """
        if tile is not None and tile < 1:
            raise ValueError(f"a tile's side must be at least 1 pixel, got {tile}")
        if isinstance(style, models.StyleCode):
            style = [Region(style, mask)]
        elif mask is not None:
            raise ValueError("a mask goes with one style; regions have masks of their own")
        if max_size is not None:
            picture = images.resize(picture, max_size)
        if look.strength == 0:
            return replace(picture, rgb=mapped.copied(picture.rgb, self.limits.in_memory))
        with self._one_at_a_time, torch.no_grad():
            height, width = picture.rgb.shape[:2]
            painters = [
                self._ready(picture.rgb, region, look)
                for region in style
                if region.bounds(height, width) is not None
            ]
            rgb = self._paint(picture.rgb, painters, tile, progress)
        return replace(picture, rgb=rgb)

    def paint_together(
        self,
        pictures: Sequence[images.Picture],
        style: models.StyleCode,
        look: Look = AS_THE_STYLE,
    ) -> list[images.Picture]:
        """What `paint` makes of each of several pictures of one size, in one pass.

        The levels may differ by one: sums are taken in another order. Raises ValueError for
        pictures of several sizes.
        """
        sizes = {(picture.width, picture.height) for picture in pictures}
        if len(sizes) != 1:
            raise ValueError(
                f"pictures that are painted together have one size, got {sorted(sizes)}"
            )
        ((width, height),) = sizes
        canvas = Canvas(amounts=look, stroke_size=look.stroke_size(height, width))
        with self._one_at_a_time, torch.no_grad():
            photos = torch.cat([images.to_tensor(picture.rgb) for picture in pictures])
            photos = photos.to(self.device)
            painted = self.network.repaint(
                photos, style.to(self.device), look.strength, canvas=canvas
            )
            way = look.keep_color if look.strength > 0 else None
            parts = zip(pictures, photos.split(1), painted.split(1), strict=True)
            return [
                replace(picture, rgb=images.to_rgb(color.kept(way, photo, own)))
                for picture, photo, own in parts
            ]

    def survey(
        self, frames: Sequence[np.ndarray], style: models.StyleCode, look: Look = AS_THE_STYLE
    ) -> Held:
        """What is held over frames of one shot, each (H, W, 3) uint8; see `paint_frame`."""
        with self._one_at_a_time, torch.no_grad():
            painter = self._ready(frames[0], Region(style), look)
            return painter.survey_shot(frames)

    def paint_frame(
        self,
        rgb: np.ndarray,
        style: models.StyleCode,
        look: Look = AS_THE_STYLE,
        held: Held | None = None,
        moved: tuple[int, int] = (0, 0),
    ) -> np.ndarray:
        """One frame of a clip, (H, W, 3) uint8.

        held: what `survey` read of its shot; without, it is painted by itself, and flickers.
        moved: rows and columns by which the camera has moved since the clip began: the network's
        grid and the strokes move with the scene.
        """
        if look.strength == 0:
            return rgb
        if held is None:
            return self.paint(images.Picture(rgb), style, look).rgb
        size = look.stroke_size(*rgb.shape[:2])
        down, right = (distance % (STRIDE * size) for distance in moved)
        padded = np.pad(rgb, ((down, 0), (right, 0), (0, 0)), "reflect")
        origin = (moved[0] - down, moved[1] - right)
        with self._one_at_a_time, torch.no_grad():
            painter = self._ready(padded, Region(style), look, size, origin, held)
            return self._paint(padded, [painter])[down:, right:]

    def _ready(
        self,
        rgb: np.ndarray,
        region: Region,
        look: Look,
        stroke_size: int | None = None,
        origin: tuple[int, int] = (0, 0),
        held: Held | None = None,
    ) -> RegionPainter:
        size = stroke_size or look.stroke_size(*rgb.shape[:2])
        return RegionPainter(
            self.network, self.device, rgb, region, look, size, origin, held, self.limits
        )

    def _paint(
        self,
        rgb: np.ndarray,
        painters: Sequence[RegionPainter],
        side: int | None = None,
        progress: Callable[[float], None] | None = None,
    ) -> np.ndarray:
        """The pixels of a photo with regions painted, whole or in tiles of a side."""
        height, width = rgb.shape[:2]
        if side is None:
            whole = height * width <= self.limits.whole
            # Larger strokes see farther, and the network sees less of a tile: with a larger core
            # less is painted twice, in no more memory.
            sizes = [painter.stroke_size for painter in painters if not painter.is_seen_whole]
            largest = max(sizes, default=1)
            side = max(height, width) if whole else self.limits.tile * min(2, largest)
        reach = max((painter.reach for painter in painters), default=0)
        stride = max((painter.stride for painter in painters), default=STRIDE)
        plan = list(tiles.plan(height, width, side, reach, stride))
        tiled = len(plan) > 1
        first = [p for p in painters if tiled and (p.held is None or p.is_seen_whole)]
        passes = len(first) + len(painters) * len(plan)
        steps = _Steps(passes, len(self.network.hops), progress)
        hooks = [hop.register_forward_hook(steps.next_hop) for hop in self.network.hops]
        try:
            for painter in first:
                painter.before_tiles(steps.tell)
                mapped.let_go(rgb)
                steps.next_pass()
            result = mapped.new_pixels(rgb.shape, self.limits.in_memory)
            for tile in plan:
                self._share_cores()
                painted: torch.Tensor | None = None  # the photo, where nothing is
                for painter in painters:
                    covered = painter.coverage(tile.core)
                    if covered is None or covered.any():
                        alone = not tiled and painter.held is None
                        drawing = self._drawings.of(painter) if alone else None
                        own = painter.paint(tile, covered, drawing)
                        if covered is not None:
                            below = self._tensor(rgb, tile.core) if painted is None else painted
                            own = torch.lerp(below, own, covered)
                        painted = own
                    steps.next_pass()
                core = rgb[tile.core.slices]
                result[tile.core.slices] = core if painted is None else images.to_rgb(painted)
                mapped.let_go(rgb, result)
            return result
        finally:
            for hook in hooks:
                hook.remove()

    def _tensor(self, rgb: np.ndarray, box: Box) -> torch.Tensor:
        return images.to_tensor(rgb[box.slices]).to(self.device)

    def _built_in_style(self, name: str) -> models.StyleCode | None:
        if name in self._built_in:
            return self._built_in[name][0]
        base, colon, number = name.rpartition(":")
        if not colon or base not in self._built_in or not number.isdecimal():
            return None
        codes = self._built_in[base]
        if not 1 <= int(number) <= len(codes):
            raise ValueError(f"style {base!r} has no code {number}, it has 1 to {len(codes)}")
        return codes[int(number) - 1]

    def _unknown(self, name: str) -> str:
        name = images.one_line(name)
        if not self.style_names:
            return f"no style {name!r}: no such picture file, and the checkpoint has no styles"
        close = difflib.get_close_matches(name.lower(), self.style_names, n=1)
        guess = f"; did you mean {close[0]!r}?" if close else ""
        return (
            f"no style {name!r}: not one of {', '.join(self.style_names)}, "
            f"and no such picture file{guess}"
        )


class _Contents:
    """Content features of the photos painted last, by what is in them and not by their name."""

    def __init__(self, limit: int):
        self.limit = limit  # bytes
        self.kept: OrderedDict[bytes, models.Content] = OrderedDict()

    def of(self, painter: RegionPainter) -> models.Content:
        """The content features of a whole photo, as a region of it is painted."""
        if not self.limit:
            return painter.encode()
        key = painter.content_key()
        if key not in self.kept:
            self.kept[key] = painter.encode()
        self.kept.move_to_end(key)
        content = self.kept[key]
        while sum(kept.nbytes for kept in self.kept.values()) > self.limit:
            self.kept.popitem(last=False)
        return content


class _Drawings:
    """What the network made of photos last, before it was finished.

    A setting that changes the finish alone, its tint say, then takes a fraction of the time.
    """

    def __init__(self, limit: int, contents: _Contents):
        self.limit, self.contents = limit, contents  # bytes
        self.kept: OrderedDict[bytes, Tensor] = OrderedDict()

    def of(self, painter: RegionPainter) -> Drawing:
        """What the network makes of a whole photo in a region's style."""
        key = painter.drawing_key() if self.limit else b""
        if key in self.kept:
            self.kept.move_to_end(key)
            return Drawing(self.kept[key], None)
        content = self.contents.of(painter)
        picture = painter.draw(content)
        if self.limit:
            self.kept[key] = picture
        while sum(kept.nbytes for kept in self.kept.values()) > self.limit:
            self.kept.popitem(last=False)
        return Drawing(picture, content.finish)


class _Steps:
    """Tells how much is done, hop by hop: what it calls may end the painting anywhere."""

    def __init__(self, passes: int, hops: int, progress: Callable[[float], None] | None):
        self.passes, self.hops, self.progress = max(1, passes), hops, progress
        self.passed, self.hop = 0, 0
        self.tell()

    def next_hop(self, *_: object) -> None:
        self.hop += 1
        self.tell()

    def next_pass(self) -> None:
        self.passed, self.hop = self.passed + 1, 0
        self.tell()

    def tell(self) -> None:
        if self.progress is not None:
            # A hop is not the end of its pass: what follows the last one takes time, too.
            self.progress((self.passed + self.hop / (self.hops + 1)) / self.passes)


def available_device(name: str = "auto") -> torch.device:
    """The torch device of that name; "auto" is the first available of cuda, mps and cpu.

    Raises ValueError for a name that torch does not know or a device that is not there.
    """
    mps = torch.backends.mps.is_available()
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "mps" if mps else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f"unknown device {name!r}; wanted auto, cpu, cuda or mps") from None
    there = {
        "cpu": True,
        "cuda": torch.cuda.is_available() and (device.index or 0) < torch.cuda.device_count(),
        "mps": mps,
    }
    if not there.get(device.type, False):
        raise ValueError(f"device {name!r} is not available on this machine")
    return device
