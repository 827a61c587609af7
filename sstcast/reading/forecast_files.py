"""Reads forecasts of temperature, or of another field, from files.

They follow the conventions of CF, climpred, cfgrib, OceanBench or sstcast.

A forecast is valid on the day of initial time + lead, or of its `valid_time`. It may be of an earlier day, if the
lead has bounds that span a day, or if attributes mark an average over the 24 hours before that time. Means over
several days are read if the bounds of their leads tell of which, and are refused otherwise. OceanBench's
`lead_day_index` counts days from `first_day_datetime`, the first day forecast.
"""

import datetime as dt
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from sstcast.errors import SSTCastError
from sstcast.reading.daily_field import read_parts
from sstcast.reading.fields import CELLS, Found, dates, find_field, options_for_keys
from sstcast.reading.flags import ValidRange
from sstcast.reading.layouts import FORECAST, REFORECAST, names_sst
from sstcast.reading.reading import FieldInFile, merge
from sstcast.reading.units import celsius
from sstcast.reading.valid_days import AVERAGES, days_of_means, leaves_a_day, longer_means, middles

DAY, MINUTE = np.timedelta64(1, "D"), np.timedelta64(1, "m")
IN_A_DAY = {"day": 1.0, "d": 1.0, "hour": 24.0, "hr": 24.0, "h": 24.0, "minute": 1440.0}
IN_A_DAY |= {"second": 86400.0, "s": 86400.0, "nanosecond": 86400e9, "ns": 86400e9}
ROUNDING_DAYS = 1e-6  # days
HALF_HOUR = 1 / 48  # days
MOST_LEADS = 3660  # days ahead
MEAN = re.compile(r"\b(time|step|lead\w*|forecast_period): (\w+: )*mean\b")  # of cell_methods
REMEDY = "write it again"


@dataclass(frozen=True)
class Forecasts:
    """Forecasts read from files.

    Attributes:
        path: the file, store or folder.
        sst: lazy temperatures `(member, init_time, lead, lat, lon)` in degC, or another field in its own units. It
            is NaN on land, on the file's own cells with latitude ascending or, on no axes of latitude and
            longitude, by row and column (see `find_field`). `init_time` is the last day before the forecast.
            `lead` counts days from 1 and may omit some.
        spread: standard deviation in degC of a Gaussian about `sst`, `(init_time, lead, lat, lon)`, or None.
        note: a description of the variable and axes that were found.
        mean_of: the number of days in each mean, of which the lead counts the last.
        lacking: a day that the forecasts cross and that their calendar or the standard one lacks, or "".
        ranges: the valid ranges of the fields, which count the values outside that were read (see `tell_invalid`).
        is_sst: whether the field has a name of SST (see `names_sst`).
    """

    path: Path
    sst: xr.DataArray
    spread: xr.DataArray | None
    note: str
    mean_of: int = 1
    lacking: str = ""
    ranges: tuple[ValidRange | None, ...] = ()
    is_sst: bool = True

    @property
    def daily(self) -> bool:
        """Whether every day up to the last lead is forecast."""
        leads = self.sst["lead"].values
        return bool(leads[-1] == leads.size)


