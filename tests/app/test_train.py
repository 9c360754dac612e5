"""Training: it learns, it can be cut off and go on, and it never loses a good checkpoint."""

import csv
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import skimage.data
import torch
from PIL import Image

import models
from app import train

TINY = ["--width", "8", "--blocks", "1", "--size", "64", "--device", "cpu", "--codes", "medoids"]


@pytest.fixture(scope="session")
def folders(tmp_path_factory) -> Path:
    """photos/, warm/ and cold/: pieces of three real pictures that scikit-image ships."""
    root = tmp_path_factory.mktemp("training")
    for name, pixels in (
        ("photos", skimage.data.astronaut()),
        ("warm", skimage.data.coffee()),
        ("cold", skimage.data.chelsea()[:, :, ::-1]),
    ):
        (root / name).mkdir()
        for i, (top, left) in enumerate(((0, 0), (60, 100), (120, 200), (172, 60))):
            piece = np.ascontiguousarray(pixels[top : top + 128, left : left + 128])
            Image.fromarray(piece).save(root / name / f"{i}.png")
    return root


def arguments(folders: Path, out: Path, *more: str) -> list[str]:
    styles = ["--style", f"warm={folders / 'warm'}", "--style", f"cold={folders / 'cold'}"]
    return ["--photos", str(folders / "photos"), *styles, "--out", str(out), *TINY, *more]


def test_a_run_writes_a_checkpoint_a_sheet_a_log_and_a_state(folders, tmp_path):
    out = tmp_path / "run" / "a.safetensors"
    assert train.main(arguments(folders, out, "--steps", "10")) == 0
    checkpoint = models.load_checkpoint(out)
    assert list(checkpoint.styles) == ["warm", "cold"]
    assert checkpoint.record["steps"] == 10 and checkpoint.record["data"]["warm"] == 4
    names = {p.name for p in out.parent.iterdir()}
    assert names == {"a.safetensors", "a.samples.png", "a.csv", "a.state.pt"}
    rows = list(csv.DictReader(out.with_suffix(".csv").read_text().splitlines()))
    assert rows[0]["step"] == "10" and float(rows[0]["style"]) > 0
    with Image.open(out.with_suffix(".samples.png")) as sheet:
        assert sheet.size == (train.SHEET_SIZE * 5, train.SHEET_SIZE * 5)


def test_sixty_steps_bring_the_paintings_colors(folders, tmp_path):
    out = tmp_path / "a.safetensors"
    command = arguments(folders, out, "--steps", "60", "--batch", "1", "--learning-rate", "3e-3")
    run = train.Run(train.parse_arguments(command))
    photo, painting = run.photos.square(0, 128), run.styles["warm"].tensor(0)

    def distance() -> float:
        result = run.network.repaint(photo, run.network.encode_style(painting))
        return float((result.mean((2, 3)) - painting.mean((2, 3))).abs().mean())

    before = distance()
    while run.progress() < 1:
        run.train_step(run.progress())
    assert distance() < 0.5 * before


@pytest.mark.parametrize(
    "settings",
    [
        ("--coloring", "mlp", "--gradient", "taylor"),
        ("--method", "gd"),
        ("--coloring", "mlp", "--perceptual", "hed"),
        ("--coloring", "statistics", "--perceptual", "none"),
        ("--coloring", "statistics", "--bf16"),
    ],
    ids=" ".join,
)
def test_every_recipe_trains(folders, tmp_path, settings):
    out = tmp_path / "a.safetensors"
    assert train.main(arguments(folders, out, "--steps", "2", "--batch", "1", *settings)) == 0
    checkpoint = models.load_checkpoint(out)
    assert checkpoint.network.config.method == ("gd" if "gd" in settings else "svd")


def test_the_paper_s_losses_are_all_in_its_recipe(folders, tmp_path):
    command = arguments(folders, tmp_path / "a.safetensors", "--method", "gd", "--steps", "1")
    run = train.Run(train.parse_arguments(command))
    terms, judged = run.losses.generator(run.batch(), run.arguments.weights, run.draw)
    names = {"adversarial", "reconstruction", "cycle", "content_code", "style_code"}
    assert set(terms) == names | {"whitening", "coloring"}
    assert torch.isfinite(run.losses.discriminator_loss(judged, run.batch()))


