"""Fetch days or put them into a raw store, and see that what landed is right."""

import datetime as dt
from pathlib import Path

import numpy as np
import xarray as xr
from oisst_server import DAYS, REGION, calendar, hundredths, ice_hundredths

from sstcast import status
from sstcast.config import parse_box
from sstcast.reading.raw import Day, open_days
from sstcast.sources.fetch import FetchReport, fetch
from sstcast.sources.raw_store import RawStore
from sstcast.sources.source import FetchRequest

GRID = parse_box(REGION)
EARLY = calendar("1981-10-25", 20)  # across the edge of the second and third block


def get(out: Path, days: list[dt.date] = DAYS, source: str = "aws", **options) -> FetchReport:
    options = {"region": REGION, **options}
    return fetch(FetchRequest(days[0], days[-1], source, out=out / "a.zarr", **options))


def day(date: dt.date, preliminary: bool = False, origin: str = "aws", ice: bool = False) -> Day:
    optional = {"ice": np.maximum(ice_hundredths(date), 0)} if ice else {}
    return Day(hundredths(date, preliminary), origin, preliminary, optional)


def put(path: Path, days: list[dt.date], last: dt.date | None = None, ice: bool = False, **how) -> None:
    store = RawStore(path, GRID, variables=("ice",) if ice else ())
    with store.writing():
        store.put({date: day(date, ice=ice, **how) for date in days}, last or days[-1])


def tree(path: Path) -> dict[str, bytes]:
    """Return every file of a folder by its path."""
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def assert_holds(path: Path, days: list[dt.date], preliminary: tuple[dt.date, ...] = ()) -> None:
    """Exactly `days` are there, with the values they were made with, and plain xarray sees nothing else."""
    held = open_days(path)
    assert held["time"].values.astype("datetime64[D]").tolist() == days
    expected = np.stack([hundredths(date, date in preliminary) for date in days]).astype(float)
    expected[expected == -999] = np.nan
    np.testing.assert_allclose(held["sst"].values * 100, expected, atol=1e-6)
    assert int(xr.open_zarr(path, chunks=None)["sst"].notnull().any(("lat", "lon")).sum()) == len(days)
    assert status(path)[0].preliminary == list(preliminary)
