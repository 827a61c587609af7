"""The verb fetch from every kind of source, to disks and requests that are not as they should be."""

import datetime as dt
import itertools
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from fetching import assert_right, get
from oisst_server import (
    DAYS,
    calendar,
    daily_files,
    erddap,
    yearly_file,
)

from perf.simulated import Simulator, canonical_name, write_day
from sstcast.errors import SSTCastError
from sstcast.ocean.raw import open_days
from sstcast.ocean.reading import source_path
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
    assert_right(tmp_path, days)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".a.zarr.lock", "a.zarr"]


def test_the_current_year_grows(server, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(Psl, "base", server.url)
    days = calendar("2020-01-01", 70)
    server.files = {"/sst.day.mean.2020.nc": yearly_file(days[:50])}
    report = get(tmp_path, days, "psl")
    assert list(report.missing) == days[50:]
    assert report.missing[days[50]] == f"psl: sst.day.mean.2020.nc holds {days[0]} to {days[49]}"
    assert_right(tmp_path, days[:50])
    server.files = {"/sst.day.mean.2020.nc": yearly_file(days)}
    assert get(tmp_path, days, "psl").fetched == 20
    assert_right(tmp_path, days)


@pytest.mark.parametrize("fault", ["truncated", "html", "500", yearly_file(DAYS)[:5000]], ids=lambda f: str(f)[:9])
def test_a_broken_year_does_not_land(server, tmp_path: Path, fault) -> None:
    server.files = {"/sst.day.mean.2020.nc": yearly_file(DAYS)}
    server.faults["/sst.day.mean.2020.nc"] = itertools.chain([fault] * (3 if fault == "500" else 1))
    assert list(get(tmp_path, source=server.url).missing) == DAYS
    assert not (tmp_path / "a.zarr").exists()
    assert get(tmp_path, source=server.url).complete
    assert_right(tmp_path, DAYS)


def test_erddap_cuts_the_box_one_request_at_a_time(server, tmp_path: Path) -> None:
    server.erddap, server.delay = erddap(final_until=DAYS[20]), 0.005
    report = get(tmp_path, DAYS[:38], f"{server.url}/griddap")
    assert report.preliminary == tuple(DAYS[21:35])
    assert list(report.missing) == DAYS[35:38]
    assert_right(tmp_path, DAYS[:35], preliminary=tuple(DAYS[21:35]))
    assert server.peak == 1


@pytest.mark.parametrize("flat", [True, False])
def test_a_folder_is_a_source(tmp_path: Path, flat: bool) -> None:
    for path, body in daily_files(DAYS).items():
        file = tmp_path / "mirror" / (Path(path).name if flat else path[1:])
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(body)
    assert get(tmp_path, source=str(tmp_path / "mirror")).complete
    assert_right(tmp_path, DAYS)


def test_a_folder_of_years_is_read_where_it_lies(tmp_path: Path) -> None:
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror/sst.day.mean.2020.nc").write_bytes(yearly_file(DAYS))
    assert get(tmp_path, source=str(tmp_path / "mirror")).complete
    assert_right(tmp_path, DAYS)
    assert (tmp_path / "mirror/sst.day.mean.2020.nc").exists()


def test_the_sample_gives_its_own_values_back(tmp_path: Path) -> None:
    days = calendar("1983-12-30", 400)
    assert get(tmp_path, days, "sample", region=None).complete
    with xr.open_dataset(source_path("sample"), engine="netcdf4") as sample:
        expected = sample["sst"].sel(time=slice(str(days[0]), str(days[-1])))
        held = open_days(tmp_path / "a.zarr")["sst"]
        np.testing.assert_allclose(held, expected, atol=1e-5)
        for axis in ("time", "lat", "lon"):
            np.testing.assert_array_equal(held[axis], expected[axis])
    report = get(tmp_path, calendar("2016-12-30", 4), "sample", region=None)
    assert list(report.missing) == calendar("2017-01-01", 2)


def test_a_folder_of_files_as_noaa_writes_them(tmp_path: Path) -> None:
    days, simulator, box = calendar("2020-02-27", 4), Simulator(), (slice(300, 420), slice(720, 1080))
    for day in days:
        (tmp_path / "files").mkdir(exist_ok=True)
        write_day(tmp_path / "files" / canonical_name(day), day, simulator, box=box)
    assert get(tmp_path, days, str(tmp_path / "files"), region="200,205,-4,3").complete
    held = open_days(tmp_path / "a.zarr")
    field = simulator.field(days, held["lat"].values, held["lon"].values)
    np.testing.assert_allclose(held["sst"], field, atol=1e-5)


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
