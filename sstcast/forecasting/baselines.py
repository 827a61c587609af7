"""The linear systems that every run is measured against, fitted to the days before its test days."""

from typing import Any

import torch
import xarray as xr

from sstcast.config import DataConfig
from sstcast.forecasting.predictor import Models, Predictor
from sstcast.models import build_forecaster, days_before
from sstcast.models.linear import LinearSystem, Samples
from sstcast.names import BASELINES
from sstcast.ocean.whole import WholeRegion
from sstcast.training.task import samples


class Learnt:
    """The days that linear systems learn from: what is summed up of them serves all that are fitted to them."""

    def __init__(self, data: DataConfig, anomalies: xr.Dataset) -> None:
        """Take data and the anomalies prepared from them."""
        self.data, self.anomalies, self.shape = data, anomalies, (anomalies.sizes["lat"], anomalies.sizes["lon"])
        self._samples: dict[int, tuple[Samples, Samples]] = {}

    @torch.no_grad()
    def fit(self, name: str, refit: bool = True, **options: Any) -> Predictor:
        """Return a linear system by `model.name`, with these options of its class.

        It is fitted to the validation days as well, on which it may choose a penalty, unless `refit` is false.
        """
        history, horizon = self.data.history, self.data.horizon
        model = build_forecaster(name, history=history, horizon=horizon, shape=self.shape, **options)
        assert isinstance(model, LinearSystem)
        model.fit(*self._days(days_before(name, options, history)), refit)
        return Models(self.data.box, history, horizon, [model], torch.device("cpu"))

    def _days(self, before: int) -> tuple[Samples, Samples]:
        """Return the training and the validation windows, with so many days before them."""
        if before not in self._samples:
            train, validation = (
                samples(WholeRegion.of(self.anomalies, self.data, split, before))
                for split in ("train", "validation")
            )
            self._samples[before] = train, validation
        return self._samples[before]

    def baselines(self, refit: bool = True) -> dict[str, Predictor]:
        """Return all baselines by name (see `fit`)."""
        return {name: self.fit(model, refit) for name, model in BASELINES.items()}
