"""Degree heating weeks of a series with a known answer, against a loop, and the years of the monthly means."""

import datetime as dt
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import sstcast
from sstcast.errors import SSTCastError
from sstcast.extremes import heat_stress_record
from sstcast.extremes.heat_stress import (
    STRESS_LEVELS,
    MonthlyYears,
    degree_heating_weeks,
    maximum_monthly_mean,
    stress_level,
)
from sstcast.extremes.heat_stress_record import stress_of_cells, stress_of_places


def test_a_month_of_two_degrees_is_eight_weeks_and_a_half() -> None:
    sst = np.full((200, 1), 27.5)
    sst[100:130] = 30.0  # 30 days of 2 degC above the MMM of 28
    sst[140:150] = 28.9  # HotSpots below 1 degC do not count
    dhw = degree_heating_weeks(sst, np.array([28.0]))[:, 0]
    assert np.isnan(dhw[:83]).all()
    np.testing.assert_allclose(dhw[[83, 99, 100, 106, 129, 145]], [0, 0, 2 / 7, 2, 60 / 7, 60 / 7])
    np.testing.assert_allclose(dhw[[183, 184, 199]], [60 / 7, 58 / 7, 28 / 7])  # day 100 leaves after 84 days
    level = stress_level(sst[:, 0] - 28, dhw)
    assert [STRESS_LEVELS[level[day]] for day in (90, 145, 106, 119, 129)] == [
        "no stress",
        "watch",
        "warning",
        "alert level 1",
        "alert level 2",
    ]
    assert level[82] == -1
    exact = np.tile([28.0, 29.0], 100)  # HotSpots of exactly 0 are no stress, and those of exactly 1 degC count
    of_exact = degree_heating_weeks(exact, np.array(28.0))
    assert of_exact[-1] == 42 / 7
    assert stress_level(exact[-2:] - 28, of_exact[-2:]).tolist() == [0, 3]
    higher = stress_level(np.full(5, 1.0), np.array([3.99, 4, 12, 16, 20]))
    assert [STRESS_LEVELS[number] for number in higher] == [
        "warning",
        *(f"alert level {number}" for number in (1, 3, 4, 5)),
    ]


def test_degree_heating_weeks_of_any_series_are_those_of_a_loop() -> None:
    random = np.random.default_rng(0)
    sst, mmm = random.normal(28, 1.5, (300, 4)), random.normal(28, 0.5, 4)
    sst[:, 3] = np.nan
    dhw = degree_heating_weeks(sst, mmm)
    for day in (83, 150, 299):
        hotspot = sst[day - 83 : day + 1] - mmm
        expected = [sum(value for value in column if value >= 1) / 7 for column in hotspot.T]
        np.testing.assert_allclose(dhw[day, :3], expected[:3])
        assert np.isnan(dhw[day, 3])


def test_the_maximum_monthly_mean_is_evaluated_where_coral_reef_watch_does() -> None:
    time = pd.date_range("1982-01-01", "2016-12-31")
    year, month = time.year.values, time.month.values
    rise = np.array([0.02, -0.01])
    sst = 25 + 2 * np.cos(2 * np.pi * (month[:, None] - 2) / 12) + rise * (year[:, None] - 1988.286)
    field = xr.DataArray(sst, {"time": time}, ("time", "cell"))
    years = MonthlyYears.of(time[0].date(), time[-1].date())
    assert years is not None
    assert str(years) == "monthly means of 1985..2012, evaluated at 1988.286"
    np.testing.assert_allclose(maximum_monthly_mean(field, years), [27, 27], atol=1e-5)
    random = np.random.default_rng(1).normal(20, 2, (len(time), 1))
    noisy = (
        pd.Series(random[:, 0], time)["1985":"2012"].groupby([lambda day: day.month, lambda day: day.year]).mean()
    )
    expected = max(
        np.polyval(np.polyfit(noisy[one].index.to_numpy() - 1988.286, noisy[one], 1), 0) for one in range(1, 13)
    )
    found = maximum_monthly_mean(xr.DataArray(random, {"time": time}, ("time", "cell")), years)
    assert float(found[0]) == pytest.approx(expected, abs=1e-5)
    two = maximum_monthly_mean(field + (field["time"].dt.year - 1988.286), MonthlyYears(1988, 1989))
    np.testing.assert_allclose(two, [27, 27], atol=1e-5)
    one = maximum_monthly_mean(field, MonthlyYears(2000, 2000))
    np.testing.assert_allclose(one, 27 + rise * (2000 - 1988.286), atol=1e-5)


