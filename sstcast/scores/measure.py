"""One pass over the test days: forecast, write the forecasts, reduce them to tables."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from typing import Protocol

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track

from sstcast import __version__
from sstcast.forecasting.predictor import Array, Predictor, in_degrees, predictor_of
from sstcast.forecasting.spread import Spread, ValidationDays, calibrated, fitted_baselines
from sstcast.names import DEGREES, MODEL, STANDARDISED
from sstcast.ocean.heatwaves import FREQUENCIES
from sstcast.ocean.limits import limits_of
from sstcast.progress import hides_progress
from sstcast.runs import Run
from sstcast.scores.heatwaves import HeatwaveTables
from sstcast.scores.tables import Observed, Tables
from sstcast.scores.verification import Verification, Write, forecast_file
from sstcast.scratch import release

THREADS = 2  # each with a block of one method: NumPy does not hold the interpreter while it works on an array


class Width(Protocol):
    """What gives forecasts their standard deviation, as `Spread` does."""

    @property
    def correlation(self) -> NDArray[np.float64]:
        """Of the errors of one forecast at two leads, `[lead, lead]`."""

    def spread(self, valid_time: xr.DataArray) -> xr.DataArray:
        """Return it on days `valid_time(init_time, lead)`, with `lat` and `lon`, in degC."""


def measure(run: Run, data: Verification) -> xr.Dataset:
    """Forecast every test day, write `forecasts.zarr`, and return the tables of the model and the baselines."""
    predictors, spreads = _methods(run, data)
    members, label = len(run.members), run.folder.name
    per_chunk = data.blocks(members)[0].stop
    title, history = f"SST forecasts of run {label}", f"sstcast {__version__} evaluate"
    with forecast_file(run.forecasts, run, data, per_chunk, title=title, history=history) as write:
        return tabulate(data, predictors, spreads, members, label, write)


def _methods(run: Run, data: Verification) -> tuple[dict[str, Predictor], dict[str, Spread]]:
    days = ValidationDays(data.data)
    fitted, dressed = fitted_baselines(days)
    return {MODEL: predictor_of(run), **fitted}, {MODEL: calibrated(run, days=days), **dressed}


def tabulate(
    data: Verification,
    predictors: Mapping[str, Predictor],
    spreads: Mapping[str, Width],
    members: int,
    label: str,
    add: Write | None = None,
) -> xr.Dataset:
    """Return the tables of some methods, one of them called `MODEL`, of `members` members.

    A block of initial dates is in memory at a time, of two methods side by side: each is asked once. A method
    without a spread is not scored as a distribution. What the model forecasts goes to `add`, if given; the
    terminal shows `label` and the progress.
    """
    limits, methods = limits_of(data.data, "heatwave_threshold", *FREQUENCIES), list(predictors)
    threshold = data.of_year(limits["heatwave_threshold"])
    tables, console = Tables(data, methods, members), Console(stderr=True)
    correlations = {name: spread.correlation for name, spread in spreads.items()}
    heatwaves = HeatwaveTables(data, limits, methods, correlations)

    def score(name: str, dates: slice, past: tuple[xr.Dataset, int], observed: Observed, limit: Array) -> None:
        forecast = predictors[name].predict(*past)
        tiles = data.on_tiles(forecast)
        tables.add(name, dates, tiles, observed)
        width = spreads[name].spread(forecast["valid_time"]) if name in spreads else None
        spread = None if width is None else data.on_tiles(width)
        if spread is not None:
            tables.add_distribution(name, dates, tiles, spread, observed)
        heatwaves.add(name, dates, tiles * observed.scale - limit, spread)
        if name == MODEL and add is not None:
            fields = in_degrees(forecast, data.statistics)
            add(dates, fields if width is None else fields.assign(sst_spread=width))

    parts = data.blocks(members)
    with ThreadPoolExecutor(THREADS) as pool:
        for dates in track(parts, label, console=console, disable=hides_progress(console), transient=True):
            climatology = data.ahead(data.climatology, dates)
            limit, degrees = (data.ahead(daily, dates) - climatology for daily in (threshold, data.sst))
            anomaly = {STANDARDISED: data.ahead(data.anomaly, dates), DEGREES: degrees}
            observed = Observed(anomaly, data.ahead(data.scale, dates))
            tables.add_truth(dates, observed)
            heatwaves.add_references(dates)
            block = dates, data.histories(dates), observed, limit
            for _ in pool.map(score, predictors, *map(repeat, block)):
                pass
            release()
    return tables.dataset().merge(heatwaves.dataset())
