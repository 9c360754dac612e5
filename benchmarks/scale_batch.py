"""What the batch and video hold at scale: many files, broken files, kills, speed, flicker.

    many      1,000 pictures in one call, every 50th broken in a different way: 980 results, 20
              named failures, exit code 1, and memory as flat at the end as at the start
    mutated   500 files, cut, bit-flipped, renamed or with absurd headers: no crash, no hang, and
              no result that is not a whole picture
    kills     kill -9 at ten random moments and --resume: the results of an undisturbed run
    overlap   a folder of 12-megapixel JPEGs against painting the decoded pictures alone
    jobs      several pictures painted side by side, each with its share of the cores, against one
              at a time with all of them
    flicker   frame-to-frame change of a painted pan over that of the pan itself: as app.video
              paints it, with the network's grid fixed to the frame, without held statistics, and
              of one painting moved by the pan, which is the least that brushwork allows
    camera    the same where the camera zooms in, and where it turns
    brush     frames of 1200 x 720 px painted with larger strokes: seconds, and what a pan changes

Every photo is made from those that scikit-image and scikit-learn ship.

python -m benchmarks.scale_batch --out out/scale_batch.json
"""

from __future__ import annotations

import argparse
import functools
import io
import json
import math
import os
import random
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from PIL import Image
from tqdm import tqdm

import models
from app import batch, images, listing, shipped, video
from app.limits import Limits
from app.look import Look
from app.painter import Painter
from benchmarks.sample_sheet import photos
from benchmarks.scale import change
from models.finish.enlargement import SIZES

ROOT = Path(__file__).resolve().parents[1]
FORMATS = ("jpg", "png", "webp")
MUTATED_FORMATS = ("jpg", "png", "webp", "gif", "tif", "bmp", "avif", "heic", "jp2", "ppm")


def encoded(image: Image.Image, suffix: str) -> bytes:
    """The picture as a file of that format."""
    file = io.BytesIO()
    name = {"jpg": "JPEG", "tif": "TIFF", "heic": "HEIF", "jp2": "JPEG2000"}
    image.save(file, name.get(suffix, suffix.upper()))
    return file.getvalue()


def crops(count: int, smallest: int, largest: int, seed: int) -> Iterator[Image.Image]:
    """Random crops of the photos, with sides in a range of pixels."""
    draw, originals = random.Random(seed), photos()
    for i in range(count):
        photo = originals[i % len(originals)]
        width, height = draw.randint(smallest, largest), draw.randint(smallest, largest)
        left = draw.randrange(photo.shape[1] - width)
        top = draw.randrange(photo.shape[0] - height)
        yield Image.fromarray(photo[top : top + height, left : left + width])