@options_for_keys()
def read_forecasts(
    path: Path,
    variable: str | None = None,
    units: str | None = None,
    is_sst: bool = True,
    means: bool = False,
) -> Forecasts:
    """Open the forecasts in a NetCDF file, a Zarr store, or a folder of these, which is joined by initial date.

    `variable` and `units` name the variable with the temperatures and its unit, for files that do not state them
    or state them wrongly. The spread of a variable `sst` is read from `sst_spread`, by default in the
    units of `sst`. If the field is not SST, its units are in its attribute `units`. Only with `means`, means of
    several days are accepted.

    Raises SSTCastError, which names the file and the key, if a file cannot be read, an axis, the temperatures or a
    unit is not recognised, or the files in a folder share an initial date or have different layouts.
    """
    read = partial(_forecasts, variable=variable, units=units, cells={}, is_sst=is_sst, means=means)
    first, *other_parts = parts = read_parts(path, read)
    for part in other_parts:
        if np.array_equal(part.sst["init_time"], first.sst["init_time"]):
            raise SSTCastError(
                f"{first.path} and {part.path}: both hold {first.sst.indexes['init_time'][0]:%Y-%m-%d}; remove "
                'one, or join their members: xr.concat([xr.open_dataset(A), xr.open_dataset(B)], "number")'
            )
        if part.note != first.note:
            raise SSTCastError(f"{part.path}: holds {part.note}, not the {first.note} of {first.path.name}")
        if (part.spread is None) != (first.spread is None):
            without_spread, with_spread = (part, first) if part.spread is None else (first, part)
            raise SSTCastError(
                f"{without_spread.path}: has no spread, but {with_spread.path.name} has one; give "
                "files with the same variables"
            )
    sst = merge([FieldInFile(part.path, part.sst) for part in parts], "init_time").assign_attrs(first.sst.attrs)
    spreads = [FieldInFile(part.path, part.spread) for part in parts if part.spread is not None]
    note = f"{len(parts)} files of {first.note}" if other_parts else first.note
    spread = merge(spreads, "init_time") if spreads else None
    lacking = next((part.lacking for part in parts if part.lacking), "")
    ranges = tuple(valid for part in parts for valid in part.ranges)
    return Forecasts(path, sst, spread, note, first.mean_of, lacking, ranges, first.is_sst)


def _forecasts(
    path: Path,
    dataset: xr.Dataset,
    variable: str | None,
    units: str | None,
    cells: dict[Any, Any],
    is_sst: bool,
    means: bool,
) -> Forecasts:
    """Return the forecasts in one dataset. `cells` keeps those of the first of several files without axes."""
    layouts = dict(cells)
    found = find_field(dataset, path, FORECAST, variable, units, layouts, is_sst, any_grid=True)
    cells |= {key: kept for key, kept in layouts.items() if key == CELLS}
    field, init, lead, attributes = found.field, found.axis("init_time"), found.axis("lead"), found.stored.attrs
    dataset = _with_bounds_as_times(dataset, lead, path)
    mean_of = (days_of_means(lead, attributes, dataset) or 1) if means else 1
    if mean_of == 1 and (told := longer_means(lead, attributes, dataset)):
        remedy = ", or give the lead bounds that tell the whole days of each mean" if means else ""
        raise SSTCastError(
            f"{path}: holds means over more than a day ({told}); give daily means or values{remedy}"
        )
    times, lead_days = _initial_times(init, path), _in_days(lead, path)
    hours = ((times - times.normalize()) / DAY).values[:, None]
    if mean_of > 1:
        if leaves_a_day(lead, dataset):
            raise SSTCastError(
                f"{path}: the bounds leave out a day between means; if they name the first and last "
                "day, add one day to each end"
            )
        first_days = hours + _starts(init, lead, dataset, path)
        valid = _valid_times(found, hours, first_days)
        if ((valid < first_days - ROUNDING_DAYS) | (valid > first_days + mean_of + ROUNDING_DAYS)).any():
            raise SSTCastError(f"{path}: its valid times lie outside the bounds of its leads; correct either")
        if (abs(first_days - np.round(first_days)) > HALF_HOUR).any():
            raise SSTCastError(
                f"{path}: its means begin within a day, by the bounds of its leads; give whole days"
            )
        label, middle = (np.round(first_days) + part for part in (0, 0.5))
        period_notes = [f"means of {mean_of} days, those of the bounds of the lead"]
    else:
        from_init, period_notes = _middles(init, hours, lead, lead_days, dataset, attributes)
        label, middle = hours + lead_days, hours + from_init
        valid = _valid_times(found, hours, label)
        if (_whole(valid) != _whole(label)).any():
            period_notes = ["its leads contradict its valid times, which decide"]
            label = middle = valid
    days, leads, day_notes = _days(times.normalize(), lead_days, label, middle, path)
    leads = leads + np.int32(mean_of - 1)
    if mean_of == 1 and leads.size > 1 and np.diff(np.sort(leads)).min() > 1:
        listed = ", ".join(map(str, leads[:4]))
        day_notes.append(f"its leads {listed} are read as single days, not as means of the days between them")
    takes = _leads_of_days(init, leads, days)
    if takes is not None:
        day_notes.append(
            f"its leads count days of its calendar, {init.values.flat[0].calendar}; forecasts across days that it "
            "or the standard calendar lacks are incomplete"
        )
    notes = [
        f"{field.name}({', '.join(map(str, dataset[field.name].dims))}) in {found.units}",
        *found.notes,
        *([f"without values outside its {found.valid.text}"] if found.valid else []),
        *period_notes,
        *day_notes,
    ]

    def ordered(values: xr.DataArray) -> xr.DataArray:
        values = values.drop_attrs().assign_coords(init_time=days, lead=leads)
        values = (values if takes is None else _taken(values, takes)).sortby("lead")
        return values.assign_attrs(cells)

    spread_name, spread, ranges = f"{field.name}_spread", None, [found.valid]
    if is_sst and spread_name in dataset.data_vars:
        factor, _ = celsius(str(dataset[spread_name].attrs.get("units", found.units)), path, spread_name, "")
        of_sst = find_field(dataset, path, FORECAST, spread_name, "degC", dict(cells), any_grid=True)
        spread = ordered(of_sst.field[0] * np.float32(factor))
        ranges.append(of_sst.valid)
    units_kept = {} if is_sst else {"units": found.units}
    sst, lacking = ordered(field).assign_attrs(units_kept), ""
    if takes is not None:
        lacking = _lacking_day(init, leads, days)
    named = names_sst(str(field.name), found.stored.attrs)
    return Forecasts(path, sst, spread, ", ".join(notes), mean_of, lacking, tuple(ranges), named)


