"""What makes a painting this one and no other, and a discriminator that is told which it is.

A head a painter knows as many painters as it has heads. Heads that are told what the reference
looks like serve any painting: Miyato and Koyama, "cGANs with Projection Discriminator", 2018, on
the features of a projected GAN.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from models.discriminator import FeatureDiscriminator

HIDDEN = 128  # of the network that reads a signature
SMALLEST = 1e-3  # of a channel's deviation, beside a layer's activations of size 1


def signature(features: Mapping[str, Tensor]) -> Tensor:
    """The mean and the logarithm of the deviation of every channel of every layer.

    Args:
        features: of pictures, layer -> (B, C, H, W).

    Returns:
        (B, 2 sum of C): what a picture looks like, wherever things are in it.
    """
    parts = []
    for maps in features.values():
        variance, mean = torch.var_mean(maps.float().flatten(2), 2, correction=0)
        parts += [mean, (variance + SMALLEST**2).log() / 2]
    return torch.cat(parts, 1)


class ReferenceDiscriminator(FeatureDiscriminator):
    """Heads for known domains, and one that is told the reference painting's signature.

    The latter's score of a patch is how real it looks, plus how well its activations go with an
    embedding of the signature.

    Args:
        channels: layer -> its channels.
        domains: number of domains, D.
    """

    center: Tensor
    spread: Tensor

    def __init__(self, channels: Mapping[str, int], domains: int, *, width: int = 48) -> None:
        super().__init__(channels, domains, width=width)
        numbers = 2 * sum(channels.values())
        self.real = nn.ModuleDict({layer: nn.Conv2d(width, 1, 1) for layer in channels})
        self.embedding = nn.Sequential(
            nn.Linear(numbers, HIDDEN),
            nn.LeakyReLU(0.2),
            nn.Linear(HIDDEN, width * len(self.layers)),
        )
        self.register_buffer("center", torch.zeros(numbers))
        self.register_buffer("spread", torch.ones(numbers))

    @torch.no_grad()
    def calibrate(self, features: Mapping[str, Tensor]) -> None:
        """Also takes the center and spread of signatures from the examples, at least two."""
        super().calibrate(features)
        seen = signature(features)
        self.center.copy_(seen.mean(0))
        self.spread.copy_(seen.std(0).clamp_min(1e-2))

    def standardized(self, signatures: Tensor) -> Tensor:
        """Signatures (B, N) in units of their spread over pictures, none beyond 5."""
        return ((signatures - self.center) / self.spread).clamp(-5, 5)

    def reference_scores(self, hidden: list[Tensor], signatures: Tensor) -> list[Tensor]:
        """How well each patch passes for the painting of a signature: (B, h, w) a layer.

        Args:
            hidden: what :meth:`hidden` made of the pictures.
            signatures: (B, N), one for each picture.
        """
        embedded = self.embedding(self.standardized(signatures)).chunk(len(self.layers), 1)
        scores = []
        for layer, x, own in zip(self.layers, hidden, embedded, strict=True):
            match = torch.einsum("bchw,bc->bhw", x, own) / x.shape[1] ** 0.5
            scores.append(self.real[layer](x)[:, 0] + match)
        return scores

    def unlikeness(self, features: Mapping[str, Tensor], signatures: Tensor) -> Tensor:
        """Mean distance of pictures' own signatures to those of their references.

        In units of their spread over pictures; 0 for the reference itself.
        """
        own = self.standardized(signature(features))
        return (own - self.standardized(signatures)).abs().mean()


def generator_reference(scores: list[Tensor]) -> Tensor:
    """LSGAN: every patch is to pass for one of its reference."""
    return torch.stack([(score - 1).square().mean() for score in scores]).mean()


def discriminator_reference(
    discriminator: ReferenceDiscriminator,
    hidden: tuple[list[Tensor], list[Tensor], list[Tensor]],
    signatures: Tensor,
    domains: Tensor,
) -> Tensor:
    """LSGAN: a part of the reference is true, a result, the photo and another painting false.

    Args:
        hidden: of photos, of parts of the references, of results.
        signatures: (B, N), the references'.
        domains: (B,), theirs; another painting of the same one is not called false.
    """
    of_x, of_y, of_painted = hidden
    others = torch.arange(len(domains), device=domains.device).roll(1)
    differ = (domains[others] != domains).float()
    total = torch.zeros((), device=domains.device)
    for true, fake, photo, other in zip(
        *(
            discriminator.reference_scores(seen, signatures)
            for seen in (of_y, of_painted, of_x, [x[others] for x in of_y])
        ),
        strict=True,
    ):
        apart = (other.square().mean((1, 2)) * differ).mean()
        false = fake.square().mean() + (photo.square().mean() + apart) / 2
        total = total + ((true - 1).square().mean() + false) / 2
    return total / len(discriminator.layers)
