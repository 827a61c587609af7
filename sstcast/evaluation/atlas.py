"""The verb `map`: the maps of an evaluated run."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import xarray as xr

from sstcast.errors import SSTCastError
from sstcast.evaluation.baselines import persistence
from sstcast.evaluation.forecasts import Verification
from sstcast.evaluation.maps import by_week, draw_forecast, draw_weeks
from sstcast.evaluation.metrics import bias, mse, skill
from sstcast.runs import Run


def draw_run(run: Run, say: Callable[[str], object] = print) -> list[Path]:
    """Draw `maps/*.png` of a run from its `forecasts.zarr`; `say` gets a line for each file made.

    By lead week: RMSE and bias in degC, and mean-squared-error skill over persistence; and the forecast of
    median error beside what came true. Maps newer than the forecasts are kept.

    Raises SSTCastError if the run has not been evaluated.
    """
    files = {name: run.maps / f"{name}.png" for name in ("rmse", "bias", "skill", "forecast")}
    if not run.forecasts.exists():
        raise SSTCastError(f"{run.forecasts}: no forecasts yet; run `sstcast evaluate {run.folder}` first")
    if all(f.exists() and f.stat().st_mtime > run.forecasts.stat().st_mtime for f in files.values()):
        say(f"{run.maps}: nothing to do")
        return list(files.values())

    data = Verification.of(run)
    credit = f"Data: {data.cube.attrs['source']}. Land: Natural Earth."
    forecast = xr.open_zarr(run.forecasts)["sst"].load()
    truth = data.truth()["sst"]
    reference = mse(data.fields(persistence)["sst"], truth, ["init_time"])
    error = mse(forecast, truth, ["init_time"])
    name, period = (
        run.folder.name,
        f"{truth.init_time.dt.year.values[0]}-{truth.init_time.dt.year.values[-1]}",
    )

    draw_weeks(
        by_week(error) ** 0.5,
        files["rmse"],
        title=f"RMSE of {name}, {period}",
        label="RMSE (°C)",
        kind="error",
        credit=credit,
    )
    draw_weeks(
        by_week(bias(forecast, truth, ["init_time"])),
        files["bias"],
        title=f"Bias of {name}, {period}",
        label="forecast − observed (°C)",
        kind="difference",
        credit=credit,
    )
    draw_weeks(
        skill(by_week(error), by_week(reference)),
        files["skill"],
        title=f"Skill of {name} over persistence, {period}",
        label="1 − MSE / MSE of persistence (above 0: better)",
        kind="skill",
        credit=credit,
    )
    day = _median_day(forecast, truth)
    one = {"init_time": day}
    title = f"Forecast of {name} from {np.datetime_as_string(forecast['init_time'].values[day], unit='D')}"
    draw_forecast(forecast.isel(one), truth.isel(one), files["forecast"], title=title, credit=credit)
    for file in files.values():
        say(str(file))
    return list(files.values())


def _median_day(forecast: xr.DataArray, truth: xr.DataArray) -> int:
    """Return the position of the initial date whose error is the median: neither the best nor the worst case."""
    error = mse(forecast, truth, ["lead", "lat", "lon"]).values
    return int(np.argsort(error)[len(error) // 2])
