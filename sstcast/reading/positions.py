"""Latitudes and longitudes in a dataset: axes, or positions that share their dimensions."""

import re
import warnings
from collections.abc import Hashable
from pathlib import Path

import cf_xarray  # noqa: F401  (gives datasets their `.cf`)
import numpy as np
import xarray as xr

from sstcast.errors import SSTCastError, reading
from sstcast.geo import step
from sstcast.reading.units import metres
from sstcast.types import Array

CENTRE_TOLERANCE = 0.1  # of a cell, between the centre on the axes and the true one
LARGEST_DEGREES = 720.0  # larger values of a position stand for a missing one
SPACE = ("row", "column")  # dimensions of cells on no axes of latitude and longitude
MOST_AT_A_PLACE = 4  # cells with one position, where a seam and a fold meet; more of them have none
LARGEST_LATITUDE = 90.01
MAPPING_REMEDY = "correct its grid mapping, or add latitudes and longitudes of the cells"
OTHER_HALF = re.compile(r"deg(rees?)?([ _]?([Ss]outh|[Ww]est)|_?[SW]|_[sw])")  # units of negative degrees
MAPPINGS = ("grid_mapping_name", "crs_wkt")  # attributes of a variable that describes a projection


def located(dataset: xr.Dataset, path: Path) -> xr.Dataset:
    """Add positions with two dimensions to a dataset on a projection or a rotated pole that has none.

    They are computed from its grid mapping (CF conventions, appendix F). Raises SSTCastError if that is broken, or
    its axes are in other units than m and km.
    """
    with reading(path, MAPPING_REMEDY), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # serious faults raise errors
        return _located(dataset, path)


def _located(dataset: xr.Dataset, path: Path) -> xr.Dataset:
    mappings = [name for name, variable in dataset.variables.items() if variable.attrs.keys() & {*MAPPINGS}]
    axes = {
        dataset[name].attrs.get("standard_name", ""): str(name)
        for name in dataset.coords
        if dataset[name].ndim == 1
    }
    pairs = (("projection_x_coordinate", "projection_y_coordinate"), ("grid_longitude", "grid_latitude"))
    pair = next(((axes[x], axes[y]) for x, y in pairs if x in axes and y in axes), None)
    if pair is None or len(mappings) != 1 or {"latitude", "longitude"} <= set(dataset.cf.coordinates):
        return dataset
    from pyproj import CRS, Transformer  # here, because few sources need it

    x, y = (dataset[name] for name in pair)
    mapping = CRS.from_cf(dataset[mappings[0]].attrs)
    is_projected = x.attrs["standard_name"] == pairs[0][0]
    sizes = [metres(str(axis.attrs.get("units", "")), path, axis.name) if is_projected else 1 for axis in (x, y)]
    to_degrees = Transformer.from_crs(mapping, mapping.source_crs or mapping.geodetic_crs, always_xy=True)
    lon, lat = to_degrees.transform(*np.meshgrid(x.values * sizes[0], y.values * sizes[1]))
    dims = (*y.dims, *x.dims)
    return dataset.assign_coords(
        latitude=(dims, lat, {"standard_name": "latitude", "units": "degrees_north"}),
        longitude=(dims, lon, {"standard_name": "longitude", "units": "degrees_east"}),
    )


