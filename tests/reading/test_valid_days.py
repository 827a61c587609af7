"""The days of averages: from bounds if they span a day, else from labels, in observations and forecasts."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from logged import logged
from refusals import refused
from small_ocean import make_sst

from sstcast.config import FieldSource
from sstcast.forecasting.history import last_consecutive, recognised
from sstcast.geo import NORTH, SOUTH
from sstcast.ocean.init_config import start
from sstcast.reading.fields import find_field
from sstcast.reading.forecast_files import read_forecasts
from sstcast.reading.reading import open_sst
from sstcast.reading.valid_days import days_of
from sstcast.scores.score import score

DAY = np.timedelta64(1, "D")
HOUR = np.timedelta64(1, "h")


def labelled(label: int, first: int, last: int, count: int = 40) -> xr.Dataset:
    """Return days whose labels and bounds lie these hours after their beginning at 00:00."""
    ocean = make_sst(1).isel(time=slice(count))
    begin = ocean["time"].values
    ocean = ocean.assign_coords(time=begin + label * HOUR)
    ocean["time"].attrs["bounds"] = "time_bnds"
    ocean["time_bnds"] = (("time", "nv"), np.stack([begin + first * HOUR, begin + last * HOUR], axis=1))
    ocean["sst"].attrs["cell_methods"] = "time: mean"
    return ocean


@pytest.mark.parametrize("calendar", ["standard", "noleap"])
@pytest.mark.parametrize(
    ("hours", "moved"),
    [
        ((24, 0, 24), -1),  # the end of the day: the label is the next day
        ((0, 0, 24), 0),
        ((12, 0, 24), 0),
        ((12, -12, 12), 0),  # the middle is at midnight: the label decides
        ((-12, -12, 12), 0),
        ((24, -12, 12), -1),
        ((30, 6, 30), -1),
        ((24, 0, 1), 0),  # not of a day, so ignored
        ((24, 0, 168), 0),
    ],
)
def test_bounds_that_span_a_day_decide(
    tmp_path: Path, hours: tuple[int, int, int], moved: int, calendar: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ocean = labelled(*hours)
    encoding = {"units": "hours since 2000-01-01", "calendar": calendar, "dtype": "f8"}
    ocean.to_netcdf(tmp_path / "a.nc", encoding={"time": encoding, "time_bnds": encoding}, engine="netcdf4")
    label = pd.DatetimeIndex(ocean["time"].values).normalize()
    with open_sst(FieldSource(source=tmp_path / "a.nc")) as sst:
        assert sst.indexes["time"].equals(label + moved * DAY)
        assert sst.attrs["averages"] == ""
    told = capsys.readouterr().err
    assert ("bounds are ignored, because they do not span one day" in told) is (hours[2] - hours[1] != 24)
    assert ("days are those of the time bounds" in told) is bool(moved)


def test_the_days_of_a_history_in_memory(capsys: pytest.CaptureFixture[str]) -> None:
    for label, ambiguous in ((24, True), (12, False)):
        history = labelled(label, 0, 24)[
            "sst"
        ]  # an array has no bounds, because these have a dimension of their own
        days = history["time"].values[-10:].astype("datetime64[D]")
        np.testing.assert_array_equal(last_consecutive(recognised(history), 10)["time"].values, days)
        assert ("an array does not hold the bounds of its time" in capsys.readouterr().err) is ambiguous


DAYS = pd.date_range("2003-12-20", periods=80)  # across a leap day
SECOND = np.timedelta64(1, "s")
ENDS = {"start": 0 * SECOND, "noon": 12 * HOUR, "last second": DAY - SECOND, "end": DAY}
ODD: dict[
    str, tuple[int, list[np.timedelta64] | list[np.datetime64]]
] = {  # place, and start and end of its bounds
    "none": (0, [0 * DAY, DAY]),
    "first without length": (0, [0 * DAY, 0 * DAY]),
    "first of two days": (0, [-DAY, DAY]),
    "middle of another epoch": (40, [7300 * DAY, 7301 * DAY]),
    "last missing": (79, [np.timedelta64("NaT"), np.timedelta64("NaT")]),
}


def bounded(label: str, odd: str = "none", turned: bool = False, first: int = 0, stop: int = 80) -> xr.Dataset:
    """Return the axis of days with bounds, in one of which something is odd."""
    days = DAYS.values
    ends = np.stack([days, days + DAY], 1)
    place, (start, end) = ODD[odd]
    ends[place] = days[place] + start, days[place] + end
    dims = ("time", "nv")
    time = xr.Variable("time", days + ENDS[label], {"bounds": "time_bnds"})
    dataset = xr.Dataset({"time_bnds": (dims, ends)}, {"time": time}).isel(time=slice(first, stop))
    return dataset.transpose() if turned else dataset


@pytest.mark.parametrize("turned", [False, True], ids=["time first", "bounds first"])
@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("label", ENDS)
def test_neither_labels_nor_an_odd_bound_move_a_day(label: str, odd: str, turned: bool) -> None:
    whole = bounded(label, odd, turned)
    days, notes = days_of(whole["time"], whole, Path("a"))
    assert days.equals(DAYS)
    assert any("days are those of the time bounds" in note for note in notes) is (label == "end")
    assert any("bounds of 1 of 80 values are ignored" in note for note in notes) is (odd != "none")
    for first, stop in ((0, 12), (12, 43), (43, 72), (72, 80)):  # a file a month
        part = bounded(label, odd, turned, first, stop)
        assert days_of(part["time"], part, Path("a"))[0].equals(DAYS[first:stop])


def test_bounds_in_the_encoding_and_of_one_value_decide() -> None:
    whole = bounded("end")
    whole["time"].encoding["bounds"] = whole["time"].attrs.pop("bounds")
    assert days_of(whole["time"], whole.set_coords("time_bnds"), Path("a"))[0].equals(DAYS)
    day = bounded("end").isel(time=3)
    assert days_of(day["time"], day, Path("a"))[0].equals(DAYS[3:4])
    assert days_of(bounded("end", turned=True, stop=2)["time"], bounded("end", turned=True, stop=2), Path("a"))[
        0
    ].equals(DAYS[:2])


def test_labels_decide_where_most_bounds_are_of_another_time() -> None:
    whole = bounded("start")
    whole["time_bnds"] = whole["time_bnds"] + 7300 * DAY
    days, notes = days_of(whole["time"], whole, Path("a"))
    assert days.equals(DAYS)
    assert notes == ["its time bounds are ignored, because they do not span one day"]


@pytest.mark.parametrize("zone", ["", "+10:00", "-06:00", "+0530", "-6"])
@pytest.mark.parametrize("hour", ["00:00:00", "12:00"])
def test_a_day_is_the_date_of_a_label_in_its_own_time_zone(zone: str, hour: str) -> None:
    units = f"days since 2001-01-01 {hour} {zone}".strip()
    ends = np.add.outer(np.arange(4.0), [0, 1]) - (0.5 if hour == "12:00" else 0)
    time = ("time", np.arange(4.0), {"units": units, "bounds": "time_bnds"})
    made = xr.Dataset({"time_bnds": (("time", "nv"), ends)}, {"time": time})
    for dataset in (xr.decode_cf(made), xr.decode_cf(made.drop_vars("time_bnds"))):
        days, _ = days_of(dataset["time"], dataset, Path("a"))
        assert days.equals(pd.date_range("2001-01-01", periods=4))


@pytest.mark.parametrize("attributes", [{"cell_methods": "time: mean"}, {"GRIB_stepType": "avg"}, {}])
def test_attributes_alone_never_move_observations(tmp_path: Path, attributes: dict[str, str]) -> None:
    ocean = make_sst(3)
    ocean["sst"].attrs |= attributes
    with xr.set_options(keep_attrs=True):
        ocean.resample(time="1D").mean().to_netcdf(tmp_path / "daily.nc", engine="netcdf4")
    with open_sst(FieldSource(source=tmp_path / "daily.nc")) as sst:
        np.testing.assert_array_equal(sst["time"], ocean["time"])
    lines = start(FieldSource(source=tmp_path / "daily.nc"), tmp_path / "a.yaml")
    told = [line for line in lines if "does not tell whether a label is the start or the end" in line]
    assert len(told) == bool(attributes)
    assert all(" ".join(attributes) in line for line in told)


def issued(kind: str) -> tuple[xr.Dataset, xr.Dataset]:
    """Return observations, and forecasts of the mean of each day plus 0.3 degC, labelled at the day's end."""
    ocean = make_sst(4)
    init, steps = pd.date_range("2004-02-01", "2004-11-20", freq="7D"), np.arange(1, 9)
    days = init.values[:, None] + (steps - 1) * DAY
    values = ocean["sst"].sel(time=xr.DataArray(days, dims=("time", "step"))).drop_vars("time") + np.float32(0.3)
    lead, attributes = ("step", steps * DAY.astype("m8[ns]")), {"standard_name": "forecast_period"}
    made = xr.Dataset(
        {"sst": values.assign_attrs(units="degC")}, {"time": init.values, "step": (*lead, attributes)}
    )
    made["time"].attrs["standard_name"] = "forecast_reference_time"
    if kind in ("avg", "instant"):
        made["sst"].attrs["GRIB_stepType"] = kind
    elif kind == "bounds of hours":
        made = made.assign_coords(
            step=("step", 24 * steps, attributes | {"units": "hours", "bounds": "step_bnds"})
        )
        made["step_bnds"] = (("step", "nv"), np.stack([24 * (steps - 1), 24 * steps], axis=1))
    elif kind == "bounds of valid days":
        made = made.isel(time=0).rename(time="reference")
        made = made.assign_coords(time=("step", days[0] + DAY)).swap_dims(step="time").drop_vars("step")
        made["time"].attrs = {"standard_name": "time", "bounds": "time_bnds"}
        made["time_bnds"] = (("time", "nv"), np.stack([days[0], days[0] + DAY], axis=1))
        made["time"].encoding = {"units": "days since 2004-01-01"}
    return ocean, made


