"""Finds the variable of SST, or of another field, in a dataset, and the coordinate of each of its axes.

cf_xarray recognises time, latitude and longitude. `AXIS_NAMES` lists names for the other axes from CF, climpred,
cfgrib and OceanBench.
"""

import itertools
import re
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import cf_xarray  # noqa: F401  (gives datasets their `.cf`)
import xarray as xr

from sstcast.errors import SSTCastError
from sstcast.reading.levels import SURFACE, VERTICAL, is_vertical, surface
from sstcast.reading.positions import SPACE, located, straightened

OBSERVED = ("time", "lat", "lon")
FORECAST = ("member", "init_time", "lead", "lat", "lon")
SURFACE_NAMES = (
    "sea_surface_temperature",
    "sea_surface_foundation_temperature",
    "sea_surface_subskin_temperature",
    "sea_surface_skin_temperature",
    "surface_temperature",
)
STANDARD_NAMES = (
    *SURFACE_NAMES,
    "sea_water_potential_temperature",
    "sea_water_conservative_temperature",
    "sea_water_temperature",
)
COMMON_NAMES = (
    *("sst", "analysed_sst", "sea_surface_temperature", "sea_surface_foundation_temperature", "tos", "thetao"),
    *("votemper", "tosst", "to", "water_temp", "water_temperature", "sea_water_temperature"),
    *("temperature", "temp"),
)
# Words in the long name of a field other than SST, and its standard names.
OTHER = re.compile(r"anomal|\bice\b|\berror\b|deviation", re.IGNORECASE)
OTHER_STANDARD_NAME = re.compile(r".*_at_sea_floor|air_temperature|sea_ice_.*")
# Names and long names that say SST, and those that say another temperature, with spaces for underscores.
SAYS_SST = re.compile(
    r"\bsst|sst\b|\b(tos|tsurf|wtmp)\b|\bsurf\w* (\w+ )?temp|\btemp\w*( \w+)* surf", re.IGNORECASE
)
SAYS_OTHER = re.compile(r"\b(air|land|soil|bottom|bot|floor)\b", re.IGNORECASE)
REFORECAST = "hdate"  # the initial time of a reforecast, beside that of the forecast with the same model version
# The CF standard name of each axis, then its other names.
AXIS_NAMES = {
    "init_time": (
        "forecast_reference_time",
        REFORECAST,
        "init_time",
        "init",
        "first_day_datetime",
        "reference_time",
    ),
    "lead": (
        *("forecast_period", "lead", "lead_time", "leadtime", "lead_day_index", "step", "prediction_timedelta"),
        "elapsed_forecast_duration",
    ),
    "member": ("realization", "member", "number", "ensemble", "ensemble_member"),
}
CF_AXES = {"time": ("time", "T"), "lat": ("latitude", "Y"), "lon": ("longitude", "X")}  # keys of cf_xarray
COORDINATE_NAME = re.compile("|".join(name for names in (*AXIS_NAMES.values(), VERTICAL) for name in names), re.I)
POSITION_NAME = re.compile(r"(nav_|geo|x)?(lat|lon)", re.I)  # how the name begins
POSITION_UNITS = re.compile(r"|.*(°|deg|rad).*", re.I)  # "latent_heat" has others
# Names of dimensions of stations, which are no field.
STATIONS = re.compile(r".*(station|mooring|buoy|platform).*|n?sites?|obs", re.I)
NO_FIELD = "holds stations, no field: give them to `sstcast evaluate --observations`"
REGRID = "set data.grid to a spacing in degrees, to which days are brought when they are prepared"

ONE_START = "of a file with one start, add it: ds.expand_dims(init_time=[...])"
OBSERVATIONS = (
    f"looks like observations, because it has no initial time and lead; forecasts need both; {ONE_START}"
)

Layout = tuple[str, dict[str, str]]  # the variable's name, and the coordinate or dimension of each axis


