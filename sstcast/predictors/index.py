"""Predictors of `kind: index`, one number a day or a month, by the last day of its span."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from sstcast.errors import SSTCastError, counted
from sstcast.predictors.index_series import by_span, read_index, read_series, series_of
from sstcast.predictors.newest import Days, Places, newest_places
from sstcast.predictors.predictor import Kind, Predictor
from sstcast.predictors.values import INDEX_FACTOR, extremes, limits, scale_of
from sstcast.reading.fields import steps_a_day
from sstcast.reading.xarray_objects import as_dataset

SUMMARY = "summary"  # dimension of what an index tells: the newest value and a mean, or two means
READ = {"month": 3, "day": 90}  # newest values that a day reads
MEANS = {3: (1, 3), 90: (30, 90)}  # of which so many are in each mean
LEAST_SHARE = 0.75  # of the values in a mean that must be known
MIN_YEARS = 2  # with values of each calendar month in the base period, for a climatology


@contextmanager
def read(predictor: Predictor, cells: xr.Dataset, given: Any) -> Iterator[tuple[xr.DataArray, xr.DataArray]]:
    """Read an index, or convert a pandas Series or DataArray by date, or a path (see `Kind.read`)."""
    config, where, units = predictor.config, f"predictors: {predictor.name}", ""
    if given is None:
        values = read_index(config, predictor.name)
        yield values.drop_vars("line", errors="ignore"), values
        return
    if isinstance(given, xr.DataArray) and any(
        isinstance(index, pd.PeriodIndex) for index in given.indexes.values()
    ):
        units, given = str(given.attrs.get("units", "")), given.to_series()
    if isinstance(given, (str, Path)):
        given, units = read_series(Path(given), config.variable, config.span)
    elif isinstance(given, xr.Dataset | xr.DataArray):
        variable = config.variable if isinstance(given, xr.Dataset) else None
        given, units = series_of(as_dataset(given), variable, Path(where))
    elif isinstance(given, pd.Series):
        labels = given.index
        index = labels.to_timestamp() if isinstance(labels, pd.PeriodIndex) else pd.DatetimeIndex(labels)
        if steps_a_day(index.values) > 1:
            in_utc = (index if index.tz is None else index.tz_convert(None)).as_unit("ns")
            given, _ = series_of(
                xr.Dataset({"value": ("time", given.to_numpy())}, {"time": in_utc}), None, Path(where)
            )
        else:
            given = given.set_axis(index.tz_localize(None).round("s"))
    else:
        raise SSTCastError(f"{where} is a {type(given).__name__}; give a pandas Series or a DataArray by date")
    values = by_span(given, config, where).assign_attrs(units=units or config.units or "")
    every, of_run = values.attrs["every"], predictor.open().attrs["every"]
    if every != of_run:
        raise SSTCastError(f"{where} has a value a {every}, but the run reads one a {of_run}; give those")
    yield values.reset_coords(drop=True), values


def places(predictor: Predictor, values: xr.DataArray, days: Days) -> Places:
    """Return the places of the newest values, the newest first (see `Kind.places`)."""
    every = str(values.attrs["every"])
    return newest_places(values["time"].values, days, predictor.config.delay, every, READ[every])


def basis(days: Days) -> NDArray[np.float64]:
    """Return which calendar month each day is of (see `Kind.basis`)."""
    return np.eye(12)[pd.DatetimeIndex(days).month.values - 1]


def fit(predictor: Predictor, values: xr.DataArray) -> xr.Dataset:
    """Return the means of the calendar months, and the deviation from them (see `Kind.fit`).

    Raises SSTCastError if there are too few values, or one of the store is far from these.
    """
    series, (first, last) = values.to_series(), predictor.data.splits.base
    by_month = series.groupby(series.index.month)
    if series.index.year.nunique() < MIN_YEARS or len(by_month) < 12 or by_month.count().min() < MIN_YEARS:
        raise SSTCastError(
            f"{predictor.key}: {predictor.config.source} has {counted(int(series.count()), 'value')} in "
            f"{first}..{last}, but a climatology needs {MIN_YEARS} of each calendar month; give more"
        )
    stored = predictor.open()["value"].load()
    plausible = limits(series.to_numpy(), INDEX_FACTOR)
    predictor.check(stored, extremes(stored.values), plausible, predictor.config.path)
    deviation = float((series - by_month.transform("mean")).std(ddof=0))
    return xr.Dataset(
        {
            "terms": ("term", by_month.mean().to_numpy()),
            "deviation": scale_of(deviation, float(series.abs().max())),
        }
    )


def means(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the newest value and the mean of three months, or the means of 30 and 90 days (see `Kind.of_day`).

    A mean needs its newest value, as one up to an older value would not tell that the newest is missing.
    """
    result = np.full((len(values), 2), np.nan, np.float32)
    for column, count in enumerate(MEANS[values.shape[1]]):
        is_known = np.isfinite(values[:, :count])
        enough = is_known[:, 0] & (is_known.sum(1) >= np.ceil(LEAST_SHARE * count))
        total = np.where(is_known, values[:, :count], 0).sum(1, dtype=float)
        result[enough, column] = (total[enough] / is_known[enough].sum(1)).astype(np.float32)
    return result


INDEX = Kind("value", ("time", SUMMARY), read, places, basis, fit, means, factor=INDEX_FACTOR)
