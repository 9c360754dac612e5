"""Which precision is taken, and what becomes of pictures in bfloat16."""

import pytest
import torch

import models
from models import precision, statistics, strokes
from models.precision import BFLOAT16, FLOAT32, VARIABLE, chosen
from tests.models.small import SMALL, picture

CPU = torch.device("cpu")


@pytest.fixture
def measuring(monkeypatch):
    """auto measures, anew; what a convolution takes is given by type."""
    monkeypatch.delenv(VARIABLE, raising=False)
    precision._measured.cache_clear()

    def takes(float32, bfloat16):
        times = {torch.float32: float32, torch.bfloat16: bfloat16}
        monkeypatch.setattr(precision, "_convolve", lambda *given: given[-1])
        monkeypatch.setattr(precision, "shortest", lambda dtype, _: times[dtype])

    yield takes
    precision._measured.cache_clear()


@pytest.mark.parametrize(("bfloat16", "name"), [(0.2, BFLOAT16), (0.9, FLOAT32), (10.0, FLOAT32)])
def test_auto_is_bfloat16_where_that_is_clearly_faster(measuring, bfloat16, name):
    measuring(1.0, bfloat16)
    assert chosen("auto", CPU).name == name


def test_auto_is_measured_once(measuring, monkeypatch):
    measuring(1.0, 0.1)
    first = chosen("auto", CPU)
    measuring(1.0, 10.0)
    assert chosen("auto", CPU) is first


def test_a_trial_that_fails_means_float32_and_says_why(measuring, monkeypatch):
    def broken(*_):
        raise RuntimeError("no such primitive\nmore")

    monkeypatch.setattr(precision, "_convolve", broken)
    got = chosen("auto", CPU)
    assert got.dtype == torch.float32
    assert got.why == "bfloat16 could not be tried: no such primitive"


def test_bfloat16_where_a_device_cannot_is_refused_with_what_it_can(monkeypatch):
    def broken(*_):
        raise RuntimeError("not implemented")

    monkeypatch.setattr(precision, "_convolve", broken)
    with pytest.raises(ValueError, match=r"cannot compute in bfloat16 \(not impl.*can in float32"):
        chosen(BFLOAT16, CPU)
    assert chosen(FLOAT32, CPU).dtype == torch.float32


def test_a_name_that_is_none_is_refused(monkeypatch):
    with pytest.raises(ValueError, match="one of auto, float32, bfloat16, got 'half'"):
        chosen("half", CPU)
    monkeypatch.setenv(VARIABLE, "fast")
    with pytest.raises(ValueError, match=f"{VARIABLE} must be one of"):
        chosen("auto", CPU)


@pytest.mark.parametrize("kind", SMALL)
def test_in_bfloat16_styles_and_pictures_are_in_float32(kind):
    torch.manual_seed(0)
    network = models.Repainter(SMALL[kind]).eval()
    photo, painting = picture(40, 52), picture(48, 48, seed=1)
    code = network.encode_style(painting)
    full = network.repaint(photo, code)
    network.compute_in(torch.bfloat16)
    for one, other in zip(network.encode_style(painting).tensors, code.tensors, strict=True):
        assert torch.equal(one, other)
    content = network.encode_photo(photo, ground=code.ground)
    if not network.config.architecture.encoder_blocks:  # which add up in float32
        assert content.features.dtype == torch.bfloat16
    with statistics.record() as recorded:
        result = network.repaint(photo, code)
    assert result.dtype == torch.float32
    assert all(moment.dtype == torch.float32 for pair in recorded.moments for moment in pair)
    assert 0 < (result - full).abs().mean() < 0.05  # random weights, which no training calmed
    assert torch.equal(network.repaint(photo, code, 0.0), photo)
    assert network.repaint(photo, code, 0.5, canvas=strokes.Canvas(stroke_size=2)).isfinite().all()
    network.compute_in(torch.float32)
    assert torch.equal(network.repaint(photo, code), full)


def test_a_gradient_is_kept_in_float32():
    torch.manual_seed(0)
    network = models.Repainter(SMALL["statistics"])
    code, photo = network.encode_style(picture(32, 32)), picture(32, 32, seed=1)
    expected = network(photo, code)
    network.compute_in(torch.bfloat16)
    assert torch.equal(network(photo, code), expected)
