"""Brings SST, or another field of a dataset, to one form: order and names of axes, dates, degrees and units.

The same rules apply to observations, forecasts and downloaded files.
"""

import re
from collections.abc import Hashable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from sstcast.errors import SSTCastError, reworded
from sstcast.geo import NORTH, SOUTH, bounds, step
from sstcast.reading.absent_chunks import check_chunks
from sstcast.reading.bounds import bounds_name, bounds_of
from sstcast.reading.flags import Rule, ValidRange, check_some_left, is_flag, rules_of
from sstcast.reading.layouts import OBSERVED, REGRID, identified
from sstcast.reading.levels import surface
from sstcast.reading.positions import CENTRE_TOLERANCE, LARGEST_DEGREES, LARGEST_LATITUDE, SPACE, check_sign
from sstcast.reading.source_grid import cells_of
from sstcast.reading.units import celsius
from sstcast.storage.stores import ARRAYS

PLAUSIBLE = (-5.0, 50.0)  # degC, the range of SST in observations and forecasts
REPEATED = 0.1  # of a cell, between the first meridian and one that repeats it
VALUES_AT_ONCE = 2**23  # values to read at once, 32 MB in single precision

DATENUM = "MATLAB's datenum n is n - 719529 'days since 1970-01-01'"
DATENUMS = (6e5, 8e5)  # of the years 1643 to 2190
ABSOLUTE = re.compile(r"day as %Y%m%d(\.%f)?")  # units of times that CDO writes, such as 20010131.5
# Units of times with a time zone, such as 'days since 2001-01-01 +10:00'.
ZONED = re.compile(r"(.*since\s+\d+-\d+-\d+(?:[T ]+\d+(?::\d+(?::[\d.]+)?)?)?)\s*[+-]\d{1,2}(?::?\d\d)?\s*", re.I)
STANDARD_CALENDARS = ("", "standard", "gregorian", "proleptic_gregorian")
KNOWN_YEARS = range(1678, 2262)  # those that nanoseconds can tell; in all of them the standard calendars agree
CELLS = "cells"  # the attribute of a field on no axes of latitude and longitude with what its cells are made of
# Makes error messages name options, such as `--units`, instead of keys, such as `data.units`.
options_for_keys = partial(reworded, r"\bdata\.(variable|units|gaps)(:(?= ))?", r"--\1")
MISPLACED = "misplaced"  # the coordinate that marks cells that are not where the axes have them


class Found(NamedTuple):
    """A field of a dataset, as `find_field` returns it.

    Attributes:
        field: its values, lazily, with dimensions and units of sstcast.
        dataset: the dataset, in which its axes have the same names.
        axes: the name in the file of each axis.
        units: the units of the file.
        notes: the choices that were made, each the end of a sentence.
        valid: its range of valid values, if it has one.
        flags: the names of the flags and masks that are applied.
    """

    field: xr.DataArray
    dataset: xr.Dataset
    axes: dict[str, str]
    units: str
    notes: list[str]
    valid: ValidRange | None
    flags: list[str]

    @property
    def stored(self) -> xr.DataArray:
        """The field as the file holds it."""
        return self.dataset[self.field.name]

    def axis(self, name: str) -> xr.DataArray:
        """Return an axis under its name in the file, for messages."""
        return self.field[name].rename(self.axes.get(name, name))


