"""A style that the network has never seen, learned from a few paintings, and judged.

Trains a classifier that knows the style beside the classes of the artworks; learns the style's
code, the network unmoved; repaints test photos with it, and with what the paintings give without
learning. What is done is kept in --out: run it again to go on where it was, after Ctrl-C too.

python -m benchmarks.new_style --style NAME=FOLDER --class FOLDER --minutes 20 --out out/new_style
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image

import models
from app import evaluate, images, measuring, shipped, train, train_classifier
from app.choosing import medoid_codes, spread
from app.classes import class_folders, split_folder
from app.dataset import FolderError, PictureFolder
from app.named_folders import named_folders
from app.report import Table, contact_sheet
from benchmarks.stylize_quality import ARTWORKS

SPLITS = ("train", "test")
# A quarter of the default's work; --class and --artworks keep their test pictures for the figures.
SHORT = ("--all-pictures", "--views=300", "--pictures=900", "--epochs=6")
SAME_CODE = 1e-2  # relative; checkpoints keep codes in fp16, and learning moves them much further
SHEET_PHOTOS, SHEET_SIDE = 12, 160
CPU = torch.device("cpu")


class StoppedError(RuntimeError):
    """A step did not come to its end.

    Attributes:
        code: what it exited with; 130 after Ctrl-C.
    """

    def __init__(self, what: str, code: int) -> None:
        super().__init__(f"{what} exited with {code}")
        self.code = code


# --- the steps --------------------------------------------------------------------------------


def once(file: Path, what: str, work: Callable[[], int]) -> None:
    """Does what makes ``file``, unless it is done; counts its processor time over all tries.

    Raises:
        StoppedError: it did not come to its end.
    """
    if file.with_suffix(".done").is_file():
        return
    print(what, flush=True)
    start, before = time.process_time(), cpu_minutes(file)
    try:
        code = work()
    finally:
        spent = before + (time.process_time() - start) / 60
        file.with_suffix(".cpu.json").write_text(
            json.dumps({"minutes": spent}) + "\n", encoding="utf-8"
        )
    if code != 0:
        raise StoppedError(what, code)
    file.with_suffix(".done").touch()


def cpu_minutes(file: Path) -> float:
    """Processor time that went into a file so far, all threads together."""
    path = file.with_suffix(".cpu.json")
    return json.loads(path.read_text(encoding="utf-8"))["minutes"] if path.is_file() else 0.0


def gather_classes(arguments: argparse.Namespace) -> Path:
    """A folder with train/ and test/ of the artworks' classes and the new one, as links."""
    root = arguments.out / "classes"
    for split in SPLITS:
        (root / split).mkdir(parents=True, exist_ok=True)
        known = [p for p in split_folder(arguments.artworks, split).iterdir() if p.is_dir()]
        folders = {path.name: path for path in known}
        folders[arguments.name] = split_folder(arguments.pictures, split)
        for name, folder in folders.items():
            link = root / split / name
            link.unlink(missing_ok=True)
            link.symlink_to(folder.resolve(), target_is_directory=True)
    return root


def train_judge(arguments: argparse.Namespace, classes: Path) -> Path:
    """The classifier that knows the new style, trained on pictures that the style is not."""
    file = arguments.out / "classifier.safetensors"
    options = ["--artworks", str(classes), "--out", str(file), f"--seed={arguments.seed}"]
    options += [f"--device={arguments.device}", *SHORT, *arguments.classifier_option]
    once(file, "the classifier", lambda: train_classifier.main(options))
    file.with_suffix(".views.pt").unlink(missing_ok=True)
    return file


def learn(arguments: argparse.Namespace) -> Path:
    """The checkpoint with the new style."""
    file = arguments.out / "learned.safetensors"
    options = ["--init", str(arguments.init), "--style", f"{arguments.name}={arguments.folder}"]
    options += ["--photos", str(arguments.artworks / "train" / "photo"), "--out", str(file)]
    options += ["--minutes", str(arguments.minutes), f"--seed={arguments.seed}"]
    options += [f"--device={arguments.device}", *arguments.train_option]
    if file.with_suffix(".state.pt").is_file():
        options += ["--resume", str(file)]
    once(file, "the style", lambda: train.main(options))
    return file


# --- what came of it --------------------------------------------------------------------------


def nearest(code: models.StyleCode, codes: Sequence[models.StyleCode]) -> float:
    """Distance to the nearest of other codes, relative to the code's own length."""
    row = code.flatten()
    return min(float((row - other.flatten()).norm() / row.norm()) for other in codes)


def kept_codes(
    checkpoint: models.Checkpoint, name: str, paintings: PictureFolder
) -> dict[str, models.StyleCode]:
    """The best learned code and the best single painting's, the default one first.

    A checkpoint keeps both kinds in the order of what a judge said of them on training photos; a
    painting's is told by being the code of one.
    """
    network = checkpoint.network
    of_paintings = [network.encode_style(paintings.tensor(i)) for i in range(len(paintings))]
    result: dict[str, models.StyleCode] = {}
    for code in checkpoint.styles[name]:
        single = nearest(code, of_paintings) < SAME_CODE
        result.setdefault("best painting" if single else "learned", code)
    return result


