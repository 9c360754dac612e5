"""Measure checkpoints on a folder of photos: one report with tables, plots and pictures.

python -m app.evaluate --photos FOLDER --artworks FOLDER --checkpoint FILE [...] --out FOLDER
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from tqdm import tqdm

import models
from app import images, shipped
from app.classes import class_folders, split_folder
from app.dataset import FolderError, PictureFolder
from app.painter import available_device
from app.report import Table, contact_sheet
from models.classifier import Verdict
from models.judge import LinearJudge, PooledFeatures
from models.measures import LPIPS, edge_correlation, frechet_distance, sharpness

PHOTO_SIDE = 256  # pixels; the artworks' own scale
JUDGED_AT_ONCE = 16  # pictures
SHEET_PHOTOS, SHEET_SIDE = 6, 128
PHOTO = "photo"


class EvaluationError(ValueError):
    """What can't be evaluated; the message says what and why."""


# --- the judges -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Judges:
    """Who looks at the pictures.

    Attributes:
        classifier: says the class; its backbone gives the features of the Fréchet distance.
        second: another judge, and the features that it looks at.
        lpips: None where it could not be had.
        lpips_reason: why not.
    """

    classifier: models.StyleClassifier
    second: tuple[LinearJudge, PooledFeatures] | None
    lpips: LPIPS | None
    lpips_reason: str

    def second_classes(self, pictures: Tensor) -> list[str]:
        """What the second judge says of pictures (B, 3, H, W); empty without one."""
        if self.second is None:
            return []
        judge, backbone = self.second
        return [judge.classes[i] for i in judge(backbone(pictures)).argmax(1).tolist()]

    def classes(self, verdict: Verdict) -> list[str]:
        """The most probable class of each picture."""
        return [self.classifier.classes[i] for i in verdict.probabilities.argmax(1).tolist()]


@dataclass
class Judged:
    """What was measured on the pictures of one class or style."""

    called: list[str] = field(default_factory=list)
    second: list[str] = field(default_factory=list)
    features: list[Tensor] = field(default_factory=list)
    sharpness: list[float] = field(default_factory=list)
    edges: list[float] = field(default_factory=list)
    lpips: list[float] = field(default_factory=list)

    def share(self, name: str) -> float:
        """Of the pictures that were called ``name``."""
        return self.called.count(name) / len(self.called)

    def second_share(self, name: str) -> float:
        return self.second.count(name) / len(self.second)


def judge_real(
    judges: Judges, folders: Mapping[str, PictureFolder], device: torch.device
) -> dict[str, Judged]:
    """The judges on real pictures, a class a folder."""
    result = {}
    total = sum(len(folder) for folder in folders.values())
    with tqdm(total=total, desc="judging real pictures", unit="picture") as bar:
        for name, folder in folders.items():
            judged = result[name] = Judged()
            for batch in _same_size(folder):
                pictures = torch.cat([folder.tensor(index) for index in batch]).to(device)
                verdict = judges.classifier.judge(pictures)
                judged.called += judges.classes(verdict)
                judged.second += judges.second_classes(pictures)
                judged.features.append(verdict.features)
                bar.update(len(batch))
    return result


def _same_size(folder: PictureFolder) -> list[list[int]]:
    """The indices of a folder in batches of pictures of one size."""
    sizes = defaultdict(list)
    for index in range(len(folder)):
        sizes[folder.image(index).size].append(index)
    return [
        indices[start : start + JUDGED_AT_ONCE]
        for indices in sizes.values()
        for start in range(0, len(indices), JUDGED_AT_ONCE)
    ]


# --- one checkpoint ---------------------------------------------------------------------------


@dataclass
class Evaluation:
    """What was measured of one checkpoint.

    Attributes:
        styles: a style's name -> its pictures.
        seconds: of each picture, batch 1, its photo's encoding included.
        sheet: a style's name -> its first pictures, uint8 (side, side, 3).
    """

    styles: dict[str, Judged]
    seconds: list[float]
    sheet: dict[str, list[np.ndarray]]


