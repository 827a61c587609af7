"""The public functions for models and runs: build, train, combine, load, forecast and update."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sstcast.api.arguments import (
    Result,
    Seeds,
    expand_path,
    field_source,
    listed,
    read_alert,
    read_gaps,
    read_places,
    read_temperatures,
    seeds_of,
    trainable,
)
from sstcast.errors import SSTCastError
from sstcast.log import LOG
from sstcast.storage.paths import expand_user
from sstcast.workers import FIRST_PROCESS

if TYPE_CHECKING:
    import xarray as xr

    from sstcast.config import RunConfig
    from sstcast.forecasting.loaded_run import LoadedRun
    from sstcast.models.base import ForecastModel
    from sstcast.reports.update import Update
    from sstcast.runs import Run


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

    Raises:
        SSTCastError: there is no such model, or an option is unknown or invalid.

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
    resume: Run | LoadedRun | Path | str | None = None,
    seeds: Seeds = None,
    devices: int | None = None,
    strategy: str | None = None,
    precision: str | None = None,
    jobs: int = 1,
    source: xr.Dataset | xr.DataArray | None = None,
    predictors: Mapping[str, xr.Dataset | xr.DataArray] | None = None,
) -> Run:
    """Train the configured model or an ensemble, or resume training. Prepare the data first if necessary.

    Args:
        config: a run's YAML, for instance `configs/demo.yaml`; in Python also a configuration.
        overrides: change the YAML with `key.sub=value`, for instance `training.epochs=3`.
        resume: the run to resume, in place of a configuration.
        seeds: train one run or member per seed, for instance `0..4` for the seeds 0 to 4; in Python also numbers.
        devices: number of devices, which overrides `training.devices` in the YAML.
        strategy: `auto` or `ddp`, which overrides `training.strategy` in the YAML.
        precision: `auto`, `32-true` or `bf16-mixed`, which overrides `training.precision` in the YAML.
        jobs: number of an ensemble's members to train in parallel.
        source: an xarray object in place of the source that the configuration names (`docs/own-data.md`).
        predictors: xarray objects by name in place of the sources of `data.predictors` (`docs/predictors.md`).

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
    from sstcast.hindcasts.executors import run_tasks
    from sstcast.hindcasts.fold import train_run
    from sstcast.ocean.prepare import prepare
    from sstcast.ocean.prepared import Prepared
    from sstcast.runs import Run
    from sstcast.training.train import plan, train, training_windows

    flags = {"devices": devices, "strategy": strategy, "precision": precision}
    changes = [
        *listed(overrides),
        *(f"training.{key}={value}" for key, value in flags.items() if value is not None),
    ]
    if (source is not None or predictors is not None) and config is None:
        raise SSTCastError("source: a resumed run goes on with its own days; leave it out")
    run_config = None if config is None else trainable(config, changes, source, predictors)
    folder = expand_path(resume)
    configs = plan(run_config, folder, seeds_of(seeds), changes)
    prepared = Prepared.of(configs[0].data)
    if FIRST_PROCESS and not prepared.is_current:
        prepared = prepare(prepared.data)
    windows = training_windows(configs[0], prepared)
    if jobs > 1 and len(configs) > 1:
        size = sum(part.nbytes for part in windows.values()) / 2**30
        LOG.info(
            f"{min(jobs, len(configs))} members at a time, each with {size:.2f} GiB of windows besides its network"
        )
        run_tasks([partial(train_run, member) for member in configs], jobs, None)
    else:
        for member in configs:
            run, trained = train(member, windows, prepared)
            if FIRST_PROCESS:
                LOG.info(f"{run.folder}: {'trained' if trained else 'nothing to do'}; best checkpoint {run.best}")
    run_folder = folder if run_config is None else run_config.folder
    assert run_folder is not None  # without either, plan raises
    made = Run(run_folder)
    vars(made)["given"] = source, predictors  # are held as long as the run, so that it forecasts from them
    return made


