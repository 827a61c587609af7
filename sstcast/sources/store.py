"""The raw store: days of 0.25 degree SST on disk, as fetched, in one Zarr store (format 2).

    sst(time, lat, lon)   int16 hundredths of degC, chunks of BLOCK days counted from 1981-09-01
    status(time)          where each day came from; 0 is missing, even numbers are preliminary (`days.STATUS`)

The time axis is the whole calendar from 1981-09-01 to the last day ever asked for, so a day's place never
moves. Two rules make any instant a good one to be killed at: every file is written under a temporary name
and renamed, and `status`, a single chunk, is renamed last. What it calls present is whole.
"""

import datetime as dt
import errno
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import xarray as xr
import zarr
from numcodecs import Shuffle, Zstd
from numpy.typing import NDArray

from sstcast.cf import CONVENTIONS, VARIABLES, references
from sstcast.errors import SSTCastError
from sstcast.files import alone, atomic
from sstcast.ocean.days import BLOCK, STATUS, Day, block_of
from sstcast.ocean.grid import Grid
from sstcast.ocean.oddities import AROUND, FILL, Packed, contradicted
from sstcast.ocean.raw import CALENDAR, REMEDY, Days, look_into, reading
from sstcast.sources.sources import FIRST_DAY
from sstcast.stores import first_line, open_zarr

TITLE = "NOAA Daily OISST (AVHRR), 0.25 degrees"


class RawStore:
    """A raw store to write to; nothing is made on disk before the first day is put."""

    def __init__(self, path: Path, grid: Grid) -> None:
        """Raise SSTCastError if `path` holds something else, or other cells."""
        self.path, self.grid = path, grid
        self._status: NDArray[np.uint8] = np.zeros(0, np.uint8)
        self._group: Any = None
        if path.exists():
            self._open()

    def status(self, days: Sequence[dt.date]) -> NDArray[np.uint8]:
        """Return each day's number in `days.STATUS`."""
        index = np.array([(day - FIRST_DAY).days for day in days], int)
        known = index < self._status.size
        return np.where(known, self._status[np.where(known, index, 0)] if self._status.size else 0, 0).astype(
            np.uint8
        )

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Be the only one to write, or wait for that; raise SSTCastError if nothing can be written."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.with_name(f".{self.path.name}.lock").open("a"):
                pass  # where no file can be made, waiting for a lock would not end
            with alone(self.path):
                beside = self.path.parent.glob(f".{self.path.name}.*.nc*")
                for leftover in [*self.path.rglob("*.partial"), *beside]:  # of a killed process
                    leftover.unlink()
                if self.path.exists():
                    self._open()  # the last writer may have finished only now
                yield
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
            reason = (
                "no space left on its disk; free some" if full else f"cannot write: {first_line(error)}; mend it"
            )
            raise SSTCastError(
                f"{self.path}: {reason} and run the same command again, what is there is kept"
            ) from error

    def put(self, days: Mapping[dt.date, Day], last: dt.date) -> dict[dt.date, str]:
        """Keep `days`, block by block, on a calendar that reaches at least `last`.

        Returns the days that are not kept, as most days around them contradict them, and how.
        Raises SSTCastError if simulated and observed days would mix, or the store is damaged.
        """
        if not days:
            return {}
        self._reach(last, next(iter(days.values())).notice)
        for day in days.values():
            if day.notice != self._notice:
                raise SSTCastError(
                    f"{self.path}: holds {self._notice or 'observations'}, the source gives "
                    f"{day.notice or 'observations'}; choose another --out"
                )
        fields = self._around(days) | {day: one.field for day, one in days.items()}
        odd = {day: reason for day, one in days.items() if (reason := contradicted(day, one.field, fields))}
        for block, members in groupby(sorted(set(days) - set(odd)), block_of):
            self._put_block(block * BLOCK, {(day - FIRST_DAY).days: days[day] for day in members})

        return odd

    def _around(self, days: Mapping[dt.date, Day]) -> dict[dt.date, Packed]:
        """Return the fields of the days near `days` that the store holds."""
        near = {day + dt.timedelta(i) for day in days for i in range(-AROUND, AROUND + 1)} - set(days)
        held = sorted(day for day in near if day >= FIRST_DAY and self.status([day])[0])
        fields: dict[dt.date, Packed] = {}
        for _, members in groupby(held, block_of):
            some = list(members)
            first = (some[0] - FIRST_DAY).days
            block = self._read(slice(first, (some[-1] - FIRST_DAY).days + 1))
            fields |= {day: block[(day - FIRST_DAY).days - first] for day in some}
        return fields

    def _put_block(self, start: int, days: dict[int, Day]) -> None:
        status = self._status.copy()
        span = slice(start, min(start + BLOCK, status.size))
        fields = np.full((span.stop - start, *self.grid.shape), FILL, np.int16)
        if present := np.flatnonzero(status[span]).tolist():
            fields[present] = self._read(span)[present]
        for index, day in days.items():
            fields[index - start] = day.field
            status[index] = day.status
        self._group["sst"][span] = fields
        self._group["status"][:] = status
        self._status = status

    def _read(self, span: slice) -> Packed:
        with reading(self.path):
            return np.asarray(self._group["sst"][span])

    def _reach(self, last: dt.date, notice: str) -> None:
        """Make the store if there is none; lengthen its calendar to `last`."""
        size = (last - FIRST_DAY).days + 1
        if not self.path.exists():
            with atomic(self.path) as partial:
                _create(partial, size, self.grid, notice)
            self._open()
        elif size > self._size:
            group = self._group
            for name in ("sst", "status", "time"):
                group[name].resize((size, *group[name].shape[1:]))
            group["time"][:] = np.arange(size)
            zarr.consolidate_metadata(group.store, zarr_format=2)
            self._open()

    def _open(self) -> None:
        if not is_raw_store(self.path):
            raise SSTCastError(f"{self.path}: exists and is not a store of fetched days; choose another --out")
        held = look_into(self.path)
        if not (np.array_equal(held.lat, self.grid.lat) and np.array_equal(held.lon, self.grid.lon)):
            raise SSTCastError(f"{self.path}: holds {held}, not {self.grid}; choose another --out or --region")
        self._notice, self._size = held.notice, held.status.size
        with reading(self.path):
            # Consolidated metadata is written last, so it may be behind the arrays' own after a kill.
            self._group = zarr.open_group(self.path, mode="r+", zarr_format=2, use_consolidated=False)
            self._status = np.asarray(self._group["status"][:])


