"""The sweep over poolings: every one runs, the hybrids share their beginning, tables are whole."""

import numpy as np
import pytest
import skimage.data
import torch

import wct
from app.train_classifier import phases
from benchmarks import gcp_tables
from models.backbones import EfficientNetLite0

EPOCHS = 4


@pytest.fixture(scope="module")
def maps() -> gcp_tables.Maps:
    """Maps before the backbone's last stage, of eight pieces of each of two real pictures."""
    pieces = []
    for pixels in (skimage.data.astronaut(), skimage.data.coffee()):
        for i in range(8):
            top, left = 60 * (i // 4), 90 * (i % 4)
            pieces.append(pixels[top : top + 96, left : left + 96])
    pictures = torch.from_numpy(np.stack(pieces).astype(np.float32)).permute(0, 3, 1, 2)
    network = EfficientNetLite0().network
    with torch.no_grad():
        result = network[: len(network) - 1](pictures / 127.5 - 1)
    return gcp_tables.Maps(result, torch.arange(16) // 8)


def swept(maps, dtype="float64"):
    return gcp_tables.sweep(maps, maps, 0, epochs=EPOCHS, reduce=5, batch=8, dtype=dtype)


@pytest.fixture(scope="module")
def runs(maps) -> dict[str, dict[str, gcp_tables.Trained]]:
    return swept(maps)


def test_every_pooling_is_trained_to_the_end(runs):
    assert set(runs["standalone"]) == {
        gcp_tables.AVERAGE,
        gcp_tables.NEWTON_SCHULZ,
        *gcp_tables.RULES,
    }
    assert set(runs["hybrid"]) == set(gcp_tables.RULES)
    for part in runs.values():
        for run in part.values():
            assert run.finite and len(run.errors) == EPOCHS


def test_hybrids_begin_with_newton_schulz_and_go_on_apart(runs):
    switch = [phase.solver for phase in phases(EPOCHS, True, "eigh")].index("eigh")
    common = runs["standalone"][gcp_tables.NEWTON_SCHULZ].conditions
    for run in runs["hybrid"].values():
        assert run.conditions[:switch] == common[:switch]
    # Newton-Schulz's own run was not touched by the forks.
    assert len(common) == EPOCHS and common[switch] != pytest.approx(common[0])


def test_rows_can_be_told_apart(maps):
    # More channels than positions: the worst covariance of a batch is singular but for rounding.
    stage = gcp_tables.last_stage()
    channels = gcp_tables.stage_channels(stage, maps)
    outputs, conditions = {}, {}
    for name in (gcp_tables.NEWTON_SCHULZ, gcp_tables.MPN_COV, *gcp_tables.RULES):
        torch.manual_seed(0)
        head = gcp_tables.Head(stage, channels, 2, 64, name, "float64")
        features = stage(maps.maps)
        outputs[name] = head.pool(features)
        covariance = head.pool.covariance(features).detach()
        conditions[name] = float(wct.condition_number(covariance).amax())
        outputs[name].sum().backward()
    assert min(conditions.values()) > 1e13
    plain, iterated = (outputs[name] for name in (gcp_tables.MPN_COV, gcp_tables.NEWTON_SCHULZ))
    assert (plain - iterated).abs().max() > 1e-3 * plain.abs().max()
    # Not normalized: twice the features make twice the root.
    pool = gcp_tables.Head(stage, channels, 2, 64, gcp_tables.MPN_COV, "float64").pool
    torch.testing.assert_close(pool(2 * features), 2 * pool(features), rtol=1e-4, atol=1e-4)


def test_the_last_stage_is_trained_and_the_shared_one_is_not(maps):
    stage = gcp_tables.last_stage()
    channels = gcp_tables.stage_channels(stage, maps)
    before = [p.clone() for p in stage.parameters()]
    head = gcp_tables.Head(stage, channels, 2, 5, "SVD-Taylor", "float32")
    gcp_tables.Training(head, maps, maps, 8, 0, 1.0).epoch(phases(1, False, "eigh")[0])
    assert all(torch.equal(a, b) for a, b in zip(before, stage.parameters(), strict=True))
    moved = [not torch.equal(a, b) for a, b in zip(before, head.stage.parameters(), strict=True)]
    assert any(moved)


def test_kept_runs_are_read_and_others_are_not(tmp_path, runs):
    path = tmp_path / "seed0.json"
    first = gcp_tables.kept_sweep(path, {"epochs": 4}, lambda: runs)

    def never():
        raise AssertionError

    assert gcp_tables.kept_sweep(path, {"epochs": 4}, never) == first
    with pytest.raises(AssertionError):
        gcp_tables.kept_sweep(path, {"epochs": 5}, never)


def test_the_tables_have_a_row_a_pooling(maps, runs):
    report = {
        "settings": {
            **{"train_pictures": 16, "test_pictures": 16, "reduce": 5, "positions": 36},
            **{"epochs": EPOCHS, "seeds": 1, "batch": 8, "linear_shares": [1.0, 4.0]},
        },
        "errors": {
            "float64": {
                kind: {name: gcp_tables.summary([run]) for name, run in part.items()}
                for kind, part in runs.items()
            }
        },
        "seconds": gcp_tables.times(maps, 5, 8, rounds=1),
    }
    text = "\n".join(gcp_tables.lines(report))
    for name in gcp_tables.RULES:
        assert text.count(f"\n{name}") >= 3  # errors, condition numbers, times
    assert "0 of 1" in text and "median of a batch's worst condition number" in text


def test_what_is_not_finite_is_counted_and_infinite_numbers_are_kept():
    inf = float("inf")
    broken = gcp_tables.Trained([0.2, float("nan")], [[5.0, inf], [inf]], finite=False)
    fine = gcp_tables.Trained([0.4, 0.1], [[3.0, 4.0], [7.0]])
    found = gcp_tables.summary([broken, fine])
    assert (found["runs"], found["diverged"]) == (2, 1)
    assert found["final"] == pytest.approx(10) and found["best"] == pytest.approx(10)
    assert found["conditions"] == [(4.0, 0.25), (7.0, 0.5)]
    assert gcp_tables.summary([broken])["final"] is None


def test_a_rate_is_never_at_the_end_of_what_was_tried(maps, monkeypatch):
    tried = []

    class Training:
        def __init__(self, head, train, test, batch, seed, share):
            tried.append(share)
            self.share, self.result = share, gcp_tables.Trained([], [])

        def epoch(self, phase):
            self.result.errors.append(abs(self.share - 150.0))

    monkeypatch.setattr(gcp_tables, "Training", Training)
    best = gcp_tables.best_share(maps, gcp_tables.NEWTON_SCHULZ, 1, 5, 8)
    assert best == 160.0 and max(tried) > best and len(set(tried)) == len(tried)
