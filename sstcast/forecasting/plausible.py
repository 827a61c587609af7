"""The last check of a forecast, whatever it was made from: whether it is plausible."""

import numpy as np
import pandas as pd
import xarray as xr

from sstcast.errors import SSTCastError
from sstcast.predictors.predictors import VARIABLE_PREFIX, predictors_in
from sstcast.reading.days_of_year import on_days
from sstcast.reading.plausible import describe_first
from sstcast.reading.sea import COLDEST, WARMEST
from sstcast.types import Mask

MOST_DEVIATIONS = 10  # standard deviations of a forecast from the climatology
DAYS_AROUND = 15  # days before and after the days forecast, on which a cell's own deviation is computed
LIMITS = (
    f"outside {COLDEST:g}..{WARMEST:g} degC or over {MOST_DEVIATIONS} standard deviations from the climatology"
)


def check_forecast(forecast: xr.Dataset, standard: xr.Dataset, record: xr.Dataset, where: str, model: str) -> None:
    """Raise SSTCastError, beginning with `where`, if a forecast from one initial date is not plausible.

    The message names the predictor that is farthest from its climatology on that date. Without predictors, it
    names the last days of SST if they are not plausible either, else the model.

    Args:
        forecast: `sst` and `sst_anomaly(init_time, lead, lat, lon)` in degC.
        standard: the standardised `anomaly(time, lat, lon)` of the days that the forecast was made from,
            `climatology` and `scale(dayofyear, lat, lon)` in degC, and what these days know of the predictors.
        record: the whole record (see `implausible`).
        where: the run.
        model: its `model.name`.
    """
    if not (wrong := implausible(forecast, standard["scale"], record)[0]).any():
        return
    told = {
        name.removeprefix(VARIABLE_PREFIX): float(abs(known[-1]).max())
        for name, known in predictors_in(standard).items()
        if known[-1].notnull().any()
    }
    if told:
        name = max(told, key=told.__getitem__)
        remedy = f"the predictor {name} is {told[name]:.3g} standard deviations from its climatology: correct it"
    elif implausible(_days_of(standard), standard["scale"], record).any():
        remedy = "correct the last days of SST"
    else:
        remedy = f"the days of SST that it reads are plausible, so the model {model} is not: train another"
    field, days = forecast["sst"][0], forecast["valid_time"].values[0]
    raise SSTCastError(
        f"{where}: forecasts {describe_first(field, wrong, days, field.values)}, which is {LIMITS}; {remedy}"
    )


def implausible(fields: xr.Dataset, scale: xr.DataArray, record: xr.Dataset) -> Mask:
    """Return where forecasts are not plausible, `[init_time, lead, lat, lon]`.

    Args:
        fields: `sst` and `sst_anomaly(init_time, lead, lat, lon)` in degC.
        scale: `scale(dayofyear, lat, lon)` in degC.
        record: the standardised `anomaly(time, lat, lon)` and the `scale` of the whole record. Where the deviation
            of the region or the day does not suffice, the cell's own around this time of year does.
    """
    sst, departure = fields["sst"].values, np.abs(fields["sst_anomaly"].values)
    deviation = on_days(scale, fields["valid_time"][:, 0]).transpose(..., "lat", "lon").values
    of_region = np.sqrt(np.nanmean(deviation**2, axis=(1, 2), keepdims=True))
    far: Mask = departure > MOST_DEVIATIONS * np.maximum(deviation, of_region)[:, None]
    for date in np.flatnonzero(far.any((1, 2, 3))):
        rows, columns = (np.flatnonzero(far[date].any(axes)) for axes in ((0, 2), (0, 1)))
        first, last = pd.DatetimeIndex(fields["valid_time"].values[date, [0, -1]]).day_of_year
        is_near = (record["time"].dt.dayofyear - first + DAYS_AROUND) % 366 <= (
            last - first
        ) % 366 + 2 * DAYS_AROUND
        around = record.isel(time=is_near.values, lat=rows, lon=columns)
        own = (around["anomaly"] * on_days(around["scale"], around["time"])).fillna(0).std("time").values
        cells = slice(None), rows[:, None], columns
        far[date][cells] &= departure[date][cells] > MOST_DEVIATIONS * own
    return far | (sst < COLDEST) | (sst > WARMEST)


def _days_of(standard: xr.Dataset) -> xr.Dataset:
    """Return the days of a history as forecasts of one day."""
    days = standard["time"]
    anomaly = standard["anomaly"] * on_days(standard["scale"], days)
    fields = xr.Dataset({"sst": anomaly + on_days(standard["climatology"], days), "sst_anomaly": anomaly})
    fields = (
        fields.rename(time="init_time").expand_dims(lead=1, axis=1).transpose("init_time", "lead", "lat", "lon")
    )
    return fields.assign_coords(valid_time=(("init_time", "lead"), days.values[:, None]))
