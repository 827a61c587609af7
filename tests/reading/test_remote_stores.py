"""The URL of a Zarr store is a source: it gives the numbers of its file, and says in one line what is wrong."""

import datetime as dt
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread, Timer
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from bucket_server import BucketServer, serving
from logged import logged
from small_ocean import make_sst

import sstcast
from sstcast.config import DataConfig, FieldSource, load_config
from sstcast.errors import SSTCastError
from sstcast.ocean.prepared import Prepared, changed_days
from sstcast.reading import remote_stores
from sstcast.reading.reading import open_daily, open_region, open_sst
from sstcast.reading.regrid import weights_of
from sstcast.reading.remote_stores import day_states
from sstcast.runs import Run

Command = Callable[..., tuple[int, str, str]]
Fails = Callable[..., None]
SET = ["data.history=10", "data.horizon=5", "model={name: ridge}"]
CHUNKS = {"chunks": (100, 4, 4)}
REGION = {"lon": [170, 171], "lat": [-12, -11], "tile": [4, 4]}
SPLITS = {"train": [2001, 2002], "validation": [2003, 2003], "test": [2004, 2004]}


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(remote_stores, "RETRIES", 0)
    for name in [*remote_stores.CREDENTIALS["s3"], "AWS_ENDPOINT_URL", "AWS_REGION", "AWS_DEFAULT_REGION"]:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def serving_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, BucketServer]]:
    """One server, whose folder each test sets, so that a store has the same address in all."""
    with serving(tmp_path_factory.mktemp("nothing")) as found:
        yield found


def serve(bucket: BucketServer, folder: Path) -> None:
    """Serve another folder, as a server that behaves."""
    vars(bucket).update(vars(BucketServer(folder)))


@pytest.fixture(scope="module")
def ocean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small ocean, `served/days.zarr`, in chunks of 100 days and 4 x 4 cells."""
    folder = tmp_path_factory.mktemp("ocean")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write(make_sst())
    return folder


@pytest.fixture
def server(tmp_path: Path, ocean: Path, serving_folder: tuple[str, BucketServer]) -> tuple[str, BucketServer]:
    """The address of a copy of the small ocean, and its server."""
    url, bucket = serving_folder
    shutil.copytree(ocean / "served", tmp_path / "served")
    serve(bucket, tmp_path / "served")
    return f"{url}/days.zarr", bucket


@pytest.fixture(scope="module")
def evaluated(
    tmp_path_factory: pytest.TempPathFactory, ocean: Path, serving_folder: tuple[str, BucketServer]
) -> tuple[Path, list[str]]:
    """A folder with a run that was evaluated while the server refused, and what was told."""
    (url, bucket), folder = serving_folder, tmp_path_factory.mktemp("evaluated")
    serve(bucket, ocean / "served")
    with pytest.MonkeyPatch.context() as patch, logged() as told:
        patch.chdir(folder)
        patch.setattr(remote_stores, "RETRIES", 0)
        run = trained(f"{url}/days.zarr")
        told.clear()
        bucket.fault = "500"
        sstcast.evaluate(run)
    return folder, told


@pytest.fixture
def run(evaluated: tuple[Path, list[str]], server: tuple[str, BucketServer]) -> Run:
    """A copy of the evaluated run and its stores, while the server behaves."""
    shutil.copytree(evaluated[0], Path(), dirs_exist_ok=True)
    return Run(Path("runs/run"))


def write(days: xr.Dataset, zarr_format: Any = 2, **options: Any) -> None:
    encoding = {"sst": CHUNKS | {"_FillValue": np.nan}}
    days.to_zarr("served/days.zarr", mode="w", zarr_format=zarr_format, encoding=encoding, **options)


def trained(url: str, name: str = "run") -> Run:
    if not Path(f"{name}.yaml").exists():
        sstcast.init(url, f"{name}.yaml")
    return sstcast.train(f"{name}.yaml", SET)


def grown(days: xr.Dataset, count: int = 10) -> xr.Dataset:
    """The same days and some more."""
    later = days.isel(time=slice(-count, None))
    return xr.concat([days, later.assign_coords(time=later["time"] + np.timedelta64(count, "D"))], "time")


def test_the_sample_served_by_http_gives_the_stores_of_the_file(tmp_path: Path, command: Command) -> None:
    """With Python's own server, through the command line, to the bit."""
    with open_sst(FieldSource()) as sample:
        days = sample.sel(time=slice("2013", None)).rename("sst").drop_attrs().assign_attrs(units="degC")
        chunks = {"time": 512, "lat": 16, "lon": 16}
        encoding = {"sst": {"chunks": tuple(chunks.values())}}
        days.to_dataset().chunk(chunks).to_zarr("sample.zarr", zarr_format=2, encoding=encoding)
    region = "data.region={lon: [150, 152], lat: [-42, -40], tile: [8, 8]}"
    records = []
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/sample.zarr"
        for name, source in (("http", url), ("file", "sample.zarr")):
            assert command("init", source, "--out", f"{name}.yaml")[0] == 0
            keys = [word for key in (region, *SET) for word in ("--set", key)]
            assert command("prepare", f"{name}.yaml", *keys)[0] == 0
            prepared = Prepared.of(load_config(Path(f"{name}.yaml"), [region, *SET]).data)
            records.append(prepared.record().model_dump(exclude={"source"}))
        server.shutdown()
    assert records[0] == records[1]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None:
        pass


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part")
def test_only_the_chunks_of_the_region_are_read(server: tuple[str, BucketServer], zarr_format: int) -> None:
    url, bucket = server
    write(make_sst(), zarr_format, consolidated=True)
    keys = ["name=run", "data.region={lon: [170, 171], lat: [-12, -11], tile: [4, 4]}"]
    raw = {
        "data": {
            "source": url,
            "splits": {"train": [2001, 2002], "validation": [2003, 2003], "test": [2004, 2004]},
        }
    }
    config = load_config(Path("configs/demo.yaml"), [f"data={raw['data']}", *keys, *SET])
    bucket.seen.clear()
    with open_region(config.data) as sst:
        found = sst.sel(time=slice("2001-02-01", "2001-02-10")).load()
    expected = make_sst()["sst"].sel(time=found["time"])[:, :4, :4]
    np.testing.assert_allclose(found, expected, atol=1e-5)
    places = {path.rpartition("sst/")[2] for path in bucket.asked("sst/")} - {".zarray", ".zattrs"}
    wanted = {f"c/{n}/0/0" for n in (0, 14)} if zarr_format == 3 else {f"{n}.0.0" for n in (0, 14)}
    assert places == wanted  # the days, and the last ones, which tell whether cells are constant
    assert not bucket.asked("", "HEAD")


