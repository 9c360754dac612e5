"""A report's parts: tables as Markdown, a bar plot a table, a sheet of labelled pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

GAP = 4  # pixels
LABEL_WIDTH, LABEL_HEIGHT = 150, 16


@dataclass(frozen=True)
class Table:
    """Numbers with names across and down.

    Attributes:
        name: of its plot's file.
        title: the heading.
        values: column -> row -> number, or None where it was not measured.
        note: printed below: what the numbers are, or why one is missing.
        digits: after the point.
        plotted: the columns that the plot shows; all by default.
    """

    name: str
    title: str
    values: Mapping[str, Mapping[str, float | None]]
    note: str
    digits: int = 3
    plotted: Sequence[str] | None = None

    @property
    def rows(self) -> list[str]:
        """The names of the rows, in the order in which the columns have them."""
        return list(dict.fromkeys(row for column in self.values.values() for row in column))

    def markdown(self) -> str:
        """Heading, table and note."""
        columns = list(self.values)
        lines = [
            f"## {self.title}",
            "",
            f"| | {' | '.join(columns)} |",
            f"| --- |{' ---: |' * len(columns)}",
        ]
        for row in self.rows:
            cells = [self._cell(self.values[column].get(row)) for column in columns]
            lines.append(f"| {row} | {' | '.join(cells)} |")
        return "\n".join([*lines, "", self.note, ""])

    def _cell(self, value: float | None) -> str:
        return "not measured" if value is None else f"{value:.{self.digits}f}"

    def plot(self, path: Path) -> None:
        """The columns as bars side by side, a group a row, as PNG."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        columns = list(self.values if self.plotted is None else self.plotted)
        rows = self.rows
        figure = Figure(figsize=(max(4.5, 0.5 * len(rows) * (1 + len(columns))), 3.2))
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        width = 0.8 / len(columns)
        for i, column in enumerate(columns):
            places = np.arange(len(rows)) + (i - (len(columns) - 1) / 2) * width
            heights = [self.values[column].get(row) or 0.0 for row in rows]
            axes.bar(places, heights, width, label=column)
        axes.set_xticks(np.arange(len(rows)), rows)
        axes.set_title(self.title, fontsize=10)
        axes.legend(fontsize=7)
        # Without the date and the library's version two runs write the same file.
        figure.savefig(
            path, format="png", dpi=110, bbox_inches="tight", metadata={"Software": None}
        )


def contact_sheet(rows: Sequence[tuple[str, Sequence[np.ndarray]]]) -> Image.Image:
    """Rows of pictures, uint8 (side, side, 3) of one side, each row with its name on the left."""
    side = rows[0][1][0].shape[0]
    step = side + GAP
    across = max(len(pictures) for _, pictures in rows)
    page = Image.new("RGB", (LABEL_WIDTH + across * step + GAP, len(rows) * step + GAP), "white")
    draw = ImageDraw.Draw(page)
    for i, (name, pictures) in enumerate(rows):
        top = GAP + i * step
        for line, part in enumerate(name.split("\n")):
            draw.text((GAP, top + line * LABEL_HEIGHT), part[:24], fill="black")
        for j, picture in enumerate(pictures):
            page.paste(Image.fromarray(picture), (LABEL_WIDTH + j * step, top))
    return page
