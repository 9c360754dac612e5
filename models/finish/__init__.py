"""What is done to a photo before the network, and to its painting after it: the filters.

A filter is a file of this package. It is done where its amount says so: a field of
:class:`Ground`, which is what a style wants, scaled by a field of :class:`Amounts`, which is what
a person wants. One more filter is one more file, a field of each of the two, and a place in
:data:`BEFORE` or :data:`AFTER`; the options of the command line, the page and the API come from
the fields of :class:`Amounts`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from models.finish.enlargement import Enlargement
from models.finish.faces import Faces
from models.finish.filter import Filter, Original
from models.finish.flattening import Flattening
from models.finish.grain import Grain
from models.finish.outlines import Outlines
from models.finish.registration import Registration
from models.finish.simplification import Simplification
from models.finish.tint import Tint
from models.finish.tone import Tone

LARGEST_AMOUNT = 3.0  # of each of Amounts
LARGEST_GROUND = 10.0

# Of a photo.
BEFORE: tuple[type[Filter], ...] = (Simplification,)

# Of a painting, in this order. What the network's own scale is enough for is done there, before the
# painting becomes as large as its photo: it sees far, and takes next to no time. What changes
# colors comes before the ink that is printed on top of them.
SMALL: tuple[type[Filter], ...] = (Flattening, Registration, Faces)
LARGE: tuple[type[Filter], ...] = (Enlargement, Tint, Tone, Grain, Outlines)
AFTER = SMALL + LARGE


def control(label: str, help: str, info: str) -> Any:
    """A field of :class:`Amounts`, with what is shown of it.

    Args:
        label: the name of its slider.
        help: what it does, for the command line and the API.
        info: what 0 does, for the line at its slider.
    """
    about = {"label": label, "help": help, "info": info, "range": (0.0, LARGEST_AMOUNT)}
    return field(default=1.0, metadata=about)


def wanted(
    default: float,
    by: str,
    help: str,
    *,
    more: float = 0.0,
    most: float = LARGEST_GROUND,
    since: int = 2,
) -> Any:
    """A field of :class:`Ground`.

    Args:
        by: the field of :class:`Amounts` that scales it.
        help: what it does, for the command line.
        more: what each step of that field above 1 adds, so that a style that wants none can be
            given some.
        most: the largest value there is.
        since: the first version of a checkpoint's header that has it: a new field's is one above
            :data:`models.checkpoint.VERSION`.
    """
    about = {"scaled_by": by, "help": help, "more": more, "range": (0.0, most), "since": since}
    return field(default=default, metadata=about)


def _checked(values: Any, message: str) -> None:
    """Raises ValueError where a field of a dataclass lies outside of its range; NaN does."""
    for each in fields(values):
        if "range" in each.metadata:
            least, most = each.metadata["range"]
            value = getattr(values, each.name)
            if not (isinstance(value, Real) and least <= value <= most):
                raise ValueError(message.format(name=each.name, least=least, most=most, got=value))


@dataclass(frozen=True)
class Amounts:
    """How much a person wants of what a style does to a photo.

    0 is nothing, 1 as much as suits the style, and above 1 more. Each field carries ``label``,
    ``help``, ``info`` and ``range`` as metadata.

    Raises:
        ValueError: an amount out of its range.
    """

    brushwork: float = control(
        "Strokes in plain areas",
        "how strong the strokes are where a photo is plain, a sky say, and a print's grain: 0 is "
        "smooth",
        "0 leaves skies smooth",
    )
    simplify: float = control(
        "Leave out detail",
        "how much detail is left out, of a photo and then of its painting: 0 none",
        "0 keeps every detail",
    )
    outlines: float = control(
        "Outlines",
        "how dark the outlines of what a photo shows are printed on top: 0 none",
        "0 draws none",
    )
    tint: float = control(
        "Add the photo's colors",
        "how much of a photo's own colors is added to the style's: 0 none",
        "0 adds none of the photo's colors",
    )
    tone: float = control(
        "Keep light and dark",
        "how far a painting is light and dark where its photo is: 0 as painted",
        "0 leaves light and dark to the style",
    )

    faces: float = control(
        "Faces",
        "how far skin keeps its photo's shading and one complexion: 0 as painted",
        "0 leaves faces to the style",
    )

    def __post_init__(self) -> None:
        _checked(self, "{name} must be between {least:g} and {most:g}, got {got}")


AS_THE_STYLE = Amounts()


@dataclass(frozen=True)
class Ground:
    """What a style wants of a photo before it is painted, and of its painting.

    Each field carries ``scaled_by``, ``help``, ``more`` and ``range`` as metadata: see
    :func:`wanted`. To simplify is to leave out detail, the photo's and the painting's, and colors
    that an area has beside its own; the grain goes along with the strokes.

    Attributes:
        strokes: a multiple of the strokes that the network was trained with; see
            :mod:`models.strokes`. The others are the amounts of the filters in :data:`BEFORE` and
            :data:`AFTER`.
        flatten: as ``simplify``.
        grain: the standard deviation of values in [-1, 1].

    Raises:
        ValueError: a value out of its range.
    """

    simplify: float = wanted(
        0.0, "simplify", "how much detail is left out of a photo, 0.3 is much", more=0.1
    )
    strokes: float = wanted(
        1.0, "brushwork", "how strong the strokes are in plain parts, 1 as trained", more=1.0
    )
    outlines: float = wanted(
        0.0,
        "outlines",
        "how dark the outlines of what is shown are printed on top, 0 to 1",
        more=0.4,
        most=1.0,
    )
    tint: float = wanted(0.0, "tint", "how much of the photo's own colors is added", more=0.25)
    flatten: float = wanted(0.0, "simplify", "how much of the painting's fine texture is left out")
    grain: float = wanted(0.0, "brushwork", "how strong the grain of the paper is")
    tone: float = wanted(
        0.0,
        "tone",
        "how far light and dark follow the photo's, 0 to 1",
        more=0.3,
        most=1.0,
    )
    register: float = wanted(
        0.0, "simplify", "how far colors end where the photo's do, 0 to 1", most=1.0
    )
    faces: float = wanted(
        0.0,
        "faces",
        "how far skin keeps the photo's shading and one complexion, 0 to 1",
        more=0.3,
        most=1.0,
        since=3,
    )

    def __post_init__(self) -> None:
        _checked(self, "{name} must be from {least:g} to {most:g}, got {got}")

    def of(self, amounts: Amounts) -> Ground:
        """This ground, where a person wants less or more than the style does."""

        def scaled(about: Any, own: float) -> float:
            times = getattr(amounts, about["scaled_by"])
            value = min(times, 1) * own + max(times - 1, 0) * about["more"]
            return min(value, about["range"][1])

        return self._each(scaled)

    @staticmethod
    def blend(grounds: Sequence[Ground], shares: Sequence[float]) -> Ground:
        """One ground between several, each with its share; the shares' sum is 1."""

        def mixed(about: Any, *own: float) -> float:
            value = sum(share * one for share, one in zip(shares, own, strict=True))
            return min(value, about["range"][1])

        first, *others = grounds
        return first._each(mixed, *others)

    def _each(self, change: Callable[..., float], *others: Ground) -> Ground:
        """A ground whose fields are changed, each by its metadata and its values."""
        return Ground(
            **{
                each.name: change(
                    each.metadata, *(getattr(ground, each.name) for ground in (self, *others))
                )
                for each in fields(self)
            }
        )


