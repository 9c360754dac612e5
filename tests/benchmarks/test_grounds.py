"""The benchmark that adds a ground's parts one after another."""

import sys
from dataclasses import fields

import skimage.data
import torch
from PIL import Image

import models
from benchmarks import grounds
from models.judge import LinearJudge


def test_the_parts_of_a_ground_come_one_after_another_and_end_with_all():
    own = models.Ground(**{each.name: 0.3 for each in fields(models.Ground)})
    named = list(grounds.grounds(own))
    assert named[0] == ("none", models.Ground()) and named[-1][1] == own
    assert len({ground for _, ground in named}) == len(named) == len(grounds.STEPS) + 1


def test_every_style_gets_a_row_a_part(monkeypatch, capsys, tmp_path):
    torch.manual_seed(0)
    network = models.Repainter(models.RepainterConfig(width=8, blocks=1, group_size=8)).eval()
    code = network.encode_style(torch.rand(1, 3, 32, 32))
    file, judge = tmp_path / "tiny.safetensors", tmp_path / "judge.safetensors"
    models.save_checkpoint(file, network, {"dots": [code]}, {})
    LinearJudge(["dots", "photo"]).save(judge)
    for name in ("dots", "photo"):
        (tmp_path / name).mkdir()
        Image.fromarray(skimage.data.coffee()[:64, :64]).save(tmp_path / name / "a.png")
    command = ["grounds", "--checkpoint", file, "--artworks", tmp_path, "--judge", judge]
    command += ["--sheet", tmp_path / "sheet.png"]
    monkeypatch.setattr(sys, "argv", [str(word) for word in command])
    grounds.main()
    rows = capsys.readouterr().out.splitlines()[1:]
    assert [row.split()[0] for row in rows] == ["dots"] * (len(grounds.STEPS) + 1)
    with Image.open(tmp_path / "sheet.png") as sheet:
        assert sheet.height == len(rows) * 256
