"""Ordinary files of many makers open with the values written."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from small_files import (
    HALVES,
    KELVIN_UNSTATED,
    OCEAN,
    SST,
    Write,
    data_of,
    folder_of,
    level,
    named,
    netcdf,
    zarr,
)

from sstcast.config import Region
from sstcast.errors import SSTCastError
from sstcast.ocean.cropping import crop
from sstcast.ocean.gaps import gaps_filled
from sstcast.ocean.plausible import checked
from sstcast.ocean.reading import open_region, open_sst


def attributes_only() -> xr.Dataset:
    data = OCEAN.rename(lat="y", lon="x", time="when")
    data["y"].attrs["units"], data["x"].attrs["units"] = "degrees_north", "degrees_east"
    return data


FAHRENHEIT = OCEAN.assign(sst=(SST * 1.8 + 32).assign_attrs(units="degF"))
SECOND_IN_KELVIN = HALVES[1].assign(sst=(HALVES[1].sst + 273.15).assign_attrs(units="K"))
OPEN: dict[str, tuple[Write, dict[str, str]]] = {
    "NetCDF-4": (netcdf(OCEAN), {}),
    "NetCDF-3 classic": (netcdf(OCEAN, format="NETCDF3_CLASSIC"), {}),
    "NetCDF-3 64-bit offset": (netcdf(OCEAN, format="NETCDF3_64BIT"), {}),
    "NetCDF-4 classic": (netcdf(OCEAN, format="NETCDF4_CLASSIC"), {}),
    ".nc4": (netcdf(OCEAN, "a.nc4"), {}),
    ".NC": (netcdf(OCEAN, "A.NC"), {}),
    "packed": (
        netcdf(OCEAN, encoding={"sst": {"dtype": "i2", "scale_factor": 0.01, "_FillValue": -999, "zlib": True}}),
        {},
    ),
    "Zarr 2": (zarr(OCEAN, 2), {}),
    "Zarr 3": (zarr(OCEAN, 3), {}),
    "SST": (netcdf(named("SST")), {}),
    "a standard name": (netcdf(named("x1", "sea_surface_foundation_temperature")), {}),
    "analysed_sst in K": (netcdf(named("analysed_sst", "sea_surface_foundation_temperature", "kelvin")), {}),
    "tos": (netcdf(named("tos")), {}),
    "the only one": (netcdf(OCEAN.rename(sst="a2001")), {}),
    "data.variable": (netcdf(named("warm")), {"variable": "warm"}),
    "thetao at one depth": (netcdf(level(1)), {}),
    "TIME, LAT, LON": (netcdf(named("SST", time="TIME", lat="LAT", lon="LON")), {}),
    "x and y": (netcdf(OCEAN.rename(lat="y", lon="x")), {}),
    "attributes only": (netcdf(attributes_only()), {}),
    "north to south": (netcdf(OCEAN.isel(lat=slice(None, None, -1))), {}),
    "east of -180": (netcdf(OCEAN.assign_coords(lon=OCEAN.lon - 360)), {}),
    "lon before time": (netcdf(OCEAN.transpose("lon", "time", "lat")), {}),
    "latest first": (netcdf(OCEAN.isel(time=slice(None, None, -1))), {}),
    "degF": (netcdf(FAHRENHEIT), {}),
    "no units": (netcdf(xr.Dataset({"sst": SST.assign_attrs(units="")})), {}),
    "data.units": (netcdf(KELVIN_UNSTATED), {"units": "K"}),
    "a folder of two": (folder_of(*(netcdf(d, f"{i}.nc") for i, d in enumerate(HALVES))), {}),
    "K among degC": (folder_of(netcdf(HALVES[0], "0.nc"), netcdf(SECOND_IN_KELVIN, "sub/1.nc4")), {}),
    "other latitudes and longitudes": (
        folder_of(
            netcdf(HALVES[0], "0.nc"),
            netcdf(
                HALVES[1].isel(lat=slice(None, None, -1)).assign_coords(lon=HALVES[1].lon - 360 + 1e-5), "1.nc"
            ),
        ),
        {},
    ),
    "Zarr among NetCDF": (folder_of(netcdf(HALVES[0], "0.nc"), zarr(HALVES[1], 2)), {}),
    "names by file": (folder_of(netcdf(HALVES[0], "0.nc"), netcdf(HALVES[1].rename(sst="tos"), "1.nc")), {}),
    "land is -999": (netcdf(OCEAN.fillna(-999), encoding={"sst": {"_FillValue": None}}), {}),
    "land is 0": (netcdf(OCEAN.fillna(0)), {}),
    "land is 1e30": (netcdf(OCEAN.fillna(1e30)), {}),
    "land is 0 K": (netcdf(xr.Dataset({"sst": (SST + 273.15).fillna(0).assign_attrs(units="K")})), {}),
}


@pytest.mark.parametrize("case", OPEN)
def test_it_opens_with_the_values_written(tmp_path: Path, case: str) -> None:
    write, keys = OPEN[case]
    opened = open_region(data_of(write(tmp_path), **keys))
    np.testing.assert_allclose(opened.values, SST.values, atol=2e-4)
    np.testing.assert_array_equal(opened["time"], SST["time"])
    np.testing.assert_allclose(opened["lat"], SST["lat"])
    np.testing.assert_allclose(opened["lon"], SST["lon"])
    values, ocean = checked(opened, tmp_path)
    np.testing.assert_array_equal(ocean, SST.notnull().all("time"))
    values.compute()


@pytest.mark.parametrize(
    "units",
    [
        *(
            "deg C",
            "degree C",
            "degrees C",
            "Degrees Celsius",
            "°C",
            "degC",
            "degrees_Celsius",
            "celsius",
            "C",
            "deg_C",
        ),
        *("K", "kelvin", "Kelvin", "degK", "degF", "Fahrenheit", "degrees F", "mK"),
    ],
)
def test_units(tmp_path: Path, units: str) -> None:
    written = {"k": SST + 273.15, "f": SST * 1.8 + 32, "c": SST}
    kind = "k" if "k" in units.lower() else "f" if "f" in units.lower() else "c"
    values = written[kind] * (1000 if units == "mK" else 1)
    path = netcdf(xr.Dataset({"sst": values.isel(time=slice(9)).assign_attrs(units=units)}))(tmp_path)
    np.testing.assert_allclose(open_sst(path), SST[:9], atol=1e-4)


@pytest.mark.parametrize(
    ("attributes", "title"),
    [
        ({"title": "A cruise", "institution": "us"}, "A cruise"),
        ({"institution": "our institute"}, "sea surface temperature of our institute (ocean.nc)"),
        ({}, "sea surface temperature of unknown origin (ocean.nc)"),
    ],
)
def test_the_data_have_a_title(tmp_path: Path, attributes: dict[str, str], title: str) -> None:
    path = tmp_path / "ocean.nc"
    OCEAN.isel(time=slice(9)).assign_attrs(attributes).to_netcdf(path, engine="netcdf4")
    assert open_sst(path).attrs["title"] == title


def test_the_final_file_replaces_the_preliminary_one(tmp_path: Path) -> None:
    early = (OCEAN.isel(time=slice(195, 205)) + 0.3).assign_attrs(id="oisst-avhrr-v02r01.x_preliminary.nc")
    early["sst"].attrs["units"] = "Celsius"
    writes = [netcdf(early, "a.nc"), netcdf(HALVES[0].assign_attrs(id="final.nc"), "b.nc")]
    sst = open_sst(folder_of(*writes)(tmp_path))
    np.testing.assert_allclose(sst[:200], SST[:200], atol=1e-4)
    np.testing.assert_allclose(sst[200:], SST[200:205] + 0.3, atol=1e-4)


def test_what_is_not_read_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder_of(*(netcdf(d, f"{i}.nc") for i, d in enumerate(HALVES)))(tmp_path)
    (path / "sub").mkdir()
    (path / "sub/notes.txt").touch()
    (path / "year.grib").touch()
    open_sst(path)
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "year.grib" in err
    assert "sub/notes.txt" in err


@pytest.mark.parametrize("write", [netcdf, lambda d: zarr(d.chunk(time=7), 2)], ids=["whole", "chunks of a week"])
def test_gaps_are_filled_linearly_in_time(tmp_path: Path, write: Callable[[xr.Dataset], Write]) -> None:
    holes = OCEAN.copy(deep=True)
    holes["sst"][20:23, 4, 4] = np.nan  # three days of a cell
    holes["sst"][60:64, 4, 5] = np.nan  # four: too long
    holes["sst"][:2, 4, 6] = np.nan  # nothing before it
    holes = holes.isel(time=[*range(100), *range(102, 365)])
    expected = holes.reindex(time=OCEAN.time)["sst"].to_series().unstack("time")
    expected = expected.T.interpolate("linear", limit_area="inside").unstack().to_xarray()
    expected = expected.transpose("time", "lat", "lon").values
    expected[60:64, 4, 5] = np.nan
    opened = open_region(data_of(write(holes)(tmp_path), gaps=3))
    np.testing.assert_allclose(opened, expected, atol=1e-4)
    cells = int(SST[0].notnull().sum())
    assert gaps_filled(opened) == ", ".join(
        f"{day}: {n} cells"
        for day, n in [
            ("2001-01-21", 1),
            ("2001-01-22", 1),
            ("2001-01-23", 1),
            ("2001-04-11", cells),
            ("2001-04-12", cells),
        ]
    )
    values, _ = checked(opened, tmp_path, 3)
    with pytest.raises(SSTCastError, match=r"ocean cells lack values on .* longer than data.gaps: 3"):
        values.compute()


@pytest.mark.parametrize("cell", [1.0, 0.25, 0.05, 1 / 12])
@pytest.mark.parametrize("start", [0.0, -180.0])
def test_regions_on_any_grid(cell: float, start: float) -> None:
    lon = (start + cell * (np.arange(round(360 / cell)) + 0.5)).astype(np.float32).astype(float)
    lat = (cell * (np.arange(round(4 / cell)) + 0.5)).astype(np.float32).astype(float)
    place = np.broadcast_to(lon % 360, (1, lat.size, lon.size))
    sst = xr.DataArray(place, dims=("time", "lat", "lon"), coords={"lat": lat, "lon": lon})
    for west, east in ((-4, 4), (356, 4), (176, -176), (-184, -176), (0, 360), (-180, 180), (20, 60)):
        side = round(4 / cell)
        box = crop(sst, Region(lon=(west, east), lat=(0, 4), tile=(side, side)), Path("x"))
        count = round(((east - west) % 360 or 360) / cell)
        expected = west + cell * (np.arange(count) + 0.5)
        np.testing.assert_allclose(box["lon"], expected, atol=cell / 100)
        np.testing.assert_allclose((box[0, 0] - expected + 180) % 360 - 180, 0, atol=cell / 100)


def test_days_of_a_folder_keep_their_order(tmp_path: Path) -> None:
    days = [OCEAN.isel(time=[n]) for n in (2, 0, 1)]
    sst = open_sst(folder_of(*(netcdf(d, f"{i}.nc") for i, d in enumerate(days)))(tmp_path))
    assert sst.indexes["time"].equals(pd.date_range("2001-01-01", periods=3))
    np.testing.assert_allclose(sst, SST[:3], atol=1e-4)
