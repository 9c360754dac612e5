"""Reading a clip twice: first to learn what is in it, then to take it over packet by packet."""

from __future__ import annotations

import contextlib
import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import av
from av.stream import Discard, Disposition
from av.video.reformatter import ColorTrc

from app.clips import opening, tracks
from app.clips.frames import Deinterlacer, tick_of, upright_alpha
from app.clips.opening import ClipError
from app.clips.timeline import CLOCKS_JUMP, Timeline
from app.clips.tracks import Track

# Pictures beside the video: covers, thumbnails of chapters.
_PICTURES = Disposition.attached_pic | Disposition.timed_thumbnails
_STILLS = {"mjpeg", "png", "bmp", "tiff", "webp", "gif"}
_HIGH_DYNAMIC_RANGE = (ColorTrc.SMPTE2084, ColorTrc.ARIB_STD_B67)
# Codecs whose transparency another decoder than the usual reads.
_ALPHA_DECODERS = {"vp8": "libvpx", "vp9": "libvpx-vp9"}

# A damaged end of so many seconds is no damaged frame: the clip is cut off.
_CUT_OFF = 1.0
_EARLY = 0.5  # seconds before its end that a container may end without a word
_PRIMING = 0.1
# The demuxer is asked so many times to go on behind a damaged place.
_ATTEMPTS = 100
_NAMED = 3  # places of damage

_REFUSALS = (av.error.FFmpegError, ValueError, MemoryError)


@dataclass
class _Damage:
    """What of one stream could not be decoded: packets, by their number, and their seconds."""

    packets: set[int] = field(default_factory=set)
    times: list[float] = field(default_factory=list)
    decoded: int = 0  # frames
    since: int = 0  # packets that failed after the last that did not

    def add(self, number: int, packet: av.Packet) -> None:
        self.packets.add(number)
        time = packet.dts if packet.pts is None else packet.pts
        self.times.append(math.nan if time is None else float(time * tick_of(packet)))
        self.since += 1