def broken_ways() -> list[Callable[[bytes], bytes]]:
    """Twenty ways in which a PNG or JPEG of an album may be broken."""
    png_header = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
    size = struct.pack
    bomb = encoded(Image.new("1", (20_000, 20_000)), "png")
    return [
        lambda _: b"",
        lambda _: b"Dear diary,\n" * 40,
        lambda _: bytes(4096),
        lambda _: b"<!DOCTYPE html><title>404</title>",
        lambda _: b"%PDF-1.7\n" + bytes(200),
        lambda _: b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n",
        lambda _: b'<svg xmlns="http://www.w3.org/2000/svg"/>',
        lambda _: b"PK\x03\x04" + bytes(100),
        lambda _: b"\x00\x00\x00\x18ftypmp42" + bytes(300),
        lambda _: b"\x00\x00\x00\x18ftypheic" + bytes(300),
        lambda _: bomb,
        lambda _: png_header + size(">LL", 2**31 - 1, 2**31 - 1) + bytes(40),
        lambda _: png_header + size(">LL", 0, 0) + bytes(40),
        lambda _: b"BM" + size("<LLLLll", 60, 0, 54, 40, 0, 0) + bytes(40),
        lambda _: b"II*\x00" + size("<LHHHLLL", 8, 1, 256, 4, 1, 9, 8),  # a circle of directories
        lambda _: b"RIFF\xff\xff\xff\xffWEBPVP8 " + bytes(64),
        lambda _: b"GIF89a\x10\x00\x10\x00\x00\x00\x00",
        lambda whole: whole[: len(whole) // 2],
        lambda whole: whole[:20],
        lambda whole: whole[:12] + bytes(64) + whole[76:200],
    ]


@dataclass(frozen=True)
class Batch:
    """What one call of the command line printed, and what it held meanwhile.

    memory: resident bytes after each outcome. times: seconds, when each came.
    """

    outcomes: list[dict]
    memory: list[int]
    times: list[float]
    exit_code: int
    errors: str


class Command:
    """The command line as a program, with options that every part of the benchmark shares."""

    def __init__(self, checkpoint: Path, style: str) -> None:
        self.options = ["--style", style, "--checkpoint", str(checkpoint), "--device", "cpu"]

    def start(self, source: Path, out: Path, *more: str, **streams: object) -> subprocess.Popen:
        command = [sys.executable, "-m", "app.stylize", str(source), "--out", str(out)]
        return subprocess.Popen([*command, *self.options, *more], cwd=ROOT, text=True, **streams)

    def finish(self, source: Path, out: Path, *more: str) -> int:
        """Run to the end; the exit code."""
        return self.start(source, out, *more, stderr=subprocess.DEVNULL).wait()

    def watch(self, source: Path, out: Path, *more: str) -> Batch:
        """Run to the end with --json, and look at the process after each line."""
        outcomes, memory, times = [], [], []
        # Not a pipe: it could fill up while only the other one is read.
        with tempfile.TemporaryFile("w+") as errors:
            streams = {"stdout": subprocess.PIPE, "stderr": errors}
            program = self.start(source, out, "--json", *more, **streams)
            total = len(list(source.iterdir()))
            for line in tqdm(program.stdout, source.name, total, unit="file"):
                outcomes.append(json.loads(line))
                memory.append(resident(program.pid))
                times.append(time.perf_counter())
            code = program.wait()
            errors.seek(0)
            return Batch(outcomes, memory, times, code, errors.read())


def resident(process: int) -> int:
    """Bytes of memory that a process holds (Linux)."""
    with open(f"/proc/{process}/statm", encoding="utf-8") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def many(command: Command, folder: Path, count: int) -> dict:
    """One call over `count` pictures of 64 to 128 px, every 50th of them broken."""
    source, out = folder / "many", folder / "many_out"
    source.mkdir()
    ways, broken = broken_ways(), []
    for i, crop in enumerate(crops(count, 64, 128, seed=1)):
        suffix = FORMATS[i % len(FORMATS)]
        path = source / f"{i:04}.{suffix}"
        data = encoded(crop, suffix)
        if i % 50 == 49:
            data = ways[i // 50 % len(ways)](data)
            broken.append(path)
        path.write_bytes(data)
    run = command.watch(source, out)
    failed = {outcome["input"] for outcome in run.outcomes if outcome["status"] == "failed"}
    results = [path for path in out.iterdir() if path.name != batch.MANIFEST]
    first, last = np.mean(run.memory[:100]), np.mean(run.memory[-100:])
    return {
        "pictures": count,
        "results": len(results),
        "failures": len(failed),
        "failures are the broken files": failed == {str(path) for path in broken},
        "each named on stderr": all(f"{path}: failed: " in run.errors for path in broken),
        "traceback": "Traceback" in run.errors,
        "exit code": run.exit_code,
        "seconds from the first to the last": run.times[-1] - run.times[0],
        "memory of the first 100, MB": first / 1e6,
        "memory of the last 100, MB": last / 1e6,
        "last over first": last / first,
        "reasons": sorted({outcome["reason"] for outcome in run.outcomes if outcome["reason"]}),
    }


def mutations(count: int, seed: int) -> Iterator[tuple[str, str, bytes]]:
    """Kind, file name and bytes of mutated pictures."""
    draw = random.Random(seed)
    for i, crop in enumerate(crops(count, 24, 64, seed)):
        suffix = MUTATED_FORMATS[i % len(MUTATED_FORMATS)]
        kind = ("cut", "flipped", "header", "renamed")[i // len(MUTATED_FORMATS) % 4]
        data = bytearray(encoded(crop, suffix))
        if kind == "cut":
            del data[draw.randrange(len(data)) :]
        elif kind == "flipped":
            for _ in range(draw.choice((1, 4, 32))):
                data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        elif kind == "header":
            start, length = draw.randrange(2, 24), draw.choice((2, 4, 8, 24))
            data[start : start + length] = draw.choice((bytes, draw.randbytes))(length)
        else:
            suffix = draw.choice([other for other in MUTATED_FORMATS if other != suffix])
        yield kind, f"{i:04}-{kind}.{suffix}", bytes(data)


def mutated(command: Command, folder: Path, count: int) -> dict:
    """One call over mutated files, each result then decoded by Pillow."""
    source, out = folder / "mutated", folder / "mutated_out"
    source.mkdir()
    kinds = {}
    for kind, name, data in mutations(count, seed=2):
        (source / name).write_bytes(data)
        kinds[str(source / name)] = kind
    run = command.watch(source, out, "--format", "png", "--max-size", "128")
    invalid = 0
    for outcome in run.outcomes:
        if outcome["status"] == "done":
            with Image.open(outcome["output"]) as result:
                result.load()
                invalid += result.size != (outcome["width"], outcome["height"])
    painted = {kind: 0 for kind in dict.fromkeys(kinds.values())}
    for outcome in run.outcomes:
        painted[kinds[outcome["input"]]] += outcome["status"] == "done"
    return {
        "files": len(kinds),
        "outcomes": len(run.outcomes),
        "painted, by kind": painted,
        "results that are no picture": invalid,
        "traceback": "Traceback" in run.errors,
        "exit code": run.exit_code,
        "longest for one file, s": max(outcome["seconds"] for outcome in run.outcomes),
        "longest wait for one, s": max(later - now for now, later in pairwise(run.times)),
    }


def kills(command: Command, folder: Path, count: int, times: int = 10) -> dict:
    """kill -9 of a batch at random moments, --resume, and the results against a quiet run's."""
    source, quiet, out = folder / "kills", folder / "quiet_out", folder / "kills_out"
    source.mkdir()
    for i, crop in enumerate(crops(count, 96, 160, seed=3)):
        suffix = FORMATS[i % len(FORMATS)]
        (source / f"{i:03}.{suffix}").write_bytes(encoded(crop, suffix))

    def results(target: Path) -> dict[str, bytes]:
        names = [p for p in target.glob("*") if not p.name.startswith(".")]
        return {path.name: path.read_bytes() for path in names}

    command.finish(source, quiet)
    wanted = results(quiet)
    draw = random.Random(4)
    at_kill, wrong, left = [], 0, 0
    for _ in tqdm(range(times), "kills", unit="kill"):
        program = command.start(source, out, "--resume", stderr=subprocess.DEVNULL)
        before = len(results(out))
        more = draw.randint(0, max(1, (count - before) // 4))
        while len(results(out)) < before + more and program.poll() is None:
            time.sleep(0.001)
        time.sleep(draw.uniform(0, 0.1) if more else draw.uniform(0, 8))
        program.kill()
        program.wait()
        there = results(out)
        at_kill.append(len(there))
        wrong += sum(wanted[name] != data for name, data in there.items())
        left += len(list(out.glob("*.part")))
    code = command.finish(source, out, "--resume")
    return {
        "pictures": count,
        "results at each kill": at_kill,
        "unfinished files that kills left": left,
        "results that differed at a kill": wrong,
        "exit code of the last": code,
        "equal to an undisturbed run": results(out) == wanted,
        "unfinished files at the end": len(list(out.glob("*.part"))),
    }


def overlap(
    painter: Painter, style: str, folder: Path, count: int, max_size: int, rounds: int
) -> dict:
    """12-megapixel JPEGs through the batch, against painting the decoded pictures alone.

    Seconds of the processor (all threads), which other processes do not lengthen, and of the wall.
    """
    source, out = folder / "overlap", folder / "overlap_out"
    source.mkdir()
    out.mkdir()
    draw = np.random.default_rng(5)
    for i, photo in zip(range(count), photos() * count, strict=False):
        large = Image.fromarray(photo).resize((4000, 3000), Image.Resampling.BICUBIC)
        noisy = np.asarray(large, np.int16) + draw.integers(-10, 11, (3000, 4000, 1))
        Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(source / f"{i}.jpg", quality=92)
    code = painter.style(style)
    decoded = [images.resize(images.load(path), max_size) for path in sorted(source.iterdir())]

    def clock(work: Callable[[], object]) -> tuple[float, float]:
        wall, processor = time.perf_counter(), time.process_time()
        work()
        return time.perf_counter() - wall, time.process_time() - processor

    def alone() -> None:
        for picture in decoded:
            painter.paint(picture, code)

    def through_batch() -> None:
        work = batch.Work(
            lambda pictures: [painter.paint(picture, code) for picture in pictures],
            {},
            max_size=max_size,
            overwrite=True,
        )
        list(batch.run(listing.plan([str(source)], out).jobs, work, out))

    def one_by_one() -> None:
        for path in sorted(source.iterdir()):
            painted = painter.paint(images.resize(images.load(path), max_size), code)
            images.save(painted, out / path.name)

    painter.paint(decoded[0], code)
    ways = {
        "painting alone": alone,
        "batch": through_batch,
        "load, paint, save in turn, whole JPEGs": one_by_one,
    }
    timed = [
        {name: clock(work) for name, work in ways.items()}
        for _ in tqdm(range(rounds), "overlap", unit="round")
    ]
    best = {name: np.min([each[name] for each in timed], axis=0) for name in ways}
    base = best["painting alone"]
    return {
        "pictures": count,
        "max size, px": max_size,
        "seconds of the wall": {name: float(wall) for name, (wall, _) in best.items()},
        "seconds of the processor": {name: float(cpu) for name, (_, cpu) in best.items()},
        "wall over painting alone": {n: float(w / base[0]) for n, (w, _) in best.items()},
        "processor over painting alone": {n: float(c / base[1]) for n, (_, c) in best.items()},
    }


def jobs(command: Command, folder: Path, count: int, rounds: int) -> dict:
    """Seconds a picture and memory of --jobs, at three sizes.

    From the first outcomes on, so that the program's start does not count; each size's numbers of
    jobs take turns, and the least counts.
    """
    numbers = sorted({1, 2, os.cpu_count() or 1})
    seconds, memory = {}, {}
    for side in (256, 512, 1024):
        source = folder / f"jobs{side}"
        source.mkdir()
        for i, photo in zip(range(count), photos() * count, strict=False):
            picture = images.resize(images.Picture(np.roll(photo, 31 * i, 1)), side)
            images.save(picture, source / f"{i:03}.jpg")
        runs: dict[int, list[Batch]] = {number: [] for number in numbers}
        for _ in range(rounds):
            for number, batches in runs.items():
                out = folder / f"jobs{side}_out"
                options = ("--jobs", str(number), "--overwrite")
                batches.append(command.watch(source, out, *options))
        for number, batches in runs.items():
            first = 2 * number - 1  # all are at work, and none of them is the first
            least = min(b.times[-1] - b.times[first] for b in batches) / (count - 1 - first)
            seconds[f"{side} px, --jobs {number}"] = least
            peak = max(max(b.memory) for b in batches)
            memory[f"{side} px, --jobs {number}"] = peak / 1e6
    one = {name: seconds[f"{name.split(',')[0]}, --jobs 1"] for name in seconds}
    return {
        "pictures": count,
        "cores": os.cpu_count(),
        "seconds a picture": seconds,
        "times as fast as one at a time": {n: one[n] / s for n, s in seconds.items()},
        "memory, MB": memory,
    }


WAYS = ("as app.video", "grid fixed", "not held", "one painting, moved")


def flicker(
    painter: Painter, styles: Sequence[str], count: int, step: int = 3, brushwork: float = 1.0
) -> dict:
    """A pan over each photo, painted as app.video does, and in ways to compare it with.

    The change is that of the pixels in one place of the frame. With the pan undone it is that of
    one place of the photo, where the input does not change at all.
    """

    def windows(strip: np.ndarray) -> list[np.ndarray]:
        width = strip.shape[1] - step * (count - 1)
        return [strip[:, step * i : step * i + width] for i in range(count)]

    strips = [
        photo[40:216, : min(240, photo.shape[1] - step * count) + step * (count - 1)]
        for photo in photos()[:4]
    ]
    rows = []
    for style in tqdm(styles, "flicker", unit="style"):
        look, code = Look(brushwork), painter.style(style)
        for number, strip in enumerate(strips):
            row = {"style": style, "pan": number, "input": _levels(windows(strip))}
            for name, painted in _painted(strip, windows, painter, code, look).items():
                row[name] = _levels(painted) / row["input"]
                row[f"{name}, pan undone"] = _levels(painted, step)
            rows.append(row)
    undone = {way: float(np.mean([row[f"{way}, pan undone"] for row in rows])) for way in WAYS}
    return {
        "frames a pan": count,
        "pixels a frame": step,
        **_changes(rows, "pan"),
        "change with the pan undone, levels": undone,
        "rows": rows,
    }


def camera(
    painter: Painter,
    styles: Sequence[str],
    count: int,
    zoom: float = 0.01,
    turn: float = 0.5,
    brushwork: float = 1.0,
) -> dict:
    """A camera that zooms in, and one that turns, over each photo: what no pan can undo.

    Args:
        zoom: the part of its size by which the scene grows a frame.
        turn: degrees a frame.
    """

    def views(photo: np.ndarray, grown: float, turned: float) -> list[np.ndarray]:
        whole, (height, width) = Image.fromarray(photo), (176, 240)
        frames = []
        for i in range(count):
            scale, angle = 1 / (1 + grown) ** i, math.radians(turned * i)
            cos, sin = scale * math.cos(angle), scale * math.sin(angle)
            left = whole.width / 2 - cos * width / 2 - sin * height / 2
            top = whole.height / 2 + sin * width / 2 - cos * height / 2
            to_photo = (cos, sin, left, -sin, cos, top)
            way = Image.Transform.AFFINE
            view = whole.transform((width, height), way, to_photo, Image.Resampling.BICUBIC)
            frames.append(np.asarray(view))
        return frames

    figures = {"frames": count}
    motions = {
        "zoom": functools.partial(views, grown=zoom, turned=0.0),
        "turn": functools.partial(views, grown=0.0, turned=turn),
    }
    for motion, seen in motions.items():
        rows = []
        for style in tqdm(styles, motion, unit="style"):
            look, code = Look(brushwork), painter.style(style)
            for number, photo in enumerate(photos()[:4]):
                row = {"style": style, motion: number, "input": _levels(seen(photo))}
                for name, painted in _painted(photo, seen, painter, code, look).items():
                    row[name] = _levels(painted) / row["input"]
                rows.append(row)
        figures |= {f"{motion}: {name}": v for name, v in _changes(rows, motion).items()}
    return figures


def brush(
    painter: Painter,
    style: str,
    width: int = 1200,
    height: int = 720,
    count: int = 4,
    step: int = 6,
) -> dict:
    """A pan over one photo with strokes of every size, one after the other."""
    photo = Image.fromarray(photos()[0])
    size = (width + step * (count - 1), height)
    strip = np.asarray(photo.resize(size, Image.Resampling.BICUBIC))
    frames = [np.ascontiguousarray(strip[:, step * i : step * i + width]) for i in range(count)]
    figures: dict[str, dict] = {"seconds a frame": {}, "change with the pan undone, levels": {}}
    code = painter.style(style)
    for size in tqdm(SIZES, "brush", unit="size"):
        look, pan = Look(brush_size=size), video.Pan()
        survey = video.ShotSurvey(painter, code, look)
        for frame in frames:
            survey.add(frame)
        survey.finish()
        started = time.perf_counter()
        painted = [
            painter.paint_frame(frame, code, look, survey.shots[0].held, pan.follow(frame))
            for frame in frames
        ]
        seconds = (time.perf_counter() - started) / count
        for name, value in zip(figures, (seconds, _levels(painted, step)), strict=True):
            figures[name][str(size)] = value
    return figures


def _painted(
    whole: np.ndarray,
    seen: Callable[[np.ndarray], list[np.ndarray]],
    painter: Painter,
    style: models.StyleCode,
    look: Look,
) -> dict[str, list[np.ndarray]]:
    """The frames that a camera sees of a picture, painted in each of WAYS."""
    frames, pan = seen(whole), video.Pan()
    survey = video.ShotSurvey(painter, style, look)
    for frame in frames:
        survey.add(frame)
    survey.finish()
    (shot,) = survey.shots
    painted = (
        [painter.paint_frame(f, style, look, shot.held, pan.follow(f)) for f in frames],
        [painter.paint_frame(frame, style, look, shot.held) for frame in frames],
        [painter.paint_frame(frame, style, look) for frame in frames],
        seen(painter.paint_frame(whole, style, look, shot.held)),
    )
    return dict(zip(WAYS, painted, strict=True))


def _changes(rows: Sequence[dict], motion: str) -> dict:
    """What frames change, over what the input's do: the mean of all rows, and the worst."""
    return {
        "change of the result over the input's": {
            way: float(np.mean([row[way] for row in rows])) for way in WAYS
        },
        f"worst {motion}": {way: float(np.max([row[way] for row in rows])) for way in WAYS},
    }


def _levels(frames: Sequence[np.ndarray], step: int = 0) -> float:
    """Mean change from frame to frame, 0-255; `step` undoes a pan of so many pixels."""
    return 127.5 * change([images.to_tensor(frame) for frame in frames], step)


PARTS = ("many", "mutated", "kills", "overlap", "jobs", "flicker", "camera", "brush")


def table(part: str, figures: dict) -> str:
    """The part's figures, one a line."""
    lines = [part]
    for name, value in figures.items():
        if name == "rows":
            continue
        if isinstance(value, dict):
            value = ", ".join(f"{key} {_short(item)}" for key, item in value.items())
        if name == "reasons":
            lines += [f"  {name}", *(f"    {reason}" for reason in value)]
            continue
        lines.append(f"  {name:<42} {_short(value)}")
    return "\n".join(lines)


def _short(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--checkpoint", type=Path, default=shipped.CHECKPOINT)
    parser.add_argument("--style", default="monet", help="a built-in style")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--many", type=int, default=1000, help="pictures")
    parser.add_argument("--mutated", type=int, default=500, help="files")
    parser.add_argument("--kills", type=int, default=60, help="pictures of the killed batch")
    parser.add_argument("--overlap", type=int, default=6, help="12-megapixel JPEGs")
    parser.add_argument("--max-size", type=int, default=1024, help="of the overlap, pixels")
    parser.add_argument("--jobs", type=int, default=24, help="pictures painted side by side")
    parser.add_argument(
        "--rounds", type=int, default=2, help="of the overlap and of --jobs; the least counts"
    )
    parser.add_argument("--frames", type=int, default=12, help="of each pan, zoom and turn")
    parser.add_argument("--flicker-styles", nargs="+", help="built-in styles (all)")
    parser.add_argument("--brushwork", type=float, default=1.0, help="of the moving frames, 0 to 3")
    parser.add_argument("--out", type=Path, default=Path("out/scale_batch.json"))
    arguments = parser.parse_args()

    command = Command(arguments.checkpoint, arguments.style)
    painter = Painter(arguments.checkpoint, "cpu", limits=Limits(remembered_content=0))
    report = {}
    with tempfile.TemporaryDirectory(prefix="scale-batch-") as name:
        folder = Path(name)
        parts = {
            "many": lambda: many(command, folder, arguments.many),
            "mutated": lambda: mutated(command, folder, arguments.mutated),
            "kills": lambda: kills(command, folder, arguments.kills),
            "overlap": lambda: overlap(
                painter,
                arguments.style,
                folder,
                arguments.overlap,
                arguments.max_size,
                arguments.rounds,
            ),
            "jobs": lambda: jobs(command, folder, arguments.jobs, arguments.rounds),
            "flicker": lambda: flicker(
                painter,
                arguments.flicker_styles or painter.style_names,
                arguments.frames,
                brushwork=arguments.brushwork,
            ),
            "camera": lambda: camera(
                painter,
                arguments.flicker_styles or painter.style_names,
                arguments.frames,
                brushwork=arguments.brushwork,
            ),
            "brush": lambda: brush(painter, arguments.style),
        }
        for part in arguments.only:
            report[part] = parts[part]()
            print(table(part, report[part]), flush=True)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
