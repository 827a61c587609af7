"""The verb fetch from every kind of source, to disks and requests that are not as they should be."""

import datetime as dt
import itertools
import shutil
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from oisst_server import DAYS, calendar, daily_file, erddap, yearly_file
from storing import assert_holds, get

from sstcast.config import FieldSource
from sstcast.errors import SSTCastError
from sstcast.reading.raw import open_days
from sstcast.sources.noaa import Psl


def test_files_of_a_year_are_cut_into_days(server, tmp_path: Path) -> None:
    days = calendar("2019-12-01", 60)
    server.files = {
        f"/sst.day.mean.{year}.nc": yearly_file(
            [day for day in calendar(f"{year}-01-01", 366) if day.year == year]
        )
        for year in (2019, 2020)
    }
    assert get(tmp_path, days, server.url).complete
    assert server.seen == ["/sst.day.mean.2019.nc", "/sst.day.mean.2020.nc"]
    assert_holds(tmp_path / "a.zarr", days)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".a.zarr.lock", "a.zarr"]


def test_the_current_year_grows(server, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(Psl, "base", server.url)
    days = calendar("2020-01-01", 70)
    server.files = {"/sst.day.mean.2020.nc": yearly_file(days[:50])}
    report = get(tmp_path, days, "psl")
    assert list(report.missing) == days[50:]
    assert report.missing[days[50]] == f"psl: sst.day.mean.2020.nc holds {days[0]} to {days[49]}"
    assert_holds(tmp_path / "a.zarr", days[:50])
    server.files = {"/sst.day.mean.2020.nc": yearly_file(days)}
    assert get(tmp_path, days, "psl").fetched == 20
    assert_holds(tmp_path / "a.zarr", days)


@pytest.mark.parametrize("fault", ["truncated", "html", "500", yearly_file(DAYS)[:5000]], ids=lambda f: str(f)[:9])
def test_a_broken_year_does_not_land(server, tmp_path: Path, fault) -> None:
    server.files = {"/sst.day.mean.2020.nc": yearly_file(DAYS)}
    server.faults["/sst.day.mean.2020.nc"] = itertools.chain([fault] * (3 if fault == "500" else 1))
    assert list(get(tmp_path, source=server.url).missing) == DAYS
    assert not (tmp_path / "a.zarr").exists()
    assert get(tmp_path, source=server.url).complete
    assert_holds(tmp_path / "a.zarr", DAYS)


def test_erddap_cuts_the_box_one_request_at_a_time(server, tmp_path: Path) -> None:
    server.erddap, server.delay = erddap(final_until=DAYS[20]), 0.005
    report = get(tmp_path, DAYS[:38], f"{server.url}/griddap")
    assert report.preliminary == tuple(DAYS[21:35])
    assert list(report.missing) == DAYS[35:38]
    assert_holds(tmp_path / "a.zarr", DAYS[:35], preliminary=tuple(DAYS[21:35]))
    assert server.peak == 1


def test_files_in_a_folder_are_known_by_what_they_hold(tmp_path: Path) -> None:
    mirror = tmp_path / "mirror"
    (mirror / "deep/er").mkdir(parents=True)
    for index, day in enumerate(DAYS):
        place = mirror / ("deep/er" if index % 2 else ".")
        (place / f"file {index}.{'nc4' if index % 3 else 'dat'}").write_bytes(daily_file(day))
    (mirror / "a preliminary one").write_bytes(daily_file(DAYS[7], preliminary=True))
    (mirror / "deep/again.nc").write_bytes(daily_file(DAYS[3]))
    (mirror / "README").write_text("about these files")
    (mirror / "other.nc").write_bytes(daily_file(DAYS[0] - dt.timedelta(100)))
    (mirror / "round").symlink_to(mirror)
    shutil.copytree(tmp_path / "mirror/deep", tmp_path / "mirror/store.zarr")
    (mirror / "store.zarr/.zgroup").write_text('{"zarr_format": 2}')
    report = get(tmp_path, source=str(mirror))
    assert report.complete
    assert report.preliminary == ()
    assert_holds(tmp_path / "a.zarr", DAYS)
    assert report.unused == {
        "README": "not a NetCDF file (it begins with b'about th')",
        "a preliminary one": f"preliminary; {DAYS[7]} is in deep/er/file 7.nc4",
        "deep/er/file 3.dat": f"a second file; {DAYS[3]} is in deep/again.nc",
        "other.nc": "holds none of the requested days",
        "store.zarr": "a Zarr store; set data.source to it",
    }
    assert "not used README: not a NetCDF file (it begins with b'about th')" in report.lines()


def test_a_folder_of_years_is_read_where_it_lies(tmp_path: Path) -> None:
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror/sst.day.mean.2020.nc").write_bytes(yearly_file(DAYS))
    assert get(tmp_path, source=str(tmp_path / "mirror")).complete
    assert_holds(tmp_path / "a.zarr", DAYS)
    assert (tmp_path / "mirror/sst.day.mean.2020.nc").exists()


def test_the_sample_gives_its_own_values_back(tmp_path: Path) -> None:
    days = calendar("1983-12-30", 70)
    assert get(tmp_path, days, "sample", region=None).complete
    with xr.open_dataset(FieldSource().path, engine="netcdf4") as sample:
        expected = sample["sst"].sel(time=slice(str(days[0]), str(days[-1])))
        held = open_days(tmp_path / "a.zarr")["sst"]
        np.testing.assert_allclose(held, expected, atol=1e-5)
        for axis in ("time", "lat", "lon"):
            np.testing.assert_array_equal(held[axis], expected[axis])
    report = get(tmp_path, calendar("2016-12-30", 4), "sample", region=None)
    assert list(report.missing) == calendar("2017-01-01", 2)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"days": DAYS[::-1]}, "before --start"),
        ({"days": [dt.date(1981, 8, 31)]}, "OISST begins on 1981-09-01"),
        ({"concurrency": 0}, "--concurrency 0"),
        ({"source": "awz"}, "--source awz: neither a source, nor a folder, nor a URL"),
        ({"region": "atlantis"}, "atlantis"),
    ],
)
def test_a_wrong_request_is_named(tmp_path: Path, options, words: str) -> None:
    with pytest.raises(SSTCastError, match=words):
        get(tmp_path, **options)
