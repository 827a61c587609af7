"""The public functions for scores and what shows them: evaluate, score, hindcast, maps, pages and reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from sstcast.api.arguments import (
    Result,
    Scored,
    Seeds,
    Verified,
    as_config,
    asked_of,
    expand_path,
    field_source,
    listed,
    read_places,
    seeds_of,
    takes_verified,
    trainable,
)
from sstcast.errors import SSTCastError
from sstcast.log import reporting
from sstcast.storage.paths import expand_user

if TYPE_CHECKING:
    import xarray as xr

    from sstcast.config import RunConfig
    from sstcast.figures.sheets.sheet import Sheet
    from sstcast.forecasting.loaded_run import LoadedRun
    from sstcast.runs import Run
    from sstcast.scores.leaderboard import Contest


@takes_verified
def evaluate(
    run: Run | LoadedRun | Path | str,
    against: str | Run | LoadedRun | Path = "multiscale",
    source: str | Path | xr.Dataset | xr.DataArray | None = None,
    region: str | None = None,
    index: str | Path | None = None,
    **asked: Unpack[Verified],
) -> Scored:
    """Score a run and the baselines on the test days. Scores on other data go to RUN/elsewhere-NAME.

    Args:
        run: a run's folder, for instance `runs/demo`, or `pretrained`, the run that ships with sstcast.
        against: the reference, as the name or first word of a baseline, or as another run. The comparison with a
            run is shown (in Python, in `ratios`), but not saved.
        source: other data, as a NetCDF file, a Zarr store or a folder of either; in Python also an xarray object,
            which must hold the same days if the run was made from one and no region is given. Without a region,
            the run's own region if they contain it, else all of them.
        region: another region, as a name in `configs/regions.yaml` or `W,E,S,N` in degrees.
        index: also score the initial dates in the lower, middle and upper third of an index separately. The index
            is a box, such as `nino34`, on the first day forecast, or a CSV of initial dates and values.

    Returns:
        The content of `metrics.json` (`docs/runs.md`), with errors in degC and in standardised units. `table` has
        the errors of all systems as a pandas DataFrame, and their ratios to the `reference` of these scores.

    Raises:
        SSTCastError: the run is not trained, its data have changed, or the other data do not suit it.

    Source:
        `docs/evaluation.md` cites the source of each score.

    Examples:
        >>> metrics = sstcast.evaluate(run).value
        >>> metrics["scores"]["model"]["degC"]["rmse"] > 0
        True
    """
    from sstcast.forecasting.run_places import keep_places, places_for
    from sstcast.forecasting.transfer import transferred_run
    from sstcast.names import BASELINES, LINEAR_BASE, MODEL
    from sstcast.runs import Run
    from sstcast.scores.asked import Asked
    from sstcast.scores.evaluate import compare_runs, evaluate
    from sstcast.scores.summary import warn_of_implausible
    from sstcast.scores.system_records import key_without

    given, also = read_places(asked.pop("places", ())), asked_of(**asked)
    reference, run = _reference(against), Run.open(expand_user(run))
    if isinstance(reference, Run):
        without = [key_without(name) for name in run.config.data.predictors]
        if reference.folder.name in (MODEL, LINEAR_BASE, *BASELINES, *without):
            raise SSTCastError(f"--against {reference.folder}: is named like a baseline; rename the folder")
    days = field_source(source, region=region)
    if days.given:
        run = transferred_run(run, days)
    chosen = places_for(run, given)
    also = replace(also, places=chosen and chosen.places).or_else(Asked.kept(run.metrics), run.folder)
    metrics, new = evaluate(run, also)
    warn_of_implausible(str(run.folder), metrics)
    if run.trained == run:
        keep_places(run, chosen)
    metrics = _again(run.folder, metrics, index)
    if isinstance(reference, Run):
        ratios, name = metrics["ratios"], reference.folder.name
        mse = ratios["mse"] | {MODEL: ratios["mse"][MODEL] | {name: compare_runs(run, reference)}}
        metrics = metrics | {"ratios": ratios | {"mse": mse}}
    return Scored(metrics, run.metrics, new)


@takes_verified
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
    against: str | None = None,
    index: str | Path | None = None,
    out: Path | str | None = None,
    overrides: Sequence[str] = (),
    jobs: int = 1,
    scheduler: str | None = None,
    source: xr.Dataset | xr.DataArray | None = None,
    predictors: Mapping[str, xr.Dataset | xr.DataArray] | None = None,
    **asked: Unpack[Verified],
) -> Scored:
    """Train systems on earlier years only, forecast many years, and score all years together.

    Args:
        configs: configurations of the systems, with different names and the same cells, history and horizon.
        years: first and last year to forecast, for instance `1997:2016`.
        fold: number of test years per training.
        validation: number of validation years before the test years, used to select the weights.
        every: days between initial dates.
        seeds: train one run or member per seed, for instance `0..4` for the seeds 0 to 4; in Python also numbers.
        combine: name for a combination of all systems, with weights fitted in each fold, which is also scored.
        average: name for a combination with equal weights, which is also scored.
        select: names of systems, separated by commas. In each fold, the one with the lowest error in the two folds
            before it is scored as `selected`.
        against: the system or baseline of the table with which all others are compared, by default the best linear
            one. The comparison is shown and returned, but not saved.
        index: also score the initial dates in the lower, middle and upper third of an index separately. The index
            is a box, such as `nino34`, on the first day forecast, or a CSV of initial dates and values.
        out: the hindcast's folder, `runs/hindcast-YEARS` by default.
        overrides: change the YAML with `key.sub=value`, for instance `training.epochs=3`.
        jobs: number of runs to train in parallel.
        scheduler: address of a dask cluster that sees the same files, for instance `tcp://host:8786`.
        source: an xarray object in place of the source that the configuration names (`docs/own-data.md`).
        predictors: xarray objects by name in place of the sources of `data.predictors` (`docs/predictors.md`).

    Returns:
        The content of `metrics.json` (`docs/runs.md`), for every system with the squared error in degC² and its
        ratio to the squared error of the best linear system, or of the one that `against` names. `table`
        has the errors of all systems as a pandas DataFrame.

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
    from sstcast.reading.xarray_objects import check_by_name
    from sstcast.scores.summary import warn_of_implausible

    also, protocol = asked_of(**asked), Protocol.parse(years, fold, validation, every)
    folder = Hindcast(expand_user(out or f"runs/hindcast-{protocol.first}-{protocol.last}"))
    systems = [trainable(config, overrides, source) for config in listed(configs)]
    if predictors is not None:
        check_by_name(predictors)
        for number, system in enumerate(systems):
            own = {name: values for name, values in predictors.items() if name in system.data.predictors}
            systems[number] = as_config(system, predictors=own)
    candidates = tuple(name.strip() for name in select.split(",")) if select is not None else ()
    numbers = seeds_of(seeds) or []
    plan = Plan(folder, protocol, systems, numbers, combine, average, candidates, also)
    reference = None if against is None else plan.reference(against)
    metrics, new = hindcast(plan, jobs, scheduler)
    warn_of_implausible(str(folder.folder), metrics)
    return Scored(_again(folder.folder, metrics, index, reference), folder.metrics, new)