def test_of_a_curvilinear_grid_only_chunks_around_the_cells_are_asked_for(
    server: tuple[str, BucketServer],
) -> None:
    """A wind on 40 x 40 cells of about a degree, turned by 20 degrees, for cells in the middle and in a corner."""
    url, bucket = server
    across, north = np.meshgrid(*[np.arange(-20, 20) + 0.5] * 2)
    turn = np.radians(20)
    lat, lon = across * np.sin(turn) + north * np.cos(turn), across * np.cos(turn) - north * np.sin(turn)
    positions = {
        name: (("y", "x"), values, {"units": units})
        for name, values, units in (("nav_lat", lat, "degrees_north"), ("nav_lon", lon, "degrees_east"))
    }
    time = make_sst()["time"][:200]
    values = np.random.default_rng(0).normal(size=(200, 40, 40)).astype(np.float32)
    dataset = xr.Dataset({"u10": (("time", "y", "x"), values, {"units": "m s-1"})}, {"time": time, **positions})
    chunks = {"u10": {"chunks": (100, 10, 10)}}
    dataset.to_zarr("served/days.zarr", mode="w", zarr_format=2, encoding=chunks)
    wind = FieldSource(source=url, variable="u10")
    for middle, most in ((0.0, 16), (16.0, 10)):
        axis = middle + 0.5 * (np.arange(8) - 3.5)
        cells = xr.Dataset(coords={"lat": axis, "lon": axis - 0.4 * middle})
        bucket.seen.clear()
        states = day_states(wind, cells)
        told = {path.rpartition("u10/")[2] for path in bucket.asked("u10/", "HEAD")}
        with open_daily(wind) as field:
            weights = weights_of(field, cells, Path(url), "remedy")
            weights(weights.read(field)[150:]).compute()
        read = {path.rpartition("u10/")[2] for path in bucket.asked("u10/", "GET")} - {".zarray", ".zattrs"}
        assert {name.partition(".")[2] for name in read} <= {name.partition(".")[2] for name in told}
        assert 0 < len(told) <= 2 * most
        assert states.sizes == {"time": 200}
        assert len(np.unique(states)) == 200


