"""Checks that values are plausible SST: their range, day-to-day changes, and a constant land mask.

The checks run block by block while a prepared store is written.
"""

import math
import uuid
from collections.abc import Callable
from pathlib import Path

import numpy as np
import xarray as xr
from dask.array.overlap import overlap
from numpy.typing import NDArray

from sstcast.errors import SSTCastError
from sstcast.log import LOG
from sstcast.ocean.fields import PLAUSIBLE
from sstcast.ocean.grid import ocean_cells

COLDEST, WARMEST = PLAUSIBLE
FREEZING_RANGE = (-2.0, -1.5)  # degC; SST under ice stays at the freezing point, so it may be constant
LOOKED_AT = 8  # days examined to find a fill value for land
FEWEST_DAYS = 30  # days; shorter records are not searched for constant cells
JUDGED = 4096  # cells compared between two days; all cells would take too long

Field = NDArray[np.float32]


def mask_constant_cells(sst: xr.DataArray, path: Path) -> xr.DataArray:
    """Mask cells with the same number on every day (-999, 0, 1e30) as land, and report this on stderr.

    A few days are enough to find these cells. All other days of `sst(time, lat, lon)` are checked when computed.

    Raises SSTCastError if no cell ever changes.
    """
    if sst.sizes["time"] < FEWEST_DAYS or not _constant(sst[-FEWEST_DAYS:].values, share=0.5).any():
        return sst  # the usual case; a fill value would be on most of these days, even if some lack values
    days = np.unique(np.linspace(0, sst.sizes["time"] - 1, LOOKED_AT).astype(int))
    sample = sst.isel(time=days).values  # may read the whole record
    constant = _constant(sample)
    if not constant.any():
        return sst
    if constant[np.isfinite(sample[0])].all():
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
            location = _describe_first(sst, differs, day, values)
            raise SSTCastError(
                f"{path}: {location}, but this cell has {fill_text} on other days; correct the file"
            )
        return np.where(land, np.float32(np.nan), values)

    return by_day(block, sst)


def _constant(values: Field, share: float = 1) -> NDArray[np.bool_]:
    """Return a mask of cells in `[time, lat, lon]`, except ice, with one number on at least a `share` of days."""
    # The middle number is the most frequent one, if that fills more than half of the days.
    middle = np.sort(values, axis=0)[len(values) // 2]
    return ((values == middle).mean(0) >= share) & ~((middle >= FREEZING_RANGE[0]) & (middle <= FREEZING_RANGE[1]))


def checked(sst: xr.DataArray, path: Path, gaps: int = 0) -> tuple[xr.DataArray, xr.DataArray]:
    """Add checks to a lazy `sst(time, lat, lon)`. Returns it and its ocean mask `(lat, lon)`.

    Cells with a value in the first year are ocean. Computing a block raises SSTCastError, with date, cell and
    value, if a temperature is outside the range of SST, an ocean cell has no value, a land cell has a value, or
    two consecutive days differ implausibly.
    """
    ocean = ocean_cells(sst)
    land = ~ocean.values

    def block(values: Field, day: NDArray[np.datetime64]) -> Field:
        low, high = np.fmin.reduce(values, axis=None), np.fmax.reduce(values, axis=None)
        if low < COLDEST or high > WARMEST:
            location = _describe_first(sst, (values < COLDEST) | (values > WARMEST), day, values)
            raise SSTCastError(
                f"{path}: {location}; SST lies in {COLDEST:g}..{WARMEST:g}: set data.units if the unit is wrong, "
                "or set _FillValue in the file if this number marks missing values"
            )
        missing = np.isnan(values)
        if (missing != land).any():
            if (empty_ocean := missing & ~land).any():
                count = empty_ocean.any((1, 2)).sum()
                location = _describe_first(sst, empty_ocean, day)
                raise SSTCastError(
                    f"{path}: ocean cells lack values on {count} or more days, the first {location}, longer "
                    f"than data.gaps: {gaps}; raise it to fill them linearly in time, or use a gap-free "
                    "(level 4) analysis"
                )
            location = _describe_first(sst, ~missing & land, day, values)
            raise SSTCastError(
                f"{path}: {location}, but this cell has no values in the first year; remove those days"
            )
        check_changes(values, day, path)
        return values

    return by_day(block, sst, before=1), ocean


def check_changes(values: Field, day: NDArray[np.datetime64], path: Path) -> None:
    """Raise SSTCastError if `values [time, lat, lon]` change implausibly from one day to the next."""
    for index in range(1, len(values)):
        if change := jump(values[index], values[index - 1]):
            earlier_date, later_date = np.datetime_as_string(day[index - 1 : index + 1], unit="D")
            raise SSTCastError(
                f"{path}: {earlier_date} and {later_date} differ by {change:.1f} degC on average, which is not "
                "plausible; one is damaged, of another variable or in other units: correct or remove it"
            )


def jump(field: Field, reference: Field, days: int = 1) -> float:
    """Return the mean absolute difference in degC of two fields `[lat, lon]`, `days` apart, or 0 if plausible.

    From one day to the next, OISST changes by at most 0.8 degC averaged over 32 x 32 cells, and by 3 degC in a
    single cell (35 years of the sample). The limits are about three times larger. NaN is ignored.
    """
    stride = max(1, math.isqrt(field.size // JUDGED))
    change = np.abs(field[::stride, ::stride] - reference[::stride, ::stride])
    change = change[np.isfinite(change)]
    if not change.size or change.mean() <= 1 + days + 6 / np.sqrt(change.size):
        return 0.0
    return float(change.mean())


def by_day(
    block: Callable[[Field, NDArray[np.datetime64]], Field], field: xr.DataArray, before: int = 0
) -> xr.DataArray:
    """Apply `block(values [time, lat, lon], days [time])` to each chunk of days of `field(time, lat, lon)`.

    `block` also receives the last `before` days of the previous chunk. Its results for them are dropped.
    """
    days = field["time"].values
    if not field.chunks:
        return field.copy(data=block(field.values, days))
    lengths = field.chunksizes["time"]
    firsts = np.cumsum((0, *lengths))[:-1] - before

    def apply_to_chunk(values: Field, block_id: tuple[int, ...]) -> Field:
        first = max(int(firsts[block_id[0]]), 0)
        return block(values, days[first : first + len(values)])[-lengths[block_id[0]] :]

    padded_data = overlap(field.data, {0: (before, 0), 1: 0, 2: 0}, "none") if before else field.data
    name = f"by-day-{uuid.uuid4().hex}"  # dask would hash everything that the function refers to
    return field.copy(
        data=padded_data.map_blocks(apply_to_chunk, chunks=field.chunks, dtype=field.dtype, name=name)
    )


def _describe_first(
    sst: xr.DataArray, where: NDArray[np.bool_], day: NDArray[np.datetime64], values: Field | None = None
) -> str:
    """Describe date, position and value of the first True in `where [time, lat, lon]`."""
    day_index, row, col = (int(index[0]) for index in np.nonzero(where))
    date = np.datetime_as_string(day[day_index], unit="D")
    location = f"{date} at lat {float(sst['lat'][row]):g}, lon {float(sst['lon'][col]):g}"
    return location if values is None else f"{values[day_index, row, col]:g} degC on {location}"
