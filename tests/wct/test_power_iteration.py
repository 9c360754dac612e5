"""Alg. 1's gradient: its closed form is its loop, and its dominant vector Taylor's."""

import pytest
import torch

import wct


def covariance(*values: float) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    d = len(values)
    vectors, _ = torch.linalg.qr(torch.randn(d, d, dtype=torch.float64, generator=generator))
    return (vectors * torch.tensor(values, dtype=torch.float64)) @ vectors.mT


def weights(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def gradient(loss, matrix: torch.Tensor) -> torch.Tensor:
    matrix = matrix.clone().requires_grad_()
    loss(matrix).backward()
    return matrix.grad


def of_power(exponent: float, rule: wct.Rule):
    def loss(m):
        return (wct.matrix_power(m, exponent, gradient=rule) * weights(*m.shape[-2:])).sum()

    return loss


def of_spectrum(rule: wct.Rule):
    def loss(m):
        values, vectors = wct.eigh(m, gradient=rule)
        return (vectors * weights(*m.shape)).sum() + values @ weights(m.shape[0])

    return loss


@pytest.mark.parametrize("iterations", [1, 2, 10])
def test_dominant_vector_has_taylors_gradient(iterations):
    # Section 3.3 of Robust Differentiable SVD.
    matrix = covariance(3, 2.5, 1, 0.5)
    closed, loop, taylor = (
        gradient(lambda m, r=rule: wct.eigh(m, gradient=r)[1][:, 0] @ weights(4), matrix)
        for rule in (
            wct.PowerIteration(iterations),
            wct.PowerIteration(iterations, loop=True),
            wct.Taylor(iterations - 1),
        )
    )
    torch.testing.assert_close(closed, taylor)
    torch.testing.assert_close(loop, taylor)


@pytest.mark.parametrize("iterations", [1, 2, 5, 19])
def test_closed_form_is_the_loop_with_its_deflation(iterations):
    matrix = covariance(3, 2, 1.5, 1, 0.3)
    closed = wct.PowerIteration(iterations, energy=0.0)
    loop = wct.PowerIteration(iterations, energy=0.0, loop=True)
    for exponent in (0.5, -0.5):
        torch.testing.assert_close(
            gradient(of_power(exponent, closed), matrix),
            gradient(of_power(exponent, loop), matrix),
            rtol=1e-9,
            atol=1e-9,
        )
    torch.testing.assert_close(
        gradient(of_spectrum(closed), matrix),
        gradient(of_spectrum(loop), matrix),
        rtol=1e-9,
        atol=1e-9,
    )


@pytest.mark.parametrize("loop", [False, True])
def test_forward_and_backward_keep_the_same_set(loop):
    # gamma_3 = 1 >= 0.9999: Alg. 1 stops at the last value, whatever it is.
    matrix = torch.diag(torch.tensor([1.0, 0.5, 0.25], dtype=torch.float64)).requires_grad_()
    rule = wct.PowerIteration(200, loop=loop)
    inverse = wct.inv_sqrtm(matrix, gradient=rule)
    torch.testing.assert_close(
        inverse, torch.diag(torch.tensor([1.0, 2**0.5, 0.0], dtype=torch.float64))
    )
    inverse.trace().backward()
    slopes = torch.tensor([-0.5, -(2**0.5), 0.0], dtype=torch.float64)
    torch.testing.assert_close(matrix.grad, torch.diag(slopes))


@pytest.mark.parametrize("loop", [False, True])
@pytest.mark.parametrize("exponent", [0.5, -0.5])
@pytest.mark.parametrize("energy", [0.0, 1e-4, 0.2])
def test_gradient_is_that_of_its_own_forward(loop, exponent, energy):
    # With as many iterations as the gaps need, against differences of the forward pass.
    rule = wct.PowerIteration(300, energy=energy, loop=loop)
    matrix = covariance(3, 2, 1, 0.5).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda m: wct.matrix_power(m, exponent, gradient=rule), (matrix,)
    )


def test_spectrum_gives_zeros_for_what_the_power_drops():
    matrix = covariance(3, 2, 1, 0.5)
    values, vectors = wct.eigh(matrix, gradient="pi")
    torch.testing.assert_close(values, torch.tensor([3, 2, 1, 0.5], dtype=torch.float64))
    assert torch.equal(vectors[:, 3], torch.zeros(4, dtype=torch.float64))
    by_hand = (vectors * values.rsqrt()) @ vectors.mT
    torch.testing.assert_close(by_hand, wct.inv_sqrtm(matrix, gradient="pi"))


def test_values_at_the_eps_of_the_call_are_dropped():
    matrix = covariance(3, 2, 0.02, 0.01)
    rule = wct.PowerIteration(energy=0.0)
    assert torch.linalg.matrix_rank(wct.inv_sqrtm(matrix, gradient=rule)) == 4
    assert torch.linalg.matrix_rank(wct.inv_sqrtm(matrix, gradient=rule, eps=0.03)) == 2
    own = wct.PowerIteration(energy=0.0, eps=2.5)
    assert torch.linalg.matrix_rank(wct.inv_sqrtm(matrix, gradient=own)) == 1
    # As a layer hands its eps on: a channel that is constant has the value eps, and is dropped.
    features = torch.zeros(1, 3, 4, 4, dtype=torch.float64)
    features[0, :2] = torch.randn(
        2, 4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )
    _, spread = wct.mean_and_covariance(features, 1)
    whitening = wct.whitening_matrix(spread, eps=1e-3, gradient=rule)
    assert torch.linalg.matrix_rank(whitening[0, 0]) == 2


