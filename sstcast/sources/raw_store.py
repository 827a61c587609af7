"""Writes raw stores. `sstcast.reading.raw` describes the layout.

A store stays valid if the process is killed at any moment. Every file is written under a temporary name and then
renamed, and `status`, a single chunk, is renamed last. So every day that is present in `status` has its values.
"""

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numcodecs import Shuffle, Zstd
from numpy.typing import NDArray

from sstcast.errors import SSTCastError, in_short, reading
from sstcast.geo import Box
from sstcast.reading.by_day import Field
from sstcast.reading.plausible import jump
from sstcast.reading.raw import (
    CHUNK_DAYS,
    FILL,
    FIRST_DAY,
    REMEDY,
    STATUS,
    Day,
    Packed,
    block_of,
    is_raw_store,
    open_raw_store,
)
from sstcast.sources.source import Source
from sstcast.storage.artefacts import atomic, locked, space_for
from sstcast.storage.cf import CONVENTIONS, VARIABLES, references
from sstcast.storage.stores import check_codecs, consolidate

CALENDAR = 1 << 15  # days per chunk of time and status
COMPARED_DAYS = 3  # days before and after a day to compare it with


class RawStore:
    """A raw store for writing. Nothing is created on disk before the first call of `put`."""

    def __init__(self, path: Path, box: Box, title: str = Source.title, variables: tuple[str, ...] = ()) -> None:
        """Open the store if it exists. Otherwise, it will have the `variables` besides `sst`.

        Raises SSTCastError if `path` is not a raw store or has other cells.
        """
        self.path, self.box, self._title, self.variables = path, box, title, variables
        self._status: NDArray[np.uint8] = np.zeros(0, np.uint8)
        self._group: Any = None
        self._words: tuple[str, ...] = STATUS
        if path.exists():
            self._open()

    def status(self, days: Sequence[dt.date]) -> NDArray[np.uint8]:
        """Return the status number of each day."""
        index = np.array([(day - FIRST_DAY).days for day in days], int)
        statuses = np.append(self._status, np.uint8(0))
        return statuses[np.minimum(index, self._status.size)]

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Lock the store, waiting if necessary. Raises SSTCastError if it cannot be written."""
        try:
            with locked(self.path), space_for(self.path):
                partial_downloads = self.path.parent.glob(f".{self.path.name}.*.nc*")
                for leftover in [*self.path.rglob("*.partial"), *partial_downloads]:  # from a killed process
                    leftover.unlink()
                if self.path.exists():
                    self._open()  # another writer may have changed it while waiting
                yield
        except OSError as error:
            raise SSTCastError(
                f"{self.path}: cannot write: {in_short(error)}; fix this and re-run the command, which keeps the "
                "days already fetched"
            ) from error

    def put(self, days: Mapping[dt.date, Day], last: dt.date) -> dict[dt.date, str]:
        """Write `days` block by block, after extending the time axis to `last` if necessary.

        Each has all variables of the store. Returns the days rejected because they differ too much from most of
        the days around them, with reasons.
        Raises SSTCastError if the store is damaged.
        """
        if not days:
            return {}
        self._reach(last)
        packed = self._around(days) | {day: new_day.field for day, new_day in days.items()}
        fields = {day: np.where(field == FILL, np.nan, field / np.float32(100)) for day, field in packed.items()}
        rejections = {day: reason for day in days if (reason := _contradicted(day, fields))}
        for block, members in groupby(sorted(set(days) - set(rejections)), block_of):
            self._put_block(block * CHUNK_DAYS, {(day - FIRST_DAY).days: days[day] for day in members})
        return rejections

    def _around(self, days: Mapping[dt.date, Day]) -> dict[dt.date, Packed]:
        """Read the stored fields of the days near `days`."""
        nearby_days = {
            day + dt.timedelta(i) for day in days for i in range(-COMPARED_DAYS, COMPARED_DAYS + 1)
        } - set(days)
        stored_days = sorted(day for day in nearby_days if day >= FIRST_DAY and self.status([day])[0])
        fields: dict[dt.date, Packed] = {}
        for _, members in groupby(stored_days, block_of):
            block_days = list(members)
            first = (block_days[0] - FIRST_DAY).days
            block = self._read("sst", slice(first, (block_days[-1] - FIRST_DAY).days + 1))
            fields |= {day: block[(day - FIRST_DAY).days - first] for day in block_days}
        return fields

    def _put_block(self, start: int, days: dict[int, Day]) -> None:
        status = self._status.copy()
        span = slice(start, min(start + CHUNK_DAYS, status.size))
        is_stored = status[span] > 0
        for name in ("sst", *self.variables):
            fields = np.full((is_stored.size, *self.box.shape), FILL, np.int16)
            if is_stored.any():
                fields[is_stored] = self._read(name, span)[is_stored]
            for index, day in days.items():
                fields[index - start] = day.field if name == "sst" else day.optional[name]
            self._group[name][span] = fields
        for index, day in days.items():
            status[index] = self._number(day)
        self._group["status"][:] = status
        self._status = status

    def _number(self, day: Day) -> int:
        """Return the status number of a day. Adds its source's names to the store if they are new."""
        word = "+".join((day.origin, *self.variables))
        if word not in self._words:
            self._words += (word, f"{word}_preliminary")
            self._group["status"].attrs.update(_flags(self._words))
            consolidate(self.path)
        return self._words.index(word) + day.preliminary

    def _read(self, name: str, span: slice) -> Packed:
        with reading(self.path, REMEDY):
            return np.asarray(self._group[name][span])

    def _reach(self, last: dt.date) -> None:
        """Create the store if necessary, and extend its time axis to `last`."""
        size = (last - FIRST_DAY).days + 1
        if not self.path.exists():
            with atomic(self.path) as partial:
                _create(partial, size, self.box, self._title, self.variables)
            self._open()
        elif size > self._size:
            group = self._group
            for name in ("sst", *self.variables, "status", "time"):
                group[name].resize((size, *group[name].shape[1:]))
            group["time"][:] = np.arange(size)
            consolidate(self.path)
            self._open()

    def _open(self) -> None:
        if not is_raw_store(self.path):
            raise SSTCastError(f"{self.path}: exists and is not a store made by fetch; choose another --out")
        contents = open_raw_store(self.path)
        if not (all(np.array_equal(contents.dataset[axis], getattr(self.box, axis)) for axis in ("lat", "lon"))):
            raise SSTCastError(
                f"{self.path}: holds region {contents.box}, not {self.box}; choose another --out or --region"
            )
        self._size, self._words, self.variables = contents.status.size, contents.words, contents.variables
        with reading(self.path, REMEDY):
            # Consolidated metadata are written last, so after a kill they may be outdated.
            self._group = zarr.open_group(self.path, mode="r+", zarr_format=2, use_consolidated=False)
            names = ("sst", *self.variables, "status", "time", "lat", "lon")
            check_codecs((name, self._group[name]) for name in names)
            self._status = np.asarray(self._group["status"][:])