def test_days_that_change_between_prepare_and_evaluate(
    run: Run, server: tuple[str, BucketServer], capsys: pytest.CaptureFixture[str]
) -> None:
    url, _ = server
    with (days := make_sst()):
        days["sst"].loc[{"time": slice("2002-05-01", "2002-05-02")}] += 1
        write(days)
    sstcast.evaluate(run)
    assert f"{url}: has changed since" in (told := capsys.readouterr().err)
    assert "on 2 days, the first 2002-05-01" in told
    sstcast.heatwaves(run)
    assert f"{url}: has changed since" in (told := capsys.readouterr().err)
    assert "the events are of the old data" in told
    with pytest.raises(SSTCastError, match=r"has changed since .* on 2 days, the first 2002-05-01"):
        sstcast.forecast(run)


def test_flags_that_change_count_as_days_that_change(server: tuple[str, BucketServer]) -> None:
    """Days are in chunks of 100, flags of them in chunks of 10; a mask without days counts for all."""
    url, _ = server
    data = make_sst(years=1)
    data["quality_level"] = (data["sst"].dims, np.full(data["sst"].shape, 5, "i1"))
    data["wet"] = (data["sst"].dims[1:], np.ones(data["sst"].shape[1:], "i1"))

    def states() -> xr.DataArray:
        encoding = {"sst": CHUNKS | {"_FillValue": np.nan}, "quality_level": {"chunks": (10, 8, 12)}}
        data.to_zarr("served/days.zarr", mode="w", zarr_format=2, encoding=encoding)
        return day_states(DataConfig.model_validate({"source": url, "region": REGION, "splits": SPLITS}))

    before = states()
    assert (states() == before).all()
    data["quality_level"][205] = 0
    changed = before["time"].values[(states() != before).values]
    np.testing.assert_array_equal(changed, before["time"].values[200:210])
    before = states()
    data["wet"][0, 0] = 0
    assert (states() != before).all()


def test_a_day_of_hours_changes_with_each_chunk_that_holds_one(server: tuple[str, BucketServer]) -> None:
    url, _ = server
    data = make_sst(years=1).isel(time=slice(240))
    data = data.assign_coords(time=np.datetime64("2001-01-01", "ns") + 3 * np.arange(240) * np.timedelta64(1, "h"))

    def states() -> xr.DataArray:
        encoding = {"sst": {"chunks": (12, 8, 12), "_FillValue": np.nan}}
        data.to_zarr("served/days.zarr", mode="w", zarr_format=2, encoding=encoding)
        return day_states(DataConfig.model_validate({"source": url, "region": REGION, "splits": SPLITS}))

    before = states()
    assert before.indexes["time"].equals(pd.date_range("2001-01-01", periods=30).as_unit("ns"))
    data["sst"][40, 5, 5] += 1  # in the chunk of hours 36 to 47, of the fifth (hours 32 to 39) and sixth day
    np.testing.assert_array_equal(np.flatnonzero((states() != before).values), [4, 5])


@pytest.mark.slow
@pytest.mark.parametrize("etags", [True, False])
def test_a_store_that_grew_is_not_read_whole(server: tuple[str, BucketServer], etags: bool) -> None:
    """Of 1,461 days in 15 chunks, `forecast` reads the new ones and the last 60 again, `prepare` all."""
    url, bucket = server
    bucket.etags = etags
    run = trained(url)
    first = sstcast.forecast(run).value["sst"].load()
    more = grown(make_sst()).isel(time=slice(-10, None)).chunk(time=100, lat=4, lon=4)
    more.to_zarr("served/days.zarr", append_dim="time", safe_chunks=False)
    bucket.seen.clear()
    assert not changed_days(Prepared.of(run.config.data)).size
    read = {int(path.rpartition("sst/")[2].split(".")[0]) for path in bucket.asked("sst/") if path[-1].isdigit()}
    assert read == {14}
    last = sstcast.forecast(run).value["sst"].load()
    assert last["init_time"].values - first["init_time"].values == np.timedelta64(10, "D")
    make_sst().to_netcdf("days.nc", engine="netcdf4")
    of_file = trained("days.nc", "file")
    grown(make_sst()).to_netcdf("days.nc", engine="netcdf4")
    expected = sstcast.forecast(of_file).value["sst"]
    np.testing.assert_array_equal(last, expected)
    bucket.seen.clear()
    sstcast.prepare(run.config)
    read = {int(path.rpartition("sst/")[2].split(".")[0]) for path in bucket.asked("sst/") if path[-1].isdigit()}
    assert read == set(range(15))


