"""Reads forecasts of temperature, or of another field, from files.

They follow the conventions of CF, climpred, cfgrib, OceanBench or sstcast.

A forecast is valid on the day of initial time + lead, or of its `valid_time`. It may be of an earlier day, if the
lead has bounds that span a day, or if attributes mark an average over the 24 hours before that time. Means over
several days are read if the bounds of their leads tell of which, and are refused otherwise. OceanBench's
`lead_day_index` counts days from `first_day_datetime`, the first day forecast.
"""

import datetime as dt
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
from sstcast.names import DAY
from sstcast.reading.bounds import bounds_name
from sstcast.reading.daily_field import read_parts
from sstcast.reading.fields import CELLS, Found, dates, find_field, options_for_keys, steps_a_day
from sstcast.reading.flags import ValidRange
from sstcast.reading.hours import NO_SST, RefusedHours, daily_means, daily_steps
from sstcast.reading.layouts import FORECAST, REFORECAST, names_sst
from sstcast.reading.reading import FieldInFile, merge
from sstcast.reading.units import celsius
from sstcast.reading.valid_days import (
    AVERAGES,
    MEAN,
    Periods,
    days_of_means,
    floored,
    joined,
    longer_means,
    periods,
)

IN_A_DAY = {"day": 1.0, "d": 1.0, "hour": 24.0, "hr": 24.0, "h": 24.0, "minute": 1440.0}
IN_A_DAY |= {"second": 86400.0, "s": 86400.0, "nanosecond": 86400e9, "ns": 86400e9}
SECONDS = 86400  # in a day
HALF_HOUR = np.timedelta64(30, "m")
MOST_LEADS = 3660  # days ahead
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
    refused: RefusedHours | None = None,
) -> Forecasts:
    """Open the forecasts in a NetCDF file, a Zarr store, or a folder of these, which is joined by initial date.

    `variable` and `units` name the variable with the temperatures and its unit, for files that do not state them
    or state them wrongly. The spread of a variable `sst` is read from `sst_spread`, by default in the
    units of `sst`. If the field is not SST, its units are in its attribute `units`. Only with `means`, means of
    several days are accepted. `refused` are values that are not averaged to days, of SST those outside
    its range.

    Raises SSTCastError, which names the file and the key, if a file cannot be read, an axis, the temperatures or a
    unit is not recognised, or the files in a folder share an initial date or have different layouts.
    """
    refused = NO_SST if is_sst else refused
    read = partial(
        _forecasts, variable=variable, units=units, cells={}, is_sst=is_sst, means=means, refused=refused
    )
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
    refused: RefusedHours | None,
) -> Forecasts:
    """Return the forecasts in one dataset. `cells` keeps those of the first of several files without axes."""
    layouts = dict(cells)
    found = find_field(dataset, path, FORECAST, variable, units, layouts, is_sst, any_grid=True)
    dims = dataset[found.field.name].dims
    cells |= {key: kept for key, kept in layouts.items() if key == CELLS}
    if (lead := found.axis("lead")).dtype.kind not in "iufm":
        raise SSTCastError(
            f"{path}: {lead.name} holds {str(lead.values.flat[0])!r}; give numbers of days, or time differences"
        )
    found = found._replace(dataset=_with_bounds_as_times(found, path))
    lead, attributes = found.axis("lead"), found.stored.attrs
    told, mean_of, has_hours = longer_means(lead, attributes, found.dataset), 1, False
    if (means and bounds_name(lead) in found.dataset.variables) or not told:
        has_length = _have_length(_periods(found, path))
        found, first_notes = _without_first(found, has_length)
        mean_of = (days_of_means(_periods(found, path), attributes) or 1) if means else 1
    if mean_of == 1 and told:
        remedy = ", or give the lead bounds that tell the whole days of each mean" if means else ""
        raise SSTCastError(
            f"{path}: holds means over more than a day ({told}); give daily means or values{remedy}"
        )
    field, init, lead = found.field, found.axis("init_time"), found.axis("lead")
    of_leads = _periods(found, path, mean_of * DAY)
    times, lead_days = _initial_times(init, path), _in_days(lead, path)
    after = (times - times.normalize()).values.astype("timedelta64[s]")[:, None]
    labels = after + of_leads.labels
    valid, valid_notes = _valid_times(found, after, labels)
    if mean_of > 1:
        if of_leads.leave_a_day:
            raise SSTCastError(
                f"{path}: the bounds leave out a day between means; if they name the first and last "
                "day, add one day to each end"
            )
        starts = after + of_leads.starts
        valid, valid_notes = _valid_times(found, after, starts)
        if ((valid < starts) | (valid > starts + mean_of * DAY)).any():
            raise SSTCastError(f"{path}: its valid times lie outside the bounds of its leads; correct either")
        if (abs(starts - (of_days := floored(starts + np.timedelta64(12, "h")))) > HALF_HOUR).any():
            raise SSTCastError(
                f"{path}: its means begin within a day, by the bounds of its leads; give whole days"
            )
        period_notes = [f"means of {mean_of} days, those of the bounds of the lead"]
    elif has_hours := _are_hours(valid[0]):
        field, of_days, period_notes = _days_of_hours(found, after, valid, valid_notes, path, refused)
        lead_days, valid_notes = of_days[0] / DAY, []
    else:
        of_leads, period_notes = _of_days(of_leads, lead, after, attributes)
        of_days = of_leads.days(after)
        if (floored(valid) != floored(labels)).any():
            period_notes = ["its leads contradict its valid times, which decide"]
            of_days = floored(valid)
    days, leads, day_notes = _days(times.normalize(), lead_days, of_days, path)
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
        f"{field.name}({', '.join(map(str, dims))}) in {found.units}",
        *found.notes,
        *([f"without values outside its {found.valid.text}"] if found.valid else []),
        *first_notes,
        *period_notes,
        *valid_notes,
        *day_notes,
    ]

    def ordered(values: xr.DataArray) -> xr.DataArray:
        values = values.drop_attrs().assign_coords(init_time=days, lead=leads)
        values = (values if takes is None else _taken(values, takes)).sortby("lead")
        return values.assign_attrs(cells)

    spread_name, spread, ranges = f"{field.name}_spread", None, [found.valid]
    if is_sst and spread_name in dataset.data_vars:
        if has_hours:
            raise SSTCastError(
                f"{path}: has the spread of each hour, which does not tell that of a day; leave out {spread_name}"
            )
        factor, _ = celsius(str(dataset[spread_name].attrs.get("units", found.units)), path, spread_name, "")
        of_sst = find_field(dataset, path, FORECAST, spread_name, "degC", dict(cells), any_grid=True)
        spread = ordered(of_sst.field[0].isel(lead=has_length) * np.float32(factor))
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


