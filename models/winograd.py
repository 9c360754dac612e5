"""Convolutions of kernel 3 and 5 in fewer multiplications, where that is faster.

Winograd, "Arithmetic Complexity of Computations", 1980; Lavin and Gray, "Fast Algorithms for
Convolutional Neural Networks", 2016: a tile of 6 x 6 outputs of a 3 x 3 kernel takes 64
multiplications a channel instead of 324. NNPACK, which torch brings for a CPU, computes kernels of
5 by a Fourier transform of such tiles.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

KERNELS = (3, 5)
FEWEST = 24**2  # positions of a map: a smaller one has too few whole tiles
NARROWEST = {3: 48, 5: 12}  # channels: transforming fewer costs more than is spared
LARGE = 10**9  # operations of a plain convolution: batches of such are faster image by image
GAIN = 0.75  # of the plain convolution's time: what is hardly faster is left as it is

TRIED = (96, 64)  # channels and side of the map that is timed: the network's middle, at 256 px
ROUNDS = 2


def convolved(x: Tensor, weight: Tensor, bias: Tensor | None = None, padding: int = 0) -> Tensor:
    """The convolution of stride 1 with a border of zeros, up to rounding.

    Differentiable any number of times.

    Args:
        x: (B, inputs, H, W).
        weight: (outputs, inputs, kernel, kernel).
        padding: zeros at each side, at most half of the kernel.
    """
    if not _suits(x, weight, padding) or not is_faster():
        return F.conv2d(x, weight, bias, padding=padding)
    if torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad):
        return _Winograd.apply(x, weight, bias, padding)
    return _by_tiles(x, weight, bias, padding)


@functools.cache
def is_faster() -> bool:
    """Whether this processor convolves float32 faster by tiles.

    It does with AVX2, twice as fast. With AVX-512, which oneDNN uses and NNPACK does not, it is
    measured at the first call. A process holds to one answer: its pictures are computed alike.
    """
    capability = torch.backends.cpu.get_cpu_capability()
    if capability not in ("AVX2", "AVX512"):
        return False
    try:
        if not torch.backends.nnpack.is_available():  # prepares it, too
            return False
        channels, side = TRIED
        with torch.no_grad():
            x = torch.ones(1, channels, side, side)
            weight, bias = torch.ones(channels, channels, 3, 3), torch.zeros(channels)
            if capability == "AVX2":
                _by_tiles(x[..., :24, :24], weight, bias, 1)  # whether it works at all
                return True
            last = x.contiguous(memory_format=torch.channels_last)
            tiles = shortest(lambda: _by_tiles(x, weight, bias, 1))
            plain = shortest(lambda: F.conv2d(last, weight, bias, padding=1))
    except (RuntimeError, AttributeError):  # a build of torch without it
        return False
    return tiles < GAIN * plain


def shortest(what: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Seconds of the fastest of a few calls, after one that does not count."""
    what()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        what()
        times.append(time.perf_counter() - start)
    return min(times)


def _suits(x: Tensor, weight: Tensor, padding: int) -> bool:
    if torch.compiler.is_compiling() or torch.jit.is_tracing():
        return False  # what is exported is to run elsewhere
    outputs, inputs, height, width = weight.shape
    return (
        x.device.type == "cpu"
        and x.dtype == weight.dtype == torch.float32
        and height == width
        and height in KERNELS
        and padding <= height // 2
        and min(inputs, outputs) >= NARROWEST[height]
        and x.shape[-2] * x.shape[-1] >= FEWEST
        and min(x.shape[-2:]) >= 2 * height
        and not torch.is_autocast_enabled("cpu")
    )


def _by_tiles(x: Tensor, weight: Tensor, bias: Tensor | None, padding: int) -> Tensor:
    x, weight = x.contiguous(), weight.contiguous()
    work = 2 * weight.numel() * x.shape[-2] * x.shape[-1]
    parts = x.split(1) if work >= LARGE else [x]
    results = [
        torch._nnpack_spatial_convolution(part, weight, bias, [padding] * 2, [1, 1])
        for part in parts
    ]
    return results[0] if len(results) == 1 else torch.cat(results)


class _Winograd(torch.autograd.Function):
    """The convolution whose gradient of the maps is one by tiles, too."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, padding: int) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.padding, ctx.has_bias = padding, bias is not None
        return _by_tiles(x, weight, bias, padding)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = gradients
        x, weight = ctx.saved_tensors
        of_x = of_weight = of_bias = None
        if ctx.needs_input_grad[0]:
            turned = weight.flip(2, 3).transpose(0, 1)
            margin = weight.shape[-1] - 1 - ctx.padding
            if margin <= weight.shape[-1] // 2:
                of_x = convolved(gradient, turned, None, margin)
            else:  # as wide as a convolution by tiles takes it, and the rest as a border
                half = weight.shape[-1] // 2
                of_x = convolved(F.pad(gradient, (margin - half,) * 4), turned, None, half)
        of_bias_too = ctx.has_bias and ctx.needs_input_grad[2]
        if ctx.needs_input_grad[1]:
            _, of_weight, of_bias = torch.ops.aten.convolution_backward(
                gradient,
                x,
                weight,
                [len(weight)],
                [1, 1],
                [ctx.padding] * 2,
                [1, 1],
                False,
                [0, 0],
                1,
                [False, True, of_bias_too],
            )
        elif of_bias_too:
            of_bias = gradient.sum((0, 2, 3))
        return of_x, of_weight, of_bias, None
