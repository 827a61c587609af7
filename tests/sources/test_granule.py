"""Files of every layout and convention give the same days, compared with what xarray reads from them."""

import datetime as dt
import tempfile
from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray as xr

from sstcast.config import parse_box
from sstcast.geo import Box
from sstcast.reading.raw import pack
from sstcast.sources.granule import BadFile, read_granule

DAYS = [dt.date(2020, 2, 28) + dt.timedelta(i) for i in range(4)]
RNG = np.random.default_rng(0)


def globe() -> xr.DataArray:
    """Return four days of a band of the global grid along the equator, in degC, with land."""
    lat, lon = np.arange(-2.875, 3, 0.25), np.arange(0.125, 360, 0.25)
    celsius = np.round(RNG.uniform(-1.8, 32, (4, lat.size, lon.size)), 2)
    celsius[:, 3:5, 100:110] = np.nan
    return xr.DataArray(
        celsius, {"time": np.arange(4), "lat": lat, "lon": lon}, ("time", "lat", "lon"), name="sst"
    )


def to_bytes(sst: xr.DataArray, units: str, values: list[float], name: str = "sst", **encoding) -> bytes:
    """Write NetCDF with the time axis spelled out."""
    sst = sst.assign_coords(time=("time", np.array(values), {"units": units}))
    with tempfile.TemporaryDirectory() as folder:
        data = sst.to_dataset(name=name).assign_attrs(id=sst.attrs.pop("id", ""))
        data.to_netcdf(Path(folder) / "a.nc", engine="netcdf4", encoding={name: encoding})
        return (Path(folder) / "a.nc").read_bytes()


SINCE_1978 = ("days since 1978-01-01 12:00:00", [(day - dt.date(1978, 1, 1)).days for day in DAYS])
PACKED = {"dtype": "int16", "scale_factor": 0.01, "_FillValue": -999}


@pytest.mark.parametrize(
    ("units", "values"),
    [
        SINCE_1978,
        ("days since 1978-01-01 00:00:00", SINCE_1978[1]),
        ("days since 1978-01-01", SINCE_1978[1]),
        ("days since 1800-01-01 00:00:0.0", [(day - dt.date(1800, 1, 1)).days for day in DAYS]),
        ("hours since 1900-01-01T00:00", [(day - dt.date(1900, 1, 1)).days * 24.0 for day in DAYS]),
        (
            "seconds since 1970-01-01T00:00:00Z",
            [(day - dt.date(1970, 1, 1)).days * 86400.0 + 43200 for day in DAYS],
        ),
    ],
)
def test_every_time_stamp_is_normalised_to_its_date(units: str, values: list[float]) -> None:
    sst, grid = globe(), parse_box("10,20,-2,2")
    found = read_granule(to_bytes(sst, units, values, **PACKED), DAYS[1:], grid)
    assert list(found.fields) == DAYS[1:]
    assert found.span == "2020-02-28 to 2020-03-02"
    for index, day in enumerate(DAYS[1:], 1):
        np.testing.assert_array_equal(found.fields[day], pack(sst[index].sel(lat=grid.lat, lon=grid.lon).values))


@pytest.mark.parametrize(
    "encoding",
    [
        PACKED,
        {"dtype": "float32", "_FillValue": -9.96921e36},
        {"dtype": "int32", "scale_factor": 0.001, "_FillValue": -99999},
    ],
    ids=lambda encoding: encoding["dtype"],
)
@pytest.mark.parametrize("region", ["-5,5,-1,1", "170,190,-1,2"])
@pytest.mark.parametrize("flip", ["north first", "-180..180", "zlev", "kelvin"])
def test_every_layout_gives_the_same_cells(encoding, region: str, flip: str) -> None:
    sst, grid = globe(), parse_box(region)
    stored = sst
    if flip == "north first":
        stored = sst[:, ::-1]
    elif flip == "-180..180":
        stored = sst.assign_coords(lon=(sst["lon"] + 180) % 360 - 180).sortby("lon")
    elif flip == "zlev":
        stored = sst.expand_dims(zlev=[0.0], axis=1)
    elif flip == "kelvin":
        stored = (sst + 273.15).assign_attrs(units="K")
        encoding = encoding | {"dtype": "float64", "scale_factor": 1.0}
    found = read_granule(to_bytes(stored, *SINCE_1978, **encoding), DAYS, grid)
    expected = sst.sel(lat=grid.lat).sel(lon=grid.lon % 360).values
    np.testing.assert_array_equal(np.stack(list(found.fields.values())), pack(expected))


