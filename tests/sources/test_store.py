"""The raw store on disk: whole at every instant, and the same bytes whatever happened on the way."""

import datetime as dt
import errno
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from oisst_server import REGION, calendar, hundredths

from sstcast.errors import SSTCastError
from sstcast.geo import Box
from sstcast.ocean.days import STATUS, Day
from sstcast.ocean.raw import is_raw_store, open_days
from sstcast.sources.status import status
from sstcast.sources.store import RawStore

GRID = Box.parse(REGION)
DAYS = calendar("1981-10-25", 20)  # across the edge of the second and third block


def day(date: dt.date, preliminary: bool = False, origin: str = "aws", notice: str = "") -> Day:
    return Day(hundredths(date, preliminary), origin, preliminary, notice)


def put(path: Path, days: list[dt.date], last: dt.date | None = None, **how) -> None:
    store = RawStore(path, GRID)
    with store.writing():
        store.put({date: day(date, **how) for date in days}, last or days[-1])


def tree(path: Path) -> dict[str, bytes]:
    """Return every file of a folder by its path."""
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def assert_holds(path: Path, days: list[dt.date], preliminary: bool = False) -> None:
    """Exactly `days` are there, with their values, and plain xarray sees nothing else."""
    held = open_days(path)
    assert [date.astype("datetime64[D]").item() for date in held["time"].values] == days
    expected = np.stack([hundredths(date, preliminary) for date in days]).astype(float)
    expected[expected == -999] = np.nan
    np.testing.assert_allclose(held["sst"].values * 100, expected, atol=1e-6)
    plain = xr.open_zarr(path, chunks=None)
    others = plain["sst"].sel(time=~np.isin(plain["time"].values, held["time"].values))
    assert not others.notnull().any()


