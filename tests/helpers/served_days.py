"""Days in a store, and a server of NOAA's files of those that follow."""

import datetime as dt
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import NamedTemporaryFile

import h5py
import numpy as np
import pytest
from oisst_server import OisstServer, daily_path

from perf.simulated import Simulator, write_day
from sstcast.config import parse_box
from sstcast.reading.raw import Day
from sstcast.sources.noaa import Aws, Ncei
from sstcast.sources.raw_store import RawStore

REGION = "170,173,-12,-10"
FIRST, LAST = dt.date(2003, 1, 1), dt.date(2003, 3, 10)
DAY = dt.timedelta(days=1)
SIMULATOR = Simulator(3)
ROWS, COLS = slice(308, 324), slice(676, 696)  # of the global grid, around the region


@cache
def hundredths(first: dt.date) -> np.ndarray:
    """Return the temperatures from `first` to LAST in hundredths of a degree, `[time, lat, lon]`."""
    box, days = parse_box(REGION), [first + n * DAY for n in range((LAST - first).days + 1)]
    return np.round(SIMULATOR.field(days, box.lat, box.lon) * 100).astype(np.int16)


def put(
    path: Path,
    first: dt.date,
    preliminary: int = 2,
    origin: str = "aws",
    warmer: int = 0,
    without: Collection[dt.date] = (),
) -> Path:
    """Put the days from `first` to LAST into a store, by hundredths `warmer`; the last ones are preliminary."""
    store = RawStore(path, parse_box(REGION))
    days = [first + n * DAY for n in range((LAST - first).days + 1)]
    fields = hundredths(first) + np.int16(warmer)
    with store.writing():
        dressed = {day: field for day, field in zip(days, fields, strict=True) if day not in without}
        store.put(
            {day: Day(field, origin, day > LAST - preliminary * DAY) for day, field in dressed.items()}, LAST
        )
    return path


def publish(server: OisstServer, day: dt.date, preliminary: bool) -> None:
    """Add a day's file to those of a server."""
    with NamedTemporaryFile() as temporary:
        write_day(Path(temporary.name), day, SIMULATOR, preliminary, (ROWS, COLS))
        with h5py.File(temporary.name, "r+") as file:  # as if it were observed: those that are not are never mixed
            file.attrs["title"] = "a test"
        server.files[daily_path(day, preliminary)] = Path(temporary.name).read_bytes()


@contextmanager
def serving(monkeypatch: pytest.MonkeyPatch) -> Iterator[OisstServer]:
    """A server that stands for AWS and NCEI: ten days from LAST - 1 on, the last three of them preliminary."""
    with OisstServer() as server:
        for n in range(-1, 9):
            publish(server, LAST + n * DAY, n >= 6)
        for source in (Aws, Ncei):
            monkeypatch.setattr(source, "base", server.url)
        yield server
