"""The one way to load a picture and the one way to save one.

Whatever the file holds, `load` hands out upright 8-bit sRGB pixels with the alpha channel beside
them, or raises an `ImageError` whose one line names the file and the reason.
"""

from app.images._exif import strip
from app.images._folders import Listing, folders_in, list_pictures, look_through
from app.images._kinds import PICTURE_SUFFIXES, Kind, is_picture_name, kind_of_name
from app.images._picture import (
    MAX_PIXELS,
    ImageError,
    Picture,
    TooLargeError,
    flatten,
    gray,
    one_line,
    resize,
    to_rgb,
    to_tensor,
)
from app.images._reading import load, pixels_unpacked
from app.images._writing import FORMATS, output_format, save, writing_whole
from models.whole_file import remove_leftovers

__all__ = [
    "FORMATS",
    "MAX_PIXELS",
    "PICTURE_SUFFIXES",
    "ImageError",
    "Kind",
    "Listing",
    "Picture",
    "TooLargeError",
    "flatten",
    "folders_in",
    "gray",
    "is_picture_name",
    "kind_of_name",
    "list_pictures",
    "load",
    "look_through",
    "one_line",
    "output_format",
    "pixels_unpacked",
    "remove_leftovers",
    "resize",
    "save",
    "strip",
    "to_rgb",
    "to_tensor",
    "writing_whole",
]
