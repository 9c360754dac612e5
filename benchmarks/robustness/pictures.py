"""Mutated pictures of every format, through the door that the command line and the demo use."""

from __future__ import annotations

import argparse
import io
import random
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import skimage.data
from PIL import Image, ImageCms

from benchmarks.robustness import Outcome
from benchmarks.robustness.trial import testing

SIZES = {
    "pictures": (1000, "mutated pictures"),
    "painted": (20, "of those that can be read, painted and written, too"),
}

# Seconds, pixels, and MB of memory: 4 megapixels of 16 bits, their 8-bit copies, and a decoder's.
SLOWEST, MOST_PIXELS, MOST_MEMORY = 10.0, 4_000_000, 300.0
_SIDES = (96, 128)


def load(path: str) -> str:
    """What app.stylize and the demo do with a picture first."""
    from app import images

    picture = images.load(path, MOST_PIXELS)
    images.to_tensor(images.flatten(images.resize(picture, 512)).rgb)
    return f"{picture.width} x {picture.height}"


def paint(path: str) -> str:
    """The command line on one picture; nothing but whole results may be left beside it."""
    from app import images, stylize

    out = Path(path).parent / "painted"
    options = ["--style", "monet", "--max-size", "96", "--max-pixels", str(MOST_PIXELS)]
    code = stylize.main([path, *options, "--overwrite", "--device", "cpu", "--out", str(out)])
    left = [file for file in out.iterdir() if not file.name.endswith(".jsonl")]
    for file in left:
        images.load(file)
        file.unlink()
    if code not in (0, 1) or len(left) != 1 - code:
        raise AssertionError(f"exit code {code}, and {[file.name for file in left]}")
    return f"exit code {code}"


def run(options: argparse.Namespace, generator: random.Random) -> Outcome:
    """Reads each in a process of its own, and paints some of those that can be."""
    outcome = Outcome()
    readable: list[tuple[str, bytes]] = []
    with tempfile.TemporaryDirectory() as folder:
        refusals = ["app.images:ImageError"]
        with testing(f"{__name__}:load", refusals, SLOWEST) as tester:
            for number in range(options.pictures):
                kind, data = generator.choice(originals())
                what, mutation = generator.choice(MUTATIONS)
                mutated = mutation(generator, data)
                path = Path(folder, f"{number}.{kind}")
                path.write_bytes(mutated)
                trial = tester.try_one(str(path))
                name = f"number {number}, {kind}, {what}"
                outcome.judge(trial, name, path.name, SLOWEST, MOST_MEMORY)
                if trial.kind == "done" and mutated != data:
                    readable.append((f"{number}.{kind}", mutated))
                path.unlink()
        chosen = generator.sample(readable, min(options.painted, len(readable)))
        # The first one waits for the network to be read.
        with testing(f"{__name__}:paint", refusals, 60 * SLOWEST) as tester:
            for name, data in chosen:
                path = Path(folder, name)
                path.write_bytes(data)
                trial = tester.try_one(str(path))
                outcome.count(f"painted: {trial.kind}")
                if trial.kind != "done":
                    outcome.faults.append(f"painting {name}: {trial.text.splitlines()[-1][:200]}")
                path.unlink()
    return outcome


@cache
def originals() -> list[tuple[str, bytes]]:
    """A small photo in every format and layout that can be written here, by suffix."""
    width, height = _SIDES
    photo = Image.fromarray(np.ascontiguousarray(skimage.data.chelsea()[:height, :width]))
    clear = photo.copy()
    clear.putalpha(Image.linear_gradient("L").resize(photo.size))
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    exif = Image.Exif()
    exif.update({0x010F: "Maker", 0x0112: 6})
    exif[0x8769] = {0x829A: 0.02, 0xA001: 65535}
    told = {"exif": exif.tobytes(), "icc_profile": profile}
    wide = Image.fromarray(np.asarray(photo.convert("L")).astype(np.uint16) * 257)
    frames = {"save_all": True, "append_images": [photo.rotate(90).resize(photo.size)]}
    written = [
        ("jpg", photo, "JPEG", told),
        ("jpg", photo, "JPEG", {"progressive": True}),
        ("jpg", photo.convert("CMYK"), "JPEG", {}),
        ("png", clear, "PNG", told),
        ("png", photo.convert("P"), "PNG", {}),
        ("png", wide, "PNG", {}),
        ("png", photo, "PNG", frames),
        ("webp", clear, "WEBP", told),
        ("webp", photo, "WEBP", {"lossless": True}),
        ("webp", photo, "WEBP", frames),
        ("gif", photo.convert("P"), "GIF", frames),
        ("bmp", photo, "BMP", {}),
        ("ppm", photo, "PPM", {}),
        ("tga", clear, "TGA", {"compression": "tga_rle"}),
        ("pcx", photo, "PCX", {}),
        ("sgi", photo, "SGI", {}),
        ("qoi", photo, "QOI", {}),
        ("ico", clear, "ICO", {"sizes": [(64, 64), (16, 16)]}),
        ("jp2", photo, "JPEG2000", {}),
        ("avif", clear, "AVIF", {"exif": told["exif"]}),
        ("heic", photo, "HEIF", {"exif": told["exif"]}),
        ("tif", clear, "TIFF", told),
        ("tif", photo, "TIFF", {"compression": "tiff_lzw", **frames}),
        ("tif", photo, "TIFF", {"compression": "jpeg"}),
        ("tif", photo.convert("1"), "TIFF", {"compression": "group4"}),
    ]
    found = []
    for suffix, image, format, options in written:
        file = io.BytesIO()
        image.save(file, format, **options)
        found.append((suffix, file.getvalue()))
    return found + _tiffs(np.asarray(photo)) + _raws(found[0][1])


