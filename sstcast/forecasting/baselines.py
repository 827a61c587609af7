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


def fit_baselines(data: DataConfig, anomalies: xr.Dataset) -> dict[str, Predictor]:
    """Return the baselines by name, fitted to a run's prepared anomalies."""
    train, validation = (WholeRegion.of(anomalies, data, split) for split in ("train", "validation"))
    baselines: dict[str, Predictor] = {}
    for name, model_name in BASELINES.items():
        model = build_forecaster(model_name, history=data.history, horizon=data.horizon, shape=train.shape)
        assert isinstance(model, LinearSystem)
        fit(model, train, validation)
        baselines[name] = Models(data.box, data.history, data.horizon, [model], torch.device("cpu"))
    return baselines
