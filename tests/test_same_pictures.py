"""The pictures that the shipped network makes are those that were recorded, whatever is refactored.

``same_pictures.png`` holds the middle of every picture, and a digest of the whole. Another
processor rounds otherwise, so the pixels are compared with a tolerance; where the record was made
on this machine, ``REPAINT_SAME_PICTURES=exact`` asks for every bit. ``python -m
tests.test_same_pictures`` records them anew: only for weights or an intended change that is
said in the commit.
"""

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import skimage.data
import torch
from gradio_client import Client, handle_file
from PIL import Image
from PIL.PngImagePlugin import PngInfo

import models
from app import images, stylize, video
from app.images import Picture
from app.limits import Limits
from app.look import Look
from app.painter import Painter, Region
from app.shipped import CHECKPOINT
from tests.demo_server import serving
from tests.patience import PATIENCE

RECORD = Path(__file__).with_name("same_pictures.png")
SHOWN = 48  # pixels of a picture's middle that the record holds, a side

# Levels of 255. Other kernels of the same layers (mkldnn off) move single pixels by one level, by
# 0.005 on average; of any two of the pictures below, the most alike differ by 2.3 on average.
MEAN, MOST_PIXELS, LEVELS = 0.5, 0.995, 4


# --- What is painted ------------------------------------------------------------------------


def coffee() -> np.ndarray:
    """A cup on a table that is plain, (64, 96, 3)."""
    return np.asarray(Image.fromarray(skimage.data.coffee()).reduce(6))[:64, :96].copy()


def sky() -> np.ndarray:
    """Plain, so that what is seen of its painting are the strokes, (64, 96, 3)."""
    levels = np.linspace([90, 140, 200], [190, 205, 220], 64)[:, None]
    return np.tile(levels, (1, 96, 1)).round().astype(np.uint8)


def cat() -> np.ndarray:
    """(150, 200, 3), large enough for tiles that do not see all of it."""
    return skimage.data.chelsea()[20:170, 90:290].copy()


def fading(height: int, width: int) -> np.ndarray:
    """A mask: nothing at the left, everything at the right."""
    return np.tile(np.linspace(0, 255, width).astype(np.uint8), (height, 1))


def still(
    painter: Painter,
    style: models.StyleCode | Sequence[Region],
    photo: np.ndarray | None = None,
    *,
    max_size: int | None = None,
    mask: np.ndarray | None = None,
    tile: int | None = None,
    **look: Any,
) -> np.ndarray:
    picture = Picture(coffee() if photo is None else photo)
    return painter.paint(picture, style, Look(**look), max_size=max_size, mask=mask, tile=tile).rgb


def from_samples(style: models.StyleCode, **options: Any) -> np.ndarray:
    """In tiles, under statistics that are read from samples of the photo."""
    limits = Limits(whole=100 * 100, tile=64, sample_side=32, fewest_sampled=50 * 100)
    return still(Painter(CHECKPOINT, "cpu", limits), style, cat(), **options)


def last_frame(painter: Painter, hold: bool = True, **look: Any) -> np.ndarray:
    """The last of three frames of a pan."""
    style, how = painter.style("ukiyoe"), Look(**look)
    frames = [cat()[:96, step : step + 128].copy() for step in (0, 5, 10)]
    survey, pan = video.ShotSurvey(painter, style, how, hold=hold), video.Pan()
    for frame in frames:
        survey.add(frame)
    survey.finish()
    (shot,) = survey.shots
    painted = [painter.paint_frame(f, style, how, shot.held, pan.follow(f)) for f in frames]
    return painted[-1]


def together(painter: Painter, style: models.StyleCode, **look: Any) -> np.ndarray:
    """The second of two pictures painted in one pass."""
    pictures = [Picture(coffee()), Picture(coffee()[::-1].copy())]
    return painter.paint_together(pictures, style, Look(**look))[1].rgb


def on_the_command_line(folder: Path) -> np.ndarray:
    Image.fromarray(coffee()).save(folder / "cup.png")
    Image.fromarray(fading(64, 96)).save(folder / "mask.png")
    words = f"""{folder}/cup.png --out {folder}/out --style vangogh --mask {folder}/mask.png
        --strength 0.9 --brushwork 2 --simplify 0.5 --outlines 1.5 --tint 1.7 --tone 0.3
        --brush-size 2 --keep-color matched --max-size 90 --device cpu"""
    assert stylize.main(words.split()) == 0
    return images.load(folder / "out" / "cup.png").rgb


def by_the_api(painter: Painter, folder: Path) -> np.ndarray:
    Image.fromarray(coffee()).save(folder / "photo.png")
    Image.fromarray(cat()).save(folder / "painting.png")
    Image.fromarray(fading(32, 48)).save(folder / "fading.png")
    with serving(painter, folder / "served") as page:
        client = Client(
            page.local_url,
            verbose=False,
            analytics_enabled=False,
            httpx_kwargs={"timeout": PATIENCE},
            download_files=folder,
        )
        file = client.predict(
            handle_file(folder / "photo.png"),
            "monet:2",
            0.8,
            painting=handle_file(folder / "painting.png"),
            max_size=90,
            share=0.4,
            keep_color="luminance",
            mask=handle_file(folder / "fading.png"),
            **{"brushwork": 0.3, "simplify": 2.0, "outlines": 1.8, "tint": 0.4, "tone": 1.6},
            brush_size=2,
            format="png",
            api_name="/stylize",
        )
    return images.load(file).rgb


