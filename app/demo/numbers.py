"""The folded-away panel: what there is to know about a painting."""

import logging
import threading
from pathlib import Path

from app import images, shipped
from app.demo.studio import TITLES
from app.images import Picture
from models.classifier import StyleClassifier, load_classifier

DOTS_PER_INCH = 300  # of a good print


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


def facts(after: Picture, style: str, seconds: float) -> dict[str, str]:
    """What there is to know about a result, in words. seconds: what the painting took."""
    width, height = after.width, after.height
    across, down = (side / DOTS_PER_INCH for side in (width, height))
    return {
        "Style": style,
        "Size": f"{width} × {height} pixels",
        "Printed at 300 dpi": f"{2.54 * across:.1f} × {2.54 * down:.1f} cm "
        f"({across:.1f} × {down:.1f} in)",
        "Painted in": f"{seconds:.1f} seconds",
    }
