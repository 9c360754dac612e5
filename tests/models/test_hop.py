"""The hop: it gives features the mean and the covariance of a painting."""

import torch

import models
import wct
from models.hop import Hop
from tests.models.small import SMALL


def test_a_hop_gives_the_features_the_paintings_mean_and_covariance():
    hop = Hop(8, SMALL["statistics"])
    content = torch.randn(2, 8, 20, 20) * 3 + 1
    painting = torch.randn(1, 8, 30, 30).cumsum(1)
    mean, root = hop.record(painting)
    colored = hop(content, mean, root)(content)
    colored_mean, covariance = wct.mean_and_covariance(colored, 1)
    target = root @ root.mT
    torch.testing.assert_close(colored_mean, mean.expand_as(colored_mean), atol=1e-4, rtol=1e-4)
    # eps is added on both sides, so the covariances agree up to its share.
    torch.testing.assert_close(covariance, target.expand_as(covariance), atol=0.03, rtol=0.02)


def test_gd_colors_with_u_d_u_transposed_of_the_output_columns():
    hop = Hop(32, SMALL["gd"])
    matrix = torch.randn(1, 4, 8, 8)
    lengths = matrix.norm(dim=-2)
    directions = matrix / lengths.unsqueeze(-2)
    expected = directions @ torch.diag_embed(lengths) @ directions.mT
    torch.testing.assert_close(hop.coloring(matrix), expected)


def test_svd_colors_with_the_root_of_a_a_transposed_plus_eps():
    hop = Hop(32, SMALL["mlp"])
    matrix = torch.randn(1, 4, 8, 8)
    root = hop.coloring(matrix)
    expected = matrix @ matrix.mT + SMALL["mlp"].eps * torch.eye(8)
    torch.testing.assert_close(root @ root, expected, atol=1e-4, rtol=1e-4)


def test_a_hop_that_iterates_does_nearly_what_one_that_decomposes_does():
    content, painting = torch.randn(2, 1, 8, 20, 20, requires_grad=True).unbind()
    hop = Hop(8, SMALL["statistics"])
    decomposed = hop(content, *hop.record(painting))(content)
    hop.iterates = True
    iterated = hop(content, *hop.record(painting))(content)
    torch.testing.assert_close(iterated, decomposed, atol=1e-3, rtol=1e-3)
    assert not torch.equal(iterated, decomposed)


def test_each_hop_comes_after_a_convolution_of_its_channels():
    for name in ("statistics", "mlp"):
        network = models.Repainter(SMALL[name])
        found = [layer.out_channels for layer in network.before_hops]
        assert found == list(SMALL[name].hop_channels)


def test_a_recorder_listens_to_every_hop_of_a_network():
    torch.manual_seed(0)
    network = models.Repainter(SMALL["statistics"])
    photo, painting = torch.rand(2, 1, 3, 64, 64) * 2 - 1
    code = network.encode_style(painting)
    recorders = [wct.SpectrumRecorder(hop) for hop in network.hops]
    painted = network(photo, code)
    painted.square().sum().backward()
    for recorder in recorders:
        recorder.remove()
        (record,) = recorder.records
        assert record["largest"] >= record["second"] >= record["smallest"]
        assert record["first_ratio"] >= 1 and record["condition_number"] >= 1
    # It only looks: without it, the picture is the same to the bit.
    assert torch.equal(network(photo, code), painted)
