"""Brings forecasts to the cells on which they are scored, and says how."""

import numpy as np
import xarray as xr

from sstcast.config import Region
from sstcast.errors import SSTCastError
from sstcast.forecasting.conventions import Forecasts
from sstcast.forecasting.history import at_cells, finer_cells
from sstcast.geo import Box, step
from sstcast.ocean.cube import coarsen

WHOLE = 0.01  # a ratio of cell widths that differs from a whole number by less is one


def on_cells(forecasts: Forecasts, grid: xr.Dataset, region: Region) -> tuple[xr.DataArray, str]:
    """Return forecasts on the cells `lat`, `lon` of `grid`, lazily, and what was done in words.

    Cells of the file that are those of the grid are taken as they are, in either convention of longitude; smaller
    ones that make them up are averaged over the ocean, as `prepare` averages a source with `region.coarsen`; from
    any others values are interpolated linearly, NaN beside land.

    Raises SSTCastError if the file's cells do not contain the grid's.
    """
    sst = forecasts.sst
    if (same := at_cells(sst, grid)) is not None:
        return same, "cells as in the file"
    ratio = step(grid["lat"].values) / step(sst["lat"].values)
    n = round(ratio)
    if n > 1 and abs(ratio - n) < WHOLE and (finer := at_cells(sst, finer_cells(grid, n))) is not None:
        ocean = finer.isel(member=0, init_time=0, lead=0, drop=True).notnull().compute()
        mean = coarsen(finer, ocean, region.model_copy(update={"coarsen": n}))
        return mean.assign_coords(lat=grid["lat"], lon=grid["lon"]), f"means of {n} x {n} cells of the file"
    widths = {axis: step(sst[axis].values) for axis in ("lat", "lon")}
    box = Box.of(grid)
    sst = sst.assign_coords(lon=box.eastward(sst["lon"], near=widths["lon"])).sortby("lon")
    sst = sst.isel({axis: _near(sst[axis].values, grid[axis].values, width) for axis, width in widths.items()})
    _check_inside(forecasts, sst, grid, widths)
    told = f"interpolated linearly from cells of {widths['lat']:.4g} x {widths['lon']:.4g} degrees"
    return sst.interp(lat=grid["lat"], lon=grid["lon"], assume_sorted=True).astype("float32"), told


def _near(centres: np.ndarray, wanted: np.ndarray, width: float) -> np.ndarray:
    """Return the positions of the cells that values at `wanted` are interpolated from."""
    return np.flatnonzero((centres > wanted.min() - 1.01 * width) & (centres < wanted.max() + 1.01 * width))


def _check_inside(forecasts: Forecasts, sst: xr.DataArray, grid: xr.Dataset, widths: dict[str, float]) -> None:
    for axis, width in widths.items():
        centres, wanted = sst[axis].values, grid[axis].values
        gap = np.diff(centres, prepend=centres[:1], append=centres[-1:]).max(initial=0) > 1.5 * width
        if len(centres) < 2 or gap or min(wanted[0] - centres[0], centres[-1] - wanted[-1]) < -width / 2:
            own = forecasts.sst
            raise SSTCastError(
                f"{forecasts.path}: its cells, {_range(own, 'lat')} and {_range(own, 'lon')}, do not contain the "
                f"region's, {_range(grid, 'lat')} and {_range(grid, 'lon')}; choose another --region"
            )


def _range(field: xr.DataArray | xr.Dataset, axis: str) -> str:
    centres = field[axis].values
    return f"{axis} {centres.min():g}..{centres.max():g}"