def mean_of_days(on_day: Callable[[xr.DataArray], xr.DataArray], last: xr.DataArray, count: int) -> xr.DataArray:
    """Return the mean of the values `on_day` of the `count` days up to each of the days `last`."""
    first, *others = (on_day(last - day * DAY) for day in range(count))
    return sum(others, start=first) / count


def _with_bounds_as_times(dataset: xr.Dataset, lead: xr.DataArray, path: Path) -> xr.Dataset:
    """Convert the bounds of the lead to time differences, if they are numbers."""
    name = lead.attrs.get("bounds")
    bounds = dataset.variables.get(name)
    if bounds is None or bounds.dtype.kind not in "iuf":
        return dataset
    units = {"units": lead.encoding.get("units", "days")} | lead.attrs | bounds.attrs
    days = _in_days(xr.DataArray(bounds.values.ravel(), dims="bound", attrs=units), path)
    nanoseconds = np.round(days.reshape(bounds.shape) * (DAY / np.timedelta64(1, "ns")))
    return dataset.assign({name: (bounds.dims, nanoseconds.astype("timedelta64[ns]"))})


def _starts(init: xr.DataArray, lead: xr.DataArray, dataset: xr.Dataset, path: Path) -> NDArray[np.float64]:
    """Return the days from the initial time to the start of each mean, `[lead]`, by the bounds of the lead."""
    starts = dataset.variables[lead.attrs["bounds"]].values.reshape(-1, 2).min(1)
    if starts.dtype.kind != "m" and init.size > 1:
        raise SSTCastError(f"{path}: the bounds of its leads are dates, and it holds several forecasts; {REMEDY}")
    return np.asarray((starts if starts.dtype.kind == "m" else starts - init.values.ravel()[0]) / DAY, float)


