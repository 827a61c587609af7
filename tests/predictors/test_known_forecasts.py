"""What is known of a forecast of a field on a day, against a plain loop, and what is refused."""

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from logged import logged
from refusals import refused
from test_known_grids import DAYS, LAT, LON, predictor, wind

HORIZON = 8  # of the runs
ISSUES = pd.date_range("2000-12-25", "2004-12-31", freq="5D")
LEADS = np.arange(1, 11)


def forecasts(seed: int = 0, issues: pd.DatetimeIndex = ISSUES) -> xr.Dataset:
    """Return forecasts of a wind by two members every five days, ten days ahead."""
    random = np.random.default_rng(seed)
    valid = issues.values[:, None] + LEADS * np.timedelta64(1, "D")
    season = 3 * np.cos(2 * np.pi * (pd.DatetimeIndex(valid.ravel()).day_of_year.values - 40) / 365.25)
    noise = random.standard_normal((2, len(issues), len(LEADS), len(LAT), len(LON)))
    values = (7 + season.reshape(valid.shape)[None, :, :, None, None] + noise).astype(np.float32)
    dims = ("member", "init_time", "lead", "lat", "lon")
    coordinates = {"member": [0, 1], "init_time": issues, "lead": LEADS, "lat": LAT, "lon": LON}
    data = xr.Dataset({"u10": (dims, values, {"units": "m s-1"})}, coordinates)
    data["lead"].attrs["units"] = "days"
    return data


def prepared_wind(folder: Path, sst: Path, data: xr.Dataset, **keys: Any) -> Any:
    folder.mkdir(exist_ok=True)
    data.to_netcdf(folder / "gefs.nc")
    return predictor(folder, sst, folder / "gefs.nc", kind="forecast", **keys)


@pytest.mark.parametrize("delay", [0, 1])
def test_the_newest_issue_is_read_at_the_lead_that_is_valid(tmp_path: Path, sst_file: Path, delay: int) -> None:
    data, lost = forecasts(), ISSUES[81]  # an issue that is all missing hides no older one
    data = data.where(data["init_time"] != lost)
    stored, prepared = prepared_wind(tmp_path, sst_file, data, delay=delay)
    known = prepared.open_anomalies()["predictor_wind"].load()
    assert known.dims == ("time", "ahead", "lat", "lon")
    mean = data["u10"].mean("member")
    statistics, ocean = stored.open_statistics(), prepared.open_cube()["ocean_mask"].values
    for number in (0, 1, 400, 1003, 1460):
        day = pd.Timestamp(known["time"].values[number])
        issue = max(init for init in ISSUES.drop(lost) if init + pd.Timedelta(days=delay) <= day)
        for ahead in range(1, HORIZON + 1):
            valid = day + pd.Timedelta(days=ahead)
            lead, values = (valid - issue).days, known.values[number, ahead - 1]
            if lead > LEADS[-1]:
                assert np.isnan(values).all()
                continue
            phase = 2 * np.pi * valid.day_of_year * np.array([1, 2, 3]) / 365.2425
            terms = np.concatenate([[1], np.cos(phase), np.sin(phase)])
            climatology = np.tensordot(terms, statistics["terms"].values, 1)
            expected = (mean.sel(init_time=issue, lead=lead).values - climatology) / float(statistics["deviation"])
            np.testing.assert_allclose(values, np.where(ocean, expected, np.nan), rtol=1e-4, atol=1e-4)
    days = pd.date_range("2000-12-20", "2000-12-30").as_unit("ns")  # the first issue is of 25 December
    is_known = stored.known(days.values).notnull().any(("ahead", "lat", "lon")).values
    np.testing.assert_array_equal(is_known, days >= ISSUES[0] + pd.Timedelta(days=delay))
    first = 3 - (delay > 0)  # 9 January 2001, known on that day without a delay
    assert stored._read_on(stored.open(), dt.date(2001, 1, 9), dt.date(2001, 2, 1)).tolist() == [*range(first, 8)]
    assert float(statistics["deviation"]) == pytest.approx(2**-0.5, rel=0.02)
    assert np.nanmean(known.values) == pytest.approx(0, abs=0.03)


def test_later_issues_change_no_bit(tmp_path: Path, sst_file: Path) -> None:
    data = forecasts()
    stored, prepared = prepared_wind(tmp_path, sst_file, data, delay=1)
    known = prepared.open_anomalies()["predictor_wind"].values
    number = 731  # soon after the base period
    day = DAYS[number]
    late = data["init_time"] + np.timedelta64(1, "D") > np.datetime64(day)
    changed, other = prepared_wind(tmp_path / "other", sst_file, data.where(~late, 99), delay=1)
    again = other.open_anomalies()["predictor_wind"].values
    assert again[: number + 1].tobytes() == known[: number + 1].tobytes()
    assert not np.array_equal(again, known, equal_nan=True)
    first = DAYS[0].date()
    assert changed.digest(first, day.date()) == stored.digest(first, day.date())


def test_days_that_no_issue_reaches_are_counted(tmp_path: Path, sst_file: Path) -> None:
    data = forecasts()
    data["u10"].attrs["valid_max"] = np.float32(1e6)
    data["u10"][0, 2, 3, 4, 5:9] = 2e6
    gap = (data["init_time"] > np.datetime64("2003-03-01")) & (data["init_time"] < np.datetime64("2003-05-01"))
    with logged() as lines:
        prepared_wind(tmp_path, sst_file, data.isel(init_time=np.flatnonzero(~gap.values)))
    told = "gefs.nc: u10 has 4 values outside its valid_max (-inf..1e+06), taken as missing"
    assert [line for line in lines if line.endswith(told)]
    (line,) = (line for line in lines if "wind is not known on" in line)
    days = DAYS.values[:, None] + np.arange(1, HORIZON + 1) * np.timedelta64(1, "D")
    kept = ISSUES[~gap.values].values
    newest = kept[np.searchsorted(kept, DAYS.values, side="right") - 1]
    share = (days <= newest[:, None] + LEADS[-1] * np.timedelta64(1, "D")).mean(1)
    assert f"on {(share == 0).sum()} of 1461 days, and on the others in {1 - share[share > 0].mean():.2%}" in line


def test_analyses_are_refused_unless_they_are_called_perfect(tmp_path: Path, sst_file: Path) -> None:
    data = wind()
    with refused("gefs.nc", "looks like observations", "perfect: true"):
        prepared_wind(tmp_path / "refused", sst_file, data)
    perfect, prepared = prepared_wind(tmp_path / "perfect", sst_file, data, perfect=True)
    ahead_of = perfect._read_on(perfect.open(), dt.date(2001, 1, 9), dt.date(2001, 2, 1))
    assert ahead_of.tolist() == [*range(9, 32 + HORIZON)]  # the days from 10 January on
    (tmp_path / "grid").mkdir()
    data.to_netcdf(tmp_path / "grid/wind.nc")
    _, as_grid = predictor(tmp_path / "grid", sst_file, tmp_path / "grid/wind.nc")
    known, past = (one.open_anomalies()["predictor_wind"].values for one in (prepared, as_grid))
    for ahead in (1, 5):
        np.testing.assert_allclose(known[:-ahead, ahead - 1], past[ahead:], rtol=1e-3, atol=1e-3)
        assert np.isnan(known[-ahead:, ahead - 1]).all()
    with refused("gefs.nc", "looks like observations", "perfect: true"):  # the same file, not called so any more
        predictor(tmp_path / "perfect", sst_file, tmp_path / "perfect/gefs.nc", kind="forecast")