def combine(runs: Sequence[Run | LoadedRun | Path | str], name: str, equal: bool = False) -> Run:
    """Combine runs into one that forecasts their weighted mean, with weights fitted to the validation days.

    Args:
        runs: two or more runs trained on the same days of the same ocean.
        name: name of the new run, whose folder is created beside the first run's.
        equal: give all runs the same weight.

    Returns:
        The new run, which `evaluate`, `load` and `forecast` accept like any other run.

    Raises:
        SSTCastError: the runs were not trained on the same days of the same ocean, or have no checkpoint.

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
    folders = [expand_user(run) for run in listed(runs)]
    if len(folders) < 2:
        raise SSTCastError(f"{folders[0] if folders else name}: one run is no combination; name two or more")
    first = folders[0] if folders[0].name else folders[0].resolve()
    run, new = combine([Run(folder) for folder in folders], first.parent / name, equal)
    LOG.info(f"{run.folder}: {'written' if new else 'nothing to do'}")
    return run


def load(
    run: Run | LoadedRun | Path | str,
    region: str | None = None,
    source: str | Path | xr.Dataset | xr.DataArray | None = None,
    variable: str | None = None,
    units: str | None = None,
    gaps: int | None = None,
) -> LoadedRun:
    """Load a trained run or ensemble to forecast from days in memory, with `load(run).forecast(history)`.

    The forecast is that of `sstcast.forecast` for the same place and the last day of the history: climatology,
    spread and linear systems are those of the record up to the last whole year before it, but not before the
    run's test days. A forecast of an earlier day learnt from later ones, and says so. What that year needs is
    prepared by the first history of it, and stays in memory.

    Args:
        run: a run's folder, for instance `runs/demo`, or `pretrained`, the run that ships with sstcast.
        region: another region, as a name in `configs/regions.yaml` or `W,E,S,N` in degrees.
        source: other data, as a NetCDF file, a Zarr store or a folder of either; in Python also an xarray object,
            which must hold the same days if the run was made from one and no region is given. Without a region,
            the run's own region if they contain it, else all of them.
        variable: name of the SST variable, if it is not found automatically.
        units: units of SST, for instance `K`, in place of those that the file or store states.
        gaps: fill gaps of up to this many days. By default, as in the run's configuration.

    Returns:
        The loaded run. Its method `forecast` takes `sst(time, lat, lon)` in degC, with at least the days of
        history.

    Raises:
        SSTCastError: the run is not trained, or the other data do not suit it.

    Examples:
        >>> loaded = sstcast.load(run)
        >>> loaded.forecast(cube["sst"])["sst"].sizes["lead"]
        5
    """
    from sstcast.forecasting.loaded_run import load_run

    return load_run(
        expand_user(run), field_source(source, region=region, variable=variable, units=units, gaps=gaps)
    )


def forecast(
    run: Run | LoadedRun | Path | str,
    date: str = "latest",
    out: Path | str | None = None,
    region: str | None = None,
    source: str | Path | xr.Dataset | xr.DataArray | None = None,
    variable: str | None = None,
    units: str | None = None,
    gaps: int | None = None,
    members: bool = False,
    samples: int | None = None,
    places: Sequence[Path | str] | Path | str = (),
    share: str | None = None,
    above: str | float | Sequence[float] | None = None,
    below: str | float | Sequence[float] | None = None,
    why: bool = False,
) -> Result[xr.Dataset]:
    """Forecast from the last days of the run's source, downloading missing days, and write the forecast to a file.

    Args:
        run: a run's folder, for instance `runs/demo`, or `pretrained`, the run that ships with sstcast; in Python
            also a run, or one that was loaded, for its own ocean or another.
        date: last day of history, YYYY-MM-DD or `latest`.
        out: a `.nc` or `.zarr`. By default, a `.nc` in the run's folder.
        region: another region, as a name in `configs/regions.yaml` or `W,E,S,N` in degrees.
        source: other data, as a NetCDF file, a Zarr store or a folder of either; in Python also an xarray object,
            which must hold the same days if the run was made from one and no region is given. Without a region,
            the run's own region if they contain it, else all of them.
        variable: name of the SST variable, if it is not found automatically.
        units: units of SST, for instance `K`, in place of those that the file or store states.
        gaps: fill gaps of up to this many days. By default, as in the run's configuration. In the run's own
            source, missing days of the history after its validation are filled; the number stays with the run
            until another is given, 0 for none.
        members: also write the forecast of each ensemble member, as `sst_member`.
        samples: also write this number of joint samples, as `sst_sample`, 100 if no number is given. In a sample,
            neighbouring cells and successive days belong together. With 0, the share of the sea in a heatwave has
            no interval.
        places: also forecast the places in these files, CSV with the columns `name`, `lat`, `lon`, or GeoJSON with
            points and polygons (`docs/places.md`), and write a table of them beside the forecast. They stay with
            the run until others are given, or `none`.
        share: shares of a polygon, in per cent, for the probability that at least so much of it is in a heatwave,
            10,25,50 by default. They stay with the places.
        above: also forecast the probability of a day above these temperatures in degC, for instance `28,29.5`, in
            every cell and place; in Python also numbers. They stay with the run until others are given, or `none`.
        below: the same of days below.
        why: also write what each part of what is read contributes to the anomaly (`docs/training.md`), as
            `sst_contribution`, and in the table of places.

    Returns:
        The file, opened lazily, with `sst`, `sst_anomaly`, `sst_spread` and `sst_quantile` by `(init_time, lead,
        lat, lon)` in degC, and `sst_past` and `climatology_past` for the days of history.

    Raises:
        SSTCastError: the run, date or region is unusable, or the source lacks days of the history.

    Examples:
        >>> sstcast.forecast(run, "2004-07-01").value["sst"].dims
        ('init_time', 'lead', 'lat', 'lon')
    """
    from sstcast.forecasting.forecast import forecast
    from sstcast.forecasting.loaded_run import LoadedRun
    from sstcast.forecasting.places import parse_shares
    from sstcast.storage.stores import open_netcdf, open_zarr

    is_own = source is None
    days = field_source(source, region=region, variable=variable, units=units, gaps=None if is_own else gaps)
    filled = read_gaps(gaps) if is_own else None
    folder = run.run.folder if isinstance(run, LoadedRun) else expand_user(run)
    if isinstance(run, LoadedRun) and run.where.given:
        if days.given or filled is not None:
            raise SSTCastError(
                f"--{next(iter(days.given), 'gaps')}: the run was loaded for an ocean of its own; leave it out"
            )
        days = run.where
    shares = () if share is None else parse_shares(share)
    asked = samples, read_places(places), shares
    sides = read_temperatures(above, "--above"), read_temperatures(below, "--below")
    path, new = forecast(folder, str(date), expand_path(out), members, days, *asked, *sides, filled, why)
    return Result((open_zarr if path.suffix == ".zarr" else open_netcdf)(path, "forecast again"), path, new)


def update(
    run: Run | LoadedRun | Path | str,
    date: str = "latest",
    max_size: float = 20,
    places: Sequence[Path | str] | Path | str = (),
    above: str | float | Sequence[float] | None = None,
    below: str | float | Sequence[float] | None = None,
    gaps: int | None = None,
    alert: str | int | None = None,
    tell: Callable[[Update], object] | None = None,
) -> Update:
    """Fetch new days, forecast, write the page, verify old forecasts. Exit codes: 3 nothing new, 4 days wait.

    Args:
        run: a run's folder, for instance `runs/demo`, or `pretrained`, the run that ships with sstcast.
        date: last day of history, YYYY-MM-DD or `latest`.
        max_size: maximum size of the page in MB.
        places: also forecast the places in these files (`docs/places.md`), which stay with the run until others
            are given, or `none`.
        above: also forecast the probability of a day above these temperatures in degC, for instance `28,29.5`; in
            Python also numbers. They stay with the run until others are given, or `none`.
        below: the same of days below.
        gaps: fill gaps of up to this many days in the history of forecasts, after the run's validation. The number
            stays with the run until another is given, 0 for none.
        alert: from which probability of a marine heatwave in the newest forecast a place is an alert, in per cent:
            5, 10, 15 and so on to 95. It stays with the places until another is given, or `none`.
        tell: what to do with the result, for instance send its lines, before they count as told. An update that is
            killed or fails earlier has them again when it is repeated.

    Returns:
        A `line` for the log, more `lines` of the places of a new forecast and of new alerts, the newest
        `forecast`, and the exit `code`.

    Raises:
        SSTCastError: the run or the date is unusable, the source's days have changed, or the page would be too
            large.

    Examples:
        >>> sstcast.update(run).code
        0
    """
    from sstcast.reports.update import update

    return update(
        expand_user(run),
        str(date),
        max_size,
        above=read_temperatures(above, "--above"),
        below=read_temperatures(below, "--below"),
        places=read_places(places),
        gaps=read_gaps(gaps),
        alert=read_alert(alert),
        tell=tell,
    )
