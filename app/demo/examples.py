"""Example photos from installed packages, and the page's own pictures, painted from the first."""

import base64
import contextlib
import hashlib
import io
import json
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from PIL import Image, ImageOps
from tqdm import tqdm

from app import images
from app.demo.studio import Studio, Wish, jpeg
from app.images import Picture

# What a photo shows, for those who cannot see it, and the file; gradio is always there.
_PHOTOS = [
    ("sklearn", "datasets/images/china.jpg", "A pagoda above a lake"),
    ("sklearn", "datasets/images/flower.jpg", "A red dahlia"),
    ("skimage", "data/chelsea.png", "A cat's face"),
    ("skimage", "data/coffee.png", "A cup of coffee"),
    ("skimage", "data/astronaut.png", "An astronaut"),
    ("gradio", "media_assets/images/tower.jpg", "The Eiffel Tower, lit"),
    ("gradio", "media_assets/images/lion.jpg", "A lion at rest"),
    ("gradio", "media_assets/images/cheetah.jpg", "A running cheetah"),
]
_MOST = 5

# Pixels: painted at the first, since strokes have a size of their own, shown at the second or less.
_PAINTED_SIDE, _THUMBNAIL_SIDE = 256, 160
# Of the example on arrival, of the examples' pictures, and of a link's preview.
_ARRIVAL_SIDE, _SMALL_SIDE, _CARD_SIDES = 800, 144, (1200, 630)

# Among the pictures that are painted at the start; no style has a slash in its name.
_ARRIVAL = "/arrival"
CARD = "card.jpg"


def example_photos() -> list[tuple[str, str]]:
    """The path of each example photo, and what it shows."""
    found = []
    for package, file, shows in _PHOTOS:
        spec = find_spec(package)
        if spec is not None and spec.origin is not None:
            path = Path(spec.origin).parent / file
            if path.is_file():
                found.append((str(path), shows))
    return found[:_MOST]


@dataclass(frozen=True)
class Shown:
    """The page's own pictures: files' bytes by their names, under page/.

    styles: the name of each style's thumbnail. examples: of each what it shows, and the names of
    its small picture and of its file.
    """

    files: dict[str, bytes]
    styles: dict[str, str]
    examples: list[tuple[str, str, str]]


def pictures(studio: Studio, cache: Path | None = None) -> Shown:
    """The styles' thumbnails, a painted example, the examples, and what a link's preview shows.

    cache: a folder where what is painted is kept for the next start; it is painted anew for other
    weights, styles or another photo.
    """
    photo = images.load(example_photos()[0][0])
    painted = _painted(studio, photo, cache)
    styles = {name: f"style-{number}.jpg" for number, name in enumerate(studio.every_style)}
    files = {styles[name]: painted[name] for name in styles}
    before = jpeg(photo, _ARRIVAL_SIDE)
    files |= {"example-before.jpg": before, "example-after.jpg": painted.get(_ARRIVAL, before)}
    files[CARD] = _card(before, files["example-after.jpg"])
    examples = []
    for path, shows in example_photos():
        name = Path(path).name
        files |= {
            name: Path(path).read_bytes(),
            f"small-{name}.jpg": jpeg(images.load(path, max_size=_SMALL_SIDE), _SMALL_SIDE),
        }
        examples.append((shows, f"small-{name}.jpg", name))
    return Shown(files, styles, examples)


def _painted(studio: Studio, photo: Picture, cache: Path | None) -> dict[str, bytes]:
    """The photo's middle in each style, by the style's name, and the whole photo in the last."""
    square = _square(photo)
    wanted = [*studio.every_style, _ARRIVAL] if studio.names else []
    file = None
    if cache is not None:
        file = cache / f"pictures-{_fingerprint(studio, square)}.json"
        with contextlib.suppress(OSError, ValueError):
            kept = json.loads(file.read_text(encoding="utf-8"))
            if sorted(kept) == sorted(wanted):
                return {name: base64.b64decode(text) for name, text in kept.items()}
    names = tqdm(studio.every_style, desc="painting the styles' thumbnails", disable=None)
    painted = {
        name: jpeg(studio.paint(square, Wish(name)).after, _THUMBNAIL_SIDE) for name in names
    }
    if studio.names:
        arrival = studio.paint(photo, Wish(arrival_style(studio), max_size=_ARRIVAL_SIDE)).after
        painted[_ARRIVAL] = jpeg(arrival, _ARRIVAL_SIDE)
    if file is not None:
        # Without the cache the next start takes a few seconds longer, and nothing else.
        with contextlib.suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            texts = {name: base64.b64encode(data).decode() for name, data in painted.items()}
            file.write_text(json.dumps(texts), encoding="utf-8")
    return painted


def arrival_style(studio: Studio) -> str:
    """The style of the example that a visitor finds on arrival: the one chosen at first."""
    return "vangogh" if "vangogh" in studio.names else studio.names[0]


def _card(before: bytes, after: bytes) -> bytes:
    """The left half of the photo beside the right one of its painting, as previews want it."""
    halves = [Image.open(io.BytesIO(data)).convert("RGB") for data in (before, after)]
    card = halves[1].copy()
    middle = card.width // 2
    card.paste(halves[0].resize(card.size).crop((0, 0, middle, card.height)), (0, 0))
    card.paste("white", (middle - 2, 0, middle + 2, card.height))
    across, down = _CARD_SIDES
    fitted = ImageOps.fit(card, (across, down), Image.Resampling.LANCZOS)
    file = io.BytesIO()
    fitted.save(file, "JPEG", quality=85)
    return file.getvalue()


def _square(photo: Picture) -> Picture:
    side = min(photo.width, photo.height)
    top, left = (photo.height - side) // 2, (photo.width - side) // 2
    middle = photo.rgb[top : top + side, left : left + side]
    return images.resize(Picture(middle), _PAINTED_SIDE)


def _fingerprint(studio: Studio, photo: Picture) -> str:
    digest = hashlib.sha256(photo.rgb.tobytes())
    weights = list(studio.painter.network.state_dict().values())
    for name in studio.every_style:
        digest.update(name.encode())
        code = studio.painter.style(name)
        digest.update(repr(code.ground).encode())
        weights += code.tensors
    for tensor in weights:
        digest.update(tensor.cpu().numpy().tobytes())
    return digest.hexdigest()[:32]
