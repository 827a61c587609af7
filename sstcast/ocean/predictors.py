"""Predictors besides SST (`data.predictors`): their stores, and what is known of them on an initial date.

    DIRECTORY/SOURCE-REGION/predictor-NAME-HASH.zarr    value(time) of an index, by the last day of its span

HASH stands for the source and the keys that say how it is read. `newest_known` alone decides which values an
initial date may read. What is known on each day travels with the anomalies of SST, as `predictor_NAME(time,
summary)`, so that windows, forecasts and scores cut it by the same dates. It is NaN where nothing is known, which
is read as 0, the climatology.
"""

import datetime as dt
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from sstcast._version import __version__
from sstcast.config import DataConfig, PredictorConfig
from sstcast.errors import SSTCastError, counted
from sstcast.log import LOG
from sstcast.ocean.index_series import by_span, read_index, read_series
from sstcast.ocean.objects import is_object, is_there, state
from sstcast.storage.artefacts import as_text, clear_leftovers, is_up_to_date, noted, read_recipe
from sstcast.storage.cf import describe
from sstcast.storage.dataset_files import write_zarr
from sstcast.storage.stores import open_written

VARIABLE_PREFIX = "predictor_"
SUMMARY = "summary"  # dimension of what an index tells: the newest value and a mean, or two means
MEANS = {"month": (1, 3), "day": (30, 90)}  # values in each summary
LEAST_SHARE = 0.75  # of the values in a mean that must be known
MIN_YEARS = 2  # with values of each calendar month in the base period, for a climatology
LAYOUT = 1
REMEDY = "run `sstcast prepare` with the run's config.yaml"

Days = NDArray[np.datetime64]


def newest_known(ends: Days, days: Days, delay: int) -> NDArray[np.intp]:
    """Return the position of the newest value known on each of `days`, -1 if none is known yet.

    A value is known `delay` days after `ends`, the last day of its span, on which it then counts as known all day.
    Both arrays ascend.
    """
    return np.searchsorted(ends + delay * np.timedelta64(1, "D"), days, side="right") - 1


def known_index(
    values: xr.DataArray, days: Days, config: PredictorConfig, base: tuple[dt.date, dt.date], name: str
) -> xr.DataArray:
    """Return what is known of an index on each day, `(time, summary)`, NaN where a needed value is missing.

    `values(time)` come from `read_index`. They become departures from the climatology of their calendar month,
    divided by their standard deviation, both over the values known at the end of the `base` period. The summaries
    are the newest value and the mean of three months or, for a daily index, the means of 30 and 90 days.

    Raises SSTCastError if the base period has too few values for a climatology.
    """
    every = str(values.attrs["every"])
    first, last = values["time"].values[0], max(values["time"].values[-1], days[-1])
    periods = pd.period_range(first, last, freq="M" if every == "month" else "D")
    ends = periods.end_time.normalize().as_unit("ns")
    series = values.reindex(time=ends).to_series()
    begin, stop = (np.datetime64(day) for day in base)
    known_in_base = series.notna().to_numpy() & (ends.values >= begin)
    known_in_base[newest_known(ends.values, np.array([stop]), config.delay)[0] + 1 :] = False
    months = series.index.month
    by_month = series[known_in_base].groupby(months[known_in_base])
    years = series.index.year[known_in_base].nunique()
    if years < MIN_YEARS or len(by_month) < 12 or by_month.count().min() < MIN_YEARS:
        raise SSTCastError(
            f"data.predictors.{name}: {config.source} has {counted(int(known_in_base.sum()), 'value')} in "
            f"{base[0]}..{base[1]}, but a climatology needs {MIN_YEARS} of each calendar month; give more"
        )
    anomalies = series - by_month.mean().reindex(months).to_numpy()
    deviation = float(anomalies[known_in_base].std(ddof=0))
    standard = anomalies / (deviation if deviation > 0 else 1.0)
    means = [standard.rolling(n, min_periods=int(np.ceil(LEAST_SHARE * n))).mean() for n in MEANS[every]]
    at = newest_known(ends.values, days, config.delay)
    table = np.stack([np.where(at >= 0, mean.to_numpy()[at], np.nan) for mean in means], 1).astype(np.float32)
    return xr.DataArray(table, {"time": days}, ("time", SUMMARY))


def store_of(folder: Path, name: str, config: PredictorConfig) -> Path:
    """Return the path of a predictor's store in the folder of a cube. Its name tells source and keys apart."""
    path = config.path
    source = config.source if is_object(path) or config.source == "sample" else str(path.resolve())
    keys = [config.kind, source, config.variable, config.units, config.region, config.span]
    return folder / f"predictor-{name}-{hashlib.sha256(json.dumps(keys).encode()).hexdigest()[:8]}.zarr"


def prepare_predictors(data: DataConfig, folder: Path, days: Days) -> bool:
    """Bring the stores of all predictors up to date. Returns whether any was written.

    Logs each store written, and each predictor that is not known on some of `days`.
    Raises SSTCastError if a source cannot be read or does not serve.
    """
    new = False
    for name, config in data.predictors.items():
        path, recipe = store_of(folder, name, config), _recipe(config)
        clear_leftovers(path)
        if is_up_to_date(path, recipe) or (is_object(config.path) and not is_there(config.path) and path.exists()):
            continue
        values = read_index(config, name)
        known = known_index(values, days, config, data.splits.base, name)
        _write(values, path, recipe, config)
        LOG.info(f"{path}: {counted(values.size, 'value')} of {name} written")
        if lacking := int(known.isnull().any(SUMMARY).sum()):
            LOG.info(f"{path}: {name} is not known on {lacking} of {len(days)} days, which read its climatology")
        new = True
    return new


