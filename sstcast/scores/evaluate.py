"""The command `evaluate`: scores a run and the baselines on the run's test days, as a hindcast of one fold."""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

import xarray as xr

from sstcast._version import __version__
from sstcast.errors import SSTCastError
from sstcast.forecasting.run_places import places_for
from sstcast.names import BASELINES, DEFAULT_REFERENCE, MODEL
from sstcast.ocean.prepared import Prepared, check_source
from sstcast.ocean.tiles import in_tiles
from sstcast.places.places import Places
from sstcast.predictors.predictors import count_lacking
from sstcast.reading.daily_field import source_of
from sstcast.runs import Run
from sstcast.scores.asked import NOTHING, Asked
from sstcast.scores.saved_scores import SavedScores
from sstcast.scores.score_files import ScoreFiles, recipe_of_scores
from sstcast.scores.scored_days import digest_of_scored
from sstcast.scores.system_records import BASELINE, UNKNOWN, record, shown_names
from sstcast.storage.artefacts import RECIPE, as_text, is_up_to_date, locked, read_recipe
from sstcast.storage.stores import open_written
from sstcast.storage.yaml_files import suggest
from sstcast.training.data_record import check_data, record_of
from sstcast.types import Scores

REMEDY = "the scores use the old data; to use the new data, run `sstcast prepare`, then train another run"


def open_forecasts(run: Run) -> xr.Dataset:
    """Open the forecasts of an evaluated run. Raises SSTCastError if they are damaged."""
    return open_written(run.forecasts, f"delete it and run `sstcast evaluate {run.folder}`")


def evaluate(run: Run, asked: Asked = NOTHING) -> tuple[dict[str, Any], bool]:
    """Forecast the test split, write `forecasts.zarr`, `scores.nc` and `metrics.json`, and return the metrics.

    Means of places, forecasts at points and warnings of heatwaves are also scored if they are `asked` for. To keep
    those of the last evaluation, pass `kept(run)`.

    The second value is False if these files already existed for the best checkpoints of the run's members.
    `docs/runs.md` describes their contents.

    Warns on stderr if the source has changed since the run was trained.
    """
    prepared = Prepared.of(run.config.data)
    if checked := prepared.is_current:
        check_data(run, prepared)
        check_source(prepared, REMEDY, only_warn=True)
    run.trained.open_parts()
    asked = asked.current(ScoreFiles(run.folder))
    recipe = recipe_of_scores(prepared.data) | {"weights": run.digest, "configuration": run.config.experiment()}
    # Without stores, scores that are there are taken to be of the days that they tell.
    recipe["region"] = run.config.data.cells
    recipe |= digest_of_scored(prepared) if checked else {"scored": (read_recipe(run.metrics) or {}).get("scored")}
    if (metrics := _known(run, recipe | asked.recipe)) is not None:
        return metrics, False
    with locked(run.forecasts):
        if (metrics := _known(run, recipe | asked.recipe)) is not None:
            return metrics, False
        asked = asked.read(run.folder)
        if not checked:
            check_data(run, prepared)
        if asked.places is not None:
            tell_weights(asked.places, prepared)
        return _evaluate(run, prepared, recipe | asked.recipe, asked), True


def kept(run: Run) -> Asked:
    """Return what the last evaluation of a run was asked for. Before the first, these are its places."""
    if run.metrics.exists() or (chosen := places_for(run)) is None:
        return Asked.kept(run.metrics)
    return Asked(chosen.places)


def _known(run: Run, recipe: dict[str, Any]) -> dict[str, Any] | None:
    metrics = ScoreFiles(run.folder).known(recipe)
    if metrics is None or not is_up_to_date(run.forecasts, recipe):
        return None
    try:
        open_forecasts(run).close()
    except SSTCastError:
        return None
    return metrics


def tell_weights(places: Places, prepared: Prepared) -> None:
    """Log how much of each area lies in ocean cells of the region. Raises SSTCastError if it is less than half."""
    cube = prepared.open_cube()
    inside = in_tiles(prepared.data.box, (cube.sizes["lat"], cube.sizes["lon"]))
    places.weights(cube["ocean_fraction"].load(), cube["ocean_mask"].values & inside)


