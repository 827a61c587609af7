"""The last check of a forecast, against limits computed by hand."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from refusals import refused

from sstcast.forecasting.plausible import check_forecast, implausible

LAT, LON, LEADS = np.array([0.5, 1.5]), np.array([10.5, 11.5, 12.5]), np.arange(1, 5)
DAY = np.datetime64("2010-12-29", "ns")
SCALE = 0.5  # degC, that of the region
VARIABLE = (1, 2)  # a cell whose own deviation is four times as large


def grid(values: np.ndarray, **axes: np.ndarray) -> xr.DataArray:
    return xr.DataArray(values.astype(np.float32), {**axes, "lat": LAT, "lon": LON}, (*axes, "lat", "lon"))


@pytest.fixture(scope="module")
def base() -> xr.Dataset:
    days = pd.date_range("2000-01-01", "2009-12-31").as_unit("ns")
    anomaly = np.random.default_rng(0).standard_normal((len(days), 2, 3))
    anomaly[:, *VARIABLE] *= np.where((days.month > 11) | (days.month == 1), 4, 1)  # in winter
    scale = grid(np.full((366, 2, 3), SCALE), dayofyear=np.arange(1, 367))
    return xr.Dataset({"anomaly": grid(anomaly, time=days.values), "scale": scale})


def check(base: xr.Dataset, climate: float = 20.0, told: dict[str, float] | None = None, **change: float) -> None:
    departure = np.zeros((1, len(LEADS), 2, 3))
    departure[0, 2, 0, 1] = change.get("usual", 0)
    departure[0, 2, *VARIABLE] = change.get("variable", 0)
    axes = {"init_time": np.array([DAY]), "lead": LEADS}
    anomaly = grid(departure, **axes)
    valid = (("init_time", "lead"), DAY + LEADS[None] * np.timedelta64(1, "D"))
    forecast = xr.Dataset({"sst": climate + anomaly, "sst_anomaly": anomaly}).assign_coords(valid_time=valid)
    known = {
        f"predictor_{name}": grid(np.full((2, 2, 3), value), time=DAY + np.array([-1, 0]) * np.timedelta64(1, "D"))
        for name, value in (told or {}).items()
    }
    days = DAY + np.arange(-2, 1) * np.timedelta64(1, "D")
    past = grid(np.full((3, 2, 3), change.get("past", 0) / SCALE), time=days)
    climatology = grid(np.full((366, 2, 3), climate), dayofyear=np.arange(1, 367))
    standard = {"anomaly": past, "climatology": climatology, "scale": base["scale"]}
    check_forecast(forecast, xr.Dataset({**standard, **known}), base, "runs/demo", "lim")


def test_ten_deviations_of_the_region_or_of_the_cell_are_the_limit(base: xr.Dataset) -> None:
    for usual, variable in ((9.9, 0), (-9.9, 0), (0, 36), (0, -36)):
        check(base, usual=usual * SCALE, variable=variable * SCALE)
    with refused("runs/demo: forecasts 25.1 degC on 2011-01-01 at lat 0.5, lon 11.5"):
        check(base, usual=10.2 * SCALE)
    with refused("on 2011-01-01 at lat 1.5, lon 12.5"):
        check(base, variable=-46 * SCALE)
    with refused("at lat 0.5, lon 11.5"):
        check(base, usual=11 * SCALE, variable=30 * SCALE)


def test_it_must_be_a_temperature_of_the_sea(base: xr.Dataset) -> None:
    check(base, climate=-4.9)
    for climate in (-5.1, 50.1):
        with refused("outside -5..50 degC"):
            check(base, climate=climate)


def test_the_days_or_the_model_that_read_them_are_named(base: xr.Dataset) -> None:
    for past in (0, 9.9, -9.9):
        with refused("plausible, so the model lim is not: train another"):
            check(base, usual=40, past=past * SCALE)
    for past in (10.1, -10.1):
        with refused("correct the last days of SST"):
            check(base, usual=40, past=past * SCALE)


def test_each_of_many_dates_has_limits_of_its_own(base: xr.Dataset) -> None:
    """From one date, the region's deviation is twice as large."""
    days = np.array([DAY, DAY + np.timedelta64(100, "D")])
    departure = np.zeros((2, len(LEADS), 2, 3))
    departure[:, 1, 0, 0] = 15 * SCALE
    axes = {"init_time": days, "lead": LEADS}
    valid = (("init_time", "lead"), days[:, None] + LEADS * np.timedelta64(1, "D"))
    fields = xr.Dataset({"sst": 20 + grid(departure, **axes), "sst_anomaly": grid(departure, **axes)})
    scale = base["scale"].copy(data=base["scale"].values.copy())
    scale[60:120] *= 2
    wrong = implausible(fields.assign_coords(valid_time=valid), scale, base)
    assert np.argwhere(wrong).tolist() == [[0, 1, 0, 0]]


def test_the_predictor_that_is_farthest_off_is_named(base: xr.Dataset) -> None:
    with refused("the predictor wind is 5.78e+03 standard deviations from its climatology"):
        check(base, usual=40, told={"soi": 3, "wind": -5780, "ice": np.nan})
