"""States of a training that can't be gone on from: each is refused in a line, never a traceback."""

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from app import train
from app.training import saving
from app.training.failures import TrainingError
from tests.app.test_train import arguments


@pytest.fixture(scope="module")
def begun(folders: Path, tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """A run of the paper's own losses, so that there is a discriminator, after one step."""
    out = tmp_path_factory.mktemp("begun") / "a.safetensors"
    command = arguments(folders, out, "--steps", "3", "--batch", "1", "--perceptual", "none")
    run = train.Run(train.parse_arguments(command))
    run.train_step(0.1)
    run.files.write_state(saving.state_of(run))
    whole = torch.load(run.files.state, weights_only=True)
    return SimpleNamespace(run=run, command=command, state=whole, file=run.files.state)


def refused(begun: SimpleNamespace, file: Path) -> str:
    with pytest.raises(TrainingError) as error:
        saving.load_state(begun.run, file)
    (line,) = str(error.value).splitlines()
    assert str(file) in line
    return line


def first(weights: dict) -> str:
    return next(key for key, value in weights.items() if value.ndim > 1)


def put(state: dict, value: object, *path: object) -> None:
    for key in path[:-1]:
        state = state[key]
    state[path[-1]] = value


def moment(name: str, value: object) -> Callable[[dict], None]:
    return lambda state: put(state, value, "optimizers", "generator", "state", 0, name)


def weight(part: str, value: object) -> Callable[[dict], None]:
    return lambda state: put(state, value, part, first(state[part]))


PARTS = ("config", "domains", "step", "seconds", "recent", "draw", "torch", "network", "average")
ODD = {
    **{f"without {name}": lambda state, name=name: state.pop(name) for name in PARTS},
    "without optimizers": lambda state: state.pop("optimizers"),
    "a step of text": lambda state: put(state, "7", "step"),
    "a step before the first": lambda state: put(state, -1, "step"),
    "a step of true": lambda state: put(state, True, "step"),
    "minutes that are no number": lambda state: put(state, float("nan"), "seconds"),
    "failed steps in a list": lambda state: put(state, [1], "failed"),
    "losses of text": lambda state: put(state, {"style": "much"}, "recent"),
    "losses in a list": lambda state: put(state, [1.0], "recent"),
    "domains of another": lambda state: put(state, ["photo", "x"], "domains"),
    "domains of numbers": lambda state: put(state, 3, "domains"),
    "a configuration of text": lambda state: put(state, "wide", "config"),
    "an unknown option": lambda state: put(state, 1, "config", "depth of sea"),
    "draws of two parts": lambda state: put(state, (3, (1, 2)), "draw"),
    "draws of other numbers": lambda state: put(state, (3, (1, 2, 3), None), "draw"),
    "draws of text": lambda state: put(state, ("a", "b", "c"), "draw"),
    "torch's draws cut short": lambda state: put(state, torch.zeros(7, dtype=torch.uint8), "torch"),
    "torch's draws as floats": lambda state: put(state, torch.zeros(5056), "torch"),
    "a network in a list": lambda state: put(state, [], "network"),
    "a network of nothing": lambda state: put(state, {}, "network"),
    "a weight of another shape": weight("network", torch.zeros(1, 2, 3)),
    "a weight that is text": weight("average", "heavy"),
    "a weight that is not finite": weight("network", torch.tensor(float("nan"))),
    "an averaged weight less": lambda state: state["average"].pop(first(state["average"])),
    "a weight more": lambda state: put(state, torch.zeros(3), "average", "more"),
    "names that are numbers": lambda state: put(state, torch.zeros(3), "network", 7),
    "no discriminator": lambda state: put(state, None, "discriminator"),
    "a discriminator of text": lambda state: put(state, "no", "discriminator"),
    "a discriminator of nothing": lambda state: put(state, {}, "discriminator"),
    "an optimizer in a list": lambda state: put(state, [], "optimizers"),
    "an optimizer of text": lambda state: put(state, "fast", "optimizers", "generator"),
    "an optimizer of nothing": lambda state: put(state, {}, "optimizers", "generator"),
    "a moment of another shape": moment("exp_avg", torch.zeros(2)),
    "a moment that is text": moment("exp_avg_sq", "much"),
    "a moment that is not finite": moment("step", torch.tensor(float("inf"))),
    "moments of a parameter too many": lambda state: put(
        state, {}, "optimizers", "generator", "state", 9999
    ),
}


@pytest.mark.parametrize("change", ODD.values(), ids=ODD.keys())
def test_an_odd_state_is_refused_in_a_line(begun, tmp_path, change):
    state = copy.deepcopy(begun.state)
    change(state)
    file = tmp_path / "odd.state.pt"
    torch.save(state, file)
    refused(begun, file)


def test_an_infinite_weight_is_named(begun, tmp_path):
    state = copy.deepcopy(begun.state)
    state["average"][first(state["average"])].view(-1)[0] = float("inf")
    torch.save(state, tmp_path / "odd.state.pt")
    assert "average" in refused(begun, tmp_path / "odd.state.pt")


@pytest.mark.parametrize("value", [None, 7, [], "state", {}, {1: 2}, torch.zeros(3)], ids=str)
def test_another_object_is_refused_in_a_line(begun, tmp_path, value):
    torch.save(value, tmp_path / "odd.state.pt")
    refused(begun, tmp_path / "odd.state.pt")


class Dangerous:
    def __reduce__(self):
        return exec, ("raise SystemExit('it ran')",)


def test_a_file_that_is_none_is_refused_in_a_line(begun, tmp_path):
    whole, file = begun.file.read_bytes(), tmp_path / "odd.state.pt"
    middle = len(whole) // 2
    mixed = whole[:middle] + bytes(64) + whole[middle + 64 :]
    shorter = [whole[: len(whole) * share // 8] for share in range(8)]
    others = [b"text", pickle.dumps(Dangerous()), b"PK\3\4" + bytes(99), whole[9:]]
    for content in [*shorter, whole[:-1], *others]:
        file.write_bytes(content)
        refused(begun, file)
    file.write_bytes(mixed)  # a tensor's own bytes may be anything; but never a traceback
    try:
        saving.load_state(begun.run, file)
    except TrainingError as error:
        assert str(file) in str(error)


def test_a_refused_state_ends_the_command_with_2(begun, tmp_path, capsys):
    state = copy.deepcopy(begun.state)
    del state["network"]
    torch.save(state, tmp_path / "odd.state.pt")
    assert train.main([*begun.command, "--resume", str(tmp_path / "odd.state.pt")]) == 2
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert "odd.state.pt" in last and "'network'" in last


def test_a_whole_state_goes_on_with_this_run_s_own_options(begun, tmp_path):
    state = copy.deepcopy(begun.state)
    for group in state["optimizers"]["generator"]["param_groups"]:
        group.update(lr="fast", betas=None)
    torch.save(state, tmp_path / "a.state.pt")
    saving.load_state(begun.run, tmp_path / "a.state.pt")
    assert begun.run.clock.step == 1
    begun.run.train_step(0.5)
