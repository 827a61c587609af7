"""Checks whether values can be sea temperatures: their range, and a land mask that does not change.

The checks run block by block, while values are written to a prepared store.
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast.errors import SSTCastError
from sstcast.ocean.cube import ocean_cells
from sstcast.ocean.days import COLDEST, WARMEST
from sstcast.ocean.land import land_mask

ICE = (-2.0, -1.5)  # degC: water under ice stays at its freezing point, so it may be constant
LOOKED_AT = 8  # days examined to find a fill value for land
FEWEST_DAYS = 30  # shorter records are not searched for constant cells
ASTRAY = 10, 0.02  # cells, and share of a box, that may be on the wrong side of the coast: versions differ

Field = NDArray[np.float32]


def without_land_numbers(sst: xr.DataArray, path: Path) -> xr.DataArray:
    """Treat cells that hold the same number on every day (-999, 0, 1e30) as land, and say so on stderr.

    A few days are enough to find these cells; other days of `sst(time, lat, lon)` are checked when computed.

    Raises SSTCastError if no cell ever changes.
    """
    if sst.sizes["time"] < FEWEST_DAYS or not _constant(sst[-FEWEST_DAYS:].values, share=0.5).any():
        return sst  # as most do: a number for land is on most of these days, even if some lack values
    days = np.unique(np.linspace(0, sst.sizes["time"] - 1, LOOKED_AT).astype(int))
    some = sst.isel(time=days).values  # which may read all there are
    constant = _constant(some)
    if not constant.any():
        return sst
    if constant[np.isfinite(some[0])].all():
        raise SSTCastError(f"{path}: no cell ever changes ({some[0][constant][0]:g} degC); give daily data")
    numbers, counts = np.unique(some[0][constant], return_counts=True)
    stands = [n for n, count in zip(numbers, counts, strict=True) if count > 1 or not COLDEST <= n <= WARMEST]
    land = constant & np.isin(some[0], stands)
    if not land.any():
        return sst
    told = ", ".join(f"{n:g}" for n in stands)
    print(f"{path}: {land.sum()} cells hold {told} degC on every day: taken as land", file=sys.stderr, flush=True)

    def block(values: Field, day: NDArray[np.datetime64]) -> Field:
        differs = land & (values != some[0])
        if differs.any():
            where = _place(sst, differs, day, values)
            raise SSTCastError(f"{path}: {where}, a cell that holds {told} on other days; correct the file")
        return np.where(land, np.float32(np.nan), values)

    return by_day(block, sst)


def _constant(values: Field, share: float = 1) -> NDArray[np.bool_]:
    """Return the cells of `[time, lat, lon]` that hold one number on this share of the days, but for ice."""
    middle = np.sort(values, axis=0)[len(values) // 2]  # whatever number is on more than half of them
    return ((values == middle).mean(0) >= share) & ~((middle >= ICE[0]) & (middle <= ICE[1]))


def checked(sst: xr.DataArray, path: Path, gaps: int = 0) -> tuple[xr.DataArray, xr.DataArray]:
    """Return `sst(time, lat, lon)`, which checks its values when computed, and its ocean mask `(lat, lon)`.

    Ocean cells are those with a value in the first year. Computing a block raises SSTCastError, with date, cell
    and value, if a temperature is outside the sea's range, an ocean cell has no value, or a land cell has one.

    Raises SSTCastError at once if the data call themselves OISST and the land is not where it should be.
    """
    ocean = ocean_cells(sst)
    if re.search("oisst|optimum interpolation", sst.attrs.get("title", ""), re.I):
        _check_land(ocean, path)
    land = ~ocean.values
    remedy = (
        f"these gaps are longer than data.gaps: {gaps}"
        if gaps
        else "download them again, or set data.gaps to fill them"
    )

    def block(values: Field, day: NDArray[np.datetime64]) -> Field:
        low, high = np.fmin.reduce(values, axis=None), np.fmax.reduce(values, axis=None)
        if low < COLDEST or high > WARMEST:
            where = _place(sst, (values < COLDEST) | (values > WARMEST), day, values)
            raise SSTCastError(
                f"{path}: {where}; SST lies in {COLDEST:g}..{WARMEST:g}: set data.units if the unit is wrong, "
                "or set _FillValue in the file if this number marks missing values"
            )
        missing = np.isnan(values)
        if (missing != land).any():
            if (short := missing & ~land).any():
                count = short.any((1, 2)).sum()
                where = _place(sst, short, day)
                raise SSTCastError(
                    f"{path}: ocean cells lack values on {count} or more day(s), the first {where}; {remedy}"
                )
            where = _place(sst, ~missing & land, day, values)
            raise SSTCastError(
                f"{path}: {where}, a cell without any value in the first year; leave those days out"
            )
        return values

    return by_day(block, sst), ocean


def by_day(block: Callable[[Field, NDArray[np.datetime64]], Field], sst: xr.DataArray) -> xr.DataArray:
    """Apply `block(values [time, lat, lon], days [time])` to `sst(time, lat, lon)`, chunk by chunk if lazy."""
    days = xr.DataArray(sst["time"].values, dims="time")
    return xr.apply_ufunc(
        block,
        sst,
        days.chunk(time=sst.chunksizes["time"]) if sst.chunks else days,
        input_core_dims=[["lat", "lon"], []],
        output_core_dims=[["lat", "lon"]],
        dask="parallelized",
        output_dtypes=[sst.dtype],
        keep_attrs=True,
    )


def _place(
    sst: xr.DataArray, where: NDArray[np.bool_], day: NDArray[np.datetime64], values: Field | None = None
) -> str:
    """Describe the first place where `where [time, lat, lon]` is true, and its value."""
    when, row, col = (int(index[0]) for index in np.nonzero(where))
    date = np.datetime_as_string(day[when], unit="D")
    place = f"{date} at lat {float(sst['lat'][row]):g}, lon {float(sst['lon'][col]):g}"
    return place if values is None else f"{values[when, row, col]:g} degC on {place}"


def _check_land(ocean: xr.DataArray, path: Path) -> None:
    """Raise SSTCastError if `ocean(lat, lon)` differs from OISST's own mask in more than a few cells."""
    lat, lon = ocean["lat"].values, ocean["lon"].values % 360
    wrong = ocean.values == land_mask(lat, lon)
    if wrong.sum() > ASTRAY[0] and wrong.mean() > ASTRAY[1]:
        row, col = (int(i[0]) for i in np.nonzero(wrong))
        kind = "ocean" if ocean.values[row, col] else "land"
        raise SSTCastError(
            f"{path}: calls itself OISST, but has {kind} at lat {lat[row]:g}, lon {lon[col]:g} and at "
            f"{int(wrong.sum()) - 1} more cells on the wrong side of the coast; download it again"
        )
