"""Where a network's texture in a clear sky comes from: the photo's noise, or the strokes put there.

Paints a rocket at dusk, which scikit-image ships, and looks at its sky: as the photo has it, with
the noise smoothed away, and with strokes (`models.strokes`). Prints for each the deviation of what
is finer than 9 px, in levels of 255, and how regular the painted sky is (`models.measures`).

python -m benchmarks.weave --checkpoint checkpoints/artworks.safetensors ...
"""

from __future__ import annotations

import argparse
from pathlib import Path

import skimage.data
import torch
import torch.nn.functional as F

import models
from app import images
from app.train import STROKES
from models import strokes
from models.measures import gray, regularity
from models.network import STRIDE

SKY = (slice(4, 94), slice(210, 410))  # rows and columns that show nothing else


def fineness(image: torch.Tensor) -> float:
    """Deviation of a picture's sky (1, 3, H, W) from its mean over 9 px, levels of 255."""
    levels = gray(127.5 * image)
    fine = levels - F.avg_pool2d(levels, 9, 1, 4, count_include_pad=False)
    return float(fine[(..., *SKY)].std())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--checkpoint", type=Path, nargs="+", required=True)
    arguments = parser.parse_args()
    photo = images.to_tensor(skimage.data.rocket())
    photo = photo[..., : photo.shape[-2] // STRIDE * STRIDE, : photo.shape[-1] // STRIDE * STRIDE]
    plain = strokes.plainness(photo)
    shown = {
        "as it is": photo,
        "smoothed": strokes.prepare(photo, 0.0, [(0, 0)]),
        "strokes": strokes.prepare(photo, STROKES, [(0, 0)]),
    }
    print(
        "sky shown to the network: " + ", ".join(f"{n} {fineness(x):.2f}" for n, x in shown.items())
    )
    for path in arguments.checkpoint:
        checkpoint = models.load_checkpoint(path)
        network = checkpoint.network
        # Past Repainter.prepare: what it would do is done above, or left out.
        with torch.no_grad():
            contents = [network.encode_content(given) for given in shown.values()]
        print(f"\n{path}\n{'style':10}" + "".join(f"  {name:>8}  regularity" for name in shown))
        for style, codes in checkpoint.styles.items():
            cells = []
            for content in contents:
                with torch.no_grad():
                    painted = network.generate(content, codes[0])
                cells.append(f"  {fineness(painted):8.2f}  {regularity(painted, plain):10.1f}")
            print(f"{style:10}" + "".join(cells))


if __name__ == "__main__":
    main()