def test_what_does_not_show_that_chunks_are_the_same(server: tuple[str, BucketServer]) -> None:
    """Another scale, other dates or other places of the same chunks are other values."""
    url, _ = server
    sstcast.init(url, "run.yaml")
    states = [remote_stores.day_states(load_config(Path("run.yaml"), SET).data)]
    for change in (
        lambda days: days.assign_coords(time=days["time"] + np.timedelta64(1, "D")),
        lambda days: days.assign_coords(lat=days["lat"] + 1e-5),
        lambda days: days.assign(sst=days["sst"].assign_attrs(units="K")),
    ):
        write(change(make_sst()))
        states.append(remote_stores.day_states(load_config(Path("run.yaml"), SET).data))
    days = states[0].indexes["time"][5:]
    assert not any((states[0].sel(time=days) == other.sel(time=days)).any() for other in states[1:])


def test_a_server_that_stops_is_slow_or_refuses(
    run: Run,
    evaluated: tuple[Path, list[str]],
    server: tuple[str, BucketServer],
    fails: Fails,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Commands that need days end in one line. `evaluate` goes on from the prepared stores, and says so."""
    url, bucket = server
    for fault, words in (("403", "refuses to send it; check"), ("404", "is no Zarr store"), ("500", "status 500")):
        bucket.fault = fault
        fails([url, words], "init", url, "--out", "other.yaml")
        fails([url], "forecast", run.folder)
    bucket.fault = "slow"
    with monkeypatch.context() as patch:
        patch.setattr(remote_stores, "SILENCE_TIMEOUT", dt.timedelta(seconds=0.3))
        fails([url, "does not answer in time); try again"], "init", url, "--out", "other.yaml")
    assert not Path("other.yaml").exists()
    (told,) = evaluated[1]
    assert "status 500); try again later, or check data.source; not compared with" in told
    assert run.metrics.exists()


@pytest.mark.parametrize("part", ["sst/0.0.0", ".zmetadata"])
@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("empty", "is empty; try again later"),
        ("huge", "has 36,028,797,018,963,968 bytes, more than it can need; try again later"),
        ("stops", "the server does not answer in time); try again later"),
        ("trickles", "the server does not answer in time); try again later"),
    ],
)
def test_bodies_that_are_wrong_or_slow(
    server: tuple[str, BucketServer], monkeypatch: pytest.MonkeyPatch, part: str, body: str, words: str
) -> None:
    url, bucket = server
    bucket.part, bucket.body = part, body
    monkeypatch.setattr(remote_stores, "SILENCE_TIMEOUT", dt.timedelta(seconds=0.5))
    monkeypatch.setattr(remote_stores, "SLOW", 0.4)
    with pytest.raises(SSTCastError) as error, open_sst(FieldSource(source=url)) as sst:
        sst[:3].load()
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_a_body_that_flows_takes_as_long_as_it_needs(
    server: tuple[str, BucketServer], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Longer than all limits, with a line that says what is waited for. One that stops is taken up again."""
    url, bucket = server
    for name, value in (("SLOW", 0.25), ("SLOW_BYTES", 100), ("PATIENCE", 0.4), ("RETRIES", 4)):
        monkeypatch.setattr(remote_stores, name, value)
    monkeypatch.setattr(remote_stores, "SILENCE_TIMEOUT", dt.timedelta(seconds=0.5))
    bucket.part, bucket.body = "sst/0.0.0", "flows"
    with open_sst(FieldSource(source=url)) as sst:
        np.testing.assert_allclose(sst[:3, :4, :4], make_sst()["sst"][:3, :4, :4], atol=1e-5)
        assert f"{url}: waiting for sst/0.0.0" in capsys.readouterr().err
        bucket.part, bucket.body = "sst/1.0.0", "stops"
        monkeypatch.setattr(remote_stores, "SLOW", 10)
        Timer(1, setattr, (bucket, "body", "")).start()
        np.testing.assert_allclose(sst[100:103, :4, :4], make_sst()["sst"][100:103, :4, :4], atol=1e-5)


@pytest.mark.parametrize(
    "address",
    [
        "http://127.0.0.1:99999/x",
        "http://[::1",
        "http://",
        "s3://../../x",
        "http://a b/x",
    ],
)
def test_what_is_no_address(fails: Fails, address: str) -> None:
    fails([address, "check"], "init", address)


@pytest.mark.parametrize("source", ["http://127.0.0.1/a\0b", "a\0b"])
def test_a_nul_in_a_path_is_refused(source: str) -> None:
    with pytest.raises(SSTCastError, match="holds a NUL, which no path can; check it"):
        sstcast.init(source)
    with pytest.raises(SSTCastError, match="holds a NUL, which no path can; check it"):
        sstcast.forecast(source)


def test_chunks_of_no_size_or_of_more_than_memory_are_refused(server: tuple[str, BucketServer]) -> None:
    """At a URL and in a folder, before any is read."""
    for chunks in ([0, 4, 4], [10**6, 10**4, 10**4]):
        for name in (".zmetadata", "sst/.zarray"):
            file = Path("served/days.zarr") / name
            content = json.loads(file.read_text())
            (content["metadata"]["sst/.zarray"] if name == ".zmetadata" else content)["chunks"] = chunks
            file.write_text(json.dumps(content))
        for source in (server[0], "served/days.zarr"):
            size = " x ".join(map(str, chunks))
            with pytest.raises(SSTCastError, match=f"sst: chunks of {size} values are no size to read"):
                sstcast.init(source)


def test_a_server_that_is_gone(fails: Fails) -> None:
    fails(["http://127.0.0.1:1/days.zarr", "no connection); try again"], "init", "http://127.0.0.1:1/days.zarr")


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("{}/days.nc", "is no Zarr store; download the file and give its path, or open the data with xarray"),
        (
            "{}",
            "is no Zarr store, as it has neither .zmetadata nor zarr.json; check it, or open the data with xarray",
        ),
        ("{}/days.zarr/loose", "its metadata are not consolidated"),
        ("icechunk://days", "only Zarr stores at https, http, s3, gs are read by their address; open the data"),
    ],
)
def test_other_addresses(server: tuple[str, BucketServer], fails: Fails, address: str, words: str) -> None:
    url = server[0].removesuffix("/days.zarr")
    make_sst(years=1).to_netcdf("served/days.nc", engine="netcdf4")
    make_sst(years=1).to_zarr("served/days.zarr/loose", zarr_format=2, consolidated=False)
    fails([words], "init", address.format(url))
    assert not list(Path().glob("*.yaml"))


