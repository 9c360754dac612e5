"""Frames of a clip, from how a decoder gives them to upright pixels in sRGB, and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import cast

import av
import numpy as np
from av.sidedata.sidedata import SideData, Type
from av.video.reformatter import ColorRange, Colorspace
from PIL import Image

from app import images
from app.images import Picture

_UNSPECIFIED = 2  # color spaces of frames, numbered as H.273 does
_HD = 720  # rows: from there on, untagged video is BT.709 by custom, and BT.601 below


def upright_rgb(frame: av.VideoFrame) -> np.ndarray:
    """A decoded frame as pixels (H, W, 3) uint8, turned and mirrored as its display matrix says."""
    return _upright(frame.to_ndarray(format="rgb24", src_colorspace=_space(frame)), frame)


def upright_alpha(frame: av.VideoFrame) -> np.ndarray | None:
    """A frame's opacity (H, W) uint8, turned like its pixels; None where every pixel is opaque."""
    if not has_alpha(frame):
        return None
    alpha = frame.to_ndarray(format="rgba", src_colorspace=_space(frame))[..., 3]
    return None if alpha.min() == 255 else _upright(alpha, frame)


def has_alpha(frame: av.VideoFrame) -> bool:
    """Whether the frame's format has room for transparency, used or not."""
    name = frame.format.name
    return (
        "yuva" in name
        or name == "pal8"
        or name.startswith(
            ("rgba", "bgra", "argb", "abgr", "gbrap", "ya8", "ya16", "yaf", "ayuv", "vuya")
        )
    )


def tick_of(timed: av.frame.Frame | av.Packet | av.stream.Stream) -> Fraction:
    """Seconds of one step of the times of what a container gave."""
    tick = timed.time_base
    assert tick is not None  # only what belongs to no container has none
    return tick


def _space(frame: av.VideoFrame) -> int:
    if frame.colorspace != _UNSPECIFIED:
        return frame.colorspace
    return Colorspace.ITU709 if frame.height >= _HD else Colorspace.ITU601


def _upright(pixels: np.ndarray, frame: av.VideoFrame) -> np.ndarray:
    # The library's types call it a dict.
    for entry in cast(Iterable[SideData], frame.side_data):
        if entry.type == Type.DISPLAYMATRIX:
            matrix = np.frombuffer(bytes(entry)[:20], np.int32).astype(float)
            return _turned(pixels, matrix[[0, 1, 3, 4]])
    return pixels


def _turned(pixels: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Pixels where the display matrix puts them: x' = a x + c y, y' = b x + d y, in quarters."""
    a, b, c, d = matrix
    if abs(a) + abs(d) < abs(b) + abs(c):  # rows become columns
        pixels = pixels.swapaxes(0, 1)
        a, d = c, b
    # What is left mirrors the axes, or not.
    return pixels[:: -1 if d < 0 else 1, :: -1 if a < 0 else 1]


class Deinterlacer:
    """Makes whole frames of fields; what is not interlaced goes through as it is.

    By bwdif, one frame a frame. Nothing is done, nor delayed, until the first interlaced frame.
    """

    def __init__(self) -> None:
        self.at_work = False
        self._graph: av.filter.Graph | None = None
        self._layout: tuple[int, int, str] | None = None

    def __call__(self, frame: av.VideoFrame | None) -> Iterator[av.VideoFrame]:
        """The frames that are ready once this one came; None after the last."""
        if frame is None:
            yield from self._end()
            return
        if not self.at_work and not frame.interlaced_frame:
            yield frame
            return
        self.at_work = True
        layout = (frame.width, frame.height, frame.format.name)
        if self._graph is None or layout != self._layout:
            yield from self._end()
            self._graph, self._layout = _bwdif(frame), layout
        self._graph.vpush(frame)
        yield from _ready(self._graph)

    def _end(self) -> Iterator[av.VideoFrame]:
        if self._graph is not None:
            self._graph.vpush(None)
            yield from _ready(self._graph)
            self._graph = self._layout = None


def _ready(graph: av.filter.Graph) -> Iterator[av.VideoFrame]:
    while True:
        try:
            yield graph.vpull()
        except (av.error.BlockingIOError, av.error.EOFError):
            return


def _bwdif(frame: av.VideoFrame) -> av.filter.Graph:
    graph = av.filter.Graph()
    source = graph.add_buffer(
        width=frame.width, height=frame.height, format=frame.format, time_base=frame.time_base
    )
    filtered = graph.add("bwdif", "mode=send_frame:parity=auto:deint=interlaced")
    graph.link_nodes(source, filtered, graph.add("buffersink")).configure()
    return graph


def encodable(
    rgb: np.ndarray, alpha: np.ndarray | None, size: tuple[int, int], pixels: str
) -> av.VideoFrame:
    """Painted pixels as an encoder takes them.

    Args:
        rgb: (H, W, 3) uint8.
        alpha: (h, w) uint8, of any size; None is opaque. It is laid on white where `pixels` has
            no room for it.
        size: width and height, both even.
        pixels: FFmpeg's name of the format.
    """
    if alpha is not None and alpha.shape != rgb.shape[:2]:
        alpha = np.asarray(Image.fromarray(alpha).resize(rgb.shape[1::-1], Image.Resampling.BOX))
    kept = pixels.startswith("yuva")
    if kept:
        opacity = np.full(rgb.shape[:2], 255, np.uint8) if alpha is None else alpha
        layers = np.dstack([rgb, opacity])
    else:
        layers = images.flatten(Picture(rgb, alpha)).rgb
    # Colors are for pairs of pixels: the last column or row is there twice.
    layers = np.pad(layers, ((0, layers.shape[0] % 2), (0, layers.shape[1] % 2), (0, 0)), "edge")
    frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(layers), "rgba" if kept else "rgb24")
    return frame.reformat(
        *size,  # a stream may change its size on the way, a file's frames may not
        pixels,
        dst_colorspace=Colorspace.ITU709,
        dst_color_range=ColorRange.MPEG,
    )