def test_plain_iterations_find_separate_vectors_and_their_true_gradient():
    rule = wct.PlainPowerIteration(100, seed=0)
    matrix = covariance(8, 4, 2, 1)
    for exponent in (0.5, -0.5):
        torch.testing.assert_close(
            wct.matrix_power(matrix, exponent, gradient=rule), wct.matrix_power(matrix, exponent)
        )
        torch.testing.assert_close(
            gradient(of_power(exponent, rule), matrix),
            gradient(of_power(exponent, wct.Exact()), matrix),
        )
    values, vectors = wct.eigh(matrix, gradient=rule)
    expected = wct.eigh(matrix)
    torch.testing.assert_close(values, expected[0])
    torch.testing.assert_close((vectors.mT @ expected[1]).abs(), torch.eye(4, dtype=torch.float64))


def test_plain_iterations_are_differentiated_as_they_are_made():
    # Too few to converge: the gradient is still the forward pass's own.
    rule = wct.PlainPowerIteration(2, seed=3)
    matrix = covariance(3, 2.5, 2.2).requires_grad_()
    assert torch.autograd.gradcheck(lambda m: wct.sqrtm(m, gradient=rule), (matrix,))
    apart = wct.sqrtm(matrix, gradient=rule) - wct.sqrtm(matrix)
    assert apart.abs().max() > 1e-2


def test_plain_iterations_start_elsewhere_in_each_call():
    matrix = covariance(3, 2.5, 2.2)
    torch.manual_seed(0)
    first, second = (wct.sqrtm(matrix, gradient=wct.PlainPowerIteration(2)) for _ in range(2))
    assert (first - second).abs().max() > 1e-3
    torch.manual_seed(0)
    assert torch.equal(wct.sqrtm(matrix, gradient=wct.PlainPowerIteration(2)), first)


def test_plain_iterations_refuse_what_they_have_not():
    with pytest.raises(ValueError, match="iterations must be at least 1, got 0"):
        wct.PlainPowerIteration(0)
    with pytest.raises(ValueError, match="no coefficients"):
        wct.PlainPowerIteration().coefficients(torch.ones(2))
    with pytest.raises(ValueError, match="newton_schulz finds no eigenvalues"):
        wct.sqrtm(torch.eye(2), gradient="pi_plain", solver="newton_schulz")
    with pytest.raises(ValueError, match="is not finite"):
        wct.sqrtm(torch.full((2, 2), torch.nan), gradient="pi_plain")


def test_many_iterations_come_to_the_true_gradient():
    matrix = covariance(3, 2, 1, 0.5)
    many = wct.PowerIteration(400, energy=0.0)
    torch.testing.assert_close(
        gradient(of_power(0.5, many), matrix), gradient(of_power(0.5, wct.Exact()), matrix)
    )


@pytest.mark.parametrize(
    ("ratio", "iterations"),
    [
        (0.1, 2),
        (0.8, 14),
        (0.85, 19),
        (0.9, 29),
        (0.95, 59),
        (0.99, 299),
        (0.995, 598),
        (0.999, 2995),
    ],
)
def test_fewest_iterations_that_lose_a_twentieth_are_the_papers(ratio, iterations):
    # Table 1 of Backpropagation-Friendly Eigendecomposition.
    values = torch.tensor([1.0, ratio], dtype=torch.float64)

    def lost(count):
        K = wct.PowerIteration(count, energy=0.0).coefficients(values)
        return 1 - float(K[0, 1]) * (1 - ratio)

    assert lost(iterations) <= 0.05 < lost(iterations - 1)


def test_deflation_stops_at_each_condition():
    values = torch.tensor([4.0, 2.0, 1.0, 1e-6, 1e-7], dtype=torch.float64)
    kept = wct.PowerIteration(energy=0.0, eps=1e-6).kept(values)
    assert kept.tolist() == [True, True, True, False, False]  # l_i <= eps
    # As Alg. 1 has it, the vector with which the energy is reached is already left out.
    assert wct.PowerIteration(energy=1e-4).kept(values).tolist() == [True, True] + 3 * [False]
    assert wct.PowerIteration(eps=10.0).kept(values).tolist() == [True] + 4 * [False]


def test_loop_stops_where_the_rayleigh_quotient_disagrees():
    matrix = covariance(3, 2, 1)

    def others(m, rule):
        return (wct.eigh(m, gradient=rule)[1][:, 1:] * weights(3, 2)).sum()

    # No quotient agrees to less than nothing, so that the first vector alone is left.
    strict = wct.PowerIteration(5, energy=0.0, loop=True, disagreement=0.0)
    found = gradient(lambda m: others(m, strict), matrix)
    assert torch.equal(found, torch.zeros_like(found))
    assert torch.linalg.matrix_rank(wct.sqrtm(matrix, gradient=strict)) == 1
    usual = wct.PowerIteration(5, energy=0.0, loop=True)
    assert gradient(lambda m: others(m, usual), matrix).abs().max() > 0.1


def test_batches_of_different_rank_are_each_their_own():
    batch = torch.stack((covariance(3, 2, 1, 0.5), covariance(3, 1e-9, 1e-9, 1e-9)))
    for loop in (False, True):
        loss = of_power(0.5, wct.PowerIteration(9, loop=loop, eps=1e-8))
        together = gradient(loss, batch)
        apart = torch.stack([gradient(loss, matrix) for matrix in batch])
        torch.testing.assert_close(together, apart)
        assert bool(torch.isfinite(together).all())


def test_gradient_is_under_the_papers_bound():
    # Eq. 13: n K / eps times the gradient of the vector, all values equal to eps.
    matrix = covariance(1, 1, 1, 1)
    rule = wct.PowerIteration(19, energy=0.0)
    found = gradient(lambda m: wct.eigh(m, gradient=rule)[1][:, 0] @ weights(4), matrix)
    assert found.norm() <= 4 * 19 * weights(4).norm()
