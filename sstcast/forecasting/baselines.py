"""The linear systems that every run is measured against, fitted to the days before its test days."""

import torch
import xarray as xr

from sstcast.config import DataConfig
from sstcast.forecasting.predictor import Models, Predictor
from sstcast.models import build_forecaster
from sstcast.models.linear import LinearSystem
from sstcast.ocean.whole import WholeRegion
from sstcast.training.fitting import fit

# What tables call them -> `model.name`.
BASELINES = {
    "climatology": "climatology",
    "persistence": "persistence",
    "damped persistence": "damped-persistence",
    "ridge": "ridge",
    "multiscale ridge": "multiscale-ridge",
}
STRONGEST = "multiscale ridge"  # of these; skill is told against it


def fit_baselines(data: DataConfig, anomalies: xr.Dataset, refit: bool = True) -> dict[str, Predictor]:
    """Return the baselines by name, fitted to a run's prepared anomalies, as `fit_systems` does."""
    return dict(zip(BASELINES, fit_systems(list(BASELINES.values()), data, anomalies, refit), strict=True))


def fit_systems(names: list[str], data: DataConfig, anomalies: xr.Dataset, refit: bool = True) -> list[Predictor]:
    """Return linear systems by `model.name`, fitted to prepared anomalies.

    They choose their options on the validation days, and are fitted to these as well unless `refit` is false.
    """
    train, validation = (WholeRegion.of(anomalies, data, split) for split in ("train", "validation"))
    systems: list[Predictor] = []
    for name in names:
        model = build_forecaster(name, history=data.history, horizon=data.horizon, shape=train.shape)
        assert isinstance(model, LinearSystem)
        fit(model, train, validation, refit)
        systems.append(Models(data.box, data.history, data.horizon, [model], torch.device("cpu")))
    return systems
