"""A raw store whose writer is killed, whose disk is full, or whose files are damaged."""

import asyncio
import errno
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from oisst_server import calendar
from storing import EARLY, GRID, assert_holds, day, put, tree
from zarr.core.sync import sync

from sstcast import status
from sstcast.errors import SSTCastError
from sstcast.reading.raw import open_days
from sstcast.sources.raw_store import RawStore


class Killed(BaseException):
    """Nothing in the program under test may catch this, as nothing catches kill -9."""


async def wait_for_others() -> None:
    """Wait for what zarr still writes in its event loop."""
    if others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others)


def test_an_end_between_any_two_renames_costs_nothing(tmp_path: Path, monkeypatch) -> None:
    """Every file is renamed into place; stop just before each rename of days that lengthen the calendar."""
    rename, moments, days = Path.replace, 0, EARLY[8:] + calendar("1981-12-07", 2)
    put(tmp_path / "begun.zarr", EARLY[:8], ice=True)
    put(shutil.copytree(tmp_path / "begun.zarr", tmp_path / "whole.zarr"), days, ice=True)
    whole = open_days(tmp_path / "whole.zarr").load()
    assert whole.sizes["time"] == len(EARLY) + 2
    while True:
        countdown = moments

        def stop(self: Path, target: Path) -> Path:
            nonlocal countdown
            countdown -= 1
            if countdown >= 0:
                return rename(self, target)
            raise Killed  # in every thread: zarr writes a group's files side by side

        path = shutil.copytree(tmp_path / "begun.zarr", tmp_path / f"{moments}.zarr")
        monkeypatch.setattr(Path, "replace", stop)
        try:
            put(path, days, ice=True)
        except Killed:
            sync(wait_for_others())
            monkeypatch.setattr(Path, "replace", rename)
        else:
            break
        held = open_days(path).load()
        assert held.sizes["time"] >= 8
        for name in ("sst", "ice"):
            xr.testing.assert_equal(held[name], whole[name].sel(time=held["time"]))
        put(path, days, ice=True)
        assert tree(path) == tree(tmp_path / "whole.zarr")
        moments += 1
    assert moments > 10


def test_days_of_an_unfinished_commit_do_not_linger(tmp_path: Path, monkeypatch) -> None:
    """Killed after the values are in place and before the status is: other days follow, those never do."""
    rename, path = Path.replace, tmp_path / "a.zarr"
    put(path, EARLY[:2], last=EARLY[-1])

    def stop(self: Path, target: Path) -> Path:
        if Path(target).parts[-2:] == ("status", "0"):
            raise Killed
        return rename(self, target)

    monkeypatch.setattr(Path, "replace", stop)
    with pytest.raises(Killed):
        put(path, EARLY[3:6])
    monkeypatch.setattr(Path, "replace", rename)
    put(path, EARLY[:2] + EARLY[4:5])
    assert_holds(path, EARLY[:2] + EARLY[4:5])


def test_a_full_disk_is_said_and_does_no_harm(tmp_path: Path, monkeypatch) -> None:
    rename, path = Path.replace, tmp_path / "b.zarr"
    put(tmp_path / "a.zarr", EARLY)
    put(path, EARLY[:4])

    def full(self: Path, target: Path) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(SSTCastError, match=r"b\.zarr: no space left on the disk; free some"):
        put(path, EARLY[4:])
    monkeypatch.setattr(Path, "replace", rename)
    assert_holds(path, EARLY[:4])
    put(path, EARLY[4:])
    assert tree(path) == tree(tmp_path / "a.zarr")


def test_one_writes_at_a_time(tmp_path: Path) -> None:
    """A second writer waits, and then keeps what the first put into the same block."""
    path = tmp_path / "a.zarr"
    first = RawStore(path, GRID)
    with ThreadPoolExecutor() as threads:
        with first.writing():
            second = threads.submit(put, path, EARLY[1:2])
            with pytest.raises(TimeoutError):
                second.result(timeout=0.5)
            first.put({EARLY[0]: day(EARLY[0])}, EARLY[0])
        second.result()
    assert_holds(path, EARLY[:2])


def test_a_place_that_takes_no_files_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SSTCastError, match=r"a\.zarr: cannot write"):
        put(tmp_path / "file" / "a.zarr", EARLY)


@pytest.mark.parametrize("how", ["lost", "flipped"])
def test_whatever_is_damaged_is_one_line_and_never_another_value(tmp_path: Path, how: str) -> None:
    put(tmp_path / "a.zarr", EARLY)
    whole, rng = open_days(tmp_path / "a.zarr").load(), np.random.default_rng(1)
    files = [file for file in (tmp_path / "a.zarr").rglob("*") if file.is_file()]
    path, refused = tmp_path / "a.zarr", 0
    for file in files:
        content = file.read_bytes()
        file.unlink()
        if how == "flipped":
            flipped = bytearray(content)
            flipped[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
            file.write_bytes(flipped)
        for use in (lambda: status(path), lambda: RawStore(path, GRID), lambda: open_days(path).load()):
            held, said = None, f"{path}: "
            try:
                held = use()
            except SSTCastError as error:
                said, refused = str(error), refused + 1
            assert said.startswith(f"{path}: ")
            assert "\n" not in said
            assert not isinstance(held, xr.Dataset) or held["sst"].equals(whole["sst"]), file
        file.write_bytes(content)
    assert refused >= len(files)


def test_a_damaged_store_does_not_hide_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in "abc":
        put(tmp_path / f"{name}.zarr", EARLY)
    (tmp_path / "b.zarr/sst/1.0.0").unlink()
    assert [store.path.name for store in status(tmp_path)] == ["a.zarr", "c.zarr"]
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "b.zarr: cannot be read (its file sst/1.0.0 is missing)" in said
