"""The network: encoder, hops that whiten and color, decoder.

Two ways to form the coloring, one class. ``statistics``: the painting goes through the same
layers with its hops open, and each hop records the mean and the covariance's root that it sees.
``mlp``: the network of GD-WCT, where a style encoder and a pair of MLPs a hop predict them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import wct
from models import finish, statistics, strokes
from models.finish import Finish, Ground, Original
from models.finish.enlargement import reduced
from models.refinement import CodeRefinement
from models.strokes import Canvas
from models.style_code import StyleCode

COLORINGS = ("statistics", "mlp")
METHODS = ("svd", "gd")
STRIDE = 4  # two stride-2 convolutions: heights and widths inside are padded to a multiple of it
SMALLEST = 8  # pixels; below, a reflection pad would be wider than the feature map
CANVAS, GROUND = Canvas(), Ground()


@dataclass(frozen=True)
class RepainterConfig:
    """The shape of a network; all that is needed to build it again.

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
        strokes: standard deviation of the faint strokes that the network sees where a photo is
            plain, in place of the photo's noise; 0: it sees the photo as it is. See
            :mod:`models.strokes`.
    """

    width: int = 24
    blocks: int = 4
    group_size: int = 24
    coloring: str = "statistics"
    method: str = "svd"
    gradient: str = "exact"
    eps: float = 1e-2
    hidden: int = 256
    refinement: int = 0
    strokes: float = 0.0

    def __post_init__(self) -> None:
        if self.coloring not in COLORINGS:
            raise ValueError(f"coloring must be one of {COLORINGS}, got {self.coloring!r}")
        if self.method not in METHODS:
            raise ValueError(f"method must be one of {METHODS}, got {self.method!r}")
        if self.method == "gd" and self.coloring != "mlp":
            raise ValueError("method 'gd' reads its coloring off an MLP: it needs coloring='mlp'")
        if self.width < 1 or self.blocks < 1 or self.group_size < 1 or self.hidden < 1:
            raise ValueError(f"width, blocks, group_size and hidden must be positive, got {self}")
        if self.refinement < 0 or (self.refinement and self.coloring != "statistics"):
            raise ValueError(f"refinement is of statistics and not negative, got {self}")
        smallest = self.width if self.coloring == "statistics" else self.channels
        if smallest % self.group_size:
            raise ValueError(f"groups of {self.group_size} don't divide {smallest} channels")
        if not self.eps > 0:
            raise ValueError(f"eps must be positive, got {self.eps}")
        if not 0 <= self.strokes < 1:
            raise ValueError(f"strokes must be at least 0 and below 1, got {self.strokes}")
        wct.as_rule(self.gradient)

    @property
    def channels(self) -> int:
        """Channels of the feature map in the middle, C."""
        return 4 * self.width

    @property
    def hop_channels(self) -> tuple[int, ...]:
        """Channels that each hop sees, in order."""
        middle = (self.channels,) * (self.blocks + 1)
        return (*middle, 2 * self.width, self.width) if self.coloring == "statistics" else middle


def _convolution(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    padding = (kernel - 1) // 2
    return nn.Conv2d(inputs, outputs, kernel, stride, padding, padding_mode="reflect")


@dataclass(frozen=True)
class Content:
    """What there is to paint in photos: what :meth:`Repainter.encode_photo` makes of them.

    Args:
        features: (B, C, H / 4, W / 4).
        finish: what is done to the paintings that the network makes of them.
        stroke_size: how many times larger than the features are made for the photos are.
    """

    features: Tensor
    finish: Finish
    stroke_size: int = 1

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self.features.nbytes + self.finish.nbytes


@dataclass(frozen=True)
class Affine:
    """What a hop does at every position: x <- matrix x + shift, group by group.

    Args:
        matrix: (B, G, n, n).
        shift: (B, G, n, 1).
    """

    matrix: Tensor
    shift: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        zeros = torch.zeros_like(self.shift)
        return wct.transform(x, self.matrix, zeros, self.shift)


def _folded(convolution: nn.Conv2d, affine: Affine | None) -> tuple[Tensor, Tensor | None]:
    """Kernel and bias of the convolution of ``affine(x)``, one map for the batch.

    A map that is the same at every position may be multiplied into the kernel: it commutes with
    the padding, which repeats positions, and with bilinear upsampling, whose weights sum to 1.
    At full size this spares the most expensive hops a pass over the feature map.
    """
    if affine is None:
        return convolution.weight, convolution.bias
    outputs, _, height, width = convolution.weight.shape
    groups, n = affine.matrix.shape[-3:-1]
    kernel = convolution.weight.reshape(outputs, groups, n, height * width)
    weight = torch.einsum("ognk,gnm->ogmk", kernel, affine.matrix[0])
    bias = torch.einsum("ognk,gn->o", kernel, affine.shift[0, :, :, 0])
    if convolution.bias is not None:
        bias = bias + convolution.bias
    return weight.reshape(convolution.weight.shape), bias


def _convolve(convolution: nn.Conv2d, x: Tensor, affine: Affine | None = None) -> Tensor:
    """The convolution of ``affine(x)``, without ever computing ``affine(x)``."""
    if affine is None:
        return convolution(x)
    p = convolution.padding[0]
    x = F.pad(x, (p, p, p, p), mode=convolution.padding_mode)
    return F.conv2d(x, *_folded(convolution, affine), convolution.stride)


# What a 3-tap kernel on a row of twice the size, upsampled bilinearly, is on the row itself:
# 3 taps at every even pixel, and 3 others at every odd one (phase, tap, the kernel's tap).
_PHASES = (
    ((0.75, 0.25, 0.0), (0.25, 0.75, 0.75), (0.0, 0.0, 0.25)),
    ((0.25, 0.0, 0.0), (0.75, 0.75, 0.25), (0.0, 0.25, 0.75)),
)


def _upsampled_phases(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """A 3x3 convolution of x at twice its size, without ever holding x at that size.

    Equal to bilinear upsampling, a reflected border of one pixel, and the convolution, but for the
    places of the pixels.

    Returns:
        Phases, (B, 4 C, H, W): the channels of the even rows' even columns, of their odd ones, of
        the odd rows' even columns, and of their odd ones. :func:`_shuffled` puts them in place.
    """

    def direct(x: Tensor) -> Tensor:
        x = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
        return F.conv2d(F.pad(x, (1, 1, 1, 1), mode="reflect"), weight, bias)

    phases = weight.new_tensor(_PHASES)
    kernels = torch.einsum("yak,xbl,oikl->yxoiab", phases, phases, weight).flatten(0, 2)
    biases = None if bias is None else bias.repeat(4)
    result = F.conv2d(F.pad(x, (1, 1, 1, 1), mode="replicate"), kernels.contiguous(), biases)
    # The reflected pixel has another value than the upsampled border of the small map.
    image = result.unflatten(1, (2, 2, -1)).permute(0, 3, 4, 1, 5, 2)  # (B, C, H, 2, W, 2)
    image[:, :, 0, 0] = direct(x[..., :2, :])[..., 0, :].unflatten(-1, (-1, 2))
    image[:, :, -1, 1] = direct(x[..., -2:, :])[..., -1, :].unflatten(-1, (-1, 2))
    image[..., 0, 0] = direct(x[..., :2])[..., 0].unflatten(-1, (-1, 2))
    image[..., -1, 1] = direct(x[..., -2:])[..., -1].unflatten(-1, (-1, 2))
    return result


def _shuffled(phases: Tensor) -> Tensor:
    """Phases (B, 4 C, H, W) put in their places, (B, C, 2 H, 2 W)."""
    batch, channels, height, width = phases.shape
    image = phases.unflatten(1, (2, 2, -1)).permute(0, 4, 1, 5, 2, 3)
    return image.reshape(batch, 2 * height, 2 * width, channels // 4).permute(0, 3, 1, 2)


@functools.cache
def _taps(size: int) -> Tensor:
    """Where a kernel's taps are when pixels are split into phases, (2, 2, 2 reach + 1, size).

    1 where the output's phase, the input's phase, and so many places of the phases from it are
    those of the kernel's tap; 0 elsewhere.
    """
    margin = size // 2
    reach = (margin + 1) // 2
    taps = torch.zeros(2, 2, 2 * reach + 1, size)
    for into in range(2):
        for tap in range(size):
            place, phase = divmod(into + tap - margin, 2)
            taps[into, phase, place + reach, tap] = 1
    return taps


def _convolve_phases(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """The convolution, with a reflected border, of an image of which only the phases are held.

    A kernel with few outputs is slow at full size; so it has four times as many, at half of it.

    Args:
        x: phases (B, 4 C, H, W), as :func:`_upsampled_phases` returns them.

    Returns:
        (B, outputs, 2 H, 2 W).
    """
    taps = _taps(weight.shape[-1]).to(weight)
    kernels = torch.einsum("apku,bqlv,ocuv->oabpqckl", taps, taps, weight)
    kernels = kernels.flatten(3, 5).flatten(0, 2).contiguous()
    reach, biases = kernels.shape[-1] // 2, None if bias is None else bias.repeat_interleave(4)

    def direct(x: Tensor) -> Tensor:
        return F.conv2d(_padded_phases(x, reach), kernels, biases)

    result = F.conv2d(x, kernels, biases, padding=reach)
    return F.pixel_shuffle(_border_mended(result, x, direct, reach, 2 * reach), 2)


def _border_mended(
    result: Tensor, x: Tensor, direct: Callable[[Tensor], Tensor], wide: int, deep: int
) -> Tensor:
    """The result with its outermost rows and columns as ``direct`` makes them.

    A border of a few pixels is then no reason to copy a whole feature map into new memory.

    Args:
        result: changed.
        direct: what makes the right result of x, or of a strip of it where it is x's border.
        wide: rows and columns of the result that are to be mended, at each side.
        deep: those of x that these depend on.
    """
    result[..., :wide, :] = direct(x[..., :deep, :])[..., :wide, :]
    result[..., -wide:, :] = direct(x[..., -deep:, :])[..., -wide:, :]
    result[..., :wide] = direct(x[..., :deep])[..., :wide]
    result[..., -wide:] = direct(x[..., -deep:])[..., -wide:]
    return result


def _padded_phases(x: Tensor, reach: int) -> Tensor:
    """Phases (B, 4 C, H, W) of an image whose border is reflected."""
    padded = F.pad(x, (reach,) * 4, mode="reflect")
    # Pixels are reflected, not the places of the phases: right for even ones before the first and
    # odd ones after the last, while the others have their own place repeated.
    phases = padded.unflatten(1, (2, 2, -1))
    for along in (phases, phases.transpose(1, 2).transpose(-1, -2)):
        even, odd = along[:, 0], along[:, 1]
        for far in range(1, reach + 1):
            odd[..., reach - far, :] = odd[..., reach + far - 1, :]
            even[..., far - reach - 1, :] = even[..., -reach - far, :]
    return padded


def _halved(convolution: nn.Conv2d, x: Tensor) -> Tensor:
    """The convolution of kernel 4, stride 2 and a reflected border of 1; H and W are even."""
    result = F.conv2d(x, convolution.weight, convolution.bias, stride=2, padding=1)
    return _border_mended(result, x, convolution, wide=1, deep=4)


class ResidualBlock(nn.Module):
    """x + conv(relu(conv(x))), with instance norm after each convolution where asked."""

    def __init__(self, channels: int, *, norm: bool) -> None:
        super().__init__()
        make_norm = statistics.InstanceNorm if norm else lambda _: nn.Identity()
        self.branch = nn.Sequential(
            _convolution(channels, channels, 3),
            make_norm(channels),
            nn.ReLU(inplace=True),
            _convolution(channels, channels, 3),
            make_norm(channels),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.branch(x)


class ContentEncoder(nn.Module):
    """(B, 3, H, W) -> (B, 4 width, H / 4, W / 4)."""

    def __init__(self, width: int, *, blocks: int, norm: bool) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        shapes = ((3, width, 7, 1), (width, 2 * width, 4, 2), (2 * width, 4 * width, 4, 2))
        for inputs, outputs, kernel, stride in shapes:
            layers.append(_convolution(inputs, outputs, kernel, stride))
            if norm:
                layers.append(statistics.InstanceNorm(outputs))
            layers.append(nn.ReLU(inplace=True))
        layers += [ResidualBlock(4 * width, norm=norm) for _ in range(blocks)]
        self.layers = nn.Sequential(*layers)

    def forward(self, image: Tensor) -> Tensor:
        x = image
        for layer in self.layers:
            halves = isinstance(layer, nn.Conv2d) and layer.stride == (2, 2)
            x = _halved(layer, x) if halves and _is_fast(x) else layer(x)
        return x


class StyleEncoder(nn.Module):
    """(B, 3, H, W) -> style code (B, 4 width): five convolutions, then the mean over positions."""

    def __init__(self, width: int) -> None:
        super().__init__()
        channels = (3, width, 2 * width, 4 * width, 4 * width, 4 * width)
        layers: list[nn.Module] = []
        for i, (inputs, outputs) in enumerate(pairwise(channels)):
            layers += [_convolution(inputs, outputs, *((7, 1) if i == 0 else (4, 2))), nn.ReLU()]
        self.layers = nn.Sequential(*layers)
        self.head = nn.Linear(channels[-1], channels[-1])

    def forward(self, painting: Tensor) -> Tensor:
        # Four strides of 2: anything smaller is repeated at its border up to 32 pixels.
        height, width = painting.shape[-2:]
        right, below = max(0, 32 - width), max(0, 32 - height)
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


class Upsampling(nn.Module):
    """Twice the size, a convolution, leaky ReLU; layer norm before it where asked."""

    def __init__(self, inputs: int, outputs: int, kernel: int, *, norm: bool) -> None:
        super().__init__()
        self.convolution = _convolution(inputs, outputs, kernel)
        self.norm = statistics.LayerNorm(outputs) if norm else nn.Identity()

    @property
    def has_phases(self) -> bool:
        """Whether :meth:`phases` may be asked for."""
        return self.convolution.kernel_size == (3, 3) and isinstance(self.norm, nn.Identity)

    def phases(self, x: Tensor, affine: Affine | None = None) -> Tensor:
        """The result's phases, (B, C, H, W) -> (B, 4 outputs, H, W)."""
        return F.leaky_relu_(_upsampled_phases(x, *_folded(self.convolution, affine)), 0.2)

    def forward(self, x: Tensor, affine: Affine | None = None) -> Tensor:
        if self.has_phases and not torch.is_grad_enabled():
            return _shuffled(self.phases(x, affine))
        # Bilinear: nearest leaves a grid of 2x2 squares that whitening would amplify.
        x = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
        x = _convolve(self.convolution, x, affine)
        return F.leaky_relu(self.norm(x), 0.2)


