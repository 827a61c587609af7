"""The degree heating weeks of a whole record: of each cell by year, and of places by day."""

import numpy as np
import pandas as pd
import xarray as xr

from sstcast.extremes.heat_stress import (
    MMM,
    STRESS_LEVELS,
    MonthlyYears,
    degree_heating_weeks,
    maximum_monthly_mean,
    stress_level,
)
from sstcast.extremes.heatwaves import VALUES_AT_ONCE
from sstcast.storage.scratch import in_scratch, release, scratch_array


def stress_of_cells(sst: xr.DataArray, years: MonthlyYears) -> xr.Dataset:
    """Return the heat stress of each year and cell of `sst(time, lat, lon)` in degC, without missing days.

    These are `maximum_monthly_mean(lat, lon)`, the largest DHW of a year as `dhw_max(year, lat, lon)`, NaN without
    any known day, and `stress_days(year, stress, lat, lon)`, the number of days at each of the `STRESS_LEVELS`.
    """
    sst = in_scratch(sst.transpose("time", "lat", "lon").astype(np.float32, copy=False))
    year = sst["time"].dt.year.values
    every_year = np.arange(year[0], year[-1] + 1)
    starts = np.searchsorted(year, every_year)
    shape = sst.shape[1:]
    fields = {"dhw_max": scratch_array((len(every_year), *shape)), MMM: np.empty(shape, np.float32)}
    fields["stress_days"] = scratch_array((len(every_year), len(STRESS_LEVELS), *shape))
    rows = max(1, VALUES_AT_ONCE // (8 * sst.sizes["time"] * sst.sizes["lon"]))  # of several arrays in float64
    for south in range(0, sst.sizes["lat"], rows):
        band = slice(south, south + rows)
        part = sst[:, band]
        mmm = maximum_monthly_mean(part, years).values
        dhw = degree_heating_weeks(part.values, mmm)
        level = stress_level(part.values - mmm, dhw)
        fields[MMM][band], fields["dhw_max"][:, band] = mmm, np.fmax.reduceat(dhw, starts, axis=0)
        for number in range(len(STRESS_LEVELS)):
            counts = np.add.reduceat((level == number).astype(np.float32), starts, axis=0)
            fields["stress_days"][:, number, band] = np.where(np.isnan(mmm), np.nan, counts)
        release()
    dims = {
        "dhw_max": ("year", "lat", "lon"),
        MMM: ("lat", "lon"),
        "stress_days": ("year", "stress", "lat", "lon"),
    }
    axes = {
        "year": every_year.astype(np.int32),
        "stress": list(STRESS_LEVELS),
        "lat": sst["lat"],
        "lon": sst["lon"],
    }
    return xr.Dataset({name: (dims[name], field) for name, field in fields.items()}, axes)


def stress_of_places(sst: xr.DataArray, years: MonthlyYears, base: xr.DataArray | None = None) -> pd.DataFrame:
    """Return the heat stress of the series `sst(time, place)` in degC, a row for each place and day.

    The monthly means are of the record `base(time, place)`, by default of `sst` itself.
    """
    mmm = maximum_monthly_mean(sst if base is None else base, years).values
    hotspot, dhw = sst.values - mmm, degree_heating_weeks(sst.values, mmm)
    columns = {"sst": sst.values, "hotspot": hotspot, "dhw": dhw, "stress": stress_level(hotspot, dhw)}
    days, count = sst.sizes["time"], sst.sizes["place"]
    table = pd.DataFrame(
        {"place": np.repeat(sst["place"].values, days), "time": np.tile(sst["time"].values, count)}
    )
    table = table.assign(**{name: values.T.ravel() for name, values in columns.items()})
    table["stress"] = np.array([*STRESS_LEVELS, ""])[table["stress"]]
    return table.assign(maximum_monthly_mean=np.repeat(mmm, days))
