"""Predictors of `kind: index`, one number a day or a month.

predictor-NAME-HASH.zarr    value(time), by the last day of its span
"""

import datetime as dt
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from sstcast.config import PredictorConfig
from sstcast.errors import SSTCastError, counted
from sstcast.log import LOG
from sstcast.predictors.index_series import by_span, read_index, read_series
from sstcast.predictors.store import Days, StoredPredictor, newest_known, scale_of
from sstcast.predictors.values import INDEX_FACTOR, limits

SUMMARY = "summary"  # dimension of what an index tells: the newest value and a mean, or two means
MEANS = {"month": (1, 3), "day": (30, 90)}  # values in each summary
LEAST_SHARE = 0.75  # of the values in a mean that must be known
MIN_YEARS = 2  # with values of each calendar month in the base period, for a climatology


def known_index(
    values: xr.DataArray,
    days: Days,
    config: PredictorConfig,
    base: tuple[dt.date, dt.date],
    name: str,
    reference: xr.DataArray | None = None,
) -> xr.DataArray:
    """Return what is known of an index on each day, `(time, summary)`, NaN where the newest value is missing.

    `values(time)` come from `read_index`. They become departures from the climatology of their calendar month,
    divided by their standard deviation, both over the values known at the end of the `base` period, by default of
    `values`, else of the `reference`. The summaries are the newest value and the mean of three months or, for a
    daily index, the means of 30 and 90 days.

    Raises SSTCastError if the base period has too few values for a climatology, or a value is implausible.
    """
    every = str(values.attrs["every"])
    first, last = values["time"].values[0], max(values["time"].values[-1], days[-1])
    periods = pd.period_range(first, last, freq="M" if every == "month" else "D")
    ends = periods.end_time.normalize().as_unit("ns")
    series = values.reindex(time=ends).to_series()
    of_base = series if reference is None else reference.reindex(time=ends).to_series()
    begin, stop = (np.datetime64(day) for day in base)
    known_in_base = of_base.notna().to_numpy() & (ends.values >= begin)
    known_in_base[newest_known(ends.values, np.array([stop]), config.delay)[0] + 1 :] = False
    months = series.index.month
    by_month = of_base[known_in_base].groupby(months[known_in_base])
    years = series.index.year[known_in_base].nunique()
    if years < MIN_YEARS or len(by_month) < 12 or by_month.count().min() < MIN_YEARS:
        raise SSTCastError(
            f"data.predictors.{name}: {config.source} has {counted(int(known_in_base.sum()), 'value')} in "
            f"{base[0]}..{base[1]}, but a climatology needs {MIN_YEARS} of each calendar month; give more"
        )
    if config.implausible == "error":
        low, high = limits(of_base[known_in_base].to_numpy(), INDEX_FACTOR)
        for end, value in series[(series < low) | (series > high)].items():
            line = f"line {int(values['line'].sel(time=end))}, " if "line" in values.coords else ""
            raise SSTCastError(
                f"{config.source}: {line}{value:g} up to {end:%Y-%m-%d} is far from those of the base period "
                f"({low:.3g}..{high:.3g} plausible); correct it, or set data.predictors.{name}.implausible: keep"
            )
    climatology = by_month.mean().reindex(months).to_numpy()
    deviation = float((of_base - climatology)[known_in_base].std(ddof=0))
    standard = (series - climatology) / scale_of(deviation, float(of_base.abs().max()))
    means = [
        standard.rolling(count, min_periods=int(np.ceil(LEAST_SHARE * count))).mean().where(standard.notna())
        for count in MEANS[every]  # a mean up to an older value would not tell that the newest is missing
    ]
    at = newest_known(ends.values, days, config.delay)
    table = np.stack([np.where(at >= 0, mean.to_numpy()[at], np.nan) for mean in means], 1).astype(np.float32)
    return xr.DataArray(table, {"time": days}, ("time", SUMMARY))


class IndexPredictor(StoredPredictor):
    """An index, whose store holds its values by the last day of their spans."""

    def write(self, cube: xr.Dataset, recipe: dict[str, Any]) -> None:
        values, days = read_index(self.config, self.name), cube["time"].values
        known = self._known(days, values)
        self.save(
            values.drop_vars("line", errors="ignore").to_dataset().assign_attrs(values.attrs),
            self.path,
            recipe,
            {},
        )
        LOG.info(f"{self.path}: {counted(values.size, 'value')} of {self.name} written")
        if lacking := int(known.isnull().any(SUMMARY).sum()):
            told = f"{lacking} of {len(days)} days, which read its climatology"
            LOG.info(f"{self.path}: {self.name} is not known on {told}")

    def values(self) -> xr.DataArray:
        """Return the values in the store."""
        dataset = self.open()
        return dataset["value"].assign_attrs({key: dataset.attrs[key] for key in ("units", "every")}).load()

    def known(self, days: Days, given: xr.DataArray | None = None) -> xr.DataArray:
        values = self.values()
        return self._known(days, values) if given is None else self._known(days, given, values)

    def _known(self, days: Days, values: xr.DataArray, reference: xr.DataArray | None = None) -> xr.DataArray:
        return known_index(values, days, self.config, self.data.splits.base, self.name, reference)

    def digest(self, first: dt.date, last: dt.date) -> str:
        values = self.values()
        known = self._known(pd.date_range(first, last).as_unit("ns").values, values)
        return hashlib.sha256(str(values.attrs["units"]).encode() + known.values.tobytes()).hexdigest()

    def compare(self, whole: bool = False) -> tuple[str, bool]:
        days = pd.date_range(*self.data.splits.whole).as_unit("ns").values
        now = read_index(self.config, self.name)
        if whole:
            return str(now.attrs["units"]), now.equals(self.values())
        before, after = (self._known(days, values).values for values in (self.values(), now))
        return str(now.attrs["units"]), np.array_equal(before, after, equal_nan=True)

    def missing(self, day: np.datetime64, given: xr.DataArray | None = None) -> str:
        if not bool(self.known(np.array([day]), given).isnull().any()):
            return ""
        wanted = day - self.config.delay * np.timedelta64(1, "D")
        return f"has no value for the span that ended last by {np.datetime_as_string(wanted, unit='D')}"

    def given(self, values: Any) -> xr.DataArray:
        """Convert a pandas Series or a DataArray by date, or a path, as `read_index` does, and add the store's."""
        where, units = f"predictors: {self.name}", ""
        if isinstance(values, xr.DataArray) and values.ndim == 1:
            units = str(values.attrs.get("units", ""))
            values = values.to_series()
        if isinstance(values, (str, Path)):
            table, units = read_series(Path(values), self.config.variable, self.config.span)
            values = table["value"]
        if not isinstance(values, pd.Series):
            raise SSTCastError(
                f"{where} is a {type(values).__name__}; give a pandas Series or a DataArray by date"
            )
        self.check_units(units)
        labels = values.index
        index = labels.to_timestamp() if isinstance(labels, pd.PeriodIndex) else pd.DatetimeIndex(labels)
        told = by_span(values.set_axis(index), self.config, where).assign_attrs(units=self.config.units or "")
        stored = self.values()
        every, of_run = told.attrs["every"], stored.attrs["every"]
        if every != of_run:
            raise SSTCastError(f"{where} has a value a {every}, but the run reads one a {of_run}; give those")
        return told.reset_coords(drop=True).combine_first(stored).assign_attrs(told.attrs)
