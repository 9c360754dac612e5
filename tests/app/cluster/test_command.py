"""What is wrong with a cluster's command is said in one line, before any work."""

import json
import socket
from contextlib import contextmanager

import pytest

from app.batch import Outcome
from app.cluster import command, engine

OPTIONS = ["photo.jpg", "--style", "monet", "--out", "out"]


def refusal(capsys, *given):
    assert command.main([*given]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    return lines[0]


@pytest.fixture
def installed(monkeypatch):
    monkeypatch.setattr(engine, "check_installed", lambda: None)


def test_without_ray_the_line_says_what_installs_it(capsys, monkeypatch):
    monkeypatch.setattr(engine.importlib.util, "find_spec", lambda name: None)
    assert "make cluster-deps" in refusal(capsys, *OPTIONS)


@pytest.mark.parametrize("address", ["nowhere", "host:", "host:0", "host:99999", ":6379"])
def test_an_address_that_is_none_is_refused(capsys, installed, address):
    assert "--address is auto, local or HOST:PORT" in refusal(
        capsys, *OPTIONS, "--address", address
    )


def test_an_address_where_nobody_answers_is_refused(capsys, installed):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    line = refusal(capsys, *OPTIONS, "--address", f"127.0.0.1:{port}")
    assert "no Ray cluster answers there" in line


def test_an_address_where_something_else_listens_is_refused(capsys, installed, monkeypatch):
    pytest.importorskip("grpc", reason="the cluster's requirements are not installed")
    monkeypatch.setattr(engine, "_REACHED_WITHIN", 1.0)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        line = refusal(capsys, *OPTIONS, "--address", f"127.0.0.1:{silent.getsockname()[1]}")
    assert "what listens there is no Ray cluster" in line


def test_the_options_are_those_of_the_plain_batch(capsys):
    args = command._parser().parse_args([*OPTIONS, "--strength", "0.5", "--keep-color", "--resume"])
    assert (args.strength, args.keep_color, args.resume) == (0.5, "luminance", True)
    assert (args.address, args.num_cpus, args.num_gpus) == ("auto", 1, 0)
    for wrong in (["--num-cpus", "0"], ["--num-gpus", "-1"], ["--num-gpus", "nan"]):
        with pytest.raises(SystemExit) as ended:
            command._parser().parse_args([*OPTIONS, *wrong])
        assert ended.value.code == 2


def test_a_wrong_style_and_a_place_that_cannot_be_written_are_told_before_ray_starts(
    capsys, installed, checkpoint, tmp_path, monkeypatch
):
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(engine, "connected", None)  # it would be called
    (tmp_path / "a.png").touch()
    (tmp_path / "file").touch()
    given = [str(tmp_path / "a.png"), "--checkpoint", str(checkpoint), "--address", "local"]
    line = refusal(capsys, *given, "--style", "monett", "--out", str(tmp_path / "o"))
    assert "no style 'monett'" in line
    line = refusal(capsys, *given, "--style", "dots", "--out", str(tmp_path / "file"))
    assert "--out" in line and "written" in line
    line = refusal(capsys, *given, "--style", "dots", "--out", f"file://{tmp_path}/file/x")
    assert "--out" in line and "cannot be written to" in line


def test_stdout_has_outcomes_alone_whatever_ray_prints(
    capsys, installed, checkpoint, tmp_path, monkeypatch
):
    @contextmanager
    def noisy(address):
        print("(raylet) a node is gone")
        yield None

    def outcomes(*given):
        print("(raylet) another one is gone")
        yield Outcome("a.png", None, "failed", "is not a picture")

    monkeypatch.setattr(engine, "connected", noisy)
    monkeypatch.setattr(command, "outcomes", outcomes)
    (tmp_path / "a.png").touch()
    given = [str(tmp_path / "a.png"), "--checkpoint", str(checkpoint), "--style", "dots"]
    assert command.main([*given, "--out", str(tmp_path / "out"), "--json"]) == 1
    out, err = capsys.readouterr()
    assert [json.loads(line)["input"] for line in out.splitlines()] == ["a.png"]
    assert "a node is gone" in err and "another one is gone" in err


def test_workers_share_few_photos_evenly_and_many_in_no_more_than_so_many_blocks():
    assert command.block_size(5, 4) == 1
    assert command.block_size(1_000, 2) == 16
    for photos in (200_000, 1_000_000, 30_000_000):
        assert photos / command.block_size(photos, 64) <= 10_000
