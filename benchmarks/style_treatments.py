"""Treatments of the conditioning paper on the style network, trained alike and measured alike.

One network of statistics a column, from the same seed on the same data: as it is, with weights
before each hop pulled to orthogonal ones (OL), with orthogonal gradients there (NOG), with roots by
Newton-Schulz iterations in the first half (hybrid), with the gradient of Alg. 1 (PI), and as it is
from another seed, which says how much chance there is in it. What is done is kept in --work: run
it again to go on where it was, after Ctrl-C too.

python -m benchmarks.style_treatments --steps 2400 --size 144 --batch 3
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path

import torch

import models
import wct
from app import evaluate, train
from app.dataset import PictureFolder
from app.report import Table
from app.terminal import failed
from benchmarks.classification import write_json
from benchmarks.style_tables import ARTWORKS, SKIPPED, STYLES, StoppedError, record_of

NAME = "style_treatments"
COLUMNS = {
    "as it is": (),
    "orthogonal weights": ("--weight", "orthogonality=0.3"),
    "orthogonal gradients": ("--orthogonal-gradient",),
    "iterated first half": ("--iterated", "0.5"),
    "PI (Alg. 1)": ("--gradient", "pi"),
    "another seed": (),
}
CONDITIONED = 4  # photos that the hops' condition numbers are taken on


def file_of(folder: Path, name: str) -> Path:
    """Where a column's checkpoint lies."""
    return folder / f"column{list(COLUMNS).index(name)}.safetensors"


def train_column(options: argparse.Namespace, name: str) -> dict:
    """The training record of a column, trained now or before.

    Raises:
        StoppedError: the training did not come to its end.
    """
    file, pictures = file_of(options.work, name), options.artworks / "train"
    found = record_of(file)
    if found is not None:
        return found
    seed = options.seed + (name == "another seed")
    command = ["--photos", str(pictures / "photo"), "--out", str(file), *COLUMNS[name]]
    command += [f"--style={style}={pictures / style}" for style in STYLES]
    command += [f"--{key}={getattr(options, key)}" for key in ("steps", "size", "batch", "width")]
    command += [f"--seed={seed}", f"--device={options.device}", "--codes=medoids", "--grain=0"]
    command += [f"--skip-not-finite={SKIPPED}"]
    if file.with_suffix(".state.pt").is_file():
        command += ["--resume", str(file)]
    print(f"{name}: {' '.join(command)}", flush=True)
    code = train.main(command)
    if code != 0:
        raise StoppedError(code)
    file.with_suffix(".done").touch()
    made = record_of(file)
    assert made is not None
    return made


@torch.no_grad()
def conditions(file: Path, photos: Path) -> dict[str, float]:
    """Condition numbers, eps included, of what each hop of a checkpoint is given to whiten.

    Geometric means over some test photos, a built-in code of each style, and the groups.
    """
    checkpoint = models.load_checkpoint(file)
    network, folder = checkpoint.network.eval(), PictureFolder(photos)
    found: dict[str, list[float]] = {}
    for style in STYLES:
        for place in range(min(CONDITIONED, len(folder))):
            covariances: list[torch.Tensor] = []
            photo = folder.square(place, 96)
            code = checkpoint.styles[style][0]
            network.generate(network.encode_content(photo), code, covariances=covariances)
            for number, covariance in enumerate(covariances):
                values = wct.condition_number(
                    covariance.double()
                    + network.config.eps * torch.eye(covariance.shape[-1], dtype=torch.float64)
                )
                found.setdefault(f"hop {number}", []).extend(values.flatten().tolist())
    return {hop: statistics.geometric_mean(values) for hop, values in found.items()}


def measured(options: argparse.Namespace, names: list[str]) -> dict:
    """``app.evaluate``'s report, and the condition numbers."""
    folder = options.work / "report"
    photos = options.artworks / "test" / "photo"
    command = ["--photos", str(photos), "--artworks", str(options.artworks), "--checkpoint"]
    command += [str(file_of(options.work, name)) for name in names]
    command += ["--out", str(folder), "--overwrite", "--device", options.device]
    command += ["--limit", str(options.photos)]
    if evaluate.main(command) != 0:
        raise RuntimeError("the checkpoints could not be measured")
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    ours = {name: report["checkpoints"][str(file_of(options.work, name))] for name in names}
    kept = ("style_accuracy", "sharpness", "edge_correlation", "frechet")
    return {
        name: {key: part[key] for key in kept}
        | {"conditions": conditions(file_of(options.work, name), photos)}
        for name, part in ours.items()
    }


