"""Files that cannot be an ocean are refused in a line that says why; real ones pass."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from small_files import (
    HALVES,
    KELVIN_UNSTATED,
    OCEAN,
    SPLITS,
    SST,
    Write,
    data_of,
    folder_of,
    level,
    named,
    netcdf,
)

from sstcast.config import DataConfig, Region
from sstcast.errors import SSTCastError
from sstcast.ocean.plausible import checked
from sstcast.ocean.reading import open_region


def curvilinear() -> xr.Dataset:
    lat, lon = np.meshgrid(OCEAN.lat, OCEAN.lon, indexing="ij")
    places = {"nav_lat": (("y", "x"), lat), "nav_lon": (("y", "x"), lon)}
    return xr.Dataset({"sst": (("time", "y", "x"), SST.values)}, {"time": OCEAN.time, **places})


def with_value(value: float) -> xr.Dataset:
    changed = OCEAN.copy(deep=True)
    changed["sst"][100, 5, 5] = value
    return changed


DAYS_360 = OCEAN.isel(time=slice(0, 50)).convert_calendar("360_day", align_on="date")
MORE = HALVES[0].assign_coords(lon=HALVES[0].lon + 0.1)
REFUSED: dict[str, tuple[Write, dict[str, object], list[str]]] = {
    "several": (netcdf(named("warm")), {}, ["warm(time, lat, lon)", "error(", "data.variable"]),
    "no such variable": (netcdf(OCEAN), {"variable": "tos"}, ["'tos'", "sst(time"]),
    "curvilinear": (netcdf(curvilinear()), {}, ["curvilinear", "nav_lat"]),
    "depths": (netcdf(level(3)), {}, ["thetao", "depth of 3"]),
    "no time": (netcdf(OCEAN.isel(time=0, drop=True)), {}, ["sst has dimensions lat, lon", "time"]),
    "kelvin unstated": (netcdf(KELVIN_UNSTATED), {}, ["data.units: K"]),
    "furlong": (netcdf(xr.Dataset({"sst": SST.assign_attrs(units="furlong")})), {}, ["'furlong'", "data.units"]),
    "360 days": (netcdf(DAYS_360), {}, ["360_day", "convert_calendar"]),
    "the same day twice": (
        folder_of(netcdf(HALVES[0], "0.nc"), netcdf(OCEAN.isel(time=slice(150, None)), "1.nc")),
        {},
        ["0.nc", "1.nc", "2001-05-31"],
    ),
    "another grid": (folder_of(netcdf(HALVES[1], "0.nc"), netcdf(MORE, "1.nc")), {}, ["0.nc", "1.nc", "grid"]),
    "nothing to read": (folder_of(lambda f: f.mkdir(parents=True)), {}, ["neither NetCDF"]),
    "a gap": (
        netcdf(OCEAN.isel(time=[*range(50), *range(53, 365)])),
        {"gaps": 2},
        ["3 missing day(s)", "2001-02-20", "data.gaps: 3"],
    ),
    "a region off the edges": (
        netcdf(OCEAN),
        {"region": {"lon": [170.1, 173], "lat": [-12, -10], "tile": [8, 1]}},
        ["edges", "data.region: {lon: [170, 173], lat: [-12, -10]}"],
    ),
    "a region beyond the data": (
        netcdf(OCEAN),
        {"region": {"lon": [165, 180], "lat": [-20, 0], "tile": [8, 5]}},
        ["outside", "data.region: {lon: [170, 172.5], lat: [-12, -10]}"],
    ),
    "a region elsewhere": (netcdf(OCEAN), {"region": {"lon": [10, 20], "lat": [-12, -10]}}, ["lon: [170, 173]"]),
    "west and east swapped": (
        netcdf(OCEAN),
        {"region": {"lon": [173, 170], "lat": [-12, -10], "tile": [8, 6]}},
        ["[170, 173] for what"],
    ),
    "all the same": (netcdf(xr.full_like(OCEAN, 0)), {}, ["no cell ever changes"]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_it_is_refused_in_one_line(tmp_path: Path, case: str) -> None:
    write, keys, words = REFUSED[case]
    with pytest.raises(SSTCastError) as error:
        open_region(data_of(write(tmp_path), **keys))
    assert "\n" not in str(error.value)
    for word in [str(tmp_path), *words]:
        assert word in str(error.value)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (-999, ["-999 degC on 2001-04-11 at lat -10.625, lon 171.375", "_FillValue"]),
        (1e30, ["1e+30 degC on 2001-04-11"]),
        (300, ["300 degC", "data.units"]),
        (np.nan, ["lack values", "2001-04-11 at lat -10.625, lon 171.375", "data.gaps"]),
    ],
)
def test_one_wrong_value_is_found_as_it_is_computed(tmp_path: Path, value: float, words: list[str]) -> None:
    values, _ = checked(open_region(data_of(netcdf(with_value(value))(tmp_path))), tmp_path)
    with pytest.raises(SSTCastError) as error:
        values.mean().compute()
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize(
    ("day", "place", "value", "words"),
    [
        (33, 0, 21.5, "21.5 degC on 2001-02-03 at lat -11.875, lon 170.125"),
        (-5, slice(None), np.nan, "a cell that holds 0 on other days"),  # a day near the end without values
    ],
)
def test_a_number_that_stands_for_land_must_stay_there(
    day: int, place: int | slice, value: float, words: str, tmp_path: Path
) -> None:
    changed = OCEAN.fillna(0)
    changed["sst"][day, place, place] = value
    opened = open_region(data_of(netcdf(changed)(tmp_path)))
    with pytest.raises(SSTCastError, match=words):
        opened.compute()


def test_what_is_real_or_ships_passes() -> None:
    region = Region(lon=(147, 155), lat=(-45, -37), tile=(32, 32))
    sample = open_region(DataConfig.model_validate({"region": region, "splits": SPLITS})).isel(time=slice(400))
    values, ocean = checked(sample, Path("sample"))
    assert int((~ocean).sum()) == 83
    assert values.compute().notnull().sum() == 400 * int(ocean.sum())


@pytest.mark.parametrize("day", [0, 150, 224, 364])
@pytest.mark.parametrize("chunk", [None, 1, 30, 365])
def test_a_day_that_no_ocean_has_is_refused(tmp_path: Path, day: int, chunk: int | None) -> None:
    """A day of zeros, or in another unit that lies in the range of SST, among days as they should be."""
    for values in (0 * SST[day], SST[day] + 12):
        changed = OCEAN.copy(deep=True)
        changed["sst"][day] = values
        opened = open_region(data_of(netcdf(changed, f"{float(values.max()):.0f}.nc")(tmp_path)))
        whole = opened.load() if chunk is None else opened.chunk(time=chunk)
        with pytest.raises(SSTCastError) as error:
            checked(whole, tmp_path)[0].compute()
        assert np.datetime_as_string(SST["time"][day].values, unit="D") in str(error.value)
        assert "degC on average, which no ocean does" in str(error.value)
