"""A loaded network and its styles: what the command line and the demo share."""

import difflib
import math
import os
import threading
from collections import OrderedDict
from dataclasses import replace
from pathlib import Path

import torch

import models
from app import images

# A painting's statistics are recorded near the scale at which the network learned strokes. More
# pixels would make its strokes finer than any the network has seen, and cost time and memory.
STYLE_SIZE = 512

# The demo runs for days and each upload is a style: the least recently used are let go.
_REMEMBERED_PICTURES = 32


class Painter:
    """Paints photos with the network and the styles of one checkpoint file.

    device: "auto" (the first available of cuda, mps, cpu) or the name of a torch device.
    style_names: the built-in styles, in the checkpoint's order.

    Raises models.CheckpointError, a ValueError, where the checkpoint cannot be used, and
    ValueError for a device that this machine does not have.
    """

    def __init__(self, checkpoint_path: str | os.PathLike, device: str = "auto"):
        self.device = available_device(device)
        checkpoint = models.load_checkpoint(Path(checkpoint_path), device=str(self.device))
        self.network = checkpoint.network
        self.record = checkpoint.record
        self._built_in = checkpoint.styles
        self.style_names = tuple(checkpoint.styles)
        self._from_pictures: OrderedDict[tuple, models.StyleCode] = OrderedDict()
        # The demo serves each visitor in a thread of its own. One picture at a time is as fast on
        # one device, and holds no more memory than one.
        self._one_at_a_time = threading.Lock()

    def style(self, name_or_path: str | os.PathLike) -> models.StyleCode:
        """The style code of a built-in style or of a picture file.

        "monet" is the built-in style's first code, "monet:2" its second. A built-in name wins over
        a file of that name ("./monet" is the file). Codes of pictures are remembered until their
        file changes.

        Raises ValueError that lists the built-in names where the name is neither, and
        images.ImageError where the file cannot be read.
        """
        code = self._built_in_style(str(name_or_path))
        if code is not None:
            return code
        path = Path(name_or_path)
        if not path.exists():
            raise ValueError(self._unknown(str(name_or_path)))
        status = path.stat()
        key = (path.resolve(), status.st_mtime_ns, status.st_size)
        with self._one_at_a_time:
            if key in self._from_pictures:
                self._from_pictures.move_to_end(key)
                return self._from_pictures[key]
        code = self.encode(images.load(path))
        with self._one_at_a_time:
            self._from_pictures[key] = code
            while len(self._from_pictures) > _REMEMBERED_PICTURES:
                self._from_pictures.popitem(last=False)
        return code

    def encode(self, painting: images.Picture) -> models.StyleCode:
        """The style code of a painting, read at STYLE_SIZE pixels or less and without alpha."""
        # What lies under transparent pixels is arbitrary, and must not become part of a style.
        painting = images.resize(images.flatten(painting), STYLE_SIZE)
        tensor = images.to_tensor(painting.rgb).to(self.device)
        with self._one_at_a_time, torch.no_grad():
            return self.network.encode_style(tensor)

    def paint(
        self,
        picture: images.Picture,
        style: models.StyleCode,
        strength: float = 1.0,
        max_size: int | None = None,
    ) -> images.Picture:
        """The picture in a style, with its own alpha, name and notes.

        strength: 0 gives back the pixels of the photo, 1 the full style. max_size: the photo is
        first shrunk to this many pixels on its longest side; None keeps its size.

        Raises ValueError for a strength outside 0..1 (NaN included) or a max_size below 1.
        """
        if not (math.isfinite(strength) and 0 <= strength <= 1):
            raise ValueError(f"strength must be between 0 and 1, got {strength}")
        if max_size is not None:
            picture = images.resize(picture, max_size)
        photo = images.to_tensor(picture.rgb).to(self.device)
        with self._one_at_a_time:
            painted = self.network.repaint(photo, style.to(self.device), strength=strength)
        return replace(picture, rgb=images.to_rgb(painted))

    def _built_in_style(self, name: str) -> models.StyleCode | None:
        if name in self._built_in:
            return self._built_in[name][0]
        base, colon, number = name.rpartition(":")
        if not colon or base not in self._built_in or not number.isdecimal():
            return None
        codes = self._built_in[base]
        if not 1 <= int(number) <= len(codes):
            raise ValueError(f"style {base!r} has no code {number}, it has 1 to {len(codes)}")
        return codes[int(number) - 1]

    def _unknown(self, name: str) -> str:
        name = images.one_line(name)
        if not self.style_names:
            return f"no style {name!r}: no such picture file, and the checkpoint has no styles"
        close = difflib.get_close_matches(name.lower(), self.style_names, n=1)
        guess = f"; did you mean {close[0]!r}?" if close else ""
        return (
            f"no style {name!r}: not one of {', '.join(self.style_names)}, "
            f"and no such picture file{guess}"
        )


def available_device(name: str = "auto") -> torch.device:
    """The torch device of that name; "auto" is the first available of cuda, mps and cpu.

    Raises ValueError for a name that torch does not know or a device that is not there.
    """
    mps = torch.backends.mps.is_available()
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "mps" if mps else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f"unknown device {name!r}; wanted auto, cpu, cuda or mps") from None
    there = {
        "cpu": True,
        "cuda": torch.cuda.is_available() and (device.index or 0) < torch.cuda.device_count(),
        "mps": mps,
    }
    if not there.get(device.type, False):
        raise ValueError(f"device {name!r} is not available on this machine")
    return device
