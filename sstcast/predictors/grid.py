"""Predictors of `kind: grid`, a daily field of past values on the cells of a run.

    predictor-NAME-HASH.zarr                             value(time, lat, lon), NaN on land; digest, cells(time);
                                                         extremes(time, extreme) of the source on these cells
    predictor-NAME-HASH.FROM-TO-DELAY.statistics.zarr    terms(term, lat, lon), deviation

The second store is of the base period. It is made from the values that are known at its end.
"""

import datetime as dt
import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from sstcast.errors import SSTCastError, counted
from sstcast.log import LOG
from sstcast.names import DAY
from sstcast.predictors.field import FieldPredictor
from sstcast.predictors.store import LAYOUT, REMEDY, Days, Shares, newest_known, scale_of
from sstcast.predictors.values import Limits, extremes, limits
from sstcast.reading.by_day import by_day
from sstcast.reading.days_of_year import harmonics
from sstcast.reading.digests import digest_of, digest_of_days, digests
from sstcast.reading.reading import open_daily
from sstcast.reading.remote_stores import fingerprint
from sstcast.reading.xarray_objects import hold, let_go
from sstcast.storage.artefacts import is_up_to_date
from sstcast.storage.cf import rounded
from sstcast.storage.memory import trim
from sstcast.storage.scratch import parts
from sstcast.storage.stores import open_intact, open_written

MIN_DAYS = 365  # with values in a cell in the base period, for a climatology
LEAST_SEASON = 1e-3  # smallest eigenvalue of the mean products of harmonics on these days: they cover the seasons
EXTREMES = "extremes"  # variable of a store: those of the source on the cells that the run reads
DRAWN, DRAWN_BLOCKS = 1_000_000, 8  # values of the base period that tell what is plausible, and parts of it


class ShortRecord(SSTCastError):
    """A predictor has too few days in the base period, which would have to end on the date `needed` or later."""

    def __init__(self, text: str, needed: dt.date = dt.date.max) -> None:
        super().__init__(text)
        self.needed = needed


