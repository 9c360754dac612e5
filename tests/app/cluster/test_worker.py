"""What a cluster's worker does with its blocks, whatever ended the one before it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import skimage.data
from PIL import Image

from app import batch, images, stylize
from app.batch import Job
from app.cluster import command
from app.cluster.worker import BlockStore, Tries, Worker
from app.listing import plan

ON = "this"


class Call:
    """Tries as a worker reaches it, and what the worker asked of it."""

    def __init__(self) -> None:
        self.tries = Tries()

    def __call__(self, method, *given):
        return getattr(self.tries, method)(*given)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    for i, suffix in enumerate(("png", "jpg", "webp", "png")):
        crop = skimage.data.chelsea()[20 * i : 20 * i + 48, : 56 + 8 * i]
        Image.fromarray(crop).save(folder / f"{i}.{suffix}")
    (folder / "broken.png").write_bytes(b"Dear diary")
    return folder


@pytest.fixture
def task(checkpoint, photos, tmp_path):
    def make(out, *more):
        options = [str(photos), "--style", "dots", "--out", str(out), "--checkpoint"]
        args = command._parser().parse_args([*options, str(checkpoint), "--device", "cpu", *more])
        return command._task(args)

    return make


def jobs_in(photos, out):
    return [
        Job(str(job.input), f"{out}/{job.output.name}", job.format)
        for job in plan([str(photos)], Path("out")).jobs
    ]


def painted(worker, jobs, number=0, known=None):
    return list(worker.block(number, jobs, known or {}))


def plain(photos, checkpoint, out):
    code = stylize.main(
        [str(photos), "--style", "dots", "--out", str(out), "--checkpoint", str(checkpoint)]
    )
    assert code == 1
    return {path.name: path.read_bytes() for path in out.iterdir() if path.name[0] != "."}


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_results_are_those_of_the_plain_batch(
    task, photos, checkpoint, tmp_path, scheme, one_thread
):
    if scheme:
        pytest.importorskip("pyarrow")
    out = f"{scheme}{tmp_path}/out"
    (tmp_path / "out").mkdir()
    outcomes = painted(Worker(task(out), Call()), jobs_in(photos, out))
    expected = plain(photos, checkpoint, tmp_path / "plain")
    made = {path.name: path.read_bytes() for path in (tmp_path / "out").glob("[!.]*")}
    assert made == expected and len(made) == 4
    failed = [outcome for outcome in outcomes if outcome.status == "failed"]
    assert [Path(outcome.input).name for outcome in failed] == ["broken.png"]
    assert failed[0].reason == "is not a picture in a format that can be read"


def test_a_block_that_comes_twice_is_painted_once_and_told_twice(task, photos, tmp_path):
    given = task(tmp_path / "out")
    worker = Worker(given, Call())
    jobs = jobs_in(photos, tmp_path / "out")
    first = painted(worker, jobs)
    stamps = {job.output: Path(job.output).stat().st_mtime_ns for job in jobs[:4]}
    worker._paint = None  # nothing is painted any more
    again = painted(worker, jobs)
    told = sorted((outcome.input, outcome.status, outcome.width) for outcome in again)
    assert told == sorted((outcome.input, outcome.status, outcome.width) for outcome in first)
    assert stamps == {job.output: Path(job.output).stat().st_mtime_ns for job in jobs[:4]}


def test_another_run_leaves_what_is_there_and_resume_knows_it(task, photos, tmp_path):
    out = tmp_path / "out"
    jobs = jobs_in(photos, out)
    first = task(out)
    painted(Worker(first, Call()), jobs)
    # Another run of the command has a name of its own.
    outcomes = painted(Worker(task(out), Call()), jobs)
    assert all("exists already" in o.reason for o in outcomes if o.status == "skipped")
    lines = BlockStore(first, 0, {})._lines
    known = {str(out / line["output"]): {line["result"]: line["made_of"]} for line in lines}
    Path(jobs[0].output).write_bytes(b"half a pict")
    outcomes = painted(Worker(task(out, "--resume"), Call()), jobs, known=known)
    counted = [stylize.counted_as(outcome) for outcome in outcomes]
    assert sorted(counted) == ["done", "done before", "done before", "done before", "failed"]


def test_the_plain_batch_goes_on_with_what_a_cluster_began(task, photos, checkpoint, tmp_path):
    out = tmp_path / "out"
    given = task(out)
    painted(Worker(given, Call()), jobs_in(photos, out)[:2])
    gathered = command.Plan(tmp_path / "plan.db", str(out))
    command._gather_notes(gathered)
    assert not (out / ".repaint").exists()
    manifest = batch.Manifest(out)
    manifest.read()
    assert manifest.key_of(out / "0.png") is not None


def test_a_photo_that_ends_its_worker_twice_fails_by_name_and_the_others_go_on(
    task, photos, tmp_path
):
    call, jobs = Call(), jobs_in(photos, tmp_path / "out")
    given = task(tmp_path / "out")

    class Ended(BaseException):
        """Stands for the system's killing the process."""

    def worker():
        made = Worker(given, call, ON, lambda: [ON])
        paint = made._paint

        def fatal(pictures):
            if any(Path(picture.name).name == "1.jpg" for picture in pictures):
                raise Ended
            return paint(pictures)

        made._paint = fatal
        return made

    for _ in range(2):
        with pytest.raises(Ended):
            painted(worker(), jobs)
    outcomes = painted(worker(), jobs)
    ended = {Path(o.input).name: (o.status, o.reason) for o in outcomes}
    assert ended["1.jpg"][0] == "failed" and "ended its worker 2 times" in ended["1.jpg"][1]
    assert [ended[name][0] for name in ("0.png", "2.webp", "3.png")] == ["done"] * 3