def _periods(found: Found, path: Path, span: np.timedelta64 | None = None) -> Periods:
    """Return the periods of the leads of a field, after the initial time (see `periods`)."""
    lead = found.axis("lead")
    seconds = np.round(_in_days(lead, path) * SECONDS).astype("timedelta64[s]")
    return periods(lead.copy(data=seconds), found.dataset, path, span)


def _with_bounds_as_times(found: Found, path: Path) -> xr.Dataset:
    """Return the dataset of a field with the bounds of its leads as times after the initial time.

    Raises SSTCastError if they are dates and there are several initial times.
    """
    dataset, lead, init = found.dataset, found.axis("lead"), found.axis("init_time")
    bounds = dataset.variables.get(name := bounds_name(lead))
    if bounds is None or bounds.dtype.kind not in "iufMO":
        return dataset
    if bounds.dtype.kind in "iuf":
        units = {"units": lead.encoding.get("units", "days")} | lead.attrs | bounds.attrs
        known = np.isfinite(bounds.values)
        days = _in_days(xr.DataArray(np.where(known, bounds.values, 0).ravel(), dims="bound", attrs=units), path)
        after = np.round(days * SECONDS).astype("timedelta64[s]").reshape(bounds.shape)
        after[~known] = np.timedelta64("NaT")
    elif init.size > 1:
        raise SSTCastError(f"{path}: the bounds of its leads are dates, and it holds several forecasts; {REMEDY}")
    else:
        after = np.asarray(bounds.values - init.values.ravel()[0], "timedelta64[us]")
    return dataset.assign({name: (bounds.dims, after.astype("timedelta64[ns]"))})


