"""What the discriminator's step minimizes in training."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from models import losses
from models.discriminator import FeatureDiscriminator, MultiScaleDiscriminator
from models.objective import Judged
from models.reference import discriminator_reference


class DiscriminatorObjective(nn.Module):
    """LSGAN a head a domain; photos and other domains' paintings count as false too.

    A painting shown to another painter's head teaches what tells the two apart, which is what
    a style is; it costs nothing, since all heads are computed together. Where paintings were made
    photos as well, by the paper's losses, it is the paper's: each head sees what is its own
    domain's and what was made to be, and both count alike.

    Args:
        photo_domain: the number of the photos' domain.
    """

    discriminator: Any

    def __init__(
        self, discriminator: MultiScaleDiscriminator | FeatureDiscriminator, photo_domain: int
    ) -> None:
        super().__init__()
        self.discriminator, self.photo_domain = discriminator, photo_domain

    def forward(
        self,
        judged: Judged,
        domains: Tensor,
        signatures: Tensor | None = None,
        named: Tensor | None = None,
    ) -> Tensor:
        """The loss, a mean over the batch and the scales.

        Args:
            domains: (B,), the paintings'.
            signatures, named: as in :class:`Batch`.
        """
        if len(judged) > 3:
            return self._both_ways(judged, domains)
        if signatures is None:
            photos, real, fake = map(self.discriminator.all_heads, judged)
            return self._of_heads(photos, real, fake, domains)
        hidden = tuple(map(self.discriminator.hidden, judged))
        photos, real, fake = map(self.discriminator.heads, hidden)
        return self._of_heads(photos, real, fake, domains, named) + discriminator_reference(
            self.discriminator, hidden, signatures, domains
        )

    def _of_heads(
        self,
        photos: list[Tensor],
        real: list[Tensor],
        fake: list[Tensor],
        domains: Tensor,
        named: Tensor | None = None,
    ) -> Tensor:
        index = torch.arange(len(domains), device=domains.device)
        known = 1.0 if named is None else named[:, None, None, None]
        total = torch.zeros((), device=domains.device)
        for scores_y, scores_p, scores_x in zip(real, fake, photos, strict=True):
            own = torch.zeros_like(scores_y[:, :, :1, :1])
            own[index, domains] = 1.0
            photo_own = torch.zeros_like(own)
            photo_own[:, self.photo_domain] = 1.0
            true = (scores_y - 1).square() * own * known + (scores_x - 1).square() * photo_own
            false = scores_p.square() * own * known
            others = scores_y.square() * (1 - own) * known + scores_x.square() * (1 - photo_own)
            per_image = (true + 2 * false).mean((2, 3)).sum(1) / 2
            total = total + (per_image + others.mean((2, 3)).sum(1) / (own.shape[1] - 1)).mean()
        return total / len(real)

    def _both_ways(self, judged: Judged, domains: Tensor) -> Tensor:
        photo = torch.full_like(domains, self.photo_domain)
        total = torch.zeros((), device=domains.device)
        owners = (photo, domains, domains, photo)
        for seen, own, goal in zip(judged, owners, (1, 1, 0, 0), strict=True):
            total = total + losses.own_head_adversarial(
                self.discriminator.all_heads(seen), own, goal
            )
        return total / 2
