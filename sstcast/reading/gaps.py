"""Days and cells that are missing in a record, and those that were filled linearly in time."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from sstcast.errors import SSTCastError, counted

DAYS_AT_ONCE = 32  # minimum number of days per chunk when gaps are filled
GAP_COUNTS = (
    "filled",
    "sea",
)  # coordinates `(time)` with the number of cells that were filled, and that have a value


def fill_gaps(sst: xr.DataArray, gaps: int, path: Path) -> xr.DataArray:
    """Fill gaps of up to `gaps` days linearly in time, cell by cell, without extrapolation at either end.

    With `gaps` 0, `sst(time, lat, lon)` is returned unchanged. Otherwise it is filled lazily, and lazy coordinates
    count the cells of each day that were `filled(time)`, and those with a value, `sea(time)`.

    Raises SSTCastError if more than `gaps` consecutive days are missing.
    """
    days = sst.indexes["time"]
    calendar = pd.date_range(days[0], days[-1])
    if (longest := longest_gap(days)) > gaps:
        missing_days = calendar.difference(days)
        raise SSTCastError(
            f"{path}: {counted(len(missing_days), 'missing day')} in time, the first {missing_days[0]:%Y-%m-%d}, "
            f"up to {longest} in a row; add them, or fill them with data.gaps: {longest}"
        )
    if not gaps:
        return sst
    daily_sst = sst.reindex(time=calendar, fill_value=np.nan)
    daily_sst = daily_sst.chunk(time=max(DAYS_AT_ONCE, gaps, *daily_sst.chunksizes["time"]))
    values = daily_sst.data.map_overlap(_fill, depth={0: gaps}, boundary="none", gaps=gaps, dtype=daily_sst.dtype)
    filled = daily_sst.copy(data=values)
    has_value = filled.notnull()
    was_filled = has_value & daily_sst.chunk(filled.chunksizes).isnull()
    counts = (cells.sum(("lat", "lon"), dtype="int32") for cells in (was_filled, has_value))
    return filled.assign_coords(dict(zip(GAP_COUNTS, counts, strict=True)))


def gaps_filled(sst: xr.DataArray) -> str:
    """List the days that `fill_gaps` filled and their number of cells, as text. This reads all of `sst`."""
    if "filled" not in sst.coords:
        return ""
    counts = xr.Dataset({name: sst[name].drop_vars(GAP_COUNTS) for name in GAP_COUNTS}).compute()
    filled, sea = (counts[name] for name in GAP_COUNTS)
    return ", ".join(
        f"{day:%Y-%m-%d}: {count} of {cells} cells"
        for day, count, cells in zip(filled.indexes["time"], filled.values, sea.values, strict=True)
        if count
    )


def filled_shares(cube: xr.Dataset) -> xr.DataArray:
    """Return the share of the sea that was filled, by `time`, from the attribute `gaps_filled` of a cube."""
    shares = xr.zeros_like(cube["time"], float)
    for day, count, cells in re.findall(r"(\S+): (\d+) of (\d+) cells", cube.attrs.get("gaps_filled", "")):
        shares.loc[{"time": day}] = int(count) / int(cells)
    return shares


def longest_gap(days: pd.DatetimeIndex) -> int:
    """Return the number of missing days in the longest gap between ascending `days`."""
    return int(np.diff(days.values).max(initial=np.timedelta64(1, "D")) / np.timedelta64(1, "D")) - 1


def _fill(values: NDArray[np.float32], gaps: int) -> NDArray[np.float32]:
    """Interpolate `[time, lat, lon]` across gaps of up to `gaps` days between two days with values."""
    is_finite = np.isfinite(values)
    gappy_cells = is_finite.any(0) & ~is_finite.all(0)
    if not gappy_cells.any():
        return values
    series, has_value = values[:, gappy_cells], is_finite[:, gappy_cells]
    day = np.arange(len(series), dtype=np.int32)[:, None]
    previous_day = np.maximum.accumulate(np.where(has_value, day, -1), axis=0)
    next_day = np.minimum.accumulate(np.where(has_value, day, len(series))[::-1], axis=0)[::-1]
    gap = ~has_value & (previous_day >= 0) & (next_day < len(series)) & (next_day - previous_day - 1 <= gaps)
    gap_day, cell = np.nonzero(gap)
    first, last = previous_day[gap], next_day[gap]
    share = ((gap_day - first) / (last - first)).astype(values.dtype)
    series[gap] = series[first, cell] * (1 - share) + series[last, cell] * share
    filled = values.copy()
    filled[:, gappy_cells] = series
    return filled
