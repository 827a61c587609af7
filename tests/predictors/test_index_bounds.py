"""The last day of each value of an index in NetCDF, from its bounds, and which values are data."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from logged import logged
from refusals import refused
from test_known_indices import index

from sstcast.predictors.index_series import read_index, series_of
from sstcast.scores.indices import THIRDS, thirds

MONTHS = pd.date_range("2003-01-01", periods=30, freq="MS").as_unit("ns")
NEXT = MONTHS + pd.offsets.MonthBegin(1)
VALUES = np.random.default_rng(0).normal(size=30).round(3)
LAST = NEXT - pd.Timedelta("1D")


def series(labels: pd.DatetimeIndex, starts: pd.DatetimeIndex, ends: pd.DatetimeIndex) -> xr.Dataset:
    """Return an index with time bounds."""
    time = xr.Variable("time", labels, {"bounds": "bounds_of_time"}, {"units": "seconds since 2000-01-01"})
    bounds = np.stack([starts.values, ends.values], 1)
    return xr.Dataset({"x": ("time", VALUES), "bounds_of_time": (("time", "b"), bounds)}, {"time": time})


@pytest.mark.parametrize("label", ["start", "middle", "end", "last second"])
@pytest.mark.parametrize("odd", [None, 0, 13, 29])
def test_a_month_ends_with_its_bounds(tmp_path: Path, label: str, odd: int | None) -> None:
    hours = {"start": MONTHS, "middle": MONTHS + pd.Timedelta("14D"), "end": NEXT}
    data = series(hours.get(label, NEXT - pd.Timedelta("1s")), MONTHS, NEXT)
    if odd is not None:
        data["bounds_of_time"][odd] = data["bounds_of_time"][odd, 0]
    (data if odd else data.transpose()).to_netcdf(tmp_path / "a.nc")
    read = read_index(index(tmp_path / "a.nc"), "x")
    assert read.indexes["time"].equals(LAST)
    np.testing.assert_array_equal(read, VALUES)


def test_a_mean_of_three_months_is_known_at_the_end_of_its_bounds(tmp_path: Path) -> None:
    data = series(MONTHS + pd.Timedelta("14D"), MONTHS - pd.offsets.MonthBegin(1), NEXT + pd.offsets.MonthBegin(1))
    data.to_netcdf(tmp_path / "a.nc")
    last = NEXT + pd.offsets.MonthBegin(1) - pd.Timedelta("1D")
    for keys in ({}, {"span": "3 months"}):
        assert read_index(index(tmp_path / "a.nc", **keys), "x").indexes["time"].equals(last)
    with refused("has means of 3 months by its bounds", "a span of 2; leave out span"):
        read_index(index(tmp_path / "a.nc", span=2), "x")
    data["bounds_of_time"][:, 1] -= np.timedelta64(1, "D")
    data.to_netcdf(tmp_path / "b.nc")
    with refused("b.nc: the bounds of its time leave out a day between means", "add one day to each end"):
        read_index(index(tmp_path / "b.nc"), "x")


@pytest.mark.parametrize("label", [0, 12, 24])
def test_a_day_ends_with_its_bounds(tmp_path: Path, label: int) -> None:
    days = pd.date_range("2004-02-15", periods=30).as_unit("ns")
    whole = series(days + pd.Timedelta(hours=label), days, days + pd.Timedelta("1D"))
    data = whole.isel(time=[*range(7), *range(8, 30)])  # a day that is missing is no fault of inclusive bounds
    data.to_netcdf(tmp_path / "a.nc")
    assert read_index(index(tmp_path / "a.nc"), "x").indexes["time"].equals(days.delete(7))


def test_labels_decide_without_bounds(tmp_path: Path) -> None:
    days = pd.date_range("2004-02-15", periods=30).as_unit("ns")
    data = series(days + pd.Timedelta("23:59:59"), days, days).drop_vars("bounds_of_time")
    data.to_netcdf(tmp_path / "a.nc")
    assert read_index(index(tmp_path / "a.nc"), "x").indexes["time"].equals(days)


def test_what_the_file_calls_no_data_is_missing() -> None:
    data = series(MONTHS, MONTHS, NEXT)
    data["x"].attrs |= {"valid_min": -5.0, "valid_max": 5.0, "units": "1"}
    data["x"][3] = -7.5
    quality = np.full(30, 2, "i1")
    quality[5] = 1
    attributes = {
        "flag_values": np.array([1, 2], "i1"),
        "flag_meanings": "bad good",
        "standard_name": "quality_flag",
    }
    data["quality"] = ("time", quality, attributes)
    expected = np.where(np.isin(np.arange(30), [3, 5]), np.nan, VALUES)
    with logged() as lines:
        table, units = series_of(data, None, Path("a"))
    np.testing.assert_array_equal(table["value"], expected)
    assert units == "1"
    assert "a: x has 1 value outside its valid_min and valid_max (-5..5), taken as missing" in lines
    assert any("where quality is 2, the best, alone" in line for line in lines)


def test_thirds_of_an_index_are_those_of_the_month_of_its_bounds(tmp_path: Path) -> None:
    dates = pd.date_range("2003-01-15", "2005-06-15", freq="7D")
    for name, labels in (("ends", NEXT), ("starts", MONTHS)):
        series(labels, MONTHS, NEXT).to_netcdf(tmp_path / f"{name}.nc")
    tables = xr.Dataset(coords={"init_time": dates, "box": ["region"]})
    found = [thirds(tables, str(tmp_path / f"{name}.nc")) for name in ("ends", "starts")]
    xr.testing.assert_identical(*found)
    of_day = pd.Series(VALUES, MONTHS.to_period("M"))[dates.to_period("M")].values
    is_upper = found[0].values == THIRDS[-1]
    assert of_day[is_upper].min() >= of_day[~is_upper].max()


@pytest.mark.parametrize("minutes", [20, 60, 180])
def test_a_series_of_hours_is_averaged_to_days_of_utc(minutes: int) -> None:
    time = pd.date_range("2004-02-20", "2004-03-10 23:59", freq=f"{minutes}min").as_unit("ns")
    values = np.random.default_rng(0).normal(size=len(time))
    data = xr.Dataset({"x": ("time", values)}, {"time": time})
    table, _ = series_of(data, None, Path("a"))
    expected = pd.Series(values, time).resample("1D").mean()
    assert table.index.equals(expected.index)
    np.testing.assert_allclose(table["value"], expected, rtol=1e-12)
    twice = xr.concat([data, data.isel(time=[7])], "time")
    np.testing.assert_allclose(series_of(twice, None, Path("a"))[0]["value"], expected, rtol=1e-12)
    twice["x"][-1] += 1
    with refused("a: x has different values at 2004-02-20", "local time? give an offset"):
        series_of(twice, None, Path("a"))


def test_irregular_times_count_by_their_hours() -> None:
    minutes = np.sort(np.random.default_rng(1).choice(5 * 1440, 1200, replace=False))
    time = np.datetime64("2004-02-27", "ns") + minutes * np.timedelta64(1, "m")
    values = np.random.default_rng(0).normal(size=1200)
    table, _ = series_of(xr.Dataset({"x": ("time", values)}, {"time": time}), None, Path("a"))
    of_hours = pd.Series(values, minutes // 60).groupby(level=0).mean()
    for day in range(1, 4):
        hours = of_hours[(of_hours.index >= 24 * day) & (of_hours.index < 24 * day + 24)]
        if len(hours) == 24:
            assert table["value"].iloc[day - (table.index[0].day != 27)] == pytest.approx(hours.mean(), rel=1e-12)
    assert "2004-02-29" in table.index
