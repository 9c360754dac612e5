"""The perceptual network and the judge, on the weights that packages ship."""

import pytest
import skimage.data
import torch

import models
from app.images import to_tensor
from models import losses
from models.efficient import STAGES
from models.judge import LinearJudge, PooledFeatures


@pytest.fixture(scope="module")
def network() -> models.PerceptualNetwork:
    return models.PerceptualNetwork("hed", last="relu3_3")


@pytest.fixture(scope="module")
def cat() -> torch.Tensor:
    return to_tensor(skimage.data.chelsea()[:128, 100:228])


def test_features_have_vgg_s_shapes(network, cat):
    features = network(cat, ("relu1_1", "relu2_2", "relu3_3"))
    shapes = {layer: tuple(f.shape[1:]) for layer, f in features.items()}
    expected = {"relu1_1": (64, 128, 128), "relu2_2": (128, 64, 64), "relu3_3": (256, 32, 32)}
    assert shapes == expected
    assert all(f.min() == 0 and f.max() > 1 for f in features.values())


def test_the_first_layer_sees_bgr_minus_the_mean(network):
    gray = torch.zeros(1, 3, 8, 8)
    weight = network.get_buffer("relu1_1_weight")
    bgr = 127.5 - torch.tensor([104.0, 116.7, 122.7])
    expected = (weight.sum((2, 3)) @ bgr + network.get_buffer("relu1_1_bias")).relu()
    middle = network(gray, ("relu1_1",))["relu1_1"][0, :, 4, 4]
    torch.testing.assert_close(middle, expected, rtol=1e-3, atol=1e-2)


def test_blur_moves_content_less_than_another_picture_does(network, cat):
    other = to_tensor(skimage.data.coffee()[:128, :128])
    blurred = torch.nn.functional.avg_pool2d(cat, 3, 1, 1, count_include_pad=False)
    target, near, far = (network(x, ("relu3_3",))["relu3_3"] for x in (cat, blurred, other))
    content = losses.content_loss
    assert content(near, target) < 0.5 * content(far, target)


def test_a_saved_stack_gives_the_same_features(network, cat, tmp_path):
    network.save(tmp_path / "stack.safetensors")
    again = models.PerceptualNetwork(str(tmp_path / "stack.safetensors"), last="relu3_3")
    first, second = (n(cat, ("relu3_3",))["relu3_3"] for n in (network, again))
    assert losses.content_loss(second, first) < 1e-5  # fp16


def test_a_file_that_is_no_stack_is_named(tmp_path):
    (tmp_path / "x.safetensors").write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"x\.safetensors: not a perceptual network"):
        models.PerceptualNetwork(str(tmp_path / "x.safetensors"))
    with pytest.raises(FileNotFoundError, match=r"y\.safetensors"):
        models.PerceptualNetwork(str(tmp_path / "y.safetensors"))


def test_an_unknown_layer_or_source_is_refused(network, cat):
    with pytest.raises(ValueError, match="relu4_1"):
        network(cat, ("relu4_1",))
    with pytest.raises(ValueError, match="vgg19"):
        models.PerceptualNetwork("vgg19")


def test_a_missing_package_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(FileNotFoundError, match="make train-deps"):
        models.PerceptualNetwork("hed")
    with pytest.raises(FileNotFoundError, match="make train-deps"):
        PooledFeatures()


def test_torchvision_s_stack_gives_the_same_layers(monkeypatch):
    import torchvision

    torch.manual_seed(0)
    stack = torchvision.models.vgg16(weights=None)
    monkeypatch.setattr(torchvision.models, "vgg16", lambda weights: stack)
    network = models.PerceptualNetwork("vgg16", last="relu2_1")
    image = torch.rand(1, 3, 32, 32)  # [0, 1]
    mean = torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1)
    deviation = torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1)
    expected = stack.features[:7]((image - mean) / deviation)
    features = network(image * 2 - 1, ("relu2_1",))["relu2_1"]
    torch.testing.assert_close(features, expected, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("name", STAGES)
def test_pooled_features_tell_pictures_apart(name):
    backbone = PooledFeatures(name)
    names = ("chelsea", "coffee", "astronaut")
    pictures = [to_tensor(getattr(skimage.data, name)()) for name in names]
    plain = torch.cat([backbone(p) for p in pictures])
    mirrored = torch.cat([backbone(p.flip(-1)) for p in pictures])
    assert torch.cdist(plain, mirrored).argmin(1).tolist() == [0, 1, 2]


def test_the_judge_separates_classes_of_very_different_counts():
    generator = torch.Generator().manual_seed(0)
    centers = torch.randn(3, 20, generator=generator) * 2
    labels = torch.tensor([0] * 200 + [1] * 10 + [2] * 50)
    features = centers[labels] + torch.randn(len(labels), 20, generator=generator)
    judge = LinearJudge(("a", "b", "c"), 20).fit(features, labels)
    fresh = centers.repeat_interleave(30, 0) + torch.randn(90, 20, generator=generator)
    right = judge(fresh).argmax(1) == torch.arange(3).repeat_interleave(30)
    assert right.float().mean() > 0.95


def test_a_saved_judge_judges_alike(tmp_path):
    features = torch.randn(30, 6)
    judge = LinearJudge(("a", "b"), 6).fit(features, torch.arange(30) % 2)
    judge.save(tmp_path / "judge.safetensors")
    again = LinearJudge.load(tmp_path / "judge.safetensors")
    assert again.classes == ("a", "b") and torch.equal(again(features), judge(features))
    (tmp_path / "x.safetensors").write_bytes(b"no judge")
    with pytest.raises(ValueError, match=r"x\.safetensors: not a judge"):
        LinearJudge.load(tmp_path / "x.safetensors")


def test_a_class_without_pictures_is_refused():
    with pytest.raises(ValueError, match="'b'"):
        LinearJudge(("a", "b"), 4).fit(torch.randn(5, 4), torch.zeros(5, dtype=torch.long))
