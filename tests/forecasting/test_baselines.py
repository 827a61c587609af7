"""The reference table of the shipped data, and what a predictor returns for which days."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import xarray as xr

from sstcast.config import DataConfig, Region, Splits
from sstcast.forecasting.predictor import Array, Models
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
    return data, prepare(data, say=str)


@pytest.mark.parametrize("horizon", REFERENCE)
def test_reference_table_of_the_shipped_data(prepared: tuple[DataConfig, Prepared], horizon: int) -> None:
    data = prepared[0].model_copy(update={"horizon": horizon})
    _, anomalies = prepared[1].open()
    train, test = (cut_windows(anomalies, data, split) for split in ("train", "test"))
    came, ocean = truth(test), test.ocean.numpy()
    for name, expected in REFERENCE[horizon].items():
        predictor = fitted(BASELINES[name], train)
        error = ((forecast(predictor, test) - came)[..., ocean] ** 2).mean(dtype=np.float64)
        assert error == pytest.approx(expected, rel=0.005), name


def truth(windows: Windows) -> Array:
    """Return what came true in `windows`."""
    return windows.spans(windows.history, windows.horizon).numpy()


def forecast(predictor: Models, windows: Windows) -> Array:
    """Forecast from the histories of `windows`."""
    (only,) = predictor.members(replace(windows, horizon=0))
    return only[: windows.starts]


def fitted(name: str, windows: Windows) -> Models:
    """Fit a system to windows, whatever their tiles."""
    model = build_forecaster(name, history=windows.history, horizon=windows.horizon, shape=windows.shape)
    assert isinstance(model, LinearSystem)
    fit(model, windows, None)
    return Models(REGION, windows.history, windows.horizon, [model], torch.device("cpu"))


def random_windows(days: int = 60, history: int = 5, horizon: int = 3) -> Windows:
    random = np.random.default_rng(0)
    values = random.normal(size=(days, 2, 4)).cumsum(0).astype(np.float32)
    ocean = np.array([[True] * 4, [False, True, True, True]])
    values[:, ~ocean] = 0
    dates = np.datetime64("2001-01-01") + np.arange(days)
    place = torch.zeros(2, 4, 3)
    return Windows.daily(torch.from_numpy(values), torch.from_numpy(ocean), dates, (2, 2), history, horizon, place)


def test_methods_and_truth_line_up_with_the_windows() -> None:
    windows = random_windows()
    values, persistence = windows.values.numpy(), fitted("persistence", windows)
    for start in (0, 17, windows.starts - 1):
        last = start + windows.history - 1
        assert windows.init_times[start] == windows.days[last]
        np.testing.assert_array_equal(truth(windows)[start], values[last + 1 : last + 4])
        np.testing.assert_array_equal(forecast(persistence, windows)[start], values[[last] * 3])
    assert not forecast(fitted("climatology", windows), windows).any()
    batch = windows.batch(torch.tensor([2 * 17 + 1]))
    np.testing.assert_array_equal(batch.target[0].T, truth(windows)[17, :, 1])


def test_predictions_are_labelled_and_start_on_every_day_that_ends_a_history() -> None:
    windows = random_windows(days=20)
    lat, lon, time = [0.5, 1.5], [0.5, 1.5, 2.5, 3.5], windows.days
    field = np.random.default_rng(1).normal(size=(20, 2, 4)).astype(np.float32)
    ocean = np.array([[True] * 4, [True, False, True, True]])
    anomalies = xr.Dataset(
        {
            "anomaly": (("time", "lat", "lon"), np.where(ocean, field, np.nan)),
            "ocean_mask": (("lat", "lon"), ocean),
        },
        {"time": time, "lat": lat, "lon": lon},
    )
    predicted = fitted("persistence", windows).predict(anomalies)
    assert predicted.dims == ("member", "init_time", "lead", "lat", "lon")
    np.testing.assert_array_equal(predicted["init_time"], time[4:])
    np.testing.assert_array_equal(predicted["valid_time"], time[4:, None] + np.arange(1, 4).astype("m8[D]"))
    for lead in (1, 2, 3):
        here = predicted.sel(member=0, lead=lead).drop_vars(["lead", "valid_time"]).rename(init_time="time")
        xr.testing.assert_equal(here.astype(np.float64), anomalies["anomaly"][4:].astype(np.float64))
