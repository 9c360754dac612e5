"""Training on paintings of any kind: what is drawn, what the discriminator is told, what stays."""

import csv
import random
from pathlib import Path

import pytest
import torch
from PIL import Image

import models
from app import train
from app.dataset import PictureFolder
from app.training import TrainingError, kept
from app.training.references import MODERATE, References, drawn_grounds
from app.training.run import LossMeans
from app.training.saving import load_state, save
from models.objective import ANY_PAINTING
from models.reference import ReferenceDiscriminator

SHAPE = ("--width", "8", "--blocks", "1", "--size", "64", "--device", "cpu", "--batch", "2")


def arguments(folders: Path, out: Path, *more: str) -> list[str]:
    styles = ["--style", f"warm={folders / 'warm'}", "--style", f"cold={folders / 'cold'}"]
    files = ["--photos", str(folders / "photos"), *styles, "--out", str(out), "--codes", "medoids"]
    return [*files, *SHAPE, "--references", *more]


def begun(folders: Path, out: Path, *more: str) -> train.Run:
    return train.Run(train.parse_arguments(arguments(folders, out, "--steps", "4", *more)))


@pytest.fixture(scope="module")
def cut(folders, tmp_path_factory) -> train.Run:
    """A run of two steps, saved."""
    out = tmp_path_factory.mktemp("references") / "a.safetensors"
    run = begun(folders, out)
    for _ in range(2):
        run.train_step(0.0)
    save(run)
    return run


def test_a_run_with_references_trains_and_logs_what_it_asked_for(folders, tmp_path):
    out = tmp_path / "a.safetensors"
    command = arguments(folders, out, "--steps", "10", "--perceptual-every", "5", "--mixed", "cold")
    assert train.main(command) == 0
    assert list(models.load_checkpoint(out).styles) == ["warm", "cold"]
    (row,) = csv.DictReader(out.with_suffix(".csv").read_text().splitlines())
    for name in ("reference", "likeness", "adversarial", "discriminator", "content", "style"):
        assert float(row[name]) > 0
    # A mean over the two steps of ten that asked for it, not a fifth of that.
    assert float(row["content"]) > 0.2


def test_a_refinement_learns_from_references_too_on_no_ground(folders, cut, tmp_path):
    goal = ["--train", "refinement", "--init", str(cut.files.checkpoint)]
    run = begun(folders, tmp_path / "b.safetensors", *goal)
    network = run.learner.network
    before = {name: value.clone() for name, value in network.state_dict().items()}
    assert set(run.data.batch().grounds) == {models.Ground()}
    run.train_step(0.0)
    moved = {n for n, value in network.state_dict().items() if not torch.equal(value, before[n])}
    assert moved and all(name.startswith("refinement.") for name in moved)
    assert run.losses.steps == 1


def test_a_batch_tells_what_its_paintings_look_like_and_which_have_a_head(folders, tmp_path):
    run = begun(folders, tmp_path / "a.safetensors", "--mixed", "cold")
    assert isinstance(run.discriminator, ReferenceDiscriminator)
    batch = run.data.batch()
    assert batch.signatures.shape == (2, 2 * sum(run.objective.judges.projection.channels.values()))
    assert batch.named.tolist() == [float(i == 0) for i in batch.domains.tolist()]
    assert len(batch.grounds) == 2 and not torch.equal(*batch.signatures)


def test_a_painting_is_told_the_same_each_time_and_read_once(cut):
    told = cut.data.signatures
    first = told.of([(0, 1), (1, 0)])
    told.folders = ()  # nothing is read again
    assert torch.equal(told.of([(1, 0), (0, 1)]), first.flip(0))


