"""The raw store: downloaded days of 0.25 degree SST in one Zarr store (format 2).

    sst(time, lat, lon)   int16 hundredths of degC, chunks of BLOCK days counted from 1981-09-01
    status(time)          where each day came from; 0 is missing, even numbers are preliminary (`days.STATUS`)

The time axis covers every day from 1981-09-01 to the last day ever requested, so the index of a day never changes.
This module reads the store, and reports damaged files in one line before any value is used.
`sstcast.sources.store` writes it.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr
from numpy.typing import NDArray

from sstcast.errors import reading
from sstcast.geo import CELLS_PER_DEGREE, Box
from sstcast.ocean.days import BLOCK, FILL, FIRST_DAY, STATUS, Packed
from sstcast.stores import check_zarr, open_zarr

if TYPE_CHECKING:
    import xarray as xr

REMEDY = "move the store away and fetch again"
CALENDAR = 1 << 15  # days per chunk of time and status: one file lasts until 2071


@dataclass(frozen=True)
class Held:
    """The contents of a raw store except its temperatures; `status[time]` is each day's index in `words`."""

    lat: NDArray[np.float64]
    lon: NDArray[np.float64]
    status: NDArray[np.uint8]
    words: tuple[str, ...]
    title: str
    notice: str

    @property
    def box(self) -> Box:
        """The box that its cells cover, to their outer edges."""
        half = 0.5 / CELLS_PER_DEGREE
        return Box(*self.lon[[0, -1]] + (-half, half), *self.lat[[0, -1]] + (-half, half))


def is_raw_store(path: Path) -> bool:
    """Return whether `path` was made by `sstcast fetch`."""
    return (path / "status" / ".zarray").exists() and (path / "sst" / ".zarray").exists()


def look_into(path: Path) -> Held:
    """Read all of a raw store except its temperatures; raise SSTCastError if anything is damaged."""
    check_zarr(path, REMEDY)
    with reading(path, REMEDY):
        for name in (".zmetadata", "time/0", "lat/0", "lon/0", "status/0"):
            _check_file(path, name)
        group: Any = zarr.open_consolidated(path, mode="r", zarr_format=2)
        axes = {name: np.asarray(group[name][:]) for name in ("lat", "lon", "status", "time")}
        time, words = axes.pop("time"), tuple(group["status"].attrs["flag_meanings"].split())
        held = Held(**axes, words=words, title=group.attrs["title"], notice=group.attrs["simulated"])
        _check_layout(group, held)
        if not np.array_equal(time, np.arange(held.status.size)):
            raise ValueError("its time axis is not complete")
        for block in np.unique(np.flatnonzero(held.status) // BLOCK):
            _check_file(path, f"sst/{block}.0.0")
    return held


def open_days(path: Path) -> "xr.Dataset":
    """Open the days that a raw store holds, lazily: `sst(time, lat, lon)` in degC and `status(time)`.

    Raises SSTCastError if the store is damaged, here or when values are computed.
    """
    import dask.array as da
    import xarray as xr

    present = np.flatnonzero(look_into(path).status)
    with reading(path, REMEDY):
        dataset = open_zarr(path, REMEDY, chunks=None, decode_cf=False)
        days = Days(path)
        dataset["sst"] = dataset["sst"].copy(data=da.from_array(days, chunks=days.chunks))
        whole = present.size and present[-1] - present[0] + 1 == present.size
        # dask takes a slice without rechunking
        held = slice(int(present[0]), int(present[-1]) + 1) if whole else present
        return xr.decode_cf(dataset).isel(time=held)


class Days:
    """The temperatures of a raw store as an array for dask; a damaged chunk raises SSTCastError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        group: Any = zarr.open_consolidated(path, mode="r", zarr_format=2)
        self._array = group["sst"]
        self.shape, self.dtype, self.ndim = self._array.shape, self._array.dtype, 3
        self.chunks = self._array.chunks

    def __getitem__(self, key: Any) -> Packed:
        with reading(self.path, REMEDY):
            return np.asarray(self._array[key])


def layout(
    days: int, cells: tuple[int, int]
) -> dict[str, tuple[str, tuple[int, ...], tuple[int, ...], list[str]]]:
    """Return the type, shape, chunks and dimensions of each array of a store."""
    return {
        "sst": ("<i2", (days, *cells), (BLOCK, *cells), ["time", "lat", "lon"]),
        "status": ("|u1", (days,), (CALENDAR,), ["time"]),
        "time": ("<i4", (days,), (CALENDAR,), ["time"]),
        "lat": ("<f8", cells[:1], cells[:1], ["lat"]),
        "lon": ("<f8", cells[1:], cells[1:], ["lon"]),
    }


def _check_layout(group: Any, held: Held) -> None:
    expected = layout(held.status.size, (held.lat.size, held.lon.size))
    for name, (dtype, shape, chunks, dimensions) in expected.items():
        array = group[name]
        found = (array.dtype.str, array.shape, array.chunks, array.attrs["_ARRAY_DIMENSIONS"], array.order)
        if found != (dtype, shape, chunks, dimensions, "C"):
            raise ValueError(f"{name} is {found[0]} {found[1]} in chunks of {found[2]}")
        filters = [codec.get_config().get("id") for codec in array.metadata.filters or ()]
        if filters != (["shuffle"] if name == "sst" else []):
            raise ValueError(f"{name} has the filters {filters}")
    sst = group["sst"]
    if sst.fill_value != FILL or sst.attrs["scale_factor"] != 0.01 or sst.attrs.get("add_offset", 0) != 0:
        raise ValueError("sst is not in hundredths of degC")
    if group["time"].attrs["units"] != f"days since {FIRST_DAY}":
        raise ValueError("time has other units")
    for axis in (held.lat, held.lon):
        if not axis.size or not np.allclose(np.diff(axis), 0.25) or not np.isfinite(axis).all():
            raise ValueError("lat or lon is not on the 0.25 degree grid")
    if held.words[: len(STATUS)] != STATUS:
        raise ValueError("its status names are damaged")
    if held.status.size and held.status.max() >= len(held.words):
        raise ValueError(f"status holds {held.status.max()}, which stands for no source")
    if not isinstance(held.title, str) or not isinstance(held.notice, str):
        raise ValueError("its title is damaged")


def _check_file(path: Path, name: str) -> None:
    if not (path / name).is_file():
        raise ValueError(f"its file {name} is not there")
