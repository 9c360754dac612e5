"""The papers' data and network: CIFAR's file format, crops of artworks, shapes, failures."""

import hashlib
import pickle

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from torchvision import datasets

import wct
from app.dataset import FolderError
from benchmarks import classification
from benchmarks.classification import Pictures, Recipe, ResNet, Split, read, train


def tiny(count: int = 24, classes: int = 2, side: int = 16) -> Split:
    """Dark and bright noise."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(count) % classes
    noise = torch.randint(0, 100, (count, 3, side, side), generator=generator)
    pictures = (noise + 120 * labels[:, None, None, None]).to(torch.uint8)
    return Split(Pictures(pictures, labels, classes), Pictures(pictures, labels, classes))


def write_cifar(root, monkeypatch, kind) -> None:
    """Five pictures a file in CIFAR's own format, under the digests that torchvision checks."""
    folder = root / kind.base_folder
    folder.mkdir(parents=True)
    draw = np.random.default_rng(0)
    names = [f"class {i}" for i in range(10 if kind is datasets.CIFAR10 else 100)]
    lists = {"train_list": [], "test_list": []}
    for which, found in lists.items():
        for name, _ in getattr(kind, which):
            batch = {
                "data": draw.integers(0, 256, (5, 3072), dtype=np.uint8),
                "labels" if kind is datasets.CIFAR10 else "fine_labels": [0, 1, 2, 3, 9],
            }
            data = pickle.dumps(batch)
            (folder / name).write_bytes(data)
            found.append([name, hashlib.md5(data).hexdigest()])
    meta = pickle.dumps({kind.meta["key"]: names})
    (folder / kind.meta["filename"]).write_bytes(meta)
    for which, found in lists.items():
        monkeypatch.setattr(kind, which, found)
    monkeypatch.setattr(kind, "meta", {**kind.meta, "md5": hashlib.md5(meta).hexdigest()})


@pytest.mark.parametrize(
    ("data", "kind"), [("cifar10", datasets.CIFAR10), ("cifar100", datasets.CIFAR100)]
)
def test_cifar_is_read_as_it_is_handed_out(tmp_path, monkeypatch, data, kind):
    write_cifar(tmp_path, monkeypatch, kind)
    split = read(data, tmp_path, crops=0)
    assert split.train.pictures.shape == (5 * len(kind.train_list), 3, 32, 32)
    assert split.train.labels[:5].tolist() == [0, 1, 2, 3, 9]
    assert len(split.test) == 5 and split.test.classes == int(data.removeprefix("cifar"))
    # Channels come first in the file, too: the first value is the first picture's red corner.
    first = pickle.loads((tmp_path / kind.base_folder / kind.train_list[0][0]).read_bytes())
    assert split.train.pictures[0].flatten().tolist() == first["data"][0].tolist()


def test_a_folder_of_another_form_is_named(tmp_path):
    for data in ("cifar10", "cifar100", "tiny-imagenet"):
        with pytest.raises(FolderError, match=str(tmp_path)):
            read(data, tmp_path, crops=0)
        with pytest.raises(FolderError, match="there is no such folder"):
            read(data, tmp_path / "none", crops=0)
        with pytest.raises(FolderError, match="needs the folder"):
            read(data, None, crops=0)
    (tmp_path / "train").mkdir()
    with pytest.raises(FolderError, match="has no subfolders"):
        read("artworks", tmp_path, crops=5)


def test_tiny_imagenet_is_read_as_it_is_handed_out(tmp_path):
    root = tmp_path / "tiny-imagenet-200"
    for number, name in enumerate(("n01", "n02")):
        folder = root / "train" / name / "images"
        folder.mkdir(parents=True)
        for k in range(2):
            Image.new("RGB", (64, 64), (200 * number, k, 0)).save(folder / f"{name}_{k}.JPEG")
    (root / "val" / "images").mkdir(parents=True)
    Image.new("L", (64, 64), 90).save(root / "val" / "images" / "val_0.JPEG")
    (root / "val" / "val_annotations.txt").write_text("val_0.JPEG\tn02\t0\t0\t62\t62\n")
    split = read("tiny-imagenet", tmp_path, crops=0)
    assert split.train.labels.tolist() == [0, 0, 1, 1] and split.test.labels.tolist() == [1]
    assert split.train.pictures.shape == (4, 3, 64, 64) and split.train.classes == 2
    assert split.train.pictures[2, 0].float().mean() > 150
    (root / "val" / "val_annotations.txt").write_text("val_0.JPEG\tn03\n")
    with pytest.raises(FolderError, match="not of Tiny ImageNet's form"):
        read("tiny-imagenet", tmp_path, crops=0)


