"""What paints on a cluster's machines: a network each, blocks of photos in, outcomes out.

A block may come twice: Ray gives what a lost machine had in hand to another. What was written of
it is known by the block's notes, and painted again otherwise; the bytes are the same.
"""

from __future__ import annotations

import gc
import hashlib
import io
import json
import os
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

import torch

import models
from app import batch, images
from app.batch import Job, Outcome
from app.cluster import stores
from app.cluster.plan import name_in
from app.limits import Limits
from app.look import Look
from app.memory import is_out_of_memory
from app.painter import Painter
from app.regions import Region
from app.stylize import JOBS_ON_A_GPU, TOGETHER_ON_A_GPU, paint_alike

NOTES = ".repaint"  # the folder of a running batch's notes, in the output folder

TRIES = 2  # of a picture that ends its worker or has not enough memory

_TYPES = {"png": "image/png", "jpg": "image/jpeg", "webp": "image/webp"}


@dataclass(frozen=True)
class Task:
    """All that a worker needs, as it is sent to it.

    Attributes:
        checkpoint: the file's bytes: other machines may not have it.
        precision, style, look, tile, together: as in app.stylize.
        settings: see :class:`app.batch.Work`.
        out: the output folder's absolute path, or its address.
        root: the folder that relative names of photos begin in.
        run: names this run's notes.
    """

    checkpoint: bytes = field(repr=False)
    device: str
    precision: str
    style: models.StyleCode | list[Region]
    look: Look
    tile: int | None
    together: int | None
    settings: Mapping[str, object]
    max_pixels: int
    max_size: int | None
    strip: bool
    overwrite: bool
    resume: bool
    out: str
    root: str
    run: str


class Tries:
    """Which photos were in a worker's hands when it died, over all workers.

    Only photos that are being painted, or were when something died, are kept.
    """

    def __init__(self) -> None:
        self._held: dict[str, list[str]] = {}  # by photo: the machines that it was begun on

    def begin(self, photos: Sequence[str], machine: str) -> None:
        """They are about to be read and painted."""
        for photo in photos:
            self._held.setdefault(photo, []).append(machine)

    def end(self, photos: Sequence[str]) -> None:
        """Their outcomes are known."""
        for photo in photos:
            self._held.pop(photo, None)

    def died(self, photos: Sequence[str], alive: Sequence[str]) -> dict[str, int]:
        """How often each was left behind by a worker whose machine lives on.

        A machine that is gone says nothing against what it painted.
        """
        counts = {
            photo: sum(machine in alive for machine in self._held.get(photo, ()))
            for photo in photos
        }
        return {photo: count for photo, count in counts.items() if count}


class _NamedBytes(io.BytesIO):
    """A file's bytes under its name."""

    def __init__(self, data: bytes, name: str) -> None:
        super().__init__(data)
        self.name = name


