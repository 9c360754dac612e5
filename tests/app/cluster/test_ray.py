"""On a real cluster of this machine alone; needs `make cluster-deps`."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import skimage.data
from PIL import Image

pytest.importorskip("ray", reason="the cluster's requirements are not installed")

from app.cluster import command as clustered
from app.cluster import engine
from app.cluster.plan import Plan
from app.cluster.worker import RayWorker

ROOT = Path(__file__).resolve().parents[3]
ALONE = {
    "OMP_NUM_THREADS": "1",
    "RAY_worker_niceness": "0",
    "RAY_prestart_worker_first_driver": "0",
}


def command(module, *given):
    return subprocess.run(
        [sys.executable, "-m", module, *map(str, given)],
        cwd=ROOT,
        env=os.environ | ALONE,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_cluster_paints_what_the_plain_batch_paints_and_goes_on_where_it_was(
    tmp_path, checkpoint
):
    photos = tmp_path / "photos"
    photos.mkdir()
    for i in range(5):
        Image.fromarray(skimage.data.chelsea()[20 * i : 20 * i + 40, :56]).save(photos / f"{i}.png")
    (photos / "broken.jpg").write_bytes(b"Dear diary")
    common = [photos, "--style", "dots", "--checkpoint", checkpoint, "--device", "cpu", "--out"]
    plain = command("app.stylize", *common, tmp_path / "plain")
    ours = command("app.cluster", *common, tmp_path / "out", "--address", "local", "--json")
    assert (plain.returncode, ours.returncode) == (1, 1), ours.stderr
    made = {path.name: path.read_bytes() for path in (tmp_path / "out").glob("[!.]*")}
    assert made == {path.name: path.read_bytes() for path in (tmp_path / "plain").glob("[!.]*")}
    outcomes = [json.loads(line) for line in ours.stdout.splitlines()]
    assert sorted(outcome["status"] for outcome in outcomes) == ["done"] * 5 + ["failed"]
    reason = "is not a picture in a format that can be read"
    assert f"{photos / 'broken.jpg'}: failed: {reason}" in ours.stderr
    # The plain batch knows what the cluster has made.
    (photos / "broken.jpg").unlink()
    again = command("app.stylize", *common, tmp_path / "out", "--resume")
    assert again.returncode == 0 and "5 done before" in again.stderr


class Fragile(RayWorker):
    """A worker that the system kills for one of the photos, as it does where memory is short."""

    def __init__(self, task, tries):
        super().__init__(task, tries)
        paint = self.worker._paint

        def fatal(pictures):
            if any(Path(picture.name).name == "2.png" for picture in pictures):
                os.kill(os.getpid(), signal.SIGKILL)
            return paint(pictures)

        self.worker._paint = fatal


def test_a_photo_that_ends_its_worker_twice_fails_by_name_and_the_others_are_painted(
    tmp_path, checkpoint, monkeypatch
):
    for name, value in ALONE.items():
        monkeypatch.setenv(name, value)
    photos = tmp_path / "photos"
    photos.mkdir()
    for i in range(5):
        Image.fromarray(skimage.data.chelsea()[20 * i : 20 * i + 40, :56]).save(photos / f"{i}.png")
    given = [str(photos), "--style", "dots", "--out", str(tmp_path / "out"), "--device", "cpu"]
    args = clustered._parser().parse_args([*given, "--checkpoint", str(checkpoint)])
    plan = Plan(tmp_path / "plan", args.out)
    plan.fill(args.photos, args.format, args.recursive, listed=[])
    with engine.connected("local") as ray:
        told = list(clustered.outcomes(args, plan, clustered._task(args), ray, Fragile))
    assert {Path(each.input).name: each.status for each in told} == {
        f"{i}.png": "failed" if i == 2 else "done" for i in range(5)
    }
    (reason,) = [each.reason for each in told if each.reason]
    assert "ended its worker 2 times" in reason
    assert sorted(path.name for path in (tmp_path / "out").glob("[!.]*")) == [
        "0.png",
        "1.png",
        "3.png",
        "4.png",
    ]
