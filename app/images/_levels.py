"""Pixels of any depth as 8-bit ones, with their alpha kept aside."""

from __future__ import annotations

import numpy as np
from PIL import Image


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


def eight_bit(image: Image.Image) -> Image.Image:
    """Wider gray (modes I;16, I, F) as 8-bit gray; any other mode as it is."""
    if image.mode.startswith("I"):
        levels = np.asarray(image)
        # Mode I also carries 32-bit TIFFs, whose unsigned values Pillow stores as signed ones.
        if image.mode == "I" and (levels.min() < 0 or levels.max() > 65_535):
            return Image.fromarray((levels.view(np.uint32) >> 24).astype(np.uint8))
        # 65535 = 257 * 255: this maps white to white, and a widened 8-bit level back to itself.
        return Image.fromarray(((levels.astype(np.uint32) + 128) // 257).astype(np.uint8))
    if image.mode == "F":
        values = np.nan_to_num(np.asarray(image), nan=0.0, posinf=0.0, neginf=0.0)
        # Floating-point gray is 0..1 by convention; files that hold integers exceed it.
        brightest = values.max()
        full_scale = next((full for full in (1.0, 255.0, 65_535.0) if brightest <= full), brightest)
        return Image.fromarray((values.clip(0) * (255 / full_scale)).round().astype(np.uint8))
    return image
