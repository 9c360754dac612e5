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


@pytest.fixture
def mannered() -> Repainter:
    """A network with two manners: by its gate the first one's for bright paintings."""
    torch.manual_seed(0)
    config = RepainterConfig(width=8, blocks=1, group_size=8, refinement=16, manners=2)
    network = Repainter(config).eval()
    network.refinement.calibrate(codes_of(network, 3))
    return network


def test_manners_change_nothing_until_they_are_learned(mannered):
    code = codes_of(mannered, 3)
    for tensor, start in zip(mannered.refine(code).tensors, code.tensors, strict=True):
        torch.testing.assert_close(tensor, start, atol=1e-6, rtol=1e-5)


def test_a_painting_gets_manners_in_the_shares_that_it_is_taken_for(mannered):
    refinement, code = mannered.refinement, codes_of(mannered, 3)
    torch.nn.init.normal_(refinement.manners.weight, std=0.1)
    torch.nn.init.normal_(refinement.gate.weight, std=0.1)
    with torch.no_grad():
        shares = refinement.shares(refinement.standardized(code))
        assert shares.shape == (3, 2) and torch.allclose(shares.sum(1), torch.ones(3))
        mixed = refinement.moved(code, shares @ refinement.manners.weight.T)
        torch.testing.assert_close(mannered.refine(code).flatten(), mixed.flatten())
        refinement.gate.weight.zero_()
        refinement.gate.bias.copy_(torch.tensor([60.0, 0.0]))
        first = refinement.moved(code, refinement.manners.weight.T[:1])
        torch.testing.assert_close(mannered.refine(code).flatten(), first.flatten())
        assert not torch.allclose(first.flatten(), mixed.flatten(), atol=1e-3)


def test_a_refinement_without_manners_has_no_shares(network):
    seen = network.refinement.standardized(codes_of(network, 2))
    with pytest.raises(ValueError, match="no manners"):
        network.refinement.shares(seen)


@pytest.mark.parametrize("wrong", [{"manners": 2}, {"refinement": 8, "manners": -1}])
def test_manners_are_a_refinements_and_not_negative(wrong):
    with pytest.raises(ValueError, match="manners"):
        RepainterConfig(width=8, group_size=8, **wrong)
