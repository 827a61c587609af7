"""The tasks of a fold (train, forecast and verify), and functions that join the results of all folds.

Tasks can run in different processes. Each task does only the work that is not done yet, and returns a line that
says what it did. The statistics of a fold are in `hindcast.nc` in the run's folder. Its forecasts are in a store
beside that file until all folds are joined.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from sstcast._version import __version__
from sstcast.config import DataConfig, RunConfig
from sstcast.errors import SSTCastError
from sstcast.forecasting.fields import described, training_of
from sstcast.forecasting.spread import SpreadCalibrator, calibrated
from sstcast.forecasting.system import system_of
from sstcast.hindcasts.plan import Fold, Plan, checkpoints
from sstcast.names import REFERENCES
from sstcast.ocean.lead_weeks import lead_weeks
from sstcast.ocean.prepared import Prepared
from sstcast.progress import dask_progress
from sstcast.runs import Run
from sstcast.scores.analysis import Analysis
from sstcast.scores.asked import Asked
from sstcast.scores.baseline_tables import described_tables, verified_baselines
from sstcast.scores.combine import combine, error_products
from sstcast.scores.joining import CONCAT_OPTIONS, join_systems
from sstcast.scores.scene import Scene
from sstcast.scores.score_files import recipe_of_scores
from sstcast.scores.scored_days import digest_of_scored
from sstcast.scores.system_records import RUN
from sstcast.scores.systems import ScoredSystem, forecast_file
from sstcast.scores.verify import verify
from sstcast.storage.artefacts import RECIPE, as_text, is_up_to_date, locked, noted, remove
from sstcast.storage.dataset_files import write, write_zarr
from sstcast.storage.stores import open_netcdf, open_written
from sstcast.training.data_record import check_data
from sstcast.training.train import train, training_windows

REMEDY = "delete it and run the same `sstcast hindcast` again"
Recipe = dict[str, Any]


def train_run(config: RunConfig) -> str:
    """Train a run, or resume its training."""
    prepared = Prepared.of(config.data)
    run, trained = train(config, training_windows(config, prepared), prepared)
    return f"{run.folder}: {'trained' if trained else 'already trained'}"


def combine_runs(parts: list[Path], config: RunConfig, equal: bool) -> str:
    """Make a fold's combination of runs, unless it exists. Replace a combination of other runs or weights."""
    _, new = combine([Run(part) for part in parts], config.folder, equal, replace=True)
    return f"{config.folder}: {'written' if new else 'nothing to do'}"


def select_run(parts: dict[Path, list[Path]], config: RunConfig, every: int) -> str:
    """Select the best of the `parts` on earlier folds, and make it this fold's run, as a combination of one part.

    The best system has the lowest mean squared error in degC^2 on the two folds before this one. A system whose
    error is NaN is not chosen. Raises SSTCastError if all are.

    Args:
        parts: for each system, its run in this fold, and its runs in the two folds before, which saw no year of
            this fold.
        config: the configuration of the run to make.
        every: days from one initial date to the next.
    """
    errors = [sum(_squared_error(Run.open(run), every) for run in earlier_runs) for earlier_runs in parts.values()]
    if np.isnan(errors).all():
        raise SSTCastError(
            f"{config.folder}: all errors of --select before this fold are NaN; choose other systems"
        )
    best = list(parts)[int(np.nanargmin(errors))]
    return f"{combine_runs([best], config, equal=True)}; chosen: {best.parent.name}"


def _squared_error(run: Run, every: int) -> float:
    """Return the mean squared error of a run in degC^2 over all leads of its test years."""
    tests = Analysis.open(Prepared.of(run.config.data), every=every)
    weeks = error_products([system_of(run)], tests)[:, 0, 0]
    days = np.bincount(lead_weeks(1 + np.arange(tests.windows.horizon)))
    return float(weeks @ days / days.sum())


def score_run(config: RunConfig, every: int, joined: bool, thresholds: DataConfig, asked: Asked) -> str:
    """Forecast and verify a fold with a trained run or ensemble, and write the statistics.

    The forecasts are written as well, unless they are already `joined` with those of other folds. The base period
    of `thresholds` defines the heatwave thresholds.
    """
    run, name = Run.open(config.folder), config.runs.name
    with locked(tables_file(run)):
        prepared = Prepared.of(config.data)
        recipe = _recipe_of(run, every, prepared)
        score_recipe = recipe | recipe_of_tables(prepared, every, thresholds, asked)
        if is_up_to_date(tables_file(run), score_recipe) and (joined or is_up_to_date(part_file(run), recipe)):
            return f"{run.folder}: already forecast"
        check_data(run, prepared)
        truth = Analysis.open(prepared, every=every, base=_base_of(prepared, thresholds))
        attributes = {
            "title": f"SST forecasts of run {name}/{run.folder.name}",
            "history": f"sstcast {__version__} hindcast",
            "data": str(truth.cube.attrs["source"]),
            RECIPE: as_text(recipe),
        }
        system, spread = system_of(run, prepared), calibrated(run, prepared)
        systems = {name: ScoredSystem(system, spread, len(run.members), role=RUN)}
        with forecast_file(part_file(run), run, truth, **attributes) as keep:
            tables = verify(Scene(truth, systems, asked, references=False), name, keep, tells=False)
        tables = described_tables(tables, truth).assign_attrs({RECIPE: as_text(score_recipe)})
        write(tables, tables_file(run))
    return f"{run.folder}: {truth.windows.starts} forecasts"


