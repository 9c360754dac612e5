"""Small clips of every kind, made by PyAV, and what is in the results."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import skimage.data
from PIL import Image

from app.clips import Clip, container_of, upright_rgb, write

RATE = 12  # frames a second
SOUND = 48_000  # samples a second
TICK = Fraction(1, 600)


def pan(photo: np.ndarray, frames: int, height: int = 48, width: int = 64) -> list[np.ndarray]:
    """A window that moves over a photo, three pixels a frame."""
    return [photo[40 : 40 + height, 3 * i : 3 * i + width] for i in range(frames)]


def walk(frames: int) -> list[np.ndarray]:
    return pan(skimage.data.coffee(), frames)


def write_clip(
    path: Path,
    frames: Sequence[np.ndarray],
    *,
    codec: str = "libx264",
    options: dict[str, str] | None = None,
    sound: str | Sequence[str] | None = None,
    times: Sequence[int] | None = None,
    rotation: float | None = None,
    pixels: str = "yuv444p",
    begin: float = 0.0,
    container: str | None = None,
    languages: Sequence[str] = (),
) -> Path:
    """A clip of these frames, (H, W, 3 or 4) uint8.

    times: in ticks of 1/600 s, 50 of them a frame by default. begin: seconds, of all times.
    sound: codecs, one a track, of as many seconds as the frames take. With mpeg2video, which has
    no such rate, 25 frames a second.
    """
    with av.open(str(path), "w", format=container) as writing:
        chosen = {"crf": "10"} if codec == "libx264" else {}
        rate, tick = (25, Fraction(1, 25)) if codec == "mpeg2video" else (RATE, TICK)
        stream = writing.add_stream(codec, rate=rate, options=options or chosen)
        stream.height, stream.width = frames[0].shape[:2]
        stream.pix_fmt = pixels
        stream.codec_context.time_base = tick
        if rotation is not None:
            stream.set_display_rotation(rotation)
        names = [sound] if isinstance(sound, str) else sound or []
        tracks = [writing.add_stream(name, rate=SOUND, layout="mono") for name in names]
        for track in tracks:
            if track.name.startswith("wma"):
                track.bit_rate = 96_000
        for track, language in zip(tracks, languages, strict=False):
            track.metadata["language"] = language
        writing.metadata["title"] = "A walk"
        packets = []
        for i, layers in enumerate(frames):
            kind = "rgb24" if layers.shape[2] == 3 else "rgba"
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(layers), kind)
            ticks = times[i] if times else round(i / rate / tick)
            frame.pts, frame.time_base = ticks + round(begin / tick), tick
            packets += stream.encode(frame)
        packets += stream.encode()
        seconds = float((times[-1] + 50) * tick) if times else len(frames) / rate
        for track in tracks:
            packets += [packet for frame in tone(seconds, begin) for packet in track.encode(frame)]
            packets += track.encode()
        for packet in sorted(packets, key=lambda packet: packet.dts * packet.time_base):
            writing.mux(packet)
    return path


def tone(seconds: float, begin: float = 0.0) -> Iterator[av.AudioFrame]:
    """A sound, in pieces as encoders take them."""
    wave = 0.5 * np.sin(np.arange(round(seconds * SOUND)) * 0.05).astype(np.float32)
    for start in range(0, len(wave), 960):
        piece = np.ascontiguousarray(wave[None, start : start + 960])
        samples = av.AudioFrame.from_ndarray(piece, "fltp", "mono")
        samples.sample_rate = SOUND
        samples.pts, samples.time_base = start + round(begin * SOUND), Fraction(1, SOUND)
        yield samples


def packets_of(path: Path, **which: int) -> list[av.Packet]:
    with av.open(str(path)) as container:
        return [packet for packet in container.demux(**which) if packet.size]


def rewrite(source: Path, target: Path, change=lambda packet, number: packet) -> Path:
    """A copy of a clip, its packets changed, or left out (None), by their number in the stream."""
    with av.open(str(source)) as reading, av.open(str(target), "w") as writing:
        copies = {s.index: writing.add_stream_from_template(s) for s in reading.streams}
        counts = dict.fromkeys(copies, -1)
        for packet in reading.demux():
            if not packet.size:
                continue
            counts[packet.stream_index] += 1
            changed = change(packet, counts[packet.stream_index])
            if changed is not None:
                changed.stream = copies[packet.stream_index]
                writing.mux(changed)
    return target


def damage(path: Path, *numbers: int, **which: int) -> Path:
    """Zeros in place of some packets of a clip, the file otherwise as it was."""
    content = bytearray(path.read_bytes())
    for packet in [packets_of(path, **which)[number] for number in numbers]:
        raw = bytes(packet)
        place = content.find(raw)
        assert place >= 0
        content[place : place + len(raw)] = bytes(len(raw))
    path.write_bytes(content)
    return path


def take_over(source: Path, target: Path, *, sound: bool = True, strip: bool = False) -> list[str]:
    """What app.video does with a clip, but for painting it; returns its notes."""
    clip, size = Clip(source), (0, 0)
    with clip.opened() as container:
        clip.plan(container, container_of(target).name, sound=sound)
    with clip.opened() as container:
        for frame in clip.survey(container):
            size = upright_rgb(frame).shape[1::-1]
    even = (size[0] + size[0] % 2, size[1] + size[1] % 2)
    write(clip, target, target, even, lambda rgb: rgb, strip=strip)
    return clip.notes


def read_clip(path: Path) -> list[np.ndarray]:
    with av.open(str(path)) as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]


def times_of(path: Path) -> list[float]:
    with av.open(str(path)) as container:
        return [frame.time for frame in container.decode(video=0)]


def opacity_of(path: Path) -> list[np.ndarray]:
    """Each frame's opacity, (H, W) uint8, also where only another decoder reads it."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        decoder = stream.codec_context
        if decoder.name == "vp9":
            decoder = av.CodecContext.create("libvpx-vp9", "r")
        frames = [frame for packet in container.demux(stream) for frame in decoder.decode(packet)]
    return [frame.to_ndarray(format="rgba")[..., 3] for frame in frames]


def sound_of(path: Path, track: int = 0) -> list[bytes]:
    return [bytes(packet) for packet in packets_of(path, audio=track)]


def sound_times(path: Path, track: int = 0) -> list[float]:
    return [float(p.pts * p.time_base) for p in packets_of(path, audio=track)]


def level_of(path: Path, track: int = 0) -> tuple[np.ndarray, int]:
    """The decoded sound of a clip, mono, from 0 s on, gaps as zeros; and samples a second."""
    pieces, rate = [], SOUND
    with av.open(str(path)) as container:
        for frame in container.decode(audio=track):
            rate = frame.sample_rate
            values = frame.to_ndarray().astype(float)
            pieces.append((frame.time, values[0] if frame.format.is_planar else values.ravel()))
    end = max(round(time * rate) + len(values) for time, values in pieces)
    wave = np.zeros(end)
    for time, values in pieces:
        start = round(time * rate)
        wave[max(0, start) : start + len(values)] = values[max(0, -start) :]
    return wave, rate


def animation(frames: int) -> list[Image.Image]:
    """Pictures with a transparent right half, a bar moving over them."""
    pictures = []
    for i in range(frames):
        layers = np.zeros((48, 64, 4), np.uint8)
        layers[:, :32] = (200, 60, 30, 255)
        layers[:, 4 * i : 4 * i + 4] = (20, 90, 200, 255)
        # Without a pixel of both, writers of WebP say that nothing is transparent.
        layers[0, 32] = (200, 60, 30, 100)
        pictures.append(Image.fromarray(layers))
    return pictures