class Clip:
    """A clip's frames and sound, and what is known of it after it was read once.

    path: the file. tracks: of sound and subtitles to be kept; set by `plan`, and `survey` removes
    those of which nothing can be decoded. expected: frames, as the container says. notes: what is
    left out or changed, a sentence each. count: of frames, start: seconds from which the first
    frame or sound is shown, transparent: whether any frame is; known after `survey`.

    Raises ClipError while it is read, naming the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tracks: list[Track] = []
        self.notes: list[str] = []
        self.expected: int | None = None
        self.count, self.start, self.transparent = 0, 0.0, False
        self._timeline = Timeline()
        self._damage: dict[int, _Damage] = defaultdict(_Damage)
        self._stumbles = 0  # of the container's reader at the end
        self._error: Exception | None = None  # the last of them
        self._read, self._shown_until = 0, 0.0  # packets of the video, and the end of its frames

    def note(self, text: str) -> None:
        """Say something once."""
        if text not in self.notes:
            self.notes.append(text)

    @contextlib.contextmanager
    def opened(self) -> Iterator[av.container.InputContainer]:
        """The container."""
        with opening.opened(self.path) as container:
            yield container

    def video(self, container: av.container.InputContainer) -> av.VideoStream:
        """The stream to be painted: of those that are no pictures the default one, or the first."""
        streams = [s for s in container.streams.video if not s.disposition & _PICTURES]
        if not streams:
            only = " but a picture" if container.streams.video else ""
            raise ClipError(str(self.path), f"holds no video{only}")
        known = [stream for stream in streams if stream.codec_context is not None]
        if not known:
            raise ClipError(str(self.path), "its video is of a kind that is not known here")
        # A cover that is not called one is still a picture.
        moving = [s for s in known if s.codec_context.name not in _STILLS] or known
        chosen = next((s for s in moving if s.disposition & Disposition.default), moving[0])
        if len(streams) > 1:
            place = streams.index(chosen) + 1
            self.note(f"only number {place} of its {len(streams)} videos is kept")
        if len(container.streams.video) > len(streams):
            self.note("its cover picture was left out")
        return chosen

    def plan(
        self, container: av.container.InputContainer, target: str, *, sound: bool = True
    ) -> None:
        """Decide which sound and subtitles a result in a container of this name will have.

        Reads from the container's beginning, and leaves it somewhere. sound: keep it.
        """
        video = self.video(container)
        self.expected = video.frames or None
        if not self.expected and container.duration:
            self.expected = round(container.duration / av.time_base * rate_of(video)) or None
        self.tracks, notes = tracks.plan(container, target, sound=sound)
        for text in notes:
            self.note(text)

    def survey(self, container: av.container.InputContainer) -> Iterator[av.VideoFrame]:
        """Every frame, while the times of all packets are noted, and what is damaged.

        The sound is decoded, too, to know of its damage.
        """
        self.count, self.transparent = 0, False
        self._timeline = Timeline(jumps=bool(CLOCKS_JUMP & set(container.format.name.split(","))))
        self._damage.clear()
        last = None
        for frame in self._decoded(container, surveying=True):
            if isinstance(frame, av.VideoFrame):
                self.count += 1
                last = frame.time
                if last is not None:  # the last frame may be shown for long
                    self._shown_until = last + float((frame.duration or 0) * tick_of(frame))
                if frame.color_trc in _HIGH_DYNAMIC_RANGE:
                    self.note(
                        "its high dynamic range is read as the standard one: colors look flat"
                    )
                self.transparent = self.transparent or upright_alpha(frame) is not None
                yield frame
        self._timeline.repair()
        self.start = self._first_shown(container)
        self._check_end(container, last)
        self._note_damage(container)

    def contents(
        self, container: av.container.InputContainer
    ) -> Iterator[av.VideoFrame | av.Packet]:
        """Frames, and packets of the tracks, in their order and with their times repaired.

        After `survey`. What could not be decoded then is left out.
        """
        self._timeline.rewind()
        yield from self._decoded(container, surveying=False)

    def _first_shown(self, container: av.container.InputContainer) -> float:
        """Seconds: where the result begins."""
        first = self._timeline.first(self._video)
        starts = [] if first is None else [first]
        for track in self.tracks:
            stream = container.streams[track.index]
            if stream.type == "audio" and stream.start_time is not None:
                starts.append(float(stream.start_time * tick_of(stream)))
        start = min(starts, default=0.0)
        # What an encoder of sound puts before the first is no beginning.
        return first if first is not None and first - start < _PRIMING else start

    def _check_end(self, container: av.container.InputContainer, last: float | None) -> None:
        """Raise ClipError where nothing was decoded, at all or at the end."""
        video = self.video(container)
        damage = self._damage[video.index]
        if not self.count:
            why = f": {opening.reason(self._error)}" if self._error else ""
            raise ClipError(str(self.path), f"holds no frame that can be decoded{why}")
        step = float(1 / rate_of(video))
        lost = (damage.since + self._stumbles) * step
        end = _end(container)
        if self._stumbles and container.duration and last is not None:
            lost = max(lost, end - last - step)
        if "mov" in container.format.name:  # whose index counts them
            lost = max(lost, (video.frames - self._read) * step)
        failed = len(damage.packets)
        if lost >= _CUT_OFF or (damage.since > 2 and failed >= self.count):
            where = "" if last is None else f" after {_clock(last - self.start)}"
            raise ClipError(
                str(self.path), f"cannot be read as a clip: nothing{where} can be decoded"
            )
        if self._stumbles:
            self.note("its end is damaged: what can be read before it was painted")
            return
        reached = max(self._timeline.last(), self._shown_until)
        if "matroska" in container.format.name and end - reached > _EARLY + step:
            ends, says = _clock(reached - self.start), _clock(end - self.start)
            self.note(f"it ends at {ends}, though it says that it lasts until {says}")

    def note_left_out(self, what: str, times: list[float]) -> None:
        """Say that damaged pieces were left out, and where: the clip's own seconds."""
        places = [_clock(time - self.start) for time in times[:_NAMED]]
        more = len(times) - len(places)
        where = ", ".join(places) + (f" and {more} more places" if more else "")
        pieces = "1 damaged piece" if len(times) == 1 else f"{len(times)} damaged pieces"
        verb = "was" if len(times) == 1 else "were"
        self.note(f"{pieces} {what} {verb} left out, at {where}")

    def _note_damage(self, container: av.container.InputContainer) -> None:
        for stream in container.streams:
            damage = self._damage.get(stream.index)
            if damage is None or not damage.packets:
                continue
            what = "of its frames" if stream.type == "video" else "of its sound"
            if stream.type == "audio" and not damage.decoded:
                self.note(f"track {stream.index} {what} was left out: it cannot be decoded")
                self.tracks = [track for track in self.tracks if track.index != stream.index]
                continue
            self.note_left_out(what, damage.times)
        for index in self._timeline.changed:
            if container.streams[index].type == "audio":
                self.note("its sound had times that repeat or go back: they were repaired")

    def _decoded(
        self, container: av.container.InputContainer, *, surveying: bool
    ) -> Iterator[av.VideoFrame | av.Packet]:
        video = self.video(container)
        decoder, deinterlace = _decoder(video), Deinterlacer()
        # The frames of fields have times between those of the stream.
        self._video, self._tick = video.index, tick_of(video) / 2
        self._step = max(1, round(1 / (rate_of(video) * self._tick)))
        kept = {track.index: track for track in self.tracks}
        streams = [video, *(s for s in container.streams if s.index in kept)]
        counts = dict.fromkeys((stream.index for stream in streams), -1)
        for packet in self._packets(container, streams, surveying=surveying):
            index = packet.stream_index
            counts[index] += 1
            if index == video.index:
                for frame in self._frames(decoder, packet, counts[index], surveying=surveying):
                    frame.time_base = video.time_base
                    yield from self._timed(deinterlace(frame), surveying=surveying)
                continue
            if packet.stream.type == "audio":
                self._retime(packet, surveying=surveying)
            if not surveying:
                if counts[index] not in self._damage[index].packets:
                    yield packet
            elif packet.stream.type == "audio" and kept[index].decodes:
                self._listen(packet, counts[index])
        self._read = counts[video.index] + 1
        for frame in self._frames(decoder, None, 0, surveying=surveying):
            frame.time_base = video.time_base
            yield from self._timed(deinterlace(frame), surveying=surveying)
        yield from self._timed(deinterlace(None), surveying=surveying)
        if deinterlace.at_work:
            self.note("it is interlaced: its fields were made whole frames (bwdif)")

    def _timed(
        self, frames: Iterator[av.VideoFrame], *, surveying: bool
    ) -> Iterator[av.VideoFrame]:
        """Frames with their times noted, or repaired, in half ticks of the stream."""
        for frame in frames:
            ratio = tick_of(frame) / self._tick
            if surveying:
                time = None if frame.pts is None else round(frame.pts * ratio)
                duration = round((frame.duration or 0) * ratio) or self._step
                self._timeline.note(self._video, self._tick, time, duration)
            else:
                duration = round((frame.duration or 0) * ratio)
                frame.pts = self._timeline.next(self._video)
                frame.time_base, frame.duration = self._tick, duration
            yield frame

    def _packets(
        self,
        container: av.container.InputContainer,
        streams: list[av.stream.Stream],
        *,
        surveying: bool,
    ) -> Iterator[av.Packet]:
        """Packets of these streams, also those behind what the container's reader stumbles over."""
        for stream in container.streams:
            if stream not in streams:
                stream.discard = Discard.all
        stumbles = 0
        error: Exception | None = None
        while stumbles <= _ATTEMPTS:
            try:
                for packet in container.demux(streams):
                    if packet.dts is not None or packet.pts is not None or packet.size:
                        stumbles = 0
                        yield packet
                break
            except (*_REFUSALS, OSError) as stumble:
                stumbles, error = stumbles + 1, stumble
        if surveying:
            self._stumbles, self._error = stumbles, error

    def _frames(
        self,
        decoder: av.VideoCodecContext,
        packet: av.Packet | None,
        number: int,
        *,
        surveying: bool,
    ) -> list[av.VideoFrame]:
        damage = self._damage[self._video]
        try:
            frames = decoder.decode(packet)
        except _REFUSALS:
            if surveying and packet is not None:
                damage.add(number, packet)
            return []
        if surveying and frames:
            damage.decoded, damage.since = damage.decoded + len(frames), 0
        return frames

    def _listen(self, packet: av.Packet, number: int) -> None:
        damage = self._damage[packet.stream_index]
        try:
            damage.decoded += len(packet.decode())
        except _REFUSALS:
            damage.add(number, packet)

    def _retime(self, packet: av.Packet, *, surveying: bool) -> None:
        index = packet.stream_index
        if surveying:
            time = packet.pts if packet.dts is None else packet.dts
            self._timeline.note(index, tick_of(packet), time, packet.duration)
            return
        packet.dts = self._timeline.next(index)
        packet.pts = packet.dts  # sound is decoded as it is heard