class Named(NamedTuple):
    """A dataset in which the axes of a field are called as everywhere in sstcast.

    Attributes:
        dataset: the dataset. Of the axes, only those of the field's `dims` are renamed. Positions that share their
            dimensions keep their names, and these dimensions are `row` and `column`.
        field: the name of the field.
        axes: the name in the file of the coordinate, or of the dimension without one, of each axis.
        dims: the dimensions of the field in order. Cells without rows have no `column` yet.
    """

    dataset: xr.Dataset
    field: str
    axes: dict[str, str]
    dims: tuple[str, ...]


class NoForecast(SSTCastError):
    """A file that should hold forecasts holds observations."""


def identified(
    dataset: xr.Dataset,
    path: Path,
    dims: tuple[str, ...] = OBSERVED,
    variable: str | None = None,
    layouts: dict[Any, Any] | None = None,
    is_sst: bool = True,
    any_grid: bool = False,
    true_positions: bool = False,
) -> Named:
    """Find a field in a dataset, and give its axes the names of sstcast.

    The arguments are those of `fields.find_field`. Raises SSTCastError like it.
    """
    layouts = {} if layouts is None else layouts
    dataset = _with_other_dimensions(dataset)
    coordinates = [name for name, values in dataset.data_vars.items() if _is_coordinate(str(name), values)]
    if not is_sst:  # a field may be the depth of the sea
        coordinates = [
            name for name in coordinates if name != variable and (name != "depth" or dataset[name].ndim < 2)
        ]
    dataset = straightened(located(dataset.set_coords(coordinates), path), path)
    header = tuple((name, v.shape, v.dims, str(v.dtype), repr(v.attrs)) for name, v in dataset.variables.items())
    if header not in layouts:
        cf_dataset = guessed(dataset)
        name = choose(cf_dataset, path, dims, variable, is_sst, any_grid)
        layouts[header] = name, _axes(cf_dataset[name], true_positions)
    name, axes = layouts[header]
    return _renamed(dataset, name, axes, dims)


def guessed(dataset: xr.Dataset) -> xr.Dataset:
    """Give the coordinates the attributes that cf_xarray guesses from their names.

    Each is looked at alone where others do not matter: cf_xarray looks through all of them for each of its names.
    Of those without an index, it knows only what the dataset's attribute `coordinates` lists, if it has one.
    """
    if any(values.attrs.get("cf_role") == "grid_topology" for values in dataset.variables.values()):
        return dataset.cf.guess_coord_axis()
    copy, listed = dataset.copy(), (dataset.encoding | dataset.attrs).get("coordinates")
    for name, values in dataset.coords.variables.items():
        known = {} if name in dataset.xindexes else {"coordinates": listed}
        alone = xr.Dataset(coords=xr.Coordinates({name: values}, indexes={}), attrs=known)
        copy[name].attrs = alone.cf.guess_coord_axis()[name].attrs
    return copy


def _is_coordinate(name: str, values: xr.DataArray) -> bool:
    """Return whether a variable is an axis or a position by its name, and positions by their units too."""
    if COORDINATE_NAME.fullmatch(name):
        return True
    is_position = POSITION_UNITS.fullmatch(str(values.attrs.get("units", "")).strip())
    return bool(POSITION_NAME.match(name) and is_position)


def _with_other_dimensions(dataset: xr.Dataset) -> xr.Dataset:
    """Rename dimensions called like a variable that has others too, as FVCOM's `siglev(siglev, node)`."""
    present = {*dataset.variables, *dataset.dims}
    shared = [name for name, values in dataset.variables.items() if values.ndim > 1 and name in values.dims]
    return dataset.rename_dims({name: _free(name, present) for name in shared}) if shared else dataset


def _free(name: Hashable, present: set[Hashable]) -> str:
    """Return a name that is not `present`."""
    return next(free for n in itertools.count(1) if (free := f"{name}_{n}") not in present)


