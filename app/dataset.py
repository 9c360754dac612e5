"""Folders of pictures for training: read once, cropped at random."""

from __future__ import annotations

import hashlib
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Crop:
    """A square of one picture of a folder.

    Attributes:
        index: of the picture.
        left, top, side: of the square in the picture's own pixels.
        size: pixels, to which the square is resized.
        mirrored: left and right change places.
    """

    index: int
    left: float
    top: float
    side: float
    size: int
    mirrored: bool


class PictureFolder:
    """The pictures of a folder as RGB, short side at most 256 px.

    Grayscale, palette, CMYK and 16-bit pictures are converted, transparency is laid on white. A
    picture that can't be read is left out and named on stderr.

    Args:
        folder: searched for pictures, subfolders and linked folders included, each once.
        short_side: pixels; larger pictures are shrunk to it, smaller ones stay.
        count: no more than this many pictures, evenly spread over the sorted names.
        quiet: no progress bar, and what can't be read is left out without a word.

    Attributes:
        distinct: how many of the pictures differ from all others.

    Raises:
        FolderError: no such folder, or not one readable picture in it.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        name: str = "",
        count: int | None = None,
        short_side: int = SHORT_SIDE,
        quiet: bool = False,
    ) -> None:
        self.folder, self.name = Path(folder), name or Path(folder).name
        self.short_side = short_side
        if not self.folder.is_dir():
            raise FolderError(f"{folder}: there is no such folder")
        listing = images.look_through(self.folder, recursive=True)
        paths = listing.pictures
        if not quiet:
            for words in listing.passed_over:
                tqdm.write(images.one_line(words), file=sys.stderr)
        if count is not None and count < len(paths):
            paths = [paths[i * len(paths) // count] for i in range(count)]
        self.paths: list[Path] = []
        self.skipped: list[str] = []
        self._kept: dict[int, Image.Image] = {}
        self._sizes: list[tuple[int, int]] = []
        digests: set[bytes] = set()
        used = 0
        bar = tqdm(paths, f"reading {self.name}", unit="picture", leave=False, disable=quiet)
        for path in bar:
            try:
                picture = self._read(path)
            except images.ImageError as error:
                self.skipped.append(str(error))
                if not quiet:
                    tqdm.write(f"skipped {error}", file=sys.stderr)
                continue
            used += picture.width * picture.height * 3
            if used <= MEMORY:
                self._kept[len(self.paths)] = picture
            self.paths.append(path)
            self._sizes.append(picture.size)
            digests.add(hashlib.blake2b(picture.tobytes(), digest_size=16).digest())
        self.distinct = len(digests)
        if not self.paths:
            found = f"none of its {len(paths)} pictures can be read" if paths else "no pictures"
            raise FolderError(f"{folder}: {found}")

    def _read(self, path: Path) -> Image.Image:
        picture = images.flatten(images.load(path))
        image = Image.fromarray(picture.rgb)
        scale = self.short_side / min(image.size)
        if scale < 1:
            width, height = (max(1, round(side * scale)) for side in image.size)
            image = image.resize((width, height), Image.Resampling.LANCZOS)
        return image

    def __len__(self) -> int:
        return len(self.paths)

    def image(self, index: int) -> Image.Image:
        """The whole picture, short side at most 256 px."""
        return self._kept[index] if index in self._kept else self._read(self.paths[index])

    def tensor(self, index: int) -> Tensor:
        """The whole picture, (1, 3, H, W) in [-1, 1]."""
        return images.to_tensor(np.asarray(self.image(index)))

    def draw_crop(
        self,
        index: int,
        size: int,
        draw: random.Random,
        smallest: float,
        largest: float = 1.0,
    ) -> Crop:
        """A random square of a picture, mirrored half of the time.

        Args:
            smallest, largest: the picture is first brought to a shorter side of so many times 256
                px (or enlarged further, where it would be smaller than ``size``).
        """
        width, height = self._sizes[index]
        short = min(width, height)
        times = draw.uniform(smallest, largest) * min(1.0, SHORT_SIDE / short)
        scale = max(size / short, times)
        side = min(short, size / scale)
        left, top = draw.uniform(0, width - side), draw.uniform(0, height - side)
        return Crop(index, left, top, side, size, draw.random() < 0.5)

    def crop(self, crop: Crop) -> Tensor:
        """The square, (1, 3, size, size) in [-1, 1]."""
        box = (crop.left, crop.top, crop.left + crop.side, crop.top + crop.side)
        square = self.image(crop.index).resize(
            (crop.size, crop.size), Image.Resampling.BICUBIC, box=box
        )
        tensor = images.to_tensor(np.asarray(square))
        return tensor.flip(-1) if crop.mirrored else tensor

    def square(self, index: int, size: int) -> Tensor:
        """The middle square, (1, 3, size, size) in [-1, 1]."""
        image = self.image(index)
        side = min(image.size)
        left, top = (image.width - side) / 2, (image.height - side) / 2
        box = (left, top, left + side, top + side)
        square = image.resize((size, size), Image.Resampling.LANCZOS, box=box)
        return images.to_tensor(np.asarray(square))


def draw_crops(
    folders: Sequence[PictureFolder],
    size: int,
    draw: random.Random,
    smallest: float,
    part: slice = slice(None),
    largest: float = 1.0,
) -> list[Crop]:
    """One random crop of a random picture of each folder given.

    Args:
        part: the crops that are wanted. All are drawn, so that processes with one seed can divide
            a batch between them.
    """
    crops = [f.draw_crop(draw.randrange(len(f)), size, draw, smallest, largest) for f in folders]
    return crops[part]
