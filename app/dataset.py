"""Folders of pictures for training: read once, cropped at random."""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image
from torch import Tensor
from tqdm import tqdm

from app import images

# A stroke's size is part of a style, so pictures are brought to one scale before they are cropped:
# the short side that the artworks come with. A larger scan would teach strokes too fine to see.
SHORT_SIDE = 256  # pixels
MEMORY = 6 * 2**30  # bytes of decoded pictures kept; what is beyond is read again when drawn


class FolderError(ValueError):
    """A folder that can't be trained on; the message names it and the reason."""


class PictureFolder:
    """The pictures of a folder as RGB, short side at most 256 px.

    Grayscale, palette, CMYK and 16-bit pictures are converted, transparency is laid on white. A
    picture that can't be read is left out and named on stderr.

    Args:
        folder: searched for pictures, subfolders included.
        count: no more than this many pictures, evenly spread over the sorted names.

    Raises:
        FolderError: no such folder, or not one readable picture in it.
    """

    def __init__(self, folder: str | Path, *, name: str = "", count: int | None = None) -> None:
        self.folder, self.name = Path(folder), name or Path(folder).name
        if not self.folder.is_dir():
            raise FolderError(f"{folder}: there is no such folder")
        paths = images.list_pictures(self.folder, recursive=True)
        if count is not None and count < len(paths):
            paths = [paths[i * len(paths) // count] for i in range(count)]
        self.paths: list[Path] = []
        self.skipped: list[str] = []
        self._kept: dict[int, Image.Image] = {}
        used = 0
        for path in tqdm(paths, desc=f"reading {self.name}", unit="picture", leave=False):
            try:
                picture = self._read(path)
            except images.ImageError as error:
                self.skipped.append(str(error))
                tqdm.write(f"skipped {error}", file=sys.stderr)
                continue
            used += picture.width * picture.height * 3
            if used <= MEMORY:
                self._kept[len(self.paths)] = picture
            self.paths.append(path)
        if not self.paths:
            found = f"none of its {len(paths)} pictures can be read" if paths else "no pictures"
            raise FolderError(f"{folder}: {found}")

    @staticmethod
    def _read(path: Path) -> Image.Image:
        picture = images.flatten(images.load(path))
        image = Image.fromarray(picture.rgb)
        scale = SHORT_SIDE / min(image.size)
        if scale < 1:
            size = tuple(max(1, round(side * scale)) for side in image.size)
            image = image.resize(size, Image.Resampling.LANCZOS)
        return image

    def __len__(self) -> int:
        return len(self.paths)

    def image(self, index: int) -> Image.Image:
        """The whole picture, short side at most 256 px."""
        return self._kept[index] if index in self._kept else self._read(self.paths[index])

    def tensor(self, index: int) -> Tensor:
        """The whole picture, (1, 3, H, W) in [-1, 1]."""
        return images.to_tensor(np.asarray(self.image(index)))

    def crop(self, index: int, size: int, draw: random.Random, smallest: float) -> Tensor:
        """A random square, mirrored half of the time: (1, 3, size, size) in [-1, 1].

        Args:
            smallest: the picture is first shrunk by a factor between this and 1 (or enlarged,
                where it would be smaller than ``size``).
        """
        image = self.image(index)
        short = min(image.size)
        scale = max(size / short, draw.uniform(smallest, 1.0))
        side = min(short, size / scale)  # of the square in the picture's own pixels
        left = draw.uniform(0, image.width - side)
        top = draw.uniform(0, image.height - side)
        box = (left, top, left + side, top + side)
        square = image.resize((size, size), Image.Resampling.BICUBIC, box=box)
        tensor = images.to_tensor(np.asarray(square))
        return tensor.flip(-1) if draw.random() < 0.5 else tensor

    def square(self, index: int, size: int) -> Tensor:
        """The middle square, (1, 3, size, size) in [-1, 1]."""
        image = self.image(index)
        side = min(image.size)
        left, top = (image.width - side) / 2, (image.height - side) / 2
        box = (left, top, left + side, top + side)
        square = image.resize((size, size), Image.Resampling.LANCZOS, box=box)
        return images.to_tensor(np.asarray(square))


def draw_crops(
    folders: Sequence[PictureFolder], size: int, draw: random.Random, smallest: float
) -> list[Tensor]:
    """One random crop of a random picture of each folder given."""
    return [f.crop(draw.randrange(len(f)), size, draw, smallest) for f in folders]
