"""The papers' tables about gradients of eigendecompositions, beside what wct gives.

Approximation errors (Tables 6, 8, 9) and bounds (Tables 7, 10) of "Why Approximate Matrix Square
Root Outperforms Accurate SVD", Table 1 of Backpropagation-Friendly Eigendecomposition, Fig. 1a
and the angles of section 7 of Robust Differentiable SVD, and each rule's gradient of the inverse
square root against a reference of 50 digits, as a curve. Writes JSON and a PNG.

python -m benchmarks.spectral_tables --out out/spectral
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
from pathlib import Path

import mpmath
import torch
from torch import Tensor

import wct

EPS = torch.finfo(torch.float64).eps
RATIOS = (0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 0.999)
PAPER_TAYLOR = {
    50: (9e-19, 7e-18, 9e-16, 4e-8, 5e-2, 60, 950),
    100: (9e-19, 7e-18, 2e-21, 8e-16, 2e-4, 36, 904),
    200: (9e-19, 7e-18, 2e-21, 4e-17, 6e-9, 13, 817),
    300: (9e-19, 7e-18, 1e-21, 4e-17, 1e-13, 5, 740),
}
PAPER_PADE = {
    50: (2e-18, 3e-17, 2e-20, 6e-17, 3e-16, 1e-13, 1e-12),
    100: (9e-19, 5e-18, 1e-21, 5e-17, 3e-16, 8e-13, 3e-10),
    200: (2e-18, 1e-17, 6e-21, 6e-18, 1e-15, 1e-13, 2e-10),
    300: (1e-18, 8e-18, 6e-21, 5e-17, 2e-15, 1e-13, 5e-10),
}
# Ratio -> smallest k with ratio^k <= 0.05.
PAPER_ITERATIONS = {
    0.1: 2,
    0.8: 14,
    0.85: 19,
    0.9: 29,
    0.95: 59,
    0.99: 299,
    0.995: 598,
    0.999: 2995,
}
CLOSENESS = (10, 11, 12, 13, 14)  # thresholds 2^-10 ... 2^-14

# Every rule on the inverse root; torch's own is what its autograd makes of V l^(-1/2) V^T.
RULES = {
    "torch": None,
    "analytic": wct.Analytic(),
    "clip 100": wct.Clip(100),
    "taylor 9": wct.Taylor(9),
    "taylor 100": wct.Taylor(100),
    "pade 100": wct.Pade(100),
    "pade surrogate": wct.PadeSurrogate(100),
    "pi 19": wct.PowerIteration(19),
    "pi 19, all kept": wct.PowerIteration(19, energy=0.0),
    "pi plain 19": wct.PlainPowerIteration(19, seed=0),
    "topn 6 of 8": wct.TopN(6),
    "newton 10": wct.Newton(10),
    "exact": wct.Exact(),
}
# Digits in which the papers' own system for the [50/50] coefficients is solved.
DIGITS = (15, 20, 30, 50, 100)
GAPS = (1.0, *(10.0**-k for k in range(1, 17)), 0.0)


def approximation_errors(rule: type[wct.Rule], degree: int) -> list[float]:
    """|K_12 - 1/(1 - r)| at l = (1, r), in float64, at each of RATIOS."""
    errors = []
    for ratio in RATIOS:
        K = rule(degree).coefficients(torch.tensor([1.0, ratio], dtype=torch.float64))
        errors.append(abs(float(K[0, 1]) - 1 / (1 - ratio)))
    return errors


def solved_literally(digits: int) -> dict[str, float | bool]:
    """[50/50] of 1/(1 - r) from eq. 19, series and solution in that many digits.

    The system is singular: what comes is round-off, and changes with the digits. Evaluated in
    the same digits: the error at 0.9, 0.99 and 0.999, the value at 1, and whether it is
    positive and grows at 400 places of [0, 1].
    """
    with mpmath.workdps(digits):
        series = mpmath.taylor(lambda x: 1 / (1 - x), 0, 100)
        p, q = mpmath.pade(series, 50, 50)

        def value(r: mpmath.mpf) -> mpmath.mpf:
            below = mpmath.polyval(q[::-1], r)
            return mpmath.polyval(p[::-1], r) / below if below else mpmath.inf

        found: dict[str, float | bool] = {}
        for ratio in ("0.9", "0.99", "0.999"):
            r = mpmath.mpf(ratio)
            found[ratio] = float(abs(value(r) - 1 / (1 - r)))
        found["at 1"] = float(value(mpmath.mpf(1)))
        places = [1 - mpmath.mpf(10) ** (-mpmath.mpf(k) / 25) for k in range(400)] + [mpmath.mpf(1)]
        values = [value(r) for r in places]
        grows = all(a <= b for a, b in itertools.pairwise(values))
        found["positive and growing"] = grows and values[0] > 0
    return found


def bounds() -> dict[str, tuple[float, float]]:
    """The largest coefficient of each rule at l_i = l_j = EPS, and the paper's."""
    equal = torch.tensor([EPS, EPS], dtype=torch.float64)
    dropped = torch.tensor([1.0, EPS, EPS], dtype=torch.float64)
    root = wct.Exact().divided_differences(equal, 0.5)
    return {
        "SVD-Pade": (float(wct.Pade(100).coefficients(equal)[0, 1]), 6.00e36),
        "its surrogate": (float(wct.PadeSurrogate(100).coefficients(equal)[0, 1]), math.nan),
        "SVD-Taylor": (float(wct.Taylor(100).coefficients(equal)[0, 1]), 4.55e17),
        "SVD-Trunc": (float(wct.Clip(1e10).coefficients(equal)[0, 1]), 1e10),
        "SVD-TopN": (float(wct.TopN(2).coefficients(dropped)[1, 2]), 4.50e15),
        "SVD": (float(wct.Analytic().coefficients(equal)[0, 1]), math.inf),
        # No paper has it: 1/(2 sqrt EPS) is what it should come to.
        "exact (root)": (float(root[0, 1]), 0.5 / EPS**0.5),
    }


