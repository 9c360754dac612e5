"""The judge of style: what it looks at, its file, and what the committed one makes of pictures."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import skimage.data
import torch
from safetensors.torch import load_file, save_file
from sklearn.datasets import load_sample_images

import models
from app.dataset import PictureFolder
from app.shipped import CLASSIFIER
from models.classifier import squares


def tensor(rgb: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(rgb.astype(np.float32)).permute(2, 0, 1)[None] / 127.5 - 1


@pytest.fixture(scope="module")
def classifier() -> models.StyleClassifier:
    torch.manual_seed(0)
    return models.StyleClassifier("abc", reduce=8, pretrained=True).eval()


@pytest.fixture
def path(tmp_path, classifier) -> Path:
    file = tmp_path / "judge.safetensors"
    models.save_classifier(file, classifier, {"epochs": 3})
    return file


def rewrite(path: Path, **changes) -> None:
    """The same file with its header changed."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(json.loads(file.read(length))["__metadata__"]["repaint"])
    save_file(load_file(path), path, metadata={"repaint": json.dumps({**header, **changes})})


@pytest.mark.parametrize(
    ("height", "width", "count"), [(256, 256, 1), (300, 256, 1), (256, 384, 2), (640, 256, 3)]
)
def test_a_picture_is_covered_by_squares(height, width, count):
    picture = torch.rand(2, 3, height, width) * 2 - 1
    views = squares(picture, 64)
    assert views.shape == (2 * count, 3, 64, 64)
    if count > 1:  # the first and the last square reach the borders
        first = squares(picture[..., :256, :256], 64)
        assert torch.equal(views[:2], first)
        assert torch.equal(views[-2:], squares(picture[..., -256:, -256:], 64))


def test_a_square_picture_is_judged_by_its_logits_and_its_mirror_image_s(classifier):
    picture = tensor(skimage.data.chelsea()[:224, 100:324])
    verdict = classifier.judge(picture)
    both = classifier(torch.cat([picture, picture.flip(-1)])).softmax(1)
    assert not torch.allclose(both[0], both[1], atol=1e-4)
    assert torch.allclose(verdict.probabilities, both.mean(0, keepdim=True), atol=1e-6)
    mirrored = classifier.judge(picture.flip(-1))
    assert torch.allclose(mirrored.probabilities, verdict.probabilities, atol=1e-6)
    assert verdict.features.shape == (1, classifier.backbone.channels)


def test_a_batch_is_judged_as_its_pictures_are_one_by_one(classifier):
    wide = [tensor(photo[:200, :360]) for photo in load_sample_images().images]
    together = classifier.judge(torch.cat(wide))
    apart = [classifier.judge(picture) for picture in wide]
    for kind in ("probabilities", "features"):
        rows = torch.cat([getattr(verdict, kind) for verdict in apart])
        assert torch.allclose(getattr(together, kind), rows, atol=1e-4)


def test_both_roots_judge_alike(classifier):
    picture = tensor(skimage.data.coffee()[:224, :224])
    with torch.no_grad():
        maps = classifier.backbone(picture)
        answers = []
        for solver in ("newton_schulz", "eigh"):
            classifier.pool.solver = solver
            answers.append(classifier.logits(maps))
    assert torch.allclose(*answers, atol=2e-3)


@pytest.mark.parametrize("solver", ["newton_schulz", "eigh"])
def test_gradients_reach_every_weight(classifier, solver):
    learner = models.StyleClassifier("abc", reduce=8)
    learner.load_state_dict(classifier.state_dict())
    learner.pool.solver = solver
    learner(tensor(skimage.data.coffee()[:96, :96])).log_softmax(1)[0, 1].backward()
    for name, parameter in learner.named_parameters():
        assert parameter.grad is not None and bool(parameter.grad.isfinite().all()), name


def test_average_pooling_is_a_choice():
    assert models.StyleClassifier("ab", pooling="average", reduce=8)(
        torch.zeros(1, 3, 64, 64)
    ).shape == (1, 2)


@pytest.mark.parametrize(
    ("classes", "settings", "message"),
    [
        ("a", {}, "two classes"),
        ("aa", {}, "two classes"),
        ("ab", {"backbone": "resnet"}, "unknown backbone"),
        ("ab", {"pooling": "max"}, "unknown pooling"),
    ],
)
def test_a_wrong_setting_is_named(classes, settings, message):
    with pytest.raises(ValueError, match=message):
        models.StyleClassifier(classes, **settings)


def test_what_is_saved_comes_back(path, classifier):
    loaded, record = models.load_classifier(path)
    assert record == {"epochs": 3} and loaded.config == classifier.config
    picture = tensor(skimage.data.coffee())
    ours, theirs = classifier.judge(picture), loaded.judge(picture)
    assert torch.allclose(ours.probabilities, theirs.probabilities, atol=5e-3)


def test_a_generator_is_no_classifier_and_a_classifier_no_generator(tmp_path, path):
    network = models.Repainter(models.RepainterConfig(width=8, blocks=1, group_size=8))
    generator = tmp_path / "generator.safetensors"
    models.save_checkpoint(generator, network, {}, {})
    with pytest.raises(models.CheckpointError, match=r"generator\.safetensors: holds a 'repaint-r"):
        models.load_classifier(generator)
    with pytest.raises(models.CheckpointError, match=r"judge\.safetensors: holds a 'repaint-style"):
        models.load_checkpoint(path)


def test_a_wrong_file_is_named(tmp_path, path):
    with pytest.raises(models.CheckpointError, match="no such checkpoint"):
        models.load_classifier(tmp_path / "none.safetensors")
    pickled = tmp_path / "pickle.safetensors"
    pickled.write_bytes(pickle.dumps([1]))
    with pytest.raises(models.CheckpointError, match="pickle"):
        models.load_classifier(pickled)
    rewrite(path, version=99)
    with pytest.raises(models.CheckpointError, match="version 99"):
        models.load_classifier(path)
    rewrite(path, version=1, config={"classes": ["a", "b"]})
    with pytest.raises(models.CheckpointError, match="weights or header are wrong"):
        models.load_classifier(path)


def test_weights_that_are_not_finite_are_not_saved(tmp_path):
    broken = models.StyleClassifier("ab", reduce=4)
    broken.linear.bias.data[0] = float("nan")
    with pytest.raises(models.CheckpointError, match=r"linear\.bias is not finite"):
        models.save_classifier(tmp_path / "a.safetensors", broken, {})
    assert not list(tmp_path.iterdir())


def test_the_committed_classifier_knows_photos_that_it_never_saw():
    classifier, _ = models.load_classifier(CLASSIFIER)
    assert CLASSIFIER.stat().st_size < 20 * 2**20
    photos = [*load_sample_images().images, skimage.data.chelsea(), skimage.data.coffee()]
    photos += [skimage.data.rocket(), skimage.data.astronaut()]
    called = [int(classifier.judge(tensor(photo)).probabilities.argmax()) for photo in photos]
    assert called.count(classifier.classes.index("photo")) >= 5


@pytest.mark.needs_artworks
def test_the_committed_classifier_knows_held_out_pictures(artworks):
    classifier, _ = models.load_classifier(CLASSIFIER)
    right = []
    for label, name in enumerate(classifier.classes):
        folder = PictureFolder(artworks / "test" / name, count=8)
        right += [
            int(classifier.judge(folder.tensor(i)).probabilities.argmax()) == label
            for i in range(len(folder))
        ]
    assert sum(right) >= 0.8 * len(right)