def _contradicted(day: dt.date, fields: Mapping[dt.date, Field]) -> str:
    """Return why a day is implausible compared with most of the days around it, or "" if it is plausible."""
    nearby_days = [
        day + dt.timedelta(i)
        for i in range(-COMPARED_DAYS, COMPARED_DAYS + 1)
        if i and day + dt.timedelta(i) in fields
    ]
    jumps = {
        other_day: jump(fields[day], fields[other_day], abs((other_day - day).days)) for other_day in nearby_days
    }
    if 2 * sum(change > 0 for change in jumps.values()) <= len(nearby_days):
        return ""
    worst = max(nearby_days, key=jumps.__getitem__)
    return f"differs by {jumps[worst]:.1f} degC on average from {worst}, which is not plausible"


def _create(path: Path, size: int, box: Box, title: str, variables: tuple[str, ...]) -> None:
    group = zarr.open_group(path, mode="w", zarr_format=2)
    group.attrs.put({"Conventions": CONVENTIONS, "title": title, **references(title, "")})
    # An axis is one chunk until 2071. A missing chunk is an error on an axis, but means no days in sst.
    axes: dict[str, tuple[NDArray[Any], int, str, dict[str, Any]]] = {
        "status": (np.zeros(size, np.uint8), CALENDAR, "time", _flags(STATUS)),
        "time": (np.arange(size, dtype=np.int32), CALENDAR, "time", _TIME),
        "lat": (box.lat, box.lat.size, "lat", VARIABLES["lat"]),
        "lon": (box.lon, box.lon.size, "lon", VARIABLES["lon"]),
    }
    for name, (values, chunk, dimension, attributes) in axes.items():
        group.create_array(
            name,
            shape=values.shape,
            dtype=values.dtype,
            chunks=(chunk,),
            fill_value=None,
            compressors=_ZSTD,
            config={"write_empty_chunks": True},
            attributes=attributes | {"_ARRAY_DIMENSIONS": [dimension]},
        )[:] = values
    for name in ("sst", *variables):
        group.create_array(
            name,
            shape=(size, *box.shape),
            dtype=np.int16,
            chunks=(CHUNK_DAYS, *box.shape),
            fill_value=FILL,
            filters=[Shuffle(2)],
            compressors=_ZSTD,
            attributes=_FIELDS[name] | {"_ARRAY_DIMENSIONS": ["time", "lat", "lon"]},
        )
    consolidate(path)


def _flags(words: tuple[str, ...]) -> dict[str, Any]:
    return {
        "long_name": "origin of the day",
        "flag_values": list(range(len(words))),
        "flag_meanings": " ".join(words),
        "comment": "days with status 0 hold no values",
    }


_FIELDS: dict[str, dict[str, Any]] = {
    "sst": VARIABLES["sst"] | {"scale_factor": 0.01, "ancillary_variables": "status"},
    "ice": {
        "standard_name": "sea_ice_area_fraction",
        "long_name": "sea ice concentration",
        "units": "1",
        "scale_factor": 0.01,
        "comment": "0 where sst has a value and the source's ice is missing",
    },
    "err": {
        "standard_name": "sea_surface_temperature standard_error",
        "long_name": "estimated error standard deviation of sst",
        "units": "degree_Celsius",
        "units_metadata": "temperature: difference",
        "scale_factor": 0.01,
    },
}
_TIME = VARIABLES["time"] | {"units": f"days since {FIRST_DAY}", "calendar": "proleptic_gregorian"}
# Zstd with byte shuffling compresses as well as Blosc, whose threads make the bytes irreproducible.
_ZSTD = Zstd(1, checksum=True)
