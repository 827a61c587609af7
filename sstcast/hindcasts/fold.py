"""What is done for each fold, in any order and in any process: train, forecast, score.

Each function does what is not done yet and says what it did. Errors are kept in a small file, `hindcast.nc`, in
the run's folder, and forecasts in a store beside it until those of all folds are joined.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from sstcast import __version__
from sstcast.artefacts import locked, remove
from sstcast.cf import describe, references, write
from sstcast.config import DataConfig, RunConfig
from sstcast.errors import SSTCastError
from sstcast.forecasting.predictor import Predictor, axes, in_degrees, predictor_of
from sstcast.forecasting.spread import Spread, ValidationDays, calibrated, fitted_baselines
from sstcast.hindcasts.files import LAYOUT, RECIPE
from sstcast.hindcasts.plan import checkpoints
from sstcast.hindcasts.scores import STATISTICS, WARNINGS
from sstcast.manifest import damage
from sstcast.ocean.heatwaves import FREQUENCIES
from sstcast.ocean.limits import limits_of
from sstcast.ocean.prepared import Prepared, check_data
from sstcast.runs import Run
from sstcast.scores import probabilities
from sstcast.scores.combine import combine
from sstcast.scores.heatwaves import HeatwaveTables
from sstcast.scores.means import Means, of_members, week_starts
from sstcast.scores.metrics import SQUARED_ERROR
from sstcast.scores.verification import Verification, Write, forecast_file
from sstcast.scratch import release
from sstcast.stores import open_netcdf, open_zarr
from sstcast.training.train import train, training_windows

AGAIN = "delete it and run the same `sstcast hindcast` again"
Recipe = dict[str, Any]


def train_run(config: RunConfig) -> str:
    """Train a run, or go on with it."""
    run, trained = train(config, training_windows(config))
    return f"{run.folder}: {'trained' if trained else 'is trained'}"


def combine_runs(parts: list[Path], config: RunConfig, equal: bool) -> str:
    """Make a fold's combination of runs, unless it exists; replace one of other runs or with other weights."""
    said: list[str] = []
    made = Run(config.folder)
    if made.config_file.exists():
        held = {Path(os.path.normpath(made.folder / part.run)) for part in made.parts}
        weights = made.config.model.options.get("weights", "fitted")
        if held != {Path(os.path.normpath(part)) for part in parts} or (weights == "equal") is not equal:
            remove(config.folder)
    combine([Run(part) for part in parts], config.folder, equal, said.append)
    return said[0]


def score_run(config: RunConfig, every: int, joined: bool, thresholds: DataConfig) -> str:
    """Forecast a fold with a trained run or ensemble; leave its errors, and what is not `joined` yet.

    Heatwaves are measured by the base period of `thresholds`.
    """
    run = Run.open(config.folder)
    with locked(tables_file(run)):
        recipe = recipe_of(run, every)
        whole = recipe | _base(thresholds)
        if read_recipe(tables_file(run)) == whole and (joined or read_recipe(part_file(run)) == recipe):
            return f"{run.folder}: is forecast"
        check_data(run)
        data = Verification.open(config.data, every=every)
        parts = data.blocks(len(run.members))
        attributes = {
            "title": f"SST forecasts of run {run.folder.parent.name}/{run.folder.name}",
            "history": f"sstcast {__version__} hindcast",
            "data": str(data.cube.attrs["source"]),
            RECIPE: json.dumps(recipe),
        }
        name = run.folder.parent.name
        with forecast_file(part_file(run), run, data, parts[0].stop, **attributes) as add:
            tables = _errors(data, thresholds, {name: predictor_of(run)}, {name: calibrated(run)}, parts, add)
        _write(tables, data, tables_file(run), whole)
    return f"{run.folder}: {data.windows.starts} forecasts"


def score_baselines(data: DataConfig, every: int, path: Path, thresholds: DataConfig) -> str:
    """Forecast a fold with the baselines, and leave their errors; see `score_run`."""
    with locked(path):
        recipe = {"layout": LAYOUT, "every": every, "data": Prepared.of(data).record().model_dump()}
        recipe |= _base(thresholds)
        if read_recipe(path) == recipe:
            return f"{path}: is there"
        opened = Verification.open(data, every=every)
        predictors, spreads = fitted_baselines(ValidationDays(data))
        tables = _errors(opened, thresholds, predictors, spreads, opened.blocks())
        _write(tables, opened, path, recipe)
    return f"{path}: {opened.windows.starts} forecasts by each baseline"


