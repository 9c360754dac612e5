"""How a photo is to look when it is painted: all options but the photo, the style and the size.

Each field says of itself, as metadata, what the command line, the page and the API show of it:

- ``label``: its name on the page; ``help``: what it does; ``info``: what the lower end does;
- ``range``: its least and its greatest value, or ``choices``: all its values;
- ``switched_on``: the choice that is meant where it is only switched on; ``step``: of a slider;
- ``words``: what choices are called on the page.

One more option is one more field, and its use; one that scales what a style wants is a field of
:class:`models.Amounts`, whose fields a look has, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from typing import Any

import models
from app import color
from models.finish.enlargement import SIZES

AUTO = "auto"
OWN_SIDE = 500  # pixels: the longest side of the photos that the network's own strokes suit


def _number(default: float, most: float, step: float, label: str, help: str, info: str) -> Any:
    about = {"range": (0.0, most), "step": step, "label": label, "help": help, "info": info}
    return field(default=default, metadata=about)


def _choice(
    default: Any,
    choices: Sequence[Any],
    label: str,
    help: str,
    switched_on: Any = None,
    words: Mapping[Any, str] | None = None,
) -> Any:
    about = {"choices": tuple(choices), "switched_on": switched_on, "label": label, "help": help}
    about["words"] = words or {}
    return field(default=default, metadata=about)


@dataclass(frozen=True, kw_only=True)
class Look(models.Amounts):
    """What a person wants of a painting; the amounts are those of :class:`models.Amounts`.

    Attributes:
        strength: 0 gives back the photo's pixels, 1 the full style.
        brush_size: the stroke size: how many times larger than the network's own the strokes are,
            or AUTO; see :meth:`stroke_size`.
        keep_color: which of :data:`app.color.WAYS` keeps the photo's colors; None: none does.

    Raises:
        ValueError: a value that an option cannot have, with its name and those that it can.
    """

    strength: float = _number(
        1.0,
        most=1.0,
        step=0.05,
        label="Strength",
        help="0 is the photo, 1 (the default) the full style",
        info="0 is the photo as it is",
    )
    brush_size: int | str = _choice(
        AUTO,
        (AUTO, *SIZES),
        label="Strokes",
        words={AUTO: "automatic", 1: "fine", 2: "broad", 4: "very broad", 8: "huge"},
        help="how many times larger the strokes are than the few pixels that the network paints "
        "them with; larger is faster, too. auto, the default, goes by the picture's size, so that "
        "pictures of all sizes look alike when they are seen whole",
    )
    # The first of color's two ways is the better: its colors are closer to the photo's (CIEDE2000
    # 0.5 against 2.7, with strokes averaged out), and so is its luma to the painting's; see
    # benchmarks/blend.py.
    keep_color: str | None = _choice(
        None,
        (None, *color.WAYS),
        label="Keep the photo's colors",
        help="keep the photo's colors",
        switched_on=color.WAYS[0],
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for option in fields(self):
            choices, value = option.metadata.get("choices"), getattr(self, option.name)
            if choices is not None and value not in choices:
                known = tuple(choice for choice in choices if choice is not None)
                raise ValueError(f"{option.name} must be one of {known}, got {value!r}")

    def stroke_size(self, height: int, width: int) -> int:
        """How many times larger than the network's own the strokes are, on a photo of that size.

        With :data:`AUTO` the step nearest to as many times as the photo's longest side is larger
        than :data:`OWN_SIDE`: strokes then have one size on a canvas seen whole. Pixels.
        """
        if isinstance(self.brush_size, int):
            return self.brush_size
        times = max(height, width) / OWN_SIDE
        return max((size for size in SIZES if size <= math.sqrt(2) * times), default=SIZES[0])


AS_THE_STYLE = Look()

# Its fields by their names, in the order in which they are shown: the strength leads.
OPTIONS: Mapping[str, Field] = {
    option.name: option
    for option in sorted(fields(Look), key=lambda option: option.name != "strength")
}

# Those of them that scale what a style wants.
AMOUNTS = frozenset(amount.name for amount in fields(models.Amounts))


def explained(option: Field) -> str:
    """What one of a look's fields does, and with which values; for the command line and the API."""
    about, text = option.metadata, option.metadata["help"]
    if option.name in AMOUNTS:
        return f"{text}; 1 (the default) is what suits the style, and above it more"
    if about.get("switched_on") is None:
        return text
    known = " or ".join(str(choice) for choice in about["choices"] if choice is not None)
    return f"{text}: {known} (default: {about['switched_on']})"


def chosen(option: Field, value: Any) -> Any:
    """The choice that is written as a value is, "" for None; the value itself where none is."""
    known = option.metadata.get("choices", ())
    written = {"" if choice is None else str(choice): choice for choice in known}
    return written.get(str(value), value)
