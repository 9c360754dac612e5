"""Pixels of any depth as 8-bit ones, with their alpha kept aside."""

from __future__ import annotations

import numpy as np
from PIL import Image

from app.images._tiff import white


def split_alpha(image: Image.Image) -> tuple[Image.Image, np.ndarray | None]:
    """The picture's opaque part, palettes resolved, and its alpha (H,W) uint8 or None."""
    if image.mode.startswith("I"):
        key = image.info.get("transparency")
        if not isinstance(key, int):
            return image, None
        # A 16-bit gray PNG can declare one gray level transparent.
        return image, np.where(np.asarray(image) == key, 0, 255).astype(np.uint8)
    if image.mode == "F" or not image.has_transparency_data:
        return (image.convert("RGB") if image.mode in ("P", "PA") else image), None
    gray = image.mode in ("1", "L", "LA", "La")
    with_alpha = image.convert("LA" if gray else "RGBA")
    alpha = np.array(with_alpha.getchannel("A"))
    return with_alpha.convert("L" if gray else "RGB"), alpha


def eight_bit(image: Image.Image, notes: list[str]) -> Image.Image:
    """Wider gray (modes I;16, I, F) as 8-bit gray; any other mode as it is."""
    if image.mode.startswith("I"):
        levels = np.asarray(image).clip(0, 65_535)
        # 65535 = 257 * 255: this maps white to white, and a widened 8-bit level back to itself.
        return Image.fromarray(((levels.astype(np.uint32) + 128) // 257).astype(np.uint8))
    if image.mode == "F":
        values = np.nan_to_num(np.asarray(image), nan=0.0, posinf=0.0, neginf=0.0)
        full = white(float(values.max()), bool((values == np.round(values)).all()), notes)
        return Image.fromarray((values.clip(0, full) * (255 / full)).round().astype(np.uint8))
    return image
