"""Reports days and cells without values, or fills them linearly in time where the configuration allows it."""

from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from sstcast.errors import SSTCastError

DAYS_AT_ONCE = 32  # filled together if the source has one file per day


def fill_gaps(sst: xr.DataArray, gaps: int, path: Path) -> xr.DataArray:
    """Fill gaps of up to `gaps` days linearly in time, cell by cell; do not extrapolate at either end.

    With `gaps` 0, return `sst(time, lat, lon)` unchanged. Otherwise fill it lazily; a lazy coordinate
    `filled(time)` counts the cells filled on each day.

    Raises SSTCastError if more than `gaps` consecutive days are missing.
    """
    days = sst.indexes["time"]
    calendar = pd.date_range(days[0], days[-1])
    if (longest := longest_gap(days)) > gaps:
        missing = calendar.difference(days)
        raise SSTCastError(
            f"{path}: {len(missing)} missing day(s) in time, the first {missing[0]:%Y-%m-%d}, up to {longest} in "
            f"a row; fetch them, or fill them in with data.gaps: {longest}"
        )
    if not gaps:
        return sst
    whole = sst.reindex(time=calendar, fill_value={sst.name: np.nan, "file": ""})
    whole = whole.chunk(time=max(DAYS_AT_ONCE, gaps, *whole.chunksizes["time"]))
    values = whole.data.map_overlap(_fill, depth={0: gaps}, boundary="none", gaps=gaps, dtype=whole.dtype)
    filled = whole.copy(data=values)
    count = (filled.notnull() & whole.chunk(filled.chunksizes).isnull()).sum(("lat", "lon"), dtype="int32")
    return filled.assign_coords(filled=count)


def gaps_filled(sst: xr.DataArray) -> str:
    """Return which days `fill_gaps` filled, and in how many cells, as text; this reads all of `sst`."""
    if "filled" not in sst.coords:
        return ""
    count = sst["filled"].compute().drop_vars("filled")
    days = count[count.values > 0]
    return ", ".join(
        f"{day:%Y-%m-%d}: {n} cells" for day, n in zip(days.indexes["time"], days.values, strict=True)
    )


def longest_gap(days: pd.DatetimeIndex) -> int:
    """Return the length in days of the longest gap between ascending `days`."""
    return int(np.diff(days.values).max(initial=np.timedelta64(1, "D")) / np.timedelta64(1, "D")) - 1


def _fill(values: NDArray[np.float32], gaps: int) -> NDArray[np.float32]:
    """Fill `[time, lat, lon]` in gaps of up to `gaps` days between two days with a value."""
    some = np.isfinite(values)
    lacking = some.any(0) & ~some.all(0)
    if not lacking.any():
        return values
    series, has = values[:, lacking], some[:, lacking]
    day = np.arange(len(series), dtype=np.int32)[:, None]
    before = np.maximum.accumulate(np.where(has, day, -1), axis=0)
    after = np.minimum.accumulate(np.where(has, day, len(series))[::-1], axis=0)[::-1]
    gap = ~has & (before >= 0) & (after < len(series)) & (after - before - 1 <= gaps)
    when, cell = np.nonzero(gap)
    first, last = before[gap], after[gap]
    share = ((when - first) / (last - first)).astype(values.dtype)
    series[gap] = series[first, cell] * (1 - share) + series[last, cell] * share
    filled = values.copy()
    filled[:, lacking] = series
    return filled
