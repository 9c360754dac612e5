"""Training the judge of style: the paper's schedule, what is held back, and what comes out."""

import random
from contextlib import ExitStack, nullcontext
from pathlib import Path

import numpy as np
import pytest
import skimage.data
import torch
from PIL import Image

import models
from app import augment, train_classifier
from app.train_classifier import phases
from app.views import Examples, Views, kept_views, mixed
from tests.full_disk import full_disk
from tests.pieces import real_pictures, save_pieces

TINY = ["--size", "64", "--reduce", "6", "--views", "8", "--pictures", "24", "--batch", "8"]


@pytest.fixture(scope="session")
def artworks(tmp_path_factory) -> Path:
    """train/{cold,photo,warm}: nine pieces of each of three real pictures."""
    root = tmp_path_factory.mktemp("classes")
    for name, pixels in zip(("photo", "warm", "cold"), real_pictures(), strict=True):
        corners = [(60 * (i // 3), 90 * (i % 3)) for i in range(9)]
        save_pieces(root / "train" / name, pixels, corners, (96, 96))
    return root


def arguments(artworks: Path, out: Path, *more: str) -> list[str]:
    return ["--artworks", str(artworks), "--out", str(out), "--device", "cpu", *TINY, *more]


@pytest.fixture(scope="session")
def trained(artworks, on_one_thread, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("judge") / "judge.safetensors"
    with on_one_thread():
        assert train_classifier.main(arguments(artworks, out, "--epochs", "5")) == 0
    return out


def test_hybrid_training_changes_the_root_an_epoch_before_the_last_decay():
    schedule = phases(10, True, "eigh")
    assert [p.solver for p in schedule] == ["newton_schulz"] * 7 + ["eigh"] * 3
    rates = [p.rate for p in schedule]
    assert rates == sorted(rates, reverse=True)
    last = rates.index(rates[-1])
    assert rates[last - 1] > rates[last] and schedule[last - 1].solver == "eigh"


def test_the_papers_protocol_can_be_asked_for():
    # AlexNet's: 30 epochs, a tenth of the rate after 10 and 20, one epoch of warm-up before.
    given = ["--decays", "0.333", "0.667", "--decay-to", "0.1", "0.01", "--warm-up", "1"]
    asked = train_classifier.parse_arguments(["--artworks", "a", "--out", "a.safetensors", *given])
    schedule = phases(
        *(30, True, "eigh"),
        decays=asked.decays,
        rates=[1.0, *asked.decay_to],
        warm_up=asked.warm_up,
    )
    assert [p.rate for p in schedule] == [1.0] * 10 + [0.1] * 11 + [0.01] * 9
    assert [p.solver for p in schedule].index("eigh") == 20


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--decays", "0.8", "0.5"], "--decays must come in order"),
        (["--decays", "0", "0.5"], "--decays must be shares between 0 and 1"),
        (["--decay-to", "0.1", "2"], "--decay-to must be shares between 0 and 1"),
        (["--warm-up", "-1"], "--warm-up must not be below 0, got -1"),
    ],
)
def test_a_schedule_that_cannot_be_is_refused(given, message, capsys):
    with pytest.raises(SystemExit):
        train_classifier.parse_arguments(["--artworks", "a", "--out", "a.safetensors", *given])
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("solver", ["newton_schulz", "eigh"])
def test_standalone_training_has_one_root(solver):
    assert {p.solver for p in phases(10, False, solver)} == {solver}


def test_a_run_learns_and_writes_down_how(trained):
    classifier, record = models.load_classifier(trained)
    assert classifier.classes == ("cold", "photo", "warm")
    epochs = record["epochs"]
    assert [e["solver"] for e in epochs] == ["newton_schulz"] * 3 + ["eigh"] * 2
    assert epochs[-1]["loss"] < epochs[0]["loss"]
    assert all(e["condition_number"] >= 1 for e in epochs)
    assert record["held_back"] == {"cold": 1, "photo": 1, "warm": 1}
    assert set(epochs[-1]["held_back"]) == {"cold", "photo", "warm", "mean", "all pictures"}


def test_only_the_part_that_is_not_frozen_has_learned(trained):
    loaded, record = models.load_classifier(trained)
    fresh = models.StyleClassifier(loaded.classes, reduce=6, pretrained=True)
    stages = record["settings"]["frozen"]
    for part, same in zip((0, 1), (True, False), strict=True):
        pairs = zip(
            loaded.backbone.split(stages)[part].parameters(),
            fresh.backbone.split(stages)[part].parameters(),
            strict=True,
        )
        # in half precision, as the file has them
        assert {bool(torch.equal(a.half(), b.half())) for a, b in pairs} == {same}


def test_the_same_seed_gives_the_same_weights_from_kept_views(
    artworks, trained, tmp_path, one_thread
):
    again = tmp_path / "judge.safetensors"
    views = trained.with_suffix(".views.pt")
    again.with_suffix(".views.pt").write_bytes(views.read_bytes())
    assert train_classifier.main(arguments(artworks, again, "--epochs", "5")) == 0
    first, second = (models.load_classifier(path)[0].state_dict() for path in (trained, again))
    assert all(torch.equal(first[key], second[key]) for key in first)


@pytest.mark.parametrize("left", ["noise", "half", "nothing", "foreign", "other shapes"])
def test_views_that_were_cut_short_are_made_anew(artworks, trained, tmp_path, capsys, left):
    out, views = tmp_path / "judge.safetensors", tmp_path / "judge.views.pt"
    whole = trained.with_suffix(".views.pt")
    if left == "noise":
        views.write_bytes(np.random.default_rng(0).bytes(5000))
    elif left == "half":
        views.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    elif left == "nothing":
        views.touch()
    elif left == "foreign":
        torch.save([1, 2], views)
    else:
        found = torch.load(whole, weights_only=True)
        found["settings"]["artworks"] = str(artworks)
        torch.save({**found, "labels": found["labels"][:-1]}, views)
    command = arguments(artworks, out, "--epochs", "1")
    assert train_classifier.main(command) == 0
    assert "can't be used, and is made anew" in capsys.readouterr().err
    assert train_classifier.main(command) == 0
    assert "made anew" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("file/judge.safetensors", "Not a directory"),
        ("/proc/judge.safetensors", "No such file or directory"),
        ("full/judge.safetensors", "File too large"),
    ],
)
def test_a_place_that_can_t_be_written_is_known_before_the_work(
    artworks, tmp_path, monkeypatch, capsys, place, reason
):
    (tmp_path / "file").touch()
    out = tmp_path / place
    monkeypatch.setattr(train_classifier.Run, "train", lambda _: pytest.fail("trained"))
    with full_disk(400_000) if place.startswith("full") else nullcontext():
        assert train_classifier.main(arguments(artworks, out)) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert line == f"error: --out {out}: can't be written: {reason}"


