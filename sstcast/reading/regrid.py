"""Brings a field to the cells of a run: the area mean of finer cells, interpolation from coarser ones."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast.config import Region
from sstcast.errors import SSTCastError
from sstcast.geo import Box, bounds, evenly_spaced, step
from sstcast.reading.any_grid import LEAST_KNOWN, any_grid_weights
from sstcast.reading.fields import CELLS, MISPLACED
from sstcast.reading.grid import at_cells, check_places, coarsen, finer_cells
from sstcast.reading.sea import judged, sea_of, without_land
from sstcast.reading.weights import TargetGrid, Weights
from sstcast.types import Array

Grid = xr.DataArray | xr.Dataset
FINER_FIELD = "give a finer one, or bring it to the cells of the run"
TRUE_POSITIONS = "leave out its nominal axes, so that its true positions are read"
EQUAL, BLOCK_MEANS = "cells as in the file", "means of {0} x {0} cells of the file"
FINER = 0.99  # of a cell's width; wider cells are interpolated
WHOLE_AREA = 0.99  # share of a cell's area from which it counts as covered
HALF_COVERED = 0.49  # of a cell whose centre lies just inside the field's box
ROUNDING = 1e-6  # of a cell's width
BETWEEN_ALL = 1 - 1e-6  # the sum of weights of an interpolation of which no cell lacks its value

Matrix = NDArray[np.float64]


def on_cells(
    sst: xr.DataArray, grid: xr.Dataset, region: Region, path: Path, remedy: str = "choose another --region"
) -> tuple[xr.DataArray, str]:
    """Regrid forecasts `(..., lat, lon)` lazily to the cells of `grid`. Also returns a description of the method.

    Smaller cells that make up the grid's are averaged over the ocean, as `prepare` does with `region.coarsen`. For
    all others, `weights_of` decides. The ocean is where the first forecasts have values. A cell of the grid that
    the file covers only in part is NaN. Computing a block raises SSTCastError if a temperature that enters an
    ocean cell is outside the range of SST.
    """
    wanted = (
        grid["ocean_mask"].values
        if "ocean_mask" in grid
        else np.ones((grid.sizes["lat"], grid.sizes["lon"]), bool)
    )
    if CELLS not in sst.attrs:
        n = round(step(grid["lat"].values) / _height(sst, grid))
        if n > 1 and (finer := at_cells(sst, finer_cells(grid, n))) is not None:
            finer = check_places(finer, f"{path}: its grid", TRUE_POSITIONS)
            finer = without_land(finer, path)
            finer = judged(finer, np.kron(wanted, np.ones((n, n), bool)), path)
            mean = coarsen(finer, sea_of(finer), region.model_copy(update={"coarsen": n}))
            return mean.assign_coords(lat=grid["lat"], lon=grid["lon"]), BLOCK_MEANS.format(n)
    sst = without_land(sst, path) if CELLS in sst.attrs else sst
    ocean = sea_of(sst).values if CELLS in sst.attrs else None
    weights = weights_of(sst, grid, path, remedy, HALF_COVERED, ocean, region.min_ocean)
    part = weights.read(sst.drop_vars(MISPLACED, errors="ignore"))
    if weights.parts is not None:  # of several cells
        part = part if CELLS in sst.attrs else without_land(part, path)
        part = judged(part, weights.used(wanted), path)
    return weights(part).drop_attrs(deep=False), weights.method


def weights_of(
    field: xr.DataArray,
    cells: xr.Dataset,
    path: Path,
    remedy: str,
    covered: float = WHOLE_AREA,
    ocean: NDArray[np.bool_] | None = None,
    min_ocean: float = LEAST_KNOWN,
    folder: Path | None = None,
) -> Weights:
    """Return the weights that bring `field(..., lat, lon)`, or one on any other grid, to `cells`.

    Equal cells keep their values, in either convention of longitude. Finer ones are averaged, weighted by the area
    that they share with a cell, over those with values. The mean is NaN if they cover less than half of the cell.
    Others are interpolated linearly, with NaN beside land.

    Args:
        field: the field, read from `path`. On any other grid, its attribute `cells` has its positions.
        cells: the coordinates `lat` and `lon` of the targets.
        path: the file, for messages.
        remedy: the end of messages.
        covered: the share of each row and column of the targets that the field must cover.
        ocean: see `any_grid_weights`, like `min_ocean` and `folder`, on any other grid.

    Raises SSTCastError, ending in `remedy`, if the field does not cover the cells.
    """
    if CELLS in field.attrs:
        if not evenly_spaced(cells["lat"]):
            raise SSTCastError(f"{path}: lies on no axes, and the rows of the run are unevenly spaced; {remedy}")
        weights = any_grid_weights(
            field.attrs[CELLS], TargetGrid.of(cells), path, ocean, min_ocean, folder, FINER_FIELD
        )
        return replace(weights, cells=cells)
    in_box = Box.of(cells).contains(field["lat"], field["lon"])
    nearby = field.isel(lat=in_box.any("lon").values, lon=in_box.any("lat").values)
    check_places(nearby, f"{path}: its grid", TRUE_POSITIONS)
    axes = {axis: field[axis] for axis in ("lat", "lon")}
    shape = field.sizes["lat"], field.sizes["lon"]
    numbered = xr.DataArray(np.arange(shape[0] * shape[1]).reshape(shape), axes, ("lat", "lon"))
    if (exact := at_cells(numbered, cells)) is not None:
        rows, columns = exact.values[:, 0] // shape[1], exact.values[0] % shape[1]
        return Weights(rows, columns, None, 0, cells, EQUAL)
    widths = np.array([_height(field, cells), step(field["lon"].values)])
    ratios = widths / (step(cells["lat"].values), step(cells["lon"].values))
    size = f"its cells of {widths[0]:.4g} x {widths[1]:.4g} degrees"
    is_mean = bool(ratios.min() < FINER and ratios.max() < 1 / FINER)
    parts: tuple[Array, Array] | None
    if is_mean:
        parts, least, method = _shared(field, cells, covered), LEAST_KNOWN, f"means of {size}, weighted by area"
    else:
        parts, least, method = _between(field, cells), BETWEEN_ALL, f"interpolated linearly from {size}"
    if parts is None:
        raise SSTCastError(
            f"{path}: its cells, {_range(field)}, do not contain the region's, {_range(cells)}; {remedy}"
        )
    rows, columns = (np.flatnonzero(part.any(0)) for part in parts)
    return Weights(rows, columns, (parts[0][:, rows], parts[1][:, columns]), least, cells, method, is_mean)


def _height(field: Grid, cells: Grid) -> float:
    """Return the largest height of the rows of `field` in the box of `cells`, or of all rows if none is there."""
    heights = np.ptp(bounds(field["lat"]), axis=1)
    is_inside = Box.of(cells).contains(field["lat"], field["lon"]).any("lon").values
    return float(heights[is_inside if is_inside.any() else slice(None)].max())


def _between(field: xr.DataArray, cells: xr.Dataset) -> tuple[Matrix, Matrix] | None:
    """Return the linear weights of rows and of columns, across the ends of longitudes.

    They are None if a cell lies more than half a width beyond the field's cells, and 0 where a centre lies beyond.
    """
    lat, turns, parts = field["lat"], {"lat": np.zeros(1), "lon": 360.0 * np.arange(-2, 3)}, []
    widths = {"lat": step(lat.values) if evenly_spaced(lat) else float(np.diff(lat).max())}
    for axis, width in (widths | {"lon": step(field["lon"].values)}).items():
        centres, targets = np.add.outer(turns[axis], field[axis].values).ravel(), cells[axis].values
        order = np.argsort(centres, kind="stable")
        near = order[(centres[order] > targets[0] - 1.01 * width) & (centres[order] < targets[-1] + 1.01 * width)]
        ends = centres[near]
        is_complete = len(near) > 1 and np.diff(ends).max() < 1.5 * width
        if not is_complete or max(ends[0] - targets[0], targets[-1] - ends[-1]) > width / 2:
            return None
        after = np.searchsorted(ends, targets).clip(1, len(near) - 1)
        share = (targets - ends[after - 1]) / (ends[after] - ends[after - 1])
        share = np.where(abs(share - 0.5) <= 0.5 + ROUNDING, share.clip(0, 1), np.nan)
        part = np.zeros((targets.size, field[axis].size))
        for position, of_position in ((after - 1, 1 - share), (after, share)):
            np.add.at(
                part, (np.arange(targets.size), near[position] % field[axis].size), np.nan_to_num(of_position)
            )
        parts.append(part)
    return parts[0], parts[1]


def _range(field: Grid) -> str:
    ends = {axis: (float(field[axis].min()), float(field[axis].max())) for axis in ("lat", "lon")}
    return " and ".join(f"{axis} {low:g}..{high:g}" for axis, (low, high) in ends.items())


def _shared(
    field: xr.DataArray, cells: xr.Dataset, covered: float
) -> tuple[NDArray[np.float32], NDArray[np.float32]] | None:
    """Return the shares of targets that lie in rows and in columns, or None if they cover less than `covered`."""
    lon, half = field["lon"].values, step(field["lon"].values) / 2
    lon = lon + 360 * np.round((float(cells["lon"].mean()) - lon) / 360)
    columns = np.stack([lon - half, lon + half], axis=1)
    wanted = bounds(cells["lon"])
    by_row = _shares(_sines(bounds(field["lat"])), _sines(bounds(cells["lat"])))
    by_column = np.sum([_shares(columns + turn, wanted) for turn in (-360, 0, 360)], axis=0)
    for share in (by_row, by_column):
        if (share.sum(1) < covered).any():
            return None
        share[share.sum(1) < WHOLE_AREA] = 0
    return by_row.astype(np.float32), by_column.astype(np.float32)


def _sines(ends: Matrix) -> Matrix:
    """Return the sines of latitudes in degrees, whose differences are areas."""
    sines: Matrix = np.sin(np.radians(ends.clip(-90, 90)))
    return sines


def _shares(ends: Matrix, wanted: Matrix) -> Matrix:
    """Return the share of each of `wanted [m, 2]` that lies in each of `ends [n, 2]`, `[m, n]`."""
    low, high = np.sort(ends, axis=1).T
    common: Matrix = np.minimum(wanted[:, 1:], high) - np.maximum(wanted[:, :1], low)
    return common.clip(0) / np.diff(wanted, axis=1)
