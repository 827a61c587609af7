"""Forecasts of SST among the predictors of a run, as rivals of the run: what their issues alone forecast."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sstcast.names import DAY
from sstcast.predictors.forecast import FORECAST, IS_SST
from sstcast.predictors.newest import Days, newest_known
from sstcast.predictors.predictor import Predictor
from sstcast.progress import tracked
from sstcast.reading.units import celsius
from sstcast.scores.analysis import Analysis
from sstcast.types import Array, Mask

VALUES_AT_ONCE = 2**22  # read in a block


class Rival:
    """The newest issue of a forecast of SST on each initial date, minus its mean error on the training dates.

    Members are their mean, and an issue is known after the delay of the predictor.

    Attributes:
        name: the name of the predictor.
        is_used: whether the rival forecasts on each initial date, `[starts]`: its newest issue has not been known
            for longer than the median step between issues, and there is a mean error.
        reaches: the leads that it reaches on all of these dates, `[lead]`.
    """

    def __init__(self, predictor: Predictor, truth: Analysis) -> None:
        self.name, self.predictor, self.truth = predictor.name, predictor, truth
        store = predictor.open()
        self.values, self.cells = store["value"], store["cells"]
        self.factor, self.zero = celsius(predictor.units, predictor.config.path, predictor.name)
        self.dates = truth.windows.init_times.astype("datetime64[ns]")
        self.mean_error = self._mean_error()
        known = self._known(self.dates) & np.isfinite(self.mean_error).any((1, 2))
        self.is_used: Mask = np.asarray(known.any(1))
        self.reaches: Mask = np.asarray(known[self.is_used].all(0) & self.is_used.any())

    def forecast(self, dates: slice) -> Array:
        """Return the forecasts from the initial dates at some positions, `[starts, lead, lat, lon]` in degC.

        They are NaN where the rival does not forecast.
        """
        fields = self._issued(self.dates[dates]) - self.mean_error
        fields[~self.is_used[dates]] = np.nan
        fields[:, ~self.reaches] = np.nan
        return fields

    def _known(self, days: Days) -> Mask:
        """Return which leads an issue that is new enough reaches on each day, `[day, lead]`."""
        issues = self.values["init_time"].values
        newest, delay = newest_known(issues, days, self.predictor.config.delay), self.predictor.config.delay
        step = np.median(np.diff(issues)) if len(issues) > 1 else DAY
        is_new = (newest >= 0) & (days - issues[newest.clip(0)] - delay * DAY <= step)
        issue, lead = self.predictor.kind.places(self.predictor, self.values, days)
        known: Mask = (issue >= 0) & (self.cells.values[issue, lead] > 0) & is_new[:, None]
        return known

    def _issued(self, days: Days) -> Array:
        """Return what the newest issues forecast on some days, `[day, lead, lat, lon]` in degC."""
        issue, lead = self.predictor.kind.places(self.predictor, self.values, days)
        fields = np.full((*issue.shape, *self.values.shape[2:]), np.nan, np.float32)
        if (is_known := issue >= 0).any():
            first = issue[is_known].min()
            block = self.values[first : issue.max() + 1].values
            fields[is_known] = block[issue[is_known] - first, lead[is_known]]
        return fields * np.float32(self.factor) + np.float32(self.zero)

    def _mean_error(self) -> Array:
        """Return the mean error on training dates with an issue, `[lead, lat, lon]`, NaN where there are none."""
        horizon, sst = self.predictor.data.horizon, self.truth.cube["sst"]
        first, last = self.predictor.data.splits.train
        days = pd.date_range(first, last).as_unit("ns").values[:-horizon]
        known = self._known(days)
        days, known = days[known.any(1)], known[known.any(1)]
        shape = horizon, *self.values.shape[2:]
        total, count = np.zeros(shape), np.zeros(shape, np.int32)
        for block in tracked([*_blocks(len(days), int(np.prod(shape)))], f"mean error of {self.name}"):
            issued = np.where(known[block][..., None, None], self._issued(days[block]), np.nan)
            ahead = days[block][:, None] + np.arange(1, horizon + 1) * DAY
            observed = sst.sel(time=slice(ahead[0, 0], ahead[-1, -1]))
            came = observed.values[np.searchsorted(observed["time"].values, ahead)]
            error = issued - came
            total += np.nansum(error, 0, dtype=float)
            count += np.isfinite(error).sum(0, dtype=np.int32)
        mean: Array = np.divide(total, count, out=np.full(shape, np.nan), where=count > 0).astype(np.float32)
        return mean


def rivals_in(truth: Analysis) -> list[Rival]:
    """Return the forecasts of SST among the predictors of a run. Perfect forecasts, which nobody has, are none."""
    return [
        Rival(predictor, truth)
        for predictor in truth.prepared.predictors.values()
        if predictor.kind is FORECAST and predictor.open().attrs.get(IS_SST) == str(True)
    ]


def _blocks(count: int, values: int) -> Iterator[slice]:
    step = max(1, VALUES_AT_ONCE // values)
    return (slice(first, first + step) for first in range(0, count, step))


def squared_errors(errors: Array, is_known: NDArray[np.bool_], area: Array) -> Array:
    """Return means of squared `errors [starts, lead, tile, N]` over known cells, `[starts, lead]`, NaN if none."""
    weights = is_known * area
    total = weights.sum((2, 3), dtype=float)
    squares = (np.where(is_known, errors, 0).astype(float) ** 2 * weights).sum((2, 3))
    return np.divide(squares, total, out=np.full(total.shape, np.nan), where=total > 0)
