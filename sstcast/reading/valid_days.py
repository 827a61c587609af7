"""The day that a value describes, from the bounds of its time or lead if the file has them, else from its label.

A daily mean may be labelled at the start, middle or end of its day. Bounds (CF conventions, section 7.1) tell.
"""

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from sstcast.names import DAY
from sstcast.reading.bounds import bounds_name, bounds_of
from sstcast.reading.fields import dates, zone

Times = NDArray[Any]  # datetime64[s] or timedelta64[s]

ROUNDING_TIME = np.timedelta64(
    1, "m"
)  # how far bounds may be from a day apart, because some files store days as float32
AVERAGES = (
    "avg",
    "accum",
    "max",
    "min",
)  # values of GRIB_stepType of fields over a period, which ends at the label
MEAN = re.compile(r"\b(time|step|lead\w*|forecast_period): (\w+: )*mean\b")  # of cell_methods
AVERAGE = re.compile("mean|averag|aggregat", re.IGNORECASE)
NO_MEAN = re.compile(r"point|maximum|minimum|sum|median|range|variance|deviation|\b(accum|max|min|instant)\b")
LONGER = re.compile(r"week|pentad|dekad|fortnight|month|\bmon\b", re.IGNORECASE)  # than a day
COUNTED = re.compile(r"(\d+(?:\.\d+)?)[ -]*(d|days?|h|hrs?|hours?)\b", re.IGNORECASE)
HOURS = dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 24)  # in a day
SHORTEST_MONTH = np.timedelta64(27, "D")  # between labels
UNFIT = "bounds are ignored, because fewer than half of them fit each other and their labels"
ODD = "bounds of {count} of {size} values are ignored, and their days follow from the nearest others"
IGNORED = "bounds are ignored, because they do not span one day"
MOVED = "days are those of the time bounds, not of the labels"


