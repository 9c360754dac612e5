"""Writing a clip: the container, its video encoded, the rest taken over as it was."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, cast

import av
import numpy as np
from av.codec.context import Flags
from av.stream import AttachmentStream, Disposition
from av.video.reformatter import ColorPrimaries, ColorRange, Colorspace, ColorTrc

from app.clips.frames import encodable, tick_of, upright_alpha, upright_rgb
from app.clips.opening import ClipError, reason
from app.clips.reading import Clip, rate_of
from app.clips.tracks import Encoder, Track

if TYPE_CHECKING:  # where alone the library has it
    from av.container.core import Chapter


@dataclass(frozen=True)
class Container:
    """How results of one suffix are written.

    name: FFmpeg's, of the container. codec, options, pixels: of the video. transparent: the same
    of one with transparency; None where players know none in this container.
    """

    name: str
    codec: str
    options: dict[str, str]
    pixels: str = "yuv420p"
    transparent: Container | None = None


# By the result's suffix. The quality is high, since brushwork is all edges; 4:2:0 is what players
# and phones decode.
_H264 = ("libx264", {"crf": "18", "preset": "medium"})
_VP9 = ("libvpx-vp9", {"crf": "24", "b:v": "0", "cpu-used": "4"})
# The encoder writes no transparency in frames that refer to frames that are not shown.
_VP9_ALPHA = ("libvpx-vp9", {**_VP9[1], "auto-alt-ref": "0"}, "yuva420p")
_PRORES = ("prores_ks", {"profile": "4444"}, "yuva444p10le")
CONTAINERS = {
    ".mp4": Container("mp4", *_H264),
    ".m4v": Container("mp4", *_H264),
    ".mov": Container("mov", *_H264, transparent=Container("mov", *_PRORES)),
    ".mkv": Container("matroska", *_H264, transparent=Container("matroska", *_VP9_ALPHA)),
    ".webm": Container("webm", *_VP9, transparent=Container("webm", *_VP9_ALPHA)),
}

_FINEST_TICK = 120_000  # a second; what is finer some encoders refuse
# Tags of the old file rather than of what it shows.
_FILE_TAGS = {
    "alpha_mode", "compatible_brands", "duration", "encoder", "major_brand", "minor_version",
    "number_of_bytes", "number_of_frames", "bps", "rotate", "vendor_id",
}  # fmt: skip
_TRIED = 1 << 20  # bytes


def container_of(target: Path) -> Container:
    """How a result is written, by its suffix; ValueError for another one."""
    try:
        return CONTAINERS[target.suffix.lower()]
    except KeyError:
        kinds = ", ".join(suffix[1:] for suffix in CONTAINERS)
        raise ValueError(f"clips are written as {kinds}, not as {target.name!r}") from None


def try_out(part: Path, target: Path) -> None:
    """Raise ClipError where a file cannot be written, before the work is done.

    Args:
        part: the name beside `target` that is written to. It holds nothing afterwards.
    """
    try:
        if target.is_dir():
            raise IsADirectoryError(0, "is a folder")
        with open(part, "wb", buffering=0) as file:
            file.write(bytes(_TRIED))
            os.fsync(file.fileno())
            file.truncate(0)
    except OSError as error:
        raise ClipError(str(target), f"cannot be written: {error.strerror or error}") from error


def write(
    clip: Clip,
    part: Path,
    target: Path,
    size: tuple[int, int],
    paint: Callable[[np.ndarray], np.ndarray],
    *,
    strip: bool = False,
) -> None:
    """Write a clip that was surveyed, its frames painted, all else taken over.

    The result begins at 0; frames keep the times between them, and the last its duration.

    Args:
        part: the file to write, under the name that messages call `target`.
        size: of the painted frames: width and height, even.
        paint: from upright pixels (H, W, 3) uint8 to painted ones, of all frames in their order.
        strip: leave out title, dates, place and other tags.
    """
    container = container_of(target)
    if clip.transparent and container.transparent is not None:
        container = container.transparent
    elif clip.transparent:
        clip.note(f"its transparency was laid on white: {container.name} holds none (webm does)")
    # A file, since a name may look like an address; see app.clips.opening.
    with (
        _written_errors(target),
        open(part, "wb") as file,
        clip.opened() as reading,
        av.open(file, "w", format=container.name, metadata_errors="replace") as writing,
    ):
        result = _Result(clip, reading, writing, container, size, strip=strip)
        for item in clip.contents(reading):
            if isinstance(item, av.VideoFrame):
                result.add_frame(item, paint(upright_rgb(item)))
            else:
                result.add_packet(item)
        result.finish()


class _Result:
    """A container that is being written."""

    def __init__(
        self,
        clip: Clip,
        reading: av.container.InputContainer,
        writing: av.container.OutputContainer,
        container: Container,
        size: tuple[int, int],
        *,
        strip: bool,
    ) -> None:
        self._clip, self._writing, self._container, self._size = clip, writing, container, size
        source = clip.video(reading)
        rate = rate_of(source)
        tick = source.time_base
        self._tick = tick if tick and 1 <= 1 / tick <= _FINEST_TICK else Fraction(1, 90_000)
        self._step = max(1, round(1 / (rate * self._tick)))
        self._video = _video_stream(writing, source, size, rate, self._tick, container)
        # Ticks: the first frame's time, the last one's and its end; the first packet's.
        self._first, self._end = 0, 0
        self._last: int | None = None
        self._first_dts: int | None = None
        self._copies: dict[int, av.stream.Stream] = {}
        self._encoders: dict[int, Encoder] = {}
        self._refused: dict[int, list[float]] = {}
        _take_tags(source, self._video, strip=strip)
        for track in clip.tracks:
            self._add_track(track, reading.streams[track.index], strip=strip)
        if not strip:
            writing.metadata.update(_tags(reading.metadata))
        writing.set_chapters(list(_chapters(reading, clip.start, strip=strip)))
        left = [s for s in reading.streams if s.type in _OTHERS and not self._attached(s)]
        # A timecode is a tag of the video as well, of which MP4 and MOV get a new track.
        left = [s for s in left if "timecode" not in s.metadata]
        if reading.chapters() and "mov" in reading.format.name:
            # The names of its chapters are such a track.
            left = [s for s in left if s.type != "data" or s.name != "bin_data"]
        if left:
            kinds = " and ".join(sorted({_OTHERS[stream.type] for stream in left}))
            clip.note(f"its {kinds} were left out")

    def _add_track(self, track: Track, source: av.stream.Stream, *, strip: bool) -> None:
        stream: av.stream.Stream
        if track.encoder:
            assert isinstance(source, av.AudioStream)  # of which alone any is encoded
            encoder = self._encoders[track.index] = Encoder(self._writing, source, track.encoder)
            stream = encoder.stream
        else:
            stream = self._copies[track.index] = self._writing.add_stream_from_template(source)
        _take_tags(source, stream, strip=strip)

    def _attached(self, source: av.stream.Stream) -> bool:
        """Whether an attached file, such as a font of subtitles, was taken over."""
        if not isinstance(source, AttachmentStream) or self._container.name != "matroska":
            return False
        tags = source.metadata
        if not source.data or "filename" not in tags or "mimetype" not in tags:
            return False
        self._writing.add_attachment(tags["filename"], tags["mimetype"], source.data)
        return True

    def add_frame(self, frame: av.VideoFrame, rgb: np.ndarray) -> None:
        """Encode a painted frame at the time of its source."""
        alpha = upright_alpha(frame) if self._clip.transparent else None
        painted = encodable(rgb, alpha, self._size, self._container.pixels)
        time: int | None = None
        if frame.pts is not None:
            seconds = frame.pts * tick_of(frame) - Fraction(self._clip.start)
            time = round(seconds / self._tick)
        if self._last is None:
            time = self._first = max(0, time or 0)
        elif time is None or time <= self._last:
            time = self._last + (self._step if time is None else 1)
        painted.pts, painted.time_base = time, self._tick
        duration = (frame.duration or 0) * (frame.time_base or 0)
        painted.duration = round(duration / self._tick) or self._step
        self._last, self._end = time, time + painted.duration
        packets = self._video.encode(painted)
        if packets and self._first_dts is None:
            self._first_dts = packets[0].dts
        self._writing.mux(packets)

    def add_packet(self, packet: av.Packet) -> None:
        """Take over a packet of sound or subtitles."""
        index = packet.stream_index
        time = packet.dts if packet.pts is None else packet.pts
        seconds = math.nan if time is None else float(time * tick_of(packet))
        shift = round(self._clip.start / tick_of(packet))
        packet.pts = None if packet.pts is None else packet.pts - shift
        packet.dts = None if packet.dts is None else packet.dts - shift
        try:
            if index in self._encoders:
                frames = cast(list[av.AudioFrame], packet.decode())
                self._writing.mux(list(self._encoders[index](frames)))
            else:
                packet.stream = self._copies[index]
                self._writing.mux([packet])
        except (av.error.InvalidDataError, av.error.ArgumentError):
            # Such a packet is damaged; what a disk refuses is another error.
            self._refused.setdefault(index, []).append(seconds)

    def finish(self) -> None:
        """Write what the encoders still hold."""
        packets = self._video.encode()
        if packets and self._container.name in ("mp4", "mov"):
            # A track lasts from the first packet that is decoded to the end of the last, which
            # need not be the one that is shown last.
            first = packets[0].dts if self._first_dts is None else self._first_dts
            last = packets[-1].dts
            assert first is not None and last is not None  # encoders number what they give
            shown, decoded = self._end - self._first, last - first
            packets[-1].duration = max(1, shown - decoded)
        self._writing.mux(packets)
        for encoder in self._encoders.values():
            self._writing.mux(list(encoder.end()))
        for index, times in self._refused.items():
            is_sound = index in self._encoders or self._copies[index].type == "audio"
            self._clip.note_left_out("of its sound" if is_sound else "of its subtitles", times)


def _video_stream(
    writing: av.container.OutputContainer,
    source: av.VideoStream,
    size: tuple[int, int],
    rate: Fraction,
    tick: Fraction,
    container: Container,
) -> av.VideoStream:
    video = writing.add_stream(container.codec, rate=rate, options=dict(container.options))
    assert isinstance(video, av.VideoStream)
    video.width, video.height = size
    video.pix_fmt = container.pixels
    context = video.codec_context
    context.time_base = tick
    context.flags |= Flags.frame_duration  # the last frame has one, too
    if aspect := source.sample_aspect_ratio:
        turned = (size[0] > size[1]) != (source.width > source.height)
        context.sample_aspect_ratio = 1 / aspect if turned else aspect
    context.colorspace, context.color_range = Colorspace.ITU709, ColorRange.MPEG
    context.color_primaries, context.color_trc = ColorPrimaries.BT709, ColorTrc.BT709
    return video


def _take_tags(source: av.stream.Stream, stream: av.stream.Stream, *, strip: bool) -> None:
    """A track's language and role, and unless stripped its title and other tags."""
    tags = _tags(source.metadata)
    if "name" in tags:  # as MP4 calls it
        tags.setdefault("title", tags.pop("name"))
    if strip:
        tags = {key: value for key, value in tags.items() if key.lower() == "language"}
    stream.metadata.update(tags)
    stream.disposition = source.disposition & ~Disposition.still_image


