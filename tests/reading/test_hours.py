"""Days from hours: the means of days of UTC, against xarray's resample and plain sums, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from logged import logged
from refusals import refused

from sstcast.config import FieldSource, PredictorConfig
from sstcast.predictors.index_series import read_index
from sstcast.predictors.values import hours_that_mark
from sstcast.reading.fields import steps_a_day
from sstcast.reading.forecast_files import read_forecasts
from sstcast.reading.hours import RefusedHours, daily_steps
from sstcast.reading.reading import open_daily, open_sst
from sstcast.reading.valid_days import Periods
from sstcast.reading.xarray_objects import hold

HOUR = np.timedelta64(3600, "s")
DAY = 24 * HOUR
TIME = pd.date_range("2004-02-20", "2004-03-20 23:00", freq="h").as_unit("ns")  # across a leap day
RANDOM = np.random.default_rng(0)
VALUES = RANDOM.normal(15, 2, (len(TIME), 3, 4)).astype("f4")
VALUES[:, 0, 0] = np.nan  # land
AXES = {"lat": [-42.0, -41.75, -41.5], "lon": [148.0, 148.25, 148.5, 148.75]}


def hourly(every: int = 1, **attributes: Any) -> xr.Dataset:
    """Return values every so many hours, at instants."""
    field = xr.DataArray(VALUES.copy(), {"time": TIME, **AXES}, ("time", "lat", "lon"), "sst", {"units": "degC"})
    return field[::every].assign_attrs(attributes).to_dataset()


def labelled(shift: float, starts: float | None = None, stops: float = 0, **attributes: Any) -> xr.Dataset:
    """Return hourly averages labelled some hours after their beginning, with bounds if these are given."""
    data = hourly(**attributes)
    begin = data["time"].values
    data = data.assign_coords(time=begin + (shift * 3600 * 1e9).__round__() * np.timedelta64(1, "ns"))
    if starts is not None:
        data["time"].attrs["bounds"] = "bounds"
        data["bounds"] = (("time", "nv"), np.stack([begin, begin + HOUR], 1))
    return data


def read(data: xr.Dataset, is_sst: bool = True) -> xr.DataArray:
    source = FieldSource(source=hold(data))
    with (open_sst if is_sst else open_daily)(source) as days:
        return days.load()


def expected(data: xr.Dataset) -> xr.DataArray:
    return data["sst"].astype(float).resample(time="1D").mean()


@pytest.mark.parametrize("every", [1, 2, 3, 6, 12])
def test_even_steps_give_the_means_of_resample(every: int) -> None:
    data = hourly(every)
    days = read(data)
    assert days.indexes["time"].equals(expected(data).indexes["time"])
    np.testing.assert_allclose(days, expected(data), rtol=1e-6)


@pytest.mark.parametrize(
    "data",
    [
        labelled(1, 0, 1, cell_methods="time: mean"),
        labelled(0, 0, 1, cell_methods="time: mean"),
        labelled(0.5, cell_methods="time: mean"),
        labelled(1, GRIB_stepType="avg"),
        labelled(1, step_type="avg"),
    ],
    ids=["end and bounds", "start and bounds", "middle", "GRIB", "step_type"],
)
def test_averages_of_hours_count_where_their_period_lies(data: xr.Dataset) -> None:
    days = read(data)
    np.testing.assert_allclose(days, expected(hourly()), rtol=1e-6)


def test_files_of_a_month_or_an_hour_give_the_days_of_one_file(tmp_path: Path) -> None:
    data = labelled(1, 0, 1)
    data["time"].encoding["units"] = "hours since 2004-01-01"
    for name, parts in (
        ("months", [data.sel(time=slice(None, "2004-02-29 12")), data.sel(time=slice("2004-02-29 13", None))]),
        ("hours", [data.isel(time=[step]) for step in range(50)]),
    ):
        (tmp_path / name).mkdir()
        for number, part in enumerate(parts):
            part.to_netcdf(tmp_path / name / f"{number:03}.nc", engine="netcdf4")
        with open_sst(FieldSource(source=tmp_path / name)) as days:
            count = 2 if name == "hours" else 30
            assert days.sizes["time"] == count
            np.testing.assert_allclose(days, expected(hourly())[:count], rtol=1e-6)


def test_a_clock_that_stops_leaves_its_days_out_and_halves_at_the_ends_too() -> None:
    data = hourly().isel(time=[*range(5, 100), *range(112, 300), *range(305, 700)])
    days = read(data)
    whole = pd.date_range("2004-02-21", "2004-03-19")  # the first and the last day are halves
    lost = pd.DatetimeIndex(["2004-02-24"])  # has 4 + 8 hours, the day with 19 hours stays
    assert days.indexes["time"].equals(whole.difference(lost).as_unit("ns"))
    of_part = data["sst"].sel(time="2004-03-03").astype(float)
    assert of_part.sizes["time"] == 19
    np.testing.assert_allclose(days.sel(time="2004-03-03"), of_part.mean("time"), rtol=1e-6)


def test_a_cell_needs_18_hours_and_a_value_in_each_quarter() -> None:
    data = hourly()
    data["sst"][24:29, 1, 1] = np.nan  # five of the first quarter: a value is left
    data["sst"][48:54, 1, 1] = np.nan  # the whole quarter
    data["sst"][72:96:3, 1, 1] = np.nan  # every third hour
    days = read(data).isel(lat=1, lon=1)
    kept = hourly()["sst"][24:48, 1, 1].values.astype(float)[5:].mean()
    assert days.values[1] == pytest.approx(kept, rel=1e-6)
    np.testing.assert_array_equal(np.isnan(days.values[:5]), [False, False, True, True, False])


def test_a_day_is_of_utc_and_a_value_stands_across_midnight() -> None:
    at = np.datetime64("2001-01-01T00:00:00") + 6 * HOUR * np.arange(9) + 4 * HOUR
    steps = daily_steps(Periods.at(at), {}, "a")
    assert steps.days.astype("M8[D]").tolist() == [np.datetime64("2001-01-02").item()]
    weights = steps.weights().sum(1) / 3600
    assert weights.tolist() == [[0, 0, 0, 4, 6, 6, 6, 2, 0]]
    zoned = labelled(10)  # hours of a clock ten hours ahead, decoded to UTC
    zoned = zoned.assign_coords(time=zoned["time"] - 10 * HOUR)
    zoned["time"].encoding["units"] = "hours since 2000-01-01 +10:00"
    np.testing.assert_allclose(read(zoned), expected(hourly()), rtol=1e-6)


def test_no_block_reads_a_value_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sstcast.reading.hours.VALUES_AT_ONCE", 3 * 24 * 12)
    monkeypatch.setattr("sstcast.reading.fields.VALUES_AT_ONCE", 3 * 25 * 12)
    data = hourly()
    with open_sst(FieldSource(source=hold(data))) as days:
        assert days.chunks[0] == (3,) * 10
        np.testing.assert_allclose(days, expected(hourly()), rtol=1e-6)


REFUSED: dict[str, tuple[xr.Dataset, str]] = {
    "a mean": (hourly(cell_methods="time: mean"), "nothing tells over which period; write its bounds"),
    "GRIB": (hourly(GRIB_stepType="accum"), "is accumulated (GRIB_stepType 'accum')"),
    "a sum": (hourly(cell_methods="area: mean time: sum"), "is accumulated (cell_methods"),
    "energy": (hourly(units="J m**-2"), "give the mean rate instead"),
    "rain": (hourly(units="m", long_name="Total precipitation"), "is accumulated (units 'm')"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_mean_of_a_day_is_refused(name: str) -> None:
    data, words = REFUSED[name]
    with refused(words):
        read(data, is_sst=False)


def test_averages_that_overlap_are_refused_with_their_hours() -> None:
    labels = np.arange(3, 49, 3) * HOUR
    starts = np.where(np.arange(3, 49, 3) % 6 == 3, labels - 3 * HOUR, labels - 6 * HOUR)
    with refused("overlap, 0 h to 3 h and 0 h to 6 h; keep those that do not"):
        daily_steps(Periods(labels, starts, labels, np.ones(labels.shape, bool)), {}, "a: wind")


def test_a_number_of_an_hour_that_is_no_temperature_is_refused() -> None:
    data = hourly()
    data["sst"][30, 2, 1] = 99
    data["sst"][:, 0, 0] = -999
    with refused("99 degC on 2004-02-21 at lat -41.5, lon 148.25"):
        read(data)


def test_a_date_twice_is_no_record_of_hours() -> None:
    days = np.arange(9) * 24
    for labels, count in ((days, 1), (np.append(days, 12), 1), (days[:1], 1), (np.append(days, days + 12), 2)):
        assert steps_a_day(labels * HOUR) == count
    assert steps_a_day(TIME.values) == 24


def forecasts(begin: int, every: int = 3, first: int = 0, **attributes: Any) -> xr.Dataset:
    """Return forecasts of the hours themselves, from an hour of the day, to day 4."""
    init = pd.date_range("2004-02-24", periods=3, freq="5D") + pd.Timedelta(hours=begin)
    leads = np.arange(first, 97, every)
    values = np.stack([hourly()["sst"].sel(time=start + pd.to_timedelta(leads, "h")).values for start in init])
    lead = ("lead", leads, {"units": "hours"})
    dims = ("init_time", "lead", "lat", "lon")
    return xr.Dataset(
        {"sst": (dims, values, {"units": "degC"} | attributes)}, {"init_time": init, "lead": lead, **AXES}
    )


@pytest.mark.parametrize("begin", [0, 6, 12, 18])
def test_the_first_lead_is_the_first_day_with_all_its_hours(tmp_path: Path, begin: int) -> None:
    forecasts(begin).to_netcdf(tmp_path / "a.nc", engine="netcdf4")
    found = read_forecasts(tmp_path / "a.nc").sst
    first = np.datetime64("2004-02-24") + (begin > 0)
    valid = found["init_time"].values[0] + found["lead"].values.astype("m8[D]")
    assert valid.astype("M8[D]").tolist() == (first + np.arange(4 if begin == 0 else 3)).tolist()
    assert found["lead"].values[0] == 1
    of_days = expected(hourly(3))
    for number, init in enumerate(found["init_time"].values):
        days = of_days.sel(time=init + found["lead"].values.astype("m8[D]"))
        np.testing.assert_allclose(found[0, number], days, rtol=1e-6)


def test_steps_that_end_at_their_leads_and_leads_of_other_valid_times(tmp_path: Path) -> None:
    data = forecasts(0, first=3, GRIB_stepType="avg")
    data.to_netcdf(tmp_path / "a.nc", engine="netcdf4")
    found = read_forecasts(tmp_path / "a.nc").sst
    assert found["init_time"].values[0] == np.datetime64("2004-02-23")
    assert found["lead"].values.tolist() == [1, 2, 3, 4]
    sums = data["sst"].values.astype(float).reshape(3, 4, 8, 3, 4).mean(2)
    np.testing.assert_allclose(found[0], sums, rtol=1e-6)
    whole = forecasts(0)
    valid = whole["init_time"] + whole["lead"].drop_attrs() * HOUR.astype("m8[ns]")
    whole.assign_coords(valid_time=(valid + 6 * HOUR).drop_vars("lead")).to_netcdf(
        tmp_path / "b.nc", engine="netcdf4"
    )
    found = read_forecasts(tmp_path / "b.nc")
    assert "its leads contradict its valid times, which decide" in found.note
    assert found.sst["init_time"].values[0] == np.datetime64("2004-02-24")
    np.testing.assert_allclose(found.sst[0, 0, 0], whole["sst"][0, 6:14].astype(float).mean("lead"), rtol=1e-6)


def test_forecasts_of_several_hours_and_their_spread_are_refused(tmp_path: Path) -> None:
    mixed = xr.concat([forecasts(0), forecasts(6)], "init_time")
    mixed.to_netcdf(tmp_path / "a.nc", engine="netcdf4")
    with refused("forecasts begin at several hours", "select forecasts from one hour"):
        read_forecasts(tmp_path / "a.nc")
    data = forecasts(0)
    data.assign(sst_spread=data["sst"] * 0 + 1).to_netcdf(tmp_path / "b.nc", engine="netcdf4")
    with refused("has the spread of each hour, which does not tell that of a day"):
        read_forecasts(tmp_path / "b.nc")


def test_the_script_of_the_recipes_keeps_the_days_that_the_reader_makes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A made-up store with the dimensions of GEFS's 35 days at dynamical.org, and later an issue more."""
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs/predictors.md").read_text()
    script = next(block.split("```")[0] for block in page.split("```python\n") if "wind_u_10m" in block)
    leads = np.append(np.arange(0, 240, 3), np.arange(240, 841, 6))
    shape = (4, 2, len(leads), 5, 6)
    dims = ("init_time", "ensemble_member", "lead_time", "latitude", "longitude")
    axes = {
        "init_time": pd.date_range("2021-01-01", periods=4, freq="12h"),
        "ensemble_member": [0, 1],
        "lead_time": leads * HOUR.astype("m8[ns]"),
        "latitude": [-20.0, -30, -40, -50, -60],
        "longitude": [130.0, 140, 150, 160, 170, 190],
    }
    values = RANDOM.normal(5, 2, shape).astype("f4")
    data = xr.Dataset({name: (dims, values, {"units": "m s-1"}) for name in ("wind_u_10m", "wind_v_10m")}, axes)
    for count in (2, 4):
        data.isel(init_time=slice(count)).to_zarr("made-up.zarr", mode="w", zarr_format=2)
        exec(script, {"STORE": "made-up.zarr"})
    kept = read_forecasts(Path("gefs.zarr"), variable="wind_u_10m", is_sst=False).sst
    assert kept.shape == (1, 2, 35, 3, 4)
    data.sel(init_time=axes["init_time"][::2], latitude=[-30, -40, -50], longitude=[140, 150, 160, 170])[
        ["wind_u_10m"]
    ].to_netcdf("hours.nc", engine="netcdf4")
    hours = read_forecasts(Path("hours.nc"), is_sst=False).sst
    assert hours.sizes["member"] == 2
    for axis in ("init_time", "lead", "lat", "lon"):
        np.testing.assert_array_equal(kept[axis], hours[axis])
    np.testing.assert_allclose(kept[0], hours.mean("member"), rtol=1e-5)


