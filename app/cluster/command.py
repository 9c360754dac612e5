"""Stylize photos on a cluster: python -m app.cluster INPUT ... --style NAME --out FOLDER|s3://...

Exit codes: as app.stylize's.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import math
import os
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

from tqdm import tqdm

from app import batch, images, stylize, terminal
from app.cluster import engine, stores
from app.cluster.plan import Plan
from app.cluster.worker import NOTES, RayWorker, Task, Tries, outcome_of
from app.limits import Limits
from app.listing import CommandError, read_list
from app.options import positive
from app.out import check_out
from app.painter import Painter

_BLOCK = 16  # photos that a worker is handed at a time
_BLOCKS_EACH = 8  # at least so many for each worker, so that all end at about the same time
_BLOCKS = 10_000  # and in all at most: the command's memory grows with them, not with the photos


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    terminal.show_anything()
    parser = _parser()
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="repaint-cluster-") as folder:
        try:
            # All that can be wrong with the command is found before the first photo.
            engine.check_installed()
            engine.check_address(args.address)
            _check_out(args.out)
            plan = Plan(Path(folder) / "plan", args.out)
            listed = read_list(args.from_file) if args.from_file else []
            plan.fill(args.photos, args.format, args.recursive, listed=listed)
            task = _task(args)
            plan.note_made(_noted(args.out))
        except (ValueError, OSError) as error:
            return _refused(parser, error)
        except KeyboardInterrupt:
            print("interrupted before the first picture", file=sys.stderr)
            return 130
        for note in plan.notes:
            print(images.one_line(note), file=sys.stderr)
        own = sys.stdout
        try:
            # Ray prints of machines that are lost and the like; stdout is for outcomes alone.
            with contextlib.redirect_stdout(sys.stderr), engine.connected(args.address) as ray:
                return _run(args, plan, task, ray, own)
        except CommandError as error:
            return _refused(parser, error)


def _refused(parser: argparse.ArgumentParser, error: Exception) -> int:
    print(f"{parser.prog}: error: {images.one_line(str(error))}", file=sys.stderr)
    return 2


def _run(args: argparse.Namespace, plan: Plan, task: Task, ray: Any, stdout: TextIO) -> int:
    counts: Counter[str] = Counter()
    started = time.perf_counter()
    with batch.stop_on_signals() as stop:
        progress = tqdm(total=len(plan), unit="picture", disable=None, dynamic_ncols=True)
        try:
            for outcome in outcomes(args, plan, task, ray):
                counts[stylize.counted_as(outcome)] += 1
                stylize.report(outcome, args.json, stdout)
                progress.update()
                if stop():
                    break
        except Exception as error:
            # What is left is not lost: --resume does it.
            progress.close()
            text = next(iter(str(error).strip().splitlines()), type(error).__name__)
            print(f"the cluster gave up: {images.one_line(text)}", file=sys.stderr)
            print("the same command with --resume does the rest", file=sys.stderr)
            return 1
        finally:
            progress.close()
    left = len(plan) - counts.total()
    if stop() and left:
        go_on = "the same command with --resume does the rest"
        print(f"interrupted: {stylize.summary(counts)}, {left} left; {go_on}", file=sys.stderr)
        return stop.exit_code
    _gather_notes(plan)
    seconds = time.perf_counter() - started
    print(f"{stylize.summary(counts)} in {seconds:.1f} s; see {args.out}", file=sys.stderr)
    return 1 if counts["failed"] or left else 0


def block_size(photos: int, workers: int) -> int:
    """How many photos a worker is handed at a time."""
    return max(1, min(_BLOCK, photos // (_BLOCKS_EACH * workers)), math.ceil(photos / _BLOCKS))


def outcomes(
    args: argparse.Namespace, plan: Plan, task: Task, ray: Any, worker: type = RayWorker
) -> Iterator[batch.Outcome]:
    """Each photo's outcome, as they come: Ray Data paints block after block."""
    from ray import data  # `import ray` leaves it out
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = ray.get_runtime_context().get_node_id()
    tries = (
        ray.remote(Tries)
        .options(num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(here, soft=False))
        .remote()
    )
    resources = {"num_cpus": args.num_cpus}
    room = ray.cluster_resources().get("CPU", 1) / args.num_cpus
    if args.num_gpus:
        resources["num_gpus"] = args.num_gpus
        room = min(room, ray.cluster_resources().get("GPU", 0) / args.num_gpus)
    workers = math.floor(room)
    if not workers:
        raise CommandError(
            f"no machine of the cluster has {args.num_cpus:g} CPUs and {args.num_gpus:g} GPUs "
            "for a worker"
        )
    size = block_size(len(plan), workers)
    if args.num_gpus:
        size = max(size, stylize.TOGETHER_ON_A_GPU)
    data.DataContext.get_current().enable_progress_bars = False
    # Set when the module is imported, and only now to be changed.
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    painted = data.from_arrow_refs(list(_blocks(plan, size, ray))).map_batches(
        worker,
        fn_constructor_args=(task, tries),
        batch_size=None,  # a block as it is
        compute=data.ActorPoolStrategy(min_size=1, max_size=workers, initial_size=workers),
        **resources,
    )
    for row in painted.iter_rows():
        yield outcome_of(row["outcome"])


