"""How fast painting is, as ratios to what it can be compared with in the same run.

    pictures  seconds by size and style, over two networks that this script builds itself: the
              GD-WCT-sized one, and a plain depthwise-separable one of the shape that the fastest
              published arbitrary-style networks have; and over the limit: the time that the bare
              convolutions would take at the rate at which this processor convolves
    busy      the same picture with other programs beside it, by the threads that the painter
              chooses, and by one
    start     one 512 px photo from the shell to the written file, over importing torch and painting
    training  steps a minute, and what a step spends its time on

All that is compared alternates. A ratio is the median of the rounds' ratios, so that a moment in
which the machine does something else counts once. On a machine that is never quiet, run it under
`nice -n -20` as root.

python -m benchmarks.speed [--only pictures busy start training] [--out out/speed.json]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import numpy as np
import skimage.data
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

import models
from app import images, shipped
from app.limits import Limits
from app.painter import Painter
from models import winograd
from models.precision import AUTO, PRECISIONS

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("pictures", "busy", "start", "training")
RATE_SIDES = {96: 128, 48: 256, 24: 512}  # channels and side of maps as large as our network's
BUSY = "while True: pass"


# -- what ours is compared with


class Separable(nn.Module):
    """A depthwise 3x3 convolution and a pointwise one, each with instance norm and ReLU."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.ReflectionPad2d(1),
            nn.Conv2d(inputs, inputs, 3, stride, groups=inputs),
            nn.InstanceNorm2d(inputs),
            nn.ReLU(inplace=True),
            nn.Conv2d(inputs, outputs, 1),
            nn.InstanceNorm2d(outputs),
            nn.ReLU(inplace=True),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


class Residual(nn.Module):
    """x + two separable convolutions of it."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.branch = nn.Sequential(Separable(channels, channels), Separable(channels, channels))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.branch(x)


class DepthwiseReference(nn.Module):
    """A small feed-forward network for any style, built from public descriptions of such.

    9x9 convolution at full size; 16, 32 and 64 channels at full, half and a quarter of it; residual
    blocks at a quarter; adaptive instance norm; bilinear upsampling. Its weights are random: it is
    here for its time.
    """

    def __init__(self, width: int = 16, blocks: int = 2) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.ReflectionPad2d(4),
            nn.Conv2d(3, width, 9),
            nn.InstanceNorm2d(width),
            nn.ReLU(inplace=True),
            Separable(width, 2 * width, 2),
            Separable(2 * width, 4 * width, 2),
            *(Residual(4 * width) for _ in range(blocks)),
        )
        self.middle = nn.Sequential(*(Residual(4 * width) for _ in range(blocks)))
        self.up = nn.ModuleList([Separable(4 * width, 2 * width), Separable(2 * width, width)])
        self.output = nn.Sequential(nn.ReflectionPad2d(4), nn.Conv2d(width, 3, 9))

    def forward(self, photo: Tensor, mean: Tensor, deviation: Tensor) -> Tensor:
        """Photos (B, 3, H, W) with the moments (B, C, 1, 1) of a style's features."""
        x = F.instance_norm(self.encoder(photo)) * deviation + mean
        x = self.middle(x)
        for layer in self.up:
            x = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
            x = layer(x)
        return self.output(x).clamp(-1, 1)


def gd_wct_sized() -> models.Repainter:
    """C = 256, 4 residual blocks in the encoder and 4 in the generator."""
    config = models.RepainterConfig(width=64, blocks=4, group_size=32, coloring="mlp", method="gd")
    return models.Repainter(config).eval()


def convolution_rate(rounds: int = 5, dtype: torch.dtype = torch.float32) -> float:
    """The best rate at which this processor plainly convolves maps like ours, FLOP a second."""
    best = 0.0
    for channels, side in RATE_SIDES.items():
        x = torch.randn(1, channels, side, side, dtype=dtype)
        x = x.contiguous(memory_format=torch.channels_last)
        kernel = torch.randn(channels, channels, 3, 3, dtype=dtype)
        kernel = kernel.contiguous(memory_format=torch.channels_last)
        operations = 2 * 9 * channels**2 * side**2
        for _ in range(3 * rounds):
            took = seconds(lambda x, kernel: F.conv2d(x, kernel, padding=1), x, kernel)
            best = max(best, operations / took)
    return best


def convolution_operations(network: models.Repainter, code: models.StyleCode, side: int) -> float:
    """Floating point operations of the convolutions of a square picture, as they are defined.

    That is, upsampled first and then convolved, whatever is done instead to be faster.
    """
    side = min(side, 512)  # proportional to the pixels from there
    photo = torch.zeros(1, 3, side, side)
    # The counter does not know the convolutions by tiles.
    plainly = mock.patch.object(winograd, "is_faster", lambda: False)
    with plainly, FlopCounterMode(display=False) as counter:
        network.generate(network.encode_content(photo), code)
    counts = counter.get_flop_counts()["Global"]
    return float(sum(n for kind, n in counts.items() if "convolution" in str(kind)))


