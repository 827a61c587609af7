"""Climatology and thresholds of series with missing days, of the days that are known."""

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast.extremes.definition import HOBDAY, Definition
from sstcast.extremes.heatwaves import LIMITS, limits, percentile_of
from sstcast.log import LOG
from sstcast.reading.days_of_year import DAYS_OF_YEAR, LEAP_DAY, day_of_leap_year
from sstcast.types import Array

FEWEST_YEARS = 3  # with values near a day of the year. A 90th percentile of one is exceeded on 34 % of days
LEAST_KNOWN = 0.5  # share of the days in the window


def limits_of_known(sst: xr.DataArray, definition: Definition = HOBDAY) -> xr.Dataset:
    """Compute what `heatwaves.limits` does from `sst(time, place)` of all days, of which values may be missing.

    A day of the year has no statistics if its window has values in fewer than three years, or on less than half of
    its days. A line counts such days. Smoothing leaves them out. Without a missing day, the numbers are those of
    `heatwaves.limits`.
    """
    found = limits(sst, definition)
    for number in np.flatnonzero(sst.isnull().any("time").values):
        statistics = _of_series(sst[:, number], definition)
        for name, values in zip(LIMITS, statistics, strict=True):
            found[name][:, number] = values
        if unknown := int(np.isnan(statistics[0]).sum()):
            LOG.info(
                f"{sst['place'].values[number]}: {unknown} days of the year lack a threshold, for want of values"
            )
    return found


def _of_series(sst: xr.DataArray, definition: Definition) -> NDArray[np.float32]:
    """Return the statistics `LIMITS` of each day of the year, `[statistic, 366]`."""
    from scipy.ndimage import uniform_filter1d  # imported late: slow

    year, days = sst["time"].dt.year.values, len(DAYS_OF_YEAR)
    years = np.arange(year[0], year[-1] + 1)
    table = np.full((len(years), days), np.nan, np.float32)
    table[year - year[0], day_of_leap_year(sst["time"]).values - 1] = sst.values
    ordinary = ~xr.DataArray(years).isin(year[(sst["time"].dt.dayofyear == days).values]).values
    table[ordinary, LEAP_DAY - 1] = (table[ordinary, LEAP_DAY - 2] + table[ordinary, LEAP_DAY]) / 2
    padded = np.pad(table.ravel(), definition.window // 2, constant_values=np.nan)
    nearby = np.lib.stride_tricks.sliding_window_view(padded, definition.window).reshape(len(years), days, -1)
    raw = np.full((len(LIMITS), days), np.nan)
    for day in range(days):
        known = np.isfinite(nearby[:, day])
        if known.any(1).sum() >= FEWEST_YEARS and known.mean() >= LEAST_KNOWN:
            ordered: Array = np.sort(nearby[:, day][known])[None]
            percents = definition.percentile, 100 - definition.percentile
            raw[:, day] = ordered.mean(), *(percentile_of(ordered, percent)[0] for percent in percents)
    known = np.isfinite(raw)
    total, share = (
        uniform_filter1d(of, definition.smooth, axis=1, mode="wrap")
        for of in (np.where(known, raw, 0), known.astype(float))
    )
    return np.where(known, total / np.where(known, share, 1), np.nan).astype(np.float32)
