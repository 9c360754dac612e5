"""Mutated clips of several containers: read as app.video reads them, and some of them painted."""

from __future__ import annotations

import argparse
import functools
import io
import random
import struct
import tempfile
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from PIL import Image

from benchmarks.robustness import Outcome
from benchmarks.robustness.trial import testing

SIZES = {
    "clips": (200, "clips of which something is damaged"),
    "painted-clips": (40, "of those that are also painted"),
}

# Seconds, and MB of memory beside what the program has: a frame of the most pixels that are read
# needs 120 MB, and is there several times.
SLOWEST, MOST_MEMORY = 10.0, 1500.0
RATE, FRAMES, SIDES = 10, 12, (64, 48)

# Suffix, video, pixels, sound.
KINDS = (
    ("mp4", "libx264", "yuv420p", "aac"),
    ("mov", "prores_ks", "yuva444p10le", "pcm_s16le"),
    ("mkv", "libx264", "yuv420p", "libopus"),
    ("webm", "libvpx-vp9", "yuv420p", "libopus"),
    ("ts", "mpeg2video", "yuv420p", "mp2"),
    ("avi", "mpeg4", "yuv420p", "libmp3lame"),
    ("flv", "flv", "yuv420p", "libmp3lame"),
    ("gif", None, None, None),
    ("webp", None, None, None),
    ("apng", None, None, None),
)


def read(path: str) -> str:
    """What app.video does with a clip, but for the painting: its frames stay as they are."""
    from app.clips import Clip, container_of, try_out, upright_rgb, write

    source, size = Path(path), (0, 0)
    target = source.with_name("result.mp4" if source.suffix == ".mkv" else "result.mkv")
    part = target.with_suffix(".part")
    clip = Clip(source)
    try:
        try_out(part, target)
        with clip.opened() as container:
            clip.plan(container, container_of(target).name)
        with clip.opened() as container:
            for frame in clip.survey(container):
                height, width = upright_rgb(frame).shape[:2]
                size = size if any(size) else (width + width % 2, height + height % 2)
        write(clip, part, target, size, lambda rgb: rgb)
    finally:
        part.unlink(missing_ok=True)
    return f"{clip.count} frames, {len(clip.notes)} notes"


def paint(path: str) -> str:
    """All that app.video does with a clip."""
    from app import video
    from app.look import Look

    target = Path(path).with_name("result.mp4")
    painter = _painter()
    style = painter.style(painter.style_names[0])
    notes = video.repaint(Path(path), target, painter, style, Look(), max_size=64, quiet=True)
    target.unlink()
    return f"{len(notes)} notes"


@functools.cache
def _painter() -> object:
    from app import shipped
    from app.painter import Painter

    return Painter(shipped.CHECKPOINT, "cpu")


def run(options: argparse.Namespace, generator: random.Random) -> Outcome:
    """Tries each in a process of its own."""
    outcome = Outcome()
    clips = {kind[0]: _clip(*kind) for kind in KINDS}
    for function, count in (("read", options.clips), ("paint", options.painted_clips)):
        with (
            tempfile.TemporaryDirectory() as folder,
            testing(f"{__name__}:{function}", ["app.images:ImageError"]) as tester,
        ):
            for number in range(count):
                suffix = generator.choice(KINDS)[0]
                name, mutation = generator.choice(MUTATIONS)
                path = Path(folder, f"{function}-{number}-{name}.{suffix}")
                path.write_bytes(mutation(generator, clips[suffix]))
                trial = tester.try_one(str(path))
                outcome.judge(trial, path.name, path.name, SLOWEST, MOST_MEMORY)
                left = [file for file in Path(folder).iterdir() if file != path]
                if any(file.suffix == ".part" for file in left):
                    outcome.faults.append(f"{path.name}: half of a result is left")
                for file in (path, *left):
                    file.unlink(missing_ok=True)
    return outcome