def tables_file(run: Run) -> Path:
    """Return where the errors of a fold are."""
    return run.folder / "hindcast.nc"


def part_file(run: Run) -> Path:
    """Return where the forecasts of a fold are until they are joined with the others."""
    return run.folder / "hindcast.zarr"


def recipe_of(run: Run, every: int) -> Recipe:
    """Return what determines a run's forecasts of its fold."""
    data = Prepared.of(run.config.data).record().model_dump()
    return {"layout": LAYOUT, "every": every, "data": data, "checkpoints": checkpoints(run)}


def _base(thresholds: DataConfig) -> Recipe:
    return {"base_period": [str(day) for day in thresholds.splits.base]}


def read_recipe(path: Path) -> Any:
    """Return what a file was made of, as it says; None if it is absent or damaged."""
    if not path.exists() or (path.suffix == ".zarr" and damage(path)):
        return None
    try:
        with (open_zarr if path.suffix == ".zarr" else open_netcdf)(path, AGAIN) as opened:
            return json.loads(opened.attrs[RECIPE])
    except (SSTCastError, LookupError, ValueError, TypeError):
        return None


def _errors(
    data: Verification,
    thresholds: DataConfig,
    predictors: Mapping[str, Predictor],
    spreads: Mapping[str, Spread],
    parts: list[slice],
    add: Write | None = None,
) -> xr.Dataset:
    """Return scores in degC of the area by date and lead: the `mse` and those of the predictive distributions.

    Squared errors are also by date, lead week and cell; scores of heatwave probabilities are as `evaluate` has
    them. What the one predictor forecasts goes to `add`, if given.
    """
    limits = limits_of(thresholds, "heatwave_threshold", *FREQUENCIES)
    threshold = data.of_year(limits["heatwave_threshold"])
    heatwaves = HeatwaveTables(data, limits, list(predictors), {n: of.correlation for n, of in spreads.items()})
    shape = (data.windows.starts, data.windows.horizon)
    errors = {name: Means(*shape, data.area, keep=SQUARED_ERROR.name) for name in predictors}
    for dates in parts:
        past, scale = data.histories(dates), data.ahead(data.scale, dates)
        climatology = data.ahead(data.climatology, dates)
        limit, truth = (data.ahead(daily, dates) - climatology for daily in (threshold, data.sst))
        if add is None:  # once a fold, with the baselines
            heatwaves.add_references(dates)
        for name, predictor in predictors.items():
            forecast = predictor.predict(*past)
            degrees = of_members(data.on_tiles(forecast) * scale)
            errors[name].add(dates, [(SQUARED_ERROR.name, SQUARED_ERROR.of(degrees, truth))])
            width = spreads[name].spread(forecast["valid_time"])
            spread = np.where(data.ocean, data.on_tiles(width), np.float32(1))
            errors[name].add(dates, probabilities.Gaussians(degrees - truth, spread).statistics())
            heatwaves.add(name, dates, (degrees - limit)[None], spread)
            if add is not None:
                add(dates, in_degrees(forecast, data.statistics).assign(sst_spread=width))
        release()
    tables = axes(data.windows.init_times, data.windows.horizon, data.anomalies).assign_coords(
        system=list(predictors), week=1 + week_starts(data.windows.horizon) // 7
    )
    by_date = {
        name: (("system", "init_time", "lead"), np.stack([of.by_date[name] for of in errors.values()]))
        for name in STATISTICS
    }
    weekly = [
        xr.DataArray(data.weeks_on_map(of.by_week), dims=("init_time", "week", "lat", "lon"))
        for of in errors.values()
    ]
    tables = tables.assign(by_date).assign(squared_error_by_week=xr.concat(weekly, "system"))
    return tables.merge(heatwaves.dataset()[list(WARNINGS)])


def _write(tables: xr.Dataset, data: Verification, path: Path, recipe: Recipe) -> None:
    source = data.cube.attrs["source"]
    tables = describe(
        tables,
        title="Errors of a hindcast's fold",
        summary="Area means by date and lead of squared errors (degC2) and scores of distributions (degC); "
        "squared errors of cells by date and lead week; Brier scores and cases of heatwave probabilities",
        source=source,
        history=f"sstcast {__version__} hindcast",
        **references(source, data.data.protocol),
        **{RECIPE: json.dumps(recipe)},
    )
    write(tables, path)
