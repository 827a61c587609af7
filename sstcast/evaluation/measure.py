"""One pass over the test days: forecast, write the forecasts, reduce them to tables."""

import numpy as np
import xarray as xr
from rich.console import Console
from rich.progress import track

from sstcast.evaluation.baselines import Array, fit_baselines, truth
from sstcast.evaluation.forecasts import ModelMethod, Verification, blocks, forecast_file
from sstcast.evaluation.heatwaves import threshold
from sstcast.evaluation.tables import DEGREES, MODEL, STANDARDISED, Observed, Tables
from sstcast.ocean.anomalies import on_days
from sstcast.runs import Run


def measure(run: Run, data: Verification) -> xr.Dataset:
    """Forecast every test day, write `forecasts.zarr`, and return the tables of the model and the baselines.

    A block of initial dates is in memory at a time, of one method after the other: each is asked once.
    """
    limits = threshold(data.training(data.cube["sst"]))
    limit = on_days(limits, data.days).values - data.climatology
    model, baselines = ModelMethod(run, data.windows), fit_baselines(data.train)
    members = len(run.members)
    tables = Tables(data, [MODEL, *baselines], members)
    parts = blocks(data.windows, members)
    console = Console(stderr=True)
    with forecast_file(run, data, parts[0].stop) as write:
        for dates in track(
            parts, run.folder.name, console=console, disable=not console.is_terminal, transient=True
        ):
            windows, scale = data.part(dates), data.ahead(data.scale, dates)
            climatology = data.ahead(data.climatology, dates)
            degrees = data.ahead(data.sst, dates) - climatology
            anomaly = {STANDARDISED: truth(windows), DEGREES: degrees}
            observed = Observed(anomaly, scale, data.ahead(limit, dates))
            tables.add_truth(dates, observed)
            forecast = model.members(windows)
            tables.add(MODEL, dates, forecast, observed)
            write(dates, _in_degrees(forecast, scale, climatology))
            del forecast
            for name, method in baselines.items():
                tables.add(name, dates, method(windows)[None], observed)
    on_map = data.on_map(limits.values)
    return tables.dataset().assign(
        heatwave_threshold=(("dayofyear", "lat", "lon"), on_map), dayofyear=limits["dayofyear"]
    )


def _in_degrees(members: Array, scale: Array, climatology: Array) -> dict[str, Array]:
    """Return what `forecast_file` writes."""
    sst = {"sst": members.mean(0) * scale + climatology}
    return sst if len(members) == 1 else sst | {"sst_spread": np.std(members * scale, axis=0, ddof=1)}
