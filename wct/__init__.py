"""Spectral layers: eigendecompositions with stable gradients, whitening and coloring."""

from wct import orthogonal
from wct._covariance_pool import CovariancePool
from wct._diagnostics import SpectrumRecorder, beta_smoothness, condition_number
from wct._eigen import eigh, inv_sqrtm, matrix_power, sqrtm
from wct._newton_schulz import newton_schulz
from wct._pca_denoise import PCADenoise2d
from wct._power_iteration import PlainPowerIteration, PowerIteration
from wct._rules import (
    Analytic,
    Clip,
    Exact,
    Newton,
    Pade,
    PadeSurrogate,
    Rule,
    Taylor,
    TopN,
    as_rule,
)
from wct._solver import solver_failures
from wct._whitening import (
    Color,
    Whiten,
    color,
    mean_and_covariance,
    split_groups,
    transform,
    whiten,
    whiten_and_color,
    whitening_matrix,
)
from wct._zca_norm import ZCANorm2d

__all__ = [
    "Analytic",
    "Clip",
    "Color",
    "CovariancePool",
    "Exact",
    "Newton",
    "PCADenoise2d",
    "Pade",
    "PadeSurrogate",
    "PlainPowerIteration",
    "PowerIteration",
    "Rule",
    "SpectrumRecorder",
    "Taylor",
    "TopN",
    "Whiten",
    "ZCANorm2d",
    "as_rule",
    "beta_smoothness",
    "color",
    "condition_number",
    "eigh",
    "inv_sqrtm",
    "matrix_power",
    "mean_and_covariance",
    "newton_schulz",
    "orthogonal",
    "solver_failures",
    "split_groups",
    "sqrtm",
    "transform",
    "whiten",
    "whiten_and_color",
    "whitening_matrix",
]
