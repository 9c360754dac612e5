"""eigh and the matrix powers: values, gradients, second gradients, and how torch runs them."""

import mpmath
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck, gradgradcheck

import wct

BOUNDED = [
    wct.Taylor(9),
    wct.Pade(),
    wct.PadeSurrogate(),
    wct.Clip(),
    wct.PowerIteration(),
    wct.PlainPowerIteration(seed=0),
    wct.Newton(),
    wct.Exact(),
]


def rotated(values: list[float], dtype=torch.float64, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    d = len(values)
    vectors, _ = torch.linalg.qr(torch.randn(d, d, dtype=torch.float64, generator=generator))
    matrix = (vectors * torch.tensor(values, dtype=torch.float64)) @ vectors.mT
    return ((matrix + matrix.mT) / 2).to(dtype)


def weights(*shape: int, dtype=torch.float64) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(*shape, dtype=torch.float64, generator=generator).to(dtype)


def gradient(function, matrix: torch.Tensor) -> torch.Tensor:
    matrix = matrix.detach().clone().requires_grad_()
    (function(matrix) * weights(*matrix.shape, dtype=matrix.dtype)).sum().backward()
    return matrix.grad


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.sampled_from([0.0, 1e-3, 0.5, 0.5, 1.0, 2.0]), min_size=1, max_size=9),
    st.sampled_from([1e-12, 1e-3, 1.0, 1e6]),
    st.sampled_from([torch.float32, torch.float64]),
    st.integers(0, 99),
)
def test_values_and_roots_are_right_for_any_spectrum(values, scale, dtype, seed):
    # Repeats and zeros are likely, with so few values to draw from.
    matrix = rotated([v * scale for v in values], dtype, seed)
    eps = 1e-8 * scale
    found, vectors = wct.eigh(matrix, eps=eps)
    rounding = 40 * torch.finfo(dtype).eps * scale
    expected = torch.tensor(sorted(values, reverse=True), dtype=torch.float64) * scale
    assert (found - expected.clamp_min(eps)).abs().max() <= rounding
    rebuilt = (vectors * found.unsqueeze(-2)) @ vectors.mT
    assert (rebuilt - matrix).abs().max() <= rounding + eps
    root = wct.sqrtm(matrix, eps=eps).double()
    assert (root @ root - matrix.double()).abs().max() <= rounding + 2 * eps


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.sampled_from([0.0, 1e-3, 0.5, 1.0, 2.0]), min_size=1, max_size=9),
    st.sampled_from([1e-12, 1.0, 1e6]),
    st.integers(0, 99),
)
def test_inverse_root_whitens_any_spectrum(values, scale, seed):
    matrix = rotated([(v + 1e-2) * scale for v in values], seed=seed)
    inverse = wct.inv_sqrtm(matrix, eps=1e-8 * scale)
    eye = torch.eye(len(values), dtype=torch.float64)
    torch.testing.assert_close(inverse @ matrix @ inverse, eye, rtol=0, atol=1e-11)


@pytest.mark.parametrize("shape", [(3, 3), (2, 3, 3), (2, 1, 3, 3), (0, 3, 3), (2, 0, 0), (1, 1)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_batch_shape_keeps_its_shape_and_type(shape, dtype):
    batch = torch.eye(shape[-1], dtype=dtype).expand(shape).clone().requires_grad_()
    for result in (wct.sqrtm(batch), wct.inv_sqrtm(batch), wct.eigh(batch)[1]):
        assert result.shape == shape
        assert result.dtype == dtype
    wct.sqrtm(batch).sum().backward()
    assert batch.grad.shape == shape
    assert wct.eigh(batch)[0].shape == shape[:-1]


def test_an_asymmetric_matrix_is_symmetrized():
    matrix = rotated([3, 2, 1])
    skew = weights(3, 3) - weights(3, 3).mT
    torch.testing.assert_close(wct.sqrtm(matrix + skew), wct.sqrtm(matrix))


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (torch.zeros(3, 4), r"must have shape \(\.\.\., d, d\), got \(3, 4\)"),
        (torch.zeros(3), r"must have shape \(\.\.\., d, d\), got \(3,\)"),
        (torch.eye(3, dtype=torch.int64), "must be float32 or float64, got torch.int64"),
        (torch.eye(3, dtype=torch.float16), "must be float32 or float64, got torch.float16"),
    ],
)
def test_a_wrong_shape_or_type_is_refused(matrix, message):
    for function in (wct.eigh, wct.sqrtm, wct.inv_sqrtm, wct.condition_number, wct.newton_schulz):
        with pytest.raises(ValueError, match=message):
            function(matrix)


