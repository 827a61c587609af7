"""Degree heating weeks (DHW), the heat stress of corals, as NOAA Coral Reef Watch defines them.

The maximum monthly mean (MMM) is that of the warmest month. Each month of 1985-2012 is regressed on the year, and
evaluated at 1988.286, the middle of the years of an earlier climatology (Heron et al. 2014; Skirving et al. 2020,
Remote Sens. 12, 3856). A HotSpot is the excess of SST over the MMM in degC. DHW is the sum of the HotSpots of at
least 1 degC in the last 84 days, divided by 7. HotSpot and DHW of a day give its level of stress.
"""

import datetime as dt
from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast.ocean.lead_weeks import WEEK
from sstcast.ocean.splits import complete_years
from sstcast.types import Array

REEF_WATCH_FIRST, REEF_WATCH_LAST, EVALUATED_AT = 1985, 2012, 1988.286
DHW_DAYS = 84
LEAST_HOTSPOT = 1.0  # degC, of the HotSpots that DHW sums
STRESS_LEVELS = ("no stress", "watch", "warning", *(f"alert level {level}" for level in range(1, 6)))
ALERTS_FROM = (4.0, 8.0, 12.0, 16.0, 20.0)  # degC weeks, from which alert levels 1 to 5 begin
NOT_KNOWN = -1  # the level of days without a value, or with fewer than 83 days before them
MMM = "maximum_monthly_mean"


@dataclass(frozen=True)
class MonthlyYears:
    """The years whose monthly means give the MMM."""

    first: int
    last: int

    @classmethod
    def of(cls, first: dt.date, last: dt.date) -> "MonthlyYears | None":
        """Return the complete years of the record `first..last` in 1985-2012 or, without any, all complete years.

        Without a complete year, it is None.
        """
        complete = complete_years(first, last)
        years = [year for year in complete if REEF_WATCH_FIRST <= year <= REEF_WATCH_LAST] or [*complete]
        return cls(years[0], years[-1]) if years else None

    @property
    def at(self) -> float:
        """The year at which months are evaluated: 1988.286, or the middle of the years if they do not hold it."""
        return EVALUATED_AT if self.first <= EVALUATED_AT <= self.last else (self.first + self.last) / 2

    def __str__(self) -> str:
        """The years as they are recorded in files."""
        text = f"monthly means of {self.first}..{self.last}, evaluated at {self.at:.7g}"
        usual = (self.first, self.last) == (REEF_WATCH_FIRST, REEF_WATCH_LAST)
        return text if usual else f"{text}, not Coral Reef Watch's"


def maximum_monthly_mean(sst: xr.DataArray, years: MonthlyYears) -> xr.DataArray:
    """Return the MMM in degC, `(...)`, of `sst(time, ...)`, which has all days of the `years`."""
    days = sst.transpose("time", ...).sel(time=slice(str(years.first), str(years.last)))
    month = days["time"].values.astype("datetime64[M]")
    first = np.flatnonzero(np.diff(month, prepend=month[:1] - 1).astype(int))
    length = np.diff(first, append=len(month)).reshape(-1, *[1] * (days.ndim - 1))
    means = np.add.reduceat(days.values, first, axis=0, dtype=np.float64) / length
    means = means.reshape(-1, 12, *means.shape[1:])
    year = np.arange(years.first, years.last + 1) - (years.first + years.last) / 2
    slope = np.tensordot(year, means, 1) / (np.square(year).sum() or 1)
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
    """Return the level of stress as an index of `STRESS_LEVELS`, `NOT_KNOWN` where `hotspot` or `dhw` is NaN.

    A HotSpot of at most 0 is no stress, and below 1 degC a watch. From 1 degC on, DHW decides.
    """
    alert = np.digitize(dhw, ALERTS_FROM)
    level = np.where(hotspot <= 0, 0, np.where(hotspot < LEAST_HOTSPOT, 1, 2 + alert))
    return np.where(np.isnan(hotspot) | np.isnan(dhw), NOT_KNOWN, level).astype(np.int8)
