"""The linear systems that every run is measured against, fitted to the days before its test days."""

import torch
import xarray as xr

from sstcast.config import DataConfig
from sstcast.forecasting.predictor import Models, Predictor
from sstcast.models import build_forecaster
from sstcast.models.linear import LinearSystem
from sstcast.names import BASELINES
from sstcast.ocean.whole import WholeRegion
from sstcast.training.fitting import samples


class Learnt:
    """The days that linear systems learn from: what is summed up of them serves all that are fitted to them."""

    def __init__(self, data: DataConfig, anomalies: xr.Dataset) -> None:
        """Take data and the anomalies prepared from them."""
        days = [WholeRegion.of(anomalies, data, split) for split in ("train", "validation")]
        self.data, self.shape = data, days[0].shape
        self.train, self.validation = map(samples, days)

    @torch.no_grad()
    def fit(self, name: str, refit: bool = True) -> Predictor:
        """Return a linear system by `model.name`.

        It chooses its options on the validation days, and is fitted to these as well unless `refit` is false.
        """
        history, horizon = self.data.history, self.data.horizon
        model = build_forecaster(name, history=history, horizon=horizon, shape=self.shape)
        assert isinstance(model, LinearSystem)
        model.fit(self.train, self.validation, refit)
        return Models(self.data.box, history, horizon, [model], torch.device("cpu"))

    def baselines(self, refit: bool = True) -> dict[str, Predictor]:
        """Return all baselines by name (see `fit`)."""
        return {name: self.fit(model, refit) for name, model in BASELINES.items()}
