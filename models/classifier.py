"""The judge of style: an ImageNet network, covariance pooling, and a linear layer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import wct
from models.backbones import BACKBONES
from models.weights_file import CheckpointError, building, read_weights, short, write_weights

# Weights of any backbone's own classifier.
_SPARE = 20_000_000

KIND = "repaint-style-classifier"
VERSION = 1
POOLINGS = ("covariance", "average")
ROOT_EPS = 1e-5


@dataclass(frozen=True)
class Verdict:
    """What the judge says of pictures.

    Attributes:
        probabilities: (B, classes).
        features: the backbone's activations averaged over positions, (B, channels).
    """

    probabilities: Tensor
    features: Tensor


class StyleClassifier(nn.Module):
    """Which class a picture belongs to: backbone, 1x1 reduction, pooling, linear layer.

    Args:
        classes: their names, in the order of the logits.
        backbone: ``efficientnet-lite0`` or ``inception-v3``.
        pooling: ``covariance`` (:class:`wct.CovariancePool`) or ``average``.
        reduce: channels after the 1x1 convolution.
        solver: of the covariance's root; may be set at any time by ``classifier.pool.solver``.
        gradient: its rule.
        pretrained: start from the backbone's ImageNet weights.

    Raises:
        ValueError: fewer than two classes, a name given twice, an unknown backbone or pooling.
        FileNotFoundError: the backbone's package is not installed.
    """

    def __init__(
        self,
        classes: Sequence[str],
        *,
        backbone: str = "efficientnet-lite0",
        pooling: str = "covariance",
        reduce: int = 48,
        solver: str = "newton_schulz",
        gradient: str = "exact",
        pretrained: bool = False,
    ) -> None:
        super().__init__()
        self.classes = tuple(classes)
        if len(self.classes) < 2 or len(set(self.classes)) < len(self.classes):
            raise ValueError(f"at least two classes of different names are needed, got {classes}")
        if backbone not in BACKBONES:
            raise ValueError(f"unknown backbone {backbone!r}; there are {', '.join(BACKBONES)}")
        if pooling not in POOLINGS:
            raise ValueError(f"unknown pooling {pooling!r}; there are {', '.join(POOLINGS)}")
        self.config = {
            "classes": list(self.classes),
            "backbone": backbone,
            "pooling": pooling,
            "reduce": reduce,
            "gradient": gradient,
        }
        self.backbone = BACKBONES[backbone](pretrained=pretrained)
        channels = self.backbone.channels
        if pooling == "covariance":
            self.pool: nn.Module = wct.CovariancePool(
                channels, reduce=reduce, solver=solver, gradient=gradient, eps=ROOT_EPS
            )
            width = reduce * (reduce + 1) // 2
        else:
            self.pool = nn.Sequential(
                nn.Conv2d(channels, reduce, 1, bias=False), nn.AdaptiveAvgPool2d(1), nn.Flatten()
            )
            width = reduce
        self.linear = nn.Linear(width, len(self.classes))

    @property
    def side(self) -> int:
        """Side of the squares that are looked at, pixels."""
        return self.backbone.side

    def logits(self, maps: Tensor) -> Tensor:
        """Backbone activations (B, channels, h, w) -> (B, classes)."""
        return self.linear(self.pool(maps))

    def forward(self, image: Tensor) -> Tensor:
        """Pictures (B, 3, H, W) in [-1, 1], as they are -> logits (B, classes)."""
        return self.logits(self.backbone(image))

    @torch.no_grad()
    def judge(self, image: Tensor) -> Verdict:
        """Probabilities and pooled features of whole pictures (B, 3, H, W) in [-1, 1].

        The picture and its mirror image, which are of one style, are brought to the backbone's
        scale and covered by squares, see :func:`squares`, over all of which both are averaged.
        """
        views = squares(torch.cat([image, image.flip(-1)]), self.side)
        maps = self.backbone(views)
        probabilities = self.logits(maps).softmax(1)
        shape = (-1, 2, len(image))
        return Verdict(
            probabilities.unflatten(0, shape).mean((0, 1)),
            maps.mean((2, 3)).unflatten(0, shape).mean((0, 1)),
        )


def squares(image: Tensor, side: int) -> Tensor:
    """Squares that cover pictures (B, 3, H, W) along their longer side: (K B, 3, side, side).

    One for a square picture, K = 2 for 3:2, evenly spread; a quarter of the shorter side may
    stay uncovered. The squares of one place come together, first those of the first place.

    Raises:
        ValueError: not pictures, or without a pixel.
    """
    if image.ndim != 4 or image.shape[1] != 3 or 0 in image.shape:
        raise ValueError(f"pictures must have shape (B, 3, H, W), got {tuple(image.shape)}")
    height, width = image.shape[-2:]
    short, long = sorted((height, width))
    count = max(1, math.ceil(long / short - 0.25))
    places = [(long - short) / 2] if count == 1 else torch.linspace(0, long - short, count).tolist()
    views = []
    for place in places:
        start = round(place)
        view = image.narrow(3 if width > height else 2, start, short)
        if short != side:
            view = F.interpolate(
                view, (side, side), mode="bicubic", antialias=True, align_corners=False
            ).clamp(-1, 1)
        views.append(view)
    return torch.cat(views)


def save_classifier(
    path: str | Path, classifier: StyleClassifier, record: Mapping[str, Any]
) -> None:
    """Writes weights in fp16 and, in the header, shape and training record; whole or not at all.

    Raises:
        CheckpointError: weights that are not finite, in fp16 either.
    """
    header = {
        "kind": KIND,
        "version": VERSION,
        "config": classifier.config,
        "record": dict(record),
    }
    write_weights(Path(path), classifier.state_dict(), header)


def load_classifier(
    path: str | Path, device: str | torch.device = "cpu"
) -> tuple[StyleClassifier, dict[str, Any]]:
    """A classifier in eval mode, its root by eigendecomposition, and its training record.

    Raises:
        CheckpointError: a missing, truncated or foreign file, a pickle, another kind of
            checkpoint, a newer version, a missing key or a wrong shape.
        FileNotFoundError: the backbone's package is not installed.
    """
    path = Path(path)
    header, tensors = read_weights(path, KIND, VERSION)
    try:
        # A backbone is built with more layers than are kept of it.
        with building(_SPARE + sum(tensor.numel() for tensor in tensors.values())):
            classifier = StyleClassifier(**_config(header), solver="eigh")
        classifier.load_state_dict({k: v.float() for k, v in tensors.items()})
        record = header.get("record", {})
        if not isinstance(record, dict):
            raise ValueError(f"its record is {record!r}, not a table")
    except FileNotFoundError:
        raise  # it is not the file's fault
    except (
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        ArithmeticError,
        RuntimeError,
    ) as error:
        reason = short(" ".join(str(error).split()))
        raise CheckpointError(f"{path}: its weights or header are wrong: {reason}") from None
    return classifier.eval().requires_grad_(False).to(device), record


def _config(header: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that a classifier was made with, each of the kind that it takes."""
    config = header["config"]
    kinds = {"classes": list, "backbone": str, "pooling": str, "reduce": int, "gradient": str}
    if not isinstance(config, dict):
        raise ValueError(f"its configuration is {config!r}, not a table")
    for name, value in config.items():
        if type(value) is not kinds.get(name):
            raise ValueError(f"{name} can't be {value!r}")
    if not all(isinstance(name, str) and name.isprintable() for name in config["classes"]):
        raise ValueError("its classes are not all names")
    if config.get("reduce", 1) < 1:
        raise ValueError(f"reduce is at least 1, not {config['reduce']}")
    return config