@dataclass(frozen=True)
class Periods:
    """The periods of the values on a time axis, `[value]`, to the second.

    Attributes:
        labels: dates and hours, or times after an initial time.
        starts, ends: the first instant of each period, and the first one after it, NaT without bounds.
        known: whether these bounds are good.
        notes: how bounds are read, each the end of a sentence that begins with "its" and the name of the axis.
    """

    labels: Times
    starts: Times
    ends: Times
    known: NDArray[np.bool_]
    notes: tuple[str, ...] = ()

    @classmethod
    def at(cls, labels: Times, *notes: str) -> "Periods":
        """Return periods that nothing but their labels tells."""
        unknown = np.full(labels.shape, "NaT", labels.dtype)
        return cls(labels, unknown, unknown, np.zeros(labels.shape, bool), notes)

    @property
    def lengths(self) -> Times:
        """The length of each period, NaT without bounds."""
        return self.ends - self.starts

    @property
    def middles(self) -> Times:
        """The middle of each period.

        If it is not known, it is as far from the label as that of the nearest period that is known, the earlier of
        two. If none is, it is the label.
        """
        return self.labels + self._of_nearest(self.starts + self.lengths // 2 - self.labels)

    def shifted(self, by: np.timedelta64) -> "Periods":
        """Return the same periods later or earlier."""
        return replace(self, labels=self.labels + by, starts=self.starts + by, ends=self.ends + by)

    def at_labels(self, labels: Times) -> "Periods":
        """Return the periods of some `labels`, each of which is there."""
        order = np.argsort(self.labels, kind="stable")
        place = order[np.searchsorted(self.labels, labels, sorter=order)]
        return Periods(labels, self.starts[place], self.ends[place], self.known[place])

    def days(self, after: Times | None = None) -> Times:
        """Return the day of each value, that of its middle or, if this is at midnight, perhaps of its label.

        Times after an initial time are whole days after the day of that time, which is `after` its midnight.
        """
        labels, middles = (times if after is None else times + after for times in (self.labels, self.middles))
        days, of_labels = (floored(times) for times in (middles, labels))
        return np.where((days == middles) & (of_labels == days - DAY), of_labels, days)

    def last_days(self) -> pd.DatetimeIndex:
        """Return the last day of each period, as far from the label as that of the nearest one if it is not known.

        The labels are dates. If they are those of months, the distance is in months.
        """
        is_monthly = self.labels.size > 1 and np.median(np.diff(np.sort(self.labels))) >= SHORTEST_MONTH
        unit = "M8[M]" if is_monthly else "M8[D]"
        labels, last = self.labels.astype(unit), (self.ends - ROUNDING_TIME).astype("M8[D]")
        others = (labels + self._of_nearest(last.astype(unit) - labels)).astype("M8[D]")
        return pd.DatetimeIndex(np.where(self.known, last, others)).as_unit("ns")

    def _of_nearest(self, distances: Times) -> Times:
        """Return distances from the labels, with those of the nearest known period where it is not known."""
        order = np.flatnonzero(self.known)
        if not order.size:
            return np.zeros_like(distances)
        order = order[np.argsort(self.labels[order], kind="stable")]
        place = np.searchsorted(self.labels[order], self.labels)
        before, after = order[(place - 1).clip(0)], order[place.clip(max=order.size - 1)]
        is_after = abs(self.labels[after] - self.labels) < abs(self.labels - self.labels[before])
        return np.where(self.known, distances, distances[np.where(is_after, after, before)])

    @property
    def leave_a_day(self) -> bool:
        """Whether bounds leave one day between two means, as inclusive ones would seem to."""
        starts, ends = (np.sort(times[~np.isnat(self.lengths)]) for times in (self.starts, self.ends))
        place = np.searchsorted(ends, starts + ROUNDING_TIME, side="right") - 1
        gaps = (starts - ends[place])[place >= 0]
        return bool((abs(gaps - DAY) <= ROUNDING_TIME).any())


def periods(axis: xr.DataArray, dataset: xr.Dataset, path: Path, span: np.timedelta64 | None = None) -> Periods:
    """Return the period of each value on an axis of dates, or of times after an initial time.

    Its bounds are good if they are longer than half and shorter than twice the median of the axis, and its label
    lies in them or at most that median away. If the caller knows that all values have the length `span`, good
    bounds have this length. If fewer than half are good, none is used.

    Raises SSTCastError if the labels are not dates. `path` is for messages.
    """
    is_date = axis.dtype.kind != "m"
    labels = dates(axis, path).as_unit("s").values if is_date else _seconds(np.atleast_1d(axis.values))
    if bounds_name(axis) not in dataset.variables:
        return Periods.at(labels)
    pairs = _pairs(axis, dataset)
    if pairs is None or pairs.dtype.kind != labels.dtype.kind:
        return Periods.at(labels, UNFIT if span is None else IGNORED)
    starts, ends = pairs.T
    lengths, none = ends - starts, np.zeros(labels.shape, bool)
    is_good = none
    if not np.isnat(lengths).all():
        median = np.median(lengths[~np.isnat(lengths)])
        is_good = (2 * lengths > median) & (lengths < 2 * median)
        is_good &= (labels >= starts - median) & (labels <= ends + median)
        if span is not None:
            is_good &= abs(lengths - span) <= ROUNDING_TIME
    if 2 * is_good.sum() < is_good.size:
        return Periods(labels, starts, ends, none, (UNFIT if span is None else IGNORED,))
    notes = () if is_good.all() else (ODD.format(count=(~is_good).sum(), size=is_good.size),)
    return Periods(labels, starts, ends, is_good, notes)


def joined(parts: Sequence[Periods]) -> Periods:
    """Return the periods of the values of several files in order of their labels, each label once."""
    labels, starts, ends, known = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("labels", "starts", "ends", "known")
    )
    _, order = np.unique(labels, return_index=True)
    return Periods(labels[order], starts[order], ends[order], known[order])


def days_of(time: xr.DataArray, dataset: xr.Dataset, path: Path) -> tuple[pd.DatetimeIndex, list[str]]:
    """Return the day of each daily value on the axis `time` of a dataset, at 00:00, and notes.

    It is that of `Periods.days`, of bounds that span a day. Raises SSTCastError if labels are not dates.
    """
    return days_and_notes(periods(time, dataset, path, DAY), str(time.name))


