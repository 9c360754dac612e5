"""Condition numbers, effective smoothness, and what a recorder writes down."""

import math

import pytest
import torch
from torch import nn

import wct


def test_condition_number_is_the_ratio_of_extreme_values():
    batch = torch.diag_embed(torch.tensor([[4.0, 2.0, 1.0], [3.0, 3.0, 3.0], [-8.0, 2.0, 1.0]]))
    torch.testing.assert_close(wct.condition_number(batch), torch.tensor([4.0, 1.0, 8.0]))


def test_a_singular_matrix_has_an_infinite_condition_number():
    assert float(wct.condition_number(torch.zeros(3, 3))) == math.inf
    assert float(wct.condition_number(torch.diag(torch.tensor([1.0, 0.0])))) == math.inf
    assert wct.condition_number(torch.zeros(0, 3, 3)).shape == (0,)
    with pytest.raises(ValueError, match=r"no eigenvalues in a covariance of shape \(0, 0\)"):
        wct.condition_number(torch.zeros(0, 0))


def test_beta_of_a_quadratic_is_the_curvature_along_its_gradient():
    curvatures = torch.tensor([5.0, 1.0])
    for at, beta in ((torch.tensor([1.0, 0.0]), 5.0), (torch.tensor([0.0, 2.0]), 1.0)):
        found = wct.beta_smoothness(lambda x: (curvatures * x * x).sum() / 2, at)
        assert float(found) == pytest.approx(beta, rel=1e-3)


def test_beta_takes_the_worst_of_its_steps():
    # |x|^3 bends more, the farther a step leads from 0.
    def loss(x):
        return -x.abs().pow(3).sum()

    near = wct.beta_smoothness(loss, torch.tensor([1.0]), steps=(1e-3,))
    far = wct.beta_smoothness(loss, torch.tensor([1.0]), steps=(1e-3, 0.5))
    assert float(near) == pytest.approx(6, rel=1e-2)
    assert float(far) == pytest.approx(7.5)  # (3 (1 + s)^2 - 3) / s at s = 0.5


def test_beta_is_zero_where_there_is_no_gradient_and_refuses_no_steps():
    assert float(wct.beta_smoothness(lambda x: (x * x).sum(), torch.zeros(2))) == 0
    for steps in ((), (0.1, 0.0)):
        with pytest.raises(ValueError, match="steps must be positive"):
            wct.beta_smoothness(torch.sum, torch.zeros(2), steps=steps)


def test_a_bounded_rule_is_smoother_than_the_analytic_one_at_close_values():
    # Fig. 2 and 4 of "Why Approximate Matrix Square Root Outperforms Accurate SVD".
    vectors, _ = torch.linalg.qr(
        torch.randn(4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    )
    values = torch.tensor([1.0, 1.0 - 1e-9, 0.5, 0.1], dtype=torch.float64)
    at = (vectors * values) @ vectors.mT
    target = torch.arange(4, dtype=torch.float64)

    def beta(name):
        return float(
            wct.beta_smoothness(
                lambda m: (wct.eigh(m, gradient=name)[1][:, 0].abs() * target).sum(), at
            )
        )

    assert beta("taylor") < 1e-2 * beta("analytic")


@pytest.mark.parametrize(
    "layer",
    [
        wct.Whiten(groups=2),
        wct.ZCANorm2d(8, group_size=4),
        wct.PCADenoise2d(8),
        wct.CovariancePool(8, reduce=4),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_recorder_writes_down_the_covariance_and_the_gradient(layer):
    x = torch.randn(2, 8, 5, 5, generator=torch.Generator().manual_seed(0), requires_grad=True)
    with wct.SpectrumRecorder(layer) as recorder:
        layer(x).square().sum().backward()
    layer(x)
    assert len(recorder.records) == 1
    record = recorder.records[0]
    values = torch.linalg.eigvalsh(layer.covariance(x)).detach()
    assert record["call"] == 0
    assert record["largest"] == pytest.approx(float(values.max()), rel=1e-4)
    assert record["smallest"] == pytest.approx(float(values.min()), rel=1e-3)
    ascending = values.reshape(-1, values.shape[-1])
    assert record["second"] == pytest.approx(float(ascending[:, -2].max()), rel=1e-4)
    nearest = float((ascending[:, -1] / ascending[:, -2]).min())
    assert record["first_ratio"] == pytest.approx(nearest, rel=1e-4)
    worst = float(wct.condition_number(layer.covariance(x.detach())).amax())
    assert record["condition_number"] == pytest.approx(worst, rel=1e-3)
    assert record["gradient"] == pytest.approx(float(x.grad.abs().max()))


def test_recorder_leaves_the_layer_as_it_is_and_can_skip_calls():
    layer = wct.ZCANorm2d(8, group_size=4)
    x = torch.randn(2, 8, 5, 5)
    expected = layer(x)
    layer.reset_running_stats()
    recorder = wct.SpectrumRecorder(layer, every=2)
    for _ in range(5):
        assert torch.equal(layer(x), expected)
    recorder.remove()
    assert [record["call"] for record in recorder.records] == [0, 2, 4]
    assert int(layer.num_batches_tracked) == 5


def test_recorder_finds_the_first_two_values_of_zeros_alike():
    layer = wct.Whiten(groups=1)
    with wct.SpectrumRecorder(layer) as recorder:
        layer(torch.zeros(1, 3, 4, 4))
        layer(torch.randn(1, 1, 4, 4))  # one channel has no second value
    assert [record["first_ratio"] for record in recorder.records] == [1.0, 1.0]


def test_solver_failures_are_counted(monkeypatch):
    before, eigh, calls = wct.solver_failures(), torch.linalg.eigh, []

    def stubborn(matrix):
        calls.append(matrix)
        if len(calls) == 1:
            raise torch.linalg.LinAlgError("no convergence")
        return eigh(matrix)

    monkeypatch.setattr(torch.linalg, "eigh", stubborn)
    wct.sqrtm(torch.eye(3))
    wct.sqrtm(torch.eye(3))
    assert wct.solver_failures() == before + 1


def test_recorder_refuses_what_it_cannot_record():
    with pytest.raises(ValueError, match=r"Linear has no covariance\(features\)"):
        wct.SpectrumRecorder(nn.Linear(2, 2))
    with pytest.raises(ValueError, match="every must be at least 1, got 0"):
        wct.SpectrumRecorder(wct.Whiten(), every=0)
