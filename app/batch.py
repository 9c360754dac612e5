"""The batch: photos are read, painted and written at the same time, and none is lost.

Reading and writing have threads of their own: while the network paints one picture, the next are
being decoded and the last are being encoded. What was written is noted in the output folder, so
that a later run can tell which results are whole and made of what.
"""

from __future__ import annotations

import errno
import hashlib
import itertools
import json
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Generic, Protocol, TypeVar

from app import images
from app.images import Picture
from app.limits import LIMITS, Limits
from app.memory import is_out_of_memory

MANIFEST = ".repaint.jsonl"  # in the output folder; hidden, so that no glob takes it for a result


# A path on this machine, or how a store calls what it holds.
Place = TypeVar("Place", Path, str)


@dataclass(frozen=True)
class Job(Generic[Place]):
    """One photo to paint and the file to write it to."""

    input: Place
    output: Place
    format: str


@dataclass(frozen=True)
class Outcome:
    """What became of one photo; with --json, its line on stdout.

    status: "done", "failed" or "skipped". reason: one line for the latter two. output: None where
    none was written. seconds: of work on it, without waiting for others. width, height: of the
    result, in pixels.
    """

    input: str
    output: str | None
    status: str
    reason: str | None = None
    seconds: float = 0.0
    width: int | None = None
    height: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def already_done(self) -> bool:
        """Whether an earlier run had made just this result."""
        return self.reason == _ALREADY_DONE


_ALREADY_DONE = "is done already"


@dataclass(frozen=True)
class Work:
    """How every photo of a batch is treated.

    Args:
        paint: paints pictures of one size, in order; called from as many threads as there are
            ``painters``.
        settings: all that decides a result but the photo, as JSON can hold it.
        max_pixels, max_size: limits of ``images.load`` and ``images.resize``, in pixels.
        strip: leave out what EXIF tells of people, places and days.
        overwrite: replace files that exist.
        resume: pass over results that are whole and made of this photo with these settings.
        jobs: photos read, and pictures written, at the same time.
        together: pictures of one size painted at the same time, at most, and no more pixels of
            them than the limits say.
        painters: threads that paint.
        abandoned: set when a batch is given up; what ``paint`` has in hand is of no use then.
    """

    paint: Callable[[Sequence[Picture]], Sequence[Picture]]
    settings: Mapping[str, object]
    max_pixels: int = images.MAX_PIXELS
    max_size: int | None = None
    strip: bool = False
    overwrite: bool = False
    resume: bool = False
    jobs: int = 1
    together: int = 1
    limits: Limits = LIMITS
    painters: int = 1
    abandoned: threading.Event = field(default_factory=threading.Event)


def digest(path: str | os.PathLike) -> str:
    """SHA-256 of a file, in hexadecimal. Raises OSError where it cannot be read."""
    with open(path, "rb") as file:
        return _digest_of(iter(lambda: file.read(1 << 20), b""))


def _digest_of(blocks: Iterable[bytes]) -> str:
    sha = hashlib.sha256()
    for block in blocks:
        sha.update(block)
    return sha.hexdigest()