def _middles(
    init: xr.DataArray,
    hours: NDArray[np.float64],
    lead: xr.DataArray,
    lead_days: NDArray[np.float64],
    dataset: xr.Dataset,
    attributes: Mapping[str, Any],
) -> tuple[NDArray[np.float64], list[str]]:
    """Return the days from the initial time to the middle of the period of each lead, `[lead]`, and notes.

    Without bounds, only GRIB and leads in hours from 24, if forecasts begin at 00:00, tell that a label is the end
    of a mean. `hours` are days from 00:00 to the initial times.
    """
    middle, notes = middles(lead, dataset)
    if middle is not None:
        from_init = middle - init.values.ravel()[0] if middle.dtype.kind != "m" else middle
        return np.asarray(from_init / DAY, float), ["days are those of the bounds of the lead"]
    kind, method = attributes.get("GRIB_stepType"), str(attributes.get("cell_methods", ""))
    is_mean, in_hours = bool(MEAN.search(method)), _units(lead).startswith("h")
    told = f"GRIB_stepType {kind}" if kind in AVERAGES else ""
    if is_mean and in_hours and lead_days.min() == 1 and not hours.any():
        told = told or f"cell_methods {method!r}, hours from 24"
    if told:
        return lead_days - 0.5, [*notes, f"each step is of the 24 hours before it ({told})"]
    if is_mean:
        readings = (
            "its means are of the day of initial time + lead; if yours are of the day before, subtract 1 day"
        )
        notes = [*notes, f"lead {readings} from its leads"]
    return lead_days, [f"its lead {note}" for note in notes]


