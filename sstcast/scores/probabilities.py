"""Scores of Gaussian forecasts, from errors (forecast minus truth) and standard deviations of the same shape."""

from collections.abc import Iterator, Mapping
from statistics import NormalDist

import numpy as np
import torch
import xarray as xr
from numpy.typing import NDArray

LEVELS = (50, 80, 95)  # per cent that intervals are to cover
BINS = 20  # of the PIT histogram
COVERED = tuple(f"covered_{level}" for level in LEVELS)
NAMES = ("crps", "variance", *COVERED)  # of the statistics

Array = NDArray[np.floating]


def crps(error: Array, spread: Array) -> Array:
    """Return the continuous ranked probability score of Gaussians, in the units of `error`.

    `s (z (2 Phi(z) - 1) + 2 phi(z) - 1 / sqrt(pi))` with `z = error / s` (Gneiting et al. 2005, Mon. Wea. Rev.
    133, eq. 5).
    """
    width = torch.from_numpy(np.ascontiguousarray(spread))
    z = torch.from_numpy(np.ascontiguousarray(error)) / width
    density = torch.exp(-z.square() / 2) * np.sqrt(2 / np.pi)
    score: Array = (width * (z * torch.erf(z / np.sqrt(2)) + density - 1 / np.sqrt(np.pi))).numpy()
    return score


def statistics(error: Array, spread: Array) -> Iterator[tuple[str, Array]]:
    """Yield the name and the values of each statistic that `scores` needs; one at a time is in memory."""
    yield "crps", crps(error, spread)
    yield "variance", np.square(spread)
    for name, level in zip(COVERED, LEVELS, strict=True):
        inside = np.abs(error) <= np.float32(NormalDist().inv_cdf((1 + level / 100) / 2)) * spread
        yield name, inside.astype(np.float32)


def pit(error: Array, spread: Array, weights: Array) -> Array:
    """Return the sums of `weights` of the cases in each bin of the probability integral transform, `[BINS]`.

    The transform is the probability below the truth; bins are of equal width, so a calibrated forecast fills them
    alike (Gneiting, Balabdaoui and Raftery 2007, J. R. Stat. Soc. B 69).
    """
    edges = [NormalDist().inv_cdf(edge / BINS) for edge in range(1, BINS)]
    below = torch.from_numpy(np.ascontiguousarray(-error / spread))
    position = torch.bucketize(below, torch.tensor(edges, dtype=below.dtype))
    weights = np.broadcast_to(weights, error.shape)
    return np.bincount(position.numpy().ravel(), weights.ravel(), minlength=BINS).astype(float)


def scores(means: Mapping[str, xr.DataArray]) -> dict[str, xr.DataArray]:
    """Return the scores that follow from mean `statistics` and the `mse` of the same forecasts.

    `spread_skill` is the ratio of spread to error, each the root of a mean square: 1 is reliable, below it
    overconfident.
    """
    spread = means["variance"] ** 0.5
    covered = {name: means[name] for name in COVERED}
    return {"crps": means["crps"], "spread": spread, "spread_skill": spread / means["mse"] ** 0.5, **covered}
