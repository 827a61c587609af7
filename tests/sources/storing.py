"""Put days into a raw store, and see that it holds them."""

import datetime as dt
from pathlib import Path

import numpy as np
import xarray as xr
from oisst_server import REGION, calendar, hundredths

from sstcast.config import parse_box
from sstcast.ocean.raw import Day, open_days
from sstcast.sources.store import RawStore

GRID = parse_box(REGION)
DAYS = calendar("1981-10-25", 20)  # across the edge of the second and third block


def day(date: dt.date, preliminary: bool = False, origin: str = "aws") -> Day:
    return Day(hundredths(date, preliminary), origin, preliminary)


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
