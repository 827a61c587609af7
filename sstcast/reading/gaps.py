"""Days and cells that are missing in a record: where they end it, and which were filled linearly in time."""

import datetime as dt
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from sstcast.config import DataConfig
from sstcast.errors import SSTCastError, counted
from sstcast.names import DAY
from sstcast.reading.daily_field import source_of
from sstcast.storage.stores import open_zarr

CUT = "cut"  # attribute of SST: why the record ends before days that its source holds
DAYS_AT_ONCE = 32  # minimum number of days per chunk when gaps are filled
GAP_COUNTS = (
    "filled",
    "sea",
)  # coordinates `(time)` with the number of cells that were filled, and that have a value


class GapRule(NamedTuple):
    """Which gaps of a record end it, and which are filled.

    Attributes:
        is_own: whether the splits are those of the source. Those of another one do not tell which gaps may end it,
            so any gap that is not filled is refused.
        most: the most consecutive days that are filled after the validation, if more than `data.gaps`.
        date: the day around which the days without a gap are wanted, wherever another gap ends the record.
    """

    is_own: bool = True
    most: int = 0
    date: dt.date | None = None


def continuous(sst: xr.DataArray, data: DataConfig, rule: GapRule, cube: Path) -> xr.DataArray:
    """Return the days of a record without a gap, those that were filled by `fill_gaps` among them.

    It ends before the first gap after the validation that cannot be filled (see `until_gap`), of which the
    attribute `cut` tells, or holds the days around a date.

    Args:
        sst: `sst(time, lat, lon)`, NaN on land.
        data: the source, the splits and `gaps`.
        rule: what is filled, and where the record ends.
        cube: the store made from the source, if there is one. Its days are known to be whole.

    Raises SSTCastError if an earlier gap is longer than `data.gaps`.
    """
    if not rule.is_own:
        return fill_gaps(sst, data.gaps, data.path)
    validated, most = data.splits.validation[1], max(rule.most, data.gaps)
    if rule.date is not None:
        record, cut = stretch_of(sst, most, validated, rule.date), ""
    else:
        record, cut = until_gap(sst, most, validated, data.path, *_to_read(data, cube))
    days = record.indexes["time"]
    check_gaps(days[: days.searchsorted(np.datetime64(validated), "right") + 1], data.gaps, data.path)
    return fill_gaps(record, most, data.path).assign_attrs(sst.attrs | ({CUT: cut} if cut else {}))


def _to_read(data: DataConfig, cube: Path) -> tuple[int, dt.date]:
    """Return how many of the last days are to be read, to find partial ones, and after which day they may lie.

    Those in the splits are refused when the cube is made.
    """
    last = data.splits.test[1]
    if source_of(data.source).checked:
        return 0, last
    with suppress(SSTCastError):
        if cube.exists():
            last = max(last, open_zarr(cube, "prepare it again").indexes["time"][-1].date())
    return data.history, last


def fill_gaps(sst: xr.DataArray, gaps: int, path: Path) -> xr.DataArray:
    """Fill gaps of up to `gaps` days linearly in time, cell by cell, without extrapolation at either end.

    With `gaps` 0, `sst(time, lat, lon)` is returned unchanged. Otherwise it is filled lazily, and lazy coordinates
    count the cells of each day that were `filled(time)`, and those with a value, `sea(time)`.

    Raises SSTCastError if more than `gaps` consecutive days are missing.
    """
    days = sst.indexes["time"]
    check_gaps(days, gaps, path)
    if not gaps:
        return sst
    daily_sst = sst.reindex(time=pd.date_range(days[0], days[-1]), fill_value=np.nan)
    daily_sst = daily_sst.chunk(time=max(DAYS_AT_ONCE, gaps, *daily_sst.chunksizes["time"]))
    values = daily_sst.data.map_overlap(_fill, depth={0: gaps}, boundary="none", gaps=gaps, dtype=daily_sst.dtype)
    filled = daily_sst.copy(data=values)
    has_value = filled.notnull()
    was_filled = has_value & daily_sst.chunk(filled.chunksizes).isnull()
    counts = (cells.sum(("lat", "lon"), dtype="int32") for cells in (was_filled, has_value))
    return filled.assign_coords(dict(zip(GAP_COUNTS, counts, strict=True)))


