"""The paper's comparison of style transfers, beside its own Tables 8, 9 and 10.

GD-WCT, Clip-WCT (threshold 100), PI-WCT, SVD-WCT (Taylor, degree 9), Padé and exact: one network
with MLPs, the same data, steps and seed, so that only the method and the gradient's rule differ;
and the statistics network for as many minutes as SVD-WCT took. What is done is kept in --out: run
it again to go on where it was, after Ctrl-C too. With --steps and --columns, several processes
or machines can share the training, each a part of it in the same folder; the call without
--columns then measures.

python -m benchmarks.style_tables --minutes 60 --out out/style
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import models
from app import evaluate, train
from app.report import Table
from app.training.run import CLIP

ROOT = Path(__file__).resolve().parents[1]
ARTWORKS = ROOT.parent / "shared" / "artworks"
STYLES = ("cezanne", "monet", "ukiyoe", "vangogh")
SKIPPED = 1_000_000  # steps that are not finite: all are left out and counted


class StoppedError(RuntimeError):
    """A training ended before its time.

    Attributes:
        code: what it exited with; 130 after Ctrl-C.
    """

    def __init__(self, code: int) -> None:
        super().__init__(f"app.train exited with {code}")
        self.code = code


@dataclass(frozen=True)
class Column:
    """One training of the comparison.

    Attributes:
        options: of ``app.train``, beside those that all share.
        paper: Table 8's accuracy (%) and Table 9's sharpness of each of STYLES, and Table 10's
            milliseconds; None where the paper has no such method.
    """

    options: tuple[str, ...]
    paper: tuple[tuple[float, ...], tuple[float, ...], float] | None = None


LEAST_MINUTES = 0.1  # of the column that is trained for as long as another one took
NOT_SETTINGS = ("out", "photos", "columns", "leave_out", "measures")  # may differ between calls
MLP = ("--coloring", "mlp")
# The first decides how many steps the others make, and the last how long it takes.
FIRST, MINUTED = "SVD-WCT", "statistics"
COLUMNS = {
    FIRST: Column(
        (*MLP, "--gradient", "taylor"),
        ((85.89, 96.27, 68.04, 74.17), (11.91, 14.48, 15.12, 18.67), 122),
    ),
    "GD-WCT": Column(
        (*MLP, "--method", "gd"),
        ((59.25, 86.15, 49.13, 36.88), (9.78, 9.28, 12.07, 11.85), 53),
    ),
    "Clip-WCT": Column(
        (*MLP, "--gradient", "clip"),
        ((78.56, 52.33, 49.67, 28.63), (11.65, 12.55, 13.38, 14.48), 122),
    ),
    "PI-WCT": Column(
        (*MLP, "--gradient", "pi"),
        ((87.08, 78.16, 70.44, 69.64), (11.98, 14.77, 14.68, 16.56), 184),
    ),
    "Padé": Column((*MLP, "--gradient", "pade")),
    "exact": Column((*MLP, "--gradient", "exact")),
    MINUTED: Column(("--coloring", "statistics")),
}


def file_of(folder: Path, name: str) -> Path:
    """Where a column's checkpoint lies."""
    return folder / f"{name.lower().replace('é', 'e')}.safetensors"


def record_of(file: Path) -> dict | None:
    """The training record of a finished column; None where it is not finished."""
    if not file.is_file() or not file.with_suffix(".done").is_file():
        return None
    return models.load_checkpoint(file).record


def train_options(arguments: argparse.Namespace, name: str, length: list[str]) -> list[str]:
    """What ``app.train`` is given for a column: to go on from where it was, if it had begun."""
    pictures, file = arguments.artworks / "train", file_of(arguments.out, name)
    styles = [f"--style={style}={pictures / style}" for style in STYLES]
    shared = [
        *(f"--size={arguments.size}", f"--batch={arguments.batch}", f"--seed={arguments.seed}"),
        *(f"--skip-not-finite={SKIPPED}", "--codes=medoids", f"--device={arguments.device}"),
    ]
    shared += ["--grain=0", *(f"--weight={weight}" for weight in arguments.weight)]
    if name != MINUTED:
        shared += [f"--width={arguments.width}", f"--group-size={arguments.group_size}"]
        shared += [f"--blocks={arguments.blocks}", *arguments.train_option]
    resume = ["--resume", str(file)] if file.with_suffix(".state.pt").is_file() else []
    where = ["--photos", str(pictures / "photo"), *styles, "--out", str(file)]
    return [*where, *shared, *COLUMNS[name].options, *length, *resume]


