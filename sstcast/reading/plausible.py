"""Checks that values are plausible SST: their range, day-to-day changes, and a constant land mask.

The checks run block by block while a prepared store is written.
"""

import math
from pathlib import Path

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast.errors import SSTCastError
from sstcast.reading.by_day import Field, by_day
from sstcast.reading.grid import ocean_cells
from sstcast.reading.sea import COLDEST, OUTSIDE, WARMEST

DAYS_AT_ONCE = 32  # in the search for a day without missing values
JUDGED = 4096  # cells compared between two days; all cells would take too long


def checked(sst: xr.DataArray, path: Path, gaps: int = 0) -> tuple[xr.DataArray, xr.DataArray]:
    """Add checks to a lazy `sst(time, lat, lon)`. Returns it and its ocean mask `(lat, lon)`.

    Cells with a value in the first year are ocean. Computing a block raises SSTCastError, with date, cell and
    value, if a temperature is outside the range of SST, an ocean cell has no value, a land cell has a value, or
    two consecutive days differ implausibly.
    """
    ocean = ocean_cells(sst)
    land = ~ocean.values

    def block(values: Field, day: NDArray[np.datetime64]) -> Field:
        _check_range(values, day, sst, path)
        missing = np.isnan(values)
        if (missing != land).any():
            if (empty_ocean := missing & ~land).any():
                count = empty_ocean.any((1, 2)).sum()
                location = describe_first(sst, empty_ocean, day)
                since, first = first_whole_day(sst, ocean), np.datetime_as_string(sst["time"].values[0], unit="D")
                but = f", but not before {since}, where values begin: save only the days from then on"
                raise SSTCastError(
                    f"{path}: ocean cells lack values on {count} or more days, the first {location}, longer than "
                    f"data.gaps: {gaps}; raise it to fill them linearly in time"
                    f"{but if since not in ('', first) else ''}, or use a gap-free (level 4) analysis"
                )
            location = describe_first(sst, ~missing & land, day, values)
            raise SSTCastError(
                f"{path}: {location}, but this cell has no values in the first year; remove those days"
            )
        check_changes(values, day, path)
        return values

    return by_day(block, sst, before=1), ocean


def check_days(sst: xr.DataArray, path: Path) -> None:
    """Raise SSTCastError if `sst(time, lat, lon)`, in memory, is no SST, or changes implausibly in a day."""
    days = sst["time"].values
    _check_range(sst.values, days, sst, path)
    check_changes(sst.values, days, path)


def _check_range(values: Field, day: NDArray[np.datetime64], sst: xr.DataArray, path: Path) -> None:
    low, high = np.fmin.reduce(values, axis=None), np.fmax.reduce(values, axis=None)
    if low < COLDEST or high > WARMEST:
        location = describe_first(sst, (values < COLDEST) | (values > WARMEST), day, values)
        raise SSTCastError(f"{path}: {location}; {OUTSIDE}")


def first_whole_day(sst: xr.DataArray, ocean: xr.DataArray) -> str:
    """Return the first day on which all ocean cells have values, or "" if there is none. May read all of `sst`."""
    for start in range(0, sst.sizes["time"], DAYS_AT_ONCE):
        part = sst[start : start + DAYS_AT_ONCE]
        whole = (part.notnull() | ~ocean).all(("lat", "lon")).compute(scheduler="synchronous").values
        if whole.any():
            return str(np.datetime_as_string(part["time"].values[whole.argmax()], unit="D"))
    return ""


def check_changes(values: Field, day: NDArray[np.datetime64], path: Path) -> None:
    """Raise SSTCastError if `values [time, lat, lon]` change implausibly from one day to the next."""
    for index in range(1, len(values)):
        if change := jump(values[index], values[index - 1]):
            earlier_date, later_date = np.datetime_as_string(day[index - 1 : index + 1], unit="D")
            raise SSTCastError(
                f"{path}: {earlier_date} and {later_date} differ by {change:.1f} degC on average, which is not "
                "plausible; one is damaged, of another variable or in other units: correct or remove it"
            )


def jump(field: Field, reference: Field, days: int = 1) -> float:
    """Return the mean absolute difference in degC of two fields `[lat, lon]`, `days` apart, or 0 if plausible.

    From one day to the next, OISST changes by at most 0.8 degC averaged over 32 x 32 cells, and by 3 degC in a
    single cell (35 years of the sample). The limits are about three times larger. NaN is ignored.
    """
    stride = max(1, math.isqrt(field.size // JUDGED))
    change = np.abs(field[::stride, ::stride] - reference[::stride, ::stride])
    change = change[np.isfinite(change)]
    if not change.size or change.mean() <= 1 + days + 6 / np.sqrt(change.size):
        return 0.0
    return float(change.mean())


def describe_first(
    sst: xr.DataArray, where: NDArray[np.bool_], day: NDArray[np.datetime64], values: Field | None = None
) -> str:
    """Describe date, position and value of the first True in `where [time, lat, lon]`."""
    day_index, row, col = (int(index[0]) for index in np.nonzero(where))
    date = np.datetime_as_string(day[day_index], unit="D")
    lat, lon = (float(sst[axis].broadcast_like(sst[0])[row, col]) for axis in ("lat", "lon"))
    location = f"{date} at lat {lat:g}, lon {lon:g}"
    return location if values is None else f"{values[day_index, row, col]:g} degC on {location}"
