"""Scores of Gaussian forecasts, from errors (forecast minus truth) and standard deviations."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
import xarray as xr
from numpy.typing import NDArray

from sstcast.names import COVERED, LEVELS

BINS = 20  # of the PIT histogram
NAMES = ("crps", "variance", *COVERED)  # of the statistics

Array = NDArray[np.floating]


@dataclass(frozen=True)
class Gaussians:
    """Gaussian forecasts: their errors and standard deviations, of the same shape."""

    error: Array
    spread: Array

    @cached_property
    def _standard(self) -> torch.Tensor:
        width = torch.from_numpy(np.ascontiguousarray(self.spread))
        return torch.from_numpy(np.ascontiguousarray(self.error)) / width

    @cached_property
    def _within(self) -> torch.Tensor:
        """The probability of an error that is smaller, with the sign of the error: `2 Phi(z) - 1`."""
        return torch.erf(self._standard * np.sqrt(0.5))

    def crps(self) -> Array:
        """Return the continuous ranked probability score, in the units of the errors.

        `s (z (2 Phi(z) - 1) + 2 phi(z) - 1 / sqrt(pi))` with `z = error / s` (Gneiting et al. 2005, Mon. Wea. Rev.
        133, eq. 5).
        """
        density = (self._standard.square() * -0.5).exp_()
        score = (self._standard * self._within).add_(density, alpha=np.sqrt(2 / np.pi)).sub_(np.sqrt(1 / np.pi))
        return score.numpy() * self.spread

    def statistics(self) -> Iterator[tuple[str, Array]]:
        """Yield the name and the values of each statistic that `scores` needs; one at a time is in memory."""
        yield "crps", self.crps()
        yield "variance", np.square(self.spread)
        within = self._within.abs()
        for name, level in zip(COVERED, LEVELS, strict=True):
            yield name, (within <= level / 100).numpy()

    def pit(self, weights: Array) -> Array:
        """Return the sums of `weights` of the cases in each bin of the probability integral transform, `[BINS]`.

        The transform is the probability below the truth; bins are of equal width, so a calibrated forecast fills
        them alike (Gneiting, Balabdaoui and Raftery 2007, J. R. Stat. Soc. B 69).
        """
        position = (self._within - 1).mul_(-BINS / 2).clamp_(max=BINS - 1).nan_to_num_(BINS - 1).long()
        weights = np.broadcast_to(weights, position.shape)
        return np.bincount(position.numpy().ravel(), weights.ravel(), minlength=BINS).astype(float)


def scores(means: Mapping[str, xr.DataArray]) -> dict[str, xr.DataArray]:
    """Return the scores that follow from mean `statistics` and the `mse` of the same forecasts.

    `spread_skill` is the ratio of spread to error, each the root of a mean square: 1 is reliable, below it
    overconfident.
    """
    spread = means["variance"] ** 0.5
    covered = {name: means[name] for name in COVERED}
    return {"crps": means["crps"], "spread": spread, "spread_skill": spread / means["mse"] ** 0.5, **covered}