def note_of(line: bytes) -> tuple[str, str, str] | None:
    """What a line of a manifest says: a result's place, its digest and the key of what it was made
    of. None for what a kill cut short, and for what is no such line."""
    try:
        entry = json.loads(line)
        noted = (entry["output"], entry["result"], entry["made_of"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return noted if all(isinstance(part, str) for part in noted) else None


class Manifest:
    """What was written into an output folder: one JSON line a result, in the order of writing.

    Each line holds the result's place, the digest of its bytes, and the key of what it was made
    of. It is appended before the result is moved into its place. So whenever a run is killed,
    every file that has its place is known here, and a line whose file never came matches nothing.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / MANIFEST
        self._lock = threading.Lock()
        self._made: dict[str, dict[str, str]] = {}

    def check(self) -> None:
        """Raises OSError where notes can't be read or added, which no picture is painted for."""
        if os.path.lexists(self.path):
            if not self.path.is_file():  # a pipe would be waited for
                raise OSError(errno.EINVAL, f"{MANIFEST} in it is no file")
            with open(self.path, "rb+"):
                pass

    def read(self) -> None:
        """Read what earlier runs noted; a line that a kill cut short is passed over."""
        try:
            lines = self.path.read_bytes().splitlines()
        except FileNotFoundError:
            return
        for line in lines:
            if noted := note_of(line):
                output, result, key = noted
                self._made.setdefault(output, {})[result] = key

    def key_of(self, output: Path) -> str | None:
        """The key that the file in that place was made with; None for a file of another origin."""
        made = self._made.get(self._name(output))
        return made.get(digest(output)) if made and output.is_file() else None

    def note(self, output: Path, file: Path, key: str) -> None:
        """Note that `file`, made with `key`, is about to be moved to `output`."""
        entry = {"output": self._name(output), "result": digest(file), "made_of": key}
        with self._lock, open(self.path, "ab+") as manifest:
            if manifest.tell():
                manifest.seek(-1, os.SEEK_END)
                # A kill may have cut the last line short: it must not swallow this one.
                if manifest.read(1) != b"\n":
                    manifest.write(b"\n")
            manifest.write(json.dumps(entry).encode() + b"\n")

    def _name(self, output: Path) -> str:
        return output.relative_to(self.folder).as_posix()


class Store(Protocol):
    """Where a batch's photos come from and its results go to.

    Each method raises images.ImageError or OSError where it can't do its work, for this job alone.
    """

    def photo(self, job: Job) -> Path | BinaryIO:
        """What ``images.load`` reads."""

    def digest_of_photo(self, job: Job) -> str:
        """SHA-256 of the photo's file, in hexadecimal."""

    def has_result(self, job: Job) -> bool:
        """Whether something is in the result's place."""

    def result(self, job: Job) -> Path | BinaryIO:
        """What is there, for ``images.load``."""

    def key_of_result(self, job: Job) -> str | None:
        """The key that it was made with; None for a file of another origin."""

    def save(self, picture: Picture, job: Job, key: str) -> tuple[str, ...]:
        """Writes a result, whole or not at all; notes on what its format could not keep."""


class Files:
    """Photos and results on this machine's disks.

    Args:
        folder: that all results lie in; the manifest is there.
    """

    def __init__(self, folder: Path) -> None:
        self.manifest = Manifest(folder)

    def photo(self, job: Job) -> Path:
        return job.input

    def digest_of_photo(self, job: Job) -> str:
        return digest(job.input)

    def has_result(self, job: Job) -> bool:
        return job.output.exists()

    def result(self, job: Job) -> Path:
        return job.output

    def key_of_result(self, job: Job) -> str | None:
        return self.manifest.key_of(job.output)

    def save(self, picture: Picture, job: Job, key: str) -> tuple[str, ...]:
        job.output.parent.mkdir(parents=True, exist_ok=True)
        return images.save(
            picture,
            job.output,
            job.format,
            placing=lambda file: self.manifest.note(job.output, file, key),
        )


@dataclass
class _Photo:
    """A photo on its way: read, or with the outcome that ended it before."""

    job: Job
    picture: Picture | None = None
    key: str = ""
    seconds: float = 0.0
    outcome: Outcome | None = None


def run(
    jobs: Sequence[Job], work: Work, folder: Path, stopped: Callable[[], object] = lambda: False
) -> Generator[Outcome, None, None]:
    """Paint all photos and give the outcome of each; whatever goes wrong becomes a failed one.

    The outcomes come in the order of the jobs, unless pictures are painted together.

    Args:
        folder: the output folder, which all outputs lie in; it exists.
        stopped: asked before each painting; where it says so, what is painted is still written
            and the rest is left.
    """
    files = Files(folder)
    if work.resume:
        files.manifest.read()
        images.remove_leftovers({job.output.parent for job in jobs})
    yield from run_in(files, jobs, work, stopped)


def run_in(
    store: Store, jobs: Sequence[Job], work: Work, stopped: Callable[[], object] = lambda: False
) -> Generator[Outcome, None, None]:
    """As :func:`run`, with photos and results wherever they are."""
    readers = ThreadPoolExecutor(work.jobs, "read")
    painters = ThreadPoolExecutor(work.painters, "paint")
    writers = ThreadPoolExecutor(work.jobs, "write")
    try:
        photos = _read_ahead(jobs, lambda job: _read(job, work, store), readers, work.jobs)
        pending: deque[Future[Outcome]] = deque()
        for photo, painted in _side_by_side(photos, work, painters, stopped):
            pending.append(writers.submit(_write, photo, painted, store))
            # With as many results waiting as can be written at once, painting waits, too: the
            # memory that a batch needs does not grow with its length.
            yield from _finished(pending, at_most=work.jobs)
        yield from _finished(pending, at_most=0)
    finally:
        work.abandoned.set()
        for pool in (readers, painters, writers):
            pool.shutdown(wait=False, cancel_futures=True)


def _side_by_side(
    photos: Iterable[_Photo],
    work: Work,
    pool: ThreadPoolExecutor,
    stopped: Callable[[], object],
) -> Iterator[tuple[_Photo, Picture | None]]:
    """The photos with their paintings, in order, as many in hand at a time as there are painters.

    One painter works in this thread, where a signal reaches it.
    """
    in_hand: deque[Future[list[tuple[_Photo, Picture | None]]]] = deque()
    for group in _of_one_size(photos, work.together, work.limits.together):
        if stopped():
            break
        if work.painters == 1:
            yield from _painted(group, work)
            continue
        in_hand.append(pool.submit(lambda own: list(_painted(own, work)), group))
        if len(in_hand) == work.painters:
            yield from in_hand.popleft().result()
    while in_hand:
        yield from in_hand.popleft().result()


def _read_ahead(
    jobs: Iterable[Job], read: Callable[[Job], _Photo], pool: ThreadPoolExecutor, ahead: int
) -> Iterator[_Photo]:
    """The photos in order, with `ahead` of them being read or ready at any time."""
    jobs = iter(jobs)
    reading = deque(pool.submit(read, job) for job in itertools.islice(jobs, ahead))
    while reading:
        photo = reading.popleft().result()
        reading.extend(pool.submit(read, job) for job in itertools.islice(jobs, 1))
        yield photo


def _of_one_size(photos: Iterable[_Photo], together: int, pixels: int) -> Iterator[list[_Photo]]:
    """Groups of at most `together` photos and `pixels` pixels, all of one size.

    No more than twice as many photos wait for others of their size.
    """
    waiting: dict[tuple[int, int], list[_Photo]] = {}
    for photo in photos:
        if photo.picture is None or together == 1:
            yield [photo]
            continue
        size = (photo.picture.width, photo.picture.height)
        group = waiting.setdefault(size, [])
        group.append(photo)
        if len(group) >= min(together, pixels // (size[0] * size[1])):
            yield waiting.pop(size)
        elif sum(map(len, waiting.values())) >= 2 * together:
            yield waiting.pop(max(waiting, key=lambda size: len(waiting[size])))
    yield from waiting.values()


def _finished(pending: deque[Future[Outcome]], at_most: int) -> Iterator[Outcome]:
    """The outcomes that are there, and as many more that no more than `at_most` are left."""
    while pending and (len(pending) > at_most or pending[0].done()):
        yield pending.popleft().result()


def _read(job: Job, work: Work, store: Store) -> _Photo:
    started = time.perf_counter()
    photo = _Photo(job)
    try:
        if store.has_result(job):
            photo.outcome = _existing(job, work, store)
        if photo.outcome is None:
            picture = images.load(store.photo(job), work.max_pixels, max_size=work.max_size)
            if work.max_size is not None:
                picture = images.resize(picture, work.max_size)
            photo.picture = images.strip(picture) if work.strip else picture
            photo.key = _key(job, work, store)
    except Exception as error:
        photo.outcome = _failure(photo, error)
    photo.seconds = time.perf_counter() - started
    return photo


def _existing(job: Job, work: Work, store: Store) -> Outcome | None:
    """The outcome of a photo whose output is there; None where it is to be painted all the same."""
    reason = f"{job.output} exists already (--overwrite replaces it)"
    if work.resume:
        key = store.key_of_result(job)
        if key is not None:
            # Ours: whole and current, or of other settings or an older photo.
            try:
                if key != _key(job, work, store):
                    return None
            except (OSError, images.ImageError):
                return None  # what is wrong with the photo is told by whoever reads it
            return Outcome(str(job.input), str(job.output), "skipped", _ALREADY_DONE)
        reason = f"{job.output} is not as Repaint left it (--overwrite replaces it)"
    if work.overwrite or (work.resume and not _is_whole(store.result(job))):
        return None
    return Outcome(str(job.input), str(job.output), "skipped", images.one_line(reason))


def _is_whole(result: Path | BinaryIO) -> bool:
    try:
        images.load(result)
    except images.TooLargeError:
        return True
    except images.ImageError:
        return False
    return True


def _key(job: Job, work: Work, store: Store) -> str:
    """One word for a photo's bytes and everything else that decides its result."""
    settings = json.dumps(work.settings, sort_keys=True)
    return _digest_of([store.digest_of_photo(job).encode(), settings.encode()])


def _painted(group: list[_Photo], work: Work) -> Iterator[tuple[_Photo, Picture | None]]:
    """Each photo of a group with its painting, or with none where its outcome is known."""
    if group[0].outcome is not None:
        yield group[0], None
        return
    started = time.perf_counter()
    try:
        painted = work.paint([photo.picture for photo in group if photo.picture is not None])
    except Exception as error:
        if len(group) > 1:
            # Too much for the memory at once, or one of them is at fault: only that one fails.
            for photo in group:
                yield from _painted([photo], work)
            return
        group[0].outcome = _failure(group[0], error)
        yield group[0], None
        return
    seconds = (time.perf_counter() - started) / len(group)
    for photo, picture in zip(group, painted, strict=True):
        photo.seconds += seconds
        photo.picture = None
        yield photo, picture


def _write(photo: _Photo, painted: Picture | None, store: Store) -> Outcome:
    if painted is None:
        assert photo.outcome is not None, "what was not painted has an outcome already"
        return photo.outcome
    job = photo.job
    started = time.perf_counter()
    try:
        lost = store.save(painted, job, photo.key)
    except Exception as error:
        return _failure(photo, error)
    return Outcome(
        input=str(job.input),
        output=str(job.output),
        status="done",
        seconds=round(photo.seconds + time.perf_counter() - started, 3),
        width=painted.width,
        height=painted.height,
        notes=painted.notes + lost,
    )


def _failure(photo: _Photo, error: Exception) -> Outcome:
    """One photo must not take the rest of the batch with it, whatever it ran into."""
    reason = images.one_line(_reason(error, photo.job))
    return Outcome(str(photo.job.input), None, "failed", reason, round(photo.seconds, 3))


def _reason(error: Exception, job: Job) -> str:
    """One line for the photo's owner, without the photo's name, which is printed before it."""
    if isinstance(error, images.ImageError):
        if error.name != images.one_line(str(job.input)):
            return str(error)
        if isinstance(error, images.TooLargeError):
            return f"{error.reason} (--max-pixels reads larger ones)"
        return error.reason
    text = next(iter(str(error).strip().splitlines()), "")
    if is_out_of_memory(error):
        return "not enough memory for its size; --max-size makes it smaller"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


@dataclass
class Stop:
    """Whether the batch was asked to stop, and by which signal."""

    signals: list[int] = field(default_factory=list)

    def __call__(self) -> bool:
        return bool(self.signals)

    @property
    def exit_code(self) -> int:
        """What shells report of a program ended by that signal: 130 for Ctrl-C."""
        return 128 + self.signals[0]


@contextmanager
def stop_on_signals() -> Iterator[Stop]:
    """Inside, the first Ctrl-C or SIGTERM sets the stop, and the second raises KeyboardInterrupt.

    Only the main thread can take signals; in another one nothing changes.
    """
    stop = Stop()

    def asked(number: int, _: object) -> None:
        stop.signals.append(number)
        if len(stop.signals) > 1:
            raise KeyboardInterrupt
        # Not print(): a signal may come in the middle of another one.
        os.write(2, b"\nstopping after the picture in hand (Ctrl-C again: at once)\n")

    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    # A program started in the background of a script ignores Ctrl-C, and goes on doing so.
    numbers = [signal.SIGINT, signal.SIGTERM]
    numbers = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, asked) for number in numbers}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
