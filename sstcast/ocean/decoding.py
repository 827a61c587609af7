"""Finds the temperatures in a dataset, whatever their name and unit, as `sst(time, lat, lon)` in degC."""

import re
from functools import cache
from pathlib import Path
from typing import Any

import cf_xarray  # noqa: F401  (gives datasets their `.cf`)
import numpy as np
import pandas as pd
import xarray as xr

from sstcast.errors import SSTCastError

STANDARD_NAMES = (
    "sea_surface_temperature",
    "sea_surface_foundation_temperature",
    "sea_surface_subskin_temperature",
    "sea_surface_skin_temperature",
    "surface_temperature",
    "sea_water_potential_temperature",
    "sea_water_conservative_temperature",
    "sea_water_temperature",
)
COMMON_NAMES = (
    *("sst", "analysed_sst", "sea_surface_temperature", "sea_surface_foundation_temperature", "tos", "thetao"),
    *("votemper", "tosst", "to", "water_temp", "water_temperature", "sea_water_temperature"),
    *("temperature", "temp"),
)
AXES = {"time": ("time", "T"), "lat": ("latitude", "Y"), "lon": ("longitude", "X")}  # their names in cf_xarray
BLOCK = 2**23  # values read at once: 32 MB in single precision
KELVIN = (200, 320)  # values in this range and without a unit look like kelvin
DEGC = {"degree_celsius", "degc", "celsius"}


class UnstatedKelvin(SSTCastError):
    """Values that look like kelvin but have no units attribute."""


Layout = tuple[str, dict[str, Any]]  # the variable's name, and its coordinates for time, lat and lon


def decode(
    dataset: xr.Dataset,
    path: Path,
    variable: str | None = None,
    units: str | None = None,
    known: dict[Any, Layout] | None = None,
) -> xr.DataArray:
    """Return the temperatures in `dataset` as lazy `sst(time, lat, lon)` in degC, one value per day at 00:00.

    `variable` and `units` come from the configuration; if None, they are found from CF attributes and common
    names. Latitudes ascend; longitudes and days keep the file's order; the attribute `no_leap_days`
    marks a calendar without them; `path` is used in messages. `known` caches layouts, so that only one of many
    similar files is searched.

    Raises SSTCastError if the variable, an axis or the unit cannot be identified.
    """
    known = {} if known is None else known
    header = tuple((name, v.shape, v.dims, str(v.dtype), repr(v.attrs)) for name, v in dataset.variables.items())
    places = [name for name in dataset.data_vars if re.match("(nav_)?(lat|lon)", str(name), re.I)]
    dataset = dataset.set_coords(places) if places else dataset
    if header not in known:
        guessed = dataset.cf.guess_coord_axis()
        name = choose(guessed, path, variable)
        known[header] = name, axes_of(guessed[name])
    name, axes = known[header]
    field = dataset[name]
    if not field[axes["time"]].ndim:
        field = field.expand_dims(axes["time"])
    leapless = _is_leapless(field[axes["time"]])
    days = (
        dates(field[axes["time"]], path).round("min").normalize()
    )  # 23:59:59.9 is the midnight that it rounds to
    if swapped := {field[axis].dims[0]: axis for axis in axes.values() if axis not in field.dims}:
        field = field.swap_dims(swapped)
    field = field.squeeze([d for d in field.dims if d not in axes.values()])
    field = field.rename({old: new for new, old in axes.items()}).transpose("time", "lat", "lon")
    coordinates = {"time": days, "lat": degrees(field["lat"], path), "lon": degrees(field["lon"], path)}
    field = field.drop_vars(set(field.coords) - set(AXES)).assign_coords(coordinates)
    if field.indexes["lat"].is_monotonic_decreasing:
        field = field.isel(lat=slice(None, None, -1))
    units = units or str(field.attrs.get("units", "")).strip() or _unstated(field, path)
    factor, zero = celsius(units, path)
    field = _blocks(field, dataset[name], axes["time"]).astype("float32")
    if factor != 1:
        field = field * np.float32(factor)
    field = field + np.float32(zero) if zero else field
    return field.assign_attrs(no_leap_days=True) if leapless else field