def train_columns(arguments: argparse.Namespace) -> dict[str, dict]:
    """Trains what is not finished yet; the training record of every column asked for.

    Raises:
        StoppedError: a training did not come to its end.
    """
    records: dict[str, dict] = {}
    for name in arguments.columns:
        file = file_of(arguments.out, name)
        if name == FIRST:
            length = ["--minutes", str(arguments.minutes)]
            if arguments.steps is not None:
                length = ["--steps", str(arguments.steps)]
        elif name == MINUTED:
            length = ["--minutes", str(max(records[FIRST]["minutes"], LEAST_MINUTES))]
        else:
            length = ["--steps", str(arguments.steps or records[FIRST]["steps"])]
        if record_of(file) is None:
            print(f"{name}: {' '.join(length)}", flush=True)
            code = train.main(train_options(arguments, name, length))
            if code != 0:
                raise StoppedError(code)
            file.with_suffix(".done").touch()
        records[name] = record_of(file)
    return records


def measure(arguments: argparse.Namespace) -> dict:
    """``app.evaluate``'s report on all columns, made anew where a checkpoint is newer."""
    files = [file_of(arguments.out, name) for name in arguments.columns]
    folder = arguments.out / "report"
    report = folder / "report.json"
    newest = max(file.stat().st_mtime for file in files)
    made = json.loads(report.read_text(encoding="utf-8")) if report.is_file() else None
    same = made is not None and set(made["checkpoints"]) == set(map(str, files))
    if not same or report.stat().st_mtime < newest:
        command = ["--photos", str(arguments.artworks / "test" / "photo")]
        command += ["--artworks", str(arguments.artworks), "--checkpoint", *map(str, files)]
        command += ["--out", str(folder), "--overwrite", "--device", arguments.device]
        if arguments.photos is not None:
            command += ["--limit", str(arguments.photos)]
        if evaluate.main(command) != 0:
            raise RuntimeError("the checkpoints could not be measured")
    return json.loads(report.read_text(encoding="utf-8"))


def tables(report: Mapping, records: Mapping[str, dict], folder: Path) -> list[Table]:
    """Tables 8, 9 and 10, the paper's numbers beside ours, and how the columns were trained."""
    ours = {name: report["checkpoints"][str(file_of(folder, name))] for name in records}
    paper = {f"{name}, paper": c.paper for name, c in COLUMNS.items() if c.paper is not None}
    accuracy: dict[str, Mapping[str, float | None]] = {
        "real": {style: report["real_accuracy"][style] for style in STYLES}
    }
    accuracy |= {name: part["style_accuracy"] for name, part in ours.items()}
    accuracy |= {
        name: evaluate.with_mean({s: a / 100 for s, a in zip(STYLES, values, strict=True)})
        for name, (values, *_) in paper.items()
    }
    sharpness = {name: part["sharpness"] for name, part in ours.items()}
    sharpness |= {
        name: evaluate.with_mean(dict(zip(STYLES, values, strict=True)))
        for name, (_, values, _) in paper.items()
    }
    seconds = {name: _times(1000 * p["seconds"], 1000 * ours["GD-WCT"]["seconds"])
               for name, p in ours.items()}  # fmt: skip
    seconds |= {name: _times(ms, COLUMNS["GD-WCT"].paper[2]) for name, (*_, ms) in paper.items()}
    kept = {name: {"edge correlation": part["edge_correlation"]} for name, part in ours.items()}
    trained = {
        name: {
            "steps": record["steps"],
            "not finite": record["failed_steps"],
            "minutes": record["minutes"],
            "gradient norm clipped to": CLIP,
        }
        for name, record in records.items()
    }
    judged = "by the committed classifier; the paper's by its fine-tuned Inception-v3."
    return [
        Table("accuracy", "Style accuracy (Table 8)", accuracy, f"Ours {judged}"),
        Table("sharpness", "Sharpness (Table 9)", sharpness, "Larger is sharper.", 2),
        Table(
            "milliseconds",
            "Time a picture (Table 10)",
            seconds,
            "The paper's on a GPU, where PI-WCT also iterates forward; here all but GD-WCT and "
            "PI-WCT, which drops small values, share one forward pass, and rules differ in the "
            "backward pass alone.",
            2,
        ),
        Table("content", "What is kept of the photo", kept, "At 128 px; larger is nearer."),
        Table("training", "Training", trained, "Steps that were not finite are left out.", 1),
    ]


