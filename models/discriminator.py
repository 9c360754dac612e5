"""Discriminators: three scales, one head a domain, least-squares scores on patches."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.winograd import convolved

KERNEL = 3  # of the discriminator on features, whose patches are as large as the layer's own


def _pick(scores: Tensor, domains: Tensor) -> Tensor:
    """Each image's own head: (B, D, H, W), (B,) -> (B, H, W)."""
    return scores[torch.arange(len(domains), device=domains.device), domains]


class MultiScaleDiscriminator(nn.Module):
    """The paper's: the same stack on the picture at full, half and quarter size.

    Args:
        domains: number of domains, D.
        width: channels after the first convolution.
    """

    def __init__(self, domains: int, *, width: int = 64, scales: int = 3) -> None:
        super().__init__()
        self.stacks = nn.ModuleList(self._stack(domains, width) for _ in range(scales))

    @staticmethod
    def _stack(domains: int, width: int) -> nn.Sequential:
        layers: list[nn.Module] = []
        inputs = 3
        for outputs in (width, 2 * width, 4 * width):
            layers += [nn.Conv2d(inputs, outputs, 4, 2, 1), nn.LeakyReLU(0.2)]
            inputs = outputs
        return nn.Sequential(*layers, nn.Conv2d(inputs, domains, 1))

    def all_heads(self, image: Tensor) -> list[Tensor]:
        """(B, 3, H, W), H and W at least 32 -> a (B, D, h, w) map of scores a scale."""
        scores = []
        for stack in self.stacks:
            scores.append(stack(image))
            image = F.avg_pool2d(image, 3, 2, 1, count_include_pad=False)
        return scores

    def forward(self, image: Tensor, domains: Tensor) -> list[Tensor]:
        """The scores of each image's own domain, ``domains`` (B,): (B, h, w) a scale."""
        return [_pick(scores, domains) for scores in self.all_heads(image)]


class FeatureDiscriminator(nn.Module):
    """The same idea on the features of a frozen network, one scale a layer.

    Judging what a trained network already sees, small heads learn in hundreds of steps what a
    discriminator on pixels needs tens of thousands for.

    Args:
        channels: layer -> its channels.
        domains: number of domains, D.
    """

    sizes: Tensor

    def __init__(self, channels: Mapping[str, int], domains: int, *, width: int = 48) -> None:
        super().__init__()
        self.layers = tuple(channels)
        self.stacks = nn.ModuleDict(
            {
                layer: nn.Sequential(
                    nn.Conv2d(inputs, width, 1),
                    nn.LeakyReLU(0.2),
                    nn.Conv2d(width, width, KERNEL),
                    nn.LeakyReLU(0.2),
                    nn.Conv2d(width, domains, 1),
                )
                for layer, inputs in channels.items()
            }
        )
        self.register_buffer("sizes", torch.ones(len(self.layers)))

    @torch.no_grad()
    def calibrate(self, features: Mapping[str, Tensor]) -> None:
        """Takes the size of each layer's activations, which are divided by it, from an example.

        Args:
            features: of real pictures, layer -> (B, C, H, W).
        """
        means = [features[layer].float().square().mean() for layer in self.layers]
        self.sizes.copy_(torch.stack(means).sqrt().clamp_min(1e-6))

    def hidden(self, features: Mapping[str, Tensor]) -> list[Tensor]:
        """Layer -> (B, C, H, W), any sizes -> what the heads see, (B, width, h, w) a layer.

        A map smaller than the kernel, as the deepest of a small crop is, is repeated at its border.
        """
        hidden = []
        for layer, size in zip(self.layers, self.sizes.unbind(), strict=True):
            x = features[layer]
            below, right = (max(0, KERNEL - side) for side in x.shape[-2:])
            if below or right:
                x = F.pad(x, (0, right, 0, below), mode="replicate")
            *stack, _ = self.stacks[layer].children()
            x = x / size
            for part in stack:
                if isinstance(part, nn.Conv2d) and part.kernel_size == (KERNEL, KERNEL):
                    x = convolved(x, part.weight, part.bias)
                else:
                    x = part(x)
            hidden.append(x)
        return hidden

    def heads(self, hidden: list[Tensor]) -> list[Tensor]:
        """The scores of every domain for what :meth:`hidden` gave: (B, D, h, w) a layer."""
        heads = ([*self.stacks[layer].children()][-1] for layer in self.layers)
        return [head(x) for head, x in zip(heads, hidden, strict=True)]

    def all_heads(self, features: Mapping[str, Tensor]) -> list[Tensor]:
        """Layer -> (B, C, H, W), any sizes -> (B, D, h, w) a layer."""
        return self.heads(self.hidden(features))

    def forward(self, features: Mapping[str, Tensor], domains: Tensor) -> list[Tensor]:
        """The scores of each image's own domain, ``domains`` (B,): (B, h, w) a layer."""
        return [_pick(scores, domains) for scores in self.all_heads(features)]
