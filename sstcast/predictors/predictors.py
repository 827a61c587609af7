"""Predictors besides SST (`data.predictors`): their stores, and what is known of them on an initial date.

Each has stores in the folder of the run's cube. `newest.newest_known` alone decides which values an initial date
may read. What is known on each day travels with the anomalies of SST, as `predictor_NAME(time, ...)`, so that
windows, forecasts and scores cut it by the same dates. It is NaN where nothing is known, which is read as 0, the
climatology.
"""

import datetime as dt
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

from sstcast.config import DataConfig, PredictorConfig
from sstcast.errors import SSTCastError, counted
from sstcast.log import LOG
from sstcast.names import PERFECT
from sstcast.predictors import forecast
from sstcast.predictors.grid import GRID
from sstcast.predictors.index import INDEX
from sstcast.predictors.newest import Days
from sstcast.predictors.predictor import Predictor
from sstcast.predictors.static import STATIC
from sstcast.predictors.values import ROUNDING

VARIABLE_PREFIX = "predictor_"
Predictors = Mapping[str, Predictor]  # by name
KINDS = {"index": INDEX, "grid": GRID, "forecast": forecast.FORECAST, "static": STATIC}


def stored_predictors(data: DataConfig, folder: Path) -> dict[str, Predictor]:
    """Return the predictors of a run by name, with their stores in `folder`."""
    return {
        name: Predictor(name, forecast.PERFECT if config.perfect else KINDS[config.kind], data, folder)
        for name, config in data.predictors.items()
    }


def prepare_predictors(predictors: Predictors, cube: xr.Dataset) -> bool:
    """Bring the stores of predictors up to date. Returns whether any was written.

    Logs each store written, and each predictor that is not known on some days of the cube.
    Raises SSTCastError if a source cannot be read or does not serve.
    """
    written = [predictor.prepare(cube) for predictor in predictors.values()]
    return any(written)


def with_predictors(
    anomalies: xr.Dataset, predictors: Predictors, given: Mapping[str, xr.DataArray] | None = None
) -> xr.Dataset:
    """Add what is known of each predictor on each day of `anomalies` (see the module's docstring).

    Values come from its store, or from `given`, by name. Raises SSTCastError if a store is absent.
    """
    days = anomalies["time"].values
    known = {
        VARIABLE_PREFIX + name: predictor.known(days, (given or {}).get(name))
        for name, predictor in predictors.items()
    }
    return anomalies.assign(known) if known else anomalies


def predictors_in(anomalies: xr.Dataset) -> dict[str, xr.DataArray]:
    """Return what is known of the predictors, by the names of the variables in `anomalies`."""
    return {
        str(name): field for name, field in anomalies.data_vars.items() if str(name).startswith(VARIABLE_PREFIX)
    }


def digests_of_predictors(predictors: Predictors, first: dt.date, last: dt.date) -> dict[str, str]:
    """Hash, for each predictor, its units and all that the days from `first` to `last` know of it."""
    return {name: predictor.digest(first, last) for name, predictor in predictors.items()}


def changed_predictors(predictors: Predictors) -> list[str]:
    """Return how the sources of predictors differ from their stores (see `Predictor.changed`)."""
    return list(filter(None, (predictor.changed() for predictor in predictors.values())))


def describe_predictors(data: DataConfig) -> str:
    """Describe in a line what is read besides SST."""
    return "; ".join(f"{name}: {_described(config)}" for name, config in data.predictors.items())


def _described(config: PredictorConfig) -> str:
    source = f"{config.kind} from {Path(config.source).name}{f', {config.region}' if config.region else ''}"
    if config.perfect:
        return f"{source}, {PERFECT}"
    since = {"static": "", "forecast": "its issue"}.get(config.kind, "its span")
    return f"{source}, known {counted(config.delay, 'day')} after {since}" if since else source


def check_known(
    day: np.datetime64, read: int, predictors: Predictors, given: Mapping[str, xr.DataArray]
) -> tuple[dict[str, str], str]:
    """Check that on an initial date each predictor is known as well as on training days.

    Args:
        day: the initial date.
        read: number of days up to it of which values are read.
        predictors: those of a run.
        given: values that are read beside those of the stores, by name.

    Returns:
        Those that are not, with a reason, and the shares that are known, as text. Logs shares below the median.

    Raises:
        SSTCastError: one that may not be missing is not known as well.
    """
    absent, told = {}, []
    for name, predictor in predictors.items():
        reason = predictor.missing(day, given.get(name))
        usual = usual_coverage(predictor, read)
        for what, (share,) in predictor.coverage(np.array([day]), read, given.get(name)).items():
            least, median = usual[what]
            told.append(f"{name}: {share:.1%} of {what}")
            if share < median and not reason:
                usually = f"less than on half of the training days ({median:.1%})"
                LOG.info(f"{predictor.path.parent}: {told[-1]} is known, {usually}")
            if share < least and not reason:
                reason = f"tells {share:.1%} of {what}, less than on nine in ten training days ({least:.1%})"
        if reason and predictor.config.missing == "error":
            text = np.datetime_as_string(day, unit="D")
            raise SSTCastError(
                f"data.predictors.{name}: {predictor.config.source} {reason}, which a forecast from {text} needs; "
                "add it, or set missing: climatology in config.yaml"
            )
        if reason:
            absent[name] = reason
    return absent, "; ".join(told)


def usual_coverage(predictor: Predictor, read: int) -> dict[str, tuple[float, float]]:
    """Return the share that nine in ten training days know at least, and the median, by what it is a share of.

    Days on which nothing is known, as before a product begins, do not count.
    """
    first, last = predictor.data.splits.train
    days = pd.date_range(min(first + dt.timedelta(read - 1), last), last).as_unit("ns").values
    usual = {}
    for what, shares in predictor.coverage(days, read).items():
        known = shares[shares > 0] if shares.any() else np.zeros(1)
        usual[what] = float(np.quantile(known, 0.1, method="lower")) - ROUNDING, float(np.median(known)) - ROUNDING
    return usual


def count_lacking(days: Days, read: int, predictors: Predictors) -> dict[str, int]:
    """Return by name, and log, on how many consecutive `days` less is known than on nine in ten training days."""
    counts = {}
    for name, predictor in predictors.items():
        usual = usual_coverage(predictor, read)
        lacking = [shares < usual[what][0] for what, shares in predictor.coverage(days, read).items()]
        if lacking and (count := int(np.any(lacking, axis=0).sum())):
            counts[name] = count
            LOG.info(f"{name}: less is known than on nine in ten training days on {count} of {len(days)} dates")
    return counts
