"""What the generator's step minimizes in training; the discriminator's is beside this file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models import finish, losses
from models.augmentation import augmented
from models.configuration import STRIDE
from models.efficient import EfficientNetFeatures
from models.finish import Finish, Finishes, Ground
from models.network import Repainter
from models.perceptual import PerceptualNetwork
from models.reference import generator_reference
from models.strokes import Canvas
from models.style_code import StyleCode
from wct.orthogonal import orthogonal_loss

CONTENT_LAYER = "relu3_1"
# Deeper layers carry strokes, shallow ones color, which the hops transfer by themselves.
STYLE_LAYERS = {"relu1_1": 0.5, "relu2_1": 1.0, "relu3_1": 1.5}
DEEPEST_LAYER = "relu3_1"  # what a PerceptualNetwork for this objective must reach
JITTER = 8  # pixels cut before the frozen networks look, so that their strides leave no grid


@dataclass(frozen=True)
class Weights:
    """How much each loss counts; a loss of weight 0 is not computed."""

    content: float = 0.0  # perceptual, of the photo
    style: float = 0.0  # perceptual, of the painting
    variation: float = 0.0
    flatness: float = 0.0  # variation where the photo is plain
    grid: float = 0.0  # what repeats with the network's stride
    adversarial: float = 0.0
    reference: float = 0.0  # adversarial, by the head that is told the reference
    likeness: float = 0.0  # of the discriminator's features' moments to the reference's
    reconstruction: float = 0.0
    cycle: float = 0.0
    content_code: float = 0.0
    style_code: float = 0.0
    whitening: float = 0.0  # GD-WCT's regularizers
    coloring: float = 0.0
    orthogonality: float = 0.0  # of the convolution before each hop

    @property
    def perceptual(self) -> bool:
        return self.content > 0 or self.style > 0

    def at_step(self, step: int, every: int) -> Weights:
        """Those of a step where the costly losses are asked in every so-manieth step alone.

        Content, style and reconstruction count so many times more there, and nothing between.
        """
        if every == 1:
            return self
        times = every if step % every == 0 else 0
        return replace(
            self,
            content=times * self.content,
            style=times * self.style,
            reconstruction=times * self.reconstruction,
        )


PERCEPTUAL = Weights(
    content=0.4, style=3, variation=4, flatness=6, grid=5, adversarial=1, reconstruction=3
)
# Of references of any kind: with two adversarial losses, things are lost with less of the content.
ANY_PAINTING = replace(PERCEPTUAL, content=1, variation=3, reference=1, likeness=0.3)
PAPER = Weights(adversarial=1, reconstruction=10, cycle=10, content_code=1, style_code=1)
GD = replace(PAPER, whitening=0.001, coloring=10)


def at_progress(weights: Weights, progress: float) -> Weights:
    """The perceptual recipe's order: colors first, then strokes, with the discriminator early.

    Args:
        progress: share of the run that is done, 0 to 1.
    """
    if not weights.perceptual:
        return weights
    strokes = min(1.0, 1 / 3 + progress / 0.3)
    adversarial = min(1.0, max(0.0, (progress - 0.1) / 0.1))
    return replace(
        weights, style=weights.style * strokes, adversarial=weights.adversarial * adversarial
    )


@dataclass(frozen=True)
class Batch:
    """Photos and paintings (B, 3, side, side) in [-1, 1] and the paintings' domains (B,).

    Attributes:
        given: what the network gets to see of the photos, if not the photos themselves: the same
            ones, grained or compressed.
        canvas: where the photos lie under the strokes that the network sees.
        grounds: what each photo's style wants of it; nothing where there are none.
        calm: how many times its total variation counts, for each photo; once where there are none.
        signatures: (B, N), of the paintings, where the discriminator is told them.
        named: (B,), 1 where a painting's domain is one painter or school, 0 where it is of many and
            has no head of its own; None: all are.
        taught: the learned codes, by number, that the first photos are painted with; their
            paintings only say what the result should look like.
        window: top and left, 0 to JITTER - 1: where the frozen networks look.
    """

    photos: Tensor
    paintings: Tensor
    domains: Tensor
    given: Tensor | None = None
    taught: tuple[int, ...] = ()
    window: tuple[int, int] = (0, 0)
    canvas: Canvas = field(default_factory=Canvas)
    grounds: tuple[Ground, ...] = ()
    calm: tuple[float, ...] = ()
    signatures: Tensor | None = None
    named: Tensor | None = None

    def seen(self, images: Tensor) -> Tensor:
        """The part of images (B, 3, side, side) that the frozen networks look at."""
        top, left = self.window
        height, width = (side - JITTER for side in images.shape[-2:])
        return images[..., top : top + height, left : left + width]


@dataclass(frozen=True)
class Judges:
    """What looks at the results: two frozen networks and one that learns.

    Attributes:
        augment: share of the pictures that the discriminator sees turned or recolored.
    """

    perceptual: PerceptualNetwork | None = None
    projection: EfficientNetFeatures | None = None
    # A MultiScaleDiscriminator of pixels or a FeatureDiscriminator: of what `project` gives.
    discriminator: Any = None
    augment: float = 0.0

    def project(self, image: Tensor) -> Tensor | dict[str, Tensor]:
        """What the discriminator looks at: features where there are some, else pixels."""
        if self.augment:
            image = augmented(image, self.augment)
        return image if self.projection is None else self.projection(image)


# What the discriminator saw: of the photos, of the paintings, of the photos painted, and with the
# paper's losses of the paintings made photos.
Judged = tuple[Tensor | dict[str, Tensor], ...]


@dataclass(frozen=True)
class Way:
    """One image's content with another's style, and what the network made of them."""

    content: Tensor
    style: StyleCode
    image: Tensor


class GeneratorObjective(nn.Module):
    """The generator's losses of one step, each a mean over the batch.

    A module whose forward is the whole step, so that DistributedDataParallel can wrap it.

    Args:
        network: the one that learns, or is frozen where only codes do.
        codes: the learned codes, by number.
        judges: not part of the module; their gradients are none of its business.
        photo_domain: the number of the photos' domain, which the way from painting to photo is
            judged by; only the paper's losses go it.
    """

    def __init__(
        self,
        network: Repainter,
        codes: nn.ModuleList,
        judges: Judges,
        photo_domain: int | None = None,
    ) -> None:
        super().__init__()
        self.network, self.codes, self.judges = network, codes, judges
        self.photo_domain = photo_domain

    def forward(self, batch: Batch, weights: Weights) -> tuple[dict[str, Tensor], Judged | None]:
        """The losses by name, unweighted, and what the discriminator's step needs."""
        network, x, y = self.network, batch.photos, batch.paintings
        terms: dict[str, Tensor] = {}
        taught = len(batch.taught)
        styles = [self.codes[number]() for number in batch.taught]
        if taught < len(y):
            with torch.set_grad_enabled(torch.is_grad_enabled() and self._reads(weights)):
                own_y, style_y = network.reconstruct(y[taught:])
            styles.append(network.refine(style_y))
            if weights.reconstruction > 0:
                terms["reconstruction"] = F.l1_loss(own_y, y[taught:])
        style = StyleCode.cat(styles)
        covariances: list[Tensor] | None = [] if weights.whitening > 0 else None
        given, x, finishes = self._prepared(batch)
        content_x = network.encode_content(given)
        painted = network.generate(content_x, style, covariances=covariances)
        ways = [Way(content_x, style, painted)]
        if weights.cycle > 0:
            ways.append(self._other_way(batch, terms, covariances))
        if weights.cycle > 0 or weights.content_code > 0:
            contents = [network.encode_content(way.image) for way in ways]
            self._back(batch, ways, contents, weights, terms)
        if weights.style_code > 0:
            terms["style_code"] = _total(
                losses.style_code_loss(network.reconstruct(way.image)[1], way.style.detach())
                for way in ways
            )
        if covariances is not None:
            terms["whitening"] = losses.whitening_penalty(covariances)
        if weights.coloring > 0:
            predicted = [pair for way in ways for pair in network.coloring.predicted(way.style)]
            terms["coloring"] = losses.coloring_penalty([matrix for matrix, _ in predicted])
        if weights.orthogonality > 0:
            terms["orthogonality"] = _total(
                orthogonal_loss(layer.weight) for layer in network.before_hops
            )
        if weights.variation > 0:
            terms["variation"] = losses.total_variation(painted, batch.calm)
        if weights.grid > 0:
            terms["grid"] = losses.grid_share(painted, STRIDE)
        if weights.flatness > 0:
            terms["flatness"] = losses.flat_variation(painted, x)
        painted = finishes.on(painted)
        if weights.perceptual:
            terms |= self._perceptual(batch, x, painted)
        judged = None
        if self.judges.discriminator is not None:
            if len(ways) > 1 and self.photo_domain is not None and batch.signatures is None:
                judged = self._adversarial_both_ways(batch, ways, weights, terms)
            else:
                judged = self._adversarial(batch, painted, weights, terms)
        return terms, judged

    @staticmethod
    def _reads(weights: Weights) -> bool:
        """Whether a step also moves how paintings are read, which costs a third of it."""
        return weights.reconstruction > 0 or weights.reference == 0

    def _other_way(
        self, batch: Batch, terms: dict[str, Tensor], covariances: list[Tensor] | None
    ) -> Way:
        """Painting to photo (Section 5.3), and the photo with its own style."""
        network, x = self.network, batch.photos
        own_x, style_x = network.reconstruct(x)
        terms["reconstruction"] = terms.get("reconstruction", 0) + F.l1_loss(own_x, x)
        content_y = network.encode_content(batch.paintings)
        return Way(
            content_y, style_x, network.generate(content_y, style_x, covariances=covariances)
        )

    def _back(
        self,
        batch: Batch,
        ways: list[Way],
        contents: list[Tensor],
        weights: Weights,
        terms: dict[str, Tensor],
    ) -> None:
        """What is left of the content of each way, and with both of them the way back."""
        if weights.content_code > 0:
            terms["content_code"] = _total(
                F.l1_loss(content, way.content.detach())
                for content, way in zip(contents, ways, strict=True)
            )
        if weights.cycle > 0:
            there, other = ways
            back_x = self.network.generate(contents[0], other.style)
            back_y = self.network.generate(contents[1], there.style)
            terms["cycle"] = F.l1_loss(back_x, batch.photos) + F.l1_loss(back_y, batch.paintings)

    @torch.no_grad()
    def _prepared(self, batch: Batch) -> tuple[Tensor, Tensor, Finishes]:
        """What the network sees of the photos, what of them is to be recognized, and the finishes.

        What a style wants left out is asked of no picture in it.
        """
        seen = batch.photos if batch.given is None else batch.given
        if not batch.grounds:
            given, _ = self.network.prepare(seen, batch.canvas)
            return given, batch.photos, Finishes()
        given, shown = torch.empty_like(seen), batch.photos.clone()
        parts: list[tuple[list[int], Finish]] = []
        for ground in dict.fromkeys(batch.grounds):
            rows = [i for i, own in enumerate(batch.grounds) if own == ground]
            origins = batch.canvas.origins
            origins = origins if len(origins) == 1 else [origins[i] for i in rows]
            canvas = replace(batch.canvas, origins=origins)
            given[rows], own = self.network.prepare(seen[rows], canvas, ground)
            shown[rows] = finish.prepared(shown[rows], ground.of(canvas.amounts))
            parts.append((rows, own.differentiable))
        return given, shown, Finishes(tuple(parts))

    def _perceptual(self, batch: Batch, x: Tensor, painted: Tensor) -> dict[str, Tensor]:
        look: Any = self.judges.perceptual
        with torch.no_grad():
            of_x = look(batch.seen(x), (CONTENT_LAYER,))[CONTENT_LAYER]
            of_y = look(batch.seen(batch.paintings), tuple(STYLE_LAYERS))
        layers = tuple(sorted({CONTENT_LAYER, *STYLE_LAYERS}))
        features = look(batch.seen(painted), layers)
        return {
            "content": losses.content_loss(features[CONTENT_LAYER], of_x),
            "style": losses.style_loss(features, of_y, STYLE_LAYERS),
        }

    def _adversarial(
        self, batch: Batch, painted: Tensor, weights: Weights, terms: dict[str, Tensor]
    ) -> Judged:
        discriminator = self.judges.discriminator
        of_painted = self.judges.project(batch.seen(painted))
        discriminator.requires_grad_(False)
        if batch.signatures is not None:
            hidden = discriminator.hidden(of_painted)
            heads = discriminator.heads(hidden)
            if weights.reference > 0:
                scores = discriminator.reference_scores(hidden, batch.signatures)
                terms["reference"] = generator_reference(scores)
            if weights.likeness > 0:
                terms["likeness"] = discriminator.unlikeness(of_painted, batch.signatures)
        elif weights.adversarial > 0:
            heads = discriminator.all_heads(of_painted)
        if weights.adversarial > 0:
            terms["adversarial"] = losses.generator_adversarial(heads, batch.domains, batch.named)
        discriminator.requires_grad_(True)
        with torch.no_grad():
            of_x, of_y = (
                self.judges.project(batch.seen(images))
                for images in (batch.photos, batch.paintings)
            )
        return of_x, of_y, _detach(of_painted)

    def _adversarial_both_ways(
        self, batch: Batch, ways: list[Way], weights: Weights, terms: dict[str, Tensor]
    ) -> Judged:
        """The paper's: each result is judged by the head of the domain that it was made for."""
        discriminator = self.judges.discriminator
        photo = torch.full_like(batch.domains, self.photo_domain or 0)
        seen = [self.judges.project(batch.seen(way.image)) for way in ways]
        if weights.adversarial > 0:
            discriminator.requires_grad_(False)
            scores = [discriminator.all_heads(image) for image in seen]
            discriminator.requires_grad_(True)
            terms["adversarial"] = _total(
                losses.own_head_adversarial(heads, domains)
                for heads, domains in zip(scores, (batch.domains, photo), strict=True)
            )
        with torch.no_grad():
            real = [self.judges.project(batch.seen(x)) for x in (batch.photos, batch.paintings)]
        return *real, *(_detach(image) for image in seen)


def _total(terms: Iterable[Tensor]) -> Tensor:
    first, *others = terms
    return sum(others, first)


def _detach(seen: Tensor | Mapping[str, Tensor]) -> Tensor | dict[str, Tensor]:
    if isinstance(seen, Mapping):
        return {layer: features.detach() for layer, features in seen.items()}
    return seen.detach()
