"""Forecasts that need no graph network, fitted to the training days only.

Each is a method like any model: `forecast(windows)` returns the standardised anomaly
`[starts, horizon, tile, N]` for every window start of a split.
"""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sstcast.ocean.windows import Windows

Array = NDArray[np.float32]


class Method(Protocol):
    """Anything that forecasts the windows of a split."""

    def __call__(self, windows: Windows) -> Array:
        """Return `[starts, horizon, tile, N]`."""


def truth(windows: Windows) -> Array:
    """Return what came true, `[starts, horizon, tile, N]`."""
    return spans(windows.values.cpu().numpy(), windows.history, windows.horizon, windows.starts)


def climatology(windows: Windows) -> Array:
    """Forecast no anomaly."""
    _, tiles, nodes = windows.values.shape
    return np.zeros((windows.starts, windows.horizon, tiles, nodes), np.float32)


def persistence(windows: Windows) -> Array:
    """Repeat the anomaly of the last day of history."""
    last = spans(windows.values.cpu().numpy(), windows.history - 1, 1, windows.starts)
    return np.repeat(last, windows.horizon, axis=1)


class DampedPersistence:
    """The last anomaly times one coefficient a lead: least squares without intercept over all training days."""

    def __init__(self, train: Windows) -> None:
        values = train.values.cpu().numpy().reshape(len(train.values), -1)  # land, being 0, adds nothing
        ahead = range(1, train.horizon + 1)
        pairs = [(values[:-lead], values[lead:]) for lead in ahead]
        self.coefficients = np.array([_dot(x, y) / _dot(x, x) for x, y in pairs], np.float32)

    def __call__(self, windows: Windows) -> Array:
        """Damp the last anomaly."""
        return persistence(windows) * self.coefficients[:, None, None]


class Ridge:
    """One linear map from a cell's own history to all leads, pooled over ocean cells.

    Fitted with `PENALTY` on every `STRIDE`-th training window, or fewer where that exceeds `MOST_ROWS`.
    """

    PENALTY = 10.0
    STRIDE = 7
    MOST_ROWS = 2_000_000
    STARTS_AT_ONCE = 16

    def __init__(self, train: Windows) -> None:
        values, ocean = (
            train.values.cpu().numpy().reshape(len(train.values), -1),
            train.ocean.cpu().numpy().ravel(),
        )
        stride = max(self.STRIDE, -(-train.starts * int(ocean.sum()) // self.MOST_ROWS))
        starts = np.arange(0, train.starts, stride)
        length = train.history + train.horizon
        # The normal equations need sums over rows only, so memory holds a few windows of the record. Land is
        # 0 and adds nothing to them.
        gram, total = np.zeros((length, length)), np.zeros(length)
        for part in np.array_split(starts, -(-len(starts) // self.STARTS_AT_ONCE)):
            rows = values[part[:, None] + np.arange(length)].swapaxes(0, 1).reshape(length, -1)
            gram += rows @ rows.T
            total += rows.sum(1)
        count = len(starts) * int(ocean.sum())
        gram -= np.outer(total, total) / count  # of deviations from the mean: the constant is not penalised
        past, ahead = slice(None, train.history), slice(train.history, None)
        penalised = gram[past, past] + self.PENALTY * np.eye(train.history)
        self.weights = np.linalg.solve(penalised, gram[past, ahead]).astype(np.float32)
        self.constant = ((total[ahead] - total[past] @ self.weights) / count).astype(np.float32)

    def __call__(self, windows: Windows) -> Array:
        """Apply the map to every cell."""
        history = spans(windows.values.cpu().numpy(), 0, windows.history, windows.starts)
        forecast = np.einsum("shtn,hl->sltn", history, self.weights, optimize=True)
        return np.ascontiguousarray(forecast) + self.constant[:, None, None]


def fit_baselines(train: Windows) -> dict[str, Method]:
    """Return the four baselines by name."""
    return {
        "climatology": climatology,
        "persistence": persistence,
        "damped persistence": DampedPersistence(train),
        "ridge": Ridge(train),
    }


def spans(values: Array, offset: int, length: int, starts: int) -> Array:
    """Return days `offset .. offset + length` after each of `starts` days of `values [T, ...]`, without a copy.

    The result is `[starts, length, ...]`.
    """
    days = values[offset : offset + starts + length - 1]
    return np.moveaxis(np.lib.stride_tricks.sliding_window_view(days, length, axis=0), -1, 1)


def _dot(x: Array, y: Array) -> float:
    """Return the sum of the products of `[T, n]`, by day first: in one go, single precision would not do."""
    return float(np.einsum("tn,tn->t", x, y).sum(dtype=float))