@torch.no_grad()
def evaluate(
    checkpoint: models.Checkpoint, photos: Sequence[Tensor], judges: Judges, title: str
) -> Evaluation:
    """Paints every photo (1, 3, H, W) in every style, with the style's first code.

    A photo is encoded once for all styles of one ground; pictures are painted one by one, as
    someone who waits for one does, and judged many at a time.
    """
    network = checkpoint.network
    codes = {name: codes[0] for name, codes in checkpoint.styles.items()}
    result = Evaluation({name: Judged() for name in codes}, [], defaultdict(list))
    waiting: list[tuple[str, Tensor, Tensor]] = []
    with tqdm(total=len(photos) * len(codes), desc=title, unit="picture") as bar:
        for number, photo in enumerate(photos):
            encoded: dict[models.Ground, tuple[models.Content, float]] = {}
            for name, code in codes.items():
                if code.ground not in encoded:
                    start = time.perf_counter()
                    content = network.encode_photo(photo, ground=code.ground)
                    encoded[code.ground] = content, time.perf_counter() - start
                content, encoding = encoded[code.ground]
                start = time.perf_counter()
                picture = network.repaint(photo, code, content=content)
                # Reading a number waits for the device.
                float(picture[0, 0, 0, 0])
                result.seconds.append(encoding + time.perf_counter() - start)
                waiting.append((name, photo, picture))
                if number < SHEET_PHOTOS:
                    result.sheet[name].append(_thumbnail(picture))
                bar.update()
                if len(waiting) == JUDGED_AT_ONCE:
                    _judge(judges, waiting, result.styles)
                    waiting.clear()
    if waiting:
        _judge(judges, waiting, result.styles)
    return result


def _judge(
    judges: Judges, painted: Sequence[tuple[str, Tensor, Tensor]], styles: Mapping[str, Judged]
) -> None:
    names, photos, pictures = zip(*painted, strict=True)
    photo, picture = torch.cat(photos), torch.cat(pictures)
    verdict = judges.classifier.judge(picture)
    columns = {
        "called": judges.classes(verdict),
        "second": judges.second_classes(picture),
        "features": list(verdict.features[:, None]),
        "sharpness": sharpness(picture).tolist(),
        "edges": edge_correlation(photo, picture).tolist(),
        "lpips": [] if judges.lpips is None else judges.lpips(photo, picture).tolist(),
    }
    for kind, values in columns.items():
        # A judge that is not there says nothing, of no picture.
        for name, value in zip(names, values, strict=False):
            getattr(styles[name], kind).append(value)


def _thumbnail(picture: Tensor) -> np.ndarray:
    image = Image.fromarray(images.to_rgb(picture))
    return np.asarray(image.resize((SHEET_SIDE, SHEET_SIDE), Image.Resampling.LANCZOS))


# --- the report -------------------------------------------------------------------------------


def with_mean(values: Mapping[str, float]) -> dict[str, float]:
    """The values and, under ``mean``, their mean."""
    return {**values, "mean": statistics.fmean(values.values())}


def numbers(evaluation: Evaluation, real: Mapping[str, Judged], judges: Judges) -> dict:
    """One checkpoint's part of report.json."""
    styles = evaluation.styles
    accuracy = with_mean({name: judged.share(name) for name, judged in styles.items()})
    real_of_styles = with_mean({name: real[name].share(name) for name in styles})
    lpips = [value for judged in styles.values() for value in judged.lpips]
    result = {
        "style_accuracy": accuracy,
        "difference_to_real": {name: real_of_styles[name] - accuracy[name] for name in accuracy},
        "called": {
            name: {other: judged.share(other) for other in judges.classifier.classes}
            for name, judged in styles.items()
        },
        "sharpness": with_mean({n: statistics.fmean(j.sharpness) for n, j in styles.items()}),
        "edge_correlation": statistics.fmean(e for j in styles.values() for e in j.edges),
        "edge_correlation_by_style": {n: statistics.fmean(j.edges) for n, j in styles.items()},
        "frechet": with_mean(
            {
                name: frechet_distance(torch.cat(j.features), torch.cat(real[name].features))
                for name, j in styles.items()
            }
        ),
        "lpips": statistics.fmean(lpips) if lpips else None,
        "seconds": statistics.fmean(evaluation.seconds),
    }
    if not lpips:
        result["lpips_reason"] = judges.lpips_reason
    if judges.second is not None:
        result["second_judge"] = with_mean({n: j.second_share(n) for n, j in styles.items()})
    return result


