"""Between two checkpoints."""

import pytest
import torch

import models
from benchmarks import average_weights


def saved(path, seed: int, width: int = 8):
    torch.manual_seed(seed)
    network = models.Repainter(models.RepainterConfig(width=width, blocks=1, group_size=8))
    code = network.encode_style(torch.rand(1, 3, 32, 32) * 2 - 1)
    models.save_checkpoint(path, network, {f"style{seed}": [code]}, {"steps": seed})
    return path


def test_the_weights_are_between_and_the_codes_the_first_ones(tmp_path):
    before, after = (saved(tmp_path / f"{i}.safetensors", i) for i in (1, 2))
    out = tmp_path / "out.safetensors"
    command = [str(before), str(after), "--share", "0.25", "--out", str(out)]
    assert average_weights.main(command) == 0
    one, two, mean = (models.load_checkpoint(p) for p in (before, after, out))
    assert list(mean.styles) == ["style1"] and mean.record["steps"] == 2
    assert mean.record["averaged"] == {"share": 0.25, "with": {"steps": 1}}
    for key, value in mean.network.state_dict().items():
        parts = (c.network.state_dict()[key] for c in (one, two))
        expected = sum(w * p for w, p in zip((0.75, 0.25), parts, strict=True))
        torch.testing.assert_close(value, expected, atol=2e-3, rtol=2e-3)


@pytest.mark.parametrize(("width", "share"), [(16, "0.5"), (8, "1.5")])
def test_other_shapes_and_shares_are_refused(tmp_path, capsys, width, share):
    before, after = (
        saved(tmp_path / "a.safetensors", 1),
        saved(tmp_path / "b.safetensors", 2, width),
    )
    command = [str(before), str(after), "--share", share, "--out", str(tmp_path / "o.safetensors")]
    assert average_weights.main(command) == 2
    assert "error: " in capsys.readouterr().err and not (tmp_path / "o.safetensors").exists()