def find_field(
    dataset: xr.Dataset,
    path: Path,
    dims: tuple[str, ...] = OBSERVED,
    variable: str | None = None,
    units: str | None = None,
    layouts: dict[Any, Any] | None = None,
    is_sst: bool = True,
    any_grid: bool = False,
    true_positions: bool = False,
) -> Found:
    """Find SST in a dataset and return it lazily in degC, with dimensions `dims` and ascending latitude.

    Args:
        dataset: an open file or store.
        path: the path for messages.
        dims: `OBSERVED` or `FORECAST`. All axes except latitude keep the file's order, and `time`, `init_time` and
            `lead` keep its values. A missing `member` is added. Of several levels, the one at the surface is read.
        variable: the name, if the variable has no standard or common name.
        units: units that override those in the file.
        layouts: a cache of layouts; among many similar files, only the first is searched.
        is_sst: if false, find any field: `variable`, or the only one on these axes. It keeps its units, which may
            be "".
        any_grid: whether the field may be on no axes of latitude and longitude.
        true_positions: whether positions that share their dimensions go before nominal axes.

    Returns:
        The field, and what was found. On no axes of latitude and longitude, it has the dimensions `row` and
        `column` instead, and the attribute `cells` its `source_grid.Cells`, which files with the same `layouts`
        share. If the file has true positions beside axes, as an ocean model with nominal axes does, the mask
        `misplaced(lat, lon)` marks the cells that are not there.

    Raises:
        SSTCastError: the variable, an axis or the units are not recognised, the grid is not regular in latitude
            and longitude, the file holds forecasts instead of observations or vice versa, or a Zarr store lost
            chunks.
    """
    layouts = {} if layouts is None else layouts
    arrays = dataset.encoding.get(ARRAYS, {})
    options = variable, layouts, is_sst, any_grid, true_positions
    dataset, name, axes, dims = identified(dataset, path, dims, *options)
    field, at_surface = dataset[name], dataset
    notes: list[str] = []
    attributes: dict[str, Any] = {}
    rules: list[Rule] = []
    levels: dict[Hashable, Any] = {}
    if (depth := axes.get("depth")) in field.coords and field[depth].size > 1:
        level = surface(field[depth])
        notes.append(f"at the level {depth} {float(field[depth][level]):g}")
        levels = {field[depth].dims[0]: level}
        at_surface = dataset.isel(levels)
        field = at_surface[name]
    if is_sst or not is_flag(field):
        field, rules = _kept(at_surface, name, dims, path, notes, layouts)
    if name in arrays:
        notes += filter(
            None, [check_chunks(dataset[name], arrays[name], {*dims[-2:]}, rules, levels, is_sst, path)]
        )
    if dims[-1] == SPACE[1]:
        cells = cells_of(at_surface, field, axes, path)
        first = layouts.setdefault(CELLS, cells)
        attributes = {CELLS: first if first.agrees(cells) else cells}
        field = field if SPACE[1] in field.dims else field.expand_dims(SPACE[1], axis=-1)
    if "lead" in dims and "lead" not in axes:
        field = _with_leads(field, axes["time"], path)
    field = _on_axes(field, axes, dims, path, notes)
    if not attributes:
        field = _northward(field, dataset, dims, notes)
    units = units or str(field.attrs.get("units", "")).strip()
    if is_sst and not units:
        units = _guessed_units(field, path)
        notes.append(f"in {units}, because the file states no units and its values fit {units}")
    factor, offset = celsius(units, path, name) if is_sst else (1, 0)
    field = _blocks(field, dims, dataset[name]).astype("float32")
    if factor != 1:
        field = field * np.float32(factor)
    field = field + np.float32(offset) if offset else field
    field = field.drop_attrs(deep=False).assign_attrs(attributes)
    valid = next((rule.keeps for rule in rules if isinstance(rule.keeps, ValidRange)), None)
    return Found(field, dataset, axes, units, notes, valid, [rule.name for rule in rules if rule.name])


def _northward(field: xr.DataArray, dataset: xr.Dataset, dims: tuple[str, ...], notes: list[str]) -> xr.DataArray:
    """Return a field with ascending latitude, and the bounds of its rows, if a file states others than usual."""
    if (ends := _other_bounds(dataset["lat"], dataset)) is not None:
        low, high = np.sort(ends, axis=0).T
        if dims == OBSERVED and np.allclose(low[1:], high[:-1]):
            field = field.assign_coords({SOUTH: ("lat", ends[:, 0]), NORTH: ("lat", ends[:, 1])})
        else:
            notes.append("with rows that meet halfway between their centres, unlike its bounds")
    return field.isel(lat=slice(None, None, -1)) if field.indexes["lat"].is_monotonic_decreasing else field


def _kept(
    dataset: xr.Dataset,
    name: str,
    dims: tuple[str, ...],
    path: Path,
    notes: list[str],
    layouts: dict[Any, Any],
) -> tuple[xr.DataArray, list[Rule]]:
    """Return a field on its own cells, NaN where the file calls it no data, and the rules that say where.

    Raises SSTCastError if a range, or flags that do not vary by day, leave no value of the first day.
    """
    field = dataset[name]
    space: set[Hashable] = {dim for dim in field.dims if dim in dims[-2:]}
    rules = rules_of(dataset, name, space, notes)
    for rule in rules:
        is_constant = not rule.name or {*dataset[rule.name].squeeze().dims} <= space
        if is_constant and layouts.setdefault(rule.described, rule) is rule:  # of the first of many similar files
            check_some_left(rule, field, dataset, space, path)
    if rules and not field.chunks:
        field = _blocks(field, dims, field)
    for rule in rules:
        field = rule(field, dataset)
    return field, rules


