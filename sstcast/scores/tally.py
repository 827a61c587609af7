"""Sums over forecasts that come a block of initial dates at a time, so that no field need be held whole.

Every array of forecasts is `[starts, horizon, tile, N]`; land nodes may hold anything, their weight is 0.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sstcast.scores.metrics import correlation

Array = NDArray[np.floating]
MOMENTS = ("mse", "mae", "bias", "product", "forecast_square", "truth_square")


def week_starts(horizon: int) -> NDArray[np.int64]:
    """Return the positions at which lead weeks begin; the last may be short."""
    return np.arange(0, horizon, 7)


def weekly(by_lead: Array, axis: int) -> Array:
    """Average over the days of each lead week along `axis`."""
    starts = week_starts(by_lead.shape[axis])
    days = np.diff(np.append(starts, by_lead.shape[axis])).astype(by_lead.dtype)
    shape = [1] * by_lead.ndim
    shape[axis] = len(days)
    mean: Array = np.add.reduceat(by_lead, starts, axis) / days.reshape(shape)
    return mean


def area_mean(field: Array, weights: Array) -> Array:
    """Return the mean `[...]` of `field [..., tile, N]` with `weights [tile, N]`, which sum to 1."""
    mean: Array = field.reshape(*field.shape[:-2], -1) @ weights.ravel().astype(field.dtype)
    return mean


class ErrorTally:
    """The moments of one method's errors in one unit, from which every metric of it follows.

    With `by_week`, squared errors of every date, lead week and cell are kept too, for tests of significance.
    """

    def __init__(self, starts: int, horizon: int, weights: Array, *, by_week: bool = False) -> None:
        weeks = len(week_starts(horizon))
        area = weights.sum(-1, keepdims=True)
        self.weights = weights
        self.within_tiles = weights / np.where(area > 0, area, np.nan)
        self.dates = 0
        self.by_date = {name: np.full((starts, horizon), np.nan, np.float32) for name in MOMENTS}
        self.tiles = {name: np.zeros((len(weights), horizon)) for name in MOMENTS}
        self.cells = {name: np.zeros((weeks, *weights.shape)) for name in MOMENTS}
        self.squared_error_by_week = np.empty((starts, weeks if by_week else 0, *weights.shape), np.float32)

    def add(self, dates: slice, forecast: Array, truth: Array) -> None:
        """Take the forecasts of `dates` in."""
        self.dates += len(forecast)
        for name, values in _moments(forecast, truth):
            self.by_date[name][dates] = area_mean(values, self.weights)
            total = values.sum(0, dtype=float)
            self.tiles[name] += np.einsum("ltn,tn->tl", total, self.within_tiles)
            self.cells[name] += weekly(total, 0)
            if name == "mse" and self.squared_error_by_week.size:
                self.squared_error_by_week[dates] = weekly(values, 1)

    def by_tile(self) -> dict[str, Array]:
        """Return the moments `[tile, horizon]`, NaN for a tile without ocean."""
        return {name: total / self.dates for name, total in self.tiles.items()}

    def by_cell(self) -> dict[str, Array]:
        """Return the moments `[week, tile, N]`."""
        return {name: total / self.dates for name, total in self.cells.items()}


class DateTally:
    """Area means, by date and lead, of any fields, each by its name."""

    def __init__(self, starts: int, horizon: int, weights: Array) -> None:
        self.shape = (starts, horizon)
        self.weights = weights
        self.by_date: dict[str, Array] = {}

    def add(self, dates: slice, fields: Mapping[str, Array]) -> None:
        """Take the fields of `dates` in."""
        for name, values in fields.items():
            means = self.by_date.setdefault(name, np.full(self.shape, np.nan, np.float32))
            means[dates] = area_mean(values, self.weights)


def metrics_of(moments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metrics that follow from mean moments, NumPy or labelled, named as in `metrics.METRICS`."""
    squares = moments["forecast_square"], moments["truth_square"]
    return {
        "mse": moments["mse"],
        "rmse": moments["mse"] ** 0.5,
        "mae": moments["mae"],
        "bias": moments["bias"],
        "acc": correlation(moments["product"], *squares),
    }


def _moments(forecast: Array, truth: Array) -> Iterator[tuple[str, Array]]:
    """Yield each moment of `MOMENTS`, element by element; one at a time is in memory."""
    error = forecast - truth
    yield "mse", error * error
    yield "mae", np.abs(error)
    yield "bias", error
    yield "product", forecast * truth
    yield "forecast_square", forecast * forecast
    yield "truth_square", truth * truth
