"""The two ways to form the coloring: recorded statistics, or MLPs that predict them.

``statistics``: the painting goes through the network itself with its hops open, and each hop
records the mean and the covariance's root that it sees. ``mlp``: the network of GD-WCT, where a
style encoder and a pair of MLPs a hop predict them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch.nn.functional as F
from torch import Tensor, nn

from models.affine import Affine
from models.configuration import RepainterConfig
from models.convolutions import convolution
from models.hop import Hop
from models.style_code import StyleCode

# What is done to the features (B, C, H, W) at the hop of that number; None: nothing.
AtHop = Callable[[Tensor, int], Affine | None]

# Runs a network's generator: content features, what is done at its hops -> pictures.
Decode = Callable[[Tensor, AtHop], Tensor]


class Coloring(ABC):
    """How a network's style codes are made of paintings, and its hops' coloring of style codes.

    It is no module: its layers are the network's own, and are saved under their old names.

    Attributes:
        layers: what is to be registered with the network, by name.
    """

    def __init__(self, config: RepainterConfig, hops: Sequence[Hop]) -> None:
        self.hops = hops
        self.layers: dict[str, nn.Module] = {}

    @staticmethod
    @abstractmethod
    def code_shapes(config: RepainterConfig) -> list[tuple[int, ...]]:
        """The shapes of one painting's style code."""

    @abstractmethod
    def reconstruct(
        self, image: Tensor, content: Tensor, decode: Decode
    ) -> tuple[Tensor, StyleCode]:
        """Images (B, 3, H, W) decoded from their content with their own style, and that style."""

    @abstractmethod
    def encode(
        self, painting: Tensor, reconstruct: Callable[[Tensor], tuple[Tensor, StyleCode]]
    ) -> StyleCode:
        """The style code of paintings (B, 3, H, W) as they are, not refined.

        Args:
            reconstruct: the network's method, for images whose sides are any number of pixels.
        """

    @abstractmethod
    def of(self, code: StyleCode) -> list[tuple[Tensor, Tensor]]:
        """Mean (B, G, n, 1) and coloring matrix (B, G, n, n) for every hop.

        Raises:
            ValueError: a code of another network.
        """

    def predicted(self, code: StyleCode) -> list[tuple[Tensor, Tensor]]:
        """What MLPs predict for every hop: A (B, G, n, n) and mean; nothing without MLPs."""
        return []

    def at_hop(
        self, code: StyleCode, strength: float = 1.0, covariances: list[Tensor] | None = None
    ) -> AtHop:
        """What colors features with a code; the arguments are those of :class:`models.hop.Hop`."""
        pairs = self.of(code)

        def color(x: Tensor, index: int) -> Affine:
            return self.hops[index](x, *pairs[index], strength, covariances)

        return color