def _with_leads(field: xr.DataArray, days_name: str, path: Path) -> xr.DataArray:
    """Return a forecast of which the file has only valid days, with its leads on their dimension."""
    time, init = field[days_name], field["init_time"]
    ends = {"bounds": name} if (name := bounds_name(time)) else {}
    days, first = time.values, init.values
    if days.dtype != first.dtype:  # of different calendars
        days, first = dates(time, path).values, dates(init, path).values
    return field.assign_coords(lead=(time.dims, np.asarray(days - first, "timedelta64[ns]"), ends))


def _on_axes(
    field: xr.DataArray, axes: Mapping[str, str], dims: tuple[str, ...], path: Path, notes: list[str]
) -> xr.DataArray:
    """Return a field on `dims` alone, each longitude once, and with `misplaced` if cells are. Adds to `notes`."""
    is_regular, misplaced = "lat" in dims, np.zeros((1, 1), bool)
    if is_regular:
        _check_nominal(field, axes, path)
        misplaced, count = _misplaced(field), _distinct_columns(field["lon"])
        if repeats := field["lon"].size - count:
            columns = "its last column, which repeats the first one"
            notes.append(
                f"without {columns if repeats == 1 else f'its last {repeats} columns, which repeat others'}"
            )
            field, misplaced = field.isel(lon=slice(0, count)), misplaced[:, :count]
    field = field.expand_dims([axis for axis in dims if axis in field.coords and not field[axis].ndim])
    field = field.swap_dims({field["lead"].dims[0]: "lead"} if "lead" in dims else {})
    field = field.squeeze([dim for dim in field.dims if dim not in dims])
    field = field.drop_vars(set(field.coords) - {*dims} | {*SPACE}, errors="ignore")
    field = field.expand_dims([dim for dim in dims if dim == "member" and dim not in field.dims]).transpose(*dims)
    if not is_regular:
        return field
    field = field.assign_coords({axis: degrees(field[axis], path, axes[axis]) for axis in ("lat", "lon")})
    return field.assign_coords({MISPLACED: (("lat", "lon"), misplaced)}) if misplaced.any() else field


def _distinct_columns(lon: xr.DataArray) -> int:
    """Return the number of columns up to those at the end that repeat the meridians of earlier ones."""
    if lon.ndim != 1 or lon.size < 3 or not np.isfinite(lon.values).all():
        return lon.size
    near = REPEATED * step(lon.values)
    east = (lon.values - lon.values[0] + near) % 360
    order = np.argsort(east, kind="stable")
    meridian = np.empty(lon.size, int)
    meridian[order] = np.cumsum(np.diff(east[order], prepend=east[order[0]]) > 2 * near)
    first = np.unique(meridian, return_index=True)[1]
    return len(first) if first.max() == len(first) - 1 else lon.size


def _check_nominal(field: xr.DataArray, axes: Mapping[str, str], path: Path) -> None:
    """Raise SSTCastError if axes are called nominal, and the file lacks the true positions of the cells."""
    for axis, kind in (("lat", "latitude"), ("lon", "longitude")):
        text = str(field[axis].attrs.get("long_name", ""))
        true = [name for name in field.cf.coordinates.get(kind, []) if field[name].ndim == 2]
        if "nominal" in text.lower() and not true:
            raise SSTCastError(
                f"{path}: its {axes[axis]} is the {text!r}, and cells may be elsewhere; add geolon and geolat "
                "from ocean_static.nc, or change the long_name if the axes are true"
            )


def _misplaced(field: xr.DataArray) -> NDArray[np.bool_]:
    """Return which cells `[lat, lon]` lie over a tenth of a cell from where the nominal axes have them.

    Their true positions are the coordinates with two dimensions. A cell without true position is not misplaced.
    """
    misplaced = np.zeros((field["lat"].size, field["lon"].size), bool)
    for axis, kind in (("lat", "latitude"), ("lon", "longitude")):
        nominal = field[axis].variable
        for true in (field[name].variable for name in field.cf.coordinates.get(kind, [])):
            if nominal.size > 1 and set(true.dims) == {"lat", "lon"}:
                distance = abs((nominal - true + 180) % 360 - 180).where(abs(true) <= LARGEST_DEGREES)
                is_far = distance > CENTRE_TOLERANCE * step(nominal.values)
                misplaced |= is_far.transpose("lat", "lon").values
    return misplaced


