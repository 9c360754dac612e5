"""No picture is lost or painted twice, whatever is killed, changed or broken on the way."""

import itertools
import json
import multiprocessing
import os
import platform
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import skimage.data
from PIL import Image

from app import batch, images, stylize
from app.batch import Job, Outcome, Work
from app.images import Picture
from app.limits import Limits
from tests.patience import PATIENCE

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def photos(tmp_path: Path) -> list[Path]:
    """Six photos: four of 40 x 30 pixels, two of 30 x 40."""
    folder = tmp_path / "photos"
    folder.mkdir()
    cat = skimage.data.chelsea()
    paths = []
    for i in range(6):
        width, height = (30, 40) if i % 3 == 2 else (40, 30)
        crop = cat[20 * i : 20 * i + height, 30 * i : 30 * i + width]
        paths.append(folder / f"{i}.png")
        Image.fromarray(crop).save(paths[-1])
    return paths


def inverted(pictures: Sequence[Picture]) -> list[Picture]:
    """Stands for the painter where what it paints does not matter."""
    return [Picture(255 - picture.rgb, picture.alpha, picture.name) for picture in pictures]


def jobs_of(photos: Sequence[Path]) -> list[Job]:
    out = photos[0].parents[1] / "out"
    out.mkdir(exist_ok=True)
    return [Job(path, out / path.name, "png") for path in photos]


def run(
    photos: Sequence[Path],
    paint: Callable[[Sequence[Picture]], list[Picture]] = inverted,
    settings: object = "red",
    stopped: Callable[[], object] = lambda: False,
    **options,
) -> list[Outcome]:
    jobs = jobs_of(photos)
    work = Work(paint, {"style": settings}, **options)
    return list(batch.run(jobs, work, jobs[0].output.parent, stopped))


def statuses(outcomes: Sequence[Outcome]) -> list[str]:
    return ["done before" if o.already_done else o.status for o in outcomes]


# --- Side by side ---------------------------------------------------------------------------


def test_the_next_photo_is_read_and_the_last_written_while_one_is_painted(photos, monkeypatch):
    read, may_write, written = threading.Event(), threading.Event(), threading.Event()
    load, save = images.load, images.save

    def watched_load(path, *rest, **options):
        picture = load(path, *rest, **options)
        if path == photos[2]:
            read.set()
        return picture

    def watched_save(picture, path, *rest, **options):
        if path.name == photos[0].name:
            assert may_write.wait(PATIENCE)
        notes = save(picture, path, *rest, **options)
        written.set()
        return notes

    def paint(pictures):
        if pictures[0].name == str(photos[1]):
            # Painting the second: the first is being written and the third read.
            assert read.wait(PATIENCE)
            assert not written.is_set()
            may_write.set()
            assert written.wait(PATIENCE)
        return inverted(pictures)

    monkeypatch.setattr(images, "load", watched_load)
    monkeypatch.setattr(images, "save", watched_save)
    outcomes = run(photos[:3], paint)
    assert statuses(outcomes) == ["done"] * 3
    assert [outcome.input for outcome in outcomes] == [str(path) for path in photos[:3]]


@pytest.mark.parametrize("jobs", [1, 3])
def test_only_so_many_photos_are_held_at_a_time(photos, monkeypatch, jobs):
    lock, waiting, most = threading.Lock(), 0, 0
    load, save = images.load, images.save

    def counted(change: int) -> None:
        nonlocal waiting, most
        with lock:
            waiting += change
            most = max(most, waiting)

    def counted_load(*arguments, **options):
        counted(1)
        return load(*arguments, **options)

    def slow_save(*arguments, **options):
        time.sleep(0.02)
        notes = save(*arguments, **options)
        counted(-1)
        return notes

    monkeypatch.setattr(images, "load", counted_load)
    monkeypatch.setattr(images, "save", slow_save)
    copies = [photos[0].with_name(f"{i:02}.png") for i in range(24)]
    for copy in copies:
        copy.write_bytes(photos[0].read_bytes())
    assert statuses(run(copies, jobs=jobs)) == ["done"] * 24
    # As many read ahead, one painted, as many waiting to be written and one more.
    assert most <= 2 * jobs + 2


def test_several_painters_paint_side_by_side_and_the_order_stays(photos):
    meeting, threads = threading.Barrier(2), set()

    def paint(pictures):
        meeting.wait(PATIENCE)  # nobody paints alone
        threads.add(threading.get_ident())
        if pictures[0].width == 30:
            time.sleep(0.1)
        return inverted(pictures)

    outcomes = run(photos[:6], paint, painters=2)
    assert statuses(outcomes) == ["done"] * 6
    assert [outcome.input for outcome in outcomes] == [str(path) for path in photos[:6]]
    assert len(threads) == 2 and threading.get_ident() not in threads


