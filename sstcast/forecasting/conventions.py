"""Reads daily forecasts of temperature that follow other conventions: CF, climpred, OceanBench, ECMWF, sstcast.

Initial time, lead and member are found by these names or by their CF standard names. The day forecast is that of
`init + lead`; `lead_day_index` of OceanBench counts days from `first_day_datetime`, the first day forecast.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cf_xarray  # noqa: F401  (gives datasets their `.cf`)
import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast.errors import SSTCastError
from sstcast.ocean.decoding import COMMON_NAMES, KELVIN, STANDARD_NAMES, axes_of, celsius, dates, degrees
from sstcast.stores import open_netcdf, open_zarr

INIT = ("init_time", "init", "forecast_reference_time", "first_day_datetime", "reference_time", "time")
LEAD = ("lead", "lead_time", "forecast_period", "lead_day_index", "step", "prediction_timedelta")
MEMBER = ("member", "number", "realization", "ensemble")
DEPTH = ("depth", "lev", "level", "deptht", "olevel")
NAMES = {"init_time": INIT, "lead": LEAD, "member": MEMBER, "depth": DEPTH}
STANDARD = {
    "init_time": "forecast_reference_time",
    "lead": "forecast_period",
    "member": "realization",
    "depth": "depth",
}
FIELD = ("member", "init_time", "lead", "lat", "lon")
DAY = np.timedelta64(1, "D")
UNITS = {
    "day": 1.0,
    "d": 1.0,
    "hour": 24.0,
    "hr": 24.0,
    "h": 24.0,
    "minute": 1440.0,
    "second": 86400.0,
    "s": 86400.0,
}
UNITS |= {"nanosecond": 86400e9, "ns": 86400e9}  # in a day
PLAUSIBLE = (-5.0, 50.0)  # degC
VALUES_AT_ONCE = 2**23
REMEDY = "write it again"


@dataclass(frozen=True)
class Forecasts:
    """Forecasts read from a file.

    Attributes:
        path: the file.
        sst: lazy `(member, init_time, lead, lat, lon)` in degC, NaN on land, on the file's own cells with latitude
            ascending. `init_time` is a day, the last that is not forecast; `lead` counts days from 1.
        spread: the standard deviation in degC of a Gaussian about `sst`, `(init_time, lead, lat, lon)`, or None.
        note: what was found, in words.
    """

    path: Path
    sst: xr.DataArray
    spread: xr.DataArray | None
    note: str


def read_forecasts(path: Path, variable: str | None = None, units: str | None = None) -> Forecasts:
    """Open forecasts in a NetCDF file or a Zarr store.

    `variable` and `units` are for files that do not say, or say wrongly, which variable holds the temperatures and
    in which unit. The spread of a variable `sst` is called `sst_spread`, in degrees of Celsius or kelvin.

    Raises SSTCastError, naming the file and the key, if it cannot be read, an axis, the temperatures or a unit is
    not recognised, or the leads are not days in a row.
    """
    if not path.exists():
        raise SSTCastError(f"{path}: no such file or store")
    dataset = open_zarr(path, REMEDY) if path.is_dir() else open_netcdf(path, REMEDY)
    names = {name for known in NAMES.values() for name in known}
    dataset = dataset.set_coords([name for name in dataset.data_vars if str(name).lower() in names])
    dataset = dataset.cf.guess_coord_axis()
    found = {axis: name for axis in NAMES if (name := _find(dataset, axis)) is not None}
    name = _choose(dataset, path, variable)
    field = _with_leads(dataset, name, found, path)
    found["lead"] = found.get("lead", "lead")
    notes = [f"{field.name}({', '.join(map(str, field.dims))})"]
    cells = axes_of(field)
    for axis in ("lat", "lon"):
        if axis not in cells or field[cells[axis]].ndim != 1:
            raise SSTCastError(
                f"{path}: {field.name} has no axis {axis} of its own; interpolate it to lat and lon"
            )
    if "depth" in found and found["depth"] in field.dims:
        level = int(np.argmin(abs(field[found["depth"]].values)))
        notes.append(f"the level at {found['depth']} {float(field[found['depth']][level]):g}")
        field = field.isel({found["depth"]: level})
    days, leads, first = _days(field[found["init_time"]], field[found["lead"]], path)
    if first is not None:
        notes.append(first)
    keep = {cells["lat"]: "lat", cells["lon"]: "lon", **{found[axis]: axis for axis in ("init_time", "lead")}}
    if "member" in found and found["member"] in field.dims:
        keep[found["member"]] = "member"
    swapped = {field[axis].dims[0]: axis for axis in keep if axis not in field.dims and field[axis].ndim == 1}
    field = field.swap_dims(swapped)
    field = field.expand_dims([axis for axis in keep if axis not in field.dims])
    if extra := [f"{dim} of {n}" for dim, n in field.sizes.items() if dim not in keep and n != 1]:
        raise SSTCastError(f"{path}: {field.name} has a dimension {', '.join(extra)}; select one, or --variable")
    field = field.squeeze([dim for dim in field.dims if dim not in keep], drop=True)
    field = field.rename({old: new for old, new in keep.items() if old != new})
    field = field.drop_vars(set(field.coords) - {"lat", "lon"})
    if "member" not in field.dims:
        field = field.expand_dims("member")
    lat, lon = (degrees(field[axis], path) for axis in ("lat", "lon"))
    field = field.transpose(*FIELD).assign_coords(init_time=days, lead=leads, lat=lat, lon=lon)
    sst, unit = _celsius(_ordered(field, path), path, units)
    other = f"{name}_spread"
    spread = read_forecasts(path, other, "degC").sst[0].drop_attrs() if other in dataset.data_vars else None
    return Forecasts(path, sst, spread, ", ".join([notes[0], unit, *notes[1:]]))


def _find(dataset: xr.Dataset, axis: str) -> str | None:
    """Return the coordinate or dimension that is the initial time, the lead, the member or the depth."""
    names = [*map(str, dataset.coords), *(str(dim) for dim in dataset.dims if dim not in dataset.coords)]
    by_name = [name for known in NAMES[axis] for name in names if name.lower() == known and known != "time"]
    by_standard = [n for n in dataset.coords if dataset[n].attrs.get("standard_name") == STANDARD[axis]]
    alone = ["time"] if axis == "init_time" and "time" in names and _find(dataset, "lead") else []
    return next(iter(map(str, [*by_name, *by_standard, *alone])), None)


def _choose(dataset: xr.Dataset, path: Path, variable: str | None) -> str:
    """Return the variable of the temperatures: `variable`, or by standard or common name, or the only one."""
    if variable is not None:
        if variable not in dataset.data_vars:
            raise SSTCastError(
                f"{path}: no variable {variable!r} (--variable); it has {_listed(dataset.data_vars)}"
            )
        return variable
    usable = [
        str(name) for name, field in dataset.data_vars.items() if field.ndim >= 3 and field.dtype.kind in "iuf"
    ]
    by_standard = [name for name in usable if dataset[name].attrs.get("standard_name") in STANDARD_NAMES]
    for group in (by_standard, usable):
        known = [name for common in COMMON_NAMES for name in group if name.lower() == common]
        if known or len(group) == 1:
            return (known or group)[0]
    raise SSTCastError(
        f"{path}: which variable is the sea surface temperature? It has {_listed(dataset.data_vars)}; "
        "name it with --variable"
    )


def _with_leads(dataset: xr.Dataset, name: str, found: dict[str, str], path: Path) -> xr.DataArray:
    """Return the variable with its initial time and lead as coordinates; raise SSTCastError if it has none.

    A single forecast may have the days forecast, `time`, in place of leads.
    """
    field = dataset[name]
    if not {"init_time", "lead"} & found.keys() and "time" in field.dims:
        raise SSTCastError(f"{path}: this looks like observations; run `sstcast forecast` first")
    if (init := found.get("init_time")) not in field.coords or field[init].ndim > 1:
        raise SSTCastError(
            f"{path}: {name} has no initial time; call it {', '.join(INIT[:-2])}, or give it the standard_name "
            f"{STANDARD['init_time']}; it has {_listed(field.coords)}"
        )
    if (lead := found.get("lead")) in field.coords and field[lead].ndim <= 1:
        if field[init].dims and field[init].dims == field[lead].dims:
            raise SSTCastError(
                f"{path}: {init} and {lead} share the dimension {field[init].dims[0]}; unstack them"
            )
        return field
    if field[init].size == 1 and "time" in field.dims and field["time"].dtype.kind == "M":
        ahead = field["time"].values - np.ravel(field[init].values)[0]
        return field.assign_coords(lead=("time", ahead))
    raise SSTCastError(
        f"{path}: {name} has no lead; call it {', '.join(LEAD)}, or give it the standard_name "
        f"{STANDARD['lead']}; it has {_listed(field.coords)}"
    )


def _days(
    init: xr.DataArray, lead: xr.DataArray, path: Path
) -> tuple[NDArray[np.datetime64], NDArray[np.int32], str | None]:
    """Return the day before the first day forecast `[init]`, leads in days from 1 on `[lead]`, and a note."""
    times = dates(init, path)
    ahead = _in_days(lead, path)
    hours = ((times - times.normalize()) / DAY).values
    counts = np.floor(hours[:, None] + ahead + 1e-6).astype(int)
    if (counts != counts[0]).any():
        raise SSTCastError(
            f"{path}: {init.name} has several hours of the day, so that {lead.name} {ahead[0]:g} is now "
            "this day, now the next; select forecasts from one hour"
        )
    leads = np.sort(counts[0])
    told = f"{lead.name} {', '.join(f'{one:g}' for one in ahead[:4])}{', ...' if len(ahead) > 4 else ''} days"
    if (leads[1:] == leads[:-1]).any():
        raise SSTCastError(f"{path}: {told}: several a day; average them to days")
    if (np.diff(leads) != 1).any() or leads[0] not in (0, 1):
        raise SSTCastError(f"{path}: {told}: needed is every day from the first on")
    days = times.normalize().values
    if leads[0] == 0:
        note = f"{lead.name} 0 is the day of {init.name}, the first forecast: the day before is the last one known"
        return days - DAY, (counts[0] + 1).astype(np.int32), note
    return days, counts[0].astype(np.int32), None


def _in_days(lead: xr.DataArray, path: Path) -> NDArray[np.float64]:
    values = np.atleast_1d(lead.values)
    if values.dtype.kind == "m":
        return np.asarray(values / DAY, float)
    units = str(lead.attrs.get("units", "days")).strip().lower()
    per_day = UNITS.get(units) or UNITS.get(units.removesuffix("s"))
    if values.dtype.kind not in "iuf" or per_day is None or not np.isfinite(values).all():
        raise SSTCastError(
            f"{path}: {lead.name} is {values.dtype} with units {units!r}; give days or hours, or a time difference"
        )
    return values / per_day


def _ordered(field: xr.DataArray, path: Path) -> xr.DataArray:
    """Return forecasts in order of date, lead and latitude, in blocks of whole forecasts."""
    for axis in ("init_time", "lead", "lat"):
        if not field.indexes[axis].is_monotonic_increasing:
            field = field.sortby(axis)
    if (days := field.indexes["init_time"]).has_duplicates:
        raise SSTCastError(
            f"{path}: {days[days.duplicated()][0]:%Y-%m-%d} begins two forecasts; select those from one hour"
        )
    if field.chunks:
        return field.chunk(lat=-1, lon=-1)
    sizes = field.sizes
    return field.chunk(init_time=max(1, VALUES_AT_ONCE // (field.size // sizes["init_time"])))


def _celsius(field: xr.DataArray, path: Path, given: str | None) -> tuple[xr.DataArray, str]:
    """Return temperatures in degC, float32, and a note about their unit."""
    unit = given or str(field.attrs.get("units", "")).strip()
    first = field[0, 0, 0].values
    known = first[np.isfinite(first)]
    if not known.size:
        raise SSTCastError(f"{path}: the first forecast has no values; {REMEDY}")
    if not unit and KELVIN[0] <= (middle := float(np.median(known))) <= KELVIN[1]:
        raise SSTCastError(f"{path}: {field.name} has no units and is about {middle:.0f}; give --units K")
    try:
        factor, zero = celsius(unit or "degC", path)
    except SSTCastError:
        raise SSTCastError(
            f"{path}: {field.name}: {unit!r} is not a unit of temperature; give --units, for instance degC or K"
        ) from None
    low, high = (float(of) * factor + zero for of in (known.min(), known.max()))
    if not PLAUSIBLE[0] <= low <= high <= PLAUSIBLE[1]:
        raise SSTCastError(
            f"{path}: {field.name} is {low:g} to {high:g} degC in the first forecast, which is no sea surface "
            "temperature; check --units and --variable"
        )
    field = field.astype("float32")
    if factor != 1:
        field = field * np.float32(factor)
    return (field + np.float32(zero) if zero else field), f"in {unit or 'degC, which it does not say'}"


def _listed(names: Iterable[Any]) -> str:
    return ", ".join(map(str, names)) or "none"