def days_and_notes(found: Periods, name: str) -> tuple[pd.DatetimeIndex, list[str]]:
    """Return the day of each daily value, at 00:00, and notes about the axis called `name`."""
    days, labels = (pd.DatetimeIndex(times).as_unit("ns") for times in (found.days(), floored(found.labels)))
    notes, moved = [f"its {name} {note}" for note in found.notes], not days.equals(labels)
    if notes and found.known.any():
        notes = [f"{notes[0]}; {MOVED if moved else 'no day moves'}"]
    return days, notes or ([MOVED] if moved else [])


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
        if (longest := _longest(axis, dataset)) is not None:
            found.append(f"bounds of {axis.name} over {longest / DAY:.3g} days")
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


def days_of_means(found: Periods, attributes: Mapping[str, Any]) -> int | None:
    """Return the whole number of days, 2 or more, in each mean that the bounds of leads tell, or None.

    The `attributes` of the field must not contradict them: extremes and values at a time are no means.
    """
    method = f"{attributes.get('cell_methods', '')} {attributes.get('GRIB_stepType', '')}"
    if np.isnat(found.lengths).any() or NO_MEAN.search(method):
        return None
    count = int(np.round(found.lengths[0] / DAY))
    return count if count > 1 and (abs(found.lengths - count * DAY) <= ROUNDING_TIME).all() else None


def _is_longer(text: str) -> bool:
    """Return whether a text names a period of more than a day, by a word or by a number of days or hours."""
    counts = (float(number) / HOURS.get(unit.lower(), 1) for number, unit in COUNTED.findall(text))
    return bool(LONGER.search(text)) or any(count > 1 for count in counts)


def _pairs(axis: xr.DataArray, dataset: xr.Dataset) -> Times | None:
    """Return the bounds `[value, 2]` of an axis to the second, the earlier first, or None if they are no times."""
    bounds = bounds_of(axis, dataset)
    if bounds is None or bounds.shape[-1] != 2 or bounds.dtype.kind not in "mMO":
        return None
    values = bounds.values.reshape(-1, 2)
    if values.dtype.kind == "O":  # a day of a calendar without leap days may end on one that it lacks
        starts, ends = (_standard(values - dt.timedelta(minutes=minutes)) for minutes in (0, 1))
        values = np.stack([starts.min(1), ends.max(1) + ROUNDING_TIME], 1)
    pairs: Times = np.sort(_seconds(values), axis=1)
    return pairs + zone(axis) if pairs.dtype.kind == "M" else pairs


def _longest(axis: xr.DataArray, dataset: xr.Dataset) -> np.timedelta64 | None:
    """Return the length of the longest bounds of an axis, or None if it has none that are times."""
    pairs = _pairs(axis, dataset)
    lengths = np.zeros(0) if pairs is None else (pairs[:, 1] - pairs[:, 0])[~np.isnat(pairs).any(1)]
    return lengths.max() if lengths.size else None


def _standard(times: NDArray[Any]) -> NDArray[np.datetime64]:
    """Convert times of another calendar to the standard one, NaT if it lacks them."""
    texts = [time.isoformat() for time in times.ravel()]
    read = pd.to_datetime(texts, format="ISO8601", errors="coerce").values
    return np.asarray(read).reshape(times.shape)


def _seconds(values: NDArray[Any]) -> Times:
    """Return times rounded to the second."""
    index = pd.TimedeltaIndex if values.dtype.kind == "m" else pd.DatetimeIndex
    times: Times = index(values.ravel()).round("s").as_unit("s").values.reshape(values.shape)
    return times


def floored(times: Times) -> Times:
    """Return the beginning of the day of each time, or whole days of times after an initial time."""
    since: Times = times - np.zeros_like(times)
    return times - since % np.timedelta64(86400, "s")


def averages(field: xr.DataArray) -> str:
    """Return the attribute that tells that `field` holds averages over periods, as text, or "" if none does."""
    if (kind := str(field.attrs.get("GRIB_stepType", ""))) in AVERAGES:
        return f"GRIB_stepType {kind}"
    method = str(field.attrs.get("cell_methods", ""))
    return f"cell_methods {method!r}" if "time: " in method and "time: point" not in method else ""
