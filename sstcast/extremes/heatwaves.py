"""Marine heatwaves and cold spells as defined by Hobday et al. (2016, Prog. Oceanogr.; 2018, Oceanography).

A heatwave lasts at least five consecutive days above the seasonally varying 90th percentile. Two heatwaves with at
most two days between them count as one. The category of a day, I to IV, counts the multiples of the threshold's
departure from the climatology that the day's departure exceeds. Cold spells follow the same definition below the
10th percentile.

The climatology here is Hobday's, the mean over the same window of days as the percentile, and not the harmonic one
in `anomalies`. So events and categories agree with other implementations of the definition.

Water cannot get colder than its freezing point. Where it is there on most days, climatology and percentiles
coincide, and neither heatwaves nor cold spells are defined (see `where_defined`).
"""

import datetime as dt
import json
from functools import reduce
from typing import TypeVar

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast._version import __version__
from sstcast.extremes.definition import HOBDAY, Definition
from sstcast.extremes.heat_stress import MMM, MonthlyYears, maximum_monthly_mean
from sstcast.ocean.prepared import Prepared
from sstcast.progress import tracked
from sstcast.reading.days_of_year import DAYS_OF_YEAR, LEAP_DAY, LEAP_DAYS, day_of_leap_year, on_days
from sstcast.storage.cf import describe
from sstcast.storage.scratch import in_scratch, release, scratch_array
from sstcast.types import Array

MARGIN_DAYS = HOBDAY.shortest - 1 + HOBDAY.longest_gap  # days around a day that decide whether an event has it
CATEGORIES = ("none", "moderate", "strong", "severe", "extreme")
UNDEFINED = len(CATEGORIES)  # the class of days on which no event is defined
SMALLEST_DEPARTURE = 0.05  # degC from climatology to threshold, below which no event is defined
FROZEN_BELOW = -1.7  # degC; with a threshold below it, no event is defined, because the sea freezes at about -1.8
FREEZING = "freezing_point"
FROZEN_RANGE, FROZEN_SHARE = (
    0.02,
    0.1,
)  # degC above the lowest value, and the share of days there in a cell that freezes
FEWEST_YEARS = 20  # a base period with fewer years is reported
LAYOUT = 4  # version of the contents of the file of `limits_of`
LIMITS = ("climatology", "heatwave_threshold", "cold_spell_threshold")
FREQUENCIES = ("exceedance_frequency", "event_frequency")
BY_CELL = (*FREQUENCIES, FREEZING)
ROUNDING_DEGREES = 1e-4  # degC, because values are stored in single precision
CELLS_AT_ONCE = 256  # cells whose values fit in the cache
VALUES_AT_ONCE = 2**25  # values in a band of latitudes

Days = TypeVar("Days", NDArray[np.bool_], NDArray[np.uint8], NDArray[np.uint64])