def _other_bounds(lat: xr.DataArray, dataset: xr.Dataset) -> NDArray[np.float64] | None:
    """Return the bounds `[row, 2]` of the rows, south first, if they do not lie halfway between the centres."""
    centres, stated = lat.values, bounds_of(lat, dataset)
    if stated is None or centres.size < 2 or stated.shape != (centres.size, 2):
        return None
    halfway, edges = (
        np.sort(ends.astype(float), axis=1).clip(-90, 90) for ends in (bounds(centres), stated.values)
    )
    return edges if np.abs(halfway - edges).max() > CENTRE_TOLERANCE * step(centres) else None


def _guessed_units(field: xr.DataArray, path: Path) -> str:
    """Infer K or degC from the values of the first day. Raises SSTCastError if both are possible."""
    values = field[(0,) * (field.ndim - 2)].values
    ranges = {"degC": np.array(PLAUSIBLE), "K": np.array(PLAUSIBLE) + 273.15}
    values = values[np.isfinite(values) & (values != 0)]  # 0 may mark land
    candidates = [unit for unit, (low, high) in ranges.items() if ((values >= low) & (values <= high)).any()]
    if len(candidates) > 1:
        raise SSTCastError(f"{path}: {field.name} has no units, and values fit degC and kelvin; set data.units")
    return candidates[0] if candidates else "degC"


def dates(time: xr.DataArray, path: Path) -> pd.DatetimeIndex:
    """Return the dates and hours of an axis to the second, in the time zone of its units.

    Raises SSTCastError for calendars other than standard and noleap, and dates that nanoseconds cannot tell.
    """
    values = np.atleast_1d(time.values)
    if not values.size:
        raise SSTCastError(f"{path}: {time.name} is empty; download the file again")
    known_calendar = is_leapless(time) or getattr(values.flat[0], "calendar", None) in STANDARD_CALENDARS
    if known_calendar and all(day.year in KNOWN_YEARS for day in values):
        values = np.array([day.isoformat() for day in values], "datetime64[ns]")
    if values.dtype.kind in "iuUO" and all(re.fullmatch(r"\d{4}-?\d\d-?\d\d", str(day)) for day in values):
        values = pd.to_datetime([str(day) for day in values], format="ISO8601", errors="coerce").values
    if values.dtype.kind != "M":
        if calendar := getattr(values.flat[0], "calendar", ""):
            raise SSTCastError(
                f"{path}: {time.name} uses the calendar {calendar!r} from {values[0]} to {values[-1]}; sstcast "
                f"needs the standard calendar from {KNOWN_YEARS[0]} to {KNOWN_YEARS[-1]}: convert it, for "
                "instance with xarray's convert_calendar"
            )
        is_number = values.dtype.kind in "iuf" and DATENUMS[0] < float(values.flat[0]) < DATENUMS[1]
        raise SSTCastError(
            f"{path}: {time.name} does not hold dates ({values.flat[0]}); set its units to 'days since ...'"
            f"{f'; {DATENUM}' if is_number else ''}"
        )
    if np.isnat(values).any():
        raise SSTCastError(f"{path}: {time.name} has missing dates; download the file again")
    known = pd.DatetimeIndex(values).as_unit("ns")
    return (known + ahead if (ahead := zone(time)) else known).round("s")


def zone(time: xr.DataArray) -> np.timedelta64:
    """Return how far the time zone of the units of times is ahead of UTC, in which they are decoded."""
    units = str(time.encoding.get("units", ""))
    if (zoned := ZONED.fullmatch(units)) is None:
        return np.timedelta64(0, "s")
    calendar = str(time.encoding.get("calendar", "standard"))
    first, in_utc = (
        xr.decode_cf(xr.Dataset({"time": ("time", [0.0], {"units": text, "calendar": calendar})}))["time"].values[
            0
        ]
        for text in (zoned[1], units)
    )
    return np.timedelta64(first - in_utc).astype("timedelta64[s]")


def steps_a_day(times: NDArray[Any]) -> int:
    """Return how many values a day an axis of dates or leads has by its median step, rounded, but at least 1."""
    if times.size < 2 or times.dtype.kind not in "mMO" or isinstance(times.flat[0], str):
        return 1
    steps = np.asarray(np.diff(np.unique(times)), "timedelta64[us]").astype(float) / 86400e6
    return max(1, round(1 / float(np.median(steps)))) if steps.size else 1


