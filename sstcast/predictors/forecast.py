"""Predictors of `kind: forecast`, the newest issue of a forecast of a daily field, on the days ahead.

    predictor-NAME-HASH.zarr    value(init_time, lead, lat, lon), the mean of the members, NaN on land; digest

`init_time` is the last day before the forecast. With `perfect`, the source is an analysis, which is stored as if
each day had been forecast on the day before, and all days ahead are read from it.
"""

import datetime as dt
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import dask.array as da
import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast.errors import SSTCastError
from sstcast.log import LOG
from sstcast.names import DAY
from sstcast.predictors.grid import GridPredictor
from sstcast.predictors.store import Days, Shares, newest_known
from sstcast.reading.forecast_files import read_forecasts
from sstcast.reading.layouts import NoForecast
from sstcast.reading.reading import open_daily
from sstcast.storage.paths import path_of

AHEAD = "ahead"  # dimension of what is known: the days after the initial date
VALUES_AT_ONCE = 2**22  # of the days ahead in a block


class ForecastPredictor(GridPredictor):
    """A forecast of a field by initial time and lead."""

    AXIS, CHUNK = "init_time", 8

    def _open(self) -> xr.Dataset:
        store = super()._open()
        for first in reversed(range(0, store.sizes["init_time"], self.CHUNK)):
            known = np.flatnonzero(store["cells"][first : first + self.CHUNK].values.any(1))
            if known.size:  # a store may have axes for issues to come
                return store.isel(init_time=slice(0, first + known[-1] + 1))
        return store

    def recipe(self, cube: xr.Dataset) -> dict[str, Any]:
        return super().recipe(cube) | {"perfect": self.config.perfect}

    @contextmanager
    def _read(self, cells: xr.Dataset, source: str = "") -> Iterator[tuple[xr.DataArray, xr.DataArray]]:
        days = self.config.model_copy(update={"source": source or self.config.source})
        with self.naming_keys():
            if self.config.perfect:
                with open_daily(days) as field:
                    valid = field["time"].values
                    field = field.rename(time="init_time").assign_coords(init_time=valid - DAY)
                    weights, ahead = self.weights(field, cells), field.expand_dims(lead=[1], axis=1)
                    yield self.on_cells(ahead, weights, cells), self.read_by(field, weights, cells)
                return
            try:
                path = path_of(days.source) if source else days.path
                field = read_forecasts(path, days.variable, days.units, False).sst
            except NoForecast as error:
                told = "as perfect forecasts, which nobody has, analyses need perfect: true"
                raise SSTCastError(f"{error}; {told}") from error
            members = field.transpose("init_time", "lead", "member", ...)
            mean, weights = members.mean("member", keep_attrs=True), self.weights(members, cells)
            yield self.on_cells(mean, weights, cells), self.read_by(members, weights, cells)

    def valid_days(self, values: xr.DataArray) -> Days:
        issues, leads = values["init_time"].values, values["lead"].values.astype("timedelta64[D]")
        days: Days = np.add.outer(issues, leads)
        return days

    @property
    def _base(self) -> tuple[dt.date, dt.date]:
        first, last = super()._base
        before = dt.timedelta(self.config.perfect)  # an analysis has the day before as its initial time
        return first - before, last - before

    def _digest(self, first: dt.date, last: dt.date) -> str:
        """Hash the values, and the leads unless these are 1, 2, ..., as of most forecasts."""
        text, leads = super()._digest(first, last), self.open()["lead"].values.tolist()
        if leads == [*range(1, len(leads) + 1)]:
            return text
        return hashlib.sha256(f"{text}\n{leads}".encode()).hexdigest()

    def span(self, first: dt.date, last: dt.date) -> tuple[dt.date, dt.date]:
        if self.config.perfect:
            return first, last + dt.timedelta(self.data.horizon - 1)
        issues = self.open()["init_time"].values
        newest = newest_known(issues, np.array([first], "datetime64[ns]"), self.config.delay)[0]
        begin = issues[max(newest, 0)].astype("datetime64[D]").item()
        return begin, last - dt.timedelta(self.config.delay)

    def _tell(self, cube: xr.Dataset) -> None:
        issue, _ = self._places(self.open()["value"], days := cube["time"].values)
        for reach, text in (((issue < 0).all(1), "no day ahead"), ((issue < 0).any(1), "not all days ahead")):
            if reach.any():
                LOG.info(f"{self.path}: on {reach.sum()} of {len(days)} days, {text} of {self.name} is known")

    def _places(self, values: xr.DataArray, days: Days) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the issue and the lead, as positions in `values`, of each day ahead, `[day, horizon]`.

        They are -1 where the newest issue known on a day has no such lead.
        """
        issues, leads = values["init_time"].values, values["lead"].values
        ahead = np.arange(1, self.data.horizon + 1)
        if self.config.perfect:
            wanted = days[:, None] + (ahead - 1) * DAY
            issue = np.searchsorted(issues, wanted).clip(max=len(issues) - 1)
            issue = np.where(issues[issue] == wanted, issue, -1)
            return issue, np.minimum(issue, 0)
        newest = newest_known(issues, days, self.config.delay)
        lead = (days - issues[newest.clip(0)]).astype("timedelta64[D]").astype(int)[:, None] + ahead
        place = np.searchsorted(leads, lead).clip(max=len(leads) - 1)
        is_known = (newest[:, None] >= 0) & (leads[place] == lead)
        return np.where(is_known, newest[:, None], -1), np.where(is_known, place, -1)

    def known(self, days: Days, given: xr.DataArray | None = None) -> xr.DataArray:
        """Return the standardised anomalies of the days ahead, `(time, ahead, lat, lon)`, lazily.

        Each is from the newest issue that is known, at the lead that is valid on the day.
        """
        values = self.open()["value"] if given is None else given
        issue, place = self._places(values, days)
        standard, (rows, columns) = self.standardiser(), values.shape[-2:]
        ahead = np.arange(1, self.data.horizon + 1)

        def gather(numbers: NDArray[np.intp]) -> NDArray[np.float32]:
            result = np.full((len(numbers), len(ahead), rows, columns), np.nan, np.float32)
            issues, leads = issue[numbers], place[numbers]
            if not (is_known := issues >= 0).any():
                return result
            first = issues[is_known].min()
            block = values[first : issues.max() + 1].values
            valid = (days[numbers, None] + ahead * DAY)[is_known]
            result[is_known] = standard(block[issues[is_known] - first, leads[is_known]], valid)
            return result

        at_once = max(1, VALUES_AT_ONCE // (len(ahead) * rows * columns))
        numbers = da.arange(len(days), chunks=at_once)
        data = numbers.map_blocks(
            gather,
            new_axis=[1, 2, 3],
            chunks=(numbers.chunks[0], len(ahead), rows, columns),
            dtype=np.float32,
            meta=np.empty((0,) * 4, np.float32),
            name=f"days-ahead-{uuid4()}",  # without a name, dask would hash all that the function refers to
        )
        coordinates = {"time": days, AHEAD: ahead, "lat": values["lat"], "lon": values["lon"]}
        return xr.DataArray(data, coordinates, ("time", AHEAD, "lat", "lon"))

    def coverage(self, days: Days, read: int, given: xr.DataArray | None = None) -> Shares:
        counts, ocean = self._cells(given)
        issue, lead = self._places(counts, days)
        used, position = np.unique(issue, return_inverse=True)
        known = counts[used].values[position.reshape(issue.shape), lead]
        return {"the sea on the days ahead": np.where(issue >= 0, known, 0).mean(1) / ocean}

    def missing(self, day: np.datetime64, given: xr.DataArray | None = None) -> str:
        (share,) = self.coverage(np.array([day]), 1, given).values()
        what = "day" if self.config.perfect else "issue with days"
        return "" if share[0] else f"has no {what} after {np.datetime_as_string(day, unit='D')}"
