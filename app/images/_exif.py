"""What of a file's EXIF block goes with its picture."""

from __future__ import annotations

from dataclasses import replace

from PIL import ExifTags, Image

from app.images._picture import Picture

_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}

_Tag = ExifTags.Base

# What is kept of the first EXIF directory. The rest of it, above all in a TIFF, says how the
# pixels lie in the file, or is a second copy of the metadata (XMP, IPTC) that would contradict it.
_ABOUT_THE_PICTURE = (
    *(_Tag.ImageDescription, _Tag.Make, _Tag.Model, _Tag.XResolution, _Tag.YResolution),
    *(_Tag.ResolutionUnit, _Tag.Software, _Tag.DateTime, _Tag.Artist, _Tag.HostComputer),
    *(_Tag.Rating, _Tag.RatingPercent, _Tag.Copyright, _Tag.XPTitle, _Tag.XPComment),
    *(_Tag.XPAuthor, _Tag.XPKeywords, _Tag.XPSubject),
)

# No longer true of the result: its size and its color space are its own.
_ABOUT_THE_FILE = (
    *(_Tag.ExifImageWidth, _Tag.ExifImageHeight, _Tag.ExifInteroperabilityOffset),
    *(_Tag.Gamma, _Tag.WhitePoint, _Tag.PrimaryChromaticities, _Tag.TransferFunction),
)

# What `strip` leaves: the kind of camera and how it was set. A list of what may stay forgets no
# tag in which a person, a place, a day or a serial number could hide.
_IMPERSONAL = (
    *(_Tag.Make, _Tag.Model, _Tag.XResolution, _Tag.YResolution, _Tag.ResolutionUnit),
    *(_Tag.Software, _Tag.ExifVersion, _Tag.ColorSpace, _Tag.ExposureTime, _Tag.FNumber),
    *(_Tag.ExposureProgram, _Tag.ISOSpeedRatings, _Tag.SensitivityType, _Tag.ShutterSpeedValue),
    *(_Tag.ApertureValue, _Tag.BrightnessValue, _Tag.ExposureBiasValue, _Tag.MaxApertureValue),
    *(_Tag.MeteringMode, _Tag.LightSource, _Tag.Flash, _Tag.FocalLength, _Tag.ExposureMode),
    *(_Tag.FocalLengthIn35mmFilm, _Tag.WhiteBalance, _Tag.DigitalZoomRatio, _Tag.GainControl),
    *(_Tag.SceneCaptureType, _Tag.Contrast, _Tag.Saturation, _Tag.Sharpness),
    *(_Tag.LensSpecification, _Tag.LensMake, _Tag.LensModel),
)

_SRGB = 1  # the EXIF color space


def exif_of(image: Image.Image, notes: list[str]) -> Image.Exif | None:
    """An opened picture's EXIF data; None where it is damaged."""
    try:
        exif = image.getexif()
        exif.get(_Tag.Orientation)
    except Exception:  # a damaged block raises struct.error, SyntaxError, KeyError, ...
        notes.append("its damaged EXIF data was ignored")
        return None
    return exif


def orientation(exif: Image.Exif | None) -> int | None:
    """How a picture lies, from 1 (upright) to 8; None where that is not said."""
    try:
        return None if exif is None else exif.get(_Tag.Orientation)
    except Exception:
        return None


def turned(image: Image.Image, orientation: int | None) -> Image.Image:
    """The image upright."""
    method = _UPRIGHT.get(orientation) if isinstance(orientation, int) else None
    return image if method is None else image.transpose(method)


def kept_exif(whole: Image.Exif | None) -> bytes:
    """The EXIF block that goes with the result, or nothing where there is none to read."""
    if whole is None:
        return b""
    try:
        details = dict(whole.get_ifd(ExifTags.IFD.Exif))
        kept = Image.Exif()
        kept.update({tag: whole[tag] for tag in _ABOUT_THE_PICTURE if tag in whole})
        for tag in _ABOUT_THE_FILE:
            details.pop(tag, None)
        if details:
            kept[ExifTags.IFD.Exif] = details | {_Tag.ColorSpace: _SRGB}
        if place := dict(whole.get_ifd(ExifTags.IFD.GPSInfo)):
            kept[ExifTags.IFD.GPSInfo] = place
        return kept.tobytes() if kept else b""
    except Exception:  # a damaged block raises whatever its parsing runs into
        return b""


def strip(picture: Picture) -> Picture:
    """The picture without what its EXIF block tells of people, places and days.

    Kept are the camera's and the lens's make and model, the exposure and its settings, the
    resolution and the software. All else goes: dates, GPS, artist, copyright, owner, serial
    numbers, unique ids, the maker's notes, and every field of free text.
    """
    if not picture.exif:
        return picture
    whole = Image.Exif()
    whole.load(picture.exif)
    details = whole.get_ifd(ExifTags.IFD.Exif)
    kept = Image.Exif()
    kept.update({tag: whole[tag] for tag in _IMPERSONAL if tag in whole})
    if details := {tag: details[tag] for tag in _IMPERSONAL if tag in details}:
        kept[ExifTags.IFD.Exif] = details
    return replace(picture, exif=kept.tobytes() if kept else b"")
