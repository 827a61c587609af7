"""The sea of a field: numbers that mark land are masked, days after the last value cut, and values judged.

Whatever averages SST, over a box, a block or the cells of any grid, takes it `without_land`, asks `sea_of` which
cells are sea, and has the values of those that it uses `judged`, before it averages them.
"""

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast.errors import SSTCastError, counted
from sstcast.log import LOG, warn_once
from sstcast.reading.fields import PLAUSIBLE
from sstcast.reading.grid import ocean_cells
from sstcast.types import Mask

COLDEST, WARMEST = PLAUSIBLE
OUTSIDE = (
    f"SST lies in {COLDEST:g}..{WARMEST:g}: set data.units if the unit is wrong, or set _FillValue in the file if "
    "this number marks missing values"
)
AXES, POSITION = ("time", "init_time", "lead", "member"), ("lat", "lon")
FREEZING_RANGE = (-2.0, -1.5)  # degC; SST under ice stays at the freezing point, so it may be constant
LOOKED_AT = 8  # days examined to find a number that marks land
FEWEST_DAYS = 30  # shorter records may not change, so that only numbers that are no temperatures mark land
DAYS_AT_ONCE = 32
YEAR = 365.25  # days


Values = NDArray[Any]


def without_land(
    field: xr.DataArray, path: Path, is_checked: bool = False, sea: xr.DataArray | None = None
) -> xr.DataArray:
    """Return SST `(..., row, column)` in degC, NaN on land.

    Only give the cells that are used. Those with the same number on every day (-999, 0, 1e30) are land, which a
    line reports. Days after the last one with a value are left out, with a line.

    Args:
        field: the temperatures, on days or of forecasts.
        path: their source, for messages.
        is_checked: whether they were checked when they came.
        sea: the mask of the sea, if it is known, so that land need not be masked.

    Raises SSTCastError if no cell ever changes. So does computing a block in which a number that marks land is not
    on all days of its cell.
    """
    if is_checked or not field.size:
        return field
    if sea is None:
        return _masked(field, path)
    return until_last_value(field, path, sea.values) if "time" in field.dims else field


def sea_of(field: xr.DataArray) -> xr.DataArray:
    """Return the mask of cells with a value in the first year, or in the first forecasts that are not missing."""
    if "time" in field.dims:
        return ocean_cells(field)
    for date in range(field.sizes["init_time"]):
        values = field.isel(init_time=date, drop=True)
        ocean = values.notnull().any(values.dims[:-2]).compute()
        if ocean.any():
            break
    return ocean


def judged(field: xr.DataArray, used: Mask, path: Path, remedy: str = OUTSIDE) -> xr.DataArray:
    """Add a check to temperatures `(..., row, column)` in degC before those of several cells are averaged.

    Computing a block raises SSTCastError, ending in `remedy`, if a value of a `used [row, column]` cell is outside
    the range of SST.
    """

    def block(values: Values, first: tuple[int, ...]) -> Values:
        outside = used & ((values < COLDEST) | (values > WARMEST))
        if outside.any():
            raise SSTCastError(f"{path}: {_described(field, outside, values, first)}; {remedy}")
        return values

    return _by_block(block, field)


def until_last_value(sst: xr.DataArray, path: Path, sea: Mask | bool = True) -> xr.DataArray:
    """Return `sst(time, row, column)` up to the last day with a value of a cell of the `sea [row, column]`.

    A line tells of the days that are left out. Of a field without any value, none are.
    """
    count = sst.sizes["time"]
    kept = 0
    for end in (count, *range(count - 1, 0, -DAYS_AT_ONCE)):
        begin = end - 1 if end == count else max(0, end - DAYS_AT_ONCE)  # the last day alone tells in most cases
        is_known = (np.isfinite(sst[begin:end].values) & sea).any((1, 2))
        if is_known.any():
            kept = begin + int(np.flatnonzero(is_known)[-1]) + 1
            break
    if not kept or kept == count:
        return sst
    last = np.datetime_as_string(sst["time"].values[kept - 1], unit="D")
    warn_once(
        f"{path}: has no value after {last} in the region; left out: {counted(count - kept, 'day')} at its end"
    )
    return sst[:kept]


def sample_days(count: int) -> NDArray[np.intp]:
    """Return the positions of eight of `count` days, spread over the record, and over the year if it is longer."""
    days = np.linspace(0, count - 1, LOOKED_AT)
    if count > 2 * YEAR:
        season = np.arange(LOOKED_AT) / LOOKED_AT * YEAR
        days += (season - days + YEAR / 2) % YEAR - YEAR / 2
    return np.unique(days.clip(0, count - 1).astype(int))


