"""Predictors of `kind: grid`, a daily field of past values on the cells of a run."""

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from sstcast.config import PredictorConfig
from sstcast.errors import SSTCastError, counted
from sstcast.names import DAY
from sstcast.predictors.newest import Days, Places, newest_places, valid_days
from sstcast.predictors.predictor import Kind, Predictor
from sstcast.predictors.values import MARKS_MISSING, hours_that_mark, scale_of
from sstcast.reading.days_of_year import harmonics
from sstcast.reading.hours import RefusedHours
from sstcast.reading.reading import open_daily
from sstcast.reading.regrid import weights_of
from sstcast.reading.weights import Weights
from sstcast.reading.xarray_objects import hold, let_go
from sstcast.storage.scratch import parts

MIN_DAYS = 365  # with values in a cell in the base period, for a climatology
LEAST_SEASON = 1e-3  # smallest eigenvalue of the mean products of harmonics on these days: they cover the seasons


class ShortRecord(SSTCastError):
    """A predictor has too few days in the base period, which would have to end on the date `needed` or later."""

    def __init__(self, text: str, needed: dt.date = dt.date.max) -> None:
        super().__init__(text)
        self.needed = needed


@contextmanager
def read(predictor: Predictor, cells: xr.Dataset, given: Any) -> Iterator[tuple[xr.DataArray, xr.DataArray]]:
    """Open a daily field (see `Kind.read`)."""
    with read_from(predictor, given) as days, open_daily(days, refused_hours(predictor)) as field:
        weights = weights_to(predictor, field, cells)
        yield on_cells(field, weights, cells), read_by(field, weights, cells)


@contextmanager
def read_from(predictor: Predictor, given: Any) -> Iterator[PredictorConfig]:
    """Yield how a field is read, from its source or from the xarray object or path that Python gives."""
    if given is None:
        yield predictor.config
        return
    if not isinstance(given, (xr.DataArray, xr.Dataset, str, Path)):
        kind = type(given).__name__
        raise SSTCastError(
            f"predictors: {predictor.name} is a {kind}; give an xarray object with time, lat and lon"
        )
    source = str(given) if isinstance(given, (str, Path)) else hold(given)
    try:
        yield predictor.config.model_copy(update={"source": source})
    finally:
        let_go(source)


def refused_hours(predictor: Predictor) -> RefusedHours | None:
    """Return the values that are not averaged to days, those that mark missing ones, unless all are kept."""
    if predictor.config.implausible == "keep":
        return None
    return RefusedHours(hours_that_mark, f"it {MARKS_MISSING}, or keep it with {predictor.key}.implausible: keep")


def weights_to(predictor: Predictor, field: xr.DataArray, cells: xr.Dataset) -> Weights:
    """Return what brings a field to the cells of the run."""
    remedy = "give a field that covers it, or the mean over a box, with kind: index and region"
    return weights_of(field, cells, predictor.config.path, remedy, folder=predictor.data.directory / "weights")


def on_cells(field: xr.DataArray, weights: Weights, cells: xr.Dataset) -> xr.DataArray:
    """Bring a field to the cells of the run, NaN on land."""
    values = weights(weights.read(field)).where(cells["ocean_mask"]).rename("value")
    return values.drop_attrs(deep=False).assign_attrs(units=field.attrs["units"], method=weights.method)


def read_by(field: xr.DataArray, weights: Weights, cells: xr.Dataset) -> xr.DataArray:
    """Return the values of a field that have a weight in an ocean cell of the run, on its own cells."""
    part = weights.read(field)
    return part.where(xr.DataArray(weights.used(cells["ocean_mask"].values), dims=part.dims[-2:]))


def places(predictor: Predictor, values: xr.DataArray, days: Days) -> Places:
    """Return the places of the newest day known (see `Kind.places`)."""
    return newest_places(values["time"].values, days, predictor.config.delay)


def basis(days: Days) -> NDArray[np.float64]:
    """Return the annual harmonics (see `Kind.basis`)."""
    return harmonics(pd.DatetimeIndex(days).day_of_year.values)


