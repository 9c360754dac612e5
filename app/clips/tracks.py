"""What becomes of a clip's sound and subtitles, decided by trying it before any work is done."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import av

# Enough of each track to know whether a container takes it and a decoder reads it.
_TRIED = 12  # packets of a track
_LOOKED_THROUGH = 3000  # packets in all, where a track begins late

# What sound becomes that a container cannot hold.
_ENCODERS = {"webm": "libopus"}
_ENCODER = "aac"
_NAMES = {"aac": "AAC", "libopus": "Opus"}
_AAC_RATES = (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000)
_OPUS_RATE = 48_000
_LAYOUTS = {1: "mono", 6: "5.1", 8: "7.1"}  # by channels; others become stereo
_BITS = 96_000  # a second and channel

_REFUSALS = (av.error.FFmpegError, ValueError, OSError, TypeError, OverflowError)


@dataclass(frozen=True)
class Track:
    """One track of sound or subtitles that the result will have.

    index: of the stream in the clip. encoder: what it is encoded with; None where its packets are
    copied. decodes: whether a decoder reads it.
    """

    index: int
    encoder: str | None = None
    decodes: bool = True


def plan(
    reading: av.container.InputContainer, container: str, *, sound: bool = True
) -> tuple[list[Track], list[str]]:
    """The tracks that a result in this container will have, and a note on each that changes.

    Args:
        reading: is read from its beginning, and no good afterwards.
        sound: without, no sound is kept.
    """
    streams = [*(reading.streams.audio if sound else ()), *reading.streams.subtitles]
    samples = _samples(reading, [stream for stream in streams if stream.codec_context])
    tracks, notes = [], []
    for stream in streams:
        name = _name(stream, streams)
        packets = samples.get(stream.index, [])
        if stream.codec_context is None:
            notes.append(f"{name} was left out: it is of a kind that is not known here")
        elif stream.type == "subtitle":
            if _is_held(stream, packets, container):
                tracks.append(Track(stream.index))
            else:
                notes.append(
                    f"{name} ({_codec(stream)}) were left out: {container} cannot hold them"
                )
        else:
            decodes = not packets or _decodes(packets)
            if _is_held(stream, packets, container):
                tracks.append(Track(stream.index, None, decodes))
            elif decodes:
                encoder = _ENCODERS.get(container, _ENCODER)
                tracks.append(Track(stream.index, encoder))
                notes.append(
                    f"{name} was encoded anew as {_NAMES[encoder]}: "
                    f"{container} cannot hold {_codec(stream)}"
                )
            else:
                notes.append(
                    f"{name} ({_codec(stream)}) was left out: "
                    f"{container} cannot hold it, and it cannot be decoded"
                )
    if not sound and reading.streams.audio:
        notes.append("its sound was left out, as asked")
    return tracks, notes


def _name(stream: av.stream.Stream, streams: list[av.stream.Stream]) -> str:
    """How a note calls a track: its number where there are several of its kind, its language."""
    kind = "its sound" if stream.type == "audio" else "its subtitles"
    alike = [other.index for other in streams if other.type == stream.type]
    number = f" {alike.index(stream.index) + 1}" if len(alike) > 1 else ""
    language = stream.metadata.get("language", "und")
    return f"{kind}{number}" + (f" [{language}]" if language != "und" else "")


def _codec(stream: av.stream.Stream) -> str:
    return stream.codec_context.name


def _samples(
    reading: av.container.InputContainer, streams: list[av.stream.Stream]
) -> dict[int, list[av.Packet]]:
    """The first packets of these streams."""
    samples: dict[int, list[av.Packet]] = {stream.index: [] for stream in streams}
    wanted = {stream.index for stream in streams if stream.type == "audio"}
    if not streams:
        return samples
    try:
        for looked_at, packet in enumerate(reading.demux(streams)):
            if not packet.size:
                continue  # the end of some stream, though it calls itself the first one's
            kept = samples[packet.stream_index]
            if len(kept) < _TRIED:
                kept.append(packet)
            if len(kept) >= _TRIED:
                wanted.discard(packet.stream_index)
            if not wanted or looked_at > _LOOKED_THROUGH:
                break
    except _REFUSALS:
        pass  # a damaged place; what came before is enough to try
    return samples


def _decodes(packets: list[av.Packet]) -> bool:
    for packet in packets:
        try:
            if packet.decode():
                return True
        except _REFUSALS:
            continue
    return False


def _is_held(stream: av.stream.Stream, packets: list[av.Packet], container: str) -> bool:
    """Whether a container takes a track's packets as they are.

    Muxers say so when the track is added, when the header is written, at the first packet, or at
    the end.
    """
    # Samples as they are came late to MP4: many players hear noise or nothing.
    if container == "mp4" and stream.codec_context.name.startswith("pcm_"):
        return False
    try:
        writing = av.open(io.BytesIO(), "w", format=container)
    except _REFUSALS:
        return False
    taken = 0
    try:
        copy = writing.add_stream_from_template(stream)
        writing.start_encoding()
        for time, packet in enumerate(packets):
            trial = av.Packet(bytes(packet))
            trial.stream, trial.time_base = copy, Fraction(1, 10)
            trial.pts = trial.dts = time
            trial.duration = 1
            try:
                writing.mux(trial)
                taken += 1
            except _REFUSALS:
                continue  # a damaged one among others
        writing.close()
    except _REFUSALS:
        return False
    return taken > 0 or not packets


class Encoder:
    """Decodes a track's sound and encodes it anew, gaps in its times filled with silence."""

    def __init__(
        self, writing: av.container.OutputContainer, source: av.AudioStream, name: str
    ) -> None:
        channels = source.codec_context.layout.nb_channels
        self._layout = _LAYOUTS.get(channels, "stereo")
        channels = {"mono": 1, "5.1": 6, "7.1": 8}.get(self._layout, 2)
        rate = source.codec_context.sample_rate
        self._rate = rate if name != "libopus" and rate in _AAC_RATES else _OPUS_RATE
        stream = writing.add_stream(name, rate=self._rate)
        assert isinstance(stream, av.AudioStream)
        self.stream = stream
        self.stream.codec_context.layout = self._layout
        self.stream.codec_context.bit_rate = _BITS * channels
        self.stream.codec_context.time_base = Fraction(1, self._rate)
        self._graph: av.filter.Graph | None = None
        self._last: int | None = None

    def __call__(self, frames: list[av.AudioFrame]) -> Iterator[av.Packet]:
        """The packets that are ready once these frames came."""
        for frame in frames:
            layout = (frame.sample_rate, frame.format.name, frame.layout.name)
            if self._graph is None:
                self._graph, self._source = self._resampling(frame), layout
            if layout == self._source:  # another in the middle is damage, or too rare to follow
                self._graph.push(frame)
        if self._graph is not None:
            yield from self._encoded(self._graph)

    def end(self) -> Iterator[av.Packet]:
        """The rest."""
        if self._graph is not None:
            self._graph.push(None)
            yield from self._encoded(self._graph)
            yield from self.stream.encode(None)

    def _encoded(self, graph: av.filter.Graph) -> Iterator[av.Packet]:
        while True:
            try:
                frame = graph.pull()
            except (av.error.BlockingIOError, av.error.EOFError):
                return
            assert isinstance(frame, av.AudioFrame)
            if self._last is not None and frame.pts is not None:
                frame.pts = max(frame.pts, self._last)
            self._last = None if frame.pts is None else frame.pts + frame.samples
            yield from self.stream.encode(frame)

    def _resampling(self, frame: av.AudioFrame) -> av.filter.Graph:
        self.stream.codec_context.open(strict=False)
        size = self.stream.codec_context.frame_size or 1024
        graph = av.filter.Graph()
        source = graph.add_abuffer(
            sample_rate=frame.sample_rate,
            format=frame.format.name,
            layout=frame.layout.name,
            time_base=frame.time_base or Fraction(1, frame.sample_rate),
        )
        format_ = self.stream.codec_context.format.name
        wanted = f"sample_fmts={format_}:sample_rates={self._rate}:channel_layouts={self._layout}"
        graph.link_nodes(
            source,
            graph.add("aresample", f"{self._rate}:async={self._rate // 10}:min_hard_comp=0.1"),
            graph.add("aformat", wanted),
            graph.add("asetnsamples", f"n={size}:p=0"),
            graph.add("abuffersink"),
        ).configure()
        return graph
