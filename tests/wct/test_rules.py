"""The coefficients K of every rule, against the papers' numbers and their own bounds."""

import math

import mpmath
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import wct
from benchmarks.spectral_tables import EPS, PAPER_PADE, PAPER_TAYLOR, RATIOS
from wct._rules import RULES, power_differences

spectra = st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=12).map(
    lambda values: torch.tensor(sorted(values, reverse=True), dtype=torch.float64)
)
with_repeats = st.tuples(spectra, st.integers(1, 3)).map(
    lambda drawn: drawn[0].repeat_interleave(drawn[1])
)


def of_ratio(rule: wct.Rule, ratio: float) -> float:
    """What the rule makes of 1/(1 - ratio)."""
    return float(rule.coefficients(torch.tensor([1.0, ratio], dtype=torch.float64))[0, 1])


def third_column(rule: wct.Rule, values: tuple[float, ...]) -> tuple[float, float]:
    K = rule.coefficients(torch.tensor(values, dtype=torch.float64))
    return float(K[0, 2]), float(K[1, 2])


def test_taylor_gives_the_papers_example():
    # Eq. 61 of Robust Differentiable SVD.
    first, second = third_column(wct.Taylor(9), (0.02, 0.01, 0.01))
    assert first == pytest.approx(99.90, abs=5e-3)
    assert second == pytest.approx(1000, rel=1e-12)


def test_clip_gives_the_papers_example():
    # Eq. 60, with the infinity clipped.
    assert third_column(wct.Clip(100), (0.02, 0.01, 0.01)) == pytest.approx((100, 100))


@pytest.mark.parametrize(("rule", "angle"), [(wct.Taylor(9), 5.71), (wct.Clip(100), 45.0)])
def test_angle_to_the_true_column_is_the_papers(rule, angle):
    # Eqs. 49, 50, 57 and 59: the true third column stands at 90 degrees.
    first, second = third_column(rule, (0.02, 0.01, 0.01))
    assert 90 - math.degrees(math.atan2(second, first)) == pytest.approx(angle, abs=5e-3)


def test_taylor_angle_vanishes_at_a_dominant_value():
    # Eq. 54: -0.06 degrees at q2 = q3 = 0.01.
    first, second = third_column(wct.Taylor(9), (1.0, 0.01, 0.01))
    assert 90 - math.degrees(math.atan2(second, first)) == pytest.approx(0.06, abs=5e-3)


def test_taylor_keeps_the_direction_of_equal_values():
    # Eqs. 45 and 46.
    assert third_column(wct.Taylor(9), (0.5, 0.5, 0.5)) == pytest.approx((20, 20))


@pytest.mark.parametrize("degree", PAPER_TAYLOR)
def test_taylor_error_is_the_papers_where_the_remainder_dominates(degree):
    for ratio, paper in zip(RATIOS, PAPER_TAYLOR[degree], strict=True):
        error = abs(of_ratio(wct.Taylor(degree), ratio) - 1 / (1 - ratio))
        remainder = ratio ** (degree + 1) / (1 - ratio)
        if remainder > 1e-14:
            assert error == pytest.approx(paper, rel=0.2)
            assert error == pytest.approx(remainder, rel=5e-2)
        else:
            # At most a rounding of the result, which the paper's averages are below.
            assert error <= max(10 * paper, 2.3e-16 / (1 - ratio))


PADES = (wct.Pade, wct.PadeSurrogate)


@pytest.mark.parametrize("rule", PADES)
@pytest.mark.parametrize("degree", PAPER_PADE)
def test_pade_error_is_at_most_the_papers(degree, rule):
    for ratio, paper in zip(RATIOS, PAPER_PADE[degree], strict=True):
        assert abs(of_ratio(rule(degree), ratio) - 1 / (1 - ratio)) <= paper


@pytest.mark.parametrize("degree", [0, 1, 2, 5, 20])
def test_pade_is_what_the_linear_system_gives_with_enough_digits(degree):
    # Eq. 19 for the moments of s spread evenly over [1 - width, 1]: [N - 1/N], or [0/0].
    with mpmath.workdps(1200):
        width = mpmath.mpf(EPS) / 2**13
        above = degree // 2 + 1 if degree else 0
        series = [(1 - (1 - width) ** (i + 1)) / (width * (i + 1)) for i in range(2 * above + 1)]
        assert all(float(moment) == 1 for moment in series)
        q = [mpmath.mpf(1)]
        if above:
            rows = [[series[above + i - j] for j in range(1, above + 1)] for i in range(above)]
            right = [-series[above + i] for i in range(above)]
            q += list(mpmath.lu_solve(mpmath.matrix(rows), mpmath.matrix(right)))
        p = [mpmath.fsum(q[j] * series[i - j] for j in range(i + 1)) for i in range(max(1, above))]
        for gap in (1.0, 0.1, 1e-3, 2.0**-40, 2.0**-52, 0.0):
            r = 1 - mpmath.mpf(gap)
            true = mpmath.polyval(p[::-1], r) / mpmath.polyval(q[::-1], r)
            assert of_ratio(wct.Pade(degree), 1 - gap) == pytest.approx(float(true), rel=1e-10)