def newest(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the one value that each day reads (see `Kind.of_day`)."""
    return values[:, 0]


def fit(predictor: Predictor, values: xr.DataArray) -> xr.Dataset:
    """Fit the climatology of a field in the base period (see `Kind.fit`). Raises ShortRecord."""
    statistics = fit_harmonics(values, valid_days(values)) if values.size else None
    if statistics is None or not bool(statistics["terms"].notnull().any()):
        raise _too_short(predictor, int(np.prod(values.shape[:-2])))
    return statistics


def _too_short(predictor: Predictor, count: int) -> ShortRecord:
    """Return the error for a base period with values on `count` days."""
    cells, (first, last) = predictor.open()["cells"], predictor.data.splits.base
    days = cells[cells.dims[0]].values[(cells > 0).values.reshape(len(cells), -1).any(1)]
    fault = f"{predictor.config.source} has {counted(count, 'day')} in {first}..{last}, but a climatology needs"
    needed, remedy = dt.date.max, "give more"
    if days.size and days[-1] - days[0] >= (MIN_DAYS - 1) * DAY:
        begin = days[0].astype("datetime64[D]").item()
        needed = begin + dt.timedelta(MIN_DAYS - 1 + predictor.config.delay)
    if last < needed < dt.date.max:
        remedy = f"it begins on {begin}: let splits.train or splits.base_period end on {needed} or later"
    return ShortRecord(f"{predictor.key}: {fault} {MIN_DAYS} in all seasons; {remedy}", needed)


def fit_harmonics(values: xr.DataArray, valid_days: Days) -> xr.Dataset:
    """Fit the climatology of `values(..., lat, lon)`, a mean and annual harmonics, and their deviation from it.

    Returns `terms(term, lat, lon)`, NaN in cells with too few values, and `deviation`, the root mean square over
    all days and cells. Days without a value do not count.
    """
    shape = values.shape[-2:]
    day_of_year = pd.DatetimeIndex(valid_days.ravel()).day_of_year.values.reshape(valid_days.shape)
    count = harmonics(day_of_year.ravel()[:1]).shape[1]
    gram, cross = np.zeros((count * count, *shape)), np.zeros((count, *shape))
    for days in parts(values):
        block, terms = values[days].values.reshape(-1, *shape).astype(float), harmonics(day_of_year[days].ravel())
        products = (terms[:, :, None] * terms[:, None]).reshape(len(terms), -1)
        gram += np.tensordot(products.T, np.isfinite(block), 1)
        cross += np.tensordot(terms.T, np.nan_to_num(block), 1)
    gram = np.moveaxis(gram, 0, -1).reshape(*shape, count, count)
    days_known = gram[..., 0, 0]
    lowest = np.linalg.eigvalsh(gram / np.maximum(days_known, 1)[..., None, None])[..., 0]
    usable = (days_known >= MIN_DAYS) & (lowest > LEAST_SEASON)
    solved = np.linalg.solve(
        np.where(usable[..., None, None], gram, np.eye(count)), np.moveaxis(cross, 0, -1)[..., None]
    )
    fitted = np.moveaxis(np.where(usable[..., None], solved[..., 0], np.nan), -1, 0)
    squares = known = 0.0
    for days in parts(values):
        block = values[days].values.reshape(-1, *shape)
        anomaly = block - np.tensordot(harmonics(day_of_year[days].ravel()), fitted, 1)
        squares, known = squares + float(np.nansum(anomaly**2)), known + int(np.isfinite(anomaly).sum())
    size = np.nanmax(np.abs(fitted[0]), initial=0)
    deviation = scale_of((squares / max(known, 1)) ** 0.5, size)
    coordinates = {axis: values[axis] for axis in ("lat", "lon")}
    return xr.Dataset({"terms": (("term", "lat", "lon"), fitted), "deviation": deviation}, coordinates)


GRID = Kind("day", ("time", "lat", "lon"), read, places, basis, fit, newest, "past")
