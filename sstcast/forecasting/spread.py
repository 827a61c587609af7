"""The predictive distribution: a Gaussian about the forecast, calibrated with its errors on the validation days.

The standard deviation depends on cell, lead and season. A cell that never changes has `SMALLEST_STD`.
No test day is used, and no error on a day that the system was fitted to (see `system.system_of`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.special import ndtri

from sstcast._version import __version__
from sstcast.extremes.heatwaves import FREEZING, limits_of
from sstcast.forecasting.fields import in_degrees, not_below_freezing
from sstcast.forecasting.fitted import held_out_fit, ocean_file, recipe_of_days, recipe_of_fit
from sstcast.geo import area_weights
from sstcast.names import SEASONS
from sstcast.ocean.anomalies import SMALLEST_STD
from sstcast.ocean.prepared import Prepared
from sstcast.predictors.predictors import predictors_in
from sstcast.progress import tracked
from sstcast.reading.days_of_year import on_days
from sstcast.runs import Run
from sstcast.storage.cf import describe
from sstcast.storage.scratch import in_scratch, release
from sstcast.training.data_record import is_own
from sstcast.types import Array

if TYPE_CHECKING:
    from sstcast.forecasting.system import ForecastSystem

EVERY = 3  # days from one validation forecast to the next
VALUES_AT_ONCE = 2**21  # values in a block of forecasts
DAYS_AT_ONCE = 128  # smallest block of days: one chunk of the store
SMOOTHED_LEADS = 7  # leads over which the power of the climatological variance is averaged
SEASON_DAYS = 90
TINY = 1e-12


@dataclass(frozen=True)
class Spread:
    """The spread model of a system: the standard deviation of its forecast errors.

    Attributes:
        values: standard deviation in degC, `(season, lead, lat, lon)`, NaN on land and outside the tiles.
        correlation: correlation between the errors of a forecast at two leads, `[lead, lead]`, pooled over cells
            and dates.
    """

    values: xr.DataArray
    correlation: Array

    def spread(self, valid_time: xr.DataArray) -> xr.DataArray:
        """Return the standard deviation `(init_time, lead, lat, lon)` in degC on the days `valid_time`."""
        values = self.values.sel(season=valid_time.dt.season, lead=valid_time["lead"])
        return values.drop_vars("season").transpose(*valid_time.dims, "lat", "lon")


class SpreadCalibrator:
    """The prepared days up to the end of validation, which calibration reads once for all systems.

    Raises SSTCastError if the stores do not exist or are damaged.
    """

    def __init__(self, prepared: Prepared) -> None:
        self.prepared, self.data = prepared, prepared.data
        self.cube, self.anomalies = prepared.open()

    @cached_property
    def climatological(self) -> Spread:
        """The spread of the climatology, with the correlation of its errors from day to day.

        Both are computed from all days of the base period.
        """
        days = self.anomalies[["anomaly"]].sel(time=slice(*map(str, self.data.splits.base)))
        scale = self.anomalies["scale"].compute()
        counts = np.zeros((len(SEASONS), 1))
        sums = np.zeros((len(SEASONS), 1, *days["anomaly"].shape[1:]))
        horizon = self.data.horizon
        previous_errors, products = np.zeros((0, days["anomaly"][0].size)), np.zeros(horizon)
        count = max(DAYS_AT_ONCE, VALUES_AT_ONCE // days["anomaly"][0].size)
        for first in tracked(range(0, days.sizes["time"], count), "spread of the climatology"):
            block = days["anomaly"].isel(time=slice(first, first + count)).load()
            errors = (block * on_days(scale, block["time"])).values
            squares = np.square(errors)
            joined_errors = np.concatenate([previous_errors, np.nan_to_num(errors).reshape(len(errors), -1)])
            new_errors = joined_errors[len(previous_errors) :]
            for lag in range(min(horizon, len(joined_errors))):
                lagged_errors = joined_errors[max(0, len(previous_errors) - lag) : len(joined_errors) - lag]
                products[lag] += np.vdot(lagged_errors, new_errors[len(new_errors) - len(lagged_errors) :])
            previous_errors = joined_errors[max(0, len(joined_errors) - horizon + 1) :]
            season = _season_numbers(block["time"])
            for number in range(len(SEASONS)):
                counts[number] += (season == number).sum()
                sums[number, 0] += squares[season == number].sum(0, dtype=float)
        deviations = np.sqrt(sums / np.maximum(counts, 1)[..., None, None]).astype(np.float32)
        values = self._labelled(np.repeat(np.maximum(deviations, np.float32(SMALLEST_STD)), horizon, axis=1))
        lags = np.abs(np.subtract.outer(np.arange(horizon), np.arange(horizon)))
        covariance = products[lags]
        return Spread(in_scratch(values), _correlation(covariance))

    def spread(self, system: "ForecastSystem") -> Spread:
        """Return the spread of a system that was not fitted to the validation days.

        Raises SSTCastError if there are too few validation days.
        """
        sums = np.zeros(0)
        counts = np.zeros((len(SEASONS), self.data.horizon))
        cross = np.zeros((self.data.horizon, self.data.horizon))
        climatological_std = self.climatological.values.isel(lead=0).values  # [season, lat, lon]
        climatological_std = np.where(
            (climatological_std > SMALLEST_STD).any(0), climatological_std, np.float32(np.nan)
        )
        for errors in self._errors(system):
            if not sums.size:
                sums = np.zeros((*counts.shape, *errors.shape[2:]))
            season = _season_numbers(errors["valid_time"])
            values, squares = errors.values, np.square(errors.values)
            for number in range(len(SEASONS)):
                in_season = season == number
                counts[number] += in_season.sum(0)
                sums[number] += np.einsum("sl,slyx->lyx", in_season.astype(np.float32), squares)
            standard = np.nan_to_num(values / climatological_std[season]).reshape(*season.shape, -1)
            cross += np.einsum("slc,smc->lm", standard, standard, optimize=True)
        weights = area_weights(self.cube["lat"]).values[:, None] * np.ones(self.cube.sizes["lon"])
        width = self._labelled(pooled(sums, counts, climatological_std, weights))
        return Spread(in_scratch(width), _correlation(cross))

    def _labelled(self, values: NDArray[np.float32]) -> xr.DataArray:
        leads = np.arange(1, self.data.horizon + 1, dtype=np.int32)
        coords = {"season": list(SEASONS), "lead": leads, **{axis: self.cube[axis] for axis in ("lat", "lon")}}
        return xr.DataArray(values, coords, ("season", "lead", "lat", "lon"))

    @cached_property
    def _days(self) -> xr.Dataset:
        from sstcast.ocean.windows import days_of_split

        names = ["anomaly", "ocean_mask", *predictors_in(self.anomalies)]
        days = days_of_split(self.anomalies, self.data, "validation")[names]
        return days.assign(anomaly=in_scratch(days["anomaly"]), ocean_mask=days["ocean_mask"].load())

    @cached_property
    def _truth(self) -> xr.DataArray:
        return in_scratch(self.cube["sst"].sel(time=slice(*self._days["time"].values[[0, -1]])))

    @cached_property
    def _freezing_point(self) -> xr.DataArray:
        return limits_of(self.prepared, FREEZING)[FREEZING]

    @cached_property
    def _statistics(self) -> xr.Dataset:
        return xr.Dataset({name: in_scratch(self.anomalies[name]) for name in ("climatology", "scale")})

    def _errors(self, system: "ForecastSystem") -> Iterator[xr.DataArray]:
        """Yield the forecast errors on the validation days in blocks, `(init_time, lead, lat, lon)` in degC."""
        from sstcast.ocean.windows import with_earlier

        days, history, horizon = self._days, self.data.history, self.data.horizon
        starts = -(-(days.sizes["time"] - history - horizon) // EVERY)
        cells = days.sizes["lat"] * days.sizes["lon"]
        at_once = max(1, VALUES_AT_ONCE // (horizon * cells))
        for first in tracked(range(0, starts, at_once), "forecasts of the validation days"):
            last = min(first + at_once, starts) - 1
            block = days.isel(time=slice(first * EVERY, last * EVERY + history))
            anomalies = system.predict(with_earlier(block, self.anomalies), EVERY)
            anomalies = not_below_freezing(anomalies, self._statistics, self._freezing_point)
            forecast = in_degrees(anomalies, self._statistics)["sst"]
            truth = self._truth.sel(time=forecast["valid_time"]).drop_vars("time")
            yield (forecast - truth).transpose(*forecast.dims)
            release()


def pooled(sums: Array, counts: Array, climate: Array, weights: Array) -> NDArray[np.float32]:
    """Estimate the spread `[season, lead, lat, lon]` from sums of squared errors.

    One or two years contain few independent errors, so only three quantities are estimated from them:

    - the mean squared error by lead
    - a factor by season and lead, shrunk towards 1 as if one more season of average errors had been observed
    - by lead, the power (0 to 1) of the climatological variance that best describes the pattern of cells

    The climatological variance itself, by cell and season, comes from the many years of the climatology. A cell
    without it takes no part, and has the spread `SMALLEST_STD`.

    Args:
        sums: sums of squared errors, `[season, lead, lat, lon]`, NaN where there is no forecast.
        counts: the number of errors in each sum, `[season, lead]`.
        climate: standard deviation of the climatological distribution, `[season, lat, lon]`, NaN where it is
            negligible.
        weights: area weights of the cells, `[lat, lon]`.

    Examples:
        >>> sums = 30 * np.array([5.5, 19.5]).reshape(2, 1, 1, 1)  # two seasons; the mean of all errors is 12.5
        >>> pooled(sums, np.full((2, 1), 30), np.ones((2, 1, 1)), np.ones((1, 1))).ravel().tolist()
        [3.0, 4.0]

        The variances, 9 and 16, are halfway between the mean of a season and that of all.
    """
    forecast = np.isfinite(sums).all((0, 1))
    spread = np.full(sums.shape, np.nan, np.float32)
    spread[..., forecast] = SMALLEST_STD
    valid = forecast & np.isfinite(climate).all(0)
    if not valid.any():
        return spread
    weights = weights[valid] / weights[valid].sum()
    errors, variance = sums[..., valid], np.square(climate[:, valid])
    total = counts.sum(0)
    by_cell = errors.sum(0) / total[:, None]  # [lead, cell]
    by_lead = np.maximum(by_cell @ weights, SMALLEST_STD**2)
    # A cell may have varied in the base period and not since.
    x, y = np.log(variance.mean(0)), np.log(np.maximum(by_cell, SMALLEST_STD**2))
    x -= x @ weights
    power = (y * x) @ weights / max(np.square(x) @ weights, TINY)
    half_window = SMOOTHED_LEADS // 2
    power = [power[max(0, lead - half_window) : lead + half_window + 1].mean() for lead in range(len(power))]
    pattern = variance[:, None] ** np.clip(power, 0, 1)[:, None]  # [season, lead, cell]
    pattern /= ((pattern @ weights) * counts).sum(0)[:, None] / total[:, None]
    prior = SEASON_DAYS / EVERY
    season_factor = (errors @ weights + prior * by_lead) / (
        (pattern @ weights) * counts * by_lead + prior * by_lead
    )
    pattern *= (by_lead * season_factor)[..., None]
    spread[..., valid] = np.maximum(np.sqrt(pattern, out=pattern), SMALLEST_STD)
    return spread


def _correlation(covariance: Array) -> Array:
    """Return the correlation `[lead, lead]`. Errors without variance are not correlated."""
    deviations = np.sqrt(covariance.diagonal())
    scale = np.outer(deviations, deviations)
    return np.divide(covariance, scale, out=np.eye(len(deviations)), where=scale > 0)


def _season_numbers(time: xr.DataArray) -> NDArray[np.intp]:
    return np.asarray(time.dt.month.values % 12 // 3, np.intp)


QUANTILES = (0.05, 0.10, 0.25, 0.50, 0.75, 0.90, 0.95)
LAYOUT = 4  # version of the layout of spread.nc and of the estimate


def with_distribution(fields: xr.Dataset, spread: Spread, freezing_point: xr.DataArray) -> xr.Dataset:
    """Add `sst_spread`, and `sst_quantile` at `QUANTILES`, to forecasts `sst(init_time, lead, lat, lon)`.

    Quantiles are not below `freezing_point(lat, lon)`, where it is not NaN.
    """
    width = spread.spread(fields["valid_time"])
    levels = xr.DataArray(ndtri(QUANTILES), {"quantile": list(QUANTILES)}, ("quantile",))
    quantiles = fields["sst"] + width * levels
    quantiles = quantiles.where(~(quantiles < freezing_point), freezing_point)
    quantiles = quantiles.transpose("init_time", "lead", "quantile", "lat", "lon")
    return fields.assign(sst_spread=width.where(fields["sst"].notnull()), sst_quantile=quantiles.astype("float32"))


def calibrated(run: Run, prepared: Prepared | None = None, calibrator: SpreadCalibrator | None = None) -> Spread:
    """Return the spread model of a run's forecasts, and estimate it if necessary.

    The spread is saved in the run's folder. That of a linear system is saved beside the prepared stores, because
    all runs for which it stands share it (see `held_out_fit`). It is estimated again if the run, the days before
    its test days, or the method has changed, and each time if the folder is read-only.

    Args:
        run: the run.
        prepared: the stores of the run's ocean, by default, or of another.
        calibrator: their validation days, if they have already been read.

    Raises SSTCastError if the prepared stores do not exist, they or the file are damaged, or there are too few
    validation days.
    """
    prepared = prepared or Prepared.of(run.config.data)
    path, recipe = spread_file(run, prepared)

    def make() -> xr.Dataset:
        from sstcast.forecasting.system import system_of  # imported late: PyTorch takes a second

        validation = calibrator or SpreadCalibrator(prepared)
        estimate = validation.spread(system_of(run, prepared, held_out=True))
        fields = estimate.values.to_dataset(name="spread").drop_encoding()
        return describe(
            fields.assign(correlation=(("lead", "other_lead"), estimate.correlation)),
            {
                "spread": "standard deviation of the predictive distribution",
                "season": "season of the day forecast",
            },
            title="Spread of forecasts",
            summary="Standard deviation of forecast errors by season, lead and cell, from the validation days",
            source=str(validation.cube.attrs["source"]),
            history=f"sstcast {__version__}",
        )

    table = prepared.kept(path, recipe, make, "spread", "correlation", last=prepared.data.splits.before_test[1])
    return Spread(table["spread"].drop_attrs(), table["correlation"].values)


def spread_file(run: Run, prepared: Prepared) -> tuple[Path, dict[str, Any]]:
    """Return the file of the spread of a run's forecasts, and its recipe, which nothing is computed for."""
    if (system := held_out_fit(run, prepared.data)) is not None:
        path = prepared.spread(system.file_name)
        recipe = {"sstcast": __version__, "system": system.recipe, **recipe_of_days(prepared, system.before)}
    else:
        path = run.folder / "spread.nc" if is_own(run, prepared) else ocean_file(run, prepared, "spread")
        recipe = recipe_of_fit(run, prepared)
    return path, {"layout": LAYOUT, **recipe}