def test_a_disk_that_is_full_at_the_end_is_one_clear_line(artworks, tmp_path, monkeypatch, capsys):
    out = tmp_path / "judge.safetensors"
    out.write_bytes(b"old")
    with ExitStack() as disk:
        monkeypatch.setattr(
            train_classifier.Run, "train", lambda _: disk.enter_context(full_disk(100_000))
        )
        assert train_classifier.main(arguments(artworks, out)) == 1
    line = capsys.readouterr().err.splitlines()[-1]
    assert line == f"error: --out {out}: can't be written: File too large"
    assert out.read_bytes() == b"old" and list(tmp_path.iterdir()) == [out]


def test_views_that_can_t_be_kept_are_a_note(tmp_path, capsys):
    views = Views(torch.zeros(2, 4, 3, 3).half(), torch.tensor([0, 1]))
    with full_disk(100):
        assert kept_views(tmp_path / "a.views.pt", {"seed": 0}, lambda: views) is views
    assert "not kept for the next run (File too large)" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_mixed_views_keep_most_of_themselves_and_labels_tell_how_much():
    draw = torch.Generator().manual_seed(0)
    targets = torch.eye(5).repeat(40, 1)
    maps = targets[:, :, None, None].repeat(1, 1, 3, 3)  # what is in a view shows in its maps
    mixed_maps, mixed_targets = mixed(maps, targets, 0.3, draw)
    torch.testing.assert_close(mixed_maps.mean((2, 3)), mixed_targets)
    torch.testing.assert_close(mixed_targets.sum(1), torch.ones(200))
    own = (mixed_targets * targets).sum(1)
    assert own.min() >= 0.5 and 0.05 < (own < 0.9).float().mean() < 0.8
    more = (mixed(maps, targets, 3.0, draw)[1] * targets).sum(1)
    assert more.mean() < own.mean()


