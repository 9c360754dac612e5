"""A refinement begins as the identity and gives style codes wherever training takes it."""

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from models import Repainter, RepainterConfig, StyleCode
from tests.models.small import picture


@pytest.fixture
def network() -> Repainter:
    torch.manual_seed(0)
    return Repainter(RepainterConfig(width=8, blocks=1, group_size=8, refinement=16)).eval()


def codes_of(network: Repainter, count: int) -> StyleCode:
    """The codes of some pictures, as they are."""
    with torch.no_grad():
        return network.reconstruct(picture(32, 40, batch=count))[1]


def test_at_first_it_changes_nothing(network):
    code = codes_of(network, 3)
    network.refinement.calibrate(code)
    for tensor, start in zip(network.refine(code).tensors, code.tensors, strict=True):
        torch.testing.assert_close(tensor, start, atol=1e-6, rtol=1e-5)


@given(seed=st.integers(0, 1000), size=st.floats(0.01, 0.5))
@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_roots_stay_symmetric_and_positive_definite(network, seed, size):
    code = codes_of(network, 2)
    network.refinement.calibrate(code)
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        moves = network.refinement.moves
        moves.weight.copy_(torch.randn(moves.weight.shape, generator=draw) * size)
        refined = network.refine(code)
    for mean, root in zip(refined.tensors[::2], refined.tensors[1::2], strict=True):
        assert bool(torch.isfinite(mean).all())
        assert torch.equal(root, root.mT)
        assert torch.linalg.eigvalsh(root.double()).min() > 0


def test_a_painting_is_refined_by_itself_whoever_is_in_its_batch(network):
    code = codes_of(network, 3)
    network.refinement.calibrate(code)
    torch.nn.init.normal_(network.refinement.moves.weight, std=0.1)
    alone, together = network.refine(code[1:2]), network.refine(code)[1:2]
    torch.testing.assert_close(alone.flatten(), together.flatten(), atol=1e-5, rtol=1e-5)


def test_its_gradient_reaches_both_the_mlp_and_the_encoder(network):
    network.requires_grad_(True)
    torch.nn.init.normal_(network.refinement.moves.weight, std=0.1)
    painting, photo = picture(32, 40), picture(32, 32, seed=1)
    code = network.refine(network.reconstruct(painting)[1])
    network(photo, code).square().mean().backward()
    for module in (network.refinement, network.content_encoder):
        assert all(float(p.grad.abs().sum()) > 0 for p in module.parameters())


def test_one_code_has_no_spread(network):
    with pytest.raises(ValueError, match="two paintings"):
        network.refinement.calibrate(codes_of(network, 1))


def test_only_statistics_are_refined():
    with pytest.raises(ValueError, match="statistics"):
        RepainterConfig(width=8, group_size=8, coloring="mlp", refinement=8)