def _blocks(plan: Plan, size: int, ray: Any) -> Iterator[Any]:
    """The photos as tables in Ray's store, which moves to the disk what it has no memory for."""
    import pyarrow

    rows: list[dict[str, object]] = []
    number = 0
    for job, made in plan.jobs():
        rows.append(
            {
                "block": number,
                "input": job.input,
                "output": job.output,
                "format": job.format,
                "made": json.dumps(made),
            }
        )
        if len(rows) == size:
            yield ray.put(pyarrow.Table.from_pylist(rows))
            rows, number = [], number + 1
    if rows:
        yield ray.put(pyarrow.Table.from_pylist(rows))


def _task(args: argparse.Namespace) -> Task:
    # The style is read here, where its file is; it is what every worker paints with.
    painter = Painter(args.checkpoint, "cpu", Limits(remembered_content=0), "float32")
    out = args.out if stores.is_address(args.out) else os.path.abspath(args.out)
    return Task(
        checkpoint=Path(args.checkpoint).read_bytes(),
        device=args.device,
        precision=args.precision,
        style=stylize.given_style(args, painter),
        look=stylize.look_of(args),
        tile=args.tile,
        together=args.batch,
        settings=stylize.settings_of(args),
        max_pixels=args.max_pixels,
        max_size=args.max_size,
        strip=args.strip,
        overwrite=args.overwrite,
        resume=args.resume,
        out=out,
        root=os.getcwd(),
        run=uuid.uuid4().hex[:12],
    )


def _check_out(out: str) -> None:
    """Tries whether results can be written. Raises OSError or ValueError."""
    if not stores.is_address(out):
        check_out(Path(out) / "painting", 2**20)
        return
    probe = stores.join(out, f".repaint-{uuid.uuid4().hex}.part")
    try:
        stores.write(probe, b"repaint")
        stores.remove(probe)
    except OSError as error:
        name = images.one_line(out)
        raise CommandError(f"--out {name}: cannot be written to: {stores.reason(error)}") from None


def _manifest(out: str) -> str:
    return _inside(out, batch.MANIFEST)


def _inside(out: str, name: str) -> str:
    return stores.join(out, name) if stores.is_address(out) else os.path.join(out, name)


def _notes_of_runs(out: str) -> Iterator[str]:
    folder = _inside(out, NOTES)
    if not stores.is_address(out):
        if os.path.isdir(folder):
            yield from (os.path.join(folder, name) for name in sorted(os.listdir(folder)))
    elif stores.kind(folder) == "folder":
        yield from stores.files(folder, recursive=False)


def _noted(out: str) -> Iterator[bytes]:
    """Every line that earlier runs, on a cluster or not, noted of results in a place."""
    for name in [_manifest(out), *_notes_of_runs(out)]:
        try:
            data = stores.read(name) if stores.is_address(name) else Path(name).read_bytes()
        except OSError as error:
            if isinstance(error, FileNotFoundError) or "no such file" in str(error):
                continue
            raise
        yield from data.splitlines()


def _gather_notes(plan: Plan) -> None:
    """One file for all notes, where app.stylize looks for it, too; then the many go."""
    parts = list(_notes_of_runs(plan.out))
    if not parts:
        return
    plan.note_made(_noted(plan.out))
    lines = (
        json.dumps({"output": output, "result": result, "made_of": key}) + "\n"
        for output, result, key in plan.made()
    )
    name = _manifest(plan.out)
    try:
        if stores.is_address(name):
            stores.write(name, "".join(lines).encode())
        else:
            with images.writing_whole(name) as part, open(part, "w", encoding="utf-8") as file:
                file.writelines(lines)
        for part_name in parts:
            if stores.is_address(part_name):
                stores.remove(part_name)
            else:
                os.unlink(part_name)
        if not stores.is_address(name):
            os.rmdir(_inside(plan.out, NOTES))
    except OSError as error:
        # They are read as well in parts.
        print(f"notes were left in parts: {images.one_line(str(error))}", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m app.cluster",
        description="Repaint photos in the style of a painting, on a Ray cluster. Photos and "
        "results may be in object stores: s3://bucket/folder, gs://bucket/folder, ...",
        epilog="Exit codes: 0 all done, 1 some pictures failed, 2 the command line is wrong.",
    )
    stylize.add_batch_options(parser, out=_out)
    parser.add_argument(
        "--address",
        default="auto",
        metavar="auto|local|HOST:PORT",
        help="the cluster: the one that this machine belongs to (auto, the default), a new one of "
        "this machine alone (local), or the one at an address",
    )
    parser.add_argument(
        "--num-cpus",
        type=positive,
        default=1,
        metavar="N",
        help="cores for each network that paints; as many of them run as the cluster has room for "
        "(default: %(default)s, which paints most pictures an hour)",
    )
    parser.add_argument(
        "--num-gpus",
        type=_share,
        default=0,
        metavar="N",
        help="GPUs for each of them; 0.5 lets two share one (default: none)",
    )
    return parser


def _out(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("must name a folder or an address as s3://bucket/folder")
    return text


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number from 0, got {text!r}")
    return value
