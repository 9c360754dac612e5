"""In what convolutions are computed: float32, or bfloat16 where a device is faster with it.

A processor with matrix units for bfloat16 convolves several times faster with it, and one without
ten times slower. So the precision is chosen by measuring. Statistics, matrix roots and pictures are
float32 either way.
"""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from models.winograd import TRIED, convolved, shortest

AUTO, FLOAT32, BFLOAT16 = "auto", "float32", "bfloat16"
PRECISIONS = (AUTO, FLOAT32, BFLOAT16)
GAIN = 0.7  # of float32's time: casts between the hops take what a smaller gain would spare
VARIABLE = "REPAINT_PRECISION"  # of the environment: what auto stands for, where it is set


@dataclass(frozen=True)
class Precision:
    """What convolutions are computed in.

    Attributes:
        dtype: torch.float32 or torch.bfloat16.
        why: how that came, for people.
    """

    dtype: torch.dtype
    why: str

    @property
    def name(self) -> str:
        return str(self.dtype).removeprefix("torch.")


def chosen(wanted: str, device: torch.device | str) -> Precision:
    """The precision of that name on a device; ``auto`` is what it is faster with.

    Raises:
        ValueError: an unknown name, or bfloat16 where the device cannot; it says what can be.
    """
    if wanted not in PRECISIONS:
        raise ValueError(f"the precision must be one of {', '.join(PRECISIONS)}, got {wanted!r}")
    if wanted == AUTO:
        wanted = os.environ.get(VARIABLE, AUTO)
        if wanted not in PRECISIONS:
            names = ", ".join(PRECISIONS)
            raise ValueError(f"{VARIABLE} must be one of {names}, got {wanted!r}")
    kind = torch.device(device).type
    if wanted == AUTO:
        return _measured(kind)
    if wanted == BFLOAT16:
        try:
            _convolve(kind, 16, 16, torch.bfloat16)()
        except Exception as error:  # whatever a device's library raises
            raise ValueError(
                f"the device {kind} cannot compute in bfloat16 ({_line(error)}); it can in float32"
            ) from None
        return Precision(torch.bfloat16, "as asked for")
    return Precision(torch.float32, "as asked for")


@functools.cache
def _measured(kind: str) -> Precision:
    """What a kind of device is faster with; a process holds to one answer."""
    try:
        # A third of a map at first: where bfloat16 is emulated, more would take long.
        for side in (TRIED[1] // 4, TRIED[1]):
            own = shortest(_convolve(kind, TRIED[0], side, torch.bfloat16), 1)
            full = shortest(_convolve(kind, TRIED[0], side, torch.float32), 1)
            if own > 2 * GAIN * full:
                break
    except Exception as error:  # whatever a device's library raises
        return Precision(torch.float32, f"bfloat16 could not be tried: {_line(error)}")
    times = f"a convolution takes {1e3 * full:.1f} ms in float32, {1e3 * own:.1f} ms in bfloat16"
    return Precision(torch.bfloat16 if own < GAIN * full else torch.float32, times)


def _convolve(kind: str, channels: int, side: int, dtype: torch.dtype):
    """One convolution, to be called and timed."""
    x = torch.ones(1, channels, side, side, device=kind, dtype=dtype)
    weight = torch.ones(channels, channels, 3, 3, device=kind, dtype=dtype)
    x = x if dtype == torch.float32 else x.contiguous(memory_format=torch.channels_last)

    @torch.no_grad()
    def call() -> None:
        if dtype == torch.float32:
            convolved(x, weight, None, 1)
        else:
            F.conv2d(x, weight, padding=1)
        if kind == "cuda":
            torch.cuda.synchronize()

    return call


def _line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
