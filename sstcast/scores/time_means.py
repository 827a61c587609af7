"""Daily forecasts as means of several days, so that systems are scored beside a file of such means."""

from dataclasses import dataclass

import xarray as xr

from sstcast.extremes.heatwaves import FREEZING
from sstcast.extremes.terciles import weekly_spread
from sstcast.forecasting.fields import FIELD, not_below_freezing
from sstcast.forecasting.spread import Spread
from sstcast.forecasting.system import ForecastSystem
from sstcast.names import DAY
from sstcast.reading.days_of_year import on_days
from sstcast.scores.analysis import Analysis


class MeansOfDays(ForecastSystem):
    """The means of another system's forecasts over the days of the means that are verified.

    Each day is raised to the freezing point before the mean, as in scores of daily forecasts.
    """

    def __init__(self, system: ForecastSystem, truth: Analysis) -> None:
        super().__init__(system.region, system.history, system.horizon)
        self.system, self.truth = system, truth

    def predict(self, anomalies: xr.Dataset, every: int = 1) -> xr.DataArray:
        """Forecast the means, in units of the mean scale of their days (see `ForecastSystem.predict`)."""
        truth = self.truth
        daily = not_below_freezing(self.system.predict(anomalies, every), truth.statistics, truth.limits[FREEZING])
        scale = on_days(truth.statistics["scale"], daily["valid_time"])
        fields = xr.Dataset({"anomaly": daily * scale, "scale": scale})
        days = [slice(int(lead) - truth.mean_of + 1, int(lead)) for lead in truth.leads]
        means = xr.concat([fields.sel(lead=period).mean("lead", skipna=False) for period in days], "lead")
        forecast = (means["anomaly"] / means["scale"]).transpose("member", *FIELD).astype("float32")
        return forecast.assign_coords(lead=truth.leads, valid_time=daily["valid_time"].sel(lead=truth.leads))


@dataclass(frozen=True)
class SpreadOfWeeks(Spread):
    """The spread of the means of whole weeks, given the `values` and the `correlation` of a spread of days."""

    @classmethod
    def of(cls, daily: Spread) -> "SpreadOfWeeks":
        """Take the spread of daily forecasts."""
        return cls(daily.values, daily.correlation)

    def spread(self, valid_time: xr.DataArray) -> xr.DataArray:
        """Return the standard deviation in degC of the means of all whole weeks.

        Args:
            valid_time: the last day of each week, `(init_time, lead)`.
        """
        days = self.values["lead"][: int(valid_time["lead"][-1])]
        daily = super().spread(valid_time["init_time"] + days * DAY)
        correlation = self.correlation[: days.size, : days.size]
        weekly = daily.isel(lead=slice(valid_time.sizes["lead"])).assign_coords(lead=valid_time["lead"])
        return weekly.copy(data=weekly_spread(daily.values, correlation))
