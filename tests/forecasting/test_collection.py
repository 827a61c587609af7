"""A folder of forecast files: the forecasts of one file with all dates; files that do not fit are named."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from sstcast.errors import SSTCastError
from sstcast.forecasting.collection import read_collection
from sstcast.forecasting.conventions import read_forecasts
from sstcast.scores.score import score

Change = Callable[[xr.Dataset], xr.Dataset]
FORECASTS = xr.Dataset(
    {
        "sst": (
            ("init_time", "lead", "lat", "lon"),
            np.random.default_rng(0).normal(20, 1, (5, 3, 4, 6)),
            {"units": "degC"},
        )
    },
    {
        "init_time": np.datetime64("2020-01-05", "ns") + np.array([0, 2, 3, 7, 30]) * np.timedelta64(1, "D"),
        "lead": ("lead", [1, 2, 3], {"units": "days"}),
        "lat": np.arange(4.0),
        "lon": 150 + np.arange(6.0),
    },
)
FORECASTS["sst_spread"] = 0.1 * FORECASTS["sst"]


def write(path: Path, change: Change = lambda part: part) -> Path:
    """Write the forecasts to a folder, a file a date, in no order; `1.nc` is changed."""
    path.mkdir()
    for place, name in enumerate("30142"):
        part = FORECASTS.isel(init_time=[place])
        (change(part) if place == 2 else part).to_netcdf(path / f"{name}.nc", engine="netcdf4")
    (path / "readme.txt").write_text("not a forecast")
    return path


def test_a_folder_is_one_file_with_all_its_dates(tmp_path: Path) -> None:
    FORECASTS.to_netcdf(tmp_path / "all.nc", engine="netcdf4")
    whole, found = read_forecasts(tmp_path / "all.nc"), read_collection(write(tmp_path / "folder"))
    xr.testing.assert_identical(found.sst.load(), whole.sst.load())
    assert whole.spread is not None
    xr.testing.assert_identical(found.spread.load(), whole.spread.load())
    assert found.note == f"5 files of {whole.note}"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda f: f.assign_coords(init_time=FORECASTS["init_time"][[1]]), "on 2020-01-07, as 0.nc does"),
        (lambda f: f.isel(lead=slice(2)), "has 2 leads, not the 3 of 0.nc"),
        (lambda f: f.assign_coords(lead=f["lead"] - 1), "lead 0 is the day of init_time.*, not the sst.* of 0.nc"),
        (lambda f: f.isel(lat=slice(2)), "has 2 latitudes, not the 4 of 0.nc"),
        (lambda f: f.assign_coords(lon=f["lon"] + 0.5), "has other longitudes than those of 0.nc"),
        (lambda f: f.drop_vars("sst_spread"), "lacks the spread of 0.nc"),
        (lambda f: f.expand_dims(member=2), "not the sst.* of 0.nc"),
        (lambda f: f.drop_vars("lead"), "sst has no lead"),
    ],
)
def test_a_file_that_does_not_fit_is_named(tmp_path: Path, change: Change, words: str) -> None:
    with pytest.raises(SSTCastError, match=rf"folder/1\.nc: .*{words}") as error:
        read_collection(write(tmp_path / "folder", change))
    assert "\n" not in str(error.value)


def test_a_folder_of_something_else(tmp_path: Path) -> None:
    (tmp_path / "readme.txt").touch()
    with pytest.raises(SSTCastError, match="holds no NetCDF files and is no Zarr store"):
        read_collection(tmp_path)


def test_scores_do_not_go_into_the_folder_that_is_read(tmp_path: Path) -> None:
    with pytest.raises(SSTCastError, match=r"--out .*: is in .*folder, which is to be read"):
        score(write(tmp_path / "folder"), out=tmp_path / "folder" / "scores")
