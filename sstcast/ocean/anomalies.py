"""Climatology and standardisation of the two protocols.

Both end in one affine form, the same for every model and metric downstream:

    sst = climatology[dayofyear] + scale[dayofyear] * anomaly

- `physical`: `climatology` is a smooth harmonic fit to the coarse field's days of the base period, `scale` one
  number, the standard deviation of their anomalies.
- `paper` (Cai et al. 2023, D.4, as their code does it): each native pixel and day of year is standardised
  with the base period's mean and population standard deviation, land becomes 0, then cells are averaged.
  Where a coarse cell holds some land the average shrinks by its ocean fraction, and `scale` undoes that.
  Averaging pixels of different deviation has no exact inverse: with `coarsen` above 1, degC are recovered
  with the mean deviation of the cell's ocean pixels.

The base period is the training days unless `data.splits.base_period` names another. `fit` looks at it and is done
once; `standardise` is done for every day.
"""

import numpy as np
import xarray as xr

from sstcast.config import DataConfig
from sstcast.ocean.cube import coarsen, ocean_fraction

HARMONICS = 3
YEAR = 365.2425
SMALLEST_STD = 0.01  # degC, the resolution of OISST: a pixel that never changes must not divide by zero
DAYS_OF_YEAR = np.arange(1, 367)
DAYS_AT_ONCE = 32


def fit(native: xr.DataArray, coarse: xr.DataArray, data: DataConfig) -> xr.Dataset:
    """Return `climatology` and `scale(dayofyear, lat, lon)` of the base period, in degC.

    `native` is the cropped source, `coarse` the cube made from it. The statistics are the coarse field's
    under the `physical` protocol and the native field's under the `paper` protocol.
    """
    base = slice(*map(str, data.splits.base))
    if data.protocol == "paper":
        climatology, scale = daily_statistics(native.sel(time=base))
    else:
        days = coarse.sel(time=base)
        climatology = harmonic_climatology(days)
        scale = xr.ones_like(climatology)
        deviation = _standard(days, climatology, scale)
        scale = scale * max(float((deviation**2).mean().compute()) ** 0.5, SMALLEST_STD)
    return xr.Dataset({"climatology": climatology, "scale": scale}).astype("float32")


def standardise(
    native: xr.DataArray, coarse: xr.DataArray, ocean: xr.DataArray, statistics: xr.Dataset, data: DataConfig
) -> xr.Dataset:
    """Return `anomaly(time, lat, lon)`, `climatology` and `scale(dayofyear, lat, lon)`, `ocean_mask(lat, lon)`.

    `statistics` are those of `fit`, `ocean` is the native mask of ocean cells. The anomaly is NaN on land.
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


def on_days(statistic: xr.DataArray, time: xr.DataArray) -> xr.DataArray:
    """Look `statistic(dayofyear, ...)` up on the calendar days of `time`, of any dimensions."""
    return statistic.sel(dayofyear=time.dt.dayofyear).drop_vars("dayofyear")


def _standard(field: xr.DataArray, climatology: xr.DataArray, scale: xr.DataArray) -> xr.DataArray:
    """Standardise `field(time, lat, lon)` chunk by chunk: statistics spread over all days would not fit memory."""

    def block(values: np.ndarray, day: np.ndarray, mean: np.ndarray, deviation: np.ndarray) -> np.ndarray:
        return (values - mean[day - 1]) / deviation[day - 1]

    cells, daily = ["lat", "lon"], ["dayofyear", "lat", "lon"]
    days = field["time"].dt.dayofyear.drop_vars("time")
    return xr.apply_ufunc(
        block,
        field,
        days.chunk(time=field.chunksizes["time"]) if field.chunks else days,
        climatology,
        scale,
        input_core_dims=[cells, [], daily, daily],
        output_core_dims=[cells],
        dask="parallelized",
        output_dtypes=[np.float32],
    )


def harmonic_climatology(sst: xr.DataArray) -> xr.DataArray:
    """Fit mean and `HARMONICS` annual harmonics per cell by least squares; return it for days 1..366."""
    design = _harmonics(sst["time"].dt.dayofyear.values)
    # One small matrix does the fit, so the field itself is read once, whatever its size.
    solve = xr.DataArray(np.linalg.pinv(design), dims=("term", "time"), coords={"time": sst["time"]})
    terms = xr.dot(solve, sst, dim="time")
    days = xr.DataArray(_harmonics(DAYS_OF_YEAR), dims=("dayofyear", "term"), coords={"dayofyear": DAYS_OF_YEAR})
    return xr.dot(days, terms, dim="term").compute()


def daily_statistics(sst: xr.DataArray) -> tuple[xr.DataArray, xr.DataArray]:
    """Return mean and population standard deviation `(dayofyear, lat, lon)` for days 1..366.

    A day of year the data never reach (29 February leaves day 366 to leap years) takes the day before's.
    """
    day = sst["time"].dt.dayofyear.values
    parts = []
    for start in range(1, 367, DAYS_AT_ONCE):  # of all years: memory holds a season's weeks, never the record
        part = sst.isel(time=(start <= day) & (day < start + DAYS_AT_ONCE)).load()
        groups = part.groupby(part["time"].dt.dayofyear)
        parts.append((groups.mean("time"), groups.std("time", ddof=0)))
    mean, std = (xr.concat(part, "dayofyear").reindex(dayofyear=DAYS_OF_YEAR) for part in zip(*parts, strict=True))
    missing = set(DAYS_OF_YEAR) - set(day)
    for absent in sorted(missing):
        for statistic in (mean, std):
            statistic.loc[{"dayofyear": absent}] = statistic.sel(dayofyear=max(absent - 1, 1))
    return mean, std.clip(min=SMALLEST_STD)


def _harmonics(day: np.ndarray) -> np.ndarray:
    phase = 2 * np.pi * np.outer(day, np.arange(1, HARMONICS + 1)) / YEAR
    return np.hstack([np.ones((len(day), 1)), np.cos(phase), np.sin(phase)])
