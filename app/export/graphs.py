"""The network as modules that torch's exporter can read: products, convolutions, no eigensolver.

A network of :mod:`models` chooses its way by what a CPU is fastest with, changes tensors in place,
and whitens by an eigendecomposition, which no browser's runtime has. These modules compute the same
from the same weights:

- :class:`Encoder`: photos as the network sees them -> content features;
- :class:`Generator`: content features and a style's code -> pictures, and what the hops read;
- :class:`Coder`: what open hops read of a painting -> its code, refined.

The filters before and after the network are the page's own: see ``app/site/filters.js``.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import models
from models.affine import Affine, folded
from models.convolutions import _PHASES, _taps
from models.layers import SLOPE

# Scaled by its Frobenius norm, a covariance of condition number k needs about 4 + 1.25 log(k)
# iterations for float32. Those of our hops have at most some hundreds (eps I is in them): measured
# by benchmarks/site.py.
ITERATIONS = 16

# Of Taylor's series for the exponential, after the matrix was halved so many times; a refinement
# moves a root by factors near 1.
TERMS, HALVINGS = 8, 4


def roots(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Root and inverse root of positive definite matrices (..., n, n) by Newton-Schulz.

    The coupled iteration of :func:`wct.newton_schulz`, a fixed number of times and without checks
    of values, which a graph can't have. Scaled by the Frobenius norm instead of the trace: values
    begin nearer to 1.

    The exporter takes a second for every ten products, and a network has a thousand of these: it is
    shown two functions that a network has no other use for, which :mod:`app.export.onnx_graphs`
    then replaces by the iteration.
    """
    if torch.compiler.is_exporting():
        return torch.atan(matrix), torch.asin(matrix)
    eye = torch.eye(matrix.shape[-1], dtype=matrix.dtype)
    norm = (matrix * matrix).sum((-2, -1), keepdim=True).sqrt()
    Y, Z = matrix / norm, eye.expand_as(matrix)
    for _ in range(ITERATIONS):
        T = 1.5 * eye - 0.5 * (Z @ Y)
        Y, Z = Y @ T, T @ Z
    scale = norm.sqrt()
    return Y * scale, Z / scale


