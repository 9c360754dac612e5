"""What a hop does to its feature map, and convolutions that do it in passing."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

import wct
from models.convolutions import Convolution


@dataclass(frozen=True)
class Affine:
    """A map that is the same at every position: x <- matrix x + shift, group by group.

    Args:
        matrix: (B, G, n, n).
        shift: (B, G, n, 1).
    """

    matrix: Tensor
    shift: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """The map of x (B, C, H, W), in float32.

        Half precision would leave whitened features with errors that the next hop amplifies.
        """
        with torch.autocast(x.device.type, enabled=False):
            x = x.float()
            return wct.transform(x, self.matrix, torch.zeros_like(self.shift), self.shift)

    @property
    def folds(self) -> bool:
        """Whether a convolution's kernel may take it up: it is one for all the batch.

        With a gradient it may not, which would have to go through every kernel.
        """
        return len(self.matrix) == 1 and not torch.is_grad_enabled()


def folded(layer: nn.Conv2d, affine: Affine | None) -> tuple[Tensor, Tensor | None]:
    """Kernel and bias of the convolution of ``affine(x)``, one map for the batch.

    A map that is the same at every position may be multiplied into the kernel: it commutes with
    the border, which repeats positions, and with bilinear upsampling, whose weights sum to 1.
    At full size this spares the most expensive hops a pass over the feature map.
    """
    if affine is None:
        return layer.weight, layer.bias
    outputs, _, height, width = layer.weight.shape
    groups, n = affine.matrix.shape[-3:-1]
    kernel = layer.weight.reshape(outputs, groups, n, height * width)
    weight = torch.einsum("ognk,gnm->ogmk", kernel, affine.matrix[0])
    bias = torch.einsum("ognk,gn->o", kernel, affine.shift[0, :, :, 0])
    if layer.bias is not None:
        bias = bias + layer.bias
    return weight.reshape(layer.weight.shape), bias


def convolve(layer: Convolution, x: Tensor, affine: Affine | None = None) -> Tensor:
    """The convolution of ``affine(x)``, without ever computing ``affine(x)``."""
    return layer(x) if affine is None else layer.with_kernel(x, *folded(layer, affine))


def unless_folded(x: Tensor, affine: Affine | None) -> tuple[Tensor, Affine | None]:
    """What is to be convolved, and the map that is left for the kernel to take up, if any."""
    return (x, affine) if affine is None or affine.folds else (affine(x), None)
