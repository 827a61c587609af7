"""Forecasts that need no network, fitted to the training days only."""

import numpy as np

from sstcast.config import Region
from sstcast.forecasting.predictor import Array, Predictor
from sstcast.ocean.windows import Windows


class Baseline(Predictor):
    """A predictor that is fitted to training windows; one that learns nothing from them needs no `fit`."""

    def __init__(self, region: Region, train: Windows) -> None:
        super().__init__(region, train.history, train.horizon)
        self.fit(train)

    def fit(self, train: Windows) -> None:
        """Learn from the training windows."""


class Climatology(Baseline):
    """No anomaly."""

    def members(self, past: Windows) -> Array:
        """Return zeros."""
        return np.zeros((1, past.starts, self.horizon, *past.values.shape[1:]), np.float32)


class Persistence(Baseline):
    """The anomaly of the last day of history, repeated."""

    def members(self, past: Windows) -> Array:
        """Repeat the last anomaly."""
        return np.repeat(past.spans(self.history - 1, 1), self.horizon, axis=1)[None]


class DampedPersistence(Baseline):
    """The last anomaly times one coefficient a lead: least squares without intercept over all training days."""

    def fit(self, train: Windows) -> None:
        """Fit the coefficients."""
        values = train.values.cpu().numpy().reshape(len(train.values), -1)  # land, being 0, adds nothing
        ahead = range(1, train.horizon + 1)
        pairs = [(values[:-lead], values[lead:]) for lead in ahead]
        self.coefficients = np.array([_dot(x, y) / _dot(x, x) for x, y in pairs], np.float32)

    def members(self, past: Windows) -> Array:
        """Damp the last anomaly."""
        return (past.spans(self.history - 1, 1) * self.coefficients[:, None, None])[None]


class Ridge(Baseline):
    """One linear map from a cell's own history to all leads, pooled over ocean cells.

    Fitted with `PENALTY` on every `STRIDE`-th training window, or fewer where that exceeds `MOST_ROWS`.
    """

    PENALTY = 10.0
    STRIDE = 7
    MOST_ROWS = 2_000_000
    STARTS_AT_ONCE = 16

    def fit(self, train: Windows) -> None:
        """Solve the normal equations."""
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

    def members(self, past: Windows) -> Array:
        """Apply the map to every cell."""
        history = past.spans(0, self.history)
        forecast = np.einsum("shtn,hl->sltn", history, self.weights, optimize=True)
        return (np.ascontiguousarray(forecast) + self.constant[:, None, None])[None]


BASELINES: dict[str, type[Baseline]] = {
    "climatology": Climatology,
    "persistence": Persistence,
    "damped persistence": DampedPersistence,
    "ridge": Ridge,
}


def fit_baselines(region: Region, train: Windows) -> dict[str, Predictor]:
    """Return the baselines by name, fitted to training windows of a region's tiles."""
    return {name: kind(region, train) for name, kind in BASELINES.items()}


def _dot(x: Array, y: Array) -> float:
    """Return the sum of the products of `[T, n]`, by day first: in one go, single precision would not do."""
    return float(np.einsum("tn,tn->t", x, y).sum(dtype=float))
