"""Limits against NumPy, events and categories against `heatwave3`."""

import heatwave3
import numpy as np
import pandas as pd
import pytest
import xarray as xr

from sstcast.ocean.anomalies import on_days
from sstcast.ocean.heatwaves import AROUND, categories, events, limits
from sstcast.storage.artefacts import packaged

BASE = slice("1982", "2013")


def sea(years: int = 6) -> xr.DataArray:
    time = pd.date_range("2001-01-01", f"{2000 + years}-12-31")
    random = np.random.default_rng(0)
    values = random.normal(size=(len(time), 2, 3)) + np.sin(time.day_of_year.values / 58)[:, None, None]
    values[:, 1, 2] = np.nan
    axes = {"time": time, "lat": [0.5, 1.5], "lon": [10.5, 11.5, 12.5]}
    return xr.DataArray(values.astype(np.float32), axes, ("time", "lat", "lon"))


@pytest.fixture(scope="module")
def real() -> xr.DataArray:
    """Twelve cells of the ocean that ships with sstcast, 35 years of days; one cell is land."""
    with xr.open_dataset(packaged("data/sample/tasman_oisst_daily_1982_2016.nc")) as sample:
        sst = sample["sst"][:, 3:28:8, 5:30:11].astype("float32").load()
    assert sst.sizes == {"time": 12784, "lat": 4, "lon": 3}
    sst[:, 3, 2] = np.nan
    return sst


def daily(field: xr.DataArray, sst: xr.DataArray) -> np.ndarray:
    return on_days(field, sst["time"]).transpose(*sst.dims).values


def test_limits_are_smoothed_statistics_of_the_season() -> None:
    sst = sea()
    found = limits(sst)
    day, cell = sst["time"].dt.dayofyear.values, sst.values[:, 0, 1].astype(float)
    statistics = {
        "climatology": np.mean,
        "heatwave_threshold": lambda values: np.percentile(values, 90),
        "cold_spell_threshold": lambda values: np.percentile(values, 10),
    }
    for name, statistic in statistics.items():
        assert found[name].dims == ("dayofyear", "lat", "lon")
        assert np.isnan(found[name][:, 1, 2]).all()
        assert np.isfinite(found[name][:, 1, :2]).all()
        of_window = []
        for centre in range(1, 367):
            window = [(centre + shift - 1) % 366 + 1 for shift in range(-5, 6)]
            of_window.append(statistic(cell[np.isin(day, window)]))
        for centre in (1, 15, 100, 366):
            around = [of_window[(centre - 1 + shift) % 366] for shift in range(-15, 16)]
            assert float(found[name][centre - 1, 0, 1]) == pytest.approx(np.mean(around), abs=1e-5)


@pytest.mark.parametrize("sign", [1, -1])
def test_events_and_categories_of_a_real_ocean_are_those_of_heatwave3(real: xr.DataArray, sign: int) -> None:
    found = limits(real.sel(time=BASE))
    name = "heatwave_threshold" if sign == 1 else "cold_spell_threshold"
    sst, climatology, threshold = real.values, daily(found["climatology"], real), daily(found[name], real)
    last = [np.ascontiguousarray(np.moveaxis(field, 0, -1), float) for field in (sst, climatology, threshold)]
    theirs, category = (
        np.moveaxis(field, -1, 0)
        for field in heatwave3.detect_event_array3(*last, coldSpells=sign == -1, outputs=("event", "category"))
    )
    ours = events(sign * sst > sign * threshold)
    assert 0.02 < theirs[:, :3].mean() < 0.12
    np.testing.assert_array_equal(ours, theirs)
    assert not ours[:, 3, 2].any()
    degrees = categories(sign * sst, sign * climatology, sign * threshold)
    np.testing.assert_array_equal(degrees, category)
    assert degrees.max() >= 2


def test_gaps_and_ends_are_those_of_heatwave3_and_bits_are_as_many_series() -> None:
    random = np.random.default_rng(1)
    hot = random.random((60, 20, 64)) < np.linspace(0.6, 0.95, 64)
    last = np.ascontiguousarray(np.moveaxis(hot, 0, -1), float)
    theirs = heatwave3.detect_event_array3(last, 0 * last, 0 * last + 0.5, outputs=("event",))
    np.testing.assert_array_equal(events(hot), np.moveaxis(theirs, -1, 0))
    assert not events(hot[:4]).any()  # too short for an event
    bits = np.bitwise_or.reduce(hot.astype(np.uint64) << np.arange(64, dtype=np.uint64), axis=-1)
    found = events(bits)[..., None] >> np.arange(64, dtype=np.uint64) & np.uint64(1)
    np.testing.assert_array_equal(found, events(hot))


def test_six_days_around_decide() -> None:
    hot = np.random.default_rng(2).random((4000, 1)) < 0.85
    whole = events(hot)
    for day in range(AROUND, 300):
        assert events(hot[day - AROUND : day + AROUND + 1])[AROUND] == whole[day]
    short = [events(hot[day - 5 : day + 6])[5] == whole[day] for day in range(6, 4000 - 6)]
    assert not all(short)


def test_years_without_a_leap_day_have_limits_on_day_366() -> None:
    found = limits(sea(3))["heatwave_threshold"][:, 0, 0]
    before, last, after = (float(found[day]) for day in (364, 365, 0))
    assert last == pytest.approx((before + after) / 2, abs=0.02)