def test_a_resumed_run_is_the_run_that_was_never_cut(folders, cut, one_thread):
    whole = begun(folders, cut.files.checkpoint)
    for _ in range(2):
        whole.train_step(0.0)
    again = begun(folders, cut.files.checkpoint)
    load_state(again, cut.files.state)
    for run in (whole, again):
        run.train_step(0.0)
    pairs = zip(whole.discriminator.parameters(), again.discriminator.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_half_of_the_pictures_have_a_ground_their_style_s_or_a_moderate_one():
    own = {"monet": models.Ground(tint=0.3)}
    grounds = drawn_grounds(["monet", "degas"] * 200, own, 0.5, random.Random(0))
    for place, ground in ((0, own["monet"]), (1, MODERATE)):
        several = grounds[place::2]
        assert set(several) == {ground, models.Ground()}
        assert 70 < several.count(ground) < 130


def test_styles_are_drawn_as_often_as_asked():
    references = References(frozenset({"various"}), {"various": 3})
    assert references.draws(["monet", "various"]) == ["monet", "various", "various", "various"]
    assert references.named(["monet", "various"]).tolist() == [1, 0]


def test_a_large_photo_keeps_its_pixels_where_a_crop_is_of_twice_the_scale(tmp_path):
    Image.effect_noise((1200, 800), 80).convert("RGB").save(tmp_path / "a.png")
    folder = PictureFolder(tmp_path, short_side=512)
    assert folder.image(0).size == (768, 512)
    for scale, side in ((0.5, 256), (1.0, 128), (2.0, 64)):
        crop = folder.draw_crop(0, 64, random.Random(0), scale, scale)
        assert crop.side == pytest.approx(side)


def test_costly_losses_count_as_much_where_they_are_asked_for_less_often():
    steps = [ANY_PAINTING.at_step(step, 4) for step in range(8)]
    assert [w.content for w in steps] == [4 * ANY_PAINTING.content, 0, 0, 0] * 2
    assert sum(w.reconstruction for w in steps) / 8 == ANY_PAINTING.reconstruction
    assert all(w.reference == ANY_PAINTING.reference for w in steps)
    assert ANY_PAINTING.at_step(3, 1) == ANY_PAINTING
    means = LossMeans()
    for losses in ({"a": 1.0, "b": 4.0}, {"a": 3.0}):
        means.add(losses)
    assert means.take() == {"a": 2.0, "b": 4.0}


def test_a_step_without_reconstruction_does_not_move_how_paintings_are_read(folders, tmp_path):
    run = begun(folders, tmp_path / "a.safetensors", "--perceptual-every", "2")
    seen = []
    reconstruct = run.learner.network.reconstruct

    def watched(image):
        picture, code = reconstruct(image)
        seen.append(picture.requires_grad)
        return picture, code

    run.learner.network.reconstruct = watched
    run.train_step(0.0)
    run.train_step(0.0)
    assert seen == [True, False]


def test_what_is_kept_of_a_run_begins_another(folders, cut, tmp_path, capsys):
    file = tmp_path / "kept.safetensors"
    assert kept.main([str(cut.files.checkpoint), "--out", str(file)]) == 0
    assert f"{file}: step 2, " in capsys.readouterr().out
    other = begun(folders, tmp_path / "b.safetensors", "--seed", "7")
    kept.go_on(other, file)
    for own, before in (
        (other.learner.network, cut.learner.average),
        (other.learner.average, cut.learner.average),
        (other.discriminator, cut.discriminator),
    ):
        state = before.state_dict()
        for name, tensor in own.state_dict().items():
            torch.testing.assert_close(tensor, state[name].half().float(), atol=0, rtol=0)
    assert other.clock.step == 0
    command = arguments(folders, tmp_path / "b.safetensors", "--steps", "1", "--go-on", str(file))
    assert train.main(command) == 0


def test_what_was_kept_of_other_styles_is_refused(folders, cut, tmp_path):
    file = tmp_path / "kept.safetensors"
    kept.keep(cut.files.state, file)
    command = arguments(folders, tmp_path / "b.safetensors", "--steps", "1")
    command[3] = f"hot={folders / 'warm'}"
    run = train.Run(train.parse_arguments(command))
    with pytest.raises(TrainingError, match=r"trained \['warm', 'cold', 'photo'\]"):
        kept.go_on(run, file)


def test_a_checkpoint_is_not_what_was_kept_of_a_run(folders, cut, tmp_path, capsys):
    out = tmp_path / "b.safetensors"
    command = arguments(folders, out, "--steps", "1", "--go-on", str(cut.files.checkpoint))
    assert train.main(command) == 2
    assert "not a 'repaint-training'" in capsys.readouterr().err
    assert kept.main([str(tmp_path / "none.state.pt"), "--out", str(out)]) == 2
    assert "there is no state" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (["--mixed", "hot"], "--mixed hot: there is no --style"),
        (["--draw", "cold=0"], "TIMES at least 1"),
        (["--draw", "hot=2"], "--draw hot: there is no --style"),
        (["--photo-scales", "2", "1"], "--photo-scales must go up"),
        (["--perceptual-every", "0"], "--perceptual-every must be positive"),
        (["--go-on", "a", "--resume", "b"], "only one of them"),
        (["--perceptual", "none"], "--references goes with"),
    ],
)
def test_a_wrong_command_line_is_one_clear_line(folders, tmp_path, capsys, change, reason):
    with pytest.raises(SystemExit) as stop:
        train.parse_arguments(arguments(folders, tmp_path / "a.safetensors", *change))
    assert stop.value.code == 2 and reason in capsys.readouterr().err


@pytest.mark.parametrize(
    "change", [["--mixed", "warm"], ["--draw", "warm=2"], ["--weight", "likeness=1"]], ids=" ".join
)
def test_what_needs_references_says_so(folders, tmp_path, capsys, change):
    command = arguments(folders, tmp_path / "a.safetensors", *change)
    command.remove("--references")
    with pytest.raises(SystemExit):
        train.parse_arguments(command)
    assert "--references" in capsys.readouterr().err