def tables(report: dict) -> list[Table]:
    """What the page shows, from the report alone."""
    found, records = report["found"], report["records"]
    by_eye = {
        name: {
            "style accuracy": part["style_accuracy"]["mean"],
            "sharpness": part["sharpness"]["mean"],
            "edges kept of the photo": part["edge_correlation"],
            "Fréchet distance to the paintings": part["frechet"]["mean"],
            "style loss, last mean": records[name]["losses"].get("style"),
            "content loss, last mean": records[name]["losses"].get("content"),
            "steps not finite": records[name]["failed_steps"],
        }
        for name, part in found.items()
    }
    return [
        Table(
            "measured",
            "By app.evaluate",
            by_eye,
            f"{report['photos']} test photos in each of four styles; losses over the steps since "
            "the log's last line.",
        ),
        Table(
            "conditions",
            "Condition numbers",
            {name: part["conditions"] for name, part in found.items()},
            "Of each hop's covariance with eps on its diagonal: geometric means over "
            f"{CONDITIONED} test photos in each style.",
            1,
        ),
    ]


def page(report: dict) -> str:
    lines = [
        "# Treatments on the style network",
        "",
        "Written by `python -m benchmarks.style_treatments`: what *Improving Covariance",
        "Conditioning of the SVD Meta-layer by Orthogonality* does before a spectral layer, done",
        "to the convolution before each hop, and the hybrid training of *Why Approximate Matrix",
        "Square Root Outperforms Accurate SVD*.",
        "",
        f"Each column: {report['steps']} steps of {report['batch']} crops of {report['size']} px, "
        f"width {report['width']}, from the start, with the same seed and data.",
        "",
        *(table.markdown() for table in tables(report)),
    ]
    if "notes" in report:
        lines += ["## What it shows", "", report["notes"], ""]
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    """Exit code 0 done, 2 a folder that is not of the artworks' form, else a training's own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--artworks", type=Path, default=ARTWORKS)
    add("--steps", type=int, default=2400)
    add("--size", type=int, default=144, help="of the crops, pixels")
    add("--batch", type=int, default=3)
    add("--width", type=int, default=24)
    add("--photos", type=int, default=30, help="test photos")
    add("--seed", type=int, default=0)
    add("--device", default="cpu")
    add("--columns", nargs="+", choices=tuple(COLUMNS), default=list(COLUMNS))
    add("--work", type=Path, default=Path("out") / NAME, help="folder of the trainings")
    add("--out", type=Path, default=Path("docs"), help="folder for page and JSON")
    add("--notes", type=Path, help="a file of Markdown that ends the page")
    add("--write-only", action="store_true", help="write the page anew, with these notes")
    options = parser.parse_args(argv)
    place = options.out / f"{NAME}.json"
    if options.write_only:
        report = json.loads(place.read_text(encoding="utf-8"))
    else:
        for part in ("train", "test"):
            if not (options.artworks / part / "photo").is_dir():
                return failed(f"{options.artworks}: no {part}/photo/ in it", 2)
        options.work.mkdir(parents=True, exist_ok=True)
        try:
            records = {name: train_column(options, name) for name in options.columns}
        except StoppedError as error:
            print("stopped; run it again to go on", file=sys.stderr)
            return error.code
        report = {key: getattr(options, key) for key in ("steps", "size", "batch", "width")}
        report |= {"photos": options.photos, "records": records}
        report["found"] = measured(options, options.columns)
    if options.notes is not None:
        report["notes"] = options.notes.read_text(encoding="utf-8").strip()
    options.out.mkdir(parents=True, exist_ok=True)
    write_json(place, report)
    text = page(report)
    place.with_suffix(".md").write_text(text, encoding="utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
