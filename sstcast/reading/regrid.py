"""Brings a field to the cells of a run: the area mean of finer cells, interpolation from coarser ones."""

from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast.config import Region
from sstcast.errors import SSTCastError
from sstcast.geo import Box, bounds, evenly_spaced, step
from sstcast.reading.fields import MISPLACED
from sstcast.reading.grid import at_cells, check_places, coarsen, finer_cells

Grid = xr.DataArray | xr.Dataset
TRUE_POSITIONS = "leave out its nominal axes, so that its true positions are read"
LEAST_AREA = 0.5  # share of a cell's area that must have values for a mean
FINER = 0.99  # of a cell's width; wider cells are interpolated
WHOLE_AREA = 0.99  # share of a cell's area from which it counts as covered
HALF_COVERED = 0.49  # of a cell whose centre lies just inside the field's box

Matrix = NDArray[np.float64]


def on_cells(
    sst: xr.DataArray, grid: xr.Dataset, region: Region, path: Path, remedy: str = "choose another --region"
) -> tuple[xr.DataArray, str]:
    """Regrid forecasts `(..., lat, lon)` lazily to the cells of `grid`. Also returns a description of the method.

    Smaller cells that make up the grid's are averaged over the ocean, as `prepare` does with `region.coarsen`.
    `to_cells` regrids all others. A cell of the grid that the file covers only in part is NaN.
    """
    n = round(step(grid["lat"].values) / _height(sst, grid))
    if n > 1 and (finer := at_cells(sst, finer_cells(grid, n))) is not None:
        finer = check_places(finer, f"{path}: its grid", TRUE_POSITIONS)
        for date in range(finer.sizes["init_time"]):  # the first forecasts may be missing
            values = finer.isel(init_time=date, drop=True)
            ocean = values.notnull().any(values.dims[:-2]).compute()
            if ocean.any():
                break
        mean = coarsen(finer, ocean, region.model_copy(update={"coarsen": n}))
        return mean.assign_coords(lat=grid["lat"], lon=grid["lon"]), f"means of {n} x {n} cells of the file"
    regridded = to_cells(sst, grid, path, remedy, HALF_COVERED)
    return regridded.drop_attrs(deep=False), regridded.attrs["method"]


def to_cells(
    field: xr.DataArray, cells: xr.Dataset, path: Path, remedy: str, covered: float = WHOLE_AREA
) -> xr.DataArray:
    """Bring `field(..., lat, lon)` lazily to `cells`. The attribute `method` says how.

    Equal cells keep their values, in either convention of longitude. Finer ones are averaged, weighted by the area
    that they share with a cell, over those with values. The mean is NaN if they cover less than half of the cell.
    Others are interpolated linearly, with NaN beside land.

    Raises SSTCastError, ending in `remedy`, if the field, read from `path`, does not cover the share `covered` of
    each row and column of the cells.
    """
    in_box = Box.of(cells).contains(field["lat"], field["lon"])
    nearby = field.isel(lat=in_box.any("lon").values, lon=in_box.any("lat").values)
    check_places(nearby, f"{path}: its grid", TRUE_POSITIONS)
    field = field.drop_vars(MISPLACED, errors="ignore")
    if (exact := at_cells(field, cells)) is not None:
        return exact.assign_attrs(field.attrs, method="cells as in the file")
    widths = np.array([_height(field, cells), step(field["lon"].values)])
    ratios = widths / (step(cells["lat"].values), step(cells["lon"].values))
    size = f"its cells of {widths[0]:.4g} x {widths[1]:.4g} degrees"
    if ratios.min() < FINER and ratios.max() < 1 / FINER:
        mean = area_mean(field, cells, path, remedy, covered)
        return mean.assign_attrs(field.attrs, method=f"means of {size}, weighted by area")
    interpolated = _interpolated(field, cells, path, remedy)
    return interpolated.assign_attrs(field.attrs, method=f"interpolated linearly from {size}")


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


def _height(field: Grid, cells: Grid) -> float:
    """Return the largest height of the rows of `field` in the box of `cells`, or of all rows if none is there."""
    heights = np.ptp(bounds(field["lat"]), axis=1)
    is_inside = Box.of(cells).contains(field["lat"], field["lon"]).any("lon").values
    return float(heights[is_inside if is_inside.any() else slice(None)].max())


def _interpolated(field: xr.DataArray, cells: xr.Dataset, path: Path, remedy: str) -> xr.DataArray:
    """Interpolate `field(..., lat, lon)` linearly and lazily to `cells`, across the ends of its longitudes.

    Raises SSTCastError, ending in `remedy`, if a cell lies more than half a width beyond the field's cells.
    """
    lat, turns, nearby = field["lat"], {"lat": np.zeros(1), "lon": 360.0 * np.arange(-2, 3)}, field
    widths = {"lat": step(lat.values) if evenly_spaced(lat) else float(np.diff(lat).max())}
    for axis, width in (widths | {"lon": step(field["lon"].values)}).items():
        centres, targets = np.add.outer(turns[axis], field[axis].values).ravel(), cells[axis].values
        order = np.argsort(centres, kind="stable")
        near = order[(centres[order] > targets[0] - 1.01 * width) & (centres[order] < targets[-1] + 1.01 * width)]
        nearby = nearby.isel({axis: near % field[axis].size}).assign_coords({axis: centres[near]})
        is_complete = len(near) > 1 and np.diff(centres[near]).max() < 1.5 * width
        if not is_complete or max(centres[near[0]] - targets[0], targets[-1] - centres[near[-1]]) > width / 2:
            raise SSTCastError(
                f"{path}: its cells, {_range(field)}, do not contain the region's, {_range(cells)}; {remedy}"
            )
    return nearby.interp(lat=cells["lat"], lon=cells["lon"], assume_sorted=True).astype("float32")


def _range(field: Grid) -> str:
    ends = {axis: (float(field[axis].min()), float(field[axis].max())) for axis in ("lat", "lon")}
    return " and ".join(f"{axis} {low:g}..{high:g}" for axis, (low, high) in ends.items())


def area_mean(
    field: xr.DataArray, cells: xr.Dataset, path: Path, remedy: str, covered: float = WHOLE_AREA
) -> xr.DataArray:
    """Average finer cells `(..., lat, lon)` lazily to `cells` (see `to_cells`)."""
    lon, half = field["lon"].values, step(field["lon"].values) / 2
    lon = lon + 360 * np.round((float(cells["lon"].mean()) - lon) / 360)
    columns = np.stack([lon - half, lon + half], axis=1)
    wanted = bounds(cells["lon"])
    shares = {
        "lat": _shares(_sines(bounds(field["lat"])), _sines(bounds(cells["lat"]))),
        "lon": np.sum([_shares(columns + turn, wanted) for turn in (-360, 0, 360)], axis=0),
    }
    for share in shares.values():
        if (share.sum(1) < covered).any():
            raise SSTCastError(
                f"{path}: its cells, {_range(field)}, do not contain the region's, {_range(cells)}; {remedy}"
            )
        share[share.sum(1) < WHOLE_AREA] = 0
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
