"""Series of daily temperatures: each form has the events of its cell, and missing days those of plain NumPy."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import sstcast
from sstcast.config import FieldSource
from sstcast.errors import SSTCastError
from sstcast.extremes.baselines import Baseline
from sstcast.extremes.gaps import limits_of_known
from sstcast.places.series import series_of

TIME = pd.date_range("1999-01-01", "2005-12-31")
DAYS = TIME.strftime("%Y-%m-%d")


@pytest.fixture(scope="module")
def temp() -> np.ndarray:
    noise = np.random.default_rng(0).normal(size=len(TIME) + 29)
    noise = np.convolve(noise, np.exp(-np.arange(30) / 10), "valid")
    return (15 + 4 * np.sin(2 * np.pi * TIME.day_of_year.values / 365.25) + noise).round(3)


def test_each_form_of_a_series_has_the_events_of_its_cell(
    temp: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    series = xr.DataArray(temp.astype("float32"), {"time": TIME}, ("time",), "sst", {"units": "degC"})
    grid = series.expand_dims(lat=[-42.0, -41.75], lon=[148.0, 148.25]).transpose("time", "lat", "lon")
    Path("point.csv").write_text("name,lat,lon\npier,-42,148\n")
    expected = sstcast.heatwaves(grid, "point.csv", out="grid.csv").value
    assert len(expected) > 10
    frame = pd.DataFrame({"t": DAYS, "temp": temp})
    frame.to_csv("plain.csv", index=False)
    frame.rename(columns={"t": "date", "temp": "temperature"}).to_csv(
        "semicolons.csv", sep=";", decimal=",", index=False, encoding="utf-8-sig"
    )
    pd.DataFrame({"time": [f"{day}T00:00:00+10:00" for day in DAYS], "sst": temp}).to_csv(
        "offset.csv", index=False
    )
    pd.DataFrame({"t": DAYS, "temp (degF)": (temp * 1.8 + 32).round(4)}).to_csv("fahrenheit.csv", index=False)
    pd.DataFrame({"t": DAYS, "temp": temp + 273.15}).to_csv("kelvin.csv", index=False)
    series.to_netcdf("point.nc")
    series.assign_coords(lat=-42.0, lon=148.0).to_netcdf("scalar.nc")
    series.expand_dims(lat=[-42.0], lon=[148.0]).transpose("time", "lat", "lon").to_netcdf("one_cell.nc")
    station = series.expand_dims(station=["pier"]).transpose("time", "station").to_dataset()
    station.assign_attrs(featureType="timeSeries").to_netcdf("station.nc")
    series.rename("depth_mean").to_dataset().to_zarr("own.zarr", consolidated=False)
    pandas = pd.Series(temp, TIME.tz_localize("Australia/Hobart"))
    pairs = pd.DataFrame({"north (degC)": temp, "south (degC)": temp}, TIME)
    files = sorted({*Path().glob("*.csv"), *Path().glob("*.nc")} - {Path("point.csv"), Path("grid.csv")})
    assert len(files) == 9
    for number, source in enumerate((*files, series, pandas)):
        found = sstcast.heatwaves(source, out=f"events{number}.csv").value
        dates = ["start", "peak", "end", "duration", "category", "baseline"]
        pd.testing.assert_frame_equal(found[dates], expected[dates], obj=str(source))
        numbers = expected.select_dtypes("float").columns
        np.testing.assert_allclose(found[numbers], expected[numbers], atol=3e-3, rtol=1e-5)
        if str(source) == "station.nc":
            assert set(found["place"]) == {"pier"}
    two = sstcast.heatwaves(pairs, out="two.csv").value
    assert two["place"].value_counts().to_dict() == {"north": len(expected), "south": len(expected)}
    one = sstcast.heatwaves("own.zarr", variable="depth_mean", out="one.csv").value
    np.testing.assert_array_equal(one["start"], expected["start"])


def test_only_heatwaves_takes_a_series(temp: np.ndarray, tmp_path: Path) -> None:
    pd.DataFrame({"t": DAYS, "temp": temp}).to_csv(tmp_path / "a.csv", index=False)
    xr.Dataset({"sst": ("time", temp)}, {"time": TIME}).to_netcdf(tmp_path / "b.nc")
    with pytest.raises(SSTCastError, match="a series of one place is for `sstcast heatwaves`"):
        sstcast.init(tmp_path / "a.csv")
    with pytest.raises(SSTCastError, match="sst is a series, which `sstcast heatwaves` alone takes"):
        sstcast.init(tmp_path / "b.nc")
    found = [
        sstcast.heatwaves(tmp_path / name, dhw=True, out=tmp_path / f"{name}.csv").value
        for name in ("a.csv", "b.nc")
    ]
    np.testing.assert_allclose(found[0]["dhw"], found[1]["dhw"])
    (points := tmp_path / "points.csv").write_text("name,lat,lon\npier,-42,148\n")
    with pytest.raises(SSTCastError, match=r"--places: \S+ is a series"):
        sstcast.heatwaves(tmp_path / "a.csv", points, out=tmp_path / "events.csv")


def statistics_by_hand(values: pd.Series) -> np.ndarray:
    """Return mean and 90th percentile of each day of a leap year, of windows of 11 days, smoothed over 31."""
    years = sorted({*values.index.year})
    table = np.full((len(years), 366), np.nan)
    for row, year in enumerate(years):
        for column, day in enumerate(pd.date_range("2000-01-01", "2000-12-31")):
            if (day.month, day.day) != (2, 29) or year % 4 == 0:
                table[row, column] = values.get(pd.Timestamp(year, day.month, day.day), np.nan)
        if year % 4:
            table[row, 59] = (table[row, 58] + table[row, 60]) / 2
    found = np.full((2, 366), np.nan)
    for column in range(366):
        windows = [
            [
                table.ravel()[at] if 0 <= (at := row * 366 + column + shift) < table.size else np.nan
                for shift in range(-5, 6)
            ]
            for row in range(len(years))
        ]
        known = np.isfinite(windows)
        if known.any(1).sum() >= 3 and known.mean() >= 0.5:
            found[:, column] = np.nanmean(windows), np.nanpercentile(windows, 90)
    smooth = [np.nanmean([np.roll(of, shift) for shift in range(-15, 16)], axis=0) for of in found]
    return np.where(np.isnan(found), np.nan, smooth)


def test_thresholds_are_of_the_known_days(temp: np.ndarray) -> None:
    """With single days, a whole season of five years and a day of the year that is never known missing."""
    values = pd.Series(temp.astype(np.float32), TIME)
    values.iloc[[500, 777]] = np.nan
    values[(TIME.month == 7) & (TIME.year < 2004)] = np.nan
    values[(TIME.month == 3) & (TIME.day == 9)] = np.nan
    sst = xr.DataArray(values.to_numpy()[:, None], {"time": TIME, "place": ["pier"]}, ("time", "place"))
    found = limits_of_known(sst)
    expected = statistics_by_hand(values.astype(float))
    assert 10 < np.isnan(expected[0]).sum() < 31
    for name, of in zip(("climatology", "heatwave_threshold"), expected, strict=True):
        np.testing.assert_allclose(found[name][:, 0], of, atol=1e-4)
    baseline = Baseline("fixed", TIME[0].date(), TIME[-1].date())
    assert np.isfinite(baseline.daily(sst)[1][500, 0])  # the day is missing, but its threshold is not


def of_marine_heat_waves(values: pd.Series, first: int, last: int) -> np.ndarray:
    """Return climatology and threshold of a leap year, `[2, 366]`, by the rules of marineHeatWaves (E. Oliver).

    Windows are of the days of the calendar, also beyond the base, and of the known values. 29 February has the
    mean of its neighbours.
    """
    leap = values.index.day_of_year.values + ((values.index.month > 2) & ~values.index.is_leap_year)
    temp, in_base = values.to_numpy(float), (values.index.year >= first) & (values.index.year <= last)
    found = np.full((2, 366), np.nan)
    for day in range(1, 367):
        if day != 60:
            centres = np.flatnonzero(in_base & (leap == day))
            near = (centres[:, None] + np.arange(-5, 6)).ravel()
            near = temp[near[(near >= 0) & (near < len(temp))]]
            near = near[~np.isnan(near)]
            found[:, day - 1] = near.mean(), np.percentile(near, 90)
    found[:, 59] = (found[:, 58] + found[:, 60]) / 2
    tiled = np.tile(found, 3)
    return np.stack([np.convolve(row, np.ones(31) / 31, "same")[366:732] for row in tiled])


@pytest.mark.parametrize("base", [(1976, 2005), (1980, 2000)])
def test_thresholds_are_those_of_marine_heat_waves_but_near_29_february(base: tuple[int, int]) -> None:
    """They treat that day, and days beyond the base, in another way: less than .01 degC, of anomalies of .6."""
    time = pd.date_range("1976-01-01", "2005-12-31")
    random = np.random.default_rng(3)
    noise = np.convolve(random.normal(size=len(time) + 29), np.exp(-np.arange(30) / 10), "valid") / 4
    values = pd.Series(15 + 4 * np.sin(2 * np.pi * time.day_of_year.values / 365.25) + noise, time)
    values[random.random(len(time)) < 0.05] = np.nan
    values["1990-06-01":"1990-11-20"] = np.nan
    values = values.astype(np.float32)
    sst = xr.DataArray(values.to_numpy()[:, None], {"time": time, "place": ["pier"]}, ("time", "place"))
    found = limits_of_known(sst.sel(time=slice(f"{base[0]}-01-01", f"{base[1]}-12-31")))
    expected = of_marine_heat_waves(values, *base)
    away = np.ones(366, bool)
    away[60 - 1 - 21 : 60 + 21] = False  # half a window and half of the smoothing away from 29 February
    if base != (1976, 2005):
        away[:21] = away[-21:] = False  # and from the ends of the base
    for name, of in zip(("climatology", "heatwave_threshold"), expected, strict=True):
        np.testing.assert_allclose(found[name][:, 0], of, atol=0.01)
        np.testing.assert_allclose(found[name][away, 0], of[away], atol=1e-5)


def test_an_event_ends_at_a_missing_day_but_two_runs_are_joined(tmp_path: Path) -> None:
    days = pd.date_range("2001-01-01", periods=40)
    values = pd.Series(10.0, days)
    values.iloc[3:15], values.iloc[20:26] = 20, 20
    missing = values.drop(days[[9, 26, 27, 28]])
    found = sstcast.heatwaves(missing, above=15, out=tmp_path / "a.csv").value
    spans = [(str(row.start.date()), str(row.end.date())) for row in found.itertuples()]
    assert spans == [("2001-01-04", "2001-01-15"), ("2001-01-21", "2001-01-26")]
    assert found["intensity_cumulative_absolute"].tolist() == [11 * 20, 6 * 20]
    assert np.isnan(found["decline_rate"]).tolist() == [False, True]
    from sstcast.extremes.events_told import lines_of_events

    assert lines_of_events(found)[0].endswith("none goes on")


@pytest.mark.parametrize(
    ("words", "text", "options"),
    [
        (
            "2001-01-02 is given twice; give one value a day",
            "t,temp\n2001-01-01,1\n2001-01-02,2\n2001-01-02,2\n2001-01-03,2\n",
            {},
        ),
        ("a.csv: a has no whole day of UTC", "t,temp\n2001-01-02 01:00,1\n2001-01-02 02:00,2\n", {}),
        ("has 2 columns called temp; rename", "t,temp,temp\n2001-01-01,5,6\n", {}),
        ("has 2 columns called t; rename", "t,t,temp\n2001-01-01,5,6\n", {}),
        ("the time '31/01/2001' is not read", "t,temp\n31/01/2001,5\n", {}),
        ("could be in degF; give --units", "t,temp\n2001-01-01,55\n2001-01-02,56\n", {}),
        ("temp is -999 degC on 2001-01-02", "t,temp\n2001-01-01,5\n2001-01-02,-999\n", {}),
        ("no column of temperatures is known among time, salinity; name it", "t,salinity\n2001-01-01,5\n", {}),
        ("has no column x among time, temp", "t,temp\n2001-01-01,5\n", {"variable": "x"}),
        ("--gaps: .* is a series", "t,temp\n2001-01-01,5\n", {"gaps": 3}),
        ("no complete year", "t,temp\n2001-01-01,5\n2001-01-02,5\n", {}),
    ],
)
def test_a_series_that_cannot_be_read_is_refused(
    words: str, text: str, options: dict[str, Any], tmp_path: Path
) -> None:
    (path := tmp_path / "a.csv").write_text(text)
    with pytest.raises(SSTCastError, match=words):
        sstcast.heatwaves(path, out=tmp_path / "events.csv", **options)
    assert not (tmp_path / "events.csv").exists()


def test_two_years_are_too_few_and_flags_leave_days_out(temp: np.ndarray, tmp_path: Path) -> None:
    frame = pd.DataFrame({"t": DAYS, "temp": temp})
    frame[-731:].to_csv(tmp_path / "short.csv", index=False)
    with pytest.raises(SSTCastError, match=r"short has values in 2 years of .* thresholds need 3"):
        sstcast.heatwaves(tmp_path / "short.csv", out=tmp_path / "a.csv")
    bad = np.random.default_rng(1).random(len(TIME)) < 0.01
    frame[~bad].to_csv(tmp_path / "absent.csv", index=False)
    flags = frame.assign(temp=np.where(bad, 30.0, temp), temp_qc=np.where(bad, 4, 1))
    flags.to_csv(tmp_path / "flags.csv", index=False)
    found, expected = (
        sstcast.heatwaves(tmp_path / f"{n}.csv", out=tmp_path / f"of-{n}.csv").value for n in ("flags", "absent")
    )
    pd.testing.assert_frame_equal(found.drop(columns="place"), expected.drop(columns="place"))
    with pytest.raises(SSTCastError, match=r"--dhw: .* lacks days"):
        sstcast.heatwaves(tmp_path / "absent.csv", dhw=True, out=tmp_path / "dhw.csv")
    with pytest.raises(SSTCastError, match="a trend needs each day"):
        sstcast.heatwaves(tmp_path / "absent.csv", baseline="detrended", out=tmp_path / "a.csv")


@pytest.mark.parametrize("kind", ["names", "bytes", "numbers", "depths"])
def test_stations_of_cf_are_places(kind: str, tmp_path: Path) -> None:
    days = pd.date_range("2001-01-01", periods=3)
    sst = np.array([[10, 20], [11, 21], [12, 22]], np.float32)
    dim = "depth" if kind == "depths" else "station"
    stations = xr.Dataset(
        {"sst": (("time", dim), sst, {"units": "degC"})}, {"time": days}, {"featureType": "timeSeries"}
    )
    if kind in ("names", "bytes"):
        names = np.array(["north", "pier"], "S" if kind == "bytes" else "U")
        stations["station_name"] = ("station", names, {"cf_role": "timeseries_id"})
        stations = stations.assign_coords(station=[7, 9])
    stations.to_netcdf(path := tmp_path / "a.nc", engine="netcdf4")
    if kind == "depths":
        with pytest.raises(SSTCastError, match="2001-01-01 is given twice"):
            series_of(FieldSource(source=str(path)))
        return
    found = series_of(FieldSource(source=str(path)))
    assert found is not None
    assert found["place"].values.tolist() == (["0", "1"] if kind == "numbers" else ["north", "pier"])
    np.testing.assert_array_equal(found, sst)
