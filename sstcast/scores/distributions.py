"""Gaussian and ensemble forecasts, and the metrics that score them (see `metrics`)."""

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast.extremes.above import exceeds
from sstcast.forecasting.above import chance_above
from sstcast.names import LEVELS
from sstcast.scores.metrics import Metric, Statistic
from sstcast.types import Array

if TYPE_CHECKING:
    import torch

PIT_BINS = 20  # in the PIT histogram
HALF_RESOLUTION = 0.005  # degC, half of the resolution of OISST
MIN_PROBABILITY = 1e-9  # probability, to divide by
FARTHEST = -12.0  # standard deviations below the mean, where nothing of a Gaussian is left


class Gaussian:
    """Gaussian forecast distributions.

    Attributes:
        mean, spread: mean and standard deviation, arrays of the same shape.
        state: whether a cell is in a heatwave when the forecast begins. It broadcasts against `mean`.
        lowest: the value below which the distribution is clipped, its freezing point, -inf where there is none. If
            None, nothing is clipped. The array has the shape of `mean`.
        shares: 1, because its probabilities are no shares of members.
    """

    shares = 1

    def __init__(
        self, mean: Array, spread: Array, state: NDArray[np.bool_] | bool = False, lowest: Array | None = None
    ) -> None:
        self.mean, self.spread, self.state = mean, np.ascontiguousarray(spread), state
        self.lowest = lowest
        self._truth: Array | None = None
        self._crps: Array | None = None
        self._farther: torch.Tensor | None = None

    def chance_above(self, limit: Array | np.float32) -> Array:
        """Return the probability of values above a limit, which broadcasts against the mean."""
        return chance_above(self.mean, self.spread, limit, self.lowest)

    # The operations below work in place, because new memory for a block takes as long as the arithmetic.
    def _standard(self, truth: Array) -> "tuple[torch.Tensor, torch.Tensor]":
        """Return the standardised error `z` and `2 Phi(z) - 1`, cached for the next call with the same truth."""
        if truth is not self._truth:
            import torch  # imported late, as it takes a second

            z = torch.from_numpy(np.ascontiguousarray(self.mean - truth)).div_(torch.from_numpy(self.spread))
            self._truth, self._last = truth, (z, (z * np.sqrt(0.5)).erf_())
            self._crps = self._farther = None
        return self._last

    def crps(self, truth: Array) -> Array:
        """Return the continuous ranked probability score, in the units of the truth.

        `s (z (2 Phi(z) - 1) + 2 phi(z) - 1 / sqrt(pi))` with `z = error / s` (Gneiting et al. 2005, Mon. Wea. Rev.
        133, eq. 5). That of a clipped distribution is `clipped_crps`. Cached like `_standard`.

        >>> at_its_mean = Gaussian(np.zeros(1), np.ones(1)).crps(np.zeros(1))  # (sqrt(2) - 1) / sqrt(pi)
        >>> round(float(at_its_mean[0]), 4)
        0.2337
        """
        import torch

        z, within = self._standard(truth)
        if self._crps is None and self.lowest is not None:
            self._crps = clipped_crps(self.mean, self.spread, truth, self.lowest)
        elif self._crps is None:
            density = z.square().mul_(-0.5).exp_()
            score = (z * within).add_(density, alpha=np.sqrt(2 / np.pi)).sub_(np.sqrt(1 / np.pi))
            self._crps = score.mul_(torch.from_numpy(self.spread)).numpy()
        return self._crps

    def covers(self, truth: Array, level: int) -> NDArray[np.bool_]:
        """Return whether the truth lies in the central interval with a probability of `level` per cent.

        Where the distribution is clipped, so is its interval. A truth below the lowest value is outside.
        """
        within = self._standard(truth)[1]
        if self._farther is None:
            self._farther = within.abs()
        inside: NDArray[np.bool_] = (self._farther <= level / 100).numpy()
        if self.lowest is None:
            return inside
        reaches = self._share_below >= 0.5 - level / 200
        return np.where(at_lowest(truth, self.lowest), reaches, inside & (truth > self.lowest))

    def pit(self, truth: Array, weights: Array) -> Array:
        """Return the histogram `[PIT_BINS]` of the probability integral transform, the sum of `weights` in each.

        The transform is the forecast probability of values below the truth. The bins have equal width, so the
        histogram of a calibrated forecast is flat (Gneiting, Balabdaoui and Raftery 2007, J. R. Stat. Soc. B 69).
        Where the distribution is clipped, a truth at the lowest value is spread evenly over the probabilities from
        0 to that of this value (Czado, Gneiting and Held 2009, Biometrics 65).
        """
        within = self._standard(truth)[1]
        position = (
            (within - 1).mul_(-PIT_BINS / 2).clamp_(max=PIT_BINS - 1).nan_to_num_(PIT_BINS - 1).long().numpy()
        )
        weights = np.broadcast_to(weights.astype(float), position.shape)
        if self.lowest is None:
            return np.bincount(position.ravel(), weights.ravel(), minlength=PIT_BINS).astype(float)
        at = at_lowest(truth, self.lowest)
        above = np.where(at, 0, weights)
        position = np.where(truth < self.lowest, 0, position)
        bins = np.maximum(self._share_below[at], MIN_PROBABILITY)[:, None] * PIT_BINS
        shares = np.clip(bins - np.arange(PIT_BINS), 0, 1) / bins
        return np.bincount(position.ravel(), above.ravel(), minlength=PIT_BINS) + weights[at] @ shares

    @cached_property
    def _share_below(self) -> Array:
        """The probability of the lowest value of a clipped distribution."""
        import torch

        assert self.lowest is not None
        limit = np.asarray((self.lowest - self.mean) / self.spread, float)
        return torch.special.ndtr(torch.from_numpy(np.maximum(limit, FARTHEST))).numpy()