def is_raw_store(path: Path) -> bool:
    """Return whether `path` was made by `sstcast fetch`."""
    return (path / "status" / ".zarray").exists() and (path / "sst" / ".zarray").exists()


def open_days(path: Path) -> xr.Dataset:
    """Open a raw store lazily, only the days it holds: `sst(time, lat, lon)` in degC and `status(time)`.

    Raises SSTCastError, also when values are computed, if the store is damaged.
    """
    present = np.flatnonzero(look_into(path).status)
    with reading(path):
        dataset = open_zarr(path, REMEDY, chunks=None, decode_cf=False)
        days = Days(path)
        dataset["sst"] = dataset["sst"].copy(data=da.from_array(days, chunks=days.chunks))
        return xr.decode_cf(dataset).isel(time=_as_slice(present))


def _as_slice(index: NDArray[np.intp]) -> slice | NDArray[np.intp]:
    """A run of days as a slice, which dask serves without regrouping chunks."""
    if index.size and index[-1] - index[0] + 1 == index.size:
        return slice(int(index[0]), int(index[-1]) + 1)
    return index


def _create(path: Path, size: int, grid: Grid, notice: str) -> None:
    group = zarr.open_group(path, mode="w", zarr_format=2)
    group.attrs.put(
        {
            "Conventions": CONVENTIONS,
            "title": notice or TITLE,
            "simulated": notice,
            **references(notice or TITLE, ""),
        }
    )
    # Zstd after byte shuffling: as small as Blosc, whose threads do not always give the same bytes.
    group.create_array(
        "sst",
        shape=(size, *grid.shape),
        chunks=(BLOCK, *grid.shape),
        dtype="<i2",
        fill_value=FILL,
        filters=[Shuffle(2)],
        compressors=Zstd(1, checksum=True),
        attributes=_SST | {"_ARRAY_DIMENSIONS": ["time", "lat", "lon"]},
    )
    axes: dict[str, tuple[str, NDArray[Any], dict[str, Any]]] = {
        "status": ("time", np.zeros(size, np.uint8), _STATUS),
        "time": ("time", np.arange(size, dtype="<i4"), _TIME),
        "lat": ("lat", grid.lat, VARIABLES["lat"]),
        "lon": ("lon", grid.lon, VARIABLES["lon"]),
    }
    for name, (dimension, values, attributes) in axes.items():
        group.create_array(
            name,
            shape=values.shape,
            chunks=(CALENDAR if dimension == "time" else values.size,),
            dtype=values.dtype,
            fill_value=None,
            filters=None,
            compressors=Zstd(1, checksum=True),
            config={"write_empty_chunks": True},  # a chunk that is not there is one that was lost
            attributes=attributes | {"_ARRAY_DIMENSIONS": [dimension]},
        )[:] = values
    zarr.consolidate_metadata(group.store, zarr_format=2)


_SST: dict[str, Any] = VARIABLES["sst"] | {"scale_factor": 0.01, "ancillary_variables": "status"}
_STATUS = {
    "long_name": "origin of the day",
    "flag_values": list(range(len(STATUS))),
    "flag_meanings": " ".join(STATUS),
    "comment": "days with status 0 hold no values",
}
_TIME = VARIABLES["time"] | {"units": f"days since {FIRST_DAY}", "calendar": "proleptic_gregorian"}
