"""The raw store: downloaded days of 0.25 degree SST in one Zarr store (format 2).

    sst(time, lat, lon)   int16 hundredths of degC, chunks of BLOCK days counted from 1981-09-01
    status(time)          where each day came from; 0 is missing, even numbers are preliminary (`days.STATUS`)

The time axis covers every day from 1981-09-01 to the last day ever requested, so the index of a day never changes.
`sstcast.sources.store` writes it.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sstcast.errors import reading
from sstcast.geo import CELLS_PER_DEGREE, Box
from sstcast.ocean.days import BLOCK
from sstcast.stores import open_written

if TYPE_CHECKING:
    import xarray as xr

REMEDY = "move the store away and fetch again"


@dataclass(frozen=True)
class Held:
    """A raw store: `dataset`, opened lazily, and `status[time]`, each day's index in `words`."""

    dataset: "xr.Dataset"
    status: NDArray[np.uint8]
    words: tuple[str, ...]
    title: str
    notice: str

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
        return Held(
            dataset, status.values, tuple(status.flag_meanings.split()), about["title"], about["simulated"]
        )


def open_days(path: Path) -> "xr.Dataset":
    """Open the days that a raw store holds, lazily: `sst(time, lat, lon)` in degC and `status(time)`.

    Raises SSTCastError if the store is damaged, here or when values are computed.
    """
    held = look_into(path)
    present = np.flatnonzero(held.status)
    whole = present.size and present[-1] - present[0] + 1 == present.size
    # dask takes a slice without rechunking
    return held.dataset.isel(time=slice(int(present[0]), int(present[-1]) + 1) if whole else present)
