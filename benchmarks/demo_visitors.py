"""How many visitors the demo serves at a time on this machine.

Each visitor taps a style every --think seconds, gets a preview, and then the whole painting unless
they tap again: what the page asks, without the browser and the line to it, some 0.1 s. It is
enough when nine previews of ten are there within --patience seconds:

    python -m benchmarks.demo_visitors --visitors 1 2 4 8 16 --out demo_visitors.json
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import tempfile
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import skimage.data
import torch
from PIL import Image

from app.painter import Painter
from app.shipped import CHECKPOINT

PHOTO_SIDE = 1024  # pixels: what the page sends of a photo by default
QUIET = 1.2  # seconds without a tap before the whole follows, as in the page


class Visitor(threading.Thread):
    """Taps styles on a photo of their own until told to stop; notes how long each took."""

    def __init__(self, actions, photo: Path, think: float, seconds: float, number: int) -> None:
        super().__init__(daemon=True)
        self.actions, self.photo, self.think = actions, photo, think
        self.until, self.number = time.monotonic() + seconds, number
        self.previews: list[float] = []
        self.wholes: list[float] = []
        self.wrong: list[str] = []
        self._chance = random.Random(number)

    def run(self) -> None:
        styles = self.actions.studio.every_style
        time.sleep(self._chance.uniform(0, self.think))
        while time.monotonic() < self.until:
            tapped = time.monotonic()
            style = self._chance.choice(styles)
            if self._ask(self.actions.preview, style, "preview"):
                self.previews.append(time.monotonic() - tapped)
            pause = self._chance.uniform(0.5, 1.5) * self.think
            # The next tap ends what is not painted until then.
            timer = threading.Timer(
                max(0.0, pause - (time.monotonic() - tapped)), self.actions.stop, [self._request]
            )
            timer.start()
            time.sleep(QUIET)
            if self._ask(self.actions.paint, style, "painted"):
                self.wholes.append(time.monotonic() - tapped)
            timer.cancel()
            time.sleep(max(0.0, pause - (time.monotonic() - tapped)))

    @property
    def _request(self) -> SimpleNamespace:
        return SimpleNamespace(session_hash=f"visitor {self.number}")

    def _ask(self, action, style: str, wanted: str) -> bool:
        choices = {"photo": str(self.photo), "style": style, "size": PHOTO_SIDE}
        answers = action(self._request, {"has_photo": True}, **choices)
        *_, answer = answers
        if answer.get("kind") == "sorry":
            self.wrong.append(answer["text"])
        return answer.get("kind") == wanted


def measure(actions, folder: Path, visitors: int, think: float, seconds: float) -> dict:
    """Of so many visitors: median and 90th percentile of previews and of whole paintings."""
    picture = np.asarray(Image.fromarray(skimage.data.astronaut()).resize((PHOTO_SIDE,) * 2))
    crowd = []
    for number in range(visitors):
        photo = folder / f"photo-{number}.jpg"
        Image.fromarray(np.roll(picture, 40 * number, axis=1)).save(photo, quality=92)
        crowd.append(Visitor(actions, photo, think, seconds, number))
    for visitor in crowd:
        visitor.start()
    for visitor in crowd:
        visitor.join()
    row: dict = {"visitors": visitors, "wrong": [text for one in crowd for text in one.wrong]}
    for name in ("previews", "wholes"):
        times = [t for one in crowd for t in getattr(one, name)]
        row[name] = len(times)
        for percent in (50, 90):
            row[f"{name}_{percent}"] = float(np.percentile(times, percent)) if times else None
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--checkpoint", type=Path, default=CHECKPOINT)
    parser.add_argument("--visitors", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument("--think", type=float, default=10.0, help="seconds between two taps")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each crowd")
    parser.add_argument("--patience", type=float, default=3.0, help="seconds for a preview")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the numbers there as JSON")
    arguments = parser.parse_args()
    from app.demo.actions import Actions
    from app.demo.studio import Studio

    rows = []
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}; "
        f"a tap every {arguments.think:g} s, {arguments.seconds:g} s each"
    )
    print("visitors   previews  median   90 %    whole  median   90 %   seconds")
    with tempfile.TemporaryDirectory() as folder:
        actions = Actions(Studio(Painter(arguments.checkpoint, "cpu"), Path(folder) / "results"))
        measure(actions, Path(folder), 1, 1.0, 4.0)  # warms up
        for visitors in arguments.visitors:
            row = measure(actions, Path(folder), visitors, arguments.think, arguments.seconds)
            rows.append(row)
            cells = [
                f"{row[name]:9} {_seconds(row[f'{name}_50'])} {_seconds(row[f'{name}_90'])}"
                for name in ("previews", "wholes")
            ]
            print(f"{visitors:8} {'  '.join(cells)}", *row["wrong"][:1], flush=True)
    served = [
        row["visitors"]
        for row in rows
        if row["previews_90"] is not None and row["previews_90"] <= arguments.patience
    ]
    most = max(served, default=0)
    print(f"With nine previews of ten within {arguments.patience:g} s: {most} visitors at a time.")
    if arguments.out:
        report = {"cores": os.cpu_count(), "think": arguments.think, "rows": rows, "served": most}
        arguments.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 0


def _seconds(value: float | None) -> str:
    return "      -" if value is None else f"{value:7.2f}"


if __name__ == "__main__":
    raise SystemExit(main())
