"""Colors as a file means them, taken to sRGB."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable

import numpy as np
from PIL import Image, ImageCms

from app.images._told import BT709, HLG, PQ, SRGB_CURVE, Space

# sRGB's white is this light of an HDR screen (ITU-R BT.2408), in cd/m².
_REFERENCE_WHITE = 203
# Light below this share of white stays as it is; what is above is bent so that none is cut.
_SHOULDER = 0.6
_BRADFORD = np.array(
    ((0.8951, 0.2664, -0.1614), (-0.7502, 1.7135, 0.0367), (0.0389, -0.0685, 1.0296))
)
_ROWS = 256  # of a picture, converted at once
_SAME = 0.3  # levels that a grid of colors moves on average, below which a space is sRGB


def through_profile(image: Image.Image, profile: bytes, notes: list[str]) -> Image.Image:
    """Colors taken from the profile's space to sRGB; the image as it was if that cannot be done."""
    try:
        source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        space = source.profile.xcolor_space.strip()
        mode = {"RGB": "RGB", "GRAY": "L", "CMYK": "CMYK", "Lab": "LAB"}.get(space)
        if mode == "RGB" and image.mode in ("1", "L", "YCbCr", "RGBX"):
            image = image.convert("RGB")
        if mode == "L" and image.mode == "1":
            image = image.convert("L")
        if mode != image.mode:
            notes.append(f"its color profile is for {space or 'unknown'} colors and was ignored")
            return image
        transform = ImageCms.buildTransform(
            source,
            ImageCms.createProfile("sRGB"),
            mode,
            "RGB",
            ImageCms.Intent.RELATIVE_COLORIMETRIC,
            ImageCms.Flags.BLACKPOINTCOMPENSATION,
        )
        if mode == "RGB" and _is_identity(transform):
            return image
        return _made(ImageCms.applyTransform(image, transform))
    except (ImageCms.PyCMSError, OSError, ValueError, TypeError):
        notes.append("its broken color profile was ignored")
        return image


def through_space(image: Image.Image, space: Space, notes: list[str]) -> Image.Image:
    """Colors of a gray or RGB image taken from a space to sRGB; others as they are.

    Linear light is carried from the space's primaries and white (Bradford) to sRGB's; colors that
    sRGB lacks are cut, and light brighter than a screen's white is bent below it.
    """
    if space.note:
        notes.append(space.note)
    if image.mode not in ("1", "L", "RGB") or space.is_srgb:
        return image
    convert = _conversion(space)
    moved = convert(_GRID).astype(int) - _GRID
    if np.abs(moved).mean() < _SAME:
        return image
    rgb = image if image.mode == "RGB" else image.convert("RGB")
    result = Image.new("RGB", rgb.size)
    for top in range(0, rgb.height, _ROWS):
        part = rgb.crop((0, top, rgb.width, min(top + _ROWS, rgb.height)))
        result.paste(Image.fromarray(convert(np.asarray(part))), (0, top))
    return result


def _made(image: Image.Image | None) -> Image.Image:
    assert image is not None  # there is none only where colors are changed in place
    return image


def _conversion(space: Space) -> Callable[[np.ndarray], np.ndarray]:
    light = _light(space.curve)
    if space.narrow:
        level = (np.arange(256) - 16).clip(0, 219) / 219
        light = np.interp(level, np.linspace(0, 1, 256), light)
    light = light.astype(np.float32)
    matrix = np.linalg.inv(_to_xyz(BT709)) @ _to_xyz(space.primaries)
    matrix = matrix.T.astype(np.float32)
    # Light in 16 bits is fine enough for every level of sRGB but the darkest two.
    steps = np.linspace(0, 1, 65_536)
    curved = np.where(steps <= 0.0031308, 12.92 * steps, 1.055 * steps ** (1 / 2.4) - 0.055)
    levels = (255 * curved).round().astype(np.uint8)
    weights = _to_xyz(space.primaries)[1].astype(np.float32)

    def convert(pixels: np.ndarray) -> np.ndarray:
        linear = light[pixels]
        if space.curve == HLG:
            # BT.2100: a screen of 1,000 cd/m² raises the scene's light to the power 1.2.
            linear = linear * (linear @ weights)[..., None] ** 0.2 * (1000 / _REFERENCE_WHITE)
        linear = linear @ matrix
        if space.curve in (PQ, HLG):
            linear = _bent(linear)
        return levels[(linear.clip(0, 1) * 65_535 + 0.5).astype(np.uint16)]

    return convert