def choose(dataset: xr.Dataset, path: Path, variable: str | None = None) -> str:
    """Return the name of the temperature variable in `dataset`, whose axes cf_xarray has identified.

    The choice is `variable` if given, else a variable with a standard name of sea surface temperature, else one
    with a common name, else the only one on time, lat and lon. Raises SSTCastError, listing the variables, if
    none or several remain.
    """
    names = [str(name) for name in dataset.data_vars]
    usable = [name for name in names if _why_not(dataset[name]) is None]
    if variable is not None:
        if variable not in names:
            raise SSTCastError(
                f"{path}: no variable {variable!r}, which data.variable names; it has {_listed(dataset)}"
            )
        if reason := _why_not(dataset[variable]):
            raise SSTCastError(f"{path}: {variable} {reason}")
        return variable
    by_standard = [n for n in usable if dataset[n].attrs.get("standard_name") in STANDARD_NAMES]
    for group in (by_standard, usable):
        known = sorted(
            (n for n in group if n.lower() in COMMON_NAMES), key=lambda n: COMMON_NAMES.index(n.lower())
        )
        if len(group) == 1 or known:
            return (known or group)[0]
    if not usable and (odd := [n for n in names if dataset[n].ndim >= 2]):
        told = [f"{n} {_why_not(dataset[n])}" for n in sorted(odd, key=lambda n: n.lower() not in COMMON_NAMES)]
        raise SSTCastError(f"{path}: {told[0]}")
    raise SSTCastError(
        f"{path}: which variable is the sea surface temperature? It has {_listed(dataset)}; set data.variable"
    )


def celsius(units: str, path: Path) -> tuple[float, float]:
    """Return (factor, zero) such that degC = factor * value + zero.

    Absolute temperatures are meant, not differences: 0 K is -273.15 degC. Raises SSTCastError if `units` is not a
    unit of temperature.
    """
    if (found := _celsius(units)) is None:
        raise SSTCastError(
            f"{path}: {units!r} is not a unit of temperature; set data.units, for instance to degC or K"
        )
    return found


@cache
def _celsius(units: str) -> tuple[float, float] | None:
    # Spellings that pint does not know: it reads "deg C" as degrees of angle times another unit.
    plain = re.sub(r"^(deg(ree)?s?|°)[\s_.]*([CFK])\w*$", lambda m: f"deg{m[3].upper()}", units, flags=re.I)
    if plain.lower() in ("kelvin", "kelvins", "celsius", "fahrenheit", "k", "c", "f"):
        plain = f"deg{plain[0].upper()}"
    if plain.lower() in DEGC:
        return 1.0, 0.0
    from cf_xarray.units import units as registry  # slow to load, and most files do not need it

    try:
        zero, one = registry.Quantity(np.array([0.0, 1.0]), registry.parse_units(plain)).to("degC").magnitude
    except Exception:  # pint raises many types of its own, and passes on those of its parser
        return None
    return round(float(one - zero), 12), round(float(zero), 9)


def _why_not(field: xr.DataArray) -> str | None:
    """Return why `field` cannot be the temperatures, as the end of a sentence; None if it can be."""
    if field.dtype.kind not in "iuf":
        return "does not hold numbers"
    axes = axes_of(field)
    for axis in ("lat", "lon"):
        if (name := axes.get(axis)) is not None and field[name].ndim == 2:
            return (
                f"lies on a curvilinear grid ({name} has two dimensions); interpolate it to a grid of latitudes "
                "and longitudes first, for instance with `cdo remapbil,r1440x720`"
            )
    if missing := [axis for axis in AXES if axis not in axes]:
        return (
            f"has dimensions {', '.join(map(str, field.dims)) or 'none'}, none of which is recognised as "
            f"{' or '.join(missing)}; give it coordinates with CF attributes"
        )
    used = {dim for axis in axes.values() for dim in field[axis].dims}
    if extra := [
        f"{dim} of {field.sizes[dim]}" for dim in field.dims if dim not in used and field.sizes[dim] != 1
    ]:
        return f"has dimensions besides time, lat and lon ({', '.join(extra)}); save a single level to a file"
    return None


def axes_of(field: xr.DataArray) -> dict[str, Any]:
    """Return the coordinates for time, lat and lon, as far as they can be identified."""
    found = {}
    coordinates, axes = field.cf.coordinates, field.cf.axes
    for axis, (kind, letter) in AXES.items():
        for names in (coordinates.get(kind, []), axes.get(letter, [])):
            fit = [n for n in names if field[n].ndim == 1 or (field[n].ndim == 2 and axis != "time")]
            fit += [n for n in names if not field[n].ndim and axis == "time"]
            if fit:
                found[axis] = min(fit, key=lambda n: (field[n].ndim == 2, n not in field.dims))
                break
    return found