def limits(sst: xr.DataArray, definition: Definition = HOBDAY) -> xr.Dataset:
    """Compute climatology and thresholds of heatwaves and cold spells from `sst(time, ...)` in the base period.

    Returns `climatology`, `heatwave_threshold` and `cold_spell_threshold(day_of_leap_year, ...)` for days 1..366,
    in the units of `sst`. They are NaN in cells where `sst` is NaN on any day. Every year has 366 days, because 29
    February is interpolated in ordinary years. Each statistic is computed over the days of the base period in the
    window around the day of year in any of its years, then smoothed, both as in the `definition`. Smoothing wraps
    around the year.
    """
    sst = sst.transpose("time", ...)
    year, days = sst["time"].dt.year.values, len(DAYS_OF_YEAR)
    position = year * days + day_of_leap_year(sst["time"]).values
    leap_days = np.unique(year) * days + LEAP_DAY
    leap_days = leap_days[~np.isin(leap_days, position) & np.isin([leap_days - 1, leap_days + 1], position).all(0)]
    previous_index, next_index = (np.searchsorted(position, leap_days + shift) for shift in (-1, 1))
    position = np.concatenate([position, leap_days])
    half = definition.window // 2
    window = np.unique(year)[:, None] * days + np.arange(-half, half + 1)
    nearby_indices = [np.flatnonzero(np.isin(position, window + day)) for day in DAYS_OF_YEAR]
    percents = definition.percentile, 100 - definition.percentile
    cells = sst.values.reshape(sst.sizes["time"], -1)
    result = np.empty((len(LIMITS), len(DAYS_OF_YEAR), cells.shape[1]), np.float32)
    for start in range(0, cells.shape[1], CELLS_AT_ONCE):
        block = slice(start, start + CELLS_AT_ONCE)
        values = np.ascontiguousarray(cells[:, block].T)
        values = np.concatenate([values, (values[:, previous_index] + values[:, next_index]) / 2], axis=1)
        for day, indices in enumerate(nearby_indices):
            ordered = np.sort(values[:, indices])
            percentiles = (percentile_of(ordered, percent) for percent in percents)
            result[:, day, block] = (ordered.mean(1), *percentiles)
        result[:, :, block][:, :, np.isnan(values).any(1)] = np.nan
    from scipy.ndimage import uniform_filter1d  # imported late: slow, and thresholds are cached

    smooth = uniform_filter1d(result, definition.smooth, axis=1, mode="wrap").reshape(
        *result.shape[:2], *sst.shape[1:]
    )
    axes = {name: axis for name, axis in sst.coords.items() if "time" not in axis.dims}
    fields = zip(LIMITS, smooth, strict=True)
    return xr.Dataset(
        {name: ((LEAP_DAYS, *sst.dims[1:]), field) for name, field in fields},
        {LEAP_DAYS: DAYS_OF_YEAR, **axes},
    )


def where_defined(limits: xr.Dataset) -> xr.Dataset:
    """Return `limits` with NaN for the thresholds of days on which no event is defined.

    No event is defined where the threshold exceeds the climatology by less than `SMALLEST_DEPARTURE` (for cold
    spells, where it is not as far below it), or lies below `FROZEN_BELOW`. So a frozen sea has neither heatwaves
    nor cold spells, and a cell that never changes has none either.
    """
    masked_limits = limits.copy()
    for name, sign in (("heatwave_threshold", 1), ("cold_spell_threshold", -1)):
        departure = sign * (limits[name] - limits["climatology"])
        masked_limits[name] = limits[name].where(
            (departure >= SMALLEST_DEPARTURE) & (limits[name] >= FROZEN_BELOW)
        )
    return masked_limits


def short_base_period(first: dt.date, last: dt.date) -> str:
    """Return length and days of a base period of fewer than `FEWEST_YEARS` years, or "" for a longer one."""
    years = ((last - first).days + 1) / 365.25
    text = f"{years:.2g}"
    return f"{text} year{'s' * (text != '1')}, {first}..{last}" if years < FEWEST_YEARS - 0.01 else ""


def freezing_point(sst: xr.DataArray) -> xr.DataArray:
    """Return the freezing point of each cell from `sst(time, ...)` in the base period, NaN where none is known.

    It is the lowest value, if a tenth of the days are within 0.02 degC of it. Sea water freezes at about -1.8
    degC, brackish and fresh water at higher temperatures, and the sea of a model at its own.
    """
    lowest = sst.min("time", skipna=False)
    frozen = (sst <= lowest + np.float32(FROZEN_RANGE + ROUNDING_DEGREES)).mean("time")
    return lowest.where(frozen >= FROZEN_SHARE).rename(FREEZING)


def percentile_of(ordered: Array, percent: float) -> Array:
    """Return a percentile of each ascending row, interpolated linearly between two values."""
    rank, share = divmod((ordered.shape[1] - 1) * percent / 100, 1)
    low, high = ordered[:, int(rank)], ordered[:, min(int(rank) + 1, ordered.shape[1] - 1)]
    return low + np.float32(share) * (high - low)


def events(beyond: Days, definition: Definition = HOBDAY) -> Days:
    """Return a mask of days in an event from the mask `beyond` of days beyond the threshold, both `[T, ...]`.

    With integers, every bit is a series of its own. Days outside the series count as below the threshold, so
    events that reach beyond either end may be missed on the first and last days, `MARGIN_DAYS` of Hobday's.
    """
    result = np.zeros_like(beyond)
    start_count = len(beyond) - definition.shortest + 1
    if start_count < 1:
        return result
    run_starts = reduce(np.bitwise_and, (beyond[day : day + start_count] for day in range(definition.shortest)))
    for day in range(definition.shortest):
        result[day : day + start_count] |= run_starts
    runs = result.copy()
    for gap in range(1, definition.longest_gap + 1):
        bridges = runs[: -gap - 1] & runs[gap + 1 :]
        for day in range(1, gap + 1):
            result[day : day + len(bridges)] |= bridges
    return result