def test_without_obstore(fails: Fails, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    fails(
        ["s3://bucket/days.zarr: reading it needs obstore; run: pip install 'sstcast[cloud]'"],
        "init",
        "s3://bucket/days.zarr",
    )


def test_a_missing_chunk_is_an_error_where_it_would_read_as_values(server: tuple[str, BucketServer]) -> None:
    url, _ = server
    packed = {"sst": {"chunks": (100, 4, 4), "_FillValue": None}}
    days = make_sst().fillna(0)
    days.assign(sst=(days["sst"] * 100).astype("int16").assign_attrs(scale_factor=0.01, units="degC")).to_zarr(
        "served/days.zarr", mode="w", zarr_format=2, encoding=packed
    )
    Path("served/days.zarr/sst/3.0.1").unlink()
    with pytest.raises(SSTCastError, match=r"days.zarr: its chunk sst/3.0.1 is missing"):
        trained(url)


def test_unsafe_codecs_are_refused(server: tuple[str, BucketServer]) -> None:
    metadata = Path("served/days.zarr/.zmetadata")
    content = json.loads(metadata.read_text())
    content["metadata"]["sst/.zarray"] |= {"filters": [{"id": "pickle"}]}
    metadata.write_text(json.dumps(content))
    with pytest.raises(SSTCastError, match="pickle"):
        sstcast.init(server[0])


def test_buckets_are_read_anonymously_then_signed(
    server: tuple[str, BucketServer], fails: Fails, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bucket in another region than AWS_REGION says: its server tells which, or a line asks for it."""
    url, bucket = server
    monkeypatch.setenv("AWS_ENDPOINT_URL", url.removesuffix("/days.zarr"))
    bucket.folder = bucket.folder.parent  # the bucket is `served`
    with open_sst(FieldSource(source="s3://served/days.zarr")) as sst:
        np.testing.assert_allclose(sst[-1], make_sst()["sst"][-1], atol=1e-5)
    bucket.signed = "eu-central-1"
    monkeypatch.setenv("AWS_REGION", "us-west-1")
    fails(
        ["s3://served/days.zarr: the server refuses to send it; set credentials, such as AWS_ACCESS_KEY_ID"],
        "init",
        "s3://served/days.zarr",
    )
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    with open_sst(FieldSource(source="s3://served/days.zarr")) as sst:
        assert sst.sizes["time"] == 1461
    fails(["s3://served/other.zarr", "is no Zarr store"], "init", "s3://served/other.zarr")
    bucket.told = False
    fails(["the bucket is in another region; set AWS_REGION to it"], "init", "s3://served/days.zarr")
