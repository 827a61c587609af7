"""Joint samples of a forecast, in which neighbouring cells and successive days belong together.

`spread` gives a separate predictive distribution for each cell and day. They do not determine the distribution of
a sum, for instance of the mean of an area. Joint samples keep these distributions, and take the dependence between
errors from observations (the Schaake shuffle of Clark et al. 2004, J. Hydrometeorol. 5, 243-262). Damped
persistence forecasts as many stretches of the training years as there are samples, all from the same season. On
each day and in each cell, the sample with the i-th largest of these errors gets the i-th largest value of the
predictive distribution.

The values are the quantiles at (i - 1/2) / N, which are more accurate than N random draws. Which days of the
training years are used depends only on the initial date, so all systems share the standardised errors of a date.
"""

import datetime as dt
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.special import ndtri

from sstcast.errors import SSTCastError, counted
from sstcast.extremes.heatwaves import MARGIN_DAYS
from sstcast.forecasting.fields import on_cells
from sstcast.names import DAY
from sstcast.ocean.prepared import Prepared
from sstcast.progress import tracked
from sstcast.reading.days_of_year import YEAR_DAYS
from sstcast.storage.scratch import parts
from sstcast.types import Array

SAMPLES = 100
MOST_SAMPLES = 1000
MAX_CELLS_UNASKED = 50_000  # of a region whose samples are made unasked, with 1.5 GB of memory
REACH = 45  # days of the year from the initial date to the first day of a path
SEASON = 2 * REACH + 1  # days of a year on which a path may begin
CELLS_AT_ONCE = 1024  # cells whose errors are sorted together


