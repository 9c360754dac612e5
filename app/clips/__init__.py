"""Clips: how containers are read and written. What a frame becomes is the business of app.video.

    clip = Clip(path)
    with clip.opened() as container:
        clip.plan(container, "mp4")                 # what becomes of sound and subtitles
    with clip.opened() as container:
        for frame in clip.survey(container): ...    # av.VideoFrame; see upright_rgb
    write(clip, part, target, size, paint)

`opened` is the one way to open a video file, here and elsewhere: it opens no other one with it.
"""

from app.clips.frames import upright_alpha, upright_rgb
from app.clips.opening import ClipError, opened
from app.clips.reading import Clip
from app.clips.writing import CONTAINERS, Container, container_of, try_out, write

__all__ = [
    "CONTAINERS",
    "Clip",
    "ClipError",
    "Container",
    "container_of",
    "opened",
    "try_out",
    "upright_alpha",
    "upright_rgb",
    "write",
]
