"""What moves a painting's own statistics to where they paint more in its style."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from models.style_code import StyleCode

SLOPE = 0.2  # of the leaky ReLUs


def deviation(root: Tensor) -> Tensor:
    """A group's deviation, from its root (B, G, n, n): (B, G, 1, 1)."""
    return (root.square().sum((-2, -1), keepdim=True) / root.shape[-1]).sqrt()


class CodeRefinement(nn.Module):
    """From a statistics code to a better one near it; at first it changes nothing.

    It reads every hop's means and the logarithms of its roots' diagonals, in units of their
    spread over paintings (:meth:`calibrate`). Its answer is relative, like that of
    :class:`models.LearnedCode`: a mean moves in units of its group's deviation, and a root R
    becomes E R E with E = exp(S / 2) and a symmetric S, so that it stays symmetric and positive
    definite.

    The answer is an MLP's, plus a mixture of manners: moves that were each learned for a school's
    paintings, in the shares that a linear gate takes the painting for one of theirs.

    Args:
        channels: those of every hop, in order.
        group_size: channels a group, n.
        hidden: width of the MLP, its bottleneck.
        manners: how many there are; 0: the MLP is all.
    """

    center: Tensor
    spread: Tensor

    def __init__(
        self, channels: Sequence[int], group_size: int, hidden: int, manners: int = 0
    ) -> None:
        super().__init__()
        self.channels, self.group_size = tuple(channels), group_size
        inputs = 2 * sum(self.channels)
        self.layers = nn.Sequential(
            nn.Linear(inputs, hidden),
            nn.LeakyReLU(SLOPE),
            nn.Linear(hidden, hidden),
            nn.LeakyReLU(SLOPE),
        )
        outputs = sum(self.channels) * (1 + group_size)
        self.moves = nn.Linear(hidden, outputs)
        self.gate = nn.Linear(inputs, manners) if manners else None
        self.manners = nn.Linear(manners, outputs, bias=False) if manners else None
        self.register_buffer("center", torch.zeros(inputs))
        self.register_buffer("spread", torch.ones(inputs))

    def reset(self) -> None:
        """Back to a refinement that changes nothing."""
        nn.init.zeros_(self.moves.weight)
        nn.init.zeros_(self.moves.bias)
        if self.manners is not None:
            nn.init.zeros_(self.manners.weight)

    @staticmethod
    def _seen(code: StyleCode) -> Tensor:
        """(B, 2 sum of channels): means, and logarithms of the roots' diagonals."""
        roots = code.tensors[1::2]
        diagonals = [r.diagonal(dim1=-2, dim2=-1).clamp_min(1e-6).log() for r in roots]
        return torch.cat([t.flatten(1) for t in (*code.tensors[::2], *diagonals)], 1)

    @torch.no_grad()
    def calibrate(self, codes: StyleCode) -> None:
        """Takes center and spread of what it reads from the codes of some paintings, at least 2."""
        seen = self._seen(codes)
        if len(seen) < 2:
            raise ValueError("a spread needs the codes of at least two paintings")
        self.center.copy_(seen.mean(0))
        self.spread.copy_(seen.std(0).clamp_min(1e-3))

    def standardized(self, code: StyleCode) -> Tensor:
        """What is read of a code, in units of its spread over paintings: (B, 2 sum of channels)."""
        return ((self._seen(code) - self.center) / self.spread).clamp(-5, 5)

    def shares(self, seen: Tensor) -> Tensor:
        """How much of each manner paintings get, by what is read of them: (B, manners)."""
        if self.gate is None:
            raise ValueError("this refinement has no manners")
        return self.gate(seen).softmax(1)

    def forward(self, code: StyleCode) -> StyleCode:
        """The refined code, of the same shapes; differentiable in both."""
        with torch.autocast(code.tensors[0].device.type, enabled=False):
            manner = 0.0
            if self.manners is not None:
                manner = self.manners(self.shares(self.standardized(code)))
            return self.moved(code, manner)

    def moved(self, code: StyleCode, manner: Tensor | float) -> StyleCode:
        """The code with the MLP's answer and a manner.

        Args:
            manner: (B or 1, numbers of a move), in the place of the gate's mixture.
        """
        with torch.autocast(code.tensors[0].device.type, enabled=False):
            moves = self.moves(self.layers(self.standardized(code))) + manner
            n, tensors = self.group_size, []
            parts = moves.split([c * (1 + n) for c in self.channels], 1)
            pairs = zip(code.tensors[::2], code.tensors[1::2], parts, strict=True)
            for mean, root, part in pairs:
                shift, turn = part.split([mean[0].numel(), root[0].numel()], 1)
                turn = turn.reshape(root.shape)
                half = torch.matrix_exp((turn + turn.mT) / 4)
                refined = half @ root @ half
                tensors += [
                    mean + deviation(root) * shift.reshape(mean.shape),
                    (refined + refined.mT) / 2,
                ]
        return StyleCode(tuple(tensors))
