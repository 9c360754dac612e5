"""Example photos from installed packages, and the styles' thumbnails, painted from the first."""

import contextlib
import hashlib
import json
from importlib.util import find_spec
from pathlib import Path

from tqdm import tqdm

from app import images
from app.demo.studio import Studio, Wish, data_url
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


def thumbnails(studio: Studio, photo: Picture, cache: Path | None = None) -> dict[str, str]:
    """The photo's middle in each style of the studio, a data URL by the style's name.

    cache: a folder where they are kept for the next start; they are painted anew for other
    weights, styles or another photo.
    """
    photo = _square(photo)
    file = None
    if cache is not None:
        file = cache / f"thumbnails-{_fingerprint(studio, photo)}.json"
        with contextlib.suppress(OSError, ValueError):
            kept = json.loads(file.read_text(encoding="utf-8"))
            if sorted(kept) == sorted(studio.every_style):
                return kept
    names = tqdm(studio.every_style, desc="painting the styles' thumbnails", disable=None)
    painted = {
        name: data_url(studio.paint(photo, Wish(name)).after, _THUMBNAIL_SIDE) for name in names
    }
    if cache is not None and file is not None:
        # Without the cache the next start takes a few seconds longer, and nothing else.
        with contextlib.suppress(OSError):
            cache.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(painted), encoding="utf-8")
    return painted


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
