"""Climatology and standardised anomalies under the two protocols.

Both protocols have the same affine form, which all models and metrics rely on:

    sst = climatology[dayofyear] + scale[dayofyear] * anomaly

- `physical`: `climatology` is a harmonic fit to the coarse field over the base period. `scale` is a single number,
  the standard deviation of the anomalies in that period.
- `paper` (the released code of Cai et al. 2023, whose text does not mention anomalies): each native pixel is
  standardised by the mean and population standard deviation of its day of year in the base period, land is set to
  0, and pixels are averaged. In a coarse cell with some land, the average shrinks by the ocean fraction, which
  `scale` corrects. The average of pixels with different standard deviations has no exact inverse. With `coarsen`
  above 1, anomalies are converted to degC with the mean standard deviation of the cell's ocean pixels.

The base period is the training period unless `data.splits.base_period` sets another. `fit` runs once and uses only
the base period. `standardise` is applied to all days.
"""

import numpy as np
import pandas as pd
import xarray as xr

from sstcast.config import DataConfig
from sstcast.reading.by_day import by_day
from sstcast.reading.days_of_year import DAYS_OF_YEAR, harmonics
from sstcast.reading.grid import coarsen, ocean_fraction

SMALLEST_STD = 0.01  # degC, the resolution of OISST; avoids division by zero where a pixel never changes
DAYS_AT_ONCE = 24


def fit_statistics(native: xr.DataArray, coarse: xr.DataArray, data: DataConfig) -> xr.Dataset:
    """Compute `climatology` and `scale(dayofyear, lat, lon)` over the base period, in degC.

    `native` is the cropped source and `coarse` the cube made from it. The `physical` protocol uses the coarse
    field and the `paper` protocol the native field.
    """
    base = slice(*map(str, data.splits.base))
    if data.protocol == "paper":
        climatology, scale = daily_statistics(native.sel(time=base))
    else:
        days = coarse.sel(time=base)
        terms = harmonic_terms(days)
        climatology = harmonic_climatology(terms)
        deviation = np.float32(max(_deviation(days, terms), SMALLEST_STD))
        scale = climatology.copy(data=np.broadcast_to(deviation, climatology.shape))  # takes no memory
    return xr.Dataset({"climatology": climatology, "scale": scale}).astype("float32", copy=False)


def standardise(
    native: xr.DataArray, coarse: xr.DataArray, ocean: xr.DataArray, statistics: xr.Dataset, data: DataConfig
) -> xr.Dataset:
    """Return `anomaly(time, lat, lon)`, `climatology` and `scale(dayofyear, lat, lon)`, `ocean_mask(lat, lon)`.

    `statistics` come from `fit_statistics`, and `ocean` is the mask of ocean cells on the native grid. The
    anomaly is NaN on land.
    """
    climatology, scale = statistics["climatology"], statistics["scale"]
    fraction = ocean_fraction(ocean, data.box)
    if data.protocol == "paper":
        anomaly = coarsen(_standard(native, climatology, scale), ocean, data.box) * fraction
        climatology = coarsen(climatology, ocean, data.box)
        scale = coarsen(scale, ocean, data.box) / fraction
    else:
        anomaly = _standard(coarse, climatology, scale)
    result = xr.Dataset({"anomaly": anomaly, "climatology": climatology, "scale": scale}).astype("float32")
    return result.assign(ocean_mask=fraction >= data.box.min_ocean)


def _standard(field: xr.DataArray, climatology: xr.DataArray, scale: xr.DataArray) -> xr.DataArray:
    """Standardise `field(time, lat, lon)` day by day, because statistics for all days would not fit in memory."""
    mean, deviation = climatology.values, scale.values

    def standard(values: np.ndarray, days: np.ndarray) -> np.ndarray:
        result = np.empty_like(values)
        for i, day_index in enumerate(pd.DatetimeIndex(days).day_of_year - 1):
            result[i] = (values[i] - mean[day_index]) / deviation[day_index]
        return result

    return by_day(standard, field)


def harmonic_terms(sst: xr.DataArray) -> xr.DataArray:
    """Fit a mean and `HARMONICS` annual harmonics `(term, lat, lon)` to each cell by least squares."""
    design = harmonics(sst["time"].dt.dayofyear.values)
    # The fit is a product with a small matrix, so the field is read only once.
    solve = xr.DataArray(np.linalg.pinv(design), dims=("term", "time"), coords={"time": sst["time"]})
    return xr.dot(solve, sst, dim="time").compute()


def harmonic_climatology(terms: xr.DataArray) -> xr.DataArray:
    """Evaluate the harmonics on days 1..366, `(dayofyear, lat, lon)`, in single precision."""
    days = np.empty((366, *terms.shape[1:]), np.float32)
    for first in range(0, 366, DAYS_AT_ONCE):
        block = slice(first, first + DAYS_AT_ONCE)
        days[block] = np.tensordot(harmonics(DAYS_OF_YEAR[block]), terms.values, 1)
    return terms.isel(term=0, drop=True).expand_dims(dayofyear=DAYS_OF_YEAR).copy(data=days)


def _deviation(sst: xr.DataArray, terms: xr.DataArray) -> float:
    """Return the root mean squared deviation from the harmonics over all days and cells."""

    def anomaly(values: np.ndarray, days: np.ndarray) -> np.ndarray:
        return values - np.tensordot(harmonics(pd.DatetimeIndex(days).day_of_year.values), terms.values, 1)

    return float((by_day(anomaly, sst) ** 2).mean().compute()) ** 0.5


def daily_statistics(sst: xr.DataArray) -> tuple[xr.DataArray, xr.DataArray]:
    """Return mean and population standard deviation `(dayofyear, lat, lon)` of days 1..366.

    A day of year without data, such as day 366 without a leap year, gets the values of the day before.
    """
    day = sst["time"].dt.dayofyear.values
    parts = []
    for start in range(1, 367, DAYS_AT_ONCE):  # the whole record may not fit in memory
        part = sst.isel(time=(start <= day) & (day < start + DAYS_AT_ONCE)).load()
        groups = part.groupby(part["time"].dt.dayofyear)
        parts.append((groups.mean("time"), groups.std("time", ddof=0)))
    mean, std = (xr.concat(days, "dayofyear").reindex(dayofyear=DAYS_OF_YEAR) for days in zip(*parts, strict=True))
    missing_days = set(DAYS_OF_YEAR) - set(day)
    for missing_day in sorted(missing_days):
        for statistic in (mean, std):
            statistic.loc[{"dayofyear": missing_day}] = statistic.sel(dayofyear=max(missing_day - 1, 1))
    return mean, std.clip(min=SMALLEST_STD)
