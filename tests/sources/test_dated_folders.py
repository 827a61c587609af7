"""Days that `fetch` takes from a folder are those that the folder has as data.source, or a line refers to that."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from oisst_server import DAYS, hundredths
from storing import GRID

from sstcast.sources.granule import BadFile, read_granule

HOUR = np.timedelta64(1, "h")
FEW = DAYS[:6]


def days(label: int = 12, bounds: bool = False, turned: bool = False) -> xr.Dataset:
    """Return a file of six days, whose labels lie some hours after 00:00."""
    begin = pd.DatetimeIndex(FEW).values.astype("M8[ns]")
    sst = np.stack([hundredths(day) for day in FEW]) / 100.0
    data = xr.Dataset(
        {"sst": (("time", "lat", "lon"), np.where(sst < -9, np.nan, sst), {"units": "Celsius"})},
        {"time": begin + label * HOUR, "lat": GRID.lat, "lon": GRID.lon},
    )
    data["time"].encoding = {"units": "hours since 2019-01-01", "dtype": "f8"}
    if bounds:
        data["time"].attrs["bounds"] = "time_bnds"
        data["time_bnds"] = (("time", "nv"), np.stack([begin, begin + 24 * HOUR], 1))
    return data.transpose("nv", ...) if turned else data


def read(data: xr.Dataset, path: Path) -> dict:
    data.to_netcdf(path / "a.nc", engine="netcdf4")
    return read_granule(path / "a.nc", FEW, GRID).fields


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("bounds", [False, True])
def test_days_are_those_of_labels_that_their_bounds_confirm(tmp_path: Path, bounds: bool, turned: bool) -> None:
    found = read(days(12, bounds, bounds and turned), tmp_path)
    for day in FEW:
        np.testing.assert_array_equal(found[day], hundredths(day))


def noleap() -> xr.Dataset:
    data = days().isel(time=slice(4))
    data["time"].encoding["calendar"] = "noleap"
    return data


def levels() -> xr.Dataset:
    data = days()
    data["sst"] = data["sst"].expand_dims(depth=[100.0, 0.0], axis=1)
    return data


REFUSED = {
    "its time bounds give other days than its labels": lambda: days(24, True),
    f"has {FEW[0]} twice": lambda: days().isel(time=[0, 0, 1]),
    "calendar 'noleap'": noleap,
    "sst has 2 levels": levels,
}


@pytest.mark.parametrize("fault", REFUSED)
def test_what_only_a_source_can_be_is_referred_to(tmp_path: Path, fault: str) -> None:
    with pytest.raises(BadFile) as error:
        read(REFUSED[fault](), tmp_path)
    assert str(error.value).endswith("set data.source to this folder, whose days are then dated and checked")
    assert fault in str(error.value)