def _renamed(dataset: xr.Dataset, field: str, axes: dict[str, str], dims: tuple[str, ...]) -> Named:
    """Name the axes `dims` of a field. What has such a name already is moved aside first."""
    space = dataset[axes["lat"]].dims
    is_apart = len(space) > 0 and space == dataset[axes["lon"]].dims
    dims = (*dims[:-2], *SPACE) if is_apart else dims
    names: dict[Hashable, Hashable] = dict(zip(space, SPACE, strict=False)) if is_apart else {}
    names |= {axes[axis]: axis for axis in dims if axis in axes}
    along = {dim: name for name in names if name in dataset.coords for dim in dataset[name].dims}
    dataset = dataset.swap_dims({dim: name for dim, name in along.items() if dim not in names})
    present = {*dataset.variables, *dataset.dims}
    for name in (present & {*dims}) - names.keys():
        dataset = dataset.rename({name: _free(name, present)})
    return Named(dataset.rename(names), field, axes, dims)


def choose(
    dataset: xr.Dataset,
    path: Path,
    dims: tuple[str, ...],
    variable: str | None = None,
    is_sst: bool = True,
    any_grid: bool = False,
) -> str:
    """Return the name of the SST variable in a dataset whose coordinates cf_xarray has identified.

    The order of preference is `variable`, a variable with a standard name of SST, one with a common name, and the
    only one with the axes `dims`. Beside one of the first two whose level at the surface is unknown, another is
    read only if it says SST. If it need not be SST, names do not count. On `any_grid`, positions may share their
    dimensions. Raises SSTCastError if no variable or several qualify.
    """
    fields = {str(name): field for name, field in dataset.data_vars.items()}
    listed = ", ".join(f"{name}({', '.join(map(str, f.dims))})" for name, f in fields.items()) or "no variables"
    stations = _dims_of_stations(dataset)
    if variable is not None:
        if variable not in fields:
            raise SSTCastError(f"{path}: no variable {variable!r} (data.variable); the file has {listed}")
        if fault := _fault(fields[variable], dims, any_grid, stations) or _fault_of_levels(fields[variable], dims):
            raise _refusal(path, variable, fault)
        return variable
    faults: dict[str, str] = {}
    deep: list[str] = []  # temperatures without a known level at the surface
    for name, field in fields.items():
        other_quantity = reason_not_sst(field.attrs) if is_sst else ""
        hint = f"is something else: its {other_quantity}; set data.variable: {name} if that is wrong"
        faults[name] = _fault(field, dims, any_grid, stations) or (hint if other_quantity else "")
        if not faults[name] and (fault := _fault_of_levels(field, dims)):
            faults[name] = fault
            deep += [name] if is_sst and _is_temperature(name, field) else []
    usable = [name for name, fault in faults.items() if not fault and (not deep or _says_sst(name, fields[name]))]
    if deep and not usable:
        raise _refusal(path, deep[0], faults[deep[0]])
    by_standard = [name for name in usable if fields[name].attrs.get("standard_name") in STANDARD_NAMES]
    for group in (by_standard, usable) if is_sst else (usable,):
        common = [
            candidate for common_name in COMMON_NAMES for candidate in group if candidate.lower() == common_name
        ]
        if (common and is_sst) or len(group) == 1:
            return (common or group)[0]
    candidates = sorted((n for n in fields if fields[n].ndim >= 2), key=lambda n: n.lower() not in COMMON_NAMES)
    if candidates and not usable:
        raise _refusal(path, candidates[0], faults[candidates[0]])
    series = [name for name, field in fields.items() if field.ndim == 1 and name.lower() in COMMON_NAMES]
    if is_sst and series:
        raise SSTCastError(f"{path}: {series[0]} is a series, which `sstcast heatwaves` alone takes; give a grid")
    quantity = "sea surface temperature" if is_sst else "meant"
    raise SSTCastError(f"{path}: which variable is {quantity}? The file has {listed}; set data.variable")


def _refusal(path: Path, name: str, fault: str) -> SSTCastError:
    return (NoForecast if fault == OBSERVATIONS else SSTCastError)(f"{path}: {name} {fault}")


