"""The public functions for models and runs: build, train, combine, score, forecast."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sstcast.api.data import as_config, prepare, quiet
from sstcast.artefacts import at_home

if TYPE_CHECKING:
    import xarray as xr

    from sstcast.config import RunConfig
    from sstcast.forecasting.forecast import LoadedRun
    from sstcast.models.base import ForecastModel
    from sstcast.runs import Run


def build_forecaster(
    name: str, *, history: int, horizon: int, shape: tuple[int, int], **options: Any
) -> "ForecastModel":
    """Build an untrained forecaster.

    Args:
        name: a name listed by `sstcast models`.
        history: number of days of input.
        horizon: number of days to forecast.
        shape: rows and columns of a tile.
        options: arguments of the model's class.

    Returns:
        A module that maps `history [B, nodes, history]` and a graph to `[B, nodes, horizon]`, both in standardised
        units.

    Raises:
        SSTCastError: there is no such model or option, or a value is of the wrong type.

    Source:
        The paper named in each class's docstring.

    Examples:
        >>> model = sstcast.build_forecaster("mpnn-vn", history=10, horizon=5, shape=(8, 6), width=16)
        >>> batch = train.batch(torch.arange(3))
        >>> model(batch.history, batch.graph).shape
        torch.Size([3, 48, 5])
    """
    from sstcast.models import build_forecaster

    return build_forecaster(name, history=history, horizon=horizon, shape=shape, **options)


def train(config: "RunConfig | Path | str") -> "Run":
    """Train the configured model, or resume its training; prepare the data first if necessary.

    Returns:
        The run, whose `folder` holds all its files.

    Raises:
        SSTCastError: the folder holds another run, the data have changed, or the loss is not finite.
        Interrupted: Ctrl-C or SIGTERM; the same call resumes.

    Examples:
        >>> run = sstcast.train(config)
        epoch 1: train ...
        >>> run.best.exists()
        True
    """
    from sstcast.ocean.prepared import Prepared
    from sstcast.training.train import train, training_windows

    config = as_config(config)
    if not all(Prepared.of(data).exist for data in config.oceans):
        prepare(config)
    return train(config, training_windows(config))[0]


def combine(runs: "Sequence[Run | Path | str]", folder: Path | str, equal: bool = False) -> "Run":
    """Make a run that forecasts the weighted mean of other runs, with weights fitted to their validation days.

    Args:
        runs: two or more runs that were trained on the same days of the same ocean.
        folder: folder of the new run, for instance `runs/both`; its last part is the run's name.
        equal: give all runs the same weight.

    Returns:
        The new run, which `evaluate`, `load` and `forecast` accept like any other.

    Raises:
        SSTCastError: the runs cannot be combined, one is not trained, or the folder holds something else.

    Source:
        Granger and Ramanathan (1984), J. Forecast. 3, 197-204, with weights that are not negative and sum to 1.

    Examples:
        >>> other = sstcast.train(sstcast.load_config("my.yaml", ["name=other", "training.seed=1"]))
        epoch 2: train ...
        >>> sstcast.combine([run, other], "runs/both").config.model.name
        'combination'
    """
    from sstcast.scores.combine import combine

    return combine([_run(run) for run in runs], at_home(folder), equal, say=quiet)


def evaluate(
    run: "Run | Path | str", source: Path | str | None = None, region: str | None = None
) -> dict[str, Any]:
    """Forecast the run's test days and score them beside the baselines.

    Args:
        run: a run or its folder.
        source: data of another ocean to score the run on; the results then go to `elsewhere-NAME` in its folder.
        region: another region to score the run on, with results in the same place: a name in
            `configs/regions.yaml` or `W,E,S,N` in degrees.

    Returns:
        The content of `metrics.json` (`docs/evaluation.md`), with errors in degC and in standardised units.

    Raises:
        SSTCastError: the run is not trained, its data have changed, or the test days are too few.

    Source:
        `docs/evaluation.md` cites a source for each score.

    Examples:
        >>> metrics = sstcast.evaluate(run)
        >>> metrics["scores"]["model"]["degC"]["rmse"] > 0
        True
    """
    from sstcast.forecasting.transfer import transferred_run
    from sstcast.scores.evaluate import evaluate

    run = _run(run)
    if source is not None or region is not None:
        run = transferred_run(run, None if source is None else str(at_home(source)), region, say=quiet)
    return evaluate(run)[0]


def hindcast(
    configs: "Sequence[RunConfig | Path | str]",
    years: str,
    fold: int = 4,
    *,
    validation: int = 2,
    every: int = 3,
    seeds: Sequence[int] = (),
    combine: str | None = None,
    average: str | None = None,
    out: Path | str | None = None,
    jobs: int = 1,
) -> dict[str, Any]:
    """Train systems on earlier years only, forecast many years, and score all years together.

    Args:
        configs: the systems, with different names and the same data.
        years: the first and the last year to forecast, for instance `1997:2016`.
        fold: number of test years per training.
        validation: number of validation years before the test years, used to select the weights.
        every: days from one initial date to the next.
        seeds: seeds of the ensemble to train for each network; if empty, each network is a single run.
        combine: name of a combination of the systems, scored too; its weights are fitted fold by fold.
        average: name of a combination with equal weights.
        out: the hindcast's folder, `runs/hindcast-YEARS` by default.
        jobs: number of runs to train in parallel.

    Returns:
        The content of `hindcast.json` (`docs/hindcast.md`): for every system the squared error in degC2, and its
        ratio to that of the best linear system.

    Raises:
        SSTCastError: years are outside the data, a fold has too few training days, or systems use different data.
        Interrupted: Ctrl-C or SIGTERM; the same call resumes.

    Examples:
        >>> scores = sstcast.hindcast([config], "2004:2004", 1, validation=1)
        prepared/...
        >>> sorted(scores["systems"])[:3]
        ['climatology', 'damped persistence', 'multiscale ridge']
    """
    from sstcast.hindcasts.files import Hindcast
    from sstcast.hindcasts.folds import Protocol
    from sstcast.hindcasts.hindcast import hindcast
    from sstcast.hindcasts.plan import Plan

    protocol = Protocol.parse(years, fold, validation, every)
    folder = Hindcast(at_home(out or f"runs/hindcast-{protocol.first}-{protocol.last}"))
    plan = Plan(folder, protocol, [as_config(each) for each in configs], list(seeds), combine, average)
    return hindcast(plan, jobs)[0]


def load(
    run: "Run | Path | str",
    region: str | None = None,
    source: Path | str | None = None,
    variable: str | None = None,
    units: str | None = None,
    gaps: int | None = None,
) -> "LoadedRun":
    """Load a trained run or ensemble, to forecast from days in memory: `load(run).forecast(history)`.

    Args:
        run: a run or its folder; `pretrained` is the run that ships with sstcast.
        region: a region other than the run's: a name in `configs/regions.yaml` or `W,E,S,N` in degrees.
        source: data of another ocean, at least five years and 6 x 6 cells; they are prepared first if necessary.
        variable: the source's variable, if it is not found automatically.
        units: its units, if it does not state them, for instance `K`.
        gaps: fill gaps of at most so many days in it; by default as in the run's configuration.

    Raises:
        SSTCastError: the run is absent or not trained, or its model cannot be used for the region or the source.

    Examples:
        >>> loaded = sstcast.load(run)
        >>> loaded.forecast(cube["sst"])["sst"].sizes["lead"]
        5
    """
    from sstcast.forecasting.forecast import LoadedRun

    place = None if source is None else str(at_home(source))
    return LoadedRun(_folder(run), region, place, variable, units, gaps)


def forecast(
    run: "Run | Path | str",
    date: str = "latest",
    out: Path | str | None = None,
    region: str | None = None,
    source: Path | str | None = None,
    members: bool = False,
    variable: str | None = None,
    units: str | None = None,
    gaps: int | None = None,
) -> "xr.Dataset":
    """Forecast from the last days of the run's source, downloading missing days, and write the forecast to a file.

    Args:
        run: a run or its folder.
        date: last day of history, YYYY-MM-DD, or `latest`.
        out: a `.nc` or `.zarr`; by default a `.nc` in the run's folder.
        region: as for `load`.
        source: as for `load`.
        members: hold the forecast of each member of an ensemble as `sst_member`, too.
        variable: as for `load`.
        units: as for `load`.
        gaps: as for `load`.

    Returns:
        `sst`, `sst_anomaly`, and `sst_spread` and `sst_quantile` of their predictive distribution, by
        `(init_time, lead, lat, lon)` in degC; `sst_past` and `climatology_past` of the days of history.

    Raises:
        SSTCastError: the source lacks days, or run, date, region or file cannot be used.

    Examples:
        >>> sstcast.forecast(run, "2004-07-01")["sst"].dims
        ('init_time', 'lead', 'lat', 'lon')
    """
    from sstcast.forecasting.forecast import forecast
    from sstcast.stores import open_netcdf, open_zarr

    place, file = None if source is None else str(at_home(source)), None if out is None else at_home(out)
    path, _ = forecast(_folder(run), date, file, region, place, members, variable, units, gaps, say=quiet)
    return (open_zarr if path.suffix == ".zarr" else open_netcdf)(path, "forecast again").load()


def score(
    file: Path | str,
    truth: Path | str | None = None,
    against: "Sequence[Run | Path | str]" = (),
    region: str | None = None,
    out: Path | str | None = None,
) -> dict[str, Any]:
    """Score anyone's forecasts, in a file, beside the baselines and your runs.

    Args:
        file: a NetCDF file or Zarr store, with the names of CF, climpred, OceanBench or sstcast
            (`docs/scoring.md`).
        truth: the observations: a file, a folder, a store, `sample`, or a run's YAML; by default the data of the
            first run in `against`.
        against: runs that forecast the same days.
        region: a name in `configs/regions.yaml` or `W,E,S,N`; by default all that file and observations share.
        out: the folder of the scores, by default beside the file.

    Returns:
        The content of `metrics.json` (`docs/evaluation.md`), with errors in degC and in standardised units.

    Raises:
        SSTCastError: file, observations, region or runs cannot be used, or do not fit together.

    Example:
        >>> metrics = sstcast.score(run.forecasts, against=[run])
        >>> metrics["scores"]["model"]["degC"]["rmse"] > 0
        True
    """
    from sstcast.scores.score import score

    place, folder = None if truth is None else str(at_home(truth)), None if out is None else at_home(out)
    return score(at_home(file), place, [_run(each) for each in against], region, folder, say=quiet)[0]


def _run(run: "Run | Path | str") -> "Run":
    from sstcast.runs import Run

    return Run.open(at_home(run)) if isinstance(run, (str, Path)) else run


def _folder(run: "Run | Path | str") -> Path:
    return at_home(run) if isinstance(run, (str, Path)) else run.folder