def tables(report: Mapping) -> list[Table]:
    """The report's tables; checkpoints are columns."""
    checkpoints: dict[str, dict] = report["checkpoints"]
    result = [
        _accuracy_table(
            "style_accuracy",
            "Style accuracy (Table 8)",
            report["real_accuracy"],
            {file: part["style_accuracy"] for file, part in checkpoints.items()},
            "Share of pictures that the classifier puts in their style; real: held-out pictures "
            "of that class; Δ: real minus stylized. The mean of a checkpoint is that of its "
            "styles, and its Δ is to the same classes; the mean of real is that of all classes.",
        )
    ]
    if "second_judge" in report:
        result.append(
            _accuracy_table(
                "second_judge",
                "Style accuracy by the second judge",
                report["second_judge"]["real_accuracy"],
                {file: part["second_judge"] for file, part in checkpoints.items()},
                "As above, by a linear model on pooled ImageNet features.",
            )
        )
    name = report["classifier"]["backbone"]
    reasons = {part["lpips_reason"] for part in checkpoints.values() if "lpips_reason" in part}
    result += [
        Table(
            "sharpness",
            "Sharpness (Table 9)",
            {file: part["sharpness"] for file, part in checkpoints.items()},
            "Mean length of the intensity's gradient, levels of 255 a pixel; larger is sharper.",
            2,
        ),
        Table(
            "content",
            "What is kept of the photo",
            {
                file: {
                    "edge correlation": part["edge_correlation"],
                    "LPIPS": part["lpips"],
                }
                for file, part in checkpoints.items()
            },
            "Correlation of Sobel edges at 128 px, larger is nearer; LPIPS, smaller is nearer."
            + "".join(f" LPIPS was not measured: {reason}." for reason in sorted(reasons)),
        ),
        Table(
            "frechet",
            f"Fréchet distance on pooled {name} features of the classifier",
            {file: part["frechet"] for file, part in checkpoints.items()},
            "Between stylized pictures and real held-out ones of the style; smaller is nearer. "
            "Not FID: the features are another network's.",
            2,
        ),
        Table(
            "seconds",
            "Seconds a picture (Table 10)",
            {file: {"seconds": part["seconds"]} for file, part in checkpoints.items()},
            f"Batch 1, {PHOTO_SIDE} px, on {report['device']} with {report['threads']} threads.",
        ),
    ]
    return result


def _accuracy_table(
    name: str,
    title: str,
    real: Mapping[str, float],
    accuracies: Mapping[str, Mapping[str, float]],
    note: str,
) -> Table:
    columns: dict[str, Mapping[str, float | None]] = {"real": real}
    for file, accuracy in accuracies.items():
        columns[file] = accuracy
        same = [style for style in accuracy if style != "mean"]
        mean = statistics.fmean(real[style] for style in same)
        columns[f"Δ {file}"] = {
            **{style: real[style] - accuracy[style] for style in same},
            "mean": mean - accuracy["mean"],
        }
    rows = [row for row in real if row != "mean"] + ["mean"]
    filled = {
        column: {row: values.get(row) for row in rows if row in values}
        for column, values in columns.items()
    }
    return Table(name, title, filled, note, plotted=["real", *accuracies])


def write_report(folder: Path, report: Mapping, sheet: Image.Image) -> None:
    """report.json, report.md, a plot a table and contact_sheet.png."""
    (folder / "report.json").write_text(json.dumps(report, indent=1) + "\n")
    parts = [
        "# Report",
        "",
        f"{report['photos']} photos at {PHOTO_SIDE} px, every style's first code; judged by "
        f"{report['classifier']['file']} ({report['classifier']['backbone']}).",
        "",
    ]
    for table in tables(report):
        plot = f"{table.name}.png"
        table.plot(folder / plot)
        parts += [table.markdown(), f"![{table.title}]({plot})", ""]
    parts += ["## Pictures", "", "![Photos across, styles down](contact_sheet.png)", ""]
    (folder / "report.md").write_text("\n".join(parts))
    sheet.save(folder / "contact_sheet.png")