# -- measuring


def seconds(what: Callable[..., object], *given: object) -> float:
    """What one call takes."""
    start = time.perf_counter()
    what(*given)
    return time.perf_counter() - start


def painter_of(options: argparse.Namespace) -> Painter:
    limits = Limits(remembered_content=0)
    return Painter(options.checkpoint, "cpu", limits, options.precision)


def photo_of(side: int) -> np.ndarray:
    """A portrait that scikit-image ships, (side, side, 3), with fine grain as cameras have it."""
    image = Image.fromarray(skimage.data.astronaut()).resize((side, side), Image.Resampling.BICUBIC)
    noise = np.random.default_rng(0).normal(0, 3, (side, side, 1))
    return (np.asarray(image) + noise).clip(0, 255).astype(np.uint8)


def pictures(options: argparse.Namespace) -> dict:
    """Seconds by size and style, and ratios to both references and to the limit."""
    painter = painter_of(options)
    codes = {name: painter.style(name) for name in painter.style_names}
    depthwise, gd_wct = DepthwiseReference().eval(), gd_wct_sized()
    moments = torch.zeros(1, 64, 1, 1), torch.ones(1, 64, 1, 1)
    first = next(iter(codes.values()))
    gd_code = gd_wct.encode_style(torch.zeros(1, 3, 256, 256))
    rows = []
    for side in options.sizes:
        photo = images.Picture(photo_of(side))
        tensor = images.to_tensor(photo.rgb)
        operations = convolution_operations(painter.network, first, side)
        operations *= max(1, side / 512) ** 2
        rounds = []
        for _ in range(1 + options.rounds):
            row = {"rate": convolution_rate(2, painter.precision.dtype)}
            with torch.no_grad():
                row["depthwise"] = seconds(depthwise, tensor, *moments)
                if side <= options.largest_reference:
                    row["gd_wct"] = seconds(gd_wct.repaint, tensor, gd_code)
            for name, code in codes.items():
                row[name] = seconds(painter.paint, photo, code)
            rounds.append(row)
        rounds = rounds[1:]
        rate = max(row["rate"] for row in rounds)
        result = {"side": side, "limit": operations / rate, "rate": rate}
        for row in rounds:
            row["ours"] = statistics.fmean(row[name] for name in codes)
        for name in ("ours", *codes, "depthwise", "gd_wct"):
            if name in rounds[0]:
                result[name] = statistics.median(row[name] for row in rounds)
        for other in ("depthwise", "gd_wct"):
            if other in rounds[0]:
                result[f"of_{other}"] = statistics.median(r["ours"] / r[other] for r in rounds)
        result["of_limit"] = min(row["ours"] for row in rounds) / result["limit"]
        rows.append(result)
        print_pictures([result], list(codes), painter.precision.name if len(rows) == 1 else "")
    return {
        "rows": rows,
        "threads": torch.get_num_threads(),
        "precision": painter.precision.name,
        "by_tiles": winograd.is_faster(),
    }


def print_pictures(rows: list[dict], styles: list[str], precision: str) -> None:
    """A line a size; with a precision, the head of the table before it."""
    if precision:
        print(f"\nSeconds a picture, {precision}, {torch.get_num_threads()} threads")
        print(
            "  side  "
            + "".join(f"{name:>9}" for name in (*styles, "mean"))
            + "  depthwise   ours/it    GD-WCT   ours/it     limit   ours/it"
        )
    for row in rows:
        own = "".join(f"{row[name]:9.3f}" for name in (*styles, "ours"))
        gd = f"{row['gd_wct']:10.3f}{row['of_gd_wct']:10.3f}" if "gd_wct" in row else " " * 20
        print(
            f"{row['side']:6}  {own}{row['depthwise']:11.3f}{row['of_depthwise']:10.3f}{gd}"
            f"{row['limit']:10.3f}{row['of_limit']:10.2f}",
            flush=True,
        )


@contextmanager
def programs(count: int) -> Iterator[list[subprocess.Popen]]:
    """Other programs that want a core each, for as long as this lasts."""
    running = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        time.sleep(0.5)
        yield running
    finally:
        for program in running:
            program.kill()
            program.wait()


def paint_all(painter: Painter, photo: images.Picture, codes: list[models.StyleCode]) -> None:
    for code in codes:
        painter.paint(photo, code)