def _have_length(of_leads: Periods) -> NDArray[np.bool_]:
    """Return which leads have a length: all but a first one whose bounds have none, as that of an analysis."""
    is_first = of_leads.labels == of_leads.labels.min()
    has_length = ~(is_first & (of_leads.lengths == np.timedelta64(0, "s")))
    return has_length if has_length.any() else ~has_length


def _without_first(found: Found, has_length: NDArray[np.bool_]) -> tuple[Found, list[str]]:
    """Return a field at the leads that have a length, and notes."""
    if has_length.all():
        return found, []
    dataset = found.dataset
    dim = dataset["lead" if "lead" in dataset.variables else found.axes["time"]].dims[0]
    found = found._replace(field=found.field.isel(lead=has_length), dataset=dataset.isel({dim: has_length}))
    return found, ["without its first lead, whose bounds have no length"]


def _of_days(
    of_leads: Periods, lead: xr.DataArray, after: NDArray[np.timedelta64], attributes: Mapping[str, Any]
) -> tuple[Periods, list[str]]:
    """Return the periods of leads of a day each, of which `of_leads` are those that bounds tell, and notes.

    Without bounds, only GRIB and leads in hours from 24, if forecasts begin at 00:00, tell that a label is the end
    of a mean. `after` are the times from 00:00 to the initial times.
    """
    notes = [f"its lead {note}" for note in of_leads.notes]
    if of_leads.known.any():
        return of_leads, ["days are those of the bounds of the lead", *notes]
    kind, method = attributes.get("GRIB_stepType"), str(attributes.get("cell_methods", ""))
    is_mean, in_hours = bool(MEAN.search(method)), _units(lead).startswith("h")
    told = f"GRIB_stepType {kind}" if kind in AVERAGES else ""
    if is_mean and in_hours and of_leads.labels.min() == DAY and not after.any():
        told = told or f"cell_methods {method!r}, hours from 24"
    if told:
        ends, known = of_leads.labels, np.ones(of_leads.labels.shape, bool)
        of_leads = Periods(ends, ends - DAY, ends, known)
        return of_leads, [f"each step is of the 24 hours before it ({told})"]
    if is_mean:
        readings = (
            "its means are of the day of initial time + lead; if yours are of the day before, subtract 1 day"
        )
        notes = [f"its lead {readings} from its leads"]
    return of_leads, notes


def _are_hours(valid: NDArray[np.timedelta64]) -> bool:
    """Return whether the valid times of a forecast are hours, of which a day has two or more."""
    times = np.unique(valid)
    return steps_a_day(times) > 1 and np.unique(floored(times)).size < times.size


def _days_of_hours(
    found: Found,
    after: NDArray[np.timedelta64],
    valid: NDArray[np.timedelta64],
    valid_notes: list[str],
    path: Path,
    refused: RefusedHours | None,
) -> tuple[xr.DataArray, NDArray[np.timedelta64], list[str]]:
    """Return the means of days of a field with several leads a day, the days after the initial one, and notes.

    The days `[init_time, lead]` have all their hours after the initial time. `after` and `valid` are the times
    from 00:00 to the initial times and to the valid times, `[init_time, lead]`. Raises SSTCastError if a lead is
    there twice.
    """
    of_leads, notes = _periods(found, path), list[str]()
    if (valid != after + of_leads.labels).any():
        of_leads = Periods.at(valid[0] - after[0])
        notes = ["its leads contradict its valid times, which decide", *valid_notes]
    if ((valid - after != valid[0] - after[0]) | (after != after[0])).any():
        raise SSTCastError(
            f"{path}: forecasts begin at several hours, or differ in their valid times, so that leads are of "
            "several hours of the day; select forecasts from one hour"
        )
    order = np.argsort(of_leads.labels, kind="stable")
    if (twice := np.diff(ordered := of_leads.labels[order]) == np.timedelta64(0, "s")).any():
        hours = ordered[1:][twice][0] / np.timedelta64(1, "h")
        raise SSTCastError(f"{path}: has a lead twice, {hours:g} h; keep one value")
    field = found.field.isel(lead=order)
    steps = daily_steps(joined([of_leads]), found.stored.attrs, f"{path}: {field.name}", after[0, 0])
    days = np.broadcast_to(steps.days, (len(after), len(steps.days)))
    return daily_means(field, steps, "lead", path, refused), days, [*notes, steps.note]


