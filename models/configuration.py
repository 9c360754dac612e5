"""What a network is built from: its sizes, and what the two ways of coloring need of its layers."""

from __future__ import annotations

from dataclasses import dataclass, field

import wct

METHODS = ("svd", "gd")
STRIDE = 4  # two stride-2 convolutions: heights and widths inside are padded to a multiple of it
SMALLEST = 8  # pixels; below, a reflected border would be wider than the feature map

MOST_BLOCKS = 256  # ours have 4


@dataclass(frozen=True)
class Architecture:
    """What a way of coloring needs of the layers, by default the way that records statistics.

    Args:
        encoder_blocks: residual blocks in the content encoder.
        norms: instance norm in the content encoder, layer norm in the upsampling.
        kernel: that of the upsampling convolutions, pixels.
        colors_upsampled: whether a hop follows each upsampling, too.
        learns_share: whether a hop learns how far it goes; see :class:`models.hop.Hop`.
        starts_open: whether an untrained network is to be an autoencoder.
    """

    encoder_blocks: int = 0
    norms: bool = False
    kernel: int = 3
    colors_upsampled: bool = True
    learns_share: bool = False
    starts_open: bool = True


# See models.coloring.
ARCHITECTURES = {
    "statistics": Architecture(),
    "mlp": Architecture(
        encoder_blocks=4,
        norms=True,
        kernel=5,
        colors_upsampled=False,
        learns_share=True,
        starts_open=False,
    ),
}
COLORINGS = tuple(ARCHITECTURES)


@dataclass(frozen=True)
class RepainterConfig:
    """The shape of a network; all that is needed to build it again.

    A new field says in its metadata since which version of a checkpoint's header it is there: see
    :data:`models.checkpoint.VERSION`.

    Args:
        width: channels of the first convolution; the hops in the middle see 4 * width.
        blocks: residual blocks in the generator, each followed by a hop.
        group_size: channels a group, n; divides width (statistics) or 4 * width (mlp).
        coloring: ``statistics`` or ``mlp``.
        method: ``svd`` whitens by eigendecomposition; ``gd`` by a regularizer (mlp only).
        gradient: name of the rule of the matrix roots.
        eps: added to the covariances' diagonals.
        hidden: width of the coloring MLPs.
        refinement: width of the MLP that refines a painting's statistics; 0: none
            (statistics only).
        manners: that the refinement mixes, see :class:`models.CodeRefinement`; 0: none.
        strokes: standard deviation, of values in [-1, 1], of the faint strokes that the network
            sees where a photo is plain, in place of the photo's noise; 0: it sees the photo as it
            is. See :mod:`models.strokes`.

    Raises:
        ValueError: a value out of its range, or two that don't go together.
    """

    width: int = 24
    blocks: int = 4
    group_size: int = 24
    coloring: str = "statistics"
    method: str = "svd"
    gradient: str = "exact"
    eps: float = 1e-2
    hidden: int = 256
    refinement: int = field(default=0, metadata={"since": 2})
    strokes: float = field(default=0.0, metadata={"since": 2})
    manners: int = field(default=0, metadata={"since": 4})

    def __post_init__(self) -> None:
        if self.coloring not in COLORINGS:
            raise ValueError(f"coloring must be one of {COLORINGS}, got {self.coloring!r}")
        if self.method not in METHODS:
            raise ValueError(f"method must be one of {METHODS}, got {self.method!r}")
        if self.method == "gd" and self.coloring != "mlp":
            raise ValueError("method 'gd' reads its coloring off an MLP: it needs coloring='mlp'")
        if self.width < 1 or self.blocks < 1 or self.group_size < 1 or self.hidden < 1:
            raise ValueError(f"width, blocks, group_size and hidden must be positive, got {self}")
        if self.blocks > MOST_BLOCKS:
            raise ValueError(f"there are at most {MOST_BLOCKS} blocks, got {self.blocks}")
        if self.refinement < 0 or (self.refinement and self.coloring != "statistics"):
            raise ValueError(f"refinement is of statistics and not negative, got {self}")
        if self.manners < 0 or (self.manners and not self.refinement):
            raise ValueError(f"manners are a refinement's and not negative, got {self}")
        smallest = min(self.hop_channels)
        if smallest % self.group_size:
            raise ValueError(f"groups of {self.group_size} don't divide {smallest} channels")
        if not self.eps > 0:
            raise ValueError(f"eps must be positive, got {self.eps}")
        if not 0 <= self.strokes < 1:
            raise ValueError(f"strokes must be at least 0 and below 1, got {self.strokes}")
        wct.as_rule(self.gradient)

    @property
    def architecture(self) -> Architecture:
        """What the coloring needs of the layers."""
        return ARCHITECTURES[self.coloring]

    @property
    def channels(self) -> int:
        """Channels of the feature map in the middle, C."""
        return 4 * self.width

    @property
    def hop_channels(self) -> tuple[int, ...]:
        """Channels that each hop sees, in order."""
        middle = (self.channels,) * (self.blocks + 1)
        upsampled = (2 * self.width, self.width) if self.architecture.colors_upsampled else ()
        return middle + upsampled