def _tiffs(pixels: np.ndarray) -> list[tuple[str, bytes]]:
    """Layouts that are unpacked by app.images itself."""
    import tifffile

    found = []
    for number in ("u2", "f4"):
        for options in (
            {"tile": (32, 32), "compression": "zlib"},
            {"planarconfig": "separate", "rowsperstrip": 9},
            {"bigtiff": True, "byteorder": ">"},
        ):
            samples = (pixels / 255).astype(number) if number == "f4" else pixels * np.uint16(257)
            if "planarconfig" in options:
                samples = np.ascontiguousarray(np.moveaxis(samples, -1, 0))
            file = io.BytesIO()
            tifffile.imwrite(file, samples, photometric="rgb", **options)
            found.append(("tif", file.getvalue()))
    return found


def _raws(jpeg: bytes) -> list[tuple[str, bytes]]:
    """What camera raw files look like from outside: a TIFF's head, readings, a JPEG."""
    import tifffile

    file = io.BytesIO()
    with tifffile.TiffWriter(file) as tiff:
        small = np.full((12, 16, 3), 90, np.uint8)
        tiff.write(small, photometric="rgb", subfiletype=1, subifds=1)
        tiff.write(np.arange(4096, dtype=np.uint16).reshape(64, 64), photometric=32803)
    head = file.getvalue()
    return [("dng", head + jpeg), ("raf", b"FUJIFILMCCD-RAW 0201" + bytes(80) + jpeg)]


# --- Mutations ------------------------------------------------------------------------------


def _as_it_is(generator: random.Random, data: bytes) -> bytes:
    return data


def _bytes_changed(generator: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    ends = generator.choice([64, 512, len(data)])
    for _ in range(generator.choice([1, 3, 20])):
        changed[generator.randrange(min(ends, len(data)))] = generator.randrange(256)
    return bytes(changed)


def _bits_changed(generator: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(generator.choice([1, 3, 20])):
        changed[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
    return bytes(changed)


def _cut(generator: random.Random, data: bytes) -> bytes:
    return data[: generator.choice([1, 8, 24, generator.randrange(len(data)), len(data) - 1])]


def _part_twice(generator: random.Random, data: bytes) -> bytes:
    start = generator.randrange(len(data))
    part = data[start : start + generator.choice([4, 16, 256, 4096])]
    return (
        data[:start] + part * generator.choice([2, 3, 1000 if len(part) < 64 else 2]) + data[start:]
    )


def _part_gone(generator: random.Random, data: bytes) -> bytes:
    start = generator.randrange(len(data))
    return data[:start] + data[start + generator.choice([1, 4, 64, 1024]) :]


def _parts_exchanged(generator: random.Random, data: bytes) -> bytes:
    changed, length = bytearray(data), generator.choice([4, 12, 64])
    one, other = (generator.randrange(max(1, len(data) - length)) for _ in range(2))
    first, second = data[one : one + length], data[other : other + length]
    changed[one : one + length], changed[other : other + length] = second, first
    return bytes(changed[: len(data)])


def _extremes(generator: random.Random, data: bytes) -> bytes:
    """Numbers of the header set to what no picture has."""
    changed = bytearray(data)
    for _ in range(generator.choice([1, 2, 5])):
        size = generator.choice([1, 2, 4, 8])
        order = generator.choice(["little", "big"])
        top = 1 << (8 * size)
        value = generator.choice([0, 1, top - 1, top >> 1, (top >> 1) - 1, min(top - 1, 65_535)])
        place = generator.randrange(min(len(data), generator.choice([64, 400, 4000])))
        changed[place : place + size] = value.to_bytes(size, order)
    return bytes(changed[: len(data)])


def _chunk_twice(generator: random.Random, data: bytes) -> bytes:
    """A part between two marks of its format again, with what belongs to it."""
    marks = [b"IDAT", b"IHDR", b"tEXt", b"iCCP", b"\xff\xda", b"\xff\xc4", b"\xff\xe1", b"ANMF"]
    marks += [b"VP8 ", b"colr", b"ispe", b"iloc", b"\xff\x52", b"fcTL", b"\x21\xf9"]
    found = sorted({place for mark in marks if (place := data.find(mark)) > 0})
    if len(found) < 2:
        return _part_twice(generator, data)
    index = generator.randrange(len(found) - 1)
    start, end = found[index], found[index + 1]
    return data[:end] + data[start:end] * generator.choice([1, 2, 50]) + data[end:]


def _other_kind(generator: random.Random, data: bytes) -> bytes:
    """The head of one format before the body of another."""
    _, other = generator.choice(originals())
    length = generator.choice([4, 12, 64])
    return other[:length] + data[length:]


def _longer(generator: random.Random, data: bytes) -> bytes:
    return data + generator.choice([bytes(100_000), data, b"\xff\xd8\xff" * 50_000])


def _noise(generator: random.Random, data: bytes) -> bytes:
    return data[: generator.choice([8, 32, 128])] + generator.randbytes(20_000)


MUTATIONS: list[tuple[str, Callable[[random.Random, bytes], bytes]]] = [
    ("as it is", _as_it_is),
    ("bytes", _bytes_changed),
    ("bytes", _bytes_changed),
    ("bits", _bits_changed),
    ("cut", _cut),
    ("part twice", _part_twice),
    ("part gone", _part_gone),
    ("parts exchanged", _parts_exchanged),
    ("extremes", _extremes),
    ("extremes", _extremes),
    ("extremes", _extremes),
    ("chunk twice", _chunk_twice),
    ("other kind", _other_kind),
    ("longer", _longer),
    ("noise", _noise),
]
