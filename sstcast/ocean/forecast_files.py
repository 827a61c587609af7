"""Reads forecasts of temperature, or of another field, from files.

They follow the conventions of CF, climpred, cfgrib, OceanBench or sstcast.

A forecast is valid on the day of initial time + lead. It may be of an earlier day, if the lead has bounds that
span a day, or if the attribute `GRIB_stepType` marks an average over the 24 hours before that time. OceanBench's
`lead_day_index` counts days from `first_day_datetime`, which is the first day forecast.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from sstcast.errors import SSTCastError
from sstcast.ocean.bounds import AVERAGES, middles
from sstcast.ocean.fields import FORECAST, dates, find_field, options_for_keys
from sstcast.ocean.reading import FieldInFile, merge, read_parts
from sstcast.ocean.units import celsius

DAY = np.timedelta64(1, "D")
IN_A_DAY = {"day": 1.0, "d": 1.0, "hour": 24.0, "hr": 24.0, "h": 24.0, "minute": 1440.0}
IN_A_DAY |= {"second": 86400.0, "s": 86400.0, "nanosecond": 86400e9, "ns": 86400e9}
ROUNDING_DAYS = 1e-6  # days
REMEDY = "write it again"


@dataclass(frozen=True)
class Forecasts:
    """Forecasts read from files.

    Attributes:
        path: the file, store or folder.
        sst: lazy temperatures `(member, init_time, lead, lat, lon)` in degC, or another field in its own units. It
            is NaN on land, on the file's own cells with latitude ascending. `init_time` is the last day before the
            forecast. `lead` counts days from 1 and may omit some.
        spread: standard deviation in degC of a Gaussian about `sst`, `(init_time, lead, lat, lon)`, or None.
        note: a description of the variable and axes that were found.
    """

    path: Path
    sst: xr.DataArray
    spread: xr.DataArray | None
    note: str

    @property
    def daily(self) -> bool:
        """Whether every day up to the last lead is forecast."""
        leads = self.sst["lead"].values
        return bool(leads[-1] == leads.size)


@options_for_keys()
def read_forecasts(
    path: Path, variable: str | None = None, units: str | None = None, is_sst: bool = True
) -> Forecasts:
    """Open the forecasts in a NetCDF file, a Zarr store, or a folder of these, which is joined by initial date.

    `variable` and `units` name the variable with the temperatures and its unit, for files that do not state them
    or state them wrongly. The spread of a variable `sst` is read from `sst_spread`, by default in the
    units of `sst`. If the field is not SST, its units are in its attribute `units`.

    Raises SSTCastError, which names the file and the key, if a file cannot be read, an axis, the temperatures or a
    unit is not recognised, or the files in a folder share an initial date or have different layouts.
    """
    first, *other_parts = parts = read_parts(
        path, partial(_forecasts, variable=variable, units=units, is_sst=is_sst)
    )
    for part in other_parts:
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
    return Forecasts(path, sst, merge(spreads, "init_time") if spreads else None, note)


def _forecasts(
    path: Path, dataset: xr.Dataset, variable: str | None, units: str | None, is_sst: bool
) -> Forecasts:
    """Return the forecasts in one dataset."""
    field = find_field(dataset, path, FORECAST, variable, units, is_sst=is_sst)
    lead_days, period_notes = _middles(field["init_time"], field["lead"], dataset, str(field.name), path)
    days, leads, day_notes = _days(field["init_time"], field["lead"], lead_days, path)
    notes = [
        f"{field.name}({', '.join(map(str, dataset[field.name].dims))}) in {field.attrs['units']}",
        *field.attrs["notes"],
        *period_notes,
        *day_notes,
    ]

    def ordered(forecast_field: xr.DataArray) -> xr.DataArray:
        return forecast_field.drop_attrs().assign_coords(init_time=days, lead=leads).sortby("lead")

    spread_name, spread = f"{field.name}_spread", None
    if is_sst and spread_name in dataset.data_vars:
        factor, _ = celsius(
            str(dataset[spread_name].attrs.get("units", field.attrs["units"])), path, spread_name, ""
        )
        spread = ordered(find_field(dataset, path, FORECAST, spread_name, "degC")[0]) * np.float32(factor)
    units_kept = {} if is_sst else {"units": field.attrs["units"]}
    return Forecasts(path, ordered(field).assign_attrs(units_kept), spread, ", ".join(notes))


def _middles(
    init: xr.DataArray, lead: xr.DataArray, dataset: xr.Dataset, name: str, path: Path
) -> tuple[NDArray[np.float64], list[str]]:
    """Return the days from the initial time to the middle of the period of each `lead`, and notes."""
    name_of_bounds = lead.attrs.get("bounds")
    bounds = dataset.variables.get(name_of_bounds)
    if bounds is not None and bounds.dtype.kind in "iuf":
        units = {"units": lead.encoding.get("units", "days")} | lead.attrs | bounds.attrs
        days = _in_days(xr.DataArray(bounds.values.ravel(), dims="bound", attrs=units), path)
        nanoseconds = np.round(days.reshape(bounds.shape) * (DAY / np.timedelta64(1, "ns")))
        dataset = dataset.assign({name_of_bounds: (bounds.dims, nanoseconds.astype("timedelta64[ns]"))})
    middle, notes = middles(lead, dataset)
    if middle is not None:
        from_init = middle - init.values.ravel()[0] if middle.dtype.kind != "m" else middle
        return np.asarray(from_init / DAY, float), ["days are those of the bounds of the lead"]
    lead_days = _in_days(lead, path)
    kind = dataset[name].attrs.get("GRIB_stepType")
    if kind in AVERAGES:
        return lead_days - 0.5, [*notes, f"each step is of the 24 hours before it (GRIB_stepType {kind})"]
    return lead_days, [f"its lead {note}" for note in notes]


def _days(
    init: xr.DataArray, lead: xr.DataArray, middle: NDArray[np.float64], path: Path
) -> tuple[NDArray[np.datetime64], NDArray[np.int32], list[str]]:
    """Return the days before the first day forecast `[init]`, the leads in days from 1 `[lead]`, and notes.

    A forecast is of the day that holds the `middle` of its period, in days after the initial time. If that is at
    midnight, it is of the day of its label, initial time + lead.
    """
    times, lead_days = dates(init, path).round("min"), _in_days(lead, path)  # 23:59:59.9 belongs to the next day
    days, hours = times.normalize(), ((times - times.normalize()) / DAY).values
    if days.has_duplicates:
        raise SSTCastError(
            f"{path}: two forecasts begin on {days[days.duplicated()][0]:%Y-%m-%d}; select those from one hour"
        )
    position = hours[:, None] + middle
    label = hours[:, None] + lead_days
    counts, labels = (np.floor(days_after + ROUNDING_DAYS).astype(int) for days_after in (position, label))
    counts -= (abs(position - counts) < ROUNDING_DAYS) & (labels == counts - 1)
    if (counts != counts[0]).any():
        raise SSTCastError(
            f"{path}: forecasts begin at several hours, so that lead {lead_days[0]:g} falls on different days; "
            "select forecasts from one hour"
        )
    leads, lead_text = pd.Index(counts[0]), ", ".join(f"{value:g}" for value in lead_days[:4])
    if leads.has_duplicates:
        raise SSTCastError(f"{path}: lead {lead_text} days: several leads fall on one day; average them to days")
    if leads.min() < 0:
        raise SSTCastError(f"{path}: lead {lead_text} days: lies before the initial time; omit negative leads")
    if leads.min() > 0:
        return days.values, leads.values.astype(np.int32), []
    note = "lead 0 is the day of init_time and the first day forecast, so the history ends on the day before"
    return days.values - DAY, (leads.values + 1).astype(np.int32), [note]


def _in_days(lead: xr.DataArray, path: Path) -> NDArray[np.float64]:
    values = np.atleast_1d(lead.values)
    if values.dtype.kind == "m":
        return np.asarray(values / DAY, float)
    units = str(lead.attrs.get("units", "days")).strip().lower()
    per_day = IN_A_DAY.get(units) or IN_A_DAY.get(units.removesuffix("s"))
    if values.dtype.kind not in "iuf" or per_day is None or not np.isfinite(values).all():
        raise SSTCastError(
            f"{path}: lead is {values.dtype} with units {units!r}; give days or hours, or a time difference"
        )
    return values / per_day