@pytest.mark.parametrize("eps", [-1e-3, float("nan")])
def test_a_negative_eps_is_refused(eps):
    for function in (wct.eigh, wct.sqrtm, wct.inv_sqrtm):
        with pytest.raises(ValueError, match="eps must not be negative, got"):
            function(torch.eye(2), eps=eps)


def test_an_unknown_solver_is_refused():
    with pytest.raises(ValueError, match="unknown solver 'svd'; there are auto, eigh, eigh_cpu"):
        wct.sqrtm(torch.eye(2), solver="svd")


@pytest.mark.parametrize("exponent", [0.5, -0.5, 1 / 3, -1.0, 2.0])
def test_exact_passes_gradcheck_at_equal_values(exponent):
    matrix = rotated([3, 2, 2, 2, 0.3]).requires_grad_()
    assert gradcheck(lambda m: wct.matrix_power(m, exponent), (matrix,))


@pytest.mark.parametrize("exponent", [0.5, -0.5, 1 / 3, -1.0, 2.0])
@pytest.mark.parametrize("values", [[3, 2, 2, 0.3], [3, 2, 1.99, 1.98], [5, 1, 0.1]])
def test_exact_can_be_differentiated_twice(exponent, values):
    matrix = rotated(values).requires_grad_()
    assert gradgradcheck(lambda m: wct.matrix_power(m, exponent), (matrix,))


def test_analytic_passes_gradcheck_once_and_twice():
    matrix = rotated([3, 2, 1, 0.3]).requires_grad_()

    def invariant(m):
        # A vector's sign is free, so that only what doesn't depend on it can be checked.
        values, vectors = wct.eigh(m, gradient="analytic")
        return values, vectors[:, :1] @ vectors[:, :1].mT, vectors[:, 1] * vectors[0, 1]

    for function in (
        invariant,
        lambda m: wct.sqrtm(m, gradient="analytic"),
        lambda m: wct.inv_sqrtm(m, gradient="analytic"),
    ):
        assert gradcheck(function, (matrix,))
        assert gradgradcheck(function, (matrix,))


@pytest.mark.parametrize(
    "rule", [wct.Taylor(1000), wct.Pade(), wct.Clip(1e10), wct.TopN(4)], ids=lambda rule: rule.name
)
def test_smooth_rules_pass_gradcheck_at_wide_gaps(rule):
    matrix = rotated([8, 4, 2, 1]).requires_grad_()
    assert gradcheck(lambda m: wct.sqrtm(m, gradient=rule), (matrix,))
    assert gradcheck(lambda m: wct.eigh(m, gradient=rule)[1].square(), (matrix,))


def test_newton_is_the_gradient_of_its_iterations():
    matrix = rotated([3, 2, 2, 0.3])
    for iterations in (1, 5, 10):
        for place, function in enumerate((wct.sqrtm, wct.inv_sqrtm)):
            through = gradient(
                lambda m, n=iterations, p=place: wct.newton_schulz(m, iterations=n)[p], matrix
            )
            rule = wct.Newton(iterations)
            ours = gradient(lambda m, f=function, r=rule: f(m, gradient=r), matrix)
            torch.testing.assert_close(ours, through)
    with pytest.raises(ValueError, match=r"exponents 0\.5 and -0\.5 alone, got 2\.0"):
        wct.matrix_power(matrix, 2, gradient="newton")


