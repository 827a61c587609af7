"""One pass over the test days: forecast, write the forecasts, reduce them to tables."""

import xarray as xr
from rich.console import Console
from rich.progress import track

from sstcast import __version__
from sstcast.forecasting.baselines import fit_baselines
from sstcast.forecasting.combination import predictor_of
from sstcast.forecasting.predictor import in_degrees
from sstcast.ocean.anomalies import on_days
from sstcast.runs import Run
from sstcast.scores.heatwaves import threshold
from sstcast.scores.tables import DEGREES, MODEL, STANDARDISED, Observed, Tables
from sstcast.scores.verification import Verification, blocks, forecast_file, truth


def measure(run: Run, data: Verification) -> xr.Dataset:
    """Forecast every test day, write `forecasts.zarr`, and return the tables of the model and the baselines.

    A block of initial dates is in memory at a time, of one method after the other: each is asked once.
    """
    limits = threshold(data.between(*data.data.splits.base, data.cube["sst"]))
    limit = on_days(limits, data.days).values - data.climatology
    predictors = {MODEL: predictor_of(run), **fit_baselines(data.data, data.anomalies)}
    members = len(run.members)
    tables = Tables(data, list(predictors), members)
    parts = blocks(data.windows, members)
    console = Console(stderr=True)
    title, history = f"SST forecasts of run {run.folder.name}", f"sstcast {__version__} evaluate"
    with forecast_file(run.forecasts, run, data, parts[0].stop, title=title, history=history) as write:
        for dates in track(
            parts, run.folder.name, console=console, disable=not console.is_terminal, transient=True
        ):
            windows, scale = data.part(dates), data.ahead(data.scale, dates)
            climatology = data.ahead(data.climatology, dates)
            degrees = data.ahead(data.sst, dates) - climatology
            anomaly = {STANDARDISED: truth(windows), DEGREES: degrees}
            observed = Observed(anomaly, scale, data.ahead(limit, dates))
            tables.add_truth(dates, observed)
            past = data.histories(dates)
            for name, predictor in predictors.items():
                forecast = predictor.predict(past)
                tables.add(name, dates, data.on_tiles(forecast), observed)
                if name == MODEL:
                    write(dates, in_degrees(forecast, data.statistics))
    on_map = data.on_map(limits.values)
    return tables.dataset().assign(
        heatwave_threshold=(("dayofyear", "lat", "lon"), on_map), dayofyear=limits["dayofyear"]
    )
