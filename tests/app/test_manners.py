"""Manners: a school's move is learned beside a network that stays, and given to its paintings."""

import pytest
import torch

import models
from app.dataset import PictureFolder
from app.training import manners
from app.training.manners import Paintings, School, fit_gate, with_manners
from models.judge import LinearJudge

QUICK = ["--rounds", "2"]


@pytest.fixture
def network() -> models.Repainter:
    torch.manual_seed(0)
    config = models.RepainterConfig(width=8, blocks=1, group_size=8, refinement=16)
    return models.Repainter(config).eval().requires_grad_(False)


@pytest.fixture
def checkpoint(network, folders, tmp_path):
    """A checkpoint of a network whose refinement has read two schools' paintings."""
    codes = [
        network.read_style(PictureFolder(folders / name).tensor(i))
        for name in ("warm", "cold")
        for i in range(2)
    ]
    network.refinement.calibrate(models.StyleCode.cat(codes))
    path = tmp_path / "start.safetensors"
    models.save_checkpoint(path, network, {"warm": [codes[0]]}, {"steps": 7})
    return path


@pytest.fixture
def command(checkpoint, folders, tmp_path):
    styles = ["--style", f"warm={folders / 'warm'}", "--style", f"cold={folders / 'cold'}"]
    out = ["--photos", str(folders / "photos"), "--out", str(tmp_path / "out.safetensors")]
    return ["--checkpoint", str(checkpoint), *styles, *out]


def schools(folders) -> list[School]:
    return [School(name, PictureFolder(folders / name)) for name in ("warm", "cold")]


def test_the_gate_tells_the_schools_paintings_apart(checkpoint, folders):
    network = with_manners(models.load_checkpoint(checkpoint).network, 2)
    both = schools(folders)
    fit_gate(network, both, Paintings(network))
    refinement = network.refinement
    for number, school in enumerate(both):
        seen = refinement.standardized(network.read_style(school.folder.tensor(0)))
        assert int(refinement.shares(seen).argmax()) == number


def test_room_for_manners_leaves_a_network_as_it_was(checkpoint):
    before = models.load_checkpoint(checkpoint).network
    after = with_manners(before, 2)
    painting = torch.linspace(-1, 1, 3 * 32 * 32).reshape(1, 3, 32, 32)
    assert torch.equal(
        before.encode_style(painting).flatten(), after.encode_style(painting).flatten()
    )
    assert with_manners(after, 2) is after
    with pytest.raises(ValueError, match="has 2 manners, not 3"):
        with_manners(after, 3)


def test_a_round_moves_towards_what_the_reader_takes_for_the_school(checkpoint, folders):
    """Some steps alone, with a stand-in for the frozen networks: brightness is a school."""
    network = with_manners(models.load_checkpoint(checkpoint).network, 2)
    both = schools(folders)
    reader = LinearJudge(("warm", "cold"), 6)
    reader.requires_grad_(False)
    reader.linear.weight[:, :3] = torch.tensor([[8.0], [-8.0]])
    teacher = manners.Teacher(
        network,
        reader,
        PictureFolder(folders / "photos"),
        lambda image: {"pixels": image},
        lambda image, layers: dict.fromkeys(layers, image),
        Paintings(network),
        manners.Weights(content=0, style=0, variation=0, size=0),
    )
    weights = {n: v.clone() for n, v in network.state_dict().items()}
    lessons = manners._lessons(network, both)
    wrong = [[teacher.step(each, number, 0.02) for each in lessons] for number in range(12)]
    assert sum(wrong[-1]) < sum(wrong[0])
    manners._learned(network, lessons)
    changed = {n for n, v in network.state_dict().items() if not torch.equal(v, weights[n])}
    assert changed == {"refinement.manners.weight"}
    assert all(float(column.abs().sum()) > 0 for column in network.refinement.manners.weight.T)


def test_the_command_writes_a_checkpoint_that_goes_on(
    command, checkpoint, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(manners, "CROPS", 16)
    monkeypatch.setattr(manners, "READ", 2)
    assert manners.main([*command, *QUICK, "--plain", "cold"]) == 0
    assert "1 manners" in capsys.readouterr().out
    out = tmp_path / "out.safetensors"
    first = models.load_checkpoint(out)
    assert first.network.config.manners == 2
    about = first.record["manners"]
    assert first.record["steps"] == 7 and about["rounds"] == 2 and about["plain"] == ["cold"]
    moves = first.network.refinement.manners.weight
    assert float(moves[:, 0].abs().sum()) > 0 and float(moves[:, 1].abs().sum()) == 0
    before = models.load_checkpoint(checkpoint)
    assert torch.equal(first.styles["warm"][0].flatten(), before.styles["warm"][0].flatten())
    gate = first.network.refinement.gate.weight
    again = [*command[2:], *QUICK, "--plain", "cold"]
    assert manners.main(["--checkpoint", str(out), *again]) == 0
    second = models.load_checkpoint(out).network.refinement
    assert torch.equal(second.gate.weight, gate) and not torch.equal(second.manners.weight, moves)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (["--plain", "hot"], "--plain hot: there is no --style"),
        (["--plain", "warm", "--plain", "cold"], "two styles are needed"),
        (["--rounds", "0"], "--rounds must be positive"),
        (["--content", "hot=2"], "--content hot: there is no --style"),
        (["--content", "warm=much"], "NAME=TIMES"),
        (["--content", "warm=-1"], "at least 0"),
        (["--out", "manners.pt"], "--out must end in .safetensors"),
        (["--photos", "nowhere"], "nowhere"),
        (["--checkpoint", "nowhere.safetensors"], "nowhere.safetensors"),
    ],
)
def test_a_wrong_command_line_is_one_clear_line(command, tmp_path, capsys, change, reason):
    assert manners.main([*command, *change]) == 2
    assert reason in capsys.readouterr().err
    assert not (tmp_path / "out.safetensors").exists()


def test_a_network_without_a_refinement_says_so(command, folders, tmp_path, capsys):
    network = models.Repainter(models.RepainterConfig(width=8, blocks=1, group_size=8)).eval()
    file = tmp_path / "plain.safetensors"
    models.save_checkpoint(file, network, {}, {})
    assert manners.main([*command, "--checkpoint", str(file)]) == 2
    assert "no refinement" in capsys.readouterr().err