@dataclass(frozen=True)
class Finish:
    """What is done to a painting after the network: filters, in order."""

    filters: tuple[Filter, ...] = ()

    @staticmethod
    def of(original: Original, ground: Ground) -> Finish:
        """What a style's ground wants for the paintings of some photos."""
        small, large = Finish.small(original.reduced, ground), Finish.large(original, ground)
        return Finish(small.filters + large.filters)

    @staticmethod
    def small(reduced: Original, ground: Ground) -> Finish:
        """What of it is done at the network's own scale, for photos of that scale."""
        return Finish(tuple(kind.of(reduced, amount) for kind, amount in _chosen(SMALL, ground)))

    @staticmethod
    def large(original: Original, ground: Ground) -> Finish:
        """What of it makes the painting as large as the photo, and comes after that."""
        chosen = _chosen(LARGE, ground, original.stroke_size)
        return Finish(tuple(kind.of(original, amount) for kind, amount in chosen))

    def on(self, picture: Tensor, strength: float = 1.0) -> Tensor:
        """Pictures (B, 3, h, w) in [-1, 1], finished; themselves where there is nothing to do.

        Args:
            picture: the upper left corners of the paintings of those photos.
            strength: 0 to 1, how far a picture is on the way from the photo to the painting.

        Returns:
            (B, 3, stroke size h, stroke size w).
        """
        for one in self.filters:
            picture = one.on(picture, strength)
        return picture

    @property
    def differentiable(self) -> Finish:
        """What of it has a gradient, for training."""
        return Finish(tuple(one for one in self.filters if one.has_gradient))

    @property
    def nbytes(self) -> int:
        """Bytes of memory; filters may share a tensor."""
        tensors = (tensor for one in self.filters for tensor in one.tensors)
        return sum({id(tensor): tensor.nbytes for tensor in tensors}.values())


