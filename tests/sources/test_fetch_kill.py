"""kill -9 and a full disk, for real: what is there stays whole, and the next run ends with the same bytes."""

import datetime as dt
import multiprocessing
import random
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from oisst_server import REGION, OisstServer, calendar, daily_files, hundredths

from sstcast.errors import SSTCastError
from sstcast.ocean.raw import BLOCK, open_days
from sstcast.sources.download import Patience
from sstcast.sources.fetch import FetchRequest, fetch

DAYS = calendar("1990-03-03", 12 * BLOCK)
KILLS = 6


def request(url: str, path: Path, days: list[dt.date] = DAYS) -> FetchRequest:
    patience = Patience(attempts=3, backoff=0.01)
    return FetchRequest(days[0], days[-1], url, REGION, path, concurrency=4, patience=patience)


def tree(path: Path) -> dict[str, bytes]:
    """Return every file of a folder by its path."""
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def whole_days(path: Path) -> int:
    """Count the days; each must have its values, and plain xarray must open the store."""
    xr.open_zarr(path)
    held = open_days(path)
    days = held["time"].values.astype("datetime64[D]").tolist()
    expected = np.array([hundredths(day) for day in days], float).reshape(held["sst"].shape)
    np.testing.assert_allclose(held["sst"].values * 100, np.where(expected == -999, np.nan, expected), atol=1e-6)
    return len(days)


def test_kill_at_any_moment(tmp_path: Path) -> None:
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["sstcast.sources.fetch", "sstcast.sources.noaa"])
    moments = random.Random(0)
    path = tmp_path / "killed.zarr"
    with OisstServer(daily_files(DAYS)) as server:
        server.delay, hits, before = 0.03, 0, 0
        process = processes.Process(target=fetch, args=(request(server.url, tmp_path / "whole.zarr"), str))
        process.start()
        while not server.seen:
            time.sleep(0.005)
        started = time.monotonic()
        process.join()
        span = time.monotonic() - started  # machines differ, and other work on them
        for _ in range(KILLS):
            process = processes.Process(target=fetch, args=(request(server.url, path), str))
            server.seen.clear()
            process.start()
            while not server.seen and process.is_alive():
                time.sleep(0.005)
            process.join(moments.uniform(0, 0.6 * span))
            process.kill()
            process.join()
            hits += process.exitcode == -9  # it was still at work
            held = whole_days(path) if path.exists() else 0
            assert held >= before
            before = held
            if held == len(DAYS):  # from nothing again
                shutil.rmtree(path)
                before = 0
        server.delay = 0.0
        assert hits >= 3
        assert fetch(request(server.url, path), str).complete
    assert whole_days(path) == len(DAYS)
    assert tree(path) == tree(tmp_path / "whole.zarr")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 112 kB, where mounting one is allowed."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=112k", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("not allowed to mount a file system")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_small_disk_fills_up(small_disk: Path, tmp_path: Path) -> None:
    path, days = small_disk / "a.zarr", calendar("1990-03-03", 24 * BLOCK)
    with OisstServer(daily_files(days)) as server:
        with pytest.raises(SSTCastError, match=r"a\.zarr: no space left on its disk; free some"):
            fetch(request(server.url, path, days), str)
        held = whole_days(path)
        assert 0 < held < len(days)
        subprocess.run(["mount", "-o", "remount,size=4m", str(small_disk)], check=True)
        report = fetch(request(server.url, path, days), str)
        assert (report.present, report.fetched) == (held, len(days) - held)
        fetch(request(server.url, tmp_path / "whole.zarr", days), str)
    assert tree(path) == tree(tmp_path / "whole.zarr")
