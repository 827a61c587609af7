"""How wide errors are: on the validation days, by cell, lead and season."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast.config import DataConfig
from sstcast.forecasting.baselines import Learnt
from sstcast.forecasting.predictor import Predictor, in_degrees
from sstcast.geo import area_weights
from sstcast.names import SEASONS
from sstcast.ocean.anomalies import on_days
from sstcast.ocean.prepared import Prepared
from sstcast.ocean.windows import days_in, with_earlier
from sstcast.scratch import in_scratch, release

EVERY = 3  # days from one validation forecast to the next
VALUES_AT_ONCE = 2**21  # of a block of forecasts
DAYS_AT_ONCE = 128  # at least: a chunk of the store
SMOOTHING = 7  # leads over which the power of the climatological variance is averaged
SEASON = 90  # days
TINY = 1e-12

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Spread:
    """The standard deviation of forecasts.

    Attributes:
        values: degC on `(season, lead, lat, lon)`, NaN on land and where nothing is forecast.
        correlation: of the errors of one forecast at two leads, `[lead, lead]`, pooled over cells and dates.
    """

    values: xr.DataArray
    correlation: Array

    @property
    def digest(self) -> str:
        """A hash of the values."""
        return hashlib.sha256(self.values.values.tobytes()).hexdigest()

    def spread(self, valid_time: xr.DataArray) -> xr.DataArray:
        """Return the standard deviation on days `valid_time(init_time, lead)`, with `lat` and `lon`, in degC."""
        values = self.values.sel(season=valid_time.dt.season, lead=valid_time["lead"])
        return values.drop_vars("season").transpose(*valid_time.dims, "lat", "lon")


class ValidationDays:
    """The validation days of prepared data, and those before them, which are read once for all forecasters.

    Raises SSTCastError if the stores are absent or damaged.
    """

    def __init__(self, data: DataConfig) -> None:
        self.data = data
        self.cube, self.anomalies = Prepared.of(data).open()

    @cached_property
    def learnt(self) -> Learnt:
        """The days that linear systems learn from."""
        return Learnt(self.data, self.anomalies)

    @cached_property
    def climatological(self) -> Spread:
        """The spread of the climatological distribution: that of the days that the climatology is of."""
        days = self.anomalies[["anomaly"]].sel(time=slice(*map(str, self.data.splits.base)))
        scale = self.anomalies["scale"].load()
        counts = np.zeros((len(SEASONS), 1))
        sums = np.zeros((len(SEASONS), 1, *days["anomaly"].shape[1:]))
        count = max(DAYS_AT_ONCE, VALUES_AT_ONCE // days["anomaly"][0].size)
        for first in range(0, days.sizes["time"], count):
            block = days["anomaly"].isel(time=slice(first, first + count)).load()
            squares = np.square((block * on_days(scale, block["time"])).values)
            season = _season_numbers(block["time"])
            for number in range(len(SEASONS)):
                counts[number] += (season == number).sum()
                sums[number, 0] += squares[season == number].sum(0, dtype=float)
        found = np.sqrt(sums / np.maximum(counts, 1)[..., None, None]).astype(np.float32)
        values = self._labelled(np.repeat(found, self.data.horizon, axis=1))
        return Spread(in_scratch(values), np.ones((self.data.horizon, self.data.horizon)))

    def spread(self, predictor: Predictor) -> Spread:
        """Return the spread of a predictor that has learnt no validation day.

        Raises SSTCastError if there are too few of them.
        """
        sums = np.zeros(0)
        counts = np.zeros((len(SEASONS), self.data.horizon))
        cross = np.zeros((self.data.horizon, self.data.horizon))
        climate = self.climatological.values.isel(lead=0).values  # [season, lat, lon]
        for errors in self._errors(predictor):
            if not sums.size:
                sums = np.zeros((*counts.shape, *errors.shape[2:]))
            season = _season_numbers(errors["valid_time"])
            values, squares = errors.values, np.square(errors.values)
            for number in range(len(SEASONS)):
                inside = season == number
                counts[number] += inside.sum(0)
                sums[number] += np.einsum("sl,slyx->lyx", inside.astype(np.float32), squares)
            standard = np.nan_to_num(values / climate[season]).reshape(*season.shape, -1)
            cross += np.einsum("slc,smc->lm", standard, standard, optimize=True)
        size = np.sqrt(cross.diagonal())
        weights = area_weights(self.cube["lat"]).values[:, None] * np.ones(self.cube.sizes["lon"])
        width = self._labelled(pooled(sums, counts, climate, weights))
        return Spread(in_scratch(width), cross / np.outer(size, size))

    def _labelled(self, values: NDArray[np.float32]) -> xr.DataArray:
        leads = np.arange(1, self.data.horizon + 1, dtype=np.int32)
        coords = {"season": list(SEASONS), "lead": leads, **{axis: self.cube[axis] for axis in ("lat", "lon")}}
        return xr.DataArray(values, coords, ("season", "lead", "lat", "lon"))

    @cached_property
    def _days(self) -> xr.Dataset:
        days = days_in(self.anomalies, self.data, "validation")[["anomaly", "ocean_mask"]]
        return days.assign(anomaly=in_scratch(days["anomaly"]), ocean_mask=days["ocean_mask"].load())

    @cached_property
    def _truth(self) -> xr.DataArray:
        return in_scratch(self.cube["sst"].sel(time=slice(*self._days["time"].values[[0, -1]])))

    @cached_property
    def _statistics(self) -> xr.Dataset:
        return xr.Dataset({name: in_scratch(self.anomalies[name]) for name in ("climatology", "scale")})

    def _errors(self, predictor: Predictor) -> Iterator[xr.DataArray]:
        """Yield errors `(init_time, lead, lat, lon)` in degC of forecasts of the days, block by block."""
        days, history, horizon = self._days, self.data.history, self.data.horizon
        starts = -(-(days.sizes["time"] - history - horizon) // EVERY)
        cells = days.sizes["lat"] * days.sizes["lon"]
        at_once = max(1, VALUES_AT_ONCE // (horizon * cells))
        for first in range(0, starts, at_once):
            last = min(first + at_once, starts) - 1
            past = days.isel(time=slice(first * EVERY, last * EVERY + history))
            predicted = predictor.predict(with_earlier(past, self.anomalies), EVERY)
            forecast = in_degrees(predicted, self._statistics)["sst"]
            truth = self._truth.sel(time=forecast["valid_time"]).drop_vars("time")
            yield (forecast - truth).transpose(*forecast.dims)
            release()


def pooled(sums: Array, counts: Array, climate: Array, weights: Array) -> NDArray[np.float32]:
    """Return the spread `[season, lead, lat, lon]`, from sums of squared errors and how many they are.

    One or two years hold few independent errors, so they give no more than the mean squared error by lead; a
    factor by season and lead, shrunk towards 1 as if errors of one more season had been seen; and by lead the
    power of the climatological variance, between 0 and 1, that best describes the pattern of cells. The pattern
    itself, by cell and season, is that of the climatology's many years.

    Args:
        sums: of squared errors, `[season, lead, lat, lon]`, NaN where there is no forecast.
        counts: `[season, lead]`.
        climate: standard deviation of the climatological distribution, `[season, lat, lon]`.
        weights: of the cells, `[lat, lon]`.
    """
    known = np.isfinite(sums).all((0, 1))
    weights = weights[known] / weights[known].sum()
    errors, variance = sums[..., known], np.square(climate[:, known])
    total = counts.sum(0)
    by_cell = errors.sum(0) / total[:, None]  # [lead, cell]
    by_lead = by_cell @ weights
    x, y = np.log(variance.mean(0)), np.log(by_cell)
    x -= x @ weights
    power = (y * x) @ weights / max(np.square(x) @ weights, TINY)
    reach = SMOOTHING // 2
    power = [power[max(0, lead - reach) : lead + reach + 1].mean() for lead in range(len(power))]
    pattern = variance[:, None] ** np.clip(power, 0, 1)[:, None]  # [season, lead, cell]
    pattern /= ((pattern @ weights) * counts).sum(0)[:, None] / total[:, None]
    prior = SEASON / EVERY
    season = (errors @ weights + prior * by_lead) / ((pattern @ weights) * counts * by_lead + prior * by_lead)
    pattern *= (by_lead * season)[..., None]
    spread = np.full(sums.shape, np.nan, np.float32)
    spread[..., known] = np.sqrt(pattern, out=pattern)
    return spread


def _season_numbers(time: xr.DataArray) -> NDArray[np.intp]:
    return np.asarray(time.dt.month.values % 12 // 3, np.intp)
