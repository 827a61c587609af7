"""Predictors of `kind: forecast`, the newest issue of a forecast of a daily field, on the days ahead.

The values in a store are the mean of the members, `(init_time, lead, lat, lon)`, and `init_time` is the last day
before the forecast. With `perfect`, the source is an analysis, whose store is that of a `grid`, and all days ahead
are read from it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from sstcast.errors import SSTCastError
from sstcast.names import DAY
from sstcast.predictors import grid
from sstcast.predictors.newest import Days, Places, newest_known
from sstcast.predictors.predictor import AHEAD, Kind, Predictor
from sstcast.reading.flags import tell_invalid
from sstcast.reading.forecast_files import read_forecasts
from sstcast.reading.layouts import NoForecast

IS_SST = "is_sst"  # attribute of a store: whether its source is one that SST is found in
DIMS = ("time", AHEAD, "lat", "lon")


@contextmanager
def read(predictor: Predictor, cells: xr.Dataset, given: Any) -> Iterator[tuple[xr.DataArray, xr.DataArray]]:
    """Open the forecasts of a field (see `Kind.read`)."""
    with grid.read_from(predictor, given) as days:
        try:
            refused = grid.refused_hours(predictor)
            forecasts = read_forecasts(days.path, days.variable, days.units, False, refused=refused)
        except NoForecast as error:
            told = "as perfect forecasts, which nobody has, analyses need perfect: true"
            raise SSTCastError(f"{error}; {told}") from error
        members = forecasts.sst.transpose("init_time", "lead", "member", ...)
        mean, weights = members.mean("member", keep_attrs=True), grid.weights_to(predictor, members, cells)
        try:
            values = grid.on_cells(mean, weights, cells).assign_attrs({IS_SST: str(forecasts.is_sst)})
            yield values, grid.read_by(members, weights, cells)
        finally:
            tell_invalid(days.path, forecasts.ranges)


def places(predictor: Predictor, values: xr.DataArray, days: Days) -> Places:
    """Return the places, issue and lead, of each day ahead (see `Kind.places`).

    They are -1 where the newest issue known on a day has no such lead.
    """
    issues, leads = values["init_time"].values, values["lead"].values
    newest = newest_known(issues, days, predictor.config.delay)
    ahead = np.arange(1, predictor.data.horizon + 1)
    lead = (days - issues[newest.clip(0)]).astype("timedelta64[D]").astype(int)[:, None] + ahead
    place = np.searchsorted(leads, lead).clip(max=len(leads) - 1)
    is_known = (newest[:, None] >= 0) & (leads[place] == lead)
    return np.where(is_known, newest[:, None], -1), np.where(is_known, place, -1)


def days_ahead(predictor: Predictor, values: xr.DataArray, days: Days) -> Places:
    """Return the places of the days ahead themselves (see `Kind.places`)."""
    ahead = days[:, None] + np.arange(1, predictor.data.horizon + 1) * DAY
    place = pd.DatetimeIndex(values["time"].values).get_indexer(ahead.ravel())
    return (place.reshape(ahead.shape),)


def each(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the values of the days ahead (see `Kind.of_day`)."""
    return values


FORECAST = Kind("issue", DIMS, read, places, grid.basis, grid.fit, each, "ahead", chunk=8)
PERFECT = Kind("day", DIMS, grid.read, days_ahead, grid.basis, grid.fit, each, "ahead")
