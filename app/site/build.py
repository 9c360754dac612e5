"""The command ``python -m app.site.build``: the static page as a folder that any host can serve."""

from __future__ import annotations

import argparse
import base64
import hashlib
import html
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from app import images, terminal
from app.shipped import CHECKPOINT

SOURCES = Path(__file__).resolve().parent
PAGE = (
    "index.html",
    "page.css",
    "boot.js",
    "page.js",
    "worker.js",
    "painter.js",
    "model.js",
    "filters.js",
    "colors.js",
    "tiles.js",
    "pictures.js",
    "manifest.webmanifest",
)

# Of onnxruntime-web: for browsers with WebGPU and for the others; a browser asks for one of them.
RUNTIME = (
    "ort.wasm.min.mjs",
    "ort-wasm-simd-threaded.mjs",
    "ort-wasm-simd-threaded.wasm",
    "ort.webgpu.min.mjs",
    "ort-wasm-simd-threaded.asyncify.mjs",
    "ort-wasm-simd-threaded.asyncify.wasm",
)
EXAMPLE_SIDE = 1024  # pixels
EXAMPLE_QUALITY = 85
ICONS = (192, 512)  # pixels
CARD, CARD_SIDES = "card.jpg", (1200, 630)  # what is shown of a link to the page; pixels


def build(
    out: Path,
    runtime: Path,
    checkpoint: Path = CHECKPOINT,
    example: Path | None = None,
    address: str | None = None,
) -> None:
    """Writes the page, the runtime and a checkpoint's model to a folder, replacing what was there.

    Args:
        runtime: the folder ``dist`` of the package onnxruntime-web.
        address: where the page will be, which previews of a link to it have to be told; None: they
            show a title without a picture.
        example: the photo that is painted when the page opens; None: one that scikit-image ships
            (a cup of coffee, by Rachel Michetti, CC0).

    Raises:
        ValueError, OSError: see `app.export.folder.export`.
    """
    from app.export.folder import export
    from app.painter import Painter

    missing = [name for name in RUNTIME if not (runtime / name).is_file()]
    if missing:
        raise ValueError(f"{runtime}: {missing[0]} is missing: npm install onnxruntime-web")
    (out / "runtime").mkdir(parents=True, exist_ok=True)
    for name in PAGE:
        shutil.copyfile(SOURCES / name, out / name)
    for name in RUNTIME:
        shutil.copyfile(runtime / name, out / "runtime" / name)
    photo = images.resize(_example() if example is None else images.load(example), EXAMPLE_SIDE)
    Image.fromarray(images.flatten(photo).rgb).save(out / "example.jpg", quality=EXAMPLE_QUALITY)
    painter = Painter(checkpoint, "cpu")
    shutil.rmtree(out / "model", ignore_errors=True)
    export(painter, out / "model", photo, print)
    painting = painter.paint(images.resize(photo, 512), painter.style(painter.style_names[0]))
    _icons(out, painting)
    if address is not None:
        _preview(out, photo, painting, address)
    write_service_worker(out)


def _example() -> images.Picture:
    import skimage.data

    return images.Picture(np.asarray(skimage.data.coffee()))


def _icons(out: Path, painting: images.Picture) -> None:
    side = min(painting.width, painting.height)
    left, top = (painting.width - side) // 2, (painting.height - side) // 2
    square = Image.fromarray(painting.rgb[top : top + side, left : left + side])
    # A painting has too many colors to be small as PNG; phones ask for that kind of the smaller.
    small, large = (square.resize((size, size), Image.Resampling.LANCZOS) for size in ICONS)
    small.quantize(64).save(out / f"icon-{ICONS[0]}.png", optimize=True)
    large.save(out / f"icon-{ICONS[1]}.webp", quality=75)


def _preview(out: Path, photo: images.Picture, painting: images.Picture, address: str) -> None:
    """What is shown of a link to the page: one half of the photo, the other of its painting."""
    before, after = (
        ImageOps.fit(Image.fromarray(one.rgb), CARD_SIDES, Image.Resampling.LANCZOS)
        for one in (photo, painting)
    )
    middle = CARD_SIDES[0] // 2
    after.paste(before.crop((0, 0, middle, CARD_SIDES[1])))
    after.save(out / CARD, quality=85)
    where = address.rstrip("/") + "/"
    told = {"og:url": where, "og:image": where + CARD}
    lines = [f'<meta property="{name}" content="{html.escape(told[name])}">' for name in told]
    lines += ['<meta name="twitter:card" content="summary_large_image">', "</head>"]
    page = (out / "index.html").read_text(encoding="utf-8")
    page = page.replace("</head>", "\n".join(lines), 1)
    (out / "index.html").write_text(page, encoding="utf-8")


def write_service_worker(out: Path) -> None:
    """Writes ``sw.js``, which names every other file of a page and its digest.

    A host is told things by files whose names begin with a dot; it does not send those. The picture
    for previews is for those alone who are sent a link.
    """
    digests = {}
    for path in sorted(out.rglob("*")):
        name = path.relative_to(out).as_posix()
        if path.is_file() and name not in ("sw.js", CARD) and path.name[0] != ".":
            digest = base64.b64encode(hashlib.sha256(path.read_bytes()).digest()).decode()
            # The page says index.html by its folder.
            digests["./" if name == "index.html" else name] = f"sha256-{digest}"
    source = (SOURCES / "sw.js").read_text(encoding="utf-8")
    table = json.dumps(digests, separators=(",", ":"))
    (out / "sw.js").write_text(source.replace('"%FILES%"', table), encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    terminal.show_anything()
    parser = argparse.ArgumentParser(
        prog="python -m app.site.build", description="Build the static page that paints."
    )
    parser.add_argument("--out", type=Path, default=Path("site"), metavar="FOLDER")
    parser.add_argument("--runtime", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--checkpoint", type=Path, default=CHECKPOINT, metavar="FILE")
    parser.add_argument("--example", type=Path, metavar="PHOTO")
    parser.add_argument(
        "--address", metavar="URL", help="where the page will be, for previews of links to it"
    )
    args = parser.parse_args(argv)
    try:
        build(args.out, args.runtime, args.checkpoint, args.example, args.address)
    except ModuleNotFoundError as error:
        return terminal.failed(f"{error.name} is missing: make site-deps installs it", 2)
    except (ValueError, OSError) as error:
        return terminal.failed(error, 2)
    print(f"{args.out}: ready; make site-serve shows it")
    return 0


if __name__ == "__main__":
    sys.exit(main())
