"""How good the pictures of a checkpoint are, and what they cost.

Style accuracy by the committed classifier and by a linear judge of another backbone (built-in
codes, and random test paintings as references), edge correlation, sharpness, what repeats with the
network's stride, roughness and regularity where a photo is plain, strength 0, seconds against the
GD-WCT-sized network, the spectral layers' share, peak memory.
Prints its tables and writes JSON.

python -m benchmarks.stylize_quality --checkpoint checkpoints/artworks.safetensors
"""

from __future__ import annotations

import argparse
import math
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

import models
from app.choosing import fit_judge, spread
from app.dataset import PictureFolder
from app.images import to_rgb
from app.shipped import CLASSIFIER
from benchmarks.reports import written
from models import losses, strokes
from models import network as network_module
from models.efficient import STAGES
from models.judge import LinearJudge, PooledFeatures
from models.measures import edge_correlation, regularity, sharpness
from models.network import STRIDE

SECOND = "efficientnet-lite2"  # a backbone that no training here has seen
ARTWORKS = Path(__file__).resolve().parents[2] / "shared" / "artworks"
# A picture (1, 3, H, W) to scores of CLASSES, (1, 5).
Judge = Callable[[torch.Tensor], torch.Tensor]
CLASSES = ("cezanne", "monet", "photo", "ukiyoe", "vangogh")


def linear_judge(artworks: Path, backbone: str, folder: Path | None) -> Judge:
    """A linear judge of every training picture and its mirror image, on a backbone's features.

    Args:
        folder: keeps the fitted judge, for the next time.
    """
    features = PooledFeatures(backbone)
    file = None if folder is None else folder / f"{backbone}.safetensors"
    if file is not None and file.is_file():
        judge = LinearJudge.load(file)
    else:
        folders = {c: PictureFolder(artworks / "train" / c) for c in CLASSES}
        count = max(len(several) for several in folders.values())
        judge = fit_judge(folders, features, torch.device("cpu"), count)
        if file is not None:
            folder.mkdir(parents=True, exist_ok=True)
            judge.save(file)
    return lambda picture: judge(features(picture))


def classifier_judge(file: str) -> Judge:
    """A style classifier as a judge."""
    classifier, _ = models.load_classifier(file)
    order = [classifier.classes.index(name) for name in CLASSES]
    return lambda picture: classifier.judge(picture).probabilities[:, order]


def real_accuracy(judge: Judge, tests: dict[str, PictureFolder]) -> dict[str, float]:
    """Share of each class's real test pictures that the judge gets right."""
    result = {}
    for label, name in enumerate(CLASSES):
        folder = tests[name]
        right = [int(judge(folder.tensor(i)).argmax()) == label for i in range(len(folder))]
        result[name] = statistics.fmean(right)
    result["mean"] = statistics.fmean(result[name] for name in CLASSES)
    return result


def plain_roughness(photo: torch.Tensor, picture: torch.Tensor) -> tuple[float, float]:
    """How much a picture changes from pixel to pixel where its photo is plain, and how much is.

    Means over all pixels, the first in levels of 255: over several photos, the ratio of the two
    sums is the change of a plain pixel.
    """
    plain = float(strokes.plainness(photo).mean())
    return 127.5 * float(losses.flat_variation(picture, photo)), plain


