"""The baseline of heatwaves: which days the climatology and the threshold of a day come from.

A fixed baseline is one base period. As the sea warms, ever more days lie above its threshold. Two others tell
events from the warming (Oliver et al. 2021, Annu. Rev. Mar. Sci. 13; Amaya et al. 2023, Nature 616):

- `moving`: the 30 complete years before each year, so that no event is defined in the first 30 years of a record.
- `detrended`: the linear trend of the anomalies of the base period is added to the climatology and the threshold,
  which are of the base period without the trend. It goes on after the period, and no later day has a part in it.
"""

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr

from sstcast.errors import SSTCastError, counted
from sstcast.extremes.definition import HOBDAY, Definition
from sstcast.extremes.gaps import FEWEST_YEARS, limits_of_known
from sstcast.extremes.heatwaves import limits, short_base_period, where_defined
from sstcast.log import LOG
from sstcast.ocean.splits import complete_years
from sstcast.reading.days_of_year import on_days
from sstcast.types import Array

FIXED, MOVING, DETRENDED = "fixed", "moving", "detrended"
KINDS = (FIXED, MOVING, DETRENDED)
USUAL_YEARS = (1982, 2011)  # of a fixed baseline, if the record has them
MOVING_YEARS = 30


@dataclass(frozen=True)
class Baseline:
    """A kind of baseline, the first and the last day that statistics are of, and the definition of these."""

    kind: str
    first: dt.date
    last: dt.date
    definition: Definition = HOBDAY

    def __str__(self) -> str:
        """The baseline as it is recorded in files."""
        if self.kind == MOVING:
            return f"moving, the {MOVING_YEARS} complete years before each year"
        return f"{self.kind}, {self.first}..{self.last}"

    @classmethod
    def of(
        cls,
        kind: str,
        years: str | None,
        first: dt.date,
        last: dt.date,
        path: Path,
        definition: Definition = HOBDAY,
        until: dt.date | None = None,
    ) -> "Baseline":
        """Return the baseline of a kind from the record `first..last`, from the option `years`, such as
        `1991:2020`.

        It is for days `until` a date, by default the last of the record.

        By default, these are 1982 to 2011 if the record has them, else all of its complete years. A period of
        fewer than 20 years is logged, and so are the years in which a moving baseline defines no event.

        Raises SSTCastError, naming `path`, if the kind is unknown or the record has too few complete years.
        """
        if kind not in KINDS:
            raise SSTCastError(f"--baseline {kind}: is not known; give {', '.join(KINDS[:-1])} or {KINDS[-1]}")
        complete = complete_years(first, last)
        if not len(complete):
            raise SSTCastError(
                f"{path}: has {first}..{last}, no complete year for a climatology; give a longer record or, of "
                "places, another one with --climatology"
            )
        if kind == MOVING:
            if years is not None:
                raise SSTCastError(f"--years {years}: a moving baseline has no years of its own; leave them out")
            last_year = min((last if until is None else until).year, complete[-1] + 1)
            if last_year - complete[0] < MOVING_YEARS:
                raise SSTCastError(
                    f"{path}: has {first}..{last}, {counted(len(complete), 'complete year')}, but a moving "
                    f"baseline needs {MOVING_YEARS} before each year; choose --baseline {FIXED} or {DETRENDED}"
                )
            LOG.info(f"{path}: no events before {complete[0] + MOVING_YEARS}, for want of {MOVING_YEARS} years")
            if until is not None and until.year > last_year:
                LOG.warning(f"{path}: no events after {last_year}, for want of the {MOVING_YEARS} years before")
            return cls(kind, dt.date(complete[0], 1, 1), dt.date(last_year - 1, 12, 31), definition)
        begin, end = _parsed(years) if years is not None else USUAL_YEARS
        if years is None and not {begin, end} <= {*complete}:
            begin, end = complete[0], complete[-1]
        if not {begin, end} <= {*complete}:
            raise SSTCastError(
                f"--years {years}: {path} has the complete years {complete[0]} to {complete[-1]}; choose of these"
            )
        baseline = cls(kind, dt.date(begin, 1, 1), dt.date(end, 12, 31), definition)
        if short := short_base_period(baseline.first, baseline.last):
            LOG.info(f"{path}: the thresholds of heatwaves are from a base period of only {short}")
        return baseline

    def check_known(self, sst: xr.DataArray, path: Path) -> None:
        """Raise SSTCastError if the base period of a series `sst(time, place)` has too few years with values."""
        base = sst.sel(time=slice(str(self.first), str(self.last)))
        known = base.notnull().groupby("time.year").any().sum("year")
        for place in known["place"].values[(known < FEWEST_YEARS).values]:
            years = counted(int(known.sel(place=place)), "year")
            raise SSTCastError(
                f"{path}: {place} has values in {years} of {self.first}..{self.last}, but thresholds need "
                f"{FEWEST_YEARS}: give a longer series, a longer record with --climatology, or a temperature with "
                "--above or --below"
            )
        if self.kind == DETRENDED and base.isnull().any():
            raise SSTCastError(
                f"{path}: a trend needs each day of {self.first}..{self.last}; choose --baseline {FIXED}"
            )

    def daily(
        self, sst: xr.DataArray, cold: bool = False, base: xr.DataArray | None = None
    ) -> tuple[Array, Array]:
        """Return climatology and threshold `[day, series]` in degC of the days of `sst(time, series)`.

        They are statistics of the record `base(time, series)`, by default of `sst` itself. The threshold is NaN on
        days on which no event is defined (see `heatwaves.where_defined`). Days may be missing (see
        `gaps.limits_of_known`).
        """
        name = "cold_spell_threshold" if cold else "heatwave_threshold"
        record = sst if base is None else base
        if self.kind == MOVING:
            return self._of_moving_years(sst, record, name)
        record = record.sel(time=slice(str(self.first), str(self.last)))
        trend: Array | float = 0.0
        if self.kind == DETRENDED:
            trend_on = _trend(record, limits(record, self.definition)["climatology"])
            trend = trend_on(sst["time"])
            record = record.copy(data=(record.values - trend_on(record["time"])).astype(np.float32))
        found = where_defined(limits_of_known(record, self.definition))
        normal, limit = (on_days(found[of], sst["time"]).values + trend for of in ("climatology", name))
        return normal.astype(np.float32, copy=False), limit.astype(np.float32, copy=False)

    def _of_moving_years(self, sst: xr.DataArray, record: xr.DataArray, name: str) -> tuple[Array, Array]:
        normal, limit = np.full((2, *sst.shape), np.nan, np.float32)
        year = sst["time"].dt.year.values
        for of in range(self.first.year + MOVING_YEARS, self.last.year + 2):
            own = year == of
            if not own.any():
                continue
            base = record.sel(time=slice(str(of - MOVING_YEARS), str(of - 1)))
            found = where_defined(limits_of_known(base, self.definition))
            for field, values in ((normal, found["climatology"]), (limit, found[name])):
                field[own] = on_days(values, sst["time"][own]).values
        return normal, limit


