"""Degree heating weeks (DHW), the heat stress of corals, as NOAA Coral Reef Watch defines them.

The maximum monthly mean (MMM) is that of the warmest month. Each month of 1985-2012 is regressed on the year, and
evaluated at 1988.286, the middle of the years of an earlier climatology (Heron et al. 2014; Skirving et al. 2020,
Remote Sens. 12, 3856). A HotSpot is the excess of SST over the MMM in degC. DHW is the sum of the HotSpots of at
least 1 degC in the last 84 days, divided by 7. HotSpot and DHW of a day give its level of stress.
"""

import datetime as dt
from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from sstcast.errors import SSTCastError
from sstcast.ocean.baselines import complete_years
from sstcast.ocean.heatwaves import VALUES_AT_ONCE
from sstcast.storage.scratch import in_scratch, release, scratch_array

FIRST_YEAR, LAST_YEAR, EVALUATED_AT = 1985, 2012, 1988.286
DHW_DAYS, WEEK = 84, 7
LEAST_HOTSPOT = 1.0  # degC, of the HotSpots that DHW sums
LEVELS = ("no stress", "watch", "warning", *(f"alert level {level}" for level in range(1, 6)))
ALERTS_FROM = (4.0, 8.0, 12.0, 16.0, 20.0)  # degC weeks, from which alert levels 1 to 5 begin
NOT_KNOWN = -1  # the level of days without a value, or with fewer than 83 days before them
MMM = "maximum_monthly_mean"

Array = NDArray[np.floating]


@dataclass(frozen=True)
class MonthlyYears:
    """The years whose monthly means give the MMM."""

    first: int
    last: int

    @classmethod
    def of(cls, first: dt.date, last: dt.date, where: str) -> "MonthlyYears":
        """Return the complete years of the record `first..last` in 1985-2012 or, without any, all complete years.

        Raises SSTCastError, which begins with `where`, if no year is complete.
        """
        complete = complete_years(first, last)
        usual = [year for year in complete if FIRST_YEAR <= year <= LAST_YEAR]
        if not len(complete):
            raise SSTCastError(
                f"{where}: has {first}..{last}, no complete year for monthly means; give a longer record"
            )
        years = usual or [*complete]
        return cls(years[0], years[-1])

    @property
    def at(self) -> float:
        """The year at which months are evaluated: 1988.286, or the middle of the years if they do not hold it."""
        return EVALUATED_AT if self.first <= EVALUATED_AT <= self.last else (self.first + self.last) / 2

    def __str__(self) -> str:
        """The years as they are recorded in files."""
        text = f"monthly means of {self.first}..{self.last}, evaluated at {self.at:.7g}"
        return text if (self.first, self.last) == (FIRST_YEAR, LAST_YEAR) else f"{text}, not Coral Reef Watch's"


def maximum_monthly_mean(sst: xr.DataArray, years: MonthlyYears) -> xr.DataArray:
    """Return the MMM in degC, `(...)`, of `sst(time, ...)`, which has all days of the `years`."""
    days = sst.transpose("time", ...).sel(time=slice(str(years.first), str(years.last)))
    month = days["time"].values.astype("datetime64[M]")
    first = np.flatnonzero(np.diff(month, prepend=month[:1] - 1).astype(int))
    length = np.diff(first, append=len(month)).reshape(-1, *[1] * (days.ndim - 1))
    means = np.add.reduceat(days.values, first, axis=0, dtype=np.float64) / length
    means = means.reshape(-1, 12, *means.shape[1:])
    year = np.arange(years.first, years.last + 1) - (years.first + years.last) / 2
    slope = np.tensordot(year, means, 1) / max(np.square(year).sum(), 1)
    evaluated = means.mean(0) + slope * (years.at - (years.first + years.last) / 2)
    return days.isel(time=0, drop=True).copy(data=evaluated.max(0).astype(np.float32)).rename(MMM)


