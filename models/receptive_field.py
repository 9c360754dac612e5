"""How far a network sees: what in a photo has a part in a pixel of its painting."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from models import strokes
from models.configuration import STRIDE
from models.layers import ContentEncoder, ResidualBlock, Upsampling


def reach(
    encoder: ContentEncoder,
    blocks: Sequence[ResidualBlock],
    upsamplings: Sequence[Upsampling],
    output: nn.Conv2d,
    sees_strokes: bool,
) -> int:
    """Pixels: what is farther from a pixel than this has no part in it, but by the statistics.

    Args:
        encoder, blocks, upsamplings, output: a network's layers, in order.
        sees_strokes: whether :func:`models.strokes.prepare` comes before them.
    """
    farthest = 0
    for pixel in range(STRIDE):
        low, high = _seen_by_generator(pixel, pixel, blocks, upsamplings, output)
        low, high = _seen_by_encoder(low, high, encoder)
        if sees_strokes:
            low, high = strokes.sees(low, high)
        farthest = max(farthest, pixel - low, high - pixel)
    return farthest


def _seen_by_generator(
    low: int,
    high: int,
    blocks: Sequence[ResidualBlock],
    upsamplings: Sequence[Upsampling],
    output: nn.Conv2d,
) -> tuple[int, int]:
    """The first and the last column of the features that columns low to high depend on."""
    margin = output.kernel_size[0] // 2
    low, high = low - margin, high + margin
    for upsampling in reversed(upsamplings):
        # Bilinear: half a pixel to each side is read beside the pixel's own place.
        margin = upsampling.convolution.kernel_size[0] // 2 + 1
        low, high = (low - margin) // 2, (high + margin) // 2
    return _seen_by_blocks(low, high, len(blocks))


def _seen_by_encoder(low: int, high: int, encoder: ContentEncoder) -> tuple[int, int]:
    """The first and the last column of the photo that columns of its features depend on."""
    blocks = sum(isinstance(layer, ResidualBlock) for layer in encoder.layers)
    low, high = _seen_by_blocks(low, high, blocks)
    for layer in reversed([each for each in encoder.layers if isinstance(each, nn.Conv2d)]):
        kernel, stride = layer.kernel_size[0], layer.stride[0]
        padding = (kernel - 1) // 2
        low, high = stride * low - padding, stride * high - padding + kernel - 1
    return low, high


def _seen_by_blocks(low: int, high: int, blocks: int) -> tuple[int, int]:
    """Through residual blocks: two convolutions of 3 x 3 each."""
    return low - 2 * blocks, high + 2 * blocks