def left_alone(
    before: models.Checkpoint, after: models.Checkpoint, photos: Sequence[torch.Tensor]
) -> bool:
    """Whether the pictures in all the styles that were there are the same bits as before."""
    return all(
        torch.equal(
            before.network.repaint(photo, codes[0]),
            after.network.repaint(photo, after.styles[name][0]),
        )
        for name, codes in before.styles.items()
        for photo in photos
    )


def kept(file: Path, work: Callable[[], dict]) -> dict:
    """What ``work`` gives, from the file if it was done before."""
    if not file.is_file():
        result = work()
        file.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return json.loads(file.read_text(encoding="utf-8"))


class Gallery:
    """What is repainted and who judges it.

    Args:
        arguments: the command line's.
        classes: of :func:`gather_classes`.
        judge: the classifier's file.
    """

    def __init__(self, arguments: argparse.Namespace, classes: Path, judge: Path) -> None:
        self.arguments, self.judge_file = arguments, judge
        classifier, self.trained = models.load_classifier(judge)
        self.classes = classifier.classes
        self.judges = measuring.Judges(classifier, None, None, "")
        self.test = classes / "test"
        self.paintings = PictureFolder(arguments.folder, name=arguments.name)
        folder = PictureFolder(arguments.artworks / "test" / "photo", name=evaluate.PHOTO)
        chosen = spread(arguments.photos, len(folder))
        self.photos = [folder.square(i, evaluate.PHOTO_SIDE) for i in chosen]

    def real(self) -> dict:
        """What the classifier calls the real test pictures: class -> class -> share."""
        judged = measuring.judge_real(self.judges, class_folders(self.test), CPU)
        return {name: self._shares(row) for name, row in judged.items()}

    def repainted(
        self, checkpoint: models.Checkpoint, codes: Mapping[str, models.StyleCode]
    ) -> dict:
        """The photos with each code: name -> what was measured."""
        styles = {name: [code] for name, code in codes.items()}
        result = measuring.evaluate(
            replace(checkpoint, styles=styles), self.photos, self.judges, "repainting"
        )
        return {
            name: {
                "called": self._shares(row),
                "edge_correlation": statistics.fmean(row.edges),
                "sharpness": statistics.fmean(row.sharpness),
            }
            for name, row in result.styles.items()
        }

    def _shares(self, judged: measuring.Judged) -> dict[str, float]:
        return {name: judged.share(name) for name in self.classes}

    def before_learning(self) -> dict:
        """What needs no learned style: the classifier's own test, and a code without learning."""
        start = models.load_checkpoint(self.arguments.init)
        medoid = medoid_codes(start.network, self.paintings, CPU, 1)[0]
        return {"real": self.real(), "repainted": self.repainted(start, {"medoid": medoid})}

    def report(self, before: dict, learned: Path) -> dict:
        """Everything that the tables show; writes the sheet."""
        name = self.arguments.name
        start, end = models.load_checkpoint(self.arguments.init), models.load_checkpoint(learned)
        codes = kept_codes(end, name, self.paintings)
        medoid = medoid_codes(end.network, self.paintings, CPU, 1)[0]
        some = [self.photos[i] for i in spread(SHEET_PHOTOS, len(self.photos))]
        sheet = self.arguments.out / "sheet.png"
        draw_sheet(sheet, end.network, some, self.paintings, codes | {"medoid": medoid})
        record = end.record["added"][name]
        return {
            "style": name,
            "paintings": len(self.paintings),
            "photos": len(self.photos),
            "classifier": {
                "trained_on": self.trained["trained_on"],
                "cpu_minutes": cpu_minutes(self.judge_file),
            },
            "real": before["real"],
            "repainted": self.repainted(end, codes) | before["repainted"],
            "default": next(iter(codes)),
            "other_styles_bit_identical": left_alone(start, end, some),
            "learning": {
                "steps": record["steps"],
                "minutes": record["minutes"],
                "cpu_minutes": cpu_minutes(learned),
                "threads": torch.get_num_threads(),
            },
        }


def draw_sheet(
    path: Path,
    network: models.Repainter,
    photos: Sequence[torch.Tensor],
    paintings: PictureFolder,
    codes: Mapping[str, models.StyleCode],
) -> None:
    """Paintings, photos, and the photos with each code."""
    chosen = [paintings.square(i, evaluate.PHOTO_SIDE) for i in spread(len(photos), len(paintings))]
    rows = [("paintings", chosen), ("photos", photos)]
    rows += [(name, [network.repaint(x, code) for x in photos]) for name, code in codes.items()]
    contact_sheet([(name, [thumbnail(x) for x in row]) for name, row in rows]).save(path)


def thumbnail(picture: torch.Tensor) -> np.ndarray:
    """A square picture (1, 3, H, W) as uint8 (SHEET_SIDE, SHEET_SIDE, 3)."""
    image = Image.fromarray(images.to_rgb(picture))
    return np.asarray(image.resize((SHEET_SIDE, SHEET_SIDE), Image.Resampling.LANCZOS))


