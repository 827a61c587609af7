"""Predictors of `kind: grid`, a daily field of past values on the cells of a run.

    predictor-NAME-HASH.zarr                             value(time, lat, lon), NaN on land; digest, cells(time)
    predictor-NAME-HASH.FROM-TO-DELAY.statistics.zarr    terms(term, lat, lon), deviation

The second store is of the base period. It is made from the values that are known at its end.
"""

import datetime as dt
import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from sstcast.errors import SSTCastError, counted
from sstcast.log import LOG
from sstcast.ocean.anomalies import harmonics
from sstcast.ocean.by_day import by_day
from sstcast.ocean.digests import digest_of, digest_of_days, digests
from sstcast.ocean.objects import hold, release
from sstcast.ocean.predictor_store import LAYOUT, REMEDY, Days, StoredPredictor, newest_known, scale_of
from sstcast.ocean.reading import open_daily
from sstcast.ocean.regrid import to_cells
from sstcast.progress import dask_progress
from sstcast.storage.artefacts import is_up_to_date
from sstcast.storage.cf import rounded
from sstcast.storage.memory import trim
from sstcast.storage.scratch import parts
from sstcast.storage.stores import open_written

MIN_DAYS = 365  # with values in a cell in the base period, for a climatology
LEAST_SEASON = 1e-3  # smallest eigenvalue of the mean products of harmonics on these days: they cover the seasons
DAY = np.timedelta64(1, "D")


