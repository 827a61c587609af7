"""What a raw store must look like: any damage to its files is one line, before a value of it is used."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from sstcast.errors import SSTCastError
from sstcast.ocean.days import BLOCK, STATUS
from sstcast.ocean.oddities import FILL
from sstcast.sources.sources import FIRST_DAY
from sstcast.stores import check_zarr, fail

REMEDY = "move the store away and fetch again"
CALENDAR = 1 << 15  # days a chunk of time and status: till 2071 in one file


@dataclass(frozen=True)
class Held:
    """What a raw store says of itself; `status[time]` is each day's number in `days.STATUS`."""

    lat: NDArray[np.float64]
    lon: NDArray[np.float64]
    status: NDArray[np.uint8]
    title: str
    notice: str

    def __str__(self) -> str:
        return f"lat {self.lat[0]:g}..{self.lat[-1]:g}, lon {self.lon[0]:g}..{self.lon[-1]:g}"


def look_into(path: Path) -> Held:
    """Read all of a raw store but its temperatures; raise SSTCastError if anything is not as it was written."""
    check_zarr(path, REMEDY)
    with reading(path):
        for name in (".zmetadata", "time/0", "lat/0", "lon/0", "status/0"):
            _check_file(path, name)
        group: Any = zarr.open_consolidated(path, mode="r", zarr_format=2)
        axes = {name: np.asarray(group[name][:]) for name in ("time", "lat", "lon", "status")}
        held = Held(axes["lat"], axes["lon"], axes["status"], group.attrs["title"], group.attrs["simulated"])
        _check_layout(group, held)
        if not np.array_equal(axes["time"], np.arange(held.status.size)):
            raise ValueError("time is not the calendar")
        for block in np.unique(np.flatnonzero(held.status) // BLOCK):
            _check_file(path, f"sst/{block}.0.0")
    return held


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn what goes wrong on reading into the error that names the store."""
    try:
        yield
    except SSTCastError:
        raise
    except Exception as error:  # damaged chunks and metadata raise errors of every kind
        fail(path, "a store of fetched days", error, REMEDY)


class Days:
    """The temperatures of a raw store for dask: a chunk that is damaged is named as such."""

    def __init__(self, path: Path) -> None:
        """Open the store at `path`."""
        self.path = path
        group: Any = zarr.open_consolidated(path, mode="r", zarr_format=2)
        self._array = group["sst"]
        self.shape, self.dtype, self.ndim = self._array.shape, self._array.dtype, 3
        self.chunks = self._array.chunks

    def __getitem__(self, key: Any) -> NDArray[np.int16]:
        with reading(self.path):
            return np.asarray(self._array[key])


def _check_layout(group: Any, held: Held) -> None:
    cells = (held.lat.size, held.lon.size)
    layout = {
        "sst": ("<i2", (held.status.size, *cells), (BLOCK, *cells), ["time", "lat", "lon"]),
        "status": ("|u1", held.status.shape, (CALENDAR,), ["time"]),
        "time": ("<i4", held.status.shape, (CALENDAR,), ["time"]),
        "lat": ("<f8", cells[:1], cells[:1], ["lat"]),
        "lon": ("<f8", cells[1:], cells[1:], ["lon"]),
    }
    for name, (dtype, shape, chunks, dimensions) in layout.items():
        array = group[name]
        found = (array.dtype.str, array.shape, array.chunks, array.attrs["_ARRAY_DIMENSIONS"], array.order)
        if found != (dtype, shape, chunks, dimensions, "C"):
            raise ValueError(f"{name} is {found[0]} {found[1]} in chunks of {found[2]}")
        filters = [codec.get_config().get("id") for codec in array.metadata.filters or ()]
        if filters != (["shuffle"] if name == "sst" else []):
            raise ValueError(f"{name} is filtered by {filters}")
    sst = group["sst"]
    if sst.fill_value != FILL or sst.attrs["scale_factor"] != 0.01 or sst.attrs.get("add_offset", 0) != 0:
        raise ValueError("sst is not in hundredths of degC")
    if group["time"].attrs["units"] != f"days since {FIRST_DAY}":
        raise ValueError("time has other units")
    for axis in (held.lat, held.lon):
        if not axis.size or not np.allclose(np.diff(axis), 0.25) or not np.isfinite(axis).all():
            raise ValueError("lat or lon is not on the 0.25 degree grid")
    if held.status.size and held.status.max() >= len(STATUS):
        raise ValueError(f"status holds {held.status.max()}, which stands for no source")
    if not isinstance(held.title, str) or not isinstance(held.notice, str):
        raise ValueError("its title is damaged")


def _check_file(path: Path, name: str) -> None:
    if not (path / name).is_file():
        raise ValueError(f"its file {name} is not there")