def fewest_iterations(ratio: float, left: float = 0.05) -> int:
    """The smallest k with ratio^k at most ``left``."""
    return math.ceil(math.log(left) / math.log(ratio) - 1e-12)


def share_of_close_pairs(dimensions: list[int], count: int, seed: int) -> dict[int, list[float]]:
    """Share of covariances X X^T of 2 d centered uniform points with two values that close.

    The paper does not say how points are drawn. Uniform ones in [0, 1] give its 0.1 % at d = 150;
    normal ones, whose eigenvalues lie 12 times farther apart, give 0 of 10,000.
    """
    generator = torch.Generator().manual_seed(seed)
    shares = {}
    for d in dimensions:
        close = torch.zeros(len(CLOSENESS), dtype=torch.long)
        thresholds = torch.tensor([2.0**-k for k in CLOSENESS], dtype=torch.float64)
        at_once = max(1, 2_000_000 // (2 * d * d))  # 16 MB of points
        for start in range(0, count, at_once):
            batch = min(at_once, count - start)
            X = torch.rand(batch, d, 2 * d, dtype=torch.float64, generator=generator)
            X = X - X.mean(-1, keepdim=True)
            gaps = torch.linalg.eigvalsh(X @ X.mT).diff(dim=-1).amin(-1)
            close += (gaps.unsqueeze(-1) < thresholds).sum(0)
        shares[d] = (close / count).tolist()
    return shares


def angle(rule: wct.Rule) -> float:
    """Degrees between the third column of K and the true one at l = (0.02, 0.01, 0.01)."""
    K = rule.coefficients(torch.tensor([0.02, 0.01, 0.01], dtype=torch.float64))
    return 90 - math.degrees(math.atan2(float(K[1, 2]), float(K[0, 2])))


def spectrum_with_gap(gap: float) -> list[float]:
    """Eight values, of which three pairs are that close, relative to the larger."""
    return [4.0, 4.0 * (1 - gap / 2), 1.0, 1 - gap / 2, 0.2, 0.2 * (1 - gap / 2), 0.05, 0.02]


def reference_gradient(values: list[float], W: Tensor) -> tuple[Tensor, Tensor]:
    """A covariance with those values and dL/dM for L = <W, M^(-1/2)>, in 50 digits.

    The vectors are a product of Householder reflections, orthogonal to all 50 digits.
    """
    d = len(values)
    with mpmath.workdps(50):
        V = mpmath.eye(d)
        for k in range(3):
            u = mpmath.matrix([mpmath.sin(1 + i * (k + 2)) for i in range(d)])
            V = V - V * u * u.T * (2 / (u.T * u)[0])
        M = V * mpmath.diag([mpmath.mpf(v) for v in values]) * V.T
        roots = [mpmath.sqrt(mpmath.mpf(v)) for v in values]
        G = V.T * mpmath.matrix(W.tolist()) * V
        G = (G + G.T) / 2
        inner = mpmath.matrix(d, d)
        for i, a in enumerate(roots):
            for j, b in enumerate(roots):
                inner[i, j] = -G[i, j] / (a * b * (a + b))
        gradient = V * inner * V.T

        def to_tensor(matrix: mpmath.matrix) -> Tensor:
            return torch.tensor(
                [[float(matrix[i, j]) for j in range(d)] for i in range(d)], dtype=torch.float64
            )

        return to_tensor(M), to_tensor(gradient)


def exact_angle() -> float:
    """Degrees between the third column that `exact` works with and the true one, measured.

    The column is read off the gradient of sqrtm(diag(0.02, 0.01, 0.01)), an entry at a time, and
    compared with the divided differences of the root in 50 digits.
    """
    values = ("0.02", "0.01", "0.01")
    column = []
    for row in (0, 1):
        leaf = torch.diag(torch.tensor([float(v) for v in values], dtype=torch.float64))
        leaf.requires_grad_()
        root = wct.sqrtm(leaf)
        (root[row, 2] + root[2, row]).backward()
        column.append(mpmath.mpf(float(leaf.grad[row, 2])))
    with mpmath.workdps(50):
        roots = [mpmath.sqrt(mpmath.mpf(float(v))) for v in values]
        true = [1 / (roots[row] + roots[2]) for row in (0, 1)]
        apart = mpmath.atan2(column[1], column[0]) - mpmath.atan2(true[1], true[0])
        return abs(float(mpmath.degrees(apart)))


def relative_error(rule: wct.Rule | None, covariance: Tensor, W: Tensor, true: Tensor) -> float:
    leaf = covariance.clone().requires_grad_()
    if rule is None:
        values, vectors = torch.linalg.eigh(leaf)
        root = (vectors * values.rsqrt().unsqueeze(-2)) @ vectors.mT
    else:
        root = wct.inv_sqrtm(leaf, gradient=rule)
    (root * W).sum().backward()
    gradient = (leaf.grad + leaf.grad.mT) / 2
    return float((gradient - true).norm() / true.norm())


def gradient_curves() -> dict[str, list[float]]:
    """Relative error of each rule's gradient of the inverse root, at each of GAPS."""
    generator = torch.Generator().manual_seed(0)
    W = torch.randn(8, 8, dtype=torch.float64, generator=generator)
    curves: dict[str, list[float]] = {name: [] for name in RULES}
    for gap in GAPS:
        covariance, true = reference_gradient(spectrum_with_gap(gap), W)
        for name, rule in RULES.items():
            curves[name].append(relative_error(rule, covariance, W, true))
    return curves


def draw(curves: dict[str, list[float]], file: Path) -> None:
    """The curves as a PNG, both axes logarithmic; a gap of 0 stands left of all others."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 5), layout="constrained")
    places = [gap or 1e-17 for gap in GAPS]
    for name, errors in curves.items():
        wide = 3 if name == "exact" else 1.5
        axes.plot(places, [max(e, 1e-17) for e in errors], marker=".", linewidth=wide, label=name)
    axes.set(xscale="log", yscale="log", xlabel="relative gap of paired eigenvalues (left: 0)")
    axes.set_ylabel("relative error of the gradient of M^(-1/2)")
    axes.set_title("float64, against 50 digits; a curve that ends is not finite")
    axes.legend(ncols=2)
    figure.savefig(file, dpi=120)
    pyplot.close(figure)


def print_rows(title: str, head: list[str], rows: list[list[object]]) -> None:
    print(f"\n{title}")
    for row in [head, *rows]:
        cells = [f"{cell:.2e}" if isinstance(cell, float) else str(cell) for cell in row]
        print("  " + "".join(f"{cell:>21}" for cell in cells))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out/spectral"), help="folder to write")
    parser.add_argument("--count", type=int, default=10_000, help="covariances a dimension")
    parser.add_argument(
        "--dimensions", type=int, nargs="+", default=[6, 16, 32, 64, 100, 150], help="of Fig. 1a"
    )
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    record: dict[str, object] = {}

    for title, key, rule, paper in (
        ("Tables 6 and 8: error of Taylor", "taylor_errors", wct.Taylor, PAPER_TAYLOR),
        ("Tables 6 and 9: error of Pade", "pade_errors", wct.Pade, PAPER_PADE),
        ("The same of its surrogate", "surrogate_errors", wct.PadeSurrogate, PAPER_PADE),
    ):
        rows, kept = [], {}
        for degree, papers in paper.items():
            ours = approximation_errors(rule, degree)
            rows += [[f"{degree} ours", *ours], [f"{degree} paper", *map(float, papers)]]
            kept[degree] = {"ours": ours, "paper": papers}
        print_rows(title, ["degree", *map(str, RATIOS)], rows)
        record[key] = kept

    literal = {digits: solved_literally(digits) for digits in DIGITS}
    record["pade_solved_literally"] = literal
    print_rows(
        "Eq. 19 as it stands, [50/50], by digits (paper at 1: 6.48e20)",
        ["digits", *literal[DIGITS[0]]],
        [[str(digits), *found.values()] for digits, found in literal.items()],
    )

    record["bounds"] = bounds()
    rows = [[name, *pair] for name, pair in bounds().items()]
    print_rows("Tables 7 and 10: bound at l_i = l_j = EPS", ["", "ours", "paper"], rows)

    counts = {ratio: fewest_iterations(ratio) for ratio in PAPER_ITERATIONS}
    record["iterations"] = {r: (k, PAPER_ITERATIONS[r]) for r, k in counts.items()}
    rows = [[str(r), k, PAPER_ITERATIONS[r]] for r, k in counts.items()]
    print_rows("Table 1: smallest k with ratio^k <= 0.05", ["ratio", "ours", "paper"], rows)

    angles = {"taylor 9": (angle(wct.Taylor(9)), 5.71), "clip 100": (angle(wct.Clip(100)), 45.0)}
    angles["exact, of the root"] = (exact_angle(), 0.0)
    record["angles"] = angles
    rows = [[name, f"{ours:.3g}", f"{paper:.2f}"] for name, (ours, paper) in angles.items()]
    print_rows("Section 7: angle to the true column, degrees", ["", "ours", "paper"], rows)

    shares = share_of_close_pairs(options.dimensions, options.count, seed=0)
    record["close_pairs"] = {"count": options.count, "thresholds": CLOSENESS, "shares": shares}
    rows = [[d, *(f"{100 * share:.2f}" for share in row)] for d, row in shares.items()]
    print_rows(
        f"Fig. 1a: % of {options.count} covariances with two values closer than 2^-k "
        "(paper: over 0.1% at d = 150, 2^-10)",
        ["d", *(f"k = {k}" for k in CLOSENESS)],
        rows,
    )

    curves = gradient_curves()
    record["gradient_errors"] = {"gaps": GAPS, "relative_errors": curves}
    rows = [
        [name, *(errors[GAPS.index(g)] for g in (1.0, 1e-4, 1e-8, 1e-12, 0.0))]
        for name, errors in curves.items()
    ]
    print_rows(
        "Relative error of the gradient of M^(-1/2) against 50 digits, by relative gap",
        ["", "1", "1e-4", "1e-8", "1e-12", "0"],
        rows,
    )
    draw(curves, options.out / "gradient_errors.png")
    (options.out / "spectral_tables.json").write_text(
        json.dumps(record, indent=1), encoding="utf-8"
    )
    print(f"\nwritten to {options.out}")


if __name__ == "__main__":
    main()