@dataclass(frozen=True)
class Finishes:
    """Those of a batch whose pictures are not all finished alike.

    Args:
        parts: numbers of pictures in the batch, and the finish that was made of their photos.
    """

    parts: tuple[tuple[Sequence[int], Finish], ...] = ()

    def on(self, picture: Tensor) -> Tensor:
        """Pictures (B, 3, H, W) in [-1, 1], those of each part finished; differentiable."""
        result = picture
        for rows, part in self.parts:
            if part.filters:
                index = torch.tensor(rows, device=picture.device)
                result = result.index_copy(0, index, part.on(picture[index]))
        return result


def prepared(photo: Tensor, ground: Ground) -> Tensor:
    """What is made of photos (B, 3, H, W) in [-1, 1] before anything else is."""
    for kind, amount in _chosen(BEFORE, ground):
        photo = kind.of(Original(photo), amount).on(photo, 1.0)
    return photo


def reach(network: int, ground: Ground, stroke_size: int = 1) -> int:
    """How far from a pixel of a finished painting something in the photo may matter, pixels.

    Args:
        network: how far in the photo that the network sees; see :attr:`models.Repainter.reach`.
    """
    result = network
    for kind, _ in _chosen(SMALL, ground):
        result = kind.reach(result, 1)
    return _reach(result, ground, stroke_size)


def large_reach(ground: Ground, stroke_size: int = 1) -> int:
    """The same where the painting at the network's own scale is there as a whole already."""
    return _reach(0, ground, stroke_size)


def prepared_reach(ground: Ground) -> int:
    """How far from a pixel of a :func:`prepared` photo something in the photo may matter."""
    result = 0
    for kind, _ in _chosen(BEFORE, ground):
        result = kind.reach(result, 1)
    return result


def _reach(small: int, ground: Ground, stroke_size: int) -> int:
    result = small
    for kind, _ in _chosen(LARGE, ground, stroke_size):
        result = kind.reach(result, stroke_size)
    return result + prepared_reach(ground)


def _chosen(
    filters: Sequence[type[Filter]], ground: Ground, stroke_size: int = 1
) -> Iterator[tuple[type[Filter], float]]:
    """The filters that are wanted, each with its amount."""
    amounts = {**asdict(ground), "stroke_size": float(stroke_size)}
    for kind in filters:
        if amounts[kind.amount] > kind.nothing:
            yield kind, amounts[kind.amount]
