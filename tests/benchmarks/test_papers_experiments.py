"""The papers' classification experiments, each at a real size that takes seconds, and resumed."""

import json
from dataclasses import replace

import pytest
import torch

import wct
from benchmarks import classification, conditioning, decorrelated_bn, experiments, pca_denoising
from benchmarks.cells import Cells
from benchmarks.classification import Pictures, Recipe, Split

MODULES = (decorrelated_bn, pca_denoising, conditioning)
RECIPE = Recipe(steps=2, batch=4, width=1, tested=4)


@pytest.fixture
def small(monkeypatch):
    """Noise in two classes, at the smallest size of each experiment."""
    generator = torch.Generator().manual_seed(0)
    pictures = torch.randint(0, 256, (12, 3, 16, 16), generator=generator).to(torch.uint8)
    part = Pictures(pictures, torch.arange(12) % 2, 2)
    monkeypatch.setattr(experiments, "read", lambda *args, **options: Split(part, part))
    monkeypatch.setattr(decorrelated_bn, "SIZES", (4, 64))
    monkeypatch.setitem(
        decorrelated_bn.PLANS,
        "quick",
        replace(
            decorrelated_bn.PLANS["quick"],
            success=RECIPE,
            errors=RECIPE,
            runs=1,
            brief=1,
            brief_runs=1,
            error_runs=1,
            error_sizes=(4, 64),
            hyperparameter_runs=1,
        ),
    )
    for module in (pca_denoising, conditioning):
        plan = replace(module.PLANS["quick"], recipe=RECIPE, runs=1)
        monkeypatch.setitem(module.PLANS, "quick", plan)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__.split(".")[-1])
def test_an_experiment_runs_to_its_page_and_resumes(module, small, tmp_path, monkeypatch, capsys):
    name = module.__name__.split(".")[-1]
    command = ["--quick", "--out", str(tmp_path / "docs"), "--work", str(tmp_path / "work")]
    whole, calls = module.run, []

    def stopped(cell, *args):
        calls.append(cell)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return whole(cell, *args)

    monkeypatch.setattr(module, "run", stopped)
    with pytest.raises(KeyboardInterrupt):
        module.main(command)
    assert module.main([*command, "--write-only"]) == 0
    half = json.loads((tmp_path / "docs" / f"{name}.json").read_text())
    assert half["missing"] == half["planned"] - 3
    assert "Missing of this plan" in capsys.readouterr().out
    monkeypatch.setattr(module, "run", lambda *args: calls.append(args[0]) or whole(*args))
    assert module.main(command) == 0
    # The stopped one is made again, and none of the finished ones.
    assert len(calls) == half["planned"] + 1
    report = json.loads((tmp_path / "docs" / f"{name}.json").read_text())
    assert report["missing"] == 0
    page = (tmp_path / "docs" / f"{name}.md").read_text()
    assert "Nothing of this plan is missing" in page and "2 steps of 4" in page
    assert (tmp_path / "docs" / f"{name}.png").stat().st_size > 10_000


def test_every_failure_is_in_the_tables():
    def cell(row, d, seed):
        return {"row": row, "d": d, "seed": seed}

    fine = {"failed": None, "step": 9, "error": 50.0, "seconds": 1.0}
    broken = {"failed": "gradient of conv1.weight", "step": 4, "error": None, "seconds": 1.0}
    svd = "SVD (torch.linalg.eigh)"
    runs = [(cell(svd, 64, seed), broken) for seed in range(3)]
    runs += [(cell(svd, 4, seed), fine if seed else broken) for seed in range(4)]
    found = decorrelated_bn.summary(runs)
    assert found[svd][64]["success"] == 0 and found[svd][64]["errors"] is None
    assert found[svd][4]["success"] == 75 and found[svd][4]["errors"] == (50.0, 50.0, 0.0)
    rates = "\n".join(decorrelated_bn.success_table(found, "artworks"))
    assert "0% of 3 / 0%" in rates and "75% of 4 / 46.7%" in rates and "missing" in rates
    assert "none of 3" in "\n".join(decorrelated_bn.error_table(found, "artworks"))
    lines = "\n".join(decorrelated_bn.failure_lines(found))
    assert "d = 64: 3 of 3, gradient of conv1.weight (the earliest after 4 steps)" in lines


def test_plain_svd_fails_where_values_are_equal_and_no_bounded_rule_does():
    # 64 channels of three colors: a kernel of 3 x 3 fills 27 directions, the others are equal.
    torch.manual_seed(0)
    features = torch.zeros(2, 64, 6, 6)
    features[:, :3] = torch.randn(2, 3, 6, 6)
    finite = {}
    for name, row in decorrelated_bn.ROWS.items():
        x = features.clone().requires_grad_()
        row.norm(64, 1e-2)(64)(x).pow(3).sum().backward()
        finite[name] = bool(torch.isfinite(x.grad).all())
    assert not finite["SVD (torch.linalg.eigh)"]
    bounded = ("SVD-PI", "SVD-Clip", "SVD-Taylor", "SVD-Padé", "exact (ours)", "Newton-Schulz")
    assert all(finite[name] for name in bounded)


