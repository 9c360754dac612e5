"""What the papers' classification experiments share: command line, plan, and parts of their pages.

Each of them writes a page, its numbers as JSON and its curves as PNG, and keeps its finished runs.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from benchmarks.cells import Cell, Cells
from benchmarks.classification import CROP, DATA, SHORT_SIDE, Recipe, Split, read, write_json


def parser_of(doc: str, name: str, sizes: Iterable[str]) -> argparse.ArgumentParser:
    """The options that the papers' experiments share."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    add = parser.add_argument
    add("--quick", action="store_true", help="minutes; the same as --size quick")
    add("--size", choices=list(sizes), default="full", help="how much is run (full: days, a GPU)")
    add("--data", choices=DATA, default="artworks")
    add("--folder", type=Path, help="where the data lies")
    add("--width", type=int, help="channels of the first stage, instead of the size's")
    add("--depth", type=int, choices=(18, 50), help="of the ResNet (18)")
    add("--steps", type=int, help="of a run, instead of the size's")
    add("--runs", type=int, help="seeds a cell, instead of the size's")
    add("--device", default="cpu")
    add("--out", type=Path, default=Path("docs"), help="folder for page, JSON and PNG")
    add("--work", type=Path, default=Path("out") / name, help="folder for finished runs")
    add("--notes", type=Path, help="a file of Markdown that ends the page")
    add("--write-only", action="store_true", help="write the page of what is finished")
    return parser


def changed(recipe: Recipe, options: argparse.Namespace) -> Recipe:
    """The recipe with what the command line says instead."""
    given = {key: getattr(options, key) for key in ("width", "depth", "steps")}
    return replace(recipe, **{key: value for key, value in given.items() if value is not None})


@dataclass(frozen=True)
class Plan:
    """How much is run: a recipe, how many seeds a row, and crops of the artworks, a class."""

    recipe: Recipe
    runs: int
    crops: int = 4000


def plan_of(plans: Mapping[str, Plan], options: argparse.Namespace) -> Any:
    """The size's plan with what the command line says instead."""
    plan = plans["quick" if options.quick else options.size]
    runs = plan.runs if options.runs is None else options.runs
    return replace(plan, recipe=changed(plan.recipe, options), runs=runs)


def read_for(options: argparse.Namespace, crops: int) -> Split:
    """The data that the command line names; crops are kept beside the finished runs."""
    return read(options.data, options.folder, crops=crops, keep=options.work / "crops.pt")


def begun_report(plan: Any, options: argparse.Namespace, cells: list[Cell], kept: Cells) -> dict:
    """What every report says: the data, the plan, how much of it is missing, the notes."""
    missing = sum(cell not in kept for cell in cells)
    begun = {"data": options.data, "plan": asdict(plan), "planned": len(cells), "missing": missing}
    if options.notes is not None:
        begun["notes"] = options.notes.read_text(encoding="utf-8").strip()
    return begun


def write(report: dict, page: list[str], draw: Callable[[dict], Figure], place: Path) -> None:
    """A page, its numbers and its curves, beside each other; prints the page.

    Args:
        draw: draws the report's curves.
        place: of the three files, without their suffixes.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    draw(report).savefig(place.with_suffix(".png"), dpi=100)
    write_json(place.with_suffix(".json"), report)
    text = "\n".join(page) + "\n"
    place.with_suffix(".md").write_text(text, encoding="utf-8")
    print(text)


def notes_of(report: dict) -> list[str]:
    """The end of a page, where there is anything to note."""
    notes = report.get("notes")
    return ["", "## What it shows", "", notes] if notes else []


def what_was_run(report: dict) -> list[str]:
    """The part of a page that says of what its plan consists."""
    plan = report["plan"]
    return [
        "## What was run",
        "",
        _data_line(report["data"], plan["crops"]),
        _recipe_line(plan["recipe"], plan["runs"]),
        _missing_line(report),
    ]


def _data_line(data: str, crops: int) -> str:
    """What was trained on, as an item of a page's list."""
    if data != "artworks":
        return f"- Data: {data}."
    return (
        f"- Data: {CROP} px crops of pictures brought to {SHORT_SIDE} px, five classes, {crops} a "
        f"class for training and {crops // 5} for testing, split by picture (the papers: CIFAR and "
        "ImageNet)."
    )


def _recipe_line(recipe: dict, runs: int) -> str:
    tested = recipe["tested"] or "all"
    return (
        f"- Runs: {runs} seeds a row, {recipe['steps']} steps of {recipe['batch']} pictures, "
        f"ResNet{recipe['depth']}, first stage {recipe['width']} channels wide, tested on {tested} "
        "pictures (the papers: 350 epochs of 50,000, 137,000 steps of 128, width 64)."
    )


def _missing_line(report: dict) -> str:
    if not report["missing"]:
        return "- Nothing of this plan is missing."
    return f"- Missing of this plan: {report['missing']} of {report['planned']} runs."