def degrees_of(lat: xr.DataArray, lon: xr.DataArray, path: Path) -> tuple[Array, Array]:
    """Return latitudes and longitudes `(..., row, column)` or `(cell)` in degrees, NaN where cells have none.

    Some models write a number that is no position on land, others 0 or -1 for both. So a position that more than
    four cells share is none. Raises SSTCastError like `check_degrees` and
    `check_sign`.
    """
    places = in_degrees(lat), in_degrees(lon)
    first_lat, first_lon = (values[(0,) * max(0, values.ndim - 2)] for values in places)  # of one time
    known = np.isfinite(first_lat) & np.isfinite(first_lon)
    steps = [np.round(values[known] * 1e6).astype(np.int64) for values in (first_lat, first_lon % 360)]
    keys = steps[0] * 360_000_001 + steps[1]
    ordered = np.sort(keys)
    crowded = np.unique(ordered[MOST_AT_A_PLACE:][ordered[MOST_AT_A_PLACE:] == ordered[:-MOST_AT_A_PLACE]])
    known[known] = ~np.isin(keys, crowded)
    for values in places:
        values[..., ~known] = np.nan
    check_degrees(*places, path, f"its {lat.name} and {lon.name}")
    for axis, values in zip((lat, lon), places, strict=True):
        check_sign(axis, values, path)
    return places


def check_degrees(lat: Array, lon: Array, path: Path, what: str) -> None:
    """Raise SSTCastError if the positions of `what`, in degrees, are beyond the range of latitude or longitude."""
    for values, largest in ((lat, LARGEST_LATITUDE), (lon, LARGEST_DEGREES)):
        if (beyond := abs(values) > largest).any():
            raise SSTCastError(
                f"{path}: {what} reach {values[beyond][0]:g} degrees; if they say radian and hold degrees, set "
                "their units to degrees, else correct them"
            )


def check_sign(axis: xr.DataArray, values: Array, path: Path) -> None:
    """Raise SSTCastError if an axis counts degrees south or west, and all its `values` are positive."""
    units = str(axis.attrs.get("units", "")).strip()
    if not OTHER_HALF.fullmatch(units) or (values < 0).any():
        return
    raise SSTCastError(
        f"{path}: its {axis.name} is positive in {units}; make it negative, in degrees_north or degrees_east"
    )


def in_degrees(positions: xr.DataArray) -> Array:
    """Return latitudes or longitudes in degrees, NaN where a number stands for a missing one."""
    values: Array = positions.values.astype(float)
    values[~(abs(values) <= LARGEST_DEGREES)] = np.nan
    return np.degrees(values) if str(positions.attrs.get("units", "")).lower().startswith("rad") else values


def straightened(dataset: xr.Dataset, path: Path) -> xr.Dataset:
    """Make axes of positions with two dimensions that vary along one of them, to a tenth of a cell.

    A leading dimension along which they do not change, such as time, is left out. Curvilinear positions stay, and
    so do those that a file has beside axes. Raises SSTCastError like `degrees_of`.
    """
    positions = dataset.cf.coordinates
    for lat in positions.get("latitude", []):
        for lon in positions.get("longitude", []):
            dims = dataset[lat].dims
            if len(dims) not in (2, 3) or dataset[lon].dims != dims:
                continue
            if any(dataset[name].dims == (dim,) for name in dataset.coords for dim in dims[-2:]):
                continue
            places = [
                dataset[name].copy(data=values)
                for name, values in zip((lat, lon), degrees_of(dataset[lat], dataset[lon], path), strict=True)
            ]
            for rows, cols in (dims[-2:], dims[:-3:-1]):
                axes = _along(places[0], rows, cols), _along(places[1], cols, rows)
                if axes[0] is not None and axes[1] is not None:
                    dataset = dataset.drop_vars([lat, lon]).assign_coords({lat: axes[0], lon: axes[1]})
                    break
    return dataset


def _along(positions: xr.DataArray, dim: Hashable, other_dim: Hashable) -> xr.DataArray | None:
    """Return positions `(..., dim, other_dim)` as an axis along `dim`, or None if they change along the others."""
    values = positions.transpose(dim, ..., other_dim).values.reshape(positions.sizes[dim], -1)
    if len(values) < 2 or np.isnan(values).all(1).any():
        return None
    centres = np.nanmedian(values, axis=1)
    apart = np.nanmax(abs((values - centres[:, None] + 180) % 360 - 180))
    if not apart <= CENTRE_TOLERANCE * step(centres):
        return None
    return xr.DataArray(centres, dims=[dim], attrs=positions.attrs)
