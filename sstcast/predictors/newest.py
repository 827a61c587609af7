"""Which values of a predictor's store a day reads, by their places in it, and which days these values describe."""

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from sstcast.names import DAY

Days = NDArray[np.datetime64]
Places = tuple[NDArray[np.intp], ...]


def newest_known(ends: Days, days: Days, delay: int) -> NDArray[np.intp]:
    """Return the position of the newest value known on each of `days`, -1 if none is known yet.

    A value is known `delay` days after `ends`, the last day of its span, on which it then counts as known all day.
    Both arrays ascend.
    """
    return np.searchsorted(ends + delay * DAY, days, side="right") - 1


def newest_places(ends: Days, days: Days, delay: int, every: str = "day", count: int = 1) -> Places:
    """Return the places in `ends` of the `count` newest spans known on each day, the newest first, `[day, count]`.

    A value is one of each day, or of `every` month. It is -1 if the value of a span is not there.
    """
    periods = pd.period_range(
        min(ends[0], days[0]), max(ends[-1], days[-1]), freq="M" if every == "month" else "D"
    )
    spans = periods.end_time.normalize().as_unit("ns")
    span = newest_known(spans.values, days, delay)[:, None] - np.arange(count)
    places = pd.DatetimeIndex(ends).get_indexer(spans)
    return (np.where(span >= 0, places[span.clip(0)], -1),)


def valid_days(values: xr.DataArray) -> Days:
    """Return the day that each value describes, with all axes of `values` but latitude and longitude."""
    days: Days = values[values.dims[0]].values
    if "lead" in values.dims:
        days = np.add.outer(days, values["lead"].values.astype("timedelta64[D]"))
    return days
