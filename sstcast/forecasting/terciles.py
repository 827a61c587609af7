"""Probabilities that the mean of a week lies in the lower, middle and upper third of the base period."""

import numpy as np
import xarray as xr

from sstcast.extremes.terciles import BOUNDS, middle_of_weeks, weekly_means, weekly_spread, whole_weeks
from sstcast.forecasting.heatwaves import probability
from sstcast.forecasting.spread import Spread
from sstcast.names import THIRDS
from sstcast.reading.days_of_year import on_days


def with_terciles(fields: xr.Dataset, spread: Spread, bounds: xr.Dataset) -> xr.Dataset:
    """Add the probabilities of the thirds to a forecast.

    Args:
        fields: `sst_anomaly(init_time, lead, lat, lon)` in degC, and `valid_time`.
        spread: the spread model of the forecast.
        bounds: those of `sstcast.extremes.terciles.terciles_of`.

    Returns:
        `fields` with `tercile_probability(init_time, week, tercile, lat, lon)`, NaN where the bounds coincide. It
        is absent if the forecast has no whole week.
    """
    horizon = fields.sizes["lead"]
    if not (weeks := whole_weeks(horizon)):
        return fields
    dims = ("init_time", "lead", "lat", "lon")
    mean = weekly_means(fields["sst_anomaly"].transpose(*dims).values, 1)
    width = spread.spread(fields["valid_time"]).transpose(*dims).values
    deviation = weekly_spread(width, spread.correlation[:horizon, :horizon])
    days = fields["valid_time"].isel(lead=middle_of_weeks(horizon))
    above = [probability(mean - on_days(bounds[name], days).transpose(*dims).values, deviation) for name in BOUNDS]
    thirds = np.stack([1 - above[0], above[0] - above[1], above[1]], axis=2)
    chances = xr.DataArray(thirds.astype(np.float32), dims=("init_time", "week", "tercile", "lat", "lon"))
    labels = {"week": np.arange(1, weeks + 1, dtype=np.int32), "tercile": list(THIRDS)}
    return fields.assign(tercile_probability=chances).assign_coords(labels)
