"""The network: what a hop does, what a style code is, what comes out at any size."""

import pytest
import torch

import models
from models import statistics, winograd
from tests.models.small import SMALL, picture


@pytest.fixture(params=SMALL)
def network(request) -> models.Repainter:
    torch.manual_seed(0)
    return models.Repainter(SMALL[request.param])


def statistics_network() -> models.Repainter:
    torch.manual_seed(0)
    return models.Repainter(SMALL["statistics"])


@pytest.mark.parametrize("size", [(1, 1), (1, 400), (400, 1), (7, 5), (33, 78), (64, 64)])
def test_any_size_gives_a_finite_picture_of_that_size(network, size):
    code = network.encode_style(picture(40, 56))
    result = network.repaint(picture(*size), code)
    assert result.shape == (1, 3, *size)
    assert torch.isfinite(result).all() and result.abs().max() <= 1


@pytest.mark.parametrize("size", [(1, 1), (3, 90)])
def test_a_painting_of_any_size_gives_a_code(network, size):
    code = network.encode_style(picture(*size))
    assert all(torch.isfinite(t).all() for t in code.tensors)


def test_an_all_black_photo_gives_a_finite_picture(network):
    code = network.encode_style(picture(32, 32))
    assert torch.isfinite(network.repaint(-torch.ones(1, 3, 32, 32), code)).all()


def test_strength_zero_is_the_photo_exactly(network):
    photo = picture(30, 41)
    assert torch.equal(network.repaint(photo, network.encode_style(picture(32, 32, 1)), 0.0), photo)


def test_strength_grows_from_the_photo_to_the_painting(network):
    photo, code = picture(32, 32), network.encode_style(picture(32, 32, 1))
    steps = [network.repaint(photo, code, s) for s in (0.0, 1e-3, 0.5, 1.0)]
    distances = [float((s - steps[0]).abs().mean()) for s in steps]
    assert distances[1] < 0.02 < distances[3]
    assert distances[1] < distances[2] < distances[3]


@pytest.mark.parametrize("strength", [-0.1, 1.1, float("nan")])
def test_a_strength_outside_zero_to_one_is_refused(strength):
    network = statistics_network()
    code = network.encode_style(picture(16, 16))
    with pytest.raises(ValueError, match="strength must be between 0 and 1"):
        network.repaint(picture(16, 16), code, strength)


def test_a_picture_colored_with_its_own_statistics_is_its_reconstruction():
    network, image = statistics_network(), picture(32, 48)
    reconstruction, code = network.reconstruct(image)
    torch.testing.assert_close(network(image, code), reconstruction, atol=1e-5, rtol=0)


def test_two_paintings_give_two_pictures(network):
    photo = picture(32, 32)
    first, second = (
        network.repaint(photo, network.encode_style(scale * picture(32, 32, 7)))
        for scale in (0.2, 1.0)
    )
    assert (first - second).abs().mean() > 1e-3


def test_each_image_of_a_batch_is_whitened_by_itself(network):
    photos, paintings = picture(32, 32, batch=3), picture(32, 32, 5, batch=3)
    together = network(photos, network.encode_style(paintings))
    alone = [
        network(photos[i : i + 1], network.encode_style(paintings[i : i + 1])) for i in range(3)
    ]
    torch.testing.assert_close(together, torch.cat(alone), atol=1e-4, rtol=0)


@pytest.mark.parametrize("strength", [0.4, 1.0])
def test_a_hop_folded_into_a_convolution_changes_nothing(network, strength):
    photo, code = picture(32, 40), network.encode_style(picture(32, 32, 1))
    with torch.no_grad():
        folded = network(photo, code, strength)
    unfolded = network(photo, code, strength).detach()
    torch.testing.assert_close(folded, unfolded, atol=2e-5, rtol=0)