def test_pade_of_each_degree_is_its_own():
    # 2 (1 + 1/2 + ... + 1/N) / width at r = 1, N = degree / 2 + 1; a constant has degree 0.
    assert of_ratio(wct.Pade(0), 0.5) == of_ratio(wct.Pade(0), 1.0) == 1
    for degree in (1, 2, 50, 100, 300):
        harmonic = math.fsum(1 / k for k in range(1, degree // 2 + 2))
        found = of_ratio(wct.Pade(degree), 1.0)
        assert found == pytest.approx(2 * harmonic * 2**13 / EPS, rel=1e-10)
        assert found <= 6.48e20  # the paper's largest


def test_bounds_at_the_smallest_values_are_the_papers():
    # Tables 7 and 10, at l_i = l_j = EPS.
    equal = torch.tensor([EPS, EPS], dtype=torch.float64)
    assert float(wct.Taylor(100).coefficients(equal)[0, 1]) == pytest.approx(4.55e17, rel=1e-3)
    assert float(wct.Clip(1e10).coefficients(equal)[0, 1]) == pytest.approx(1e10)
    assert 0 < wct.Pade(100).coefficients(equal)[0, 1] <= 6.00e36
    kept_and_dropped = torch.tensor([1.0, EPS, EPS], dtype=torch.float64)
    between = float(wct.TopN(2).coefficients(kept_and_dropped)[1, 2])
    assert between == pytest.approx(4.50e15, rel=1e-3)
    assert wct.Analytic().coefficients(equal)[0, 1] == math.inf


@pytest.mark.parametrize("rule", [*(r(100) for r in PADES), wct.Pade(7)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_pade_is_positive_finite_and_grows_up_to_one(dtype, rule):
    eps = torch.finfo(dtype).eps
    near = 1 - torch.logspace(math.log10(eps), 0, 4000, dtype=torch.float64).flip(0)
    ratios = torch.cat((near, torch.ones(1))).to(dtype).clamp_min(1e-6).unique()
    pairs = torch.stack((torch.ones_like(ratios), ratios), -1)
    K = rule.coefficients(pairs)[:, 0, 1]
    assert bool(torch.isfinite(K).all())
    assert bool((K >= 1).all())
    assert bool((K.diff() >= 0).all())
    # What is let through of the true gradient, without the division.
    shares = rule.shares(pairs)[:, 0, 1]
    torch.testing.assert_close(shares, K * (1 - ratios))


@pytest.mark.parametrize("rule", PADES)
def test_pade_at_equal_values_leaves_room_for_a_gradient_in_float32(rule):
    K = rule(100).coefficients(torch.full((2,), 1e-10))
    assert K[0, 1] * 1e15 < torch.finfo(torch.float32).max


@pytest.mark.parametrize("degree", [0, 1, 9, 100])
@pytest.mark.parametrize("ratio", [1e-3, 0.5, 0.9, 1 - 1e-6, 1 - 1e-12, 1.0])
def test_taylor_closed_form_is_its_sum(degree, ratio):
    loop = math.fsum(ratio**k for k in range(degree + 1))
    assert of_ratio(wct.Taylor(degree), ratio) == pytest.approx(loop, rel=1e-13)


@settings(max_examples=60, deadline=None)
@given(
    with_repeats,
    st.sampled_from([wct.Taylor(9), wct.Pade(), wct.PadeSurrogate(), wct.Clip(), wct.Taylor(100)]),
)
def test_smooth_coefficients_are_finite_and_skew(values, rule):
    K = rule.coefficients(values)
    assert bool(torch.isfinite(K).all())
    assert torch.equal(K, -K.mT)
    assert bool((K.triu(1) >= 0).all())


@settings(max_examples=60, deadline=None)
@given(with_repeats, st.integers(0, 30))
def test_taylor_is_below_its_bound_and_below_the_truth(values, degree):
    K = wct.Taylor(degree).coefficients(values).triu(1)
    assert bool((K * values.unsqueeze(-1) <= (degree + 1) * (1 + 1e-12)).all())
    gaps = (values.unsqueeze(-1) - values.unsqueeze(-2)).triu(1)
    assert bool((K * gaps <= 1 + 1e-12).all())


@settings(max_examples=60, deadline=None)
@given(with_repeats, st.sampled_from([0.5, -0.5, -1.0, 1 / 3, 2.0, -2.5]))
def test_exact_differences_lie_between_the_derivatives(values, exponent):
    # The mean value theorem, at equal and at far values.
    D = power_differences(values, exponent)
    slopes = exponent * values ** (exponent - 1)
    low = torch.minimum(slopes.unsqueeze(-1), slopes.unsqueeze(-2))
    high = torch.maximum(slopes.unsqueeze(-1), slopes.unsqueeze(-2))
    room = 1e-12 * high.abs().maximum(low.abs())
    assert bool((low - room <= D).all())
    assert bool((high + room >= D).all())


def test_exact_differences_agree_with_closed_forms_at_far_values():
    values = torch.tensor([1e12, 1.0, 1e-12], dtype=torch.float64)
    rows, columns = values.unsqueeze(-1), values.unsqueeze(-2)
    torch.testing.assert_close(power_differences(values, -1.0), -1 / (rows * columns))
    torch.testing.assert_close(power_differences(values, 2.0), rows + columns)


def test_exact_is_bounded_by_half_the_inverse_root_of_eps():
    values = torch.tensor([1e3, 1.0, 1e-4, 1e-4], dtype=torch.float64)
    largest = float(wct.Exact().divided_differences(values, 0.5).max())
    assert largest == pytest.approx(0.5 / 1e-2)
    largest = float(wct.Exact().divided_differences(values, -0.5).abs().max())
    assert largest == pytest.approx(0.5 / 1e-4**1.5)


def test_topn_takes_dropped_values_as_zero():
    K = wct.TopN(2).coefficients(torch.tensor([4.0, 2.0, 1.0, 0.5], dtype=torch.float64))
    expected = torch.tensor(
        [[0, 1 / 2, 1 / 4, 1 / 4], [-1 / 2, 0, 1 / 2, 1 / 2], [-1 / 4, -1 / 2, 0, 0]],
        dtype=torch.float64,
    )
    torch.testing.assert_close(K[:3], expected)
    torch.testing.assert_close(K, -K.mT)


def test_topn_needs_n_values():
    with pytest.raises(ValueError, match="at least 5 eigenvalues, got 4"):
        wct.TopN(5).coefficients(torch.ones(4))
    for function in (wct.sqrtm, wct.eigh):
        with pytest.raises(ValueError, match="at least 5 eigenvalues, got 4"):
            function(torch.eye(4), gradient=wct.TopN(5))


@pytest.mark.parametrize(
    "make",
    [
        lambda: wct.Clip(0),
        lambda: wct.Taylor(-1),
        lambda: wct.Pade(-1),
        lambda: wct.PadeSurrogate(-1),
        lambda: wct.TopN(0),
        lambda: wct.Newton(0),
        lambda: wct.PowerIteration(0),
        lambda: wct.PowerIteration(energy=1.0),
        lambda: wct.Taylor(9).coefficients(torch.tensor(1.0)),
    ],
)
def test_settings_out_of_range_are_refused(make):
    with pytest.raises(ValueError, match="got"):
        make()


def test_every_name_is_known():
    names = (
        *("analytic", "clip", "taylor", "pade", "pade_surrogate"),
        *("pi", "pi_plain", "topn", "newton", "exact"),
    )
    assert [wct.as_rule(name).name for name in names] == list(names)
    assert wct.as_rule(wct.Taylor(3)) == wct.Taylor(3)
    with pytest.raises(ValueError, match="unknown gradient rule 'svd'; there are"):
        wct.as_rule("svd")


def test_a_rule_of_ones_own_is_known_by_its_name():
    class Half(wct.Rule):
        name = "half"

        def coefficients(self, values):
            return wct.Taylor(0).coefficients(values) / 2

    try:
        matrix = torch.diag(torch.tensor([2.0, 1.0])).requires_grad_()
        wct.eigh(matrix, gradient="half")[1].abs().sum().backward()
    finally:
        del RULES["half"]
    assert bool(torch.isfinite(matrix.grad).all())


@pytest.mark.parametrize("name", ["exact", "newton"])
def test_rules_of_matrix_functions_have_no_coefficients(name):
    with pytest.raises(ValueError, match=f"the rule '{name}' differentiates"):
        wct.eigh(torch.eye(3), gradient=name)
