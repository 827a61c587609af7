"""The days of averages: from bounds if they span a day, else from labels, in observations and forecasts."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from logged import logged
from small_ocean import make_sst

from sstcast.config import FieldSource
from sstcast.forecasting.history import last_consecutive, recognised
from sstcast.ocean.init_config import start
from sstcast.reading.forecast_files import read_forecasts
from sstcast.reading.reading import open_sst
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
def test_forecasts_of_averages_are_of_the_day_before_their_label(tmp_path: Path, kind: str) -> None:
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
