"""Days of the year: statistics on dates, and the annual harmonics that climatologies consist of."""

import numpy as np
import xarray as xr

HARMONICS = 3
YEAR_DAYS = 365.2425
DAYS_OF_YEAR = np.arange(1, 367)
LEAP_DAYS, LEAP_DAY = "day_of_leap_year", 60  # a dimension, and 29 February on it


def on_days(statistic: xr.DataArray, time: xr.DataArray) -> xr.DataArray:
    """Select `statistic(dayofyear, ...)` for the dates in `time`, which may have any dimensions.

    In a statistic `(day_of_leap_year, ...)`, 29 February is day 60, and 1 March is day 61 in every year.
    """
    day, axis = time.dt.dayofyear, "dayofyear"
    if LEAP_DAYS in statistic.dims:
        day, axis = day_of_leap_year(time), LEAP_DAYS
    return statistic.sel({axis: day}).drop_vars(axis)


def day_of_leap_year(time: xr.DataArray) -> xr.DataArray:
    """Return the day of the year, counted in every year as in a leap year."""
    day = time.dt.dayofyear
    of_year = day.values  # in NumPy, because xarray's operators take longer than a forecast's few days do
    return day.copy(data=of_year + ((of_year >= LEAP_DAY) & ~time.dt.is_leap_year.values))


def harmonics(day: np.ndarray) -> np.ndarray:
    """Return 1, and cosines and sines of the annual harmonics, on days of the year, `[day, term]`."""
    phase = 2 * np.pi * np.outer(day, np.arange(1, HARMONICS + 1)) / YEAR_DAYS
    return np.hstack([np.ones((len(day), 1)), np.cos(phase), np.sin(phase)])
