"""The raw store: downloaded days of 0.25 degree SST in one Zarr store (format 2).

    sst(time, lat, lon)   int16 hundredths of degC, chunks of BLOCK days counted from 1981-09-01
    status(time)          where each day came from; 0 is missing, even numbers are preliminary (`STATUS`)

The time axis covers every day from 1981-09-01 to the last day ever requested, so the index of a day never changes.
`sstcast.sources.store` writes it.
"""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast.errors import reading
from sstcast.geo import CELLS_PER_DEGREE, Box
from sstcast.stores import open_written

Packed = NDArray[np.int16]  # hundredths of degC

FILL = -999
FIRST_DAY = dt.date(1981, 9, 1)
BLOCK = 32  # days per chunk; the store is written one chunk at a time
REMEDY = "move the store away and fetch again"

# Names for the status of a day, in the order of their numbers. Every store begins with these, also `simulator`,
# which is no source any more; another source appends its two names to the stores that hold its days.
STATUS = (
    "missing",
    *(
        f"{name}{end}"
        for name in ("aws", "ncei", "psl", "erddap", "mirror", "sample", "simulator")
        for end in ("", "_preliminary")
    ),
)


@dataclass(frozen=True)
class Day:
    """A day to store: `field` is `[lat, lon]` in hundredths of degC."""

    field: Packed
    origin: str
    preliminary: bool


def pack(celsius: NDArray[Any]) -> Packed:
    """Round degC to hundredths; NaN becomes `FILL`."""
    return np.where(np.isnan(celsius), FILL, np.rint(celsius * 100.0)).astype(np.int16)


def block_of(day: dt.date) -> int:
    """Return the number of the block that contains `day`."""
    return (day - FIRST_DAY).days // BLOCK


def is_final(status: int) -> bool:
    """Return whether a status number stands for a final day, one that will not change."""
    return status % 2 == 1


def day_ranges(days: Mapping[dt.date, str]) -> list[tuple[dt.date, dt.date, str]]:
    """Group consecutive days with the same text into ranges (first, last, text)."""
    runs: list[tuple[dt.date, dt.date, str]] = []
    for day in sorted(days):
        if runs and (day - runs[-1][1]).days == 1 and runs[-1][2] == days[day]:
            runs[-1] = (runs[-1][0], day, days[day])
        else:
            runs.append((day, day, days[day]))
    return runs


@dataclass(frozen=True)
class Held:
    """A raw store: `dataset`, opened lazily, and `status[time]`, each day's index in `words`."""

    dataset: xr.Dataset
    status: NDArray[np.uint8]
    words: tuple[str, ...]
    title: str

    @property
    def box(self) -> Box:
        """The box that its cells cover, to their outer edges."""
        half = 0.5 / CELLS_PER_DEGREE
        lat, lon = (self.dataset[axis].values[[0, -1]] + (-half, half) for axis in ("lat", "lon"))
        return Box(*lon, *lat)


def is_raw_store(path: Path) -> bool:
    """Return whether `path` was made by `sstcast fetch`."""
    return (path / "status" / ".zarray").exists() and (path / "sst" / ".zarray").exists()


def look_into(path: Path) -> Held:
    """Open a raw store; raise SSTCastError if it is damaged, here or when temperatures are computed."""
    dataset = open_written(path, REMEDY, sparse="sst")
    with reading(path, REMEDY):
        status, about = dataset["status"].load(), dataset.attrs
        for block in np.unique(np.flatnonzero(status.values) // BLOCK):
            if not (path / "sst" / f"{block}.0.0").is_file():
                raise ValueError(f"its file sst/{block}.0.0 is not there")
        return Held(dataset, status.values, tuple(status.flag_meanings.split()), about["title"])


def open_days(path: Path) -> xr.Dataset:
    """Open the days that a raw store holds, lazily: `sst(time, lat, lon)` in degC and `status(time)`.

    Raises SSTCastError if the store is damaged, here or when values are computed.
    """
    held = look_into(path)
    present = np.flatnonzero(held.status)
    whole = present.size and present[-1] - present[0] + 1 == present.size
    # dask takes a slice without rechunking
    return held.dataset.isel(time=slice(int(present[0]), int(present[-1]) + 1) if whole else present)
