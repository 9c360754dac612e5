"""A style code as parameters: what training moves when a network learns a style."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from models.style_code import StyleCode


class LearnedCode(nn.Module):
    """The style code of one painting, and how far training has moved it; starts at that code.

    Steps are relative, so that one learning rate fits every hop. A mean moves in units of its
    group's deviation. A root R moves to R^(1/2) exp(S) R^(1/2) with a symmetric S, which is
    symmetric and positive definite wherever S goes. The code of an mlp network moves in units of
    its deviation.

    Args:
        code: of one painting, of either coloring.
    """

    def __init__(self, code: StyleCode) -> None:
        super().__init__()
        tensors = [t.detach().float().clone() for t in code.tensors]
        if any(len(t) != 1 for t in tensors):
            raise ValueError(f"one painting's code is needed, got {len(tensors[0])}")
        self.moved = nn.ParameterList(nn.Parameter(torch.zeros_like(t)) for t in tensors)
        for index, start in enumerate(tensors):
            if start.ndim == 2:  # an mlp network's code
                units = start.std(1, keepdim=True).clamp_min(1e-4)
            elif start.shape[-1] == 1:  # a mean; the root of its hop comes next
                units = tensors[index + 1].square().mean((-2, -1), keepdim=True)
                units = (units * start.shape[-2]).sqrt()
            else:
                values, vectors = torch.linalg.eigh((start + start.mT) / 2)
                units = (vectors * values.clamp_min(1e-6).sqrt().unsqueeze(-2)) @ vectors.mT
            self.register_buffer(f"start{index}", start)
            self.register_buffer(f"units{index}", units)

    def forward(self) -> StyleCode:
        """The code as it is now; differentiable."""
        return StyleCode(tuple(self._tensor(i, moved) for i, moved in enumerate(self.moved)))

    def _tensor(self, index: int, moved: Tensor) -> Tensor:
        start, units = self.get_buffer(f"start{index}"), self.get_buffer(f"units{index}")
        if start.ndim == 2 or start.shape[-1] == 1:
            return start + units * moved
        with torch.autocast(moved.device.type, enabled=False):
            root = units @ torch.matrix_exp((moved + moved.mT) / 2) @ units
            return (root + root.mT) / 2
