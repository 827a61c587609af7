"""Simulated day files against NOAA's own, and against the simulator."""

import datetime as dt
from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray as xr

from perf.simulated_files import canonical_name, write_day
from sstcast.ocean.land import GLOBE
from sstcast.ocean.reading import open_sst
from sstcast.sources.simulator import Simulator

LAT, LON = GLOBE.lat, GLOBE.lon

DAY = dt.date(2022, 2, 18)
BOX = slice(300, 420), slice(720, 1080)
SHARED = Path(__file__).parents[2].parent / "shared/data"
ORIGINAL = SHARED / "ocean/oisst-avhrr-v02r01.20220218.nc"


@pytest.fixture(scope="module")
def simulator():
    return Simulator(seed=3)


@pytest.fixture(scope="module")
def globe(simulator, tmp_path_factory):
    path = tmp_path_factory.mktemp("days") / canonical_name(DAY)
    write_day(path, DAY, simulator)
    return path


@pytest.fixture
def original():
    if not ORIGINAL.exists():
        pytest.skip(f"{ORIGINAL} is absent: the file of NOAA to compare with")
    return ORIGINAL


def kinds(attributes):
    """Map attribute names to the NumPy types of their values."""
    return {name: np.asarray(value).dtype.kind + str(np.asarray(value).dtype.itemsize)
            if not isinstance(value, str) else "text" for name, value in attributes.items()}  # fmt: skip


def test_layout_is_that_of_the_original(globe, original):
    with (
        xr.open_dataset(globe, decode_cf=False) as ours,
        xr.open_dataset(original, decode_cf=False) as theirs,
    ):
        assert dict(ours.sizes) == dict(theirs.sizes)
        assert ours.encoding["unlimited_dims"] == theirs.encoding["unlimited_dims"] == {"time"}
        assert kinds(ours.attrs) == kinds(theirs.attrs)
        assert set(ours.variables) == set(theirs.variables)
        for name, variable in theirs.variables.items():
            assert ours[name].dims == variable.dims
            assert ours[name].dtype == variable.dtype
            assert kinds(ours[name].attrs) == kinds(variable.attrs)
            for key in ("zlib", "shuffle", "complevel", "fletcher32", "chunksizes", "contiguous", "dtype"):
                assert ours[name].encoding.get(key) == variable.encoding.get(key), (name, key)
            for key in set(variable.attrs) - {"long_name"}:
                assert ours[name].attrs[key] == variable.attrs[key], (name, key)
        for name in ("time", "lat", "lon", "zlev"):
            np.testing.assert_array_equal(ours[name], theirs[name])


def test_storage_is_that_of_the_original(globe, original):
    with h5py.File(globe) as ours, h5py.File(original) as theirs:
        for name in theirs:
            for key in ("chunks", "compression", "compression_opts", "shuffle", "maxshape", "dtype"):
                assert getattr(ours[name], key) == getattr(theirs[name], key), (name, key)


def test_only_the_form_is_described_in_the_words_of_the_original(globe, original):
    with xr.open_dataset(globe) as ours, xr.open_dataset(original) as theirs:
        same = {name for name, value in theirs.attrs.items() if ours.attrs[name] == value}
        form = (
            "geospatial_",
            "time_coverage_",
            "date_",
            "Conventions",
            "id",
            "cdm_data_type",
            "ncei_template_version",
        )
        assert [name for name in same if not name.startswith(form) and not name.endswith("vocabulary")] == []


def test_land_is_nearly_that_of_the_original(globe, original):
    with xr.open_dataset(globe) as ours, xr.open_dataset(original) as theirs:
        agree = ours["sst"].isnull() == theirs["sst"].isnull()
        assert agree.mean() > 0.98
        assert agree[0, 0, BOX[0], BOX[1]].mean() > 0.999


def test_every_description_says_simulated(globe):
    with xr.open_dataset(globe) as day:
        for name in ("title", "summary", "source", "history", "institution", "platform", "product_version"):
            assert "SIMULATED" in day.attrs[name], name
        for name in day.data_vars:
            assert "SIMULATED" in day[name].attrs["long_name"], name


def test_the_file_holds_what_the_simulator_says(globe, simulator):
    with xr.open_dataset(globe) as day:
        field, climatology = simulator.field([DAY], LAT, LON), simulator.climatology([DAY], LAT, LON)
        np.testing.assert_allclose(day["sst"][:, 0], field, atol=1e-5)
        np.testing.assert_allclose(day["anom"][:, 0], field - climatology, atol=0.0051)
        assert day["time"].values == np.datetime64("2022-02-18T12:00")
        ice, sst = day["ice"].values, day["sst"].values
        assert np.nanmin(ice) >= 0.15
        assert np.nanmax(ice) <= 1
        assert sst[np.isfinite(ice)].max() < 0
        assert 0.1 < float(day["err"].min()) < float(day["err"].max()) < 0.4


def test_a_box_is_cut_out_of_the_globe(globe, simulator, tmp_path):
    write_day(tmp_path / "box.nc", DAY, simulator, box=BOX)
    with xr.open_dataset(tmp_path / "box.nc") as box, xr.open_dataset(globe) as whole:
        xr.testing.assert_equal(box, whole.isel(lat=BOX[0], lon=BOX[1]))
        assert box.attrs["geospatial_lat_min"] == -15
        assert box.attrs["geospatial_lon_max"] == 270


def test_preliminary_names_itself(simulator, tmp_path):
    paths = [tmp_path / canonical_name(DAY, preliminary) for preliminary in (False, True)]
    assert [path.name for path in paths] == [
        "oisst-avhrr-v02r01.20220218.nc",
        "oisst-avhrr-v02r01.20220218_preliminary.nc",
    ]
    for path, preliminary in zip(paths, (False, True), strict=True):
        write_day(path, DAY, simulator, preliminary, BOX)
    with xr.open_dataset(paths[0]) as final, xr.open_dataset(paths[1]) as early:
        assert [day.attrs["id"] for day in (final, early)] == [path.name for path in paths]
        assert final.attrs["title"].endswith("Version 2.1 - Final")
        assert early.attrs["title"].endswith("Version 2.1 - Preliminary")


def test_same_arguments_same_bytes(simulator, tmp_path):
    for name in ("a.nc", "b.nc"):
        write_day(tmp_path / name, DAY, simulator, box=BOX)
    assert (tmp_path / "a.nc").read_bytes() == (tmp_path / "b.nc").read_bytes()


def test_a_folder_of_days_is_a_source(simulator, tmp_path):
    days = [DAY + dt.timedelta(days=n) for n in range(3)]
    for day in days:
        write_day(tmp_path / canonical_name(day), day, simulator, box=BOX)
    sst = open_sst(tmp_path)
    assert [str(day)[:10] for day in sst["time"].values] == [str(day) for day in days]
    np.testing.assert_allclose(sst, simulator.field(days, LAT[BOX[0]], LON[BOX[1]]), atol=1e-5)