@pytest.mark.parametrize("rule", [*BOUNDED, wct.TopN(2)], ids=lambda rule: rule.name)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("values", [[1, 1, 1, 1], [2, 1, 1, 1e-9], [0, 0, 0, 0], [1, 0, 0, 0]])
def test_equal_and_zero_values_give_a_finite_gradient(rule, dtype, values):
    if isinstance(rule, wct.TopN):
        # TopN is analytic among what it keeps.
        values = [9, 4, *values[2:]]
    matrix = rotated(values, dtype)
    for function in (wct.sqrtm, wct.inv_sqrtm):
        found = gradient(lambda m, f=function: f(m, gradient=rule, eps=1e-4), matrix)
        assert bool(torch.isfinite(found).all())
    if rule.name not in ("exact", "newton"):
        values, vectors = wct.eigh(matrix, gradient=rule, eps=1e-4)
        assert bool(torch.isfinite((vectors * values.rsqrt().unsqueeze(-2)) @ vectors.mT).all())
        found = gradient(lambda m: wct.eigh(m, gradient=rule, eps=1e-4)[1], matrix)
        assert bool(torch.isfinite(found).all())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradient_goes_straight_through_the_clamp(dtype):
    # l = eps, give or take a rounding, comes with one gradient.
    eye = torch.eye(3, dtype=dtype)
    below, at, above = (
        gradient(lambda m: wct.inv_sqrtm(m, eps=1e-2), 1e-2 * eye * (1 + offset))
        for offset in (-1e-6, 0.0, 1e-6)
    )
    assert at.diagonal().abs().min() > 1
    torch.testing.assert_close(below, at, rtol=1e-4, atol=0)
    torch.testing.assert_close(above, at, rtol=1e-4, atol=0)


@pytest.mark.parametrize("gap", [1.0, 1e-3, 1e-8, 1e-14, 0.0])
def test_exact_inverse_root_gradient_has_no_error_but_rounding(gap):
    # With a diagonal covariance the gradient is D o W, and D is known to 50 digits.
    values = torch.tensor([1 + gap, 1.0, 0.25, 0.01], dtype=torch.float64)
    with mpmath.workdps(50):
        roots = [mpmath.sqrt(mpmath.mpf(float(v))) for v in values]
        true = torch.tensor(
            [[float(-1 / (a * b * (a + b))) for b in roots] for a in roots], dtype=torch.float64
        )
    W = weights(4, 4)
    found = gradient(wct.inv_sqrtm, torch.diag(values))
    torch.testing.assert_close(found, true * (W + W.mT) / 2, rtol=1e-13, atol=1e-13)


def test_the_papers_rules_lose_the_gradient_within_equal_values_and_exact_does_not():
    # K_ij (f_i - f_j) is 0 at l_i = l_j under any finite K; the truth is f'(l) = 1/2.
    eye, W = torch.eye(2, dtype=torch.float64), weights(2, 2)
    assert float(gradient(wct.sqrtm, eye)[0, 1]) == pytest.approx(float(W[0, 1] + W[1, 0]) / 4)
    for name in ("taylor", "pade", "clip"):
        lost = gradient(lambda m, n=name: wct.sqrtm(m, gradient=n), eye)
        assert float(lost[0, 1]) == 0
        torch.testing.assert_close(lost.diagonal(), W.diagonal() / 2)


def test_topn_gives_no_dropped_vector_forward_or_backward():
    matrix = rotated([4, 3, 1e-3, 1e-4]).requires_grad_()
    values, vectors = wct.eigh(matrix, gradient=wct.TopN(2))
    assert torch.equal(vectors[:, 2:], torch.zeros(4, 2, dtype=torch.float64))
    assert torch.linalg.matrix_rank((vectors * values) @ vectors.mT) == 2
    vectors[:, 2:].sum().backward(retain_graph=True)
    assert torch.equal(matrix.grad, torch.zeros_like(matrix))
    vectors[:, :2].sum().backward()
    assert matrix.grad.abs().max() > 0.1