def reason_not_sst(attributes: Mapping[str, Any]) -> str:
    """Return the attribute that marks a variable as not SST but, for instance, its error, or "" if none does."""
    names = {key: str(attributes.get(key, "")) for key in ("long_name", "standard_name")}
    is_other = OTHER_STANDARD_NAME.fullmatch(names["standard_name"])
    told = (
        f"{key} is {name!r}"
        for key, name in names.items()
        if OTHER.search(name) or (is_other and key != "long_name")
    )
    return next(told, "")


def _is_temperature(name: str, field: xr.DataArray) -> bool:
    """Return whether a variable has a common name or a standard name of SST."""
    return name.lower() in COMMON_NAMES or field.attrs.get("standard_name") in STANDARD_NAMES


def _says_sst(name: str, field: xr.DataArray) -> bool:
    """Return whether the standard name, name or long name of a variable is of SST, not of any temperature."""
    names = f"{name}, {field.attrs.get('long_name', '')}".replace("_", " ")
    is_surface = SAYS_SST.search(names) or field.attrs.get("standard_name") in SURFACE_NAMES
    return bool(is_surface and not SAYS_OTHER.search(names))


def names_sst(name: str, attributes: Mapping[str, Any]) -> bool:
    """Return whether a variable is called SST, by its standard name or its own, and not marked as another."""
    called = attributes.get("standard_name") in STANDARD_NAMES or name.lower() in COMMON_NAMES
    return called and not reason_not_sst(attributes)


def _axes(field: xr.DataArray, true_positions: bool = False) -> dict[str, str]:
    """Map each axis that can be identified to its coordinate, or to a dimension without coordinate.

    `true_positions`, which share their dimensions, go before nominal axes where wanted.
    """
    coords = {str(name): field[name] for name in (*field.dims, *field.coords)}
    axes: dict[str, str] = {}
    for axis, names in AXIS_NAMES.items():
        for name, coord in sorted(coords.items(), key=lambda item: item[0].lower() != REFORECAST):
            is_lead = axis == "lead" and name.lower() == "time" and coord.dtype.kind == "m"  # as of GraphCast
            is_named = name.lower() in names or coord.attrs.get("standard_name") == names[0]
            if coord.ndim < 2 and (is_named or is_lead):
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
                    key=lambda name: (
                        coords[name].ndim != (2 if is_position else 1),
                        name not in field.dims,
                        name == axes.get("init_time"),
                    ),
                )
                break
    if "lead" in axes and "time" in axes:
        axes.setdefault("init_time", axes["time"])
    others = {dim for name in axes.values() for dim in coords[name].dims}
    vertical = [name for name, axis in coords.items() if axis.ndim == 1 and is_vertical(name, axis)]
    vertical = [name for name in vertical if coords[name].dims[0] not in others]
    if vertical:
        axes["depth"] = min(vertical, key=lambda name: name not in field.coords or surface(coords[name]) is None)
    return axes


def _dims_of_stations(dataset: xr.Dataset) -> set[Hashable]:
    """Return the dimensions of stations by their name, or by the variable that names them (CF, section 9.5)."""
    named = [name for name in dataset.variables.values() if name.attrs.get("cf_role") == "timeseries_id"]
    return {dim for dim in dataset.dims if STATIONS.fullmatch(str(dim))} | {
        dim for name in named for dim in name.dims[:1]
    }