def _tags(tags: dict[str, str]) -> dict[str, str]:
    """What is said of a clip, without what is said of its file. Old files are not in UTF-8."""
    return {
        key: value.encode("utf-8", "surrogateescape").decode("cp1252", "replace")
        if any("\udc80" <= character <= "\udcff" for character in value)
        else value
        for key, value in tags.items()
        if key.lower() not in _FILE_TAGS
        and not key.lower().startswith("_statistics")
        and key.isprintable()
    }


def _chapters(
    reading: av.container.InputContainer, start: float, *, strip: bool
) -> Iterator[Chapter]:
    """The clip's chapters, from where the result begins."""
    timed = ((c["time_base"], c) for c in reading.chapters())
    chapters = [(tick, c) for tick, c in timed if tick and c["end"] >= c["start"]]
    chapters.sort(key=lambda one: one[0] * one[1]["start"])
    for number, (tick, chapter) in enumerate(chapters, 1):
        shift = round(start / tick)
        tags = {} if strip else _tags(chapter["metadata"])
        begin = max(0, chapter["start"] - shift)
        end = max(begin, chapter["end"] - shift)
        yield {"id": number, "start": begin, "end": end, "time_base": tick, "metadata": tags}


@contextlib.contextmanager
def _written_errors(target: Path) -> Iterator[None]:
    try:
        yield
    except av.error.FFmpegError as error:
        raise ClipError(str(target), f"cannot be written: {reason(error)}") from error


_OTHERS = {"data": "data tracks", "attachment": "attached files", "unknown": "unknown tracks"}