def frequencies(sst: xr.DataArray, threshold: xr.DataArray) -> xr.Dataset:
    """Return the fractions of days in `sst(time, ...)` above the threshold and in an event, by cell.

    Days without a threshold, on which no event is defined, do not count. Without any other day, a fraction is NaN.
    """
    daily = on_days(threshold, sst["time"])
    hot_days = (sst > daily).transpose("time", ...)
    event_days, day_count = hot_days.copy(data=events(hot_days.values)), daily.notnull().sum("time")
    shares = {
        name: days.sum("time") / day_count for name, days in zip(FREQUENCIES, (hot_days, event_days), strict=True)
    }
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
    category = np.count_nonzero(sst > multiples(climatology, threshold), axis=0).astype(np.int8)
    return np.where(events(category > 0), category, np.int8(0))


def limits_of(prepared: Prepared, *names: str) -> xr.Dataset:
    """Return the limits and frequencies of heatwaves in the base period, and freezing points, in degC.

    These are `limits(day_of_leap_year, lat, lon)`, NaN where no event is defined, `frequencies(lat, lon)`,
    `freezing_point(lat, lon)` and the `maximum_monthly_mean(lat, lon)` of `heat_stress`. `names` selects
    variables, by default all. They are computed from the prepared stores and cached in a file beside them, which
    is written again when the stores have changed. Nothing is cached in a read-only folder.

    Raises SSTCastError if the stores are absent, or the stores or the file are damaged.
    """
    statistics, (first, last) = prepared.open_statistics(), prepared.data.splits.base

    def make() -> xr.Dataset:
        cube = prepared.open_cube()
        sst = cube["sst"].sel(time=slice(str(first), str(last)))
        return describe(
            _by_bands(sst),
            title="Climatology and thresholds of marine heatwaves and cold spells",
            summary=f"Mean, 90th and 10th percentile of each day of the year in {first}..{last}, in an "
            "11-day window, smoothed over 31 days (Hobday et al. 2016); NaN on land, and thresholds also where "
            "no event is defined",
            source=str(cube.attrs["source"]),
            history=f"sstcast {__version__}",
        )

    recipe = {"layout": LAYOUT, "statistics": json.loads(statistics.attrs["recipe"])}
    return prepared.kept(prepared.limits, recipe, make, *(names or (*LIMITS, *BY_CELL, MMM)), last=last)


def _by_bands(sst: xr.DataArray) -> xr.Dataset:
    sst = in_scratch(sst)  # reading bands directly would read every chunk for each, as chunks hold all latitudes
    rows = max(1, VALUES_AT_ONCE // (sst.sizes["time"] * sst.sizes["lon"]))
    first, last = (day.astype("datetime64[D]").item() for day in sst["time"].values[[0, -1]])
    years = MonthlyYears.of(first, last)
    fields = {name: scratch_array((len(DAYS_OF_YEAR), *sst.shape[1:])) for name in LIMITS}
    fields |= {name: np.full(sst.shape[1:], np.nan, np.float32) for name in (*BY_CELL, MMM)}
    for start in tracked(range(0, sst.sizes["lat"], rows), "thresholds of heatwaves"):
        band = sst.isel(lat=slice(start, start + rows)).copy()
        band_limits = where_defined(limits(band))
        by_cell = frequencies(band, band_limits["heatwave_threshold"]).assign({FREEZING: freezing_point(band)})
        if years is not None:
            by_cell[MMM] = maximum_monthly_mean(band, years)
        for name, values in band_limits.merge(by_cell, compat="no_conflicts").items():
            fields[str(name)][..., start : start + rows, :] = values
        release()
    dims = (LEAP_DAYS, "lat", "lon")
    cells = {"lat": sst["lat"], "lon": sst["lon"]}
    return xr.Dataset({n: (dims[-v.ndim :], v) for n, v in fields.items()}, {LEAP_DAYS: DAYS_OF_YEAR, **cells})
