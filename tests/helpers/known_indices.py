"""What is known of an index that was read, without its stores."""

import datetime as dt
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import xarray as xr

from sstcast.config import PredictorConfig
from sstcast.predictors.index import INDEX
from sstcast.predictors.newest import Days
from sstcast.predictors.predictor import Predictor, known


def known_index(
    read: xr.DataArray, days: Days, config: PredictorConfig, base: tuple[dt.date, dt.date], name: str
) -> xr.DataArray:
    """Return what each day knows of an index, `(time, summary)`, standardised by the base period."""
    data: Any = SimpleNamespace(predictors={name: config}, splits=SimpleNamespace(base=base))
    predictor, values = Predictor(name, INDEX, data, Path()), read.dropna("time")
    vars(predictor)["_opened"] = values.to_dataset(name="value")
    statistics = INDEX.fit(predictor, values[predictor._base(values)])
    return known(INDEX, values, INDEX.places(predictor, values, days), statistics, days).compute()
