"""Predictors besides SST (`data.predictors`): their stores, and what is known of them on an initial date.

Each kind is a class with a store in the folder of the run's cube. `predictor_store.newest_known` alone decides
which values an initial date may read. What is known on each day travels with the anomalies of SST, as
`predictor_NAME(time, ...)`, so that windows, forecasts and scores cut it by the same dates. It is NaN where
nothing is known, which is read as 0, the climatology.
"""

import datetime as dt
from collections.abc import Mapping
from pathlib import Path

import xarray as xr

from sstcast.config import DataConfig, PredictorConfig
from sstcast.errors import SSTCastError, counted
from sstcast.names import PERFECT
from sstcast.ocean.predictor_forecast import ForecastPredictor
from sstcast.ocean.predictor_grid import GridPredictor
from sstcast.ocean.predictor_index import IndexPredictor
from sstcast.ocean.predictor_static import StaticPredictor
from sstcast.ocean.predictor_store import StoredPredictor

VARIABLE_PREFIX = "predictor_"
KINDS: dict[str, type[StoredPredictor]] = {
    "index": IndexPredictor,
    "grid": GridPredictor,
    "forecast": ForecastPredictor,
    "static": StaticPredictor,
}


def stored_predictors(data: DataConfig, folder: Path) -> dict[str, StoredPredictor]:
    """Return the predictors of a run by name, with their stores in `folder`."""
    return {name: KINDS[config.kind](name, data, folder) for name, config in data.predictors.items()}


def prepare_predictors(data: DataConfig, folder: Path, cube: xr.Dataset) -> bool:
    """Bring the stores of all predictors up to date. Returns whether any was written.

    Logs each store written, and each predictor that is not known on some days of the cube.
    Raises SSTCastError if a source cannot be read or does not serve.
    """
    written = [predictor.prepare(cube) for predictor in stored_predictors(data, folder).values()]
    return any(written)


def with_predictors(
    anomalies: xr.Dataset, data: DataConfig, folder: Path, given: Mapping[str, xr.DataArray] | None = None
) -> xr.Dataset:
    """Add what is known of each predictor on each day of `anomalies` (see the module's docstring).

    Values come from the stores in `folder`, or from `given`, by name. Raises SSTCastError if a store is absent.
    """
    days = anomalies["time"].values
    known = {
        VARIABLE_PREFIX + name: predictor.known(days, (given or {}).get(name))
        for name, predictor in stored_predictors(data, folder).items()
    }
    return anomalies.assign(known) if known else anomalies


def predictors_in(anomalies: xr.Dataset) -> dict[str, xr.DataArray]:
    """Return what is known of the predictors, by the names of the variables in `anomalies`."""
    return {
        str(name): field for name, field in anomalies.data_vars.items() if str(name).startswith(VARIABLE_PREFIX)
    }


def digests_of_predictors(data: DataConfig, folder: Path, last: dt.date | None = None) -> dict[str, str]:
    """Hash, for each predictor, its units and all that the days of the splits, up to `last`, know of it."""
    first, end = data.splits.whole
    return {
        name: predictor.digest(first, last or end) for name, predictor in stored_predictors(data, folder).items()
    }


def changed_predictors(data: DataConfig, folder: Path) -> list[str]:
    """Return how the sources of predictors differ from their stores (see `StoredPredictor.changed`)."""
    return list(filter(None, (predictor.changed() for predictor in stored_predictors(data, folder).values())))


def describe_predictors(data: DataConfig) -> str:
    """Describe in a line what is read besides SST."""
    return "; ".join(f"{name}: {_described(config)}" for name, config in data.predictors.items())


def _described(config: PredictorConfig) -> str:
    source = f"{config.kind} from {Path(config.source).name}{f', {config.region}' if config.region else ''}"
    if config.perfect:
        return f"{source}, {PERFECT}"
    since = {"static": "", "forecast": "its issue"}.get(config.kind, "its span")
    return f"{source}, known {counted(config.delay, 'day')} after {since}" if since else source


def check_known(known: xr.Dataset, data: DataConfig, folder: Path) -> dict[str, str]:
    """Check that each predictor is known on the last day of `known`. Returns those that are not, with a reason.

    Raises SSTCastError for the first that may not be missing.
    """
    day, absent = known["time"].dt.strftime("%Y-%m-%d").values[-1], {}
    for name, predictor in stored_predictors(data, folder).items():
        config = predictor.config
        if not (reason := predictor.missing(known[VARIABLE_PREFIX + name])):
            continue
        if config.missing == "error":
            raise SSTCastError(
                f"data.predictors.{name}: {config.source} {reason}, which a forecast from {day} needs; add it, or "
                "set missing: climatology in config.yaml"
            )
        absent[name] = reason
    return absent
