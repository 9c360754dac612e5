"""The benchmark of robustness finds what it looks for, and says how to make it again."""

import random
import time
from types import SimpleNamespace

import pytest

from benchmarks.robustness import __main__ as command
from benchmarks.robustness import checkpoints, trial


def answer(what: str) -> str:
    """What a tester calls: does what it is told."""
    if what == "hang":
        time.sleep(600)
    if what == "crash":
        raise SystemExit(3)
    if what == "lines":
        raise ValueError("one\ntwo")
    if what == "refuse":
        raise ValueError("not this one")
    if what == "fail":
        raise KeyError(what)
    if what == "eat":
        return str(len(bytearray(b"x" * 100_000_000)))
    return what


def test_a_trial_tells_what_became_of_it():
    with trial.testing(f"{__name__}:answer", ["builtins:ValueError"], limit=20) as tester:
        assert tester.try_one("fine").kind == "done"
        refused = tester.try_one("refuse")
        assert (refused.kind, refused.text) == ("refused", "not this one")
        assert tester.try_one("lines").kind == "traceback"
        assert tester.try_one("fail").kind == "traceback"
        assert tester.try_one("crash").kind == "crash"
        assert tester.try_one("eat").peak_mb > 80
    with trial.testing(f"{__name__}:answer", [], limit=0.5) as tester:
        assert tester.try_one("hang").kind == "hang"


def test_checkpoints_are_mutated_the_same_way_for_the_same_seed():
    outcomes = [
        checkpoints.run(SimpleNamespace(checkpoints=12), random.Random(5)).counts for _ in range(2)
    ]
    assert outcomes[0] == outcomes[1] and sum(outcomes[0].values()) == 12
    assert outcomes[0]["refused"] > 4


def test_faults_are_told_and_are_exit_code_1(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(checkpoints, "load", lambda path: path)
    monkeypatch.setattr(checkpoints, "SLOWEST", -1.0)
    out = tmp_path / "found.json"
    asked = ["--only", "checkpoints", "--checkpoints", "2", "--seed", "9", "--out", str(out)]
    assert command.main(asked) == 1
    told = capsys.readouterr().out
    assert "seed 9" in told and "2 faults" in told and '"seed": 9' in out.read_text()
    with pytest.raises(SystemExit):
        command.main(["--only", "nothing"])
