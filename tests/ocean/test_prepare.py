"""Prepare on stores of fetched days: what is kept, what is made anew, and what a kill leaves behind."""

import datetime as dt
import multiprocessing
import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import dask
import distributed
import numpy as np
import pytest
import xarray as xr
from logged import logged
from scored_runs import configure

import perf.simulated  # noqa: F401 - adds the source `simulator`
from sstcast.config import FieldSource, RunConfig, load_region
from sstcast.ocean.prepare import prepare
from sstcast.ocean.prepared import Prepared
from sstcast.ocean.tiles import tile_index, to_tiles
from sstcast.reading.grid import coarsen, crop, ocean_cells, ocean_fraction
from sstcast.reading.raw import FILL
from sstcast.reading.reading import open_sst
from sstcast.sources.fetch import fetch
from sstcast.sources.raw_store import RawStore
from sstcast.sources.source import FetchRequest
from sstcast.storage.yaml_files import save_config

SHARED = Path(__file__).parents[2].parent / "shared/data/ocean"
REGION = {"lon": [200, 206], "lat": [-3, 3], "coarsen": 2, "tile": [6, 6]}
SPLITS = {
    "train": [2001, 2001],
    "validation": ["2002-01-01", "2002-02-28"],
    "test": ["2002-03-01", "2002-04-30"],
}


def fetched(path: Path, end: dt.date) -> Path:
    request = FetchRequest(dt.date(2001, 1, 1), end, "simulator", "200,206,-3,3", path)
    assert fetch(request).complete
    return path


def config(folder: Path, store: Path, protocol: str = "physical") -> RunConfig:
    directory = folder / "prepared"
    return configure(folder, store, region=REGION, protocol=protocol, splits=SPLITS, directory=directory)


def contents(folder: Path) -> dict[str, bytes]:
    files = (f for f in sorted(folder.rglob("*")) if f.is_file() and f.suffix != ".note")
    return {str(f.relative_to(folder)): f.read_bytes() for f in files}


MAY, SEPTEMBER = dt.date(2002, 5, 10), dt.date(2002, 9, 20)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A made-up ocean until May 2002."""
    return fetched(tmp_path_factory.mktemp("stores") / "sim.zarr", MAY)


@pytest.fixture(scope="module")
def alone(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the stores that one process prepared from that ocean."""
    folder = tmp_path_factory.mktemp("alone")
    prepare(config(folder, store).data)
    return folder


@pytest.fixture
def growing(store: Path, tmp_path: Path) -> Path:
    """A copy of that ocean, which may grow and change."""
    return Path(shutil.copytree(store, tmp_path / "sim.zarr"))


def test_new_days_leave_the_statistics_and_end_in_the_same_bytes(growing: Path, tmp_path: Path) -> None:
    store = growing
    data = config(tmp_path / "twice", store).data
    with logged() as first:
        prepare(data)
    made = Prepared.of(data)
    before = made.statistics.stat().st_ino
    fetched(store, SEPTEMBER)
    with logged() as second:
        prepare(data)
    assert [line.split(": ")[1] for line in first + second] == [
        "495 days written",
        "statistics of 2001-01-01..2001-12-31",
        "495 days written",
        "628 days written",
        "628 days written",
    ]
    assert made.statistics.stat().st_ino == before  # the training days are the same
    for dataset in made.open():
        assert "SIMULATED" in dataset.attrs["source"]
    prepare(config(tmp_path / "once", store).data)
    assert contents(tmp_path / "twice/prepared") == contents(tmp_path / "once/prepared")


def test_a_day_that_became_final_is_not_missed(growing: Path, tmp_path: Path) -> None:
    store = growing
    data = config(tmp_path, store).data
    prepare(data)
    raw = RawStore(store, FetchRequest(dt.date(2001, 1, 1), dt.date(2001, 1, 1), region="200,206,-3,3").box)
    days = raw._group["sst"][7440:7460]  # of early 2002
    raw._group["sst"][7440:7460] = np.where(days == FILL, FILL, days + 100)  # one degree warmer
    raw._group["status"][7440:7460] = 2
    cube, fresh = (prepare(of).open()[0] for of in (data, config(tmp_path / "fresh", store).data))
    xr.testing.assert_equal(cube["sst"], fresh["sst"])