@pytest.mark.parametrize("shift", [{"lat": 0.05}, {"lon": 0.05}, {"lat": 0.125}, {"lon": 1.0}])
def test_a_grid_that_is_a_little_off_is_wrong(shift: dict[str, float]) -> None:
    sst = globe().isel(lon=slice(40, 80))
    moved = sst.assign_coords({axis: sst[axis] + by for axis, by in shift.items()})
    with pytest.raises(BadFile, match="wrong grid: no cell at"):
        read_granule(to_bytes(moved, *SINCE_1978, **PACKED), DAYS, parse_box("10,20,-2,2"))


def test_pack_rounds_and_fills() -> None:
    packed = pack(np.array([12.345678, -1.8, np.nan, 0.29, 29.999]))
    np.testing.assert_array_equal(packed, [1235, -180, -999, 29, 3000])
    assert packed.dtype == np.int16


@pytest.mark.parametrize("cut", [8, 1000, 0.5, 0.999])
def test_no_truncated_file_passes(tmp_path: Path, cut: float) -> None:
    data = to_bytes(globe(), *SINCE_1978, **PACKED)
    data = data[: int(cut if cut >= 1 else cut * len(data))]
    (tmp_path / "a.nc").write_bytes(data)
    for source in (data, tmp_path / "a.nc"):
        with pytest.raises(BadFile, match="damaged"):
            read_granule(source, DAYS, Box(10, 20, -2, 2))


def test_flipped_bits_in_the_values_are_found() -> None:
    data = to_bytes(globe(), *SINCE_1978, **PACKED, zlib=True, shuffle=True, chunksizes=(1, 24, 1440))
    grid, found = Box(0, 360, -3, 3), 0
    for position in range(len(data) // 2, len(data) // 2 + 40_000, 4000):
        broken = bytearray(data)
        broken[position] ^= 0xFF
        try:
            read_granule(bytes(broken), DAYS, grid)
        except BadFile:
            found += 1
    assert found == 10


def test_other_files_are_named_for_what_they_are() -> None:
    grid = Box(10, 20, -2, 2)
    sst, axis = globe(), SINCE_1978
    ice = sst.assign_attrs(long_name="Sea ice concentration")
    one_day = sst[:1].assign_attrs(id="oisst-avhrr-v02r01.20010101.nc")
    wrong = {
        "empty": b"",
        "not a NetCDF file": b"<!DOCTYPE html>",
        "no variable 'sst'": to_bytes(sst, *axis, name="ssh"),
        "time in 'parsecs": to_bytes(sst, "parsecs since 1978-01-01", [1.0, 2.0, 3.0, 4.0], **PACKED),
        "no values in the region": to_bytes(sst * np.nan, *axis, **PACKED),
        r"sst of \S+..99.99 degC": to_bytes(sst.where(sst < 30, 99.99), *axis, **PACKED),
        "sst is something else: its long_name is .*ice concentration'": to_bytes(ice, *axis, **PACKED),
        "its id says '20010101'": to_bytes(one_day, axis[0], axis[1][:1], **PACKED),
    }
    for words, data in wrong.items():
        with pytest.raises(BadFile, match=words):
            read_granule(data, DAYS, grid)


def test_values_in_other_files_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(np.full((4, 24, 1440), 2222, "<i2").tobytes())
    (tmp_path / "a.nc").write_bytes(to_bytes(globe(), *SINCE_1978, **PACKED))
    with h5py.File(tmp_path / "a.nc", "r+") as file:
        del file["sst"]
        outside = [(str(tmp_path / "secret"), 0, 4 * 24 * 1440 * 2)]
        file.create_dataset("sst", (4, 24, 1440), "<i2", external=outside).attrs["scale_factor"] = 0.01
    with pytest.raises(BadFile, match="keeps its values in another file"):
        read_granule(tmp_path / "a.nc", DAYS, Box(10, 20, -2, 2))
