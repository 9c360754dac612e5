"""A learned code starts at its painting's and stays a style code wherever training takes it."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from models import LearnedCode, Repainter, RepainterConfig, StyleCode


@pytest.fixture(scope="module")
def network() -> Repainter:
    torch.manual_seed(0)
    return Repainter(RepainterConfig(width=8, blocks=1, group_size=8)).eval()


def code_of(network: Repainter) -> StyleCode:
    return network.encode_style(torch.rand(1, 3, 32, 32) * 2 - 1)


@pytest.mark.parametrize("coloring", ["statistics", "mlp"])
def test_it_starts_at_the_painting_s_code(coloring):
    torch.manual_seed(0)
    config = RepainterConfig(width=8, blocks=1, group_size=8, coloring=coloring)
    code = code_of(Repainter(config))
    for tensor, start in zip(LearnedCode(code)().tensors, code.tensors, strict=True):
        torch.testing.assert_close(tensor, start, atol=1e-5, rtol=1e-4)


@given(seed=st.integers(0, 1000), far=st.floats(0.01, 3))
@settings(max_examples=20, deadline=None)
def test_roots_stay_symmetric_and_positive_definite(network, seed, far):
    learned = LearnedCode(code_of(network))
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for moved in learned.moved:
            # Eigenvalues of the step are at most about ``far``.
            moved.copy_(torch.randn(moved.shape, generator=draw) * far / moved.shape[-2] ** 0.5)
        code = learned()
    for mean, root in zip(code.tensors[::2], code.tensors[1::2], strict=True):
        assert bool(torch.isfinite(mean).all())
        assert torch.equal(root, root.mT)
        assert torch.linalg.eigvalsh(root.double()).min() > 0


def test_every_part_has_a_gradient_and_the_picture_follows(network):
    learned, photo = LearnedCode(code_of(network)), torch.rand(1, 3, 32, 32) * 2 - 1
    target = network.repaint(photo, code_of(network))

    def distance() -> torch.Tensor:
        return (network(photo, learned()) - target).square().mean()

    before = distance()
    before.backward()
    assert all(float(p.grad.abs().sum()) > 0 for p in learned.parameters())
    with torch.no_grad():
        for parameter in learned.parameters():
            parameter -= 0.01 * parameter.grad.sign()
    assert distance() < before


def test_the_same_step_changes_a_large_hop_as_much_as_a_small_one(network):
    code = code_of(network)
    large = StyleCode(tuple(100 * t for t in code.tensors))
    for one, other in zip(*(_stepped(c) for c in (code, large)), strict=True):
        torch.testing.assert_close(100 * one, other, atol=1e-3, rtol=1e-3)


def _stepped(code: StyleCode) -> tuple[torch.Tensor, ...]:
    learned = LearnedCode(code)
    with torch.no_grad():
        for moved in learned.moved:
            moved.fill_(0.1)
        return learned().tensors


def test_codes_of_several_paintings_are_refused(network):
    several = network.encode_style(torch.zeros(2, 3, 32, 32))
    with pytest.raises(ValueError, match="got 2"):
        LearnedCode(several)