def check_gaps(days: pd.DatetimeIndex, gaps: int, path: Path) -> None:
    """Raise SSTCastError if more than `gaps` consecutive days are missing between ascending `days`."""
    if (longest := longest_gap(days)) > gaps:
        missing_days = pd.date_range(days[0], days[-1]).difference(days)
        raise SSTCastError(
            f"{path}: {counted(len(missing_days), 'missing day')} in time, the first {missing_days[0]:%Y-%m-%d}, "
            f"up to {longest} in a row; add them, or fill them with data.gaps: {longest}"
        )


def until_gap(
    sst: xr.DataArray, gaps: int, validated: dt.date, path: Path, newest: int = 0, known: dt.date | None = None
) -> tuple[xr.DataArray, str]:
    """Cut a record before the first gap after a day that cannot be filled, so that it ends on a whole day.

    A gap is a stretch of more than `gaps` missing days, or a day on which a cell of the sea has no value although
    gaps were filled. Earlier gaps are left to `fill_gaps` and `plausible.checked`, which refuse them.

    Args:
        sst: `sst(time, lat, lon)` before its gaps are filled, NaN on land.
        gaps: the most consecutive days that are filled.
        validated: the day, the last of the validation.
        path: the source, for messages.
        newest: how many of the last days are read, to find those on which only some cells have values.
        known: a day up to which none lacks cells, because stores hold it. The day after it is read too.

    Returns the days before the gap, and why they end there, or "" if no day waits after them.
    """
    days = sst.indexes["time"]
    end, why = len(days), ""
    if (breaks := _breaks(days, gaps, validated)).size:
        end = int(breaks[0]) + 1
        first, last = (day.date() for day in (days[end - 1] + DAY, days[end] - DAY))
        why = f"{dates_in_words([(first, last)])} {'is' if first == last else 'are'} missing"
    whole_until = np.datetime64(max(validated, known or validated))
    start = int(days.searchsorted(whole_until, "right"))
    # A gap that can be filled leaves each cell of the sea a value on one of these days.
    last_validated = sst.sel(time=slice(np.datetime64(validated) - gaps * DAY, np.datetime64(validated)))
    if not newest or start >= end or not last_validated.size:
        return sst[:end], why
    sea = last_validated.notnull().any("time").compute()
    newest_read = (max(start, end - newest), end - 1)
    for first_read, last_read in [(start, start)] * (start < newest_read[0]) + [newest_read]:
        day = _first_not_whole(sst[:end], gaps, sea, first_read, last_read, path)
        if day is None:
            continue
        end = int(days.searchsorted(day))
        why = f"{day:%Y-%m-%d} {'has values at only some cells' if day in days else 'is missing'}"
        while gaps and days[end - 1] > whole_until and (sst[end - 1].isnull() & sea).any():
            end -= 1  # a day that values after the gap would fill
        break
    return sst[:end], why


def stretch_of(sst: xr.DataArray, gaps: int, validated: dt.date, date: dt.date) -> xr.DataArray:
    """Return the days around a `date` without a gap after `validated` that cannot be filled (see `until_gap`)."""
    days = sst.indexes["time"]
    begins = np.array([0, *(_breaks(days, gaps, validated) + 1), len(days)])
    number = max(0, int(days[begins[:-1]].searchsorted(np.datetime64(date), "right")) - 1)
    return sst[begins[number] : begins[number + 1]]


def _breaks(days: pd.DatetimeIndex, gaps: int, validated: dt.date) -> NDArray[np.intp]:
    """Return the positions of the days from `validated` on that more than `gaps` missing days follow."""
    missing = np.diff(days.values) / DAY - 1
    return np.flatnonzero((missing > gaps) & (days.values[:-1] >= np.datetime64(validated)))


def _first_not_whole(
    sst: xr.DataArray, gaps: int, sea: xr.DataArray, first: int, last: int, path: Path
) -> pd.Timestamp | None:
    """Return the first of the days at `first..last` on which the `sea` lacks a value once gaps are filled."""
    around = fill_gaps(sst[max(0, first - gaps - 1) : last + gaps + 2], gaps, path)
    read = around.sel(time=slice(*sst.indexes["time"][[first, last]]))
    lacking = (read.isnull() & sea).any(("lat", "lon")).values
    return read.indexes["time"][lacking.argmax()] if lacking.any() else None


def dates_in_words(spans: Iterable[tuple[dt.date, dt.date]]) -> str:
    """Write ranges of days as `2016-12-14..15, 2016-12-20`."""
    texts = []
    for first, last in spans:
        end = f"{last:%d}" if (first.year, first.month) == (last.year, last.month) else f"{last}"
        texts.append(f"{first}" if first == last else f"{first}..{end}")
    return ", ".join(texts)


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