def _valid_times(found: Found, hours: NDArray[np.float64], label: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the days from the initial day to the valid time in the file, `[init_time, lead]`, else `label`."""
    dataset, init = found.dataset, found.field["init_time"].values
    if "lead" not in dataset.variables or found.axes["init_time"].lower() == REFORECAST:
        return label  # the valid times of a reforecast may be of the forecast of this year
    dims = [dim for axis in ("init_time", "lead") for dim in dataset[axis].dims]
    for name in dataset.variables.keys() - {"init_time", "lead"}:
        times = dataset[name].variable
        is_valid = str(name).lower() == "valid_time" or times.attrs.get("standard_name") == "time"
        if is_valid and times.ndim and set(times.dims) == set(dims) and times.dtype.kind == init.dtype.kind:
            after = times.transpose(*dims).values.reshape(-1, label.shape[1]) - init[:, None]
            days = hours + np.round(np.asarray(after, "timedelta64[us]") / MINUTE) * (MINUTE / DAY)
            return np.where(np.isnan(days), label, days)
    return label


def _initial_times(init: xr.DataArray, path: Path) -> pd.DatetimeIndex:
    """Return the initial times in the standard calendar, to the minute: 23:59:59.9 belongs to the next day."""
    if getattr(init.values.flat[0], "calendar", "") != "360_day":
        return dates(init, path).round("min")
    times = _standard(init.values)
    if times.hasnans:
        raise SSTCastError(
            f"{path}: {init.values[times.isna()][0]} is in no other calendar; leave this forecast out"
        )
    return times


def _standard(times: NDArray[Any]) -> pd.DatetimeIndex:
    """Convert times of any calendar to the standard one, to the minute. Days that it lacks are missing."""
    texts = [time.isoformat() for time in times.ravel()]
    return pd.DatetimeIndex(pd.to_datetime(texts, format="ISO8601", errors="coerce")).as_unit("ns").round("min")


def _leads_of_days(
    init: xr.DataArray, leads: NDArray[np.int32], days: NDArray[np.datetime64]
) -> NDArray[np.intp] | None:
    """Return the position in `leads` of the forecast of each day, `[init_time, lead]`, or None if they are equal.

    `days` are the days before the first day forecast. `leads` count days of the calendar of `init`, and days are
    those of the standard calendar. The position is -1 if the forecast has no such day.
    """
    if init.dtype.kind != "O":
        return None
    before = (days - _standard(init.values).normalize().values) // DAY  # -1 with a lead 0
    ahead = [dt.timedelta(int(lead + before[0])) for lead in leads]
    valid = _standard(np.add.outer(init.values, np.array(ahead, object))).normalize().values.reshape(len(init), -1)
    has_day = (valid - days[:, None])[:, None] == leads[:, None] * DAY
    return np.where(has_day.any(2), has_day.argmax(2), -1)


def _lacking_day(init: xr.DataArray, leads: NDArray[np.int32], days: NDArray[np.datetime64]) -> str:
    """Return the first day that a forecast crosses and that its calendar or the standard one lacks, or ""."""
    for first, day in zip(init.values.ravel(), days, strict=True):
        own = [first + dt.timedelta(ahead) for ahead in range(int(leads.max()) + 2)]
        known = _standard(np.array(own, object)).normalize()
        if known.hasnans:
            return str(own[int(known.isna().argmax())].isoformat()[:10])
        ahead = day + np.arange(1, int(leads.max()) + 1) * DAY
        if len(absent := ahead[~np.isin(ahead, known.values)]):
            return str(absent[0].astype("M8[D]"))
    return ""


def _taken(values: xr.DataArray, takes: NDArray[np.intp]) -> xr.DataArray:
    """Return `values(..., init_time, lead, ...)` at the leads `takes [init_time, lead]`, NaN where they are -1."""
    patterns, groups = np.unique(takes, axis=0, return_inverse=True)
    parts = [
        values.isel(init_time=np.flatnonzero(groups.ravel() == group), lead=take)
        .assign_coords(lead=values["lead"])
        .where(xr.DataArray(take >= 0, dims="lead"))
        for group, take in enumerate(patterns)
    ]
    return xr.concat(parts, "init_time").sortby("init_time").transpose(*values.dims)


def _days(
    days: pd.DatetimeIndex,
    lead_days: NDArray[np.float64],
    label: NDArray[np.float64],
    middle: NDArray[np.float64],
    path: Path,
) -> tuple[NDArray[np.datetime64], NDArray[np.int32], list[str]]:
    """Return the days before the first day forecast `[init]`, the leads in days from 1 `[lead]`, and notes.

    A forecast is of the day that holds the `middle` of its period. If that is at midnight, it is of the day of its
    `label`, initial time + lead. Both are `[init, lead]`, in days after the initial `days` at 00:00.
    """
    if days.has_duplicates:
        raise SSTCastError(
            f"{path}: two forecasts begin on {days[days.duplicated()][0]:%Y-%m-%d}; select those from one hour"
        )
    counts = _whole(middle)
    counts -= (abs(middle - counts) < ROUNDING_DAYS) & (_whole(label) == counts - 1)
    if (counts != counts[0]).any():
        raise SSTCastError(
            f"{path}: forecasts begin at several hours, or differ in their valid times, so that lead "
            f"{lead_days[0]:g} falls on different days; select forecasts from one hour"
        )
    leads, lead_text = pd.Index(counts[0]), ", ".join(f"{value:g}" for value in lead_days[:4])
    if leads.has_duplicates:
        raise SSTCastError(f"{path}: lead {lead_text} days: several leads fall on one day; average them to days")
    if leads.min() < 0:
        raise SSTCastError(f"{path}: lead {lead_text} days: lies before the initial time; omit negative leads")
    if leads.max() > MOST_LEADS:
        raise SSTCastError(f"{path}: lead {lead_text} days: reaches {leads.max():,} days ahead; correct its units")
    if leads.min() > 0:
        return days.values, leads.values.astype(np.int32), []
    note = "lead 0 is the day of init_time and the first day forecast, so the history ends on the day before"
    return days.values - DAY, (leads.values + 1).astype(np.int32), [note]


def _whole(days: NDArray[np.float64]) -> NDArray[np.intp]:
    return np.floor(days + ROUNDING_DAYS).astype(np.intp)


def _units(lead: xr.DataArray) -> str:
    return str(lead.attrs.get("units", lead.encoding.get("units", ""))).strip().lower()


def _in_days(lead: xr.DataArray, path: Path) -> NDArray[np.float64]:
    values = np.atleast_1d(lead.values)
    if values.dtype.kind == "m":
        return np.asarray(values / DAY, float)
    units = _units(lead) or "days"
    per_day = IN_A_DAY.get(units) or IN_A_DAY.get(units.removesuffix("s"))
    if values.dtype.kind not in "iuf" or per_day is None or not np.isfinite(values).all():
        raise SSTCastError(
            f"{path}: lead is {values.dtype} with units {units!r}; give days or hours, or a time difference"
        )
    return values / per_day