def style_tables(
    checkpoint: models.Checkpoint,
    judges: dict[str, Judge],
    tests: dict[str, PictureFolder],
    limit: int,
    seed: int,
) -> dict:
    """For both kinds of code and every style: what the judges say, and what can be measured.

    Each style has its accuracy and the shares of all classes a judge, edge correlation,
    sharpness, the share of fine structure that repeats with the network's stride, and the
    roughness and the regularity of what is plain in the photo.
    """
    network, photos = checkpoint.network, tests["photo"]
    draw = random.Random(seed)
    indices = spread(limit, len(photos))
    table: dict = {}
    # Those that the judges know.
    known = {name: codes for name, codes in checkpoint.styles.items() if name in CLASSES}
    steps = 2 * len(known) * len(indices)
    with tqdm(total=steps, desc="stylizing", unit="picture") as bar:
        for kind in ("built-in", "random reference"):
            for name, codes in known.items():
                predicted: dict[str, list[int]] = {judge: [] for judge in judges}
                rows, regular = [], []
                for index in indices:
                    photo = photos.tensor(index)
                    code = codes[0]
                    if kind == "random reference":
                        paintings = tests[name]
                        painting = paintings.tensor(draw.randrange(len(paintings)))
                        code = network.encode_style(painting)
                    picture = network.repaint(photo, code)
                    for judge, judged in judges.items():
                        predicted[judge].append(int(judged(picture).argmax()))
                    height, width = (side // STRIDE * STRIDE for side in picture.shape[-2:])
                    even = picture[..., :height, :width]
                    rows.append(
                        (
                            float(edge_correlation(photo, picture)),
                            float(sharpness(picture)),
                            float(losses.grid_share(even, STRIDE)),
                            *plain_roughness(photo, picture),
                        )
                    )
                    regular.append(regularity(picture, strokes.plainness(photo)))
                    bar.update()
                edges, sharp, grid, rough, plain = map(statistics.fmean, zip(*rows, strict=True))
                verdicts = {}
                for judge, labels in predicted.items():
                    shares = {c: labels.count(i) / len(labels) for i, c in enumerate(CLASSES)}
                    verdicts[judge] = {"accuracy": shares[name], "called": shares}
                table.setdefault(kind, {})[name] = {
                    "judged": verdicts,
                    "edge_correlation": edges,
                    "sharpness": sharp,
                    "grid_share": grid,
                    "plain_roughness": rough / plain,
                    "plain_regularity": _mean(regular),
                }
    return table


def paintings_regularity(tests: dict[str, PictureFolder]) -> dict[str, float | None]:
    """Regularity of the plain parts of each class's real test pictures, a mean over pictures."""
    result = {}
    for name, folder in tests.items():
        pictures = (folder.tensor(i) for i in range(len(folder)))
        result[name] = _mean(regularity(p, strokes.plainness(p)) for p in pictures)
    return result


def strength_claims(checkpoint: models.Checkpoint, tests: dict[str, PictureFolder]) -> dict:
    """Strength 0 against the photo, and two paintings of one style against each other."""
    network, photo = checkpoint.network, tests["photo"].tensor(0)
    name = next(iter(checkpoint.styles))
    codes = [network.encode_style(tests[name].tensor(i)) for i in (0, 1)]
    unchanged = bool((to_rgb(network.repaint(photo, codes[0], 0.0)) == to_rgb(photo)).all())
    two = [to_rgb(network.repaint(photo, code)).astype(int) for code in codes]
    return {
        "strength_0_is_the_photo": unchanged,
        "two_paintings_differ_by": float(np.abs(two[0] - two[1]).mean()),
    }


def seconds_at_512(network: models.Repainter, rounds: int, ground: models.Ground) -> list[float]:
    """Times of one 512 px picture with its code, which wants a ground, at hand, seconds."""
    photo = torch.rand(1, 3, 512, 512) * 2 - 1
    code = replace(network.encode_style(photo[..., :256, :256]), ground=ground)
    network.repaint(photo, code)
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        network.repaint(photo, code)
        times.append(time.perf_counter() - start)
    return times


def spectral_share(network: models.Repainter, rounds: int) -> float:
    """Share of a 512 px picture's time that is spent inside the hops, covariances included."""
    photo = torch.rand(1, 3, 512, 512) * 2 - 1
    code = network.encode_style(photo[..., :256, :256])
    spent = [0.0]
    original = network_module.Hop.forward

    def timed(self, *args, **kwargs):
        start = time.perf_counter()
        result = original(self, *args, **kwargs)
        spent[0] += time.perf_counter() - start
        return result

    shares = []
    network_module.Hop.forward = timed
    try:
        for _ in range(rounds + 1):
            spent[0] = 0.0
            start = time.perf_counter()
            network.repaint(photo, code)
            shares.append(spent[0] / (time.perf_counter() - start))
    finally:
        network_module.Hop.forward = original
    return statistics.median(shares[1:])


def peak_memory(checkpoint: str) -> float:
    """Peak resident memory of one 512 px stylization above the imports, MB, in a new process."""
    # VmHWM belongs to this program alone; ru_maxrss would start at what its parent once held.
    script = (
        "import sys, torch, models\n"
        "from app import painter, images\n"
        "import numpy as np\n"
        "def status(key):\n"
        "    lines = open('/proc/self/status').read().splitlines()\n"
        "    return int(next(l for l in lines if l.startswith(key)).split()[1])\n"
        "base = status('VmRSS')\n"
        "p = painter.Painter(sys.argv[1], device='cpu')\n"
        "rgb = np.random.default_rng(0).integers(0, 256, (512, 512, 3), dtype=np.uint8)\n"
        "p.paint(images.Picture(rgb), p.style(p.style_names[0]))\n"
        "print((status('VmHWM') - base) / 1024)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", script, checkpoint], capture_output=True, text=True, check=True
    )
    return float(run.stdout)