def test_the_papers_hyperparameters_are_run():
    cells = decorrelated_bn.cells_of_hyperparameters(decorrelated_bn.PLANS["full"], "cifar100")
    assert {(c["eps"], c["row"]) for c in cells} == {
        (1e-4, "SVD-Taylor 19"),
        (1e-2, "SVD-Taylor 19"),
        (1e-2, "SVD-Taylor 9"),
    }
    assert len(cells) == 3 * 8
    assert decorrelated_bn.row_of("SVD-Taylor 19").gradient == wct.Taylor(19)


def test_pca_keeps_what_a_row_says():
    x = torch.randn(4, 64, 8, 8, generator=torch.Generator().manual_seed(0))
    layer = pca_denoising.norm_of("vectors", 8)(64)
    layer(x)
    assert torch.linalg.matrix_rank(layer.projection(layer.covariance(x))[0][0], atol=1e-3) == 8
    plain = pca_denoising.norm_of("methods", "PCA (SVD)")(64)
    ours = pca_denoising.norm_of("methods", "PCA (SVD-Taylor)")(64)
    torch.testing.assert_close(plain(x), ours(x), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("network", conditioning.NETWORKS)
def test_treatments_do_to_the_layer_before_what_they_say(network):
    for row, treatments in conditioning.TREATMENTS.items():
        torch.manual_seed(0)
        cell = {"row": row, "network": network, "width": 1, "depth": 18}
        treated = conditioning.Treated(*conditioning.network_of(cell, 2), treatments)
        optimizer = torch.optim.SGD(treated.groups(), lr=0.1)
        treated.prepare(optimizer)
        pictures = torch.rand(4, 3, 16, 16)
        loss = treated.network(pictures).square().sum()
        (loss + treated.extra() if "OL" in treatments else loss).backward()
        matrix = treated.before.weight.detach().flatten(1)
        singular = torch.linalg.svdvals(matrix)
        if "OW" in treatments:
            torch.testing.assert_close(singular, torch.ones_like(singular), rtol=1e-4, atol=1e-4)
        gradient = torch.linalg.svdvals(treated.weight().grad.flatten(1))
        if "NOG" in treatments:
            assert bool((((gradient - 1).abs() < 1e-3) | (gradient < 1e-3)).all())
        assert optimizer.param_groups[1]["params"][0] is treated.weight()
        optimizer.step()
        assert len(treated.network(pictures)) == 4


def test_condition_numbers_are_of_what_is_decomposed():
    values = torch.tensor([4.0, 2.0, 1.0, 0.0])
    x = torch.linalg.qr(torch.randn(400, 4, dtype=torch.float64))[0]
    x = (x - x.mean(0)) * 20
    x = torch.linalg.solve(torch.linalg.cholesky(torch.cov(x.T, correction=0)), x.T)
    x = (values.double().sqrt()[:, None] * x).view(1, 4, 20, 20)
    layer = wct.ZCANorm2d(4, group_size=4, dtype=torch.float64)
    looks = conditioning.Conditions(layer, 1e-3, 3, every=2)
    for _ in range(3):
        layer(x)
    layer.eval()
    layer(x)
    assert len(looks.records) == 2
    whole, filled = looks.records[0]
    assert whole == pytest.approx(4.001 / 0.001, rel=1e-3)
    assert filled == pytest.approx(4.001 / 1.001, rel=1e-3)


def test_a_wrong_folder_ends_with_its_name_and_2(tmp_path, capsys):
    for module in MODULES:
        work = ["--work", str(tmp_path / "work"), "--out", str(tmp_path / "docs")]
        assert module.main(["--quick", "--data", "cifar10", "--folder", str(tmp_path), *work]) == 2
        assert f"error: {tmp_path}: no cifar10 in it" in capsys.readouterr().err
    (tmp_path / "work" / "runs.jsonl").write_text("what is this\n\n")
    assert module.main(["--quick", *work]) == 2
    assert "runs.jsonl: line 1 is no finished cell" in capsys.readouterr().err


def test_cells_hold_all_that_a_run_depends_on(tmp_path):
    plan = decorrelated_bn.PLANS["quick"]
    cells = Cells(tmp_path / "runs.jsonl")
    first = decorrelated_bn.cells_of("success", plan, "artworks", 1)
    for cell in first:
        cells.keep(cell, {})
    for changed in (
        replace(plan, success=replace(plan.success, width=8)),
        replace(plan, success=replace(plan.success, steps=11)),
        replace(plan, success_eps=1e-3),
        replace(plan, crops=99),
    ):
        other = decorrelated_bn.cells_of("success", changed, "artworks", 1)
        zca = [cell for cell in other if cell["row"] != decorrelated_bn.BATCH_NORM]
        assert not any(cell in cells for cell in zca)
    assert classification.DATA[0] == "artworks"
