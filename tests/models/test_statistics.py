"""Statistics that are recorded in one pass and held in another."""

import threading

import pytest
import torch
from torch import nn

import models
import wct
from models import statistics
from models.hop import Hop
from models.layers import ContentEncoder
from models.strokes import Canvas
from tests.models.small import SMALL, picture


@pytest.fixture(scope="module", params=SMALL)
def network(request) -> models.Repainter:
    torch.manual_seed(0)
    network = models.Repainter(SMALL[request.param]).eval()
    with torch.no_grad():  # blocks of the statistics network start at zero
        for parameter in network.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
    return network


@pytest.fixture(scope="module")
def code(network) -> models.StyleCode:
    return network.encode_style(picture(40, 56, seed=1))


def moments(features: torch.Tensor, groups: int, **options):
    with statistics.record(**options):
        return statistics.mean_and_covariance(features, groups)


@pytest.mark.parametrize("strength", [0.4, 1.0])
def test_replaying_its_own_statistics_reproduces_a_pass(network, code, strength):
    photo = picture(50, 70)
    alone = network.repaint(photo, code, strength)
    with statistics.record() as recorded:
        recording = network.repaint(photo, code, strength)
    with statistics.hold(recorded):
        replayed = network.repaint(photo, code, strength)
    torch.testing.assert_close(recording, alone, atol=1e-5, rtol=0)
    torch.testing.assert_close(replayed, alone, atol=1e-5, rtol=0)


def test_every_hop_and_norm_of_a_pass_is_recorded(network, code):
    kinds = (nn.InstanceNorm2d, nn.GroupNorm, Hop)
    layers = [module for module in network.modules() if isinstance(module, kinds)]
    with statistics.record() as recorded:
        network.repaint(picture(32, 32), code)
    assert len(recorded) == len(layers)