def rate_of(video: av.VideoStream) -> Fraction:
    """Frames a second, or what comes nearest."""
    rate = video.average_rate or video.guessed_rate
    return rate if rate and 0 < rate <= 1000 else Fraction(25)


def _decoder(video: av.VideoStream) -> av.VideoCodecContext:
    """One that reads transparency, and says of which packet it is that it cannot be decoded."""
    context = video.codec_context
    other = _ALPHA_DECODERS.get(context.name)
    tags = {key.lower(): value for key, value in video.metadata.items()}
    if other in av.codecs_available and tags.get("alpha_mode") == "1":
        created = av.CodecContext.create(other, "r")
        assert isinstance(created, av.VideoCodecContext)
        context = created
    # Threads that decode several frames at once would say it later, and lose others with it.
    context.thread_type = "SLICE"
    context.options = {"max_pixels": str(opening.MAX_PIXELS)}
    return context


def _end(container: av.container.InputContainer) -> float:
    """Seconds of the end that a container says it has; the first is not always at 0."""
    start, lasts = container.start_time or 0, container.duration or 0
    # Of Matroska some write the time of the end where its length belongs.
    is_end = "matroska" in container.format.name and lasts > start
    return (lasts if is_end else start + lasts) / av.time_base


def _clock(seconds: float) -> str:
    """A place in a clip, as players show it: 1:02:03.4."""
    if not math.isfinite(seconds):
        return "an unknown place"
    tenths = round(max(0.0, seconds) * 10)
    minutes, rest = divmod(tenths, 600)
    hours, minutes = divmod(minutes, 60)
    clock = f"{minutes}:{rest // 10:02}.{rest % 10}"
    return f"{hours}:{clock:0>7}" if hours else clock
