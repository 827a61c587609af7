"""Finds the number that marks land in a file without a fill value: cells that hold it on every day."""

from pathlib import Path

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast.errors import SSTCastError
from sstcast.log import LOG
from sstcast.reading.by_day import Field, by_day
from sstcast.reading.plausible import COLDEST, WARMEST, describe_first

FREEZING_RANGE = (-2.0, -1.5)  # degC; SST under ice stays at the freezing point, so it may be constant
LOOKED_AT = 8  # days examined to find a fill value for land
FEWEST_DAYS = 30  # shorter records may not change, so that only numbers that are no temperatures mark land


def mask_constant_cells(sst: xr.DataArray, path: Path) -> xr.DataArray:
    """Mask cells with the same number on every day (-999, 0, 1e30) as land, and report this on stderr.

    A few days are enough to find these cells. All other days of `sst(time, lat, lon)` are checked when computed.
    In a record of less than 30 days, only 0 and numbers outside the range of SST mark land.

    Raises SSTCastError if no cell ever changes.
    """
    is_short = sst.sizes["time"] < FEWEST_DAYS
    if not constant_cells(sst[-FEWEST_DAYS:].values, share=0.5).any():
        return sst  # the usual case; a fill value would be on most of these days, even if some lack values
    days = np.unique(np.linspace(0, sst.sizes["time"] - 1, LOOKED_AT).astype(int))
    sample = sst.isel(time=days).values  # may read the whole record
    constant = constant_cells(sample)
    if is_short:
        constant &= (sample[0] == 0) | ~((sample[0] >= COLDEST) & (sample[0] <= WARMEST))
    if not constant.any():
        return sst
    if constant[np.isfinite(sample[0])].all():
        if is_short:
            return sst  # perhaps in other units, which the range of SST tells
        raise SSTCastError(f"{path}: no cell ever changes ({sample[0][constant][0]:g} degC); give daily data")
    numbers, counts = np.unique(sample[0][constant], return_counts=True)
    fill_values = [n for n, count in zip(numbers, counts, strict=True) if count > 1 or not COLDEST <= n <= WARMEST]
    land = constant & np.isin(sample[0], fill_values)
    if not land.any():
        return sst
    fill_text = ", ".join(f"{n:g}" for n in fill_values)
    LOG.warning(f"{path}: {land.sum()} cells hold {fill_text} degC on every day: taken as land")

    def block(values: Field, day: NDArray[np.datetime64]) -> Field:
        differs = land & (values != sample[0])
        if differs.any():
            location = describe_first(sst, differs, day, values)
            raise SSTCastError(
                f"{path}: {location}, but this cell has {fill_text} on other days; correct the file"
            )
        return np.where(land, np.float32(np.nan), values)

    return by_day(block, sst)


def constant_cells(values: Field, share: float = 1) -> NDArray[np.bool_]:
    """Return a mask of cells in `[time, lat, lon]`, except ice, with one number on at least a `share` of days."""
    # The middle number is the most frequent one, if that fills more than half of the days.
    middle = np.sort(values, axis=0)[len(values) // 2]
    return ((values == middle).mean(0) >= share) & ~((middle >= FREEZING_RANGE[0]) & (middle <= FREEZING_RANGE[1]))