def test_crops_are_balanced_split_by_picture_and_cut_once(tmp_path):
    for split, gray in (("train", 40), ("test", 200)):
        for name in ("a", "b"):
            (tmp_path / split / name).mkdir(parents=True)
            for k in range(3):
                pixels = np.full((90, 120 + 8 * k, 3), gray, np.uint8)
                Image.fromarray(pixels).save(tmp_path / split / name / f"{k}.png")
    keep = tmp_path / "work" / "crops.pt"
    split = read("artworks", tmp_path, crops=10, keep=keep)
    assert split.train.pictures.shape == (20, 3, 32, 32)
    assert split.train.labels.bincount().tolist() == [10, 10]
    assert len(split.test) == 4 and split.train.classes == 2
    # No picture of test is in train.
    assert int(split.train.pictures.max()) < 100 < int(split.test.pictures.min())
    for path in (tmp_path / "train").rglob("*.png"):
        path.unlink()
    again = read("artworks", tmp_path, crops=10, keep=keep)
    assert torch.equal(again.train.pictures, split.train.pictures)


@pytest.mark.parametrize("depth", [18, 50])
def test_the_network_is_the_papers_in_small(depth):
    network = ResNet(nn.BatchNorm2d, 7, width=2, depth=depth)
    assert network.conv1.weight.shape == (64, 3, 3, 3) and network.conv1.stride == (1, 1)
    assert isinstance(network.norm, nn.BatchNorm2d) and network.norm.num_features == 64
    features = network.features(torch.randn(1, 3, 32, 32))
    assert features.shape == (1, 16 * (1 if depth == 18 else 4), 4, 4)
    assert network(torch.randn(2, 3, 32, 32)).shape == (2, 7)


def test_a_run_learns_what_can_be_told_apart():
    torch.manual_seed(0)
    network = ResNet(lambda c: wct.ZCANorm2d(c, group_size=8), 2, width=2)
    result = train(network, tiny(), Recipe(steps=60, batch=8, rate=0.02, width=2), 0)
    assert result["failed"] is None and result["step"] == 60 and len(result["losses"]) == 20
    assert result["losses"][-1] < result["losses"][0] and result["error"] <= 25


class Breaking(nn.BatchNorm2d):
    """Good for two batches; then it does as it is told."""

    def __init__(self, channels: int, how: str) -> None:
        super().__init__(channels)
        self.how, self.calls = how, 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        x = super().forward(x)
        if self.calls <= 2:
            return x
        if self.how == "error":
            torch.linalg.eigh(torch.full((2, 2), torch.nan))
        if self.how == "loss":
            return x * torch.nan
        # Infinite backward alone, as a difference of two equal eigenvalues is.
        return x + (self.weight.sum() - self.weight.sum().detach()).sqrt()


@pytest.mark.parametrize(
    ("how", "reason"), [("loss", "loss"), ("gradient", "gradient of"), ("error", "")]
)
def test_a_run_that_breaks_is_counted_with_its_reason(how, reason):
    torch.manual_seed(0)
    network = ResNet(lambda c: Breaking(c, how), 2, width=2)
    result = train(network, tiny(), Recipe(steps=5, batch=8, width=2), 0)
    assert result["failed"] and result["failed"].startswith(reason)
    assert result["step"] == 2 and result["error"] is None


def test_what_is_no_number_s_fault_is_not_counted_but_raised():
    network = ResNet(lambda c: nn.Conv2d(c, c + 1, 1), 2, width=2)
    with pytest.raises(RuntimeError):
        train(network, tiny(), Recipe(steps=1, batch=8, width=2), 0)


def test_summaries_say_when_there_is_none():
    assert classification.mean_and_spread([]) is None
    assert classification.mean_and_spread([3.0]) == (3.0, 3.0, 0.0)
    assert classification.mean_and_spread([1.0, 3.0]) == (1.0, 2.0, pytest.approx(2**0.5))