def daily(hour: int, days: slice, add: float = 0, **attributes: str) -> xr.Dataset:
    """Return a value a day, of the hours of some days at an hour, and some degrees more."""
    found = hourly().isel(time=slice(0, None, 24)).isel(time=days)
    return (found.assign_coords(time=found["time"] + hour * HOUR.astype("m8[ns]")) + add).assign_attrs(attributes)


def written(folder: Path, *parts: xr.Dataset) -> FieldSource:
    """Write each part to a file of a folder, in order."""
    folder.mkdir()
    for number, part in enumerate(parts):
        part["sst"].attrs["units"] = "degC"
        part.to_netcdf(folder / f"{number:03}.nc", engine="netcdf4")
    return FieldSource(source=folder)


def test_files_of_a_value_a_day_are_days_whatever_the_hours_of_their_labels(tmp_path: Path) -> None:
    days, later = slice(0, 9), slice(6, 12)
    with refused("000.nc and", "001.nc: overlap from 2004-02-26 to 2004-02-28"):
        open_sst(written(tmp_path / "two", daily(0, days), daily(12, later, 1)))
    preliminary, final = daily(0, later, id="preliminary"), daily(12, days, 1)
    whole = (preliminary, final)
    each = [part.isel(time=[day]) for part in whole for day in range(part.sizes["time"])]
    for name, parts in (("whole", whole), ("each", each)):
        with open_sst(written(tmp_path / name, *parts)) as sst:
            assert sst.sizes["time"] == 12
            np.testing.assert_allclose(sst[:9], final["sst"], rtol=1e-6)
            np.testing.assert_allclose(sst[9:], preliminary["sst"][3:], rtol=1e-6)


