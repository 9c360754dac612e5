"""What size does to a painting: time, memory, seams between tiles, flicker between frames.

python -m benchmarks.scale [--only cost|memory|seams|tiled|flicker ...] [--out scale.json]

Prints its tables and writes JSON. Times are of the processor (all threads added up) beside the
wall's, since other work on a machine slows the wall's clock only. Photos are the test photos,
enlarged where they are too small: their content is smoother than a camera's at that size.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from tqdm import tqdm

from app import images
from app.limits import Limits
from app.look import Look
from app.painter import Painter
from app.region_painter import Held
from app.tiles import plan
from benchmarks.reports import written
from models import statistics as held_statistics
from models.finish.enlargement import SIZES
from models.network import STRIDE

ARTWORKS = Path(__file__).resolve().parents[2] / "shared" / "artworks"
PARTS = ("cost", "memory", "seams", "tiled", "flicker", "brush")
BRUSH_ROUNDS = 3
COST_MEGAPIXELS = (0.25, 0.5, 1, 2, 4, 8, 12, 24)
MEMORY_MEGAPIXELS = (24, 100)
SEAM_SIDE, SEAM_TILE = 512, 144  # pixels
FRAMES, FRAME_SIDE, STEP = 9, 256, 3  # frames, pixels, pixels a frame

# One paint in a process of its own, whose peak is then its own. VmHWM belongs to this program
# alone; ru_maxrss would start at what its parent once held.
_PAINT = """
import sys, time
import numpy as np
from PIL import Image
from app import images
from app.painter import Painter
def status(key):
    lines = open("/proc/self/status").read().splitlines()
    return int(next(line for line in lines if line.startswith(key)).split()[1]) / 1024
imported = status("VmRSS")
painter = Painter(sys.argv[1], device="cpu")
style = painter.style(painter.style_names[0])
width, height = int(sys.argv[3]), int(sys.argv[4])
with Image.open(sys.argv[2]) as photo:
    # Mirrored side by side: as much detail a pixel as the photo has.
    tile = np.asarray(photo.convert("RGB"))
