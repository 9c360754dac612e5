"""Kinds of files by suffix and by their first bytes: those read here, and what the others are.

A file that cannot be painted is called by its kind, and its owner told what to do about it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

# What counts as a picture when a folder is read. HEIC and JPEG XL are listed even where their
# readers are not installed: their owner should learn why one was not read instead of missing it.
PICTURE_SUFFIXES = frozenset(
    (
        *(".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".apng", ".webp", ".gif", ".tif", ".tiff"),
        *(".btf", ".tf8", ".bmp", ".dib", ".ppm", ".pgm", ".pbm", ".pnm", ".avif", ".jp2", ".j2k"),
        *(".j2c", ".jpx", ".jpc", ".heic", ".heif", ".hif", ".jxl", ".tga", ".ico", ".pcx"),
        *(".psd", ".qoi", ".sgi"),
    )
)

# TIFF-like containers of a sensor's readings, most of them with a finished JPEG inside.
_RAW = {
    ".dng": "DNG",
    ".cr2": "Canon CR2",
    ".cr3": "Canon CR3",
    ".crw": "Canon CRW",
    ".nef": "Nikon NEF",
    ".nrw": "Nikon NRW",
    ".arw": "Sony ARW",
    ".sr2": "Sony SR2",
    ".srf": "Sony SRF",
    ".raf": "Fujifilm RAF",
    ".orf": "Olympus ORF",
    ".rw2": "Panasonic RW2",
    ".rwl": "Leica RWL",
    ".pef": "Pentax PEF",
    ".srw": "Samsung SRW",
    ".x3f": "Sigma X3F",
    ".3fr": "Hasselblad 3FR",
    ".fff": "Hasselblad FFF",
    ".iiq": "Phase One IIQ",
    ".erf": "Epson ERF",
    ".kdc": "Kodak KDC",
    ".dcr": "Kodak DCR",
    ".mrw": "Minolta MRW",
    ".mos": "Leaf MOS",
    ".gpr": "GoPro GPR",
    ".raw": "raw",
}

_EXPORT = "export it as PNG or JPEG first"
_TONES = "bring its light into a screen's range in another program and save that as PNG or JPEG"
_PAGES = "export the page as PNG or JPEG first"


@dataclass(frozen=True)
class Kind:
    """What a file is that is not painted like any other picture.

    Attributes:
        what: as in "is WHAT".
        remedy: what its owner can do.
        raw: a camera raw file, in which a finished picture may be found.
    """

    what: str
    remedy: str
    raw: bool = False


JPEG_XL = Kind("a JPEG XL picture", "install pillow-jxl-plugin to read those")
HEIC = Kind("a HEIC picture", "install pillow-heif to read those")
_EXR = Kind("an OpenEXR picture of linear light", _TONES)
_RADIANCE = Kind("a Radiance HDR picture of linear light", _TONES)
_PFM = Kind("a floating-point map (PFM)", _TONES)
_NUMPY = Kind("a NumPy array", "save it as PNG or TIFF first")
_SVG = Kind("an SVG drawing", _EXPORT)
_PDF = Kind("a PDF document", _PAGES)
_POSTSCRIPT = Kind("a PostScript drawing", _EXPORT)
_JPEG_XR = Kind("a JPEG XR picture", _EXPORT)
_PSB = Kind("a large Photoshop document (PSB)", _EXPORT)
_PAM = Kind("a portable arbitrary map (PAM)", _EXPORT)
_SUN = Kind("a Sun raster picture", _EXPORT)
_MNG = Kind("an MNG animation", _EXPORT)
_MIFF = Kind("a picture of ImageMagick's own (MIFF)", _EXPORT)
_X11 = Kind("a picture of the X Window System", _EXPORT)
_FARBFELD = Kind("a farbfeld picture", _EXPORT)
_VIDEO = Kind("a video", "python -m app.video paints those")


def _raw(name: str) -> Kind:
    what = "a camera raw file" + ("" if name == "raw" else f" ({name})")
    return Kind(what, "develop it to JPEG or TIFF first", raw=True)


DNG = _raw("DNG")


_BY_SUFFIX = {
    **{suffix: _raw(name) for suffix, name in _RAW.items()},
    **dict.fromkeys((".exr",), _EXR),
    **dict.fromkeys((".hdr", ".pic", ".rgbe"), _RADIANCE),
    **dict.fromkeys((".pfm",), _PFM),
    **dict.fromkeys((".npy", ".npz"), _NUMPY),
    **dict.fromkeys((".svg", ".svgz"), _SVG),
    **dict.fromkeys((".pdf",), _PDF),
    **dict.fromkeys((".ai", ".eps", ".ps"), _POSTSCRIPT),
    **dict.fromkeys((".jxr", ".wdp", ".hdp"), _JPEG_XR),
    **dict.fromkeys((".psb",), _PSB),
    **dict.fromkeys((".xcf",), Kind("a GIMP document", _EXPORT)),
    **dict.fromkeys((".kra",), Kind("a Krita document", _EXPORT)),
    **dict.fromkeys((".afphoto",), Kind("an Affinity document", _EXPORT)),
    **dict.fromkeys((".procreate",), Kind("a Procreate document", _EXPORT)),
    **dict.fromkeys((".clip",), Kind("a Clip Studio document", _EXPORT)),
    **dict.fromkeys((".djvu", ".djv"), Kind("a DjVu document", _PAGES)),
    **dict.fromkeys((".dds",), Kind("a texture (DDS)", _EXPORT)),
    **dict.fromkeys((".ktx", ".ktx2"), Kind("a texture (KTX)", _EXPORT)),
    **dict.fromkeys((".dpx", ".cin"), Kind("a film scan (DPX)", _EXPORT)),
    **dict.fromkeys((".dcm",), Kind("a DICOM picture", _EXPORT)),
    **dict.fromkeys((".fits", ".fit", ".fts"), Kind("a FITS picture", _EXPORT)),
    **dict.fromkeys((".wmf", ".emf"), Kind("a Windows metafile", _EXPORT)),
    **dict.fromkeys((".icns",), Kind("an icon of macOS (ICNS)", _EXPORT)),
    **dict.fromkeys((".bpg",), Kind("a BPG picture", _EXPORT)),
    **dict.fromkeys((".flif",), Kind("a FLIF picture", _EXPORT)),
    **dict.fromkeys((".pam",), _PAM),
    **dict.fromkeys((".ras", ".sun"), _SUN),
    **dict.fromkeys((".mng", ".jng"), _MNG),
    **dict.fromkeys((".miff",), _MIFF),
    **dict.fromkeys((".xpm", ".xbm", ".xwd"), _X11),
    **dict.fromkeys((".pcd",), Kind("a Kodak Photo CD picture", _EXPORT)),
    **dict.fromkeys((".pict", ".pct"), Kind("a QuickDraw picture (PICT)", _EXPORT)),
    **dict.fromkeys((".wbmp",), Kind("a wireless bitmap (WBMP)", _EXPORT)),
    **dict.fromkeys((".ff",), _FARBFELD),
    **dict.fromkeys((".mp4", ".mov", ".m4v", ".mkv", ".webm", ".avi", ".mpg", ".mpeg"), _VIDEO),
    **dict.fromkeys((".mts", ".m2ts", ".wmv", ".3gp"), _VIDEO),
}

_BY_FIRST_BYTES = (
    (b"\xff\x0a", JPEG_XL),
    (b"\0\0\0\x0cJXL \r\n\x87\n", JPEG_XL),
    (b"\x76\x2f\x31\x01", _EXR),
    (b"#?RADIANCE", _RADIANCE),
    (b"#?RGBE", _RADIANCE),
    (b"PF\n", _PFM),
    (b"PF\r\n", _PFM),
    (b"PF ", _PFM),
    (b"Pf\n", _PFM),
    (b"Pf ", _PFM),
    (b"\x93NUMPY", _NUMPY),
    (b"%PDF", _PDF),
    (b"%!PS", _POSTSCRIPT),
    (b"\xc5\xd0\xd3\xc6", _POSTSCRIPT),
    (b"II\xbc\x01", _JPEG_XR),
    (b"8BPS\0\x02", _PSB),
    (b"gimp xcf", Kind("a GIMP document", _EXPORT)),
    (b"AT&TFORM", Kind("a DjVu document", _PAGES)),
    (b"DDS ", Kind("a texture (DDS)", _EXPORT)),
    (b"\xabKTX ", Kind("a texture (KTX)", _EXPORT)),
    (b"SDPX", Kind("a film scan (DPX)", _EXPORT)),
    (b"XPDS", Kind("a film scan (DPX)", _EXPORT)),
    (b"SIMPLE  =", Kind("a FITS picture", _EXPORT)),
    (b"\xd7\xcd\xc6\x9a", Kind("a Windows metafile", _EXPORT)),
    (b"icns", Kind("an icon of macOS (ICNS)", _EXPORT)),
    (b"BPG\xfb", Kind("a BPG picture", _EXPORT)),
    (b"FLIF", Kind("a FLIF picture", _EXPORT)),
    (b"P7\n", _PAM),
    (b"\x59\xa6\x6a\x95", _SUN),
    (b"\x8aMNG", _MNG),
    (b"\x8bJNG", _MNG),
    (b"id=ImageMagick", _MIFF),
    (b"/* XPM */", _X11),
    (b"farbfeld", _FARBFELD),
    (b"FUJIFILMCCD-RAW", _raw("Fujifilm RAF")),
    (b"IIRO", _raw("Olympus ORF")),
    (b"IIRS", _raw("Olympus ORF")),
    (b"MMOR", _raw("Olympus ORF")),
    (b"IIU\0", _raw("Panasonic RW2")),
    (b"FOVb", _raw("Sigma X3F")),
    (b"\0MRM", _raw("Minolta MRW")),
    (b"II\x1a\0\0\0HEAPCCDR", _raw("Canon CRW")),
    (b"\x1a\x45\xdf\xa3", _VIDEO),
)

_BY_BRAND = {
    **dict.fromkeys((b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1"), HEIC),
    b"msf1": HEIC,
    b"crx ": _raw("Canon CR3"),
    b"jxl ": JPEG_XL,
    **dict.fromkeys((b"isom", b"iso2", b"mp41", b"mp42", b"qt  ", b"M4V ", b"avc1"), _VIDEO),
}


# Kinds that are read, but not in every variety: what is left of them is called by its name.
_VARIETIES = (
    (b"8BPS", Kind("a Photoshop document of a kind that is not read", _EXPORT)),
    (b"\xff\xd8\xff", Kind("a JPEG that is lossless, of 12 bits, or cut in its header", _EXPORT)),
)


def is_picture_name(name: str | os.PathLike) -> bool:
    """Whether a file's suffix is one of a picture that is painted."""
    return Path(name).suffix.lower() in PICTURE_SUFFIXES


def kind_of_name(name: str | os.PathLike) -> Kind | None:
    """What a file is by its suffix, where that is not one of a picture that is painted."""
    return _BY_SUFFIX.get(Path(name).suffix.lower())


def variety_of_bytes(head: bytes) -> Kind | None:
    """What a file is that begins like a picture that is read, and that no reader knows."""
    return next((kind for start, kind in _VARIETIES if head.startswith(start)), None)


def kind_of_bytes(head: bytes) -> Kind | None:
    """What a file is by its first bytes, 512 or all of them; None for what is not known here."""
    if head[4:8] == b"ftyp":
        return _BY_BRAND.get(head[8:12])
    for start, kind in _BY_FIRST_BYTES:
        if head.startswith(start):
            return kind
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.startswith(b"<svg") or (text.startswith((b"<?xml", b"<!--")) and b"<svg" in text):
        return _SVG
    if head[128:132] == b"DICM":
        return Kind("a DICOM picture", _EXPORT)
    return None
