"""Events of series and places by the climatology of another record, which that of their own record gives too."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import sstcast
from sstcast.errors import SSTCastError

TIME = pd.date_range("1971-01-01", "2003-12-31")
SHORT = slice("2001-11-20", "2003-10-05")


@pytest.fixture(scope="module")
def grid() -> xr.DataArray:
    """33 years of days in 3 x 4 cells, of which that at -41.5, 148 is land. They differ by tenths of a degree."""
    random = np.random.default_rng(0)
    noise = np.convolve(random.normal(size=len(TIME) + 29), np.exp(-np.arange(30) / 10), "valid")
    series = 15 + 4 * np.sin(2 * np.pi * TIME.day_of_year.values / 365.25) + noise / 2
    values = series[:, None, None] + np.arange(12).reshape(3, 4) / 10 + random.normal(0, 0.1, (len(TIME), 3, 4))
    values[:, 2, 0] = np.nan
    axes = {"time": TIME, "lat": [-42.0, -41.75, -41.5], "lon": [148.0, 148.25, 148.5, 148.75]}
    return xr.DataArray(values.astype(np.float32), axes, ("time", "lat", "lon"), "sst", {"units": "degC"})


def without_baseline(table: pd.DataFrame) -> pd.DataFrame:
    return table.drop(columns="baseline")


@pytest.mark.parametrize("baseline", ["fixed", "detrended", "moving"])
def test_a_part_of_a_record_has_the_events_that_the_whole_has_in_it(
    grid: xr.DataArray, baseline: str, tmp_path: Path
) -> None:
    whole = grid[:, 1, 2].drop_vars(("lat", "lon"))
    part = whole.sel(time=SHORT)
    options: dict[str, Any] = {"baseline": baseline, "cold": baseline == "detrended"}
    expected = sstcast.heatwaves(whole, out=tmp_path / "whole.csv", **options).value
    found = sstcast.heatwaves(part, climatology=whole, out=tmp_path / "part.csv", **options).value
    if baseline == "fixed":
        same = sstcast.heatwaves(whole, climatology=whole, out=tmp_path / "same.csv").value
        pd.testing.assert_frame_equal(without_baseline(same), without_baseline(expected))
    inside = (expected["start"] > part["time"].values[0]) & (expected["end"] < part["time"].values[-1])
    assert inside.sum() > 1
    first, last = part["time"].values[[0, -1]]
    found = found[(found["start"] > first) & (found["end"] < last)].reset_index(drop=True)
    expected = expected[inside].reset_index(drop=True)
    pd.testing.assert_frame_equal(without_baseline(found), without_baseline(expected))
    assert set(found["baseline"]) == {f"{expected['baseline'][0]}, of an object"}


def test_of_a_grid_it_is_the_cell_of_the_series(
    grid: xr.DataArray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    grid, time = grid[-2600:], TIME[-2600:]
    grid.to_netcdf("grid.nc")
    Path("points.csv").write_text("name,lat,lon\npier,-41.7,148.6\n")
    expected = sstcast.heatwaves("grid.nc", "points.csv", out="expected.csv").value
    own = sstcast.heatwaves("grid.nc", "points.csv", climatology="grid.nc", out="own.csv").value
    pd.testing.assert_frame_equal(without_baseline(own), without_baseline(expected))
    pier = grid[:, 1, 2].to_series()
    table = pd.DataFrame({"t": time.strftime("%Y-%m-%d"), "sst": pier.to_numpy(), "lat": -41.7, "lon": 508.6})
    table.to_csv("pier.csv", index=False)
    table.drop(columns=["lat", "lon"]).to_csv("plain.csv", index=False)
    with caplog.at_level("INFO", "sstcast"):
        stated = sstcast.heatwaves("pier.csv", climatology="grid.nc", out="stated.csv").value
    phi, phis, apart = np.radians([-41.7, -41.75, 148.6 - 148.5])
    away = 6371 * np.arccos(np.sin(phi) * np.sin(phis) + np.cos(phi) * np.cos(phis) * np.cos(apart))
    assert f"pier: its climatology is of grid.nc at -41.75, 148.5, {away:.0f} km away" in caplog.text
    at = sstcast.heatwaves("plain.csv", climatology="grid.nc", at="-41.7,148.6", out="at.csv")
    for found in (stated, at.value):
        dates = ["start", "peak", "end", "duration", "category"]
        pd.testing.assert_frame_equal(found[dates], expected[dates])
    with pytest.raises(SSTCastError, match=r"holds at -41.7,148.6, climatology \S+grid.nc, .*, of grid.nc; name"):
        sstcast.heatwaves("plain.csv", climatology="grid.nc", at=(-41.7, 148.6))
        sstcast.heatwaves("plain.csv")
    caplog.clear()
    with caplog.at_level("INFO", "sstcast"):
        sstcast.heatwaves("plain.csv", climatology="grid.nc", at="-41.5,148", out="land.csv")
    assert "is on land; the nearest ocean cell is at -41.5, 148.25, 21 km away; that cell is used" in caplog.text


@pytest.mark.parametrize("cold", [False, True])
def test_lines_tell_how_a_logger_and_its_record_differ(
    grid: xr.DataArray, cold: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    record = grid[:, 0, 0].drop_vars(("lat", "lon"))
    logger = record.sel(time=SHORT) + xr.where(record.sel(time=SHORT)["time"].dt.month.isin([12, 1, 2]), 2, -0.5)
    logger = logger.astype(np.float32)
    logger[100:110] = np.nan
    with caplog.at_level("INFO", "sstcast"):
        sstcast.heatwaves(logger.rename("sst"), cold=cold, climatology=record, out=tmp_path / "a.csv")
    known = logger.notnull()
    mean = float((logger - record).mean())
    told = f"{mean:+.1f} degC (DJF +2.0, MAM -0.5, JJA -0.5, SON -0.5) from an object on {int(known.sum())} common"
    assert told in caplog.text
    from sstcast.extremes.baselines import Baseline

    base = record.expand_dims(place=["x"], axis=1)
    days = logger["time"].values
    baseline = Baseline("fixed", pd.Timestamp("1971-01-01").date(), pd.Timestamp("2003-12-31").date())
    threshold = baseline.daily(base, cold)[1][np.isin(TIME.values, days), 0]
    shares = [
        100 * float(((of < threshold) if cold else (of > threshold))[known.values].mean())
        for of in (logger.values, record.sel(time=SHORT).values)
    ]
    assert abs(shares[0] - shares[1]) > 2
    side = "below" if cold else "above"
    assert f"{side} the threshold on {shares[0]:.0f} % of them, the record on {shares[1]:.0f} %" in caplog.text
    assert "fewer than" not in caplog.text
    caplog.clear()
    later = logger.assign_coords(time=logger["time"] + np.timedelta64(36500, "D")).rename("sst")
    for some in (logger[:90].rename("sst"), later):
        sstcast.heatwaves(some, climatology=record, out=tmp_path / "b.csv")
    assert "fewer than 365 common days" in caplog.text
    assert "no day in common with an object" in caplog.text


def test_monthly_means_of_heat_stress_are_those_of_the_record(grid: xr.DataArray, tmp_path: Path) -> None:
    record = grid[:, 0, 0].drop_vars(("lat", "lon"))
    whole = sstcast.heatwaves(record, dhw=True, out=tmp_path / "a.csv").value
    part = sstcast.heatwaves(record.sel(time=SHORT), dhw=True, climatology=record, out=tmp_path / "b.csv").value
    assert set(part["maximum_monthly_mean"]) == set(whole["maximum_monthly_mean"])
    expected = whole.set_index("time")["dhw"][part["time"][83:]]
    np.testing.assert_allclose(part["dhw"][83:], expected, atol=1e-6)
    gappy = record.copy()
    gappy[6000] = np.nan
    with pytest.raises(SSTCastError, match=r"--dhw: .* lacks days"):
        sstcast.heatwaves(record.sel(time=SHORT), dhw=True, climatology=gappy, out=tmp_path / "c.csv")


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("--at 1,2: is where a series lies in the record", {"at": "1,2"}),
        ("--at 91,2: give latitude and longitude", {"climatology": "grid.nc", "at": "91,2"}),
        ("--at x: give latitude", {"climatology": "grid.nc", "at": "x"}),
        ("--at: .*pier.csv is a series", {"climatology": "pier.csv", "at": "1,2"}),
        ("pier.csv: states no lat and lon, by which grid.nc has a cell; give", {"climatology": "grid.nc"}),
        ("covers 147.875,148.875,.*, without pier at 42, 148;", {"climatology": "grid.nc", "at": "42,148"}),
        ("no such file", {"climatology": "absent.nc", "at": "1,2"}),
        ("is a run; give the source of its days", {"climatology": "run"}),
        ("is a forecast; give a record", {"climatology": "forecast.nc"}),
        ("two.csv: has series of a, b, but none of pier;", {"climatology": "two.csv"}),
        ("short.csv: short has values in 2 years .* longer record with --climatology", {"data": "short.csv"}),
        (
            "moves.csv: states no lat and lon for moves, or several",
            {"data": "moves.csv", "climatology": "grid.nc"},
        ),
        ("grid.nc has cells; give places", {"data": "grid.nc", "climatology": "pier.csv"}),
        ("--above: has no --climatology", {"climatology": "pier.csv", "above": 3}),
    ],
)
def test_what_is_no_climatology_is_refused(
    words: str, options: dict[str, Any], grid: xr.DataArray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    grid[:800].to_netcdf("grid.nc")
    days = pd.DataFrame({"t": TIME[:1461].strftime("%Y-%m-%d"), "sst": grid[:1461, 0, 0].values})
    days.to_csv("pier.csv", index=False)
    days[:731].to_csv("short.csv", index=False)
    days.assign(lat=-42 + 0.001 * days.index, lon=148).to_csv("moves.csv", index=False)
    days.rename(columns={"sst": "a (degC)"}).assign(**{"b (degC)": 5}).to_csv("two.csv", index=False)
    Path("run").mkdir()
    Path("run/config.yaml").write_text("")
    lead = xr.Dataset(
        {"sst": (("init_time", "lead", "lat", "lon"), np.ones((1, 1, 1, 1)))}, attrs={"Conventions": "CF"}
    )
    lead.assign_coords(init_time=TIME[:1], lead=[1]).to_netcdf("forecast.nc")
    with pytest.raises(SSTCastError, match=words):
        sstcast.heatwaves(
            options.pop("data", "pier.csv"), out=None if "cells" in words else "events.csv", **options
        )
    assert not Path("events.csv").exists()


def test_a_pandas_series_of_any_name_is_a_climatology(tmp_path: Path) -> None:
    days = pd.date_range("1990-01-01", "1995-12-31")
    record = pd.Series(15 + np.random.default_rng(0).normal(size=len(days)), days, name="sst")
    record["1995-03-01":"1995-03-10"] = 25
    tables = []
    for name in ("sst", "x"):
        out = tmp_path / f"{name}.csv"
        sstcast.heatwaves(record["1994":].rename("sst"), climatology=record.rename(name), out=out)
        tables.append(pd.read_csv(out))
    pd.testing.assert_frame_equal(*tables)
    assert len(tables[0])