class Hop(nn.Module):
    """x <- (1 - a) x + a ( S_c S_w (x - mu_w) + mu_c ), per image and per group.

    ``alpha``, the learned a of the mlp network, is held at 1 in the statistics network.
    """

    def __init__(self, channels: int, config: RepainterConfig) -> None:
        super().__init__()
        self.groups, self.eps = channels // config.group_size, config.eps
        self.method, self.rule = config.method, wct.as_rule(config.gradient)
        learned = config.coloring == "mlp"
        self.alpha = nn.Parameter(torch.tensor(0.6)) if learned else None

    def _regularized(self, covariance: Tensor) -> Tensor:
        eye = torch.eye(covariance.shape[-1], dtype=covariance.dtype, device=covariance.device)
        return covariance + self.eps * eye

    def record(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean (B, G, n, 1) and root of the covariance (B, G, n, n) of x (B, C, H, W)."""
        with torch.autocast(x.device.type, enabled=False):
            mean, covariance = statistics.mean_and_covariance(x.float(), self.groups)
            return mean, wct.sqrtm(self._regularized(covariance), gradient=self.rule, eps=self.eps)

    def coloring(self, matrix: Tensor) -> Tensor:
        """The coloring matrix of an MLP's output A (B, G, n, n).

        svd: (A A^T + eps I)^(1/2). gd: U D U^T, with D the lengths and U the directions of A's
        columns.
        """
        with torch.autocast(matrix.device.type, enabled=False):
            matrix = matrix.float()
            if self.method == "gd":
                lengths = matrix.norm(dim=-2, keepdim=True).clamp_min(1e-6)
                directions = matrix / lengths
                return (directions * lengths) @ directions.mT
            covariance = self._regularized(matrix @ matrix.mT)
            return wct.sqrtm(covariance, gradient=self.rule, eps=self.eps)

    def forward(
        self,
        x: Tensor,
        mean: Tensor,
        root: Tensor,
        strength: float = 1.0,
        covariances: list[Tensor] | None = None,
    ) -> Affine:
        """What is to be done to x (B, C, H, W) to color it with a mean and a root."""
        with torch.autocast(x.device.type, enabled=False):
            own_mean, covariance = statistics.mean_and_covariance(x.float(), self.groups)
            if covariances is not None:
                covariances.append(covariance)
            if self.method == "gd":
                matrix = root  # the features are pushed to covariance I by the training
            else:
                matrix = root @ wct.inv_sqrtm(
                    self._regularized(covariance), gradient=self.rule, eps=self.eps
                )
            share = strength if self.alpha is None else strength * self.alpha
            eye = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
            matrix = (1 - share) * eye + share * matrix
            shift = (1 - share) * own_mean + share * mean - matrix @ own_mean
            return Affine(matrix, shift)


class Repainter(nn.Module):
    """Repaints a photo with the style code of a painting. Images: (B, 3, H, W) in [-1, 1]."""

    def __init__(self, config: RepainterConfig | None = None) -> None:
        super().__init__()
        self.config = config = config or RepainterConfig()
        width, channels, paper = config.width, config.channels, config.coloring == "mlp"
        self.content_encoder = ContentEncoder(width, blocks=4 if paper else 0, norm=paper)
        self.hops = nn.ModuleList(Hop(c, config) for c in config.hop_channels)
        self.blocks = nn.ModuleList(
            ResidualBlock(channels, norm=False) for _ in range(config.blocks)
        )
        kernel = 5 if paper else 3
        self.upsamplings = nn.ModuleList(
            Upsampling(i, o, kernel, norm=paper)
            for i, o in ((channels, 2 * width), (2 * width, width))
        )
        self.output = _convolution(width, 3, 7)
        if paper:
            self.style_encoder = StyleEncoder(width)
            self.mlps = nn.ModuleList(
                ColoringMLP(c, config.group_size, config.hidden) for c in config.hop_channels
            )
        self.refinement = (
            CodeRefinement(config.hop_channels, config.group_size, config.refinement)
            if config.refinement
            else None
        )
        self._initialize()

    def _initialize(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                # Keeps the features' variance near 1, well above eps, at every hop.
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
                nn.init.zeros_(module.bias)
        with torch.no_grad():
            self.output.weight.mul_(0.3)  # starts in the straight part of tanh
            if self.config.coloring == "statistics":
                for block in self.blocks:  # starts as an autoencoder
                    block.branch[-2].weight.zero_()
            if self.refinement is not None:
                self.refinement.reset()

    def _decode(self, x: Tensor, hop: Callable[[Tensor, int], Affine | None]) -> Tensor:
        """Runs the generator; ``hop`` looks at each hop's features and says what to do to them."""

        def affine_after(x: Tensor, layers: int) -> Affine | None:
            return hop(x, layers) if layers < len(self.hops) else None

        affine = hop(x, 0)
        for i, block in enumerate(self.blocks, 1):
            x = block(x if affine is None else _laid_out(_in_float32(affine, x)))
            affine = hop(x, i)
        # From here on a hop is followed by a convolution alone, which can swallow it.
        *first, last = self.upsamplings
        for i, upsampling in enumerate(first, 1 + len(self.blocks)):
            x = upsampling(*_unless_folded(x, affine))
            affine = affine_after(x, i)
        x, affine = _unless_folded(x, affine)
        i = len(self.blocks) + len(self.upsamplings)
        if torch.is_grad_enabled() or not last.has_phases or statistics.places_count():
            x = last(x, affine)
            return torch.tanh(_convolve(self.output, *_unless_folded(x, affine_after(x, i))))
        x = last.phases(x, affine)
        # A hop's statistics are the same in any order of the pixels.
        affine = affine_after(_pixels_of(x), i)
        if affine is None or _folds(affine):
            return torch.tanh(_convolve_phases(x, *_folded(self.output, affine)))
        x = _in_float32(affine, _shuffled(x))
        return torch.tanh(_convolve(self.output, x))

    @property
    def reach(self) -> int:
        """Pixels: what is farther from a pixel than this has no part in its result.

        But for the statistics, which see the whole picture: see :mod:`models.statistics`. Filters
        add theirs: see :func:`models.finish.reach`.
        """
        seen = [self._sees(pixel) for pixel in range(STRIDE)]
        return max(max(i - low, high - i) for i, (low, high) in enumerate(seen))

    def _sees(self, pixel: int) -> tuple[int, int]:
        """The first and the last column of the photo that a column of pixels depends on."""
        margin = self.output.kernel_size[0] // 2
        low, high = pixel - margin, pixel + margin
        for upsampling in reversed(self.upsamplings):
            # Bilinear: half a pixel to each side is read beside the pixel's own place.
            margin = upsampling.convolution.kernel_size[0] // 2 + 1
            low, high = (low - margin) // 2, (high + margin) // 2
        encoder = self.content_encoder.layers
        blocks = [*self.blocks, *(layer for layer in encoder if isinstance(layer, ResidualBlock))]
        low, high = low - 2 * len(blocks), high + 2 * len(blocks)
        for layer in reversed([layer for layer in encoder if isinstance(layer, nn.Conv2d)]):
            kernel, stride, padding = layer.kernel_size[0], layer.stride[0], layer.padding[0]
            low, high = stride * low - padding, stride * high - padding + kernel - 1
        return strokes.sees(low, high) if self.config.strokes else (low, high)

    def prepare(
        self, photo: Tensor, canvas: Canvas = CANVAS, ground: Ground = GROUND
    ) -> tuple[Tensor, Finish]:
        """What the encoder is to see of photos (B, 3, H, W), and what is done to the paintings.

        See :mod:`models.finish` and :func:`models.strokes.prepare`.

        Args:
            ground: what a style wants; without one, nothing is left out or added.
        """
        ground, size = ground.of(canvas.amounts), canvas.stroke_size
        photo = finish.prepared(photo, ground)
        on_top = Finish.of(Original(photo, canvas.origins, size), ground)
        photo = reduced(photo, size)
        if self.config.strokes:
            origins = [(y // size, x // size) for y, x in canvas.origins]
            photo = strokes.prepare(photo, self.config.strokes * ground.strokes, origins)
        return photo, on_top

    def encode_content(self, photo: Tensor) -> Tensor:
        """Content features (B, C, H / 4, W / 4); H and W must be multiples of 4, at least 8."""
        height, width = photo.shape[-2:]
        if photo.ndim != 4 or photo.shape[1] != 3 or height % STRIDE or width % STRIDE:
            raise ValueError(
                f"images must have shape (B, 3, H, W) with H and W multiples of {STRIDE}, "
                f"got {tuple(photo.shape)}"
            )
        return self.content_encoder(_laid_out(photo))

    def reconstruct(self, image: Tensor) -> tuple[Tensor, StyleCode]:
        """The image decoded with its own style, and its style code as it is, not refined."""
        content = self.encode_content(image)
        if self.config.coloring == "mlp":
            code = StyleCode((self.style_encoder(image),))
            return self.generate(content, code), code
        records: list[Tensor] = []

        def open_hop(x: Tensor, index: int) -> None:
            records.extend(self.hops[index].record(x))

        picture = self._decode(content, open_hop)
        return picture, StyleCode(tuple(records))

    def refine(self, code: StyleCode) -> StyleCode:
        """What a painting's own code becomes before it paints; the same without a refinement."""
        return code if self.refinement is None else self.refinement(code)

    def coloring(self, code: StyleCode) -> list[tuple[Tensor, Tensor]]:
        """Mean and coloring matrix for every hop."""
        if self.config.coloring == "mlp":
            (style,) = code.tensors
            pairs = [mlp(style) for mlp in self.mlps]
            return [(m, hop.coloring(a)) for hop, (a, m) in zip(self.hops, pairs, strict=True)]
        if len(code.tensors) != 2 * len(self.hops):
            raise ValueError(
                f"this network needs a style code of {2 * len(self.hops)} tensors, "
                f"got {len(code.tensors)}"
            )
        return list(zip(code.tensors[::2], code.tensors[1::2], strict=True))

    def generate(
        self,
        content: Tensor,
        code: StyleCode,
        strength: float = 1.0,
        covariances: list[Tensor] | None = None,
    ) -> Tensor:
        """Content features colored and decoded: (B, C, H / 4, W / 4) -> (B, 3, H, W).

        Args:
            covariances: if given, each hop's covariance of the content is appended, for the
                whitening regularizer of the method ``gd``.
        """
        coloring = self.coloring(code)

        def hop(x: Tensor, index: int) -> Affine:
            return self.hops[index](x, *coloring[index], strength, covariances)

        return self._decode(content, hop)

    def forward(self, photo: Tensor, code: StyleCode, strength: float = 1.0) -> Tensor:
        photo, on_top = self.prepare(photo, ground=code.ground)
        return on_top.on(self.generate(self.encode_content(photo), code, strength), strength)

    @torch.no_grad()
    def encode_style(self, painting: Tensor) -> StyleCode:
        """The style code of paintings (B, 3, H, W) in [-1, 1], of any size."""
        if self.config.coloring == "mlp":
            return StyleCode((self.style_encoder(painting),))
        return self.refine(self.reconstruct(_pad(painting))[1])

    @torch.no_grad()
    def encode_photo(
        self, photo: Tensor, canvas: Canvas = CANVAS, ground: Ground = GROUND
    ) -> Content:
        """What there is to paint in photos (B, 3, H, W) in [-1, 1], of any size.

        Args:
            canvas: for a network that sees strokes: where they lie, and how strong they are.
            ground: that of the style they are to be painted in.
        """
        if photo.ndim != 4 or photo.shape[1] != 3 or 0 in photo.shape:
            raise ValueError(f"photos must have shape (B, 3, H, W), got {tuple(photo.shape)}")
        photo, on_top = self.prepare(_pad(photo, canvas.stroke_size), canvas, ground)
        return Content(self.encode_content(photo), on_top, canvas.stroke_size)

    @torch.no_grad()
    def repaint(
        self,
        photo: Tensor,
        code: StyleCode,
        strength: float = 1.0,
        content: Content | None = None,
        canvas: Canvas = CANVAS,
    ) -> Tensor:
        """Photos (B, 3, H, W) in [-1, 1], of any size, in the style of a code.

        Strength 0 is the photo itself, exactly. In between, each hop goes that share of its way,
        and what the decoder loses of the photo with its hops open is given back in proportion.

        Args:
            content: what :meth:`encode_photo` made of the photos before, to spare the time.
            canvas: as in :meth:`encode_photo`; content was made with one already, and with the
                code's ground.

        Raises:
            ValueError: a wrong shape, or a strength outside [0, 1].
        """
        if not 0 <= strength <= 1:
            raise ValueError(f"strength must be between 0 and 1, got {strength}")
        if strength == 0:
            return photo.clone()
        if content is None:
            content = self.encode_photo(photo, canvas, code.ground)
        height, width = photo.shape[-2:]
        photo = reduced(photo, content.stroke_size)
        rows, columns = photo.shape[-2:]
        picture = self.generate(content.features, code, strength)[..., :rows, :columns]
        if strength < 1:
            own = self._decode(content.features, lambda *_: None)[..., :rows, :columns]
            picture = picture + (1 - strength) * (photo - own)
        picture = content.finish.on(picture.clamp(-1, 1), strength)
        return picture[..., :height, :width]


def _folds(affine: Affine) -> bool:
    # One image's kernel is another's than the next one's, unless they share their statistics.
    return len(affine.matrix) == 1 and not torch.is_grad_enabled()


def _unless_folded(x: Tensor, affine: Affine | None) -> tuple[Tensor, Affine | None]:
    """What is to be convolved, with an affine map only if the kernel takes it up."""
    return (x, affine) if affine is None or _folds(affine) else (_in_float32(affine, x), None)


def _pixels_of(phases: Tensor) -> Tensor:
    """Phases (B, 4 C, H, W) -> (B, C, H, 4 W): a channel's pixels together, in another order."""
    batch, channels, height, width = phases.shape
    pixels = phases.permute(0, 2, 3, 1).reshape(batch, height, 4 * width, channels // 4)
    return pixels.permute(0, 3, 1, 2)


def _is_fast(x: Tensor) -> bool:
    """Whether what a processor is fastest with may be done: nothing is kept for a gradient."""
    return x.device.type == "cpu" and not torch.is_grad_enabled()


def _laid_out(x: Tensor) -> Tensor:
    """In the order of memory that a processor's convolutions are fastest with."""
    return x.contiguous(memory_format=torch.channels_last) if _is_fast(x) else x


def _in_float32(affine: Affine, x: Tensor) -> Tensor:
    # Half precision would leave whitened features with errors that the next hop amplifies.
    with torch.autocast(x.device.type, enabled=False):
        return affine(x.float())


def _pad(image: Tensor, times: int = 1) -> Tensor:
    """Right and below, up to a multiple of so many strides: reflected where there is enough."""
    stride, smallest = times * STRIDE, times * SMALLEST
    height, width = image.shape[-2:]
    below = max(smallest, -(-height // stride) * stride) - height
    right = max(smallest, -(-width // stride) * stride) - width
    if not below and not right:
        return image
    mode = "reflect" if below < height and right < width else "replicate"
    return F.pad(image, (0, right, 0, below), mode=mode)