def _recipe(config: PredictorConfig) -> dict[str, Any]:
    """Return the recipe of a store: how it is read, and the state of its source's files."""
    keys = {key: getattr(config, key) for key in ("kind", "variable", "units", "region", "span")}
    return keys | {"layout": LAYOUT, "files": state(config.path)}


def _write(values: xr.DataArray, path: Path, recipe: dict[str, Any], config: PredictorConfig) -> None:
    attributes = {name: str(text) for name, text in values.attrs.items()}
    dataset = describe(
        values.to_dataset(),
        title=f"A predictor besides SST: {config.kind} from {Path(config.source).name}",
        history=f"sstcast {__version__} prepare",
        recipe=as_text(recipe),
        **attributes,
    )
    with noted(path, recipe) as temporary:
        write_zarr(dataset, temporary, {})


def open_values(data: DataConfig, folder: Path, name: str) -> xr.DataArray:
    """Open the values of a predictor from its store. Raises SSTCastError if it is absent or damaged."""
    dataset = open_written(store_of(folder, name, data.predictors[name]), REMEDY)
    return dataset["value"].assign_attrs({key: dataset.attrs[key] for key in ("units", "every")}).load()


def with_predictors(
    anomalies: xr.Dataset, data: DataConfig, folder: Path, given: Mapping[str, xr.DataArray] | None = None
) -> xr.Dataset:
    """Add what is known of each predictor on each day of `anomalies` (see the module's docstring).

    Values come from the stores in `folder`, or from `given`, by name. Raises SSTCastError if a store is absent.
    """
    days = anomalies["time"].values
    found = {}
    for name, config in data.predictors.items():
        values = given[name] if given and name in given else open_values(data, folder, name)
        found[VARIABLE_PREFIX + name] = known_index(values, days, config, data.splits.base, name)
    return anomalies.assign(found) if found else anomalies


def predictors_in(anomalies: xr.Dataset) -> dict[str, xr.DataArray]:
    """Return what is known of the predictors, by the names of the variables in `anomalies`."""
    return {
        str(name): field for name, field in anomalies.data_vars.items() if str(name).startswith(VARIABLE_PREFIX)
    }


def digests_of_predictors(data: DataConfig, folder: Path, last: dt.date | None = None) -> dict[str, str]:
    """Hash, for each predictor, its units and all that the days of the splits, up to `last`, know of it."""
    first, end = data.splits.whole
    days = pd.date_range(first, last or end).as_unit("ns").values
    found = {}
    for name, config in data.predictors.items():
        values = open_values(data, folder, name)
        known = known_index(values, days, config, data.splits.base, name)
        text = str(values.attrs["units"]).encode()
        found[name] = hashlib.sha256(text + known.values.tobytes()).hexdigest()
    return found


def changed_predictors(data: DataConfig, folder: Path) -> list[str]:
    """Return the predictors of which the source now tells something else on the days of the splits than the store.

    A source is read only if its files have changed. If it is gone, it does not count as changed.
    """
    days = pd.date_range(*data.splits.whole).as_unit("ns").values
    changed = []
    for name, config in data.predictors.items():
        made = read_recipe(store_of(folder, name, config))
        if not is_there(config.path) or (made or {}).get("files") == state(config.path):
            continue
        then, now = open_values(data, folder, name), read_index(config, name)
        before, after = (
            known_index(values, days, config, data.splits.base, name).values for values in (then, now)
        )
        if then.attrs["units"] != now.attrs["units"] or not np.array_equal(before, after, equal_nan=True):
            changed.append(name)
    return changed


def describe_predictors(data: DataConfig) -> str:
    """Describe in a line what is read besides SST."""
    return "; ".join(
        f"{name}: {config.kind} from {Path(config.source).name}{f', {config.region}' if config.region else ''}, "
        f"known {counted(config.delay, 'day')} after its span"
        for name, config in data.predictors.items()
    )


def check_known(known: xr.Dataset, data: DataConfig) -> dict[str, str]:
    """Check that each predictor is known on the last day of `known`. Returns those that are not, with a reason.

    Raises SSTCastError for the first that may not be missing.
    """
    day, absent = known["time"].values[-1], {}
    for name, config in data.predictors.items():
        if not bool(known[VARIABLE_PREFIX + name][-1].isnull().any()):
            continue
        wanted = np.datetime_as_string(day - config.delay * np.timedelta64(1, "D"), unit="D")
        reason = f"has no value for the span that ended last by {wanted}"
        if config.missing == "error":
            raise SSTCastError(
                f"data.predictors.{name}: {config.source} {reason}, which a forecast from "
                f"{np.datetime_as_string(day, unit='D')} needs; add it, or set missing: climatology in config.yaml"
            )
        absent[name] = reason
    return absent


def given_values(given: Any, name: str, config: PredictorConfig) -> xr.DataArray:
    """Return the values that Python gives for a predictor, as `read_index` does.

    `given` is a pandas Series or an xarray DataArray by date, or a path. Raises SSTCastError if it is neither.
    """
    where = f"predictors: {name}"
    if isinstance(given, xr.DataArray) and given.ndim == 1:
        given = given.to_series()
    if isinstance(given, (str, Path)):
        given = read_series(Path(given), config.variable)[0]
    if not isinstance(given, pd.Series):
        raise SSTCastError(f"{where} is a {type(given).__name__}; give a pandas Series or a DataArray by date")
    index = (
        given.index.to_timestamp() if isinstance(given.index, pd.PeriodIndex) else pd.DatetimeIndex(given.index)
    )
    return by_span(given.set_axis(index), config, where).assign_attrs(units=config.units or "")