def pictures(folder: Path) -> dict[str, Callable[[], np.ndarray]]:
    """Every picture by its name, and what paints it: (H, W, 3) uint8."""
    painter = Painter(CHECKPOINT, device="cpu")
    ukiyoe, cezanne = painter.style("ukiyoe"), painter.style("cezanne")
    made = {name: lambda name=name: still(painter, painter.style(name)) for name in (
        "cezanne", "monet", "ukiyoe", "vangogh", "vangogh:2"
    )}  # fmt: skip

    def own_painting() -> np.ndarray:
        Image.fromarray(skimage.data.chelsea()).save(folder / "own.png")
        return still(painter, painter.style(folder / "own.png"))

    def blended() -> np.ndarray:
        return still(painter, painter.blend([("monet", 0.4), ("ukiyoe", 0.6)]))

    def regions() -> list[Region]:
        return [Region(ukiyoe, fading(64, 96)[:, ::-1].copy()), Region(cezanne, fading(16, 12))]

    made |= {
        "own painting": own_painting,
        "blend": blended,
        "mask": lambda: still(painter, cezanne, mask=fading(64, 96)),
        "regions": lambda: still(painter, regions()),
        "strength": lambda: still(painter, ukiyoe, strength=0.5),
        "max size": lambda: still(painter, ukiyoe, cat(), max_size=80),
        "luminance": lambda: still(painter, ukiyoe, keep_color="luminance"),
        "matched": lambda: still(painter, ukiyoe, keep_color="matched"),
        "matched mask": lambda: still(
            painter, cezanne, keep_color="matched", mask=fading(64, 96) // 2
        ),
        "brush 2": lambda: still(painter, ukiyoe, brush_size=2),
        "brush 4": lambda: still(painter, ukiyoe, brush_size=4),
        "tiles": lambda: still(painter, ukiyoe, cat(), tile=64),
        "tiles of a mask": lambda: still(
            painter, cezanne, cat(), tile=64, keep_color="matched", mask=fading(75, 100)
        ),
        "tiles with brush 2": lambda: still(painter, cezanne, cat(), tile=64, brush_size=2),
        "samples": lambda: from_samples(ukiyoe, keep_color="matched"),
        "samples of a mask": lambda: from_samples(cezanne, mask=fading(150, 200)),
        "frame": lambda: last_frame(painter),
        "frame matched": lambda: last_frame(painter, keep_color="matched", tone=2),
        "frame with brush 2": lambda: last_frame(painter, brush_size=2, strength=0.8),
        "frame by itself": lambda: last_frame(painter, hold=False),
        "together": lambda: together(painter, ukiyoe, keep_color="luminance"),
        "together matched": lambda: together(
            painter, cezanne, keep_color="matched", brush_size=2, strength=0.9
        ),
        "command line": lambda: on_the_command_line(folder),
        "api": lambda: by_the_api(painter, folder),
    }
    for name in ("brushwork", "simplify", "outlines", "tint", "tone"):
        for times in (0.0, 2.5):
            style, photo = (cezanne, sky()) if name == "brushwork" else (ukiyoe, coffee())
            made[f"{name} {times:g}"] = lambda how={name: times}, style=style, photo=photo: still(
                painter, style, photo, **how
            )
    return made


# --- What was recorded ----------------------------------------------------------------------


def middle(rgb: np.ndarray) -> np.ndarray:
    top, left = ((side - SHOWN) // 2 for side in rgb.shape[:2])
    return rgb[top : top + SHOWN, left : left + SHOWN]


def digest(rgb: np.ndarray) -> str:
    return hashlib.sha256(repr(rgb.shape).encode() + rgb.tobytes()).hexdigest()[:16]


def alike(one: np.ndarray, other: np.ndarray) -> bool:
    change = np.abs(one.astype(int) - other)
    return change.mean() < MEAN and (change.max(2) <= LEVELS).mean() >= MOST_PIXELS


def painted(folder: Path) -> dict[str, np.ndarray]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return {name: np.ascontiguousarray(paint()) for name, paint in pictures(folder).items()}
    finally:
        torch.set_num_threads(threads)


def recorded() -> tuple[dict[str, np.ndarray], dict[str, str]]:
    with Image.open(RECORD) as sheet:
        digests = json.loads(sheet.text["digests"])
        rows = np.asarray(sheet).reshape(-1, SHOWN, SHOWN, 3)
    return dict(zip(digests, rows, strict=True)), digests


def record(pictures: dict[str, np.ndarray]) -> None:
    info = PngInfo()
    info.add_text("digests", json.dumps({name: digest(rgb) for name, rgb in pictures.items()}))
    sheet = np.concatenate([middle(rgb) for rgb in pictures.values()])
    Image.fromarray(sheet).save(RECORD, optimize=True, pnginfo=info)


@pytest.fixture(scope="module")
def now(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    return painted(tmp_path_factory.mktemp("same"))


def test_every_picture_is_as_it_was_recorded(now: dict[str, np.ndarray]) -> None:
    pixels, digests = recorded()
    assert list(now) == list(digests)
    if os.environ.get("REPAINT_SAME_PICTURES") == "exact":
        assert {name: digest(rgb) for name, rgb in now.items()} == digests
    changed = [name for name, rgb in now.items() if not alike(middle(rgb), pixels[name])]
    assert not changed


def test_no_picture_could_be_taken_for_another() -> None:
    # An option that got lost on its way gives another option's picture, or the plain one.
    pixels, _ = recorded()
    names = list(pixels)
    confused = [
        (one, other)
        for i, one in enumerate(names)
        for other in names[:i]
        if alike(pixels[one], pixels[other])
    ]
    assert not confused


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as scratch:
        record(painted(Path(scratch)))
