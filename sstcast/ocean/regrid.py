"""Brings a field to the cells of a run: the area mean of finer cells, interpolation from coarser ones."""

from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast.config import Region
from sstcast.errors import SSTCastError
from sstcast.geo import Box, bounds, step
from sstcast.ocean.fields import MISPLACED
from sstcast.ocean.grid import at_cells, check_places, on_cells

LEAST_AREA = 0.5  # share of a cell's area that must have values for a mean
FINER = 0.99  # of a cell's width; wider cells are interpolated
WHOLE_AREA = 0.99  # share of a cell's area from which it counts as covered

Matrix = NDArray[np.float64]


def to_cells(field: xr.DataArray, cells: xr.Dataset, region: Region, path: Path, remedy: str) -> xr.DataArray:
    """Bring `field(..., lat, lon)` lazily to `cells`. The attribute `method` says how.

    Equal cells keep their values. Finer ones are averaged, weighted by the area that they share with a cell, over
    those with values. The mean is NaN if they cover less than half of the cell. Others are interpolated linearly.

    Raises SSTCastError, ending in `remedy`, if the field, read from `path`, does not cover the cells.
    """
    in_box = Box.of(cells).contains(field["lat"], field["lon"])
    nearby = field.isel(lat=in_box.any("lon").values, lon=in_box.any("lat").values)
    check_places(nearby, f"{path}: its grid")
    field = field.drop_vars(MISPLACED, errors="ignore")
    if (exact := at_cells(field, cells)) is not None:
        return exact.assign_attrs(field.attrs, method="its cells are those of the run")
    if is_finer(field, cells):
        height, width = step(field["lat"].values), step(field["lon"].values)
        text = f"means of its cells of {height:.4g} x {width:.4g} degrees, weighted by area"
        return area_mean(field, cells, path, remedy).assign_attrs(field.attrs, method=text)
    regridded, text = on_cells(field, cells, region, path, remedy)
    return regridded.assign_attrs(field.attrs, method=text.replace("of the file", "of the source"))


def is_finer(field: xr.DataArray, cells: xr.Dataset) -> bool:
    """Return whether the cells of a field are smaller than those of a run, in both directions."""
    return all(step(field[axis].values) < FINER * step(cells[axis].values) for axis in ("lat", "lon"))


def read_by(field: xr.DataArray, cells: xr.Dataset) -> xr.DataArray:
    """Return the values of `field(..., lat, lon)` from which `to_cells` makes those of the ocean cells, lazily.

    Others are NaN. A cell is read if it overlaps with an ocean cell, or is its neighbour in an interpolation.
    """
    near = {}
    for axis in ("lat", "lon"):
        own, wanted = step(field[axis].values), step(cells[axis].values)
        apart = abs(field[axis].values[:, None] - cells[axis].values) % 360
        near[axis] = np.minimum(apart, 360 - apart) < FINER * max(own, (own + wanted) / 2)
    is_read = near["lat"] @ cells["ocean_mask"].values @ near["lon"].T
    rows, columns = is_read.any(1), is_read.any(0)
    mask = xr.DataArray(is_read[np.ix_(rows, columns)], dims=("lat", "lon"))
    return field.isel(lat=rows, lon=columns).where(mask)


def area_mean(field: xr.DataArray, cells: xr.Dataset, path: Path, remedy: str) -> xr.DataArray:
    """Average finer cells `(..., lat, lon)` lazily to `cells` (see `to_cells`)."""
    lon, half = field["lon"].values, step(field["lon"].values) / 2
    lon = lon + 360 * np.round((float(cells["lon"].mean()) - lon) / 360)
    columns = np.stack([lon - half, lon + half], axis=1)
    wanted = bounds(cells["lon"])
    shares = {
        "lat": _shares(_sines(bounds(field["lat"])), _sines(bounds(cells["lat"]))),
        "lon": np.sum([_shares(columns + turn, wanted) for turn in (-360, 0, 360)], axis=0),
    }
    for axis, share in shares.items():
        if (share.sum(1) < WHOLE_AREA).any():
            raise SSTCastError(f"{path}: its cells do not cover the region's in {axis}; {remedy}")
    used = {axis: np.flatnonzero(share.any(0)) for axis, share in shares.items()}
    by_row, by_column = (share[:, used[axis]].astype(np.float32) for axis, share in shares.items())

    def average(values: NDArray[Any]) -> NDArray[np.float32]:
        is_known = np.isfinite(values)
        total, area = (by_row @ part @ by_column.T for part in (np.where(is_known, values, 0), is_known))
        mean = total / np.maximum(area, np.float32(LEAST_AREA))
        return np.where(area >= LEAST_AREA, mean, np.nan).astype(np.float32)

    axes = ["lat", "lon"]
    mean = xr.apply_ufunc(
        average,
        field.isel(used),
        input_core_dims=[axes],
        output_core_dims=[axes],
        exclude_dims=set(axes),
        dask="parallelized",
        dask_gufunc_kwargs={"output_sizes": {axis: cells.sizes[axis] for axis in axes}, "allow_rechunk": True},
        output_dtypes=[np.float32],
    )
    return mean.assign_coords(lat=cells["lat"], lon=cells["lon"])


def _sines(ends: Matrix) -> Matrix:
    """Return the sines of latitudes in degrees, whose differences are areas."""
    sines: Matrix = np.sin(np.radians(ends.clip(-90, 90)))
    return sines


def _shares(ends: Matrix, wanted: Matrix) -> Matrix:
    """Return the share of each of `wanted [m, 2]` that lies in each of `ends [n, 2]`, `[m, n]`."""
    low, high = np.sort(ends, axis=1).T
    common: Matrix = np.minimum(wanted[:, 1:], high) - np.maximum(wanted[:, :1], low)
    return common.clip(0) / np.diff(wanted, axis=1)