class Members(NamedTuple):
    """Members that are equally likely, so that probabilities are shares of them.

    Attributes:
        values: the members, `[M, ...]`.
    """

    values: Array

    @property
    def shares(self) -> int:
        """The number of members of which probabilities are shares."""
        return len(self.values)

    def chance_above(self, limit: Array | np.float32) -> Array:
        """Return the share of the members above a limit, which broadcasts against each of them."""
        return exceeds(self.values, limit).mean(0, np.float32)


def at_lowest(truth: Array, lowest: Array) -> NDArray[np.bool_]:
    """Return whether the truth is the lowest value of a clipped distribution, as observations are rounded."""
    return np.abs(truth - lowest) < HALF_RESOLUTION


def clipped_crps(mean: Array, spread: Array, truth: Array, lowest: Array) -> Array:
    """Return the CRPS of Gaussians whose values below `lowest` are raised to it.

    The score is `integral (F(x) - [x >= o])^2 dx` of the distribution function F and the truth o. Clipping removes
    the part below `lowest`, which for a truth above it is the integral of the squared Gaussian distribution
    function (Jordan, Krueger and Lerch 2019, J. Stat. Softw. 90, censored normal distribution).

    >>> zero, one = np.zeros(1, np.float32), np.ones(1, np.float32)
    >>> score = clipped_crps(zero, one, truth=zero, lowest=zero)  # 1 / sqrt(2 pi) - 1 / (2 sqrt(pi))
    >>> round(float(score[0]), 4)
    0.1168
    """
    import torch

    clipped_truth = np.maximum(truth, lowest)
    score = Gaussian(mean, spread).crps(clipped_truth)
    limit = torch.from_numpy(np.maximum((lowest - mean) / spread, FARTHEST).astype(np.float32))
    cdf = torch.special.ndtr(limit)
    density = torch.exp(-0.5 * limit.square()) / np.sqrt(2 * np.pi)
    integral = limit * cdf.square() + 2 * density * cdf - torch.special.ndtr(limit * np.sqrt(2)) / np.sqrt(np.pi)
    return np.asarray(score - spread * integral.numpy() + (clipped_truth - truth), np.float32)


def crps(members: Array, truth: Array, *, fair: bool = False) -> Array:
    """Return the continuous ranked probability score `[...]` of `members [M, ...]`, in the units of `truth`.

    It is `mean |x - truth| - mean |x - x'| / 2` over members x and pairs of members (Gneiting and Raftery 2007,
    JASA 102, eq. 21). The `fair` score omits pairs of a member with itself from the second mean, so that its
    expected value does not depend on the size of the ensemble (Ferro 2014, QJRMS 140). That of a single member is
    NaN. The sum over pairs is computed from the sorted members, which needs memory for M values per element
    instead of M * M.

    >>> members, truth = np.array([0.0, 2.0]), np.float64(0)
    >>> float(crps(members, truth)), float(crps(members, truth, fair=True))  # 1 - 1 / 2 and 1 - 2 / 2
    (0.5, 0.0)
    """
    count = len(members)
    distance = np.abs(members - truth).mean(0)
    if fair and count == 1:
        return np.full_like(distance, np.nan)
    signs = 2 * np.arange(count, dtype=members.dtype) - (count - 1)  # additions minus subtractions, sorted members
    pairs = np.tensordot(signs, np.sort(members, axis=0), 1)
    score: Array = distance - pairs / (count * (count - 1 if fair else count))
    return score


