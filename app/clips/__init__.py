"""Clips: how containers are read and written. What a frame becomes is the business of app.video.

clip = Clip(path)
with clip.opened() as container: ...
"""

from app.clips.reading import Clip, ClipError, upright_rgb
from app.clips.writing import CONTAINERS, container_of, copy, encodable, written_errors

__all__ = [
    "CONTAINERS",
    "Clip",
    "ClipError",
    "container_of",
    "copy",
    "encodable",
    "upright_rgb",
    "written_errors",
]
