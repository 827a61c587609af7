"""Cuts a record of days into training, validation and test; all days are inclusive."""

import datetime as dt
from pathlib import Path

from sstcast.config import DataConfig, Splits
from sstcast.errors import SSTCastError
from sstcast.yaml_files import validate

DAY = dt.timedelta(days=1)
YEAR = 365  # days that a climatology needs
SPANS = ((42, 28), (14, 7), (7, 3))  # history and horizon in days, the longest that a record allows
LEAST_YEARS = 5  # of a climatology on another ocean
LONG = 2 * LEAST_YEARS  # years of a record whose last two years, not one, give the errors of forecasts
VALIDATION = 730  # days before a file's forecasts that penalties are chosen on; a fifth of the record at most


def cut(first: dt.date, validation: dt.date, test: dt.date, last: dt.date, base_to_test: bool = True) -> Splits:
    """Return the splits of `first..last` in which validation and test begin on the days given.

    The statistics are of all days before the test, or of the training days alone.
    """
    return Splits(
        train=(first, validation - DAY),
        validation=(validation, test - DAY),
        test=(test, last),
        base_period=(first, test - DAY) if base_to_test else None,
    )


def for_training(first: dt.date, last: dt.date, path: Path) -> tuple[int, int, Splits]:
    """Return history, horizon and splits for training on the record at `path`.

    Validation and test are the last years of a record of more than five, and shares of a shorter one. Raises
    SSTCastError if the record is too short.
    """
    count = (last - first).days + 1
    for history, horizon in SPANS:
        least = history + horizon + 30
        if count >= YEAR + 2 * least:
            break
    else:
        raise SSTCastError(
            f"{path}: {count} days; training needs {YEAR + 2 * least}: a year for the climatology, and days for "
            "validation and test; give a longer record"
        )
    years = last.year - first.year + 1
    if years > 5:
        whole = last.year + (last.month > 9)  # the year after the last nearly complete one
        test = dt.date(whole - (2 if years > 10 else 1), 1, 1)
        validation = dt.date(test.year - 1, 1, 1)
    else:
        share = max(least, int(0.15 * count))
        test = last - dt.timedelta(share - 1)
        validation = test - dt.timedelta(share)
        if (validation - first).days < YEAR:
            validation = first + dt.timedelta(YEAR)
            test = validation + dt.timedelta((count - YEAR) // 2)
    return history, horizon, cut(first, validation, test, last, base_to_test=False)


def for_forecasts(data: DataConfig, first: dt.date, last: dt.date, where: str) -> Splits:
    """Return splits for forecasts of days after `last`: the statistics are of all years but the one under way.

    So they stay the same for a year. The errors of forecasts are estimated on the last years of the statistics.
    Raises SSTCastError, naming `where` the record is from, if it is shorter than five years.
    """
    test = last_test(data, last)
    if (test - first).days < 365 * LEAST_YEARS:
        raise SSTCastError(
            f"{where}: holds {first}..{last}; a climatology needs {LEAST_YEARS} years before {test}: "
            "give a longer record"
        )
    years = 2 if (test - first).days >= 365 * LONG else 1
    return cut(first, dt.date(test.year - years, 1, 1), test, last)


def last_test(data: DataConfig, last: dt.date) -> dt.date:
    """Return the latest first day of a year after which a record up to `last` holds a window."""
    test = dt.date(last.year, 1, 1)
    return test if (last - test).days >= data.history + data.horizon else dt.date(last.year - 1, 1, 1)


def for_dates(first: dt.date, date: dt.date, last: dt.date, history: int, horizon: int) -> Splits:
    """Return splits of a record from `first` on for forecasts of a file, made on `date` and later, up to `last`.

    The test begins with the history of the first forecast.
    """
    test = date - history * DAY
    validation = max(min(VALIDATION, (test - first).days // 5), history + horizon + 1)
    return cut(first, test - validation * DAY, test, last)


def for_years(data: DataConfig, first: int, last: int, validation: int, name: str) -> Splits:
    """Return splits that test on the years `first..last`, after `validation` years, in the fold called `name`.

    Training begins where that of `data` does. Raises SSTCastError if less than a year, or not a single window, is
    left to train on.
    """
    begin, years = data.splits.train[0], (first - validation, first)
    start, test = (dt.date(year, 1, 1) for year in years)
    days, needed = (start - begin).days, max(YEAR, data.history + data.horizon + 1)
    if days < needed:
        raise SSTCastError(
            f"--years: {name} has {max(days, 0)} days to train on, from {begin} to {start - DAY}, "
            f"and needs {needed}; begin later"
        )
    return cut(begin, start, test, dt.date(last, 12, 31))


def clipped(splits: Splits, first: dt.date, last: dt.date, where: str) -> Splits:
    """Return the days of `splits` that a record of `first..last` holds; raise SSTCastError if one has none."""
    spans = {name: (max(begin, first), min(end, last)) for name, (begin, end) in splits.given.items()}
    for name, (begin, end) in spans.items():
        if begin > end:
            start, stop = splits.given[name]
            raise SSTCastError(
                f"{where}: holds {first}..{last}, no day of the run's data.splits.{name}, {start}..{stop}; "
                "choose another"
            )
    return validate(Splits, spans, where)
