"""Every spectral layer trains in float32 at the papers' eps, before singular covariances, too."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

import wct

CHANNELS = 16  # of which a 1 x 1 convolution on three colors fills three directions
STEPS = 20
RATE = 0.1  # the papers'
RULES = {
    "exact": wct.Exact(),
    "taylor 9": wct.Taylor(9),
    "taylor 19": wct.Taylor(19),
    "pade": wct.Pade(100),
    "pade surrogate": wct.PadeSurrogate(100),
    "clip": wct.Clip(100),
    "pi": wct.PowerIteration(19),
}
# The papers' eps: of ZCA in Backpropagation-Friendly Eigendecomposition and in Robust
# Differentiable SVD, of PCA denoising, and the type's rounding for pooling.
LAYERS: dict[str, Callable[[wct.Rule], nn.Module]] = {
    "ZCA, eps 1e-4": lambda rule: wct.ZCANorm2d(
        CHANNELS, group_size=CHANNELS, eps=1e-4, gradient=rule
    ),
    "ZCA, eps 1e-2": lambda rule: wct.ZCANorm2d(CHANNELS, group_size=8, eps=1e-2, gradient=rule),
    "ZCA, iterated": lambda rule: wct.ZCANorm2d(
        CHANNELS, group_size=8, eps=1e-2, gradient=wct.Newton(5), solver="newton_schulz"
    ),
    "PCA": lambda rule: wct.PCADenoise2d(CHANNELS, keep=0.99, eps=1e-4, gradient=rule),
    "pooling": lambda rule: wct.CovariancePool(
        CHANNELS, solver="eigh", gradient=rule, normalize=False, dtype=torch.float32
    ),
    "pooling, normalized": lambda rule: wct.CovariancePool(
        CHANNELS, solver="eigh", gradient=rule, dtype=torch.float32
    ),
    "pooling, iterated": lambda rule: wct.CovariancePool(
        CHANNELS, solver="newton_schulz", gradient=wct.Newton(5), dtype=torch.float32
    ),
}


def train(layer: nn.Module) -> list[float]:
    """The losses of a small network with the layer; every number of every step is looked at."""
    generator = torch.Generator().manual_seed(0)
    pictures = torch.randn(16, 3, 8, 8, generator=generator)
    labels = torch.arange(16) % 2
    pictures[labels == 1] *= torch.tensor([1.5, 0.5, 1.0])[:, None, None]
    torch.manual_seed(0)
    features = nn.Sequential(nn.Conv2d(3, CHANNELS, 1, bias=False), layer)
    with torch.no_grad():
        count = features(pictures).flatten(1).shape[1]
    network = nn.Sequential(features, nn.ReLU(), nn.Flatten(), nn.Linear(count, 2))
    optimizer = torch.optim.SGD(network.parameters(), lr=RATE, momentum=0.9)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(network(pictures), labels)
        loss.backward()
        for name, parameter in network.named_parameters():
            assert bool(torch.isfinite(parameter.grad).all()), (len(losses), name)
        optimizer.step()
        losses.append(float(loss.detach()))
    network.eval()
    assert bool(torch.isfinite(network(pictures)).all())
    return losses


ITERATED = [name for name in LAYERS if "iterated" in name]  # with a rule of their own
CASES = [
    (layer, rule)
    for layer in LAYERS
    for rule in ("exact",) * (layer in ITERATED) or RULES
    if (layer, rule) != ("PCA", "exact")  # which is of functions of a matrix, not of vectors
]


@pytest.mark.parametrize(("layer", "rule"), CASES)
def test_a_layer_trains_in_float32_and_stays_finite(layer, rule):
    losses = train(LAYERS[layer](RULES[rule]))
    assert all(torch.isfinite(torch.tensor(losses)))
    # It learns, too: finite gradients of 0 would be no training.
    assert min(losses) < 0.95 * losses[0]