class BlockStore:
    """Where one block's photos and results are; notes precede the results they are of.

    Args:
        known: by output, the digests and keys of results that earlier runs noted.
    """

    def __init__(self, task: Task, block: int, known: Mapping[str, Mapping[str, str]]) -> None:
        self.task, self.known = task, known
        self.notes_place = _inside(task.out, f"{NOTES}/{task.run}-{block:06d}.jsonl")
        self._lock = threading.Lock()
        self._lines = self._read_notes()
        self._last = threading.local()  # a reader's photo is asked for twice

    def _read_notes(self) -> list[dict]:
        """What an earlier try of this block noted."""
        try:
            data = _read(self.notes_place)
        except OSError:
            return []
        lines = []
        for line in data.splitlines():
            try:
                lines.append(json.loads(line))
            except ValueError:
                continue
        return lines

    def written(self, job: Job) -> bool:
        """Whether an earlier try of this block has written this result."""
        name = name_in(self.task.out, self._output(job))
        noted = {line["result"] for line in self._lines if line["output"] == name}
        if not noted:
            return False
        try:
            return _digest(_read(self._output(job))) in noted
        except OSError:
            return False

    def photo(self, job: Job) -> Path | BinaryIO:
        if not stores.is_address(job.input):
            return Path(self.task.root, job.input)
        return _NamedBytes(self._photo_bytes(job), job.input)

    def _photo_bytes(self, job: Job) -> bytes:
        if getattr(self._last, "name", None) != job.input:
            try:
                self._last.data = stores.read(job.input)
            except OSError as error:
                raise images.ImageError(job.input, stores.reason(error)) from error
            self._last.name = job.input
        return self._last.data

    def digest_of_photo(self, job: Job) -> str:
        if not stores.is_address(job.input):
            return batch.digest(Path(self.task.root, job.input))
        return _digest(self._photo_bytes(job))

    def _output(self, job: Job) -> str:
        if stores.is_address(job.output):
            return job.output
        return os.path.join(self.task.root, job.output)

    def has_result(self, job: Job) -> bool:
        if not stores.is_address(job.output):
            return Path(self._output(job)).exists()
        return stores.kind(job.output) != "nothing"

    def result(self, job: Job) -> Path | BinaryIO:
        if not stores.is_address(job.output):
            return Path(self._output(job))
        return _NamedBytes(stores.read(job.output), job.output)

    def key_of_result(self, job: Job) -> str | None:
        known = self.known.get(job.output)
        return known.get(_digest(_read(self._output(job)))) if known else None

    def save(self, picture: images.Picture, job: Job, key: str) -> tuple[str, ...]:
        output = self._output(job)
        if not stores.is_address(output):
            path = Path(output)
            path.parent.mkdir(parents=True, exist_ok=True)
            return images.save(
                picture,
                path,
                job.format,
                placing=lambda file: self._note(output, batch.digest(file), key),
            )
        with tempfile.TemporaryDirectory(prefix="repaint-") as folder:
            file = Path(folder) / f"painted.{job.format}"
            try:
                lost = images.save(picture, file, job.format, durable=False)
            except images.ImageError as error:
                raise images.ImageError(job.input, error.reason) from error
            data = file.read_bytes()
        self._note(output, _digest(data), key)
        try:
            stores.write(output, data, _TYPES[job.format])
        except OSError as error:
            why = f"{output} cannot be written: {stores.reason(error)}"
            raise images.ImageError(job.input, why) from error
        return lost

    def _note(self, output: str, result: str, key: str) -> None:
        line = {"output": name_in(self.task.out, output), "result": result, "made_of": key}
        with self._lock:
            if line in self._lines:
                return
            self._lines.append(line)
            text = "".join(json.dumps(each) + "\n" for each in self._lines)
            if stores.is_address(self.notes_place):
                stores.write(self.notes_place, text.encode())
            else:
                Path(self.notes_place).parent.mkdir(parents=True, exist_ok=True)
                with images.writing_whole(self.notes_place, durable=False) as part:
                    part.write_text(text, encoding="utf-8")


