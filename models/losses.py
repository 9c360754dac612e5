"""What the training asks of a picture. Every loss is a mean over the batch."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from models.strokes import plainness
from models.style_code import StyleCode

TINY = 1e-12  # a variance, below which a channel is constant and has no gradient
OTHER_HEADS = 1.0  # weight of the heads of other domains beside a picture's own


def gram(features: Tensor) -> Tensor:
    """Second moments of the channels: (B, C, H, W) -> (B, C, C), a mean over positions."""
    flat = features.flatten(2)
    return _Gram.apply(flat) / flat.shape[-1]


class _Gram(torch.autograd.Function):
    """x x^T of x (B, C, P); its gradient takes one product, where that of two factors takes two."""

    @staticmethod
    def forward(ctx: Any, flat: Tensor) -> Tensor:
        ctx.save_for_backward(flat)
        return flat @ flat.mT

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        ((gradient,), (flat,)) = gradients, ctx.saved_tensors
        return ((gradient + gradient.mT).to(flat.dtype) @ flat).to(flat.dtype)


def moments(features: Tensor) -> Tensor:
    """Mean and standard deviation of each channel: (B, C, H, W) -> (B, 2 C)."""
    flat = features.flatten(2)
    flat = flat if flat.dtype == torch.float64 else flat.float()
    positions = flat.shape[-1]
    mean = flat.mean(-1)
    # A twentieth of the time of std_mean on a CPU; features that follow a ReLU are no further from
    # 0 than a few deviations, so that little is lost in the difference.
    square = torch.linalg.vector_norm(flat, dim=-1).square() / positions
    variance = (square - mean.square()) * (positions / max(1, positions - 1))
    return torch.cat([mean, variance.clamp_min(TINY).sqrt()], 1)


def _sum(terms: Iterable[Tensor]) -> Tensor:
    return functools.reduce(torch.add, terms)


def _relative_error(value: Tensor, target: Tensor) -> Tensor:
    """Squared error over the target's square, image by image: layers count alike."""
    error = (value - target).flatten(1).square().mean(1)
    return (error / target.flatten(1).square().mean(1).clamp_min(1e-8)).mean()


def content_loss(features: Tensor, target: Tensor) -> Tensor:
    """Squared difference of features (B, C, H, W) over the target's variance, per image."""
    error = (features - target).flatten(1).square().mean(1)
    return (error / target.flatten(1).var(1).clamp_min(1e-8)).mean()


def style_loss(
    features: Mapping[str, Tensor], target: Mapping[str, Tensor], weights: Mapping[str, float]
) -> Tensor:
    """Relative error of Gram matrices and of moments, a weighted mean over the layers."""
    total = sum(weights.values())
    return _sum(
        weight
        / total
        * (
            _relative_error(gram(features[layer]), gram(target[layer]))
            + _relative_error(moments(features[layer]), moments(target[layer]))
        )
        for layer, weight in weights.items()
    )


def total_variation(images: Tensor, times: Sequence[float] = ()) -> Tensor:
    """Mean absolute difference of neighbours, horizontal plus vertical, of images (B, 3, H, W).

    Args:
        times: how often each image counts; once where there are none.
    """
    horizontal = (images[..., 1:] - images[..., :-1]).abs().mean((1, 2, 3))
    each = horizontal + (images[..., 1:, :] - images[..., :-1, :]).abs().mean((1, 2, 3))
    return (each * each.new_tensor(times)).mean() if times else each.mean()


def flat_variation(image: Tensor, photo: Tensor) -> Tensor:
    """Total variation of an image where the photo it was made from is plain.

    What whitening makes of almost nothing, a weave in skies say, counts; strokes on what the photo
    shows don't.
    """
    plain = plainness(photo)
    across = (image[..., 1:] - image[..., :-1]).abs() * plain[..., 1:]
    down = (image[..., 1:, :] - image[..., :-1, :]).abs() * plain[..., 1:, :]
    return across.mean() + down.mean()


def grid_share(image: Tensor, period: int) -> Tensor:
    """Share of a picture's fine structure that repeats every so many pixels, from 0 to 1.

    A decoder that doubles its size twice can leave a pattern of 4 pixels, the same everywhere; the
    mean over all places alike keeps it and loses what the picture shows.

    Args:
        image: (B, 3, H, W), H and W multiples of the period.
    """
    fine = image - F.avg_pool2d(image, 9, 1, 4, count_include_pad=False)
    batch, channels, height, width = fine.shape
    folded = fine.reshape(batch, channels, height // period, period, width // period, period)
    pattern = folded.mean((2, 4))
    energy = fine.square().mean((1, 2, 3)).detach().clamp_min(1e-8)
    return (pattern.square().mean((1, 2, 3)) / energy).mean()


def generator_adversarial(
    heads: Sequence[Tensor], domains: Tensor, named: Tensor | None = None
) -> Tensor:
    """LSGAN: scores pulled to 1 by a picture's own head, to 0 by all others; mean over the scales.

    The other heads are what keeps one painter's strokes out of another's pictures.

    Args:
        heads: (B, D, H, W) a scale, scores of every domain's head.
        domains: (B,), each picture's own.
        named: (B,), 1 for pictures that count, 0 for those whose domain has no head; None: all do.
    """
    own = torch.zeros_like(heads[0][:, :, 0, 0])
    own[torch.arange(len(domains), device=domains.device), domains] = 1
    total = own.new_zeros(())
    for scores in heads:
        errors = (scores - own[:, :, None, None]).square().mean((2, 3))
        others = (errors * (1 - own)).sum(1) / max(1, own.shape[1] - 1)
        each = (errors * own).sum(1) + OTHER_HEADS * others
        total = total + (each if named is None else each * named).mean()
    return total / len(heads)


def own_head_adversarial(heads: Sequence[Tensor], domains: Tensor, goal: float = 1.0) -> Tensor:
    """LSGAN: each picture's own head pulled to ``goal``; mean over the scales.

    Args:
        heads: (B, D, H, W) a scale, scores of every domain's head.
        domains: (B,), each picture's own.
    """
    index = torch.arange(len(domains), device=domains.device)
    return _sum((scores[index, domains] - goal).square().mean() for scores in heads) / len(heads)


def style_code_loss(code: StyleCode, target: StyleCode) -> Tensor:
    """L1 between style codes, each tensor over the target's mean size: hops count alike."""
    terms = []
    for c, t in zip(code.tensors, target.tensors, strict=True):
        error, size = (x.abs().flatten(1).mean(1) for x in (c - t, t))
        terms.append((error / size.clamp_min(1e-4)).mean())
    return _sum(terms) / len(terms)


def whitening_penalty(covariances: Sequence[Tensor]) -> Tensor:
    """GD-WCT's whitening regularizer: mean |covariance - I| over the hops."""
    eye = torch.eye(covariances[0].shape[-1], device=covariances[0].device)
    return _sum((c - eye).abs().mean() for c in covariances) / len(covariances)


def coloring_penalty(matrices: Sequence[Tensor]) -> Tensor:
    """GD-WCT's coloring regularizer: mean |U^T U - I| for the unit columns U of each A."""
    eye = torch.eye(matrices[0].shape[-1], device=matrices[0].device)
    columns = [F.normalize(m, dim=-2) for m in matrices]
    return _sum((u.mT @ u - eye).abs().mean() for u in columns) / len(columns)
