"""The raw store on disk: the same bytes whatever order days came in, what it refuses, and its status."""

import datetime as dt
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from oisst_server import calendar
from storing import EARLY, GRID, assert_holds, day, put, tree

from sstcast import status
from sstcast.config import parse_box
from sstcast.errors import SSTCastError
from sstcast.reading.raw import is_raw_store
from sstcast.sources.raw_store import RawStore


def test_days_come_back_as_they_were_put(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    put(path, EARLY)
    assert_holds(path, EARLY)
    stored = xr.open_zarr(path, mask_and_scale=False)["sst"]
    assert stored.dtype == np.int16
    assert stored.attrs["scale_factor"] == 0.01
    assert stored.attrs["_FillValue"] == -999
    np.testing.assert_array_equal(stored["lat"], GRID.lat)
    np.testing.assert_array_equal(stored["lon"], GRID.lon)
    assert is_raw_store(path)


def test_the_order_of_arrival_leaves_no_trace_nor_does_a_calendar_that_grew(tmp_path: Path) -> None:
    late = dt.date(1983, 5, 5)
    put(tmp_path / "a.zarr", EARLY, last=late)
    for part, last in ((EARLY[5:9], None), (EARLY[:5], None), (EARLY[15:], None), (EARLY[9:15], late)):
        put(tmp_path / "b.zarr", part, last=last)
    assert tree(tmp_path / "a.zarr") == tree(tmp_path / "b.zarr")


def test_a_final_day_replaces_a_preliminary_one(tmp_path: Path) -> None:
    put(tmp_path / "a.zarr", EARLY)
    put(tmp_path / "b.zarr", EARLY, preliminary=True)
    assert_holds(tmp_path / "b.zarr", EARLY, tuple(EARLY))
    put(tmp_path / "b.zarr", EARLY)
    assert tree(tmp_path / "a.zarr") == tree(tmp_path / "b.zarr")


def test_other_cells_and_other_stores_are_refused(tmp_path: Path) -> None:
    put(tmp_path / "a.zarr", EARLY)
    with pytest.raises(SSTCastError, match="holds region 180,182,-1,1, not 180,182,-1,2"):
        RawStore(tmp_path / "a.zarr", parse_box("180,182,-1,2"))
    (tmp_path / "b.zarr").mkdir()
    with pytest.raises(SSTCastError, match="not a store made by fetch"):
        RawStore(tmp_path / "b.zarr", GRID)


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
    text = "\n".join(found.lines())
    assert f" {sum(map(len, tree(tmp_path / 'a.zarr').values())) / 1e6:.1f} MB" in text
    for words in (
        "8 days, 1999-12-30..2000-01-08",
        "aws 3",
        "1999 2",
        "gap: 2000-01-02..2000-01-03",
        "preliminary",
    ):
        assert words in text
    assert [store.lines() for store in status(tmp_path / "a.zarr")] == [found.lines()]


def test_a_day_that_no_ocean_could_have_is_not_kept(tmp_path: Path) -> None:
    store = RawStore(tmp_path / "a.zarr", GRID)
    days = {date: day(date) for date in EARLY}
    for date, field in ((EARLY[4], 600 - days[EARLY[4]].field), (EARLY[9], days[EARLY[9]].field // 5 * 6)):
        days[date] = replace(days[date], field=np.where(days[date].field == -999, -999, field).astype(np.int16))
    with store.writing():
        refused = store.put(days, EARLY[-1])
        assert sorted(refused) == [EARLY[4], EARLY[9]]
        assert "degC on average from" in refused[EARLY[4]]
        again = store.put({EARLY[4]: days[EARLY[4]]}, EARLY[-1])  # those around are in the store
        assert list(again) == [EARLY[4]]
    assert_holds(tmp_path / "a.zarr", [date for date in EARLY if date not in refused])
