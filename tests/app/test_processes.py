"""Two processes train as one with the doubled batch."""

import socket
import subprocess
import sys

import pytest
import torch

import models
from app import train
from app.processes import Processes, together

STEPS = 3


def torchrun(count: int) -> list[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    where = ["--master_addr", "127.0.0.1", "--master_port", str(port)]
    return [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", str(count), *where]


def apart(one: dict, other: dict) -> float:
    """How far what two Adams remember of their gradients differs, of the first one's size."""

    def distance(key: str) -> float:
        pairs = [(one[k][key], other[k][key]) for k in one]
        difference = sum(float((a - b).square().sum()) for a, b in pairs)
        return (difference / sum(float(a.square().sum()) for a, _ in pairs)) ** 0.5

    return max(distance("exp_avg"), distance("exp_avg_sq"))


def test_two_processes_train_as_one_with_the_doubled_batch(folders, tmp_path):
    single, double = tmp_path / "single.safetensors", tmp_path / "double.safetensors"
    command = ["--photos", str(folders / "photos"), "--codes", "medoids", "--size", "64"]
    command += ["--width", "8", "--blocks", "1", "--device", "cpu", "--steps", str(STEPS)]
    command += [f"--style={name}={folders / name}" for name in ("warm", "cold")]
    # Of three pictures a process, two are painted with learned codes: network and codes move.
    command += [f"--learn=warm={folders / name}" for name in ("warm", "cold")]
    # Adam's first steps follow a gradient's sign alone, and round-off decides some. They are made
    # too short to matter, and the gradients compared, not where they led.
    command += ["--learning-rate", "1e-6", "--weight", "adversarial=5", "--grain", "0.5"]
    one = train.Run(train.parse_arguments([*command, "--out", str(single), "--batch", "6"]))
    for step in range(STEPS):
        one.train_step(step / STEPS)
    two = [*torchrun(2), "-m", "app.train", *command, "--out", str(double), "--batch", "3"]
    done = subprocess.run(two, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    state = torch.load(double.with_suffix(".state.pt"), weights_only=True)
    assert state["optimizers"].keys() == one.optimizers.keys() == {"generator", "codes", "judge"}
    for name, optimizer in one.optimizers.items():
        moments = [o["state"] for o in (optimizer.state_dict(), state["optimizers"][name])]
        assert apart(*moments) < 0.01, name
    assert models.load_checkpoint(double).record["batch"] == 6
    assert {p.name for p in tmp_path.iterdir()} == {
        f"double{end}" for end in (".csv", ".safetensors", ".samples.png", ".state.pt")
    }


def test_a_process_alone_asks_nobody():
    with together(torch.device("cpu")) as processes:
        assert processes.first and processes.largest(1.5, 2) == [1.5, 2]
        module = torch.nn.Linear(2, 2)
        assert processes.distribute(module) is module
        assert processes.mean(torch.tensor(3.0)) == 3


def test_processes_without_a_gpu_of_their_own_are_refused(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(ValueError, match="process 2 has no GPU"), together(torch.device("cuda")):
        pass


def test_only_the_first_process_reads_aloud():
    assert Processes(torch.device("cpu"), 0, 2).first
    assert not Processes(torch.device("cpu"), 1, 2).first