def test_days_beside_hours_are_refused(tmp_path: Path) -> None:
    hours, days = hourly().isel(time=slice(0, 240)), daily(0, slice(12, 20))
    with refused("001.nc holds a value a day, but", "000.nc several; keep one kind in the folder"):
        open_sst(written(tmp_path / "a", hours, days))
    with refused("001.nc holds a value a day, but", "000.nc several"):
        open_sst(written(tmp_path / "b", hours, *(days.isel(time=[day]) for day in range(8))))


def test_a_mark_of_a_missing_value_in_an_hour_is_not_averaged(tmp_path: Path) -> None:
    data = hourly()
    data["sst"][30, 2, 1] = 999
    data["sst"][:, 0, 0] = 9999  # as land, of which no cell of a run reads
    source = FieldSource(source=hold(data))
    marks = RefusedHours(hours_that_mark, "it marks")
    with refused("999 on 2004-02-21 at lat -41.5, lon 148.25; it marks"), open_daily(source, marks) as field:
        field.load()
    with open_daily(source) as field:
        np.testing.assert_allclose(field, expected(data), rtol=1e-6)
    ahead = forecasts(0)
    ahead["sst"][1, 9, 2, 1] = 999
    ahead.to_netcdf(tmp_path / "ahead.nc", engine="netcdf4")
    with refused("999 on", "2004-02-29", "at lat -41.5, lon 148.25; it marks"):
        read_forecasts(tmp_path / "ahead.nc", is_sst=False, refused=marks).sst.load()
    series = data["sst"][:, 2, 1].to_dataset(name="value").drop_vars(("lat", "lon"))
    series.to_netcdf(tmp_path / "a.nc", engine="netcdf4")
    with logged() as lines:
        values = read_index(PredictorConfig(kind="index", source=str(tmp_path / "a.nc")), "a")
    assert any("takes 999 as missing" in line for line in lines)
    known = series["value"].astype(float).where(series["value"] < 99).resample(time="1D").mean()
    np.testing.assert_allclose(values, known, rtol=1e-6)


