"""What learns: the network and the learned codes, and the averages of both that are saved."""

from __future__ import annotations

import copy

import torch
from torch import nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

import models
from app.choosing import SPREAD, medoid_codes, spread
from app.dataset import PictureFolder
from app.training.data import TrainingData
from app.training.settings import Settings
from wct.orthogonal import nearest_orthogonal

EMA = 0.99  # of some thousand steps, 0.999 would average over half of the run


class Learner:
    """The network, the learned codes, and their averages.

    Args:
        settings: shape, goal, and the checkpoint to start from.
        data: the paintings that codes begin at.

    Attributes:
        network: only what the goal moves requires gradients.
        average: the network as it is saved.
        codes, average_codes: a :class:`models.LearnedCode` a variant.
    """

    def __init__(self, settings: Settings, data: TrainingData, device: torch.device) -> None:
        self.data, self.device = data, device
        self.network = models.Repainter(settings.config)
        self.network.to(device)
        if settings.start is not None:
            self._start_from(settings.start.network)
        settings.goal.release(self.network)
        self.average = copy.deepcopy(self.network).eval().requires_grad_(False)
        self.codes = self._first_codes()
        self.average_codes = copy.deepcopy(self.codes).requires_grad_(False)

    def _start_from(self, network: models.Repainter) -> None:
        """Takes a network's weights; a refinement that it does not have begins as the identity."""
        self.network.load_state_dict(self.network.state_dict() | network.state_dict())
        if network.refinement is None and self.network.refinement is not None:
            codes = [
                network.encode_style(folder.tensor(i)).to(self.device)
                for folder in self.data.styles.values()
                for i in spread(SPREAD, len(folder))
            ]
            self.network.refinement.calibrate(models.StyleCode.cat(codes))

    def _first_codes(self) -> nn.ModuleList:
        """A learned code a variant; each begins at a painting that stands for its folder."""
        variants = self.data.variants
        starts: dict[int, list[models.StyleCode]] = {}
        codes = nn.ModuleList()
        for variant in variants:
            key = id(variant.folder)
            if key not in starts:
                count = sum(v.folder is variant.folder for v in variants)
                starts[key] = medoid_codes(self.average, variant.folder, self.device, count)
            codes.append(models.LearnedCode(starts[key].pop(0)))
        return codes.to(self.device)

    def begin_codes(self) -> None:
        """Codes begin anew, where the network is now."""
        self.codes.load_state_dict(self._first_codes().state_dict())
        self.average_codes.load_state_dict(self.codes.state_dict())

    def iterate(self, iterates: bool) -> None:
        """Whether the learning network's hops take roots by iteration; the average never does."""
        for hop in self.network.hops:
            hop.iterates = iterates

    @torch.no_grad()
    def turn_gradients(self) -> None:
        """The gradient before each hop becomes the nearest orthogonal one, as long as it was.

        The length is kept for the other weights' sake, whose norm is clipped together with it.
        """
        for layer in self.network.before_hops:
            gradient = layer.weight.grad
            if gradient is not None and bool(torch.isfinite(gradient).all()):
                turned = nearest_orthogonal(gradient)
                tiny = torch.finfo(gradient.dtype).tiny
                gradient.copy_(turned * (gradient.norm() / turned.norm().clamp_min(tiny)))

    @torch.no_grad()
    def follow(self, step: int) -> None:
        """The averages, one step after what they average."""
        follow = get_ema_multi_avg_fn(min(EMA, (1 + step) / (10 + step)))
        averaged, parameters = [], []
        for mean, now in (
            (self.average_codes, self.codes),
            (self.average, self.network),
        ):
            for old, new in zip(mean.parameters(), now.parameters(), strict=True):
                if new.requires_grad:
                    averaged.append(old)
                    parameters.append(new)
        follow(averaged, parameters, None)

    @torch.no_grad()
    def learned_codes(self) -> dict[str, list[models.StyleCode]]:
        """The averaged learned codes of every style that has some, in the order given."""
        learned: dict[str, list[models.StyleCode]] = {}
        for variant, code in zip(self.data.variants, self.average_codes, strict=True):
            learned.setdefault(variant.name, []).append(code())
        return learned

    def medoids(self, folder: PictureFolder) -> list[models.StyleCode]:
        """Codes of paintings that stand for a folder, by the averaged network."""
        return medoid_codes(self.average, folder, self.device)
