"""Forecasts and truth of a whole split on the map, for tests that score them in another way."""

import xarray as xr

from sstcast.forecasting.fields import FIELD, axes, in_degrees
from sstcast.forecasting.system import ForecastSystem
from sstcast.scores.analysis import Analysis


def forecast_of(predictor: ForecastSystem, data: Analysis) -> xr.Dataset:
    """Return the mean of the members: `anomaly` in standardised units, `sst_anomaly` and `sst` in degC."""
    forecast = predictor.predict(*data.histories())
    return in_degrees(forecast, data.statistics).assign(anomaly=forecast.mean("member", skipna=False))


def truth_of(data: Analysis) -> xr.Dataset:
    """Return what came true, laid out like `forecast_of`."""
    sst = data.ahead(data.sst)
    departure = sst - data.ahead(data.statistics["climatology"])
    fields = {"anomaly": data.ahead(data.anomaly), "sst_anomaly": departure, "sst": sst}
    coordinates = axes(data.windows.init_times, data.windows.horizon, data.anomalies)
    return coordinates.assign({name: (FIELD, data.on_map(values)) for name, values in fields.items()})