class StatisticsColoring(Coloring):
    """A code is what the hops record of the painting: a mean and a root for each, in order."""

    @staticmethod
    def code_shapes(config: RepainterConfig) -> list[tuple[int, ...]]:
        n = config.group_size
        shapes: list[tuple[int, ...]] = []
        for channels in config.hop_channels:
            shapes += [(1, channels // n, n, 1), (1, channels // n, n, n)]
        return shapes

    def reconstruct(
        self, image: Tensor, content: Tensor, decode: Decode
    ) -> tuple[Tensor, StyleCode]:
        records: list[Tensor] = []

        def open_hop(x: Tensor, index: int) -> None:
            records.extend(self.hops[index].record(x))

        picture = decode(content, open_hop)
        return picture, StyleCode(tuple(records))

    def encode(
        self, painting: Tensor, reconstruct: Callable[[Tensor], tuple[Tensor, StyleCode]]
    ) -> StyleCode:
        return reconstruct(painting)[1]

    def of(self, code: StyleCode) -> list[tuple[Tensor, Tensor]]:
        if len(code.tensors) != 2 * len(self.hops):
            raise ValueError(
                f"this network needs a style code of {2 * len(self.hops)} tensors, "
                f"got {len(code.tensors)}"
            )
        return list(zip(code.tensors[::2], code.tensors[1::2], strict=True))


class MLPColoring(Coloring):
    """A code is what a style encoder makes of the painting, (B, C)."""

    def __init__(self, config: RepainterConfig, hops: Sequence[Hop]) -> None:
        super().__init__(config, hops)
        self.encoder = StyleEncoder(config.width)
        self.mlps = [
            ColoringMLP(channels, config.group_size, config.hidden)
            for channels in config.hop_channels
        ]
        self.layers = {"style_encoder": self.encoder, "mlps": nn.ModuleList(self.mlps)}

    @staticmethod
    def code_shapes(config: RepainterConfig) -> list[tuple[int, ...]]:
        return [(1, config.channels)]

    def reconstruct(
        self, image: Tensor, content: Tensor, decode: Decode
    ) -> tuple[Tensor, StyleCode]:
        code = StyleCode((self.encoder(image),))
        return decode(content, self.at_hop(code)), code

    def encode(
        self, painting: Tensor, reconstruct: Callable[[Tensor], tuple[Tensor, StyleCode]]
    ) -> StyleCode:
        return StyleCode((self.encoder(painting),))

    def predicted(self, code: StyleCode) -> list[tuple[Tensor, Tensor]]:
        (style,) = code.tensors
        return [mlp(style) for mlp in self.mlps]

    def of(self, code: StyleCode) -> list[tuple[Tensor, Tensor]]:
        pairs = zip(self.hops, self.predicted(code), strict=True)
        return [(mean, hop.coloring(matrix)) for hop, (matrix, mean) in pairs]


WAYS: dict[str, type[Coloring]] = {"statistics": StatisticsColoring, "mlp": MLPColoring}


def code_shapes(config: RepainterConfig) -> list[tuple[int, ...]]:
    """The shapes of one painting's style code in a network of that configuration."""
    return WAYS[config.coloring].code_shapes(config)


class StyleEncoder(nn.Module):
    """(B, 3, H, W) -> style code (B, 4 width): five convolutions, then the mean over positions."""

    SMALLEST = 32  # pixels: five convolutions, four of them of stride 2

    def __init__(self, width: int) -> None:
        super().__init__()
        channels = (3, width, 2 * width, 4 * width, 4 * width, 4 * width)
        layers: list[nn.Module] = []
        for i, (inputs, outputs) in enumerate(pairwise(channels)):
            layers += [convolution(inputs, outputs, *((7, 1) if i == 0 else (4, 2))), nn.ReLU()]
        self.layers = nn.Sequential(*layers)
        self.head = nn.Linear(channels[-1], channels[-1])

    def forward(self, painting: Tensor) -> Tensor:
        # Anything smaller is repeated at its border.
        height, width = painting.shape[-2:]
        right, below = max(0, self.SMALLEST - width), max(0, self.SMALLEST - height)
        painting = F.pad(painting, (0, right, 0, below), mode="replicate")
        return self.head(self.layers(painting).mean((2, 3)))


class ColoringMLP(nn.Module):
    """One hop's pair of MLPs: style code (B, C) -> A (B, G, n, n) and mean (B, G, n, 1)."""

    def __init__(self, channels: int, group_size: int, hidden: int) -> None:
        super().__init__()
        groups = channels // group_size
        # A 1x1 convolution with G groups is G MLPs side by side, each on its slice of the code.
        self.matrix = nn.Sequential(
            nn.Conv2d(channels, groups * hidden, 1, groups=groups),
            nn.LeakyReLU(0.2),
            nn.Conv2d(groups * hidden, groups * hidden, 1, groups=groups),
            nn.LeakyReLU(0.2),
            nn.Conv2d(groups * hidden, groups * group_size**2, 1, groups=groups),
        )
        self.mean = nn.Sequential(
            nn.Linear(channels, hidden),
            nn.LeakyReLU(0.2),
            nn.Linear(hidden, hidden),
            nn.LeakyReLU(0.2),
            nn.Linear(hidden, channels),
        )
        self.groups, self.group_size = groups, group_size

    def forward(self, code: Tensor) -> tuple[Tensor, Tensor]:
        shape = (len(code), self.groups, self.group_size)
        matrix = self.matrix(code[:, :, None, None]).reshape(*shape, self.group_size)
        return matrix, self.mean(code).reshape(*shape, 1)
