"""The network: encoder, hops that whiten and color, decoder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models import finish, receptive_field, statistics, strokes
from models.affine import Affine, convolve, folded, unless_folded
from models.coloring import WAYS, AtHop
from models.configuration import SMALLEST, STRIDE, RepainterConfig
from models.convolutions import (
    Convolution,
    channels_last,
    convolution,
    convolved_phases,
    is_fast,
    laid_out,
    pixels_of,
    shuffled,
)
from models.finish import Finish, Ground, Original
from models.finish.filter import reduced
from models.hop import Hop
from models.layers import ContentEncoder, ResidualBlock, Upsampling, registered
from models.refinement import CodeRefinement
from models.strokes import Canvas
from models.style_code import StyleCode

CANVAS, GROUND = Canvas(), Ground()


@dataclass(frozen=True)
class Content:
    """What there is to paint in photos: what :meth:`Repainter.encode_photo` makes of them.

    Args:
        features: (B, C, H / 4, W / 4), of the photos reduced by the stroke size.
        finish: what is done to the paintings that the network makes of them.
        stroke_size: how many times larger than the network's own the strokes are.
    """

    features: Tensor
    finish: Finish
    stroke_size: int = 1

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self.features.nbytes + self.finish.nbytes


class Repainter(nn.Module):
    """Repaints a photo with the style code of a painting. Images: (B, 3, H, W) in [-1, 1].

    Attributes:
        coloring: how style codes are made and read, a :class:`models.coloring.Coloring`.
    """

    def __init__(self, config: RepainterConfig | None = None) -> None:
        super().__init__()
        self.config = config = config or RepainterConfig()
        width, channels, needed = config.width, config.channels, config.architecture
        self.content_encoder = ContentEncoder(
            width, blocks=needed.encoder_blocks, norm=needed.norms
        )
        self.hops = registered(Hop(c, config) for c in config.hop_channels)
        self.blocks = registered(ResidualBlock(channels, norm=False) for _ in range(config.blocks))
        self.upsamplings = registered(
            Upsampling(i, o, needed.kernel, norm=needed.norms)
            for i, o in ((channels, 2 * width), (2 * width, width))
        )
        self.output = convolution(width, 3, 7)
        self.coloring = WAYS[config.coloring](config, self.hops)
        for name, layer in self.coloring.layers.items():
            self.add_module(name, layer)
        self.refinement = (
            CodeRefinement(
                config.hop_channels, config.group_size, config.refinement, config.manners
            )
            if config.refinement
            else None
        )
        self._initialize()

    def _initialize(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                # Keeps the features' variance near 1, well above eps, at every hop.
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        with torch.no_grad():
            self.output.weight.mul_(0.3)  # starts in the straight part of tanh
            if self.config.architecture.starts_open:
                for block in self.blocks:
                    block.vanish()
            if self.refinement is not None:
                self.refinement.reset()

    @property
    def before_hops(self) -> list[nn.Conv2d]:
        """The convolution that each hop's features come from last, in the hops' order."""
        layers = (self.content_encoder, *self.blocks, *self.upsamplings)
        return [
            [layer for layer in part.modules() if isinstance(layer, nn.Conv2d)][-1]
            for part, _ in zip(layers, self.hops, strict=False)  # mlp: none after an upsampling
        ]

    def _decode(self, x: Tensor, at_hop: AtHop) -> Tensor:
        """Runs the generator: (B, C, H / 4, W / 4) -> (B, 3, H, W).

        Args:
            at_hop: looks at each hop's features and says what is to be done to them.
        """

        def affine_after(x: Tensor, layers: int) -> Affine | None:
            return at_hop(x, layers) if layers < len(self.hops) else None

        affine = at_hop(x, 0)
        for i, block in enumerate(self.blocks, 1):
            x = block(laid_out(x if affine is None else affine(x), self.precision))
            affine = at_hop(x, i)
        # From here on a hop is followed by a convolution alone, which can swallow it.
        *first, last = self.upsamplings
        for i, upsampling in enumerate(first, 1 + len(self.blocks)):
            x = upsampling(*unless_folded(x, affine))
            affine = affine_after(x, i)
        x, affine = unless_folded(x, affine)
        i = len(self.blocks) + len(self.upsamplings)
        if torch.is_grad_enabled() or not last.has_phases or statistics.places_count():
            x = last(x, affine)
            return _image(convolve(self.output, *unless_folded(x, affine_after(x, i))))
        x = last.phases(x, affine)
        # A hop's statistics are the same in any order of the pixels.
        affine = affine_after(pixels_of(x), i)
        if affine is None or affine.folds:
            return _image(convolved_phases(x, *folded(self.output, affine)))
        return _image(convolve(self.output, affine(shuffled(x))))

    @property
    def precision(self) -> torch.dtype:
        """What features are kept in between the hops, where no gradient is kept."""
        return self.output.precision

    def compute_in(self, precision: torch.dtype) -> None:
        """Changes :attr:`precision`: torch.float32, as it is at first, or torch.bfloat16.

        Statistics, matrix roots, styles and pictures are in float32 either way.
        """
        for part in (self.content_encoder, self.blocks, self.upsamplings, self.output):
            for layer in cast("nn.Module", part).modules():
                if isinstance(layer, Convolution):
                    layer.precision = precision

    @property
    def reach(self) -> int:
        """Pixels: what is farther from a pixel than this has no part in its painting.

        But for the statistics, which see the whole picture: see :mod:`models.statistics`. Filters
        add theirs: see :func:`models.finish.reach`.
        """
        return receptive_field.reach(
            self.content_encoder,
            self.blocks,
            self.upsamplings,
            self.output,
            sees_strokes=self.config.strokes > 0,
        )

    def prepare(
        self, photo: Tensor, canvas: Canvas = CANVAS, ground: Ground = GROUND
    ) -> tuple[Tensor, Finish]:
        """What the encoder is to see of photos (B, 3, H, W), and what is done to the paintings.

        See :mod:`models.finish` and :func:`models.strokes.prepare`.

        Args:
            ground: what a style wants; without one, nothing is left out or added.
        """
        ground = ground.of(canvas.amounts)
        photo = finish.prepared(photo, ground)
        original = Original(photo, canvas.origins, canvas.stroke_size)
        return self._with_strokes(original.reduced, ground), Finish.of(original, ground)

    def _with_strokes(self, reduced: Original, ground: Ground) -> Tensor:
        if not self.config.strokes:
            return reduced.photo
        amount = self.config.strokes * ground.strokes
        return strokes.prepare(reduced.photo, amount, reduced.origins)

    def encode_content(self, photo: Tensor) -> Tensor:
        """Content features (B, C, H / 4, W / 4); H and W must be multiples of 4, at least 8."""
        height, width = photo.shape[-2:]
        if photo.ndim != 4 or photo.shape[1] != 3 or height % STRIDE or width % STRIDE:
            raise ValueError(
                f"images must have shape (B, 3, H, W) with H and W multiples of {STRIDE}, "
                f"got {tuple(photo.shape)}"
            )
        return self.content_encoder(channels_last(photo) if is_fast(photo) else photo)

    def reconstruct(self, image: Tensor) -> tuple[Tensor, StyleCode]:
        """The image decoded with its own style, and its style code as it is, not refined."""
        return self.coloring.reconstruct(image, self.encode_content(image), self._decode)

    def refine(self, code: StyleCode) -> StyleCode:
        """What a painting's own code becomes before it paints; the same without a refinement."""
        return code if self.refinement is None else self.refinement(code)

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
        return self._decode(content, self.coloring.at_hop(code, strength, covariances))

    def forward(self, photo: Tensor, code: StyleCode, strength: float = 1.0) -> Tensor:
        photo, on_top = self.prepare(photo, ground=code.ground)
        return on_top.on(self.generate(self.encode_content(photo), code, strength), strength)

    @torch.no_grad()
    def encode_style(self, painting: Tensor) -> StyleCode:
        """The style code of paintings (B, 3, H, W) in [-1, 1], of any size."""
        return self.refine(self.read_style(painting))

    @torch.no_grad()
    def read_style(self, painting: Tensor) -> StyleCode:
        """What is read of paintings, not refined; as :meth:`encode_style`."""
        precision = self.precision
        self.compute_in(torch.float32)
        try:
            code = self.coloring.encode(painting, lambda image: self.reconstruct(padded(image)))
        finally:
            self.compute_in(precision)
        return code

    @torch.no_grad()
    def encode_photo(
        self, photo: Tensor, canvas: Canvas = CANVAS, ground: Ground = GROUND
    ) -> Content:
        """What there is to paint in photos (B, 3, H, W) in [-1, 1], of any size.

        Args:
            canvas: where the photos lie on it, what a person wants, and the stroke size.
            ground: that of the style they are to be painted in.
        """
        if photo.ndim != 4 or photo.shape[1] != 3 or 0 in photo.shape:
            raise ValueError(f"photos must have shape (B, 3, H, W), got {tuple(photo.shape)}")
        photo, on_top = self.prepare(padded(photo, canvas.stroke_size), canvas, ground)
        return Content(self.encode_content(photo), on_top, canvas.stroke_size)

    @torch.no_grad()
    def encode_reduced(self, reduced: Original, ground: Ground) -> Content:
        """What there is to paint in photos at the network's own scale, of any size.

        What is painted of it is finished as far as it is at this scale: the rest is
        :meth:`models.finish.Finish.large`.

        Args:
            reduced: the photos, simplified already.
            ground: what is made of them.
        """
        whole = Original(padded(reduced.photo), reduced.origins)
        features = self.encode_content(self._with_strokes(whole, ground))
        return Content(features, Finish.small(whole, ground))

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
        drawing = self.draw(photo, code, strength, content)
        return content.finish.on(drawing, strength)[..., : photo.shape[-2], : photo.shape[-1]]

    @torch.no_grad()
    def draw(self, photo: Tensor, code: StyleCode, strength: float, content: Content) -> Tensor:
        """What :meth:`repaint` makes before it is finished: (B, 3, H, W) over the stroke size.

        Args:
            strength: above 0.
        """
        photo = reduced(photo, content.stroke_size)
        rows, columns = photo.shape[-2:]
        picture = self.generate(content.features, code, strength)[..., :rows, :columns]
        if strength < 1:
            own = self._decode(content.features, lambda *_: None)[..., :rows, :columns]
            picture = picture + (1 - strength) * (photo - own)
        return picture.clamp(-1, 1)

    @torch.no_grad()
    def finish_of(self, photo: Tensor, canvas: Canvas, ground: Ground) -> Finish:
        """What :meth:`repaint` does to what :meth:`draw` makes of photos; see encode_photo."""
        ground = ground.of(canvas.amounts)
        photo = finish.prepared(padded(photo, canvas.stroke_size), ground)
        return Finish.of(Original(photo, canvas.origins, canvas.stroke_size), ground)


def _image(x: Tensor) -> Tensor:
    """Pictures in [-1, 1], in float32 where they are computed in less."""
    halved = x.dtype == torch.bfloat16 and not torch.is_autocast_enabled(x.device.type)
    return torch.tanh(x.float() if halved else x)


def padded(image: Tensor, stroke_size: int = 1) -> Tensor:
    """The image with its right and lower border reflected, up to whole strides of the network.

    Where there is less to reflect than is needed, the last pixel is repeated.
    """
    height, width = image.shape[-2:]
    below = padded_side(height, stroke_size) - height
    right = padded_side(width, stroke_size) - width
    if not below and not right:
        return image
    mode = "reflect" if below < height and right < width else "replicate"
    return F.pad(image, (0, right, 0, below), mode=mode)


def padded_side(length: int, stroke_size: int = 1) -> int:
    """How many pixels of a side there are once an image is :func:`padded`."""
    stride = stroke_size * STRIDE
    return max(stroke_size * SMALLEST, -(-length // stride) * stride)
