"""The last days of a run's source, which is brought up to date where that can be done."""

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import numpy as np
import xarray as xr

from sstcast.config import DataConfig
from sstcast.errors import SSTCastError, reading_later
from sstcast.ocean.plausible import check_changes
from sstcast.ocean.raw import is_final, is_raw_store, look_into, open_days
from sstcast.ocean.reading import REMEDY, open_region, source_path
from sstcast.sources import SOURCES, find_source
from sstcast.sources.fetch import fetch
from sstcast.sources.request import FetchReport, FetchRequest
from sstcast.sources.status import StoreStatus, status

DAY = dt.timedelta(days=1)
REPLACED = dt.timedelta(days=60)  # NOAA replaces preliminary days after about two weeks


def last_days(
    data: DataConfig,
    date: dt.date | None,
    today: dt.date,
    say: Callable[[str], object] = print,
    count: int | None = None,
) -> xr.DataArray:
    """Return the days of the region up to `date`, or to the last that can be had before `today`.

    They are `count`, by default `data.history`.

    Days that a fetched store lacks are fetched, and its preliminary ones among them replaced if NOAA has made
    them final; `say` gets the lines to print. Returns `sst(time, lat, lon)` in degC on the source's own cells;
    of a fetched store the coordinate `preliminary(time)` tells which days NOAA will still replace.

    Raises SSTCastError if the source is not there, does not hold these days and they cannot be fetched, or the
    region is outside its cells or all land.
    """
    path, count = source_path(data.source), count or data.history
    if is_raw_store(path):
        _extend(path, date, count, today, say)
    with open_region(data) as sst:
        held = [day.astype("datetime64[D]").item() for day in sst["time"].values[[0, -1]]]
        date = date or held[1]
        first = date - (count - 1) * DAY
        if first < held[0] or date > held[1]:
            raise SSTCastError(
                f"{path}: a forecast from {date} needs {first}..{date}, it holds {held[0]}..{held[1]}; "
                "choose another --date or fetch them"
            )
        with reading_later(path, REMEDY):
            days = sst.sel(time=slice(np.datetime64(first), np.datetime64(date))).load()
    check_changes(days.values, days["time"].values, path)
    if is_raw_store(path):
        # 0 is a day that was filled in
        status_of = open_days(path)["status"].reindex(time=days["time"], fill_value=0)
        preliminary = [not is_final(status) for status in status_of.values.tolist()]
        days = days.assign_coords(preliminary=("time", preliminary))
    if not days.notnull().any():
        raise SSTCastError(f"{path}: the region is all land; choose another")
    return days


def bring_up_to_date(data: DataConfig, date: dt.date | None, today: dt.date) -> FetchReport | None:
    """Fetch the days up to `date`, or to the day before `today`, and what NOAA has made final since.

    Returns what has been done, and None of a source that nothing can be fetched from. Raises SSTCastError if the
    store is unusable.
    """
    path = source_path(data.source)
    if not is_raw_store(path):
        return None
    held, last, origin, grows = _fetched(path)
    if not grows:
        return None
    end = date or max(last, today - DAY)
    start = min([last + DAY, end, *(day for day in held.preliminary if last - day < REPLACED)])
    return fetch(FetchRequest(start, end, origin, str(look_into(path).box), out=path), lambda line: None)


def _extend(path: Path, date: dt.date | None, history: int, today: dt.date, say: Callable[[str], object]) -> None:
    """Fetch what the store lacks of the days up to `date`, and those between its end and them: it has no gaps."""
    held, last, origin, grows = _fetched(path)
    if date is None:
        if not grows:
            return
        date = max(last, today - DAY)
    first = date - (history - 1) * DAY
    if first < min(held.origin) or all(date - n * DAY in held.origin for n in range(history)):
        return
    if date > today:
        raise SSTCastError(f"--date {date}: has not come yet; {path} holds days up to {last}")
    if not grows:
        raise SSTCastError(
            f"{path}: ends on {last}, its days are from {origin!r}; "
            f"run `sstcast fetch --source ... --end {date} --out {path}` first"
        )
    fetch(FetchRequest(min(first, last + DAY), date, origin, str(look_into(path).box), out=path), say)


def _fetched(path: Path) -> tuple[StoreStatus, dt.date, str, bool]:
    """Return what a store holds, its last day, the source of this, and whether that source gets new days."""
    held = status(path)[0]
    if not held.origin:
        raise SSTCastError(f"{path}: holds no days; run `sstcast fetch` first")
    last = max(held.origin)
    origin = held.origin[last].removesuffix("_preliminary")
    return held, last, origin, origin in SOURCES and find_source(origin).grows