def test_statistics_weighted_by_place_are_those_of_the_places():
    network, photo = statistics_network(), picture(32, 40)
    code, weights = network.encode_style(picture(32, 32, 1)), torch.rand(1, 1, 32, 40)
    with torch.no_grad(), statistics.record(weights) as recorded:  # as fast as may be
        network(photo, code)
    with statistics.record(weights) as plain:
        network(photo, code)
    for one, other in zip(recorded.moments, plain.moments, strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("coloring", ["statistics", "mlp"])
def test_the_reach_is_how_far_a_pixel_sees(coloring, blocks, monkeypatch):
    # By tiles, a gradient that is 0 is a rounding from 0 all over a pixel's tile.
    monkeypatch.setattr(winograd, "is_faster", lambda: False)
    torch.manual_seed(0)
    network = models.Repainter(
        models.RepainterConfig(width=8, blocks=blocks, group_size=8, coloring=coloring, hidden=16)
    )
    with torch.no_grad():  # blocks of the statistics network start at zero
        for parameter in network.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
    middle = -(-network.reach // 4) * 4 + 4
    photo = picture(2 * middle, 2 * middle)
    code = network.encode_style(photo)
    with statistics.record() as recorded, torch.no_grad():
        network(photo, code)
    seen = []
    for row in range(middle, middle + 4):
        moving = photo.clone().requires_grad_()
        with statistics.hold(recorded):
            result = network(moving, code)
        (gradient,) = torch.autograd.grad(result[0, :, row, middle].sum(), moving)
        rows = gradient.abs().amax((0, 1, 3)).nonzero()
        seen += [row - int(rows.min()), int(rows.max()) - row]
    assert max(seen) == network.reach


def test_content_at_hand_gives_the_same_picture(network):
    photo, code = picture(30, 41), network.encode_style(picture(32, 32, 1))
    with torch.no_grad():
        content = network.encode_photo(photo)
    for strength in (0.4, 1.0):
        given = network.repaint(photo, code, strength, content)
        assert torch.equal(given, network.repaint(photo, code, strength))


def test_gradients_reach_every_weight_and_are_finite(network):
    painting = picture(32, 32, 1)
    own, code = network.reconstruct(painting)
    # Blocks of the statistics network start at zero; a step away, all weights matter.
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.01 * torch.randn_like(parameter))
    own, code = network.reconstruct(painting)
    (network(picture(32, 32), code).square().mean() + own.square().mean()).backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None and torch.isfinite(parameter.grad).all(), name
        assert parameter.grad.abs().sum() > 0 or "bias" in name, name


def test_an_all_black_photo_gives_finite_gradients():
    network = statistics_network()
    photo = -torch.ones(1, 3, 16, 16)
    _, code = network.reconstruct(photo)
    network(photo, code).sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in network.parameters() if p.grad is not None)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"coloring": "oil"}, "coloring must be"),
        ({"method": "pca"}, "method must be"),
        ({"method": "gd"}, "needs coloring='mlp'"),
        ({"width": 24, "group_size": 7}, "don't divide"),
        ({"eps": 0.0}, "eps must be positive"),
        ({"gradient": "magic"}, "magic"),
        ({"width": 0}, "must be positive"),
    ],
)
def test_a_wrong_shape_of_network_is_refused(settings, reason):
    with pytest.raises(ValueError, match=reason):
        models.RepainterConfig(**settings)


def test_a_code_of_the_other_coloring_is_refused():
    code = models.Repainter(SMALL["mlp"]).encode_style(picture(32, 32))
    with pytest.raises(ValueError, match="style code"):
        statistics_network().repaint(picture(32, 32), code)


def test_bfloat16_autocast_keeps_the_hops_in_float32(network):
    seen = []
    for hop in network.hops:
        hop.register_forward_hook(lambda _m, _i, output: seen.append(output.matrix.dtype))
    code = network.encode_style(picture(32, 32))
    with torch.autocast("cpu", torch.bfloat16):
        result = network.repaint(picture(32, 32), code)
    assert set(seen) == {torch.float32} and torch.isfinite(result.float()).all()
