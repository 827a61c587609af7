"""Removes the mean error of forecasts, estimated from their errors in other years.

Every centre that issues dynamical forecasts subtracts their mean error over a set of hindcasts. So does this
module, for all systems of a table alike, by cell, lead and season.
"""

from collections.abc import Mapping

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast.errors import SSTCastError, counted
from sstcast.forecasting.fields import FIELD
from sstcast.forecasting.system import ForecastSystem
from sstcast.names import BIAS_REMOVED, DAY
from sstcast.reading.days_of_year import DAYS_OF_YEAR, day_of_leap_year, on_days
from sstcast.scores.analysis import Analysis
from sstcast.scores.system_records import CORRECTED, key_corrected
from sstcast.scores.systems import ScoredSystem
from sstcast.storage.scratch import release, scratch_array
from sstcast.types import Array

NEARBY_DAYS = 45  # from a day of the year to the initial dates whose errors are averaged
FEW_YEARS = 10  # of initial dates, below which the noise of the mean error is told


class BiasRemoved(ForecastSystem):
    """A system minus its mean error.

    Args:
        system: the system to correct.
        truth: the initial dates and the observations.

    Raises SSTCastError if a forecast has no errors that may correct it (see `shares_of_errors`).
    """

    def __init__(self, system: ForecastSystem, truth: Analysis) -> None:
        super().__init__(system.region, system.history, system.horizon)
        self.system, self.truth = system, truth
        errors = _errors(system, truth)
        self.correction = np.empty_like(errors)
        for place, lead in enumerate(truth.leads):
            shares = shares_of_errors(truth.windows.init_times, int(lead))
            by_date = errors[:, place].reshape(len(errors), -1)
            self.correction[:, place] = (shares @ by_date).reshape(errors[:, place].shape)
            release()

    def predict(self, anomalies: xr.Dataset, every: int = 1) -> xr.DataArray:
        """Forecast, and subtract the mean error (see `ForecastSystem.predict`)."""
        forecast = _on_leads(self.system.predict(anomalies, every), self.truth)
        dates = np.searchsorted(self.truth.windows.init_times, forecast["init_time"].values)
        degrees = xr.DataArray(self.truth.on_map(self.correction[dates]), dims=FIELD)
        scale = on_days(self.truth.statistics["scale"], forecast["valid_time"])
        correction = degrees / scale.transpose(*FIELD).drop_vars(list(scale.coords))
        return forecast - correction.astype(np.float32)


def shares_of_errors(init_times: NDArray[np.datetime64], lead: int) -> NDArray[np.float32]:
    """Return the share of each error in the mean that corrects each forecast, `[forecasts, errors]`.

    These are the errors of forecasts from days within `NEARBY_DAYS` of the day of the year of the initial date. To
    see no truth of the years that are scored, they leave out all forecasts from the year of the initial date or of
    the day forecast, and all whose day forecast is in one of them.

    Args:
        init_times: the initial dates.
        lead: days ahead.

    Raises SSTCastError if nothing is left for a forecast.
    """
    start, valid = (times.astype("datetime64[Y]").astype(int) for times in (init_times, init_times + lead * DAY))
    day = day_of_leap_year(xr.DataArray(init_times, dims="init_time")).values
    apart = np.abs(day[:, None] - day)
    near = np.minimum(apart, len(DAYS_OF_YEAR) - apart) <= NEARBY_DAYS
    for year in (start, valid):
        near &= (year[:, None] != start) & (year[:, None] != valid)
    count = near.sum(1, keepdims=True)
    if not count.all():
        date = init_times[np.argmin(count)].astype("datetime64[D]")
        raise SSTCastError(
            f"--remove-bias: the forecast from {date} has none to correct it, {counted(lead, 'day')} ahead, "
            f"within {NEARBY_DAYS} days of the day of the year in other years; score more years, or leave it out"
        )
    return (near / count).astype(np.float32)


def without_bias(systems: Mapping[str, ScoredSystem], truth: Analysis) -> dict[str, ScoredSystem]:
    """Return the systems minus their mean errors, by new names. They keep their spread."""
    return {
        key_corrected(name): scored._replace(
            system=BiasRemoved(scored.system, truth), role=CORRECTED, of=name, label=None
        )
        for name, scored in systems.items()
    }


def years_of(truth: Analysis) -> int:
    """Return the number of years with initial dates."""
    return len(np.unique(truth.windows.init_times.astype("datetime64[Y]")))


def note_of(truth: Analysis) -> str:
    """Describe how the mean error was estimated, and what it costs if there are few years."""
    years, few = years_of(truth), ""
    if years < FEW_YEARS:
        few = f"; with {years} years it is uncertain: three years without a bias lose 7 to 9 % at day 28"
    return (
        f"rows that end in {BIAS_REMOVED!r} subtract the mean error by cell and lead of forecasts from days "
        f"within {NEARBY_DAYS} days of the day of the year in all other years, later years included, which no "
        f"forecaster knows{few}"
    )


def _errors(system: ForecastSystem, truth: Analysis) -> Array:
    """Return the errors of the ensemble mean in degC, `[starts, lead, tile, N]`, 0 on land."""
    errors = scratch_array((truth.windows.starts, len(truth.leads), *truth.ocean.shape))
    for dates in truth.blocks():
        forecast = truth.of_dates(system.predict(*truth.histories(dates)), dates)
        forecast = _on_leads(forecast, truth).mean("member")
        scale, climatology = (truth.ahead(truth.statistics[name], dates) for name in ("scale", "climatology"))
        errors[dates] = truth.on_tiles(forecast) * scale - (truth.ahead(truth.sst, dates) - climatology)
        release()
    return errors


def _on_leads(forecast: xr.DataArray, truth: Analysis) -> xr.DataArray:
    """Select the leads that are verified."""
    return forecast if forecast.sizes["lead"] == len(truth.leads) else forecast.sel(lead=truth.leads)
