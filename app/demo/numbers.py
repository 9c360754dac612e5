"""The folded-away panel: what can be measured of a photo and its painting."""

import html
import logging
import threading
from pathlib import Path

from app import images, shipped
from app.demo.studio import TITLES
from app.images import Picture
from app.painter import Painter
from models.classifier import StyleClassifier, load_classifier
from models.measures import sharpness


class Judge:
    """A classifier of styles; what it says of a picture is a share a class."""

    def __init__(self, classifier: StyleClassifier) -> None:
        self._classifier = classifier
        self._one_at_a_time = threading.Lock()

    def opinion(self, picture: Picture) -> dict[str, float]:
        """The share, 0..1, that each class has in its opinion, by the class's title."""
        tensor = images.to_tensor(images.flatten(picture).rgb)
        with self._one_at_a_time:
            (shares,) = self._classifier.judge(tensor).probabilities.tolist()
        classes = self._classifier.classes
        titles = {"photo": "a photo", **TITLES}
        return {titles.get(name, name): s for name, s in zip(classes, shares, strict=True)}


def find_judge(file: Path = shipped.CLASSIFIER) -> Judge | None:
    """The judge that comes with Repaint; None where it or a package that it needs is absent."""
    try:
        return Judge(load_classifier(file)[0])
    except (OSError, ValueError) as error:
        logging.getLogger(__name__).info("no opinion will be shown: %s", error)
        return None


def table(before: Picture, after: Picture, seconds: float, painter: Painter) -> str:
    """An HTML table of a result's numbers. seconds: what the painting took."""
    rows = {
        "Sharpness of the photo": f"{_sharpness(before):.1f}",
        "Sharpness of the painting": f"{_sharpness(after):.1f}",
        "Size": f"{after.width} × {after.height} pixels",
        "Seconds to paint": f"{seconds:.2f}",
        "Checkpoint": painter.path.name,
        "Trained for": f"{painter.record['steps']:,} steps" if painter.record.get("steps") else "",
    }
    lines = (
        f"<tr><th scope='row'>{name}</th><td>{html.escape(value)}</td></tr>"
        for name, value in rows.items()
        if value
    )
    return f"<table>{''.join(lines)}</table>"


def _sharpness(picture: Picture) -> float:
    return float(sharpness(images.to_tensor(picture.rgb)))
