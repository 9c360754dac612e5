"""Imitation: what is read off a style's paintings comes to its code, and nothing else moves."""

import pytest
import torch

import models
from app.dataset import PictureFolder
from app.training import imitation
from app.training.imitation import distance, imitate, read


@pytest.fixture
def network() -> models.Repainter:
    torch.manual_seed(0)
    return models.Repainter(
        models.RepainterConfig(width=8, blocks=1, group_size=8, refinement=16)
    ).eval()


@pytest.fixture
def codes(network) -> dict[str, models.StyleCode]:
    """Of paintings of two styles, dark and light ones."""
    draw = torch.Generator().manual_seed(1)

    def several(level: float) -> models.StyleCode:
        pictures = level + 0.2 * torch.randn(6, 3, 32, 32, generator=draw)
        refinement, network.refinement = network.refinement, None
        code = network.encode_style(pictures.clamp(-1, 1))
        network.refinement = refinement
        return code

    own = {"dark": several(-0.6), "light": several(0.6)}
    network.refinement.calibrate(models.StyleCode.cat(list(own.values())))
    return own


def test_paintings_come_to_the_code_and_others_stay_where_they_are(network, codes):
    goal = models.StyleCode(tuple(1.2 * t[:1] for t in codes["dark"].tensors))
    weights = {n: v.clone() for n, v in network.state_dict().items()}
    before, after = imitate(network, codes, {"dark": goal}, 200)
    assert after < before / 3
    with torch.no_grad():
        moved = float(distance(network.refine(codes["light"]), codes["light"]).mean())
        alike = float(
            distance(network.refine(codes["dark"]), network.refine(codes["light"])).mean()
        )
    assert moved < alike / 3
    changed = {n for n, v in network.state_dict().items() if not torch.equal(v, weights[n])}
    assert changed and all(name.startswith("refinement.") for name in changed)
    assert not any(p.requires_grad for p in network.refinement.parameters())


def test_a_code_is_as_far_from_itself_as_nothing(codes):
    assert distance(codes["dark"], codes["dark"]).tolist() == [0] * 6
    assert (distance(codes["dark"], codes["light"]) > 0).all()


def test_the_command_teaches_a_checkpoint(network, folders, tmp_path, capsys):
    before, after = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    codes = {n: read(network, PictureFolder(folders / n)) for n in ("warm", "cold")}
    network.refinement.calibrate(models.StyleCode.cat(list(codes.values())))
    models.save_checkpoint(before, network, {"warm": [codes["warm"][:1]]}, {})
    styles = ["--style", f"warm={folders / 'warm'}", "--style", f"cold={folders / 'cold'}"]
    command = ["--checkpoint", str(before), *styles, "--steps", "20", "--out", str(after)]
    assert imitation.main([*command, "--imitate", "warm"]) == 0
    assert "after" in capsys.readouterr().out
    taught, first = (models.load_checkpoint(f).network.refinement for f in (after, before))
    assert not torch.equal(taught.moves.weight, first.moves.weight)
    assert list(models.load_checkpoint(after).styles) == ["warm"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (["--imitate", "hot"], "--imitate hot: there is no --style"),
        (["--imitate", "cold"], "the checkpoint has no such style, but warm"),
        (["--imitate", "warm", "--steps", "0"], "--steps must be positive"),
    ],
)
def test_a_wrong_command_line_is_one_clear_line(network, folders, tmp_path, capsys, change, reason):
    file = tmp_path / "a.safetensors"
    code = network.encode_style(torch.zeros(1, 3, 32, 32))
    models.save_checkpoint(file, network, {"warm": [code]}, {})
    styles = ["--style", f"warm={folders / 'warm'}", "--style", f"cold={folders / 'cold'}"]
    command = ["--checkpoint", str(file), *styles, "--out", str(tmp_path / "b.safetensors")]
    assert imitation.main([*command, *change]) == 2
    assert reason in capsys.readouterr().err
    assert not (tmp_path / "b.safetensors").exists()


def test_a_network_without_a_refinement_says_so(folders, tmp_path, capsys):
    network = models.Repainter(models.RepainterConfig(width=8, blocks=1, group_size=8)).eval()
    file = tmp_path / "a.safetensors"
    code = network.encode_style(torch.zeros(1, 3, 32, 32))
    models.save_checkpoint(file, network, {"warm": [code]}, {})
    command = ["--checkpoint", str(file), "--style", f"warm={folders / 'warm'}"]
    assert (
        imitation.main([*command, "--imitate", "warm", "--out", str(tmp_path / "b.safetensors")])
        == 2
    )
    assert "no refinement" in capsys.readouterr().err