def _light(curve: str | float | tuple[int, ...]) -> np.ndarray:
    """The light of each of 256 levels: 1 is white; of PQ, sRGB's white; of HLG, the brightest."""
    level = np.linspace(0, 1, 256)
    if curve == SRGB_CURVE:
        return np.where(level <= 0.04045, level / 12.92, ((level + 0.055) / 1.055) ** 2.4)
    if curve == PQ:  # SMPTE ST 2084
        m1, m2, c1, c2, c3 = 1305 / 8192, 2523 / 32, 107 / 128, 2413 / 128, 2392 / 128
        root = level ** (1 / m2)
        return 10_000 / _REFERENCE_WHITE * (np.maximum(root - c1, 0) / (c2 - c3 * root)) ** (1 / m1)
    if curve == HLG:  # ARIB STD-B67
        a, b, c = 0.17883277, 0.28466892, 0.55991073
        return np.where(level <= 0.5, level**2 / 3, (np.exp((level - c) / a) + b) / 12)
    if isinstance(curve, tuple):
        table = np.array(curve) / 65_535
        return np.interp(level, np.linspace(0, 1, len(table)), table)
    return level ** float(curve)


def _to_xyz(primaries: tuple[float, ...]) -> np.ndarray:
    """The matrix from light of the primaries to XYZ under D65."""
    x, y = np.array(primaries[0::2]), np.array(primaries[1::2])
    xyz = np.stack((x, y, 1 - x - y)) / np.maximum(y, 1e-4)
    scale = np.linalg.solve(xyz[:, :3], xyz[:, 3])
    d65 = np.array((0.3127, 0.3290, 1 - 0.3127 - 0.3290)) / 0.3290
    response, wanted = _BRADFORD @ xyz[:, 3], _BRADFORD @ d65
    adapted = np.linalg.inv(_BRADFORD) @ np.diag(wanted / response) @ _BRADFORD
    return adapted @ (xyz[:, :3] * scale)


def _bent(linear: np.ndarray) -> np.ndarray:
    """Light of any brightness brought below white; the ratio of its three colors stays."""
    most = linear.max(axis=-1, keepdims=True)
    above = np.maximum(most - _SHOULDER, 0) / (1 - _SHOULDER)
    bent = np.where(most > _SHOULDER, _SHOULDER + (1 - _SHOULDER) * -np.expm1(-above), most)
    return linear * (bent / np.maximum(most, 1e-6))


def lab_to_srgb(image: Image.Image) -> Image.Image:
    """An image of mode LAB as RGB."""
    lab, srgb = ImageCms.createProfile("LAB"), ImageCms.createProfile("sRGB")
    return _made(ImageCms.profileToProfile(image, lab, srgb, outputMode="RGB"))


def _grid() -> np.ndarray:
    levels = np.linspace(0, 255, 9).astype(np.uint8)
    return np.stack(np.meshgrid(levels, levels, levels), axis=-1).reshape(27, 27, 3)


_GRID = _grid()


def _is_identity(transform: ImageCms.ImageCmsTransform) -> bool:
    """Whether an RGB transform moves colors by less than rounding to 8 bits would.

    Most tagged photos carry one of the many sRGB profiles. Their pixels should stay exactly as
    they are, so that strength 0 gives back the photo. On this grid of colors those move by 0.004
    to 0.1 levels on average, plain gamma 2.2 by 1.3 and Display P3 by 10.
    """
    moved = np.asarray(ImageCms.applyTransform(Image.fromarray(_GRID), transform))
    return float(np.abs(moved.astype(int) - _GRID).mean()) < _SAME


@functools.cache
def srgb_profile() -> bytes:
    profile = bytearray(ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())
    # Bytes 24 to 36 say when the profile was made, which is now: two runs would differ by it.
    profile[24:36] = b"".join(part.to_bytes(2, "big") for part in (2026, 1, 1, 0, 0, 0))
    return bytes(profile)
