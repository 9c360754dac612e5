"""The sweep over poolings: every one runs, the hybrids share their beginning, tables are whole."""

import numpy as np
import pytest
import skimage.data
import torch

from app.train_classifier import phases
from benchmarks import gcp_tables
from models.backbones import EfficientNetLite0

EPOCHS = 4


@pytest.fixture(scope="module")
def maps() -> gcp_tables.Maps:
    """Backbone maps of eight pieces of each of two real pictures."""
    pieces = []
    for pixels in (skimage.data.astronaut(), skimage.data.coffee()):
        for i in range(8):
            top, left = 60 * (i // 4), 90 * (i % 4)
            pieces.append(pixels[top : top + 96, left : left + 96])
    pictures = torch.from_numpy(np.stack(pieces).astype(np.float32)).permute(0, 3, 1, 2)
    with torch.no_grad():
        result = EfficientNetLite0()(pictures / 127.5 - 1)
    return gcp_tables.Maps(result, torch.arange(16) // 8)


@pytest.fixture(scope="module")
def runs(maps) -> dict[str, dict[str, gcp_tables.Trained]]:
    return gcp_tables.sweep(maps, maps, 0, epochs=EPOCHS, reduce=5, batch=8)


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


def test_a_seed_gives_the_same_runs(maps, runs):
    again = gcp_tables.sweep(maps, maps, 0, epochs=EPOCHS, reduce=5, batch=8)
    assert again == runs


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
            **{"train_pictures": 16, "test_pictures": 16, "reduce": 5},
            **{"epochs": EPOCHS, "seeds": 1, "batch": 8},
        },
        "errors": {
            kind: {name: gcp_tables.summary([run]) for name, run in part.items()}
            for kind, part in runs.items()
        },
        "seconds": gcp_tables.times(maps, 5, 8, rounds=1),
    }
    text = "\n".join(gcp_tables.lines(report))
    for name in gcp_tables.RULES:
        assert text.count(f"\n{name}") >= 3  # errors, condition numbers, times
    assert "points better" in text


def test_a_gradient_that_is_not_finite_is_told():
    broken = gcp_tables.Trained([0.2], [5.0], finite=False)
    assert gcp_tables.summary([broken])["final"] is None
