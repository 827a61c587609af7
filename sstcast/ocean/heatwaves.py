"""Marine heatwaves and cold spells as defined by Hobday et al. (2016, Prog. Oceanogr.; 2018, Oceanography).

A heatwave lasts at least five consecutive days above the seasonally varying 90th percentile. Two heatwaves with at
most two days between them count as one. The category of a day, I to IV, counts the multiples of the threshold's
departure from the climatology that the day's departure exceeds. Cold spells follow the same definition below the
10th percentile.

The climatology here is Hobday's, the mean over the same window of days as the percentile, and not the harmonic one
in `anomalies`. So events and categories agree with other implementations of the definition.
"""

import json
from functools import reduce
from typing import TypeVar

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast._version import __version__
from sstcast.config import DataConfig
from sstcast.errors import reading
from sstcast.ocean.anomalies import DAYS_OF_YEAR, on_days
from sstcast.ocean.prepared import Prepared
from sstcast.storage.cf import cached, describe
from sstcast.storage.scratch import in_scratch, release, scratch_array

HEATWAVE, COLD_SPELL = 90, 10  # percentiles
WINDOW = 11  # days in the window for the statistics of a day of year
SMOOTHING = 31  # days in the running mean of the statistics
SHORTEST, LONGEST_GAP = 5, 2  # days: minimum duration, and maximum gap between two events that count as one
AROUND = SHORTEST - 1 + LONGEST_GAP  # days before and after a day that decide whether it is part of an event
CATEGORIES = ("none", "moderate", "strong", "severe", "extreme")
LIMITS = ("climatology", "heatwave_threshold", "cold_spell_threshold")
FREQUENCIES = ("exceedance_frequency", "event_frequency")
CELLS_AT_ONCE = 256  # cells whose values fit in the cache
VALUES_AT_ONCE = 2**25  # values in a band of latitudes

Array = NDArray[np.floating]
Days = TypeVar("Days", NDArray[np.bool_], NDArray[np.uint64])


