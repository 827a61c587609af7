"""The day that a value describes, from the bounds of its time or lead if the file has them, else from its label.

A daily mean may be labelled at the start, middle or end of its day. Bounds (CF conventions, section 7.1) tell.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from sstcast.ocean.fields import dates

DAY = np.timedelta64(1, "D")
ROUNDING_TIME = np.timedelta64(
    1, "m"
)  # how far bounds may be from a day apart, because some files store days as float32
AVERAGES = (
    "avg",
    "accum",
    "max",
    "min",
)  # values of GRIB_stepType of fields over a period, which ends at the label
IGNORED = "bounds are ignored, because they do not span one day"
MOVED = "days are those of the time bounds, not of the labels"


def days_of(time: xr.DataArray, dataset: xr.Dataset, path: Path) -> tuple[pd.DatetimeIndex, list[str]]:
    """Return the day of each value on the axis `time` of a dataset, at 00:00, and notes.

    It is the day that holds the middle of the bounds, if they span one day, or the label's day if the middle is at
    midnight between it and another. Without such bounds, it is the label's day. Raises SSTCastError if labels or
    bounds are not dates.
    """
    labels = dates(time, path).round("min").normalize()  # 23:59:59.9 belongs to the next day
    middle, notes = middles(time, dataset)
    if middle is None:
        return labels, [f"its {time.name} {note}" for note in notes]
    middles_of_days = dates(time.copy(data=middle.reshape(time.shape)), path).round("min")
    days = middles_of_days.normalize()
    at_midnight = (days == middles_of_days) & (labels == days - DAY)
    days = days.where(~at_midnight, labels)
    return days, [] if days.equals(labels) else [MOVED]


def middles(axis: xr.DataArray, dataset: xr.Dataset) -> tuple[NDArray[Any] | None, list[str]]:
    """Return the middles `[value]` of the bounds of a time axis, or None if these do not span a day, and notes.

    The dataset holds the bounds under the name in the axis's attribute `bounds`.
    """
    bounds = dataset.variables.get(axis.attrs.get("bounds"))
    if bounds is None:
        return None, []
    if bounds.size != 2 * axis.size or bounds.dtype.kind not in "mMO":
        return None, [IGNORED]
    starts, ends = bounds.values.reshape(-1, 2).T
    width = np.asarray(ends - starts, "timedelta64[us]")
    if (np.isnat(width) | (abs(width - DAY) > ROUNDING_TIME)).any():
        return None, [IGNORED]
    return starts + (ends - starts) / 2, []


def averages(field: xr.DataArray) -> str:
    """Return the attribute that tells that `field` holds averages over periods, as text, or "" if none does."""
    if (kind := str(field.attrs.get("GRIB_stepType", ""))) in AVERAGES:
        return f"GRIB_stepType {kind}"
    method = str(field.attrs.get("cell_methods", ""))
    return f"cell_methods {method!r}" if "time: " in method and "time: point" not in method else ""
