"""Measure checkpoints on a folder of photos: one report with tables, plots and pictures.

python -m app.evaluate --photos FOLDER --artworks FOLDER --checkpoint FILE [...] --out FOLDER
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch
from PIL import Image

import models
from app import images, shipped
from app.classes import class_folders, split_folder
from app.dataset import FolderError, PictureFolder
from app.measuring import (
    SHEET_PHOTOS,
    Evaluation,
    Judged,
    Judges,
    evaluate,
    judge_real,
    thumbnail,
)
from app.options import add_precision, say_precision
from app.out import check_out, not_written
from app.painter import available_device
from app.report import Table, contact_sheet
from app.terminal import failed, show_anything
from models.judge import LinearJudge, PooledFeatures
from models.measures import LPIPS, frechet_distance
from models.precision import chosen as chosen_precision
from models.whole_file import writing_whole

PHOTO_SIDE = 256  # pixels; the artworks' own scale
PHOTO = "photo"
REPORT_SIZE = 2**20  # bytes that a report may take; of four styles it takes a quarter


class EvaluationError(ValueError):
    """What can't be evaluated; the message says what and why."""


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
    # A file's name may hold any bytes, and a table only what can be printed.
    checkpoints = {images.one_line(file): part for file, part in report["checkpoints"].items()}
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
            f"Batch 1, {PHOTO_SIDE} px, on {report['device']} with {report['threads']} threads, "
            f"in {report['precision']}.",
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
    """report.json, report.md, a plot a table and contact_sheet.png.

    Raises:
        OSError: one could not be written.
    """
    _write(folder / "report.json", json.dumps(report, indent=1) + "\n")
    parts = [
        "# Report",
        "",
        f"{report['photos']} photos at {PHOTO_SIDE} px, every style's first code; judged by "
        f"{report['classifier']['file']} ({report['classifier']['backbone']}).",
        "",
    ]
    for table in tables(report):
        plot = f"{table.name}.png"
        with writing_whole(folder / plot) as part:
            table.plot(part)
        parts += [table.markdown(), f"![{table.title}]({plot})", ""]
    parts += ["## Pictures", "", "![Photos across, styles down](contact_sheet.png)", ""]
    _write(folder / "report.md", "\n".join(parts))
    with writing_whole(folder / "contact_sheet.png") as part:
        sheet.save(part, "PNG")


def _write(path: Path, text: str) -> None:
    with writing_whole(path) as part:
        part.write_text(text, encoding="utf-8")


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
    add_precision(parser)
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
        known = {name: codes for name, codes in checkpoint.styles.items() if name in classes}
        among = f"{', '.join(classes)}, which the classifier knows and the artworks show"
        if not known:
            raise EvaluationError(f"{file}: none of its styles is among {among}")
        if left := ", ".join(name for name in checkpoint.styles if name not in known):
            print(f"note: {file}: not measured: {left}: not among {among}", file=sys.stderr)
        checkpoints[file] = replace(checkpoint, styles=known)
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


def run(arguments: argparse.Namespace) -> tuple[dict, Image.Image]:
    """Reads everything and measures: what report.json holds, and the contact sheet.

    Raises:
        ValueError, FileNotFoundError: what can't be read or measured, in one line.
    """
    if arguments.out.exists() and not arguments.overwrite:
        raise EvaluationError(f"{arguments.out}: exists already; --overwrite writes over it")
    check_out(arguments.out / "report.json", REPORT_SIZE)
    device = available_device(arguments.device)
    precision = chosen_precision(arguments.precision, device)
    say_precision(precision, arguments.verbose)
    classifier, _ = models.load_classifier(arguments.classifier, device)
    lpips, reason = _lpips(device)
    judges = Judges(classifier, _second_judge(arguments.second_judge, device), lpips, reason)
    tests = class_folders(split_folder(arguments.artworks, "test"))
    arguments.known = tuple(name for name in tests if name in classifier.classes)
    checkpoints = _load(arguments, device)
    for checkpoint in checkpoints.values():
        checkpoint.network.compute_in(precision.dtype)
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
            "file": images.one_line(arguments.classifier.name),
            "backbone": classifier.config["backbone"],
        },
        "photos": len(photos),
        "seed": arguments.seed,
        "device": str(device),
        "precision": precision.name,
        "threads": torch.get_num_threads(),
    }
    if judges.second is not None:
        accuracy = {name: judged.second_share(name) for name, judged in real.items()}
        report["second_judge"] = {"real_accuracy": with_mean(accuracy)}
    rows = [(PHOTO, [thumbnail(photo) for photo in photos[:SHEET_PHOTOS]])]
    for file, checkpoint in checkpoints.items():
        evaluation = evaluate(checkpoint, photos, judges, images.one_line(Path(file).name))
        report["checkpoints"][file] = numbers(evaluation, real, judges)
        rows += [
            (f"{name}\n{images.one_line(Path(file).stem)}", row)
            for name, row in evaluation.sheet.items()
        ]
    return report, contact_sheet(rows)


def main(argv: list[str] | None = None) -> int:
    """Exit code 0 done, 1 the report could not be written, 2 a wrong command line or input."""
    show_anything()
    arguments = parse_arguments(argv)
    try:
        report, sheet = run(arguments)
    except (FolderError, FileNotFoundError, ValueError) as error:
        return failed(error, 2)
    print("\n".join(table.markdown() for table in tables(report)))
    try:
        arguments.out.mkdir(parents=True, exist_ok=True)
        write_report(arguments.out, report, sheet)
    except OSError as error:
        return failed(not_written(arguments.out, error), 1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