@pytest.mark.parametrize("strength", [0.4, 1.0])
def test_a_crop_under_the_wholes_statistics_is_the_crop_of_the_whole(network, code, strength):
    margin = -(-network.reach // 4) * 4
    photo = picture(2 * margin + 24, 2 * margin + 90)
    with statistics.record() as recorded:
        whole = network.repaint(photo, code, strength)
    # The lower right part, which ends with the picture; its other ends are cuts.
    top, left = 20, 48
    with statistics.hold(recorded):
        canvas = Canvas([(top, left)])
        crop = network.repaint(photo[..., top:, left:], code, strength, canvas=canvas)
    inside = crop[..., margin:, margin:]
    expected = whole[..., top + margin :, left + margin :]
    assert inside.shape[-2:] == (margin + 4, margin + 42)
    torch.testing.assert_close(inside, expected, atol=1e-4, rtol=0)
    own = network.repaint(photo[..., top:, left:], code, strength, canvas=canvas)
    assert (own[..., margin:, margin:] - expected).abs().max() > 1e-3


def test_weights_of_a_part_give_that_parts_statistics():
    features = torch.randn(2, 8, 6, 10)
    weights = torch.zeros(1, 1, 6, 10)
    weights[..., :4] = 0.5
    expected = wct.mean_and_covariance(features[..., :4], 2)
    torch.testing.assert_close(moments(features, 2, weights=weights), expected)


def test_weights_count_in_proportion():
    features = torch.randn(1, 4, 1, 2)
    weights = torch.tensor([0.25, 0.75]).reshape(1, 1, 1, 2)
    repeated = features[..., [0, 1, 1, 1]]
    torch.testing.assert_close(
        moments(features, 2, weights=weights), wct.mean_and_covariance(repeated, 2)
    )


def test_weights_are_averaged_down_to_the_features():
    features = torch.randn(1, 4, 3, 5)
    weights = torch.rand(1, 1, 12, 20)
    small = nn.functional.avg_pool2d(weights, 4)
    torch.testing.assert_close(
        moments(features, 1, weights=weights), moments(features, 1, weights=small)
    )


def test_pooled_images_have_the_statistics_of_one_picture_of_them_all():
    parts = torch.randn(3, 8, 6, 4) + torch.arange(3.0).reshape(3, 1, 1, 1)
    together = torch.cat(list(parts), -1)[None]
    torch.testing.assert_close(
        moments(parts, 2, pool=True), wct.mean_and_covariance(together, 2), atol=1e-5, rtol=1e-5
    )


def test_a_pooled_image_outside_of_the_weights_counts_for_nothing():
    parts = torch.randn(2, 4, 5, 5)
    weights = torch.stack([torch.ones(1, 5, 5), torch.zeros(1, 5, 5)])
    torch.testing.assert_close(
        moments(parts, 1, weights=weights, pool=True), wct.mean_and_covariance(parts[:1], 1)
    )


def test_a_batch_under_pooled_statistics_is_each_of_its_images(network, code):
    photos = picture(32, 40, batch=2)
    with statistics.record(pool=True) as recorded:
        together = network.repaint(photos, code)
    for photo, expected in zip(photos, together, strict=True):
        with statistics.hold(recorded):
            alone = network.repaint(photo[None], code)
        torch.testing.assert_close(alone[0], expected, atol=2e-5, rtol=0)


@pytest.mark.parametrize(
    ("own", "native"),
    [
        (statistics.InstanceNorm(6), nn.InstanceNorm2d(6)),
        (statistics.LayerNorm(6), nn.GroupNorm(1, 6)),
    ],
)
def test_a_recorded_norm_is_torchs(own, native):
    with torch.no_grad():
        for parameter in own.parameters():
            parameter.normal_()
    native.load_state_dict(own.state_dict())
    x = torch.randn(2, 6, 7, 9) * 3 + 1
    with statistics.record() as recorded:
        during = own(x)
    with statistics.hold(recorded):
        after = own(x)
    for result in (own(x), during, after):
        torch.testing.assert_close(result, native(x), atol=1e-5, rtol=1e-5)


def test_gradients_pass_through_a_recorded_pass(network, code):
    photo = picture(32, 32)
    plain = torch.autograd.grad(network(photo, code).sum(), network.output.weight)
    with statistics.record():
        recording = torch.autograd.grad(network(photo, code).sum(), network.output.weight)
    torch.testing.assert_close(recording, plain, atol=1e-2, rtol=1e-3)


def test_holding_lasts_one_pass(network, code):
    with statistics.record() as recorded:
        network.repaint(picture(32, 32), code)
    with statistics.hold(recorded):
        network.repaint(picture(32, 32), code)
        with pytest.raises(ValueError, match="lasts one pass"):
            network.repaint(picture(32, 32), code)


def test_statistics_of_another_layer_are_refused():
    with statistics.record() as recorded:
        statistics.mean_and_covariance(torch.randn(1, 8, 4, 4), 2)
    with statistics.hold(recorded), pytest.raises(ValueError, match="another shape"):
        statistics.mean_and_covariance(torch.randn(1, 8, 4, 4), 4)


@pytest.mark.parametrize(
    "weights",
    [
        torch.zeros(1, 1, 4, 4),
        torch.full((1, 1, 4, 4), -1.0),
        torch.ones(4, 4),
        torch.stack([torch.ones(1, 4, 4), torch.zeros(1, 4, 4)]),
    ],
)
def test_weights_that_cannot_weigh_are_refused(weights):
    with pytest.raises(ValueError, match="weights must"), statistics.record(weights):
        pass


def test_after_a_failure_inside_a_block_layers_read_their_own_statistics():
    features = torch.randn(1, 4, 5, 5)
    with statistics.record() as recorded:
        statistics.mean_and_covariance(features + 9, 1)
    with pytest.raises(RuntimeError), statistics.hold(recorded):
        raise RuntimeError
    own = statistics.mean_and_covariance(features, 1)
    torch.testing.assert_close(own, wct.mean_and_covariance(features, 1))


def test_another_thread_is_not_held():
    features, seen = torch.randn(1, 4, 5, 5), []
    with statistics.record() as recorded:
        statistics.mean_and_covariance(features + 9, 1)
    with statistics.hold(recorded):
        thread = threading.Thread(
            target=lambda: seen.append(statistics.mean_and_covariance(features, 1))
        )
        thread.start()
        thread.join()
    torch.testing.assert_close(seen[0], wct.mean_and_covariance(features, 1))


@pytest.mark.parametrize("level", [-1.0, 0.3, 1.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_picture_of_one_color_gives_a_deep_encoder_finite_gradients(level, dtype):
    torch.manual_seed(0)
    encoder = ContentEncoder(8, blocks=4, norm=True)
    picture = torch.full((2, 3, 64, 64), level)
    picture[1] = torch.rand(3, 64, 64)
    with torch.autocast("cpu", dtype, enabled=dtype == torch.bfloat16):
        content = encoder(picture)
    content.float().mul(torch.randn(content.shape)).sum().backward()
    norm = nn.utils.get_total_norm([p.grad for p in encoder.parameters()])
    assert torch.isfinite(norm) and 0 < float(norm) < 1e6


def test_what_is_not_constant_has_the_gradient_that_it_had():
    torch.manual_seed(0)
    x = torch.rand(2, 3, 16, 16)
    x[0, 0] = 0.5
    x[1, 2] = 0.5
    x[1, 2, 3, 3] += 1 / 255  # one pixel by one level: something is there
    one, other = x.clone().requires_grad_(), x.clone().requires_grad_()
    weights = torch.randn(x.shape)
    for norm, given in ((statistics.InstanceNorm(3), one), (nn.InstanceNorm2d(3), other)):
        norm(given).mul(weights).sum().backward()
    assert not bool(one.grad[0, 0].any())
    one.grad[0, 0] = other.grad[0, 0]
    assert torch.equal(one.grad, other.grad)