def test_a_run_with_mixed_views_learns_too_and_says_so(artworks, tmp_path):
    out = tmp_path / "mixed.safetensors"
    assert train_classifier.main(arguments(artworks, out, "--epochs", "5", "--mixup", "0.3")) == 0
    _, record = models.load_classifier(out)
    assert record["settings"]["mixup"] == 0.3
    assert record["epochs"][-1]["loss"] < record["epochs"][0]["loss"]


def test_what_is_held_back_is_never_shown(artworks):
    folders = train_classifier.class_folders(artworks / "train")
    examples = Examples(folders, 64, every=3, seed=0)
    shown = examples.order(20)
    assert len(shown) == 60
    for label, name in enumerate(examples.classes):
        of_class = {index for y, index in shown if y == label}
        assert of_class == set(examples.kept[name]) and not of_class & set(examples.held[name])
        assert len(examples.held[name]) == 3


def test_a_recolored_photo_has_the_colors_of_the_other_picture():
    photo, painting = (
        torch.from_numpy(rgb[:96, :128].astype(np.float32)).permute(2, 0, 1)[None] / 127.5 - 1
        for rgb in (skimage.data.chelsea(), skimage.data.rocket())
    )
    painting = 0.4 * painting  # muted, so that no color has to be cut off
    moved = augment.lab(augment.recolored(photo, painting))
    wanted = augment.lab(painting)
    assert np.allclose(moved.mean((0, 1)), wanted.mean((0, 1)), atol=0.1)
    assert np.allclose(moved.std((0, 1)), wanted.std((0, 1)), atol=0.1)


def test_a_grained_photo_is_the_same_photo_with_a_little_noise():
    rgb = skimage.data.chelsea()[:96, :128].astype(np.float32)
    photo = torch.from_numpy(rgb).permute(2, 0, 1)[None] / 127.5 - 1
    results = [augment.grained(photo, random.Random(seed)) for seed in range(20)]
    errors = [float((result - photo).abs().mean()) for result in results]
    assert all(r.shape == photo.shape and float(r.abs().max()) <= 1 for r in results)
    assert max(errors) < 0.1 and sum(error > 0.005 for error in errors) > 10
    assert torch.equal(results[3], augment.grained(photo, random.Random(3)))


def put(folder: Path, count: int) -> None:
    folder.mkdir(parents=True)
    for i in range(count):
        Image.fromarray(skimage.data.coffee()[:64, i : i + 64]).save(folder / f"{i}.png")


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        (None, "there is no such folder"),
        ({}, "has no subfolders"),
        ({"one": 3}, "one class alone"),
        ({"one": 3, "two": 0}, "two: no pictures"),
        ({"one": 3, "two": 1}, "two: one picture alone"),
    ],
)
def test_folders_that_can_not_be_trained_on_are_named(classes, message, tmp_path, capsys):
    artworks = tmp_path / "artworks"
    if classes is not None:
        (artworks / "train").mkdir(parents=True)
        for name, count in classes.items():
            put(artworks / "train" / name, count)
    assert train_classifier.main(arguments(artworks, tmp_path / "a.safetensors")) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("error: ") and message in error


def test_artworks_without_train_are_named(tmp_path, capsys):
    put(tmp_path / "monet", 2)
    assert train_classifier.main(arguments(tmp_path, tmp_path / "a.safetensors")) == 2
    assert "has no subfolder 'train'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "wrong",
    [
        ["--epochs", "0"],
        ["--size", "32"],
        ["--gradient", "magic"],
        ["--out", "a.pt"],
        ["--mixup", "-1"],
    ],
)
def test_a_wrong_option_is_refused(wrong, artworks, tmp_path):
    with pytest.raises(SystemExit) as stop:
        train_classifier.main([*arguments(artworks, tmp_path / "a.safetensors"), *wrong])
    assert stop.value.code == 2
