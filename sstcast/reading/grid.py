"""Grid cells of a region: crops a source, and averages blocks of finer cells."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from sstcast.config import Region
from sstcast.errors import SSTCastError
from sstcast.geo import NORTH, SOUTH, Axis, Box, edges, evenly_spaced, span, step
from sstcast.reading.fields import MISPLACED
from sstcast.reading.layouts import REGRID
from sstcast.storage.cf import rounded

EDGE_TOLERANCE = 0.02  # tolerance for edges as a fraction of a cell, so that 0.083 may stand for 1/12
DEGREES_APART = 1e-3  # tolerance for coordinates in degrees

Index = NDArray[np.intp]
Grid = xr.DataArray | xr.Dataset


def crop(sst: xr.DataArray, region: Region, path: Path) -> xr.DataArray:
    """Crop `sst(..., lat, lon)` to the region's box.

    Longitudes may follow either convention. In the result they increase eastward from the region's west edge.

    Raises SSTCastError with the nearest valid box if the region reaches outside the data, its edges are not cell
    edges, or it does not contain whole tiles. Also raises it if a cell is not where the nominal axes have it.
    """
    box = region.bounds
    lat, tolerance = sst["lat"].values, EDGE_TOLERANCE * step(sst["lon"].values)
    lon = box.eastward(sst["lon"].values, tolerance)
    north, south = box.north == 90, box.south == -90  # a row of cells may be centred on a pole
    rows = np.flatnonzero(((lat > box.south) | south) & ((lat < box.north) | north))
    order = np.argsort(lon, kind="stable")
    cols = order[(lon[order] > box.west) & (lon[order] < box.west + box.width)]
    runs = np.split(cols, np.flatnonzero(np.diff(lon[cols]) > 1.5 * step(lon)) + 1)
    cols = max(runs, key=len)  # a box that crosses a gap in the data has several runs
    if fault := _fault(region, sst["lat"], rows, lon, cols):
        raise SSTCastError(f"{path}: data.region {box.yaml} {fault}")
    cells = _take(_take(sst, "lat", rows), "lon", cols).assign_coords(lon=lon[cols])
    cells = check_places(cells, f"{path}: data.region {box.yaml}")
    if cells.chunks:  # a box across the end of the axis has two blocks
        cells = cells.copy(data=cells.data.rechunk({-2: -1, -1: -1}))
    return cells


def true_rows(field: xr.DataArray) -> slice:
    """Return the longest run of rows of `field(..., lat, lon)` without a cell that is misplaced."""
    if MISPLACED not in field.coords:
        return slice(0, field.sizes["lat"])
    misplaced_rows = np.flatnonzero(np.append(field[MISPLACED].transpose("lat", "lon").values.any(1), True))
    first = np.append(0, misplaced_rows[:-1] + 1)
    longest = int(np.argmax(misplaced_rows - first))
    return slice(int(first[longest]), int(misplaced_rows[longest]))


def check_places(cells: xr.DataArray, where: str, remedy: str = REGRID) -> xr.DataArray:
    """Return `cells(..., lat, lon)` without the mask of misplaced cells.

    Raises SSTCastError, which begins with `where` and ends in `remedy`, if any of the cells is misplaced.
    """
    if MISPLACED not in cells.coords:
        return cells
    if cells[MISPLACED].any():
        rows = true_rows(cells)
        lat = cells["lat"].values
        south, north = span(lat, rows) if rows.stop - rows.start > 1 else (0.0, 0.0)
        suggestion = f"choose a region within lat {south:g}..{north:g}, or " if north > south else ""
        raise SSTCastError(
            f"{where} lies on a curvilinear grid: its true latitudes and longitudes differ from its axes by more "
            f"than a tenth of a cell; {suggestion}{remedy}"
        )
    return cells.drop_vars(MISPLACED)


def box_of(lat: Axis | xr.DataArray, rows: Index | slice, lon: Axis, cols: Index | slice) -> Box:
    """Return the box of some adjacent rows and columns. The edges of rows are those of the whole axis."""
    row_indices, ends = np.arange(lat.size)[rows], edges(lat)
    south, north = (round(float(ends[row]), 5) for row in (row_indices[0], row_indices[-1] + 1))
    return Box(*span(lon, cols), south, north)


def _fault(region: Region, lat: xr.DataArray, rows: Index, lon: Axis, cols: Index) -> str:
    """Return the fault of a region with the cells `rows` and `cols`, and a valid region, or ""."""
    if not rows.size or not cols.size:
        extent = Box.of({"lat": lat, "lon": around(lon)}).yaml
        return f"contains no cell of the data, which cover {extent}: change data.region"
    box = region.bounds
    region_edges = (box.south, box.north, box.west, box.west + box.width)
    inner_box = box_of(lat, rows, lon, cols)
    inner_edges = (inner_box.south, inner_box.north, inner_box.west, inner_box.east)
    mismatches = [
        abs(inner_edge - region_edge) / size
        for inner_edge, region_edge, size in zip(
            inner_edges, region_edges, np.repeat([step(lat.values), step(lon)], 2), strict=True
        )
        if not abs(inner_edge) >= abs(region_edge) == 90
    ]
    tile_height, tile_width = (size * region.coarsen for size in region.tile)
    if max(mismatches, default=0) >= 1 - EDGE_TOLERANCE:
        fault = "reaches outside the data"
    elif max(mismatches, default=0) > EDGE_TOLERANCE:
        fault = "has edges that are not cell edges"
    elif region.coarsen > 1 and not evenly_spaced(lat[rows]):
        return "has unevenly spaced rows, which cannot be coarsened: set data.region.coarsen: 1"
    elif rows.size % tile_height or cols.size % tile_width:
        fault = f"holds {rows.size} x {cols.size} cells, not whole tiles of {tile_height} x {tile_width}"
    elif min(rows.size, cols.size) < 2 * region.coarsen:
        return "has one row or column of cells, but the grid of a forecast needs two: make data.region larger"
    else:
        return ""
    whole_tiles = rows[: rows.size // tile_height * tile_height], cols[: cols.size // tile_width * tile_width]
    if not whole_tiles[0].size or not whole_tiles[1].size:
        return (
            f"{fault}; the data inside, {inner_box.yaml}, have {rows.size} x {cols.size} cells, "
            f"fewer than a tile of {tile_height} x {tile_width}: set a smaller data.region.tile"
        )
    return f"{fault}; the nearest fit is data.region: {box_of(lat, whole_tiles[0], lon, whole_tiles[1]).yaml}"


def around(lon: Axis) -> Axis:
    """Sort longitudes eastward from the west end of the range that they cover, which begins in -180..180."""
    ring = np.sort(lon % 360)
    first = int(np.argmax(np.diff(ring, append=ring[0] + 360)) + 1) % ring.size
    eastward = np.concatenate([ring[first:], ring[:first] + 360])
    return eastward - 360 if eastward[0] >= 180 else eastward


def eastward(lon: Axis) -> tuple[Index, Axis]:
    """Return the order of cells from west to east, and their longitudes in it, which ascend.

    If the cells leave a gap, they begin at its east end.
    """
    order = np.argsort(lon, kind="stable")
    ascending = lon[order]
    gaps = np.diff(ascending)
    if not gaps.size or gaps.max() <= 1.5 * step(ascending):
        return order, ascending
    first = int(gaps.argmax()) + 1
    joined_lon = np.concatenate([ascending[first:], ascending[:first] + 360])
    return np.roll(order, -first), joined_lon - 360 if joined_lon[0] >= 180 else joined_lon


def sorted_eastward(sst: xr.DataArray) -> xr.DataArray:
    """Sort `sst(..., lat, lon)` by longitude (see `eastward`)."""
    order, lon = eastward(sst["lon"].values)
    return _take(sst, "lon", order).assign_coords(lon=("lon", lon, sst["lon"].attrs))


def _take(sst: xr.DataArray, axis: str, index: Index) -> xr.DataArray:
    """Select cells by slices where possible, because dask returns slices as views but copies index selections."""
    runs = np.split(index, np.flatnonzero(np.diff(index) != 1) + 1)
    if len(runs) > 2:
        return sst.isel({axis: index})
    blocks = [sst.isel({axis: slice(int(run[0]), int(run[-1]) + 1)}) for run in runs]
    return blocks[0] if len(blocks) == 1 else xr.concat(blocks, axis)


def finer_cells(grid: Grid, n: int) -> xr.Dataset:
    """Divide each cell of `grid` into `n` x `n` cells, and return these as coordinates `lat` and `lon`."""
    axes = {}
    for axis in ("lat", "lon"):
        centres = grid[axis].values
        width = (centres[-1] - centres[0]) / max(centres.size - 1, 1) / n
        axes[axis] = (centres[:, None] + width * (np.arange(n) - (n - 1) / 2)).ravel()
    return xr.Dataset(coords=axes)


def at_cells(field: xr.DataArray, grid: Grid) -> xr.DataArray | None:
    """Select the cells of `grid` from `field`, in either convention of longitude.

    The result is None if some are missing, or if there are others between them, so that these are smaller.
    """
    west = float(grid["lon"][0]) - DEGREES_APART
    eastward = field.assign_coords(lon=west + (field["lon"] - west) % 360).sortby("lon").sortby("lat")
    for axis in ("lat", "lon"):
        first, last = grid[axis].values[[0, -1]] + (-DEGREES_APART, DEGREES_APART)
        if int(((eastward[axis] > first) & (eastward[axis] < last)).sum()) > grid[axis].size:
            return None
    try:
        cells = eastward.sel(lat=grid["lat"], lon=grid["lon"], method="nearest", tolerance=DEGREES_APART)
    except (KeyError, pd.errors.InvalidIndexError):  # missing or duplicate cells
        return None
    return cells.assign_coords(lat=grid["lat"], lon=grid["lon"])


def ocean_cells(sst: xr.DataArray) -> xr.DataArray:
    """Return the `(lat, lon)` mask of cells with a value on any day of the first year."""
    return sst.isel(time=slice(366)).notnull().any("time").compute()


def ocean_fraction(ocean: xr.DataArray, region: Region) -> xr.DataArray:
    """Return the ocean fraction `(lat, lon)` of each coarse cell, from the mask `ocean` of source cells."""
    ends = {SOUTH: np.min, NORTH: np.max}
    blocks: Any = ocean.astype("float32").coarsen({"lat": region.coarsen, "lon": region.coarsen}, coord_func=ends)
    return rounded(blocks.mean())


def coarsen(field: xr.DataArray, ocean: xr.DataArray, region: Region) -> xr.DataArray:
    """Average blocks of `coarsen` x `coarsen` cells of `field(..., lat, lon)` over the mask `ocean`.

    Land does not enter the mean. The result is NaN where the ocean fraction is below `min_ocean`, and where an
    ocean cell has no value.
    """
    fraction, n = ocean_fraction(ocean, region), region.coarsen
    is_ocean, share = ocean.values, fraction.where(fraction >= region.min_ocean).values

    def pool(block: NDArray[Any]) -> NDArray[Any]:
        block = np.where(is_ocean, block, np.float32(0))
        total = sum(block[..., i::n, j::n] for i in range(n) for j in range(n))
        return total / (n * n * share)

    cells = ["lat", "lon"]
    coarse = xr.apply_ufunc(
        pool,
        field,
        input_core_dims=[cells],
        output_core_dims=[cells],
        exclude_dims=set(cells),
        dask="parallelized",
        dask_gufunc_kwargs={"output_sizes": dict(fraction.sizes)},
        output_dtypes=[field.dtype],
    )
    return coarse.assign_coords(fraction.coords)
