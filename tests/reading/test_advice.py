"""Files that cannot be read as they are: each refusal names what would help."""

import gzip
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from refusals import refused
from small_files import Write, folder_of, netcdf
from small_ocean import make_sst

from sstcast.config import FieldSource
from sstcast.reading.forecast_files import read_forecasts
from sstcast.reading.gaps import fill_gaps
from sstcast.reading.plausible import checked
from sstcast.reading.reading import open_sst

OCEAN = make_sst(1)
SST = OCEAN["sst"]


def content(name: str, data: bytes) -> Write:
    def write(folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
        return folder / name

    return write


def zipped(folder: Path) -> Path:
    with zipfile.ZipFile(folder / "store.zarr.zip", "w") as archive:
        archive.writestr(".zgroup", '{"zarr_format": 2}')
    return folder / "store.zarr.zip"


def matlab(folder: Path) -> Path:
    """A file of MATLAB 7.3, which is HDF5 after 512 bytes that name it."""
    with h5py.File(folder / "sst.mat", "w", userblock_size=512) as file:
        file["sst"] = np.zeros((3, 4, 5))
    with (folder / "sst.mat").open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64")
    return folder / "sst.mat"


def members(folder: Path) -> Path:
    """Forecasts of six members in one file, and of three in another."""
    (folder / "forecasts").mkdir()
    for number, count in ((0, 6), (1, 3)):
        days = SST[40 * number : 40 * number + 5].values
        xr.Dataset(
            {"sst": (("init_time", "member", "lead", "lat", "lon"), np.stack([days] * count)[None])},
            {
                "init_time": [np.datetime64("2001-02-01", "ns") + np.timedelta64(40 * number, "D")],
                "member": np.arange(count),
                "lead": ("lead", np.arange(1, 6), {"units": "days"}),
                "lat": SST["lat"],
                "lon": SST["lon"],
            },
        ).to_netcdf(folder / "forecasts" / f"{number}.nc", engine="netcdf4")
    return folder / "forecasts"


def test_files_of_different_members_are_joined_as_the_advice_says(tmp_path: Path) -> None:
    folder = members(tmp_path)
    with refused("1.nc: has 3 members, not the 6 of", "xr.open_mfdataset(FILES", 'join="outer"'):
        read_forecasts(folder)
    files = sorted(folder.glob("*.nc"))
    joined = xr.open_mfdataset(files, combine="nested", concat_dim="init_time", join="outer", engine="netcdf4")
    joined.to_netcdf(tmp_path / "joined.nc", engine="netcdf4")
    sst = read_forecasts(tmp_path / "joined.nc").sst
    assert sst.notnull().all(("lead", "lat", "lon")).sum("member").values.tolist() == [0, 0]  # land
    assert sst.notnull().any(("lead", "lat", "lon")).sum("member").values.tolist() == [6, 3]


def counted(**attributes: str) -> xr.Dataset:
    """Days as MATLAB counts them; 730852 is 2001-01-01."""
    return OCEAN.assign_coords(time=("time", 730852.0 + np.arange(OCEAN.sizes["time"]), attributes))


GRIB = content("era5.grib", b"GRIB" + bytes(40))
ADVICE: dict[str, tuple[Write, list[str]]] = {
    "GRIB": (GRIB, ["it is GRIB, and sstcast reads NetCDF and Zarr: convert it with `cdo"]),
    "a folder of GRIB": (folder_of(GRIB), ["neither NetCDF files nor Zarr stores", "(era5.grib: it is GRIB"]),
    "gzip": (content("a.nc.gz", gzip.compress(b"CDF")), ["it is compressed", "gunzip"]),
    "R": (content("a.Rds", gzip.compress(b"X")), ["it is R data", "write NetCDF from R"]),
    "zip": (zipped, ["it is a zip archive", "unpack it"]),
    "kerchunk": (content("a.json", json.dumps({"version": 1, "refs": {}}).encode()), ["JSON", "kerchunk"]),
    "ERDDAP": (content("a.csv", b"time,latitude,longitude,sst\n"), ["from ERDDAP, download .nc instead of .csv"]),
    "MATLAB": (matlab, ["it is MATLAB", "nccreate"]),
    "MATLAB by its name": (content("a.mat", b"\x89HDF\r\n\x1a\n" + bytes(40)), ["it is MATLAB", "nccreate"]),
    "TIFF": (content("a.tif", b"II*\0" + bytes(40)), ["TIFF", "gdal_translate -of netCDF"]),
    "a page of an outage": (content("a.nc", b"<html>down</html>"), ["download it again, or check data.source"]),
    "means of hours": (
        netcdf(
            OCEAN.isel(time=slice(48))
            .assign(sst=SST[:48].assign_attrs(cell_methods="time: mean"))
            .assign_coords(time=pd.date_range("2001-01-01", periods=48, freq="1h"))
        ),
        ["nothing tells over which period", 'ds["time"].attrs["bounds"] = "time_bnds"'],
    ),
    "datenum": (netcdf(counted(long_name="datenum")), ["does not hold dates", "n is n - 719529 'days since 1970"]),
    "year 0": (
        netcdf(counted(units="days since 0000-01-01")),
        ["cannot decode its time, 'days since 0000-01-01'", "n - 719529 'days since 1970-01-01'"],
    ),
    "no calendar": (
        netcdf(counted(units="days since 2001-01-01", calendar="none")),
        ["cannot decode its time", "calendar 'none'", "write CF units and a standard calendar"],
    ),
    "a mask in a folder": (
        folder_of(
            netcdf(OCEAN, "sst.day.mean.2001.nc"),
            netcdf(SST[:1].notnull().astype("f4").to_dataset(name="lsmask"), "lsmask.nc"),
        ),
        ["lsmask.nc: holds lsmask, not the sst of ", "move it out of the folder"],
    ),
}


@pytest.mark.parametrize("case", ADVICE)
def test_what_cannot_be_read_is_refused_with_a_remedy(tmp_path: Path, case: str) -> None:
    write, words = ADVICE[case]
    path = write(tmp_path)
    with refused(path, *words):
        open_sst(FieldSource(source=path))


def test_matlab_s_day_is_that_of_the_advice() -> None:
    assert np.datetime64("1970-01-01") + np.timedelta64(730852 - 719529, "D") == np.datetime64("2001-01-01")


@pytest.mark.parametrize("west", [0.0, -180.0])
def test_a_repeated_meridian_is_left_out(tmp_path: Path, west: float, capsys: pytest.CaptureFixture[str]) -> None:
    lon = west + 30.0 * np.arange(12)
    globe = OCEAN.assign_coords(lon=("lon", lon, {"units": "degrees_east"}))
    again = globe.isel(lon=[0]).assign_coords(lon=[west + 360])
    cyclic = xr.concat([globe, again], "lon").transpose("time", "lat", "lon")
    opened = open_sst(FieldSource(source=netcdf(cyclic)(tmp_path)))
    np.testing.assert_allclose(opened, SST, atol=1e-4)
    np.testing.assert_allclose(opened["lon"], lon)
    assert "without its last column, which repeats the first one" in capsys.readouterr().err


@pytest.mark.parametrize("gaps", [0, 3])
def test_a_fill_value_of_0_that_is_also_a_temperature_is_refused(tmp_path: Path, gaps: int) -> None:
    """Zarr 2 has it by default. Land at 0 is land, so a sea without 0 is read."""
    values = (SST - SST.mean()).clip(-4).round(1).assign_attrs(units="degC")

    def store(field: xr.DataArray, name: str) -> FieldSource:
        encoding = {"sst": {"_FillValue": 0.0}}
        field.to_dataset(name="sst").drop_encoding().to_zarr(tmp_path / name, zarr_format=2, encoding=encoding)
        return FieldSource(source=tmp_path / name)

    warm = values.where(SST.isnull(), values + 20).fillna(0).assign_attrs(values.attrs)
    np.testing.assert_allclose(open_sst(store(warm, "warm.zarr")), values + 20, atol=1e-4)
    frozen = values.where(SST.time > SST.time[4], 0).fillna(0).assign_attrs(values.attrs)
    sst = fill_gaps(open_sst(store(frozen, "frozen.zarr")), gaps, tmp_path / "frozen.zarr")
    with refused("frozen.zarr: ocean cells lack values"):
        checked(sst, tmp_path / "frozen.zarr", gaps)[0].compute()


def test_the_package_runs_as_a_module() -> None:
    said = subprocess.run(
        [sys.executable, "-m", "sstcast", "--version"], capture_output=True, text=True, check=True
    )
    assert said.stdout.startswith("0.")


def is_open(path: Path) -> bool:
    """Return whether this process has a file open, which HDF5 would not let it write."""
    return path.resolve() in {link.resolve() for link in Path("/proc/self/fd").iterdir() if link.is_symlink()}


def test_a_source_is_closed_while_its_field_lives(tmp_path: Path) -> None:
    with open_sst(FieldSource(source=str(netcdf(OCEAN, "sst.nc")(tmp_path)))) as found:
        assert is_open(tmp_path / "sst.nc")
    assert found.size
    assert not is_open(tmp_path / "sst.nc")


def test_days_as_digits_are_read_with_their_bounds(tmp_path: Path) -> None:
    """As CDO writes them, in the middle and at the end of their days."""
    sst = make_sst(1)["sst"][:40]
    digits = np.array([int(f"{day:%Y%m%d}") for day in sst.indexes["time"]]) + 0.5
    units = {"units": "day as %Y%m%d.%f", "calendar": "proleptic_gregorian"}
    data = sst.assign_coords(time=("time", digits, units)).to_dataset()
    data.to_netcdf(tmp_path / "middle.nc")
    with open_sst(FieldSource(source=str(tmp_path / "middle.nc"))) as found:
        xr.testing.assert_equal(found["time"], sst["time"])
        assert is_open(tmp_path / "middle.nc")
    assert not is_open(tmp_path / "middle.nc")
    ends = np.array([int(f"{day:%Y%m%d}") for day in sst.indexes["time"] + np.timedelta64(1, "D")], float)
    data = data.assign_coords(time=("time", ends, units | {"bounds": "time_bnds"}))
    data["time_bnds"] = ("time", "two"), np.stack([digits - 0.5, ends], 1)
    data.to_netcdf(tmp_path / "end.nc")
    with open_sst(FieldSource(source=str(tmp_path / "end.nc"))) as found:
        xr.testing.assert_equal(found["time"], sst["time"])
    data = data.assign_coords(time=("time", np.arange(40) + 20011332.0, units))
    data.to_netcdf(tmp_path / "no-date.nc")
    with refused("no-date.nc: time has missing dates"):
        open_sst(FieldSource(source=str(tmp_path / "no-date.nc")))


def test_files_that_overlap_tell_from_when_to_when(tmp_path: Path) -> None:
    data = make_sst(1)
    data.isel(time=slice(200)).to_netcdf(tmp_path / "a.nc")
    data.isel(time=slice(170, None)).to_netcdf(tmp_path / "b.nc")
    with refused("a.nc and", "b.nc: overlap from 2001-06-20 to 2001-07-19; cut one"):
        open_sst(FieldSource(source=str(tmp_path)))


def test_a_forecast_without_a_start_is_told_how_to_add_it(tmp_path: Path) -> None:
    ahead = SST[:10].rename(time="lead").assign_coords(lead=("lead", np.arange(1, 11), {"units": "days"}))
    for number, data in enumerate((SST[:10], ahead)):
        path = netcdf(data.to_dataset(), f"{number}.nc")(tmp_path)
        with refused(f"{number}.nc: sst", "of a file with one start, add it: ds.expand_dims(init_time=[...])"):
            read_forecasts(path)
    path = netcdf(SST[1:10].expand_dims(init_time=SST["time"].values[:1]).to_dataset(), "b.nc")(tmp_path)
    assert read_forecasts(path).sst["lead"].values.tolist() == [*range(1, 10)]