def _clip(suffix: str, codec: str | None, pixels: str | None, sound: str | None) -> bytes:
    """A whole clip: a square that moves over noise, and a tone."""
    still = np.random.default_rng(0).integers(0, 256, (SIDES[1], SIDES[0], 4)).astype(np.uint8)
    frames = []
    for number in range(FRAMES):
        frame = still.copy()
        frame[10:30, 3 * number : 3 * number + 20] = (200, 80, 20, 128)
        frames.append(frame)
    file = io.BytesIO()
    if codec is None:
        first, *others = [Image.fromarray(frame) for frame in frames]
        kind = {"gif": "GIF", "webp": "WEBP", "apng": "PNG"}[suffix]
        first.save(file, kind, save_all=True, append_images=others, duration=1000 // RATE)
        return file.getvalue()
    container = {"mkv": "matroska", "ts": "mpegts"}.get(suffix, suffix)
    with av.open(file, "w", format=container) as writing:
        stream = writing.add_stream(codec, rate=RATE, pix_fmt=pixels)
        stream.width, stream.height = SIDES
        rate = 44_100 if sound == "libmp3lame" else 48_000
        track = writing.add_stream(sound, rate=rate, layout="stereo")
        wave = np.sin(np.arange(FRAMES * rate // RATE) * 0.05) * 8000
        resampler = av.AudioResampler(track.format, "stereo", rate)
        track.codec_context.open(strict=False)
        fifo, packets = av.AudioFifo(), []
        samples = av.AudioFrame.from_ndarray(wave[None].astype(np.int16), "s16", "mono")
        samples.sample_rate, samples.time_base, samples.pts = rate, Fraction(1, rate), 0
        for frame in resampler.resample(samples):
            fifo.write(frame)
        size = track.codec_context.frame_size or 1024
        while piece := fifo.read(size, partial=True):
            packets += track.encode(piece)
        packets += track.encode(None)
        for number, layers in enumerate(frames):
            frame = av.VideoFrame.from_ndarray(layers, "rgba")
            frame.pts, frame.time_base = number, Fraction(1, RATE)
            packets += stream.encode(frame)
        packets += stream.encode(None)
        for packet in sorted(packets, key=lambda packet: packet.dts * packet.time_base):
            writing.mux(packet)
    return file.getvalue()


# --- What is done to them -------------------------------------------------------------------

_EXTREMES = (0, 1, 7, 8, 16, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1)


def _flipped(generator: random.Random, clip: bytes) -> bytes:
    data = bytearray(clip)
    for _ in range(generator.choice([1, 10, 100, 1000])):
        data[generator.randrange(len(data))] = generator.randrange(256)
    return bytes(data)


def _head_flipped(generator: random.Random, clip: bytes) -> bytes:
    data = bytearray(clip)
    for _ in range(generator.choice([1, 4, 16])):
        data[generator.randrange(min(len(data), 600))] ^= 1 << generator.randrange(8)
    return bytes(data)


def _index_flipped(generator: random.Random, clip: bytes) -> bytes:
    """In MP4 the boxes that say where everything is are at the end."""
    data = bytearray(clip)
    for _ in range(generator.choice([1, 4, 16])):
        data[-1 - generator.randrange(min(len(data), 2500))] = generator.randrange(256)
    return bytes(data)


def _cut(generator: random.Random, clip: bytes) -> bytes:
    return clip[: generator.choice([0, 1, 100, generator.randrange(len(clip)), len(clip) - 1])]


def _hole(generator: random.Random, clip: bytes) -> bytes:
    start = generator.randrange(len(clip))
    stop = min(len(clip), start + generator.choice([1, 188, 2000]))
    filling = generator.choice([b"", bytes(stop - start), clip[start:stop] * 2])
    return clip[:start] + filling + clip[stop:]


def _word(generator: random.Random, clip: bytes) -> bytes:
    """A number of 32 bits set to an extreme."""
    place = generator.randrange(max(1, len(clip) - 4))
    order = generator.choice("<>")
    return clip[:place] + struct.pack(f"{order}I", generator.choice(_EXTREMES)) + clip[place + 4 :]


def _size(generator: random.Random, clip: bytes) -> bytes:
    """The size of a box or an element, or what is beside it, set to an extreme."""
    names = (
        b"moov", b"trak", b"mdia", b"stbl", b"stsd", b"stts", b"stsz", b"stsc", b"stco", b"ctts",
        b"mdhd", b"tkhd", b"elst", b"avcC", b"esds", b"mdat", b"ftyp", b"hdlr", b"dref", b"avih",
        b"strh", b"strf", b"movi", b"idx1", b"LIST", b"fcTL", b"acTL", b"IHDR", b"ANMF", b"VP8X",
        b"\x16\x54\xae\x6b", b"\x1f\x43\xb6\x75", b"\x15\x49\xa9\x66", b"\xe0", b"\xa3",
    )  # fmt: skip
    there = [name for name in names if name in clip]
    if not there:
        return _word(generator, clip)
    name = generator.choice(there)
    place = generator.choice([i for i in range(len(clip)) if clip.startswith(name, i)])
    place = max(0, place + generator.choice([-4, len(name), len(name) + 4, len(name) + 8]))
    return clip[:place] + struct.pack(">I", generator.choice(_EXTREMES)) + clip[place + 4 :]


def _joined(generator: random.Random, clip: bytes) -> bytes:
    half = generator.randrange(len(clip))
    return generator.choice(
        [clip + clip, clip[half:] + clip[:half], clip[half:], clip[:half] + clip]
    )


MUTATIONS: list[tuple[str, Callable[[random.Random, bytes], bytes]]] = [
    ("flipped", _flipped),
    ("flipped", _flipped),
    ("head", _head_flipped),
    ("index", _index_flipped),
    ("cut", _cut),
    ("hole", _hole),
    ("word", _word),
    ("size", _size),
    ("size", _size),
    ("joined", _joined),
]
