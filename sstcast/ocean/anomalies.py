"""Climatology and standardisation of the two protocols.

Both end in one affine form, the same for every model and metric downstream:

    sst = climatology[dayofyear] + scale[dayofyear] * anomaly

- `physical`: `climatology` is a smooth harmonic fit to the coarse field's training days, `scale` one number,
  the standard deviation of all training anomalies.
- `paper` (Cai et al. 2023, D.4, as their code does it): each native pixel and day of year is standardised
  with the training days' mean and population standard deviation, land becomes 0, then cells are averaged.
  Where a coarse cell holds some land the average shrinks by its ocean fraction, and `scale` undoes that.
  Averaging pixels of different deviation has no exact inverse: with `coarsen` above 1, degC are recovered
  with the mean deviation of the cell's ocean pixels.
"""

import numpy as np
import xarray as xr

from sstcast.config import DataConfig, Region, Span
from sstcast.errors import SSTCastError
from sstcast.ocean.cube import coarsen, describe_axes

HARMONICS = 3
YEAR = 365.2425
SMALLEST_STD = 0.01  # degC, the resolution of OISST: a pixel that never changes must not divide by zero
DAYS_OF_YEAR = np.arange(1, 367)


def standardise(
    native: xr.DataArray, coarse: xr.DataArray, fraction: xr.DataArray, data: DataConfig
) -> xr.Dataset:
    """Return `anomaly(time, lat, lon)`, `climatology` and `scale(dayofyear, lat, lon)`, `ocean_mask(lat, lon)`.

    `native` is the cropped source, `coarse` the cube made from it (both degC), `fraction` its ocean
    fraction. Statistics see the training days only. The anomaly is NaN on land.

    Raises SSTCastError if no training day is in the data.
    """
    if data.protocol == "physical":
        result = _physical(coarse, data.splits.train)
    else:
        result = _paper(native, coarse, fraction, data.splits.train, data.box)
    ocean = (fraction >= data.box.min_ocean).rename("ocean_mask")
    result = result.where(ocean).astype("float32").assign(ocean_mask=ocean)
    describe_axes(result)
    result["anomaly"].attrs = {"long_name": f"standardised anomaly, {data.protocol} protocol", "units": "1"}
    result["climatology"].attrs = {
        "long_name": "climatology of the training years",
        "units": "degree_Celsius",
    }
    result["scale"].attrs = {"long_name": "degC of one standardised unit", "units": "degree_Celsius"}
    result["dayofyear"].attrs = {"long_name": "day of the year, 1..366", "units": "1"}
    result["ocean_mask"].attrs = {"long_name": "cell is ocean", "flag_meanings": "land ocean"}
    return result


def on_days(statistic: xr.DataArray, time: xr.DataArray) -> xr.DataArray:
    """Look `statistic(dayofyear, ...)` up on the calendar days of `time`, of any dimensions."""
    return statistic.sel(dayofyear=time.dt.dayofyear).drop_vars("dayofyear")


def harmonic_climatology(sst: xr.DataArray) -> xr.DataArray:
    """Fit mean and `HARMONICS` annual harmonics per cell by least squares; return it for days 1..366."""
    design = _harmonics(sst["time"].dt.dayofyear.values)
    # One small matrix does the fit, so the field itself is read once, whatever its size.
    solve = xr.DataArray(np.linalg.pinv(design), dims=("term", "time"), coords={"time": sst["time"]})
    terms = xr.dot(solve, sst.fillna(0.0), dim="time")
    days = xr.DataArray(_harmonics(DAYS_OF_YEAR), dims=("dayofyear", "term"), coords={"dayofyear": DAYS_OF_YEAR})
    return xr.dot(days, terms, dim="term").compute()


def daily_statistics(sst: xr.DataArray) -> tuple[xr.DataArray, xr.DataArray]:
    """Return mean and population standard deviation `(dayofyear, lat, lon)` for days 1..366.

    A day of year the data never reach (29 February leaves day 366 to leap years) takes the day before's.
    """
    groups = sst.groupby(sst["time"].dt.dayofyear)
    mean, std = xr.broadcast(groups.mean("time"), groups.std("time", ddof=0))
    mean, std = (s.reindex(dayofyear=DAYS_OF_YEAR).compute() for s in (mean, std))
    missing = set(DAYS_OF_YEAR) - set(sst["time"].dt.dayofyear.values)
    for day in sorted(missing):
        for statistic in (mean, std):
            statistic.loc[{"dayofyear": day}] = statistic.sel(dayofyear=max(day - 1, 1))
    return mean, std.clip(min=SMALLEST_STD)


def _physical(coarse: xr.DataArray, train: Span) -> xr.Dataset:
    training = _training_days(coarse, train)
    climatology = harmonic_climatology(training)
    std = float(np.sqrt(((training - on_days(climatology, training["time"])) ** 2).mean().compute()))
    scale = max(std, SMALLEST_STD)
    anomaly = (coarse - on_days(climatology, coarse["time"])) / scale
    return xr.Dataset({"anomaly": anomaly, "climatology": climatology, "scale": xr.full_like(climatology, scale)})


def _paper(
    native: xr.DataArray, coarse: xr.DataArray, fraction: xr.DataArray, train: Span, region: Region
) -> xr.Dataset:
    mean, std = daily_statistics(_training_days(native, train))
    standard = (native - on_days(mean, native["time"])) / on_days(std, native["time"])
    pooled = coarsen(standard.fillna(0.0), fraction, region)
    climatology, scale = coarsen(mean, fraction, region), coarsen(std, fraction, region) / fraction
    return xr.Dataset({"anomaly": pooled, "climatology": climatology, "scale": scale})


def _training_days(sst: xr.DataArray, train: Span) -> xr.DataArray:
    days = sst.sel(time=slice(*map(str, train)))
    if not days.sizes["time"]:
        raise SSTCastError(f"data.splits.train: no day of {train[0]}..{train[1]} is in the data")
    return days


def _harmonics(day: np.ndarray) -> np.ndarray:
    phase = 2 * np.pi * np.outer(day, np.arange(1, HARMONICS + 1)) / YEAR
    return np.hstack([np.ones((len(day), 1)), np.cos(phase), np.sin(phase)])
