"""benchmarks.speed compares ours with real networks, and counts what it says it counts."""

import json

import pytest
import torch

import models
from benchmarks import speed


def test_the_depthwise_reference_is_a_network_for_any_size_of_photo():
    network = speed.DepthwiseReference().eval()
    with torch.no_grad():
        result = network(
            torch.rand(2, 3, 40, 56), torch.zeros(1, 64, 1, 1), torch.ones(1, 64, 1, 1)
        )
    assert result.shape == (2, 3, 40, 56)


def test_operations_are_those_of_the_layers():
    config = models.RepainterConfig(width=4, blocks=1, group_size=4)
    network = models.Repainter(config)
    code = network.encode_style(torch.zeros(1, 3, 64, 64))
    # (inputs, outputs, taps, positions), each multiplied and added
    layers = [(3, 4, 49, 64**2), (4, 8, 16, 32**2), (8, 16, 16, 16**2)]
    layers += [(16, 16, 9, 16**2)] * 2
    layers += [(16, 8, 9, 32**2), (8, 4, 9, 64**2), (4, 3, 49, 64**2)]
    expected = sum(2 * i * o * taps * positions for i, o, taps, positions in layers)
    assert speed.convolution_operations(network, code, 64) == pytest.approx(expected)


def test_other_programs_end_with_their_measurement():
    with speed.programs(2) as running:
        assert all(program.poll() is None for program in running)
    assert all(program.poll() is not None for program in running)


def test_it_prints_ratios_and_writes_them(tmp_path, capsys):
    out = tmp_path / "speed.json"
    options = ["--only", "pictures", "busy", "--sizes", "64", "--busy-size", "64", "--rounds", "1"]
    assert speed.main([*options, "--out", str(out)]) == 0
    report = json.loads(out.read_text(encoding="utf-8"))
    (row,) = report["pictures"]["rows"]
    assert row["of_depthwise"] == pytest.approx(row["ours"] / row["depthwise"])
    assert row["of_limit"] > 0
    assert [row["programs"] for row in report["busy"]["rows"]] == [0, 1, 2]
    assert "ours/it" in capsys.readouterr().out
