"""The reference table of the shipped data."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from sstcast.config import DataConfig, Region, Splits
from sstcast.forecasting.system import Models
from sstcast.models import build_forecaster
from sstcast.models.base import LinearSystem
from sstcast.names import BASELINES
from sstcast.ocean.prepare import prepare
from sstcast.ocean.prepared import Prepared
from sstcast.ocean.windows import Windows, cut_windows
from sstcast.training.forecast_task import fit

# Standardised MSE over ocean cells, paper protocol, train 1982-2013, test 2015-2016, computed independently.
REFERENCE = {
    28: {"persistence": 1.2399, "damped persistence": 1.1712, "ridge": 1.0567, "climatology": 2.8155},
    14: {"persistence": 0.8392, "damped persistence": 0.8132, "ridge": 0.7450, "climatology": 2.7912},
    7: {"persistence": 0.5384, "damped persistence": 0.5316, "ridge": 0.4955, "climatology": 2.7829},
}
REGION = Region(lon=(0, 4), lat=(0, 2), tile=(2, 2))
SPLITS = Splits(train=(1982, 2013), validation=(2014, 2014), test=(2015, 2016))


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> tuple[DataConfig, Prepared]:
    data = DataConfig(protocol="paper", splits=SPLITS, directory=tmp_path_factory.mktemp("prepared"))
    return data, prepare(data)


@pytest.mark.parametrize("horizon", REFERENCE)
def test_reference_table_of_the_shipped_data(prepared: tuple[DataConfig, Prepared], horizon: int) -> None:
    data = prepared[0].model_copy(update={"horizon": horizon})
    _, anomalies = prepared[1].open()
    train, test = (cut_windows(anomalies, data, split) for split in ("train", "test"))
    came, ocean = test.spans(test.history, test.horizon).numpy(), test.ocean.numpy()
    for name, expected in REFERENCE[horizon].items():
        (forecast,) = fitted(BASELINES[name], train).members(replace(test, horizon=0))
        error = ((forecast[: test.starts] - came)[..., ocean] ** 2).mean(dtype=np.float64)
        assert error == pytest.approx(expected, rel=0.005), name


def fitted(name: str, windows: Windows) -> Models:
    """Fit a system to windows, whatever their tiles."""
    model = build_forecaster(name, history=windows.history, horizon=windows.horizon, shape=windows.shape)
    assert isinstance(model, LinearSystem)
    fit(model, windows, None)
    return Models(REGION, windows.history, windows.horizon, [model], torch.device("cpu"))