# --- the command ------------------------------------------------------------------------------


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m app.evaluate",
        description="Measure checkpoints on a folder of photos.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--photos", required=True, help="folder of photos, best held-out ones")
    add("--artworks", required=True, help="folder with test/CLASS/")
    add("--checkpoint", required=True, nargs="+", action="extend", metavar="FILE")
    add("--out", required=True, type=Path, help="folder for the report")
    add("--classifier", type=Path, default=shipped.CLASSIFIER, help="file of app.train_classifier")
    add("--second-judge", type=Path, help="file of a linear judge, for a column beside")
    add("--limit", type=int, help="photos at most, drawn by --seed (all)")
    add("--overwrite", action="store_true", help="write over a report that exists")
    add("--device", default="auto")
    add("--seed", type=int, default=0)
    arguments = parser.parse_args(argv)
    if arguments.limit is not None and arguments.limit < 2:
        parser.error(f"--limit must be at least 2, got {arguments.limit}")
    return arguments


def _load(arguments: argparse.Namespace, device: torch.device) -> dict[str, models.Checkpoint]:
    classes = arguments.known
    checkpoints = {}
    for file in arguments.checkpoint:
        checkpoint = models.load_checkpoint(file, device)
        if not checkpoint.styles:
            raise EvaluationError(f"{file}: has no styles to evaluate")
        if unknown := sorted(set(checkpoint.styles) - set(classes)):
            raise EvaluationError(
                f"{file}: its style {unknown[0]!r} is none of {', '.join(classes)}, which the "
                "classifier knows and the artworks show"
            )
        checkpoints[file] = checkpoint
    return checkpoints


def _lpips(device: torch.device) -> tuple[LPIPS | None, str]:
    try:
        return LPIPS().to(device), ""
    except FileNotFoundError as error:
        return None, str(error)


def _second_judge(
    path: Path | None, device: torch.device
) -> tuple[LinearJudge, PooledFeatures] | None:
    if path is None:
        return None
    return LinearJudge.load(path).to(device), PooledFeatures().to(device)


def run(arguments: argparse.Namespace) -> None:
    """Reads everything, measures, writes the report.

    Raises:
        ValueError, FileNotFoundError: what can't be read or measured, in one line.
    """
    if arguments.out.exists() and not arguments.overwrite:
        raise EvaluationError(f"{arguments.out}: exists already; --overwrite writes over it")
    device = available_device(arguments.device)
    classifier, _ = models.load_classifier(arguments.classifier, device)
    lpips, reason = _lpips(device)
    judges = Judges(classifier, _second_judge(arguments.second_judge, device), lpips, reason)
    tests = class_folders(split_folder(arguments.artworks, "test"))
    arguments.known = tuple(name for name in tests if name in classifier.classes)
    checkpoints = _load(arguments, device)
    folder = PictureFolder(arguments.photos, name=PHOTO)
    chosen = list(range(len(folder)))
    if arguments.limit is not None and arguments.limit < len(chosen):
        chosen = sorted(random.Random(arguments.seed).sample(chosen, arguments.limit))
    if len(chosen) < 2:
        raise EvaluationError(f"{arguments.photos}: one photo alone; at least two are needed")
    photos = [folder.square(index, PHOTO_SIDE).to(device) for index in chosen]
    real = judge_real(judges, {name: tests[name] for name in arguments.known}, device)
    report: dict = {
        "real_accuracy": with_mean({name: judged.share(name) for name, judged in real.items()}),
        "checkpoints": {},
        "classifier": {
            "file": arguments.classifier.name,
            "backbone": classifier.config["backbone"],
        },
        "photos": len(photos),
        "seed": arguments.seed,
        "device": str(device),
        "threads": torch.get_num_threads(),
    }
    if judges.second is not None:
        accuracy = {name: judged.second_share(name) for name, judged in real.items()}
        report["second_judge"] = {"real_accuracy": with_mean(accuracy)}
    rows = [(PHOTO, [_thumbnail(photo) for photo in photos[:SHEET_PHOTOS]])]
    for file, checkpoint in checkpoints.items():
        evaluation = evaluate(checkpoint, photos, judges, Path(file).name)
        report["checkpoints"][file] = numbers(evaluation, real, judges)
        rows += [(f"{name}\n{Path(file).stem}", row) for name, row in evaluation.sheet.items()]
    arguments.out.mkdir(parents=True, exist_ok=True)
    write_report(arguments.out, report, contact_sheet(rows))
    print("\n".join(table.markdown() for table in tables(report)))


def main(argv: list[str] | None = None) -> int:
    """Exit code 0 done, 2 a wrong command line or unreadable input."""
    arguments = parse_arguments(argv)
    try:
        run(arguments)
    except (FolderError, FileNotFoundError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
