"""Which days are read to score forecasts: also those around them, on which an event may begin or end.

A run's record ends with its test days, and a new day never makes it another. What is scored therefore has a digest
of its own, which recipes of scores hold.
"""

import datetime as dt

import numpy as np

from sstcast.config import DataConfig
from sstcast.extremes.heatwaves import MARGIN_DAYS
from sstcast.names import DAY
from sstcast.ocean.prepared import Prepared
from sstcast.reading.digests import digest_of_days

Days = tuple[np.datetime64, np.datetime64]


def with_margin(first: np.datetime64, last: np.datetime64) -> Days:
    """Return the first and the last day that are read to score forecasts.

    Args:
        first: the first initial date.
        last: the last day forecast.
    """
    return first - MARGIN_DAYS * DAY, last + MARGIN_DAYS * DAY


def scored_days(data: DataConfig) -> Days:
    """Return the first and the last day that are read to score forecasts of all test days."""
    first, last = (np.datetime64(day) for day in data.splits.test)
    return with_margin(first + (data.history - 1) * DAY, last)


def digest_of_scored(prepared: Prepared) -> dict[str, str]:
    """Return the part of a recipe that tells the days that are scored, as far as the record goes."""
    first, last = scored_days(prepared.data)
    return {"scored": digest_of_days(prepared.open_cube(), first.astype(dt.date), last.astype(dt.date))}