def degree_heating_weeks(sst: Array, mmm: Array) -> Array:
    """Return DHW in degC weeks of successive days, `[day, ...]`, NaN on the first 83, from `sst [day, ...]` in
    degC.

    `mmm [...]` is in degC.
    """
    hotspot = sst.astype(np.float64) - mmm
    total = np.cumsum(np.where(hotspot >= LEAST_HOTSPOT, hotspot, 0 * hotspot), axis=0)
    dhw = np.full(hotspot.shape, np.nan)
    dhw[DHW_DAYS - 1 :] = total[DHW_DAYS - 1 :]
    dhw[DHW_DAYS:] -= total[:-DHW_DAYS]
    return dhw / WEEK


def stress_level(hotspot: Array, dhw: Array) -> NDArray[np.int8]:
    """Return the level of stress as an index of `LEVELS`, `NOT_KNOWN` where `hotspot` or `dhw` is NaN.

    A HotSpot of at most 0 is no stress, and below 1 degC a watch. From 1 degC on, DHW decides.
    """
    alert = np.digitize(dhw, ALERTS_FROM)
    level = np.where(hotspot <= 0, 0, np.where(hotspot < LEAST_HOTSPOT, 1, 2 + alert))
    return np.where(np.isnan(hotspot) | np.isnan(dhw), NOT_KNOWN, level).astype(np.int8)


def stress_of_cells(sst: xr.DataArray, years: MonthlyYears) -> xr.Dataset:
    """Return the heat stress of each year and cell of `sst(time, lat, lon)` in degC, lazy or not, without missing
    days.

    These are `maximum_monthly_mean(lat, lon)`, the largest DHW of a year as `dhw_max(year, lat, lon)`, NaN without
    any known day, and `stress_days(year, stress, lat, lon)`, the number of days at each of the `LEVELS`.
    """
    sst = in_scratch(sst.transpose("time", "lat", "lon").astype(np.float32, copy=False))
    year = sst["time"].dt.year.values
    every_year = np.arange(year[0], year[-1] + 1)
    starts = np.searchsorted(year, every_year)
    shape = sst.shape[1:]
    fields = {"dhw_max": scratch_array((len(every_year), *shape)), MMM: np.empty(shape, np.float32)}
    fields["stress_days"] = scratch_array((len(every_year), len(LEVELS), *shape))
    rows = max(1, VALUES_AT_ONCE // (8 * sst.sizes["time"] * sst.sizes["lon"]))  # of several arrays in float64
    for south in range(0, sst.sizes["lat"], rows):
        band = slice(south, south + rows)
        part = sst[:, band]
        mmm = maximum_monthly_mean(part, years).values
        dhw = degree_heating_weeks(part.values, mmm)
        level = stress_level(part.values - mmm, dhw)
        fields[MMM][band], fields["dhw_max"][:, band] = mmm, np.fmax.reduceat(dhw, starts, axis=0)
        for number in range(len(LEVELS)):
            counts = np.add.reduceat((level == number).astype(np.float32), starts, axis=0)
            fields["stress_days"][:, number, band] = np.where(np.isnan(mmm), np.nan, counts)
        release()
    dims = {
        "dhw_max": ("year", "lat", "lon"),
        MMM: ("lat", "lon"),
        "stress_days": ("year", "stress", "lat", "lon"),
    }
    axes = {"year": every_year.astype(np.int32), "stress": list(LEVELS), "lat": sst["lat"], "lon": sst["lon"]}
    return xr.Dataset({name: (dims[name], field) for name, field in fields.items()}, axes)


def stress_of_places(sst: xr.DataArray, years: MonthlyYears) -> pd.DataFrame:
    """Return the heat stress of the series `sst(time, place)` in degC, a row for each place and day."""
    mmm = maximum_monthly_mean(sst, years).values
    hotspot, dhw = sst.values - mmm, degree_heating_weeks(sst.values, mmm)
    columns = {"sst": sst.values, "hotspot": hotspot, "dhw": dhw, "stress": stress_level(hotspot, dhw)}
    days, count = sst.sizes["time"], sst.sizes["place"]
    table = pd.DataFrame(
        {"place": np.repeat(sst["place"].values, days), "time": np.tile(sst["time"].values, count)}
    )
    table = table.assign(**{name: values.T.ravel() for name, values in columns.items()})
    table["stress"] = np.array([*LEVELS, ""])[table["stress"]]
    return table.assign(maximum_monthly_mean=np.repeat(mmm, days))