def _listed(dataset: xr.Dataset) -> str:
    return ", ".join(f"{n}({', '.join(map(str, dataset[n].dims))})" for n in dataset.data_vars) or "no variables"


def dates(time: xr.DataArray, path: Path) -> pd.DatetimeIndex:
    """Return the dates, with their hours; raise SSTCastError if `time` does not hold dates of the calendar."""
    values = np.atleast_1d(time.values)
    if not values.size:
        raise SSTCastError(f"{path}: {time.name} is empty; download the file again")
    if _is_leapless(time):
        values = np.array([day.isoformat() for day in values], "datetime64[ns]")
    if values.dtype.kind != "M":
        if calendar := getattr(values.flat[0], "calendar", ""):
            raise SSTCastError(
                f"{path}: {time.name} uses the calendar {calendar!r} from {values.flat[0]}; sstcast needs the "
                "standard one, from 1678 on: convert it, for instance with xarray's convert_calendar"
            )
        raise SSTCastError(
            f"{path}: {time.name} does not hold dates ({values.flat[0]}); give it units 'days since ...'"
        )
    if np.isnat(values).any():
        raise SSTCastError(f"{path}: {time.name} has missing dates; download the file again")
    return pd.DatetimeIndex(values).as_unit("ns")


def _is_leapless(time: xr.DataArray) -> bool:
    """Return whether dates are of a calendar that differs from the standard one only in having no 29 February."""
    first = next(iter(np.atleast_1d(time.values).flat), None)
    return getattr(first, "calendar", "") in ("noleap", "365_day")


def degrees(axis: xr.DataArray, path: Path) -> np.ndarray:
    """Return the values of an axis `lat` or `lon`; raise SSTCastError if they are no axis in degrees."""
    units, kind = str(axis.attrs.get("units", "")), str(axis.attrs.get("standard_name", ""))
    if kind.startswith(("grid_", "projection_")) or (units and not re.match("deg|°", units.strip(), re.I)):
        raise SSTCastError(
            f"{path}: its {axis.name} is not a {axis.name} in degrees ({kind or units}); interpolate it to a grid "
            "of latitudes and longitudes first, for instance with `cdo remapbil,r1440x720`"
        )
    values = axis.values.astype(float)
    low, high = (-90.01, 90.01) if axis.name == "lat" else (-720, 720)
    if not (np.isfinite(values).all() and low <= values.min() and values.max() <= high):
        raise SSTCastError(
            f"{path}: its {axis.name} is not in degrees ({values[0]:g}..{values[-1]:g}); correct the file"
        )
    steps = np.diff(values)
    if values.size < 2 or (steps == 0).any() or (axis.name == "lat" and (steps > 0).any() and (steps < 0).any()):
        raise SSTCastError(
            f"{path}: its {axis.name} is not an axis ({values.size} values, which must all differ); correct it"
        )
    gaps = (
        np.abs(steps) if axis.name == "lat" else np.diff(np.sort(values % 360), append=np.min(values % 360) + 360)
    )
    usual = np.median(np.abs(steps))
    if (wide := np.flatnonzero(gaps > 1.5 * usual)).size > (axis.name == "lon"):  # east of the last is no data
        where = f" after {values[wide[0]]:g}" if axis.name == "lat" else ""
        raise SSTCastError(
            f"{path}: its {axis.name} lacks values{where}; its steps are {usual:g}: correct the file"
        )
    return values


def _unstated(field: xr.DataArray, path: Path) -> str:
    """Guess a missing unit from the first day's values; raise SSTCastError if they look like kelvin."""
    values = field.isel(time=0).values
    values = values[np.isfinite(values)]
    if values.size and KELVIN[0] <= (middle := float(np.median(values))) <= KELVIN[1]:
        raise UnstatedKelvin(f"{path}: {field.name} has no units and is about {middle:.0f}; set data.units: K")
    return "degC"


def _blocks(field: xr.DataArray, stored: xr.DataArray, time: Any) -> xr.DataArray:
    """Let dask read `field` in blocks of whole days: the file's own chunks, or several of them at once."""
    if field.chunks:
        return field.chunk(lat=-1, lon=-1)
    days = max(1, BLOCK // (field.sizes["lat"] * field.sizes["lon"]))
    chunks = stored.encoding.get("chunksizes")
    if chunks and (step := dict(zip(stored.dims, chunks, strict=False)).get(time)):
        days = max(1, days // step) * step
    return field.chunk(time=days, lat=-1, lon=-1)