def tables(report: dict) -> list[Table]:
    """The report as tables."""
    name = report["style"]
    real, painted, learning = report["real"], report["repainted"], report["learning"]
    same = "the same bits" if report["other_styles_bit_identical"] else "CHANGED"
    return [
        Table(
            "real",
            "The classifier on real pictures that it was not trained on",
            {
                "right": {row: called[row] for row, called in real.items()},
                f"called {name}": {row: called[name] for row, called in real.items()},
            },
            f"Trained with {report['classifier']['trained_on'][name]} pictures of {name}; none of "
            f"the {report['paintings']} that the style is learned from is among any of them.",
        ),
        Table(
            "repainted",
            f"{report['photos']} test photos repainted",
            {
                f"called {name}": {row: p["called"][name] for row, p in painted.items()},
                "called photo": {row: p["called"]["photo"] for row, p in painted.items()},
                "edge correlation": {row: p["edge_correlation"] for row, p in painted.items()},
                "sharpness": {row: p["sharpness"] for row, p in painted.items()},
            },
            f"The style's default is: {report['default']}. Without learning there are the medoid, "
            "from which it begins, and, where it did well on training photos, a single painting. "
            f"Pictures in the other styles are {same} before and after.",
        ),
        Table(
            "learning",
            "Learning",
            {name: {row: float(learning[row]) for row in ("steps", "minutes", "cpu_minutes")}},
            f"{learning['threads']} threads. The minutes are those of the steps; the processor's "
            "minutes are of everything, the choice of the default code included.",
            1,
        ),
    ]


# --- the command ------------------------------------------------------------------------------


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--style", required=True, metavar="NAME=FOLDER", help="the paintings to learn from")
    add(
        "--class",
        dest="pictures",
        required=True,
        type=Path,
        metavar="FOLDER",
        help="train/ and test/: other pictures of the style, for the classifier",
    )
    add("--init", type=Path, default=shipped.CHECKPOINT, help="the network")
    add("--artworks", type=Path, default=ARTWORKS)
    add("--minutes", type=float, default=20, help="of learning (20)")
    add("--out", type=Path, default=Path("out/new_style"), help="folder; what is in it is kept")
    add("--photos", type=int, default=100, help="test photos (100)")
    add("--classifier-option", action="append", default=[], help="more, for app.train_classifier")
    add("--train-option", action="append", default=[], help="more, for app.train")
    add("--device", default="cpu", help="to train on (cpu)")
    add("--seed", type=int, default=0)
    arguments = parser.parse_args(argv)
    try:
        ((arguments.name, folder),) = named_folders([arguments.style])
    except ValueError as error:
        parser.error(str(error))
    arguments.folder = Path(folder)
    return arguments


def check(arguments: argparse.Namespace) -> None:
    """Refuses what would make the figures wrong.

    Raises:
        ValueError: a style that is not new, or a picture on both sides.
    """
    if (arguments.artworks / "train" / arguments.name).exists():
        raise ValueError(f"{arguments.name} is one of the classes of {arguments.artworks}")
    if arguments.name in models.load_checkpoint(arguments.init).styles:
        raise ValueError(f"{arguments.init} knows the style {arguments.name}")
    seen: dict[bytes, Path] = {}
    sides = (arguments.folder, *(split_folder(arguments.pictures, split) for split in SPLITS))
    for side in sides:
        for path in images.list_pictures(side, recursive=True):
            digest = hashlib.blake2b(path.read_bytes()).digest()
            other = seen.setdefault(digest, path)
            if other.is_relative_to(side):
                continue
            raise ValueError(f"{path}: the same picture as {other}")


def main(argv: list[str] | None = None) -> int:
    """Exit code 0 done, 2 wrong input or changed settings, else that of a step that stopped."""
    arguments = parse_arguments(argv)
    settings = {k: str(v) for k, v in vars(arguments).items() if k != "out"}
    try:
        check(arguments)
        arguments.out.mkdir(parents=True, exist_ok=True)
        begun = kept(arguments.out / "settings.json", lambda: settings)
        if changed := [k for k in settings if begun.get(k) != settings[k]]:
            raise ValueError(f"{arguments.out} was begun with another {changed[0]}")
        classes = gather_classes(arguments)
        judge = train_judge(arguments, classes)
        gallery = Gallery(arguments, classes, judge)
        before = kept(arguments.out / "before_learning.json", gallery.before_learning)
        report = gallery.report(before, learn(arguments))
    except StoppedError as error:
        print(f"{error}; run it again to go on", file=sys.stderr)
        return error.code
    except (FolderError, FileNotFoundError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    text = "\n".join(table.markdown() for table in tables(report))
    (arguments.out / "new_style.json").write_text(
        json.dumps(report, indent=1) + "\n", encoding="utf-8"
    )
    (arguments.out / "tables.md").write_text(text, encoding="utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