class Worker:
    """Paints blocks with a network of its own, which it loads once.

    Args:
        tries: what is called to reach :class:`Tries`, by a method's name and its arguments.
        machine, machines: this one's name, and what gives those of all that are alive.
    """

    def __init__(
        self,
        task: Task,
        tries: Callable[..., Any],
        machine: str = "",
        machines: Callable[[], Sequence[str]] = lambda: (),
    ) -> None:
        self.task, self.tries, self.machine, self.machines = task, tries, machine, machines
        with tempfile.TemporaryDirectory(prefix="repaint-") as folder:
            file = Path(folder) / "checkpoint.safetensors"
            file.write_bytes(task.checkpoint)
            # Each photo is painted once: what the painter could remember would only take memory.
            self.painter = Painter(file, task.device, Limits(remembered_content=0), task.precision)

    def block(
        self, number: int, jobs: Sequence[Job], known: Mapping[str, Mapping[str, str]]
    ) -> Iterator[Outcome]:
        """The outcome of each photo of a block."""
        store = BlockStore(self.task, number, known)
        left = []
        for job in jobs:
            if store.written(job):
                yield _done_before_it_died(job, store)
            else:
                left.append(job)
        names = [job.input for job in left]
        died = Counter(self.tries("died", names, list(self.machines())))
        if not died:
            self.tries("begin", names, self.machine)
            yield from batch.run_in(store, left, self._work(careful=False))
            self.tries("end", names)
            return
        # One of these ended its worker: each by itself shows which.
        for job in left:
            if died[job.input] >= TRIES:
                why = f"it ended its worker {TRIES} times (not enough memory?); left out"
                yield Outcome(job.input, None, "failed", why)
            else:
                self.tries("begin", [job.input], self.machine)
                yield from batch.run_in(store, [job], self._work(careful=True))
            self.tries("end", [job.input])

    def _work(self, careful: bool) -> batch.Work:
        task, on_gpu = self.task, self.painter.device.type != "cpu"
        alone = careful or isinstance(task.style, list) or task.tile
        return batch.Work(
            self._paint,
            task.settings,
            max_pixels=task.max_pixels,
            max_size=task.max_size,
            strip=task.strip,
            overwrite=task.overwrite,
            resume=task.resume,
            jobs=1 if careful or not on_gpu else min(JOBS_ON_A_GPU, os.cpu_count() or 1),
            together=1 if alone else task.together or (TOGETHER_ON_A_GPU if on_gpu else 1),
        )

    def _paint(self, pictures: Sequence[images.Picture]) -> list[images.Picture]:
        task = self.task
        for left in reversed(range(TRIES)):
            try:
                return paint_alike(self.painter, pictures, task.style, task.look, task.tile)
            except (RuntimeError, MemoryError) as error:
                # Several together are then painted one by one; see app.batch.
                if not left or len(pictures) > 1 or not is_out_of_memory(error):
                    raise
            gc.collect()
            if self.painter.device.type == "cuda":
                torch.cuda.empty_cache()
        raise AssertionError("the last try returns or raises")


class RayWorker:
    """A worker as Ray Data's actor pool has it: tables of photos in, tables of outcomes out."""

    def __init__(self, task: Task, tries: Any) -> None:
        import ray

        os.chdir(task.root) if os.path.isdir(task.root) else None
        self.worker = Worker(
            task,
            lambda method, *given: ray.get(getattr(tries, method).remote(*given)),
            ray.get_runtime_context().get_node_id(),
            lambda: [node["NodeID"] for node in ray.nodes() if node["Alive"]],
        )

    def __call__(self, table: Mapping[str, Any]) -> dict[str, list[str]]:
        jobs, known, number = [], {}, int(table["block"][0])
        columns = (table["input"], table["output"], table["format"], table["made"])
        for name, output, format, made in zip(*columns, strict=True):
            jobs.append(Job(str(name), str(output), str(format)))
            known[str(output)] = json.loads(str(made))
        outcomes = self.worker.block(number, jobs, known)
        return {"outcome": [json.dumps(asdict(outcome)) for outcome in outcomes]}


def outcome_of(line: str) -> Outcome:
    """The opposite of how an outcome is sent."""
    fields = json.loads(line)
    return Outcome(**{**fields, "notes": tuple(fields["notes"])})


def _done_before_it_died(job: Job, store: BlockStore) -> Outcome:
    """Of a result that this run has written, though the word of it was lost."""
    picture = images.load(store.result(job))
    done = Outcome(job.input, job.output, "done")
    return replace(done, width=picture.width, height=picture.height)


def _inside(out: str, name: str) -> str:
    return stores.join(out, name) if stores.is_address(out) else os.path.join(out, name)


def _read(name: str) -> bytes:
    return stores.read(name) if stores.is_address(name) else Path(name).read_bytes()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