def busy(options: argparse.Namespace) -> dict:
    """Seconds of a 512 px picture with other programs beside it, by threads."""
    photo, rows = images.Picture(photo_of(options.busy_size)), []
    threads = torch.get_num_threads()
    print(f"\nSeconds of a {options.busy_size} px picture, the styles' mean, beside other programs")
    print("programs   chosen threads   one thread   chosen/one   chosen/chosen alone")
    for count in (0, 1, 2):
        painter = painter_of(options)
        codes = [painter.style(name) for name in painter.style_names]
        chosen, one = [], []
        with programs(count):
            torch.set_num_threads(threads)
            for _ in range(1 + options.rounds):
                chosen.append(seconds(paint_all, painter, photo, codes))
                left = torch.get_num_threads()
                torch.set_num_threads(1)
                one.append(seconds(paint_all, painter, photo, codes))
                torch.set_num_threads(left)  # as if nothing had been in between
        torch.set_num_threads(threads)
        row = {
            "programs": count,
            "chosen": statistics.median(chosen[1:]) / len(codes),
            "one": statistics.median(one[1:]) / len(codes),
            "of_one": statistics.median(a / b for a, b in zip(chosen[1:], one[1:], strict=True)),
        }
        rows.append(row)
        print(
            f"{count:8} {row['chosen']:16.3f} {row['one']:12.3f} {row['of_one']:12.2f}"
            f" {row['chosen'] / rows[0]['chosen']:21.2f}",
            flush=True,
        )
    return {"rows": rows, "threads": threads}


def run(command: list[str]) -> None:
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)


def start(options: argparse.Namespace) -> dict:
    """Seconds from the shell to the written file, and of what it cannot do without."""
    painter = painter_of(options)
    photo, code = images.Picture(photo_of(512)), painter.style(painter.style_names[0])
    painter.paint(photo, code)
    rounds = []
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "photo.jpg"
        Image.fromarray(photo.rgb).save(source, quality=92)
        shell = [sys.executable, "-m", "app.stylize", str(source)]
        shell += ["--precision", options.precision]
        shell += ["--checkpoint", str(options.checkpoint), "--style", painter.style_names[0]]
        shell += ["--out", str(Path(folder) / "out"), "--overwrite"]

        for _ in range(1 + options.rounds):
            torch_alone = seconds(run, [sys.executable, "-c", "import torch"])
            painting = seconds(painter.paint, photo, code)
            whole = seconds(run, shell)
            rounds.append((whole, torch_alone, painting, whole / (torch_alone + painting)))
    whole, torch_alone, painting, ratio = (
        statistics.median(c) for c in zip(*rounds[1:], strict=True)
    )
    print("\nOne 512 px photo from the shell to the file, seconds")
    print(f"whole {whole:.2f}   import torch {torch_alone:.2f}   painting {painting:.2f}")
    print(f"whole over the sum of both: {ratio:.2f}")
    return {"whole": whole, "torch": torch_alone, "painting": painting, "ratio": ratio}


def training(options: argparse.Namespace) -> dict:
    """Steps a minute of the default recipe, on the pictures of a folder a style."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run.safetensors"
        command = [sys.executable, "-m", "app.train", "--out", str(out)]
        command += ["--photos", str(options.artworks / "train" / "photo")]
        for name in ("monet", "vangogh"):
            command += ["--style", f"{name}={options.artworks / 'train' / name}"]
        command += ["--precision", options.precision]
        command += ["--init", str(options.checkpoint), "--train", "all", "--codes", "medoids"]
        times = []
        for steps in (options.steps, 3 * options.steps):
            times.append(seconds(run, [*command, "--steps", str(steps)]))
    # What starting and ending take is in both.
    rate = 60 * 2 * options.steps / (times[1] - times[0])
    print(f"\nTraining, batch 3, 144 px: {rate:.1f} steps a minute, {60 / rate:.2f} s a step")
    return {"steps_a_minute": rate}


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--checkpoint", type=Path, default=shipped.CHECKPOINT)
    parser.add_argument("--artworks", type=Path, default=ROOT.parent / "shared" / "artworks")
    parser.add_argument("--sizes", type=int, nargs="+", default=[256, 512, 1024, 2048, 4899])
    parser.add_argument(
        "--largest-reference", type=int, default=1024, metavar="PX", help="of the GD-WCT-sized one"
    )
    parser.add_argument("--busy-size", type=int, default=512, metavar="PX")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--precision", choices=PRECISIONS, default=AUTO)
    parser.add_argument("--steps", type=int, default=20, help="of a training run")
    parser.add_argument("--out", type=Path, default=Path("out/speed.json"))
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    options = parse_arguments(argv)
    report: dict = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}",
        "load_before": os.getloadavg()[0],
    }
    parts = {"pictures": pictures, "busy": busy, "start": start, "training": training}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    for name in options.only:
        report[name] = parts[name](options)
        options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
