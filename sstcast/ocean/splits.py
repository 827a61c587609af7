"""Divides a record into training, validation and test periods. All dates are inclusive."""

import datetime as dt
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sstcast.config import DataConfig, Splits
from sstcast.errors import SSTCastError, counted
from sstcast.names import ONE_DAY
from sstcast.storage.yaml_files import validate

MIN_CLIMATOLOGY_DAYS = 365  # minimum number of days for a climatology
SPANS = ((42, 28), (14, 7), (7, 3))  # history and horizon in days; `for_training` takes the first that fits
LEAST_YEARS = 5  # minimum number of years for a climatology on another ocean
LONG = 2 * LEAST_YEARS  # years; from this length on, validation takes two years instead of one
VALIDATION_DAYS = 730  # days of validation before a file's forecasts, but at most a fifth of the record


def starts_of(count: int, history: int, horizon: int, before: int = 0) -> NDArray[np.intp]:
    """Return the first days of history of the windows in `count` days, as positions, after `before` days.

    With a horizon, there is one window fewer than possible, as in Table 9 of Cai et al. (2023).
    """
    return np.arange(before, count - history - horizon + (horizon == 0))


def cut(first: dt.date, validation: dt.date, test: dt.date, last: dt.date, base_to_test: bool = True) -> Splits:
    """Return splits of `first..last` in which validation and test begin on the given days.

    The base period covers all days before the test, or only the training days if `base_to_test` is False.
    """
    return Splits(
        train=(first, validation - ONE_DAY),
        validation=(validation, test - ONE_DAY),
        test=(test, last),
        base_period=(first, test - ONE_DAY) if base_to_test else None,
    )


def for_training(first: dt.date, last: dt.date, path: Path) -> tuple[int, int, Splits]:
    """Return history, horizon and splits for training on the record `first..last` at `path`.

    If the record is longer than five years, its last years are validation and test. Otherwise, these are fractions
    of the record. Raises SSTCastError if the record is too short.
    """
    count = (last - first).days + 1
    for history, horizon in SPANS:
        shortest_split = history + horizon + 30
        if count >= MIN_CLIMATOLOGY_DAYS + 2 * shortest_split:
            break
    else:
        raise SSTCastError(
            f"{path}: {count} days, but training needs {MIN_CLIMATOLOGY_DAYS + 2 * shortest_split}, a year for "
            "the climatology plus validation and test; give a longer record"
        )
    years = last.year - first.year + 1
    if years > 5:
        end_year = last.year + (last.month > 9)  # the year after the last nearly complete one
        test = dt.date(end_year - (2 if years > 10 else 1), 1, 1)
        validation = dt.date(test.year - 1, 1, 1)
    else:
        split_days = max(shortest_split, int(0.15 * count))
        test = last - dt.timedelta(split_days - 1)
        validation = test - dt.timedelta(split_days)
        if (validation - first).days < MIN_CLIMATOLOGY_DAYS:
            validation = first + dt.timedelta(MIN_CLIMATOLOGY_DAYS)
            test = validation + dt.timedelta((count - MIN_CLIMATOLOGY_DAYS) // 2)
    return history, horizon, cut(first, validation, test, last, base_to_test=False)


def for_forecasts(data: DataConfig, first: dt.date, last: dt.date, where: str) -> Splits:
    """Return splits for operational forecasts from the record `first..last`.

    The statistics are over all days before the latest 1 January that enough days for a window follow. So they stay
    the same for a year. Forecast errors are estimated on the last one or two of these years. Raises SSTCastError,
    naming `where`, if the record is shorter than five years.
    """
    test = last_test(data, last)
    if (test - first).days < 365 * LEAST_YEARS:
        raise SSTCastError(
            f"{where}: has {first}..{last}, but a climatology needs {LEAST_YEARS} years before {test}; "
            "give a longer record, or a later date"
        )
    years = 2 if (test - first).days >= 365 * LONG else 1
    return cut(first, dt.date(test.year - years, 1, 1), test, last)


def complete_years(first: dt.date, last: dt.date) -> range:
    """Return the complete years of the record `first..last`."""
    begin = first.year if (first.month, first.day) == (1, 1) else first.year + 1
    end = last.year if (last.month, last.day) == (12, 31) else last.year - 1
    return range(begin, end + 1)


def last_test(data: DataConfig, last: dt.date) -> dt.date:
    """Return the latest 1 January from which a record up to `last` has enough days for a window."""
    test = dt.date(last.year, 1, 1)
    return test if (last - test).days >= data.history + data.horizon else dt.date(last.year - 1, 1, 1)


def for_dates(first: dt.date, date: dt.date, last: dt.date, history: int, horizon: int) -> Splits:
    """Return splits of a record that begins on `first`, for scoring forecasts from a file.

    `date` is the first initial date, and `last` the last day forecast. The test period begins with the history of
    the first forecast.
    """
    test = date - history * ONE_DAY
    validation = max(min(VALIDATION_DAYS, (test - first).days // 5), history + horizon + 1)
    return cut(first, test - validation * ONE_DAY, test, last)


def for_years(data: DataConfig, first: int, last: int, validation: int, name: str) -> Splits:
    """Return splits of a hindcast fold that test on the years `first..last`, after `validation` years.

    Training begins as in `data`. Raises SSTCastError, with the fold's `name`, if less than a year or less than one
    window is left for training.
    """
    begin, years = data.splits.train[0], (first - validation, first)
    start, test = (dt.date(year, 1, 1) for year in years)
    days, min_days = (start - begin).days, max(MIN_CLIMATOLOGY_DAYS, data.history + data.horizon + 1)
    if days < min_days:
        raise SSTCastError(
            f"--years: {name} has {counted(max(days, 0), 'day')} to train on, from {begin} to {start - ONE_DAY}, "
            f"but needs {min_days}; begin later"
        )
    return cut(begin, start, test, dt.date(last, 12, 31))


def clipped(splits: Splits, first: dt.date, last: dt.date, where: str) -> Splits:
    """Clip splits to the record `first..last`. Raises SSTCastError, naming `where`, if a period becomes empty."""
    spans = {name: (max(begin, first), min(end, last)) for name, (begin, end) in splits.given.items()}
    for name, (begin, end) in spans.items():
        if begin > end:
            start, stop = splits.given[name]
            raise SSTCastError(
                f"{where}: has {first}..{last}, but no day of the run's data.splits.{name}, {start}..{stop}; "
                "give another source, or one with these days"
            )
    return validate(Splits, spans, where)


def check_splits(data: DataConfig, time: NDArray[np.datetime64]) -> None:
    """Raise SSTCastError if a split reaches outside the data, or is too short for a single window."""
    first, last = (time[i].astype("datetime64[D]").astype(dt.date) for i in (0, -1))
    for name, (start, stop) in data.splits.given.items():
        if start < first or stop > last:
            raise SSTCastError(
                f"data.splits.{name}: {start}..{stop} has days outside the data ({first}..{last}); "
                "choose other dates or fetch more days"
            )
        days = (stop - start).days + 1
        if name != "base_period" and days <= data.history + data.horizon:
            min_days = data.history + data.horizon + 1
            raise SSTCastError(f"data.splits.{name}: {days} days, but a window needs {min_days}; lengthen it")
        if (start, stop) == data.splits.base and days < 365:
            raise SSTCastError(f"data.splits.{name}: {days} days, but a climatology needs a year; lengthen it")
