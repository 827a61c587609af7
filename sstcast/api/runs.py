"""The public functions for models and runs: build, train, combine, score, forecast and show results."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sstcast.api.data import Result, Seeds, as_config, field_source, given_path, listed, seeds_of
from sstcast.errors import SSTCastError
from sstcast.log import LOG, reporting
from sstcast.storage.artefacts import FIRST_PROCESS, at_home

if TYPE_CHECKING:
    import xarray as xr

    from sstcast.api.update import Update
    from sstcast.config import RunConfig
    from sstcast.figures.tables import Sheet
    from sstcast.forecasting.forecast import LoadedRun
    from sstcast.models.base import ForecastModel
    from sstcast.ocean.places import Places
    from sstcast.runs import Run
    from sstcast.scores.leaderboard import Contest


def build_forecaster(
    name: str, *, history: int, horizon: int, shape: tuple[int, int], **options: Any
) -> ForecastModel:
    """Build an untrained forecaster.

    Args:
        name: a name listed by `sstcast models`.
        history: number of input days.
        horizon: number of days to forecast.
        shape: rows and columns of a tile.
        options: arguments of the model's class.

    Returns:
        A module that maps `history [B, nodes, history]` and a graph to `[B, nodes, horizon]`, both in standardised
        units.

    Source:
        The docstring of each class cites its paper.

    Examples:
        >>> model = sstcast.build_forecaster("mpnn-vn", history=10, horizon=5, shape=(8, 6), width=16)
        >>> batch = train.batch(torch.arange(3))
        >>> model(batch.history, batch.graph).shape
        torch.Size([3, 48, 5])
    """
    from sstcast.models import build_forecaster

    return build_forecaster(name, history=history, horizon=horizon, shape=shape, **options)


def train(
    config: RunConfig | Path | str | None = None,
    overrides: Sequence[str] = (),
    resume: Run | Path | str | None = None,
    seeds: Seeds = None,
    devices: int | None = None,
    strategy: str | None = None,
    precision: str | None = None,
    jobs: int = 1,
    source: xr.Dataset | xr.DataArray | None = None,
) -> Run:
    """Train the configured model or an ensemble, or resume training. Prepare the data first if necessary.

    Args:
        resume: the run to resume, in place of a configuration.
        devices: number of devices, which overrides `training.devices` in the YAML.
        strategy: `auto` or `ddp`, which overrides `training.strategy` in the YAML.
        precision: `auto`, `32-true` or `bf16-mixed`, which overrides `training.precision` in the YAML.
        jobs: number of an ensemble's members to train in parallel.

    Returns:
        The run or the ensemble. Its `folder` holds all files.

    Raises:
        SSTCastError: the folder holds another run, the data have changed, or the loss is not finite.
        Interrupted: Ctrl-C or SIGTERM. The same call resumes.

    Examples:
        >>> run = sstcast.train(config)
        epoch 1: train ...
        >>> run.best.exists()
        True
    """
    from sstcast.hindcasts.fold import train_run
    from sstcast.hindcasts.running import run_tasks
    from sstcast.ocean.prepare import prepare_all
    from sstcast.ocean.prepared import Prepared
    from sstcast.runs import Run
    from sstcast.training.train import plan, train, training_windows

    flags = {"devices": devices, "strategy": strategy, "precision": precision}
    changes = [
        *listed(overrides),
        *(f"training.{key}={value}" for key, value in flags.items() if value is not None),
    ]
    if source is not None and config is None:
        raise SSTCastError("source: a resumed run goes on with its own days; leave it out")
    given = None if config is None else as_config(config, changes, source)
    folder = given_path(resume)
    configs = plan(given, folder, seeds_of(seeds), changes)
    if FIRST_PROCESS and not all(Prepared.of(data).exist for data in configs[0].oceans):
        prepare_all(configs[0].oceans)
    windows = training_windows(configs[0])
    if jobs > 1 and len(configs) > 1:
        size = sum(part.nbytes for part in windows.values()) / 2**30
        LOG.info(
            f"{min(jobs, len(configs))} members at a time, each with {size:.2f} GiB of windows besides its network"
        )
        run_tasks([partial(train_run, member) for member in configs], jobs, None)
    else:
        for member in configs:
            run, trained = train(member, windows)
            if FIRST_PROCESS:
                LOG.info(f"{run.folder}: {'trained' if trained else 'nothing to do'}; best checkpoint {run.best}")
    made = folder if given is None else given.folder
    assert made is not None  # without either, plan raises
    return Run(made)


def combine(runs: Sequence[Run | Path | str], name: str, equal: bool = False) -> Run:
    """Combine runs into one that forecasts their weighted mean, with weights fitted to the validation days.

    Args:
        runs: two or more runs trained on the same days of the same ocean.
        name: name of the new run, whose folder is created beside the first run's.
        equal: give all runs the same weight.

    Returns:
        The new run, which `evaluate`, `load` and `forecast` accept like any other run.

    Source:
        Granger and Ramanathan (1984), J. Forecast. 3, 197-204, with non-negative weights that sum to 1.

    Examples:
        >>> other = sstcast.train(sstcast.load_config("my.yaml", ["name=other", "training.seed=1"]))
        epoch 2: train ...
        >>> sstcast.combine([run, other], "both").config.model.name
        'combination'
    """
    from sstcast.runs import Run
    from sstcast.scores.combine import combine

    if not name or Path(name).name != name:
        raise SSTCastError(f"--name {name}: give a name, not a path")
    folders = [at_home(run) for run in listed(runs)]
    if len(folders) < 2:
        raise SSTCastError(f"{folders[0] if folders else name}: one run is no combination; name two or more")
    first = folders[0] if folders[0].name else folders[0].resolve()
    run, new = combine([Run(folder) for folder in folders], first.parent / name, equal)
    LOG.info(f"{run.folder}: {'written' if new else 'nothing to do'}")
    return run


def evaluate(
    run: Run | Path | str,
    against: str | Run | Path = "multiscale",
    source: str | Path | xr.Dataset | xr.DataArray | None = None,
    region: str | None = None,
    index: str | Path | None = None,
    places: Path | str | None = None,
) -> Result[dict[str, Any]]:
    """Score a run and the baselines on the test days. Scores on other data go to RUN/elsewhere-NAME.

    Args:
        against: the reference, as the name or first word of a baseline, or as another run. The comparison with a
            run is shown (in Python, in `ratios`), but not saved.

    Returns:
        The content of `metrics.json` (`docs/runs.md`), with errors in degC and in standardised units.

    Source:
        `docs/evaluation.md` cites the source of each score.

    Examples:
        >>> metrics = sstcast.evaluate(run).value
        >>> metrics["scores"]["model"]["degC"]["rmse"] > 0
        True
    """
    from sstcast.forecasting.transfer import continued, transferred_run
    from sstcast.names import BASELINES, MODEL
    from sstcast.runs import Run
    from sstcast.scores.evaluate import compare_runs, evaluate

    other, run = _reference(against), Run.open(at_home(run))
    if isinstance(other, Run) and other.folder.name in (MODEL, *BASELINES):
        raise SSTCastError(f"--against {other.folder}: is named like a baseline; rename the folder")
    days = field_source(source, region=region)
    if days.given and (days := continued(run.trained, days)).given:
        run = transferred_run(run, days)
    metrics, new = evaluate(run, _places(places))
    metrics = _by_index(run.folder, metrics, index)
    if isinstance(other, Run):
        ratios, name = metrics["ratios"], other.folder.name
        mse = ratios["mse"] | {MODEL: ratios["mse"][MODEL] | {name: compare_runs(run, other)}}
        metrics = metrics | {"ratios": ratios | {"mse": mse}}
    return Result(metrics, run.metrics, new)


@reporting()
def hindcast(
    configs: Sequence[RunConfig | Path | str],
    years: str,
    fold: int = 4,
    validation: int = 2,
    every: int = 3,
    seeds: Seeds = None,
    combine: str | None = None,
    average: str | None = None,
    select: str | None = None,
    index: str | Path | None = None,
    places: Path | str | None = None,
    out: Path | str | None = None,
    overrides: Sequence[str] = (),
    jobs: int = 1,
    scheduler: str | None = None,
    source: xr.Dataset | xr.DataArray | None = None,
) -> Result[dict[str, Any]]:
    """Train systems on earlier years only, forecast many years, and score all years together.

    Args:
        configs: configurations of the systems, with different names and the same cells, history and horizon.
        years: first and last year to forecast, for instance `1997:2016`.
        fold: number of test years per training.
        validation: number of validation years before the test years, used to select the weights.
        every: days between initial dates.
        combine: name for a combination of all systems, with weights fitted in each fold, which is also scored.
        average: name for a combination with equal weights, which is also scored.
        select: names of systems, separated by commas. In each fold, the one with the lowest error in the two
            folds before it is scored as `selected`.
        out: the hindcast's folder, `runs/hindcast-YEARS` by default.
        jobs: number of runs to train in parallel.

    Returns:
        The content of `metrics.json` (`docs/runs.md`), for every system with the squared error in degC² and its
        ratio to the squared error of the best linear system.

    Raises:
        SSTCastError: years are outside the data, a fold has too few training days, or the systems' data differ.
        Interrupted: Ctrl-C or SIGTERM stopped training. The same call resumes.

    Examples:
        >>> scores = sstcast.hindcast([config], "2004:2004", 1, validation=1).value
        prepared/...
        >>> sorted(scores["systems"])[:3]
        ['climatology', 'damped persistence', 'multiscale ridge']
    """
    from sstcast.hindcasts.hindcast import hindcast
    from sstcast.hindcasts.plan import Hindcast, Plan, Protocol

    protocol = Protocol.parse(years, fold, validation, every)
    folder = Hindcast(at_home(out or f"runs/hindcast-{protocol.first}-{protocol.last}"))
    systems = [as_config(config, overrides, source) for config in configs]
    chosen = tuple(name.strip() for name in select.split(",")) if select is not None else ()
    plan = Plan(folder, protocol, systems, seeds_of(seeds) or [], combine, average, chosen, _places(places))
    metrics, new = hindcast(plan, jobs, scheduler)
    return Result(_by_index(folder.folder, metrics, index), folder.metrics, new)


def load(
    run: Run | Path | str,
    region: str | None = None,
    source: str | Path | xr.Dataset | xr.DataArray | None = None,
    variable: str | None = None,
    units: str | None = None,
    gaps: int | None = None,
) -> LoadedRun:
    """Load a trained run or ensemble to forecast from days in memory, with `load(run).forecast(history)`.

    For another source, climatology, linear systems and spread are fitted to its whole record.

    Examples:
        >>> loaded = sstcast.load(run)
        >>> loaded.forecast(cube["sst"])["sst"].sizes["lead"]
        5
    """
    from sstcast.forecasting.forecast import load_run

    return load_run(at_home(run), field_source(source, region=region, variable=variable, units=units, gaps=gaps))


def forecast(
    run: Run | Path | str,
    date: str = "latest",
    out: Path | str | None = None,
    region: str | None = None,
    source: str | Path | xr.Dataset | xr.DataArray | None = None,
    variable: str | None = None,
    units: str | None = None,
    gaps: int | None = None,
    members: bool = False,
    samples: int | None = None,
    places: Path | str | None = None,
    share: str = "10,25,50",
) -> Result[xr.Dataset]:
    """Forecast from the last days of the run's source, downloading missing days, and write the forecast to a file.

    Args:
        date: last day of history, YYYY-MM-DD or `latest`.
        out: a `.nc` or `.zarr`. By default, a `.nc` in the run's folder.
        members: also write the forecast of each ensemble member, as `sst_member`.
        samples: also write this number of joint samples, as `sst_sample`, 100 if no number is given. In a sample,
            neighbouring cells and successive days belong together. With 0, the share of the sea in a heatwave has
            no interval.
        places: also forecast the places in this file, a CSV with the columns `name`, `lat`, `lon`, or GeoJSON with
            points and polygons (`docs/places.md`), and write a table of them beside the forecast.
        share: shares of a polygon, in per cent, for the probability that at least so much of it is in a heatwave.

    Returns:
        The file, opened lazily, with `sst`, `sst_anomaly`, `sst_spread` and `sst_quantile` by `(init_time, lead,
        lat, lon)` in degC, and `sst_past` and `climatology_past` for the days of history.

    Examples:
        >>> sstcast.forecast(run, "2004-07-01").value["sst"].dims
        ('init_time', 'lead', 'lat', 'lon')
    """
    from sstcast.forecasting.forecast import forecast
    from sstcast.forecasting.places import parse_shares
    from sstcast.storage.stores import open_netcdf, open_zarr

    days = field_source(source, region=region, variable=variable, units=units, gaps=gaps)
    asked = samples, _places(places), parse_shares(share)
    path, new = forecast(at_home(run), str(date), given_path(out), members, days, *asked)
    return Result((open_zarr if path.suffix == ".zarr" else open_netcdf)(path, "forecast again"), path, new)


def score(
    file: Path | str,
    truth: str | Path | xr.Dataset | xr.DataArray | None = None,
    against: Sequence[str | Run | Path] = (),
    region: str | None = None,
    out: Path | str | None = None,
    variable: str | None = None,
    units: str | None = None,
    leads: int | None = None,
    index: str | Path | None = None,
) -> Result[dict[str, Any]]:
    """Score forecasts from any system, given as a file, against the baselines and your runs.

    Args:
        file: a NetCDF file or Zarr store with names from CF, climpred, OceanBench or sstcast (`docs/scoring.md`).
        truth: the observations, as a file, a folder, a store, `sample`, or a run's YAML; in Python also an
            xarray object. By default, the data of the first run in `against`.
        against: runs to score on the same days, or baselines to compare with. The baselines are always scored.
        region: a name in `configs/regions.yaml` or `W,E,S,N`. By default, the region of the first run in
            `against`, or the area where forecasts and observations overlap.
        out: the folder for the scores, by default beside the file.
        leads: number of days ahead to score, by default all in the file that the runs in `against` also forecast.

    Returns:
        The content of `metrics.json` (`docs/runs.md`), with errors in degC and in standardised units.

    Examples:
        >>> metrics = sstcast.score(run.forecasts, against=[run]).value
        >>> metrics["scores"]["model"]["degC"]["rmse"] > 0
        True
    """
    from sstcast.runs import Run
    from sstcast.scores.score import score

    runs = [other for each in listed(against) if isinstance(other := _reference(each), Run)]
    days = field_source(truth, region=region)
    metrics, scored, new = score(at_home(file), days, runs, given_path(out), variable, units, leads)
    return Result(_by_index(scored.folder, metrics, index), scored.metrics, new)


def page(
    forecast: Run | Path | str,
    out: Path | str | None = None,
    region: str | None = None,
    max_size: float = 20,
) -> Result[None]:
    """Write a forecast as one interactive HTML page, with daily maps and a time series at every point.

    Args:
        forecast: a forecast's `.nc` or `.zarr`, or a run, to show its newest forecast.
        out: the `.html` to write, by default beside the forecast.
        region: the part to show, as a name in `configs/regions.yaml` or `W,E,S,N`.
    """
    from sstcast.reports.page import write_forecast_page

    return Result(None, *write_forecast_page(at_home(forecast), given_path(out), region, max_size))


def update(run: Run | Path | str, date: str = "latest", max_size: float = 20) -> Update:
    """Fetch new days, forecast, write the page, verify old forecasts. Exit codes: 3 nothing new, 4 source down.

    Args:
        date: last day of history, YYYY-MM-DD or `latest`.

    Returns:
        A `line` for the log, the newest `forecast`, and the exit `code`.
    """
    from sstcast.api.update import update

    return update(at_home(run), str(date), max_size)


def map(run: Run | Path | str, projection: str = "PlateCarree", region: str | None = None) -> list[Path]:
    """Draw maps of the errors and of example forecasts of a run or a scored file, or of a hindcast's scores.

    Args:
        run: a run, which is evaluated first if necessary, a hindcast, or the folder of a file's scores.
        projection: a cartopy projection, for instance `Robinson`.
        region: the part to draw, as a name in `configs/regions.yaml` or `W,E,S,N`.

    Returns:
        The paths of the PNG files.
    """
    from sstcast.figures.results import Results
    from sstcast.reports.report import draw_maps

    return draw_maps(Results(at_home(run), region), projection)


def report(run: Run | Path | str) -> Result[None]:
    """Write all results of a run, a hindcast or a scored file to one HTML page.

    Args:
        run: a run, which is evaluated first if necessary, a hindcast, or the folder of a file's scores.
    """
    from sstcast.figures.results import Results
    from sstcast.reports.report import write_report

    return Result(None, *write_report(Results(at_home(run))))


def leaderboard(folder: Path | str = "runs") -> Result[tuple[list[Contest], list[Sheet]]]:
    """Rank all evaluated runs in a folder, and write the ranks to `leaderboard.csv` and `leaderboard.html`.

    Args:
        folder: a folder of runs.

    Returns:
        The contests, each with its comparable runs from best to worst, and a table per hindcast.
    """
    from sstcast.reports.leaderboard import hindcast_sheets, write_leaderboard
    from sstcast.scores.leaderboard import leaderboard

    runs = at_home(folder)
    hindcasts = hindcast_sheets(runs)
    contests = leaderboard(runs, empty=bool(hindcasts))
    return Result((contests, hindcasts), write_leaderboard(contests, runs, hindcasts)[0], True)


def _by_index(folder: Path, metrics: dict[str, Any], index: str | Path | None) -> dict[str, Any]:
    """Add scores by third of an index to `metrics`, if an index is given."""
    if index is None:
        return metrics
    from sstcast.scores.saved import Scored
    from sstcast.scores.summary import split_by_index

    return split_by_index(Scored(folder), metrics, str(at_home(index)))


def _places(file: Path | str | None) -> Places | None:
    from sstcast.ocean.places import Places

    return None if file is None else Places.read(at_home(file))


def _reference(against: Run | Path | str) -> Run | str:
    from sstcast.runs import Run
    from sstcast.scores.evaluate import reference

    return against if isinstance(against, Run) else reference(str(at_home(against)))
