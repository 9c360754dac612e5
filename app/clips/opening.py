"""Opening a clip, the one way to do it: as a file, and as nothing that leads to other files.

FFmpeg takes a name for an address ("12:30.mp4" has a protocol "12") and a file's content for
orders: a playlist, whatever it is called, makes it fetch and show what else it names. Here it gets
an open file without a name, no protocol to open another with, and formats that hold their frames
themselves.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import struct
import tempfile
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import BinaryIO

import av
import numpy as np
from PIL import Image, ImageSequence

from app.images import ImageError

# Containers, animations and plain streams, by the names that FFmpeg calls them.
FORMATS = (
    "mov,mp4,m4a,3gp,3g2,mj2", "matroska,webm", "mpegts", "mpeg", "mpegvideo", "avi", "flv",
    "live_flv", "kux", "asf", "ogg", "wtv", "mxf", "nut", "nuv", "nsv", "dv", "rm", "gxf", "lxf",
    "pva", "ty", "amv", "dhav", "ivf", "obu", "av1", "h261", "h263", "h264", "hevc", "vvc", "evc",
    "m4v", "mjpeg", "cavsvideo", "dirac", "vc1", "vc1test", "dnxhd", "yuv4mpegpipe", "swf", "roq",
    "flic", "bink", "smk", "gif", "apng", "webp_anim",
)  # fmt: skip

# Pixels of a frame that are decoded: 8K video has 33 million. What claims more is damaged.
MAX_PIXELS = 40_000_000
# Pixels of one frame of an animation that is unpacked before it is read: each is held some ten
# times meanwhile, of four bytes.
_LARGEST_CANVAS = 4096 * 4096
# And of all its frames: some 20 s of work.
_MOST_ANIMATED = 500_000_000
_PROBED = 10_000_000  # bytes and microseconds read to find the streams that begin late

_PICTURE = "a picture, no clip"
_HEAD = 4096  # bytes that tell what a file is
# What a clip may not be, by how it begins: what names other files, and what is no clip.
_ELSEWHERE = "which names other files and is never followed"
_XML = rb"\s*(<\?xml.*?\?>)?\s*(<!.*?>\s*)*<(\w+:)?"
_KINDS = (
    (rb"\s*#EXTM3U|\s*#EXT-X-", f"a playlist (HLS), {_ELSEWHERE}"),
    (
        rb"(\s*#[^\n]*\n)*\s*(ffconcat version|file\s+\S)",
        f"a list of clips (ffconcat), {_ELSEWHERE}",
    ),
    (_XML + rb"MPD\b", f"a playlist (DASH), {_ELSEWHERE}"),
    (_XML + rb"SmoothStreamingMedia\b", f"a playlist (Smooth Streaming), {_ELSEWHERE}"),
    (_XML + rb"(AssetMap|CompositionPlaylist)\b", f"a package (IMF), {_ELSEWHERE}"),
    (_XML + rb"(smil|asx|playlist)\b", f"a playlist, {_ELSEWHERE}"),
    (rb"\s*\[(playlist|reference)\]|RTSPtext|SMILtext", f"a playlist, {_ELSEWHERE}"),
    (rb"v=0\r?\n", "a session description (SDP), which names addresses and is never followed"),
    (rb"\s*(https?|rtsp|rtmp|rtp|mms|ftp|file|concat|subfile|data):\S", "an address, no clip"),
    (rb";FFMETADATA", "a list of tags (ffmetadata), no clip"),
    (rb"# VobSub", "a list of subtitles (VobSub), no clip"),
    (rb"\x89PNG|\xff\xd8\xff|BM.{12}|II\*\0|MM\0\*|8BPS|P[1-7]\s|RIFF....WEBP", _PICTURE),
)


_REFUSALS = (av.error.FFmpegError, OSError, ValueError, MemoryError)


class ClipError(ImageError):
    """A clip that cannot be read or written; its text is one line, "FILE: reason"."""


@contextlib.contextmanager
def opened(path: Path) -> Iterator[av.container.InputContainer]:
    """A clip's container, whatever the file's name; nothing but this file is ever opened.

    Raises ClipError, naming the file and the kind, for what is no clip or leads elsewhere.
    """
    name = str(path)
    if not path.exists():
        raise ClipError(name, "no such file")
    if not path.is_file():
        raise ClipError(name, "is no file")
    with _file(path) as file, contextlib.ExitStack() as stack:
        if leads_elsewhere(file):
            raise ClipError(name, "keeps its video in another file, which is not opened")
        file.seek(0)
        try:
            frames = stack.enter_context(_as_mov(file)) if _is_webp(file) else file
            container = av.open(
                _Nameless(frames),
                "r",
                # Pictures in a row are taken for a picture else.
                format="mjpeg" if path.suffix.lower() in (".mjpeg", ".mjpg") else None,
                options={"max_pixels": str(MAX_PIXELS)},
                container_options={
                    "protocol_whitelist": "",
                    "format_whitelist": ",".join(FORMATS),
                    "probesize": str(_PROBED),
                    "analyzeduration": str(_PROBED),
                },
                metadata_errors="surrogateescape",
            )
        except (*_REFUSALS, Image.DecompressionBombError) as error:
            raise ClipError(name, _refusal(file, error)) from error
        with container:
            yield container


def _file(path: Path) -> BinaryIO:
    try:
        return open(path, "rb")
    except OSError as error:
        raise ClipError(str(path), f"cannot be read: {error.strerror}") from error


class _Nameless:
    """An open file without its name, of which FFmpeg would make something."""

    def __init__(self, file: BinaryIO) -> None:
        self.read, self.seek, self.tell = file.read, file.seek, file.tell


class _TooMuchError(ValueError):
    """An animation that is not unpacked; its text goes on after the file's name."""