def test_what_painters_have_in_hand_is_written_when_a_batch_stops_and_left_when_it_is_given_up(
    photos,
):
    started = threading.Semaphore(0)

    def paint(pictures):
        started.release()
        return inverted(pictures)

    outcomes = run(photos[:6], paint, painters=2, stopped=lambda: started.acquire(blocking=False))
    assert 1 <= len(outcomes) <= 3 and set(statuses(outcomes)) == {"done"}

    jobs, (abandoned, begun, noticed) = jobs_of(photos[:4]), (threading.Event() for _ in range(3))
    quick = {str(path) for path in photos[:2]}

    def patient(pictures):
        if pictures[0].name not in quick:
            begun.set()
            if abandoned.wait(PATIENCE):
                noticed.set()
        return inverted(pictures)

    asked = itertools.count(1)

    def interrupted() -> bool:
        if next(asked) == 4:  # the third photo is in hand, the first two are painted
            assert begun.wait(PATIENCE)
            raise KeyboardInterrupt
        return False

    work = Work(patient, {}, overwrite=True, painters=2, abandoned=abandoned)
    with pytest.raises(KeyboardInterrupt):
        list(batch.run(jobs, work, jobs[0].output.parent, interrupted))
    assert noticed.wait(PATIENCE)


def test_pictures_of_one_size_are_painted_together(photos):
    groups = []

    def paint(pictures):
        groups.append([(picture.width, picture.height) for picture in pictures])
        return inverted(pictures)

    outcomes = run(photos, paint, together=3)
    assert groups == [[(40, 30)] * 3, [(30, 40)] * 2, [(40, 30)]]
    assert sorted(outcome.input for outcome in outcomes) == [str(path) for path in photos]
    for path in photos:
        result = images.load(path.parents[1] / "out" / path.name).rgb
        assert np.array_equal(result, 255 - images.load(path).rgb)


def test_few_pictures_of_a_size_do_not_wait_for_the_end(tmp_path):
    paths = [tmp_path / "in" / f"{i:02}.png" for i in range(20)]
    paths[0].parent.mkdir()
    for i, path in enumerate(paths):
        Image.new("RGB", (10 + i, 10)).save(path)
    held = itertools.count()
    most = []

    def paint(pictures):
        most.append(next(held))
        return inverted(pictures)

    jobs = jobs_of(paths)
    seen = 0
    for _ in batch.run(jobs, Work(paint, {}, together=4), jobs[0].output.parent):
        seen += 1
        assert len(most) - seen <= 4
    assert seen == 20


def test_large_pictures_are_not_painted_together(photos):
    groups = []

    def paint(pictures):
        groups.append(len(pictures))
        return inverted(pictures)

    run(photos, paint, together=16, limits=Limits(together=2 * 40 * 30))
    assert groups == [2, 2, 2]


def test_of_a_group_that_fails_only_the_guilty_one_fails(photos):
    def paint(pictures):
        if any(picture.name == str(photos[1]) for picture in pictures):
            raise RuntimeError("the solver did not converge")
        return inverted(pictures)

    outcomes = run(photos, paint, together=4)
    failed = [outcome for outcome in outcomes if outcome.status == "failed"]
    assert [outcome.input for outcome in failed] == [str(photos[1])]
    assert len(outcomes) == len(photos)


# --- Resuming -------------------------------------------------------------------------------


def out(path: Path) -> Path:
    return path.parents[1] / "out" / path.name


def test_resume_passes_over_what_is_done(photos):
    run(photos[:4])
    painted = []

    def paint(pictures):
        painted.extend(picture.name for picture in pictures)
        return inverted(pictures)

    outcomes = run(photos, paint, resume=True)
    assert statuses(outcomes) == ["done before"] * 4 + ["done"] * 2
    assert painted == [str(path) for path in photos[4:]]


def test_resume_paints_again_what_was_made_with_other_settings(photos):
    run(photos[:2], settings="red")
    assert statuses(run(photos[:2], settings="blue", resume=True)) == ["done"] * 2
    assert statuses(run(photos[:2], settings="blue", resume=True)) == ["done before"] * 2