def _times(milliseconds: float, baseline: float) -> dict[str, float]:
    return {"milliseconds": milliseconds, "of GD-WCT's": milliseconds / baseline}


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--artworks", type=Path, default=ARTWORKS)
    add("--out", type=Path, default=Path("out/style"), help="folder; what is in it is kept")
    add("--minutes", type=float, default=60, help=f"that {FIRST} trains; gives all the steps (60)")
    add("--steps", type=int, help="steps of every column but the last, instead of --minutes")
    add(
        "--columns",
        nargs="+",
        choices=tuple(COLUMNS),
        help="train these alone, and measure nothing (train and measure all)",
    )
    add(
        "--leave-out",
        nargs="+",
        default=[],
        choices=[name for name in COLUMNS if name not in (FIRST, "GD-WCT")],
        help="make the tables without these",
    )
    add("--photos", type=int, help="test photos at most (all)")
    add("--width", type=int, default=16, help="of the mlp networks (16)")
    add("--blocks", type=int, default=4, help="residual blocks of the mlp networks (4)")
    add("--group-size", type=int, default=32, help="the paper's 32")
    add("--size", type=int, default=128, help="crops, pixels (128)")
    add("--batch", type=int, default=2, help="photos a step (2)")
    add("--weight", action="append", default=[], metavar="LOSS=VALUE", help="of every column")
    add("--train-option", action="append", default=[], help="more, for the mlp networks' app.train")
    add("--device", default="auto")
    add("--seed", type=int, default=0)
    arguments = parser.parse_args(argv)
    arguments.measures = arguments.columns is None
    # In the order of COLUMNS: the first one's record says how long others train.
    chosen = COLUMNS if arguments.measures else arguments.columns
    arguments.columns = [n for n in COLUMNS if n in chosen and n not in arguments.leave_out]
    needs = [n for n in arguments.columns if n == MINUTED or (n != FIRST and not arguments.steps)]
    if needs and FIRST not in arguments.columns:
        parser.error(f"--columns {needs[0]} trains as long as {FIRST}: name that too")
    return arguments


def main(argv: list[str] | None = None) -> int:
    """Exit code 0 done, 2 the settings changed, else that of a training that stopped."""
    arguments = parse_arguments(argv)
    arguments.out.mkdir(parents=True, exist_ok=True)
    # Columns of other settings must not stand beside each other.
    settings = {k: str(v) for k, v in vars(arguments).items() if k not in NOT_SETTINGS}
    kept = arguments.out / "settings.json"
    if kept.is_file() and (before := json.loads(kept.read_text(encoding="utf-8"))) != settings:
        changed = [k for k in settings if before.get(k) != settings[k]]
        print(f"error: {arguments.out} was begun with another {changed[0]}", file=sys.stderr)
        return 2
    kept.write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
    try:
        records = train_columns(arguments)
    except StoppedError as error:
        print("stopped; run it again to go on", file=sys.stderr)
        return error.code
    if not arguments.measures:
        return 0
    result = tables(measure(arguments), records, arguments.out)
    text = "\n".join(table.markdown() for table in result)
    (arguments.out / "tables.md").write_text(text, encoding="utf-8")
    numbers = {table.name: table.values for table in result}
    (arguments.out / "tables.json").write_text(
        json.dumps(numbers, indent=1) + "\n", encoding="utf-8"
    )
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
