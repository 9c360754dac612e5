"""Measures of stylized pictures: sharpness, kept edges, regularity, Fréchet distance, LPIPS."""

from __future__ import annotations

import importlib.util
import socket
import warnings

import torch
import torch.nn.functional as F
from torch import Tensor, nn

EDGE_SIDE = 128  # pixels; coarse enough for strokes not to count as edges
LUMA = (0.299, 0.587, 0.114)
DOWNLOAD_TIMEOUT = 20  # seconds
PATCH = 32  # pixels a side, where regularity is measured
LOWEST = 0.1  # cycles a pixel: what is coarser is no texture
PLAIN, FEWEST = 0.9, 6  # mean plainness of a patch that counts, and how many make a measurement


def gray(image: Tensor) -> Tensor:
    """Luma of pictures (B, 3, H, W): (B, 1, H, W), in their own units.

    Raises:
        ValueError: another shape.
    """
    if image.ndim != 4 or image.shape[1] != 3 or 0 in image.shape:
        raise ValueError(f"pictures must have shape (B, 3, H, W), got {tuple(image.shape)}")
    weights = torch.tensor(LUMA, dtype=image.dtype, device=image.device).view(1, 3, 1, 1)
    return (image * weights).sum(1, keepdim=True)


def sharpness(image: Tensor) -> Tensor:
    """Mean length of the intensity's gradient of pictures (B, 3, H, W) in [-1, 1]: (B,).

    The gradient is the difference to the right neighbor and to the one below, in levels of 0 to
    255, where a pixel has both (Table 9 of Robust Differentiable SVD).

    Raises:
        ValueError: a wrong shape, or pictures with fewer than two rows or columns.
    """
    levels = gray((image + 1) * 127.5)[:, 0]
    if min(levels.shape[-2:]) < 2:
        raise ValueError(f"sharpness needs at least 2 x 2 pixels, got {tuple(image.shape)}")
    corner = levels[:, :-1, :-1]
    across, down = levels[:, :-1, 1:] - corner, levels[:, 1:, :-1] - corner
    return (across.square() + down.square()).sqrt().mean((1, 2))


def edge_map(image: Tensor) -> Tensor:
    """Sobel gradient's magnitude of the gray pictures at 128 px: (B, 128 * 128)."""
    small = F.interpolate(
        gray(image), (EDGE_SIDE, EDGE_SIDE), mode="bilinear", antialias=True, align_corners=False
    )
    kernel = torch.tensor([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]]).to(small)
    kernels = torch.stack([kernel, kernel.T])[:, None]
    edges = F.conv2d(F.pad(small, (1, 1, 1, 1), mode="replicate"), kernels)
    return edges.square().sum(1).sqrt().flatten(1)


def edge_correlation(photo: Tensor, picture: Tensor) -> Tensor:
    """Pearson correlation of the edge maps of photos and of pictures of them: (B,), in [-1, 1].

    Where one of the two has no edge at all it is 0: nothing of the other is kept in it.
    """
    a, b = (maps - maps.mean(1, keepdim=True) for maps in (edge_map(photo), edge_map(picture)))
    return F.cosine_similarity(a, b, dim=1)


def regularity(image: Tensor, plain: Tensor) -> float | None:
    """How regular the texture of a picture's plain parts is; None where they are too small.

    For P the power spectrum of the gradient, a mean over plain patches under a Hann window, and
    its n frequencies from LOWEST on: n sum(P^2) / sum(P)^2. Its inverse is the share of the
    frequencies that hold the texture: about 1.3 for white noise of any strength, tens for a weave
    that is the same all over. Of the gradient, because what is natural has spectra that fall, and
    gradients whose do not.

    Args:
        image: (1, 3, H, W) in [-1, 1].
        plain: (1, 1, H, W) in [0, 1]: a patch counts from a mean of PLAIN on. FEWEST are needed.

    Raises:
        ValueError: a wrong shape.
    """
    levels = gray(127.5 * image)
    if len(levels) != 1 or plain.shape != levels.shape:
        raise ValueError(
            f"one picture and one map are needed, got {tuple(image.shape)}, {tuple(plain.shape)}"
        )
    if min(levels.shape[-2:]) < PATCH:
        return None
    counted = F.avg_pool2d(plain, PATCH, PATCH // 2).flatten() >= PLAIN
    patches = F.unfold(levels, PATCH, stride=PATCH // 2)[0].mT.reshape(-1, PATCH, PATCH)[counted]
    if len(patches) < FEWEST:
        return None
    window = torch.hann_window(PATCH, periodic=False, device=levels.device)
    patches = (patches - patches.mean((1, 2), keepdim=True)) * window * window[:, None]
    frequencies = torch.fft.fftfreq(PATCH, device=levels.device)
    squared = frequencies.square() + frequencies.square()[:, None]
    power = (torch.fft.fft2(patches).abs().square().mean(0) * squared)[squared >= LOWEST**2]
    total = float(power.sum())
    return None if total == 0 else len(power) * float(power.square().sum()) / total**2


def frechet_distance(first: Tensor, second: Tensor) -> float:
    """Squared Fréchet distance of the normal distributions that fit two sets of features.

    |m1 - m2|^2 + trace(C1 + C2 - 2 (C1 C2)^(1/2)). The last trace is the sum of the singular
    values of X1 X2^T / sqrt((N1 - 1)(N2 - 1)) with X the centered features, which needs no root
    of a D x D matrix and is exact for fewer pictures than features.

    Args:
        first: (N1, D), N1 at least 2.
        second: (N2, D).

    Raises:
        ValueError: wrong shapes, or fewer than two rows.
    """
    if first.ndim != 2 or second.ndim != 2 or first.shape[1] != second.shape[1]:
        raise ValueError(
            "features must have shapes (N1, D) and (N2, D), "
            f"got {tuple(first.shape)} and {tuple(second.shape)}"
        )
    if min(len(first), len(second)) < 2:
        raise ValueError(f"two pictures at least, got {len(first)} and {len(second)}")
    first, second = first.double(), second.double()
    means = first.mean(0) - second.mean(0)
    x, y = (f - f.mean(0) for f in (first, second))
    x, y = x / (len(x) - 1) ** 0.5, y / (len(y) - 1) ** 0.5
    common = torch.linalg.svdvals(x @ y.mT).sum()
    distance = means.square().sum() + x.square().sum() + y.square().sum() - 2 * common
    return max(0.0, float(distance))


class LPIPS(nn.Module):
    """Perceptual distance of pictures (B, 3, H, W) in [-1, 1]: (B,); the package lpips, AlexNet.

    Raises:
        FileNotFoundError: the package or its backbone's weights are not there, and why.
    """

    def __init__(self) -> None:
        super().__init__()
        if importlib.util.find_spec("lpips") is None:
            raise FileNotFoundError("the package lpips is not installed")
        import lpips

        timeout = socket.getdefaulttimeout()
        socket.setdefaulttimeout(DOWNLOAD_TIMEOUT)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of torchvision, about how lpips calls it
                self.network = lpips.LPIPS(net="alex", verbose=False)
        except (OSError, RuntimeError) as error:
            reason = " ".join(str(error).split())
            raise FileNotFoundError(f"AlexNet's weights can't be loaded: {reason}") from None
        finally:
            socket.setdefaulttimeout(timeout)
        self.network.eval().requires_grad_(False)

    @torch.no_grad()
    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        return self.network(first, second).flatten()