@takes_verified
def score(
    file: Path | str,
    truth: str | Path | xr.Dataset | xr.DataArray | None = None,
    against: Sequence[str | Run | LoadedRun | Path] = (),
    region: str | None = None,
    out: Path | str | None = None,
    variable: str | None = None,
    units: str | None = None,
    leads: int | None = None,
    remove_bias: bool = False,
    index: str | Path | None = None,
    **asked: Unpack[Verified],
) -> Scored:
    """Score forecasts from any system, given as a file, against the baselines and your runs.

    Args:
        file: a NetCDF file or Zarr store with names from CF, climpred, OceanBench or sstcast (`docs/scoring.md`).
        truth: the observations, as a file, a folder, a store, `sample`, or a run's YAML; in Python also an xarray
            object. By default, the data of the first run in `against`.
        against: runs to score on the same days, or baselines to compare with. The baselines are always scored.
        region: a name in `configs/regions.yaml` or `W,E,S,N`. By default, the region of the first run in
            `against`, or the area where forecasts and observations overlap.
        out: the folder for the scores, by default beside the file.
        variable: name of the SST variable, if it is not found automatically.
        units: units of SST, for instance `K`, in place of those that the file or store states.
        leads: number of days ahead to score, by default all in the file that the runs in `against` also forecast.
        remove_bias: also score all systems minus their mean errors in other years, by cell, lead and season.
        index: also score the initial dates in the lower, middle and upper third of an index separately. The index
            is a box, such as `nino34`, on the first day forecast, or a CSV of initial dates and values.

    Returns:
        The content of `metrics.json` (`docs/runs.md`), with errors in degC and in standardised units. `table` has
        the errors of all systems as a pandas DataFrame.

    Raises:
        SSTCastError: the file, the truth, the region or a run is unusable, or they do not fit together.

    Examples:
        >>> metrics = sstcast.score(run.forecasts, against=[run]).value
        >>> metrics["scores"]["model"]["degC"]["rmse"] > 0
        True
    """
    from sstcast.runs import Run
    from sstcast.scores.score import score

    also = asked_of(**asked)
    runs = [run for reference in listed(against) if isinstance(run := _reference(reference), Run)]
    days = field_source(truth, region=region)
    metrics, scored, new = score(
        expand_user(file),
        days,
        runs,
        expand_path(out),
        variable,
        units,
        leads,
        remove_bias,
        also,
    )
    return Scored(_again(scored.folder, metrics, index), scored.metrics, new)