@dataclass(frozen=True)
class Limit:
    """A temperature in degC, the same on all days, which the days of an event are above or `below`."""

    temperature: float
    below: bool
    definition: Definition = HOBDAY

    def __str__(self) -> str:
        """The limit as it is recorded in files."""
        return f"{'below' if self.below else 'above'} {self.temperature:.12g} degC, {self.definition.duration}"

    def daily(self, sst: xr.DataArray, cold: bool = False, base: xr.DataArray | None = None) -> tuple[None, Array]:
        """Return no climatology, and the threshold `[day, series]` of the days of `sst(time, series)`."""
        return None, np.full(sst.shape, self.temperature, np.float32)


def against(baseline: str) -> str:
    """Return what events are measured against, as a part of a sentence, from the `baseline` that files record.

    It is empty if this is one temperature.
    """
    _, _, of = baseline.partition(", ")
    first, dots, last = of.partition("..")
    years = "-".join(dict.fromkeys([first[:4], last[:4]])) if dots else of * baseline.startswith(MOVING)
    return f", against {years}" if years else ""


def _parsed(years: str | Sequence[int]) -> tuple[int, int]:
    try:
        first, last = (int(year) for year in (years.split(":") if isinstance(years, str) else years))
        if first > last:
            raise ValueError
    except (TypeError, ValueError):
        raise SSTCastError(f"--years {years}: give the first and the last, for instance 1991:2020") from None
    return first, last


def _trend(base: xr.DataArray, climatology: xr.DataArray) -> Callable[[xr.DataArray], Array]:
    """Return what gives the trend `[day, series]` of the anomalies of `base` on days, from the mean of the period.

    It is fitted by least squares to the departures from the `climatology` of `base`.
    """
    anomaly = base.values.astype(np.float64) - on_days(climatology, base["time"]).values
    origin = base["time"].values[0]
    day = (base["time"].values - origin) / np.timedelta64(1, "D")
    slope = (day - day.mean()) @ (anomaly - anomaly.mean(0)) / np.square(day - day.mean()).sum()

    def on(time: xr.DataArray) -> Array:
        return np.asarray(((time.values - origin) / np.timedelta64(1, "D") - day.mean())[:, None] * slope)

    return on