def score_baselines(data: DataConfig, every: int, path: Path, thresholds: DataConfig, asked: Asked) -> str:
    """Forecast and verify a fold with the baselines, and write their statistics (see `score_run`)."""
    prepared = Prepared.of(data)
    recipe = recipe_of_tables(prepared, every, thresholds, asked) | {"sstcast": __version__}
    if is_up_to_date(path, recipe):
        return f"{path}: already written"
    truth = Analysis.open(prepared, every=every, base=_base_of(prepared, thresholds))
    verified_baselines(truth, SpreadCalibrator(prepared), asked, path, recipe).close()
    return f"{path}: {truth.windows.starts} forecasts by each baseline"


def tables_file(run: Run) -> Path:
    """Return the path of a fold's statistics."""
    return run.folder / "hindcast.nc"


def part_file(run: Run) -> Path:
    """Return the path of a fold's forecasts before they are joined with those of other folds."""
    return run.folder / "hindcast.zarr"


def recipe_of_tables(prepared: Prepared, every: int, thresholds: DataConfig, asked: Asked) -> Recipe:
    """Return what the statistics of a fold depend on besides the systems (see `score_run`)."""
    base = {"base_period": [str(day) for day in thresholds.splits.base]}
    return _recipe_of_days(prepared, every) | digest_of_scored(prepared) | base | asked.recipe_of_fold


def _recipe_of_days(prepared: Prepared, every: int) -> Recipe:
    record, region = prepared.record().model_dump(), prepared.data.cells
    return recipe_of_scores(prepared.data) | {"every": every, "data": record, "region": region}


def _recipe_of(run: Run, every: int, prepared: Prepared) -> Recipe:
    """Return the recipe of a run's forecasts for its fold."""
    return _recipe_of_days(prepared, every) | {"checkpoints": checkpoints(run.members)}


def recipes(plan: Plan) -> dict[str, list[Any]]:
    """Return the recipes of each system's forecasts for all folds, by the system's name."""
    stores: dict[str, Prepared] = {}  # by their data, so that systems with the same data open them only once
    found: dict[str, list[Any]] = {system.name: [] for system in plan.scored}
    for system in plan.scored:
        for config in (plan.run(system, fold) for fold in plan.protocol.folds):
            prepared = stores.setdefault(config.data.model_dump_json(), Prepared.of(config.data))
            found[system.name].append(_recipe_of(Run(config.folder), plan.protocol.every, prepared))
    return found


def join_forecasts(plan: Plan, system: RunConfig, recipe: list[Any]) -> None:
    """Join a system's forecasts of all folds in one store, and delete the folds' stores.

    Nothing is joined if the store was made from the `recipe` (see `recipes`).
    """
    path = plan.hindcast.forecasts(system.name)
    runs = [Run(plan.run(system, fold).folder) for fold in plan.protocol.folds]
    if not is_up_to_date(path, recipe):
        folds = [open_written(part_file(run), REMEDY) for run in runs]
        fields = [str(name) for name in folds[0].data_vars]
        forecasts = xr.concat([fold[fields] for fold in folds], "init_time", data_vars="minimal", **CONCAT_OPTIONS)
        source = str(folds[0].attrs["data"])
        first, last = (training_of(run, source) for run in (runs[0], runs[-1]))
        dataset = described(
            forecasts.drop_vars(["lat_bnds", "lon_bnds"], errors="ignore"),
            runs[0],
            source,
            title=f"SST hindcast of {system.name}, {plan.protocol.first} to {plan.protocol.last}",
            history=f"sstcast {__version__} hindcast",
            data=source,
            **{RECIPE: as_text(recipe)},
        ).assign_attrs(
            source=f"sstcast {__version__}, model {system.model.name}, trained separately for each of {len(runs)} "
            f"folds: the first on {first}; the last on {last}"
        )
        with noted(path, recipe) as temporary, dask_progress(f"writing {path.name}"):
            write_zarr(dataset, temporary, {"init_time": folds[0][fields[0]].encoding["chunks"][0]})
    for run in runs:
        remove(part_file(run))


def open_tables(plan: Plan, fold: Fold) -> xr.Dataset:
    """Open the statistics of all systems and baselines in a fold lazily.

    Raises SSTCastError if systems were verified on different values, because the source changed in between.
    """
    tables, days = [], {}
    runs = {system.name: Run(plan.run(system, fold).folder) for system in plan.scored}
    for run in runs.values():
        tables.append(_open(path := tables_file(run)))
        days[path] = _scored(tables[-1])
    for name, data in plan.oceans.items():
        path = plan.baselines(fold.split(data[0]))
        # The references do not depend on the data of systems, so they are read only once.
        references = [] if len(tables) > len(runs) else list(REFERENCES)
        labels_by_baseline = plan.baseline_names[name]
        baselines, labels = list(labels_by_baseline), list(labels_by_baseline.values())
        opened = _open(path)
        some = opened.sel(system=baselines, forecaster=[*baselines, *references])
        tables.append(some.assign_coords(system=labels, forecaster=[*labels, *references]))
        days[path] = _scored(opened)
    (first_path, first_days), *other_days = days.items()
    for path, path_days in other_days:
        if path_days != first_days:
            raise SSTCastError(
                f"{path}: has other days or values than {first_path}, because the source has changed; {REMEDY}"
            )
    return join_systems(tables)


def _scored(tables: xr.Dataset) -> tuple[str, str]:
    """Return the digests of the test days, and of all days that were read to score them."""
    recipe = json.loads(tables.attrs[RECIPE])
    return recipe["data"]["test"], recipe["scored"]


def _open(path: Any) -> xr.Dataset:
    return open_netcdf(path, REMEDY, chunked=True).drop_vars(["lat_bnds", "lon_bnds"], errors="ignore")


def _base_of(prepared: Prepared, thresholds: DataConfig) -> Prepared:
    """Return the stores whose base period defines the thresholds: those of the fold itself if it is the same."""
    return prepared if prepared.data == thresholds else Prepared.of(thresholds)
