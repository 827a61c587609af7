"""Finds SST, or another field, in a dataset: the variable, its axes, units and calendar.

The same rules apply to observations, forecasts and downloaded files. cf_xarray recognises time, latitude and
longitude. `AXIS_NAMES` lists names for the other axes from CF, climpred, cfgrib and OceanBench.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import cf_xarray  # noqa: F401  (gives datasets their `.cf`)
import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from sstcast.errors import SSTCastError
from sstcast.geo import NORTH, SOUTH, bounds, step
from sstcast.reading.flags import flags_beside, is_flag
from sstcast.reading.positions import CENTRE_TOLERANCE, LARGEST_DEGREES, is_apart, located, straightened
from sstcast.reading.units import celsius

PLAUSIBLE = (-5.0, 50.0)  # degC, the range of SST in observations and forecasts
OBSERVED = ("time", "lat", "lon")
FORECAST = ("member", "init_time", "lead", "lat", "lon")
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
# Words in the long name of a field other than SST.
OTHER = re.compile(r"anomal|\bice\b|\berror\b|deviation", re.IGNORECASE)
# The CF standard name of each axis, then its other names.
REFORECAST = "hdate"  # the initial time of a reforecast, beside that of the forecast with the same model version
AXIS_NAMES = {
    "init_time": (
        "forecast_reference_time",
        REFORECAST,
        "init_time",
        "init",
        "first_day_datetime",
        "reference_time",
    ),
    "lead": ("forecast_period", "lead", "lead_time", "lead_day_index", "step", "prediction_timedelta"),
    "member": ("realization", "member", "number", "ensemble"),
    "depth": ("depth", "lev", "level", "deptht", "olevel", "zlev"),
}
CF_AXES = {"time": ("time", "T"), "lat": ("latitude", "Y"), "lon": ("longitude", "X")}  # keys of cf_xarray
COORDINATE_NAME = re.compile(
    rf"(nav_|geo|x)?(lat|lon)|({'|'.join(name for names in AXIS_NAMES.values() for name in names)})$", re.I
)
REPEATED = 0.1  # of a cell, between the first meridian and one that repeats it
REGRID = "set data.grid to a spacing in degrees, to which days are brought when they are prepared"
VALUES_AT_ONCE = 2**23  # values to read at once, 32 MB in single precision
CONFIG_KEY = re.compile(r"\bdata\.(variable|units|gaps)(:(?= ))?")

DATENUM = "MATLAB's datenum n is n - 719529 'days since 1970-01-01'"
MISPLACED = "misplaced"  # the coordinate that marks cells that are not where the axes have them


class Regrid(Protocol):
    """Brings a field whose positions share their dimensions to a regular grid (see `regridding.Regridder`)."""

    true_positions: bool

    def regular(
        self, dataset: xr.Dataset, values: xr.DataArray, axes: Mapping[str, str], path: Path
    ) -> xr.DataArray: ...


Layout = tuple[str, dict[str, str]]  # the variable's name, and the coordinate or dimension of each axis


@contextmanager
def options_for_keys() -> Iterator[None]:
    """Make error messages name options, such as `--units`, instead of keys, such as `data.units`."""
    try:
        yield
    except SSTCastError as error:
        raise SSTCastError(CONFIG_KEY.sub(r"--\1", str(error))) from error


def find_field(
    dataset: xr.Dataset,
    path: Path,
    dims: tuple[str, ...] = OBSERVED,
    variable: str | None = None,
    units: str | None = None,
    layouts: dict[Any, Any] | None = None,
    is_sst: bool = True,
    regrid: Regrid | None = None,
) -> xr.DataArray:
    """Find SST in a dataset and return it lazily in degC, with dimensions `dims` and ascending latitude.

    Args:
        dataset: an open file or store.
        path: the path for messages.
        dims: `OBSERVED` or `FORECAST`. All axes except latitude keep the file's order, and `time`, `init_time` and
            `lead` keep its values. A missing `member` is added. Of several depths, the shallowest is read.
        variable: the name, if the variable has no standard or common name.
        units: units that override those in the file.
        layouts: a cache of layouts; among many similar files, only the first is searched.
        is_sst: if false, find any field: `variable`, or the only one on these axes. It keeps its units, which may
            be "".
        regrid: brings a field that is on no axes of latitude and longitude to a regular grid (see `regridding`).

    Returns:
        The field, with the choices listed in the attribute `notes`, and the names of the axes in the file in
        `axes`. If the file also has true positions, as an ocean model with nominal axes does, the mask
        `misplaced(lat, lon)` marks the cells that are not there.

    Raises:
        SSTCastError: the variable, an axis or the units are not recognised, the grid is not regular in latitude
            and longitude, or the file holds forecasts instead of observations or vice versa.
    """
    layouts = {} if layouts is None else layouts
    true_positions = regrid is not None and regrid.true_positions
    dataset, (name, axes) = identified(
        dataset, path, dims, variable, layouts, is_sst, regrid is None, true_positions
    )
    field, method = dataset[name], ""
    notes: list[str] = []
    if regrid is not None and is_apart(dataset, axes) and dims == OBSERVED and not is_flag(field):
        for flag_name, keeps in flags_beside(dataset, name, notes):
            field = field.chunk({field.dims[0]: 1}).where(keeps(dataset[flag_name].chunk({field.dims[0]: 1})))
    if (depth := axes.get("depth")) in field.dims and field.sizes[depth] > 1:
        level = int(np.argmin(abs(field[depth].values)))
        notes.append(f"the level at {depth} {float(field[depth][level]):g}")
        field = field.isel({depth: level})
    if regrid is not None and is_apart(dataset, axes):
        if is_sst and (given := units or str(field.attrs.get("units", "")).strip()):
            factor, offset = celsius(given, path, name)
            field = (field * np.float32(factor) + np.float32(offset)).assign_attrs(field.attrs, units="degC")
            units = "degC"
        field = regrid.regular(dataset, field, axes, path)
        method = str(field.attrs.pop("method"))
        notes.append(method)
        axes = axes | {"lat": "lat", "lon": "lon"}
        dataset = xr.Dataset({name: field})
    if "lead" in dims and "lead" not in axes:  # compute leads from the valid days
        time = field[axes["time"]]
        bounds = {key: text for key, text in time.attrs.items() if key == "bounds"}
        days, first = time.values, field[axes["init_time"]].values
        if days.dtype != first.dtype:  # of different calendars
            days, first = dates(time, path).values, dates(field[axes["init_time"]], path).values
        field = field.assign_coords(lead=(axes["time"], np.asarray(days - first, "timedelta64[ns]"), bounds))
        axes = axes | {"lead": "lead"}
    misplaced = _misplaced(field, axes)
    lon = field[axes["lon"]]
    if lon.ndim == 1 and lon.size > 2 and abs(abs(float(lon[-1] - lon[0])) - 360) < REPEATED * step(lon.values):
        notes.append("without its last column, which repeats the first one")
        field, misplaced = field.isel({lon.dims[0]: slice(0, -1)}), misplaced[:, :-1]
    names = {axes[dim]: dim for dim in dims if dim in axes}
    field = field.expand_dims([axis for axis in names if not field[axis].ndim])
    field = field.swap_dims({field[axis].dims[0]: axis for axis in names if axis not in field.dims})
    field = field.squeeze([dim for dim in field.dims if dim not in names])
    field = field.drop_vars(set(field.coords) - set(names)).rename(names)
    if "member" in dims and "member" not in field.dims:
        field = field.expand_dims("member")
    field = field.transpose(*dims).assign_coords({axis: degrees(field[axis], path) for axis in ("lat", "lon")})
    if (ends := _other_bounds(dataset, axes["lat"])) is not None:
        low, high = np.sort(ends, axis=0).T
        if dims == OBSERVED and np.allclose(low[1:], high[:-1]):
            field = field.assign_coords({SOUTH: ("lat", ends[:, 0]), NORTH: ("lat", ends[:, 1])})
        else:
            notes.append("with rows that meet halfway between their centres, unlike its bounds")
    if misplaced.any():
        field = field.assign_coords({MISPLACED: (("lat", "lon"), misplaced)})
    if field.indexes["lat"].is_monotonic_decreasing:
        field = field.isel(lat=slice(None, None, -1))
    units = units or str(field.attrs.get("units", "")).strip()
    if is_sst and not units:
        units = _guessed_units(field, path)
        notes.append(f"in {units}, because the file states no units and its values fit {units}")
    factor, offset = celsius(units, path, name) if is_sst else (1, 0)
    field = _blocks(field, dataset[name], axes).astype("float32")
    if factor != 1:
        field = field * np.float32(factor)
    field = field + np.float32(offset) if offset else field
    if dims == OBSERVED and not is_flag(dataset[name]):
        for flag_name, keeps in flags_beside(dataset, name, notes):
            flags = find_field(dataset, path, OBSERVED, flag_name, "", layouts.setdefault(flag_name, {}), False)
            field = field.where(keeps(flags))
    return field.drop_attrs(deep=False).assign_attrs(units=units, notes=notes, axes=axes, regridded=method)


def identified(
    dataset: xr.Dataset,
    path: Path,
    dims: tuple[str, ...] = OBSERVED,
    variable: str | None = None,
    layouts: dict[Any, Any] | None = None,
    is_sst: bool = True,
    regular: bool = True,
    true_positions: bool = False,
) -> tuple[xr.Dataset, Layout]:
    """Return a dataset with its positions as coordinates, and the layout of the field in it.

    Unless it must be `regular`, the field may be on no axes of latitude and longitude. If it has `true_positions`
    beside nominal axes, these are preferred where wanted. Raises SSTCastError like `find_field`.
    """
    layouts = {} if layouts is None else layouts
    coordinates = [name for name in dataset.data_vars if COORDINATE_NAME.match(str(name))]
    if not is_sst:  # a field may be the depth of the sea
        coordinates = [
            name for name in coordinates if name != variable and (name != "depth" or dataset[name].ndim < 2)
        ]
    dataset = straightened(located(dataset.set_coords(coordinates)))
    header = tuple((name, v.shape, v.dims, str(v.dtype), repr(v.attrs)) for name, v in dataset.variables.items())
    if header not in layouts:
        cf_dataset = dataset.cf.guess_coord_axis()
        name = choose(cf_dataset, path, dims, variable, is_sst, regular)
        layouts[header] = name, _axes(cf_dataset[name], true_positions)
    return dataset, layouts[header]


def choose(
    dataset: xr.Dataset,
    path: Path,
    dims: tuple[str, ...],
    variable: str | None = None,
    is_sst: bool = True,
    regular: bool = True,
) -> str:
    """Return the name of the SST variable in a dataset whose coordinates cf_xarray has identified.

    The order of preference is `variable`, a variable with a standard name of SST, one with a common name, and the
    only one with the axes `dims`. If it need not be SST, names do not count. Unless it must be `regular`,
    positions may share their dimensions. Raises SSTCastError if no variable or several qualify.
    """
    fields = {str(name): field for name, field in dataset.data_vars.items()}
    listed = ", ".join(f"{name}({', '.join(map(str, f.dims))})" for name, f in fields.items()) or "no variables"
    if variable is not None:
        if variable not in fields:
            raise SSTCastError(f"{path}: no variable {variable!r} (data.variable); the file has {listed}")
        if fault := _fault(fields[variable], dims, regular):
            raise SSTCastError(f"{path}: {variable} {fault}")
        return variable
    faults: dict[str, str] = {}
    for name, field in fields.items():
        other_quantity = reason_not_sst(field.attrs) if is_sst else ""
        hint = f"is something else: its {other_quantity}; set data.variable: {name} if that is wrong"
        faults[name] = _fault(field, dims, regular) or (hint if other_quantity else "")
    usable = [name for name, fault in faults.items() if not fault]
    by_standard = [name for name in usable if fields[name].attrs.get("standard_name") in STANDARD_NAMES]
    for group in (by_standard, usable) if is_sst else (usable,):
        common = [
            candidate for common_name in COMMON_NAMES for candidate in group if candidate.lower() == common_name
        ]
        if (common and is_sst) or len(group) == 1:
            return (common or group)[0]
    candidates = sorted((n for n in fields if fields[n].ndim >= 2), key=lambda n: n.lower() not in COMMON_NAMES)
    if candidates and not usable:
        raise SSTCastError(f"{path}: {candidates[0]} {faults[candidates[0]]}")
    quantity = "sea surface temperature" if is_sst else "meant"
    raise SSTCastError(f"{path}: which variable is {quantity}? The file has {listed}; set data.variable")


def reason_not_sst(attributes: Mapping[str, Any]) -> str:
    """Return the attribute that marks a variable as not SST but, for instance, its error, or "" if none does."""
    names = (f"{key} is {str(attributes.get(key, ''))!r}" for key in ("long_name", "standard_name"))
    return next(filter(OTHER.search, names), "")


def _axes(field: xr.DataArray, true_positions: bool = False) -> dict[str, str]:
    """Map each axis that can be identified to its coordinate, or to a dimension without coordinate.

    `true_positions`, which share their dimensions, go before nominal axes where wanted.
    """
    coords = {str(name): field[name] for name in (*field.dims, *field.coords)}
    axes: dict[str, str] = {}
    for axis, names in AXIS_NAMES.items():
        for name, coord in sorted(coords.items(), key=lambda item: item[0].lower() != REFORECAST):
            if coord.ndim < 2 and (name.lower() in names or coord.attrs.get("standard_name") == names[0]):
                axes.setdefault(axis, name)
    kinds, letters = field.cf.coordinates, field.cf.axes
    for axis, (kind, letter) in CF_AXES.items():
        for names in (kinds.get(kind, []), letters.get(letter, [])):
            candidates = [
                str(name)
                for name in names
                if name != axes.get("lead") and coords[name].ndim <= (1 if axis == "time" else 2)
            ]
            if candidates:
                is_position = axis != "time" and true_positions
                axes[axis] = min(
                    candidates,
                    key=lambda name: (coords[name].ndim != (2 if is_position else 1), name not in field.dims),
                )
                break
    if "lead" in axes and "time" in axes:
        axes.setdefault("init_time", axes["time"])
    return axes


def _misplaced(field: xr.DataArray, axes: Mapping[str, str]) -> NDArray[np.bool_]:
    """Return which cells `[lat, lon]` lie over a tenth of a cell from where the nominal axes have them.

    Their true positions are the coordinates with two dimensions. A cell without true position is not misplaced.
    """
    lat, lon = field[axes["lat"]], field[axes["lon"]]
    misplaced = np.zeros((lat.size, lon.size), bool)
    for axis, other_axis in ((lat, lon), (lon, lat)):
        kind = "latitude" if axis is lat else "longitude"
        for name in field.cf.coordinates.get(kind, []):
            coordinate = field[name]
            if axis.size < 2 or set(coordinate.dims) != {*axis.dims, *other_axis.dims}:
                continue
            nominal_centres, true_centres = xr.broadcast(
                axis.drop_vars(axis.coords), coordinate.drop_vars(coordinate.coords)
            )
            distance = abs((nominal_centres - true_centres + 180) % 360 - 180).where(
                abs(true_centres) <= LARGEST_DEGREES
            )
            misplaced |= (distance > CENTRE_TOLERANCE * step(axis.values)).transpose(*lat.dims, *lon.dims).values
    return misplaced


def _other_bounds(dataset: xr.Dataset, name: str) -> NDArray[np.float64] | None:
    """Return the bounds `[row, 2]` of the rows, south first, if they do not lie halfway between the centres."""
    centres, stated = dataset[name].values, dataset.get(str(dataset[name].attrs.get("bounds")))
    if stated is None or centres.size < 2 or stated.shape != (centres.size, 2):
        return None
    halfway, edges = (
        np.sort(ends.astype(float), axis=1).clip(-90, 90) for ends in (bounds(centres), stated.values)
    )
    return edges if np.abs(halfway - edges).max() > CENTRE_TOLERANCE * step(centres) else None


def _fault(field: xr.DataArray, dims: tuple[str, ...], regular: bool = True) -> str:
    """Return why `field` cannot be SST on `dims`, as the end of a sentence, or "" if it can."""
    if field.dtype.kind not in "iuf":
        return "does not hold numbers"
    axes = _axes(field)
    if dims == FORECAST and (years := [name for name in field.dims if "year" in str(name).lower()]):
        return (
            f"has the years of initial times on a dimension, {years[0]}; join it and the day of the year: "
            f"ds.stack(init_time=({years[0]!r}, ...), create_index=False).assign_coords(init_time=DATES)"
        )
    for axis in ("lat", "lon"):
        if regular and axis in axes and field[axes[axis]].ndim == 2:
            return f"lies on a curvilinear grid ({axes[axis]} has two dimensions); {REGRID}"
    if (
        regular
        and {"lat", "lon"} <= set(axes)
        and field[axes["lat"]].ndim
        and field[axes["lat"]].dims == field[axes["lon"]].dims
    ):
        (dim,) = field[axes["lat"]].dims
        return f"lies on points, as {axes['lat']} and {axes['lon']} share the dimension {dim}; {REGRID}"
    if "init_time" in axes:
        axes.setdefault("time", axes["init_time"])
    if missing_axes := [axis for axis in OBSERVED if axis not in axes]:
        return (
            f"has dimensions {', '.join(map(str, field.dims)) or 'none'}; none is recognised as "
            f"{' or '.join(missing_axes)}: add coordinates with CF attributes"
        )
    if dims == FORECAST and (fault := _is_no_forecast(field, axes)):
        return fault
    lead_dims = field[axes["lead"]].dims if "lead" in axes else ()
    is_observed = (
        lead_dims in ((), field[axes["time"]].dims) and axes["time"].lower() not in AXIS_NAMES["init_time"]
    )
    if dims == OBSERVED and not is_observed:
        return "looks like forecasts; score them with `sstcast score`, or give observations"
    used_axes = (*dims, "depth", "lead" if "lead" in axes else "time")
    used_dims = {dim for axis in used_axes if axis in axes for dim in field[axes[axis]].dims}
    if extra_dims := [
        f"{dim} of {size}" for dim, size in field.sizes.items() if dim not in used_dims and size != 1
    ]:
        return f"has an extra dimension {', '.join(extra_dims)}; select one index and save it to a file"
    return ""


def _is_no_forecast(field: xr.DataArray, axes: Mapping[str, str]) -> str:
    """Return a fault with a remedy if a field lacks leads or initial times, else ""."""
    init, lead, time = (axes.get(axis) for axis in ("init_time", "lead", "time"))
    is_analysis = lead in field.coords and not field[lead].ndim and not field[lead].values.astype(float)
    if (init is None and lead is None) or (is_analysis and field[init].ndim):
        return "looks like observations, because it has no initial time and lead; forecasts need both"
    coordinate_names = ", ".join(map(str, field.coords))
    for axis, name in (("init_time", init), ("lead", lead)):
        days_instead = axis == "lead" and time != init and field[init].size == 1 and field[time].ndim
        if name not in field.coords and not days_instead:
            axis_name = axis.replace("init_time", "initial time")
            return (
                f"has no {axis_name} among {coordinate_names}; set standard_name {AXIS_NAMES[axis][0]}, or rename "
                f"it to {axis}"
            )
    if lead is not None and field[init].dims and field[init].dims == field[lead].dims:
        return f"has {init} and {lead} on one dimension, {field[init].dims[0]}; unstack them"
    return ""


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
    """Return the dates and hours of an axis. Raises SSTCastError for calendars other than standard and noleap."""
    values = np.atleast_1d(time.values)
    if not values.size:
        raise SSTCastError(f"{path}: {time.name} is empty; download the file again")
    if is_leapless(time):
        values = np.array([day.isoformat() for day in values], "datetime64[ns]")
    if values.dtype.kind in "iuUO" and all(re.fullmatch(r"\d{4}-?\d\d-?\d\d", str(day)) for day in values):
        values = pd.to_datetime([str(day) for day in values], format="ISO8601", errors="coerce").values
    if values.dtype.kind != "M":
        if calendar := getattr(values.flat[0], "calendar", ""):
            raise SSTCastError(
                f"{path}: {time.name} uses the calendar {calendar!r} from {values.flat[0]}; sstcast needs the "
                "standard calendar from 1678 on: convert it, for instance with xarray's convert_calendar"
            )
        raise SSTCastError(
            f"{path}: {time.name} does not hold dates ({values.flat[0]}); set its units to 'days since ...'; "
            f"{DATENUM}"
        )
    if np.isnat(values).any():
        raise SSTCastError(f"{path}: {time.name} has missing dates; download the file again")
    return pd.DatetimeIndex(values).as_unit("ns")


def is_leapless(time: xr.DataArray) -> bool:
    """Return whether dates follow a calendar without leap days."""
    first = next(iter(np.atleast_1d(time.values).flat), None)
    return getattr(first, "calendar", "") in ("noleap", "365_day")


def degrees(axis: xr.DataArray, path: Path) -> NDArray[np.float64]:
    """Return the values of `lat` or `lon`. Raises SSTCastError unless they are evenly spaced degrees."""
    units, kind = str(axis.attrs.get("units", "")), str(axis.attrs.get("standard_name", ""))
    if kind.startswith(("grid_", "projection_")) or (units and not re.match("deg|°", units.strip(), re.I)):
        raise SSTCastError(f"{path}: its {axis.name} is not a {axis.name} in degrees ({kind or units}); {REGRID}")
    values = axis.values.astype(float)
    limit = 90.01 if axis.name == "lat" else LARGEST_DEGREES
    if not (np.isfinite(values).all() and (abs(values) <= limit).all()):
        raise SSTCastError(f"{path}: its {axis.name}, {values[0]:g}..{values[-1]:g}, is not in degrees; {REGRID}")
    if values.size < 2:
        raise SSTCastError(
            f"{path}: its {axis.name} has one value; sstcast needs at least 2 rows and 2 columns of cells: add "
            "neighbouring cells"
        )
    steps = np.diff(values)
    if (steps == 0).any() or (axis.name == "lat" and (steps > 0).any() and (steps < 0).any()):
        raise SSTCastError(
            f"{path}: its {axis.name} is not an axis ({values.size} values, which must all differ); correct it"
        )
    longitudes = np.sort(values % 360)
    gaps = np.abs(steps) if axis.name == "lat" else np.diff(longitudes, append=longitudes[0] + 360)
    usual_gap = np.median(np.abs(steps))
    if axis.name == "lat":  # rows may become wider, as on a Mercator grid, but none may be missing
        sides = np.pad(gaps, 1)
        usual_gap = np.maximum(sides[2:], sides[:-2]) if gaps.size > 1 else gaps
    # Longitudes may have one gap, outside the region.
    if (wide_gaps := np.flatnonzero(gaps > 1.5 * usual_gap)).size > (axis.name == "lon"):
        location = f" after {(values if axis.name == 'lat' else longitudes)[wide_gaps[0]]:g}"
        raise SSTCastError(
            f"{path}: its {axis.name} lacks values{location} at a spacing of {np.median(usual_gap):g}; "
            "correct the file"
        )
    return values


def _blocks(field: xr.DataArray, stored: xr.DataArray, axes: Mapping[str, str]) -> xr.DataArray:
    """Chunk `field` for dask in blocks of whole days that consist of whole chunks of the file."""
    if field.chunks:
        return (
            field.chunk(lat=-1, lon=-1) if "init_time" in field.dims else field
        )  # a crop reads few of its chunks
    along = "time" if "time" in field.dims else "init_time"
    count = max(1, VALUES_AT_ONCE * field.sizes[along] // max(1, field.size))
    sizes = dict(zip(stored.dims, stored.encoding.get("chunksizes") or (), strict=False))
    if step := sizes.get(axes[along]):
        count = max(1, count // step) * step
    return field.chunk({dim: count if dim == along else -1 for dim in field.dims})
