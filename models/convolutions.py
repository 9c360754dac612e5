"""Convolutions whose border is reflected, and the fast ways of a CPU to compute them.

Where nothing is kept for a gradient, feature maps of the full size are never made: a convolution of
an image that was upsampled is computed on the small image, and its result stays split into phases,
the four images of its even or odd rows' even or odd columns, for the next convolution to read.
Each function here equals the plain convolution, up to rounding.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models import winograd
from models.winograd import convolved

FEW = 8  # outputs: a CPU takes half of the time for so few with the channels last

# What a 3-tap kernel on a row of twice the size, upsampled bilinearly, is on the row itself:
# 3 taps at every even pixel, and 3 others at every odd one (phase, tap, the kernel's tap).
_PHASES = (
    ((0.75, 0.25, 0.0), (0.25, 0.75, 0.75), (0.0, 0.0, 0.25)),
    ((0.25, 0.0, 0.0), (0.75, 0.75, 0.25), (0.0, 0.25, 0.75)),
)


class Convolution(nn.Conv2d):
    """A convolution with a reflected border, that all others here compute.

    Attributes:
        precision: what it computes in, and what its result is in, where no gradient is kept.
    """

    precision = torch.float32

    def forward(self, input: Tensor) -> Tensor:
        return self.with_kernel(input, self.weight, self.bias)

    def with_kernel(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The same with another kernel and bias."""
        x = self.cast(x)
        x = F.pad(x, ((self.kernel_size[0] - 1) // 2,) * 4, mode="reflect")
        if self.out_channels < FEW and x.device.type == "cpu":
            x = channels_last(x)
        weight, bias = in_type_of(x, weight, bias)
        if self.stride != (1, 1):
            return F.conv2d(x, weight, bias, self.stride)
        return convolved(x, weight, bias)

    def cast(self, x: Tensor) -> Tensor:
        """What it computes with; the same in float32, or where a gradient is kept."""
        if self.precision != torch.bfloat16 or torch.is_grad_enabled():
            return x
        return x.to(torch.bfloat16, memory_format=torch.channels_last)


def in_type_of(x: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Kernel and bias in half precision where a feature map is."""
    if x.dtype != torch.bfloat16 or torch.is_autocast_enabled(x.device.type):
        return weight, bias
    return weight.to(x.dtype), None if bias is None else bias.to(x.dtype)


def convolution(inputs: int, outputs: int, kernel: int, stride: int = 1) -> Convolution:
    """The layer, of a network's own weights."""
    padding = (kernel - 1) // 2
    return Convolution(inputs, outputs, kernel, stride, padding, padding_mode="reflect")


def is_fast(x: Tensor) -> bool:
    """Whether the fast ways may be taken: on a CPU, with nothing kept for a gradient."""
    return x.device.type == "cpu" and not torch.is_grad_enabled()


def laid_out(x: Tensor, precision: torch.dtype = torch.float32) -> Tensor:
    """The same tensor in the order of memory that a CPU's convolutions are fastest with.

    Args:
        precision: what they are computed in.
    """
    if not is_fast(x):
        return x
    return (
        x.contiguous() if precision == torch.float32 and winograd.is_faster() else channels_last(x)
    )


def channels_last(x: Tensor) -> Tensor:
    """The same tensor with the channels last in memory."""
    return x.contiguous(memory_format=torch.channels_last)


def halved(layer: nn.Conv2d, x: Tensor) -> Tensor:
    """The convolution of kernel 4, stride 2 and a reflected border of 1; H and W are even."""
    result = F.conv2d(x, *in_type_of(x, layer.weight, layer.bias), stride=2, padding=1)
    return _with_border(result, x, layer, wide=1, deep=4)


def upsampled_phases(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """A 3x3 convolution of x at twice its size, without ever holding x at that size.

    Equal to bilinear upsampling, a reflected border of one pixel, and the convolution, but for the
    places of the pixels.

    Args:
        x: (B, inputs, H, W).

    Returns:
        Phases, (B, 4 C, H, W): of each channel the even rows' even columns, their odd ones, the
        odd rows' even columns, and their odd ones. :func:`shuffled` puts them in place.
    """

    def padded(x: Tensor) -> Tensor:
        x = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
        return F.pad(x, (1, 1, 1, 1), mode="reflect")

    def direct(padded: Tensor) -> Tensor:
        return F.conv2d(padded, weight, bias)

    phases = weight.new_tensor(_PHASES)
    kernels = torch.einsum("yak,xbl,oikl->oyxiab", phases, phases, weight).flatten(0, 2)
    biases = None if bias is None else bias.repeat_interleave(4)
    kernels, biases = in_type_of(x, kernels.contiguous(), biases)
    weight, bias = in_type_of(x, weight, bias)
    result = convolved(F.pad(x, (1, 1, 1, 1), mode="replicate"), kernels, biases)
    # The reflected pixel has another value than the upsampled border of the small map.
    image = result.unflatten(1, (-1, 2, 2)).permute(0, 1, 4, 2, 5, 3)  # (B, C, H, 2, W, 2)
    above, below = padded(x[..., :2, :])[..., :3, :], padded(x[..., -2:, :])[..., -3:, :]
    left, right = padded(x[..., :2])[..., :3], padded(x[..., -2:])[..., -3:]
    image[:, :, 0, 0] = direct(above)[..., 0, :].unflatten(-1, (-1, 2))
    image[:, :, -1, 1] = direct(below)[..., 0, :].unflatten(-1, (-1, 2))
    image[..., 0, 0] = direct(left)[..., 0].unflatten(-1, (-1, 2))
    image[..., -1, 1] = direct(right)[..., 0].unflatten(-1, (-1, 2))
    return result


def convolved_phases(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """The convolution, with a reflected border, of an image of which only the phases are held.

    A CPU is slow at a kernel with few outputs at full size. At half the width and height it has a
    quarter of the places, and four times as many outputs at each: one for each phase.

    Args:
        x: phases (B, 4 C, H, W), as :func:`upsampled_phases` returns them.

    Returns:
        The image, (B, outputs, 2 H, 2 W).
    """
    taps = _taps(weight.shape[-1]).to(weight)
    kernels = torch.einsum("apku,bqlv,ocuv->oabcpqkl", taps, taps, weight)
    kernels = kernels.flatten(3, 5).flatten(0, 2).contiguous()
    biases = None if bias is None else bias.repeat_interleave(4)
    kernels, biases = in_type_of(x, kernels, biases)
    reach = kernels.shape[-1] // 2
    result = convolved(x, kernels, biases, reach)

    def edge(strip: Tensor, rows: slice, columns: slice) -> Tensor:
        return F.conv2d(_padded_phases(strip, reach)[..., rows, columns], kernels, biases)

    # What the outermost places depend on, of the map itself and of the map with its border.
    deep, every = 2 * reach, slice(None)
    first, final = slice(3 * reach), slice(-3 * reach, None)
    result[..., :reach, :] = edge(x[..., :deep, :], first, every)
    result[..., -reach:, :] = edge(x[..., -deep:, :], final, every)
    result[..., :reach] = edge(x[..., :deep], every, first)
    result[..., -reach:] = edge(x[..., -deep:], every, final)
    return shuffled(result)


def shuffled(phases: Tensor) -> Tensor:
    """The image of phases: (B, 4 C, H, W) -> (B, C, 2 H, 2 W)."""
    batch, channels, height, width = phases.shape
    image = phases.reshape(batch, channels // 4, 2, 2, height, width).permute(0, 1, 4, 2, 5, 3)
    # A third of the time of pixel_shuffle, which is the same.
    return image.reshape(batch, channels // 4, 2 * height, 2 * width)


def pixels_of(phases: Tensor) -> Tensor:
    """Phases (B, 4 C, H, W) -> (B, C, 4 H, W): a channel's pixels together, in another order."""
    batch, channels, height, width = phases.shape
    return phases.reshape(batch, channels // 4, 4 * height, width)


@functools.cache
def _taps(size: int) -> Tensor:
    """Where a kernel's taps are when pixels are split into phases, (2, 2, 2 reach + 1, size).

    1 where the output's phase, the input's phase, and so many places of the phases from it are
    those of the kernel's tap; 0 elsewhere.
    """
    margin = size // 2
    reach = (margin + 1) // 2
    taps = torch.zeros(2, 2, 2 * reach + 1, size)
    for into in range(2):
        for tap in range(size):
            place, phase = divmod(into + tap - margin, 2)
            taps[into, phase, place + reach, tap] = 1
    return taps


def _with_border(
    result: Tensor, x: Tensor, direct: Callable[[Tensor], Tensor], wide: int, deep: int
) -> Tensor:
    """The result with its outermost rows and columns computed again, as ``direct`` does it.

    So a border of a few pixels needs no copy of the whole feature map with the border around it.

    Args:
        result: changed in place.
        direct: computes the right result of x, or of a strip of x at its border.
        wide: rows and columns of the result that are computed again, at each side.
        deep: rows and columns of x that these depend on.
    """
    result[..., :wide, :] = direct(x[..., :deep, :])[..., :wide, :]
    result[..., -wide:, :] = direct(x[..., -deep:, :])[..., -wide:, :]
    result[..., :wide] = direct(x[..., :deep])[..., :wide]
    result[..., -wide:] = direct(x[..., -deep:])[..., -wide:]
    return result


def _padded_phases(x: Tensor, reach: int) -> Tensor:
    """Phases (B, 4 C, H, W) of an image whose border is reflected."""
    padded = F.pad(x, (reach,) * 4, mode="reflect")
    # Pixels are reflected, not the places of the phases: right for even ones before the first and
    # odd ones after the last, while the others have their own place repeated.
    phases = padded.unflatten(1, (-1, 2, 2))
    for along in (phases, phases.transpose(2, 3).transpose(-1, -2)):
        even, odd = along[:, :, 0], along[:, :, 1]
        for far in range(1, reach + 1):
            odd[..., reach - far, :] = odd[..., reach + far - 1, :]
            even[..., far - reach - 1, :] = even[..., -reach - far, :]
    return padded