def page(
    forecast: Run | LoadedRun | Path | str,
    out: Path | str | None = None,
    region: str | None = None,
    max_size: float = 20,
) -> Result[None]:
    """Write a forecast as one interactive HTML page, with daily maps and a time series at every point.

    Args:
        forecast: a forecast's `.nc` or `.zarr`, or a run, to show its newest forecast.
        out: the `.html` to write, by default beside the forecast.
        region: the part to show, as a name in `configs/regions.yaml` or `W,E,S,N`.
        max_size: maximum size of the page in MB.

    Returns:
        The page's `path`, and whether this call wrote it (`new`).

    Raises:
        SSTCastError: the file is damaged or no forecast, or the page would be larger than `max_size`.

    Examples:
        >>> sstcast.page(run).path.suffix
        '.html'
    """
    from sstcast.reports.page import write_forecast_page

    return Result(None, *write_forecast_page(expand_user(forecast), expand_path(out), region, max_size))


def map(
    run: Run | LoadedRun | Path | str, projection: str = "PlateCarree", region: str | None = None
) -> list[Path]:
    """Draw maps of the errors and of example forecasts of a run or a scored file, or of a hindcast's scores.

    Of a record's events, draw the mean days a year, the highest category and the trend of the days a year.

    Args:
        run: a run, which is evaluated first if necessary, a hindcast, the folder of a file's scores, or the `.nc`
            that `heatwaves` wrote of all cells of a record, beside which the maps are drawn.
        projection: a cartopy projection, for instance `Robinson`.
        region: the part to draw, as a name in `configs/regions.yaml` or `W,E,S,N`.

    Returns:
        The paths of the PNG files.

    Raises:
        SSTCastError: the run has no scores and cannot be evaluated, the file does not hold a record's events, or
            there is no such projection.

    Examples:
        >>> sstcast.map(run)[-1].name
        'ratio-by-lead.png'
    """
    from sstcast.figures.results import Results
    from sstcast.reports.event_maps import draw_event_maps, is_file
    from sstcast.reports.report import draw_maps

    path = expand_user(run)
    if is_file(path):
        return draw_event_maps(path, projection, region)
    return draw_maps(Results(path, region), projection)


def report(run: Run | LoadedRun | Path | str) -> Result[None]:
    """Write all results of a run, a hindcast or a scored file to one HTML page.

    Args:
        run: a run, which is evaluated first if necessary, a hindcast, or the folder of a file's scores.

    Returns:
        The report's `path`, and whether this call wrote it (`new`).

    Raises:
        SSTCastError: the run has no scores and cannot be evaluated, or its files are damaged.

    Examples:
        >>> sstcast.report(run).path.name
        'report.html'
    """
    from sstcast.figures.results import Results
    from sstcast.reports.report import write_report

    return Result(None, *write_report(Results(expand_user(run))))


def leaderboard(folder: Path | str = "runs") -> Result[tuple[list[Contest], list[Sheet]]]:
    """Rank all evaluated runs in a folder, and write the ranks to `leaderboard.csv` and `leaderboard.html`.

    Hindcasts and scored files have a table each, and runs on graphs one for each data set, split and metric, which
    are printed, and in the page. A line names the runs that are left out because they are not evaluated.

    Args:
        folder: a folder of runs.

    Returns:
        The contests, each with its comparable runs from best to worst, and the tables of hindcasts, files and
        graphs.

    Raises:
        SSTCastError: the folder holds no evaluated run.

    Examples:
        >>> sstcast.leaderboard(run.folder.parent).path.name
        'leaderboard.csv'
    """
    from sstcast.benchmarks.results import tables_below
    from sstcast.figures.sheets.sheet import Sheet
    from sstcast.reports.leaderboard import other_sheets, write_leaderboard
    from sstcast.scores.leaderboard import leaderboard

    runs = expand_user(folder)
    sheets = [*other_sheets(runs), *(Sheet(*table) for table in tables_below(runs))]
    contests = leaderboard(runs, empty=bool(sheets))
    return Result((contests, sheets), write_leaderboard(contests, runs, sheets)[0], True)


def _again(
    folder: Path, metrics: dict[str, Any], index: str | Path | None, reference: str | None = None
) -> dict[str, Any]:
    """Compare with another reference, and add scores by third of an index to `metrics`, if either is given."""
    if index is None and reference is None:
        return metrics
    from sstcast.scores.saved_scores import SavedScores
    from sstcast.scores.score_files import ScoreFiles

    index = None if index is None else str(expand_user(index))
    return SavedScores(ScoreFiles(folder), metrics).again(reference, index).metrics


def _reference(against: Run | LoadedRun | Path | str) -> Run | str:
    from sstcast.runs import Run
    from sstcast.scores.evaluate import reference

    folder = expand_user(against)
    return reference(str(folder)) if isinstance(against, (str, Path)) else Run(folder)
