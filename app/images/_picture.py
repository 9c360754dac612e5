"""A decoded picture, and what is done to its pixels."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from app import mapped

# A phone's 50 and 64 megapixel photos pass. A small file that would unpack to gigabytes does not.
MAX_PIXELS = 100_000_000

_BAND = 512  # rows of a large picture that are copied at once


class ImageError(ValueError):
    """A picture that cannot be read or written; its text is one line, "FILE: reason"."""

    def __init__(self, name: str, reason: str):
        super().__init__(one_line(name), one_line(reason))
        self.name, self.reason = self.args

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


class TooLargeError(ImageError):
    """A picture of more pixels than the caller allows, refused before they are decoded."""


@dataclass(frozen=True, eq=False)
class Picture:
    """A decoded picture.

    rgb: uint8 (H,W,3), upright, sRGB; of a large picture, in a file (app.mapped). alpha: uint8
    (H,W), 255 opaque, or None where the file has no transparency. name: how messages call it, the
    file's path where it has one. notes: what was left out or guessed on the way, one sentence
    each. exif: the file's EXIF block without orientation, thumbnail and what described the file
    itself; empty where it has none.
    """

    rgb: np.ndarray
    alpha: np.ndarray | None = None
    name: str = "picture"
    notes: tuple[str, ...] = ()
    exif: bytes = b""

    @property
    def width(self) -> int:
        """Pixels across."""
        return self.rgb.shape[1]

    @property
    def height(self) -> int:
        """Pixels down."""
        return self.rgb.shape[0]


def one_line(text: str) -> str:
    """The text with line breaks and control characters escaped, for a file's name may hold any."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in str(text)
    )


def _bands(height: int) -> Iterator[slice]:
    """Rows of a picture, a part at a time: what is copied of a large one is then soon let go."""
    for top in range(0, height, _BAND):
        yield slice(top, min(top + _BAND, height))


def pixels_of(image: Image.Image) -> np.ndarray:
    """An RGB image's pixels, in a file where they are many."""
    pixels = mapped.new_pixels((image.height, image.width, 3))
    if not mapped.is_mapped(pixels):
        return np.array(image)
    for rows in _bands(image.height):
        pixels[rows] = np.asarray(image.crop((0, rows.start, image.width, rows.stop)))
        mapped.let_go(pixels)
    return pixels


def image_of(pixels: np.ndarray) -> Image.Image:
    """The inverse of `pixels_of`."""
    if not mapped.is_mapped(pixels):
        return Image.fromarray(np.ascontiguousarray(pixels))
    height, width = pixels.shape[:2]
    image = Image.new("RGB", (width, height))
    for rows in _bands(height):
        image.paste(Image.fromarray(np.ascontiguousarray(pixels[rows])), (0, rows.start))
        mapped.let_go(pixels)
    return image


def to_tensor(rgb: np.ndarray) -> Tensor:
    """Pixels (H,W,3) uint8 as a network's input, (1,3,H,W) float32 in [-1,1].

    Raises ValueError for another shape or type.
    """
    if rgb.ndim != 3 or rgb.shape[2] != 3 or rgb.dtype != np.uint8:
        raise ValueError(f"wanted uint8 pixels of shape (H,W,3), got {rgb.dtype} {rgb.shape}")
    pixels = torch.from_numpy(np.ascontiguousarray(rgb.transpose(2, 0, 1)))
    return pixels[None].to(torch.float32).div_(127.5).sub_(1.0)


def to_rgb(tensor: Tensor) -> np.ndarray:
    """A network's output (1,3,H,W), clamped to [-1,1], as pixels (H,W,3) uint8.

    The inverse of `to_tensor`, exact for every level. Raises ValueError for another shape and for
    values that are not finite, which no pixel can show.
    """
    if tensor.ndim != 4 or tensor.shape[0] != 1 or tensor.shape[1] != 3:
        raise ValueError(f"wanted a picture of shape (1,3,H,W), got {tuple(tensor.shape)}")
    levels = tensor.detach()[0].to("cpu", torch.float32).add(1.0).mul_(127.5)
    # A sum of what is no number is none; looked at one by one they would take as long as all else.
    if not math.isfinite(levels.sum()):
        raise ValueError("the network's picture holds values that are not finite")
    pixels = levels.round_().clamp_(0, 255).to(torch.uint8)
    return torch.stack(pixels.unbind(), -1).numpy()


def resize(picture: Picture, max_size: int) -> Picture:
    """Shrink so that the longest side is at most `max_size` pixels; never enlarge.

    Lanczos; with alpha the colors are weighted by it, so that no hidden color bleeds into an edge.
    Raises ValueError for a `max_size` below 1.
    """
    if max_size < 1:
        raise ValueError(f"a picture's longest side must be at least 1 pixel, got {max_size}")
    scale = max_size / max(picture.width, picture.height)
    if scale >= 1:
        return picture
    size = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
    rgb = np.array(Image.fromarray(picture.rgb).resize(size, Image.Resampling.LANCZOS))
    if picture.alpha is None:
        return replace(picture, rgb=rgb)
    # Pillow premultiplies RGBA for the filter and divides afterwards. That leaves black where
    # nothing is visible, a color the picture may not have: keep the plain average there.
    rgba = np.dstack([picture.rgb, picture.alpha])
    rgba = np.array(Image.fromarray(rgba).resize(size, Image.Resampling.LANCZOS))
    alpha = np.ascontiguousarray(rgba[..., 3])
    visible = np.where(alpha[..., None] > 0, rgba[..., :3], rgb)
    return replace(picture, rgb=visible, alpha=alpha)


def gray(picture: Picture) -> np.ndarray:
    """The picture as a mask, uint8 (H,W): its brightness, and 0 where it is transparent."""
    level = np.array(Image.fromarray(picture.rgb).convert("L"))
    if picture.alpha is None:
        return level
    return ((level.astype(np.uint16) * picture.alpha + 127) // 255).astype(np.uint8)


def flatten(picture: Picture) -> Picture:
    """The picture laid on white, without alpha; itself where it has none."""
    if picture.alpha is None:
        return picture
    alpha = picture.alpha[..., None].astype(np.uint16)
    # (x + 127) // 255 rounds to the nearest; 255 * 255 + 127 fits 16 bits.
    blended = (picture.rgb * alpha + 255 * (255 - alpha) + 127) // 255
    return replace(picture, rgb=blended.astype(np.uint8), alpha=None)