def _masked(field: xr.DataArray, path: Path) -> xr.DataArray:
    """Return a field without the cells that have one number (see `without_land`)."""
    is_record = "time" in field.dims
    if is_record:
        last = field[-FEWEST_DAYS:].values
        if not np.isfinite(last[-1]).any():
            field = until_last_value(field, path)
            last = field[-FEWEST_DAYS:].values
        if not constant_cells(last, least=0.5)[0].any():
            return field  # the usual case: a number that marks land would be on most of these days
        sample = field[sample_days(field.sizes["time"])].values  # may read the whole record
    else:
        constant, number = constant_cells(_of_first_dates(field, 1))
        if not (constant & _is_no_temperature(number)).any():
            return field
        sample = _of_first_dates(field, LOOKED_AT)
    constant, number = constant_cells(sample)
    is_short = not is_record or field.sizes["time"] < FEWEST_DAYS
    if is_short:
        constant &= _is_no_temperature(number) & ((number != 0) | is_record | (len(sample) > 1))
    else:
        constant = _constant_on_all_days(field, constant, number)
    if not constant.any():
        return field
    if constant[np.isfinite(sample).any(0)].all():
        if is_short:
            return field  # perhaps in other units, which the range of SST tells
        raise SSTCastError(f"{path}: no cell ever changes ({number[constant][0]:g} degC); give daily data")
    numbers, counts = np.unique(number[constant], return_counts=True)
    marks = [n for n, count in zip(numbers, counts, strict=True) if count > 1 or not COLDEST <= n <= WARMEST]
    land = constant & np.isin(number, marks)
    if not land.any():
        return field
    marks_text = ", ".join(f"{n:g}" for n in marks)
    LOG.warning(f"{path}: {land.sum()} cells hold {marks_text} degC on every day: taken as land")

    def block(values: Values, first: tuple[int, ...]) -> Values:
        differs = land & (values != number) & ~np.isnan(values)
        if differs.any():
            told = f"{_described(field, differs, values, first)}, but this cell has {marks_text} on other days"
            raise SSTCastError(f"{path}: {told}; correct the file")
        return np.where(land, np.float32(np.nan), values)

    return _by_block(block, until_last_value(field, path, ~land) if is_record else field)


def _of_first_dates(field: xr.DataArray, count: int) -> Values:
    """Return the forecasts `[forecast, row, column]` of some dates, the first of which has values."""
    known: list[Values] = []
    for date in range(field.sizes["init_time"]):
        values = field.isel(init_time=date).values.reshape(-1, *field.shape[-2:])
        known += [values[np.isfinite(values).any((1, 2))]] if np.isfinite(values).any() else []
        if len(known) == count:
            break
    return np.concatenate(known or [np.full((1, *field.shape[-2:]), np.nan)])


def _is_no_temperature(number: Values) -> Mask:
    return np.isfinite(number) & ((number == 0) | ~((number >= COLDEST) & (number <= WARMEST)))


def constant_cells(values: Values, least: float = 1) -> tuple[Mask, Values]:
    """Return which cells of `[day, row, column]`, except ice, have one number on most days and, unless on a share
    `least` of the days, no other on any. Also returns the numbers, `[row, column]`, NaN without any on most days.
    """
    middle = np.sort(values, axis=0)[len(values) // 2]  # the most frequent number, if it fills more than half
    is_middle = values == middle
    constant = (
        is_middle.mean(0) >= least if least < 1 else (is_middle | np.isnan(values)).all(0) & ~np.isnan(middle)
    )
    return constant & ~((middle >= FREEZING_RANGE[0]) & (middle <= FREEZING_RANGE[1])), middle


def _constant_on_all_days(field: xr.DataArray, constant: Mask, number: Values) -> Mask:
    """Return which cells that seem constant are, of those whose number may be a temperature other than 0."""
    unsure = constant & ~_is_no_temperature(number)
    for begin in range(0, field.sizes["time"], DAYS_AT_ONCE):
        if not unsure.any():
            break
        values = field[begin : begin + DAYS_AT_ONCE].values
        changing = unsure & ((values != number) & ~np.isnan(values)).any(0)
        constant, unsure = constant & ~changing, unsure & ~changing
    return constant


def _by_block(block: Callable[[Values, tuple[int, ...]], Values], field: xr.DataArray) -> xr.DataArray:
    """Apply `block(values, first)` to blocks of whole fields, which begin at `first` in `field`."""

    def of_chunk(values: Values, block_info: Any = None) -> Values:
        return block(values, tuple(start for start, _ in block_info[0]["array-location"]))

    if not field.chunks:
        return field.copy(data=block(field.values, (0,) * field.ndim))
    data = field.data.rechunk(dict.fromkeys((field.ndim - 2, field.ndim - 1), -1))
    name = f"sea-{uuid.uuid4().hex}"  # dask would hash everything that the function refers to
    return field.copy(data=data.map_blocks(of_chunk, dtype=field.dtype, meta=np.empty((), field.dtype), name=name))


def _described(field: xr.DataArray, where: Mask, values: Values, first: tuple[int, ...]) -> str:
    """Describe value, date and position of the first True of `where`, in a block of a field."""
    at = tuple(int(index[0]) for index in np.nonzero(where))
    return f"{values[at]:g} degC {place_of(field[tuple(map(sum, zip(first, at, strict=True)))])}"


def place_of(value: xr.DataArray) -> str:
    """Describe date and position of a value by its coordinates."""
    at = {axis: value[axis].values for axis in (*AXES, *POSITION) if axis in value.coords}
    dates = [
        f"{axis} {str(at[axis])[:10] if at[axis].dtype.kind == 'M' else at[axis]}" for axis in AXES if axis in at
    ]
    place = f"at lat {float(at['lat']):g}, lon {float(at['lon']):g}"
    return f"on {', '.join(dates)} {place}".replace("on time ", "on ")