def test_resume_paints_again_what_was_made_of_an_older_photo(photos):
    run(photos[:2])
    Image.new("RGB", (40, 30), "navy").save(photos[0])
    assert statuses(run(photos[:2], resume=True)) == ["done", "done before"]
    assert np.array_equal(images.load(out(photos[0])).rgb[0, 0], [255, 255, 127])


@pytest.mark.parametrize("kept", [0, 10, -40])
def test_resume_paints_again_what_is_not_whole(photos, kept):
    run(photos[:2])
    whole = out(photos[0]).read_bytes()
    out(photos[0]).write_bytes(whole[:kept])
    assert statuses(run(photos[:2], resume=True)) == ["done", "done before"]
    assert out(photos[0]).read_bytes() == whole


def test_resume_keeps_what_somebody_else_painted(photos):
    run(photos[:1])
    for path in photos[:2]:
        Image.new("RGB", (40, 30), "gold").save(out(path))
    outcomes = run(photos[:2], resume=True)
    assert statuses(outcomes) == ["skipped"] * 2
    assert all("--overwrite" in outcome.reason for outcome in outcomes)
    assert images.load(out(photos[0])).rgb[0, 0].tolist() == [255, 215, 0]
    assert statuses(run(photos[:2], resume=True, overwrite=True)) == ["done"] * 2


def test_resume_does_not_call_a_result_done_whose_photo_is_gone(photos):
    run(photos[:1])
    photos[0].unlink()
    (outcome,) = run(photos[:1], resume=True)
    assert (outcome.status, outcome.reason) == ("failed", "no such file")


@pytest.mark.parametrize("kept", [1, 40, -1])
def test_a_manifest_that_a_kill_cut_short_is_read_and_goes_on(photos, kept):
    run(photos[:2])
    manifest = out(photos[0]).with_name(batch.MANIFEST)
    first, second = manifest.read_bytes().splitlines(keepends=True)
    manifest.write_bytes(first + second[:kept])
    out(photos[1]).unlink()
    assert statuses(run(photos[:3], resume=True)) == ["done before", "done", "done"]
    assert statuses(run(photos[:3], resume=True)) == ["done before"] * 3


def test_a_manifest_of_nonsense_is_passed_over(photos):
    run(photos[:1])
    manifest = out(photos[0]).with_name(batch.MANIFEST)
    good = manifest.read_bytes()
    lists = b'{"output": ["a"], "result": {}, "made_of": []}\n'
    deep = b"[" * 100_000 + b"\n"
    manifest.write_bytes(b'[]\n3\n{"output": 1}\n\xff\xfe\n' + lists + deep + good)
    assert statuses(run(photos[:1], resume=True)) == ["done before"]


def test_what_has_a_results_place_and_is_no_file_is_not_read(photos):
    run(photos[:2])
    for photo, make in zip(photos, (os.mkfifo, Path.mkdir), strict=False):
        out(photo).unlink()
        make(out(photo))
    pipe, folder = run(photos[:2], resume=True)
    assert pipe.status == "done"  # a pipe would have been waited for
    assert (folder.status, folder.reason) == (
        "failed",
        f"{out(photos[1])}: cannot be written: Is a directory",
    )


def test_a_stop_finishes_what_is_painted_and_leaves_the_rest(photos):
    painted = []

    def paint(pictures):
        painted.extend(pictures)
        return inverted(pictures)

    outcomes = run(photos, paint, stopped=lambda: len(painted) >= 2)
    assert statuses(outcomes) == ["done"] * 2
    assert [path.exists() for path in map(out, photos)] == [True] * 2 + [False] * 4


def test_kill_9_at_any_moment_and_resume_gives_what_an_undisturbed_run_does(
    photos, checkpoint, tmp_path
):
    def arguments(folder: str, *more: str) -> list[str]:
        inputs = str(photos[0].parent)
        options = ["--style", "dots", "--checkpoint", str(checkpoint), "--device", "cpu"]
        return [inputs, "--out", str(tmp_path / folder), *options, *more]

    assert stylize.main(arguments("undisturbed")) == 0
    # A server that has imported everything: its children start at once, and are real processes.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["app.stylize"])
    draw = random.Random(0)
    target = tmp_path / "killed"
    for results in (1, 2, 4):
        child = context.Process(target=stylize.main, args=(arguments("killed", "--resume"),))
        child.start()
        while len(list(target.glob("*.png"))) < results and child.is_alive():
            time.sleep(0.001)
        time.sleep(draw.uniform(0, 0.05))
        child.kill()
        child.join()
        for path in target.glob("*.png"):
            assert path.read_bytes() == (tmp_path / "undisturbed" / path.name).read_bytes()
    assert stylize.main(arguments("killed", "--resume")) == 0
    names = sorted(path.name for path in target.iterdir())
    assert names == sorted([batch.MANIFEST, *(path.name for path in photos)])
    for path in photos:
        undisturbed = tmp_path / "undisturbed" / path.name
        assert (target / path.name).read_bytes() == undisturbed.read_bytes()


