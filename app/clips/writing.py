"""Writing a clip: the container, its video stream encoded, the sound as it was."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av.video.reformatter import ColorPrimaries, ColorRange, Colorspace, ColorTrc

from app.clips.reading import Clip, ClipError

# By the result's suffix: the container, the encoder and its options. The quality is high, since
# brushwork is all edges; 4:2:0 is what players and phones decode.
_H264 = ("libx264", {"crf": "18", "preset": "medium"})
CONTAINERS = {
    ".mp4": ("mp4", *_H264),
    ".m4v": ("mp4", *_H264),
    ".mov": ("mov", *_H264),
    ".mkv": ("matroska", *_H264),
    ".webm": ("webm", "libvpx-vp9", {"crf": "24", "b:v": "0", "cpu-used": "4"}),
}


def encodable(rgb: np.ndarray, width: int, height: int) -> av.VideoFrame:
    """Pixels as the encoders take them, 4:2:0, with an even width and height."""
    # Its colors are for pairs of pixels: the last column or row is there twice.
    rgb = np.pad(rgb, ((0, rgb.shape[0] % 2), (0, rgb.shape[1] % 2), (0, 0)), "edge")
    return av.VideoFrame.from_ndarray(np.ascontiguousarray(rgb), "rgb24").reformat(
        width,  # a stream may change its size on the way, a file's frames may not
        height,
        "yuv420p",
        dst_colorspace=Colorspace.ITU709,
        dst_color_range=ColorRange.MPEG,
    )


def copy(
    clip: Clip,
    reading: av.container.InputContainer,
    writing: av.container.OutputContainer,
    encoder: tuple[str, dict[str, str]],
    size: tuple[int, int],
    paint: Callable[[av.VideoFrame, int], av.VideoFrame],
) -> None:
    """Write every packet of a clip, in its order: frames painted, sound as it is.

    Args:
        size: of the painted frames: width and height, even.
        paint: from a decoded frame, and the ticks to the next one where its time is missing or
            does not advance, to one ready for the encoder.
    """
    source = reading.streams.video[0]
    rate = source.average_rate or source.guessed_rate or Fraction(25)
    video = _video_stream(writing, source, size, rate, *encoder)
    sound = _sound_streams(clip, reading, writing)
    step = max(1, round(1 / (rate * source.time_base)))
    for item in clip.contents(reading, sound=True):
        if isinstance(item, av.VideoFrame):
            writing.mux(video.encode(paint(item, step)))
        else:
            item.stream = sound[item.stream.index]
            writing.mux(item)
    writing.mux(video.encode())
    if len(reading.streams.video) > 1:
        clip.note("only the first of its video streams is kept")
    if reading.streams.subtitles:
        clip.note("its subtitles were left out")


def _video_stream(
    writing: av.container.OutputContainer,
    source: av.VideoStream,
    size: tuple[int, int],
    rate: Fraction,
    encoder: str,
    options: dict[str, str],
) -> av.VideoStream:
    video = writing.add_stream(encoder, rate=rate, options=options)
    video.width, video.height = size
    video.pix_fmt = "yuv420p"
    context = video.codec_context
    context.time_base = source.time_base
    if aspect := source.sample_aspect_ratio:
        turned = (size[0] > size[1]) != (source.width > source.height)
        context.sample_aspect_ratio = 1 / aspect if turned else aspect
    context.colorspace, context.color_range = Colorspace.ITU709, ColorRange.MPEG
    context.color_primaries, context.color_trc = ColorPrimaries.BT709, ColorTrc.BT709
    return video


def _sound_streams(
    clip: Clip, reading: av.container.InputContainer, writing: av.container.OutputContainer
) -> dict[int, av.AudioStream]:
    """The result's sound streams, by the index of the clip's."""
    sound = {}
    for stream in reading.streams.audio:
        try:
            sound[stream.index] = writing.add_stream_from_template(stream)
        except ValueError as error:
            held = f"{writing.format.name} cannot hold its {stream.codec_context.name} sound"
            raise ClipError(str(clip.path), f"{held}; mkv holds every kind") from error
    return sound


@contextlib.contextmanager
def written_errors(target: Path) -> Iterator[None]:
    try:
        yield
    except av.error.FFmpegError as error:
        raise ClipError(str(target), f"cannot be written: {error.strerror}") from error


def container_of(target: Path) -> tuple[str, str, dict[str, str]]:
    """Container, encoder and its options for a result's suffix; ValueError for another one."""
    try:
        return CONTAINERS[target.suffix.lower()]
    except KeyError:
        kinds = ", ".join(suffix[1:] for suffix in CONTAINERS)
        raise ValueError(f"clips are written as {kinds}, not as {target.name!r}") from None