def sampling_error(share: Array, members: int) -> Array:
    """Return by how much the squared error of a `share` of members exceeds that of their probability, on average.

    Fair scores of probabilities subtract it, so that their expected value does not depend on the number of members
    (Ferro 2014, QJRMS 140). They need at least two.

    >>> float(sampling_error(np.float64(0.5), 2))  # of one of two members: 1/2 * 1/2 / (2 - 1)
    0.25
    """
    excess: Array = share * (1 - share) / (members - 1)
    return excess


class Mean(Metric):
    """The mean of a statistic, or the square root of the mean."""

    def __init__(self, statistic: Statistic, name: str = "", root: bool = False) -> None:
        self.name, self.statistics, self.root = name or statistic.name, (statistic,), root

    def value(self, *means: Any) -> Any:
        """Return the mean, or its square root."""
        return means[0] ** 0.5 if self.root else means[0]


class Quotient(Metric):
    """The mean of one table divided by the mean of another, NaN where that is 0.

    Without another, the mean itself.
    """

    def __init__(self, part: str, whole: str = "") -> None:
        self.name, self.whole = part, whole

    def from_means(self, means: Mapping[str, Any]) -> Any:
        """Return the quotient, given the means of tables by name."""
        part = means[self.name]
        return part / np.where(means[self.whole] > 0, means[self.whole], np.nan) if self.whole else part


class SpreadSkill(Metric):
    """Ratio of root-mean-square spread to root-mean-square error.

    A reliable forecast has a ratio of 1. A ratio below 1 means that it is overconfident.
    """

    name = "spread_skill"

    def __init__(self, variance: Statistic, error: Statistic) -> None:
        self.statistics = (variance, error)

    def value(self, *means: Any) -> Any:
        """Return the ratio, given the mean variance and the mean squared error."""
        return means[0] ** 0.5 / means[1] ** 0.5


class HeatwaveStateMean(Metric):
    """The mean of a statistic over cells `inside` a heatwave when the forecast begins, or over all other cells."""

    def __init__(self, name: str, inside: bool, *statistics: Statistic) -> None:
        self.name, self.inside, self.statistics = name, inside, statistics

    def value(self, *means: Any) -> Any:
        """Return the mean, given the means of the statistic, of its product with the state, and of the state."""
        mean, in_state, share = means
        part, share = (in_state, share) if self.inside else (mean - in_state, 1 - share)
        return part / (share * xr.where(share > 0, 1.0, np.nan))


def _covered(level: int) -> Statistic:
    return Statistic(f"covered_{level}", lambda forecast, truth: forecast.covers(truth, level))


def _members_variance(members: Array, truth: Array, factor: float = 1) -> Array:
    variance: Array = members.var(0, ddof=1) * factor
    return variance


def _error_variance(members: Array, truth: Array) -> Array:
    """Return the expected squared error of the mean of a reliable ensemble.

    With M members it is `(M + 1) / M` times their variance (Fortin et al. 2014, J. Hydrometeorol. 15).
    """
    return _members_variance(members, truth, 1 + 1 / len(members))


_CRPS = Statistic("crps", lambda forecast, truth: forecast.crps(truth))
_CRPS_IN = Statistic("crps_in_heatwave", lambda forecast, truth: forecast.crps(truth) * forecast.state)
_IN = Statistic("in_heatwave", lambda forecast, truth: np.broadcast_to(forecast.state, truth.shape))
_VARIANCE = Statistic("variance", lambda forecast, truth: np.square(forecast.spread))
_SQUARED_ERROR = Statistic("mse", lambda forecast, truth: np.square(forecast.mean - truth))
_MEMBERS_ERROR = Statistic("mse", lambda members, truth: np.square(members.mean(0) - truth))

GAUSSIAN: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Mean(_CRPS),
        HeatwaveStateMean("crps_in_heatwave", True, _CRPS, _CRPS_IN, _IN),
        HeatwaveStateMean("crps_elsewhere", False, _CRPS, _CRPS_IN, _IN),
        Mean(_VARIANCE, "spread", root=True),
        SpreadSkill(_VARIANCE, _SQUARED_ERROR),
        *(Mean(_covered(level)) for level in LEVELS),
    )
}
ENSEMBLE: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Mean(Statistic("crps", crps)),
        Mean(Statistic("crps_fair", lambda members, truth: crps(members, truth, fair=True))),
        Mean(Statistic("variance", _members_variance), "spread", root=True),
        Mean(_MEMBERS_ERROR, "rmse", root=True),
        SpreadSkill(Statistic("error_variance", _error_variance), _MEMBERS_ERROR),
    )
}
