"""Packs what a GPU machine needs for training into one ignored folder of at most 45 MB.

Training pictures, re-encoded as WebP at the highest quality that fits; the weights of the two
frozen networks in fp16; and the code of the one that torchvision does not have. So the machine
needs neither the artworks nor the packages of requirements-train.txt.

python -m benchmarks.pack_artworks
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from PIL import Image
from tqdm import tqdm

import models
from app import images
from app.terminal import failed
from models.efficient import ARCHITECTURE
from models.objective import DEEPEST_LAYER

ARTWORKS = Path(__file__).resolve().parents[2] / "shared" / "artworks"
PACKED = Path(__file__).resolve().parent / "packed"
BUDGET = 45.0  # MB, of 10^6 bytes
QUALITIES = (95, 92, 90, 87, 84, 80, 75, 70, 60, 50)
STACK, FEATURES = "perceptual.safetensors", "projection.safetensors"
PACKAGES = "packages"  # a folder for PYTHONPATH
LARGEST_CLASS = 600  # pictures; photos only lend their content, and bytes go to the brushwork
SAMPLE = 40  # pictures a class from which the quality is guessed


def encode(path: Path, quality: int) -> bytes:
    """A picture as WebP."""
    buffer = io.BytesIO()
    rgb = images.flatten(images.load(path)).rgb
    Image.fromarray(np.ascontiguousarray(rgb)).save(buffer, "WEBP", quality=quality, method=4)
    return buffer.getvalue()


def expected_size(paths: dict[str, list[Path]], quality: int) -> float:
    """Bytes that all pictures would take, from a sample of each class."""
    total = 0.0
    for several in paths.values():
        sample = several[:: max(1, len(several) // SAMPLE)]
        total += sum(len(encode(p, quality)) for p in sample) * len(several) / len(sample)
    return total


def write(paths: dict[str, list[Path]], quality: int, folder: Path) -> int:
    """Writes all pictures below ``folder`` and returns their bytes."""
    written = 0
    pairs: Iterable = [(name, path) for name, several in paths.items() for path in several]
    for name, path in tqdm(pairs, desc=f"packing at quality {quality}", unit="picture"):
        data = encode(path, quality)
        target = folder / "train" / name / f"{path.stem}.webp"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        written += len(data)
    return written


def write_networks(folder: Path) -> int:
    """Writes the frozen networks below ``folder`` and returns their bytes."""
    models.PerceptualNetwork("hed", last=DEEPEST_LAYER).save(folder / STACK)
    models.EfficientNetFeatures().save(folder / FEATURES)
    package = Path(importlib.util.find_spec(ARCHITECTURE).origin).parent
    code = folder / PACKAGES / ARCHITECTURE
    shutil.copytree(package, code, ignore=shutil.ignore_patterns("__pycache__"))
    files = [folder / STACK, folder / FEATURES, *code.rglob("*.py")]
    return sum(file.stat().st_size for file in files)


def pack(artworks: Path, folder: Path, budget: float) -> tuple[int, int]:
    """Packs ``artworks/train`` into ``folder``: (bytes, quality).

    Raises:
        FileNotFoundError: no training pictures there.
        ValueError: even the lowest quality is too large.
    """
    classes = sorted(p for p in (artworks / "train").glob("*") if p.is_dir())
    paths = {p.name: found for p in classes if (found := images.list_pictures(p))}
    for name, several in paths.items():
        if len(several) > LARGEST_CLASS:
            thinned = [several[i * len(several) // LARGEST_CLASS] for i in range(LARGEST_CLASS)]
            print(f"{name}: {LARGEST_CLASS} of {len(several)} pictures, evenly spread")
            paths[name] = thinned
    if not paths:
        raise FileNotFoundError(f"{artworks / 'train'}: no folders of pictures")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    # Ignored wherever it lies: no picture of it may be committed.
    (folder / ".gitignore").write_text("*\n", encoding="utf-8")
    rest = write_networks(folder)
    allowed = budget * 1e6 - rest
    for quality in QUALITIES:
        if expected_size(paths, quality) > allowed:
            continue
        size = write(paths, quality, folder)
        if size <= allowed:
            return size + rest, quality
        shutil.rmtree(folder / "train")
    raise ValueError(f"{artworks}: too much for {budget} MB even at quality {QUALITIES[-1]}")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--artworks", type=Path, default=ARTWORKS)
    parser.add_argument("--out", type=Path, default=PACKED)
    parser.add_argument("--budget", type=float, default=BUDGET, help="MB")
    arguments = parser.parse_args(argv)
    try:
        size, quality = pack(arguments.artworks, arguments.out, arguments.budget)
    except (FileNotFoundError, ValueError) as error:
        return failed(error, 2)
    print(f"{arguments.out}: {size / 1e6:.1f} MB at WebP quality {quality}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