def test_days_come_back_as_they_were_put(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    put(path, DAYS)
    assert_holds(path, DAYS)
    stored = xr.open_zarr(path, mask_and_scale=False)["sst"]
    assert stored.dtype == np.int16
    assert stored.attrs["scale_factor"] == 0.01
    assert stored.attrs["_FillValue"] == -999
    np.testing.assert_array_equal(stored["lat"], GRID.lat)
    np.testing.assert_array_equal(stored["lon"], GRID.lon)
    assert is_raw_store(path)


def test_the_order_of_arrival_leaves_no_trace(tmp_path: Path) -> None:
    put(tmp_path / "a.zarr", DAYS)
    for part in (DAYS[5:9], DAYS[:5], DAYS[15:], DAYS[9:15]):
        put(tmp_path / "b.zarr", part)
    assert tree(tmp_path / "a.zarr") == tree(tmp_path / "b.zarr")


def test_a_longer_calendar_is_the_calendar_it_would_have_been(tmp_path: Path) -> None:
    put(tmp_path / "a.zarr", DAYS, last=dt.date(1983, 5, 5))
    put(tmp_path / "b.zarr", DAYS[:7])
    put(tmp_path / "b.zarr", DAYS[7:], last=dt.date(1983, 5, 5))
    assert tree(tmp_path / "a.zarr") == tree(tmp_path / "b.zarr")


def test_gaps_are_left_out_on_opening(tmp_path: Path) -> None:
    days = DAYS[:3] + DAYS[6:9]
    put(tmp_path / "a.zarr", days)
    assert_holds(tmp_path / "a.zarr", days)


def test_a_final_day_replaces_a_preliminary_one(tmp_path: Path) -> None:
    put(tmp_path / "a.zarr", DAYS)
    put(tmp_path / "b.zarr", DAYS, preliminary=True)
    assert_holds(tmp_path / "b.zarr", DAYS, preliminary=True)
    put(tmp_path / "b.zarr", DAYS)
    assert tree(tmp_path / "a.zarr") == tree(tmp_path / "b.zarr")


class Killed(BaseException):
    """Nothing in the program under test may catch this, as nothing catches kill -9."""


@pytest.mark.parametrize("after", [False, True])
def test_an_end_between_any_two_renames_costs_nothing(tmp_path: Path, monkeypatch, after: bool) -> None:
    """Every file is renamed into place; stop just before or just after each rename in turn."""
    rename = Path.replace
    put(tmp_path / "whole.zarr", DAYS)
    put(tmp_path / "whole.zarr", calendar("1981-11-10", 60))
    moments = 0
    while True:
        countdown = moments

        def stop(self: Path, target: Path) -> Path:
            nonlocal countdown
            if countdown == 0 and not after:
                raise Killed
            result = rename(self, target)
            if countdown == 0:
                raise Killed
            countdown -= 1
            return result

        path = tmp_path / f"{moments}.zarr"
        put(path, DAYS[:8])
        monkeypatch.setattr(Path, "replace", stop)
        try:
            put(path, DAYS)
            put(path, calendar("1981-11-10", 60))  # lengthens the calendar too
        except Killed:
            monkeypatch.setattr(Path, "replace", rename)
        else:
            break
        held = [date.astype("datetime64[D]").item() for date in open_days(path)["time"].values]
        assert_whole(path, held)
        assert set(DAYS[:8]) <= set(held)
        put(path, DAYS)
        put(path, calendar("1981-11-10", 60))
        assert tree(path) == tree(tmp_path / "whole.zarr")
        moments += 1
    assert moments > 10


def test_days_of_an_unfinished_commit_do_not_linger(tmp_path: Path, monkeypatch) -> None:
    """Killed after the values are in place and before the status is: other days follow, those never do."""
    rename, path = Path.replace, tmp_path / "a.zarr"
    put(path, DAYS[:2], last=DAYS[-1])

    def stop(self: Path, target: Path) -> Path:
        if Path(target).parts[-2:] == ("status", "0"):
            raise Killed
        return rename(self, target)

    monkeypatch.setattr(Path, "replace", stop)
    with pytest.raises(Killed):
        put(path, DAYS[3:6])
    monkeypatch.setattr(Path, "replace", rename)
    put(path, DAYS[:2] + DAYS[4:5])
    assert_holds(path, DAYS[:2] + DAYS[4:5])


def assert_whole(path: Path, days: list[dt.date]) -> None:
    """What the store calls present has its values."""
    sst = open_days(path)["sst"].values * 100
    expected = np.stack([hundredths(date) for date in days]).astype(float)
    np.testing.assert_allclose(sst, np.where(expected == -999, np.nan, expected), atol=1e-6)


def test_a_full_disk_is_said_and_does_no_harm(tmp_path: Path, monkeypatch) -> None:
    rename, path = Path.replace, tmp_path / "b.zarr"
    put(tmp_path / "a.zarr", DAYS)
    put(path, DAYS[:4])

    def full(self: Path, target: Path) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(SSTCastError, match=r"b\.zarr: no space left on its disk; free some"):
        put(path, DAYS[4:])
    monkeypatch.setattr(Path, "replace", rename)
    assert_holds(path, DAYS[:4])
    put(path, DAYS[4:])
    assert tree(path) == tree(tmp_path / "a.zarr")


def test_one_writes_at_a_time(tmp_path: Path) -> None:
    """A second writer waits, and then keeps what the first put into the same block."""
    path = tmp_path / "a.zarr"
    first = RawStore(path, GRID)
    with ThreadPoolExecutor() as threads:
        with first.writing():
            second = threads.submit(put, path, DAYS[1:2])
            with pytest.raises(TimeoutError):
                second.result(timeout=0.5)
            first.put({DAYS[0]: day(DAYS[0])}, DAYS[0])
        second.result()
    assert_holds(path, DAYS[:2])


def test_a_place_that_takes_no_files_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SSTCastError, match=r"a\.zarr: cannot write"):
        put(tmp_path / "file" / "a.zarr", DAYS)


def test_other_cells_and_other_stores_are_refused(tmp_path: Path) -> None:
    put(tmp_path / "a.zarr", DAYS)
    with pytest.raises(SSTCastError, match="holds region 180,182,-1,1, not 180,182,-1,2"):
        RawStore(tmp_path / "a.zarr", Box.parse("180,182,-1,2"))
    (tmp_path / "b.zarr").mkdir()
    with pytest.raises(SSTCastError, match="not a store made by fetch"):
        RawStore(tmp_path / "b.zarr", GRID)


def test_simulated_days_do_not_mix_with_observed_ones(tmp_path: Path) -> None:
    put(tmp_path / "a.zarr", DAYS[:3], origin="simulator", notice="SIMULATED")
    assert xr.open_zarr(tmp_path / "a.zarr").attrs["title"] == "SIMULATED"
    with pytest.raises(SSTCastError, match="holds SIMULATED, but the source gives observations"):
        put(tmp_path / "a.zarr", DAYS[3:])
    assert_holds(tmp_path / "a.zarr", DAYS[:3])