def _evaluate(run: Run, prepared: Prepared, recipe: dict[str, Any], asked: Asked) -> dict[str, Any]:
    # Imported here because existing scores are read and drawn without PyTorch, which takes a second to load.
    from sstcast.forecasting.spread import SpreadCalibrator
    from sstcast.scores.analysis import Analysis
    from sstcast.scores.baseline_tables import tables_of_run
    from sstcast.scores.joining import join_folds, join_systems
    from sstcast.scores.kinds.points import check_observations
    from sstcast.scores.scene import Scene
    from sstcast.scores.summary import assemble, predictors_of
    from sstcast.scores.systems import describe_run, forecast_file, systems_of
    from sstcast.scores.verify import verify

    config, truth, label = prepared.data, Analysis.open(prepared), run.folder.name
    check_observations([truth], asked)
    days = SpreadCalibrator(prepared)
    systems = systems_of(run, days)
    history = config.history + systems[MODEL].system.before
    lacking = count_lacking(truth.windows.init_times, history, prepared.predictors)
    attributes = {"title": f"SST forecasts of run {label}", "history": f"sstcast {__version__} evaluate"}
    with forecast_file(run.forecasts, run, truth, **attributes, **{RECIPE: as_text(recipe)}) as write:
        verified = verify(Scene(truth, systems, asked, references=False), label, write)
    verified = join_systems([verified, tables_of_run(truth, days, asked)])
    references = [str(name) for name in verified["system"].values if name != MODEL]
    records = {MODEL: describe_run(run, systems[MODEL].system)}
    for name in references:
        records[name] = systems[name].record if name in systems else record(BASELINE, **UNKNOWN)
    tables, metrics = assemble(
        join_folds([verified]),
        ([MODEL], references),
        DEFAULT_REFERENCE,
        records,
        config,
        asked,
        truth.left_out,
        kind="run",
        history=history,
        source=source_of(config.source).called(str(truth.cube.attrs["source"])),
        data=prepared.record().model_dump(),
        **predictors_of({MODEL: config}),
        **({"predictors_lacking": lacking} if lacking else {}),
    )
    files, title = ScoreFiles(run.folder), f"Scores of run {label}"
    return files.write(tables, metrics, recipe, config.protocol, title=title)


OCEAN_KEYS = ("region", "protocol", "history", "predictors", "splits.train", "splits.validation", "splits.test")


def reference(name: str) -> str | Run:
    """Return the baseline called `name`, or the run in the folder `name`.

    The first word of a baseline's name is enough. Raises SSTCastError if `name` is neither.
    """
    baselines = {short: baseline for baseline in BASELINES for short in (baseline, baseline.split()[0])}
    if name in baselines:
        return baselines[name]
    if not Path(name).exists():
        names = ", ".join(BASELINES)
        raise SSTCastError(
            f"--against {name}: neither a run's folder nor a baseline{suggest(name, baselines)}; known: {names}"
        )
    return Run.open(Path(name))


def labels(run: Run, against: str) -> tuple[str, dict[str, str]]:
    """Return what a run and the baseline or run `against` are called, the second by its key in `ratios`."""
    other = reference(against)
    if isinstance(other, str):
        return run.label, {other: other}
    own, of_other = run.labels_beside(other)
    return own, {other.folder.name: of_other}


def labels_of_file(metrics: Scores, against: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Return what a scored file is called, and the baselines and runs `against` by their keys."""
    label, systems = Path(metrics["file"]).name, map(reference, against)
    keys = [of if isinstance(of, str) else metrics["references"][str(of.folder)] for of in systems]
    names = shown_names(metrics, label)
    return label, {key: names[key] for key in keys}


def compare_runs(run: Run, other_run: Run) -> dict[str, Any]:
    """Compare the errors of two runs in degC, date by date. Evaluate the runs first if necessary.

    Returns the comparison with `other_run`, in the form of `metrics["ratios"]["mse"]["model"]` for a reference.

    Raises SSTCastError if the runs do not forecast the same days of the same ocean.
    """
    keys, digests = ("source", "region", "horizon", "splits.test"), {"test": "test days have different values"}
    check_same(run, other_run, keys, digests, "compare runs that forecast the same days of the same ocean")
    runs = run, other_run
    own, other = (SavedScores(ScoreFiles(of.folder), evaluate(of, kept(of))[0]) for of in runs)
    return own.compare(other, run.labels_beside(other_run))


def check_same(run: Run, other_run: Run, keys: Sequence[str], digests: Mapping[str, str], remedy: str) -> None:
    """Raise SSTCastError, with the remedy, if two runs differ in the given keys or digests.

    `keys` are keys of the configuration's `data`. `digests` maps fields of a run's record to the words that
    describe a difference in the error message.
    """
    run_data, other_data = run.config.data, other_run.config.data
    for key in keys:
        run_value, other_value = (_text(attrgetter(key)(data)) for data in (run_data, other_data))
        if run_value != other_value:
            raise SSTCastError(
                f"{other_run.folder}: its data.{key} is {other_value}, but {run.folder} has {run_value}; {remedy}"
            )
    run_record, other_record = (record_of(compared_run.recorded[0]) for compared_run in (run, other_run))
    for name, words in digests.items() if run_record is not None and other_record is not None else ():
        run_value, other_value = getattr(run_record, name), getattr(other_record, name)
        if run_value != other_value:
            raise SSTCastError(
                f"{other_run.folder}: its {words} (digest {other_value[:12]}) from those of {run.folder} "
                f"({run_value[:12]}); {remedy}"
            )


def _text(value: Any) -> str:
    return "..".join(map(str, value)) if isinstance(value, tuple) else str(value)