def moments(x: Tensor, groups: int) -> tuple[Tensor, Tensor]:
    """Mean (1, G, n, 1) and covariance (1, G, n, n) of features (B, C, H, W), pooled over B."""
    batch, channels, height, width = x.shape
    grouped = x.reshape(batch, groups, channels // groups, height * width)
    mean = grouped.mean((0, 3), keepdim=True)
    centered = grouped - mean
    covariance = (centered @ centered.mT).mean(0, keepdim=True) / (height * width)
    return mean, covariance


class Encoder(nn.Module):
    """Content features (B, C, H / 4, W / 4) of photos (B, 3, H, W) as the network sees them."""

    def __init__(self, network: models.Repainter) -> None:
        super().__init__()
        self.layers = network.content_encoder.layers

    def forward(self, photo: Tensor) -> Tensor:
        x = photo
        for layer in self.layers:
            x = F.relu(x) if isinstance(layer, nn.ReLU) else layer(x)
        return x


class Generator(nn.Module):
    """Pictures of content features, colored with a code, and what each hop has read.

    Inputs: content (B, C, h, w); strength, 0 to 1 (1,); held, 0 or 1 (1,): whether the hops take
    the means and covariances that are given instead of their own; then a code's mean and root for
    each hop, and a mean and covariance to hold for each hop. At strength 0 the hops are open.

    Outputs: pictures (B, 3, 4 h, 4 w), not clamped, and each hop's mean and covariance, pooled
    over the batch.
    """

    def __init__(self, network: models.Repainter) -> None:
        super().__init__()
        self.blocks, self.upsamplings = network.blocks, network.upsamplings
        self.output, self.hops = network.output, network.hops
        # Made before the exporter looks: what it sees made, it takes for no constant.
        self.taps = _taps(network.output.kernel_size[0]).clone()

    def forward(
        self,
        content: Tensor,
        strength: Tensor,
        held: Tensor,
        code: list[Tensor],
        given: list[Tensor],
    ) -> tuple[Tensor, list[Tensor]]:
        read: list[Tensor] = []

        def at_hop(x: Tensor, index: int) -> Affine:
            hop = self.hops[index]
            mean, covariance = moments(x, hop.groups)
            mean = held * given[2 * index] + (1 - held) * mean
            covariance = held * given[2 * index + 1] + (1 - held) * covariance
            read.extend((mean, covariance))
            eye = torch.eye(covariance.shape[-1])
            matrix = code[2 * index + 1] @ roots(covariance + hop.eps * eye)[1]
            matrix = (1 - strength) * eye + strength * matrix
            shift = (1 - strength) * mean + strength * code[2 * index] - matrix @ mean
            return Affine(matrix, shift)

        x = content
        for i, block in enumerate(self.blocks):
            x = _applied(at_hop(x, i), x)
            first, _, _, last, _ = block.branch
            assert isinstance(first, nn.Conv2d) and isinstance(last, nn.Conv2d)
            x = x + _reflected(F.relu(_reflected(x, first)), last)
        index = len(self.blocks)
        for upsampling in self.upsamplings:
            kernel, bias = folded(upsampling.convolution, at_hop(x, index))
            x = F.leaky_relu(_upsampled(x, kernel, bias), SLOPE)
            x = F.pixel_shuffle(x, 2)
            index += 1
        kernel, bias = folded(self.output, at_hop(x, index))
        return torch.tanh(_at_half_size(x, kernel, bias, self.taps)), read


class Coder(nn.Module):
    """The code of a painting: a mean and a root for each hop, moved by the network's refinement.

    Inputs: the mean and the covariance that each open hop has read of the painting.
    """

    place: Tensor

    def __init__(self, network: models.Repainter) -> None:
        super().__init__()
        self.hops, self.refinement = network.hops, network.refinement
        if self.refinement is None:
            return
        refinement, n = self.refinement, self.refinement.group_size
        rows, columns = torch.triu_indices(n, n)

        def halved(whole: Tensor) -> nn.Parameter:
            """Of (moves, M), as (M, fewer), whose few rows have few scales where they are packed.

            A move of a root is turn + turn^T, so only the sum of the two numbers that are added is
            needed, and only for one half of a symmetric matrix.
            """
            kept: list[Tensor] = []
            start = 0
            for channels in refinement.channels:
                groups = channels // n
                turn = slice(start + channels, start + channels + groups * n * n)
                matrices = whole[turn].reshape(groups, n, n, -1)
                matrices = (matrices + matrices.transpose(1, 2)) / 4
                kept.append(whole[start : start + channels])
                kept.append(matrices[:, rows, columns].reshape(groups * len(rows), -1))
                start = turn.stop
            return nn.Parameter(torch.cat(kept).T.contiguous(), requires_grad=False)

        self.moves = halved(refinement.moves.weight)
        self.shifts = nn.Parameter(halved(refinement.moves.bias[:, None])[0], False)
        manners = refinement.manners
        self.manners = None if manners is None else halved(manners.weight)
        place = torch.empty(n, n, dtype=torch.long)
        place[rows, columns] = place[columns, rows] = torch.arange(len(rows))
        self.register_buffer("place", place.flatten())

    def forward(self, read: list[Tensor]) -> list[Tensor]:
        code: list[Tensor] = []
        for hop, mean, covariance in zip(self.hops, read[::2], read[1::2], strict=True):
            eye = torch.eye(covariance.shape[-1])
            code += [mean, roots(covariance + hop.eps * eye)[0]]
        refinement = self.refinement
        if refinement is None:
            return code
        diagonals = [(r * torch.eye(r.shape[-1])).sum(-1).clamp_min(1e-6).log() for r in code[1::2]]
        seen = torch.cat([t.flatten(1) for t in (*code[::2], *diagonals)], 1)
        seen = ((seen - refinement.center) / refinement.spread).clamp(-5, 5)
        answer = refinement.layers(seen) @ self.moves + self.shifts
        if self.manners is not None:
            answer = answer + refinement.shares(seen) @ self.manners
        n, start, refined = refinement.group_size, 0, []
        for mean, root in zip(code[::2], code[1::2], strict=True):
            groups = mean.shape[1]
            shift = answer[:, start : start + groups * n].reshape(mean.shape)
            start += groups * n
            size = n * (n + 1) // 2
            turn = answer[:, start : start + groups * size].reshape(1, groups, size)
            start += groups * size
            half = _exponential(turn[:, :, self.place].reshape(root.shape))
            deviation = ((root * root).sum((-2, -1), keepdim=True) / n).sqrt()
            moved = half @ root @ half
            refined += [mean + deviation * shift, (moved + moved.mT) / 2]
        return refined


def _exponential(matrix: Tensor) -> Tensor:
    """The matrix exponential (..., n, n): Taylor's series of a fraction of it, squared again."""
    eye = torch.eye(matrix.shape[-1])
    part = matrix / 2**HALVINGS
    total = eye + part / TERMS
    for term in range(TERMS - 1, 0, -1):
        total = eye + (part @ total) / term
    for _ in range(HALVINGS):
        total = total @ total
    return total


def _applied(affine: Affine, x: Tensor) -> Tensor:
    batch, channels, height, width = x.shape
    groups, n = affine.matrix.shape[-3:-1]
    moved = affine.matrix @ x.reshape(batch, groups, n, height * width) + affine.shift
    return moved.reshape(batch, channels, height, width)


def _reflected(x: Tensor, layer: nn.Conv2d) -> Tensor:
    """A convolution of kernel 3 with a reflected border."""
    return _by_tiles(F.pad(x, (1, 1, 1, 1), mode="reflect"), layer.weight, layer.bias)


def _by_tiles(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """A convolution of kernel 3 and no border, in a quarter of the multiplications.

    A browser's runtime takes half of the time for it. Winograd's F(4 x 4, 3 x 3), see Lavin and
    Gray, "Fast Algorithms for Convolutional Neural Networks", 2016: Y = A' [(G g G') * (B' d B)] A
    of each tile d of 6 x 6 inputs.
    """
    batch, inputs, height, width = x.shape
    outputs = weight.shape[0]
    down, across = (height - 2 + 3) // 4, (width - 2 + 3) // 4  # tiles
    x = F.pad(x, (0, 4 * across + 2 - width, 0, 4 * down + 2 - height))
    seen = F.conv2d(
        x.reshape(batch * inputs, 1, 4 * down + 2, 4 * across + 2), _twice(_B)[:, None], stride=4
    )
    seen = seen.reshape(batch, inputs, 36, down * across).permute(2, 1, 0, 3)
    kernels = _twice(_G).flatten(1) @ weight.reshape(outputs * inputs, 9).T
    product = kernels.reshape(36, outputs, inputs) @ seen.reshape(36, inputs, -1)
    result = _twice(_A).flatten(1) @ product.reshape(36, -1)
    result = result.reshape(4, 4, outputs, batch, down, across).permute(3, 2, 4, 0, 5, 1)
    result = result.reshape(batch, outputs, 4 * down, 4 * across)
    result = result[:, :, : height - 2, : width - 2]
    return result if bias is None else result + bias[:, None, None]


_B = (
    (4, 0, -5, 0, 1, 0),
    (0, -4, -4, 1, 1, 0),
    (0, 4, -4, -1, 1, 0),
    (0, -2, -1, 2, 1, 0),
    (0, 2, -1, -2, 1, 0),
    (0, 4, 0, -5, 0, 1),
)
_G = (
    (1 / 4, 0, 0),
    (-1 / 6, -1 / 6, -1 / 6),
    (-1 / 6, 1 / 6, -1 / 6),
    (1 / 24, 1 / 12, 1 / 6),
    (1 / 24, -1 / 12, 1 / 6),
    (0, 0, 1),
)
_A = ((1, 1, 1, 1, 1, 0), (0, 1, -1, 2, -2, 0), (0, 1, 1, 4, 4, 0), (0, 1, -1, 8, -8, 1))


def _twice(matrix: tuple[tuple[float, ...], ...]) -> Tensor:
    """What applies a matrix (a, n) to rows and to columns: (a * a, n, n)."""
    once = torch.tensor(matrix, dtype=torch.float32)
    return torch.einsum("ai,bj->abij", once, once).flatten(0, 1)


def _upsampled(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """As :func:`models.convolutions.upsampled_phases`, nothing changed in place.

    Returns:
        What F.pixel_shuffle makes the image of: (B, 4 outputs, H, W), an output's phases together.
    """

    def direct(x: Tensor) -> Tensor:
        x = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
        x = F.conv2d(F.pad(x, (1, 1, 1, 1), mode="reflect"), weight, bias)
        return F.pixel_unshuffle(x, 2)

    phases = torch.tensor(_PHASES)
    kernels = torch.einsum("yak,xbl,oikl->oyxiab", phases, phases, weight).flatten(0, 2)
    biases = None if bias is None else bias[:, None].expand(-1, 4).flatten()
    result = _by_tiles(F.pad(x, (1, 1, 1, 1), mode="replicate"), kernels, biases)
    # The reflected pixel has another value than the upsampled border of the small map.
    top, below = direct(x[:, :, :2])[:, :, :1], direct(x[:, :, -2:])[:, :, 1:]
    left, right = direct(x[:, :, :, :2])[..., :1], direct(x[:, :, :, -2:])[..., 1:]
    middle = torch.cat([left, result[..., 1:-1], right], 3)
    return torch.cat([top, middle[:, :, 1:-1], below], 2)


def _at_half_size(x: Tensor, weight: Tensor, bias: Tensor | None, taps: Tensor) -> Tensor:
    """A convolution with a reflected border, at half the width and height of the image.

    As :func:`models.convolutions.convolved_phases`: few outputs are slow at full size.
    """
    margin = taps.shape[2] // 2
    kernels = torch.einsum("apku,bqlv,ocuv->oabcpqkl", taps, taps, weight)
    kernels = kernels.flatten(3, 5).flatten(0, 2)
    biases = None if bias is None else bias[:, None].expand(-1, 4).flatten()
    padded = F.pad(x, (2 * margin,) * 4, mode="reflect")
    return F.pixel_shuffle(F.conv2d(F.pixel_unshuffle(padded, 2), kernels, biases), 2)
