"""A run of any kind as a `Predictor`; that of a combination is the weighted mean of its parts' forecasts."""

import numpy as np
import torch
import xarray as xr
from numpy.typing import NDArray

from sstcast.config import COMBINATION, DataConfig
from sstcast.errors import SSTCastError
from sstcast.forecasting.predictor import Predictor, TrainedRun
from sstcast.models import days_before
from sstcast.runs import Run
from sstcast.training.checkpoint import load_checkpoint

WEEK = 7  # days

Weights = NDArray[np.float64]


class Combination(Predictor):
    """The mean of the forecasts of other predictors, with a weight for each of them in each lead week."""

    def __init__(self, parts: list[Predictor], weights: Weights) -> None:
        """Take the parts, all of one region, history and horizon, and `weights [week, part]`."""
        first = parts[0]
        super().__init__(first.region, first.history, first.horizon)
        self.parts, self.weights = parts, weights[lead_weeks(first.horizon)].astype(np.float32)  # [lead, part]

    def predict(self, anomalies: xr.Dataset, every: int = 1) -> xr.DataArray:
        """Forecast (see `Predictor.predict`) as one member.

        A part that is an ensemble enters by its mean, one without weight is not asked.
        """
        weighted = [
            part.predict(anomalies, every).mean("member", skipna=False) * xr.DataArray(weights, dims="lead")
            for part, weights in zip(self.parts, self.weights.T, strict=True)
            if weights.any()
        ]
        return sum(weighted[1:], start=weighted[0]).expand_dims("member").astype(np.float32)


def predictor_of(run: Run, data: DataConfig | None = None) -> Predictor:
    """Load what forecasts for a run, for other `data` than its own if given (see `TrainedRun`).

    Raises SSTCastError if a checkpoint is damaged, or a part of a combination is not as it was.
    """
    data, run = data or run.config.data, run.trained
    if run.config.model.name != COMBINATION:
        return TrainedRun(run, data)
    weights = load_combination(run)
    return Combination([predictor_of(part, data) for part in run.open_parts()], weights)


def days_read(run: Run) -> int:
    """Return how many days up to the initial date a run, or any part of a combination, reads."""
    run = run.trained
    if run.config.model.name == COMBINATION:
        return max(days_read(part) for part in run.open_parts())
    history = run.config.data.history
    before = days_before(run.config.model.name, run.config.model.options, history)
    if before and not bool(load_checkpoint(run.best)["model"].get("remembers", True)):  # a short record
        return history
    return history + before


def load_combination(run: Run) -> Weights:
    """Return the weights `[week, part]` of a combination.

    Raises SSTCastError if they are damaged, or do not belong to the parts and leads in its configuration.
    """
    weeks, parts = lead_weeks(run.config.data.horizon)[-1] + 1, len(run.open_parts())
    try:
        weights: torch.Tensor = load_checkpoint(run.best)["model"]["weights"]
        found: Weights = weights.double().numpy()
        if found.shape == (weeks, parts) and np.isfinite(found).all():
            return found
    except (KeyError, TypeError, AttributeError):
        pass
    raise SSTCastError(
        f"{run.best}: holds no weights of {parts} runs in {weeks} lead weeks; run the same `sstcast combine` again"
    )


def lead_weeks(horizon: int) -> NDArray[np.intp]:
    """Return the week of each lead `[horizon]`, from 0; the last may be short."""
    return np.arange(horizon) // WEEK