def _fault(field: xr.DataArray, dims: tuple[str, ...], any_grid: bool, stations: set[Hashable]) -> str:
    """Return why `field` cannot be SST on `dims`, as the end of a sentence, or "" if it can."""
    if field.dtype.kind not in "iuf":
        return "does not hold numbers"
    axes = _axes(field)
    if dims == FORECAST and (years := [name for name in field.dims if "year" in str(name).lower()]):
        return (
            f"has the years of initial times on a dimension, {years[0]}; join it and the day of the year: "
            f"ds.stack(init_time=({years[0]!r}, ...), create_index=False).assign_coords(init_time=DATES)"
        )
    if "lat" in axes and stations & {*field[axes["lat"]].dims}:
        return NO_FIELD
    for axis in ("lat", "lon"):
        if not any_grid and axis in axes and field[axes[axis]].ndim == 2:
            return f"lies on a curvilinear grid ({axes[axis]} has two dimensions); {REGRID}"
    if (
        not any_grid
        and {"lat", "lon"} <= set(axes)
        and field[axes["lat"]].ndim
        and field[axes["lat"]].dims == field[axes["lon"]].dims
    ):
        (dim,) = field[axes["lat"]].dims
        return f"lies on points, as {axes['lat']} and {axes['lon']} share the dimension {dim}; {REGRID}"
    if "init_time" in axes:
        axes.setdefault("time", axes["init_time"])
    if missing_axes := [axis for axis in OBSERVED if axis not in axes]:
        if dims == FORECAST and missing_axes == ["time"]:
            return f"has no initial time; {ONE_START}"
        return (
            f"has dimensions {', '.join(map(str, field.dims)) or 'none'}; none is recognised as "
            f"{' or '.join(missing_axes)}: add coordinates with CF attributes"
        )
    if dims == FORECAST and (fault := _is_no_forecast(field, axes)):
        return fault
    for one, other in itertools.combinations([axis for axis in dims if axis in axes], 2):
        first, second = field[axes[one]].dims, field[axes[other]].dims
        if (shared := {*first} & {*second}) and (first != second or one != "lat"):
            return f"has {axes[one]} and {axes[other]} on one dimension, {shared.pop()}; unstack them"
    lead_dims = field[axes["lead"]].dims if "lead" in axes else ()
    is_observed = (
        lead_dims in ((), field[axes["time"]].dims) and axes["time"].lower() not in AXIS_NAMES["init_time"]
    )
    if dims == OBSERVED and not is_observed:
        return "looks like forecasts; score them with `sstcast score`, or give observations"
    return ""


def _fault_of_levels(field: xr.DataArray, dims: tuple[str, ...]) -> str:
    """Return which levels, or other dimensions, a field has beside `dims`, as `_fault` does, or "" if none.

    A level that is known to be at the surface is no fault.
    """
    axes = _axes(field)
    if "init_time" in axes:
        axes.setdefault("time", axes["init_time"])
    used_axes = (*dims, "depth", "lead" if "lead" in axes else "time")
    used_dims = {dim for axis in used_axes if axis in axes for dim in field[axes[axis]].dims}
    if extra_dims := [
        f"{dim} of {size}" for dim, size in field.sizes.items() if dim not in used_dims and size != 1
    ]:
        return f"has an extra dimension {', '.join(extra_dims)}; select one index and save it to a file"
    depth = axes.get("depth")
    if depth and field[depth].size > 1 and (depth not in field.coords or surface(field[depth]) is None):
        (dim,) = field[depth].dims
        levels = f"{field[depth].size} levels on {depth}"
        return f"has {levels}, of which nothing tells the surface; {SURFACE.format(dim=dim)}"
    return ""


def _is_no_forecast(field: xr.DataArray, axes: Mapping[str, str]) -> str:
    """Return a fault with a remedy if a field lacks leads or initial times, else ""."""
    init, lead, time = (axes.get(axis) for axis in ("init_time", "lead", "time"))
    is_analysis = lead in field.coords and not field[lead].ndim and not field[lead].values.astype(float)
    if (init is None and lead is None) or (is_analysis and field[init].ndim):
        return OBSERVATIONS
    coordinate_names = ", ".join(map(str, field.coords))
    for axis, name in (("init_time", init), ("lead", lead)):
        days_instead = axis == "lead" and time != init and field[init].size == 1 and field[time].ndim
        if name not in field.coords and not days_instead:
            axis_name = axis.replace("init_time", "initial time")
            return (
                f"has no {axis_name} among {coordinate_names}; set standard_name {AXIS_NAMES[axis][0]}, or rename "
                f"it to {axis}{f'; {ONE_START}' if axis == 'init_time' else ''}"
            )
    return ""