@pytest.mark.parametrize("kind", ["avg", "bounds of hours", "bounds of valid days", "instant"])
def test_forecasts_of_averages_are_of_the_day_before_their_label(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.chdir(tmp_path)
    ocean, made = issued(kind)
    made.to_netcdf(tmp_path / "forecasts.nc", engine="netcdf4")
    found = read_forecasts(tmp_path / "forecasts.nc")
    valid = found.sst["init_time"].values[0] + found.sst["lead"].values * DAY
    first = np.datetime64("2004-02-01" if kind != "instant" else "2004-02-02")
    np.testing.assert_array_equal(valid, first + np.arange(8) * DAY)
    if kind == "avg":
        ocean.to_netcdf(tmp_path / "truth.nc", engine="netcdf4")
        with logged() as lines:
            metrics, _, _ = score(tmp_path / "forecasts.nc", FieldSource(source=tmp_path / "truth.nc"))
        errors = metrics["scores"]["model"]["degC"]["by_lead"]
        np.testing.assert_allclose([errors["rmse"], errors["bias"]], 0.3, atol=1e-5)
        assert any("the first valid day is 2004-02-01" in line for line in lines)
        assert any("each step is of the 24 hours before it (GRIB_stepType avg)" in line for line in lines)


def test_an_average_from_noon_to_noon_is_of_the_day_of_its_label(tmp_path: Path) -> None:
    _, made = issued("avg")
    made.assign_coords(time=made["time"] + 12 * HOUR).to_netcdf(tmp_path / "a.nc", engine="netcdf4")
    found = read_forecasts(tmp_path / "a.nc").sst
    assert (found["init_time"].values[0] + found["lead"].values[0] * DAY) == np.datetime64("2004-02-02")


LEADS = np.arange(1, 13)


def forecasts(turned: bool = False, first: tuple[int, int] | None = None, dates: bool = False) -> xr.Dataset:
    """Return forecasts labelled at the end of their days, whose values tell the day, with bounds of the leads."""
    leads = LEADS if first is None else np.append(0, LEADS)
    ends = np.stack([leads - 1, leads], 1).astype(float)
    if first is not None:
        ends[0] = first
    made = make_sst(1).isel(time=0, drop=True)["sst"] * 0 + xr.DataArray(leads.astype("f4"), dims="lead")
    made = (
        made.expand_dims(init_time=[np.datetime64("2001-01-10", "ns")])
        .assign_attrs(units="degC")
        .to_dataset(name="sst")
    )
    attributes = {"standard_name": "forecast_period", "units": "days", "bounds": "lead_bnds"}
    made = made.assign_coords(lead=("lead", leads.astype(float), attributes))
    if dates:
        valid = made["init_time"].values + ends * 24 * HOUR
        made = made.drop_vars("lead").assign(lead_bnds=(("lead", "nv"), valid.astype("M8[ns]")))
        time = ("lead", valid[:, 1].astype("M8[ns]"), {"standard_name": "time", "bounds": "lead_bnds"})
        made = made.assign_coords(time=time).swap_dims(lead="time").squeeze("init_time")
        made["time"].encoding["units"] = "days since 2001-01-01"
    else:
        made["lead_bnds"] = (("lead", "nv"), ends)
    return made.transpose() if turned else made


@pytest.mark.parametrize("first", [None, (0, 0)], ids=["", "lead 0 without length"])
@pytest.mark.parametrize("dates", [False, True], ids=["bounds of leads", "bounds of valid days"])
@pytest.mark.parametrize("turned", [False, True], ids=["leads first", "bounds first"])
def test_leads_with_bounds_are_of_the_days_of_the_bounds(
    tmp_path: Path, turned: bool, dates: bool, first: tuple[int, int] | None
) -> None:
    forecasts(turned, first, dates).to_netcdf(tmp_path / "a.nc", engine="netcdf4")
    found = read_forecasts(tmp_path / "a.nc")
    assert found.sst["init_time"].values.astype("M8[D]").tolist() == [np.datetime64("2001-01-09").item()]
    assert found.sst["lead"].values.tolist() == LEADS.tolist()
    np.testing.assert_array_equal(found.sst.max(("lat", "lon")).values.ravel(), LEADS)
    assert ("without its first lead, whose bounds have no length" in found.note) is (first is not None)


def test_an_odd_bound_moves_no_lead_and_a_longer_one_is_refused(tmp_path: Path) -> None:
    made = forecasts()
    made["lead_bnds"][5] = np.nan
    for name, bounds in (("missing", np.nan), ("two days", np.array([4.0, 6.0]))):
        made["lead_bnds"][5] = bounds
        made.to_netcdf(tmp_path / f"{name}.nc", engine="netcdf4")
    found = read_forecasts(tmp_path / "missing.nc")
    np.testing.assert_array_equal(found.sst.max(("lat", "lon")).values.ravel(), LEADS)
    with refused("bounds of lead over 2 days"):
        read_forecasts(tmp_path / "two days.nc")


def test_of_several_valid_times_the_one_called_so_decides(tmp_path: Path) -> None:
    made = forecasts().drop_vars("lead_bnds")
    made["lead"].attrs.pop("bounds")
    valid = made["init_time"] + made["lead"].drop_attrs() * DAY.astype("m8[ns]")
    made = made.assign_coords(other=valid + DAY, valid_time=valid, third=valid + 2 * DAY)
    for name in ("other", "third"):
        made[name].attrs["standard_name"] = "time"
    made.to_netcdf(tmp_path / "a.nc", engine="netcdf4")
    found = read_forecasts(tmp_path / "a.nc")
    assert found.sst["init_time"].values[0] == np.datetime64("2001-01-10")
    assert "its valid_time and other differ; valid_time decides" in found.note
    made.drop_vars("valid_time").to_netcdf(tmp_path / "b.nc", engine="netcdf4")
    found = read_forecasts(tmp_path / "b.nc")
    assert "its other and third differ; other decides" in found.note
    assert found.sst["init_time"].values[0] + found.sst["lead"].values[0] * DAY == np.datetime64("2001-01-12")


def test_rows_have_their_bounds_in_either_order() -> None:
    ocean = make_sst(1).isel(time=slice(2))
    edges = np.append(ocean["lat"].values - 0.15, 89)[: ocean.sizes["lat"] + 1]
    ocean["lat_bnds"] = (("nv", "lat"), np.stack([edges[:-1], edges[1:]]))
    ocean["lat"].attrs["bounds"] = "lat_bnds"
    for dataset in (ocean, ocean.transpose()):
        field = find_field(dataset, Path("a")).field
        np.testing.assert_array_equal(field[SOUTH], edges[:-1])
        np.testing.assert_array_equal(field[NORTH], edges[1:])