def test_a_resumed_run_is_the_run_that_was_never_cut(folders, tmp_path):
    whole, cut = tmp_path / "whole.safetensors", tmp_path / "cut.safetensors"
    more = ["--batch", "1"]
    assert train.main(arguments(folders, whole, "--steps", "6", *more)) == 0
    first = train.Run(train.parse_arguments(arguments(folders, cut, "--steps", "6", *more)))
    for _ in range(3):
        first.train_step(first.progress())
    first.save_state()
    resumed = arguments(folders, cut, "--steps", "6", "--resume", str(cut), *more)
    assert train.main(resumed) == 0
    a, b = models.load_checkpoint(whole), models.load_checkpoint(cut)
    for key, value in a.network.state_dict().items():
        torch.testing.assert_close(value, b.network.state_dict()[key], msg=key)


def test_a_run_killed_at_any_moment_goes_on(folders, tmp_path):
    out = tmp_path / "killed.safetensors"
    command = arguments(folders, out, "--steps", "100000", "--checkpoint-minutes", "0.0001")
    process = subprocess.Popen(
        [sys.executable, "-m", "app.train", *command], stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 120
    while not out.with_suffix(".state.pt").exists() and time.monotonic() < deadline:
        time.sleep(0.2)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    run = train.Run(train.parse_arguments(arguments(folders, out, "--steps", "5")))
    run.load_state(out.with_suffix(".state.pt"))
    assert run.step >= 1
    run.train_step(0.5)


def test_a_loss_that_is_not_finite_stops_the_run_and_keeps_the_checkpoint(
    folders, tmp_path, capsys
):
    out = tmp_path / "a.safetensors"
    assert train.main(arguments(folders, out, "--steps", "2")) == 0
    before = out.read_bytes(), out.with_suffix(".state.pt").read_bytes()
    broken = arguments(
        folders, out, "--steps", "60", "--resume", str(out), "--learning-rate", "1e30"
    )
    assert train.main(broken) == 1
    message = capsys.readouterr().err
    assert "finite" in message and "--resume" in message
    assert (out.read_bytes(), out.with_suffix(".state.pt").read_bytes()) == before


def test_a_signal_saves_before_it_stops(folders, tmp_path, monkeypatch):
    out = tmp_path / "a.safetensors"
    step = train.Run.train_step

    def interrupted(self, progress):
        step(self, progress)
        if self.step == 2:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(train.Run, "train_step", interrupted)
    assert train.main(arguments(folders, out, "--steps", "50")) == 1
    assert models.load_checkpoint(out).record["steps"] == 2


def test_starting_from_a_checkpoint_keeps_its_network(folders, tmp_path):
    first, second = tmp_path / "first.safetensors", tmp_path / "second.safetensors"
    assert train.main(arguments(folders, first, "--steps", "2")) == 0
    command = arguments(folders, second, "--init", str(first), "--steps", "1", "--width", "16")
    run = train.Run(train.parse_arguments(command))
    assert run.network.config.width == 8
    weights = models.load_checkpoint(first).network.state_dict()
    assert all(torch.equal(run.network.state_dict()[k], v) for k, v in weights.items())


def test_learned_codes_move_and_come_first(folders, tmp_path):
    out = tmp_path / "a.safetensors"
    learn = ["--learn", f"warm={folders / 'warm'}", "--batch", "2"]
    assert train.main(arguments(folders, out, "--steps", "2")) == 0
    # Learning may begin in the middle of a run, and goes on where it was.
    command = arguments(folders, out, "--steps", "6", "--resume", str(out), *learn)
    run = train.Run(train.parse_arguments(command))
    run.load_state(out)
    start = [p.detach().clone() for p in run.codes.parameters()]
    for _ in range(3):
        run.train_step(0.5)
    run.save_state()
    moved = [p.detach() for p in run.codes.parameters()]
    assert all(not torch.equal(a, b) for a, b in zip(start, moved, strict=True))
    again = train.Run(train.parse_arguments(command))
    again.load_state(out)
    assert all(torch.equal(a, b) for a, b in zip(moved, again.codes.parameters(), strict=True))
    again.save()
    styles = models.load_checkpoint(out).styles
    assert len(styles["warm"]) == len(styles["cold"]) + 1
    learned = again.average_codes["warm"][0]
    torch.testing.assert_close(styles["warm"][0].tensors[0], learned, atol=2e-3, rtol=2e-3)


def test_learned_codes_of_an_unknown_style_are_refused(folders, tmp_path, capsys):
    command = arguments(folders, tmp_path / "a.safetensors", "--learn", "hot=x", "--batch", "2")
    with pytest.raises(SystemExit):
        train.main(command)
    assert "--learn hot" in capsys.readouterr().err


def test_codes_are_chosen_by_a_judge_on_training_photos(folders, tmp_path):
    out = tmp_path / "a.safetensors"
    command = [a if a != "medoids" else "chosen" for a in arguments(folders, out, "--steps", "1")]
    assert train.main(command) == 0
    record = models.load_checkpoint(out).record
    assert len(record["codes"]["warm"]["accuracy_on_training_photos"]) == 4


def test_medoids_stand_for_their_clusters():
    rows = torch.cat([torch.zeros(5, 2), torch.full((4, 2), 9.0)]) + 0.1 * torch.randn(9, 2)
    chosen = train.medoids(rows, 2)
    assert {int(i) // 5 for i in chosen} == {0, 1}
    assert len(set(train.medoids(rows, 20))) == 9


def test_the_discriminator_and_strokes_come_after_the_colors():
    weights = [train.at_progress(train.PERCEPTUAL, p) for p in (0.0, 0.3, 1.0)]
    assert weights[0].adversarial == 0 < weights[1].adversarial < weights[2].adversarial
    assert weights[0].style < weights[1].style == weights[2].style == train.PERCEPTUAL.style
    assert train.at_progress(train.PAPER, 0.0) == train.PAPER


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (["--style", "x"], "NAME=FOLDER"),
        (["--style", "warm=elsewhere"], "taken"),
        (["--style", "photo=elsewhere"], "taken"),
        (["--size", "65"], "multiple of 4"),
        (["--minutes", "0"], "must be positive"),
        (["--minutes", "nan"], "must be positive"),
        (["--weight", "beauty=3"], "beauty"),
        (["--weight", "style=-1"], "negative"),
        (["--group-size", "7"], "divide"),
        (["--method", "gd", "--coloring", "statistics"], "coloring='mlp'"),
        (["--out", "a.pt"], "safetensors"),
        (["--perceptual", "none", "--weight", "style=1"], "--perceptual"),
    ],
)
def test_a_wrong_command_line_is_one_clear_line(folders, tmp_path, capsys, change, reason):
    with pytest.raises(SystemExit) as stopped:
        train.main([*arguments(folders, tmp_path / "a.safetensors"), *change])
    assert stopped.value.code == 2
    assert reason in capsys.readouterr().err.splitlines()[-1]


def test_missing_folders_checkpoints_and_states_are_named(folders, tmp_path, capsys):
    out = tmp_path / "a.safetensors"
    for change in (
        ["--style", "more=nowhere"],
        ["--init", "nowhere"],
        ["--resume", "nowhere.state.pt"],
    ):
        assert train.main([*arguments(folders, out, "--steps", "1"), *change]) == 2
        assert "nowhere" in capsys.readouterr().err


def test_a_state_of_other_styles_is_refused(folders, tmp_path, capsys):
    out = tmp_path / "a.safetensors"
    assert train.main(arguments(folders, out, "--steps", "1")) == 0
    other = ["--style", f"third={folders / 'warm'}", "--resume", str(out)]
    assert train.main([*arguments(folders, out, "--steps", "1"), *other]) == 2
    assert "third" in capsys.readouterr().err
