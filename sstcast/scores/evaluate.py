"""The verb `evaluate`: score a run on its test days beside the baselines."""

from pathlib import Path
from typing import Any

import xarray as xr

from sstcast import __version__
from sstcast.artefacts import locked
from sstcast.cf import describe, references, write
from sstcast.errors import SSTCastError
from sstcast.names import BASELINES
from sstcast.ocean.prepared import Prepared, check_data, warn_of_source
from sstcast.runs import Run
from sstcast.scores.comparison import check_comparable, compare_tables
from sstcast.scores.saved import LAYOUT, read_metrics, write_metrics
from sstcast.scores.significance import block_length
from sstcast.stores import open_netcdf, open_written
from sstcast.yaml_files import suggest

CHANGED = "the scores are of the days before; for the new ones run `sstcast prepare`, then train another run"


def scores_file(run: Run) -> Path:
    """Return the path of the tables that scores and figures follow from."""
    return run.folder / "scores.nc"


def open_scores(run: Run) -> xr.Dataset:
    """Open the tables of an evaluated run; raise SSTCastError if they are damaged."""
    path = scores_file(run)
    return open_netcdf(path, f"delete it and run `sstcast evaluate {run.folder}`")


def open_forecasts(run: Run) -> xr.Dataset:
    """Open the forecasts of an evaluated run; raise SSTCastError if they are damaged."""
    return open_written(run.forecasts, f"delete it and run `sstcast evaluate {run.folder}`")


def evaluate(run: Run) -> tuple[dict[str, Any], bool]:
    """Forecast the test split, write `forecasts.zarr`, `scores.nc` and `metrics.json`, and return the metrics.

    The second value is False if they were there already for the best checkpoints of the run's members.
    `docs/evaluation.md` says what the files hold.

    A line on stderr says so if the source has changed since. Raises SSTCastError if the test split holds too few
    dates or no ocean.
    """
    if Prepared.of(run.config.data).exist:
        check_data(run)
        warn_of_source(run.config.data, CHANGED)
    run.trained.open_parts()
    digest = run.digest
    if (known := _known(run, digest)) is not None:
        return known, False
    with locked(run.forecasts):
        if (known := _known(run, digest)) is not None:
            return known, False
        return _evaluate(run, digest), True


def _known(run: Run, digest: str) -> dict[str, Any] | None:
    metrics = read_metrics(run.metrics, scores_file(run))
    if metrics is None or (metrics.get("checkpoint"), metrics.get("layout")) != (digest, LAYOUT):
        return None
    try:
        open_forecasts(run).close()
    except SSTCastError:
        return None
    return metrics


def _evaluate(run: Run, digest: str) -> dict[str, Any]:
    # Not above: what has been evaluated is read, and drawn, without PyTorch, which takes a second to load.
    from sstcast.forecasting.predictor import trained_elsewhere
    from sstcast.scores.measure import measure
    from sstcast.scores.summary import summarise
    from sstcast.scores.verification import Verification

    config, data = run.config.data, Verification.of(run)
    block = block_length(config.horizon, data.windows.starts)
    tables = measure(run, data)
    tables = describe(
        tables,
        title=f"Scores of run {run.folder.name}",
        summary="Errors, heatwaves, box means and significance of a run and of baselines over its test days",
        source=data.cube.attrs["source"],
        history=f"sstcast {__version__} evaluate",
        **references(data.cube.attrs["source"], config.protocol),
    )
    write(tables, scores_file(run))
    found = {
        "layout": LAYOUT,
        "checkpoint": digest,
        "model": run.config.model.name,
        "trained_on": trained_elsewhere(run.config),
        "members": len(run.members),
        "source": data.cube.attrs["source"],
        "data": Prepared.of(config).record().model_dump(),
        "protocol": config.protocol,
        "test": [str(day) for day in config.splits.test],
        "forecasts": data.windows.starts,
        "block": block,
        "ocean_cells": int(data.ocean.sum()),
        **summarise(tables, len(run.members)),
    }
    return write_metrics(run.metrics, found, scores_file(run))


def reference(name: str) -> str | Run:
    """Return the baseline called `name`, for which its first word will do, or the run in that folder.

    Raises SSTCastError if it is neither.
    """
    baselines = {short: baseline for baseline in BASELINES for short in (baseline, baseline.split()[0])}
    if name in baselines:
        return baselines[name]
    if not Path(name).exists():
        known = ", ".join(BASELINES)
        raise SSTCastError(
            f"--against {name}: neither a run's folder nor a baseline ({known}){suggest(name, baselines)}"
        )
    return Run.open(Path(name))


def compare(run: Run, other: Run) -> dict[str, Any]:
    """Compare the forecasts of two runs in degC, date by date, both evaluated first if need be.

    Returns what `metrics["skill"]["degC"]` holds of a baseline, for `other` in its place.

    Raises SSTCastError if they forecast other days, or another ocean.
    """
    check_comparable(run, other)
    for one in (run, other):
        evaluate(one)
    with (
        open_scores(run) as tables,
        open_scores(other) as reference,
    ):
        return compare_tables(tables, reference)
