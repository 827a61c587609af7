"""Crops a field to a region, whose edges must be edges of the source's cells."""

from pathlib import Path

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast.config import Region
from sstcast.errors import SSTCastError
from sstcast.geo import Axis, Box, span, step

NEAR = 0.02  # of a cell: edges that differ by less are equal, so that 0.083 may be typed for 1/12
Index = NDArray[np.intp]


def crop(sst: xr.DataArray, region: Region, path: Path) -> xr.DataArray:
    """Crop `sst(..., lat, lon)` to the region's box.

    Longitudes may follow either convention; in the result they increase eastward from the region's west edge.

    Raises SSTCastError, with the nearest box that fits, if the region reaches outside the data, its edges are not
    edges of cells, or it does not hold whole tiles.
    """
    box = region.bounds
    lat, near = sst["lat"].values, NEAR * step(sst["lon"].values)
    lon = box.eastward(sst["lon"].values, near)
    rows = np.flatnonzero((lat > box.south) & (lat < box.north))
    order = np.argsort(lon, kind="stable")
    cols = order[(lon[order] > box.west) & (lon[order] < box.west + box.width)]
    runs = np.split(cols, np.flatnonzero(np.diff(lon[cols]) > 1.5 * step(lon)) + 1)
    cols = max(runs, key=len)  # a box may leave the data and enter them again
    if fault := _fault(region, lat, rows, lon, cols):
        west, east = region.lon
        if west > east and box.width > 180:
            fault = (
                f"goes {box.width:g} degrees eastward from {west:g} to {east:g} and does not fit the data; "
                f"lon is [west, east]: write lon: [{east:g}, {west:g}] for what lies between"
            )
        raise SSTCastError(f"{path}: data.region {box.yaml} {fault}")
    return _take(_take(sst, "lat", rows), "lon", cols).assign_coords(lon=lon[cols])


def _fault(region: Region, lat: Axis, rows: Index, lon: Axis, cols: Index) -> str:
    """Return what is wrong with a region whose cells are `rows` and `cols`, and what would fit; "" if nothing."""
    if not rows.size or not cols.size:
        cover = Box.of({"lat": lat, "lon": around(lon)}).yaml
        return f"contains no cell of the data, which cover {cover}: change data.region"
    box = region.bounds
    wanted = (box.south, box.north, box.west, box.west + box.width)
    have = (*span(lat, rows), *span(lon, cols))
    off = [
        abs(have - want) / size
        for have, want, size in zip(have, wanted, np.repeat([step(lat), step(lon)], 2), strict=True)
        if not abs(have) >= abs(want) == 90
    ]
    high, wide = (size * region.coarsen for size in region.tile)
    if max(off, default=0) >= 1 - NEAR:
        fault = "reaches outside the data"
    elif max(off, default=0) > NEAR:
        fault = "has edges that are not edges of cells"
    elif rows.size % high or cols.size % wide:
        fault = f"holds {rows.size} x {cols.size} cells, not whole tiles of {high} x {wide}{_about_tile(region)}"
    else:
        return ""
    whole = rows[: rows.size // high * high], cols[: cols.size // wide * wide]
    if not whole[0].size or not whole[1].size:
        there = Box(*span(lon, cols), *span(lat, rows)).yaml
        return (
            f"{fault}; the data there, {there}, are {rows.size} x {cols.size} cells, "
            f"smaller than a tile of {high} x {wide}{_about_tile(region)}: set a smaller one"
        )
    return f"{fault}; the nearest fit is data.region: {Box(*span(lon, whole[1]), *span(lat, whole[0])).yaml}"


def _about_tile(region: Region) -> str:
    """Return where the size of a tile comes from."""
    unset = ", the default" if "tile" not in region.model_fields_set else ""
    return f" (data.region.tile: {list(region.tile)}{unset}, times coarsen: {region.coarsen})"


def around(lon: Axis) -> Axis:
    """Return longitudes in eastward order from the west end of the range they cover, which begins in -180..180."""
    ring = np.sort(lon % 360)
    first = int(np.argmax(np.diff(ring, append=ring[0] + 360)) + 1) % ring.size
    eastward = np.concatenate([ring[first:], ring[:first] + 360])
    return eastward - 360 if eastward[0] >= 180 else eastward


def _take(sst: xr.DataArray, axis: str, index: Index) -> xr.DataArray:
    """Select cells by slices where possible: dask takes slices as views, but copies a selection by index."""
    parts = np.split(index, np.flatnonzero(np.diff(index) != 1) + 1)
    if len(parts) > 2:
        return sst.isel({axis: index})
    cut = [sst.isel({axis: slice(int(part[0]), int(part[-1]) + 1)}) for part in parts]
    return cut[0] if len(cut) == 1 else xr.concat(cut, axis)