def limits(sst: xr.DataArray) -> xr.Dataset:
    """Compute climatology and thresholds of heatwaves and cold spells from `sst(time, ...)` in the base period.

    Returns `climatology`, `heatwave_threshold` and `cold_spell_threshold(dayofyear, ...)` for days 1..366, in the
    units of `sst`. They are NaN in cells where `sst` is NaN on any day. Each is computed over the days of all
    years within 5 days of the day of year, then smoothed over 31 days. Both windows wrap around the year.
    """
    sst = sst.transpose("time", ...)
    apart = np.abs(sst["time"].dt.dayofyear.values - DAYS_OF_YEAR[:, None])
    near = [np.flatnonzero(days <= WINDOW // 2) for days in np.minimum(apart, len(DAYS_OF_YEAR) - apart)]
    cells = sst.values.reshape(sst.sizes["time"], -1)
    result = np.empty((len(LIMITS), len(DAYS_OF_YEAR), cells.shape[1]), np.float32)
    for start in range(0, cells.shape[1], CELLS_AT_ONCE):
        part = slice(start, start + CELLS_AT_ONCE)
        values = np.ascontiguousarray(cells[:, part].T)
        for day, days in enumerate(near):
            window = np.sort(values[:, days])
            tails = (_percentile(window, percent) for percent in (HEATWAVE, COLD_SPELL))
            result[:, day, part] = (window.mean(1), *tails)
        result[:, :, part][:, :, np.isnan(values).any(1)] = np.nan
    from scipy.ndimage import uniform_filter1d  # imported late: slow, and thresholds are cached

    smooth = uniform_filter1d(result, SMOOTHING, axis=1, mode="wrap").reshape(*result.shape[:2], *sst.shape[1:])
    axes = {name: axis for name, axis in sst.coords.items() if "time" not in axis.dims}
    fields = zip(LIMITS, smooth, strict=True)
    return xr.Dataset(
        {name: (("dayofyear", *sst.dims[1:]), field) for name, field in fields},
        {"dayofyear": DAYS_OF_YEAR, **axes},
    )


def _percentile(ordered: Array, percent: int) -> Array:
    """Return a percentile of each ascending row, interpolated linearly between two values."""
    below, share = divmod((ordered.shape[1] - 1) * percent / 100, 1)
    low, high = ordered[:, int(below)], ordered[:, min(int(below) + 1, ordered.shape[1] - 1)]
    return low + np.float32(share) * (high - low)


def events(beyond: Days) -> Days:
    """Return a mask of days in an event from the mask `beyond` of days beyond the threshold, both `[T, ...]`.

    With integers, every bit is a series of its own. Days outside the series count as below the threshold, so
    events that reach beyond either end may be missed on the first and last `AROUND` days.
    """
    result = np.zeros_like(beyond)
    starts = len(beyond) - SHORTEST + 1
    if starts < 1:
        return result
    full = reduce(np.bitwise_and, (beyond[day : day + starts] for day in range(SHORTEST)))
    for day in range(SHORTEST):
        result[day : day + starts] |= full
    runs = result.copy()
    for gap in range(1, LONGEST_GAP + 1):
        between = runs[: -gap - 1] & runs[gap + 1 :]
        for day in range(1, gap + 1):
            result[day : day + len(between)] |= between
    return result


def frequencies(sst: xr.DataArray, threshold: xr.DataArray) -> xr.Dataset:
    """Return the fractions of days in `sst(time, ...)` above the threshold and in an event, by cell."""
    hot = (sst > on_days(threshold, sst["time"])).transpose("time", ...)
    inside = hot.copy(data=events(hot.values))
    shares = {name: days.mean("time") for name, days in zip(FREQUENCIES, (hot, inside), strict=True)}
    return xr.Dataset(shares).where(sst.isel(time=0, drop=True).notnull()).astype("float32")


def multiples(climatology: Array, threshold: Array) -> Array:
    """Return the lower limits `[4, ...]` of categories I to IV."""
    times = np.arange(1, len(CATEGORIES), dtype=np.float32).reshape(-1, *[1] * np.ndim(threshold))
    return climatology + times * (threshold - climatology)


def categories(sst: Array, climatology: Array, threshold: Array) -> NDArray[np.int8]:
    """Return the category of each day `[T, ...]` as an index of `CATEGORIES`.

    Days outside events have category 0, and so do days below the threshold inside an event. `climatology` and
    `threshold` have a value for each day. For cold spells, pass the negatives of all three arguments.
    """
    beyond = np.count_nonzero(sst > multiples(climatology, threshold), axis=0).astype(np.int8)
    return np.where(events(beyond > 0), beyond, np.int8(0))


def limits_of(data: DataConfig, *names: str) -> xr.Dataset:
    """Return `limits(dayofyear, lat, lon)` in degC and `frequencies(lat, lon)` of heatwaves in the base period.

    `names` selects variables, by default all. They are computed from the prepared stores and cached in a file
    beside them, which is written again when the stores have changed. Nothing is cached in a read-only folder.

    Raises SSTCastError if the stores are absent, or the stores or the file are damaged.
    """
    prepared = Prepared.of(data)
    cube, statistics = prepared.open_statistics()
    first, last = data.splits.base
    sst = cube["sst"].sel(time=slice(str(first), str(last)))

    def make() -> xr.Dataset:
        return describe(
            _by_bands(sst),
            title="Climatology and thresholds of marine heatwaves and cold spells",
            summary=f"Mean, 90th and 10th percentile of each day of the year in {first}..{last}, in an "
            "11-day window, smoothed over 31 days (Hobday et al. 2016); NaN on land",
            source=str(cube.attrs["source"]),
            history=f"sstcast {__version__}",
        )

    found = cached(prepared.limits, json.loads(statistics.attrs["recipe"]), make)
    with reading(prepared.limits, "delete it"), found:
        return found[[]].assign({name: in_scratch(found[name]) for name in names or (*LIMITS, *FREQUENCIES)})


def _by_bands(sst: xr.DataArray) -> xr.Dataset:
    sst = in_scratch(sst)  # reading bands directly would read every chunk for each, as chunks hold all latitudes
    rows = max(1, VALUES_AT_ONCE // (sst.sizes["time"] * sst.sizes["lon"]))
    fields = {name: scratch_array((len(DAYS_OF_YEAR), *sst.shape[1:])) for name in LIMITS}
    fields |= {name: np.empty(sst.shape[1:], np.float32) for name in FREQUENCIES}
    for start in range(0, sst.sizes["lat"], rows):
        band = sst.isel(lat=slice(start, start + rows)).copy()
        found = limits(band)
        for name, values in found.merge(frequencies(band, found["heatwave_threshold"])).items():
            fields[str(name)][..., start : start + rows, :] = values
        release()
    dims = ("dayofyear", "lat", "lon")
    cells = {"lat": sst["lat"], "lon": sst["lon"]}
    return xr.Dataset({n: (dims[-v.ndim :], v) for n, v in fields.items()}, {"dayofyear": DAYS_OF_YEAR, **cells})
