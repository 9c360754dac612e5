"""The layers of encoder and generator: residual blocks, the content encoder, the upsampling."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models import statistics
from models.affine import Affine, convolve, folded
from models.convolutions import (
    Convolution,
    convolution,
    halved,
    is_fast,
    shuffled,
    upsampled_phases,
)

SLOPE = 0.2  # of the upsampling's leaky ReLUs

Layer = TypeVar("Layer", bound=nn.Module)


def registered(layers: Iterable[Layer]) -> Sequence[Layer]:
    """An nn.ModuleList that a type checker knows the layers of."""
    return cast("Sequence[Layer]", nn.ModuleList(layers))


class ResidualBlock(nn.Module):
    """x + conv(relu(conv(x))), with instance norm after each convolution where asked."""

    def __init__(self, channels: int, *, norm: bool) -> None:
        super().__init__()

        def normed() -> nn.Module:
            return statistics.InstanceNorm(channels) if norm else nn.Identity()

        self.branch = nn.Sequential(
            convolution(channels, channels, 3),
            normed(),
            nn.ReLU(inplace=True),
            convolution(channels, channels, 3),
            normed(),
        )

    @torch.no_grad()
    def vanish(self) -> None:
        """Makes it x + 0; without norm, and with biases of 0."""
        *_, last = (layer for layer in self.branch if isinstance(layer, nn.Conv2d))
        last.weight.zero_()

    def forward(self, x: Tensor) -> Tensor:
        branch = self.branch(x)
        if is_fast(x):
            # New memory costs a CPU more than a sum, and a sum in half precision loses details.
            return branch.add_(x) if branch.dtype != torch.bfloat16 else x.float().add(branch)
        return x + branch


class ContentEncoder(nn.Module):
    """(B, 3, H, W) -> (B, 4 width, H / 4, W / 4)."""

    def __init__(self, width: int, *, blocks: int, norm: bool) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        shapes = ((3, width, 7, 1), (width, 2 * width, 4, 2), (2 * width, 4 * width, 4, 2))
        for inputs, outputs, kernel, stride in shapes:
            layers.append(convolution(inputs, outputs, kernel, stride))
            if norm:
                layers.append(statistics.InstanceNorm(outputs))
            layers.append(nn.ReLU(inplace=True))
        layers += [ResidualBlock(4 * width, norm=norm) for _ in range(blocks)]
        self.layers = nn.Sequential(*layers)

    def forward(self, image: Tensor) -> Tensor:
        x = image
        for layer in self.layers:
            if isinstance(layer, Convolution) and layer.stride == (2, 2) and is_fast(x):
                x = halved(layer, layer.cast(x))
            else:
                x = layer(x)
        return x


class Upsampling(nn.Module):
    """Twice the size, a convolution, leaky ReLU; layer norm before it where asked."""

    def __init__(self, inputs: int, outputs: int, kernel: int, *, norm: bool) -> None:
        super().__init__()
        self.convolution = convolution(inputs, outputs, kernel)
        self.norm = statistics.LayerNorm(outputs) if norm else nn.Identity()

    @property
    def has_phases(self) -> bool:
        """Whether :meth:`phases` may be asked for."""
        return self.convolution.kernel_size == (3, 3) and isinstance(self.norm, nn.Identity)

    def phases(self, x: Tensor, affine: Affine | None = None) -> Tensor:
        """The result's phases, (B, C, H, W) -> (B, 4 outputs, H, W).

        See :mod:`models.convolutions`.
        """
        x = self.convolution.cast(x)
        return F.leaky_relu_(upsampled_phases(x, *folded(self.convolution, affine)), SLOPE)

    def forward(self, x: Tensor, affine: Affine | None = None) -> Tensor:
        """The result of ``affine(x)``, (B, C, H, W) -> (B, outputs, 2 H, 2 W)."""
        if self.has_phases and not torch.is_grad_enabled():
            return shuffled(self.phases(x, affine))
        # Bilinear: nearest leaves a grid of 2x2 squares that whitening would amplify.
        x = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
        x = convolve(self.convolution, x, affine)
        return F.leaky_relu(self.norm(x), SLOPE)