class GridPredictor(FieldPredictor):
    """A daily field, whose stores hold its values on the cells of the run, and its climatology and scale."""

    AXIS = "time"  # the first axis of the values

    @property
    def statistics(self) -> Path:
        """The store of the climatology and scale of the base period."""
        first, last = self.data.splits.base
        return self.path.with_name(f"{self.path.stem}.{first}-{last}-{self.config.delay}.statistics.zarr")

    @property
    def stores(self) -> list[Path]:
        return [self.path, self.statistics]

    def open_statistics(self) -> xr.Dataset:
        """Open the climatology and scale. Raises SSTCastError if they are absent or damaged."""
        return rounded(open_intact(self.statistics, REMEDY, LAYOUT)).load()

    def prepare(self, cube: xr.Dataset) -> bool:
        is_new = super().prepare(cube)
        first, last = self._base
        recipe = {"layout": LAYOUT, "days": self._digest(first, last)}
        if is_up_to_date(self.statistics, recipe):
            return is_new
        values = self.open()["value"].sel({self.AXIS: slice(str(first), str(last))})
        statistics = fit_harmonics(values, self.valid_days(values)) if values.size else None
        if statistics is None or not bool(statistics["terms"].notnull().any()):
            raise self._too_short(int(np.prod(values.shape[:-2])))
        statistics.attrs["digest"] = digest_of(statistics)
        self.save(statistics, self.statistics, recipe, {})
        self._tell(cube)
        return True

    def _too_short(self, count: int) -> "ShortRecord":
        """Return the error for a base period with values on `count` days."""
        cells, (first, last) = self.open()["cells"], self.data.splits.base
        days = cells[self.AXIS].values[(cells > 0).values.reshape(cells.sizes[self.AXIS], -1).any(1)]
        fault = f"{self.config.source} has {counted(count, 'day')} in {first}..{last}, but a climatology needs"
        needed, remedy = dt.date.max, "give more"
        if days.size and days[-1] - days[0] >= (MIN_DAYS - 1) * DAY:
            begin = days[0].astype("datetime64[D]").item()
            needed = begin + dt.timedelta(MIN_DAYS - 1 + self.config.delay)
        if last < needed < dt.date.max:
            remedy = f"it begins on {begin}: let splits.train or splits.base_period end on {needed} or later"
        return ShortRecord(f"{self.key}: {fault} {MIN_DAYS} in all seasons; {remedy}", needed)

    def source_state(self, cells: xr.Dataset) -> str:
        """Return a fingerprint of the source's files, or of the chunks at a URL that hold what is read."""
        is_daily = self.config.kind == "grid" or self.config.perfect
        states = self.field.states(self.config, cells) if is_daily else None
        return super().source_state(cells) if states is None else fingerprint(states)

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
        with self._read(cube) as (values, source):
            cells = values.notnull().sum(("lat", "lon"), dtype="int32")
            dataset = xr.Dataset(
                {"value": values, "digest": digests(values), "cells": cells, "ocean_mask": cube["ocean_mask"]},
                attrs={"units": values.attrs["units"], "method": values.attrs["method"]},
            ).assign({EXTREMES: _extremes(source)})
            check = partial(self._check_written, source)
            self.save(dataset, self.path, recipe, {self.AXIS: self.CHUNK}, check)
            trim(0)
            count = counted(values.sizes[self.AXIS], "day" if self.AXIS == "time" else "issue")
            LOG.info(f"{self.path}: {count} of {self.name} written; {values.attrs['method']}")

    @contextmanager
    def _read(self, cells: xr.Dataset, source: str = "") -> Iterator[tuple[xr.DataArray, xr.DataArray]]:
        """Open the source, by default the configured one, on `cells`, as `value(time, lat, lon)`, NaN on land.

        Also yields the values from which these are made, on the source's own cells.
        """
        days = self.config.model_copy(update={"source": source or self.config.source})
        with self.naming_keys(), open_daily(days) as field:
            weights = self.weights(field, cells)
            yield self.on_cells(field, weights, cells), self.read_by(field, weights, cells)

    def _check_written(self, source: xr.DataArray, store: Path) -> None:
        written = open_written(store, REMEDY)
        self.check(source, written[EXTREMES].values, self._plausible(written), self.config.path)

    def _plausible(self, store: xr.Dataset) -> Limits:
        """Return the limits of plausible values, from a fixed draw of a million values of the base period."""
        values, random = store["value"].sel({self.AXIS: slice(*map(str, self._base))}), np.random.default_rng(0)
        blocks = list(parts(values)) if values.size else []
        drawn = blocks[:: max(1, len(blocks) // DRAWN_BLOCKS)]
        draws = [random.permutation(values[block].values.ravel())[: DRAWN // len(drawn)] for block in drawn]
        return limits(np.concatenate([[], *draws]))

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

    def compare(self, whole: bool = False) -> tuple[str, bool]:
        store = self.open()
        span = slice(None) if whole else slice(*map(str, self.span(*self.data.splits.whole)))
        with self._read(store) as (values, _):
            now = digests(values.sel({self.AXIS: span})).compute()
            then = store["digest"].sel({self.AXIS: span})
            return str(values.attrs["units"]), now.reset_coords(drop=True).equals(then.reset_coords(drop=True))

    def _cells(self, given: xr.DataArray | None) -> tuple[xr.DataArray, int]:
        """Return the numbers of cells with values, without the axes latitude and longitude, and of ocean cells."""
        store = self.open()
        counts = store["cells"] if given is None else given.notnull().sum(("lat", "lon"))
        return counts, int(store["ocean_mask"].sum())

    def coverage(self, days: Days, read: int, given: xr.DataArray | None = None) -> Shares:
        counts, ocean = self._cells(given)
        newest = pd.date_range(days[0] - (read + self.config.delay - 1) * DAY, days[-1] - self.config.delay * DAY)
        counts = counts.sel(time=slice(newest[0], newest[-1])).reindex(time=newest, fill_value=0)
        share = counts.values / ocean
        whole = np.convolve(share, np.ones(read) / read, "valid")
        return {"the sea on the newest day": share[read - 1 :], "the sea on the days that are read": whole}

    def missing(self, day: np.datetime64, given: xr.DataArray | None = None) -> str:
        counts, _ = self._cells(given)
        newest = day - self.config.delay * DAY
        until = counts.sel(time=slice(newest - MIN_DAYS * DAY, newest)).compute()
        last = until["time"].values[until.values > 0][-1:]
        if last.size and last[0] == newest:
            return ""
        first = last[0] + DAY if last.size else newest
        begin, end = (np.datetime_as_string(each, unit="D") for each in (first, newest))
        return f"has no values for {begin}{'' if begin == end else f'..{end}'}"

    def given(self, values: Any) -> xr.DataArray:
        """Convert an xarray object with the axes time, latitude and longitude, or a path."""
        if not isinstance(values, (xr.DataArray, xr.Dataset, str, Path)):
            kind = type(values).__name__
            raise SSTCastError(
                f"predictors: {self.name} is a {kind}; give an xarray object with time, lat and lon"
            )
        source = str(values) if isinstance(values, (str, Path)) else hold(values)
        try:
            store = self.open()
            with self._read(store, source) as (field, values):
                self.check_units(field.attrs["units"])
                found = extremes(values.load().values)
                more = store[EXTREMES].values if EXTREMES in store else ()
                self.check(values, found, self._plausible(store), f"predictors: {self.name}", more)
                field = field.load().assign_coords(lat=store["lat"], lon=store["lon"])
                others = store["value"].isel({self.AXIS: ~store[self.AXIS].isin(field[self.AXIS]).values})
                return (
                    xr.concat([others, field], self.AXIS, join="outer").sortby(self.AXIS) if others.size else field
                )
        finally:
            let_go(source)


def _extremes(source: xr.DataArray) -> xr.DataArray:
    """Return the `extremes` of each value on the first axis of a field lazily, `(axis, extreme)`."""
    return xr.apply_ufunc(
        extremes,
        source,
        input_core_dims=[source.dims[1:]],
        output_core_dims=[["extreme"]],
        dask="parallelized",
        output_dtypes=[float],
        dask_gufunc_kwargs={"output_sizes": {"extreme": 4}, "allow_rechunk": True},
    )


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