def test_status_tells_what_is_there(tmp_path: Path) -> None:
    days = calendar("1999-12-30", 10)
    put(tmp_path / "a.zarr", days[:3])
    put(tmp_path / "a.zarr", days[5:9], origin="ncei")
    put(tmp_path / "a.zarr", days[9:], origin="ncei", preliminary=True)
    (found,) = status(tmp_path)
    assert found.sources == {"aws": 3, "ncei": 5}
    assert found.years == {1999: 2, 2000: 6}
    assert found.gaps == [(days[3], days[4])]
    assert found.preliminary == days[9:]
    assert found.size == sum(map(len, tree(tmp_path / "a.zarr").values()))
    text = "\n".join(found.lines())
    for words in (
        "8 days, 1999-12-30..2000-01-08",
        "aws 3",
        "1999 2",
        "gap: 2000-01-02..2000-01-03",
        "preliminary",
    ):
        assert words in text
    assert status(tmp_path / "a.zarr") == [found]


def test_status_of_no_folder_says_so(tmp_path: Path) -> None:
    with pytest.raises(SSTCastError, match="no such folder"):
        status(tmp_path / "nowhere")
    assert status(tmp_path) == []


def broken(content: bytes, how: str, rng: np.random.Generator) -> bytes | None:
    """Return the bytes of a file damaged in a way; None if it is lost."""
    if how == "flipped":
        flipped = bytearray(content)
        flipped[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
        return bytes(flipped)
    return {"lost": None, "empty": b"", "half": content[: len(content) // 2], "noise": rng.bytes(50)}[how]


@pytest.mark.parametrize("how", ["lost", "empty", "half", "noise", "flipped", "a folder"])
def test_whatever_is_damaged_is_one_line_and_never_another_value(tmp_path: Path, how: str) -> None:
    put(tmp_path / "a.zarr", DAYS)
    whole, rng = open_days(tmp_path / "a.zarr").load(), np.random.default_rng(1)
    files = [file for file in (tmp_path / "a.zarr").rglob("*") if file.is_file()]
    path, refused = tmp_path / "a.zarr", 0
    for file in files:
        content = file.read_bytes()
        file.unlink()
        if how == "a folder":
            file.mkdir()
        elif (damaged := broken(content, how, rng)) is not None:
            file.write_bytes(damaged)
        for use in (lambda: status(path), lambda: RawStore(path, GRID), lambda: open_days(path).load()):
            held, said = None, f"{path}: "
            try:
                held = use()
            except SSTCastError as error:
                said, refused = str(error), refused + 1
            assert said.startswith(f"{path}: ")
            assert "\n" not in said
            assert not isinstance(held, xr.Dataset) or held["sst"].equals(whole["sst"]), file
        if file.is_dir():
            file.rmdir()
        file.write_bytes(content)
    assert refused >= len(files)


@pytest.mark.parametrize("code", [len(STATUS), 255])
def test_a_status_that_stands_for_nothing_is_refused(tmp_path: Path, code: int) -> None:
    put(tmp_path / "a.zarr", DAYS)
    group: Any = zarr.open_group(tmp_path / "a.zarr", mode="r+", zarr_format=2)
    group["status"][60] = code
    for use in (open_days, status):
        with pytest.raises(SSTCastError, match=f"status holds {code}"):
            use(tmp_path / "a.zarr")


def test_a_damaged_store_does_not_hide_the_others(tmp_path: Path) -> None:
    for name in "abc":
        put(tmp_path / f"{name}.zarr", DAYS)
    (tmp_path / "b.zarr/sst/1.0.0").unlink()
    said: list[str] = []
    assert [store.path.name for store in status(tmp_path, said.append)] == ["a.zarr", "c.zarr"]
    assert len(said) == 1
    assert "b.zarr: cannot be read (its file sst/1.0.0 is not there)" in said[0]


def test_a_day_that_no_ocean_could_have_is_not_kept(tmp_path: Path) -> None:
    store = RawStore(tmp_path / "a.zarr", GRID)
    days = {date: day(date) for date in DAYS}
    for date, field in ((DAYS[4], 600 - days[DAYS[4]].field), (DAYS[9], days[DAYS[9]].field // 5 * 6)):
        days[date] = replace(days[date], field=np.where(days[date].field == -999, -999, field).astype(np.int16))
    with store.writing():
        refused = store.put(days, DAYS[-1])
        assert sorted(refused) == [DAYS[4], DAYS[9]]
        assert "degC on average from" in refused[DAYS[4]]
        assert store.put({DAYS[4]: days[DAYS[4]]}, DAYS[-1]).keys() == {DAYS[4]}  # those around are in the store
    assert_holds(tmp_path / "a.zarr", [date for date in DAYS if date not in refused])
