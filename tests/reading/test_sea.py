"""What is sea, and what is judged before it is averaged: each against the ocean that was written."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from logged import logged
from refusals import refused
from small_files import data_of, netcdf
from small_ocean import make_sst

from sstcast.config import FieldSource, PredictorConfig, Region
from sstcast.geo import area_weights
from sstcast.predictors.index_series import read_index
from sstcast.reading.forecast_files import read_forecasts
from sstcast.reading.reading import open_cells, open_region, open_sst
from sstcast.reading.regrid import on_cells
from sstcast.reading.sea import YEAR, sample_days, without_land

OCEAN = make_sst(2)
SST = OCEAN["sst"]
LAND = SST[0].isnull().values
BLOCKS = Region(lon=(170, 173), lat=(-12, -10), tile=(4, 6))
BOX = "170,173,-12,-10"


def box(path: Path, **keys: Any) -> xr.DataArray:
    return read_index(PredictorConfig(kind="index", source=str(path), region=BOX, **keys), "x")


@pytest.mark.parametrize("fill", [np.nan, 0, -999, 1e20])
def test_land_in_the_box_of_an_index_is_no_sea(tmp_path: Path, fill: float) -> None:
    expected = SST.weighted(area_weights(SST["lat"])).mean(("lat", "lon"))
    path = netcdf(OCEAN.fillna(fill))(tmp_path)
    np.testing.assert_allclose(box(path), expected, atol=1e-4)


@pytest.mark.parametrize("value", [999, -999])
def test_a_value_that_is_no_sst_is_refused_before_it_is_averaged(tmp_path: Path, value: float) -> None:
    """In a box, in blocks of data.grid and on a curvilinear grid."""
    wrong = OCEAN.copy(deep=True)
    wrong["sst"][100, 5, 5] = value
    where = f"{value} degC on 2001-04-11 at lat -10.625, lon 171.375"
    path = netcdf(wrong)(tmp_path)
    with refused("a.nc", where, "or keep such values with data.predictors.x.implausible: keep"):
        box(path)
    area = area_weights(SST["lat"])
    np.testing.assert_allclose(
        box(path, implausible="keep"), wrong["sst"].weighted(area).mean(("lat", "lon")), atol=1e-3
    )
    with refused("a.nc", where), open_region(data_of(path, grid=0.5, region=BLOCKS)) as sst:
        sst.load()


def of_blocks() -> np.ndarray:
    return (~LAND).reshape(4, 2, 6, 2).mean((1, 3))


def test_the_share_of_sea_is_that_of_the_cells_of_the_source(tmp_path: Path) -> None:
    for fill in (np.nan, 0):
        with open_region(data_of(netcdf(OCEAN.fillna(fill))(tmp_path), grid=0.5, region=BLOCKS)) as sst:
            expected = of_blocks()
            np.testing.assert_allclose(sst.attrs["share"], expected)
            assert {*np.unique(expected)} == {0, 0.5, 1}
            np.testing.assert_array_equal(sst[0].notnull(), expected >= 0.5)
            means = SST.where(~LAND).coarsen(lat=2, lon=2).mean()
            np.testing.assert_allclose(sst, means.where(expected >= 0.5), atol=1e-4)


def curvilinear(fill: float = np.nan) -> xr.Dataset:
    """The small ocean on positions that bend by a tenth of a cell."""
    rows, columns = np.meshgrid(OCEAN["lat"], OCEAN["lon"], indexing="ij")
    bent = rows + 0.05 * np.sin(columns), columns + 0.05 * np.cos(rows * 9)
    positions = {
        name: (("y", "x"), values, {"units": units})
        for name, values, units in zip(
            ("nav_lat", "nav_lon"), bent, ("degrees_north", "degrees_east"), strict=True
        )
    }
    return xr.Dataset(
        {"sst": (("time", "y", "x"), SST.fillna(fill).values, {"units": "degC"})},
        {"time": OCEAN["time"]} | positions,
    )


def test_land_as_a_number_on_a_curvilinear_grid_in_chunks(tmp_path: Path) -> None:
    read = []
    for fill in (np.nan, 0):
        path = tmp_path / f"{fill}.zarr"
        curvilinear(fill).to_zarr(
            path, zarr_format=2, encoding={"sst": {"chunks": (100, 4, 4), "_FillValue": None}}
        )
        with open_sst(FieldSource(source=str(path), grid=0.5, region=BLOCKS)) as sst:
            np.testing.assert_allclose(sst.attrs["share"][:3, :5], of_blocks()[:3, :5], atol=0.2)
            read.append(sst.values)
    np.testing.assert_array_equal(*read)


def forecasts_of(sst: xr.DataArray) -> xr.DataArray:
    starts = sst["time"].values[:60:20]
    steps = [sst.sel(time=start + np.arange(1, 6) * np.timedelta64(1, "D")).values for start in starts]
    return xr.DataArray(
        np.stack(steps),
        {
            "init_time": starts,
            "lead": ("lead", np.arange(1, 6), {"units": "days"}),
            "lat": sst["lat"],
            "lon": sst["lon"],
        },
        ("init_time", "lead", "lat", "lon"),
        name="sst",
        attrs={"units": "degC"},
    )


@pytest.mark.parametrize("size", [2, 1.5])
def test_land_as_a_number_enters_no_mean_of_forecasts(tmp_path: Path, size: float) -> None:
    """Of blocks of their cells, and of cells that share area with those of the run."""
    grid = xr.Dataset(
        coords={
            "lat": -11.5 + size / 8 + size / 4 * np.arange(3),
            "lon": 170.25 + size / 8 + size / 4 * np.arange(4),
        }
    )
    region = Region(lon=(170, 173), lat=(-12, -10), tile=(1, 1))
    read = []
    for fill in (np.nan, 0, -999):
        path = tmp_path / f"{fill}.nc"
        forecasts_of(SST).fillna(fill).to_netcdf(path)
        read.append(on_cells(read_forecasts(path).sst, grid, region, path)[0].values)
    np.testing.assert_array_equal(read[0], read[1])
    np.testing.assert_array_equal(read[0], read[2])
    assert np.nanmin(read[0]) > 15


@pytest.mark.parametrize(
    ("fill", "count", "last", "told"),
    [(np.nan, 92, "2002-09-30", "92 days"), (0, 92, "2002-09-30", "92 days"), (np.nan, 1, "2002-12-30", "1 day")],
)
def test_days_after_the_last_value_are_left_out(
    tmp_path: Path, fill: float, count: int, last: str, told: str
) -> None:
    """A day with some cells is one with values."""
    ended = OCEAN.copy(deep=True)
    ended["sst"][-count:] = np.nan
    ended["sst"][-100, :, 4:] = np.nan
    path = netcdf(ended.fillna(fill) if fill == fill else ended)(tmp_path)
    if fill == 0:  # land alone
        ended.where(~xr.DataArray(LAND, dims=("lat", "lon")), 0).to_netcdf(path)
    line = f"{path}: has no value after {last} in the region; left out: {told} at its end"
    with logged() as lines, open_cells(FieldSource(source=path)) as sst:
        np.testing.assert_allclose(sst, ended["sst"][:-count], atol=1e-5)
    assert [text for text in lines if "left out" in text] == [line]
    assert box(path)["time"].values[-1] == np.datetime64(last)
    whole = netcdf(OCEAN, "b.nc")(tmp_path)
    with logged() as lines, open_cells(FieldSource(source=whole)) as sst:
        assert sst.sizes["time"] == OCEAN.sizes["time"]
    assert not [text for text in lines if "left out" in text]


@pytest.mark.parametrize("years", [1, 2, 3, 7, 7.02, 8, 14.04, 40])
def test_eight_days_are_of_all_seasons(years: float) -> None:
    count = round(years * YEAR)
    days = sample_days(count)
    assert (len(days), days.min() >= 0, days.max() < count) == (8, True, True)
    phase = np.sort(days % YEAR)
    assert np.diff(phase, append=phase[0] + YEAR).max() < 0.4 * YEAR
    assert np.ptp(days) > 0.7 * count


def series(*cells: np.ndarray) -> xr.DataArray:
    """Days of some cells, and of one that has all temperatures."""
    count = len(cells[0])
    values = np.stack([*cells, 15 + 5 * np.sin(np.arange(count))], axis=1)[:, :, None] + np.zeros((1, 1, 2))
    axes = {
        "time": np.datetime64("2001-01-01", "ns") + np.arange(count) * np.timedelta64(1, "D"),
        "lat": np.arange(len(cells) + 1.0),
        "lon": np.arange(2.0),
    }
    return xr.DataArray(values.astype("f4"), axes, ("time", "lat", "lon"), name="sst").chunk(time=100)


def test_a_cell_is_land_if_all_its_days_have_one_number(tmp_path: Path) -> None:
    count = 3000
    winter = np.where(np.arange(count) % 365 < 90, 0.0, 10.0)  # an estuary
    even, land = np.full(count, 28.3), np.full(count, 21.0)
    even[1777] = 28.4
    gappy = np.zeros(count)
    gappy[[0, 1500]] = np.nan  # NaN is no other value
    empty = np.full(count, np.nan)
    found = without_land(series(winter, even, land, gappy, empty), tmp_path).values
    assert np.isnan(found).all((0, 2)).tolist() == [False, False, True, True, True, False]
    np.testing.assert_array_equal(found[:, 1, 0], even.astype("f4"))


def test_sea_with_few_values_is_not_taken_for_land(tmp_path: Path) -> None:
    """Of level 3, whose land is 0, and no cell of whose sea has a value on most days."""
    random = np.random.default_rng(0)
    sea = [np.where(random.random(400) < 0.3, 15 + random.normal(size=400), np.nan) for _ in range(2)]
    found = without_land(series(*sea, np.zeros(400))[:, :3], tmp_path).values
    assert np.isnan(found).all((0, 2)).tolist() == [False, False, True]


def test_a_refused_file_can_be_mended_in_the_same_process(tmp_path: Path) -> None:
    path = netcdf(OCEAN.assign(sst=SST.assign_attrs(units="parsecs")))(tmp_path)
    with refused("a.nc", "parsecs"):
        open_region(data_of(path))
    OCEAN.drop_isel(time=[5, 6]).to_netcdf(path)
    with refused("a.nc", "2 missing days"):
        open_region(data_of(path))
    OCEAN.to_netcdf(path)
    with open_region(data_of(path)) as sst:
        np.testing.assert_allclose(sst, SST, atol=1e-5)


def test_days_that_consolidated_metadata_hide_are_told(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    OCEAN[["sst"]].isel(time=slice(700)).to_zarr(path, zarr_format=2, consolidated=True)
    told = "time holds 730 values along an axis, of which its consolidated metadata tell 700"
    with logged() as lines, open_sst(FieldSource(source=str(path))):
        pass
    assert not [line for line in lines if told in line]
    OCEAN[["sst"]].isel(time=slice(700, None)).to_zarr(path, append_dim="time", consolidated=False)
    with logged() as lines, open_sst(FieldSource(source=str(path))) as sst:
        assert sst.sizes["time"] == 700
    assert len([line for line in lines if "consolidated metadata tell 700" in line]) == 1
