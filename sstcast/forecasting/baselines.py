"""The linear systems that every run is measured against, fitted to the days before its test days."""

import torch
import xarray as xr

from sstcast.config import DataConfig
from sstcast.forecasting.predictor import Models, Predictor
from sstcast.models import build_forecaster
from sstcast.models.linear import LinearSystem
from sstcast.ocean.whole import WholeRegion
from sstcast.training.fitting import samples

# What tables call them -> `model.name`.
BASELINES = {
    "climatology": "climatology",
    "persistence": "persistence",
    "damped persistence": "damped-persistence",
    "ridge": "ridge",
    "multiscale ridge": "multiscale-ridge",
}
STRONGEST = "multiscale ridge"  # of these; skill is told against it


def fit_baselines(data: DataConfig, anomalies: xr.Dataset) -> tuple[dict[str, Predictor], dict[str, Predictor]]:
    """Return the baselines by name, fitted to a run's prepared anomalies; and not fitted to validation days."""
    fitted, held_out = _fit(list(BASELINES.values()), data, anomalies, (True, False))
    return dict(zip(BASELINES, fitted, strict=True)), dict(zip(BASELINES, held_out, strict=True))


def fit_systems(names: list[str], data: DataConfig, anomalies: xr.Dataset, refit: bool = True) -> list[Predictor]:
    """Return linear systems by `model.name`, fitted to prepared anomalies.

    They choose their options on the validation days, and are fitted to these as well unless `refit` is false.
    """
    return _fit(names, data, anomalies, (refit,))[0]


@torch.no_grad()
def _fit(
    names: list[str], data: DataConfig, anomalies: xr.Dataset, refits: tuple[bool, ...]
) -> list[list[Predictor]]:
    days = [WholeRegion.of(anomalies, data, split) for split in ("train", "validation")]
    train, validation = map(samples, days)

    def fitted(name: str, refit: bool) -> Predictor:
        model = build_forecaster(name, history=data.history, horizon=data.horizon, shape=days[0].shape)
        assert isinstance(model, LinearSystem)
        model.fit(train, validation, refit)
        return Models(data.box, data.history, data.horizon, [model], torch.device("cpu"))

    return [[fitted(name, refit) for name in names] for refit in refits]