def test_topn_root_has_rank_n_and_is_differentiated_as_such():
    # Eq. 11: V diag(sqrt(l_1), ..., sqrt(l_n), 0, ...) V^T.
    matrix = rotated([4, 3, 0, 0])
    root = wct.sqrtm(rotated([4, 3, 1, 0.5]), gradient=wct.TopN(2))
    assert torch.linalg.matrix_rank(root) == 2
    torch.testing.assert_close(root @ root, rotated([4, 3, 0, 0]))
    inverse = wct.inv_sqrtm(rotated([4, 3, 1, 0.5]), gradient=wct.TopN(2))
    torch.testing.assert_close(inverse @ inverse, rotated([1 / 4, 1 / 3, 0, 0]))

    def truncated(m):
        values, vectors = torch.linalg.eigh((m + m.mT) / 2)
        return (vectors[:, 2:] * values[2:].sqrt()) @ vectors[:, 2:].mT

    split = rotated([4, 3, 1e-9, 0])  # torch divides by the zeros' difference
    true = gradient(truncated, split)
    found = gradient(lambda m: wct.sqrtm(m, gradient=wct.TopN(2), eps=1e-14), matrix)
    torch.testing.assert_close(found, true, rtol=1e-6, atol=1e-6)


def test_roots_agree_with_torchs_autograd_where_that_is_defined():
    matrix = rotated([5, 3, 2, 0.5, 0.1])

    def by_torch(m):
        values, vectors = torch.linalg.eigh((m + m.mT) / 2)
        return (vectors * values.sqrt()) @ vectors.mT

    torch.testing.assert_close(gradient(wct.sqrtm, matrix), gradient(by_torch, matrix))


@pytest.mark.parametrize("name", ["exact", "taylor", "pi", "newton"])
def test_vmap_of_values_and_of_gradients(name):
    batch = torch.stack([rotated([3, 2, 1], seed=seed) for seed in range(4)])

    def root(m):
        return wct.sqrtm(m, gradient=name)

    torch.testing.assert_close(torch.func.vmap(root)(batch), root(batch))
    last = torch.func.vmap(root, in_dims=2, out_dims=2)(batch.movedim(0, 2)).movedim(2, 0)
    torch.testing.assert_close(last, root(batch))
    W = weights(3, 3)
    one = torch.func.grad(lambda m: (root(m) * W).sum())
    for matrix, found in zip(batch, torch.func.vmap(one)(batch), strict=True):
        torch.testing.assert_close(found, gradient(root, matrix))


def test_vmap_of_spectra_and_layers():
    batch = torch.stack([rotated([3, 2, 1], seed=seed) for seed in range(4)])
    values = torch.func.vmap(lambda m: wct.eigh(m)[0])(batch)
    torch.testing.assert_close(values, wct.eigh(batch)[0])
    images = weights(3, 2, 4, 5, 5)
    whitened = torch.func.vmap(lambda x: wct.whiten(x, groups=2))(images)
    torch.testing.assert_close(whitened[1], wct.whiten(images[1], groups=2))


@pytest.mark.filterwarnings("ignore")
def test_compiles_with_graph_breaks():
    matrix = rotated([3, 2, 1])
    compiled = torch.compile(lambda m: 2 * wct.sqrtm(m + 0, gradient="taylor"), backend="aot_eager")
    plain = gradient(lambda m: 2 * wct.sqrtm(m, gradient="taylor"), matrix)
    torch.testing.assert_close(gradient(compiled, matrix), plain)


def test_autocast_leaves_spectra_in_float32():
    matrix = rotated([3, 2, 1], torch.float32).requires_grad_()
    plain = wct.sqrtm(matrix)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = wct.sqrtm(matrix)
        of_half = wct.sqrtm(matrix @ matrix)
        inside.sum().backward()
        values, vectors = wct.eigh(matrix)
    assert torch.equal(inside, plain)
    assert {of_half.dtype, values.dtype, vectors.dtype} == {torch.float32}
    within, matrix.grad = matrix.grad, None
    plain.sum().backward()
    assert torch.equal(within, matrix.grad)
