"""Fetch from a test server, and see that what landed is right."""

import datetime as dt
from pathlib import Path

import numpy as np
import xarray as xr
from oisst_server import DAYS, REGION, hundredths

from sstcast.ocean.raw import open_days
from sstcast.sources.fetch import FetchReport, fetch
from sstcast.sources.source import FetchRequest, RetryPolicy
from sstcast.sources.status import status


def get(out: Path, days: list[dt.date] = DAYS, source: str = "aws", **options) -> FetchReport:
    options = {"retry": RetryPolicy(attempts=3, backoff=0.01), "region": REGION, **options}
    return fetch(FetchRequest(days[0], days[-1], source, out=out / "a.zarr", **options), say=str)


def assert_right(out: Path, days: list[dt.date], preliminary: tuple[dt.date, ...] = ()) -> None:
    """The store holds `days` and nothing else, each with the values it was served with."""
    held = open_days(out / "a.zarr")
    assert held["time"].values.astype("datetime64[D]").tolist() == days
    expected = np.stack([hundredths(day, day in preliminary) for day in days]).astype(float)
    expected[expected == -999] = np.nan
    np.testing.assert_allclose(held["sst"].values * 100, expected, atol=1e-6)
    assert int(xr.open_zarr(out / "a.zarr", chunks=None)["sst"].notnull().any(("lat", "lon")).sum()) == len(days)
    assert status(out)[0].preliminary == list(preliminary)