def test_a_machine_that_is_gone_says_nothing_against_a_photo():
    tries = Tries()
    for machine in ("gone", "gone too", "here"):
        tries.begin(["a.jpg"], machine)
    assert tries.died(["a.jpg", "b.jpg"], ["here"]) == {"a.jpg": 1}
    tries.end(["a.jpg"])
    assert tries.died(["a.jpg"], ["here"]) == {}


def test_too_little_memory_is_tried_twice_and_then_told(task, photos, tmp_path, monkeypatch):
    tried = []

    def paint(painter, pictures, *given):
        tried.extend(Path(picture.name).name for picture in pictures)
        if tried[-1] == "2.webp" or (tried[-1] == "3.png" and tried.count("3.png") == 1):
            raise MemoryError
        return list(pictures)

    monkeypatch.setattr("app.cluster.worker.paint_alike", paint)
    outcomes = painted(Worker(task(tmp_path / "out"), Call()), jobs_in(photos, tmp_path / "out"))
    assert tried.count("2.webp") == 2 and tried.count("3.png") == 2
    failed = {Path(o.input).name: o.reason for o in outcomes if o.status == "failed"}
    assert set(failed) == {"2.webp", "broken.png"}
    assert failed["2.webp"] == "not enough memory for its size; --max-size makes it smaller"


def test_a_store_that_refuses_a_result_fails_that_picture_alone(task, photos, tmp_path):
    pytest.importorskip("pyarrow")
    out = f"file://{tmp_path}/out"
    (tmp_path / "out" / "1.jpg").mkdir(parents=True)  # what is in the way
    given = replace(task(out), overwrite=True)
    outcomes = painted(Worker(given, Call()), jobs_in(photos, out))
    statuses = {Path(o.input).name: o.status for o in outcomes}
    assert statuses["1.jpg"] == "failed" and statuses["0.png"] == "done"


def test_a_result_in_a_store_is_a_whole_picture_with_its_own_colors(task, photos, tmp_path):
    pytest.importorskip("pyarrow")
    out = f"file://{tmp_path}/out"
    (tmp_path / "out").mkdir()
    given = replace(task(out), look=replace(task(out).look, strength=0.0))
    painted(Worker(given, Call()), jobs_in(photos, out))
    photo = images.load(photos / "0.png").rgb
    assert np.array_equal(images.load(tmp_path / "out" / "0.png").rgb, photo)