def test_other_years_are_stated() -> None:
    early = MonthlyYears.of(dt.date(1982, 1, 1), dt.date(1996, 12, 31))
    assert str(early) == "monthly means of 1985..1996, evaluated at 1988.286, not Coral Reef Watch's"
    late = MonthlyYears.of(dt.date(2013, 3, 1), dt.date(2018, 12, 31))
    assert str(late) == "monthly means of 2014..2018, evaluated at 2016, not Coral Reef Watch's"
    before = MonthlyYears.of(dt.date(1982, 1, 1), dt.date(1987, 12, 31))
    assert str(before) == "monthly means of 1985..1987, evaluated at 1986, not Coral Reef Watch's"
    assert MonthlyYears.of(dt.date(2013, 3, 1), dt.date(2014, 12, 30)) is None


def test_each_place_and_band_has_its_own_heat_stress(monkeypatch: pytest.MonkeyPatch) -> None:
    time = pd.date_range("2001-01-01", "2002-12-31")
    values = np.random.default_rng(2).normal([27, 24, 20], 2, (len(time), 3)).astype(np.float32)
    places = xr.DataArray(values, {"time": time, "place": ["reef", "bank", "bay"]}, ("time", "place"))
    years = MonthlyYears(2001, 2002)
    table = stress_of_places(places, years).set_index(["place", "time"])
    cells = places.rename(place="lat").assign_coords(lat=[0.0, 1, 2]).expand_dims(lon=[5.0], axis=2)
    whole = stress_of_cells(cells, years)
    monkeypatch.setattr(heat_stress_record, "VALUES_AT_ONCE", 1)
    xr.testing.assert_identical(stress_of_cells(cells, years), whole)
    for number, name in enumerate(places["place"].values):
        own, mmm = table.loc[name], float(maximum_monthly_mean(places[:, [number]], years)[0])
        np.testing.assert_array_equal(own["sst"], values[:, number])
        np.testing.assert_allclose(own["hotspot"], values[:, number] - mmm, atol=1e-5)
        np.testing.assert_array_equal(own["maximum_monthly_mean"], np.float32(mmm))
        assert (own["stress"].to_numpy()[:83] == "").all()
        for level in STRESS_LEVELS[:3]:  # of both years
            days = whole["stress_days"].sel(lat=number, lon=5, stress=level).sum()
            assert (own["stress"] == level).sum() == days
        calm = own["stress"] == "no stress"
        assert calm.sum() > 100
        assert (own["hotspot"][calm] <= 0).all()


def test_heat_stress_of_cells_and_places(sst_file: Path, tmp_path: Path) -> None:
    made = sstcast.heatwaves(sst_file, dhw=True, out=tmp_path / "dhw.nc").value
    with xr.open_dataset(sst_file) as opened:
        sst = opened["sst"].load()
    assert made.attrs["baseline"] == "monthly means of 2001..2004, evaluated at 2002.5, not Coral Reef Watch's"
    cell = sst[:, 5, 7].to_series()
    mmm = cell.groupby(cell.index.month).mean().max()
    assert float(made["maximum_monthly_mean"][5, 7]) == pytest.approx(mmm, abs=0.01)
    dhw = pd.Series(degree_heating_weeks(cell.to_numpy(), made["maximum_monthly_mean"].values[5, 7]), cell.index)
    np.testing.assert_allclose(made["dhw_max"][:, 5, 7], dhw.groupby(cell.index.year).max(), atol=1e-4)
    days = made["stress_days"].sum("stress", skipna=False)
    assert days[:, 5, 7].values.tolist() == [365 - 83, 365, 365, 366]
    assert days[:, 0, 0].isnull().all()
    (tmp_path / "reef.csv").write_text(f"name,lat,lon\nreef,{float(sst['lat'][5])},{float(sst['lon'][7])}\n")
    table = sstcast.heatwaves(sst_file, tmp_path / "reef.csv", dhw=True, out=tmp_path / "reef-dhw.csv").value
    np.testing.assert_allclose(table["dhw"], dhw, atol=1e-4)
    assert table["stress"].nunique() > 2
    for option in ({"cold": True}, {"baseline": "moving"}, {"years": "2001:2003"}):
        with pytest.raises(SSTCastError, match="--dhw"):
            sstcast.heatwaves(sst_file, dhw=True, **option)