def test_a_box_keeps_hours_outside_the_range_of_sst_if_asked(tmp_path: Path) -> None:
    data = hourly()
    data["sst"][30, 2, 1] = 60
    data.to_netcdf(tmp_path / "a.nc", engine="netcdf4")
    config = PredictorConfig(kind="index", source=str(tmp_path / "a.nc"), region="147.9,148.85,-42.1,-41.4")
    with refused("60 degC on 2004-02-21", "data.predictors.a.implausible: keep"):
        read_index(config, "a")
    values = read_index(config.model_copy(update={"implausible": "keep"}), "a")
    area = np.cos(np.deg2rad(data["lat"]))
    np.testing.assert_allclose(values, expected(data).weighted(area).mean(("lat", "lon")), rtol=1e-4)


def test_valid_times_tell_whether_leads_are_hours(tmp_path: Path) -> None:
    data = forecasts(0, every=1).isel(lead=slice(0, 5))  # days that are called hours

    def read_with(ahead: list[int], leads: list[int] | None = None) -> xr.DataArray:
        own = data.isel(lead=slice(len(ahead)))
        if leads is not None:
            own = own.assign_coords(lead=("lead", leads, {"units": "hours"}))
        path = tmp_path / f"{ahead}.nc"
        valid = own["init_time"].values[:, None] + np.array(ahead) * HOUR.astype("m8[ns]")
        own.assign_coords(valid_time=(("init_time", "lead"), valid)).to_netcdf(path, engine="netcdf4")
        return read_forecasts(path).sst

    days = read_with([0, 24, 48, 72, 96])
    np.testing.assert_array_equal(days[0], data["sst"])
    assert days["lead"].values.tolist() == [1, 2, 3, 4, 5]
    with refused("several leads fall on one day"):
        read_with([24] * 5)
    two = read_with([12, 24], [12, 24])
    np.testing.assert_array_equal(two[0], data["sst"][:, :2])
    with refused("has a lead twice, 6 h; keep one value"):
        read_with([0, 6, 6, 12, 18], [0, 6, 6, 12, 18])