def _is_webp(file: BinaryIO) -> bool:
    """Whether it is a WebP animation, which FFmpeg does not read."""
    head = file.read(21)
    file.seek(0)
    return head[:4] == b"RIFF" and head[8:16] == b"WEBPVP8X" and bool(head[20:] and head[20] & 2)


@contextlib.contextmanager
def _as_mov(file: BinaryIO) -> Iterator[BinaryIO]:
    """A WebP animation as the same frames in a format that FFmpeg reads, written one by one."""
    with tempfile.TemporaryFile() as copy, Image.open(file, formats=["WEBP"]) as animation:
        pixels, frames = animation.width * animation.height, getattr(animation, "n_frames", 1)
        if pixels > _LARGEST_CANVAS:
            raise _TooMuchError(
                f"has frames of {animation.width} x {animation.height} pixels, too many"
            )
        if pixels * frames > _MOST_ANIMATED:
            raise _TooMuchError(
                f"is an animation of {frames} frames of {animation.width} x {animation.height} "
                "pixels, more than are read of one; save it as a clip"
            )
        with av.open(copy, "w", format="mov") as writing:
            stream = writing.add_stream("png", options={"compression_level": "1"})
            assert isinstance(stream, av.VideoStream)
            stream.width, stream.height, stream.pix_fmt = *animation.size, "rgba"
            stream.codec_context.thread_count = 1  # each would hold frames of its own
            tick = stream.codec_context.time_base = Fraction(1, 1000)
            time = 0
            for image in _loaded(animation):
                frame = av.VideoFrame.from_ndarray(np.asarray(image.convert("RGBA")), "rgba")
                frame.pts, frame.time_base = time, tick
                frame.duration = image.info.get("duration") or 100
                time += frame.duration
                writing.mux(stream.encode(frame))
            writing.mux(stream.encode())
        copy.seek(0)
        yield copy


def _loaded(animation: Image.Image) -> Iterator[Image.Image]:
    for frame in ImageSequence.Iterator(animation):
        frame.load()  # only then its duration is known
        yield frame


def _refusal(file: BinaryIO, error: Exception) -> str:
    if isinstance(error, Image.DecompressionBombError):
        return "claims frames of more pixels than are read"
    if isinstance(error, _TooMuchError):
        return str(error)
    file.seek(0)
    head = file.read(_HEAD)
    if not head:
        return "is empty"
    for pattern, kind in _KINDS:
        if re.match(pattern, head.removeprefix(codecs.BOM_UTF8), re.DOTALL | re.IGNORECASE):
            return f"is {kind}"
    # The list of formats is checked as an argument is.
    if isinstance(error, av.error.ArgumentError):
        return "cannot be read as a clip: a format that is not read here"
    return f"cannot be read as a clip: {reason(error)}"


def reason(error: Exception) -> str:
    """What FFmpeg raised, in words."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


# --- QuickTime's references -----------------------------------------------------------------

_INSIDE = {b"moov", b"trak", b"mdia", b"minf", b"dinf"}
_MOST = 10_000  # boxes that are looked at


def leads_elsewhere(file: BinaryIO) -> bool:
    """Whether a QuickTime or MP4 file says that its media are in another file."""
    size = os.fstat(file.fileno()).st_size
    return any(_is_reference(file, kind, end) for kind, end in _boxes(file, 0, size))


def _boxes(file: BinaryIO, start: int, end: int) -> Iterator[tuple[bytes, int]]:
    """Boxes from `start` to `end`, those inside some of them included; the file is at each's body.

    Nothing is trusted: sizes go no further than the box around, and boxes no deeper than known.
    """
    open_ends, looked_at = [(start, end)], 0
    while open_ends and looked_at < _MOST:
        start, end = open_ends.pop()
        while start + 8 <= end and looked_at < _MOST:
            looked_at += 1
            file.seek(start)
            size, kind = struct.unpack(">I4s", file.read(8).ljust(8, b"\0"))
            body = start + 8
            if size == 1:
                size, body = int.from_bytes(file.read(8), "big"), start + 16
            stop = end if size == 0 else min(start + size, end)
            if not kind.strip().isalnum() and not kind.startswith(b"\xa9"):
                break  # no box: no such file
            yield kind, stop
            if stop < body:
                break
            if kind in _INSIDE:
                open_ends.append((body, stop))
            start = stop


def _is_reference(file: BinaryIO, kind: bytes, end: int) -> bool:
    if kind == b"rmra":  # a reference movie: nothing but names of others
        return True
    if kind != b"dref":
        return False
    count = int.from_bytes(file.read(8)[4:], "big")
    for _ in range(min(count, 100)):
        start = file.tell()
        head = file.read(12)
        if len(head) < 12 or start + 12 > end:
            return False
        size, _, flags = struct.unpack(">I4sI", head)
        # An entry without the flag "in this file" that names no other one is an old mistake.
        if not flags & 1 and size > 12 and file.read(min(size - 12, 64)).strip(b"\0"):
            return True
        file.seek(start + max(size, 12))
    return False
