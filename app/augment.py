"""What happens to pictures on their way, and what a judge of style should not mind."""

from __future__ import annotations

import io
import random
import warnings

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from skimage import color
from torch import Tensor
from torchvision.transforms import v2

from app import images

JITTER = v2.ColorJitter(brightness=0.15, contrast=0.15, saturation=0.15)
WORST_QUALITY, BEST_QUALITY = 35, 95  # JPEG
GRAIN = 0.05  # standard deviation at most, of values in [-1, 1]
SMALLEST_SCALE = 0.5  # of pictures that are shrunk and enlarged again


def compressed(image: Tensor, quality: int) -> Tensor:
    """A picture (1, 3, H, W) in [-1, 1] after JPEG of a quality, 1 to 100."""
    file = io.BytesIO()
    Image.fromarray(images.to_rgb(image)).save(file, "jpeg", quality=quality)
    return images.to_tensor(np.asarray(Image.open(file)))


def scaled(image: Tensor, scale: float) -> Tensor:
    """Pictures (B, 3, H, W) with sides that many times as long."""
    height, width = (max(1, round(side * scale)) for side in image.shape[-2:])
    return F.interpolate(
        image, (height, width), mode="bicubic", antialias=True, align_corners=False
    ).clamp(-1, 1)


def lab(image: Tensor) -> np.ndarray:
    """CIE Lab of a picture (1, 3, H, W) in [-1, 1]: (H, W, 3)."""
    return color.rgb2lab(((image[0] + 1) / 2).permute(1, 2, 0).numpy())


def recolored(image: Tensor, palette: Tensor) -> Tensor:
    """A picture with each Lab channel's mean and standard deviation taken from another one.

    Both (1, 3, H, W) in [-1, 1], of any two sizes (Reinhard et al., "Color Transfer between
    Images", in Lab).
    """
    own, other = lab(image), lab(palette)
    mean, spread = own.mean((0, 1)), np.maximum(own.std((0, 1)), 1e-3)
    moved = (own - mean) / spread * other.std((0, 1)) + other.mean((0, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # colors that no screen shows are cut off
        rgb = color.lab2rgb(moved.astype(np.float32)).clip(0, 1)
    return torch.from_numpy(rgb.astype(np.float32)).permute(2, 0, 1)[None] * 2 - 1


def grained(image: Tensor, draw: random.Random) -> Tensor:
    """A photo (1, 3, H, W) in [-1, 1] as a camera may store it: with grain, compressed, or both."""
    if draw.random() < 0.7:
        noise = torch.Generator().manual_seed(draw.randrange(2**62))
        grain = torch.randn(image.shape, generator=noise)
        image = (image + draw.uniform(0, GRAIN) * grain).clamp(-1, 1)
    if draw.random() < 0.7:
        image = compressed(image, draw.randint(WORST_QUALITY, BEST_QUALITY))
    return image


def roughened(image: Tensor, draw: random.Random) -> Tensor:
    """A picture (1, 3, H, W) in [-1, 1] as it may come: other colors, blurred, compressed.

    Each of the three happens to a part of the pictures, the colors to all, a little.
    """
    image = JITTER((image + 1) / 2) * 2 - 1
    if draw.random() < 0.3:
        size = image.shape[-2:]
        small = scaled(image, draw.uniform(SMALLEST_SCALE, 0.9))
        image = F.interpolate(
            small, size, mode="bicubic", antialias=True, align_corners=False
        ).clamp(-1, 1)
    if draw.random() < 0.4:
        image = compressed(image, draw.randint(WORST_QUALITY, BEST_QUALITY))
    return image
