"""The verb fetch from every kind of source, to disks and requests that are not as they should be."""

import datetime as dt
import itertools
import socket
import threading
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from fetching import assert_right, get
from oisst_server import (
    DAYS,
    calendar,
    daily_files,
    daily_path,
    erddap,
    hundredths,
    yearly_file,
)

from perf.simulated import Simulator, canonical_name, write_day
from sstcast.errors import SSTCastError
from sstcast.ocean.raw import open_days
from sstcast.ocean.reading import source_path
from sstcast.sources.download import Patience
from sstcast.sources.fetch import FetchRequest
from sstcast.sources.noaa import Psl

BAD = DAYS[7]
REAL = Path(__file__).parents[2].parent / "shared/data/ocean/oisst-avhrr-v02r01.20220218.nc"


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


def test_the_latest_days_of_psl_count_as_preliminary(server, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(Psl, "base", server.url)
    today = dt.date.today()
    days = [today - dt.timedelta(i) for i in range(20, 0, -1)]
    server.files = {
        f"/sst.day.mean.{year}.nc": yearly_file([day for day in days if day.year == year])
        for year in {day.year for day in days}
    }
    assert get(tmp_path, days, "psl").preliminary == tuple(days[-14:])


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


def test_erddap_sends_no_more_than_the_box(server, tmp_path: Path) -> None:
    server.erddap = erddap(final_until=DAYS[20])
    assert get(tmp_path, DAYS[:2], f"{server.url}/griddap", region="180.5,181,-0.5,0.5").complete
    assert "[(-0.375):(0.375)][(180.625):(180.875)]" in server.seen[0]
    held = open_days(tmp_path / "a.zarr")["sst"]
    expected = hundredths(DAYS[1])[2:6, 2:4].astype(float)
    np.testing.assert_allclose(held[1] * 100, np.where(expected == -999, np.nan, expected), atol=1e-6)


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


def test_a_full_disk_ends_the_fetch_in_one_line(aws, tmp_path: Path, monkeypatch) -> None:
    get(tmp_path, DAYS[:4])
    rename = Path.replace

    def full(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(SSTCastError, match="no space left on its disk"):
        get(tmp_path)
    monkeypatch.setattr(Path, "replace", rename)
    assert_right(tmp_path, DAYS[:4])
    assert get(tmp_path).fetched == 36
    assert_right(tmp_path, DAYS)


def test_no_cloud_profile_redirects_aws(server, tmp_path: Path, monkeypatch) -> None:
    """A proxy sees where the connection would go, whatever the environment says; nothing leaves the machine."""
    for name in (
        "AWS_ENDPOINT_URL",
        "AWS_ENDPOINT_URL_S3",
        "AWS_ENDPOINT",
        "AWS_PROXY_URL",
        "AWS_METADATA_ENDPOINT",
    ):
        monkeypatch.setenv(name, server.url)
    monkeypatch.setenv("AWS_PROFILE", "elsewhere")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    (tmp_path / "config").write_text(f"[profile elsewhere]\nendpoint_url = {server.url}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    targets: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as proxy:

        def listen() -> None:
            for _ in range(2):
                connection, _ = proxy.accept()
                targets.append(connection.recv(1000).decode().split("\r\n")[0])
                connection.close()

        threading.Thread(target=listen, daemon=True).start()
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.getsockname()[1]}")
        monkeypatch.delenv("NO_PROXY", raising=False)
        report = get(tmp_path, [BAD], patience=Patience(attempts=1))
    assert list(report.missing) == [BAD]
    assert [target.split()[:2] for target in targets] == [
        ["CONNECT", "noaa-cdr-sea-surface-temp-optimum-interpolation-pds.s3.amazonaws.com:443"],
        ["CONNECT", "www.ncei.noaa.gov:443"],
    ]
    assert server.seen == []


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


@pytest.mark.parametrize("source", ["simulator", "folder"])
def test_a_simulated_ocean_lands_as_such(tmp_path: Path, source: str) -> None:
    days, simulator, box = calendar("2020-02-27", 4), Simulator(), (slice(300, 420), slice(720, 1080))
    if source == "folder":
        source = str(tmp_path / "files")
        for day in days:
            write_day(Path(source) / canonical_name(day), day, simulator, box=box)
    assert get(tmp_path, days, source, region="200,205,-4,3").complete
    held = open_days(tmp_path / "a.zarr")
    field = simulator.field(days, held["lat"].values, held["lon"].values)
    np.testing.assert_allclose(held["sst"], field, atol=1e-5)
    assert "SIMULATED" in held.attrs["title"]


@pytest.mark.skipif(not REAL.exists(), reason=f"{REAL.name} is not here")
def test_a_real_day_through_the_server(server, tmp_path: Path) -> None:
    day = dt.date(2022, 2, 18)
    server.files = {daily_path(day): REAL.read_bytes()}
    assert get(tmp_path, [day], server.url, region="pacific").complete
    held = open_days(tmp_path / "a.zarr")["sst"]
    with xr.open_dataset(REAL, engine="netcdf4") as real:
        expected = real["sst"].squeeze("zlev", drop=True).sel(lat=slice(-15, 15), lon=slice(180, 270))
        np.testing.assert_allclose(held, expected, atol=1e-5)
    assert (round(float(held.min()), 2), round(float(held.max()), 2)) == (22.69, 30.14)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"days": DAYS[::-1]}, "before --start"),
        ({"days": [dt.date(1981, 8, 31)]}, "OISST begins on 1981-09-01"),
        ({"concurrency": 0}, "--concurrency 0"),
        ({"source": "awz"}, "--source awz: neither a folder nor a URL"),
        ({"region": "atlantis"}, "atlantis"),
    ],
)
def test_a_wrong_request_is_named(tmp_path: Path, options, words: str) -> None:
    with pytest.raises(SSTCastError, match=words):
        get(tmp_path, **options)


def test_stores_have_telling_names() -> None:
    span = (DAYS[0], DAYS[-1])
    assert FetchRequest(*span).path == Path("data/oisst-pacific.zarr")
    assert FetchRequest(*span, "sample").path == Path("data/sample-tasman.zarr")
    assert FetchRequest(*span, "simulator", "180,270,-15,15").path == Path("data/simulator-180_270_-15_15.zarr")
