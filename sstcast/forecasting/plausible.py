"""The last check of a forecast, whatever it was made from: whether it is plausible."""

import numpy as np
import pandas as pd
import xarray as xr

from sstcast.errors import SSTCastError
from sstcast.predictors.predictors import VARIABLE_PREFIX, predictors_in
from sstcast.reading.days_of_year import on_days
from sstcast.reading.plausible import describe_first
from sstcast.reading.sea import COLDEST, WARMEST

MOST_DEVIATIONS = 10  # standard deviations of a forecast from the climatology
DAYS_AROUND = 15  # days before and after the days forecast, on which a cell's own deviation is computed


def check_forecast(forecast: xr.Dataset, standard: xr.Dataset, record: xr.Dataset, where: str) -> None:
    """Raise SSTCastError, beginning with `where`, if a forecast from one initial date is not plausible.

    The message names the predictor that is farthest from its climatology on that date.

    Args:
        forecast: `sst` and `sst_anomaly(init_time, lead, lat, lon)` in degC.
        standard: `scale(dayofyear, lat, lon)` in degC, and what is known of the predictors up to the initial date.
        record: the standardised `anomaly(time, lat, lon)` and the `scale` of the whole record. Where the deviation
            of the region or the day does not suffice, the cell's own around this time of year does.
    """
    field, days = forecast["sst"][0], forecast["valid_time"].values[0]
    sst, departure = field.values, np.abs(forecast["sst_anomaly"].values[0])
    scale = on_days(standard["scale"], forecast["valid_time"][0]).values
    limit = MOST_DEVIATIONS * np.maximum(scale, np.sqrt(np.nanmean(scale**2)))
    if (far := departure > limit).any():
        rows, columns = (np.flatnonzero(far.any(axes)) for axes in ((0, 2), (0, 1)))
        first, last = pd.DatetimeIndex(days[[0, -1]]).day_of_year
        is_near = (record["time"].dt.dayofyear - first + DAYS_AROUND) % 366 <= (
            last - first
        ) % 366 + 2 * DAYS_AROUND
        around = record.isel(time=is_near.values, lat=rows, lon=columns)
        own = (around["anomaly"] * on_days(around["scale"], around["time"])).fillna(0).std("time").values
        far[:, rows[:, None], columns] &= departure[:, rows[:, None], columns] > MOST_DEVIATIONS * own
    if not (wrong := far | (sst < COLDEST) | (sst > WARMEST)).any():
        return
    told = {
        name.removeprefix(VARIABLE_PREFIX): float(abs(known[-1]).max())
        for name, known in predictors_in(standard).items()
        if known[-1].notnull().any()
    }
    remedy = "correct the last days of SST"
    if told:
        name = max(told, key=told.__getitem__)
        remedy = f"the predictor {name} is {told[name]:.3g} standard deviations from its climatology: correct it"
    raise SSTCastError(
        f"{where}: forecasts {describe_first(field, wrong, days, sst)}, which is outside {COLDEST:g}..{WARMEST:g} "
        f"degC or over {MOST_DEVIATIONS} standard deviations from the climatology; {remedy}"
    )
