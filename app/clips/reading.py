"""Reading a clip: its container, its frames upright and in sRGB, and its packets of sound."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import av
import numpy as np
from av.video.reformatter import Colorspace

from app.images import ImageError

_UNSPECIFIED = 2  # color spaces of frames, numbered as H.273 does
_HD = 720  # rows: from there on, untagged video is BT.709 by custom, and BT.601 below


class ClipError(ImageError):
    """A clip that cannot be read or written; its text is one line, "FILE: reason"."""


@dataclass
class Clip:
    """A clip's frames, upright and in sRGB, and what is known of it after they were read.

    Raises ClipError while it is read, naming the file, where it is not a whole clip.
    """

    path: Path
    notes: list[str] = field(default_factory=list)

    @contextlib.contextmanager
    def opened(self) -> Iterator[av.container.InputContainer]:
        """The container, with its first video stream decoded by all cores."""
        if not self.path.is_file():
            raise ClipError(str(self.path), "no such file")
        try:
            container = av.open(str(self.path))
        except av.error.FFmpegError as error:
            raise self._unreadable(error) from error
        with container:
            if not container.streams.video:
                raise ClipError(str(self.path), "holds no video")
            container.streams.video[0].thread_type = "AUTO"
            yield container

    def contents(
        self, container: av.container.InputContainer, *, sound: bool = False
    ) -> Iterator[av.VideoFrame | av.Packet]:
        """The frames of the first video stream and, where asked, the packets of the sound."""
        video = container.streams.video[0]
        try:
            for packet in container.demux(video, *(container.streams.audio if sound else ())):
                if packet.stream is video:
                    yield from packet.decode()
                elif packet.dts is not None:  # not the empty one at the end
                    yield packet
        except av.error.FFmpegError as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: av.error.FFmpegError) -> ClipError:
        return ClipError(str(self.path), f"cannot be read as a clip: {error.strerror}")

    def note(self, text: str) -> None:
        """Say something once."""
        if text not in self.notes:
            self.notes.append(text)


def upright_rgb(frame: av.VideoFrame) -> np.ndarray:
    """A decoded frame as pixels (H, W, 3) uint8, turned as its display matrix says."""
    space = frame.colorspace
    if space == _UNSPECIFIED:
        space = Colorspace.ITU709 if frame.height >= _HD else Colorspace.ITU601
    rgb = frame.to_ndarray(format="rgb24", src_colorspace=space)
    return np.rot90(rgb, round(frame.rotation / 90) % 4)
