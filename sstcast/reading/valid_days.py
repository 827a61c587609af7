"""The day that a value describes, from the bounds of its time or lead if the file has them, else from its label.

A daily mean may be labelled at the start, middle or end of its day. Bounds (CF conventions, section 7.1) tell.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from sstcast.names import DAY
from sstcast.reading.fields import dates

ROUNDING_TIME = np.timedelta64(
    1, "m"
)  # how far bounds may be from a day apart, because some files store days as float32
AVERAGES = (
    "avg",
    "accum",
    "max",
    "min",
)  # values of GRIB_stepType of fields over a period, which ends at the label
AVERAGE = re.compile("mean|averag|aggregat", re.IGNORECASE)
NO_MEAN = re.compile(r"point|maximum|minimum|sum|median|range|variance|deviation|\b(accum|max|min|instant)\b")
LONGER = re.compile(r"week|pentad|dekad|fortnight|month|\bmon\b", re.IGNORECASE)  # than a day
COUNTED = re.compile(r"(\d+(?:\.\d+)?)[ -]*(d|days?|h|hrs?|hours?)\b", re.IGNORECASE)
HOURS = dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 24)  # in a day
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


def longer_means(lead: xr.DataArray, attributes: Mapping[str, Any], dataset: xr.Dataset) -> str:
    """Return what tells that forecasts are means over more than a day, as text, or "" if nothing does.

    These are the bounds, attributes or units of the `lead`, the `attributes` of the field, a frequency of the
    file, or steps of GRIB averages that are days apart.
    """
    name = lead.name
    texts = [f"{key} {str(text)!r} of {name}" for key, text in lead.attrs.items()]
    texts += [f"{key} {str(attributes.get(key, ''))!r}" for key in ("cell_methods", "long_name")]
    found = [text for text in texts if AVERAGE.search(text) and "daily" not in text.lower()]
    for axis in (lead, dataset.get("valid_time", lead)):
        if (spans := _spans(axis, dataset)) is not None:
            found.append(f"bounds of {axis.name} over {float(max(abs(spans)) / DAY):.3g} days")
    found.append(f"frequency {str(dataset.attrs.get('frequency', ''))!r}")
    steps, units = np.diff(np.sort(lead.values)), str(lead.attrs.get("units", ""))
    if lead.dtype.kind == "m":
        steps, units = steps / DAY, "days"
    else:
        found.append(f"units {units!r} of {name}" if units else f"{name} {str(lead.attrs.get('long_name', ''))!r}")
    if (kind := str(attributes.get("GRIB_stepType", ""))) in AVERAGES:
        found.append(f"GRIB_stepType {kind}, steps {min(steps, default=0):g} {units} apart")
        ends = re.findall(r"\d+", str(attributes.get("GRIB_stepRange", "")))
        found.append(f"GRIB_stepRange of {np.ptp(np.array([*ends, '0', '0'][:2], int))} hours")
    return next((text for text in found if _is_longer(text)), "")


def days_of_means(lead: xr.DataArray, attributes: Mapping[str, Any], dataset: xr.Dataset) -> int | None:
    """Return the whole number of days, 2 or more, in each mean that the bounds of a `lead` tell, or None.

    The `attributes` of the field must not contradict them: extremes and values at a time are no means.
    """
    spans = _spans(lead, dataset)
    method = f"{attributes.get('cell_methods', '')} {attributes.get('GRIB_stepType', '')}"
    if spans is None or NO_MEAN.search(method):
        return None
    count = int(np.round(abs(spans[0]) / DAY))
    return count if count > 1 and (abs(abs(spans) - count * DAY) <= ROUNDING_TIME).all() else None


def leaves_a_day(lead: xr.DataArray, dataset: xr.Dataset) -> bool:
    """Return whether the bounds of a `lead` leave one day between two means, as inclusive ones would seem to."""
    bounds = np.sort(dataset.variables[lead.attrs["bounds"]].values.reshape(-1, 2), axis=1)
    starts, ends = bounds[np.argsort(bounds[:, 0])].T
    gaps = np.asarray(starts[1:] - ends[:-1], "timedelta64[us]")
    return bool((abs(gaps - DAY) <= ROUNDING_TIME).any())


def _is_longer(text: str) -> bool:
    """Return whether a text names a period of more than a day, by a word or by a number of days or hours."""
    counts = (float(number) / HOURS.get(unit.lower(), 1) for number, unit in COUNTED.findall(text))
    return bool(LONGER.search(text)) or any(count > 1 for count in counts)


def middles(axis: xr.DataArray, dataset: xr.Dataset) -> tuple[NDArray[Any] | None, list[str]]:
    """Return the middles `[value]` of the bounds of a time axis, or None if these do not span a day, and notes.

    The dataset holds the bounds under the name in the axis's attribute `bounds`.
    """
    bounds, spans = dataset.variables.get(axis.attrs.get("bounds")), _spans(axis, dataset)
    if bounds is None:
        return None, []
    if spans is None or (abs(spans - DAY) > ROUNDING_TIME).any():
        return None, [IGNORED]
    starts, ends = bounds.values.reshape(-1, 2).T
    return starts + (ends - starts) / 2, []


def _spans(axis: xr.DataArray, dataset: xr.Dataset) -> NDArray[np.timedelta64] | None:
    """Return the widths `[value]` of the bounds of a time axis, or None if these are not known times."""
    bounds = dataset.variables.get(axis.attrs.get("bounds"))
    if bounds is None or bounds.size != 2 * axis.size or bounds.dtype.kind not in "mMO":
        return None
    starts, ends = bounds.values.reshape(-1, 2).T
    spans = np.asarray(ends - starts, "timedelta64[us]")
    return None if np.isnat(spans).any() else spans


def averages(field: xr.DataArray) -> str:
    """Return the attribute that tells that `field` holds averages over periods, as text, or "" if none does."""
    if (kind := str(field.attrs.get("GRIB_stepType", ""))) in AVERAGES:
        return f"GRIB_stepType {kind}"
    method = str(field.attrs.get("cell_methods", ""))
    return f"cell_methods {method!r}" if "time: " in method and "time: point" not in method else ""
