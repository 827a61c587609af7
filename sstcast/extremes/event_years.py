"""What a record's events are by year in each cell: mean days, the highest category, and the trend of the days.

A file of events has `event_days(year, lat, lon)`, NaN in cells without a threshold, and the `known_days(year)` of
the record. Means and trends are of whole years.
"""

import calendar

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast.extremes.events_told import EVENTS_AT_ONCE
from sstcast.extremes.heatwaves import CELLS_AT_ONCE
from sstcast.types import Array

DECADE = 10  # years


def whole_years(events: xr.Dataset) -> NDArray[np.int64]:
    """Return the years of which the record has every day."""
    year = events["year"].values.astype(np.int64)
    lengths = np.array([365 + calendar.isleap(one) for one in year])
    return year[events["known_days"].values == lengths]


def highest_category(events: xr.Dataset) -> xr.DataArray:
    """Return the highest category of the events of each cell, `(lat, lon)`, as an index of `heatwaves.CATEGORIES`.

    It is 0 in cells that have a threshold in any year but no event, and NaN in cells without.
    """
    cell, stops = np.zeros(events.sizes["cell"], np.int8), np.cumsum(events["cell_events"].values, dtype=np.int64)
    for start in range(0, events.sizes["event"], EVENTS_AT_ONCE):
        category = events["event_category"][start : start + EVENTS_AT_ONCE].values.astype(np.int8)
        np.maximum.at(cell, np.searchsorted(stops, np.arange(start, start + len(category)), "right"), category)
    row, column = (events.indexes[axis].get_indexer(events[f"cell_{axis}"].values) for axis in ("lat", "lon"))
    days = events["event_days"].transpose("year", "lat", "lon")
    values = np.full(days.shape[1:], np.nan, np.float32)
    values[row, column] = cell
    defined = days.notnull().any("year")
    return defined.copy(data=np.where(defined, values, np.nan)).rename("highest_category")


def trend(days: xr.DataArray) -> tuple[xr.DataArray, xr.DataArray]:
    """Return the trend of `days(year, lat, lon)`, in days a decade, and its p-value, both `(lat, lon)`.

    They are those of `theil_sen`, NaN in cells that lack a year.
    """
    values = days.transpose("year", "lat", "lon").values
    known = np.isfinite(values).all(0)
    fields = np.full((2, *known.shape), np.nan)
    fields[:, known] = theil_sen(values[:, known].T, days["year"].values)
    fields[0] *= DECADE
    slope, p_value = (days[0].drop_vars("year").copy(data=field) for field in fields)
    return slope, p_value


def theil_sen(values: Array, year: Array) -> tuple[Array, Array]:
    """Return the slope of each row of `values [series, year]` a year, and the p-value of Kendall's test.

    The slope is the median of the slopes between all pairs of years (Sen 1968, J. Am. Stat. Assoc. 63). The test
    is two-sided, of the hypothesis that values and years are independent. The number of concordant minus that of
    discordant pairs is taken as normal, with its variance where values are equal (Kendall 1975, Rank Correlation
    Methods). p is NaN if all values are equal. `year` ascends.
    """
    from scipy.special import erfc

    first, last = np.triu_indices(len(year), 1)
    span, count = (year[last] - year[first]).astype(float), len(year)
    slope, p_value = np.empty((2, len(values)))
    for start in range(0, len(values), CELLS_AT_ONCE):
        block = values[start : start + CELLS_AT_ONCE].astype(float)
        rise = block[:, last] - block[:, first]
        slope[start : start + CELLS_AT_ONCE] = np.median(rise / span, axis=1)
        equal = (block[:, :, None] == block[:, None]).sum(
            2
        )  # years with the value of each year, itself among them
        ties = ((equal - 1) * (2 * equal + 5)).sum(1)
        variance = (count * (count - 1) * (2 * count + 5) - ties) / 18
        with np.errstate(invalid="ignore"):
            p_value[start : start + CELLS_AT_ONCE] = erfc(abs(np.sign(rise).sum(1)) / np.sqrt(2 * variance))
    return slope, p_value
