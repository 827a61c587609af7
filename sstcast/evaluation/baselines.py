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
    return _spans(windows, windows.history, windows.horizon)


def climatology(windows: Windows) -> Array:
    """Forecast no anomaly."""
    _, tiles, nodes = windows.values.shape
    return np.zeros((windows.starts, windows.horizon, tiles, nodes), np.float32)


def persistence(windows: Windows) -> Array:
    """Repeat the anomaly of the last day of history."""
    return np.repeat(_spans(windows, windows.history - 1, 1), windows.horizon, axis=1)


class DampedPersistence:
    """The last anomaly times one coefficient a lead: least squares without intercept over all training days."""

    def __init__(self, train: Windows) -> None:
        values = _ocean_values(train)
        ahead = range(1, train.horizon + 1)
        pairs = [(values[:-lead], values[lead:]) for lead in ahead]
        self.coefficients = np.array([np.vdot(x, y) / np.vdot(x, x) for x, y in pairs], np.float32)

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

    def __init__(self, train: Windows) -> None:
        from sklearn.linear_model import Ridge as LinearRidge  # two seconds that most verbs need not wait

        values = _ocean_values(train)
        stride = max(self.STRIDE, -(-train.starts * values.shape[1] // self.MOST_ROWS))
        starts = np.arange(0, train.starts, stride)[:, None]
        days = starts + np.arange(train.history + train.horizon)
        rows = values[days].transpose(0, 2, 1).reshape(-1, days.shape[1])
        self.map = LinearRidge(alpha=self.PENALTY).fit(rows[:, : train.history], rows[:, train.history :])

    def __call__(self, windows: Windows) -> Array:
        """Apply the map to every cell."""
        history = np.moveaxis(_spans(windows, 0, windows.history), 1, -1)
        forecast = self.map.predict(history.reshape(-1, windows.history))
        return np.moveaxis(forecast.reshape(*history.shape[:-1], windows.horizon), -1, 1).astype(np.float32)


def fit_baselines(train: Windows) -> dict[str, Method]:
    """Return the four baselines by name."""
    return {
        "climatology": climatology,
        "persistence": persistence,
        "damped persistence": DampedPersistence(train),
        "ridge": Ridge(train),
    }


def _spans(windows: Windows, offset: int, length: int) -> Array:
    """Days `offset .. offset + length` after each start, `[starts, length, tile, N]`, without a copy."""
    values = windows.values.cpu().numpy()[offset : offset + windows.starts + length - 1]
    return np.moveaxis(np.lib.stride_tricks.sliding_window_view(values, length, axis=0), -1, 1)


def _ocean_values(windows: Windows) -> Array:
    """All days at ocean nodes only, `[T, ocean nodes of all tiles]`."""
    values: Array = windows.values.cpu().numpy()[:, windows.ocean.cpu().numpy()]
    return values
