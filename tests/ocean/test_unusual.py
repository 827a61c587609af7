"""Data that are not daily fields on a grid of latitudes and longitudes: refused, or read as what they are."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from small_files import OCEAN, data_of, netcdf
from small_ocean import make_sst

from sstcast.config import load_config
from sstcast.errors import SSTCastError
from sstcast.ocean.identity import fingerprint
from sstcast.ocean.prepare import prepare
from sstcast.ocean.prepared import Prepared
from sstcast.ocean.reading import open_region, open_sst
from sstcast.ocean.starting import start

Change = Callable[[xr.Dataset], xr.Dataset]


def units_of(name: str, **attributes: str) -> Change:
    def change(data: xr.Dataset) -> xr.Dataset:
        data = data.rename({name: f"{name}_"}) if "standard_name" not in attributes else data
        axis = f"{name}_" if f"{name}_" in data.coords else name
        data[axis].attrs |= {"axis": "Y" if name == "lat" else "X", **attributes}
        return data

    return change


UNUSUAL: dict[str, tuple[Change, list[str]]] = {
    "monthly": (
        lambda data: make_sst(9).resample(time="MS").mean(),
        ["a value every 31 days", "monthly or weekly ones cannot be used"],
    ),
    "weekly": (lambda data: make_sst(9).resample(time="7D").mean(), ["a value every 7 days"]),
    "6-hourly": (
        lambda data: data.assign_coords(time=pd.date_range("2001-01-01", periods=365, freq="6h")),
        ["2001-01-01 twice", 'ds.resample(time="1D").mean()'],
    ),
    "rotated pole": (
        units_of("lat", standard_name="grid_latitude", units="degrees"),
        ["not a lat in degrees (grid_latitude)", "interpolate"],
    ),
    "kilometres": (units_of("lon", units="km"), ["not a lon in degrees (km)", "interpolate"]),
    "a row of latitudes is missing": (lambda data: data.isel(lat=[0, 1, 2, 4, 5, 6, 7]), ["its lat lacks values"]),
    "a column is missing": (lambda data: data.isel(lon=[0, 1, 2, 4, 5, 6, 7, 8]), ["its lon lacks values"]),
}


@pytest.mark.parametrize("case", UNUSUAL)
def test_it_is_refused_by_init_and_by_prepare(tmp_path: Path, case: str) -> None:
    change, words = UNUSUAL[case]
    path = netcdf(change(make_sst(1)))(tmp_path)
    for use in (lambda: start(str(path), tmp_path / "a.yaml"), lambda: open_region(data_of(path))):
        with pytest.raises(SSTCastError) as error:
            use()
        for word in (str(path), *words):
            assert word in str(error.value)
    assert not (tmp_path / "a.yaml").exists()


def test_times_just_before_midnight_are_of_the_day_that_begins(tmp_path: Path) -> None:
    """Days in single precision since 1800 are seconds off."""
    early = OCEAN.assign_coords(time=OCEAN.time - np.timedelta64(4, "s"))
    assert open_sst(netcdf(early)(tmp_path)).indexes["time"].equals(OCEAN.indexes["time"])


@pytest.mark.parametrize("version", [2, 3])
def test_integers_without_fill_value_need_all_their_chunks(tmp_path: Path, version: int) -> None:
    path, whole = tmp_path / "a.zarr", OCEAN["sst"].fillna(0)
    packed = np.rint((whole - 15) * 100).astype("i2")
    packed.attrs = {"units": "degC", "scale_factor": 0.01, "add_offset": 15.0}
    packed.chunk(time=73).to_dataset(name="sst").to_zarr(path, zarr_format=version, consolidated=version == 2)
    np.testing.assert_allclose(open_sst(path), whole, atol=0.01)
    next((path / "sst").glob("**/2*0" if version == 2 else "**/2/0/0")).unlink()
    with pytest.raises(SSTCastError, match=r"a.zarr: sst lacks 1 of 5 chunks"):
        open_sst(path)


def test_a_calendar_without_leap_days_is_read_and_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = make_sst(4)
    noleap = data.convert_calendar("noleap", align_on="date")
    noleap["sst"] = (noleap["sst"] + 273.15).assign_attrs(units="K")
    path = netcdf(noleap)(tmp_path)
    opened = open_sst(path)
    standard = data.sel(time=~((data.time.dt.month == 2) & (data.time.dt.day == 29)))
    assert opened.indexes["time"].equals(standard.indexes["time"])
    np.testing.assert_allclose(opened, standard["sst"], atol=1e-4)
    assert "no leap days" in capsys.readouterr().err
    filled = open_region(data_of(path, gaps=1)).sel(time="2004-02-29")
    around = data["sst"].sel(time=["2004-02-28", "2004-03-01"]).mean("time")
    np.testing.assert_allclose(filled, around, atol=1e-4)
    lines = start(str(path), tmp_path / "a.yaml")
    assert load_config(tmp_path / "a.yaml").data.gaps == 1
    assert any("gaps: 1 days in a row" in line for line in lines)


def test_long_gaps_are_told_and_not_bridged(tmp_path: Path) -> None:
    data = make_sst(4)
    path = netcdf(data.isel(time=[*range(500), *range(512, data.sizes["time"])]))(tmp_path)
    lines = start(str(path), tmp_path / "a.yaml")
    assert load_config(tmp_path / "a.yaml").data.gaps == 3
    assert any("12 days in a row are more than that" in line for line in lines)
    with pytest.raises(SSTCastError, match=r"12 missing day\(s\)"):
        prepare(load_config(tmp_path / "a.yaml", [f"data.directory={tmp_path}/p"]).data)


def test_init_and_prepare_agree_on_scattered_missing_cells(tmp_path: Path) -> None:
    data, random = make_sst(4), np.random.default_rng(0)
    data["sst"] = data["sst"].where(random.random(data["sst"].shape) < 0.7)
    path = netcdf(data)(tmp_path)
    lines = start(str(path), tmp_path / "a.yaml")
    assert any("ocean cells lack values on 8 of 8 days examined" in line for line in lines)
    config = load_config(tmp_path / "a.yaml", [f"data.directory={tmp_path}/p"])
    assert config.data.gaps == 3
    with pytest.raises(SSTCastError, match=r"ocean cells lack values on .* data.gaps: 3; raise .*level 4"):
        prepare(config.data, say=str)


def test_a_change_behind_a_link_is_seen(tmp_path: Path) -> None:
    """Reading follows links to folders, so what tells whether a source has changed does too."""
    (tmp_path / "far").mkdir()
    (tmp_path / "source").mkdir()
    for year, days in make_sst(4).groupby("time.year"):
        days.to_netcdf(tmp_path / f"far/{year}.nc", engine="netcdf4")
    (tmp_path / "source/linked").symlink_to(tmp_path / "far")
    (tmp_path / "far/round").symlink_to(tmp_path / "source")
    keys = {"directory": tmp_path / "prepared", "history": 10, "horizon": 5}
    splits = {"train": [2001, 2002], "validation": [2003, 2003], "test": [2004, 2004]}
    data = data_of(tmp_path / "source", splits=splits, **keys)
    prepare(data, say=str)
    before = fingerprint(tmp_path / "source")
    last = make_sst(4).sel(time="2004") + 0.5
    last["sst"].attrs["units"] = "Celsius"
    last.to_netcdf(tmp_path / "far/2004.nc", engine="netcdf4")
    assert fingerprint(tmp_path / "source") != before
    lines: list[str] = []
    prepare(data, say=lines.append)
    assert lines
    cube, _ = Prepared.of(data).open()
    np.testing.assert_allclose(cube["sst"][-1].values, SST_OF_LAST + 0.5, atol=1e-4)


SST_OF_LAST = make_sst(4)["sst"][-1].values