class GridPredictor(StoredPredictor):
    """A daily field, whose stores hold its values on the cells of the run, and its climatology and scale."""

    AXIS, CHUNK = "time", 128  # the first axis of the values, and the number of its values in a chunk

    @property
    def statistics(self) -> Path:
        """The store of the climatology and scale of the base period."""
        first, last = self.data.splits.base
        return self.path.with_name(f"{self.path.stem}.{first}-{last}-{self.config.delay}.statistics.zarr")

    @property
    def stores(self) -> list[Path]:
        return [self.path, self.statistics]

    def open(self) -> xr.Dataset:
        return rounded(super().open())

    def open_statistics(self) -> xr.Dataset:
        """Open the climatology and scale. Raises SSTCastError if they are absent or damaged."""
        return rounded(open_written(self.statistics, REMEDY)).load()

    def prepare(self, cube: xr.Dataset) -> bool:
        is_new = super().prepare(cube)
        first, last = self._base
        recipe = {"layout": LAYOUT, "days": self._digest(first, last)}
        if is_up_to_date(self.statistics, recipe):
            return is_new
        values = self.open()["value"].sel({self.AXIS: slice(str(first), str(last))})
        statistics = fit_harmonics(values, self.valid_days(values))
        if not bool(statistics["terms"].notnull().any()):
            count = counted(int(np.prod(values.shape[:-2])), "day")
            raise SSTCastError(
                f"{self.key}: {self.config.source} has {count} in {first}..{last}, but a climatology needs "
                f"{MIN_DAYS} in all seasons; give more"
            )
        statistics.attrs["digest"] = digest_of(statistics)
        self.save(statistics, self.statistics, recipe, {})
        self._tell(cube)
        return True

    def recipe(self, cube: xr.Dataset) -> dict[str, Any]:
        return {"cells": digest_of(cube[["ocean_mask"]])}

    def valid_days(self, values: xr.DataArray) -> Days:
        """Return the day that each of the values describes, with all axes but latitude and longitude."""
        days: Days = values["time"].values
        return days

    def _digest(self, first: dt.date, last: dt.date) -> str:
        """Hash the values in the store from `first` to `last` on their first axis."""
        return digest_of_days(self.open().rename({self.AXIS: "time"}), first, last)

    def span(self, first: dt.date, last: dt.date) -> tuple[dt.date, dt.date]:
        """Return the first and the last value, on the first axis of the store, that some days may know."""
        delay = dt.timedelta(self.config.delay)
        return first - delay, last - delay

    @property
    def _base(self) -> tuple[dt.date, dt.date]:
        """The days of the base period that are known at its end."""
        first, last = self.data.splits.base
        return first, last - dt.timedelta(self.config.delay)

    def _tell(self, cube: xr.Dataset) -> None:
        """Log how many days and cells are not known."""
        days, count = cube["time"].values, int(cube["ocean_mask"].sum())
        cells = self.open()["cells"].reindex(time=days - self.config.delay * DAY, fill_value=0).values
        if (cells < count).any():
            lacking, partly = int((cells == 0).sum()), cells[cells > 0]
            LOG.info(
                f"{self.path}: {self.name} is not known on {lacking} of {len(days)} days, and on the others in "
                f"{1 - partly.sum() / max(1, count * len(partly)):.2%} of the cells, which read its climatology"
            )

    def write(self, cube: xr.Dataset, recipe: dict[str, Any]) -> None:
        with self._read(cube) as values:
            cells = values.notnull().sum(("lat", "lon"), dtype="int32")
            dataset = xr.Dataset(
                {"value": values, "digest": digests(values), "cells": cells, "ocean_mask": cube["ocean_mask"]},
                attrs={"units": values.attrs["units"], "method": values.attrs["method"]},
            )
            with dask_progress():
                self.save(dataset, self.path, recipe, {self.AXIS: self.CHUNK})
            trim(0)
            count = counted(values.sizes[self.AXIS], "day" if self.AXIS == "time" else "issue")
            LOG.info(f"{self.path}: {count} of {self.name} written; {values.attrs['method']}")

    @contextmanager
    def _read(self, cells: xr.Dataset, source: str = "") -> Iterator[xr.DataArray]:
        """Open the source, by default the configured one, on `cells`, as `value(time, lat, lon)`, NaN on land."""
        days = self.config.model_copy(update={"source": source or self.config.source})
        with self.naming_keys(), open_daily(days) as field:
            yield self.on_cells(field, cells)

    def on_cells(self, field: xr.DataArray, cells: xr.Dataset) -> xr.DataArray:
        """Bring a field to the cells of the run, NaN on land."""
        remedy = "give a field that covers it, or the mean over a box, with kind: index and region"
        values = to_cells(field, cells, self.config.path, remedy)
        return values.where(cells["ocean_mask"]).rename("value")

    @contextmanager
    def naming_keys(self) -> Iterator[None]:
        """Make error messages name the keys of the predictor instead of those of SST."""
        try:
            yield
        except SSTCastError as error:
            text = str(error)
            for key in ("variable", "units", "source"):
                text = text.replace(f"data.{key}", f"{self.key}.{key}").replace(f"--{key}", f"{self.key}.{key}")
            raise SSTCastError(text) from error

    def known(self, days: Days, given: xr.DataArray | None = None) -> xr.DataArray:
        """Return the standardised anomaly of the newest day known on each day, `(time, lat, lon)`, lazily."""
        values = self.open()["value"] if given is None else given
        standard = self._standardise(values)
        first, last = values["time"].values[0], max(values["time"].values[-1], days[-1])
        ends = pd.date_range(min(first, days[0]), last).as_unit("ns").values
        at = newest_known(ends, days, self.config.delay)
        newest = np.where(at >= 0, ends[at], np.datetime64("NaT"))
        return standard.reindex(time=newest).assign_coords(time=days)

    def _standardise(self, values: xr.DataArray) -> xr.DataArray:
        return by_day(self.standardiser(), values)

    def standardiser(self) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        """Return a function that standardises `values [day, lat, lon]` of the `days [day]`."""
        statistics = self.open_statistics()
        terms, deviation = statistics["terms"].values, float(statistics["deviation"])

        def standard(values: np.ndarray, days: np.ndarray) -> np.ndarray:
            climatology = np.tensordot(harmonics(pd.DatetimeIndex(days).day_of_year.values), terms, 1)
            return ((values - climatology) / deviation).astype(np.float32)

        return standard

    def digest(self, first: dt.date, last: dt.date) -> str:
        texts = self.units, self._digest(*self.span(first, last)), str(self.open_statistics().attrs["digest"])
        return hashlib.sha256("\n".join(texts).encode()).hexdigest()

    def compare(self) -> tuple[str, bool]:
        store, span = self.open(), slice(*map(str, self.span(*self.data.splits.whole)))
        with self._read(store) as values:
            now = digests(values.sel({self.AXIS: span})).compute()
            then = store["digest"].sel({self.AXIS: span})
            return str(values.attrs["units"]), now.reset_coords(drop=True).equals(then.reset_coords(drop=True))

    def missing(self, known: xr.DataArray) -> str:
        is_there = known.notnull().any(("lat", "lon")).values
        if is_there[-1]:
            return ""
        newest = np.flatnonzero(is_there)[-1] if is_there.any() else -1
        absent = known["time"].values[newest + 1 :] - self.config.delay * DAY
        first, last = (np.datetime_as_string(absent[at], unit="D") for at in (0, -1))
        return f"has no values for {first}{'' if first == last else f'..{last}'}"

    def given(self, values: Any) -> xr.DataArray:
        """Convert an xarray object with the axes time, latitude and longitude, or a path."""
        if not isinstance(values, (xr.DataArray, xr.Dataset, str, Path)):
            kind = type(values).__name__
            raise SSTCastError(
                f"predictors: {self.name} is a {kind}; give an xarray object with time, lat and lon"
            )
        source = str(values) if isinstance(values, (str, Path)) else hold(values)
        try:
            with self._read(self.open(), source) as field:
                self.check_units(field.attrs["units"])
                return field.load()
        finally:
            release(source)


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