def with_decoded_days(dataset: xr.Dataset) -> xr.Dataset:
    """Return a dataset in which times, and their bounds, that CDO wrote as the digits of dates are dates."""
    decoded = {}
    for name, time in dataset.variables.items():
        calendar = str(time.attrs.get("calendar", "")).lower()
        if not ABSOLUTE.fullmatch(str(time.attrs.get("units", ""))) or calendar not in STANDARD_CALENDARS:
            continue
        for part in {name, bounds_name(time)} & dataset.variables.keys():
            values = dataset.variables[part].values.astype(float)
            seconds = np.round((values - np.floor(values)) * 86400) * np.timedelta64(1, "s")
            days = pd.to_datetime(
                [f"{day:.0f}" for day in np.floor(values).ravel()], format="%Y%m%d", errors="coerce"
            )
            moments = days.values.reshape(values.shape) + seconds.astype("timedelta64[ns]")
            attributes = {k: text for k, text in dataset[part].attrs.items() if k not in ("units", "calendar")}
            decoded[part] = (dataset.variables[part].dims, moments, attributes)
    if not decoded:
        return dataset
    made = dataset.assign(decoded).set_coords([name for name in decoded if name in dataset.coords])
    made.set_close(dataset.close)
    return made


def is_leapless(time: xr.DataArray) -> bool:
    """Return whether dates follow a calendar without leap days."""
    first = next(iter(np.atleast_1d(time.values).flat), None)
    return getattr(first, "calendar", "") in ("noleap", "365_day")


def degrees(axis: xr.DataArray, path: Path, name: str) -> NDArray[np.float64]:
    """Return the values of `lat` or `lon`, which a file calls `name`.

    Raises SSTCastError unless they are evenly spaced degrees.
    """
    units, kind = str(axis.attrs.get("units", "")), str(axis.attrs.get("standard_name", ""))
    if kind.startswith(("grid_", "projection_")) or (units and not re.match("deg|°", units.strip(), re.I)):
        raise SSTCastError(f"{path}: its {name} is not a {axis.name} in degrees ({kind or units}); {REGRID}")
    values = axis.values.astype(float)
    check_sign(axis.rename(name), values, path)
    limit = LARGEST_LATITUDE if axis.name == "lat" else LARGEST_DEGREES
    if not (np.isfinite(values).all() and (abs(values) <= limit).all()):
        raise SSTCastError(f"{path}: its {name}, {values[0]:g}..{values[-1]:g}, is not in degrees; {REGRID}")
    if values.size < 2:
        raise SSTCastError(
            f"{path}: its {name} has one value; sstcast needs at least 2 rows and 2 columns of cells: add "
            "neighbouring cells"
        )
    steps, longitudes = np.diff(values), np.sort(values % 360)
    gaps = np.abs(steps) if axis.name == "lat" else np.diff(longitudes, append=longitudes[0] + 360)
    usual_gap = np.median(np.abs(steps))
    is_turning = axis.name == "lat" and (steps > 0).any() and (steps < 0).any()
    if is_turning or gaps.min() <= (0 if axis.name == "lat" else REPEATED * usual_gap):
        raise SSTCastError(
            f"{path}: its {name} is not an axis ({values.size} values, which must all differ); correct it"
        )
    if axis.name == "lat":  # rows may become wider, as on a Mercator grid, but none may be missing
        sides = np.pad(gaps, 1)
        usual_gap = np.maximum(sides[2:], sides[:-2]) if gaps.size > 1 else gaps
    # Longitudes may have one gap, outside the region.
    if (wide_gaps := np.flatnonzero(gaps > 1.5 * usual_gap)).size > (axis.name == "lon"):
        location = f" after {(values if axis.name == 'lat' else longitudes)[wide_gaps[0]]:g}"
        raise SSTCastError(
            f"{path}: its {name} lacks values{location} at a spacing of {np.median(usual_gap):g}; correct the file"
        )
    return values


def _blocks(field: xr.DataArray, dims: tuple[str, ...], stored: xr.DataArray) -> xr.DataArray:
    """Chunk a field on `dims` for dask in blocks of whole days that consist of whole chunks of the file.

    `stored` is the field as the file holds it.
    """
    along = "time" if "time" in dims else "init_time"
    if field.chunks:  # of forecasts, a crop reads few
        return field.chunk(dict.fromkeys(field.dims[-2:], -1)) if along == "init_time" else field
    count = max(1, VALUES_AT_ONCE * field.sizes.get(along, 1) // max(1, field.size))
    sizes = dict(zip(stored.dims, stored.encoding.get("chunksizes") or (), strict=False))
    a_day = steps_a_day(field[along].values) if along == "time" and along in field.coords else 1
    count = max(1, count // a_day) * a_day
    if step := sizes.get(along):
        count = max(1, count // step) * step
    return field.chunk({dim: count if dim == along else -1 for dim in field.dims})