# --- Broken files ---------------------------------------------------------------------------


def test_mutated_files_give_whole_pictures_or_one_line(tmp_path):
    draw = random.Random(7)
    photo = Image.fromarray(skimage.data.coffee()[:24, :32])
    folder = tmp_path / "in"
    folder.mkdir()
    suffixes = ["jpg", "png", "webp", "gif", "tif", "bmp"]
    for i in range(40):
        suffix = suffixes[i % len(suffixes)]
        path = folder / f"{i:02}.{suffix}"
        photo.save(path)
        data = bytearray(path.read_bytes())
        kind = i // 10
        if kind == 0:
            del data[draw.randrange(len(data)) :]
        elif kind == 1:
            for _ in range(8):
                data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        elif kind == 2:
            # An absurd header: sizes and offsets are in there.
            data[4:32] = draw.randbytes(28)
        else:
            path.unlink()
            path = path.with_suffix("." + draw.choice(suffixes))
        path.write_bytes(data)
    paths = sorted(folder.iterdir())
    jobs = [Job(p, tmp_path / "out" / f"{p.name}.png", "png") for p in paths]
    (tmp_path / "out").mkdir()
    work = Work(inverted, {}, max_pixels=10_000_000, max_size=64)
    outcomes = list(batch.run(jobs, work, tmp_path / "out"))
    assert len(outcomes) == len(paths)
    assert {outcome.status for outcome in outcomes} == {"done", "failed"}
    for job, outcome in zip(jobs, outcomes, strict=True):
        if outcome.status == "done":
            with Image.open(job.output) as result:
                result.load()
            assert result.size == (outcome.width, outcome.height)
        else:
            assert not job.output.exists()
            assert "\n" not in outcome.reason
    renamed = [o for o in outcomes if int(Path(o.input).stem) >= 30]
    assert statuses(renamed) == ["done"] * 10


# --- As a program ---------------------------------------------------------------------------


@pytest.mark.skipif(os.name != "posix", reason="pipes of another kind")
def test_a_pipe_that_nobody_reads_ends_the_program_quietly(photos, checkpoint, tmp_path):
    command = [sys.executable, "-m", "app.stylize", str(photos[0].parent), "--style", "dots"]
    command += ["--checkpoint", str(checkpoint), "--out", str(tmp_path / "out"), "--json"]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as program:
        assert json.loads(program.stdout.readline())["status"] == "done"
        program.stdout.close()
        errors = program.stderr.read()
    # The last lines may have been in the pipe before it was closed.
    assert program.returncode in (stylize.BROKEN_PIPE, 0)
    assert "Traceback" not in errors
    assert "Exception" not in errors
    assert not list((tmp_path / "out").glob("*.part"))


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="asks glibc what it handed out")
def test_a_batch_of_ever_new_sizes_does_not_grow():
    # In a process of its own: the limits are read once, when torch first computes. Some scratch
    # memory of megabytes is allotted once, when a thread first meets the kernel that wants it:
    # which size that is depends on the processor, so the median of many steps is asked for.
    script = """
import ctypes, itertools
from app.images import Picture
from app.limits import Limits
from app.painter import Painter
from app.shipped import CHECKPOINT
import numpy as np

class Info(ctypes.Structure):
    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in names.split()]

mallinfo2 = ctypes.CDLL("libc.so.6").mallinfo2
mallinfo2.restype = Info
painter = Painter(CHECKPOINT, "cpu", Limits(remembered_content=0))
style, noise = painter.style("monet"), np.random.default_rng(0)
sizes = noise.permutation(list(itertools.product(range(16, 128, 4), range(16, 48, 4))))
for number, (high, wide) in enumerate(sizes[:192]):
    painter.paint(Picture(noise.integers(0, 255, (high, wide, 3), np.uint8)), style)
    if number % 16 == 15:
        info = mallinfo2()
        print(info.uordblks + info.hblkhd)
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    # The first 64 fill the caches. After that 16 new sizes keep 0.01 million bytes, and 2 million
    # without the limits, or with one of the two alone.
    steps = np.diff(list(map(int, done.stdout.split()))[3:])
    assert len(steps) == 8 and np.median(steps) < 200_000
