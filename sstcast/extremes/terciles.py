"""Weekly means of daily anomalies, and the bounds between the thirds of those in the base period.

Subseasonal forecasts are often given as the probabilities that the mean of a week lies in the lower, middle and
upper third of earlier weeks. Thirds of temperatures would mostly follow the season, so these are thirds of
anomalies from the daily climatology, in weeks near the same day of the year.
"""

import json

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast._version import __version__
from sstcast.names import DAY
from sstcast.ocean.lead_weeks import WEEK
from sstcast.ocean.prepared import Prepared
from sstcast.progress import tracked
from sstcast.reading.days_of_year import DAYS_OF_YEAR, LEAP_DAYS, day_of_leap_year, on_days
from sstcast.storage.cf import describe
from sstcast.storage.scratch import in_scratch, release, scratch_array
from sstcast.types import Array

MIDDLE = 3  # days from the first day of a week to the one whose day of the year counts
NEARBY_DAYS = 45  # from a day of the year to the weeks of the base period that define its thirds
LOWER, UPPER = BOUNDS = ("lower_bound", "upper_bound")
SMALLEST_THIRD = 0.01  # degC, the resolution of OISST, below which bounds coincide
WEEKS_AT_ONCE, CELLS_AT_ONCE = 16, 256
LAYOUT = 2  # version of the contents of the file of `terciles_of`


def whole_weeks(horizon: int) -> int:
    """Return the number of whole weeks in a forecast of `horizon` days: days 1-7, 8-14 and so on."""
    return horizon // WEEK


def middle_of_weeks(horizon: int) -> NDArray[np.intp]:
    """Return the positions, among the leads from day 1, of the middle day of each whole week."""
    return np.arange(whole_weeks(horizon)) * WEEK + MIDDLE


def weekly_means(daily: Array, axis: int = 0) -> Array:
    """Average `daily` over each whole week along `axis`. Days that follow the last whole week are left out."""
    values = np.moveaxis(daily, axis, 0)[: whole_weeks(daily.shape[axis]) * WEEK]
    return np.moveaxis(values.reshape(-1, WEEK, *values.shape[1:]).mean(1), 0, axis)


def weekly_spread(spread: Array, correlation: Array) -> Array:
    """Return the standard deviation of the error of each weekly mean, `[starts, week, ...]`.

    Args:
        spread: standard deviation of the errors by day, `[starts, lead, ...]`.
        correlation: correlation of the errors of a forecast between leads, `[lead, lead]`.
    """
    starts, horizon, *cells = spread.shape
    weeks = []
    for first in range(0, whole_weeks(horizon) * WEEK, WEEK):
        days = slice(first, first + WEEK)
        by_day = spread[:, days].reshape(starts, WEEK, -1)
        covariance = np.asarray(correlation[days, days], by_day.dtype) @ by_day
        weeks.append(np.einsum("swc,swc->sc", by_day, covariance))
    variance = np.maximum(np.stack(weeks, 1) / WEEK**2, 0)
    return np.sqrt(variance).reshape(starts, -1, *cells)


def bounds_of_thirds(weekly: Array, day: NDArray[np.integer]) -> NDArray[np.float32]:
    """Return the lower and upper bound of the middle third on each day of the year, `[2, 366, cells]`.

    Args:
        weekly: weekly means in the base period, `[weeks, cells]`.
        day: the day of the leap year of the middle of each week, 1..366.

    Each third holds as many of the weeks within `NEARBY_DAYS` of the day of the year. Bounds between two weeks are
    interpolated linearly. They are NaN where they coincide, and without any week.
    """
    distance = np.abs(DAYS_OF_YEAR[:, None] - day)
    nearby = np.minimum(distance, len(DAYS_OF_YEAR) - distance) <= NEARBY_DAYS
    result = np.full((2, len(DAYS_OF_YEAR), weekly.shape[1]), np.nan, np.float32)
    for start in tracked(range(0, weekly.shape[1], CELLS_AT_ONCE), "bounds of thirds"):
        block = slice(start, start + CELLS_AT_ONCE)
        values = np.ascontiguousarray(weekly[:, block].T, np.float32)
        for number, weeks in enumerate(nearby):
            count = int(weeks.sum())
            if not count:
                continue
            ordered = np.sort(values[:, weeks])
            for bound, share in enumerate((1 / 3, 2 / 3)):
                rank = int((count - 1) * share)
                low, high = ordered[:, rank], ordered[:, min(rank + 1, count - 1)]
                result[bound, number, block] = low + np.float32((count - 1) * share - rank) * (high - low)
    coincide = ~(result[1] - result[0] >= SMALLEST_THIRD)
    result[:, coincide] = np.nan
    return result


def terciles_of(prepared: Prepared) -> xr.Dataset:
    """Return `lower_bound` and `upper_bound(day_of_leap_year, lat, lon)` of the middle third of weekly anomalies.

    They are in degC from the climatology of the data, by the middle day of a week, and NaN on land and where they
    coincide. The base period is divided into weeks from its first day on. The bounds are computed from the
    prepared stores and cached in a file beside them, like those of heatwaves (`heatwaves.limits_of`).

    Raises SSTCastError if the stores are absent, or the stores or the file are damaged.
    """
    statistics, (first, last) = prepared.open_statistics(), prepared.data.splits.base

    def make() -> xr.Dataset:
        cube = prepared.open_cube()
        sst = cube["sst"].sel(time=slice(str(first), str(last)))
        weekly, middle = _weeks_of(sst, in_scratch(prepared.open_anomalies()["climatology"]))
        values = bounds_of_thirds(weekly.reshape(len(weekly), -1), day_of_leap_year(middle).values)
        fields = values.reshape(2, len(DAYS_OF_YEAR), *sst.shape[1:])
        dims = (LEAP_DAYS, "lat", "lon")
        return describe(
            xr.Dataset(
                {name: (dims, field) for name, field in zip(BOUNDS, fields, strict=True)},
                {LEAP_DAYS: DAYS_OF_YEAR, "lat": sst["lat"], "lon": sst["lon"]},
            ),
            {LOWER: "upper end of the lower third", UPPER: "lower end of the upper third"},
            title="Thirds of weekly means of sea surface temperature anomalies",
            summary=f"Anomalies in degC from the daily climatology, in weeks of {first}..{last} within "
            f"{NEARBY_DAYS} days of the day of the year",
            source=str(cube.attrs["source"]),
            history=f"sstcast {__version__}",
        )

    recipe = {"layout": LAYOUT, "statistics": json.loads(statistics.attrs["recipe"])}
    return prepared.kept(prepared.terciles, recipe, make, *BOUNDS, last=last)


def _weeks_of(sst: xr.DataArray, climatology: xr.DataArray) -> tuple[Array, xr.DataArray]:
    """Return the mean anomalies of the whole weeks in `sst(time, ...)`, `[weeks, ...]`, and their middle days."""
    number = (sst["time"].values - sst["time"].values[:1]) // DAY // WEEK
    weeks = np.flatnonzero(np.bincount(number) == WEEK)
    first = np.searchsorted(number, weeks)
    means = scratch_array((len(weeks), *sst.shape[1:]))
    for start in tracked(range(0, len(weeks), WEEKS_AT_ONCE), "means of weeks"):
        days = first[start : start + WEEKS_AT_ONCE, None] + np.arange(WEEK)
        block = sst.isel(time=days.ravel()).load()
        means[start : start + WEEKS_AT_ONCE] = weekly_means((block - on_days(climatology, block["time"])).values)
        release()
    return means, sst["time"].isel(time=first + MIDDLE)