tile = np.vstack([np.hstack([tile, tile[:, ::-1]])] * 2)
tile[tile.shape[0] // 2 :] = tile[tile.shape[0] // 2 :][::-1]
rgb = np.empty((height, width, 3), np.uint8)
for top in range(0, height, tile.shape[0]):
    for left in range(0, width, tile.shape[1]):
        part = rgb[top : top + tile.shape[0], left : left + tile.shape[1]]
        part[:] = tile[: part.shape[0], : part.shape[1]]
wall, cpu = time.perf_counter(), time.process_time()
painter.paint(images.Picture(rgb), style)
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
print(wall, cpu, status("VmHWM") - imported)
"""

# A file read, painted and written, the peak of each by itself: the mark of the highest memory is
# reset in between.
_FROM_FILE_TO_FILE = """
import sys
import time
from app import images
from app.look import Look
from app.painter import Painter
def status(key):
    lines = open("/proc/self/status").read().splitlines()
    return int(next(line for line in lines if line.startswith(key)).split()[1]) / 1024
imported = status("VmRSS")
def peak():
    highest = status("VmHWM") - imported
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    return highest
painter = Painter(sys.argv[1], device="cpu")
style = painter.style(painter.style_names[0])
peak()
photo = images.load(sys.argv[2], max_pixels=10**9)
load = peak()
share = float(sys.argv[4])
class Enough(Exception):
    pass
def stop(done):
    if done >= share < 1:
        raise Enough
try:
    result = painter.paint(photo, style, progress=stop)
except Enough:
    result = painter.paint(photo, style, Look(strength=0))
paint = peak()
images.save(result, sys.argv[3])
print(load, paint, peak())
"""


def shape(megapixels: float) -> tuple[int, int]:
    """Width and height of a photo of 3:2, pixels."""
    height = round((megapixels * 1e6 / 1.5) ** 0.5)
    return round(1.5 * height), height


def run(script: str, *arguments: object) -> list[float]:
    """The numbers that a script prints, in a new process."""
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=True,
    )
    return [float(number) for number in done.stdout.split()]


def paint_once(checkpoint: str, photo: Path, megapixels: float) -> dict[str, float]:
    """Seconds and megabytes of one photo of 3:2, painted in a new process."""
    width, height = shape(megapixels)
    wall, cpu, peak = run(_PAINT, checkpoint, photo, width, height)
    return {"megapixels": width * height / 1e6, "wall_s": wall, "cpu_s": cpu, "peak_mb": peak}


def from_file_to_file(
    checkpoint: str, photo: Path, megapixels: float, share: float
) -> dict[str, float]:
    """Peak megabytes, above the imports, of reading, painting and writing a JPEG of 3:2.

    share: how much of it is painted, the samples first; the memory of each tile is let go before
        the next one's. What is written is then the photo itself.
    """
    width, height = shape(megapixels)
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{name}.jpg" for name in ("photo", "result")]
        mirrored(photo, width, height).save(paths[0], quality=92)
        load, paint, save = run(_FROM_FILE_TO_FILE, checkpoint, *paths, share)
    return {
        "megapixels": width * height / 1e6,
        "load_mb": load,
        "paint_mb": paint,
        "save_mb": save,
        "peak_mb": max(load, paint, save),
    }


def mirrored(path: Path, width: int, height: int) -> Image.Image:
    """A photo, mirrored side by side up to a size: as much detail a pixel as it has."""
    with Image.open(path) as photo:
        tile = photo.convert("RGB")
    turned = tile.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    result = Image.new("RGB", (width, height))
    for row, top in enumerate(range(0, height, tile.height)):
        for column, left in enumerate(range(0, width, tile.width)):
            part = turned if column % 2 else tile
            part = part.transpose(Image.Transpose.FLIP_TOP_BOTTOM) if row % 2 else part
            result.paste(part, (left, top))
    return result


def over_the_line(pixels: list[float], seconds: list[float]) -> list[float]:
    """Each time over that of the straight line with the least relative squares."""
    x, y = np.array(pixels), np.array(seconds)
    slope, start = np.polyfit(x, y, 1, w=1 / y)
    return [float(value) for value in y / (start + slope * x)]


def cost(checkpoint: str, photo: Path, sizes: tuple[float, ...]) -> dict:
    rows = [paint_once(checkpoint, photo, size) for size in tqdm(sizes, desc="cost", unit="size")]
    pixels = [row["megapixels"] for row in rows]
    for clock in ("wall", "cpu"):
        ratios = over_the_line(pixels, [row[f"{clock}_s"] for row in rows])
        for row, ratio in zip(rows, ratios, strict=True):
            row[f"{clock}_over_line"] = ratio
    return {"rows": rows, "threads": torch.get_num_threads(), "load": os.getloadavg()[0]}


def memory(checkpoint: str, photo: Path, sizes: tuple[float, ...], share: float) -> dict:
    bar = tqdm(sizes, desc="memory", unit="size")
    rows = [from_file_to_file(checkpoint, photo, size, share) for size in bar]
    return {"rows": rows, "growth_of_peak_mb": rows[-1]["peak_mb"] / rows[0]["peak_mb"]}


def enlarged(path: Path, pixels: float) -> images.Picture:
    """A photo of about so many pixels."""
    with Image.open(path) as image:
        image = image.convert("RGB")
    scale = (pixels / (image.width * image.height)) ** 0.5
    size = (round(image.width * scale), round(image.height * scale))
    return images.Picture(np.array(image.resize(size, Image.Resampling.LANCZOS)), name=path.name)


def seam_ratio(rgb: np.ndarray, borders: list[int]) -> float:
    """Mean difference across columns that are borders, over that one column to either side."""
    steps = np.abs(np.diff(rgb.astype(float), axis=1)).mean((0, 2))
    across = np.mean([steps[border - 1] for border in borders])
    beside = np.mean([(steps[border - 2] + steps[border]) / 2 for border in borders])
    return float(across / beside)


def seams(painter: Painter, photos: list[Path]) -> dict:
    """Ratios of tiled pictures, and of the same columns of untiled ones for comparison."""

    rows = []
    names = painter.style_names
    for number, path in enumerate(tqdm(photos, desc="seams", unit="photo")):
        photo = enlarged(path, SEAM_SIDE**2)
        style = painter.style(names[number % len(names)])
        places = list(plan(photo.height, photo.width, SEAM_TILE, painter.network.reach, STRIDE))
        down = sorted({tile.core.top for tile in places} - {0})
        across = sorted({tile.core.left for tile in places} - {0})
        row = {"photo": path.name}
        for kind, tile in (("tiled", SEAM_TILE), ("untiled", None)):
            rgb = painter.paint(photo, style, tile=tile).rgb
            both = seam_ratio(rgb, across), seam_ratio(rgb.swapaxes(0, 1), down)
            row[kind] = statistics.fmean(both)
        rows.append(row)
    return {
        "rows": rows,
        **{kind: statistics.fmean(row[kind] for row in rows) for kind in ("tiled", "untiled")},
    }


def tiled_against_untiled(painter: Painter, photos: list[Path]) -> dict:
    """Mean absolute differences, levels of 255.

    At 2 megapixels the tiles are forced. At 2.2 they come by themselves, under statistics of
    samples, and the untiled picture is forced.
    """
    rows = []
    names = painter.style_names
    for number, path in enumerate(tqdm(photos, desc="tiled", unit="photo")):
        style, row = painter.style(names[number % len(names)]), {"photo": path.name}
        for label, pixels, one, other in (
            ("at_2_mp", 2e6, None, 1000),
            ("sampled_at_2.2_mp", 2.2e6, 10_000, None),
        ):
            photo = enlarged(path, pixels)
            first, second = (painter.paint(photo, style, tile=tile).rgb for tile in (one, other))
            row[label] = float(np.abs(first.astype(int) - second).mean())
        rows.append(row)
    keys = [key for key in rows[0] if key != "photo"]
    return {"rows": rows, **{key: statistics.fmean(row[key] for row in rows) for key in keys}}


def flicker(painter: Painter, photos: list[Path]) -> dict:
    """Change from frame to frame of a panning crop, the result's over the input's.

    Under statistics held from the first frame, each frame's own, and as app.video paints a shot,
    whose grid and strokes move with the scene. ``on_the_photo`` compares pixels of one place on the
    photo, where the input does not change at all, instead of one place of the frame: levels of 255.
    """
    rows = []
    names = painter.style_names
    for number, path in enumerate(tqdm(photos, desc="flicker", unit="photo")):
        photo = enlarged(path, 512**2).rgb
        style = painter.style(names[number % len(names)])
        frames = [
            images.to_tensor(photo[100 : 100 + FRAME_SIDE, left : left + FRAME_SIDE])
            for left in range(40, 40 + FRAMES * STEP, STEP)
        ]
        with held_statistics.record() as held:
            painter.network.repaint(frames[0], style)
        row = {"photo": path.name}
        for kind in ("held", "own", "video"):
            painted = []
            for number_of_frame, frame in enumerate(frames):
                if kind == "video":
                    rgb, moved = images.to_rgb(frame), (0, STEP * number_of_frame)
                    rgb = painter.paint_frame(rgb, style, held=Held(held), moved=moved)
                    painted.append(images.to_tensor(rgb))
                elif kind == "held":
                    with held_statistics.hold(held):
                        painted.append(painter.network.repaint(frame, style))
                else:
                    painted.append(painter.network.repaint(frame, style))
            row[kind] = change(painted) / change(frames)
            row[f"{kind}_on_the_photo"] = change(painted, STEP) * 127.5
        rows.append(row)
    keys = [key for key in rows[0] if key != "photo"]
    return {"rows": rows, **{key: statistics.fmean(row[key] for row in rows) for key in keys}}


def brush(painter: Painter, photos: list[Path]) -> dict:
    """Seconds at 1 megapixel with each size of the brush, medians, over those with size 1."""
    rows = []
    for name in tqdm(painter.style_names, desc="brush", unit="style"):
        photo, style = enlarged(photos[0], 2**20), painter.style(name)
        taken: dict[int, list[float]] = {size: [] for size in SIZES}
        for _ in range(BRUSH_ROUNDS):  # in turn, so that a busy moment falls on all
            for size in SIZES:
                started = time.perf_counter()
                painter.paint(photo, style, Look(brush_size=size))
                taken[size].append(time.perf_counter() - started)
        medians = {f"seconds_{size}": statistics.median(taken[size]) for size in SIZES}
        ratios = {f"{s}_over_1": medians[f"seconds_{s}"] / medians["seconds_1"] for s in SIZES[1:]}
        rows.append({"style": name, **medians, **ratios})
    means = {f"{s}_over_1": statistics.fmean(row[f"{s}_over_1"] for row in rows) for s in SIZES[1:]}
    return {"rows": rows, **means, "threads": torch.get_num_threads()}


def change(frames: list[torch.Tensor], shift: int = 0) -> float:
    """Mean absolute difference of neighboring frames, the earlier one moved by ``shift``."""
    width = frames[0].shape[-1]
    return statistics.fmean(
        float((after[..., : width - shift] - before[..., shift:]).abs().mean())
        for before, after in pairwise(frames)
    )


def print_tables(report: dict) -> None:
    """The tables on standard output."""
    for part in PARTS:
        if part not in report:
            continue
        rows = report[part]["rows"]
        print(f"\n{part}\n" + "  ".join(f"{key:>12}" for key in rows[0]))
        for row in rows:
            print("  ".join(f"{_text(value):>{max(12, len(key))}}" for key, value in row.items()))
        for key, value in report[part].items():
            if key != "rows":
                print(f"{key}: {_text(value)}")


def _text(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", default="checkpoints/artworks.safetensors")
    parser.add_argument("--artworks", type=Path, default=ARTWORKS)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--photos", type=int, default=10, help="test photos (cost and memory: one)")
    parser.add_argument("--megapixels", type=float, nargs="+", help="sizes of cost and memory")
    parser.add_argument("--share", type=float, default=1.0, help="of a picture, for memory alone")
    parser.add_argument("--out", type=Path, help="JSON file")
    arguments = parser.parse_args(argv)
    photos = images.list_pictures(arguments.artworks / "test" / "photo")
    photos = photos[:: max(1, len(photos) // arguments.photos)][: arguments.photos]
    sizes = tuple(arguments.megapixels or ())
    report: dict = {"checkpoint": Path(arguments.checkpoint).name}
    if "cost" in arguments.only:
        report["cost"] = cost(arguments.checkpoint, photos[0], sizes or COST_MEGAPIXELS)
    if "memory" in arguments.only:
        report["memory"] = memory(
            arguments.checkpoint, photos[0], sizes or MEMORY_MEGAPIXELS, arguments.share
        )
    if set(arguments.only) - {"cost", "memory"}:
        painter = Painter(arguments.checkpoint, device="cpu", limits=Limits(remembered_content=0))
        for part, measure in (
            ("seams", seams),
            ("tiled", tiled_against_untiled),
            ("flicker", flicker),
            ("brush", brush),
        ):
            if part in arguments.only:
                report[part] = measure(painter, photos)
    print_tables(report)
    written(report, arguments.out)


if __name__ == "__main__":
    main()
