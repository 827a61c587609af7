"""Limits against NumPy and `heatwave3`, events and categories against `heatwave3`, and where none is defined."""

from pathlib import Path

import heatwave3
import numpy as np
import pandas as pd
import pytest
import xarray as xr

from sstcast.extremes.heatwaves import (
    MARGIN_DAYS,
    categories,
    events,
    freezing_point,
    frequencies,
    limits,
    where_defined,
)
from sstcast.reading.days_of_year import on_days
from sstcast.storage.paths import packaged

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
    cell = sst[:, 0, 1].to_series().astype(float)
    years, rows = range(2001, 2007), {}
    for year in years:  # every year with 366 days, 29 February interpolated
        days = cell[str(year)].to_numpy()
        if len(days) == 365:
            days = np.insert(days, 59, (days[58] + days[59]) / 2)
        rows[year] = days
    whole = np.concatenate(list(rows.values()))
    statistics = {
        "climatology": np.mean,
        "heatwave_threshold": lambda values: np.percentile(values, 90),
        "cold_spell_threshold": lambda values: np.percentile(values, 10),
    }
    for name, statistic in statistics.items():
        assert found[name].dims == ("day_of_leap_year", "lat", "lon")
        assert np.isnan(found[name][:, 1, 2]).all()
        assert np.isfinite(found[name][:, 1, :2]).all()
        of_window = []
        for day in range(366):
            middles = day + 366 * np.arange(len(years))
            window = [whole[max(0, middle - 5) : middle + 6] for middle in middles]
            of_window.append(statistic(np.concatenate(window)))
        for day in (0, 14, 59, 60, 99, 365):
            around = [of_window[(day + shift) % 366] for shift in range(-15, 16)]
            assert float(found[name][day, 0, 1]) == pytest.approx(np.mean(around), abs=1e-5)


@pytest.mark.parametrize(("name", "percent"), [("heatwave_threshold", 90), ("cold_spell_threshold", 10)])
def test_limits_of_a_real_ocean_are_those_of_heatwave3(tmp_path: Path, name: str, percent: int) -> None:
    with xr.open_dataset(packaged("data/sample/tasman_oisst_daily_1982_2016.nc")) as sample:
        sst = sample["sst"][:, 1:31:5, 1:31:5].astype("float32").load()
    sst.drop_encoding().to_dataset(name="sst").to_netcdf(tmp_path / "sst.nc", engine="netcdf4")
    period = ("1982-01-01", "2011-12-31")
    made = heatwave3.ts2clm3(
        tmp_path / "sst.nc", tmp_path / "theirs", period, pctile=percent, roundClm=False, quiet=True
    )
    with xr.open_dataset(made) as opened:
        theirs = opened.transpose("doy", "lat", "lon").load()
    found = limits(sst.sel(time=slice(*period)))
    np.testing.assert_allclose(found[name], theirs["thresh"], atol=1e-3, rtol=0)
    np.testing.assert_allclose(found["climatology"], theirs["seas"], atol=1e-4, rtol=0)
    if percent == 90:
        ours, its = (
            on_days(field, sst["time"]) for field in (found[name], found[name].copy(data=theirs["thresh"]))
        )
        one, other = (events((sst > threshold).values) for threshold in (ours, its))
        assert (one != other).mean() < 2e-4
        assert one.mean() > 0.05


def test_leap_days_and_the_days_after_them() -> None:
    day = xr.DataArray(np.arange(1, 367), {"day_of_leap_year": np.arange(1, 367)}, ("day_of_leap_year",))
    time = xr.DataArray(pd.to_datetime(["2003-02-28", "2003-03-01", "2003-12-31", "2004-02-29", "2004-03-01"]))
    np.testing.assert_array_equal(on_days(day, time), [59, 61, 366, 60, 61])


def polar() -> xr.DataArray:
    """Cells of an open sea, of seasonal ice at -1.8, of perennial ice, and constant at 25 degC."""
    time = pd.date_range("2001-01-01", "2006-12-31")
    random = np.random.default_rng(4)
    season = 4 * np.cos(2 * np.pi * (time.day_of_year.values - 220) / 365.25)
    open_sea = season + random.normal(0, 0.5, len(time))
    cells = [open_sea + 5, np.maximum(open_sea, -1.8), np.full(len(time), -1.8), np.full(len(time), 25.0)]
    values = np.stack(cells, axis=1)[:, None].astype(np.float32)
    return xr.DataArray(values, {"time": time, "lat": [75.0], "lon": np.arange(4.0)}, ("time", "lat", "lon"))


def test_no_event_is_defined_in_a_frozen_sea() -> None:
    raw = limits(polar())
    found = where_defined(raw)
    for name, sign in (("heatwave_threshold", 1), ("cold_spell_threshold", -1)):
        threshold, climatology = raw[name][:, 0].values, raw["climatology"][:, 0].values
        undefined = (sign * (threshold - climatology) < 0.05) | (threshold < -1.7)
        np.testing.assert_array_equal(np.isnan(found[name][:, 0]), undefined)
        np.testing.assert_array_equal(found[name][:, 0].values[~undefined], threshold[~undefined])
        assert undefined[:, 2:].all()  # never changes
        assert not undefined[:, 0].any()
        assert 0.2 < undefined[:, 1].mean() < 0.8
    shares = frequencies(polar(), found["heatwave_threshold"])
    assert shares["exceedance_frequency"].isnull().values.ravel().tolist() == [False, False, True, True]
    assert float(shares["exceedance_frequency"][0, 1]) == pytest.approx(0.1, abs=0.03)  # of the days with events


def test_the_freezing_point_is_where_a_tenth_of_the_days_are() -> None:
    np.testing.assert_array_equal(freezing_point(polar())[0], np.array([np.nan, -1.8, -1.8, 25], np.float32))
    brackish = polar().isel(lon=[0]).clip(min=3.0)
    assert float(freezing_point(brackish)[0, 0]) == 3
    rare = brackish.where((brackish > 3) | (np.arange(brackish.sizes["time"]) % 9 == 0)[:, None, None], 3.5)
    assert np.isnan(freezing_point(rare)[0, 0])


@pytest.mark.parametrize("sign", [1, -1])
def test_events_and_categories_of_a_real_ocean_are_those_of_heatwave3(real: xr.DataArray, sign: int) -> None:
    found = limits(real.sel(time=BASE))
    name = "heatwave_threshold" if sign == 1 else "cold_spell_threshold"
    fields = (real.values, daily(found["climatology"], real), daily(found[name], real))
    sst, climatology, threshold = (field.astype(float) for field in fields)
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
    multiple = (sst - climatology) / (threshold - climatology)
    tied = abs(multiple - np.round(multiple)) < 1e-4  # heatwave3 rounds to four digits
    np.testing.assert_array_equal(degrees[~tied], category[~tied])
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
    for day in range(MARGIN_DAYS, 300):
        assert events(hot[day - MARGIN_DAYS : day + MARGIN_DAYS + 1])[MARGIN_DAYS] == whole[day]
    short = [events(hot[day - 5 : day + 6])[5] == whole[day] for day in range(6, 4000 - 6)]
    assert not all(short)