def test_a_real_day_of_noaa_through_fetch_and_prepare(tmp_path: Path) -> None:
    """The original of 2022-02-18: eleven tiles of at least 99.9 % ocean, and the values NOAA gives."""
    original = SHARED / "oisst-avhrr-v02r01.20220218.nc"
    if not original.exists():
        pytest.skip(f"{original.name} is not at hand")
    mirror, store = tmp_path / "mirror/202202", tmp_path / "real.zarr"
    mirror.mkdir(parents=True)
    (mirror / original.name).symlink_to(original)
    day = dt.date(2022, 2, 18)
    assert fetch(FetchRequest(day, day, str(mirror.parent), "pacific", store)).complete
    region = load_region("pacific12")
    native = crop(open_sst(FieldSource(source=store)), region, store)
    assert float(native.min()) == pytest.approx(22.69, abs=0.001)
    assert float(native.max()) == pytest.approx(30.14, abs=0.001)
    ocean = ocean_cells(native)
    share = to_tiles(ocean_fraction(ocean, region).values, tile_index(region, (60, 180))).mean(1)
    assert (share[:11] >= 0.999).all()
    assert 0.98 < share[11] < 0.999
    coarse = coarsen(native, ocean, region)
    source = xr.open_dataset(original, engine="netcdf4")["sst"][0, 0].sel(lat=slice(-15, 15), lon=slice(180, 270))
    wet = ocean_fraction(ocean, region).values >= 0.5
    np.testing.assert_allclose(coarse.values[0, wet], source.coarsen(lat=2, lon=2).mean().values[wet], atol=1e-4)
    assert np.isnan(coarse.values[0, ~wet]).all()


def test_a_kill_at_any_moment_loses_nothing(growing: Path, tmp_path: Path) -> None:
    """SIGKILL three times while it replaces stores; every time the next run ends in the undisturbed bytes."""
    source = growing
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["sstcast.ocean.prepare"])
    prepare(config(tmp_path / "before", source, "paper").data)
    fetched(source, SEPTEMBER)
    started = time.monotonic()
    prepare(config(tmp_path / "undisturbed", source, "paper").data)
    duration, moments, kills = time.monotonic() - started, random.Random(0), 0
    expected = contents(tmp_path / "undisturbed/prepared")

    for attempt in range(60):
        folder = tmp_path / f"attempt{attempt}"
        data = config(folder, source, "paper").data
        shutil.copytree(tmp_path / "before/prepared", folder / "prepared")
        process = processes.Process(target=prepare, args=(data,))
        process.start()
        process.join(moments.uniform(0, duration))
        if process.is_alive():
            process.kill()
        process.join()
        kills += process.exitcode == -signal.SIGKILL
        for store in (folder / "prepared").glob("*/[!.]*.zarr"):
            xr.open_zarr(store).load()  # whatever is there is whole
        prepare(data)
        assert contents(folder / "prepared") == expected
        if kills == 3:
            break
    assert kills == 3


def test_two_processes_at_once_make_one_store(tmp_path: Path, store: Path, alone: Path) -> None:
    processes = multiprocessing.get_context("forkserver")
    data = config(tmp_path / "both", store).data
    both = [processes.Process(target=prepare, args=(data,)) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join()
    assert [process.exitcode for process in both] == [0, 0]
    assert contents(tmp_path / "both/prepared") == contents(alone / "prepared")


def test_on_a_cluster_of_two_workers(
    tmp_path: Path, store: Path, command: Callable[..., tuple[int, str, str]]
) -> None:
    prepare(config(tmp_path / "threads", store, "paper").data)
    save_config(config(tmp_path / "cluster", store, "paper"), tmp_path / "run.yaml")
    once = dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"})  # what workers import
    with (
        once,
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
        ) as cluster,
    ):
        assert command("prepare", tmp_path / "run.yaml", "--scheduler", cluster.scheduler_address)[0] == 0
        with distributed.Client(cluster) as client:
            # A worker that computed something has been seen by the scheduler's accounting of task durations.
            ran = client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.task_prefixes))
        assert ran
    assert contents(tmp_path / "cluster/prepared") == contents(tmp_path / "threads/prepared")


def test_what_a_kill_leaves_beside_a_finished_store_goes(tmp_path: Path, store: Path, alone: Path) -> None:
    data = config(tmp_path, store).data
    shutil.copytree(alone / "prepared", tmp_path / "prepared")
    prepared = Prepared.of(data)
    for name in (".cube.zarr.previous", ".cube.zarr.partial"):
        shutil.copytree(prepared.cube, prepared.cube.with_name(name))
    assert not prepare(data).written
    assert not list(prepared.cube.parent.glob(".cube.zarr.p*"))