def _valid_times(
    found: Found, after: NDArray[np.timedelta64], labels: NDArray[np.timedelta64]
) -> tuple[NDArray[np.timedelta64], list[str]]:
    """Return the times from 00:00 of the initial day to the valid times of a file, `[init_time, lead]`, and notes.

    Without such times, these are the `labels`. Of several, `valid_time` decides, then the first in the file.
    `after` are the times from 00:00 to the initial times.
    """
    dataset, init = found.dataset, found.field["init_time"].values
    if "lead" not in dataset.variables or found.axes["init_time"].lower() == REFORECAST:
        return labels, []  # the valid times of a reforecast may be of the forecast of this year
    dims = [dim for axis in ("init_time", "lead") for dim in dataset[axis].dims]
    valid: dict[str, NDArray[np.timedelta64]] = {}
    for name in sorted(map(str, dataset.variables), key=lambda name: name.lower() != "valid_time"):
        times = dataset.variables[name]
        is_valid = name.lower() == "valid_time" or times.attrs.get("standard_name") == "time"
        is_valid = is_valid and name not in ("init_time", "lead")
        if is_valid and times.ndim and set(times.dims) == set(dims) and times.dtype.kind == init.dtype.kind:
            ahead = times.transpose(*dims).values.reshape(-1, labels.shape[1]) - init[:, None]
            seconds = np.round(np.asarray(ahead, "timedelta64[us]") / np.timedelta64(1, "s"))
            ahead = after + seconds.astype("timedelta64[s]")
            valid[name] = np.where(np.isnat(ahead), labels, ahead)
    if not valid:
        return labels, []
    (first, decides), *others = valid.items()
    differing = [name for name, other in others if (floored(other) != floored(decides)).any()]
    return decides, [f"its {first} and {name} differ; {first} decides" for name in differing]


def _initial_times(init: xr.DataArray, path: Path) -> pd.DatetimeIndex:
    """Return the initial times in the standard calendar, to the second."""
    if getattr(init.values.flat[0], "calendar", "") != "360_day":
        return dates(init, path)
    times = _standard(init.values)
    if times.hasnans:
        raise SSTCastError(
            f"{path}: {init.values[times.isna()][0]} is in no other calendar; leave this forecast out"
        )
    return times


def _standard(times: NDArray[Any]) -> pd.DatetimeIndex:
    """Convert times of any calendar to the standard one, to the second. Days that it lacks are missing."""
    texts = [time.isoformat() for time in times.ravel()]
    return pd.DatetimeIndex(pd.to_datetime(texts, format="ISO8601", errors="coerce")).as_unit("ns").round("s")


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
    days: pd.DatetimeIndex, lead_days: NDArray[np.float64], of_days: NDArray[np.timedelta64], path: Path
) -> tuple[NDArray[np.datetime64], NDArray[np.int32], list[str]]:
    """Return the days before the first day forecast `[init]`, the leads in days from 1 `[lead]`, and notes.

    A forecast is of the day `of_days` after the initial `days`, `[init, lead]`.
    """
    if days.has_duplicates:
        raise SSTCastError(
            f"{path}: two forecasts begin on {days[days.duplicated()][0]:%Y-%m-%d}; select those from one hour"
        )
    counts = (of_days // DAY).astype(np.intp)
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


def _units(lead: xr.DataArray) -> str:
    return str(lead.attrs.get("units", lead.encoding.get("units", ""))).strip().lower()


def _in_days(lead: xr.DataArray, path: Path) -> NDArray[np.float64]:
    values = np.atleast_1d(lead.values)
    if values.dtype.kind == "m" and not np.isnat(values).any():
        return np.asarray(values / DAY, float)
    units = _units(lead) or "days"
    per_day = IN_A_DAY.get(units) or IN_A_DAY.get(units.removesuffix("s"))
    if values.dtype.kind not in "iuf" or per_day is None or not np.isfinite(values).all():
        raise SSTCastError(
            f"{path}: lead is {values.dtype} with units {units!r}; give days or hours, or a time difference"
        )
    return values / per_day
