"""Cutting a region out of a field: on the edges of the source's own cells, or not at all."""

from pathlib import Path

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast.config import Region
from sstcast.errors import SSTCastError

NEAR = 0.02  # of a cell: edges that differ by less are the same, as 0.083 is 1/12 to who types it
Edges = tuple[float, float]
Axis = NDArray[np.float64]
Index = NDArray[np.intp]


def crop(sst: xr.DataArray, region: Region, path: Path) -> xr.DataArray:
    """Cut the region's box out of `sst(..., lat, lon)`.

    Longitudes of either convention are taken; the result's run eastward from the region's west edge.

    Raises SSTCastError, naming the nearest box there is, if the region reaches outside the data, its edges are not
    those of cells, or it does not hold whole tiles.
    """
    west, east = region.lon
    width = (east - west) % 360 or 360.0
    lat, near = sst["lat"].values, NEAR * step(sst["lon"].values)
    lon = west + (sst["lon"].values - west + near) % 360 - near
    rows = np.flatnonzero((lat > region.lat[0]) & (lat < region.lat[1]))
    order = np.argsort(lon, kind="stable")
    cols = _longest_run(order[(lon[order] > west) & (lon[order] < west + width)], lon)
    if fault := _fault(region, lat, rows, lon, cols):
        swapped = f" (lon is [west, east]: [{east:g}, {west:g}]?)" if west > east and width > 180 else ""
        raise SSTCastError(f"{path}: data.region {paste(region.lon, region.lat)}{swapped} {fault}")
    return _take(_take(sst, "lat", rows), "lon", cols).assign_coords(lon=lon[cols])


def step(centres: Axis) -> float:
    """Return the usual width of a cell of an axis, in degrees."""
    return float(np.median(np.abs(np.diff(centres))))


def edges(centres: Axis, chosen: Index | slice = slice(None)) -> Edges:
    """Return the outer edges of neighbouring cells of an axis, in degrees, given the centres of all its cells."""
    cells = centres[chosen]
    if cells.size > 1:
        first, last = (cells[1] - cells[0]) / 2, (cells[-1] - cells[-2]) / 2
    else:
        first = last = step(centres) / 2
    return round(float(cells[0] - first), 5), round(float(cells[-1] + last), 5)


def paste(lon: Edges, lat: Edges) -> str:
    """Write a box as the YAML of a configuration takes it."""
    south, north = (min(max(edge, -90.0), 90.0) for edge in lat)  # cells at the poles are halves
    return f"{{lon: [{lon[0]:.7g}, {lon[1]:.7g}], lat: [{south:.7g}, {north:.7g}]}}"


def _longest_run(cols: Index, lon: Axis) -> Index:
    """Return the longest part of `cols` without a jump: a box may leave the data and enter them again."""
    return max(np.split(cols, np.flatnonzero(np.diff(lon[cols]) > 1.5 * step(lon)) + 1), key=len)


def _fault(region: Region, lat: Axis, rows: Index, lon: Axis, cols: Index) -> str:
    """Say what is wrong with a region whose cells are `rows` and `cols`, and what would fit."""
    if not rows.size or not cols.size:
        cover = paste(edges(_around(lon)), edges(lat))
        return f"holds no cell of the data, which cover {cover}: change data.region"
    west, east = region.lon
    wanted = (*region.lat, west, west + ((east - west) % 360 or 360.0))
    have = (*edges(lat, rows), *edges(lon, cols))
    off = [
        abs(have - want) / size
        for have, want, size in zip(have, wanted, np.repeat([step(lat), step(lon)], 2), strict=True)
        if not abs(have) >= abs(want) == 90
    ]
    high, wide = (size * region.coarsen for size in region.tile)
    if max(off, default=0) >= 1 - NEAR:
        fault = "reaches outside the data"
    elif max(off, default=0) > NEAR:
        fault = "has edges that are not those of cells"
    elif rows.size % high or cols.size % wide:
        fault = f"holds {rows.size} x {cols.size} cells, not whole tiles of {high} x {wide}"
    else:
        return ""
    whole = rows[: rows.size // high * high], cols[: cols.size // wide * wide]
    if not whole[0].size or not whole[1].size:
        box = paste(edges(lon, cols), edges(lat, rows))
        return f"{fault}; the data there, {box}, are {rows.size} x {cols.size} cells: choose a smaller tile"
    return f"{fault}; the nearest that fits is data.region: {paste(edges(lon, whole[1]), edges(lat, whole[0]))}"


def _around(lon: Axis) -> Axis:
    """Return longitudes of any order eastward from the west end of what they cover, which begins in -180..180."""
    ring = np.sort(lon % 360)
    first = int(np.argmax(np.diff(ring, append=ring[0] + 360)) + 1) % ring.size
    eastward = np.concatenate([ring[first:], ring[:first] + 360])
    return eastward - 360 if eastward[0] >= 180 else eastward


def _take(sst: xr.DataArray, axis: str, index: Index) -> xr.DataArray:
    """Choose cells by slices where that can be done: dask passes them on, and copies what is chosen by a list."""
    parts = np.split(index, np.flatnonzero(np.diff(index) != 1) + 1)
    if len(parts) > 2:
        return sst.isel({axis: index})
    cut = [sst.isel({axis: slice(int(part[0]), int(part[-1]) + 1)}) for part in parts]
    return cut[0] if len(cut) == 1 else xr.concat(cut, axis)