@dataclass(frozen=True)
class ErrorPaths:
    """The paths of errors that damped persistence makes on the observed anomalies of the training years.

    Attributes:
        days: the days of `anomaly` without gaps, `[T]`.
        anomaly: standardised anomalies `[T, ...]`, an array or a lazy field.
        cells: mask `[...]` of the cells to use, which have values on all days.
        train: the first and the last training day. All paths lie within this period.
        horizon: number of days to forecast.
        where: the source of the days, for messages.
    """

    days: NDArray[np.datetime64]
    anomaly: Any
    cells: NDArray[np.bool_]
    train: tuple[dt.date, dt.date]
    horizon: int
    where: str

    @classmethod
    def of(cls, prepared: Prepared, cells: NDArray[np.bool_]) -> "ErrorPaths":
        """Take the `prepared` anomalies lazily, for the cells `[lat, lon]`.

        Raises SSTCastError if they do not exist or are damaged.
        """
        data, anomaly = prepared.data, prepared.open_anomalies()["anomaly"].transpose("time", "lat", "lon")
        return cls(anomaly["time"].values, anomaly, cells, data.splits.train, data.horizon, data.source)

    @property
    def length(self) -> int:
        """Days in a path: the initial day, those ahead, and those that decide whether the last is in an event."""
        return 1 + self.horizon + MARGIN_DAYS

    def enough(self, init_time: np.datetime64, count: int) -> bool:
        """Return whether `count` paths can be drawn for `init_time` (see `starts`)."""
        return len(self._known(init_time)) >= count

    def starts(self, init_time: np.datetime64, count: int) -> NDArray[np.intp]:
        """Return the positions in `days` of the first days of `count` paths.

        A path lies within the training years, and begins within 45 days of the calendar day of `init_time` in any
        year. No path overlaps the path that would begin on `init_time`. The days on which a path may begin are
        divided into `count` equal parts, and one of each is drawn, with `init_time` as the seed.

        Raises SSTCastError if there are fewer such days than paths.
        """
        start_days = self._known(init_time)
        if len(start_days) < count:
            years = math.ceil(count / SEASON) + 1
            raise SSTCastError(
                f"--samples {count}: needs {count} stretches of {self.length} training days within {REACH} days "
                f"of the season, but {self.train[0]}..{self.train[1]} of {self.where} has {len(start_days)}; "
                f"train on {counted(years, 'year')} or more, or give a smaller --samples"
            )
        generator = np.random.default_rng(init_time.astype("datetime64[D]").item().toordinal())
        bounds = np.linspace(0, len(start_days), count + 1)
        drawn = bounds[:-1] + generator.random(count) * np.diff(bounds)
        return start_days[drawn.astype(np.intp)]

    def _known(self, init_time: np.datetime64) -> NDArray[np.intp]:
        """Return the positions of all days on which a path for `init_time` may begin (see `starts`)."""
        first, last = (np.datetime64(day, "D") for day in self.train)
        days, date = self.days.astype("datetime64[D]"), init_time.astype("datetime64[D]")
        day_offset = (_day_of_year(days) - _day_of_year(date) + YEAR_DAYS / 2) % YEAR_DAYS - YEAR_DAYS / 2
        within = (days >= first) & (days + (self.length - 1) * DAY <= last)
        other_days = np.abs(days - date) >= self.length * DAY
        return np.flatnonzero(within & other_days & (np.abs(day_offset) <= REACH))

    def errors_of_all(self, init_time: np.datetime64, samples: int | None) -> Array | None:
        """Return the errors of all cells in so many `samples`, by default 100, or None if it is 0.

        By default, it is also None if there are too few training days for the samples, or too many cells. See
        `standard_errors`.
        """
        unasked = samples is None and self.cells.sum() <= MAX_CELLS_UNASKED and self.enough(init_time, SAMPLES)
        return self.standard_errors(init_time, samples or SAMPLES) if samples or unasked else None

    def standard_errors(
        self, init_time: np.datetime64, count: int, cells: NDArray[np.bool_] | None = None
    ) -> Array:
        """Return standardised errors `[horizon + MARGIN_DAYS, cell, count]`, which link cells and days.

        On each day and in each cell, they are the quantiles of the standard normal distribution at (i - 1/2) /
        `count`, in the order of the errors of damped persistence on the paths. With a mask `cells` of the cells,
        only theirs are returned, in memory for theirs and a few days of all. They are the same, because all cells
        share the damping. Raises SSTCastError like `starts`.
        """
        positions = self.starts(init_time, count) + np.arange(self.length)[:, None]
        at_once = self.length - 1
        if cells is not None:
            at_once = max(1, MAX_CELLS_UNASKED * self.length // len(cells))
        paths = self._paths(positions[: 1 + at_once])
        initial, ahead = (paths[0] if cells is None else paths[0].copy()), paths[1:]
        square, damping, kept = max(np.vdot(initial, initial), 1e-12), [], []
        for start in range(1, self.length, at_once):
            if start > 1:
                ahead = self._paths(positions[start : start + at_once])
            damping += [np.vdot(day, initial) for day in ahead]
            kept.append(ahead if cells is None else ahead[:, cells])
        standardised, initial = (ahead, initial) if cells is None else (np.concatenate(kept), initial[cells])
        levels = normal_levels(count)
        factors = [*zip(standardised, (np.array(damping) / square).astype(np.float32), strict=True)]
        for day, factor in tracked(factors, "joint samples"):
            for start in range(0, len(day), CELLS_AT_ONCE):
                part = slice(start, start + CELLS_AT_ONCE)
                order = np.argsort(day[part] - factor * initial[part], axis=-1)
                np.put_along_axis(day[part], order, levels[None], axis=-1)
        return standardised

    def _paths(self, positions: NDArray[np.intp]) -> Array:
        """Read the anomalies of all cells on the days at `positions [day, path]`, as `[day, cell, path]`."""
        paths = np.empty((len(positions), int(self.cells.sum()), positions.shape[1]), np.float32)
        for part in parts(self.anomaly):
            day, path = np.nonzero((part.start <= positions) & (positions < part.stop))
            if len(day):
                values = np.asarray(self.anomaly[part])
                paths[day, :, path] = values[positions[day, path] - part.start][:, self.cells]
        return paths


@dataclass(frozen=True)
class ErrorsOfCells:
    """Standardised errors of some cells, read like the array `[day, cell, sample]` of all, which has 0 elsewhere.

    Attributes:
        values: the errors, `[day, known cell, sample]`.
        known: mask `[cell]` of their cells.
    """

    values: Array
    known: NDArray[np.bool_]

    @property
    def shape(self) -> tuple[int, int, int]:
        days, _, samples = self.values.shape
        return days, len(self.known), samples

    def __getitem__(self, key: int | tuple[slice, slice]) -> Array:
        """Return a day of all cells, or days of a part of the cells."""
        days, part = key if isinstance(key, tuple) else (key, slice(0, None))
        known, first = self.known[part], np.count_nonzero(self.known[: part.start])
        of_known = self.values[days][..., first : first + np.count_nonzero(known), :]
        values = np.zeros((*of_known.shape[:-2], len(known), of_known.shape[-1]), np.float32)
        values[..., known, :] = of_known
        return values


def normal_levels(count: int) -> Array:
    """Return the quantiles of the standard normal distribution at (i - 1/2) / `count`, i = 1 .. `count`."""
    return np.asarray(ndtri((np.arange(count) + 0.5) / count), np.float32)


def sampled(mean: Array, spread: Array, errors: Array, lowest: Array | None = None) -> Array:
    """Return samples in degC, `[..., sample]`, of forecasts with `mean` and `spread [...]` in degC.

    Args:
        mean, spread: mean and standard deviation in degC.
        errors: standardised errors, `[..., sample]` (see `ErrorPaths.standard_errors`).
        lowest: the value in degC that no sample is below, NaN where there is none.
    """
    samples = mean[..., None] + spread[..., None] * errors
    if lowest is not None and not np.isnan(lowest).all():
        np.fmax(samples, lowest[..., None], out=samples)
    return samples


def with_samples(fields: xr.Dataset, errors: Array, lowest: Array) -> xr.Dataset:
    """Add joint samples to a forecast from one initial date.

    Args:
        fields: `sst` and `sst_spread(init_time, lead, lat, lon)` in degC.
        errors: standardised errors `[lead or more, cell, sample]` of the cells in which `sst` is not NaN.
        lowest: the freezing point `[cell]` in degC, NaN where there is none.

    Returns:
        `fields` with `sst_sample(init_time, sample, lead, lat, lon)` in degC.
    """
    ocean, count = fields["sst"].notnull().isel(init_time=0, lead=0).values, errors.shape[-1]
    mean, spread = (on_cells(fields, name) for name in ("sst", "sst_spread"))
    values = np.full((1, count, *fields["sst"].shape[1:]), np.nan, np.float32)
    for lead in range(len(mean)):
        values[0, :, lead, ocean] = sampled(mean[lead], spread[lead], errors[lead], lowest)
    dims = ("init_time", "sample", "lead", "lat", "lon")
    return fields.assign(sst_sample=(dims, values)).assign_coords(sample=np.arange(1, count + 1, dtype=np.int32))


def _day_of_year(days: Any) -> Any:
    return (days - days.astype("datetime64[Y]")) / DAY
