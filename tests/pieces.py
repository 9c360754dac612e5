"""Folders of pictures: pieces of real ones."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import skimage.data
from PIL import Image


def real_pictures() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A photo, one of warm colors and one of cold ones, that scikit-image ships."""
    return skimage.data.astronaut(), skimage.data.coffee(), skimage.data.chelsea()[:, :, ::-1]


def save_pieces(
    folder: Path, pixels: np.ndarray, corners: Iterable[tuple[int, int]], size: tuple[int, int]
) -> None:
    """Pieces of a picture as 0.png, 1.png and so on, after those that the folder has.

    Args:
        corners: top and left of each.
        size: height and width of each.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for number, (top, left) in enumerate(corners, len(list(folder.iterdir()))):
        piece = np.ascontiguousarray(pixels[top : top + size[0], left : left + size[1]])
        Image.fromarray(piece).save(folder / f"{number}.png")