def cost(checkpoint: models.Checkpoint, path: str, rounds: int) -> dict:
    """Seconds, ratios to the GD-WCT-sized network in the same run, spectral share, memory."""
    torch.manual_seed(0)
    # C = 256, 4 residual blocks in the encoder and 4 in the generator.
    paper = models.RepainterConfig(width=64, blocks=4, group_size=32, coloring="mlp", method="gd")
    gd_wct = models.Repainter(paper).eval()
    svd_wct = models.Repainter(replace(paper, method="svd", gradient="taylor")).eval()
    # Ours with all that a built-in style wants; the others paint the photo as it is.
    ours = next(iter(checkpoint.styles.values()))[0].ground
    rivals = [(checkpoint.network, ours), (gd_wct, models.Ground()), (svd_wct, models.Ground())]
    # Alternating, so that a busy moment of the machine falls on all.
    times = [
        [seconds_at_512(network, 1, ground)[0] for network, ground in rivals] for _ in range(rounds)
    ]
    return {
        "seconds": statistics.median(ours for ours, *_ in times),
        "gd_wct_seconds": statistics.median(gd for _, gd, _ in times),
        "ratio_to_gd_wct": statistics.median(ours / gd for ours, gd, _ in times),
        "svd_wct_to_gd_wct": statistics.median(svd / gd for _, gd, svd in times),
        "spectral_share": spectral_share(checkpoint.network, rounds),
        "peak_memory_mb": peak_memory(path),
        "threads": torch.get_num_threads(),
        "load_before": os.getloadavg()[0],
    }


def print_tables(report: dict) -> None:
    """The tables on standard output."""
    for judge, real in report.get("real_accuracy", {}).items():
        print(
            f"{judge} on real test pictures: " + "  ".join(f"{k} {v:.2f}" for k, v in real.items())
        )
    for kind, rows in report.get("styles", {}).items():
        for judge in report["real_accuracy"]:
            print(f"\n{kind}, {judge}\n{'style':10} accuracy  called photo")
            judged = {name: row["judged"][judge] for name, row in rows.items()}
            for name, row in judged.items():
                print(f"{name:10} {row['accuracy']:8.2f}  {row['called']['photo']:12.2f}")
            mean = statistics.fmean(row["accuracy"] for row in judged.values())
            photo = statistics.fmean(row["called"]["photo"] for row in judged.values())
            print(f"{'mean':10} {mean:8.2f}  {photo:12.2f}")
        print(
            f"\n{kind}\n{'style':10} edges  sharpness  grid share  "
            "plain parts: roughness, levels  regularity"
        )
        measures = ("edge_correlation", "sharpness", "grid_share", "plain_roughness")
        measures = (*measures, "plain_regularity")
        means = {m: _mean(row[m] for row in rows.values()) for m in measures}
        for name, row in [*rows.items(), ("mean", means)]:
            edges, sharp, grid, rough, regular = (_number(row[m]) for m in measures)
            print(
                f"{name:10} {edges:5.2f}  {sharp:9.1f}  {grid:10.4f}  {rough:30.1f}"
                f"  {regular:10.1f}"
            )
    if "paintings_regularity" in report:
        print("\nregularity of plain parts of the real test pictures")
        for name, regular in report["paintings_regularity"].items():
            print(f"{name:10} {_number(regular):10.1f}")
    print()
    for group in ("claims", "cost"):
        for key, value in report.get(group, {}).items():
            print(f"{key:26} {value if isinstance(value, bool) else round(value, 3)}")


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", default="checkpoints/artworks.safetensors")
    parser.add_argument("--artworks", type=Path, default=ARTWORKS)
    parser.add_argument("--limit", type=int, default=100, help="test photos")
    parser.add_argument("--rounds", type=int, default=5, help="timings")
    parser.add_argument("--only", choices=("quality", "cost"))
    parser.add_argument("--classifier", default=str(CLASSIFIER), help="a style classifier's file")
    parser.add_argument(
        "--backbones",
        nargs="*",
        choices=tuple(STAGES),
        default=(SECOND,),
        help="whose pooled features linear judges see, beside the classifier; efficientnet-lite2's "
        "have chosen nothing here (the default)",
    )
    parser.add_argument("--judges", type=Path, help="folder that keeps the linear judges")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="JSON file")
    arguments = parser.parse_args()
    checkpoint = models.load_checkpoint(arguments.checkpoint)
    report: dict = {"checkpoint": Path(arguments.checkpoint).name, "photos": arguments.limit}
    if arguments.only != "cost":
        tests = {c: PictureFolder(arguments.artworks / "test" / c) for c in CLASSES}
        judges = {Path(arguments.classifier).name: classifier_judge(arguments.classifier)}
        judges |= {
            f"linear, on pooled {name} features": linear_judge(
                arguments.artworks, name, arguments.judges
            )
            for name in arguments.backbones
        }
        report["real_accuracy"] = {
            name: real_accuracy(judge, tests) for name, judge in judges.items()
        }
        report["styles"] = style_tables(checkpoint, judges, tests, arguments.limit, arguments.seed)
        report["paintings_regularity"] = paintings_regularity(tests)
        report["claims"] = strength_claims(checkpoint, tests)
    if arguments.only != "quality":
        report["cost"] = cost(checkpoint, arguments.checkpoint, arguments.rounds)
    print_tables(report)
    written(report, arguments.out)


if __name__ == "__main__":
    main()
